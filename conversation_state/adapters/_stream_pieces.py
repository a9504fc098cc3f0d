"""
Texts that come in pieces, and the quick path of all streams: events that differ from
the one before in such a piece only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conversation_state._persistent import EMPTY_MAP, make_draft
from conversation_state.adapters._reading import is_list, is_map, mended
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall

__all__ = [
    "PieceTemplate",
    "SurrogateBuffer",
    "call_chunks",
    "make_text_chunk",
    "part_chunks",
]


class SurrogateBuffer:
    """
    A text that comes in pieces, which may be cut in the middle of a pair of
    surrogates: the first half is held back until the second one comes.

    Attributes:
        held: The half that waits, or "".

        is_mended: Whether half of a pair was alone, and is U+FFFD now.
    """

    __slots__ = ("held", "is_mended")

    def __init__(self) -> None:
        self.held = ""
        self.is_mended = False

    def next(self, piece: str) -> str:
        """
        *piece* as valid Unicode, but for what has to wait.
        """
        if not self.held and piece.isascii():
            return piece

        text = self.held + piece
        self.held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return self._repair_text(text[:-1] if self.held else text)

    def _repair_text(self, text: str) -> str:
        whole = mended(text)
        # A text may have U+FFFD of its own: only more of it than was sent is harm.
        if whole.count("\ufffd") > text.count("\ufffd"):
            self.is_mended = True

        return whole

    def whole(self, piece: str) -> str:
        """
        *piece* if it is valid as it is, and nothing waits for it; else "",
        and `next` takes it.
        """
        return "" if self.held or mended(piece) is not piece else piece

    def rest(self) -> str:
        rest, self.held = self.held, ""
        return self._repair_text(rest) if rest else ""


class PieceTemplate:
    """
    The event before, but for its piece.

    Nearly all events of a stream differ from the one before in one text. An adapter
    that has read such an event with care remembers it here, and the next ones are
    compared with it and not read: a third of the time or less.
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

        Not if there are objects in it outside the path to the piece: the next one may
        be the same object, and changed.

        Args:
            event: The event.

            path: The keys that lead to the piece, each with the keys next to it
                whose values don't matter. A list on the way has one item.

            cut: What the piece is a piece of.

            make: Makes a chunk of a piece that is valid as it is.

            check: What else must be true of the next event.
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
        self._expected = None

    def take(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of *event* if it is like the one remembered; else None, and it has
        to be read.
        """
        expected = self._expected
        if expected is None:
            return None

        # Whatever is unexpected is left to the adapter, which reports it.
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
    Where the piece is in the event that is expected: equal to all, and keeps what
    it was compared with. So one comparison of two dicts does all in C.
    """

    __slots__ = ("found",)

    found: Any

    def __eq__(self, other: object) -> bool:
        self.found = other
        return True

    __hash__ = None  # type: ignore[assignment]  # it equals all


class _Anything:
    """
    A value that doesn't matter: equal to all.
    """

    __slots__ = ()

    # Called with the other one, it gives a class, which is true, and calls no Python.
    __eq__: Any = type
    __hash__ = None  # type: ignore[assignment]


_ANYTHING = _Anything()


# Chunks of one piece, made without the checks of their constructors, which are two
# thirds of the time a chunk takes: the piece is an exact `str` and valid Unicode,
# and all else is what such a chunk had before. The class is set last: attributes of a
# draft can be set, those of a message can't.
_PARTS = (TextPart, ReasoningPart, RefusalPart)
_new_chunk: Any = make_draft(AssistantMessage)
_new_part: Any = {kind: make_draft(kind) for kind in _PARTS}
_new_call: Any = make_draft(ToolCall)
_COMMON: Any = AssistantMessage("")._common


def make_text_chunk(piece: str) -> AssistantMessage:
    """
    ``AssistantMessage(piece)``.
    """
    chunk = _new_chunk()  # without a call, which would take a fifth of the time
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
    What makes ``AssistantMessage((kind(piece, index=index),))`` of a piece.
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
        chunk = _new_chunk()  # without a call, as in `make_text_chunk`
        chunk.content = (part,)
        chunk.tool_calls = ()
        chunk.response = None
        chunk._common = _COMMON
        chunk.__class__ = AssistantMessage
        return chunk  # type: ignore[no-any-return]

    return make


def call_chunks(index: int) -> Callable[[str], AssistantMessage]:
    """
    What makes a chunk of more arguments of the call at *index*.
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
