"""
Pipes and merged streams, and one message of a stream of chunks: functions that make
a stream of something else, and something else of a stream.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import chain
from typing import Any, TypeVar, overload

from conversation_state._waiting import run_in_anyio_thread, start_task
from conversation_state._wording import shorten_repr
from conversation_state.chunks import concat
from conversation_state.errors import StreamClosedError
from conversation_state.messages import Message
from conversation_state.streams._cells import LAST, End, StreamCell, without_our_frames
from conversation_state.streams._pipe import Pipe, PipeSource, Sender
from conversation_state.streams._sources import Derived, Merged
from conversation_state.streams._stream import (
    Stream,
    check_function,
    list_pumps,
    make_source_stream,
    make_stream,
)

T = TypeVar("T")


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
        ValueError:
            If *capacity* is negative, or no integer.

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
    return Sender(shared), make_source_stream(PipeSource(shared))


def merge(*streams: Stream[T]) -> Stream[T]:
    """
    The elements of several streams, as they come.

    Keeps the order of each stream; those that have an element ready take turns. At
    most one element of a stream is read ahead, of an iterator that may block by a
    thread while a reader waits. One stream is returned as it is; no streams give an
    empty one. Linear in the number of streams for each element.

    Raises:
        TypeError:
            If an argument is not a stream.
    """
    for stream in streams:
        _check_stream(stream)

    if len(streams) == 1:
        return streams[0]

    return _merge([stream._get_cell() for stream in streams], streams)


def merge_named(streams: Mapping[str, Stream[T]]) -> Stream[T]:
    """
    Like `merge`, and `Stream.results` gives a `SourceEnd` where one ends, also those
    of inner named merges.

    Raises:
        TypeError:
            If *streams* is not a mapping of names to streams.
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
        StreamCell(Derived(each._get_cell(), _keep, End(name)))
        for name, each in streams.items()
    ]
    return _merge(named, streams.values())


def _keep(item: Any) -> Any:
    return item


def _merge(cells: list[StreamCell], streams: Iterable[Stream[Any]]) -> Stream[Any]:
    sources = dict.fromkeys(chain.from_iterable(each._sources for each in streams))
    start = Merged(*cells) if len(cells) > 1 else cells[0] if cells else LAST
    return make_stream(start, (*sources,))


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
        TypeError:
            If *stream* is no stream, or *on_end* no function.
    """
    _check_stream(stream)
    check_function("on_end", on_end)
    stream._get_cell()
    if all(pump.is_over for pump in list_pumps(stream)):
        context = copy_context()
        start_new_thread(lambda: context.run(_drain, stream, on_end), ())
        return

    try:
        start_task(partial(_adrain, stream, on_end))
    except RuntimeError as error:
        failure = RuntimeError(
            "no event loop runs here, and this stream's source is async: read it in a "
            "task, or give a source that is not async"
        )
        failure.__cause__ = error
        on_end(failure)


def _drain(stream: Stream[Any], on_end: Callable[[Exception | None], object]) -> None:
    error = None
    try:
        deque(stream, 0)
    except Exception as raised:  # noqa: BLE001 - it is passed on
        error = raised
    except BaseException as raised:
        # SystemExit, of a tool perhaps: it ends this thread alone, without a word.
        error = RuntimeError(f"the source raised {raised!r:.200}")
        error.__cause__ = raised
        on_end(error)
        raise

    on_end(error)


async def _adrain(
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


def collect(stream: Iterable[Message]) -> Message:
    """
    The message that the chunks of *stream* are pieces of.

    Reads to the end, at a position of its own. Any iterable of messages will do. An
    error in the stream is raised; its attribute `partial` is the message until there,
    or None if there is none.

    Raises:
        ConcatError:
            If there are no chunks, or they are not pieces of one message.
    """
    chunks: list[Message] = []
    reader = iter(Stream.of(stream))
    del stream
    try:
        chunks.extend(reader)
    except BaseException as error:
        _attach_partial(error, chunks)
        raise
    finally:
        # The error keeps this frame, which must not keep the source.
        reader.close()

    return concat(chunks)


async def acollect(stream: AsyncIterable[Message] | Iterable[Message]) -> Message:
    """Like `collect`, without blocking other tasks."""
    chunks: list[Message] = []
    reader = aiter(Stream.of(stream))
    del stream
    try:
        async for chunk in reader:
            chunks.append(chunk)  # noqa: PERF401 - what was read must survive an error
    except BaseException as error:
        _attach_partial(error, chunks)
        raise
    finally:
        reader.close()

    return concat(chunks)


def _attach_partial(error: BaseException, chunks: list[Message]) -> None:
    if not isinstance(error, Exception):
        # An interrupt may be raised in any frame, and those frames would keep the
        # source alive.
        error.with_traceback(without_our_frames(error.__traceback__))
        return

    partial = None
    if chunks:
        # The error being raised matters more than why there is no partial message.
        with suppress(Exception):
            partial = concat(chunks)

    note = f"chunks read before: {len(chunks)}; `partial` is their message"
    with suppress(Exception):  # some errors allow no attributes
        error.partial = partial  # type: ignore[attr-defined]
        # All readers of a stream get the same error object, and each of them may call
        # this.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
