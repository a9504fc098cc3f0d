"""Streams made of streams: converted, as results, merged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
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
    Link,
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


class _Mapped(Source):
    """
    An item for each item of one stream.

    What a cell's link has besides its upstream is a list, in which `_make_item` notes
    what has to survive an interrupt.
    """

    __slots__ = ()

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - never waits itself
        *,
        block: bool,  # noqa: ARG002 - the same
    ) -> StreamCell | None:
        _, (at,), noted = cell.link  # type: ignore[misc]  # it is not filled
        if at.link is not None:
            return AGAIN

        item = self._make_item(at.item, noted)
        following: Link = (self, (at.next,), [])
        if item is SKIP:
            # The same cell waits for the next item, so that elements that are left out
            # are freed, however many there are in a row.
            cell.link = following
            return AGAIN

        cell.item = item
        return LAST if item is END else StreamCell(following)

    @abstractmethod
    def _make_item(self, item: Any, noted: list[Any]) -> Any: ...


class Converted(_Mapped):
    """
    The result of a function for each item, called once for each.

    It notes what the function, and *on_error*, returned for an item.
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

    def _make_item(self, item: Any, noted: list[Any]) -> Any:
        # If there is a result, it was computed before an interrupt, and the function is
        # not called again.
        if not noted:
            if type(item) in MARKS:
                noted.append(item)
            else:
                self._call_function(0, noted, item)

        is_handled = self._functions[1] is None or len(noted) > 1
        if not is_handled and type(noted[0]) is Fault:
            self._call_function(1, noted, noted[0].error)

        return noted[-1]

    def _call_function(self, which: int, noted: list[Any], argument: Any) -> None:
        calls = self._calls[which]
        if calls is None or is_ended(calls):  # ended by an interrupt
            function: Any = self._functions[which]
            calls = self._calls[which] = calling(function)

        error = calls.send((noted, argument))
        if error is not None:
            raise_by_value(error)

        result = noted[-1]
        if type(result) is Fault:
            result.caller = calls


class Results(_Mapped):
    """Every item, error and end of a source, as a value."""

    __slots__ = ()

    def _make_item(self, item: Any, noted: list[Any]) -> Any:  # noqa: ARG002 - repeatable
        if type(item) not in MARKS:
            return Ok(item)

        if type(item) is Fault:
            return Failed(item.error)

        return END if item is END else SourceEnd(item.name)


class Merged(Source):
    """
    The items of several streams, as they come.

    The upstream are the streams that have not ended, beginning with the one to be read
    next; behind them are their names.
    """

    __slots__ = ()

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - never waits itself
        *,
        block: bool,  # noqa: ARG002 - the same
    ) -> StreamCell | None:
        _, branches, names = cell.link  # type: ignore[misc]  # it is not filled
        if not branches:
            cell.item = END
            return LAST

        for number, at in enumerate(branches):
            if at.link is not None:
                continue

            # The branch that was just read goes last, so that a stream that always has
            # an item ready does not keep the others from being read.
            others = branches[number + 1 :] + branches[:number]
            other_names = names[number + 1 :] + names[:number]
            name = names[number]
            if at.item is not END:
                cell.item = at.item
                return StreamCell((self, (*others, at.next), (*other_names, name)))

            if name is not None:
                cell.item = Ended(name)
                return StreamCell((self, others, other_names))

            cell.link = (self, others, other_names)
            break

        return AGAIN
