"""The stream itself, and its readers."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MappingView,
    MutableSequence,
    MutableSet,
)
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload
from weakref import ref

from conversation_state._waiting import require_anyio
from conversation_state._wording import shorten_repr
from conversation_state.errors import StreamClosedError
from conversation_state.streams._async_source import AsyncSource, list_pumps
from conversation_state.streams._cells import (
    ProcessBound,
    Source,
    StreamCell,
    find_sources,
)
from conversation_state.streams._derived import (
    Converted,
    Failed,
    Ok,
    Results,
    Skip,
    SourceEnd,
)
from conversation_state.streams._reader import CLOSED, CellReader
from conversation_state.streams._sources import BlockingSource, ReadySource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
V = TypeVar("V")

# Mutable collections, and views of them, are copied, because a stream's elements
# don't change.
_MUTABLE = (Mapping, MappingView, MutableSequence, MutableSet, memoryview)


class Stream(ProcessBound, Generic[T_co]):
    """
    A sequence that is computed while it is read, once for all readers.

    A value: it can be read any number of times, by threads and tasks at once,
    and always has the same elements. Each is taken from the source when the
    first reader asks for it, and kept as long as there is a reference to a
    position before it; so read a long stream without keeping a reference::

        for element in Stream.of(source): ...

    Errors are elements, too: `for` raises them at their place, `results` goes
    on after them.

    Closing a stream closes this value and its readers, not the streams made of
    it. A source that can't be read any more is closed: `send` returns False, and
    an iterator's `close` or `aclose` is called.
    """

    __slots__ = ("__weakref__", "_cell", "_readers")

    _cell: StreamCell | None
    _readers: set[ref[StreamReader[Any]]]

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "can't call Stream(); use Stream.of(iterable), pipe(capacity) or merge(...)"
        )

    @staticmethod
    def of(source: Iterable[T] | AsyncIterable[T]) -> Stream[T]:
        """
        The elements of *source*, an iterable or async iterable.

        The stream owns an iterator: nothing else should read it, and it is
        closed when the stream can't be read any more. An iterator may block, so
        for async code a thread reads each element; lists, ranges and other
        collections are read directly. An async iterator is read by a task of
        its own, in the first loop that asks for an element.

        Raises:
            TypeError:
                If *source* is neither.
        """
        given: Any = source
        if isinstance(given, Stream):  # another value, to be closed apart from it
            return stream_from(given._get_cell())
        if isinstance(given, StreamReader):
            return given.rest
        # An iterator (with `__next__`) is read once, even if it is also a collection.
        if isinstance(given, Collection) and not hasattr(given, "__next__"):
            if isinstance(given, _MUTABLE):
                given = tuple(source)  # type: ignore[arg-type]
            return stream_from(StreamCell((ReadySource(iter(given)), None, None)))
        if hasattr(given, "__iter__") or hasattr(given, "__getitem__"):
            return stream_from(StreamCell((BlockingSource(iter(given)), None, None)))
        if hasattr(given, "__aiter__"):
            return stream_from(StreamCell((AsyncSource(aiter(given)), None, None)))  # pyright: ignore[reportArgumentType]  # asked for

        raise TypeError(
            f"can't make a stream of {shorten_repr(source)}; expected an iterable or "
            f"async iterable{_suggest_source(source)}"
        )

    @overload
    def convert(self, function: Callable[[T_co], U | Skip]) -> Stream[U]: ...
    @overload
    def convert(
        self,
        function: Callable[[T_co], U | Skip],
        *,
        on_error: Callable[[Exception], V | Skip] | None,
    ) -> Stream[U | V]: ...
    def convert(
        self,
        function: Callable[[T_co], Any],
        *,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> Stream[Any]:
        """
        What *function* makes of each element; `SKIP` leaves it out.

        Called once for each element, by the first reader, in its thread and,
        if it is a task, in its event loop. What it raises is an error in the
        stream, which goes on after it.

        *on_error* is called with each error, the source's and the function's,
        and returns a replacement; `SKIP` leaves it out, too. What it raises is
        an error in the stream.

        Raises:
            TypeError:
                If one of them is not callable, or is an async function.

        >>> from conversation_state.streams import SKIP
        >>> even = Stream.of(range(5)).convert(lambda n: n if n % 2 == 0 else SKIP)
        >>> list(even)
        [0, 2, 4]
        """
        _check_function("function", function)
        if on_error is not None:
            _check_function("on_error", on_error)

        return stream_from(
            StreamCell((Converted(function, on_error), (self._get_cell(),), []))
        )

    def results(self) -> Stream[Ok[T_co] | Failed | SourceEnd]:
        """
        Every element as a value: `Ok`, or `Failed` at the place of an error.

        Below `merge_named`, `SourceEnd` where a source ended. Reading it
        raises none of the source's errors.
        """
        return stream_from(StreamCell((Results(), (self._get_cell(),), [])))

    def close(self) -> None:
        """
        Close this value and its readers, which can't be read afterwards.

        Streams made of it can. Idempotent.
        """
        self._cell = None
        # The loop uses a copy, because readers that are freed meanwhile remove
        # themselves.
        for there in list(self._readers):
            reader = there()
            if reader is not None:
                reader.close()

    async def aclose(self) -> None:
        """Like `close`, and wait until async sources without readers are closed."""
        require_anyio()
        pumps = list_pumps(self._cell)
        self.close()
        for source, pump in pumps:
            if source() is None:  # without readers, it was finalised by this call
                await pump.stopped()

    def abort(self) -> None:
        """
        Stop the source of this stream, even while it is read: a stop button.

        Readers get the elements that had come, then a `StreamClosedError`, then
        the end; those that wait get it at once. Idempotent, and never waits for a
        reader; may be called from any thread or task. Without effect on a source
        that has ended, and on a stream that was closed.

        Stops what `convert`, `results`, `merge` and `merge_named` read, at any
        depth: so also what other streams of the same sources read. Not what a
        generator of yours reads, which is closed.

        - In a pipe, what was sent can be read; `send` gives False from now on.
        - An iterator is closed. One that blocks in another thread can't be
          interrupted: that reader alone stays there until the iterator returns,
          and what it returns is dropped. A generator is closed then; any other
          iterator's `close` is called at once, by a thread of its own, which
          ends the wait of a connection.
        - An async iterator is cancelled in its event loop, and closed; one that
          was never asked is closed by `aabort` only.
        """
        cell = self._cell
        if cell is not None:
            _abort_sources(cell)

    async def aabort(self) -> None:
        """
        Like `abort`, and wait until the async sources that it stops are closed.

        Those of another event loop are not waited for.
        """
        require_anyio()
        cell = self._cell
        sources = [] if cell is None else _abort_sources(cell)
        del cell  # it would keep the elements for as long as this waits
        for source in sources:
            if isinstance(source, AsyncSource):
                await source.stopped()

    def __iter__(self) -> StreamReader[T_co]:
        reader: StreamReader[T_co] = StreamReader(self._get_cell(), _made=True)
        self._readers.add(ref(reader, self._readers.discard))
        if self._cell is None:  # closed before this reader was added
            reader.close()

        return reader

    def __aiter__(self) -> StreamReader[T_co]:
        require_anyio()
        return iter(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        require_anyio()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Stream: {'open' if self._cell is not None else 'closed'}>"

    def _get_cell(self) -> StreamCell:
        cell = self._cell
        if cell is None:
            raise StreamClosedError(CLOSED)

        return cell


def stream_from(cell: StreamCell) -> Stream[Any]:
    stream: Stream[Any] = Stream.__new__(Stream)
    stream._cell = cell
    stream._readers = set()
    return stream


def _abort_sources(cell: StreamCell) -> list[Source]:
    sources: list[Source] = []
    is_done = False
    try:
        sources = find_sources(cell)
        for source in sources:
            source.abort()

        is_done = True
    finally:
        if not is_done:  # interrupted; all steps can be repeated
            for source in sources or find_sources(cell):
                source.abort()

    return sources


def _suggest_source(source: object) -> str:
    if inspect.isgeneratorfunction(source) or inspect.isasyncgenfunction(source):
        return ": what calling it gives, perhaps"

    return ""


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        raise TypeError(f"{name} is {shorten_repr(function)}; expected a function")

    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{name} is {shorten_repr(function)}, an async function; expected one "
            "that returns the value. To await things for each element, write an "
            "async generator over the stream and make a stream of that."
        )


class StreamReader(CellReader[T_co]):
    """
    A position in a stream; made by `iter(stream)` and `aiter(stream)`.

    Belongs to one thread or task; others have readers of their own. It holds
    its own place only: what it has read is freed if there is no other reference.
    After an error it can be read on.

    Attributes:
        rest: The stream from here on.
    """

    __slots__ = ()

    @property
    def rest(self) -> Stream[T_co]:
        """
        The stream from here on.

        Raises:
            StreamClosedError:
                If this reader, or the stream it reads, was closed.
        """
        self._ask = None  # the stream and this reader now share the cell
        cell = self._cell
        if cell is None:
            raise StreamClosedError(CLOSED)

        return stream_from(cell)
