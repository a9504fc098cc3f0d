"""Streams and their readers; and what makes a stream of others, or reads one out."""

from __future__ import annotations

import inspect
from _thread import start_new_thread
from collections import deque
from collections.abc import (
    AsyncIterable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    MappingView,
    MutableSequence,
    MutableSet,
)
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import chain
from types import coroutine
from typing import Any, Generic, Self, TypeVar, overload
from weakref import ref

from conversation_state._waiting import load_anyio, run_in_anyio_thread, start_task
from conversation_state._wording import check_function, shorten_repr
from conversation_state.chunks import concat
from conversation_state.errors import StreamClosedError
from conversation_state.messages import Message
from conversation_state.streams._cells import (
    END,
    LAST,
    MARKS,
    MAX_IN_A_ROW,
    End,
    Fault,
    ProcessBound,
    Source,
    StreamCell,
    Waiter,
    WaitingTask,
    WaitingThread,
    fill,
    leave_queues,
    run,
    without_our_frames,
)
from conversation_state.streams._pipe import Pipe, PipeSource, Pump, Sender
from conversation_state.streams._sources import (
    Derived,
    Failed,
    IteratorSource,
    Merged,
    Ok,
    Skip,
    SourceEnd,
    convert,
    make_result,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
V = TypeVar("V")

# What a reader has if it has to wait.
_NOTHING = object()

_CLOSED = (
    "can't read this stream: it was closed. Read before you close it, or read a "
    "stream of its own: Stream.of(stream)."
)

# Mutable collections, and views of them, are copied, because a stream's elements
# don't change.
_MUTABLE = (Mapping, MappingView, MutableSequence, MutableSet, memoryview)


class Stream(ProcessBound, Generic[T_co]):
    """
    A sequence that is computed while it is read, once for all readers.

    A value: threads and tasks read it any number of times and always get the same
    elements. Each is taken from the source when the first reader asks for it, and kept
    as long as there is a reference to a position before it. Errors are elements, too:
    `for` raises them at their place, `results` goes on after them.

    A source that can't be read any more is closed: `send` returns False, and an
    iterator's `close` or `aclose` is called.
    """

    __slots__ = ("__weakref__", "_cell", "_readers", "_sources")

    def __init__(
        self, start: StreamCell | Source | None = None, sources: tuple[Source, ...] = ()
    ) -> None:
        if isinstance(start, Source):
            sources = sources or (start,)
            start = StreamCell(start)
        if not isinstance(start, StreamCell):
            raise TypeError(
                "can't call Stream(); use Stream.of(iterable), pipe(capacity) or "
                "merge(...)"
            )

        self._cell: StreamCell | None = start
        self._readers: set[ref[StreamReader[T_co]]] = set()
        # Those that it comes from in the end, and may stop.
        self._sources = sources

    @staticmethod
    def of(source: Iterable[T] | AsyncIterable[T]) -> Stream[T]:
        """
        The elements of *source*, an iterable or async iterable.

        The stream owns an iterator: nothing else should read it. As it may block, a
        thread reads it for async code; lists, ranges and other collections are read
        directly. An async iterator is read by a task of its own, in the first loop
        that asks for an element.

        Raises:
            TypeError: If *source* is neither.
        """
        given: Any = source
        if isinstance(given, Stream):  # another value, to be closed apart from it
            return Stream(given._get_cell(), given._sources)
        if isinstance(given, StreamReader):
            return given.rest
        # An iterator (with `__next__`) is read once, even if it is also a collection.
        if isinstance(given, Collection) and not hasattr(given, "__next__"):
            if isinstance(given, _MUTABLE):
                given = tuple(source)  # type: ignore[arg-type]
            return Stream(IteratorSource(iter(given), may_block=False))
        if hasattr(given, "__iter__") or hasattr(given, "__getitem__"):
            return Stream(IteratorSource(iter(given), may_block=True))
        if hasattr(given, "__aiter__"):
            return Stream(PipeSource(Pump(aiter(given))))  # pyright: ignore[reportArgumentType]  # asked for

        made = inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given)
        raise TypeError(
            f"can't make a stream of {shorten_repr(source)}; expected an iterable or "
            f"async iterable{': what calling it gives, perhaps' if made else ''}"
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

        Called once for each element, by the first reader, in its thread and, if it is
        a task, in its event loop. *on_error* is called with each error, the source's
        and the function's, and returns a replacement or `SKIP`. What either raises is
        an error in the stream, which goes on after it.

        Raises:
            TypeError: If one of them is not callable, or is an async function: to await
                things for each element, make a stream of an async generator over this
                one.

        >>> from conversation_state.streams import SKIP
        >>> even = Stream.of(range(5)).convert(lambda n: n if n % 2 == 0 else SKIP)
        >>> list(even)
        [0, 2, 4]
        """
        check_function("function", function)
        if on_error is not None:
            check_function("on_error", on_error)

        make = partial(convert, function, on_error)
        return Stream(Derived(self._get_cell(), make), self._sources)

    def results(self) -> Stream[Ok[T_co] | Failed | SourceEnd]:
        """
        Every element as a value: `Ok`, or `Failed` at the place of an error.

        Below `merge_named`, `SourceEnd` where a source ended. Reading it
        raises none of the source's errors.
        """
        return Stream(Derived(self._get_cell(), make_result), self._sources)

    def close(self) -> None:
        """Close this value and its readers, not the streams made of it. Idempotent."""
        self._cell = None
        self._sources = ()
        for there in self._readers.copy():
            if (reader := there()) is not None:
                reader.close()

    async def aclose(self) -> None:
        """Like `close`, and wait until async sources without readers are closed."""
        pumps = list_pumps(self)
        self.close()
        for pump in pumps:
            if pump.is_deserted:
                await pump.stopped()

    def abort(self) -> None:
        """
        Stop the source of this stream, even while it is read: a stop button.

        Readers get what had come, then a `StreamClosedError`, then the end; those that
        wait get it at once. Idempotent, and without effect on a source that has ended
        and on a stream that was closed. Never waits; may be called from anywhere.

        Stops what `convert`, `results`, `merge` and `merge_named` read, at any depth,
        also for other streams of the same sources:

        - `send` gives False from now on; what was sent can be read.
        - An iterator is closed. A thread that is inside of it stays there until it
          returns, and what it returns is dropped. A generator is closed then; of any
          other iterator `close` is called at once, by a thread of its own, which ends
          the wait of a connection.
        - An async iterator is cancelled in its event loop, and closed; one that was
          never asked is closed by `aabort` only.
        """
        for source in self._sources:
            source.abort()

    async def aabort(self) -> None:
        """Like `abort`, and wait until the async sources of this loop are closed."""
        pumps = list_pumps(self)
        self.abort()
        for pump in pumps:
            await pump.stopped()

    def __iter__(self) -> StreamReader[T_co]:
        reader: StreamReader[T_co] = StreamReader(self._get_cell(), self._sources)
        self._readers.add(ref(reader, self._readers.discard))
        if self._cell is None:  # closed before this reader was added
            reader.close()

        return reader

    def __aiter__(self) -> StreamReader[T_co]:
        return iter(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Stream: {'open' if self._cell is not None else 'closed'}>"

    def _get_cell(self) -> StreamCell:
        cell = self._cell
        if cell is None:
            raise StreamClosedError(_CLOSED)

        return cell


def list_pumps(stream: Stream[Any]) -> list[Pump]:
    # Without their sources, whose end a pump learns of.
    pipes = [each.pipe for each in stream._sources if isinstance(each, PipeSource)]
    return [each for each in pipes if isinstance(each, Pump)]


class StreamReader(ProcessBound, Generic[T_co]):
    """
    A position in a stream; made by `iter(stream)` and `aiter(stream)`.

    Belongs to one thread or task. It holds its own place only: what it has read is
    freed if there is no other reference. After an error it can be read on.
    """

    __slots__ = (
        "__weakref__",
        "_cell",
        "_in_a_row",
        "_is_closed",
        "_sources",
        "_waiter",
    )

    def __init__(self, cell: StreamCell, sources: tuple[Source, ...] = ()) -> None:
        if not isinstance(cell, StreamCell):
            raise TypeError("can't call StreamReader(); use iter(stream)")

        self._cell: StreamCell | None = cell
        self._in_a_row = 0
        self._is_closed = False
        self._sources = sources
        self._waiter: Waiter | None = None

    @property
    def rest(self) -> Stream[T_co]:
        """
        The stream from here on.

        Raises:
            StreamClosedError: If this reader, or the stream it reads, was closed.
        """
        cell = self._cell
        if cell is None:
            raise StreamClosedError(_CLOSED)

        return Stream(cell, self._sources)

    def close(self) -> None:
        """Release the position; who waits gets a `StreamClosedError`. Idempotent."""
        self._is_closed = True
        self._cell = None
        self._sources = ()
        # Woken after the cell is gone, since it looks for that when it wakes.
        waiter = self._waiter
        if waiter is not None:
            waiter.set()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        while (item := self._take_next(StopIteration, block=True)) is _NOTHING:
            run(self._wait_for_next(WaitingThread(), block=True))

        return item  # type: ignore[no-any-return]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        if self._in_a_row >= MAX_IN_A_ROW:
            self._in_a_row = 0
            await load_anyio().lowlevel.checkpoint()

        self._in_a_row += 1
        while (item := self._take_next(StopAsyncIteration, block=False)) is _NOTHING:
            self._in_a_row = 0
            await self._wait_for_next(WaitingTask(), block=False)

        return item  # type: ignore[no-any-return]

    @coroutine  # as `Pipe.wait_to_send`, and the loop has its form
    def _wait_for_next(
        self, waiter: Waiter, *, block: bool
    ) -> Generator[Any, Any, None]:
        # Until there is an item, or this reader is closed.
        self._waiter = waiter
        try:
            while True:
                cell = self._cell
                if cell is None or cell.source is None:
                    break
                if fill(cell, waiter, block=block):
                    break

                del cell
                yield from waiter.wait()  # type: ignore[misc]
        finally:
            self._waiter = None
            leave_queues(waiter)

    def _take_next(self, end: type[Exception], *, block: bool) -> Any:
        # The next item, or `_NOTHING` if that has to wait.
        while True:
            cell = self._cell
            if cell is None:
                raise StreamClosedError(_CLOSED)

            if cell.source is not None and not fill(cell, None, block=block):
                return _NOTHING

            item = cell.item
            self._cell = cell.next
            if self._is_closed:  # perhaps before the line above opened it again
                self._cell = None
                del cell, item
                raise StreamClosedError(_CLOSED)

            if type(item) not in MARKS:
                return item

            if item is END:
                raise end

            if type(item) is Fault:
                break

        error, context = item.error, item.context
        try:
            raise error.with_traceback(item.traceback)
        finally:
            BaseException.__setattr__(error, "__context__", context)
            # An error keeps the frames that it goes through, and their variables.
            del cell, context, error, item, self


@overload
def pipe(capacity: int) -> tuple[Sender[Any], Stream[Any]]: ...
@overload
def pipe(capacity: int, *, of: type[T]) -> tuple[Sender[T], Stream[T]]: ...
def pipe(
    capacity: int,
    *,
    of: type[Any] | None = None,  # noqa: ARG001 - for type checkers
) -> tuple[Sender[Any], Stream[Any]]:
    """
    A sender and a stream: what is sent into one is read from the other.

    At most *capacity* elements are buffered, and senders wait while the buffer is
    full; with 0, until a reader waits for the element. What a fast reader has read and
    a slower one has not is kept for that one, without bounds. *of* is the type of the
    elements for type checkers; it is not checked.

    Raises:
        ValueError: If *capacity* is negative, or no integer.

    >>> sender, stream = pipe(2)
    >>> sender.send("one"), sender.fail(ValueError("two")), sender.close()
    (True, True, None)
    >>> list(stream.results())
    [Ok(value='one'), Failed(error=ValueError('two'))]
    """
    if capacity.__class__ is not int or capacity < 0:
        raise ValueError(
            f"capacity is {shorten_repr(capacity)}; expected a number of elements, 0 "
            "or more"
        )

    shared = Pipe(capacity)
    return Sender(shared), Stream(PipeSource(shared))


def merge(*streams: Stream[T]) -> Stream[T]:
    """
    The elements of several streams, as they come.

    Keeps the order of each stream; those that have an element ready take turns. At
    most one element of a stream is read ahead, of an iterator that may block by a
    thread while a reader waits. One stream is returned as it is; no streams give an
    empty one. Linear in the number of streams for each element.

    Raises:
        TypeError: If an argument is not a stream.
    """
    for stream in streams:
        _check_stream(stream)

    if len(streams) == 1:
        return streams[0]

    return _merge_cells([stream._get_cell() for stream in streams], streams)


def merge_named(streams: Mapping[str, Stream[T]]) -> Stream[T]:
    """
    Like `merge`, and `Stream.results` gives a `SourceEnd` where one ends, also those
    of inner named merges.

    Raises:
        TypeError: If *streams* is not a mapping of names to streams.
    """
    if not isinstance(streams, Mapping):
        raise TypeError(
            f"can't merge {shorten_repr(streams)}; expected a mapping of names to "
            "streams"
        )

    for name, stream in streams.items():
        if not isinstance(name, str):
            raise TypeError(f"a stream's name is {shorten_repr(name)}; expected a str")

        _check_stream(stream)

    named = [
        StreamCell(Derived(each._get_cell(), lambda item: item, End(name)))
        for name, each in streams.items()
    ]
    return _merge_cells(named, streams.values())


def _merge_cells(
    cells: list[StreamCell], streams: Iterable[Stream[Any]]
) -> Stream[Any]:
    sources = dict.fromkeys(chain.from_iterable(each._sources for each in streams))
    start = Merged(*cells) if len(cells) > 1 else cells[0] if cells else LAST
    return Stream(start, (*sources,))


def _check_stream(stream: object) -> None:
    if not isinstance(stream, Stream):
        raise TypeError(
            f"expected a stream, Stream.of(...) perhaps; got {shorten_repr(stream)}"
        )


def drain(stream: Stream[Any], on_end: Callable[[Exception | None], object]) -> None:
    """
    Read a stream in the background, so that it goes on without other readers.

    A task of the running event loop reads an async source, and a thread any other.

    Args:
        stream: The stream.
        on_end: Called in a thread when it has ended or failed, with the error, if any:
            a `StreamClosedError` if it was aborted or its event loop ends, a
            RuntimeError if its source raised an interrupt, or is async where there is
            no event loop.

    Raises:
        TypeError: If *stream* is no stream, or *on_end* no function.
    """
    _check_stream(stream)
    check_function("on_end", on_end)
    stream._get_cell()
    if all(pump.is_over for pump in list_pumps(stream)):
        context = copy_context()
        start_new_thread(lambda: context.run(_read_to_end, stream, on_end), ())
        return

    try:
        start_task(partial(_aread_to_end, stream, on_end))
    except RuntimeError:
        failure = RuntimeError(
            "no event loop runs here, and this stream's source is async: read it in a "
            "task, or give a source that is not async"
        )
        on_end(failure)


def _read_to_end(
    stream: Stream[Any], on_end: Callable[[Exception | None], object]
) -> None:
    error = None
    try:
        deque(stream, 0)
    except Exception as raised:  # noqa: BLE001 - it is passed on
        error = raised
    except BaseException as raised:  # noqa: BLE001 - it is passed on, too
        # SystemExit, of a tool perhaps: it ends this thread alone, without a word.
        error = RuntimeError(f"the source raised {raised!r:.200}")
        error.__cause__ = raised

    on_end(error)


async def _aread_to_end(
    stream: Stream[Any], on_end: Callable[[Exception | None], object]
) -> None:
    error = None
    try:
        async for _ in stream:
            pass
    except Exception as raised:  # noqa: BLE001 - it is passed on
        error = raised
    except BaseException:
        on_end(StreamClosedError("the event loop of this stream's reader ends"))
        raise

    await run_in_anyio_thread(partial(on_end, error), is_shielded=True)


class _Collecting:
    """Chunks that are read of a stream, whose message an error has that ends it."""

    def __init__(self, stream: Any) -> None:
        self._chunks: list[Message] = []
        self._reader = iter(Stream.of(stream))

    def __enter__(self) -> tuple[StreamReader[Message], list[Message]]:
        return self._reader, self._chunks

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> None:
        # The error keeps the frames it went through, which must not keep the source.
        self._reader.close()
        if not isinstance(error, Exception):
            if error is not None:
                error.with_traceback(without_our_frames(error.__traceback__))
            return

        # Some errors allow no attributes, and some chunks are no message.
        with suppress(Exception):
            error.partial = None  # type: ignore[attr-defined]
            note = (
                f"chunks read before: {len(self._chunks)}; `partial` is their message"
            )
            # All readers get the same error.
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)

            error.partial = concat(self._chunks)  # type: ignore[attr-defined]


def collect(stream: Iterable[Message]) -> Message:
    """
    The message that the chunks of *stream* are pieces of.

    Reads to the end, at a position of its own. Any iterable of messages will do. An
    error in the stream is raised; its attribute `partial` is the message until there,
    or None if no chunk came.

    Raises:
        ConcatError: If there are no chunks, or they are not pieces of one message.
    """
    with _Collecting(stream) as (reader, chunks):
        del stream
        chunks.extend(reader)

    return concat(chunks)


async def acollect(stream: AsyncIterable[Message] | Iterable[Message]) -> Message:
    """Like `collect`, without blocking other tasks."""
    with _Collecting(stream) as (reader, chunks):
        del stream
        async for chunk in reader:
            chunks.append(chunk)

    return concat(chunks)
