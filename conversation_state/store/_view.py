"""
Views of a saved state, found from its end: only what may be shown is loaded.

The entries of such a view are a log with a gap. Trimming reads a log from its end, so
the view is that of the whole log unless it reads into the gap, which is an error: then
more is loaded, and it is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from conversation_state._persistent import Log, log_with_gap
from conversation_state.aggregator import Entry, Messages
from conversation_state.counting import TokenBudget, TokenCounter, count
from conversation_state.errors import StoreError
from conversation_state.messages import SystemMessage
from conversation_state.requests import Rules
from conversation_state.store._load import (
    find_newest,
    load_newest,
    read_ends,
    read_items,
    read_segments,
)
from conversation_state.store._log import ENTRIES, cut_segments
from conversation_state.store._transaction import CachedBackend, Newest, Transaction
from conversation_state.trimming import TrimContext, trim

# Positions in a block of a log; and how many messages are loaded at first, of the
# newest ones and of the leading system messages with the next one.
_WIDTH = 32
_NEWEST, _LEAD = 64, 3


class _GapError(StoreError):
    """Something in a gap was asked for."""


class _Missing:
    """What stands in a gap, in the place of each entry."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _refuse(self) -> NoReturn:
        raise _GapError(
            self._url,
            "the view was made without this message, which it does not show; "
            "load(name) has all messages",
        )

    def __getitem__(self, _at: object) -> NoReturn:
        self._refuse()

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    @property
    def id(self) -> NoReturn:
        self._refuse()

    @property
    def message(self) -> NoReturn:
        self._refuse()


def view_newest(
    cache: CachedBackend,
    text: str,
    budget: TokenBudget | None,
    counter: TokenCounter,
    rules: Rules,
) -> TrimContext:
    with cache.read() as transaction:
        remembered, newest = find_newest(transaction, text)
        if newest is not None and budget is not None:
            tail = _LogTail(transaction, newest)
            loaded = _NEWEST
            while True:
                messages = Messages(tail.load(loaded))
                try:
                    return trim(messages, budget, counter=counter, rules=rules)
                except _GapError:
                    loaded = _estimate(tail.newest, budget, counter)

        state = (remembered or load_newest(transaction, text)).state

    return trim(state, budget, counter=counter, rules=rules)


def _estimate(newest: list[Entry], budget: TokenBudget, counter: TokenCounter) -> int:
    """
    How many messages to load where the *newest* ones do not suffice: as many as fill
    the budget if all are as large as these, at least twice and at most eight times as
    many.
    """
    there = len(newest)
    tokens = sum([count(entry.message, counter) for entry in newest])
    wanted = there * budget.effective_input_limit * 5 // (4 * max(tokens, 1))
    return min(max(wanted, 2 * there), 8 * there)


class _LogTail:
    """The entries of a revision as far as they are loaded."""

    def __init__(self, transaction: Transaction, saved: Newest) -> None:
        self.newest: list[Entry] = []  # those from the end on
        self._first: list[Entry] = []
        self._transaction = transaction
        self._saved = saved
        end = saved.revision.branch, saved.revision.length, saved.starts[0]
        self._segments = read_segments(transaction, *end)

    def load(self, count: int) -> Log[Entry]:
        """All of them; with a gap between the first and at least *count* newest."""
        length = self._saved.revision.length
        since = length - len(self.newest)
        start = max(length - count, 0) & -_WIDTH
        if start <= _WIDTH:
            start = 0

        older, digests = self._read(start, since)
        if since == length:
            read_ends(
                self._transaction,
                self._saved.revision,
                self._saved.origin,
                entries_digest=digests[-1] if digests else None,
                ledger_digest=self._saved.digests[1],
            )

        self.newest = older + self.newest
        if not start:
            return Log(self.newest)

        if not self._first:
            self._first, _ = self._read(0, _LEAD)
            if all(isinstance(each.message, SystemMessage) for each in self._first):
                self._first, _ = self._read(0, _WIDTH)

        missing = _Missing(self._transaction.url)
        return log_with_gap(self._first, missing, start, self.newest)

    def _read(self, start: int, stop: int) -> tuple[list[Entry], list[bytes]]:
        segments = cut_segments(self._segments, stop)
        return read_items(self._transaction, ENTRIES, segments, start)
