"""
A store in memory: gone when the program ends.

For tests, and for programs that want names and revisions and no files.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any, Self

from conversation_state.errors import StoreError
from conversation_state.store.backend import ConflictError, Key, Row
from conversation_state.store.backends._blocks import (
    BLOCK_ABANDONED,
    OneAtATime,
    SequentialBlock,
    renew_in_children,
)
from conversation_state.store.schema import TABLES

__all__ = ["MemoryBackend"]

_TIMEOUT_S = 30


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

    def select_columns(self, row: Row, columns: tuple[str, ...] | None) -> Row:
        if columns is None:
            return row

        return tuple([row[self.names.index(name)] for name in columns])


class MemoryBlock(SequentialBlock):
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._tables = backend.tables
        self.undo: list[Callable[[], object]] = []
        self._is_open = False

    def __enter__(self) -> Self:
        # Everything is inside of the `try`, because an interrupt may come as soon as a
        # call has returned.
        try:
            self._backend._begin_block(self)
            self._is_open = True
        except BaseException:
            self._backend._end_block(self)
            raise

        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is not None:
                self.abandon()
            elif not self._is_open:
                raise StoreError(self._backend.url, BLOCK_ABANDONED)
        finally:
            self._backend._end_block(self)

    def abandon(self) -> None:
        self._is_open = False
        _undo_changes(self.undo)

    def new_number(self) -> int:
        return self._backend.new_number()

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        there = self._tables[table]
        row = there.rows.get(key)
        return None if row is None else there.select_columns(row, columns)

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

        return [there.select_columns(there.rows[key], columns) for key in keys]

    def find(self, table: str, column: str, value: Any) -> list[Key]:
        there = self._tables[table]
        at = there.names.index(column)
        return [key for key in there.keys if there.rows[key][at] == value]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        self._check_open()
        for other, key in if_exists:
            if key not in self._tables[other].rows:
                raise ConflictError(other, key)

        for other, key in if_absent:
            if key in self._tables[other].rows:
                raise ConflictError(other, key)

        for row in rows:
            self._put_row(self._tables[table], row)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError(self._backend.url, BLOCK_ABANDONED)

    def _put_row(self, there: _TableRows, row: Row) -> None:
        key = row[0]
        if key in there.rows:
            raise ConflictError(key)

        # The undo step is recorded first, so that an interrupt between the two leaves a
        # change that can be undone. The step does not refer to the block, which has to
        # be freed when it is dropped.
        self.undo.append(lambda: _drop_row(there, key))
        insort(there.keys, key)
        there.rows[key] = row

    def set(self, table: str, key: Key, **values: Any) -> None:
        self._check_open()
        there = self._tables[table]
        old = there.rows[key]
        new = dict(zip(there.names, old, strict=True)) | values
        self.undo.append(lambda: there.rows.update({key: old}))
        there.rows[key] = tuple(new.values())

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        self._check_open()
        there = self._tables[table]
        start, stop = there.find_range(low, high)
        keys = there.keys[start:stop]
        gone = {key: there.rows[key] for key in keys}

        def restore_rows() -> None:
            there.rows.update(gone)
            there.keys = sorted(there.rows)

        self.undo.append(restore_rows)
        del there.keys[start:stop]
        for key in keys:
            del there.rows[key]

        return len(keys)


def _drop_row(there: _TableRows, key: Any) -> None:
    at = bisect_left(there.keys, key)
    if there.keys[at : at + 1] == [key]:
        del there.keys[at]

    there.rows.pop(key, None)


def _undo_changes(undo: list[Callable[[], object]]) -> None:
    """Take changes back, the last one first; a second time does nothing."""
    # A step is removed after it has run, because an interrupt may come between the two.
    while undo:
        undo[-1]()
        undo.pop()


class MemoryBackend:
    """Tables in memory. One block at a time."""

    def __init__(self) -> None:
        self.url = "memory:"
        self.tables = {name: _TableRows(name) for name in TABLES}
        self._number = 0
        self._is_closed = False
        self._turns = OneAtATime()
        # The undo steps of the open block. They are not kept in the block, which
        # releases its turn when nothing refers to it any more.
        self._undo: list[Callable[[], object]] = []
        renew_in_children(self)

    def renew(self) -> None:
        """Discard unfinished changes of other threads in a child of `os.fork`."""
        self._turns = OneAtATime()
        _undo_changes(self._undo)

    def _begin_block(self, block: MemoryBlock) -> None:
        if not self._turns.enter(block, _TIMEOUT_S):
            what = (
                f"another thread has been writing for {_TIMEOUT_S} seconds; try again"
            )
            raise StoreError(self.url, what)

        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open another one")

        # Changes of a block whose end was not reached.
        _undo_changes(self._undo)
        self._undo = block.undo

    def _end_block(self, block: MemoryBlock) -> None:
        try:
            # Otherwise *block* never got its turn, or lost it.
            if self._undo is block.undo:
                self._undo = []
        finally:
            self._turns.leave(block)

    def new_number(self) -> int:
        """A number that was not given before."""
        self._number += 1
        return self._number

    def reading(self) -> MemoryBlock:
        """A block that reads."""
        return MemoryBlock(self)

    def writing(self) -> MemoryBlock:
        """A block that writes."""
        return MemoryBlock(self)

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
