"""What streams of all formats share: what an event repeats, and chunks of one piece."""

from functools import partial
from importlib import import_module
from itertools import permutations
from typing import Any

import pytest

from conversation_state.adapters.engine.streaming import (
    Repeats,
    SurrogateBuffer,
    make_call_chunk,
    make_chunk,
    make_part_chunk,
)
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall

EVENT = {"text": "a", "number": 1, "id": "i", "none": None, "list": [], "map": {}}


class TestRepeats:
    """An event repeats the one before it if it differs in free keys only."""

    def repeats(self, event, *, after=EVENT):
        seen = Repeats("text", "number")
        seen.has(after)
        return seen.has(event)

    @pytest.mark.parametrize(
        "free", [{}, {"text": "b"}, {"number": None}, {"text": {"any": []}}]
    )
    def test_again(self, free):
        """Whatever the values of the free keys are."""
        assert self.repeats({**EVENT, **free})

    @pytest.mark.parametrize(
        "other",
        [
            *[{**EVENT, **more} for more in ({"id": "j"}, {"x": 1}, {"list": [1]})],
            {"text": "a", "number": 1, "id": "i"},
            {key: EVENT[key] for key in EVENT if key != "number"},
            *[None, "[DONE]", [], {}],
        ],
    )
    def test_anything_else(self, other):
        """A key more or less or with another value is new, and then repeats itself."""
        assert not self.repeats(other)
        assert self.repeats(EVENT, after=EVENT)

    @pytest.mark.parametrize("value", [[1], {"a": 1}])
    def test_objects(self, value):
        """An object may be changed and given again, so one that holds any is new."""
        assert not self.repeats({**EVENT, "id": value}, after={**EVENT, "id": value})

    @pytest.mark.parametrize("value", [[], {}])
    def test_empty(self, value):
        """What is empty repeats until it is changed in place."""
        seen, event = Repeats(), {"a": value}

        assert [False, True] == [seen.has(event), seen.has(event)]
        value.update(a=1) if isinstance(value, dict) else value.append(1)
        assert not seen.has(event)

    def test_first(self):
        """The first event repeats nothing, nor does the one behind `forget`."""
        seen: Any = Repeats()

        assert not any(map(seen.has, [None, None, EVENT]))
        seen.forget()
        assert not seen.has(EVENT)


class Text(str):
    __slots__ = ()


def test_subclass():
    """A piece is an exact `str`, because chunks are made of it without checks."""
    assert str is type(SurrogateBuffer().next(Text("b")))


class TestChunks:
    """
    Chunks that are made without the checks of their constructors are equal to others,
    and have all that others have.
    """

    CALL = ToolCall("", "", "é", index=3)

    @pytest.mark.parametrize(
        ("expected", "make"),
        [
            (AssistantMessage("é"), make_chunk),
            (AssistantMessage(tool_calls=(CALL,)), partial(make_call_chunk, 3)),
            *[
                (
                    AssistantMessage((kind("é", index=index),)),
                    partial(make_part_chunk, kind, index),
                )
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


# An event with a piece of text, as each format's streams have it.
PIECES: dict[str, dict[str, Any]] = {
    "ag_ui": {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi"},
    "ai_sdk": {"type": "text-delta", "id": "t", "delta": "Hi"},
    "anthropic": {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hi"},
    },
    "gemini": {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]},
    "openai_chat": {"choices": [{"index": 0, "delta": {"content": "Hi"}}]},
    "openai_responses": {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hi",
    },
}


class TestOtherFormats:
    """Events of another format are refused: no answer is made of them."""

    @pytest.mark.parametrize(("reader", "writer"), [*permutations(PIECES, 2)])
    def test_refused(self, reader, writer):
        """The error names the adapter that reads them, whichever was called."""
        adapter = import_module(f"conversation_state.adapters.{reader}")

        with pytest.raises(DecodeError) as caught:
            [*adapter.load_chunks([PIECES[writer]])]
        (problem,) = caught.value.problems
        assert "$[0]" == problem.path
        assert problem.what.endswith(f"; {writer}.load_chunks(events) reads it")

    @pytest.mark.parametrize("reader", ["gemini", "openai_chat"])
    @pytest.mark.parametrize(
        "event",
        [
            {},
            {"id": "r", "x": 1},
            {"type": "ping"},
            {"usage": None, "usageMetadata": None},
        ],
    )
    def test_own(self, reader, event):
        """An event without a piece, such as one that keeps a connection, is not."""
        adapter = import_module(f"conversation_state.adapters.{reader}")

        assert "Hi" == concat(adapter.load_chunks([event, PIECES[reader]])).text

    @pytest.mark.parametrize("reader", PIECES)
    @pytest.mark.parametrize(
        "other", [{"type": "response.metadata"}, {"type": "text-x"}, {"type": "RUN_X"}]
    )
    def test_behind_own(self, reader, other):
        """Behind an event of the adapter's own, the answer goes on."""
        adapter = import_module(f"conversation_state.adapters.{reader}")
        piece = PIECES[reader]
        begin = {"ag_ui": "TEXT_MESSAGE_START", "ai_sdk": "text-start"}.get(reader)
        events = [{**piece, "type": begin}] if begin else []

        answer = concat(adapter.load_chunks([*events, piece, other, piece]))

        assert "HiHi" == answer.text

    def test_type_that_begins_so(self):
        """The type that wraps a chunk in OpenAI's SDK is compared whole."""
        anthropic = import_module("conversation_state.adapters.anthropic")

        events = [{"type": "chunk_info", "x": 1}, PIECES["anthropic"]]

        assert "Hi" == concat(anthropic.load_chunks(events)).text
