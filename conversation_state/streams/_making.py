"""
Pipes and merged streams: functions that make a stream of something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from conversation_state.streams._cells import Cell
from conversation_state.streams._derived import Merged
from conversation_state.streams._pipe import Pipe, PipeSource, Sender
from conversation_state.streams._stream import Stream, stream_from

__all__ = ["merge", "merge_named", "pipe"]

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
    Two ends: what is sent into one is read from the other.

    At most *capacity* elements wait between them, and senders wait while there
    is no room; with 0, a sender waits until its element is read. *of* tells
    type checkers what is sent, and is not checked.

    Readers may be threads and tasks, and senders, too. What the quicker reader
    took and a slower one did not read yet is kept for it, without bounds.

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
            f"capacity is {capacity!r}; expected a number of elements, 0 or more"
        )

    shared = Pipe(capacity)
    return Sender(shared), stream_from(Cell(PipeSource(shared)))


def merge(*streams: Stream[T]) -> Stream[T]:
    """
    The elements of several streams, as they come.

    Each stream keeps its order, and nothing is lost. Where several have an
    element ready they take turns, so streams of collections are always merged
    the same way. Of a stream that has to be waited for at most one element is
    read ahead. One stream is returned as it is; none give an empty one.

    Iterators that may block are asked by a thread each, while somebody waits.

    Raises:
        TypeError:
            If something else than a stream is given.
    """
    for stream in streams:
        _check_stream(stream)

    if len(streams) == 1:
        return streams[0]

    return stream_from(Cell(Merged([(None, stream._here()) for stream in streams])))


def merge_named(streams: Mapping[str, Stream[T]]) -> Stream[T]:
    """
    Like `merge`, and `Stream.results` gives a `SourceEnd` where one ends.

    The ends of inner named merges are kept.

    Raises:
        TypeError:
            If something else than streams by names is given.
    """
    if not isinstance(streams, Mapping):
        raise TypeError(
            f"can't merge {streams!r:.80}; expected a mapping of names to streams"
        )

    for name, stream in streams.items():
        if not isinstance(name, str):
            raise TypeError(f"a stream's name is {name!r:.80}; expected a str")

        _check_stream(stream)

    branches = [(name, stream._here()) for name, stream in streams.items()]
    return stream_from(Cell(Merged(branches)))


def _check_stream(stream: object) -> None:
    if not isinstance(stream, Stream):
        raise TypeError(
            f"can't merge {stream!r:.80}; expected a stream, Stream.of(...) perhaps"
        )
