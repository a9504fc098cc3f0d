"""
Records: what a host keeps beside states, written at one moment with them.

A record is bytes under a key of bytes. One that is about a state holds on to
its messages: they stay for as long as the record does, under whatever names,
and can be read from it.

What lives here: reading records, and writing them and states in one block.
What does not: what a host says in them (`adapters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.store import _loading, _saving, _tending
from conversation_state.store._core import Core
from conversation_state.store._rows import (
    damaged,
    digests_of,
    record_digest,
    segments_of,
)
from conversation_state.store._together import Inside, together
from conversation_state.store._values import Head
from conversation_state.store._verbs import Verbs
from conversation_state.store.backend import Reading, Writing
from conversation_state.store.log import DIGEST_SIZE, ENTRIES, LEDGER, Kind

__all__ = ["Hold", "Reader", "Record", "Saved", "Writer", "after", "reading", "write"]

T = TypeVar("T")


class Hold(NamedTuple):
    """
    Messages that are kept, or what was spent: how many of which branch, and
    the digest of them.
    """

    branch: int
    length: int
    digest: bytes


class Saved(NamedTuple):
    """
    What keeps the messages of a state, and what keeps its ledger.
    """

    entries: Hold
    ledger: Hold


class Record(NamedTuple):
    """
    What was written under a key, and what it holds on to, if anything.
    """

    key: bytes
    value: bytes
    hold: Hold | None


def after(prefix: bytes) -> bytes | None:
    """
    The least key that comes after all that begin with *prefix*; None if there
    is none.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class Reader:
    """
    Records and states as they were at one moment.

    Attributes:
        seen: How many changes to rows that were there are known: what was read
            when there were others may be something else by now.
    """

    def __init__(self, inside: Any, tx: Reading) -> None:
        self._core: Core = inside
        self._tx = tx
        self.seen = self._core.catch_up(tx)

    def get(self, key: bytes) -> Record | None:
        """
        The record under a key.

        Raises:
            StoreError:
                If it is not what was written.
        """
        row = self._tx.get("records", key)
        return None if row is None else self._read(row)

    def scan(
        self,
        low: bytes,
        high: bytes | None,
        *,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Record]:
        """
        The records from key *low* on and before *high*.
        """
        rows = self._tx.scan("records", low, high, limit=limit, backwards=backwards)
        return [self._read(row) for row in rows]

    def keys(
        self,
        low: bytes,
        high: bytes | None,
        *,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[bytes]:
        """
        The keys of them.
        """
        only = {"columns": ("key",), "limit": limit, "backwards": backwards}
        rows = self._tx.scan("records", low, high, **only)  # type: ignore[arg-type]
        return [key for (key,) in rows]

    def _read(self, row: tuple[Any, ...]) -> Record:
        with self._core._readable():
            key, value, branch, length, digest = row
            messages = digest[DIGEST_SIZE:]
            if record_digest(key, value, branch, length, messages) != digest:
                what = f"the record {key!r:.80} is not what was written"
                raise damaged(self._core.url, what)

        return Record(key, value, Hold(branch, length, messages) if messages else None)

    def entries(self, hold: Hold) -> Log[Entry]:
        """
        The messages that are held, sharing what is in memory.

        Raises:
            StoreError:
                If they are not what was saved.
        """
        return self._log(ENTRIES, hold)

    def ledger(self, hold: Hold) -> Log[LedgerEntry]:
        """
        The same for what was spent.
        """
        return self._log(LEDGER, hold)

    def _log(self, kind: Kind, hold: Hold) -> Log[Any]:
        core = self._core
        with core._readable():
            segments = segments_of(self._tx, core.url, hold.branch, hold.length)
            log, digest = _loading._log(core, self._tx, self.seen, kind, segments)

        if digest != hold.digest:
            what = f"a record holds on to other {kind.table} than it did"
            raise damaged(core.url, what)

        return log

    def names(self, prefix: str) -> list[str]:
        """
        All names that begin with *prefix*.
        """
        return list(_loading._names(self._tx, prefix))

    def head(self, name: str) -> Head | None:
        """
        The head of a name; None if nothing is saved under it.
        """
        found = self._core.find(self._tx, name)
        if found is None:
            return None

        revision = self._core.revision(self._tx, found, None)
        return self._core.head(self._tx, found, revision)

    def state(self, name: str) -> Aggregator | None:
        """
        The newest state of a name; None if nothing is saved under it.
        """
        if self._core.find(self._tx, name) is None:
            return None

        return _loading.load_newest(self._core, name).state


class Writer(Reader):
    """
    The same in a block that writes: all that is done here happens, or nothing.
    """

    _tx: Writing

    def new_number(self) -> int:
        """
        A number that was never given before.
        """
        return self._tx.new_number()

    def add(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        """
        Write a record under a key that is free: if it is not, all is tried
        again. *hold* is of this block, or of a record that was read in it.
        """
        self._tx.add("records", [_row(key, value, hold)])

    def put(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        """
        Write a record, in place of what is there.
        """
        row = _row(key, value, hold)
        old = self._tx.get("records", key)
        if old is None:
            self._tx.add("records", [row])
        elif old != row:
            _, value, branch, length, digest = row
            changed = {"value": value, "branch": branch, "length": length}
            self._tx.set("records", key, **changed, digest=digest)

    def remove(self, low: bytes, high: bytes | None) -> int:
        """
        Remove the records from key *low* on and before *high*; how many there
        were. What they held on to is garbage then, unless others need it.
        """
        return self._tx.remove("records", low, high)

    def save(self, name: str, state: Aggregator) -> Saved:
        """
        Make *state* the head of *name*, whatever was; what keeps it.
        """
        head = self.head(name)
        _saving.save(self._core, name, state, 0 if head is None else head, "")
        number = self._core.named(self._tx, name).number
        revision = self._core.newest(self._tx, number)
        if revision is None:
            raise damaged(self._core.url, f"{name!r} has no revisions")

        told, paid = digests_of(self._tx, self._core.url, revision)
        return Saved(
            Hold(revision.branch, revision.length, told),
            Hold(revision.ledger_branch, revision.ledger_length, paid),
        )

    def fork(self, name: str, new_name: str) -> None:
        """
        What `Store.fork` does.
        """
        _tending.fork(self._core, name, new_name, None)

    def delete(self, name: str) -> None:
        """
        What `Store.delete` does.
        """
        _tending.delete(self._core, name, None)


@contextmanager
def reading(store: Verbs) -> Iterator[Reader]:
    """
    A block that reads the records and states of a store.
    """
    with store._core.backend.reading() as tx:
        yield Reader(Inside(store._core, tx), tx)


def write(store: Verbs, work: Callable[[Writer], T]) -> T:
    """
    What *work* gives, whose changes all happen, or none if it raises.

    It is called again where somebody else was there first: so it should do
    nothing but read and write here.

    Raises:
        StoreError:
            If the store can't be written. Nothing was.
    """
    return together(store._core, lambda tx, inside: work(Writer(inside, tx)))


def _row(key: bytes, value: bytes, hold: Hold | None) -> tuple[Any, ...]:
    branch, length, digest = hold or (0, 0, b"")
    sealed = record_digest(key, value, branch, length, digest)
    return key, value, branch, length, sealed
