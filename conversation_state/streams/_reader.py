"""Reading: one position in a stream, for a thread or a task."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any, Generic, Self, TypeVar

from conversation_state._waiting import TaskWaiter, ThreadWaiter, Waiter, require_anyio
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    EMPTY,
    END,
    FILLED,
    MARKS,
    Ended,
    ProcessBound,
    StreamCell,
    raise_by_value,
    raise_mark,
)
from conversation_state.streams._pull import pull

T_co = TypeVar("T_co", covariant=True)

# So many elements in a row are read before other tasks may run.
_MAX_IN_A_ROW = 64

CLOSED = (
    "can't read this stream: it was closed. Read before you close it, or read a "
    "stream of its own: Stream.of(stream)."
)


class CellReader(ProcessBound, Generic[T_co]):
    """A position in a stream, and how to go on from there. See `StreamReader`."""

    __slots__ = (
        "__weakref__",
        "_ask",
        "_box",
        "_cell",
        "_in_a_row",
        "_is_closed",
        "_waiter",
    )

    # Set while this reader is the only reference to its cell: then items go from
    # the source to the reader, and no cell is made for them.
    _ask: Callable[[], list[BaseException] | None] | None
    _box: deque[Any]

    _cell: StreamCell | None
    _waiter: Waiter | None

    def __init__(self, cell: StreamCell, *, _made: bool = False) -> None:
        if not _made:
            raise TypeError("can't call StreamReader(); use iter(stream)")

        self._ask = None
        self._cell = cell
        self._in_a_row = 0
        self._is_closed = False
        self._waiter = None

    def close(self) -> None:
        """
        Release the position. Idempotent.

        If its thread or task is waiting, it gets a `StreamClosedError`.
        """
        self._is_closed = True
        self._ask = None
        self._cell = None
        # The waiter is woken after the cell is gone, because it looks for the cell when
        # it wakes.
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:  # noqa: C901, PLR0912 - calls take longer than all
        ask = self._ask
        if ask is None:
            cell = self._cell
            link = None if cell is None else cell.link
            if link is not None:
                if getrefcount(cell) <= _ALONE:
                    cell = None
                    ask = self._find_ask()
                else:
                    # This is what `_read_cell` does in the usual case.
                    fill = link[0].fill
                    error = None
                    try:
                        if fill is not None:
                            error = fill(cell)
                            if error is FILLED:
                                error = None
                                self._cell = cell.next  # type: ignore[union-attr]
                                if not self._is_closed:
                                    return cell.item  # type: ignore[union-attr,no-any-return]

                                self._cell = None
                    except (StopIteration, ValueError):
                        pass  # interrupted, or another thread asks

                    cell = fill = link = None
                    if error is not None:
                        del self  # as in the call below
                        raise_by_value(error.pop())

            link = None

        if ask is not None:
            error = None
            cell = self._cell  # so that closing this reader frees no source that runs
            try:
                box = self._box
                error = None if box else ask()
                item = box.popleft()
                if type(item) not in MARKS and not self._is_closed:
                    return item  # type: ignore[no-any-return]

                if cell is not None:
                    cell.item = item
            except (IndexError, StopIteration, ValueError):
                pass  # interrupted, or not alone any more

            self._ask = ask = cell = None
            if error is not None:
                del self
                raise_by_value(error.pop())

        try:
            return self._read_cell()
        finally:
            cell = None
            del self  # as in the call

    def _find_ask(self) -> Callable[[], list[BaseException] | None] | None:
        # What gets the next item, if this is the only reader of the cell; else None.
        if _count_holders(self) != _ALONE:
            return None

        cell = self._cell
        link = None if cell is None else cell.link
        if cell is None or link is None or cell.item is not EMPTY:
            return None

        ask: Callable[[], list[BaseException] | None] | None = link[0].ask
        if ask is not None:
            self._box = link[0].box
            self._ask = ask

        return ask

    def _read_cell(self) -> T_co:
        while True:
            cell = self._cell
            if cell is None or (
                cell.link is not None and not pull(cell, None, block=True)
            ):
                del cell  # so that closing this reader frees it
                cell = self._wait_for_item()

            item = cell.item
            if item is not END:
                self._cell = cell.next

            if self._is_closed:  # perhaps before the line above opened it again
                self._cell = None
                del cell, item
                raise StreamClosedError(CLOSED)

            if type(item) not in MARKS:
                return item  # type: ignore[no-any-return]

            if type(item) is not Ended:
                break

        try:
            raise_mark(item, StopIteration)
        finally:  # an error keeps the frames that it went through
            del cell, item, self

    def _wait_for_item(self) -> StreamCell:
        while True:
            # The waiter is stored where `close` can find it before the cell is looked
            # at, so that this reader does not go on sleeping after a close.
            waiter = self._waiter = ThreadWaiter()
            try:
                cell = self._cell
                if cell is None:
                    raise StreamClosedError(CLOSED)
                if pull(cell, waiter, block=True):
                    return cell

                del cell
                waiter.wait()
            finally:
                self._waiter = None
                waiter.leave()

    def __aiter__(self) -> Self:
        require_anyio()
        return self

    async def __anext__(self) -> T_co:
        while True:
            self._ask = None  # alone, it would block
            cell = self._cell
            if cell is None or (
                cell.link is not None and not pull(cell, None, block=False)
            ):
                del cell
                cell = await self._await_item()
                self._in_a_row = 0
            elif self._in_a_row >= _MAX_IN_A_ROW:
                await require_anyio().lowlevel.checkpoint()
                self._in_a_row = 0

            self._in_a_row += 1
            item = cell.item
            if item is not END:
                self._cell = cell.next

            if self._is_closed:
                self._cell = None
                del cell, item
                raise StreamClosedError(CLOSED)

            if type(item) not in MARKS:
                return item  # type: ignore[no-any-return]

            if type(item) is not Ended:
                break

        try:
            raise_mark(item, StopAsyncIteration)
        finally:  # an error keeps the frames that it went through
            del cell, item, self

    async def _await_item(self) -> StreamCell:
        while True:
            waiter = self._waiter = TaskWaiter()
            try:
                cell = self._cell
                if cell is None:
                    raise StreamClosedError(CLOSED)
                if pull(cell, waiter, block=False):
                    return cell

                del cell
                await waiter.wait()
            finally:
                self._waiter = None
                waiter.leave()


# A reader that is the only reference to its cell, as most are, makes no cells, which
# are most of the time that an element takes. Reference counts show it; how many of
# them a call adds differs between versions of Python, so that is measured. Where they
# are not exact, as in free-threaded builds, every element gets a cell.


def _count_holders(reader: CellReader[Any]) -> int:
    cell = reader._cell
    return getrefcount(cell)


def _count_one_holder() -> int:
    reader: CellReader[Any] = CellReader(StreamCell(None), _made=True)
    alone = _count_holders(reader)
    other = reader._cell
    is_exact = _count_holders(reader) == alone + 1 and other is not None
    has_gil = getattr(sys, "_is_gil_enabled", None)
    return alone if is_exact and (has_gil is None or has_gil()) else -1


_ALONE = _count_one_holder()
