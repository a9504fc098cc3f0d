"""
A store in memory: gone when the program ends.

For tests, and for programs that want names and revisions and no files.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from conversation_state.errors import StoreError
from conversation_state.store.backend import ConflictError, Key, Row
from conversation_state.store.backends._blocks import (
    BLOCK_ABANDONED,
    BlockTurn,
    SequentialBlock,
    renew_in_children,
)
from conversation_state.store.schema import TABLES

__all__ = ["MemoryBackend"]

_TIMEOUT_S = 30
_BUSY = f"another thread has been writing for {_TIMEOUT_S} seconds; try again"


class _TableRows:
    # By key, and the keys in order.
    def __init__(self, name: str) -> None:
        self.names = TABLES[name].column_names
        self.rows: dict[Any, Row] = {}
        self.keys: list[Any] = []

    def find_range(self, low: Key | None, high: Key | None) -> tuple[int, int]:
        start = 0 if low is None else bisect_left(self.keys, low)
        stop = len(self.keys) if high is None else bisect_left(self.keys, high)
        return start, max(start, stop)

    def select_columns(
        self, rows: list[Row], columns: tuple[str, ...] | None
    ) -> list[Row]:
        if columns is None:
            return rows

        places = [self.names.index(name) for name in columns]
        return [tuple([row[at] for at in places]) for row in rows]


class MemoryBlock(SequentialBlock):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._tables = backend.tables
        self._undo: list[Callable[[], object]] = []
        self.is_open = False

    def abandon(self) -> None:
        """Take changes back, the last one first."""
        self.is_open = False
        # A step is removed after it has run, because an interrupt may come between
        # the two; a second time it changes nothing.
        while self._undo:
            self._undo[-1]()
            self._undo.pop()

    def new_number(self) -> int:
        return self._backend.new_number()

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        there = self._tables[table]
        row = there.rows.get(key)
        return None if row is None else there.select_columns([row], columns)[0]

    def scan(
        self,
        table: str,
        low: Key | None,
        high: Key | None,
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Row]:
        there = self._tables[table]
        start, stop = there.find_range(low, high)
        if limit is not None and limit < stop - start:
            start, stop = (stop - limit, stop) if backwards else (start, start + limit)

        keys = there.keys[start:stop]
        if backwards:
            keys.reverse()

        return there.select_columns([there.rows[key] for key in keys], columns)

    def find(
        self,
        table: str,
        column: str,
        values: Collection[Any],
        low: Key | None = None,
        high: Key | None = None,
    ) -> list[Key]:
        there = self._tables[table]
        at = there.names.index(column)
        start, stop = there.find_range(low, high)
        return [key for key in there.keys[start:stop] if there.rows[key][at] in values]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        self.check_open()
        for other, key in if_exists:
            if key not in self._tables[other].rows:
                raise ConflictError(other, key)

        for other, key in if_absent:
            if key in self._tables[other].rows:
                raise ConflictError(other, key)

        for row in rows:
            self._put_row(self._tables[table], row)

    def check_open(self) -> None:
        if not self.is_open:
            raise StoreError(self._backend.url, BLOCK_ABANDONED)

    def _put_row(self, there: _TableRows, row: Row) -> None:
        key = row[0]
        if key in there.rows:
            raise ConflictError(key)

        # The undo step is recorded first, so that an interrupt between the two leaves a
        # change that can be undone.
        self._undo.append(lambda: _drop_row(there, key))
        insort(there.keys, key)
        there.rows[key] = row

    def set(self, table: str, key: Key, **values: Any) -> None:
        self.check_open()
        there = self._tables[table]
        old = there.rows[key]
        new = dict(zip(there.names, old, strict=True)) | values
        self._undo.append(lambda: there.rows.update({key: old}))
        there.rows[key] = tuple(new.values())

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        self.check_open()
        there = self._tables[table]
        start, stop = there.find_range(low, high)
        keys = there.keys[start:stop]
        gone = {key: there.rows[key] for key in keys}

        def restore_rows() -> None:
            there.rows.update(gone)
            there.keys = sorted(there.rows)

        self._undo.append(restore_rows)
        del there.keys[start:stop]
        for key in keys:
            del there.rows[key]

        return len(keys)


def _drop_row(there: _TableRows, key: Any) -> None:
    at = bisect_left(there.keys, key)
    if there.keys[at : at + 1] == [key]:
        del there.keys[at]

    there.rows.pop(key, None)


class MemoryBackend:
    """Tables in memory. One block at a time."""

    def __init__(self) -> None:
        self.url = "memory:"
        self.tables = {name: _TableRows(name) for name in TABLES}
        self._number = 0
        self._is_closed = False
        self._turn = BlockTurn()
        renew_in_children(self)

    def renew(self) -> None:
        """Discard unfinished changes of other threads in a child of `os.fork`."""
        unfinished = self._turn.block
        self._turn = BlockTurn()
        if unfinished is not None:
            unfinished.abandon()

    def new_number(self) -> int:
        """A number that was not given before."""
        self._number += 1
        return self._number

    def reading(self) -> AbstractContextManager[MemoryBlock]:
        """A block that reads."""
        return self._open_block()

    def writing(self) -> AbstractContextManager[MemoryBlock]:
        """A block that writes."""
        return self._open_block()

    @contextmanager
    def _open_block(self) -> Iterator[MemoryBlock]:
        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open another one")

        block, turn = MemoryBlock(self), self._turn
        if not turn.begin(block, _TIMEOUT_S):
            raise StoreError(self.url, _BUSY)

        try:
            block.is_open = True
            yield block
            block.check_open()
        except BaseException:
            block.abandon()
            raise
        finally:
            try:
                turn.end(block)
            finally:
                turn.end(block)

    def scrub(self) -> None:
        """Nothing to do: there is nothing below the tables."""

    def vacuum(self) -> None:
        """Nothing to do: there is nothing below the tables."""

    def problems(self) -> list[str]:
        """None: there is nothing below the tables."""
        return []

    def close(self) -> None:
        """Refuse further blocks, as other backends do."""
        self._is_closed = True
