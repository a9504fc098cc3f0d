"""
The quick path of all streams, on its own.
"""

from typing import Any

import pytest

from conversation_state.adapters._streaming import (
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
    """
    What no chunk may hold: `str` itself is what messages are made of.
    """

    __slots__ = ()


def event(text: Any = "a", **others: Any) -> dict[str, Any]:
    """
    An event with a piece, and *others* beside it.
    """
    return {"items": [{"text": text, "kind": "x"}], "number": 1, "id": "i"} | others


def template(**others: Any) -> tuple[PieceTemplate, SurrogateBuffer]:
    """
    A template that remembers an event with *others*.
    """
    made, cut = PieceTemplate(), SurrogateBuffer()
    made.remember(event(**others), PATH, cut, make_text_chunk)
    return made, cut


class TestTake:
    """
    `PieceTemplate.take`.
    """

    @pytest.mark.parametrize("number", [1, 2, None, {"any": []}])
    def test_another_piece(self, number):
        """
        What differs in the piece, and in what may differ, is taken.
        """
        made, _ = template()

        assert AssistantMessage("bc") == made.take(event("bc", number=number))

    @pytest.mark.parametrize(
        "other",
        [
            event(id="j"),
            event(more=1),
            {key: value for key, value in event().items() if key != "number"},
            {key: value for key, value in event(other=1).items() if key != "number"},
            {"items": [], "number": 1, "id": "i"},
            {"items": event()["items"] * 2, "number": 1, "id": "i"},
            {"items": [{"text": "a", "kind": "y"}], "number": 1, "id": "i"},
            {"items": [{"text": "a"}], "number": 1, "id": "i"},
            event(""),
            event(1),
            event(None),
            event(Text("b")),
            event("\ud83d"),
            None,
            "[DONE]",
            [],
        ],
    )
    def test_anything_else(self, other):
        """
        What differs in anything else, in a key more or less, or has no valid piece,
        is left to those who read with care.
        """
        made, _ = template()

        assert made.take(other) is None
        assert made.take(event()) is not None

    @pytest.mark.parametrize("piece", ["é", "\U0001f600", "a\ufffd"])
    def test_other_scripts(self, piece):
        """
        Text that is not ASCII is taken, too.
        """
        made, _ = template()

        assert AssistantMessage(piece) == made.take(event(piece))

    @pytest.mark.parametrize(
        "error",
        [AttributeError, KeyError, IndexError, RecursionError, TypeError, ValueError],
    )
    def test_checks_that_fail(self, error):
        """
        An event that a check can't read is left to those who read with care.
        """

        def check(_):
            raise error

        made = PieceTemplate()
        made.remember(event(), PATH, SurrogateBuffer(), make_text_chunk, check=check)

        assert made.take(event("b")) is None

    def test_half_a_character_waits(self):
        """
        While half of a character waits, nothing is taken.
        """
        made, cut = template()
        cut.next("\ud83d")

        assert made.take(event()) is None
        cut.next("\ude00")
        assert made.take(event()) is not None

    @pytest.mark.parametrize("value", [[1], {"a": 1}])
    def test_objects_are_not_remembered(self, value):
        """
        An object in an event may be changed, and given again.
        """
        made, _ = template(id=value)

        assert made.take(event(id=value)) is None

    @pytest.mark.parametrize("value", [[], {}])
    def test_empty_objects_are(self, value):
        """
        What is empty is remembered as it was.
        """
        made, _ = template(id=value)

        assert made.take(event(id=type(value)())) is not None
        assert made.take(event(id=value)) is not None
        if isinstance(value, dict):
            value["a"] = 1
        else:
            value.append(1)

        assert made.take(event(id=value)) is None

    def test_what_may_differ_may_be_absent(self):
        """
        A key whose value doesn't matter is expected only if it was there.
        """
        without = {key: value for key, value in event().items() if key != "number"}
        made = PieceTemplate()
        made.remember(without, PATH, SurrogateBuffer(), make_text_chunk)

        assert made.take(without) is not None
        assert made.take(event()) is None

    def test_the_last_event_counts(self):
        """
        After an event that can't be remembered, those before are not expected.
        """
        made, cut = template()
        made.remember(event(id=[1]), PATH, cut, make_text_chunk)

        assert made.take(event()) is None

    def test_forgets(self):
        """
        Nothing is expected before an event is remembered, and after `forget`.
        """
        made, _ = template()
        made.forget()

        assert made.take(event()) is None
        assert PieceTemplate().take(event()) is None


class TestChunks:
    """
    Chunks that are made without the checks of their constructors.
    """

    @pytest.mark.parametrize("kind", [TextPart, ReasoningPart, RefusalPart])
    @pytest.mark.parametrize("index", [None, 0, 7])
    def test_are_those_of_the_constructors(self, kind, index):
        """
        They are equal, and have all that others have.
        """
        expected = AssistantMessage((kind("é", index=index),))
        made = part_chunks(kind, index)("é")

        assert expected == made
        assert hash(expected) == hash(made)
        assert repr(expected) == repr(made)
        assert expected.replace(name="a") == made.replace(name="a")

    def test_text_and_arguments(self):
        """
        So are those with a text, and with arguments.
        """
        call = ToolCall("", "", "{", index=3)

        assert repr(AssistantMessage("é")) == repr(make_text_chunk("é"))
        assert AssistantMessage("é") == make_text_chunk("é")
        assert AssistantMessage(tool_calls=(call,)) == call_chunks(3)("{")
