"""
Entries: messages and recorded usages, each with its identity; the ordered union of
entries by identity, which is what joining is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

from conversation_state._persistent import Log, View, final
from conversation_state._wording import (
    add_missing_names,
    describe_value,
    refuse_operators,
)
from conversation_state.aggregator._names import ITEM_OPERATORS, LIST_NAMES
from conversation_state.messages import Message, id_of_key
from conversation_state.pickling import Maker
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime


@final
class Entry(NamedTuple):
    """
    One appended message, and the identity of *that* append.

    Attributes:
        id: Opaque text, unique in the world; appending one message twice
            makes two.
        message: What was appended.
    """

    id: str
    message: Message


@final
class LedgerEntry(NamedTuple):
    """
    One recorded usage, and its identity.

    Two entries are equal if all five attributes are. Two that differ only in
    `at` or `caveat` record one usage twice, as a retry does, and are not a
    conflict: the one that is in a ledger stays.

    Attributes:
        id: Opaque text: the key it was added with, or one unique in the world.
        usage: The tokens.
        model: The model that was used; "" if it is unknown.
        at: When they were used, as an aware time: that of the response's
            message, or when it was recorded; None if it is unknown.
        caveat: Why the tokens don't say what it cost: ``interrupted``, if there
            were more of them; why they have no standard price, such as
            ``service_tier 'flex'``; or both, as ``interrupted, speed 'fast'``; ""
            if they do.
    """

    id: str
    usage: Usage
    model: str
    at: datetime | None = None
    caveat: str = ""


def current_time() -> datetime:
    import datetime as dt  # noqa: PLC0415 - slow, and not every state has a ledger

    return dt.datetime.now(dt.UTC)


# Getters in C, because joining and comparing read the identities of thousands. The
# identity comes first in both kinds of entries.
id_of = itemgetter(0)
message_of = itemgetter(1)


class Messages(View[Message]):
    """
    The messages of a state: an immutable view, O(1) to get.

    Index O(log n), slices are views too. Equal to any view, tuple or list of
    equal messages; O(1) to see for two views of one state.
    """

    __slots__ = ("_entries",)

    _entries: Log[Entry]

    def __init__(self, entries: Log[Entry]) -> None:
        self._entries = entries

    @property
    def entries(self) -> Log[Entry]:
        """The entries: these messages with the identity of each append."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Messages) and self._entries is other._entries:
            return True

        return super().__eq__(other)

    # Python removes the hash of a class that defines its own equality.
    __hash__ = View.__hash__

    @overload
    def __getitem__(self, at: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Messages: ...
    def __getitem__(self, at: Any) -> Message | Messages:
        if isinstance(at, slice):
            return Messages(self._entries[at])

        entry: Entry = self._entries[at]
        return entry.message

    def __iter__(self) -> Iterator[Message]:
        return map(message_of, self._entries)

    def __reversed__(self) -> Iterator[Message]:
        return map(message_of, reversed(self._entries))

    def __reduce__(self) -> tuple[Any, ...]:
        return _MESSAGES, (self._entries,)


add_missing_names(Messages, "the messages of a state are a view, with", LIST_NAMES)
refuse_operators(Messages, ITEM_OPERATORS)
add_missing_names(
    Entry,
    "an Entry has",
    {
        name: f"entry.message.{name} is that of its message"
        for name in ("content", "metadata", "parts", "role", "text", "tool_calls")
    },
)
_MESSAGES = Maker("aggregator.Messages", Messages)


@final
class Ledger(NamedTuple):
    """The recorded usage, in order, and its total."""

    entries: Log[LedgerEntry]
    total: Usage

    @classmethod
    def of(cls, entries: Log[LedgerEntry]) -> Ledger:
        # The ledger of *entries*, a log that other ledgers may share. O(entries since
        # one that was summed here).
        if not len(entries):
            return EMPTY_LEDGER

        return cls(entries, entries.fold(_add_usage_of, NOTHING, key=_add_usage_of))

    def with_entries(self, entries: Sequence[LedgerEntry]) -> Ledger:
        total = sum([entry.usage for entry in entries], self.total)
        return Ledger(self.entries.extend(entries), total)

    def by_id(self) -> Index:
        # Its entries by identity, see `find_in_index`. O(log n), and O(n) the first
        # time for a ledger that was decoded.
        return self.entries.fold_runs(
            _add_to_index, _NO_INDEX, key=_add_to_index, every=_INDEXED_BLOCKS
        )

    def of_response(self, response_id: str) -> list[LedgerEntry]:
        # The entries whose key has the provider's id of a response. As `by_id`.
        indexes = self.entries.fold_runs(
            _add_to_ids, _NO_IDS, key=_add_to_ids, every=_INDEXED_BLOCKS
        )
        return [each for _, ids in indexes for each in ids.get(response_id, ())]

    def find(self, key: str) -> LedgerEntry | None:
        # The entry with the identity *key*, or None. O(log n).
        return find_in_index(self.by_id(), key)


def _add_usage_of(total: Usage, entry: LedgerEntry) -> Usage:
    return total + entry.usage


# One map of a thousand entries is made in less time than 32 that are merged.
_INDEXED_BLOCKS = 32

Index = tuple[dict[str, LedgerEntry], ...]
_NO_INDEX: Index = ()


def find_in_index(index: Index, key: str) -> LedgerEntry | None:
    for entries in index:
        if (found := entries.get(key)) is not None:
            return found

    return None


def _add_to_index(index: Index, entries: Iterable[LedgerEntry]) -> Index:
    # Maps of entries by identity, larger ones first and each smaller than the one
    # before, like the digits of a counter: an entry costs O(log n) on average, and the
    # log remembers them (`Log.fold`). They are shared between versions, so none is ever
    # changed.
    found = [*entries]
    newest = dict(zip(map(id_of, found), found, strict=True))
    while index and len(index[-1]) <= len(newest):
        newest = {**index[-1], **newest}
        index = index[:-1]

    return (*index, newest)


_Ids = tuple[tuple[int, dict[str, tuple[LedgerEntry, ...]]], ...]
_NO_IDS: _Ids = ()


def _add_to_ids(index: _Ids, entries: Iterable[LedgerEntry]) -> _Ids:
    # As `_add_to_index`, by the response's id in the key: each map with how many
    # entries it is of, because some servers give all responses one id.
    size = 0
    found: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        size += 1
        if response_id := id_of_key(entry.id):
            found.setdefault(response_id, []).append(entry)

    newest = {each: tuple(some) for each, some in found.items()}
    while index and index[-1][0] <= size:
        count, older = index[-1]
        size += count
        newest = {
            **older,
            **{each: older.get(each, ()) + some for each, some in newest.items()},
        }
        index = index[:-1]

    return (*index, (size, newest))


NOTHING = Usage()
EMPTY_LEDGER = Ledger(Log(), NOTHING)
EMPTY_LOG: Log[Entry] = Log()


_IDS = object()


class Union:
    """
    The ordered union of logs by identity, while it is being made.

    Grows the log it starts with. Another log takes its place only where that
    one shares the same structure and has more, so a copy that was decoded or
    unpickled never becomes a second past next to the one that is kept.

    Identities are collected from the end of the log backwards, only as far
    back as the logs diverge, and once for all that join: a thousand siblings
    cost what they added, not its square. So do a thousand versions of one sibling,
    because what a log shares with the one before is here already. `finish` leaves
    them with the log, so it is the same if they join one after another.
    """

    __slots__ = ("_ids", "_previous", "_since", "log")

    # `_ids` has all identities of the log from position `_since` on.

    def __init__(self, log: Log[Any]) -> None:
        self.log = log
        self._previous = log
        self._since = len(log)
        self._ids: set[str] = set()

    def finish(self) -> Log[Any]:
        """The union."""
        if self._ids:
            self.log.keep((self._since, self._ids), key=_IDS)

        return self.log

    def add(self, other: Log[Any]) -> None:
        diverged = self.log.common_prefix(other)
        if diverged == len(other):
            return

        if diverged == len(self.log) and self.log.is_shared_start_of(other):
            self._ids.update(map(id_of, other.iterate(diverged)))
            self.log = other
        else:
            seen = other.common_prefix(self._previous)
            self._add_missing(diverged, other.iterate(max(diverged, seen)))

        self._previous = other

    def add_new(self, added: Log[Any], base: Log[Any] | None) -> None:
        if added:
            # No added entry is in the base, nor in the part that both logs share.
            diverged = 0 if base is None else self.log.common_prefix(base)
            self._add_missing(diverged, iter(added))

    def _add_missing(self, diverged: int, entries: Iterator[Any]) -> None:
        if not self._ids and (claimed := self.log.claim(key=_IDS)) is not None:
            (self._since, self._ids), newer = claimed
            self._ids.update(map(id_of, newer))

        if diverged < self._since:
            # What is before *diverged* is in the other log, too, and not in it again,
            # because a log has each identity once.
            missing = islice(self.log.iterate(diverged), self._since - diverged)
            self._ids.update(map(id_of, missing))
            self._since = diverged

        ids = self._ids
        new = [entry for entry in entries if entry[0] not in ids]
        ids.update(map(id_of, new))
        self.log = self.log.extend(new)


def describe_mismatch(verb: str, expected: str, given: object) -> str:
    return f"{verb} takes {expected}, got {describe_value(given)}"
