"""
Checkpoints as records: their format, reading them, and putting one: its new values are
written in one transaction, and never over a checkpoint that the run did not see.

A checkpoint has the location of each channel's value: the checkpoint itself if
the value is short, the messages that its record holds, or else a record under the
checkpoint that set it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleThreadError, StoreError
from conversation_state.hosts._host import (
    bill_entries,
    decode_text,
    encode_text,
    keep_ledger,
    replace_entries,
)
from conversation_state.hosts.langgraph._conversations import (
    Conversation,
    ConversationCache,
    KnownMessage,
    is_message_list,
    shares_messages,
    update_readable,
)
from conversation_state.hosts.langgraph._threads import (
    Thread,
    WritableThread,
    checkpoint_key,
    checkpoints_of,
    name_of,
    pack,
    task_key,
    unpack,
    value_key,
    writes_of,
)
from conversation_state.hosts.langgraph._values import (
    TypedBytes,
    dump_value,
    load_value,
)
from conversation_state.store.records import LogEnd, Record, Writer

# The separator between the namespaces of a graph and of its subgraph.
NS_SEP = "|"
# The key in LangGraph's metadata of the channels whose value LangGraph rebuilds from
# the writes since it was last stored.
DELTAS = "counters_since_delta_snapshot"
# A value of at most so many bytes is stored in the checkpoint itself.
_MAX_INLINE = 48


class NewCheckpoint(NamedTuple):
    """
    A checkpoint to put, serialised as far as that is possible before the transaction.
    """

    thread: str
    # The checkpoint without channels, and the values and versions of all channels.
    stored: StoredCheckpoint
    values: Mapping[str, Any]
    versions: Mapping[str, Any]
    # The channels that changed since its parent.
    new: frozenset[str]
    # Whether no other checkpoint may follow its parent.
    follows_parent: bool
    # Whether messages are kept as shared structure.
    shares_messages: bool


class CheckpointWriter:
    """
    Writes one checkpoint, whose record holds the first list of messages among the
    values of its channels.
    """

    def __init__(
        self,
        rows: Writer,
        given: NewCheckpoint,
        serde: SerializerProtocol,
        known: ConversationCache,
    ) -> None:
        self.rows = rows
        self.given = given
        self.serde = serde
        self.known = known
        self.thread = WritableThread(rows, given.thread)
        self.reader = CheckpointReader(self.thread, serde, known)
        self.stored = given.stored
        self.before: StoredCheckpoint | None = None

    # Raises a StaleThreadError if another one was put since the parent was read.
    def write(self, store: str) -> None:
        stored, given, thread = self.stored, self.given, self.thread
        namespace, key = stored.namespace, checkpoint_key(stored.namespace, stored.id)
        last = thread.last(checkpoints_of(namespace))
        newest = None if last is None else StoredCheckpoint.of(last[1])
        actual = "" if newest is None else newest.id
        if given.follows_parent and actual not in {stored.id, stored.parent}:
            raise StaleThreadError(
                store, thread.id, namespace, stored.parent or None, actual or None
            )

        # In most cases the parent is the newest one, which was read above.
        if newest is not None and newest.id == stored.parent:
            self.before = newest
        elif stored.parent:
            self.before = self.reader.stored(checkpoint_key(namespace, stored.parent))

        # Ids grow and keys sort as ids do, so a key behind the last one is free.
        is_new = last is None or last[0] < key
        if not is_new and self.before is not None:
            self._check_parent(self.before)

        channels = {} if self.before is None else self._unchanged_channels(self.before)
        for channel, value in given.values.items():
            if channel not in channels:
                channels[channel] = self._write_channel(channel, value)

        stored = self.stored._replace(channels=channels)
        write = thread.add if is_new else thread.put
        write(key, stored.packed(), stored.hold)
        # A run that continues the newest checkpoint has written what is new above.
        if newest is not None and newest is not self.before:
            self._mirror_newest(max(stored, newest, key=lambda each: each.id), newest)

    def _check_parent(self, before: StoredCheckpoint) -> None:
        """
        Refuse to put a checkpoint again under its own descendant, *before*: LangGraph
        follows parents to the first checkpoint, and would not end.
        """
        id = self.stored.id
        known = self.reader.stored(checkpoint_key(self.stored.namespace, id))
        if known is None or known.parent == before.id:
            return

        if before.id == id or any(
            each.id == id for each in self.reader.ancestors(before)
        ):
            raise ValueError(
                f"checkpoint {id!r} is a parent of {before.id!r}; it can't be put "
                "again below it"
            )

    def _unchanged_channels(self, before: StoredCheckpoint) -> dict[str, bytes]:
        """
        The locations of the values that are those of the parent, *before*.

        A channel may have a version and no value, because LangGraph's delta channels
        store their value only now and then. A channel may also have another value than
        in the parent, and no new version: LangGraph puts a copy of a checkpoint under
        the parent of the original. So its version is compared with that in the parent.
        """
        given, versions = self.given, self.reader.versions(before)
        found = {}
        for channel, at in before.channels.items():
            is_present = channel in given.values or channel in given.versions
            is_same = given.versions.get(channel) == versions.get(channel)
            if is_present and is_same and channel not in given.new:
                found[channel] = at + encode_text(before.id) if at == IN_RECORD else at
                if before.is_held(channel):
                    self.stored = self.stored._replace(hold=before.hold)

        return found

    def _write_channel(self, channel: str, value: Any) -> bytes:
        key = value_key(self.stored.namespace, channel, self.stored.id)
        if self.given.shares_messages:
            if isinstance(value, Aggregator):
                return self._write_state(key, channel, value)

            inner = value.value if type(value) is _DeltaSnapshot else value
            kind = MESSAGES if inner is value else SNAPSHOT
            if is_message_list(inner) or (
                inner == [] and self._previous_conversation(channel) is not None
            ):
                at = self._write_messages(key, kind, channel, inner)
                if at is not None:
                    return at

                self._save_readable(channel, inner)

        packed = dump_value(self.serde, value).packed()
        if len(packed) <= _MAX_INLINE:
            return INLINE + packed

        self.thread.put(key, BYTES + packed)
        return IN_RECORD

    def _mirror_newest(
        self, newest: StoredCheckpoint, previous: StoredCheckpoint
    ) -> None:
        """
        Save the conversations of the *newest* checkpoint under their names, which have
        those of the *previous* one.
        """
        channels = [
            channel
            for each in (previous, newest)
            for channel in (*each.channels, *self.reader.deltas(each))
        ]
        for channel in dict.fromkeys(channels):
            name = name_of(self.thread.id, channel, newest.namespace)
            before = self.rows.recall(name)
            state = self.reader.state(newest, channel, before)
            if state is not None:
                self.rows.save(name, state)
            elif before is not None:
                self.rows.delete(name)

    def _previous_conversation(self, channel: str) -> Conversation | None:
        before = self.before
        if before is None or channel not in before.channels:
            return None

        hold = self.reader.hold(before, channel)
        return None if hold is None else self.known.load_hold(self.rows, hold)

    def _write_messages(
        self, key: bytes, kind: bytes, channel: str, messages: Sequence[Any]
    ) -> bytes | None:
        name = name_of(self.thread.id, channel, self.stored.namespace)
        state = self.rows.recall(name) or self._enclosing_state(channel)
        before = self._previous_conversation(channel)
        others: Mapping[str, KnownMessage] = {}
        if state is not None:
            if before is None:
                before = self.known.from_entries(self.rows, state.entries)
            elif before.entries.common_prefix(state.entries) < len(state.entries):
                # The state under the name has messages that the parent has not: the
                # thread went back, or is a copy. They are found by their ids, so that
                # they keep their identities.
                newest = self.known.from_entries(self.rows, state.entries)
                others = newest.recent_by_id()

        before = before or Conversation()
        conversation = before.update_to(messages, others, self.serde)
        if conversation is None:
            return None

        billed = bill_entries(state or Aggregator.new(), conversation.entries)
        hold = self.rows.save(name, billed).entries
        self.known.remember(self.rows, hold, conversation)
        if self.stored.hold is None:
            self.stored = self.stored._replace(hold=hold)
            return kind

        self.thread.put(key, kind, hold)
        return IN_RECORD

    def _save_readable(self, channel: str, messages: Sequence[Any]) -> None:
        # The conversation under the name would be outdated, so it is replaced, too.
        name = name_of(self.thread.id, channel, self.stored.namespace)
        before = self.rows.recall(name)
        state = before or self._enclosing_state(channel) or Aggregator.new()
        readable = update_readable(state, messages)
        if readable is not None:
            self.rows.save(name, readable)
        elif before is not None:
            self.rows.delete(name)

    def _enclosing_state(self, channel: str) -> Aggregator | None:
        """
        A fork of the conversation in the enclosing graph, from which a subgraph
        most likely got its messages.
        """
        namespace = self.stored.namespace
        while namespace:
            namespace = namespace.rpartition(NS_SEP)[0]
            outer = self.rows.recall(name_of(self.thread.id, channel, namespace))
            if outer is not None:
                return outer.fork()

        return None

    def _write_state(self, key: bytes, channel: str, value: Aggregator) -> bytes:
        name = name_of(self.thread.id, channel, self.stored.namespace)
        before = self.rows.recall(name)
        entries, ledger = self.rows.save(name, value)
        # The checkpoint refers to *value* as it is. The state under the name also has
        # the ledger entries of *before*, because going back to an earlier state does
        # not undo the cost of later messages.
        merged = keep_ledger(value, before)
        if merged is not value:
            self.rows.save(name, merged)

        parent = value.parent_id
        origin = pack(
            value.id.bytes,
            b"" if parent is None else parent.bytes,
            value.root_id.bytes,
            b"%d" % value.init_len,
            b"%d" % value.init_ledger_len,
        )
        self.thread.put(key, AGGREGATOR + origin, entries)
        self.thread.put(key + LEDGER, b"", ledger)
        return IN_RECORD


def put_writes(
    thread: WritableThread,
    namespace: str,
    id: str,
    task: str,
    writes: Sequence[StoredWrite],
) -> None:
    """
    Save the *writes* of a *task* after a checkpoint. Its earlier writes stay, except
    for errors, interrupts and resume values, which are replaced.
    """
    if not writes:
        return

    key = task_key(namespace, id, task)
    record = thread.get(key)
    earlier = () if record is None else StoredWrite.unpack_all(record.value)
    by_position = {write.position: write for write in earlier}
    # LangGraph gives errors, interrupts and resume values positions below 0; its own
    # checkpointers replace these alone, too.
    for write in writes:
        if write.position < 0 or write.position not in by_position:
            by_position[write.position] = write

    packed = pack(*map(StoredWrite.packed, by_position.values()))
    if record is None:
        thread.add(key, packed)
    else:
        thread.put(key, packed)


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

    def __eq__(self, other: object) -> bool:
        # As a plain text, so that subclasses of str, too, decide what they equal.
        return str(self) == other

    __hash__ = str.__hash__

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
            StoreError: If it is missing.
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
        """The messages of a channel that holds a list of them, or a state; or None."""
        if stored.is_held(channel):
            return stored.hold

        source = stored.source(channel)
        if source is None:
            return None

        return self.record(stored.namespace, channel, source).hold

    def state(
        self, stored: StoredCheckpoint, channel: str, before: Aggregator | None
    ) -> Aggregator | None:
        """
        What is saved under the name of a channel's conversation, which had the state
        *before*: its messages in *stored*, or the last ones that LangGraph stored of a
        delta channel; and all of the ledger. None if the value is something else.
        """
        holder = stored
        if channel in self.deltas(stored):
            line = chain([stored], self.ancestors(stored))
            holder = next((each for each in line if channel in each.channels), stored)

        value = self.value(holder, channel) if channel in holder.channels else []
        if isinstance(value, Aggregator):
            return keep_ledger(value, before)

        hold = self.hold(holder, channel) if value else None
        if hold is not None:
            entries = self.thread.rows.entries(hold)
            return bill_entries(before or Aggregator.new(), entries)

        if value == [] and before is not None:
            return replace_entries(before, Log())

        inner = value.value if type(value) is _DeltaSnapshot else value
        if is_message_list(inner) and shares_messages(self._serde):
            return update_readable(before or Aggregator.new(), inner)

        return None

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

    # The delta channels that were written since they were last stored.
    def deltas(self, stored: StoredCheckpoint) -> Mapping[str, Any]:
        return self.metadata(stored).get(DELTAS) or {}

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
