"""
Streams made of streams: converted, told as results, merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar

import attrs

from conversation_state._waiting import Waiter
from conversation_state.streams._cells import (
    END,
    MARKS,
    PENDING,
    Cell,
    Ended,
    Fault,
    Source,
    calling,
    pull,
)

__all__ = [
    "SKIP",
    "Converted",
    "Failed",
    "Merged",
    "Ok",
    "Results",
    "Skip",
    "SourceEnd",
]

T_co = TypeVar("T_co", covariant=True)


class _Skip(Enum):
    SKIP = "SKIP"

    def __repr__(self) -> str:
        return self.value


# What a function given to `Stream.convert` returns to leave an element out.
SKIP: Final = _Skip.SKIP
Skip = Literal[_Skip.SKIP]


@attrs.frozen
class Ok(Generic[T_co]):
    """
    An element of a stream.

    Attributes:
        value: The element.
    """

    value: T_co


@attrs.frozen
class Failed:
    """
    An error in a stream, at its place.

    Attributes:
        error: The error; the same object for all who read it.
    """

    error: Exception


@attrs.frozen
class SourceEnd:
    """
    The place where a source of `merge_named` ended.

    Attributes:
        name: The source's name.
    """

    name: str


# So many elements in a row may be left out without giving way to other tasks.
_IN_A_ROW = 1_000


class Converted(Source):
    """
    What a function makes of each item, called once for each.
    """

    __slots__ = ("_at", "_convert", "_functions", "_handle")

    _convert: Callable[[Any], Any]
    _handle: Callable[[Any], Any] | None

    def __init__(
        self,
        at: Cell,
        function: Callable[[Any], Any],
        on_error: Callable[[Exception], Any] | None,
    ) -> None:
        super().__init__()
        self._at = at
        self._functions = (function, on_error)
        self._arm()

    def _arm(self) -> None:
        function, on_error = self._functions
        self._convert = calling(function)
        self._handle = None if on_error is None else calling(on_error)

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002, C901 - other cells are asked; calls cost
        left = _IN_A_ROW
        while True:
            at = self._at
            if at.source is not None and not pull(at, waiter, block=block):
                return PENDING

            item = at.item
            try:
                if type(item) not in MARKS:
                    item = self._convert(item)
                    if type(item) is Fault:
                        item.caller = self._convert
                if self._handle is not None and type(item) is Fault:
                    item = self._handle(item.error)
                    if type(item) is Fault:
                        item.caller = self._handle
            except BaseException:
                self._arm()
                raise

            # Not before: who is interrupted in a function has got nothing.
            self._at = at.next
            if item is not SKIP:
                return item

            left -= 1
            if not left:
                if not block:
                    if waiter is not None:
                        waiter.wake()

                    return PENDING

                left = _IN_A_ROW


class Results(Source):
    """
    Every item, error and end of a source, as a value.
    """

    __slots__ = ("_at",)

    def __init__(self, at: Cell) -> None:
        super().__init__()
        self._at = at

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002 - another cell is asked
        at = self._at
        if at.source is not None and not pull(at, waiter, block=block):
            return PENDING

        item = at.item
        self._at = at.next
        if type(item) not in MARKS:
            return Ok(item)
        if type(item) is Fault:
            return Failed(item.error)
        if type(item) is Ended:
            return SourceEnd(item.name)

        return END


class Merged(Source):
    """
    The items of several streams, as they come.
    """

    __slots__ = ("_branches",)

    def __init__(self, branches: Iterable[tuple[str | None, Cell]]) -> None:
        super().__init__()
        self._branches = deque(branches)

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002 - other cells are asked
        branches = self._branches
        for _ in range(len(branches)):
            name, at = branches[0]
            # Only who waits for one source alone may block in it.
            alone = len(branches) == 1
            if at.source is not None and not pull(at, waiter, block=block and alone):
                branches.rotate(-1)
                continue

            item = at.item
            if item is not END:
                branches[0] = (name, at.next)
                branches.rotate(-1)
                return item

            branches.popleft()
            if name is not None:
                return Ended(name)

        return PENDING if branches else END
