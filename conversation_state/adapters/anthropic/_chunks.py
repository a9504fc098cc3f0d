"""
From a stream of Anthropic Messages to chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._reading import Place, Reading, is_list, is_map
from conversation_state.adapters._streaming import (
    News,
    achunks_of,
    chunks_of,
)
from conversation_state.adapters.anthropic._load import failure_of
from conversation_state.adapters.anthropic._open import Open, opened
from conversation_state.adapters.anthropic._usage import read_usage
from conversation_state.adapters.anthropic._words import SOURCE
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.usage import Usage

__all__ = ["aload_chunks", "load_chunks"]

_DELTA = frozenset({"delta", "index", "type"})
_PIECE = ("piece", "type")
# What each event has in words of its own.
_EVENTS = {
    "content_block_delta": _DELTA,
    "content_block_start": frozenset({"content_block", "index", "type"}),
    "content_block_stop": frozenset({"index", "type"}),
    "message_delta": frozenset({"delta", "type", "usage"}),
    "message_start": frozenset({"message", "type"}),
    "message_stop": frozenset({"type"}),
    "ping": frozenset({"type"}),
}
_OF_RESPONSE = frozenset({"message_delta", "message_stop"})
_MESSAGE = frozenset({"content", "model", "role", "stop_reason", "usage"})
_MESSAGE_DELTA = frozenset({"stop_reason"})

# Blocks that may begin with a delta, where somebody left their start out.
_UNOPENED = {"text_delta": "text", "thinking_delta": "thinking"}
_MOST = 2**63 - 1


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they say what `load` says of the whole response. Lazy: an event is
    read when its chunk is asked for. Text, thinking and arguments come piece
    by piece; all other blocks whole, when they end.

    The last chunk has what was told of the response as a whole: the reason to
    finish, the final usage, the model, and notes. A stream that breaks off
    ends with ``interrupted``, also if *events* raise, or if this function
    does. *events* are not closed.

    Args:
        events: The data of the server-sent events, as plain JSON values.

    Raises:
        ProviderStreamError:
            If an event says that the provider failed, after all before it
            was given.

        DecodeError:
            If an event is not what the format has, with all that is wrong
            with it, after what could be read was given.

    Source:
        Usage is told at the start and, as a running total, before the end; of
        what is told twice the last word stands. A call without arguments is
        sent with one empty piece; its arguments are the ``{}`` it began with,
        as in a whole response. Unknown events are to be expected.

    >>> from conversation_state.chunks import concat
    >>> deltas = [{"type": "text_delta", "text": text} for text in ("Hel", "lo")]
    >>> events = [
    ...     {"type": "content_block_delta", "index": 0, "delta": delta}
    ...     for delta in deltas
    ... ]
    >>> concat(load_chunks(events)).text
    'Hello'
    """
    return chunks_of(_Stream(), events)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """
    What `load_chunks` gives, of events that are waited for.
    """
    return achunks_of(_Stream(), events)


class _Stream:
    """
    One stream while it is read.
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, Open] = {}
        self._next = 0
        self._finish_reason = ""
        self._model = ""
        self._spent: dict[str, Any] | None = None
        self._of_response: dict[str, Any] = {}
        self._of_events: dict[str, Any] = {}
        self._others: list[Any] = []
        self._news = News()
        self._harmed: list[str] = []
        self._is_over = False

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of an event that brings the next piece of an open block, and
        nothing else.
        """
        # What is not as expected is read slowly, and told there.
        try:
            at, delta = event["index"], event["delta"]
            block = self._open[at]
            piece = delta[block.key]
            if (
                event["type"] != "content_block_delta"
                or delta["type"] != block.word
                or len(event) != len(_DELTA)
                or len(delta) != len(_PIECE)
                or at.__class__ is not int
                or piece.__class__ is not str
                or not block.cut.whole(piece)
            ):
                return None
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return None

        self._count += 1
        return block.chunk(piece)

    def read(self, event: Any) -> Iterator[AssistantMessage]:
        """
        The chunks that *event* brings.
        """
        read = Reading()
        path = f"$[{self._count}]"
        self._count += 1
        if not is_map(event):
            read.wrong(path, event, "an event of a stream, as a plain JSON object")
            read.finish()

        place = Place(read, event, path)
        kind = event.get("type")
        chunks: list[AssistantMessage] = []
        if kind == "error" or (kind is None and event.get("error") is not None):
            raise ProviderStreamError(failure_of(event), event)

        if not isinstance(kind, str):
            place.wrong("type", "a text, as every event has")
        elif kind == "message":
            what = "is a whole response, not an event of a stream; load takes it"
            read.problem(path, what)
        elif kind not in _EVENTS:
            self._others.append(read.json(event, path))
        else:
            chunks = self._read(place, kind)
            if kind in _OF_RESPONSE:
                self._of_response |= read.rest(event, _EVENTS[kind], path)
            else:
                self._news.add(self._of_events, place, _EVENTS[kind], kind)

        # What could be read is given, whatever else is wrong.
        yield from chunks
        read.finish()

    def _read(self, event: Place, kind: str) -> list[AssistantMessage]:
        if kind == "content_block_delta":
            return self._delta(event)

        if kind == "content_block_start":
            block = self._inside(event, "content_block")
            return [] if block is None else self._start(self._at(event), block)

        if kind == "content_block_stop":
            return self._stop(self._at(event))

        if kind == "message_start":
            message = self._inside(event, "message")
            return [] if message is None else self._message(message)

        if kind == "message_delta":
            self._message_delta(event)
        elif kind == "message_stop":
            self._is_over = True

        return []

    def _inside(self, event: Place, key: str) -> Place | None:
        raw = event.raw.get(key)
        if is_map(raw):
            return Place(event.reading, raw, f"{event.path}.{key}")

        event.wrong(key, "an object")
        return None

    def _at(self, event: Place) -> int:
        """
        The number of the block that *event* is about.
        """
        at: Any = event.raw.get("index")
        if at.__class__ is int and 0 <= at <= _MOST:
            return int(at)

        event.wrong("index", "the number of a block, from 0 on")
        return -1

    def _message(self, message: Place) -> list[AssistantMessage]:
        raw = message.raw
        if raw.get("role", "assistant") != "assistant":
            message.wrong("role", "assistant")

        self._told(message)
        if raw.get("model") is not None:
            self._model = message.text("model")

        self._of_response |= message.reading.rest(raw, _MESSAGE, message.path)
        content = raw.get("content")
        chunks: list[AssistantMessage] = []
        for at, block in enumerate(content if is_list(content) else ()):
            path = f"{message.path}.content[{at}]"
            if is_map(block):
                chunks += self._start(at, Place(message.reading, block, path))
                chunks += self._stop(at)
            else:
                message.reading.wrong(path, block, "an object")

        return chunks

    def _message_delta(self, event: Place) -> None:
        self._told(event)
        delta = self._inside(event, "delta") if "delta" in event.raw else None
        if delta is not None:
            self._told(delta)
            rest = delta.reading.rest(delta.raw, _MESSAGE_DELTA, delta.path)
            self._of_response |= rest

    def _told(self, place: Place) -> None:
        """
        Read what *place* tells of the response as a whole.
        """
        raw = place.raw
        if raw.get("stop_reason") is not None:
            self._finish_reason = place.text("stop_reason")

        block = raw.get("usage")
        if block is None:
            return

        path = f"{place.path}.usage"
        told = place.reading.json(block, path)
        if is_map(told):
            usage, _ = read_usage(place.reading, told, path)
            if usage is not None:
                self._spend(told)
        else:
            place.reading.wrong(path, block, "an object or null")

    def _start(self, at: int, block: Place) -> list[AssistantMessage]:
        if at < 0:
            return []

        kind = block.raw.get("type")
        if not isinstance(kind, str):
            block.wrong("type", "a text")
            return []

        chunks = self._stop(at) if at in self._open else []
        if kind == "fallback":
            # Who answers from here on is another model.
            model = block.raw.get("to")
            name = model.get("model") if is_map(model) else None
            self._model = name if isinstance(name, str) else self._model

        opening = self._opened(at, kind)
        mark = len(block.reading.mended)
        chunks += opening.start(block)
        self._note_harm(opening, block, mark)
        return chunks

    def _note_harm(self, block: Open, place: Place, mark: int) -> None:
        """
        Note what was mended in *place*, of a *block*, since *mark*.
        """
        start = len(place.path)
        self._harmed += [
            f"content[{block.index}]{each[start:]}"
            for each in place.reading.mended[mark:]
        ]

    def _opened(self, at: int, kind: str) -> Open:
        # Every block has a number of its own, even if they were counted anew.
        index = max(at, self._next)
        self._next = min(index, _MOST - 1) + 1
        block = self._open[at] = opened(kind, index)
        return block

    def _delta(self, event: Place) -> list[AssistantMessage]:
        at = self._at(event)
        delta = self._inside(event, "delta")
        if at < 0 or delta is None:
            return []

        block = self._open.get(at)
        if block is None:
            kind = delta.raw.get("type")
            if not isinstance(kind, str) or kind not in _UNOPENED:
                what = f"is of the block {at}, which was not begun, or has ended"
                event.reading.problem(event.path, what)
                return []

            block = self._opened(at, _UNOPENED[kind])

        chunks = block.delta(delta)
        self._note_harm(block, delta, 0)
        return chunks

    def _stop(self, at: int, *, broken: bool = False) -> list[AssistantMessage]:
        block = self._open.pop(at, None)
        if block is None:
            return []

        chunks = block.break_off() if broken else block.stop()
        if block.cut.is_harmed:
            self._harmed.append(f"content[{block.index}].{block.field}")

        return chunks

    def _spend(self, told: Mapping[str, Any]) -> None:
        """
        Note what was spent until now: null is nothing told.
        """
        spent = self._spent = {} if self._spent is None else self._spent
        for key, count in told.items():
            if count is not None or key not in spent:
                spent[key] = count

    def _usage(self) -> tuple[Usage | None, dict[str, Any]]:
        """
        What was spent, and what was told of it besides.
        """
        if self._spent is None:
            return None, {}

        # Each count was read when it came, so that only their sum can be wrong.
        usage, left = read_usage(Reading(), self._spent, "$")
        return usage, self._spent if usage is None else left

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        What is told at the end, and what was not sent to its end.
        """
        for at in list(self._open):
            yield from self._stop(at, broken=True)

        response = dict(self._of_response)
        usage, left = self._usage()
        if left:
            response["usage"] = left

        notes: dict[str, Any] = {
            name: told
            for name, told in (
                ("response", response),
                ("event", self._of_events),
                ("events", self._others),
                ("mended", self._harmed),
            )
            if told
        }
        metadata: Any = {SOURCE: notes} if notes else EMPTY_MAP
        cut = broken and not self._is_over
        reason = self._finish_reason or ("interrupted" if cut else "")
        # As a response has it, of which no block is the whole text.
        yield AssistantMessage(
            (),
            response=ResponseMeta(reason, usage, None, self._model),
            metadata=metadata,
        )
