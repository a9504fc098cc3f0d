"""
Records: what a host saves with states, written at one moment with them.

A record is bytes under a key of bytes. One that is about a state holds on to
its messages: they stay for as long as the record does, under whatever names,
and can be read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.store._load import (
    latest,
    list_names,
    load_at,
    load_window,
    read_ends,
    read_log,
    read_segments,
)
from conversation_state.store._log import ENTRIES, LEDGER, DamagedRow, LogEnd, LogTable
from conversation_state.store._revisions import delete_name, fork_name, label_revision
from conversation_state.store._save import save_within
from conversation_state.store._store import Store
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import Head, Window, check_name, check_state
from conversation_state.store.backend import ConflictError, Reading, Writing
from conversation_state.store.schema import RecordRow, check_seal, sealed

__all__ = [
    "LogEnd",
    "Reader",
    "Record",
    "Saved",
    "Writer",
    "after",
    "is_remembered",
    "reading",
    "write",
]

T = TypeVar("T")


class Saved(NamedTuple):
    """Where the messages of a state end, and its ledger: a record can hold either."""

    entries: LogEnd
    ledger: LogEnd


class Record(NamedTuple):
    """The value under a key, and the end of the messages that it keeps, if any."""

    key: bytes
    value: bytes
    hold: LogEnd | None


def is_remembered(store: Store, name: str) -> bool:
    """
    Whether this store has the newest state of *name*, as it saw that last, in memory:
    then an update of the whole state reads nothing that an append would not.
    """
    return store._cache.recall(name) is not None


def after(prefix: bytes) -> bytes | None:
    """
    The least key that comes after all that begin with *prefix*; None if no key
    does.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class Reader:
    """
    Records and states as they were at one moment.

    Attributes:
        url: Where the store is.
        seen: How many changes to rows that were there are known: what was read
            when there were others may be something else by now.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._tx: Reading = transaction.tables
        transaction.catch_up()
        self.url = transaction.url
        self.seen = transaction.changes

    def get(self, key: bytes) -> Record | None:
        """
        The record under a key.

        Raises:
            StoreError: If it is not what was written.
        """
        row = self._tx.get("records", key)
        return None if row is None else self._read_record(row)

    def scan(
        self,
        low: bytes,
        high: bytes | None,
        *,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Record]:
        """The records from key *low* on and before *high*."""
        rows = self._tx.scan("records", low, high, limit=limit, backwards=backwards)
        return [self._read_record(row) for row in rows]

    def keys(
        self,
        low: bytes,
        high: bytes | None,
        *,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[bytes]:
        """The keys of them."""
        only = {"columns": ("key",), "limit": limit, "backwards": backwards}
        rows = self._tx.scan("records", low, high, **only)  # type: ignore[arg-type]
        return [key for (key,) in rows]

    def existing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of *keys* that have a record; all are asked for at once."""
        ranges = [(key, key + b"\0") for key in keys]
        found = self._tx.scan_each("records", ranges, columns=("key",))
        return {key for rows in found for (key,) in rows}

    def _read_record(self, row: tuple[Any, ...]) -> Record:
        found = check_seal(RecordRow._make(row))
        hold = LogEnd(found.branch, found.length, found.messages)
        return Record(found.key, found.value, hold if found.messages else None)

    def entries(self, hold: LogEnd) -> Log[Entry]:
        """
        The messages that are held, sharing what is in memory.

        Raises:
            StoreError: If they are not what was saved.
        """
        return _read_held(self._transaction, ENTRIES, hold)

    def ledger(self, hold: LogEnd) -> Log[LedgerEntry]:
        """The same for a ledger."""
        return _read_held(self._transaction, LEDGER, hold)

    def names(self, prefix: str) -> list[str]:
        """All names that begin with *prefix*."""
        return list_names(self._transaction, prefix)

    def latest(self, name: str) -> Head | None:
        """The head of a name; None if nothing is saved under it."""
        return _read_if_there(self._transaction, name, latest)

    def window(self, name: str, last: int) -> Window | None:
        """The *last* messages of a name; None if nothing is saved under it."""
        return _read_if_there(self._transaction, name, load_window, last)

    def load(self, name: str, at: int) -> Aggregator:
        """
        The state at a revision.

        Raises:
            NotSavedError: If there is no such revision.
        """
        return load_at(self._transaction, name, at).state

    def state(self, name: str) -> Aggregator | None:
        """The newest state of a name; None if nothing is saved under it."""
        found = _read_if_there(self._transaction, name, load_at)
        return None if found is None else found.state


class Writer(Reader):
    """The same in a block that writes: all that is done here happens, or nothing."""

    _tx: Writing  # pyright: ignore[reportIncompatibleVariableOverride] - as it is made

    def new_number(self) -> int:
        """A number that was never given before."""
        return self._tx.new_number()

    def add(self, key: bytes, value: bytes, hold: LogEnd | None = None) -> None:
        """
        Write a record under a key that is free: if it is not, all is tried
        again. *hold* is of this block, or of a record that was read in it.
        """
        self._tx.add("records", [_make_row(key, value, hold)])

    def put(self, key: bytes, value: bytes, hold: LogEnd | None = None) -> None:
        """Write a record, in place of what is there."""
        old, new = self._tx.get("records", key), _make_row(key, value, hold)
        if old is None:
            self._tx.add("records", [new])
        elif old != new:
            columns = new._asdict()
            self._tx.set("records", columns.pop("key"), **columns)

    def remove(self, low: bytes, high: bytes | None) -> int:
        """
        Remove the records from key *low* on and before *high*; how many there
        were. What they held on to is garbage then, unless others need it.
        """
        return self._tx.remove("records", low, high)

    def recall(self, name: str) -> Aggregator | None:
        """
        The newest state of a name as this store remembers it, or else as it is; None
        if nothing is saved under it.

        For a state that is saved under the name in this block: `save` checks that it
        was the newest.
        """
        remembered = self._transaction.recall(name)
        return self.state(name) if remembered is None else remembered.state

    def save(self, name: str, state: Aggregator) -> Saved:
        """Make *state* the head of *name*, whatever was; what keeps it."""
        check_state(name, state, None)
        transaction = self._transaction
        remembered = transaction.recall(name)
        head = self.latest(name) if remembered is None else remembered.head
        try:
            save_within(self._transaction, name, state, 0 if head is None else head)
        except StaleHeadError as error:
            # Another save came since it was remembered: begin again without that.
            what = f"{name!r} is not what is remembered of it"
            raise ConflictError(what) from error

        return _find_ends(self._transaction, name)

    def fork(self, name: str, new_name: str) -> None:
        """What `Store.fork` does."""
        check_name(new_name, "new_name")
        fork_name(self._transaction, name, new_name, None)

    def label(self, name: str, label: str) -> None:
        """What `Store.label` does, for the head."""
        check_name(label, "label")
        label_revision(self._transaction, name, label, None)

    def delete(self, name: str) -> None:
        """What `Store.delete` does."""
        delete_name(self._transaction, name)


def _read_held(transaction: Transaction, table: LogTable, hold: LogEnd) -> Log[Any]:
    segments = read_segments(transaction, hold.branch, hold.length)
    log, digest = read_log(transaction, table, segments)
    if digest != hold.digest:
        raise DamagedRow(f"a record holds other {table.table} than it did")

    return log


def _read_if_there(
    transaction: Transaction, name: str, read: Callable[..., T], *arguments: Any
) -> T | None:
    # Looked up before it is loaded: a missing name would be looked for among all
    # names, for those that are like it.
    if transaction.recall(name) is None and not transaction.find_name(name):
        return None

    with suppress(NotSavedError):
        return read(transaction, name, None, *arguments)

    return None


def _find_ends(transaction: Transaction, name: str) -> Saved:
    saved = transaction.recall(name)
    if saved is not None:
        return Saved(*saved.ends)

    revision = transaction.get_revision(transaction.get_name(name), None)
    origin = transaction.get_origin(revision.origin)
    return Saved(*read_ends(transaction, revision, origin))


@contextmanager
def reading(store: Store) -> Iterator[Reader]:
    """A block that reads the records and states of a store."""
    with store._cache.read() as transaction:
        yield Reader(transaction)


def write(store: Store, work: Callable[[Writer], T]) -> T:
    """
    What *work* gives, whose changes all happen, or none if it raises.

    It is called again after a conflict: so it should do nothing but read and
    write here.

    Raises:
        StoreError: If the store can't be written. Nothing was.
    """
    return store._cache.write(lambda transaction: work(Writer(transaction)))


def _make_row(key: bytes, value: bytes, hold: LogEnd | None) -> RecordRow:
    branch, length, digest = hold or LogEnd(0, 0, b"")
    return sealed(RecordRow(key, value, branch, length, messages=digest))
