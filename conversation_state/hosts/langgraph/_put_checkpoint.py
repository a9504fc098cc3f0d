"""
Putting a checkpoint: its new values are written in one transaction, and never
over a checkpoint that the run did not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleThreadError
from conversation_state.hosts._host import bill_entries, keep_ledger
from conversation_state.hosts.langgraph._checkpoints import (
    AGGREGATOR,
    BYTES,
    IN_RECORD,
    INLINE,
    LEDGER,
    MESSAGES,
    SNAPSHOT,
    CheckpointReader,
    StoredCheckpoint,
    StoredWrite,
)
from conversation_state.hosts.langgraph._conversations import (
    Conversation,
    ConversationCache,
    KnownMessage,
    is_message_list,
)
from conversation_state.hosts.langgraph._threads import (
    WritableThread,
    checkpoint_key,
    checkpoints_of,
    encode_text,
    name_of,
    pack,
    task_key,
    value_key,
)
from conversation_state.hosts.langgraph._values import dump_value
from conversation_state.store.records import Writer

# The separator between the namespaces of a graph and of its subgraph.
NS_SEP = "|"
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

                # The messages are stored as bytes, so the conversation under the name
                # would be outdated.
                name = name_of(self.thread.id, channel, self.stored.namespace)
                if self.rows.latest(name) is not None:
                    self.rows.delete(name)

        packed = dump_value(self.serde, value).packed()
        if len(packed) <= _MAX_INLINE:
            return INLINE + packed

        self.thread.put(key, BYTES + packed)
        return IN_RECORD

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
