"""
Checkpoints as records: what is in one, and reading it again.

A checkpoint says for each channel that has a value where that is: in itself if
it is short, else in a record of its own, under the checkpoint that brought it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from conversation_state.adapters.langgraph._conversations import Conversations
from conversation_state.adapters.langgraph._keys import (
    checkpoint_key,
    pack,
    unpack,
    value_key,
    writes_of,
)
from conversation_state.adapters.langgraph._threads import Thread
from conversation_state.adapters.langgraph._values import Typed, load
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store._records import Record

__all__ = [
    "AGGREGATOR",
    "BYTES",
    "HERE",
    "LEDGER",
    "MESSAGES",
    "SNAPSHOT",
    "THERE",
    "Stored",
    "Sources",
    "Write",
    "config_of",
]

# Where a value is: in the checkpoint, or in the record of another one.
HERE = b"="
THERE = b"@"

# What a record of a value is: bytes, or messages that it holds on to, as a
# list, as LangGraph's snapshot of one, or as a state of ours.
BYTES = b"b"
MESSAGES = b"m"
SNAPSHOT = b"s"
AGGREGATOR = b"a"
# After the key of a state of ours: the record that holds its ledger.
LEDGER = b"l"


class Stored(NamedTuple):
    """
    A checkpoint as it is kept.

    Attributes:
        namespace: Of which graph of its thread.

        id: Its id.

        parent: The id of the one it came from; "" if there is none.

        skeleton: The checkpoint without its values.

        metadata: Its metadata.

        channels: Where the value of each channel is.
    """

    namespace: str
    id: str
    parent: str
    skeleton: Typed
    metadata: Typed
    channels: dict[str, bytes]

    def packed(self) -> bytes:
        """
        All of it.
        """
        channels = [
            part for name, at in self.channels.items() for part in (_b(name), at)
        ]
        said = [_b(text) for text in self[:3]]
        return pack(*said, *map(Typed.packed, self[3:5]), *channels)

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """
        What `packed` gave.
        """
        namespace, id, parent, skeleton, metadata, *channels = unpack(packed)
        names = [_s(name) for name in channels[::2]]
        return cls(
            *(_s(namespace), _s(id), _s(parent)),
            *(Typed.unpacked(skeleton), Typed.unpacked(metadata)),
            dict(zip(names, channels[1::2], strict=True)),
        )

    def source(self, channel: str) -> str | None:
        """
        The id of the checkpoint that brought a channel's value; None if that is
        in this one.
        """
        at = self.channels[channel]
        return _s(at[1:]) or self.id if at[:1] == THERE else None


class Write(NamedTuple):
    """
    A write as it is kept.
    """

    path: str
    task: str
    place: int
    channel: str
    value: Typed

    def packed(self) -> bytes:
        """
        All of it.
        """
        place = b"%d" % self.place
        said = _b(self.path), _b(self.task), place, _b(self.channel)
        return pack(*said, self.value.packed())

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """
        What `packed` gave.
        """
        path, task, place, channel, value = unpack(packed)
        said = _s(path), _s(task), int(place), _s(channel)
        return cls(*said, Typed.unpacked(value))


def _b(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _s(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def config_of(thread: str, namespace: str, id: str) -> RunnableConfig:
    """
    The config that names a checkpoint.
    """
    named = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}
    return {"configurable": named}


class Sources:
    """
    Checkpoints of a thread, read from its records.
    """

    def __init__(
        self, thread: Thread, serde: SerializerProtocol, known: Conversations
    ) -> None:
        self.thread = thread
        self._serde = serde
        self._known = known

    def stored(self, key: bytes) -> Stored | None:
        """
        The checkpoint under a key; None if there is none.
        """
        record = self.thread.get(key)
        return None if record is None else Stored.unpacked(record.value)

    def record(self, namespace: str, channel: str, source: str) -> Record:
        """
        The record of a value.

        Raises:
            StoreError:
                If it is missing.
        """
        record = self.thread.get(value_key(namespace, channel, source))
        if record is None:
            what = f"the value of {channel!r} in checkpoint {source} is missing"
            raise StoreError("langgraph", f"{what}; run verify()")

        return record

    def value(self, stored: Stored, channel: str) -> Any:
        """
        The value of a channel.
        """
        source = stored.source(channel)
        if source is None:
            return load(self._serde, Typed.unpacked(stored.channels[channel][1:]))

        record = self.record(stored.namespace, channel, source)
        what, rest = record.value[:1], record.value[1:]
        if what == BYTES or record.hold is None:
            return load(self._serde, Typed.unpacked(rest))

        rows = self.thread.rows
        if what == AGGREGATOR:
            key = value_key(stored.namespace, channel, source) + LEDGER
            paid = self.thread.get(key)
            if paid is None or paid.hold is None:
                what_is = f"the ledger of {channel!r} in checkpoint {source} is missing"
                raise StoreError("langgraph", f"{what_is}; run verify()")

            id, parent, root, told, spent = unpack(rest)
            return Aggregator.rebuild_from_logs(
                id=UUID(bytes=id),
                parent_id=UUID(bytes=parent) if parent else None,
                root_id=UUID(bytes=root),
                init_len=int(told),
                init_ledger_len=int(spent),
                entries=rows.entries(record.hold),
                ledger=rows.ledger(paid.hold),
            )

        messages = self._known.held(rows, record.hold).messages()
        return _DeltaSnapshot(messages) if what == SNAPSHOT else messages

    def metadata(self, stored: Stored) -> Any:
        """
        The metadata of a checkpoint.
        """
        return load(self._serde, stored.metadata)

    def writes(self, stored: Stored) -> list[Write]:
        """
        The writes after a checkpoint, in the order in which they are applied.
        """
        records = self.thread.records(writes_of(stored.namespace, stored.id))
        writes = [Write.unpacked(record.value) for record in records]
        return sorted(writes, key=lambda w: writes_sort_key(w.path, w.task, w.place))

    def pending(self, write: Write) -> PendingWrite:
        """
        A write as LangGraph knows it.
        """
        return write.task, write.channel, load(self._serde, write.value)

    def history(
        self, stored: Stored, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """
        What was written into channels before a checkpoint since their value was
        kept the last time, and that value.
        """
        found: dict[str, DeltaChannelHistory] = {
            name: {"writes": []} for name in channels
        }
        left = {*channels}
        at: Stored | None = stored
        while left and at is not None and at.parent:
            at = self.stored(checkpoint_key(at.namespace, at.parent))
            if at is None:
                break

            for write in reversed(self.writes(at)):
                if write.channel in left:
                    found[write.channel]["writes"].append(self.pending(write))

            for name in left & {*at.channels}:
                found[name]["seed"] = self.value(at, name)
                left.discard(name)

        for each in found.values():
            each["writes"].reverse()

        return found

    def tuple(
        self, stored: Stored, config: RunnableConfig | None = None
    ) -> CheckpointTuple:
        """
        A checkpoint as LangGraph knows it.
        """
        thread, namespace = self.thread.id, stored.namespace
        parent = None
        if stored.parent:
            parent = config_of(thread, namespace, stored.parent)

        values = {channel: self.value(stored, channel) for channel in stored.channels}
        checkpoint: Checkpoint = load(self._serde, stored.skeleton)
        checkpoint["channel_values"] = values
        return CheckpointTuple(
            config or config_of(thread, namespace, stored.id),
            checkpoint,
            self.metadata(stored),
            parent,
            [self.pending(write) for write in self.writes(stored)],
        )
