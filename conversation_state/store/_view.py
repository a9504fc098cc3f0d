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
from conversation_state.counting import TokenBudget, TokenCounter
from conversation_state.errors import StoreError
from conversation_state.requests import Rules
from conversation_state.store._load import (
    load_newest,
    read_ends,
    read_items,
    read_segments,
    recall_newest,
)
from conversation_state.store._log import ENTRIES, Segments, cut_segments
from conversation_state.store._transaction import CachedBackend, Transaction
from conversation_state.store.schema import Revision
from conversation_state.trimming import TrimContext, trim

# Positions in a block of a log; and how many messages are loaded at first, and how many
# times more each time that these do not suffice.
_WIDTH = 32
_FIRST = 64
_GROWTH = 4


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
        transaction.catch_up()
        remembered = recall_newest(transaction, text)
        if remembered is None and budget is not None:
            name = transaction.get_name(text)
            revision = transaction.get_revision(name, None)
            for entries in _iterate_logs(transaction, revision):
                try:
                    messages = Messages(entries)
                    return trim(messages, budget, counter=counter, rules=rules)
                except _GapError:
                    pass

        state = (remembered or load_newest(transaction, text)).state

    return trim(state, budget, counter=counter, rules=rules)


def _iterate_logs(transaction: Transaction, revision: Revision) -> Iterator[Log[Entry]]:
    """The entries of a revision, with a gap that gets smaller, and without at last."""
    length = revision.length
    origin = transaction.get_origin(revision.origin)
    segments = read_segments(transaction, revision.branch, length)
    first: list[Entry] = []
    newest: list[Entry] = []
    since, loaded = length, _FIRST
    digest: bytes | None = None
    while since:
        start = max(length - loaded, 0) & -_WIDTH
        older, digests = _read_between(transaction, segments, start, since)
        if digest is None:
            digest = digests[-1]
            read_ends(transaction, revision, origin, entries_digest=digest)

        newest, since = older + newest, start
        loaded *= _GROWTH
        if since > _WIDTH and not first:
            first, _ = _read_between(transaction, segments, 0, _WIDTH)

        if since > _WIDTH:
            yield log_with_gap(first, _Missing(transaction.url), since, newest)

    yield Log(newest)


def _read_between(
    transaction: Transaction, segments: Segments, start: int, stop: int
) -> tuple[list[Entry], list[bytes]]:
    return read_items(transaction, ENTRIES, cut_segments(segments, stop), start)
