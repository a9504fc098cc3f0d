"""Streams of Chat Completions: chunks that concatenate to the message."""

from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.adapters.openai_chat import load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import LogProb
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import bare
from tests.adapters.helpers import table
from tests.adapters.openai_chat import notes, several
from tests.adapters.pieces import as_is
from tests.adapters.stream_contract import StreamContract, events_of, split_text

dump = as_is(openai_chat).dump

RECORDED = recorded.streams("openai_chat")
given_before = partial(stream_contract.given_before, openai_chat)


def event(*, reason=None, **delta):
    """An event with a *delta*."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": None,
    }


def call(at=0, arguments=None, **fields):
    """A piece of a call."""
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")

    index = {} if at is None else {"index": at}
    return {**index, **fields, "function": function}


def calling(*pieces):
    """An event for each of *pieces* of calls."""
    return [event(tool_calls=[piece]) for piece in pieces]


def text(words):
    """A block of text."""
    return {"type": "text", "text": words}


def collected(*events) -> Any:
    """The message that *events* make."""
    return concat(load_chunks(events))


def sent(*events):
    """The message of *events*, as it is sent back."""
    (message,) = dump([collected(*events)]).payload["messages"]
    return message


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
USED = {"prompt_tokens": 1, "completion_tokens": 2}


ASKED = {"index": 0, "type": "search", "arguments": "{}", "output": None}
FOUND = {**ASKED, "output": "3.14", "search_results": {"results": []}}
COMPUTED = {"index": 1, "type": "python", "arguments": "{}", "output": "4"}
DETAIL = {"type": "reasoning.text", "index": 0, "format": "anthropic"}
SUMMARY = {"type": "reasoning.summary", "index": 0, "id": None}
SIGNED = {"extra_content": {"google": {"thought_signature": "x"}}}
HIDDEN = {"type": "redacted_thinking", "data": "c2ln"}


def hidden(index, **fields):
    """An encrypted detail of a thought."""
    return {"type": "reasoning.encrypted", "index": index, **fields}


def thinking(*pieces):
    """Blocks of thoughts: texts, each with its signature."""
    return [
        {"type": "thinking", "thinking": text, "signature": signature}
        for text, signature in pieces
    ]


class TestText:
    """Pieces of a text are one text, and so are those of a thought or a refusal."""

    @table(
        "deltas, parts",
        {
            "text beyond ASCII may be cut between characters and within": (
                [
                    {"content": x}
                    for x in ("größe", "漢", "😀", "\ud83d", "\ude00", "é")
                ],
                [("text", "größe漢😀😀é")],
            ),
            "half of a character that is left is mended": (
                [{"content": piece} for piece in ("a\ud83d", "b", "\ud83d")],
                [("text", "a\ufffdb\ufffd")],
            ),
            "a thought after a text is another one, also if they come together": (
                [
                    {"reasoning": "a"},
                    {"reasoning": "b"},
                    {"reasoning": "c", "content": "d"},
                    {"reasoning": "e"},
                    {"reasoning": "f"},
                ],
                [("reasoning", "abc"), ("text", "d"), ("reasoning", "ef")],
            ),
            "what stands under both keys of thoughts is one thought": (
                [{"reasoning": x, "reasoning_content": x} for x in "ab"],
                [("reasoning", "ab")],
            ),
            "Mistral's blocks, several in an event, or none, or a plain text": (
                [{"content": x} for x in ([THINKING], [THINKING, text("a")], [], "b")],
                [("reasoning", "hmhm"), ("text", "ab")],
            ),
            "two texts in every event, of which one is the same again": (
                [{"content": x, "refusal": "no"} for x in "ab"],
                [("text", "a"), ("refusal", "no"), ("text", "b"), ("refusal", "no")],
            ),
        },
    )
    def test_pieces(self, deltas, parts):
        """The kinds and texts of the parts of the message."""
        message = collected(*[event(**delta) for delta in deltas])

        assert parts == [(part.kind, part.text) for part in message.parts]

    @table(
        "events, keys",
        {
            "in a text": ([event(content="a\ud83d"), event(content="b")], ["content"]),
            "in a text that both halves came for": (
                [event(content="a\ud83d"), event(content="\ude00b")],
                [],
            ),
            "in arguments": (
                calling(call(0, "\ud83d", id="a", name="f")),
                ["tool_calls"],
            ),
            "in a block, and in all of a call": (
                [
                    event(content=[text("a\ud800")]),
                    *calling(
                        call(0, "{\ud83d", id="a\ud800", name="f\ud800"),
                        call(0, "\ude00"),
                        call(0, "\ud800}"),
                    ),
                ],
                ["content", "tool_calls"],
            ),
        },
    )
    def test_mended(self, events, keys):
        """
        Half of a surrogate pair is mended, and the key that it was under is listed when
        the message is sent.
        """
        export = dump([collected(*events)])

        assert keys == sorted(lost.what for lost in export.lost)
        assert str(export.payload).encode()

    def test_key_of_reasoning(self):
        """
        Of the pieces of a thought the first one has a note on its key; a thought ends
        with a text, and with another key.
        """
        keys = ["reasoning"] * 3 + ["content", "reasoning", "reasoning_content"]
        chunks = load_chunks(event(**{key: "a"}) for key in keys)
        pieces = [part for chunk in chunks for part in chunk.parts]

        assert [True, False, False, False, True, True] == [
            bool(part.metadata) for part in pieces
        ]


class TestSent:
    """What is sent back of the message that deltas make."""

    @table(
        "deltas, message",
        {
            **{
                f"thoughts go back under {key}": (
                    [
                        {key: "h"},
                        {key: "m", "channel": "analysis"},
                        {"content": "a", key: None},
                    ],
                    {key: "hm", "content": "a"},
                )
                for key in ("reasoning", "reasoning_content")
            },
            "custom tools have an input that is not JSON": (
                [
                    {
                        "tool_calls": [
                            {
                                "index": 0,
                                "id": "a",
                                "type": "custom",
                                "custom": {"name": "f", "input": "x"},
                            }
                        ]
                    },
                    {"tool_calls": [{"index": 0, "custom": {"input": "y"}}]},
                ],
                {
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "custom",
                            "custom": {"name": "f", "input": "xy"},
                        }
                    ],
                },
            ),
            "what a provider adds to a call or its function is kept with it, once": (
                [
                    {
                        "tool_calls": [
                            {
                                "index": 0,
                                "id": "a",
                                **SIGNED,
                                "function": {"name": "f", "strict": True},
                            }
                        ]
                    },
                    {"tool_calls": [call(0, "{}", **SIGNED)]},
                ],
                {
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "function",
                            **SIGNED,
                            "function": {
                                "name": "f",
                                "arguments": "{}",
                                "strict": True,
                            },
                        }
                    ],
                },
            ),
            "an id that comes late is not, because results have the made-up one": (
                [
                    {"tool_calls": [call(0, "", name="f")]},
                    {"tool_calls": [call(0, "{}", id="a")]},
                ],
                {
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "chatcmpl-1_call_0",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
            ),
            "an id that was made up is": (
                [{"tool_calls": [call(0, "{}", name="f")]}],
                {
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "chatcmpl-1_call_0",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
            ),
            "the format before tool_calls": (
                [
                    {"function_call": {"name": "f", "arguments": "", "x": 1}},
                    {"function_call": {"arguments": "{}"}},
                ],
                {
                    "content": None,
                    "function_call": {"name": "f", "arguments": "{}", "x": 1},
                },
            ),
            "what is repeated with every piece is kept once, and lists are joined": (
                [
                    {"content": x, "annotations": [{"a": 1}], "served": {"by": "x"}}
                    for x in "ab"
                ],
                {
                    "content": "ab",
                    "annotations": [{"a": 1}, {"a": 1}],
                    "served": {"by": "x"},
                },
            ),
            "a tool that Groq ran is one tool, though two events have it": (
                [
                    {"executed_tools": [ASKED, {"type": "a"}, 3]},
                    {"executed_tools": [FOUND], "content": "x"},
                    {"executed_tools": [COMPUTED, {"type": "a"}]},
                    {"executed_tools": {"type": "b"}},
                    {"executed_tools": None},
                ],
                {
                    "content": "x",
                    "executed_tools": [
                        *(FOUND, {"type": "a"}, 3, COMPUTED),
                        *({"type": "a"}, {"type": "b"}),
                    ],
                },
            ),
            "OpenRouter's details of a thought are joined, with their signature": (
                [
                    {"reasoning_details": [{**DETAIL, **piece}]}
                    for piece in (
                        {"text": "H"},
                        {"text": "m."},
                        {"signature": "c2ln", "id": None},
                        {"signature": None},
                    )
                ],
                {
                    "reasoning_details": [
                        {**DETAIL, "text": "Hm.", "signature": "c2ln", "id": None}
                    ]
                },
            ),
            **{
                f"details of another type or id are several, {which}": (
                    [
                        {"reasoning_details": [{**SUMMARY, "summary": "H"}]},
                        {"reasoning_details": [{**SUMMARY, "summary": "m."}]},
                        {"reasoning_details": [hidden(index, id="rs_1", data="a")]},
                        {"reasoning_details": [hidden(index, id="rs_2", data="b")]},
                    ],
                    {
                        "reasoning_details": [
                            {**SUMMARY, "summary": "Hm."},
                            hidden(index, id="rs_1", data="a"),
                            hidden(index, id="rs_2", data="b"),
                        ]
                    },
                )
                for index, which in enumerate(["of one index", "of two indexes"])
            },
            **{
                f"LiteLLM's thoughts end with a signature, {how}": (
                    [
                        *[
                            {"thinking_blocks": [block]}
                            for block in thinking(
                                *(("H", ""), ("m.", ""), (again, "s")),
                                *(("Aha!", ""), (None, "t")),
                            )
                        ],
                        *[{"thinking_blocks": [HIDDEN]}] * 2,
                    ],
                    {
                        "thinking_blocks": [
                            *thinking(("Hm.", "s"), ("Aha!", "t")),
                            *(HIDDEN, HIDDEN),
                        ]
                    },
                )
                for again, how in (("", "alone"), ("Hm.", "with the text again"))
            },
        },
    )
    def test_message(self, deltas, message):
        """The message, without its role."""
        written = sent(*[event(**delta) for delta in deltas])

        assert {"role": "assistant", "content": "", **message} == written


# An id that is made up, where the call has the index.
MADE = "chatcmpl-1_call_{}"
NESTED = ["{", '"a": {', '"b": 1', "}", "}"]


def piece(at, call_id, name, arguments):
    """A piece of a call, without what is None."""
    made = call(at, arguments)
    if call_id is not None:
        made["id"] = call_id

    if name is not None:
        made["function"]["name"] = name

    return made


class TestCalls:
    """Pieces of a call are one call, which goes by its id, its index and its name."""

    @table(
        "pieces, calls",
        {
            "arguments are joined byte for byte, in the order calls were opened": (
                [
                    (0, "a", "search", ""),
                    (0, None, None, '{"q":'),
                    (1, "b", "clock", '{ "x" '),
                    (0, None, None, ' "\\u00e9"}'),
                    (1, None, None, ": 1 }"),
                ],
                [
                    (0, "a", "search", '{"q": "\\u00e9"}'),
                    (1, "b", "clock", '{ "x" : 1 }'),
                ],
            ),
            "a character that is cut in two is joined, in each call by itself": (
                [
                    (0, "a", "f", "\ud83d"),
                    (1, "b", "f", "\ud83d"),
                    (0, None, None, "\ude00"),
                ],
                [(0, "a", "f", "😀"), (1, "b", "f", "\ufffd")],
            ),
            "another id is another call, whatever its index": (
                [(0, "a", "f", "{}"), (0, "b", "f", "[]"), (0, None, None, None)],
                [(0, "a", "f", "{}"), (1, "b", "f", "[]")],
            ),
            "a piece without an index and an id goes on with the last call": (
                [
                    (None, "a", "f", "1"),
                    (None, None, None, "2"),
                    (None, "b", "g", "3"),
                    (None, "b", None, "4"),
                ],
                [(0, "a", "f", "12"), (1, "b", "g", "34")],
            ),
            "without indexes, ids tell which call a piece is of, also in turn": (
                [(None, "a", "f", "1"), (None, "b", "f", "2"), (None, "a", None, "3")],
                [(0, "a", "f", "13"), (1, "b", "f", "2")],
            ),
            "indexes may start anywhere": (
                [(7, "a", None, "1"), (3, "b", None, "2"), (7, None, None, "3")],
                [(3, "b", "", "2"), (7, "a", "", "13")],
            ),
            "a name that comes with every piece is one name": (
                [(0, "a", "f", "{"), (0, "a", "f", "}"), (0, "a", None, " ")],
                [(0, "a", "f", "{} ")],
            ),
            "another name is another call, whatever its id": (
                [(0, "a", "f", "1"), (0, "a", "g", "2")],
                [(0, "a", "f", "1"), (1, "a", "g", "2")],
            ),
            "whole calls without ids are several": (
                [(0, None, "f", '{"q":1}'), (0, None, "f", "{}"), (0, None, "g", "{}")],
                [(0, MADE, "f", '{"q":1}'), (1, MADE, "f", "{}"), (2, MADE, "g", "{}")],
            ),
            "pieces without ids belong together while they are no whole calls": (
                [(0, None, "f", ""), (0, None, "f", '{"q"'), (0, None, None, ": 1}")],
                [(0, MADE, "f", '{"q": 1}')],
            ),
            "what makes such a call whole may come in pieces": (
                [
                    (0, None, "f", ""),
                    *[(0, None, None, piece) for piece in NESTED],
                    (0, None, "f", "{}"),
                ],
                [(0, MADE, "f", "".join(NESTED)), (1, MADE, "f", "{}")],
            ),
            "an id that comes after the first piece opens no call": (
                [(0, None, "f", ""), (0, "a", None, "{"), (0, "a", None, "}")],
                [(0, MADE, "f", "{}")],
            ),
        },
    )
    def test_pieces(self, pieces, calls):
        """Index, id, name and arguments of pieces, and of the calls they are."""
        events = calling(*[piece(*each) for each in pieces])

        assert [
            (at, MADE.format(at) if call_id is MADE else call_id, name, arguments)
            for at, call_id, name, arguments in calls
        ] == [
            (each.index, each.id, each.name, each.arguments)
            for each in collected(*events).tool_calls
        ]

    def test_deep_arguments(self):
        """However deep arguments are, they are joined."""
        pieces = [call(0, "[" * 100_000, name="f"), call(0, "]", name="f")]
        calls = collected(*calling(*pieces)).tool_calls

        assert [100_001] == [len(each.arguments) for each in calls]

    def test_legacy_calls(self):
        """Another name is another call, too, before `tool_calls`."""
        calls = [{"name": "f", "arguments": "{}"}, {"name": "g", "arguments": "2"}]
        merged = collected(*[event(function_call=each) for each in calls])

        assert [("f", "{}"), ("g", "2")] == [
            (each.name, each.arguments) for each in merged.tool_calls
        ]


class TestAudio:
    @table(
        "pieces, data",
        {
            "cut, without padding": (["eH", "g"], b"xx"),
            "with a new line": (["eH\ng="], b"xx"),
            "pieces that were encoded each by itself": (["eHg=", "eA=="], b"xxx"),
            "broken off within a byte": (["eHg=", "e"], b"xx"),
            "not base64": (["eHg=", "??"], None),
            "none": ([], None),
        },
    )
    def test_data(self, pieces, data):
        """
        Base64 is read as encoders and networks leave it; what can't be is kept as it
        is, and so is a transcript without data.
        """
        deltas = [{"transcript": "Hel"}, {"transcript": "lo", "id": "audio_1"}]
        deltas += [{"data": piece, "id": "audio_1"} for piece in pieces]
        message = collected(*[event(audio=delta) for delta in deltas])
        (written,) = dump([message]).payload["messages"]
        kept = {"id": "audio_1", "transcript": "Hello"}

        assert ([] if data is None else [data]) == [part.data for part in message.parts]
        if data is None:
            encoded = {"data": "".join(pieces)} if pieces else {}
            assert {**kept, **encoded} == written["audio"]
        else:
            assert kept == notes(message.parts[0])["keys"]
            assert {"id": "audio_1"} == written["audio"]


class TestResponse:
    @table(
        "events, usage",
        {
            "with the largest total of the same counts": (
                [
                    {**event(content="a"), "usage": {**USED, "total_tokens": 20}},
                    {**event(content="b"), "usage": {**USED, "total_tokens": 12}},
                    event(content="c"),
                ],
                Usage(1, 2, 20),
            ),
            "in an event of its own": (
                [event(content="a"), {"choices": [], "usage": USED}],
                Usage(1, 2),
            ),
            "before an empty one, which says nothing": (
                [{**event(content="a"), "usage": used} for used in (USED, {})],
                Usage(1, 2),
            ),
        },
    )
    def test_usage(self, events, usage):
        """The usage comes once, with the first of several answers."""
        usages = [
            chunk.response.usage for chunk in load_chunks(events) if chunk.response
        ]
        other: Any = concat(load_chunks(events, choice=1))

        assert [usage] == usages
        assert other.response.usage is None

    @pytest.mark.parametrize("key", ["content", "refusal"])
    def test_logprobs(self, key):
        """
        How likely tokens were is appended, also equal ones; of a refusal it is noted.
        """
        token = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}
        events = [event(**{key: "a"}) for _ in range(3)]
        for each in events:
            each["choices"][0]["logprobs"] = {"content": None, key: [token]}

        message = collected(*events)

        if key == "content":
            assert (LogProb("a", -1.0),) * 3 == message.response.logprobs
        else:
            assert 3 == len(notes(message)["choice"]["logprobs"]["refusal"])

    def test_notes(self):
        """What has no field is noted, without padding and nulls; maps are merged."""
        fields: list[Any] = [
            {
                "system_fingerprint": "fp",
                "obfuscation": "xx",
                "timings": {"a": 1, "b": 2},
            },
            {
                "system_fingerprint": None,
                "obfuscation": "x",
                "timings": {"a": 3, "c": 4},
            },
        ]
        events = [{**event(content="a"), **each} for each in fields]
        events[1]["choices"][0]["content_filter"] = {"hate": False}
        message = collected(*events)

        assert ("chatcmpl-1", "gpt-4o") == (message.response.id, message.response.model)
        assert {
            "system_fingerprint": "fp",
            "timings": {"a": 3, "b": 2, "c": 4},
        } == notes(message)["response"]
        assert {"content_filter": {"hate": False}} == notes(message)["choice"]

    @pytest.mark.parametrize(
        ("order", "expected"),
        [((0, 1, 0, 1), "bd"), ((0, 0, 1, 1), "cd"), ((1, 0, 0), "a")],
    )
    def test_choices(self, order, expected):
        """Events of several answers, in whatever order: one of them is read."""
        events = [event(content=piece) for piece in "abcd"][: len(order)]
        for each, index in zip(events, order, strict=True):
            each["choices"][0]["index"] = index

        assert expected == concat(load_chunks(events, choice=1)).text

    @pytest.mark.parametrize("choice", [-1, None, "0", True])
    def test_no_choice(self, choice):
        """
        Answers are numbered; another one is reported at once, not with the first chunk.
        """
        with pytest.raises(ValueError, match="index of a response"):
            load_chunks([], choice=choice)


class TestEnds:
    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([], "interrupted"),
            ([event(content="a")], "interrupted"),
            ([event(content="a"), "[DONE]"], ""),
            ([event(content="a"), event(reason="stop")], "stop"),
            ([event(content="a"), event(reason="stop"), "[DONE]"], "stop"),
        ],
    )
    def test_reason(self, events, reason):
        """A stream without its end was interrupted."""
        assert reason == collected(*events).response.finish_reason

    @table(
        "last, reason, text",
        {
            "with a message": ({"error": {"message": "no room"}}, "no room", "ab"),
            "with a code": ({"error": {"code": 5}}, "no reason given", "ab"),
            "with a piece, which comes before it": (
                {**event(content="c"), "error": {"message": "no room"}},
                *("no room", "abc"),
            ),
            "without the key": (
                {"object": "error", "message": "no room", "code": 500},
                *("no room", "ab"),
            ),
            "in a choice": (
                {"choices": [{"delta": {}, "error": {"message": "no room"}}]},
                *("no room", "ab"),
            ),
        },
    )
    def test_provider_fails(self, last, reason, text):
        """
        Some servers report it in places of their own; all that came before is given.
        """
        events = [event(content="a"), event(content="b"), last]
        chunks, error = given_before(events, ProviderStreamError)

        assert reason == error.reason
        assert last == error.event
        assert text == concat(chunks).text
        assert "interrupted" == concat(chunks).response.finish_reason


WRONG_DELTAS: list[tuple[str, Any]] = [
    ("audio.transcript", {"transcript": 5}),
    ("audio.data", {"data": 5}),
    ("audio", 5),
    ("content", 5),
    ("role", "user"),
    ("reasoning", {}),
    ("tool_calls", {}),
]
WRONG_CALLS: list[tuple[str, Any]] = [
    ("", 5),
    *[(".index", {"index": at}) for at in (-1, 2**31, 2**63)],
    (".id", {"index": 0, "id": 5}),
    (".function.arguments", call(0, [])),
    (".function", {"index": 0, "function": []}),
]


class TestRefuses:
    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            (None, ""),
            ({"choices": {}}, ".choices"),
            ({"choices": [{"message": {}}]}, ".choices[0]"),
            ({"choices": [{"text": "b"}]}, ".choices[0]"),
            ({"choices": [], "model": 5}, ".model"),
            *(
                (event(**{path.partition(".")[0]: wrong}), f".choices[0].delta.{path}")
                for path, wrong in WRONG_DELTAS
            ),
            ({"choices": [{"delta": []}]}, ".choices[0].delta"),
            *(
                (event(tool_calls=[wrong]), f".choices[0].delta.tool_calls[0]{path}")
                for path, wrong in WRONG_CALLS
            ),
        ],
    )
    def test_what_is_no_event(self, wrong, path):
        """
        With the number of the event and the path in it, after what came
        before.
        """
        chunks, error = given_before([event(content="a"), wrong], DecodeError)

        assert f"$[1]{path}" == error.problems[0].path
        assert "a" == concat(chunks).text

    def test_all_of_an_event(self):
        """
        All problems with an event are reported at once, and what can be read of it is
        given before.
        """
        _, both = given_before([event(role="user", content=5)], DecodeError)
        chunks, _ = given_before([event(content="a", role="model")], DecodeError)

        assert 2 == len(both.problems)
        assert "a" == concat(chunks).text


# A response, whole and cut into events


@st.composite
def responses_and_events(draw):
    """A response, and the events it may have come in."""
    message = {"role": "assistant", "content": draw(st.none() | texts())}
    events = [event(role="assistant")]
    for key in ("reasoning_content", "content", "refusal"):
        words = draw(texts()) if key != "content" else message["content"]
        if words:
            message[key] = words
            events += [event(**{key: p}) for p in draw(split_text(words))]

    calls = []
    pieces = []
    for at in range(draw(st.integers(0, 3))):
        arguments = draw(texts())
        head = {"id": f"c{at}", "type": "function"}
        calls.append({**head, "function": {"name": "f", "arguments": arguments}})
        first, *rest = draw(split_text(arguments))
        of_call = [call(at, first, **head, name="f"), *[call(at, p) for p in rest]]
        pieces.append(of_call)

    if calls:
        message["tool_calls"] = calls

    while any(pieces):
        of_call = draw(st.sampled_from([each for each in pieces if each]))
        events.append(event(tool_calls=[of_call.pop(0)]))

    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    reason = "tool_calls" if calls else "stop"
    events += [event(reason=reason), {"choices": [], "usage": usage}]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {"id": "chatcmpl-1", "model": "gpt-4o", "choices": [choice], "usage": usage}
    return whole, events


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = openai_chat
    response_streams: ClassVar = responses_and_events()
    failure_events: ClassVar = [
        {"error": "no"},
        {"error": {"message": "no"}, "choices": []},
    ]

    def text_events(self, size):
        """A text in pieces, with a role that some servers repeat."""
        return [event(role="assistant", content="a")] * size

    def call_events(self, size):
        """A call, and its arguments in pieces."""
        begun = event(tool_calls=[call(0, "", id="c", name="f", type="function")])
        return [begun, *[event(tool_calls=[call(0, "1")])] * size]

    def is_end(self, event):
        """A choice has a reason to finish."""
        return any(each.get("finish_reason") for each in event.get("choices", ()))

    def check(self, whole, message):
        """See that they are the same, but for notes."""
        (expected,) = several(whole)

        assert bare(expected) == bare(message)
        assert expected.response == message.response


# Real traffic


def straightforward(events):
    """
    The text, the reasoning and the calls that the simplest possible reader finds in
    *events*.
    """
    texts = {"content": "", "reasoning": ""}
    calls: dict[int, list[str]] = {}
    for each in events:
        for choice in each.get("choices", ()) if isinstance(each, dict) else ():
            delta = choice["delta"]
            content = delta.get("content") or ""
            for block in content if isinstance(content, list) else ():
                texts["reasoning"] += "".join(t["text"] for t in block["thinking"])

            texts["content"] += content if isinstance(content, str) else ""
            texts["reasoning"] += delta.get("reasoning_content") or ""
            texts["reasoning"] += delta.get("reasoning") or ""
            for piece in delta.get("tool_calls") or ():
                found = calls.setdefault(piece["index"], ["", "", ""])
                found[0] = piece.get("id") or found[0]
                found[1] = piece["function"].get("name") or found[1]
                found[2] += piece["function"].get("arguments") or ""

    return [*texts.values(), *map(tuple, calls.values())]


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_recorded(path):
    """
    Recorded streams collect to the content of their events, with their last usage.
    """
    events = events_of(path)
    chunks: list[Any] = []
    with suppress(ProviderStreamError):
        chunks.extend(load_chunks(events))

    merged: Any = concat(chunks)
    used = [each["usage"] for each in events if each != "[DONE]" and each.get("usage")]

    assert straightforward(events) == [
        merged.text,
        merged.reasoning,
        *[(each.id, each.name, each.arguments) for each in merged.tool_calls],
    ]
    assert merged.response.usage == openai_chat.load_usage(used[-1] if used else None)
