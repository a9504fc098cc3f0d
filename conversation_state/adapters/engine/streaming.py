"""
Reading streams of events: what all adapters share when they load chunks.

What lives here: how a stream ends; texts that come in pieces, and may be cut in the
middle of a character; what is new in an event; and the quick path, which takes events
that differ from the one before in one piece of text only. What does not: what any
provider means by an event.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Protocol

from conversation_state._persistent import EMPTY_MAP, make_draft
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.forms import note_calls
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall


class EventReader(Protocol):
    """
    **Protocol:** one stream while it is read. `read` returns the chunks that an event
    brings, and `end` the last ones; *broken* says whether the stream was interrupted.
    """

    template: PieceTemplate  # the event that is expected next

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
    streaming: EventReader, events: Iterable[Any], source: str = ""
) -> Iterator[AssistantMessage]:
    """
    The chunks of *events*, as they come; *source* is the format, if requests of it have
    rules.

    Whatever goes wrong, in the source as in an event, is raised after the
    chunks before it, and after a last one marked as interrupted.
    """
    failure: Exception | None = None
    ended = False
    take, read_event = streaming.template.take, streaming.read
    # Only `Exception` is caught: an interrupt and GeneratorExit pass at once, because
    # a generator that is being closed may not yield.
    try:
        for number, event in enumerate(events):
            chunk = take(event)
            if chunk is not None:
                yield chunk
            elif isinstance(event, str) and event == _DONE:
                ended = True
                break
            else:
                for found in read_event(event, f"$[{number}]"):
                    yield note_calls(found, source) if found.tool_calls else found
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    for last in streaming.end(broken=not ended):
        yield note_calls(last, source) if last.tool_calls else last

    if failure is not None:
        raise failure


async def achunks_of(
    streaming: EventReader, events: AsyncIterable[Any], source: str = ""
) -> AsyncIterator[AssistantMessage]:
    """As `chunks_of`, for events that are awaited."""
    failure: Exception | None = None
    ended = False
    take, number = streaming.template.take, -1
    try:
        async for event in events:
            number += 1
            quick = take(event)
            if quick is not None:
                yield quick
            elif isinstance(event, str) and event == _DONE:
                ended = True
                break
            else:
                for found in streaming.read(event, f"$[{number}]"):
                    yield note_calls(found, source) if found.tool_calls else found
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    for last in streaming.end(broken=not ended):
        yield note_calls(last, source) if last.tool_calls else last

    if failure is not None:
        raise failure


def check_event(reader: DocumentReader, event: Any, path: str) -> None:
    """
    Raises:
        DecodeError:
            If *event* is not an object.
    """
    if not is_map(event):
        reader.wrong(path, event, "an event of a stream, as a plain JSON object")
        reader.finish()


def checked_choice(choice: int) -> int:
    """*choice*, the number of one of several answers; a ValueError if it is invalid."""
    if choice.__class__ is not int or choice < 0:
        raise ValueError(
            f"choice is {shorten_repr(choice)}; expected the index of a response, 0 or "
            "higher"
        )

    return choice


def number_of_choice(index: Any, position: int) -> int:
    """
    The number of the answer whose *index* an event has, at *position* in its list: 0
    if it has none, and its position if it is no number. So nothing of an answer is
    dropped for an odd one.

    >>> [number_of_choice(index, 1) for index in (None, 2, 2.0, "2", "x", True, -1)]
    [0, 2, 2, 2, 1, 1, 1]
    """
    if index is None:
        return 0

    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index) if len(index) < _MAX_DIGITS else -1
    elif index.__class__ is float and index.is_integer():  # pyright: ignore[reportAttributeAccessIssue]
        index = int(index)

    return index if index.__class__ is int and 0 <= index < _MAX_CHOICE else position  # pyright: ignore[reportOperatorIssue, reportReturnType]


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
            return piece

        text = self.held + piece
        self.held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return self._repair_text(text[:-1] if self.held else text)

    def _repair_text(self, text: str) -> str:
        whole = mended(text)
        # The provider may send U+FFFD itself; only additional ones come from mending.
        if whole.count("\ufffd") > text.count("\ufffd"):
            self.is_mended = True

        return whole

    def whole(self, piece: str) -> str:
        """
        *piece* if it is valid as it is and no half is held back; else "", and the
        piece has to go through `next`.
        """
        return "" if self.held or mended(piece) is not piece else piece

    def rest(self) -> str:
        """What is held, at the end of the text."""
        rest, self.held = self.held, ""
        return self._repair_text(rest) if rest else ""


def add_rest(notes: dict[str, Any], node: ObjectReader, known: frozenset[str]) -> None:
    """
    Add what *node*, of one of several events, has besides the *known* keys to *notes*;
    nulls change nothing.
    """
    rest = node.reading.rest(node.raw, known, node.path)
    add_to(notes, {key: rest[key] for key in rest if rest[key] is not None})


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


class PieceTemplate:
    """
    The previous event, with a placeholder for its piece of text.

    Nearly all events of a stream differ from the one before in one text. An adapter
    that has read and checked such an event remembers it here. The next events are
    compared with it instead of read, which takes a third of the time or less.
    """

    __slots__ = ("_check", "_cut", "_expected", "_make", "_piece")

    def __init__(self) -> None:
        self._expected: dict[str, Any] | None = None
        self._piece = _Piece()

    def remember(
        self,
        event: Any,
        path: Sequence[Sequence[str]],
        cut: SurrogateBuffer,
        make: Callable[[str], AssistantMessage],
        *,
        check: Callable[[Any], object] | None = None,
    ) -> None:
        """
        Expect events like *event*, in which nothing was wrong.

        *path* has the keys that lead to the piece, each with the keys next to it whose
        values don't matter; a list on the way has one item. *cut* is the buffer of the
        text that the piece belongs to, *make* makes a chunk of a piece that is valid as
        it is, and *check* is a further condition on the next event.

        An event with objects or lists outside the path to the piece is not
        remembered: the next event may contain the same object, changed.
        """
        self.forget()
        levels: list[tuple[dict[str, Any], str, bool]] = []
        at = event
        for key, *free in path:
            level: dict[str, Any] = {}
            for name in at:
                value = at[name]
                if name in free:
                    value = _ANYTHING
                elif name == key:
                    continue
                elif is_map(value) or is_list(value):
                    if value:
                        return

                    value = {} if is_map(value) else []

                level[name] = value

            at = at[key]
            in_list = is_list(at)
            levels.append((level, key, in_list))
            if in_list:
                if len(at) != 1:
                    return

                (at,) = at

        expected: Any = self._piece
        for level, key, in_list in reversed(levels):
            level[key] = [expected] if in_list else expected
            expected = level

        self._check, self._cut, self._make = check, cut, make
        self._expected = expected

    def forget(self) -> None:
        """Expect no event."""
        self._expected = None

    def take(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of *event* if it is like the one remembered; else None, and it has
        to be read.
        """
        expected = self._expected
        if expected is None:
            return None

        # An error means that the event is not the expected one. The adapter reads it
        # then, and reports what is wrong with it.
        try:
            if expected != event:
                return None

            piece = self._piece.found
            if piece.__class__ is not str or not piece:
                return None

            cut = self._cut
            if cut.held or not piece.isascii():
                piece = cut.whole(piece)

            check = self._check
            if not piece or not (check is None or check(event)):
                return None
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return None

        return self._make(piece)


class _Piece:
    """
    The placeholder for the piece in an expected event. It equals every value, and
    keeps the one it was compared with, so that one comparison of two dicts checks
    the event and finds the piece, nearly all of it in C.
    """

    __slots__ = ("found",)

    found: Any

    def __eq__(self, other: object) -> bool:
        self.found = other
        return True

    __hash__ = None  # type: ignore[assignment]  # it equals all


class _Anything:
    """A value that doesn't matter: equal to all."""

    __slots__ = ()

    # `type(other)` returns a class, which is true, without running Python code.
    __eq__: Any = type
    __hash__ = None  # type: ignore[assignment]


_ANYTHING = _Anything()


# The functions below make a chunk of one piece without the checks of the constructors,
# which take two thirds of the time. The chunk is valid without them: the piece is an
# exact `str` and valid Unicode, and the other attributes are those of a checked chunk.
# `__class__` is set last, because only a draft's attributes can be set.
_PARTS = (TextPart, ReasoningPart, RefusalPart)
_new_chunk: Any = make_draft(AssistantMessage)
_new_part: Any = {kind: make_draft(kind) for kind in _PARTS}
_new_call: Any = make_draft(ToolCall)
_COMMON: Any = AssistantMessage("")._common


def make_text_chunk(piece: str) -> AssistantMessage:
    """``AssistantMessage(piece)``."""
    # The three functions repeat these lines, because a call of a helper would take a
    # fifth of the time.
    chunk = _new_chunk()
    chunk.content = piece
    chunk.tool_calls = ()
    chunk.response = None
    chunk._common = _COMMON
    chunk.__class__ = AssistantMessage
    return chunk  # type: ignore[no-any-return]


def part_chunks(
    kind: type[TextPart | ReasoningPart | RefusalPart], index: int | None
) -> Callable[[str], AssistantMessage]:
    """
    A function that makes ``AssistantMessage((kind(piece, index=index),))`` of a piece.
    """
    new_part = _new_part[kind]
    is_signed = kind is ReasoningPart

    def make(piece: str) -> AssistantMessage:
        part = new_part()
        part.text = piece
        part.index = index
        part.metadata = EMPTY_MAP
        part.unknown = EMPTY_MAP
        if is_signed:
            part.signature = ""

        part.__class__ = kind
        chunk = _new_chunk()
        chunk.content = (part,)
        chunk.tool_calls = ()
        chunk.response = None
        chunk._common = _COMMON
        chunk.__class__ = AssistantMessage
        return chunk  # type: ignore[no-any-return]

    return make


def call_chunks(index: int) -> Callable[[str], AssistantMessage]:
    """
    A function that makes a chunk of a piece of the arguments of the call at *index*.
    """

    def make(piece: str) -> AssistantMessage:
        call = _new_call()
        call.id = call.name = ""
        call.arguments = piece
        call.index = index
        call.type = "function"
        call.metadata = call.unknown = EMPTY_MAP
        call.__class__ = ToolCall
        chunk = _new_chunk()
        chunk.content = ""
        chunk.tool_calls = (call,)
        chunk.response = None
        chunk._common = _COMMON
        chunk.__class__ = AssistantMessage
        return chunk  # type: ignore[no-any-return]

    return make
