"""
Lists of messages as logs of entries, which share what they have in common.

Callers can change messages that they hold, so stored ones are compared by
content, and returned as new objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state._identity import new_entry_id
from conversation_state._persistent import Log
from conversation_state.adapters._host import bill_entries
from conversation_state.adapters.langgraph._snapshots import (
    MessageSnapshot,
    SnapshotColumns,
    convert_message,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.store.records import Hold, Reader

__all__ = [
    "Conversation",
    "ConversationCache",
    "drop_oldest",
    "is_message_list",
    "next_state",
]

# How many of a thread's newest messages are remembered by their ids.
_RECENT = 16
# How many conversations have their `SnapshotColumns` remembered.
_COLUMNS = 16

K = TypeVar("K")
V = TypeVar("V")


def is_message_list(value: object) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(issubclass(kind, BaseMessage) for kind in {*map(type, value)})
    )


def _lookup_key(fields: Mapping[str, Any]) -> tuple[Any, Any]:
    """
    A key that is the same for equal messages, from the *fields* of one.
    """
    content = fields["content"]
    # Messages have no ids if the graph's reducer is not LangGraph's own. With the id
    # alone as the key, each of them would be compared with all others.
    return fields["id"], content if type(content) is str else None


_NO_COLUMNS = SnapshotColumns(Log(), [], [], [])

KnownMessage: TypeAlias = tuple[Entry, MessageSnapshot]
_UNKNOWN = None, None


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
        return [snapshot.new_message() for snapshot in self.snapshots]

    def recent_by_id(
        self, known: Mapping[str, KnownMessage] = MappingProxyType({})
    ) -> dict[str, KnownMessage]:
        """
        The newest messages, by the ids of LangChain's messages; those after the
        newest one that is *known*.
        """
        start = end = len(self.entries)
        while start > 0 and end - start < _RECENT:
            newest = self.snapshots[start - 1]
            if known.get(newest.id or "", _UNKNOWN)[1] is newest:
                break

            start -= 1

        last = [(each[1].id, each) for each in self._iterate_pairs(start)]
        return {id: each for id, each in last if id}

    def _iterate_pairs(self, start: int) -> Iterator[KnownMessage]:
        return zip(
            self.entries.iterate(start), self.snapshots.iterate(start), strict=True
        )

    def update_to(
        self,
        messages: Sequence[BaseMessage],
        others: Mapping[str, KnownMessage],
        serde: SerializerProtocol,
        columns: SnapshotColumns = _NO_COLUMNS,
    ) -> Self | None:
        """
        The conversation of *messages*, which shares its beginning with this one,
        and reuses the identities of messages that are unchanged here or among
        *others*, by their ids; None if a message can't be converted.

        Compares every message; converts the new ones. *columns* are of a
        conversation that may share its beginning with this one.
        """
        common = columns.move_to(self.snapshots).count_matching(messages)
        entries = self.entries.take(common)
        snapshots = self.snapshots.take(common)
        left: dict[Any, list[KnownMessage]] = defaultdict(list)
        for known in self._iterate_pairs(common):
            known[1].make_fields()
            left[_lookup_key(known[1].fields)].append(known)

        for message in messages[common:]:
            candidates = left[_lookup_key(vars(message))]
            same = next((one for one in candidates if one[1].matches(message)), None)
            if same is not None:
                candidates.remove(same)
            else:
                same = others.get(message.id or "")
                if same is None or not same[1].matches(message) or same[0] in entries:
                    converted = convert_message(message, serde)
                    if converted is None:
                        return None

                    same = Entry(new_entry_id(), converted[0]), converted[1]

            entries, snapshots = entries.append(same[0]), snapshots.append(same[1])

        return type(self)(entries, snapshots)


class ConversationCache:
    """
    The conversations read or written last, so that the next ones share with
    them.

    Keyed by the digest of their messages. Emptied when anything was erased
    from the store since, so that erased messages are never returned.
    """

    def __init__(self, max_size: int = 64) -> None:
        self._max_size = max_size
        self._memory = _CacheContents(0)

    def load_hold(self, rows: Reader, hold: Hold) -> Conversation:
        known = self._read_memory(rows).known
        found = known.get(hold.digest)
        if found is None:
            found = _extend_nearest(list(known.values()), rows.entries(hold))

            self.remember(rows, hold, found)

        return found

    def from_entries(self, rows: Reader, entries: Log[Entry]) -> Conversation:
        known = self._read_memory(rows).known
        return _extend_nearest(list(known.values()), entries)

    def remember(
        self,
        rows: Reader,
        hold: Hold,
        conversation: Conversation,
        thread: str | None = None,
    ) -> None:
        """
        Remember the *conversation* that a record refers to; and, by their ids, the
        newest messages of the *thread* that wrote it.
        """
        memory = self._read_memory(rows)
        if rows.seen != memory.seen:
            return

        # The key is the digest of the messages, so the entry is right even if the
        # transaction that wrote them fails.
        limit = self._max_size
        remember_newest(memory.known, hold.digest, conversation, limit)
        if thread is not None:
            before = memory.recent.get(thread, {})
            by_id = {**before, **conversation.recent_by_id(before)}
            for id in list(by_id)[:-_RECENT]:
                del by_id[id]

            remember_newest(memory.recent, thread, by_id, limit)

    def columns(self, rows: Reader, name: str) -> SnapshotColumns:
        return self._read_memory(rows).columns.get(name, _NO_COLUMNS)

    def remember_columns(
        self, rows: Reader, name: str, columns: SnapshotColumns
    ) -> None:
        memory = self._read_memory(rows)
        if rows.seen == memory.seen:
            remember_newest(memory.columns, name, columns, _COLUMNS)

    def recent_messages(self, rows: Reader, thread: str) -> Mapping[str, KnownMessage]:
        """
        The newest messages of a thread, by their ids, of all its graphs: a
        subgraph returns messages that it was given with its own.
        """
        return self._read_memory(rows).recent.get(thread, {})

    def _read_memory(self, rows: Reader) -> _CacheContents:
        memory = self._memory
        # A transaction with a lower count began before the last change. It may read
        # the newer contents, but `remember` adds nothing for it.
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

    new = [MessageSnapshot(message) for _, message in entries.iterate(common)]
    return Conversation(entries, nearest.snapshots.take(common).extend(new))


class _CacheContents:
    """
    The contents of the cache, as of one count of changes to the store.

    Thread-safe without a lock, which an interrupt could leave held: each step
    changes one dict or attribute. A thread that adds after the count has changed
    adds to contents that are no longer used.
    """

    __slots__ = ("columns", "known", "recent", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.known: dict[bytes, Conversation] = {}
        self.recent: dict[str, dict[str, KnownMessage]] = {}
        self.columns: dict[str, SnapshotColumns] = {}


def remember_newest(items: dict[K, V], key: K, value: V, most: int) -> None:
    items.pop(key, None)
    items[key] = value
    drop_oldest(items, most)


def drop_oldest(items: dict[K, V], most: int) -> None:
    if len(items) > most:
        # The keys are copied, because other threads may change *items* meanwhile.
        for oldest in list(items)[:-most]:
            items.pop(oldest, None)


def next_state(before: Aggregator | None, entries: Log[Entry]) -> Aggregator:
    """
    The state after *before* that has these *entries*: with the ledger of
    *before*, and the usage of the responses that are new.
    """
    return bill_entries(Aggregator.new() if before is None else before, entries)
