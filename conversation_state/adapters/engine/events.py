"""The JSON events in a stream of server-sent events, as providers send them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from conversation_state._canonical import load_exactly
from conversation_state._persistent import check_iterable
from conversation_state._wording import shorten_repr
from conversation_state.errors import DecodeError, ProviderStreamError

# str.splitlines() would also split at U+2028, which JSON texts may contain.
_LINE_ENDS = re.compile("\r\n|\r|\n")

# The fields of the standard, and the colon that starts a comment. Any other line is a
# sign that the body is not a stream of events.
_FIELDS = (":", "event", "id", "retry", "data")
_MAX_SHOWN = 2_000

# Data without an event: an empty text keeps a connection open, and OpenAI and the
# providers with its format end a stream with `[DONE]`.
_NO_EVENTS = ("", "[DONE]")


def events(lines: Iterable[str | bytes] | str | bytes) -> Iterator[dict[str, Any]]:
    """
    The JSON objects in a stream of server-sent events.

    Lazy: each event is given as soon as its last line is there. Comments, event
    names, ids, ``[DONE]`` and everything outside of ``data:`` fields are left out;
    providers repeat an event's name in its data. An event that the end of the
    stream cuts short is left out, too; ``load_chunks`` then ends its message with
    the reason ``interrupted``. Integers may have any size, as with `json`.

    Args:
        lines: The lines of the body, with their ends or without, as HTTP clients
            iterate over them (``response.iter_lines()``, or the response of
            `urllib`); or the whole body. Bytes are UTF-8.

    Raises:
        ProviderStreamError: If an event's data is not a JSON object, or the body is
            something else: an error page, one response that was not streamed.
        TypeError: If a line is neither a str nor bytes.

    Source:
        The section on server-sent events of the HTML standard.

    >>> list(events(['data: {"id": 1}', "", ": a comment", "", "data: [DONE]", ""]))
    [{'id': 1}]
    """
    reader = _EventReader()
    check_iterable(lines, "lines", "a response's body, or its lines")
    for each in [lines] if isinstance(lines, (str, bytes)) else lines:
        yield from reader.read(each)

    yield from reader.finish()


async def aevents(lines: AsyncIterable[str | bytes]) -> AsyncIterator[dict[str, Any]]:
    """
    The async twin of `events`, for lines that are awaited (``response.aiter_lines()``).
    """
    reader = _EventReader()
    async for each in lines:
        for event in reader.read(each):
            yield event

    for event in reader.finish():
        yield event


class _EventReader:
    __slots__ = ("_count", "_data", "_is_first", "_others")

    def __init__(self) -> None:
        self._data: list[str] = []
        self._count = 0
        self._others = ""
        self._is_first = True

    def read(self, given: object) -> Iterator[dict[str, Any]]:
        if isinstance(given, bytes):
            text = given.decode(errors="replace")
        elif isinstance(given, str):
            text = given
        else:
            raise TypeError(
                f"a line of the stream is {shorten_repr(given)}; expected a str or "
                "bytes, as in response.iter_lines()"
            )

        if self._is_first:
            text = text.removeprefix("\ufeff")
            self._is_first = False

        lines = _LINE_ENDS.split(text)
        if len(lines) > 1 and not lines[-1]:
            lines.pop()  # `split` adds "" after the last line end; it is no empty line

        for line in lines:
            if not line:
                yield from self._end_event()
            elif line.startswith("data:"):
                yield from self._read_data(line[5:].removeprefix(" "))
            elif not line.startswith(_FIELDS) and len(self._others) < _MAX_SHOWN:
                self._others += line

    def _read_data(self, data: str) -> Iterator[dict[str, Any]]:
        """The event in the field *data*, if it is complete on this line."""
        # Nearly every event is one line. It is returned at once, because some HTTP
        # clients drop the empty line that ends an event.
        event = None if self._data else _parse_event(data)
        if event is not None:
            self._count += 1
            yield event
        elif self._data or data.strip() not in _NO_EVENTS:
            self._data.append(data)

    def _end_event(self) -> Iterator[dict[str, Any]]:
        text = "\n".join(self._data)
        self._data.clear()
        if not text:
            return

        event = _parse_event(text)
        if event is None:
            raise _make_error(text)

        self._count += 1
        yield event

    def finish(self) -> Iterator[dict[str, Any]]:
        """The last event, if only the empty line after it is missing."""
        event = _parse_event("\n".join(self._data))
        if event is not None:
            self._count += 1
            yield event
        # An event that the end of the stream cuts short is no error. But if the caller
        # drops empty lines, `_data` collects all events behind a line that is not a
        # whole event; a whole event among them shows that.
        elif any(map(_parse_event, self._data[1:])):
            raise _make_error(self._data[0])

        # A proxy may put a line before the events, so other lines are an error only in
        # a body without events.
        if self._others and not self._count:
            raise ProviderStreamError(
                "expected server-sent events, got a body that starts with "
                f"{shorten_repr(self._others)}; check the response's status, and "
                "that the request asked for a stream (Gemini: alt=sse)",
                self._others,
            )


def _make_error(text: str) -> ProviderStreamError:
    msg = f"expected an event that is a JSON object, got {shorten_repr(text)}"
    return ProviderStreamError(msg, text)


def _parse_event(text: str) -> dict[str, Any] | None:
    """*text* parsed as a JSON object; None if it is something else."""
    if not text.lstrip().startswith("{"):
        return None

    try:
        event = load_exactly(text)
    except DecodeError:
        return None

    return event if isinstance(event, dict) else None
