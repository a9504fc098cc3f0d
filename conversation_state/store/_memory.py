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

from conversation_state.store.backend import TABLES, ConflictError, Key, Row

__all__ = ["MemoryBackend"]


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

        insort(there.keys, key)
        there.rows[key] = row
        self._undo.append(lambda: self._drop(there, key))

    @staticmethod
    def _drop(there: _Rows, key: Any) -> None:
        del there.keys[bisect_left(there.keys, key)]
        del there.rows[key]

    def set(self, table: str, key: Key, **values: Any) -> None:
        there = self._tables[table]
        old = there.rows[key]
        new = dict(zip(there.names, old, strict=True)) | values
        there.rows[key] = tuple(new.values())
        self._undo.append(lambda: there.rows.update({key: old}))

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        there = self._tables[table]
        start, stop = there.range(low, high)
        keys = there.keys[start:stop]
        gone = {key: there.rows.pop(key) for key in keys}
        del there.keys[start:stop]

        def bring_back() -> None:
            there.keys[start:start] = keys
            there.rows.update(gone)

        self._undo.append(bring_back)
        return len(keys)

    def undo(self) -> None:
        for step in reversed(self._undo):
            step()


class MemoryBackend:
    """
    Tables in memory. One block at a time.
    """

    def __init__(self) -> None:
        self.url = "memory:"
        self._tables = {name: _Rows(name) for name in TABLES}
        self._lock = RLock()
        self._number = 0

    def _new_number(self) -> int:
        self._number += 1
        return self._number

    @contextmanager
    def reading(self) -> Iterator[_Block]:
        """
        A block that reads.
        """
        with self._lock:
            yield _Block(self._tables, self._new_number)

    @contextmanager
    def writing(self) -> Iterator[_Block]:
        """
        A block that writes.
        """
        with self._lock:
            block = _Block(self._tables, self._new_number)
            try:
                yield block
            except BaseException:
                block.undo()
                raise

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
        Nothing is held but memory, which goes with the store.
        """
