"""
Streams made of streams: converted, as results, merged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar

import attrs

from conversation_state._persistent import final
from conversation_state._waiting import Waiter
from conversation_state.streams._cells import (
    AGAIN,
    END,
    LAST,
    MARKS,
    Ended,
    Fault,
    Source,
    StreamCell,
    calling,
    is_ended,
    raise_by_value,
)

T_co = TypeVar("T_co", covariant=True)


class _Skip(Enum):
    SKIP = "SKIP"

    def __repr__(self) -> str:
        return self.value


# What a function given to `Stream.convert` returns to leave an element out.
SKIP: Final = _Skip.SKIP
Skip = Literal[_Skip.SKIP]


@final
@attrs.frozen
class Ok(Generic[T_co]):
    """
    An element of a stream.

    Attributes:
        value: The element.
    """

    value: T_co


@final
@attrs.frozen
class Failed:
    """
    An error in a stream, at its place.

    Attributes:
        error: The error; the same object for all readers.
    """

    error: Exception


@final
@attrs.frozen
class SourceEnd:
    """
    The place where a source of `merge_named` ended.

    Attributes:
        name: The source's name.
    """

    name: str


class Converted(Source):
    """
    The result of a function for each item, called once for each.

    The state of a cell is a list: the source's cell, then what the function, and
    *on_error*, returned for its item. So their results survive an interrupt.
    """

    __slots__ = ("_calls", "_functions")

    def __init__(
        self,
        function: Callable[[Any], Any],
        on_error: Callable[[Exception], Any] | None,
    ) -> None:
        super().__init__()
        self._functions = (function, on_error)
        self._calls: list[Generator[Any, Any, None] | None] = [None, None]

    def list_upstream(self, state: Any) -> Sequence[StreamCell]:
        return (state[0],)

    def upstream(self, state: Any) -> Sequence[StreamCell]:
        at: StreamCell = state[0]
        return () if at.link is None else (at,)

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - the same
        *,
        block: bool,  # noqa: ARG002 - never waits itself
    ) -> StreamCell | None:
        _, step = cell.link  # type: ignore[misc]  # it is not filled
        at = step[0]
        if at.link is not None:
            return AGAIN

        if len(step) == 1:
            if type(at.item) in MARKS:
                step.append(at.item)
            else:
                self._call_function(0, step, at.item)

        # If there is a result, it was computed before an interrupt, and the function is
        # not called again.
        is_handled = self._functions[1] is None or len(step) > 2  # noqa: PLR2004
        if not is_handled and type(step[1]) is Fault:
            self._call_function(1, step, step[1].error)

        item = step[-1]
        if item is SKIP:
            # The same cell waits for the next item, so that elements that are left out
            # are freed, however many there are in a row.
            cell.link = (self, [at.next])
            return AGAIN

        cell.item = item
        return LAST if item is END else StreamCell((self, [at.next]))

    def _call_function(self, which: int, step: list[Any], argument: Any) -> None:
        calls = self._calls[which]
        if calls is None or is_ended(calls):  # ended by an interrupt
            function: Any = self._functions[which]
            calls = self._calls[which] = calling(function)

        error = calls.send((step, argument))
        if error is not None:
            raise_by_value(error)

        result = step[-1]
        if type(result) is Fault:
            result.caller = calls


class Results(Source):
    """
    Every item, error and end of a source, as a value.

    The state of a cell is the source's cell.
    """

    __slots__ = ()

    def list_upstream(self, state: Any) -> Sequence[StreamCell]:
        return (state,)

    def upstream(self, state: Any) -> Sequence[StreamCell]:
        at: StreamCell = state
        return () if at.link is None else (at,)

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - the same
        *,
        block: bool,  # noqa: ARG002 - never waits itself
    ) -> StreamCell | None:
        _, at = cell.link  # type: ignore[misc]  # it is not filled
        if at.link is not None:
            return AGAIN

        item = at.item
        if item is END:
            cell.item = END
            return LAST

        if type(item) not in MARKS:
            cell.item = Ok(item)
        elif type(item) is Fault:
            cell.item = Failed(item.error)
        else:
            cell.item = SourceEnd(item.name)

        return StreamCell((self, at.next))


class Merged(Source):
    """
    The items of several streams, as they come.

    The state of a cell is a tuple of the streams that have not ended, with
    their names, beginning with the one to be read next.
    """

    __slots__ = ()

    def list_upstream(self, state: Any) -> Sequence[StreamCell]:
        return [at for _, at in state]

    def upstream(self, state: Any) -> Sequence[StreamCell]:
        for _, at in state:
            if at.link is None:
                return ()

        return self.list_upstream(state)

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - the same
        *,
        block: bool,  # noqa: ARG002 - never waits itself
    ) -> StreamCell | None:
        _, branches = cell.link  # type: ignore[misc]  # it is not filled
        if not branches:
            cell.item = END
            return LAST

        for number, (name, at) in enumerate(branches):
            if at.link is not None:
                continue

            # The branch that was just read goes last, so that a stream that always has
            # an item ready does not keep the others from being read.
            others = branches[number + 1 :] + branches[:number]
            if at.item is not END:
                cell.item = at.item
                return StreamCell((self, (*others, (name, at.next))))

            if name is not None:
                cell.item = Ended(name)
                return StreamCell((self, others))

            cell.link = (self, others)
            break

        return AGAIN
