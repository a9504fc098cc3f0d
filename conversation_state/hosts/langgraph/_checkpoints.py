"""
Checkpoints as records: their format, and reading them.

A checkpoint has the location of each channel's value: the checkpoint itself if
the value is short, the messages that its record holds, or else a record under the
checkpoint that set it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.hosts.langgraph._conversations import ConversationCache
from conversation_state.hosts.langgraph._threads import (
    Thread,
    checkpoint_key,
    checkpoints_of,
    decode_text,
    encode_text,
    pack,
    unpack,
    value_key,
    writes_of,
)
from conversation_state.hosts.langgraph._values import TypedBytes, load_value
from conversation_state.store.records import LogEnd, Record

# The location of a value: in the checkpoint itself, or in a record of its own. It is
# MESSAGES or SNAPSHOT if the value is the messages that the checkpoint's record holds.
INLINE = b"="
IN_RECORD = b"@"

# The kind of a value: serialised bytes; or what the messages that its record holds
# are: a list, LangGraph's snapshot of a list, or a state of ours.
BYTES = b"b"
MESSAGES = b"m"
SNAPSHOT = b"s"
AGGREGATOR = b"a"
# A second record of a state of ours, which refers to its ledger, has the state's key
# and this suffix.
LEDGER = b"l"


class StoredCheckpoint(NamedTuple):
    # The namespace of its graph or subgraph in the thread.
    namespace: str
    id: str
    # The id of its parent; "" for the first one.
    parent: str
    # The checkpoint without its values.
    skeleton: TypedBytes
    metadata: TypedBytes
    # The location of the value of each channel.
    channels: dict[str, bytes]
    # The messages that its record holds, which are the value of one of its channels.
    hold: LogEnd | None = None

    def packed(self) -> bytes:
        channels = [
            part
            for name, at in self.channels.items()
            for part in (encode_text(name), at)
        ]
        texts = [encode_text(text) for text in self[:3]]
        return pack(*texts, *map(TypedBytes.packed, self[3:5]), *channels)

    @classmethod
    def of(cls, record: Record) -> Self:
        namespace, id, parent, skeleton, metadata, *channels = unpack(record.value)
        names = [decode_text(name) for name in channels[::2]]
        return cls(
            *(decode_text(namespace), decode_text(id), decode_text(parent)),
            *(TypedBytes.unpacked(skeleton), TypedBytes.unpacked(metadata)),
            dict(zip(names, channels[1::2], strict=True)),
            record.hold,
        )

    # Whether the value of a channel is the messages that the checkpoint's record holds.
    def is_held(self, channel: str) -> bool:
        return self.channels[channel][:1] in {MESSAGES, SNAPSHOT}

    def source(self, channel: str) -> str | None:
        """
        The id of the checkpoint whose record has a channel's value; None if the
        value is in this checkpoint itself.
        """
        at = self.channels[channel]
        return decode_text(at[1:]) or self.id if at[:1] == IN_RECORD else None


class StoredWrite(NamedTuple):
    path: str
    task: str
    position: int
    channel: str
    value: TypedBytes

    def packed(self) -> bytes:
        return pack(
            encode_text(self.path),
            encode_text(self.task),
            b"%d" % self.position,
            encode_text(self.channel),
            self.value.packed(),
        )

    @classmethod
    def unpack_all(cls, packed: bytes) -> list[Self]:
        return [
            cls(
                *(decode_text(path), decode_text(task), int(position)),
                *(decode_text(channel), TypedBytes.unpacked(value)),
            )
            for path, task, position, channel, value in map(unpack, unpack(packed))
        ]


class ThreadId(str):
    """
    A thread's id in the config of a checkpoint that was looked up.

    LangGraph carries it along to the checkpoints that a run puts, and it is
    equal to the plain id, so that configs compare as LangGraph's own do.

    Attributes:
        newest_in: The namespace whose newest checkpoint was looked up; None
            where a checkpoint was looked up by its id.
    """

    __slots__ = ("newest_in",)

    newest_in: str | None

    def __new__(cls, id: str, newest_in: str | None) -> Self:
        made = super().__new__(cls, id)
        made.newest_in = newest_in
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # `newest_in` is valid only during the run, so a pickled id is a plain one.
        return str, (str(self),)


def config_of(thread: str, namespace: str, id: str) -> RunnableConfig:
    values = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}
    return {"configurable": values}


class CheckpointReader:
    def __init__(
        self, thread: Thread, serde: SerializerProtocol, known: ConversationCache
    ) -> None:
        self.thread = thread
        self._serde = serde
        self._known = known

    def stored(self, key: bytes) -> StoredCheckpoint | None:
        record = self.thread.get(key)
        return None if record is None else StoredCheckpoint.of(record)

    # A checkpoint by its id, or the newest one of a namespace; or None.
    def find(self, namespace: str, id: str | None) -> StoredCheckpoint | None:
        if id is not None:
            return self.stored(checkpoint_key(namespace, id))

        newest = self.thread.last(checkpoints_of(namespace))
        return None if newest is None else StoredCheckpoint.of(newest[1])

    def record(self, namespace: str, channel: str, source: str) -> Record:
        """
        The record of a value.

        Raises:
            StoreError:
                If it is missing.
        """
        record = self.thread.get(value_key(namespace, channel, source))
        if record is None:
            raise _missing_record(f"value of {channel!r} in checkpoint {source}")

        return record

    def value(self, stored: StoredCheckpoint, channel: str) -> Any:
        at = stored.channels[channel]
        kind, rest, hold = at[:1], at[1:], stored.hold
        source = stored.source(channel)
        if source is not None:
            record = self.record(stored.namespace, channel, source)
            kind, rest, hold = record.value[:1], record.value[1:], record.hold
            if kind == AGGREGATOR and hold is not None:
                key = value_key(stored.namespace, channel, source) + LEDGER
                return self._read_state(hold, self.thread.get(key), rest)

        if kind in {INLINE, BYTES} or hold is None:
            return load_value(self._serde, TypedBytes.unpacked(rest))

        messages = self._known.load_hold(self.thread.rows, hold).messages()
        return _DeltaSnapshot(messages) if kind == SNAPSHOT else messages

    def _read_state(
        self, entries: LogEnd, ledger: Record | None, origin: bytes
    ) -> Aggregator:
        if ledger is None or ledger.hold is None:
            raise _missing_record("ledger of a state")

        id, parent, root, init_len, init_ledger_len = unpack(origin)
        rows = self.thread.rows
        return Aggregator.rebuild(
            id=UUID(bytes=id),
            parent_id=UUID(bytes=parent) if parent else None,
            root_id=UUID(bytes=root),
            init_len=int(init_len),
            init_ledger_len=int(init_ledger_len),
            entries=rows.entries(entries),
            ledger=rows.ledger(ledger.hold),
        )

    def hold(self, stored: StoredCheckpoint, channel: str) -> LogEnd | None:
        """
        The messages of a channel whose value is a list of messages or a state; None
        if it is another value.
        """
        if stored.is_held(channel):
            return stored.hold

        source = stored.source(channel)
        if source is None:
            return None

        return self.record(stored.namespace, channel, source).hold

    def metadata(self, stored: StoredCheckpoint) -> Any:
        return load_value(self._serde, stored.metadata)

    def writes(self, stored: StoredCheckpoint) -> list[StoredWrite]:
        records = self.thread.records(writes_of(stored.namespace, stored.id))
        writes = chain.from_iterable(
            [StoredWrite.unpack_all(record.value) for record in records]
        )
        return sorted(writes, key=lambda w: writes_sort_key(w.path, w.task, w.position))

    def pending(self, write: StoredWrite) -> PendingWrite:
        return write.task, write.channel, load_value(self._serde, write.value)

    def versions(self, stored: StoredCheckpoint) -> Mapping[str, Any]:
        skeleton: Checkpoint = load_value(self._serde, stored.skeleton)
        return skeleton.get("channel_versions") or {}

    def ancestors(self, stored: StoredCheckpoint) -> Iterator[StoredCheckpoint]:
        """
        The parent of *stored*, its parent, and so on: none comes twice, since a
        checkpoint can't be put again below itself.
        """
        while stored.parent:
            parent = self.stored(checkpoint_key(stored.namespace, stored.parent))
            if parent is None:
                return

            yield parent
            stored = parent

    def tuple(
        self, stored: StoredCheckpoint, config: RunnableConfig | None = None
    ) -> CheckpointTuple:
        thread, namespace = self.thread.id, stored.namespace
        parent = None
        if stored.parent:
            parent = config_of(thread, namespace, stored.parent)

        values = {channel: self.value(stored, channel) for channel in stored.channels}
        checkpoint: Checkpoint = load_value(self._serde, stored.skeleton)
        checkpoint["channel_values"] = values
        return CheckpointTuple(
            config or config_of(thread, namespace, stored.id),
            checkpoint,
            self.metadata(stored),
            parent,
            [self.pending(write) for write in self.writes(stored)],
        )


def _missing_record(what: str) -> StoreError:
    return StoreError("langgraph", f"the {what} is missing; run verify()")
