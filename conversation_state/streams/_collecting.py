"""
One message of a stream of chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextlib import suppress

from conversation_state.chunks import concat
from conversation_state.messages import Message
from conversation_state.streams._stream import Stream

__all__ = ["acollect", "collect"]


def collect(stream: Iterable[Message]) -> Message:
    """
    The message that the chunks of *stream* are pieces of.

    Reads to the end, from a place of its own: *stream*, or any iterable of
    messages, can be read again by who holds it. An error in the stream is
    raised; its attribute `partial` is the message until there, or None if
    there was nothing before it or the pieces don't fit.

    Raises:
        ConcatError:
            If there are no chunks, or they are no pieces of one message.
    """
    chunks: list[Message] = []
    reader = iter(Stream.of(stream))
    del stream
    try:
        chunks.extend(reader)
    except Exception as error:
        _attach(error, chunks)
        raise

    return concat(chunks)


async def acollect(stream: AsyncIterable[Message] | Iterable[Message]) -> Message:
    """
    Like `collect`, without blocking other tasks.

    Raises:
        ConcatError:
            If there are no chunks, or they are no pieces of one message.
    """
    chunks: list[Message] = []
    reader = aiter(Stream.of(stream))
    del stream
    try:
        async for chunk in reader:
            chunks.append(chunk)  # noqa: PERF401 - what was read must survive an error
    except Exception as error:
        _attach(error, chunks)
        raise

    return concat(chunks)


def _attach(error: Exception, chunks: list[Message]) -> None:
    partial = None
    if chunks:
        # The error that is on its way matters more than why there is no part.
        with suppress(Exception):
            partial = concat(chunks)

    note = f"chunks read before: {len(chunks)}; `partial` is what they say"
    with suppress(Exception):  # some errors have no room for it
        error.partial = partial  # type: ignore[attr-defined]
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
