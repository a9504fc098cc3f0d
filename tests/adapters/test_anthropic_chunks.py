"""Streams of Anthropic Messages: chunks that concatenate to the message."""

import copy
import json
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st

from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import dump, load, load_chunks
from conversation_state.chunks import concat
from conversation_state.parts import ReasoningPart, TextPart
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.anthropic import (
    END,
    RESPONSES,
    begin,
    call,
    delta,
    events_of,
    given,
    last,
    more,
    start,
    stop,
    text,
)
from tests.adapters.helpers import table
from tests.adapters.stream_contract import StreamContract
from tests.processes import count_calls

RECORDED = recorded.streams("anthropic")


TEXT = text("")
THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {}}


def collected(*events):
    """The message that *events* make."""
    return concat(load_chunks(events))


def block(raw, *events, at=0):
    """The events that bring a block, whose first one is *raw*, in a whole response."""
    return [start(), begin(raw, at), *events, stop(at), last(), END]


class TestContent:
    """Pieces of a block are one part or one call, with the index of the block."""

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

    @pytest.mark.parametrize(
        ("raw", "events"),
        [
            (TEXT, [more("a"), more("b")]),
            (call(given={}), [given("{}")]),
        ],
        ids=["text", "call"],
    )
    def test_nothing_to_add(self, raw, events):
        """The end of a block whose pieces were given is no chunk."""
        chunks = list(load_chunks(block(raw, *events)))

        assert 2 == sum(bool(chunk.parts or chunk.tool_calls) for chunk in chunks)

    def test_no_pieces(self):
        """A block without any is there, empty."""
        assert [TextPart("", index=0)] == [*collected(*block(TEXT)).parts]


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

    def test_usage_that_grows(self):
        """Usage that is repeated is read once, however much there is."""

        def cost(size):
            events = [last(usage={f"k{at}": at + 1}) for at in range(size)]
            return count_calls(lambda: collected(*events))

        message = collected(*[last(usage={f"k{at}": at + 1}) for at in range(3)])

        extra = dict(message.response.usage.extra)
        assert {**extra, "k0": 1, "k1": 2, "k2": 3} == extra
        assert cost(300) - cost(200) <= 1.1 * (cost(200) - cost(100))


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
