"""
Appending to the head of a name without loading it: the rows that a save of the whole
state writes, made from the ends of both logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.errors import InvalidUsageError, NotSavedError, StaleHeadError
from conversation_state.messages import Message, group_answers
from conversation_state.store._load import (
    find_newest,
    load_newest,
    read_ends,
    read_items,
    read_segments,
)
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    DamagedRow,
    LogEnd,
    LogTable,
    Segment,
    cut_segments,
    pack_id,
)
from conversation_state.store._save import (
    LogToWrite,
    add_rows,
    check_kind,
    save_within,
    write_log,
)
from conversation_state.store._transaction import Newest, Transaction
from conversation_state.store._values import Head, is_expected, sum_counts
from conversation_state.store.backend import Row
from conversation_state.store.schema import MAX_TOKENS, SHIFT, Revision
from conversation_state.usage import Usage


class Addition(NamedTuple):
    """What is appended: messages, and the usage that is recorded with them."""

    messages: tuple[Message, ...]
    usage: Usage | None
    key: str | None
    model: str
    caveat: str

    @classmethod
    def of(
        cls,
        messages: Iterable[Any],
        *,
        usage: Usage | None,
        key: str | None,
        model: str,
        caveat: str,
    ) -> Addition:
        """What a caller gave, checked."""
        for name, about in (("model", model), ("caveat", caveat)):
            if about and usage is None:
                raise InvalidUsageError(
                    f"{name} is given without usage; pass the usage that it is about"
                )

        given = tuple(Aggregator.new().add_response(*messages).messages)
        addition = cls(given, usage, key, model, caveat)
        addition.add_to(Aggregator.new())
        return addition

    def add_to(self, state: Aggregator) -> Aggregator:
        """*state* with it; *state* itself if its ledger has the key."""
        if self.usage is None:
            grown = state.add_response(*self.messages, key=self.key)
        else:
            grown = state.extend(self.messages)
            grown = grown.add_usage(
                self.usage, key=self.key, model=self.model, caveat=self.caveat
            )

        is_known = self.key is not None and state._ledger.find(self.key) is not None
        return state if is_known else grown

    def list_keys(self) -> list[str]:
        """The identities of ledger entries that decide what is recorded."""
        if self.key is not None:
            return [self.key]

        if self.usage is not None:
            return []

        entries = Aggregator.new().extend(self.messages).entries
        keys = [
            key
            for answer in group_answers(entries)
            if answer.usage is not None and answer.response_id
            for key in (answer.key, answer.second_key, *answer.other_keys())
        ]
        return list(dict.fromkeys(keys))


class _AppendedLog:
    """The newest entries of a log, as far as a `LogToWrite` that begins there needs."""

    def __init__(self, start: int, entries: Sequence[Any]) -> None:
        self._start = start
        self._entries = entries

    def __len__(self) -> int:
        return self._start + len(self._entries)

    def iterate(self, start: int) -> Iterator[Any]:
        return islice(self._entries, start - self._start, None)


def append_within(
    transaction: Transaction,
    text: str,
    addition: Addition,
    expecting: Head | int | None,
) -> Head:
    """The head of a name after *addition*; as it is if its ledger has the key."""
    head = _append_known(transaction, text, addition, expecting)
    if head is not None:
        return head

    known, newest = find_newest(transaction, text)
    if transaction.cache.is_erasure_lost:
        what = "nothing was saved: the note of an erasure is damaged or missing"
        raise DamagedRow(what)

    if known is None:
        if newest is None:
            return _begin_name(transaction, text, addition, expecting)

        check_kind(transaction, newest.name, is_timeline=False)
        # A total near the limit is checked in the ledger itself.
        usage = addition.add_to(Aggregator.new()).usage
        if newest.revision.tokens + sum_counts(usage) < MAX_TOKENS:
            return _append_rows(transaction, newest, addition, expecting)

        known = load_newest(transaction, text)

    check_kind(transaction, known.name, is_timeline=False)
    state = addition.add_to(known.state)
    if state is known.state:
        return known.head

    if not is_expected(known.head, expecting):
        raise StaleHeadError(transaction.url, text, expecting, known.head)

    return save_within(transaction, text, state, known.head)


def _append_known(
    transaction: Transaction,
    text: str,
    addition: Addition,
    expecting: Head | int | None,
) -> Head | None:
    """
    As `append_within`, to the state that is remembered: nothing is read, as in
    `save_within`. None if that can't be done.
    """
    known = transaction.recall(text)
    if known is None or known.name.is_timeline:
        return None

    is_right = expecting is None or is_expected(known.head, expecting)
    try:
        state = addition.add_to(known.state) if is_right else known.state
    except InvalidUsageError:
        return None  # the head may be another by now

    if state is known.state:
        return None

    try:
        return save_within(transaction, text, state, known.head)
    except StaleHeadError:
        if expecting is not None:
            raise

        return None


def _begin_name(
    transaction: Transaction,
    text: str,
    addition: Addition,
    expecting: Head | int | None,
) -> Head:
    if expecting is None:
        try:
            transaction.get_name(text)
        except NotSavedError as error:
            error.add_note("to begin the name: append(name, …, expecting=0)")
            raise

    if expecting != 0:
        raise StaleHeadError(transaction.url, text, expecting, None)

    return save_within(transaction, text, addition.add_to(Aggregator.new()), 0)


def _append_rows(
    transaction: Transaction,
    newest: Newest,
    addition: Addition,
    expecting: Head | int | None,
) -> Head:
    name, old, origin, (_, ledger_start), digests = newest
    head = newest.head()
    ledger_end = old.ledger_branch, old.ledger_length, ledger_start
    recorded = _find_recorded(transaction, ledger_end, addition.list_keys())
    # A state that has of its past what decides how it grows.
    past = Aggregator.rebuild(
        id=origin.state_id,
        parent_id=None,
        root_id=UUID(bytes=origin.root),
        init_len=0,
        init_ledger_len=0,
        entries=(),
        ledger=recorded,
    )
    grown = addition.add_to(past)
    if grown is past:
        return head

    if not is_expected(head, expecting):
        raise StaleHeadError(transaction.url, name.name, expecting, head)

    entries, ledger = read_ends(
        transaction, old, origin, entries_digest=digests[0], ledger_digest=digests[1]
    )
    ends = (
        _write_tail(transaction, ENTRIES, entries, list(grown.entries)),
        _write_tail(transaction, LEDGER, ledger, list(grown.ledger)[len(recorded) :]),
    )
    revision = Revision.of(
        key=old.revision + 1,
        parent=old.number,
        ends=ends,
        origin=old.origin,
        origin_digest=origin.digest(),
        tokens=old.tokens + sum_counts(grown.usage) - sum_counts(past.usage),
    )
    transaction.tables.add("revisions", [revision])
    # Its state was not seen.
    transaction.learned[name.name] = None
    return revision.head(name.name, origin.state_id)


def _find_recorded(
    transaction: Transaction, end: tuple[int, int, Row], keys: Collection[str]
) -> list[LedgerEntry]:
    """The entries of those identities that the ledger with that *end* has."""
    recorded: list[LedgerEntry] = []
    if not keys:
        return recorded

    segments = read_segments(transaction, *end)
    packed = [pack_id(key.encode()) for key in keys]
    for branch, start, stop in segments:
        low, high = branch << SHIFT | start, branch << SHIFT | stop
        for place in transaction.tables.find(LEDGER.table, "id", packed, low, high):
            at = place - (branch << SHIFT)
            entry = cut_segments(segments, at + 1)
            recorded += read_items(transaction, LEDGER, entry, at)[0]

    return recorded


def _write_tail(
    transaction: Transaction, table: LogTable, end: LogEnd, entries: list[Any]
) -> LogEnd:
    if not entries:
        return end

    # Mostly no other log goes on from there. If one does, the places are taken: the
    # insert is a `ConflictError`, and the retry looks where these rows belong.
    if end.length and transaction.trusts_memory:
        return add_rows(transaction, table, end, entries)

    log: Any = _AppendedLog(end.length, entries) if end.length else Log(entries)
    new = LogToWrite(table, log)
    if end.length:
        new.begin_at((Segment(end.branch, 0, end.length),), end.digest)

    return write_log(transaction, new)
