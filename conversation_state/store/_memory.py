"""
A store in memory: gone when the program ends.

For tests, and for programs that want names and revisions and no files.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from conversation_state.errors import StoreError
from conversation_state.store._threads import TAKEN_OVER, renew_in_children
from conversation_state.store.backend import TABLES, ConflictError, Key, Row

__all__ = ["MemoryBackend"]

_PATIENCE_S = 30


class _Rows:
    """
    The rows of one table: by key, and the keys in order.
    """

    def __init__(self, name: str) -> None:
        table = TABLES[name]
        self.names = (table.key.name, *[column.name for column in table.columns])
        self.rows: dict[Any, Row] = {}
        self.keys: list[Any] = []

    def range(self, low: Key | None, high: Key | None) -> tuple[int, int]:
        start = 0 if low is None else bisect_left(self.keys, low)
        stop = len(self.keys) if high is None else bisect_left(self.keys, high)
        return start, max(start, stop)

    def picked(self, row: Row, columns: tuple[str, ...] | None) -> Row:
        if columns is None:
            return row

        return tuple([row[self.names.index(name)] for name in columns])


class _Block:
    """
    Reads and changes, and how to take the changes back.
    """

    def __init__(self, tables: dict[str, _Rows], numbers: Callable[[], int]) -> None:
        self._tables = tables
        self._undo: list[Callable[[], object]] = []
        self.new_number = numbers

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        there = self._tables[table]
        row = there.rows.get(key)
        return None if row is None else there.picked(row, columns)

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
        start, stop = there.range(low, high)
        if limit is not None and limit < stop - start:
            start, stop = (stop - limit, stop) if backwards else (start, start + limit)

        keys = there.keys[start:stop]
        if backwards:
            keys.reverse()

        return [there.picked(there.rows[key], columns) for key in keys]

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        return [
            self.scan(table, low, high, columns=columns, limit=limit)
            for low, high in ranges
        ]

    def find(self, table: str, column: str, value: Any) -> list[Key]:
        there = self._tables[table]
        at = there.names.index(column)
        return [key for key in there.keys if there.rows[key][at] == value]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        given: Sequence[tuple[str, Key]] = (),
        lacking: Sequence[tuple[str, Key]] = (),
    ) -> None:
        for other, key in given:
            if key not in self._tables[other].rows:
                raise ConflictError(other, key)

        for other, key in lacking:
            if key in self._tables[other].rows:
                raise ConflictError(other, key)

        for row in rows:
            self._put(self._tables[table], row)

    def _put(self, there: _Rows, row: Row) -> None:
        key = row[0]
        if key in there.rows:
            raise ConflictError(key)

        # First: whoever is interrupted between two steps has done one of them.
        self._undo.append(lambda: self._drop(there, key))
        insort(there.keys, key)
        there.rows[key] = row

    @staticmethod
    def _drop(there: _Rows, key: Any) -> None:
        at = bisect_left(there.keys, key)
        if there.keys[at : at + 1] == [key]:
            del there.keys[at]

        there.rows.pop(key, None)

    def set(self, table: str, key: Key, **values: Any) -> None:
        there = self._tables[table]
        old = there.rows[key]
        new = dict(zip(there.names, old, strict=True)) | values
        self._undo.append(lambda: there.rows.update({key: old}))
        there.rows[key] = tuple(new.values())

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        there = self._tables[table]
        start, stop = there.range(low, high)
        keys = there.keys[start:stop]
        gone = {key: there.rows[key] for key in keys}

        def bring_back() -> None:
            there.rows.update(gone)
            there.keys = sorted(there.rows)

        self._undo.append(bring_back)
        del there.keys[start:stop]
        for key in keys:
            del there.rows[key]

        return len(keys)

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        return sum([self.remove(table, low, high) for low, high in ranges])

    def undo(self) -> None:
        """
        Take all changes back; a second time does nothing.
        """
        while self._undo:
            self._undo[-1]()
            self._undo.pop()


class MemoryBackend:
    """
    Tables in memory. One block at a time.
    """

    def __init__(self) -> None:
        self.url = "memory:"
        self._tables = {name: _Rows(name) for name in TABLES}
        self._number = 0
        self._is_closed = False
        self._writer: _Block | None = None
        self._lock: Any = RLock()
        renew_in_children(self)

    def renew(self) -> None:
        """
        Begin anew in a child of `os.fork`, without what others were writing.
        """
        self._lock = RLock()
        self._take_back()

    def _take_back(self) -> None:
        """
        Take back what was done in a block whose end was never got to.
        """
        left, self._writer = self._writer, None
        if left is not None:
            left.undo()

    def _new_number(self) -> int:
        self._number += 1
        return self._number

    @contextmanager
    def reading(self) -> Iterator[_Block]:
        """
        A block that reads.
        """
        with self._alone():
            yield _Block(self._tables, self._new_number)

    @contextmanager
    def writing(self) -> Iterator[_Block]:
        """
        A block that writes.
        """
        with self._alone():
            block = self._writer = _Block(self._tables, self._new_number)
            try:
                yield block
                self._end(block)
            except BaseException:
                block.undo()
                raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = self._lock
        # No thread opens two: one that has it already was interrupted before it
        # got to the end of the first.
        if not lock._is_owned() and not lock.acquire(timeout=_PATIENCE_S):
            what = f"another thread has been at it for {_PATIENCE_S} seconds; try again"
            raise StoreError(self.url, what)

        try:
            self._check_open()
            self._take_back()
            yield
        finally:
            if lock._is_owned():
                lock.release()

    def _end(self, block: _Block) -> None:
        if self._writer is not block:
            raise StoreError(self.url, TAKEN_OVER)

        self._writer = None

    def scrub(self) -> None:
        """
        There is nothing below the tables.
        """

    def vacuum(self) -> None:
        """
        There is nothing below the tables.
        """

    def problems(self) -> list[str]:
        """
        None: there is nothing below the tables.
        """
        return []

    def close(self) -> None:
        """
        Nothing is held but memory, which goes with the store; it is used no more,
        as others are not.
        """
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open another one")
