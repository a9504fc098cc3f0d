"""
Lists of messages as logs of entries, which share what they have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state._persistent import Log
from conversation_state.adapters._host import bill_entries
from conversation_state.adapters._langchain import dump_message
from conversation_state.adapters.langgraph._snapshots import (
    MessageSnapshot,
    convert_message,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.store.records import Hold, Reader

__all__ = ["Conversation", "ConversationCache", "is_message_list", "next_state"]

# How many of a thread's newest messages are remembered by their ids.
_RECENT = 16

KnownMessage: TypeAlias = tuple[Entry, MessageSnapshot]

K = TypeVar("K")
V = TypeVar("V")


def is_message_list(value: object) -> bool:
    """
    Whether *value* is a non-empty list of LangChain's messages.
    """
    return (
        type(value) is list
        and bool(value)
        and all(isinstance(item, BaseMessage) for item in value)
    )


class Conversation(NamedTuple):
    """
    A list of messages.

    Attributes:
        entries: The messages as ours, with their identities.

        snapshots: The messages as LangChain's, one for each entry.
    """

    entries: Log[Entry] = Log()
    snapshots: Log[MessageSnapshot] = Log()

    def messages(self) -> list[BaseMessage]:
        """
        The messages as new objects. O(n).
        """
        return [snapshot.new_message() for snapshot in self.snapshots]

    def recent_by_id(self) -> dict[str, KnownMessage]:
        """
        The newest messages, by the ids of LangChain's messages.
        """
        start = max(0, len(self.entries) - _RECENT)
        last = zip(self.entries[start:], self.snapshots[start:], strict=True)
        return {t.id: (e, t) for e, t in last if t.id}

    def update_to(
        self,
        messages: Sequence[BaseMessage],
        others: Mapping[str, KnownMessage],
        serde: SerializerProtocol,
    ) -> Self | None:
        """
        The conversation of *messages*, which shares its beginning with this one,
        and reuses the identities of messages that are unchanged here or among
        *others*, by their ids; None if a message can't be converted.

        Compares every message; converts the new ones.
        """
        common = 0
        for snapshot, message in zip(self.snapshots, messages, strict=False):
            if not snapshot.matches(message):
                break

            common += 1

        entries = self.entries.take(common)
        snapshots = self.snapshots.take(common)
        left = _group_by_id(self.entries[common:], self.snapshots[common:])
        for message in messages[common:]:
            same = next(
                (one for one in left[message.id] if one[1].matches(message)), None
            )
            if same is not None:
                left[message.id].remove(same)
            else:
                same = others.get(message.id or "")
                if same is None or not same[1].matches(message) or same[0] in entries:
                    converted = convert_message(message, serde)
                    if converted is None:
                        return None

                    # A state gives the entry its identity.
                    (entry,) = Aggregator.new(messages=[converted[0]]).entries
                    same = entry, converted[1]

            entries, snapshots = entries.append(same[0]), snapshots.append(same[1])

        return type(self)(entries, snapshots)


def _group_by_id(
    entries: Log[Entry], snapshots: Log[MessageSnapshot]
) -> dict[Any, list[KnownMessage]]:
    found: dict[Any, list[KnownMessage]] = defaultdict(list)
    for entry, snapshot in zip(entries, snapshots, strict=True):
        found[snapshot.id].append((entry, snapshot))

    return found


class ConversationCache:
    """
    The conversations read or written last, so that the next ones share with
    them.

    Keyed by the digest of their messages. Emptied when anything was erased
    from the store since, so that erased messages are never returned.
    """

    def __init__(self, max_size: int = 64) -> None:
        self._max_size = max_size
        self._memory = _CacheContents()

    def load_hold(self, rows: Reader, hold: Hold) -> Conversation:
        """
        The conversation that a record refers to.
        """
        known = self._read_memory(rows).known
        found = known.get(hold.digest)
        if found is None:
            found = _extend_nearest(known.values(), rows.entries(hold))

        self.remember(rows, hold, found)
        return found

    def from_entries(self, rows: Reader, entries: Log[Entry]) -> Conversation:
        """
        The conversation of *entries*.
        """
        return _extend_nearest(self._read_memory(rows).known.values(), entries)

    def remember(self, rows: Reader, hold: Hold, conversation: Conversation) -> None:
        """
        Remember the *conversation* that a record refers to.
        """
        memory = self._read_memory(rows)
        if rows.seen == memory.seen:
            known = _with_newest(
                memory.known, hold.digest, conversation, self._max_size
            )
            self._memory = memory._replace(known=known)

    def recent_messages(self, rows: Reader, thread: str) -> Mapping[str, KnownMessage]:
        """
        The newest messages of a thread, by their ids, of all its graphs: a
        subgraph returns messages that it was given beside its own.
        """
        return self._read_memory(rows).recent.get(thread, {})

    def remember_recent(
        self, rows: Reader, thread: str, conversation: Conversation
    ) -> None:
        """
        Remember the newest messages of a *thread*.
        """
        memory = self._memory
        if rows.seen == memory.seen:
            recent = {**memory.recent.get(thread, {}), **conversation.recent_by_id()}
            while len(recent) > _RECENT:
                del recent[next(iter(recent))]

            threads = _with_newest(memory.recent, thread, recent, self._max_size)
            self._memory = memory._replace(recent=threads)

    def _read_memory(self, rows: Reader) -> _CacheContents:
        memory = self._memory
        if rows.seen > memory.seen:
            self._memory = memory = _CacheContents(rows.seen)

        return memory


def _extend_nearest(
    others: Iterable[Conversation], entries: Log[Entry]
) -> Conversation:
    """
    The conversation of *entries*, with the snapshots of the one among *others*
    that shares the longest beginning with it.
    """
    nearest, common = Conversation(), 0
    for other in others:
        shares = entries.common_prefix(other.entries)
        if shares > common:
            nearest, common = other, shares

    new = [MessageSnapshot(dump_message(m)) for _, m in entries.iterate(common)]
    return Conversation(entries, nearest.snapshots.take(common).extend(new))


class _CacheContents(NamedTuple):
    """
    The contents of the cache, as of one count of changes to the store.

    Never changed, but replaced: so it needs no lock, which an interrupt could
    leave held. What another thread adds at the same moment may be lost.
    """

    seen: int = 0
    known: Mapping[bytes, Conversation] = MappingProxyType({})
    recent: Mapping[str, Mapping[str, KnownMessage]] = MappingProxyType({})


def _with_newest(items: Mapping[K, V], key: K, value: V, most: int) -> dict[K, V]:
    """
    *items* with *key* as the newest one, at most *most* of them.
    """
    with_newest = {each: items[each] for each in items if each != key}
    with_newest[key] = value
    for oldest in list(with_newest)[: max(len(with_newest) - most, 0)]:
        del with_newest[oldest]

    return with_newest


def next_state(before: Aggregator | None, entries: Log[Entry]) -> Aggregator:
    """
    The state after *before* that has these *entries*: with the ledger of
    *before*, and the usage of the responses that are new.
    """
    return bill_entries(Aggregator.new() if before is None else before, entries)
