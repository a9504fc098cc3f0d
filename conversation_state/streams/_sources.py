"""Sources: iterators, and streams made of streams."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from enum import Enum
from itertools import islice
from types import GeneratorType
from typing import Any, Final, Generic, Literal, TypeVar

import attrs

from conversation_state._persistent import final
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    ABORTED,
    END,
    MARKS,
    End,
    Fault,
    Made,
    Source,
    StreamCell,
    call,
    log_failed_close,
    make_broken_fault,
    wake_all,
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
    """An element of a stream, its *value*."""

    value: T_co


@final
@attrs.frozen
class Failed:
    """An *error* in a stream, at its place; the same object for all readers."""

    error: Exception


@final
@attrs.frozen
class SourceEnd:
    """The place where the source of that *name* in a `merge_named` ended."""

    name: str


class IteratorSource(Source):
    """
    Any iterator. Threads ask it themselves; for tasks, and for merges, a thread of its
    own does, one item at a time, if asking it may block.
    """

    __slots__ = ("_interrupt", "_is_asked", "_iterator", "needs_thread")

    def __init__(self, iterator: Iterator[Any], *, may_block: bool) -> None:
        super().__init__()
        self._interrupt = ""
        self._is_asked = False  # by a thread of its own
        self._iterator = iterator
        self.needs_thread = may_block

    def work(self) -> None:
        items = self.items
        try:
            # One call, since an interrupt comes before the iterator is asked or after
            # its item is kept.
            failed = call(items.extend, islice(self._iterator, 1))
        except BaseException as error:
            self._interrupt = type(error).__name__
            raise

        if failed is None and items:
            self._interrupt = ""
            return

        if failed is None and self._interrupt:
            # An interrupt ends a generator: that is no end of the stream.
            failed = make_broken_fault(f"{self._interrupt} went through its source")

        self.is_over = True
        items.extend((END,) if failed is None else (failed, END))

    def end_turn(self, cell: StreamCell, made: Made | None = None) -> None:
        super().end_turn(cell, made)
        if self.is_over:
            self._close_iterator()

    def ask_in_thread(self, cell: StreamCell) -> None:
        if not self._is_asked:
            context = copy_context()
            start_new_thread(lambda: context.run(self._ask, cell), ())
            self._is_asked = True

    def _ask(self, cell: StreamCell) -> None:
        # Its errors are items already, and interrupts are noted.
        with suppress(BaseException):
            self.poll(cell, None, block=True)

        with self.lock:
            self._is_asked = False
            wake_all(self.waiters)

    def abort(self) -> None:
        with self.lock:
            if not self.is_over:
                # Whoever asks the iterator now adds its item after the end.
                self.items.extend((Fault(StreamClosedError(ABORTED)), END))
                self.is_over = True

            is_asked = self.turn is not None
            wake_all(self.waiters)

        if not is_asked:
            self._close_iterator()
        elif not isinstance(self._iterator, GeneratorType):
            # Closing it may end what it waits for, as with a connection, or may wait
            # for that, too. A generator is closed by the one that asks it.
            start_new_thread(self._close_iterator, ())

    def _close_iterator(self) -> None:
        with self.lock:
            iterator, self._iterator = self._iterator, _NOTHING

        try:
            getattr(iterator, "close", bool)()
        except Exception as error:  # noqa: BLE001 - the source's own
            log_failed_close(iterator, error)

    def __del__(self) -> None:
        # A generator is closed when it is freed; a connection isn't.
        self._close_iterator()


_NOTHING: Iterator[Any] = iter(())


class Derived(Source):
    """What *make* makes of each item, called once for each; *last* at the end."""

    __slots__ = ("_last", "_make")

    def __init__(
        self, at: StreamCell, make: Callable[[Any], Any], last: End = END
    ) -> None:
        super().__init__(at)
        self._last = last
        self._make = make

    def work(self) -> Made | None:
        (at,) = self.upstream
        if at.source is not None:  # another reader left out what was there
            return None
        if at.item is END:
            return (self._last,), ()

        item = self._make(at.item)
        return () if item is SKIP else (item,), (at.next,)


def convert(
    function: Callable[[Any], Any], on_error: Callable[[Any], Any] | None, item: Any
) -> Any:
    if type(item) not in MARKS:
        item = call(function, item)

    if type(item) is Fault and on_error is not None:
        item = call(on_error, item.error)

    return item


def make_result(item: Any) -> Ok[Any] | Failed | SourceEnd:
    # An item, an error or a source's end as a value.
    if type(item) not in MARKS:
        return Ok(item)

    return Failed(item.error) if type(item) is Fault else SourceEnd(item.name)


class Merged(Source):
    """
    The items of several streams, as they come.

    The upstream are the streams that have not ended, beginning with the one to be read
    next.
    """

    __slots__ = ()

    def work(self) -> Made | None:
        upstream = self.upstream
        for number, at in enumerate(upstream):
            if at.source is None:
                # The one that is read goes last, so that a stream that always has an
                # item ready does not keep the others from being read.
                others = upstream[number + 1 :] + upstream[:number]
                if at.item is not END:
                    return (at.item,), (*others, at.next)

                return () if others else (END,), others

        return None
