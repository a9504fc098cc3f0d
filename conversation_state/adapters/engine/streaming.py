"""
Reading streams of events, for all adapters: how a stream ends; texts that come in
pieces, and may be cut in the middle of a character; what is new in an event, and what
only repeats the one before; and chunks of one piece.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from conversation_state._persistent import EMPTY_MAP, make_draft
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.forms import note_calls
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_map,
    mended,
)
from conversation_state.adapters.engine.usage import as_kept
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import AssistantMessage
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall


class EventReader(Protocol):
    """
    **Protocol:** one stream while it is read. `read` returns the chunks that an event
    brings, and `end` the last ones; *broken* says whether the stream was interrupted.
    """

    def read(self, event: Any, path: str) -> Iterable[AssistantMessage]:
        """The chunks of *event*, which is at *path*."""
        ...

    def end(self, *, broken: bool) -> Iterable[AssistantMessage]:
        """The last chunks; *broken* if the stream broke off."""
        ...


# OpenAI and its dialects end a stream with this text. It is not JSON, and some parsers
# of server-sent events pass it on as an event.
_DONE = "[DONE]"

# The problem with an event that an SDK derives from another one, which is missing.
ALONE = (
    "is derived from another event, which is missing; expected all events of the stream"
)


def chunks_of(
    streaming: EventReader, events: Iterable[Any], source: str = "", *, own: str = ""
) -> Iterator[AssistantMessage]:
    """
    The chunks of *events*, as they come; *source* is the format, if requests of it have
    rules, and *own* the adapter that is called, if it is one of ours.

    Whatever goes wrong, in the source as in an event, is raised after the
    chunks before it, and after a last one marked as interrupted.
    """
    if hasattr(events, "__aiter__") and not hasattr(events, "__iter__"):
        raise TypeError("events: they are async; aload_chunks(events) reads them")

    if is_map(events):
        expected = "the events of a stream; load(response) reads a whole response"
        raise DecodeError((Problem("$", f"is an object; expected {expected}"),))

    failure: Exception | None = None
    ended = False
    is_own = not own
    read_event = streaming.read
    # Only `Exception` is caught: an interrupt and GeneratorExit pass at once, because
    # a generator that is being closed may not yield.
    try:
        for number, event in enumerate(events):
            if isinstance(event, str) and event == _DONE:
                ended = True
                break

            is_own = is_own or recognize_own(event, f"$[{number}]", own)
            for chunk in read_event(event, f"$[{number}]"):
                yield note_calls(chunk, source) if chunk.tool_calls else chunk
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    for last in streaming.end(broken=not ended):
        yield note_calls(last, source) if last.tool_calls else last

    if failure is not None:
        raise failure


async def achunks_of(
    streaming: EventReader,
    events: AsyncIterable[Any],
    source: str = "",
    *,
    own: str = "",
) -> AsyncIterator[AssistantMessage]:
    """As `chunks_of`, for events that are awaited."""
    if not hasattr(events, "__aiter__"):
        raise TypeError("events: they are not async; load_chunks(events) reads them")

    failure: Exception | None = None
    ended = False
    is_own = not own
    number = -1
    try:
        async for event in events:
            number += 1
            if isinstance(event, str) and event == _DONE:
                ended = True
                break

            is_own = is_own or recognize_own(event, f"$[{number}]", own)
            for chunk in streaming.read(event, f"$[{number}]"):
                yield note_calls(chunk, source) if chunk.tool_calls else chunk
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    for last in streaming.end(broken=not ended):
        yield note_calls(last, source) if last.tool_calls else last

    if failure is not None:
        raise failure


def check_event(reader: DocumentReader, event: Any, path: str) -> None:
    """
    Raises:
        DecodeError: If *event* is not an object.
    """
    if not is_map(event):
        expected = "an event of a stream, as a plain JSON object"
        if isinstance(event, (str, bytes)):
            expected += "; adapters.events(lines) makes them of a response's lines"

        reader.wrong(path, event, expected)
        reader.finish()


# The adapter whose streams have an event: by a key that no other format's events have,
# by its type, or by what that begins with. `ping` and `error` are of several.
_KEYS = {"candidates": "gemini", "choices": "openai_chat", "promptFeedback": "gemini"}
_TYPES = {"chunk": "openai_chat"}
_STARTS = {
    "anthropic": ("content_block_", "message_delta", "message_start", "message_stop"),
    "openai_responses": ("response.",),
    "ai_sdk": ("reasoning-", "text-", "tool-input-", "tool-output-"),
    "ag_ui": ("REASONING_", "RUN_", "TEXT_MESSAGE_", "TOOL_CALL_"),
}


def recognize_own(event: Any, path: str, own: str) -> bool:
    """
    Whether *event*, of a stream of which none was recognised, is of the adapter *own*.

    Behind an own event, one of another format is what a proxy adds: the answer goes on.

    Raises:
        DecodeError: If it is of another one.
    """
    if not is_map(event):
        return False

    found = [name for key, name in _KEYS.items() if key in event]
    kind = event.get("type")
    if isinstance(kind, str):
        found += [_TYPES[kind]] if kind in _TYPES else []
        found += [name for name, starts in _STARTS.items() if kind.startswith(starts)]

    if found and own not in found:
        what = f"is of another format; {found[0]}.load_chunks(events) reads it"
        raise DecodeError((Problem(path, what),))

    return bool(found)


class HeldPiece(NamedTuple):
    """What an event has of an answer: at position *at* of its list, and *path*."""

    raw: Any
    at: int
    path: str


class AnswerChoice:
    """
    Which of several answers a stream is read for: that with the number *choice*.

    Some servers number their only answer 1, and `load` reads the first of a response,
    whatever its number. So where number 0 is asked for, the pieces of another answer
    are held until a piece of number 0 comes, and are the answer if none does.
    """

    __slots__ = ("_held", "_other", "_waits", "number")

    def __init__(self, choice: int) -> None:
        if choice.__class__ is not int or choice < 0:
            raise ValueError(
                f"choice is {shorten_repr(choice)}; expected the index of a response, "
                "0 or higher"
            )

        self.number = choice
        self._waits = not choice
        self._other: int | None = None
        self._held: list[HeldPiece] = []

    def takes(self, raw: Mapping[str, Any], at: int, path: str) -> bool:
        """Whether the piece *raw* is read now."""
        number = number_of_choice(raw.get("index"), at)
        if number == self.number:
            self._waits = False
            self._held.clear()
            return True

        if self._waits and (self._other is None or number == self._other):
            self._other = number
            # A client may change the same object for the next event.
            self._held.append(HeldPiece(as_kept(raw), at, path))

        return False

    def take_held(self) -> list[HeldPiece]:
        """The pieces of the answer that is read at the end instead, if any."""
        held, self._held = self._held, []
        return held


def number_of_choice(index: Any, position: int) -> int:
    """
    The number of the answer whose *index* an event has, at *position* in its list: 0
    if it has none, and its position if it is no number. So nothing of an answer is
    dropped for an odd one.

    >>> [number_of_choice(index, 1) for index in (None, 0, 2, 2.0, "2", "x", True, -1)]
    [0, 0, 2, 2, 2, 1, 1, 1]
    """
    if index is None:
        return 0

    index = as_index(index)
    return index if index.__class__ is int and 0 <= index < _MAX_CHOICE else position


def as_index(index: Any) -> Any:
    """
    *index* as the integer that it is, if a server writes it as a text or a float; any
    other value as it is.

    >>> [as_index(index) for index in (2, 2.0, "2", "x", True, None)]
    [2, 2, 2, 'x', True, None]
    """
    if isinstance(index, str) and index.isascii() and index.isdigit():
        return int(index) if len(index) < _MAX_DIGITS else index

    is_whole = isinstance(index, float) and index.is_integer()
    return int(index) if is_whole else index


# No provider gives more answers at once.
_MAX_CHOICE, _MAX_DIGITS = 100_000, 6


class SurrogateBuffer:
    """
    A text that comes in pieces, which may be cut in the middle of a pair of
    surrogates: the first half is held back until the second one comes.
    """

    __slots__ = ("held", "is_mended")

    def __init__(self) -> None:
        self.held = ""
        self.is_mended = False  # half of a pair was alone, and is U+FFFD now

    def next(self, piece: str) -> str:
        """
        *piece* as valid Unicode, without the first half of a pair at its end, which
        is held back.
        """
        if not self.held and piece.isascii():
            return str(piece)  # of a subclass, too: chunks are made without checks

        text = self.held + piece
        self.held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return self._repair_text(text[:-1] if self.held else text)

    def _repair_text(self, text: str) -> str:
        whole = mended(text)
        # The provider may send U+FFFD itself; only additional ones come from mending.
        if whole.count("\ufffd") > text.count("\ufffd"):
            self.is_mended = True

        return whole

    def rest(self) -> str:
        """What is held, at the end of the text."""
        rest, self.held = self.held, ""
        return self._repair_text(rest) if rest else ""


def add_rest(notes: dict[str, Any], node: ObjectReader, known: frozenset[str]) -> None:
    """
    Add what *node*, of one of several events, has besides the *known* keys to *notes*;
    nulls change nothing.
    """
    # Nearly all events have nothing else.
    if node.raw.keys() <= known:
        return

    for key, value in node.reading.rest(node.raw, known, node.path).items():
        if value.__class__ in (dict, list):
            add_to(notes, {key: value})
        elif value is not None:
            notes[key] = value


def add_to(notes: dict[str, Any], news: Mapping[str, Any]) -> None:
    """
    Add *news* to *notes*, without copying: maps are merged, lists are extended, and
    other values are replaced.
    """
    for key, value in news.items():
        before = notes.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            before.update(value)
        elif isinstance(before, list) and isinstance(value, list):
            before.extend(value)
        else:
            notes[key] = value


class Repeats:
    """
    What an object has in each event, but for its *free* keys, which are read each time.

    Nearly all events repeat what the one before them had beside its piece of text.
    What is repeated need not be read again, which is nearly all the time that an event
    takes. Only where reading a value twice changes nothing; so objects and lists never
    repeat, unless they are empty: a client may also change them in place.
    """

    __slots__ = ("_before", "_free")

    def __init__(self, *free: str) -> None:
        self._free = free
        self._before: dict[str, Any] | None = None

    def has(self, raw: Mapping[str, Any]) -> bool:
        """Whether *raw* repeats the object before it, which is then *raw*."""
        if self._before == raw and raw is not None:
            return True

        self._before = None
        # Another kind of map is read each time.
        if raw.__class__ is not dict:
            return False

        before: dict[str, Any] = {}
        for key, value in raw.items():
            if key in self._free:
                before[key] = _ANYTHING
            elif value is None or value.__class__ in _SCALARS:
                before[key] = value
            elif value in ([], {}):
                before[key] = value.__class__()
            else:
                return False

        self._before = before
        return False

    def forget(self) -> None:
        """Repeat nothing."""
        self._before = None


_SCALARS = frozenset({bool, float, int, str})


class _Anything:
    """A value that doesn't matter: equal to all."""

    __slots__ = ()

    # `type(other)` returns a class, which is true, without running Python code.
    __eq__: Any = type
    __hash__ = None  # type: ignore[assignment]


_ANYTHING = _Anything()


# The functions below make chunks without the checks of the constructors, which take two
# thirds of the time. A chunk is valid without them: its texts are exact `str` and valid
# Unicode, and the other attributes are those of a checked chunk.
# `__class__` is set last, because only a draft's attributes can be set.
_PARTS = (TextPart, ReasoningPart, RefusalPart)
_new_chunk: Any = make_draft(AssistantMessage)
_new_part: Any = {kind: make_draft(kind) for kind in _PARTS}
_new_call: Any = make_draft(ToolCall)
_COMMON: Any = AssistantMessage("")._common


def make_chunk(
    content: str | tuple[Part, ...], calls: tuple[ToolCall, ...] = ()
) -> AssistantMessage:
    """``AssistantMessage(content, tool_calls=calls)``."""
    chunk = _new_chunk()
    chunk.content = content
    chunk.tool_calls = calls
    chunk.response = None
    chunk._common = _COMMON
    chunk.__class__ = AssistantMessage
    return chunk  # type: ignore[no-any-return]


def make_part(
    kind: type[TextPart | ReasoningPart | RefusalPart], index: int | None, piece: str
) -> Part:
    """``kind(piece, index=index)``."""
    part = _new_part[kind]()
    part.text = piece
    part.index = index
    part.metadata = EMPTY_MAP
    part.unknown = EMPTY_MAP
    if kind is ReasoningPart:
        part.signature = ""

    part.__class__ = kind
    return part  # type: ignore[no-any-return]


def make_part_chunk(
    kind: type[TextPart | ReasoningPart | RefusalPart], index: int | None, piece: str
) -> AssistantMessage:
    """A chunk of one part of text."""
    return make_chunk((make_part(kind, index, piece),))


def make_arguments(index: int, piece: str) -> ToolCall:
    """``ToolCall("", "", piece, index=index)``."""
    call = _new_call()
    call.id = call.name = ""
    call.arguments = piece
    call.index = index
    call.type = "function"
    call.metadata = call.unknown = EMPTY_MAP
    call.__class__ = ToolCall
    return call  # type: ignore[no-any-return]


def make_call_chunk(index: int, piece: str) -> AssistantMessage:
    """A chunk of further arguments of the call at *index*."""
    return make_chunk("", (make_arguments(index, piece),))
