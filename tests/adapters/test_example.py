"""
The example of an adapter, and what the test files of an adapter have at least.

A format of the package has its strategies in a module of their own, from which other
tests take `CONVERSATIONS`: ``tests/adapters/NAME.py``.
"""

import json
from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, TextPart, UnknownPart
from conversation_state.testing import check_adapter
from conversation_state.testing.strategies import json_values, texts
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.adapters import example
from tests.adapters.contract import FormatContract, bare, problem_paths
from tests.adapters.example import dump, load, load_usage
from tests.adapters.example_stream import aload_chunks, load_chunks
from tests.adapters.helpers import both, exactly, some, table
from tests.adapters.stream_contract import StreamContract, split_text
from tests.profiles import fewer

# Conversations, as the provider writes them: what it has, with keys of newer versions

NEWER = some(newer=json_values())
IDS = st.sampled_from(["c1", "c2"])
TEXT = both(exactly(kind=st.just("text"), text=texts()), NEWER)
STICKER = both(exactly(kind=st.sampled_from(["sticker", "newer"]), code=texts()), NEWER)
INPUTS = st.dictionaries(texts(max_size=3), json_values(), max_size=2)
CALL = both(exactly(kind=st.just("call"), id=IDS, name=texts(), input=INPUTS), NEWER)
RESULT = both(
    exactly(kind=st.just("result"), id=IDS, text=texts()),
    some(failed=st.booleans() | st.none()),
    NEWER,
)


def turns(role, blocks):
    """Turns of *role*, of *blocks*."""
    role = st.just(role) if isinstance(role, str) else role
    return both(exactly(role=role, blocks=st.lists(blocks, max_size=3)), NEWER)


ANSWERS = turns("model", TEXT | CALL | STICKER)
TURNS = st.one_of(
    ANSWERS,
    turns("user", TEXT | STICKER),
    turns("user", RESULT),
    turns("user", RESULT | TEXT),
    turns(st.sampled_from(["guest", ""]), TEXT),
)
CONVERSATIONS = both(some(context=texts()), exactly(turns=st.lists(TURNS, max_size=4)))
COUNTS = st.integers(0, 9) | st.none()
FACTS = some(
    stop=st.sampled_from(["end", "tool", "later", None]),
    counts=st.none() | some(input=COUNTS, output=COUNTS, cached=COUNTS, of=texts()),
    id=st.just("r1") | st.none(),
    model=texts() | st.none(),
    newer=json_values(),
)
RESPONSES = both(exactly(turn=ANSWERS), FACTS)


@st.composite
def response_streams(draw):
    """Responses, each with the events of its stream."""
    blocks = draw(st.lists(TEXT | CALL | STICKER, max_size=4))
    facts = draw(FACTS)
    events: list[Any] = []
    for at, block in enumerate(blocks):
        begin, pieces = block, []
        if block["kind"] == "text":
            first, *pieces = draw(split_text(block["text"]))
            begin = {**block, "text": first}
        elif block["kind"] == "call":
            begin = {key: block[key] for key in block if key != "input"}
            pieces = draw(split_text(as_text(block["input"])))

        events += [{"at": at, "block": begin}]
        events += [{"at": at, "more": piece} for piece in pieces]

    turn = {"role": "model", "blocks": blocks}
    return {"turn": turn, **facts}, [*events, {"end": facts}]


# Short ways to write some


def text(text):
    return {"kind": "text", "text": text}


def call(call_id="c1", name="f", **given):
    return {"kind": "call", "id": call_id, "name": name, "input": given}


def result(call_id="c1", text="ok", **fields):
    return {"kind": "result", "id": call_id, "text": text, **fields}


def turn(role, *blocks, **fields):
    return {"role": role, "blocks": [*blocks], **fields}


WAVE = {"kind": "sticker", "code": "wave"}
STICKER_PART = UnknownPart(WAVE, source="example")


def as_text(value):
    """*value* as the text that arguments are loaded as: without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = example
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = RESPONSES
    unsent_notes: ClassVar = frozenset({"response"})

    def normalise(self, message):
        """
        What no round trip can keep here: which of two ways a content is written in,
        and the white space of arguments.
        """
        message = bare(message)
        if isinstance(message, UnknownMessage):
            return message

        if isinstance(message, AssistantMessage):
            calls = [
                attrs.evolve(
                    each, arguments=as_text(json.loads(each.arguments or "{}"))
                )
                for each in message.tool_calls
            ]
            message = message.replace(tool_calls=calls)

        # Results and system messages have one text; others have parts.
        is_text = isinstance(message, (SystemMessage, ToolMessage))
        return message.replace(content=message.text if is_text else message.parts)


def test_public_contract():
    """And the public contract for adapters."""
    check_adapter(example, settings=fewer())


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    # A format of the package is one module with all functions, and stands here itself.
    adapter: ClassVar = SimpleNamespace(
        __name__="example",
        dump=dump,
        load=load,
        load_chunks=load_chunks,
        aload_chunks=aload_chunks,
    )
    response_streams: ClassVar = response_streams()
    failure_events: ClassVar = [{"error": {"message": "overloaded"}}]

    def text_events(self, size):
        """One text."""
        more = [{"at": 0, "more": "a"}] * size
        return [{"at": 0, "block": text("")}, *more, {"end": {}}]

    def call_events(self, size):
        """One call."""
        begin = {"kind": "call", "id": "c1", "name": "f"}
        more = [{"at": 0, "more": "1"}] * size
        return [{"at": 0, "block": begin}, *more, {"end": {}}]

    def is_end(self, event):
        """There is one such event."""
        return "end" in event


class TestLoad:
    """What is this format's own."""

    def test_odd_block(self):
        """A block without a part of ours comes back here, and is lost elsewhere."""
        turns = [turn("user", text("Hi!"), WAVE)]

        messages = load({"turns": turns})
        (lost,) = openai_chat.dump(messages).lost

        assert (UserMessage([TextPart("Hi!"), STICKER_PART]),) == messages
        assert {"turns": turns} == dump(messages).payload
        assert ("messages[0].parts[1]", "sticker") == (lost.path, lost.what)

    def test_calls_among_blocks(self):
        """Calls and parts have their place as *index*, and a result the tool's name."""
        turns = [
            turn("model", call("c1", "tide", at="Oban"), WAVE, call("c2"), text("So.")),
            turn("user", result("c2", failed=True), result("c1", "6:40"), more=1),
            turn("user", result("c3")),
        ]

        messages: Any = load(turns)

        asked = [ToolCall("c1", "tide", '{"at":"Oban"}', index=0)]
        asked += [ToolCall("c2", "f", "{}", index=2)]
        parts = [attrs.evolve(STICKER_PART, index=1), TextPart("So.", index=3)]
        assert AssistantMessage(parts, tool_calls=asked) == messages[0]
        assert [("c2", "f", True), ("c1", "tide", False), ("c3", "", False)] == [
            (each.tool_call_id, each.tool_name, each.is_error) for each in messages[1:]
        ]
        assert {"turns": turns} == dump(messages).payload

    def test_results_and_words(self):
        """
        Results and what follows them in a turn are messages of their own, and one turn
        again.
        """
        whole = turn("user", result("c1"), result("c2"), text("Go on."), WAVE, more=1)

        messages: Any = load([whole])

        assert ["tool", "tool", "user"] == [each.role for each in messages]
        assert [whole] == dump(messages).payload["turns"]
        assert 2 == len(dump([messages[0], UserMessage("x")]).payload["turns"])

    def test_context(self):
        """The context is a system message in front; null is like a missing one."""
        payload = {"context": "Be brief.", "turns": []}

        assert (SystemMessage("Be brief."),) == load(payload)
        assert payload == dump(load(payload)).payload
        assert () == load({"context": None, "turns": []})

    def test_joined_contexts(self):
        """
        All system messages are one context, and what was joined or moved is listed.
        """
        export = dump(
            [
                SystemMessage("a"),
                SystemMessage(""),
                SystemMessage([TextPart("b"), TextPart("c")]),
                UserMessage("Hi!"),
                SystemMessage("d"),
            ]
        )

        assert "a\n\nbc\n\nd" == export.payload["context"]
        assert [
            ("messages[1]", "system"),
            ("messages[2]", "parts"),
            ("messages[2]", "system"),
            ("messages[4]", "system"),
        ] == [(lost.path, lost.what) for lost in export.lost]

    def test_mended_beside_the_turn(self):
        """
        Half of a surrogate pair beside the turn of a response is not sent, so it is
        not listed; in the turn it is, by its path.
        """
        response = {"turn": turn("model", text("Hi")), "model": "\ud800"}

        assert () == dump(load(response)).lost

        response["turn"] = turn("model", text("\ud800"))
        (lost,) = dump(load(response)).lost

        assert "blocks[0].text" in lost.what

    def test_response(self):
        """A response is one message with its metadata."""
        facts = {"id": "r1", "model": "m", "stop": "end", "of": "x"}
        response = {"turn": turn("model", text("Hi")), **facts}
        response["counts"] = {"input": 9, "output": 3, "cached": 4}
        usage = Usage(9, 3, extra={"cached": 4})

        message: Any
        (message,) = load(response)

        assert ResponseMeta("end", usage, None, "m", "r1") == message.response
        assert usage == load_usage(response)
        assert {"turns": [response["turn"]]} == dump([message]).payload

    def test_mended(self):
        """Each message lists what was mended in its own block."""
        payload = [turn("user", result("c1", "\ud800"), result(), result("\udfff"))]

        assert [("messages[0]", "blocks[0].text"), ("messages[2]", "blocks[2].id")] == [
            (lost.path, lost.what) for lost in dump(load(payload)).lost
        ]

    @table(
        "payload, path",
        {
            "neither": ({}, "$"),
            "both": ({"turns": [], "turn": turn("model")}, "$"),
            "no list": ({"turns": 1}, "$.turns"),
            "a response of a user": ({"turn": turn("user")}, "$.turn.role"),
            "no role": ([{"blocks": []}], "$[0].role"),
            "no blocks": ([{"role": "user"}], "$[0].blocks"),
            "no kind": ([turn("user", {})], "$[0].blocks[0].kind"),
            "no input": (
                [turn("model", {"kind": "call", "id": "", "name": ""})],
                "$[0].blocks[0].input",
            ),
            "a result of no call": ([turn("user", result(""))], "$[0].blocks[0].id"),
            "failed as text": (
                [turn("user", result(failed="no"))],
                "$[0].blocks[0].failed",
            ),
        },
    )
    def test_refused(self, payload, path):
        """What is wrong is named with its path."""
        assert [path] == problem_paths(load, payload)


@table(
    "message, blocks, lost",
    {
        "a picture": (
            UserMessage([ImagePart(url="https://a.b/c"), TextPart("this")]),
            [text("this")],
            [("messages[0].parts[0]", "image")],
        ),
        "arguments that are no object": (
            AssistantMessage(tool_calls=[ToolCall("c1", "f", "[1]")]),
            [call()],
            [("messages[0].tool_calls[0]", "arguments")],
        ),
        "a picture that a tool returned": (
            ToolMessage([ImagePart(url="https://a.b/c")], tool_call_id="c1"),
            [result(text="")],
            [("messages[0].parts[0]", "image")],
        ),
        "a tool that was not called": (
            ToolMessage("ok", tool_call_id="c1", tool_name="g"),
            [result()],
            [("messages[0]", "tool_name")],
        ),
    },
)
def test_lost(message, blocks, lost):
    """What has no block is listed, and the rest is sent."""
    export = dump([message])

    assert blocks == export.payload["turns"][0]["blocks"]
    assert lost == [(each.path, each.what) for each in export.lost]


class TestChunks:
    """What is this format's own in a stream."""

    def test_characters(self):
        """
        A character that is cut in two comes whole; half of one is mended, and listed.
        """
        events = [
            {"at": 0, "block": text("a\ud83d")},
            {"at": 0, "more": "\ude00b"},
            {"at": 0, "more": "\ud83d"},
            {"at": 0, "block": text("c")},
        ]

        message: Any = concat(load_chunks(events))

        assert ["a\U0001f600b\ufffd", "c"] == [part.text for part in message.parts]
        assert ["blocks[0]"] == [lost.what for lost in dump([message]).lost]

    @table(
        "event, what",
        {
            "no number": ({"block": text("a")}, r"at: is missing"),
            "more of nothing": ({"at": 0, "more": "a"}, r"at: is 0"),
            "anything else": ({"at": 0}, "has none of"),
        },
    )
    def test_refused(self, event, what):
        """An event that says nothing we know is refused."""
        with pytest.raises(DecodeError, match=what):
            list(load_chunks([event]))
