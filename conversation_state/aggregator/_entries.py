"""
Entries: what was said and what was spent, each with its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, SupportsIndex, overload

from conversation_state._persistent import Log, View
from conversation_state.messages import Message
from conversation_state.usage import Usage

__all__ = [
    "NOTHING",
    "UNSAID",
    "UNSPENT",
    "Entry",
    "Ledger",
    "LedgerEntry",
    "Messages",
    "id_of",
    "message_of",
]


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


class LedgerEntry(NamedTuple):
    """
    One recorded usage, and its identity.

    Attributes:
        id: Opaque text: the key it was added with, or one unique in the world.

        usage: What was spent.

        model: The model it was spent on; "" if nobody said.
    """

    id: str
    usage: Usage
    model: str


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
        """
        The same with the identity of each append.
        """
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Messages) and self._entries is other._entries:
            return True

        return super().__eq__(other)

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


class Ledger(NamedTuple):
    """
    What was spent, in order, and the total of it.
    """

    entries: Log[LedgerEntry]
    total: Usage

    @classmethod
    def of(cls, entries: Log[LedgerEntry]) -> Ledger:
        """
        The ledger that *entries* are, which other ledgers may share.

        O(entries since one that was summed here).
        """
        if not entries:
            return UNSPENT

        return cls(entries, entries.fold(_plus, NOTHING, key=_plus))

    def with_entries(self, entries: Sequence[LedgerEntry]) -> Ledger:
        total = sum([entry.usage for entry in entries], self.total)
        return Ledger(self.entries.extend(entries), total)

    def find(self, key: str) -> LedgerEntry | None:
        """
        The entry with the identity *key*. O(log n) if there is none.
        """
        seen = self.entries.fold(_seen, _NO_IDS, key=_seen)
        if not any(key in ids for ids in seen):
            return None

        return next(entry for entry in reversed(self.entries) if entry.id == key)


def _plus(total: Usage, entry: LedgerEntry) -> Usage:
    return total + entry.usage


_NO_IDS: tuple[frozenset[str], ...] = ()


def _seen(
    sets: tuple[frozenset[str], ...], entry: LedgerEntry
) -> tuple[frozenset[str], ...]:
    # Sets of 2^k identities, larger ones first, like the digits of a counter:
    # a step costs O(log n) on average, and the log remembers them (`Log.fold`).
    ids = frozenset((entry.id,))
    while sets and len(sets[-1]) <= len(ids):
        ids |= sets[-1]
        sets = sets[:-1]

    return (*sets, ids)


NOTHING = Usage()
UNSPENT = Ledger(Log(), NOTHING)
UNSAID: Log[Entry] = Log()
