"""
One message of a stream of chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextlib import suppress

from conversation_state.chunks import concat
from conversation_state.messages import Message
from conversation_state.streams._cells import without_our_frames
from conversation_state.streams._stream import Stream

__all__ = ["acollect", "collect"]


def collect(stream: Iterable[Message]) -> Message:
    """
    The message that the chunks of *stream* are pieces of.

    Reads to the end, at a position of its own: *stream* can be read again. Any
    iterable of messages will do. An error in the stream is raised; its attribute
    `partial` is the message until there, or None if there were no chunks before
    it or they don't fit together.

    Raises:
        ConcatError:
            If there are no chunks, or they are no pieces of one message.
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
    except BaseException as error:
        _attach_partial(error, chunks)
        raise
    finally:
        reader.close()

    return concat(chunks)


def _attach_partial(error: BaseException, chunks: list[Message]) -> None:
    if not isinstance(error, Exception):
        # An interrupt comes anywhere, and its frames would keep the source.
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
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
