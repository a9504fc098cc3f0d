"""
Streams of Anthropic Messages: chunks that concatenate to what was said.
"""

import copy
import json
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import (
    dump,
    load,
    load_chunks,
)
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.anthropic import (
    END,
    PING,
    RESPONSES,
    answer,
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
from tests.adapters.stream_contract import StreamContract, calls_made_by

RECORDED = recorded.streams("anthropic")


def collected(*events):
    """
    The message that *events* make.
    """
    return concat(load_chunks(events))


def within(block, *events, at=0):
    """
    The message that a *block* makes, brought by *events*.
    """
    return collected(start(), begin(block, at), *events, stop(at), last(), END)


def given_before(events, error):
    """
    The chunks that come before *error*, and the error.
    """
    chunks: list[Any] = []
    with pytest.raises(error) as caught:
        chunks.extend(load_chunks(events))

    return chunks, caught.value


TEXT = text("")
THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {}}


class TestText:
    def test_pieces(self):
        """
        The text of all events, the reason to finish, the model.
        """
        message = within(TEXT, more("Hel"), PING, more(""), more("lo"))

        assert (TextPart("Hello", index=0),) == message.content
        assert ("end_turn", "claude") == (
            message.response.finish_reason,
            message.response.model,
        )

    def test_blocks(self):
        """
        Each block is a part, also one that says nothing, or begins with all
        it says.
        """
        message = collected(
            begin(TEXT), more("a"), stop(), begin(TEXT, 1), stop(1), begin(text("b"), 2)
        )

        assert [("a", 0), ("", 1), ("b", 2)] == [
            (part.text, part.index) for part in message.content
        ]

    def test_citations(self):
        """
        Are noted with the text they are on, one after the other.
        """
        message = within(
            text("", citations=[]),
            delta("citations", citation={"url": "x"}),
            more("a"),
            delta("citations", citation={"url": "y"}),
        )
        cited = [{"url": "x"}, {"url": "y"}]

        assert "a" == message.text
        assert [answer(text("a", citations=cited))] == (
            dump([message]).payload["messages"]
        )

    def test_surrogates(self):
        """
        A character cut in two is put together again; half of one that is left
        is mended, and noted.
        """
        whole = within(TEXT, more("a\ud83d"), more("\ude00b"))
        broken = within(TEXT, more("a\ud83d"), more("b"), more("\ud83d"))

        assert "a\U0001f600b" == whole.text
        assert "a\ufffdb\ufffd" == broken.text
        assert ("content[0].text",) == notes(broken)["mended"]
        assert "mended" not in notes(whole)

    def test_surrogates_elsewhere(self):
        """
        Also where text comes whole.
        """
        message = collected(
            begin(text("\ud800", citations=[{"a": "\ud800"}])),
            delta("citations", citation="\ud800"),
            stop(),
            begin({"type": "compaction", "content": "\ud800"}, 1),
        )

        assert {
            "content[0].text",
            "content[0].citations[0].a",
            "content[0].citation",
            "content[1].content",
        } == {*notes(message)["mended"]}

    def test_whole_characters(self):
        """
        Text beyond ASCII, cut between characters and within.
        """
        pieces = [
            "gr\u00f6\u00dfe",
            "\u6f22",
            "\U0001f600",
            "\ud83d",
            "\ude00",
            "\u00e9",
        ]

        assert "gr\u00f6\u00dfe\u6f22\U0001f600\U0001f600\u00e9" == (
            within(TEXT, *map(more, pieces)).text
        )


class TestThinking:
    def test_signed(self):
        """
        Thoughts in pieces, the signature byte for byte.
        """
        message = within(
            THOUGHT,
            delta("thinking", thinking="h"),
            delta("thinking", thinking="m"),
            delta("signature", signature="Ep+/=="),
        )
        noted = {"conversation_state": {"anthropic": {"signed": True}}}

        assert (ReasoningPart("hm", "Ep+/==", index=0, metadata=noted),) == (
            message.content
        )

    def test_signed_at_once(self):
        """
        Or with all that it says.
        """
        block = {"type": "thinking", "thinking": "hm", "signature": "x"}

        assert [answer(block)] == dump([within(block)]).payload["messages"]

    def test_hidden(self):
        """
        A thought without text is its signature.
        """
        message = within(THOUGHT, delta("signature", signature="x"))

        assert [("", "x")] == [(part.text, part.signature) for part in message.content]

    def test_unsigned(self):
        """
        What a dialect does not sign goes back as it came.
        """
        message = within(THOUGHT, delta("thinking", thinking="hm"))

        assert [answer({**THOUGHT, "thinking": "hm"})] == (
            dump([message]).payload["messages"]
        )

    def test_broken_off(self):
        """
        What was broken off before it was signed can't go back.
        """
        message = collected(begin(THOUGHT), delta("thinking", thinking="hm"))
        export = dump([message])

        assert "hm" == message.reasoning
        assert ["reasoning"] == [lost.what for lost in export.lost]

    def test_redacted(self):
        """
        Redacted thinking comes whole.
        """
        block = {"type": "redacted_thinking", "data": "Em+/=="}
        message = within(block)

        assert "Em+/==" == message.content[0].signature
        assert [answer(block)] == dump([message]).payload["messages"]


class TestCalls:
    def test_pieces(self):
        """
        Arguments byte for byte, at the call's place in the response.
        """
        message = collected(
            begin(TEXT),
            more("a"),
            stop(),
            begin(call("c1", "f", caller={"type": "direct"}), 1),
            given("", 1),
            given('{ "q":', 1),
            given(' "\\u00e9"}', 1),
            stop(1),
            begin(call("c2", "g"), 2),
            given("{}", 2),
            stop(2),
            begin(TEXT, 3),
            more("b", 3),
            last("tool_use"),
            END,
        )

        assert [
            ("c1", "f", '{ "q": "\\u00e9"}', 1),
            ("c2", "g", "{}", 2),
        ] == [
            (one.id, one.name, one.arguments, one.index) for one in message.tool_calls
        ]
        assert {"type": "direct"} == (notes(message.tool_calls[0])["keys"]["caller"])
        assert ["text", "tool_use", "tool_use", "text"] == [
            block["type"] for block in dump([message]).payload["messages"][0]["content"]
        ]

    @pytest.mark.parametrize("pieces", [[], [""], ["", ""]])
    def test_no_arguments(self, pieces):
        """
        Nothing, however it is sent, is the empty object it began with.
        """
        message = within(call(), *[given(piece) for piece in pieces])

        assert ["{}"] == [one.arguments for one in message.tool_calls]

    def test_arguments_at_once(self):
        """
        Arguments that came with the beginning, and no pieces.
        """
        message = within(call(given={"q": 1}))

        assert ['{"q": 1}'] == [one.arguments for one in message.tool_calls]

    @pytest.mark.parametrize("nothing", [None, "", {}])
    def test_arguments_to_come(self, nothing):
        """
        What stands for arguments that are still to come may be anything empty.
        """
        message = within({**call(), "input": nothing}, given('{"q": 1}'))

        assert ['{"q": 1}'] == [one.arguments for one in message.tool_calls]

    def test_invalid(self):
        """
        What is no JSON is kept as it is.
        """
        message = within(call(), given('{"q'))

        assert ['{"q'] == [one.arguments for one in message.tool_calls]

    def test_broken_off(self):
        """
        So are arguments that break off.
        """
        message = collected(begin(call()), given('{"q'), given("\ud83d"))

        assert ['{"q\ufffd'] == [one.arguments for one in message.tool_calls]
        assert "interrupted" == message.response.finish_reason
        assert ("content[0].input",) == notes(message)["mended"]

    def test_nothing_came(self):
        """
        The arguments of a call that only began are unknown.
        """
        assert [""] == [one.arguments for one in collected(begin(call())).tool_calls]

    def test_numbers_used_twice(self):
        """
        Two blocks that share a number stay two, each with an index of its own.
        """
        message = collected(
            begin(call("c1", "f")),
            given("1"),
            begin(call("c1", "g")),
            given("2"),
            stop(),
            begin(TEXT),
            more("a"),
        )

        assert [("f", "1", 0), ("g", "2", 1)] == [
            (one.name, one.arguments, one.index) for one in message.tool_calls
        ]
        assert [("a", 2)] == [(part.text, part.index) for part in message.content]

    def test_large_numbers(self):
        """
        Numbers may start anywhere.
        """
        most = 2**63 - 1
        message = collected(begin(TEXT, most), more("a", most), stop(most))

        assert [most] == [part.index for part in message.content]

    def test_again_at_0(self):
        """
        A block that has the number of an older one is another block; even at the end.
        """
        last = 2**63 - 2
        message = collected(
            *(begin(TEXT, last), more("a", last), stop(last)),
            *(begin(TEXT, 0), more("b", 0), stop(0)),
        )

        assert [("a", last), ("b", last + 1)] == [
            (part.text, part.index) for part in message.content
        ]


class TestHeld:
    def test_own_tools(self):
        """
        The provider's own calls come whole, with their input.
        """
        message = within(SEARCH, given(""), given('{"q"'), given(": 1}"))
        (part,) = message.content

        assert {**SEARCH, "input": {"q": 1}} == part.raw
        assert ("anthropic", 0) == (part.source, part.index)

    @pytest.mark.parametrize("pieces", [[], [""]])
    def test_no_input(self, pieces):
        """
        Without input, as it began.
        """
        message = within(SEARCH, *map(given, pieces))

        assert SEARCH == message.content[0].raw

    def test_results(self):
        """
        Results come with the beginning.
        """
        found = {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [],
        }

        assert [answer(found)] == dump([within(found)]).payload["messages"]

    def test_summaries(self):
        """
        A summary comes in a piece of its own.
        """
        message = within(
            {"type": "compaction", "content": None},
            delta("compaction", content="We ", encrypted_content=None),
            delta("compaction", content="talked."),
        )

        assert {"type": "compaction", "content": "We talked."} == (
            message.content[0].raw
        )

    def test_unknown_pieces(self):
        """
        Texts go where they are from, all else is noted.
        """
        odd = {"type": "hologram_delta", "depth": 3, "text": "b"}
        block = {"type": "hologram", "text": "a"}
        (part,) = within(block, delta("hologram", depth=3, text="b")).content

        assert {"type": "hologram", "text": "ab"} == part.raw
        assert [{key: odd[key] for key in ("type", "depth")}] == [
            dict(each) for each in notes(part)["deltas"]
        ]

    def test_broken_off(self):
        """
        What was broken off is there, and does not go back.
        """
        message = collected(begin(SEARCH), given('{"q'))
        export = dump([message])

        assert '{"q' == notes(message.content[0])["cut"]
        assert [] == export.payload["messages"]
        assert ["server_tool_use"] == [lost.what for lost in export.lost]

    def test_invalid(self):
        """
        Input that is no object goes back as the provider wants it.
        """
        message = within(SEARCH, given('{"q'))

        assert {"INVALID_JSON": '{"q'} == message.content[0].raw["input"]

    def test_too_deep(self):
        """
        What can't be kept is told, and nothing crashes.
        """
        deep = '{"a":' * 200 + "1" + "}" * 200
        _, error = given_before([begin(SEARCH), given(deep), stop()], DecodeError)

        assert error.problems[0].path.startswith("$[0].content_block.input.a.a")

    def test_numbers_used_twice(self):
        """
        A block ends where another one of its number begins.
        """
        message = collected(begin(SEARCH), given("{}"), begin(TEXT), more("a"))

        assert SEARCH == message.content[0].raw
        assert ("a", 1) == (message.text, message.content[1].index)

    def test_in_between(self):
        """
        All in the order they were sent, however they were brought.
        """
        message = collected(
            begin(SEARCH), stop(), begin(TEXT, 1), more("a", 1), begin(SEARCH, 2)
        )

        assert [UnknownPart, TextPart, UnknownPart] == [*map(type, message.content)]


class TestResponse:
    def test_usage_once(self):
        """
        With the provider's last numbers, also smaller ones; what is not told
        again stands.
        """
        spent = {
            "input_tokens": 9,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": None,
            "output_tokens": 7,
        }
        chunks: list[Any] = list(
            load_chunks(
                [
                    start(usage={"input_tokens": 20, "output_tokens": 1}),
                    last(usage={**spent, "output_tokens": 9}),
                    last(usage=spent),
                    END,
                ]
            )
        )
        told = [chunk.response.usage for chunk in chunks if chunk.response]

        assert [(13, 7, 20)] == [
            (one.prompt_tokens, one.completion_tokens, one.total_tokens) for one in told
        ]

    def test_null_leaves_usage(self):
        """
        Null is no number, and leaves what was told before.
        """
        message = collected(
            start(usage={"input_tokens": 9, "service_tier": "standard"}),
            last(usage={"input_tokens": None, "service_tier": None}),
        )

        assert Usage(9) == message.response.usage
        assert {"service_tier": "standard"} == notes(message)["response"]["usage"]

    def test_usage_of_output_only(self):
        """
        The input is told at the start.
        """
        assert Usage(3, 5) == within(TEXT).response.usage

    def test_usage_that_is_outdated(self):
        """
        A breakdown of what has grown since is no breakdown of it.
        """
        message = collected(
            start(
                usage={
                    "cache_creation_input_tokens": 4,
                    "cache_creation": {"ephemeral_5m_input_tokens": 4},
                }
            ),
            last(usage={"cache_creation_input_tokens": 6}),
        )

        assert {"cache_write_tokens": 6} == dict(message.response.usage.extra)

    def test_usage_that_grows(self):
        """
        What is told anew of the usage is read once, however much there is.
        """

        def cost(size):
            events = [last(usage={f"k{at}": at + 1}) for at in range(size)]
            return calls_made_by(lambda: collected(*events))

        message = collected(*[last(usage={f"k{at}": at + 1}) for at in range(3)])

        extra = dict(message.response.usage.extra)
        assert {**extra, "k0": 1, "k1": 2, "k2": 3} == extra
        assert cost(300) - cost(200) <= 1.1 * (cost(200) - cost(100))

    def test_too_much_together(self):
        """
        Counts that are too large together are kept as they were told.
        """
        message = collected(
            start(usage={"input_tokens": 2**62}),
            last(usage={"cache_read_input_tokens": 2**62}),
        )

        assert message.response.usage is None
        assert {"input_tokens": 2**62, "cache_read_input_tokens": 2**62} == (
            thaw(notes(message)["response"]["usage"])
        )

    def test_no_usage(self):
        """
        A response without usage has `usage=None`.
        """
        assert collected(begin(TEXT)).response.usage is None

    @pytest.mark.parametrize("reason", ["pause_turn", "refusal", "stop_sequence"])
    def test_reasons(self, reason):
        """
        All reasons are the provider's own words.
        """
        message = collected(start(), last(reason), END)

        assert reason == message.response.finish_reason

    def test_notes(self):
        """
        What has no field is noted, the last word of it.
        """
        container = {"id": "c"}
        management = {"applied_edits": 3}
        message = collected(
            start(),
            {
                **last(stop_sequence="x", container=container),
                "context_management": management,
            },
            {**END, "amazon-bedrock-invocationMetrics": {"latency": 1}},
        )
        told = notes(message)

        assert "msg_1" == message.response.id
        assert {
            "type": "message",
            "stop_sequence": "x",
            "container": container,
            "context_management": management,
            "amazon-bedrock-invocationMetrics": {"latency": 1},
        } == told["response"]

    def test_unknown_events(self):
        """
        Unknown events are kept, and so are keys.
        """
        message = collected(
            {"type": "weather", "rain": True},
            {**PING, "cost": 1},
            begin(TEXT, p="ab"),
            {**more("a"), "p": "abc"},
            {"type": "weather"},
        )
        told = notes(message)

        assert "a" == message.text
        assert ({"type": "weather", "rain": True}, {"type": "weather"}) == tuple(
            dict(each) for each in told["events"]
        )
        assert {"cost": 1, "p": "abc"} == told["event"]

    @pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": 3}])
    def test_deltas_of_no_type(self, kind):
        """
        A piece that does not say what it is, of a block that is held, is kept.
        """
        message = collected(
            begin({"type": "hologram"}),
            {**delta("x"), "delta": {**kind, "of": [1]}},
            stop(),
        )

        assert [{**kind, "of": [1]}] == thaw(notes(message.content[0])["deltas"])

    def test_unknown_deltas(self):
        """
        Unknown deltas are kept with their block, and so are keys.
        """
        message = collected(
            begin(TEXT),
            delta("tone", tone="dry"),
            delta("text", text="a", tone="wet"),
            stop(),
            begin(THOUGHT, 1),
            delta("text", 1, text="x"),
            stop(1),
            begin(call(), 2),
            delta("tone", 2),
        )
        said, thought = message.content
        kept = [notes(each)["deltas"] for each in (said, thought, *message.tool_calls)]

        assert "a" == message.text
        assert [
            [
                {"type": "tone_delta", "tone": "dry"},
                {"type": "text_delta", "tone": "wet"},
            ],
            [{"type": "text_delta", "text": "x"}],
            [{"type": "tone_delta"}],
        ] == [[dict(each) for each in listed] for listed in kept]

    def test_content_at_the_start(self):
        """
        What a response begins with is its beginning.
        """
        message = collected(
            start(content=[text("a"), SEARCH]), begin(TEXT), more("b"), stop()
        )

        assert ["a", "b"] == [part.text for part in message.content[::2]]
        assert [0, 1, 2] == [part.index for part in message.content]

    def test_another_model(self):
        """
        Who answers after another model declined is told by a block.
        """
        block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}

        assert "b" == within(block).response.model
        assert "claude" == within({**block, "to": 5}).response.model

    def test_no_start(self):
        """
        Texts and thoughts may begin with a piece.
        """
        message = collected(
            delta("thinking", 0, thinking="a"), more("b", 1), more("c", 1)
        )

        assert ("a", "bc") == (message.reasoning, message.text)


class TestEnds:
    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([], "interrupted"),
            ([start(), begin(TEXT), more("a")], "interrupted"),
            ([more("a"), "[DONE]"], ""),
            ([more("a"), END], ""),
            ([more("a"), last()], "end_turn"),
            ([more("a"), last("max_tokens"), END], "max_tokens"),
        ],
    )
    def test_reason(self, events, reason):
        """
        A stream without its end was interrupted.
        """
        assert reason == collected(*events).response.finish_reason

    @pytest.mark.parametrize(
        ("failure", "said"),
        [
            (
                {"type": "error", "error": {"type": "x", "message": "Overloaded"}},
                "Overloaded",
            ),
            ({"type": "error"}, "no reason given"),
            ({"type": "error", "error": "no\ud800"}, "no\ufffd"),
            ({"error": {"message": "Overloaded"}}, "Overloaded"),
        ],
    )
    def test_provider_fails(self, failure, said):
        """
        In its own words, after everything before it was given.
        """
        chunks, error = given_before(
            [start(), begin(TEXT), more("a"), begin(SEARCH, 1), failure, more("b")],
            ProviderStreamError,
        )
        message = concat(chunks)

        assert (said, failure) == (error.reason, error.event)
        assert ("a", 2) == (message.text, len(message.content))
        assert "interrupted" == message.response.finish_reason


class TestRefuses:
    @pytest.mark.parametrize(
        ("event", "path"),
        [
            (5, "$[1]"),
            ("text", "$[1]"),
            ({}, "$[1].type"),
            ({"type": 5}, "$[1].type"),
            ({"type": "message", "content": []}, "$[1]"),
            ({"type": "message_start"}, "$[1].message"),
            (start(role="user"), "$[1].message.role"),
            (start(model=5), "$[1].message.model"),
            (start(usage=5), "$[1].message.usage"),
            (start(usage={"input_tokens": -1}), "$[1].message.usage.input_tokens"),
            (start(content=[5]), "$[1].message.content[0]"),
            ({"type": "message_delta", "delta": 5}, "$[1].delta"),
            (last(5), "$[1].delta.stop_reason"),
            ({"type": "content_block_start", "index": 0}, "$[1].content_block"),
            (begin({}), "$[1].content_block.type"),
            (begin({"type": "text"}), "$[1].content_block.text"),
            (begin({**THOUGHT, "signature": 5}), "$[1].content_block.signature"),
            (begin(call(5)), "$[1].content_block.id"),
            (begin(call(name=None)), "$[1].content_block.name"),
            (begin(call(given=5)), "$[1].content_block.input"),
            (begin(TEXT, -1), "$[1].index"),
            (begin(TEXT, None), "$[1].index"),
            (begin(TEXT, 2**63), "$[1].index"),
            (more("a", at=True), "$[1].index"),
            (more("a", [1]), "$[1].index"),
            (stop("0"), "$[1].index"),
            (more(5), "$[1].delta.text"),
            ({**more("a"), "delta": None}, "$[1].delta"),
            (given("{}"), "$[1].delta.partial_json"),
            (given("{}", 3), "$[1]"),
            (delta("signature", 3, signature="x"), "$[1]"),
        ],
    )
    def test_what_is_no_event(self, event, path):
        """
        Each with its path, after what was given before.
        """
        first = begin(SEARCH) if event == given("{}") else begin(TEXT)
        event = given(5) if event == given("{}") else event
        chunks, error = given_before([first, event], DecodeError)

        assert [path] == [problem.path for problem in error.problems]
        assert "interrupted" == chunks[-1].response.finish_reason

    @pytest.mark.parametrize("at", [True, 1.0, False, 0.0])
    def test_what_is_nearly_a_number(self, at):
        """
        Numbers of blocks are integers, also where the block is open.
        """
        events = [begin(TEXT, int(at)), more("a", int(at)), more("b", at)]
        _, error = given_before(events, DecodeError)

        assert ["$[2].index"] == [problem.path for problem in error.problems]

    def test_a_block_that_ended(self):
        """
        Takes no more pieces, but of what can begin with one.
        """
        events = [begin(call()), stop(), given("{}")]
        _, error = given_before(events, DecodeError)

        assert "which is not open" in error.problems[0].what

    def test_all_of_an_event(self):
        """
        All that is wrong with it.
        """
        event = {"type": "message_start", "message": {"role": 5, "model": 5}}
        _, error = given_before([event], DecodeError)

        assert ["$[0].message.role", "$[0].message.model"] == [
            problem.path for problem in error.problems
        ]


def plain(message):
    """
    *message* without what JSON does not tell apart in arguments, and without
    what only one of a stream and its response tells.
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
    """
    The response that *events* are of, put together by the provider's rules.
    """
    response: dict[str, Any] = {}
    said: dict[int, str] = {}
    for event in copy.deepcopy(events):
        match event:
            case {"type": "message_start", "message": message}:
                response = message
            case {"type": "content_block_start", "content_block": block}:
                response["content"].append(block)
            case {"delta": {"type": "input_json_delta", "partial_json": piece}}:
                said[event["index"]] = said.get(event["index"], "") + piece
            case {"type": "content_block_delta", "delta": piece, "index": at}:
                block = response["content"][at]
                field, key = PLACES[piece["type"]]
                new = [piece[key]] if field == "citations" else piece[key]
                block[field] += new
            case {"type": "message_delta", "delta": told, "usage": spent}:
                response |= told
                response["usage"] |= spent

    for at, arguments in said.items():
        response["content"][at]["input"] = json.loads(arguments or "{}")

    return response


@st.composite
def streams(draw):
    """
    A response, and the events of the same one as a stream.
    """
    response = {**draw(STREAMED), "stop_sequence": None}
    size = draw(st.integers(0, 3))
    for block in response["content"]:
        if block.get("type") == "thinking":
            block["signature"] = block.get("signature") or ""

    return response, events_of(response, lambda said: [said[:size], *said[size:]])


class TestStreams(StreamContract):
    """
    What the streams of all adapters promise.
    """

    adapter: ClassVar = anthropic
    provider: ClassVar = "anthropic"
    made: ClassVar = streams()
    failures: ClassVar = [{"type": "error", "error": {"message": "Overloaded"}}]

    def pieces(self, size):
        """
        A text block in pieces.
        """
        return [start(), begin(TEXT), *[more("a")] * size, stop(), last(), END]

    def asked(self, size):
        """
        A call, and its input in pieces.
        """
        return [start(), begin(call(given={})), *[given("1")] * size, stop(), END]

    def is_end(self, event):
        """
        A reason to stop is told, or that it did.
        """
        reason = event.get("delta", {}).get("stop_reason")
        return event["type"] == "message_stop" or bool(reason)

    def check(self, whole, message):
        """
        See that they are the same, but for the white space of arguments.
        """
        assert tuple(map(plain, load(whole))) == (plain(message),)


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    """
    Streams as the provider sent them.
    """

    def test_collects(self, path):
        """
        To what its events say, down to the last citation and count.
        """
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
