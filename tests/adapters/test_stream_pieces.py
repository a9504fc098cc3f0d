"""The quick path of all streams, on its own."""

from typing import Any

import pytest

from conversation_state.adapters.engine.streaming import (
    PieceTemplate,
    SurrogateBuffer,
    call_chunks,
    make_text_chunk,
    part_chunks,
)
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall

PATH = (("items", "number"), ("text",))


class Text(str):
    __slots__ = ()


WITHOUT_NUMBER = {"items": [{"text": "a", "kind": "x"}], "id": "i"}


def event(text: Any = "a", **others: Any) -> dict[str, Any]:
    """An event with a piece, and *others* beside it."""
    return {"items": [{"text": text, "kind": "x"}], "number": 1, "id": "i"} | others


def template(**others: Any) -> tuple[PieceTemplate, SurrogateBuffer]:
    """A template that remembers an event with *others*."""
    made, cut = PieceTemplate(), SurrogateBuffer()
    made.remember(event(**others), PATH, cut, make_text_chunk)
    return made, cut


class TestTake:
    """An event is taken if it differs from the one remembered in its piece only."""

    @pytest.mark.parametrize("piece", ["bc", "é", "\U0001f600", "a\ufffd"])
    @pytest.mark.parametrize("number", [1, None, {"any": []}])
    def test_another_piece(self, piece, number):
        """Any valid text is, and whatever the values are that don't matter."""
        made, _ = template()

        assert AssistantMessage(piece) == made.take(event(piece, number=number))

    @pytest.mark.parametrize(
        "other",
        [
            event(id="j"),
            event(more=1),
            WITHOUT_NUMBER,
            {**WITHOUT_NUMBER, "other": 1},
            event(items=[]),
            event(items=event()["items"] * 2),
            event(items=[{"text": "a", "kind": "y"}]),
            event(items=[{"text": "a"}]),
            *map(event, ["", 1, None, Text("b"), "\ud83d"]),
            *[None, "[DONE]", []],
        ],
    )
    def test_anything_else(self, other):
        """
        What differs in anything else, in a key more or less, or has no valid piece, is
        not. `str` itself is what messages are made of.
        """
        made, _ = template()

        assert made.take(other) is None
        assert made.take(event()) is not None

    @pytest.mark.parametrize("value", [[], {}])
    def test_objects(self, value):
        """
        An object in an event may be changed, and given again, so an event with one is
        not remembered, and those before are forgotten; what is empty is remembered as
        it was.
        """
        made, cut = template(id=value)

        assert made.take(event(id=type(value)())) is not None
        value.update(a=1) if isinstance(value, dict) else value.append(1)
        assert made.take(event(id=value)) is None
        made.remember(event(id=value), PATH, cut, make_text_chunk)
        assert made.take(event(id=value)) is None
        assert made.take(event(id=type(value)())) is None


class TestChunks:
    """
    Chunks that are made without the checks of their constructors are equal to others,
    and have all that others have.
    """

    CALL = ToolCall("", "", "é", index=3)

    @pytest.mark.parametrize(
        ("expected", "make"),
        [
            (AssistantMessage("é"), make_text_chunk),
            (AssistantMessage(tool_calls=(CALL,)), call_chunks(3)),
            *[
                (AssistantMessage((kind("é", index=index),)), part_chunks(kind, index))
                for kind in (TextPart, ReasoningPart, RefusalPart)
                for index in (None, 7)
            ],
        ],
    )
    def test_are_those_of_the_constructors(self, expected, make):
        """Texts, parts and arguments of calls."""
        made = make("é")

        assert expected == made
        assert hash(expected) == hash(made)
        assert repr(expected) == repr(made)
        assert expected.replace(name="a") == made.replace(name="a")
