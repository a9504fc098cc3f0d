"""
Streams of Chat Completions: chunks that concatenate to the message.
"""

import base64
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.adapters.openai_chat import dump, load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import LogProb
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import bare
from tests.adapters.helpers import table
from tests.adapters.openai_chat import notes, several
from tests.adapters.stream_contract import StreamContract, events_of, split_text

RECORDED = recorded.streams("openai_chat")
given_before = partial(stream_contract.given_before, openai_chat)


def event(*, reason=None, **delta):
    """
    An event with a *delta*.
    """
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": None,
    }


def call(at=0, arguments=None, **fields):
    """
    A piece of a call.
    """
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")

    index = {} if at is None else {"index": at}
    return {**index, **fields, "function": function}


def calling(*pieces):
    """
    An event for each of *pieces* of calls.
    """
    return [event(tool_calls=[piece]) for piece in pieces]


def text(words):
    """
    A block of text.
    """
    return {"type": "text", "text": words}


def collected(*events) -> Any:
    """
    The message that *events* make.
    """
    return concat(load_chunks(events))


def sent(*events):
    """
    The message of *events*, as it is sent back.
    """
    (message,) = dump([collected(*events)]).payload["messages"]
    return message


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
USED = {"prompt_tokens": 1, "completion_tokens": 2}


class TestText:
    """
    Pieces of a text are one text, and so are those of a thought or a refusal.
    """

    @table(
        "deltas, parts",
        {
            "an empty piece adds nothing": (
                [{"content": piece} for piece in ("", "Hel", "lo", None)],
                [("text", "Hello")],
            ),
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
            "a refusal after a text": (
                [{"content": "a"}, {"refusal": "I "}, {"refusal": "won't"}],
                [("text", "a"), ("refusal", "I won't")],
            ),
            "also if the text came with a thought": (
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
            "Mistral's blocks of thoughts and texts, one an event": (
                [{"content": [x]} for x in (THINKING, THINKING, text("a"), text("b"))],
                [("reasoning", "hmhm"), ("text", "ab")],
            ),
            "several blocks in an event, or none, or a plain text": (
                [{"content": x} for x in ([], [THINKING, text("a")], [], "b")],
                [("reasoning", "hm"), ("text", "ab")],
            ),
        },
    )
    def test_pieces(self, deltas, parts):
        """
        The kinds and texts of the parts of the message.
        """
        message = collected(*[event(**delta) for delta in deltas])

        assert parts == [(part.kind, part.text) for part in message.parts]

    @pytest.mark.parametrize("between", [{}, {"role": "assistant"}])
    def test_two_texts_in_every_event(self, between):
        """
        Of events that bring two pieces, both are read, also if one is the same again.
        """
        message = collected(*[event(content=x, **between, refusal="no") for x in "ab"])

        assert ("ab", "nono") == (message.text, message.refusal)

    @pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
    def test_key_of_thoughts(self, key):
        """
        Thoughts may stand under either key, and go back under the same one.
        """
        events = [
            event(**{key: "h"}),
            event(**{key: "m", "channel": "analysis"}),
            event(**{key: "."}),
            event(content="a", **{key: None}),
            event(content="b"),
        ]
        noted = {"conversation_state": {"openai_chat": {"under": {key: True}}}}

        assert (ReasoningPart("hm.", metadata=noted), TextPart("ab")) == collected(
            *events
        ).content
        assert {"role": "assistant", key: "hm.", "content": "ab"} == sent(*events)


BROKEN = [
    event(content=[text("a\ud800")]),
    *calling(
        call(0, "{\ud83d", id="a\ud800", name="f\ud800"),
        call(0, "\ude00"),
        call(0, "\ud800}"),
    ),
]


class TestMended:
    """
    Half of a surrogate pair is mended, and the key that it was under is noted.
    """

    @table(
        "events, paths",
        {
            "in a text": ([event(content="a\ud83d"), event(content="b")], ["content"]),
            "in a text that both halves came for": (
                [event(content="a\ud83d"), event(content="\ude00b")],
                [],
            ),
            "in a block, and in all of a call": (
                BROKEN,
                ["content", "tool_calls"],
            ),
        },
    )
    def test_paths(self, events, paths):
        """
        What is mended is listed when the message is sent.
        """
        message = collected(*events)

        assert paths == sorted(notes(message).get("mended", ()))
        assert paths == sorted(lost.what for lost in dump([message]).lost)

    def test_sent(self):
        """
        A mended message is sent without halves.
        """
        message = sent(*BROKEN)

        assert [text("a\ufffd")] == message["content"]
        assert ["a\ufffd", "f\ufffd", "{😀\ufffd}"] == [
            message["tool_calls"][0]["id"],
            *message["tool_calls"][0]["function"].values(),
        ]


ASKED = {"index": 0, "type": "search", "arguments": "{}", "output": None}
FOUND = {**ASKED, "output": "3.14", "search_results": {"results": []}}
COMPUTED = {"index": 1, "type": "python", "arguments": "{}", "output": "4"}
DETAIL = {"type": "reasoning.text", "index": 0, "format": "anthropic"}
SUMMARY = {"type": "reasoning.summary", "index": 0, "id": None}


def hidden(index, **fields):
    """
    An encrypted detail of a thought.
    """
    return {"type": "reasoning.encrypted", "index": index, **fields}


class TestIndexedLists:
    """
    Lists that a dialect adds come in pieces, and go back whole.
    """

    @table(
        "key, pieces, items",
        {
            "a tool that Groq ran is one tool, though two events have it": (
                "executed_tools",
                [ASKED, FOUND, COMPUTED],
                [FOUND, COMPUTED],
            ),
            "OpenRouter's details of a thought are joined, with their signature": (
                "reasoning_details",
                [
                    {**DETAIL, "text": "H"},
                    {**DETAIL, "text": "m."},
                    {**DETAIL, "signature": "c2ln", "id": None},
                    {**DETAIL, "signature": None},
                ],
                [{**DETAIL, "text": "Hm.", "signature": "c2ln", "id": None}],
            ),
            **{
                f"details of another type or id are several, {which}": (
                    "reasoning_details",
                    [
                        {**SUMMARY, "summary": "H"},
                        {**SUMMARY, "summary": "m."},
                        hidden(index, id="rs_1", data="c2ln"),
                        hidden(index, id="rs_2", data="bmVk"),
                    ],
                    [
                        {**SUMMARY, "summary": "Hm."},
                        hidden(index, id="rs_1", data="c2ln"),
                        hidden(index, id="rs_2", data="bmVk"),
                    ],
                )
                for index, which in enumerate(["of one index", "of two indexes"])
            },
            "what has no index is an item of its own": (
                "executed_tools",
                [{"type": "a"}, 3, {"type": "a"}],
                [{"type": "a"}, 3, {"type": "a"}],
            ),
        },
    )
    def test_pieces(self, key, pieces, items):
        """
        One piece an event, and events with a text between them.
        """
        first, *rest = [event(**{key: [piece]}) for piece in pieces]

        message = sent(first, event(content="a"), *rest, event(**{key: None}))

        assert {"role": "assistant", "content": "a", key: items} == message

    @pytest.mark.parametrize("again", ["", "Hm."])
    def test_blocks_of_thoughts(self, again):
        """
        LiteLLM's thoughts have no index: a text ends with its signature, which may come
        with the whole text again.
        """
        pieces = [("H", ""), ("m.", ""), (again, "s"), ("Aha!", ""), (None, "t")]
        hidden = {"type": "redacted_thinking", "data": "c2ln"}
        blocks = [
            {"type": "thinking", "thinking": text, "signature": signature}
            for text, signature in pieces
        ]
        message = sent(
            *[event(thinking_blocks=[block]) for block in [*blocks, hidden, hidden]]
        )

        assert [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "thinking", "thinking": "Aha!", "signature": "t"},
            hidden,
            hidden,
        ] == message["thinking_blocks"]

    def test_several_in_an_event(self):
        """
        An event may have several items, beside a piece of a text, and one may stand
        in no list.
        """
        message = sent(
            event(executed_tools=[ASKED, {"type": "a"}, 3]),
            event(executed_tools=[COMPUTED], content="x"),
            event(executed_tools={"type": "b"}, content="y"),
        )

        assert "xy" == message["content"]
        assert [ASKED, {"type": "a"}, 3, COMPUTED, {"type": "b"}] == (
            message["executed_tools"]
        )


# An id that is made up, where the call has the index.
MADE = "chatcmpl-1_call_{}"
NESTED = ["{", '"a": {', '"b": 1', "}", "}"]


def piece(at, call_id, name, arguments):
    """
    A piece of a call, without what is None.
    """
    made = call(at, arguments)
    if call_id is not None:
        made["id"] = call_id

    if name is not None:
        made["function"]["name"] = name

    return made


class TestCalls:
    """
    Pieces of a call are one call, which goes by its id, its index and its name.
    """

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
        """
        Index, id, name and arguments of pieces, and of the calls they are.
        """
        events = calling(*[piece(*each) for each in pieces])

        assert [
            (at, MADE.format(at) if call_id is MADE else call_id, name, arguments)
            for at, call_id, name, arguments in calls
        ] == [
            (each.index, each.id, each.name, each.arguments)
            for each in collected(*events).tool_calls
        ]

    def test_custom(self):
        """
        Custom tools have an input that is not JSON.
        """
        head = {"index": 0, "id": "a", "type": "custom"}
        events = calling(
            {**head, "custom": {"name": "f", "input": "x"}},
            {"index": 0, "custom": {"input": "y"}},
        )
        (found,) = collected(*events).tool_calls

        assert ("custom", "f", "xy") == (found.type, found.name, found.arguments)

    def test_made_up_ids(self):
        """
        An id that is made up is noted, and not sent, as those that `load` makes.
        """
        events = calling(call(0, "{}", name="f"), call(0, "{}", name="g"))
        calls = collected(*events).tool_calls

        assert [each.id for each in calls] == [notes(each)["made_id"] for each in calls]
        assert not any("id" in each for each in sent(*events)["tool_calls"])

    def test_deep_arguments(self):
        """
        Arguments are not parsed, however deep they are.
        """
        pieces = [call(0, "[" * 100_000, name="f"), call(0, "]", name="f")]
        calls = collected(*calling(*pieces)).tool_calls

        assert [100_001] == [len(each.arguments) for each in calls]

    def test_function_call(self):
        """
        The format before `tool_calls`, where another name is another call, too.
        """
        one = event(function_call={"name": "f", "arguments": "", "x": 1})
        more = event(function_call={"arguments": "{}"})
        other = event(function_call={"name": "g", "arguments": "2"})

        assert {"name": "f", "arguments": "{}", "x": 1} == (
            sent(one, more)["function_call"]
        )
        assert [("f", "{}"), ("g", "2")] == [
            (each.name, each.arguments)
            for each in collected(one, more, other).tool_calls
        ]

    def test_extras(self):
        """
        What a provider adds to a call, or to its function, is kept with it, once.
        """
        signed = {"extra_content": {"google": {"thought_signature": "x"}}}
        pieces = [
            call(0, "{", id="a", name="f", **signed),
            call(0, "}", **signed),
            call(1, "{}", id="b", name="f", **signed),
        ]
        pieces[0]["function"]["strict"] = True
        calls = collected(*calling(*pieces)).tool_calls

        assert [{**signed, "function": {"strict": True}}, signed] == [
            notes(each)["keys"] for each in calls
        ]


class TestAudio:
    def test_pieces(self):
        """
        Data is decoded however it is cut; the transcript is noted.
        """
        text = base64.b64encode(b"RIFF-data!").decode()
        message = collected(
            event(audio={"id": "audio_1"}),
            event(audio={"transcript": "Hel"}),
            event(audio={"data": text[:5], "transcript": "l"}),
            event(audio={"id": "audio_1", "data": text[5:], "transcript": "o"}),
            event(audio={"expires_at": 5}),
        )
        (part,) = message.parts

        assert (b"RIFF-data!", "") == (part.data, part.media_type)
        assert "Hello" == notes(part)["keys"]["transcript"]
        assert {"id": "audio_1"} == dump([message]).payload["messages"][0]["audio"]

    @table(
        "pieces, data",
        {
            "without padding": (["eHg"], b"xx"),
            "cut": (["eH", "g"], b"xx"),
            "with a new line": (["eH\ng="], b"xx"),
            "also if they come together": (["eHg=eA=="], b"xxx"),
        },
    )
    def test_padding(self, pieces, data):
        """
        Base64 is read as encoders and networks leave it.
        """
        message = collected(*[event(audio={"data": piece}) for piece in pieces])

        assert [data] == [part.data for part in message.parts]

    def test_invalid(self):
        """
        Of what breaks off all whole bytes are there; what is no base64 is kept as it
        is.
        """
        broken, invalid = (
            collected(*[event(audio={"data": piece}) for piece in pieces])
            for pieces in (["eHg=", "e"], ["eHg=", "??"])
        )

        assert [b"xx"] == [part.data for part in broken.parts]
        assert {"audio": {"data": "eHg=??"}} == notes(invalid)["keys"]

    def test_transcript_alone(self):
        """
        Without data there is no part, and nothing is lost.
        """
        message = collected(event(audio={"transcript": "Hello"}))

        assert "" == message.content
        assert {"audio": {"transcript": "Hello"}} == notes(message)["keys"]


class TestResponse:
    def test_usage_once(self):
        """
        With the provider's last numbers, also smaller ones.
        """
        used = [
            {**event(content=text), "usage": {"prompt_tokens": 9, "total_tokens": n}}
            for text, n in [("a", 20), ("b", 12)]
        ]
        chunks = list(load_chunks([*used, event(content="c")]))
        usages = [chunk.response.usage for chunk in chunks if chunk.response]

        assert [Usage(9, 0, 12)] == usages

    @table(
        "events",
        {
            "in an event of its own": [
                event(content="a"),
                {"choices": [], "usage": USED},
            ],
            "before an empty usage, which says nothing": [
                {**event(content="a"), "usage": used} for used in (USED, {})
            ],
        },
    )
    def test_usage(self, events):
        """
        Where the usage may stand.
        """
        assert Usage(1, 2) == collected(*events).response.usage

    def test_usage_is_of_the_first_answer(self):
        """
        Of several answers only the first has what all of them cost.
        """
        message: Any = concat(load_chunks([{"choices": [], "usage": USED}], choice=1))

        assert message.response.usage is None

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
        """
        What has no field is noted, without padding and nulls.
        """
        events = [
            {**event(content="a"), "system_fingerprint": "fp", "obfuscation": "xx"},
            {**event(content="b"), "system_fingerprint": None, "obfuscation": "x"},
            {**event(), "moderation": {"flagged": False}},
        ]
        events[1]["choices"][0]["content_filter"] = {"hate": False}
        message = collected(*events)

        assert ("chatcmpl-1", "gpt-4o") == (message.response.id, message.response.model)
        assert {"system_fingerprint": "fp", "moderation": {"flagged": False}} == notes(
            message
        )["response"]
        assert {"content_filter": {"hate": False}} == notes(message)["choice"]

    def test_maps_of_several_events(self):
        """
        Unknown maps of several events are one map.
        """
        message = collected(
            {**event(content="a"), "timings": {"queue": 1, "load": 2}},
            {**event(content="b"), "timings": {"queue": 3, "total": 4}},
        )

        assert {"queue": 3, "load": 2, "total": 4} == (
            notes(message)["response"]["timings"]
        )

    def test_keys_of_deltas(self):
        """
        What a dialect adds to a message is sent back to it: what is repeated with every
        piece is kept once, and lists come in pieces.
        """
        events = [
            event(content=text, annotations=[{"url": "x"}], served={"by": "x"})
            for text in "ab"
        ]

        assert {"by": "x"} == sent(*events)["served"]
        assert [{"url": "x"}, {"url": "x"}] == sent(*events)["annotations"]

    def test_choices(self):
        """
        Of several answers, the one asked for.
        """
        events = [event(content=text) for text in "abcd"]
        for at, each in enumerate(events):
            each["choices"][0]["index"] = at % 2

        assert "ac" == concat(load_chunks(events)).text
        assert "bd" == concat(load_chunks(events, choice=1)).text

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
        """
        A stream without its end was interrupted.
        """
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
    (".function.arguments", call(0, {})),
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
            ({"usage": {"prompt_tokens": -1}}, ".usage.prompt_tokens"),
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
    """
    A response, and the events it may have come in.
    """
    message = {"role": "assistant", "content": draw(st.none() | texts())}
    events = [event(role="assistant")]
    thought = draw(texts())
    if thought:
        message["reasoning_content"] = thought
        events += [event(reasoning_content=p) for p in draw(split_text(thought))]

    if message["content"]:
        events += [event(content=p) for p in draw(split_text(message["content"]))]

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
    """
    What the streams of all adapters promise.
    """

    adapter: ClassVar = openai_chat
    response_streams: ClassVar = responses_and_events()
    failure_events: ClassVar = [
        {"error": "no"},
        {"error": {"message": "no"}, "choices": []},
    ]

    def text_events(self, size):
        """
        A text in pieces, with a role that some servers repeat.
        """
        return [event(role="assistant", content="a")] * size

    def call_events(self, size):
        """
        A call, and its arguments in pieces.
        """
        begun = event(tool_calls=[call(0, "", id="c", name="f", type="function")])
        return [begun, *[event(tool_calls=[call(0, "1")])] * size]

    def is_end(self, event):
        """
        A choice has a reason to finish.
        """
        return any(each.get("finish_reason") for each in event.get("choices", ()))

    def check(self, whole, message):
        """
        See that they are the same, but for notes.
        """
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
