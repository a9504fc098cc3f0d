"""Streams of Anthropic Messages: chunks that concatenate to the message."""

import copy
import json
from functools import partial
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import dump, load, load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.requests import AS_IS
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.anthropic import (
    END,
    PING,
    RESPONSES,
    begin,
    call,
    delta,
    events_of,
    given,
    last,
    more,
    notes,
    start,
    stop,
    text,
)
from tests.adapters.helpers import table
from tests.adapters.stream_contract import StreamContract
from tests.formats.cases import without_notes
from tests.processes import count_calls

RECORDED = recorded.streams("anthropic")
given_before = partial(stream_contract.given_before, anthropic)


TEXT = text("")
THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {}}


def collected(*events):
    """The message that *events* make."""
    return concat(load_chunks(events))


def block(raw, *events, at=0):
    """The events that bring a block, whose first one is *raw*, in a whole response."""
    return [start(), begin(raw, at), *events, stop(at), last(), END]


def held(raw, index=0):
    """The part of a block that is kept as it is."""
    return UnknownPart(raw, source="anthropic", index=index)


def shown(message):
    """The parts of *message* without notes, and what it calls."""
    bare = without_notes(message)
    return [*bare.parts, *bare.tool_calls]


class TestContent:
    """Pieces of a block are one part or one call, with the index of the block."""

    @table(
        "events, expected",
        {
            "blocks may be empty, or begin with their whole text": (
                [*block(TEXT, more("a")), *block(TEXT, at=1), begin(text("b"), 2)],
                [TextPart("a", index=0), TextPart("", index=1), TextPart("b", index=2)],
            ),
            "text beyond ASCII may be cut between characters and within": (
                block(
                    TEXT,
                    *map(more, ["größe", "漢", "\U0001f600", "\ud83d", "\ude00", "é"]),
                ),
                [TextPart("größe漢\U0001f600\U0001f600é", index=0)],
            ),
            "texts and thoughts may begin with a piece": (
                [delta("thinking", 0, thinking="a"), more("b", 1), more("c", 1)],
                [ReasoningPart("a", index=0), TextPart("bc", index=1)],
            ),
            "a thought without text is its signature, the last one that is not empty": (
                block(
                    THOUGHT,
                    *[delta("signature", signature=one) for one in ("w", "x", "")],
                ),
                [ReasoningPart("", "x", index=0)],
            ),
            "pieces of calls may come between each other": (
                [
                    *(begin(call("c1")), begin(call("c2"), 1), given("{", 0)),
                    *(given("{}", 1), given("}", 0), stop(0), stop(1)),
                ],
                [ToolCall(f"c{at + 1}", "f", "{}", index=at) for at in range(2)],
            ),
            "empty pieces are the empty object that a call began with": (
                block(call(), given(""), given("")),
                [ToolCall("toolu_1", "f", "{}", index=0)],
            ),
            "arguments may come with the beginning": (
                block(call(given={"q": 1})),
                [ToolCall("toolu_1", "f", '{"q": 1}', index=0)],
            ),
            "arguments that break off are kept": (
                [begin(call()), given('{"q'), given("\ud83d")],
                [ToolCall("toolu_1", "f", '{"q\ufffd', index=0)],
            ),
            "the arguments of a call that only began are unknown": (
                [begin(call())],
                [ToolCall("toolu_1", "f", "", index=0)],
            ),
            "two blocks that share a number have an index each": (
                [
                    *(begin(call("c1", "f")), given("1")),
                    *block(call("c1", "g"), given("2")),
                    *(begin(TEXT), more("a")),
                ],
                [
                    TextPart("a", index=2),
                    ToolCall("c1", "f", "1", index=0),
                    ToolCall("c1", "g", "2", index=1),
                ],
            ),
            "a block with the number of an older one comes after it": (
                [
                    *block(TEXT, more("a", 2**63 - 2), at=2**63 - 2),
                    *block(TEXT, more("b")),
                    *block(TEXT, more("c")),
                ],
                [TextPart("a", index=2**63 - 2), TextPart("bc", index=2**63 - 1)],
            ),
            "unknown pieces with a text of the block are joined": (
                block(
                    {"type": "hologram", "text": "a"},
                    delta("hologram", depth=3, text="b"),
                ),
                [held({"type": "hologram", "text": "ab"})],
            ),
            "what stands for arguments that are to come may be null": (
                block({**call(), "input": None}, given("{}")),
                [ToolCall("toolu_1", "f", "{}", index=0)],
            ),
            "a response may begin with content": (
                [start(content=[text("a"), SEARCH]), *block(TEXT, more("b"))],
                [
                    TextPart("a", index=0),
                    UnknownPart(SEARCH, source="anthropic", index=1),
                    TextPart("b", index=2),
                ],
            ),
            "the provider's own calls come whole, with their input": (
                block(SEARCH, given(""), given('{"q"'), given(": 1}")),
                [held({**SEARCH, "input": {"q": 1}})],
            ),
            "also from pieces with other keys": (
                block(SEARCH, delta("input_json", partial_json='{"q": 1}', cost="2")),
                [held({**SEARCH, "input": {"q": 1}})],
            ),
            "input of theirs that is no object is wrapped": (
                block(SEARCH, given('{"q')),
                [held({**SEARCH, "input": {"INVALID_JSON": '{"q'}})],
            ),
            "a block ends where another one of its number begins": (
                [begin(SEARCH), given("{}"), begin(TEXT), more("a")],
                [held(SEARCH), TextPart("a", index=1)],
            ),
            "blocks stay in the order they were sent": (
                [*block(SEARCH), begin(TEXT, 1), more("a", 1), begin(SEARCH, 2)],
                [held(SEARCH), TextPart("a", index=1), held(SEARCH, 2)],
            ),
            "a summary comes in pieces of its own": (
                block(
                    {"type": "compaction", "content": None},
                    delta("compaction", content="We ", encrypted_content=None),
                    delta("compaction", content="talked."),
                ),
                [held({"type": "compaction", "content": "We talked."})],
            ),
        },
    )
    def test_events(self, events, expected):
        """The parts of the message, and its calls."""
        assert expected == shown(collected(*events))

    @table(
        "events, raw",
        {
            "blocks whose end the server leaves out": (
                [start(), begin(THOUGHT), begin(SEARCH, 1), last(), END],
                [THOUGHT, SEARCH],
            ),
            "what such a server sends before the next block": (
                [
                    *(start(), begin(THOUGHT), delta("thinking", thinking="hm")),
                    *(delta("signature", signature="x"), begin(text(""), 1)),
                    *(more("a", 1), delta("citations", 1, citation={"url": "y"})),
                    *(begin(call(caller={"type": "direct"}), 2), given("{}", 2)),
                    *(begin(text(""), 3), more("b", 3), last(), END),
                ],
                [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    text("a", citations=[{"url": "y"}]),
                    call(caller={"type": "direct"}),
                    text("b"),
                ],
            ),
            "a thought that a dialect does not sign": (
                block(THOUGHT, delta("thinking", thinking="hm")),
                {**THOUGHT, "thinking": "hm"},
            ),
        },
    )
    def test_goes_back(self, events, raw):
        """A block that was streamed is sent back like this."""
        (message,) = dump([collected(*events)], rules=AS_IS).payload["messages"]

        assert (raw if isinstance(raw, list) else [raw]) == message["content"]

    @table(
        "events, losses",
        {
            "a thought that was broken off before it was signed": (
                [begin(THOUGHT), delta("thinking", thinking="hm")],
                ["reasoning"],
            ),
            "a call of the provider's that was broken off": (
                [begin(SEARCH), given('{"q')],
                ["server_tool_use"],
            ),
        },
    )
    def test_broken_off(self, events, losses):
        """What was broken off is in the message, and can't be sent back."""
        message = collected(*events)

        export = dump([message])

        assert 1 == len(message.parts)
        assert [] == export.payload["messages"]
        assert losses == [lost.what for lost in export.lost]

    @table(
        "events, paths",
        {
            "a character that is cut in two is joined": (
                block(TEXT, more("a\ud83d"), more("\ude00b")),
                [],
            ),
            "a half that is left in a text": (
                block(TEXT, more("a\ud83d"), more("b"), more("\ud83d")),
                ["content[0].text"],
            ),
            "a half in a block that comes with the message": (
                [start(content=[text("\ud800")])],
                ["content[0].text"],
            ),
            "a half in arguments": (
                [begin(call()), given('{"q'), given("\ud83d")],
                ["content[0].input"],
            ),
            "a half in a text that comes whole": (
                [begin(text("\ud800", citations=[{"a": "\ud800"}]))],
                ["content[0].citations[0].a", "content[0].text"],
            ),
            "a half in a citation": (
                block(TEXT, delta("citations", citation="\ud800")),
                ["content[0].citation"],
            ),
            "a half in another block, and in its pieces": (
                [
                    begin({"type": "compaction", "content": "\ud800"}, 1),
                    delta("compaction", 1, content="a\ud83d"),
                ],
                ["content[1]", "content[1].content"],
            ),
        },
    )
    def test_mended(self, events, paths):
        """Half of a surrogate pair is mended, and its path is noted."""
        message = collected(*events)

        assert paths == sorted(notes(message).get("mended", ()))
        assert "\ud83d" not in message.text

    def test_too_deep(self):
        """Input that can't be kept is refused."""
        deep = '{"a":' * 200 + "1" + "}" * 200

        _, error = given_before([begin(SEARCH), given(deep), stop()], DecodeError)

        assert error.problems[0].path.startswith("$[0].content_block.input.a.a")


class TestResponse:
    def test_usage_once(self):
        """
        With the last count of the prompt, and the largest of what was written; what is
        not repeated stands.
        """
        usage = {
            "input_tokens": 9,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": None,
            "output_tokens": 7,
        }
        chunks: list[Any] = list(
            load_chunks(
                [
                    start(usage={"input_tokens": 20, "output_tokens": 1}),
                    last(usage={**usage, "output_tokens": 9}),
                    last(usage=usage),
                    END,
                ]
            )
        )

        assert [(13, 9, 22)] == [
            (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
            for usage in [chunk.response.usage for chunk in chunks if chunk.response]
        ]

    @table(
        "events, usage",
        {
            "a null leaves what was there": (
                [
                    start(usage={"input_tokens": 9, "service_tier": "standard"}),
                    last(usage={"input_tokens": None, "service_tier": None}),
                ],
                Usage(9),
            ),
        },
    )
    def test_usage(self, events, usage):
        """The usage of a response, from all events that have counts."""
        assert usage == collected(*events).response.usage

    def test_usage_that_grows(self):
        """Usage that is repeated is read once, however much there is."""

        def cost(size):
            events = [last(usage={f"k{at}": at + 1}) for at in range(size)]
            return count_calls(lambda: collected(*events))

        message = collected(*[last(usage={f"k{at}": at + 1}) for at in range(3)])

        extra = dict(message.response.usage.extra)
        assert {**extra, "k0": 1, "k1": 2, "k2": 3} == extra
        assert cost(300) - cost(200) <= 1.1 * (cost(200) - cost(100))

    def test_too_much_together(self):
        """Counts that are too large together are kept as they were sent."""
        message = collected(
            start(usage={"input_tokens": 2**62}),
            last(usage={"cache_read_input_tokens": 2**62}),
        )

        assert message.response.usage is None
        assert {"input_tokens": 2**62, "cache_read_input_tokens": 2**62} == (
            thaw(notes(message)["response"]["usage"])
        )

    def test_nulls_at_the_end(self):
        """A client's null at the end does not replace what came at the start."""
        message = collected(
            start(container={"id": "c"}, stop_sequence=None),
            {
                **last(),
                "context_management": {"applied_edits": []},
                "delta": {"container": None, "stop_sequence": "X"},
            },
            {**last(), "context_management": None, "delta": {"stop_sequence": None}},
            {**END, "container": None},
        )
        kept = thaw(notes(message)["response"])

        assert {
            **kept,
            "container": {"id": "c"},
            "context_management": {"applied_edits": []},
            "stop_sequence": "X",
        } == kept

    def test_unknown_events(self):
        """Unknown events are kept, and so are keys."""
        message = collected(
            {"type": "weather", "rain": True},
            {**PING, "cost": 1},
            begin(TEXT, p="ab"),
            {**delta("text", text="a", tone="dry"), "p": "abc"},
            {"type": "weather"},
        )
        kept_notes = notes(message)

        assert "a" == message.text
        assert ({"type": "weather", "rain": True}, {"type": "weather"}) == tuple(
            dict(each) for each in kept_notes["events"]
        )
        assert {"cost": 1, "p": "abc", "tone": "dry"} == kept_notes["event"]

    @pytest.mark.parametrize("kind", [{}, {"type": 3}, {"type": "tone_delta"}])
    @pytest.mark.parametrize("raw", [THOUGHT, call()])
    def test_unknown_deltas(self, raw, kind):
        """A piece of an unknown type is kept as its event."""
        odd = {**delta("x"), "delta": {**kind, "of": [1]}}
        message = collected(begin(raw), odd, stop())

        assert [odd] == thaw(notes(message)["events"])

    @pytest.mark.parametrize("guess", [None, 50])
    def test_guesses(self, guess):
        """How large a thought may be so far is no part of it, nor are nulls."""
        pieces = [
            delta("thinking", thinking=piece, estimated_tokens=guess)
            for piece in ("H", "m", "", ".")
        ]
        message = collected(*block(THOUGHT, *pieces, delta("signature", signature="s")))
        nulls = collected(*block(TEXT, delta("text", text="a", tone=None)))

        assert [ReasoningPart("Hm.", "s", index=0)] == shown(message)
        assert {"signed": True} == notes(message.content[0])
        assert {} == notes(nulls.content[0])

    def test_another_model(self):
        """The model that answers after another model declined is known by a block."""
        raw = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}

        assert "b" == collected(*block(raw)).response.model
        assert "claude" == collected(*block({**raw, "to": 5})).response.model
        assert "\ufffd" == (
            collected(*block({**raw, "to": {"model": "\ud800"}})).response.model
        )


class TestEnds:
    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([start(), begin(TEXT), more("a")], "interrupted"),
            ([more("a"), "[DONE]"], ""),
            ([more("a"), last()], "end_turn"),
            ([more("a"), last("max_tokens"), END], "max_tokens"),
        ],
    )
    def test_reason(self, events, reason):
        """A stream without its end was interrupted."""
        assert reason == collected(*events).response.finish_reason

    @pytest.mark.parametrize(
        ("failure", "reason"),
        [
            (
                {"type": "error", "error": {"type": "x", "message": "Overloaded"}},
                "Overloaded",
            ),
            ({"error": {"message": "Overloaded"}}, "Overloaded"),
        ],
    )
    def test_provider_fails(self, failure, reason):
        """With the provider's message, after everything before it was given."""
        chunks, error = given_before(
            [start(), begin(TEXT), more("a"), begin(SEARCH, 1), failure, more("b")],
            ProviderStreamError,
        )
        message = concat(chunks)

        assert (reason, failure) == (error.reason, error.event)
        assert ("a", 2) == (message.text, len(message.content))
        assert "interrupted" == message.response.finish_reason


class TestRefuses:
    @pytest.mark.parametrize(
        ("event", "path"),
        [
            (5, "$[1]"),
            ({"type": "message", "content": []}, "$[1]"),
            ({"type": "message_start"}, "$[1].message"),
            (start(role="user"), "$[1].message.role"),
            (start(content=[5]), "$[1].message.content[0]"),
            (begin({}), "$[1].content_block.type"),
            (begin({"type": "text"}), "$[1].content_block.text"),
            (begin(call(given=5)), "$[1].content_block.input"),
            (begin(TEXT, -1), "$[1].index"),
            (more("a", [1]), "$[1].index"),
            (more(5), "$[1].delta.text"),
            (given("{}", 3), "$[1]"),
            (delta("signature", 3, signature="x"), "$[1]"),
        ],
    )
    def test_what_is_no_event(self, event, path):
        """Each with its path, after what was given before."""
        first = begin(SEARCH) if event == given("{}") else begin(TEXT)
        event = given(5) if event == given("{}") else event
        chunks, error = given_before([first, event], DecodeError)

        assert [path] == [problem.path for problem in error.problems]
        assert "interrupted" == chunks[-1].response.finish_reason

    @pytest.mark.parametrize("at", [True, 1.0])
    def test_what_is_nearly_a_number(self, at):
        """Numbers of blocks are integers, also where the block is open."""
        events = [begin(TEXT, int(at)), more("a", int(at)), more("b", at)]
        _, error = given_before(events, DecodeError)

        assert ["$[2].index"] == [problem.path for problem in error.problems]


def plain(message):
    """
    *message* without what JSON does not distinguish in arguments, and without what only
    one of a stream and its response has.
    """
    calls = [
        attrs.evolve(one, arguments=json.dumps(json.loads(one.arguments)))
        for one in message.tool_calls
    ]
    return message.replace(tool_calls=calls)


STREAMED = RESPONSES.filter(
    lambda response: all(
        block.get("type") not in {"tool_use", "server_tool_use"}
        or (isinstance(block["input"], dict) and "INVALID_JSON" not in block["input"])
        for block in response["content"]
    )
)


# Where the pieces of a block belong, by the type of their deltas.
PLACES = {
    "citations_delta": ("citations", "citation"),
    "signature_delta": ("signature", "signature"),
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
}


def response_of(events):
    """The response that *events* are of, put together by the provider's rules."""
    response: dict[str, Any] = {}
    texts: dict[int, str] = {}
    for event in copy.deepcopy(events):
        match event:
            case {"type": "message_start", "message": message}:
                response = message
            case {"type": "content_block_start", "content_block": block}:
                response["content"].append(block)
            case {"delta": {"type": "input_json_delta", "partial_json": piece}}:
                texts[event["index"]] = texts.get(event["index"], "") + piece
            case {"type": "content_block_delta", "delta": piece, "index": at}:
                block = response["content"][at]
                field, key = PLACES[piece["type"]]
                new = [piece[key]] if field == "citations" else piece[key]
                block[field] += new
            case {"type": "message_delta", "delta": told, "usage": spent}:
                response |= told
                response["usage"] |= spent

    for at, arguments in texts.items():
        response["content"][at]["input"] = json.loads(arguments or "{}")

    return response


@st.composite
def streams(draw):
    """A response, and the events of the same one as a stream."""
    response = {**draw(STREAMED), "stop_sequence": None}
    size = draw(st.integers(0, 3))
    for block in response["content"]:
        if block.get("type") == "thinking":
            block["signature"] = block.get("signature") or ""

    return response, events_of(response, lambda parts: [parts[:size], *parts[size:]])


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = anthropic
    response_streams: ClassVar = streams()
    failure_events: ClassVar = [{"type": "error", "error": {"message": "Overloaded"}}]

    def text_events(self, size):
        """A text block in pieces."""
        return [start(), begin(TEXT), *[more("a")] * size, stop(), last(), END]

    def call_events(self, size):
        """A call, and its input in pieces."""
        return [start(), begin(call(given={})), *[given("1")] * size, stop(), END]

    def is_end(self, event):
        """A reason to stop is there, or a stop event."""
        reason = event.get("delta", {}).get("stop_reason")
        return event["type"] == "message_stop" or bool(reason)

    def check(self, whole, message):
        """See that they are the same, but for the white space of arguments."""
        assert tuple(map(plain, load(whole))) == (plain(message),)


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    """Streams as the provider sent them."""

    def test_collects(self, path):
        """To the content of its events, down to the last citation and count."""
        events = stream_contract.events_of(path)
        response = response_of(events)
        message = collected(*events)

        assert load(response) == (message,)
        assert [
            block["text"] for block in response["content"] if block["type"] == "text"
        ] == [part.text for part in message.content if isinstance(part, TextPart)]
        assert [
            block["signature"]
            for block in response["content"]
            if block["type"] == "thinking"
        ] == [
            part.signature
            for part in message.content
            if isinstance(part, ReasoningPart)
        ]
