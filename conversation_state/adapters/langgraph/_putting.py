"""
Putting a checkpoint: what is new in it is written, at one moment, and nobody
is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from conversation_state.adapters.langgraph._conversations import (
    Conversation,
    Conversations,
    are_messages,
    state_of,
)
from conversation_state.adapters.langgraph._keys import (
    checkpoint_key,
    checkpoints_of,
    name_of,
    pack,
    value_key,
    write_key,
)
from conversation_state.adapters.langgraph._stored import (
    AGGREGATOR,
    BYTES,
    HERE,
    LEDGER,
    MESSAGES,
    SNAPSHOT,
    THERE,
    Sources,
    Stored,
    Write,
)
from conversation_state.adapters.langgraph._threads import OwnThread
from conversation_state.adapters.langgraph._values import dump
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleThreadError
from conversation_state.store._records import Writer

__all__ = ["Given", "put", "put_writes"]

# Between the namespaces of a graph and of one inside of it.
NS_SEP = "|"
# A value that takes no more than this is not worth a record of its own.
_SHORT = 48


class Given(NamedTuple):
    """
    A checkpoint as it was given, and all of it that can be written beforehand.

    Attributes:
        thread: Its thread.

        stored: It, without any channels.

        values: What its channels hold.

        new: The channels that changed since its parent.

        is_next: Whether it has to be the next one after its parent.

        is_shared: Whether messages are kept as shared structure.
    """

    thread: str
    stored: Stored
    values: Mapping[str, Any]
    new: frozenset[str]
    is_next: bool
    is_shared: bool


def put(
    rows: Writer,
    given: Given,
    serde: SerializerProtocol,
    known: Conversations,
    store: str,
) -> None:
    """
    Write a checkpoint.

    Raises:
        StaleThreadError:
            If somebody else has put one since its parent was read.
    """
    thread = OwnThread(rows, given.thread)
    stored = given.stored
    if given.is_next:
        _check_newest(thread, stored, store)

    sources = Sources(thread, serde, known)
    before = None
    if stored.parent:
        before = sources.stored(checkpoint_key(stored.namespace, stored.parent))

    desk = _Desk(rows, thread, sources, serde, known, stored, before)
    channels = {}
    for channel, value in given.values.items():
        at = None
        if channel not in given.new and before is not None:
            at = before.channels.get(channel)
            if at == THERE:
                at += before.id.encode("utf-8", "surrogatepass")

        if at is None:
            at = desk.written(channel, value, is_shared=given.is_shared)

        channels[channel] = at

    key = checkpoint_key(stored.namespace, stored.id)
    thread.put(key, stored._replace(channels=channels).packed())


def _check_newest(thread: OwnThread, stored: Stored, store: str) -> None:
    newest = thread.keys(checkpoints_of(stored.namespace), limit=1)
    if not newest and not stored.parent:
        return

    own = checkpoint_key(stored.namespace, stored.id)
    parent = checkpoint_key(stored.namespace, stored.parent)
    if newest and newest[0] in {own, parent}:
        return

    actual = None
    if newest and (record := thread.get(newest[0])) is not None:
        actual = Stored.unpacked(record.value).id

    raise StaleThreadError(
        store, thread.id, stored.namespace, stored.parent or None, actual
    )


class _Desk(NamedTuple):
    """
    What is needed to write values of a checkpoint.
    """

    rows: Writer
    thread: OwnThread
    sources: Sources
    serde: SerializerProtocol
    known: Conversations
    stored: Stored
    before: Stored | None

    def written(self, channel: str, value: Any, *, is_shared: bool) -> bytes:
        """
        Where the value of a channel is, which is written then.
        """
        key = value_key(self.stored.namespace, channel, self.stored.id)
        if is_shared:
            if isinstance(value, Aggregator):
                return self._aggregator(key, channel, value)

            inner = value.value if type(value) is _DeltaSnapshot else value
            kind = MESSAGES if inner is value else SNAPSHOT
            if are_messages(inner) or (inner == [] and self._had_messages(channel)):
                at = self._messages(key, kind, channel, inner)
                if at is not None:
                    return at

                # Rather no conversation under its name than an old one.
                name = name_of(self.thread.id, channel, self.stored.namespace)
                if self.rows.head(name) is not None:
                    self.rows.delete(name)

        packed = dump(self.serde, value).packed()
        if len(packed) <= _SHORT:
            return HERE + packed

        self.thread.put(key, BYTES + packed)
        return THERE

    def _had_messages(self, channel: str) -> bool:
        return self._held(channel) is not None

    def _held(self, channel: str) -> Conversation | None:
        before = self.before
        if before is None or channel not in before.channels:
            return None

        source = before.source(channel)
        if source is None:
            return None

        record = self.sources.record(before.namespace, channel, source)
        if record.hold is None or record.value[:1] not in {MESSAGES, SNAPSHOT}:
            return None

        return self.known.held(self.rows, record.hold)

    def _messages(
        self, key: bytes, kind: bytes, channel: str, messages: Sequence[Any]
    ) -> bytes | None:
        name = name_of(self.thread.id, channel, self.stored.namespace)
        state = self.rows.state(name) or self._outer(channel)
        before = self._held(channel)
        if before is None and state is not None:
            before = self.known.of(self.rows, state.entries)

        told = self.known.told(self.rows, self.thread.id)
        talk = (before or Conversation()).become(messages, told, self.serde)
        if talk is None:
            return None

        hold = self.rows.save(name, state_of(state, talk.entries)).entries
        self.known.remember(self.rows, hold, talk)
        self.known.tell(self.rows, self.thread.id, talk)
        self.thread.put(key, kind, hold)
        return THERE

    def _outer(self, channel: str) -> Aggregator | None:
        """
        A fork of the conversation that a graph inside of another was given,
        most likely.
        """
        namespace = self.stored.namespace
        while namespace:
            namespace = namespace.rpartition(NS_SEP)[0]
            outer = self.rows.state(name_of(self.thread.id, channel, namespace))
            if outer is not None:
                return outer.fork()

        return None

    def _aggregator(self, key: bytes, channel: str, value: Aggregator) -> bytes:
        name = name_of(self.thread.id, channel, self.stored.namespace)
        told, paid = self.rows.save(name, value)
        parent = value.parent_id
        origin = pack(
            value.id.bytes,
            b"" if parent is None else parent.bytes,
            value.root_id.bytes,
            b"%d" % value.init_len,
            b"%d" % value.init_ledger_len,
        )
        self.thread.put(key, AGGREGATOR + origin, told)
        self.thread.put(key + LEDGER, b"", paid)
        return THERE


def put_writes(
    thread: OwnThread, namespace: str, id: str, writes: Sequence[Write]
) -> None:
    """
    Write what a task wrote after a checkpoint; what it had written before
    stays, but for errors, interrupts and answers to them.
    """
    for write in writes:
        key = write_key(namespace, id, write.task, write.place)
        if write.place < 0 or thread.get(key) is None:
            thread.put(key, write.packed())
