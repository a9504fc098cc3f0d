"""Streams of Gemini's responses: chunks that concatenate to the message."""

import base64
import copy
import json
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import gemini
from conversation_state.adapters.gemini import dump, load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from conversation_state.messages import LogProb
from conversation_state.parts import (
    AudioPart,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import as_json, bare
from tests.adapters.gemini import PNG_TEXT, call, model, notes, several, usage_of
from tests.adapters.helpers import table
from tests.adapters.stream_contract import StreamContract, events_of, split_text

RECORDED = recorded.streams("gemini")
given_before = partial(stream_contract.given_before, gemini)


RAW = "audio/L16;rate=24000"
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}


def event(*parts, reason=None, written=None, **beside):
    """An event with *parts*."""
    candidate: dict[str, Any] = {"content": model(*parts), "index": 0, **beside}
    if reason:
        candidate["finishReason"] = reason

    made: Any = {
        "candidates": [candidate],
        "modelVersion": "gemini-3",
        "responseId": "r1",
    }
    if written is not None:
        made["usageMetadata"] = {
            "promptTokenCount": 5,
            "candidatesTokenCount": written,
            "totalTokenCount": 5 + written,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}],
        }

    return made


def text(words, **beside):
    """A part with a text."""
    return {"text": words, **beside}


def thought(words, **beside):
    """A part with a thought."""
    return {"text": words, "thought": True, **beside}


def picture(encoded):
    """A part with an image."""
    return {"inlineData": {"mimeType": "image/png", "data": encoded}}


def sound(data, media_type=RAW):
    """A part with sound."""
    encoded = base64.b64encode(data).decode()
    return {"inlineData": {"mimeType": media_type, "data": encoded}}


def sent(message):
    """The contents that *message* is sent in."""
    return dump([message]).payload["contents"]


def collected(*events) -> Any:
    """The message that *events* make."""
    return concat(load_chunks(events))


class TestParts:
    """Pieces of one thing are joined, and nothing else is."""

    @table(
        "events, content",
        {
            "thoughts and texts have their place": (
                [
                    [thought("a")],
                    [thought("b")],
                    [text("c"), text("d")],
                    [thought("e")],
                    [text("f")],
                ],
                (
                    ReasoningPart("ab", index=0),
                    TextPart("cd", index=1),
                    ReasoningPart("e", index=2),
                    TextPart("f", index=3),
                ),
            ),
            "an empty text adds nothing, and does not come between others": (
                [
                    [thought("a")],
                    [text("")],
                    [thought("b", thoughtSignature=None)],
                    [text("", thought=False)],
                ],
                (ReasoningPart("ab", index=0),),
            ),
            "pieces of raw sound are one sound": (
                [
                    [sound(b"ab\xff")],
                    [sound(b"\xfe\xff")],
                    [sound(b"c", "audio/pcm")],
                    [text("a")],
                    [sound(b"d", "audio/pcm")],
                ],
                (
                    AudioPart(data=b"ab\xff\xfe\xff", media_type=RAW, index=0),
                    AudioPart(data=b"c", media_type="audio/pcm", index=1),
                    TextPart("a", index=2),
                    AudioPart(data=b"d", media_type="audio/pcm", index=3),
                ),
            ),
            "files of sound, which have a head, are several": (
                [[sound(b"a", "audio/wav")], [sound(b"b", "audio/wav")]],
                (
                    AudioPart(data=b"a", media_type="audio/wav", index=0),
                    AudioPart(data=b"b", media_type="audio/wav", index=1),
                ),
            ),
            "a half of a character that waits stays in its part": (
                [[thought("a\ud83d")], [text("b")]],
                (ReasoningPart("a\ufffd", index=0), TextPart("b", index=1)),
            ),
        },
    )
    def test_content(self, events, content):
        """The content of the message, of the parts of each event."""
        assert content == collected(*[event(*parts) for parts in events]).content

    def test_signatures_are_not_joined(self):
        """A part with a signature is joined with no other, before or behind."""
        parts = [text("a"), text("", thoughtSignature="c2ln1"), text("b"), text("c")]
        parts += [text(each, thoughtSignature="c2ln2") for each in "de"]

        message = collected(*[event(part) for part in parts])

        assert ["a", "", "bc", "d", "e"] == [part.text for part in message.parts]
        joined = [*parts[:2], text("bc"), *parts[4:]]
        assert [model(*joined)] == sent(message)

    def test_sound_with_more(self):
        """Raw sound that is signed is not joined."""
        part = {**sound(b"a"), "thoughtSignature": "c2ln"}

        assert 2 == len(collected(event(part), event(part)).parts)

    @pytest.mark.parametrize(
        ("pieces", "whole", "harmed"),
        [
            (["a\ud83d", "\ude00b"], "a😀b", False),
            (["a\ud83d", "b"], "a\ufffdb", True),
            (["a\ud83d"], "a\ufffd", True),
        ],
    )
    @pytest.mark.parametrize("kind", [text, thought])
    def test_surrogates(self, kind, pieces, whole, harmed):
        """A character that is cut in two is joined; a half alone is mended."""
        message = collected(*[event(kind(piece)) for piece in pieces])

        assert whole == message.text + message.reasoning
        assert harmed == ("mended" in notes(message))
        assert harmed == bool(dump([message]).lost)

    def test_half_in_a_whole_part(self):
        """A half in a part that is not joined is reported, too."""
        message = collected(event(text("\ud83d", thoughtSignature="c2ln")))

        where = "candidates[0].content.parts[0].text"
        assert (where,) == notes(message)["mended"]


class TestCalls:
    """Calls come whole."""

    def test_results_find_them(self):
        """A whole response has the same ids."""
        events = [event(call()), event(call())]
        whole = event(call(), call())
        for one in (*events, whole):
            one["responseId"] = "r1"

        assert [each.id for each in collected(*events).tool_calls] == [
            each.id for each in several(whole)[0].tool_calls
        ]


class TestPartialCalls:
    """Vertex AI can send a call's arguments by their paths; they are put together."""

    def pieces(self, *args, going=True, **body):
        """A part with pieces of a call."""
        if going:
            body["willContinue"] = True

        if args:
            body["partialArgs"] = list(args)

        return event({"functionCall": body})

    def test_whole(self):
        """All pieces are one call, in the order of their first mention."""
        message = collected(
            event(text("x")),
            event(
                {
                    "functionCall": {"name": "f", "willContinue": True},
                    "thoughtSignature": "c2ln",
                }
            ),
            self.pieces(
                {"jsonPath": "$.a.b", "stringValue": "New ", "willContinue": True}
            ),
            self.pieces(
                {"jsonPath": "$.a.b", "stringValue": "Delhi"},
                {"jsonPath": "$.n", "numberValue": 2.5},
                {"jsonPath": "$.list[7]", "numberValue": 0},
                {"jsonPath": "$.list[0]['c d']", "boolValue": False},
                {"jsonPath": '$.list[1]["e"]', "nullValue": "NULL_VALUE"},
            ),
            self.pieces(going=False),
            event(call("g")),
        )

        args = '{"a":{"b":"New Delhi"},"n":2.5,"list":[{"c d":false},{"e":null},0]}'
        assert [("f", args), ("g", "{}")] == [
            (each.name, each.arguments) for each in message.tool_calls
        ]
        assert [1, 2] == [each.index for each in message.tool_calls]
        assert [text("x"), call("f", args=json.loads(args)), call("g")] == sent(
            message
        )[0]["parts"]

    def test_another_begins(self):
        """A call that begins ends the one before it."""
        message = collected(
            self.pieces(name="f"),
            self.pieces({"jsonPath": "$.a", "stringValue": "b"}, name="g"),
            self.pieces(going=False),
        )

        assert [("f", "{}"), ("g", '{"a":"b"}')] == [
            (each.name, each.arguments) for each in message.tool_calls
        ]

    def test_values_that_change(self):
        """Of different values at one path the last one stands."""
        args = [
            {"jsonPath": "$.a", "stringValue": "b"},
            {"jsonPath": "$.a", "numberValue": 1},
            {"jsonPath": "$.b", "numberValue": 1},
            {"jsonPath": "$.b", "stringValue": "c"},
            {"jsonPath": "$.c", "numberValue": 1},
            {"jsonPath": "$.c.d", "numberValue": 2},
            {"jsonPath": "$.e"},
        ]

        message = collected(self.pieces(*args, name="f", going=False))

        (found,) = message.tool_calls
        assert '{"a":1,"b":"c","c":{"d":2}}' == found.arguments

    @pytest.mark.parametrize(
        ("args", "path"),
        [
            ([{"stringValue": "a"}], "[0].jsonPath"),
            ([{"jsonPath": "a"}], "[0].jsonPath"),
            ([{"jsonPath": "$[0]"}], "[0].jsonPath"),
            ([{"jsonPath": "$.a..b"}], "[0].jsonPath"),
            ([{"jsonPath": "$" + ".a" * 81}], "[0].jsonPath"),
            ([{"jsonPath": "$.a", "numberValue": [3]}], "[0].numberValue"),
            ([{"jsonPath": "$.a", "numberValue": 2**64}], "[0].numberValue"),
            ({}, ""),
        ],
    )
    def test_refuses(self, args, path):
        """An invalid piece is reported, with its path."""
        made = event(
            {"functionCall": {"name": "f", "willContinue": True, "partialArgs": args}}
        )

        _, error = given_before([made], DecodeError)

        where = "$[0].candidates[0].content.parts[0].functionCall.partialArgs"
        assert [f"{where}{path}"] == [problem.path for problem in error.problems]


class TestResponse:
    """The response's fields are reported once, at the end."""

    def test_usage_once(self):
        """The usage comes at the end, and no count in it goes down."""
        chunks = list(
            load_chunks(
                [
                    event(text("a"), written=7),
                    event(text("b"), written=9),
                    event(text("c"), written=4),
                ]
            )
        )

        usages = [chunk.response.usage for chunk in chunks if chunk.response]
        assert [Usage(5, 9, extra={"prompt_text_tokens": 5})] == usages

    def test_other_details(self):
        """What is not a count is read when it changes."""
        events = [event(text("a"), written=at) for at in range(4)]
        for at, each in enumerate(events):
            each["usageMetadata"]["serviceTier"] = f"tier {at}"

        message = collected(*events)

        assert {"serviceTier": "tier 3"} == notes(message)["response"]["usage"]

    def test_counts_that_come_later(self):
        """New counts are read, and those that are not repeated stand."""
        events = [event(text("a"), written=at) for at in range(4)]
        events[2]["usageMetadata"]["thoughtsTokenCount"] = 1
        events[3]["usageMetadata"] = {"promptTokenCount": 8, "thoughtsTokenCount": 3}

        assert (
            Usage(8, 5).total_tokens == collected(*events).response.usage.total_tokens
        )

    @pytest.mark.parametrize("step", [0, 1])
    def test_usage_of_a_changing_object(self, step):
        """
        One object that is changed and given again is read each time, with its details.
        """
        one = event(text("a"), written=0)

        def events():
            for at in range(5):
                one["usageMetadata"]["candidatesTokenCount"] = at
                details = one["usageMetadata"]["promptTokensDetails"]
                details[0]["tokenCount"] = 4 + step * at
                yield one

            one["usageMetadata"]["candidatesTokenCount"] = 99

        message: Any = concat(load_chunks(events()))
        usage = message.response.usage

        assert 4 == usage.completion_tokens
        assert {"prompt_text_tokens": 4 + 4 * step} == usage.extra

    @pytest.mark.parametrize("count", [-1, True])
    def test_no_count(self, count):
        """An invalid count makes the usage unknown, and is noted."""
        events = [event(text("a"), written=1) for _ in range(3)]
        events[2]["usageMetadata"]["candidatesTokenCount"] = count

        message: Any = collected(*events)

        noted = notes(message)["response"]["usage"]
        assert "aaa" == message.text
        assert message.response.usage is None
        assert count is noted["candidatesTokenCount"]

    def test_too_much_together(self):
        """Counts that are too large together are no usage, and are noted."""
        events = [event(text("a"), written=1), event(text("a"), written=2**63 - 6)]
        del events[1]["usageMetadata"]["totalTokenCount"]

        events[1]["usageMetadata"]["promptTokenCount"] = 2**62
        message: Any = collected(*events)

        assert message.response.usage is None
        assert 2**62 == notes(message)["response"]["usage"]["promptTokenCount"]

    def test_other_answers(self):
        """
        Calls of other answers have other ids, as in a whole response, and only the
        first answer has the usage.
        """
        made = event(text("a"), written=3)
        made["candidates"].append({"content": model(call()), "index": 1})

        message = concat(load_chunks([made], choice=1))

        assert several(made)[1].tool_calls[0].id == message.tool_calls[0].id
        assert message.response is not None
        assert message.response.usage is None

    def test_notes(self):
        """What else it holds is kept: maps are merged, of all else the last stands."""
        ratings = [{"category": "a", "probability": "LOW"}]
        message = collected(
            event(text("a"), groundingMetadata={}, safetyRatings=ratings * 2),
            event(
                text("b"),
                groundingMetadata={"webSearchQueries": ["q"], "groundingChunks": [1]},
                safetyRatings=ratings,
            ),
            event(
                text("c"),
                groundingMetadata={"groundingChunks": [2]},
                finishMessage="done",
                citationMetadata=None,
                reason="STOP",
            ),
        )

        assert {
            "candidate": {
                "groundingMetadata": {
                    "webSearchQueries": ["q"],
                    "groundingChunks": [2],
                },
                "safetyRatings": ratings,
                "finishMessage": "done",
            }
        } == thaw(notes(message))
        assert "r1" == message.response.id

    @pytest.mark.parametrize("key", ["citationMetadata", "urlContextMetadata"])
    def test_what_was_cited(self, key):
        """
        Each citation is listed once, whether each event has all of them or the new
        ones.
        """
        message = collected(
            event(text("a"), **{key: {"sources": [{"uri": "a"}], "n": 1}}),
            event(text("b"), **{key: {"sources": [{"uri": "a"}, {"uri": "b"}]}}),
            event(text("c"), **{key: {"n": 2, "sources": [{"uri": "c"}], "more": []}}),
            event(text("d"), **{key: None}),
        )

        assert {
            "sources": [{"uri": "a"}, {"uri": "b"}, {"uri": "c"}],
            "n": 2,
            "more": [],
        } == thaw(notes(message)["candidate"][key])

    def test_keys_of_contents(self):
        """The other keys of a content are written back."""
        made = event(text("a"))
        made["candidates"][0]["content"]["mood"] = "good"

        message = collected(made, made)

        assert [model(text("aa"), mood="good")] == sent(message)

    def test_logprobs(self):
        """How likely tokens were, is reported with their piece."""
        events = [
            event(
                text(each),
                logprobsResult={
                    "chosenCandidates": [{"token": each, "logProbability": -1.0}]
                },
            )
            for each in "ab"
        ]

        message = collected(*events)

        assert (LogProb("a", -1.0), LogProb("b", -1.0)) == message.response.logprobs
        assert 2 == len(notes(message)["candidate"]["logprobsResult"])

    def test_snake_case(self):
        """The other spelling is taken."""
        events = [
            {
                "candidates": [{"content": model(text(each)), "finish_reason": "STOP"}],
                "model_version": "gemini-3",
                "response_id": "r1",
                "usage_metadata": {"prompt_token_count": at},
            }
            for at, each in enumerate("abc")
        ]
        arg = {"json_path": "$.a", "string_value": "b"}
        body = {"name": "f", "will_continue": True, "partial_args": [arg]}
        calls = [event({"function_call": each}) for each in (body, {})]

        message = collected(*events, *calls)

        assert [("r1_call_0", '{"a":"b"}')] == [
            (each.id, each.arguments) for each in message.tool_calls
        ]
        assert "abc" == message.text
        assert ("STOP", Usage(2), "gemini-3") == (
            message.response.finish_reason,
            message.response.usage,
            message.response.model,
        )

    @pytest.mark.parametrize("content", [1.5])
    def test_another_choice(self, content):
        """A candidate that was not asked for is not read, whatever it is."""
        other = {"candidates": [{"index": 1, "content": content}]}
        again = {"candidates": [{"index": 1, "content": {"parts": [{"text": "c"}]}}]}
        merged = collected(event({"text": "a"}), other, again, event({"text": "b"}))

        assert "ab" == merged.text

    @pytest.mark.parametrize("choice", [-1, True])
    def test_no_choice(self, choice):
        """What is not a number of an answer is refused at once."""
        with pytest.raises(ValueError, match="choice"):
            load_chunks([], choice=choice)


class TestEnds:
    """How a stream ends is the reason to finish."""

    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([event(text("a"))], "interrupted"),
            ([event(text("a"), reason="STOP")], "STOP"),
            ([{"promptFeedback": {"blockReason": "SAFETY"}}], "SAFETY"),
        ],
    )
    def test_reason(self, events, reason):
        """Google's word, or ours where it broke off."""
        message = collected(*events)

        assert reason == message.response.finish_reason
        assert "mended" not in notes(message)


class TestRefuses:
    """An invalid event is reported, with its path."""

    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            ({"candidates": [{"content": 3}]}, "$[1].candidates[0].content"),
            (
                {"candidates": [{"content": {"parts": [3]}}]},
                "$[1].candidates[0].content.parts[0]",
            ),
            (
                event({"functionCall": 3}),
                "$[1].candidates[0].content.parts[0].functionCall",
            ),
            ({"modelVersion": 3}, "$[1].modelVersion"),
        ],
    )
    def test_what_is_no_event(self, wrong, path):
        """Each problem has its path; what came before was given."""
        given, error = given_before([event(text("a")), wrong], DecodeError)

        assert [path] == [problem.path for problem in error.problems]
        assert "a" == concat(given).text
        assert "interrupted" == given[-1].response.finish_reason

    def test_the_rest_of_the_event(self):
        """What could be read of it is given."""
        given, _ = given_before([event(text("a"), text(3), text("b"))], DecodeError)

        assert "ab" == concat(given).text


RAW_PARTS = st.one_of(
    texts(min_size=1, max_size=6).map(text),
    texts(min_size=1, max_size=6).map(thought),
    texts(max_size=3).map(lambda each: text(each, thoughtSignature="c2ln")),
    st.just(call("f", args={"a": 1})),
    st.just(call("g", id="c1", signature="")),
    st.just(CODE),
    st.just(picture(PNG_TEXT)),
)


BESIDE = st.fixed_dictionaries(
    {},
    optional={
        "groundingMetadata": st.sampled_from([{}, {"a": 1}, {"a": 2}, {"b": 1}]),
        "safetyRatings": st.sampled_from([[], [{"a": 1}], None, 0, ""]),
    },
)


def alternating(parts):
    """Whether no two texts, or thoughts, of *parts* would be joined."""
    return all(
        not (plain(before) and plain(after) and before.keys() == after.keys())
        for before, after in pairwise(parts)
    )


def plain(part):
    """Whether *part* may come in pieces."""
    return part.keys() <= {"text", "thought"}


@st.composite
def streams(draw):
    """A response, and the events of the same one as a stream."""
    parts = draw(st.lists(RAW_PARTS, max_size=5).filter(alternating))
    cut: list[Any] = []
    for part in parts:
        if plain(part):
            cut += [{**part, "text": piece} for piece in draw(split_text(part["text"]))]
        else:
            cut.append(part)

    events, written = [], 0
    while cut:
        size = draw(st.integers(1, 3))
        written += draw(st.integers(0, 9))
        beside = draw(BESIDE)
        events.append(event(*cut[:size], written=written, **beside))
        cut = cut[size:]

    events.append(event(reason="STOP", written=written))
    return event(*parts, reason="STOP", written=written), events


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = gemini
    streams_arguments: ClassVar = False
    response_streams: ClassVar = streams()
    failure_events: ClassVar = [{"error": {"code": 503, "message": "overloaded"}}]

    def text_events(self, size):
        """A text in pieces, each with the usage until then."""
        return [event(text("a"), written=at) for at in range(size)]

    def call_events(self, size):
        """Calls, which come whole."""
        return [event(call(), written=at) for at in range(size)]

    def check(self, whole, message):
        """See that they are the same, and go back as the same."""
        (expected,) = several(whole)

        assert bare(expected).parts == bare(message).parts
        assert expected.response == message.response
        assert [(each.id, notes(each)) for each in expected.tool_calls] == [
            (each.id, notes(each)) for each in message.tool_calls
        ]
        assert as_json(dump([expected]).payload) == as_json(dump([message]).payload)
        # What every event says again, no whole response of ours does.
        others = {
            key: each for key, each in notes(message).items() if key != "candidate"
        }
        assert notes(expected) == others

    def is_end(self, event):
        """A candidate has a reason to finish."""
        return any("finishReason" in each for each in event.get("candidates", ()))


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    """Real streams."""

    def test_collects(self, path):
        """What is collected is the content of the events."""
        events = events_of(path)
        candidates = [each["candidates"][0] for each in events]
        parts = [
            part
            for candidate in candidates
            for part in candidate.get("content", {}).get("parts", ())
        ]

        message = collected(*copy.deepcopy(events))

        texts = {True: "", False: ""}
        for part in parts:
            texts[part.get("thought", False)] += part.get("text", "")

        assert texts == {True: message.reasoning, False: message.text}
        assert [p["functionCall"]["name"] for p in parts if "functionCall" in p] == [
            each.name for each in message.tool_calls
        ]
        assert [p for p in parts if not p.keys() & {"functionCall", "text"}] == [
            thaw(p.raw) for p in message.parts if isinstance(p, UnknownPart)
        ]
        assert candidates[-1]["finishReason"] == message.response.finish_reason
        assert usage_of(events[-1]) == message.response.usage
        assert events[-1]["usageMetadata"]["totalTokenCount"] == (
            message.response.usage.prompt_tokens
            + message.response.usage.completion_tokens
        )
        assert events[-1]["modelVersion"] == message.response.model
        grounding = candidates[-1].get("groundingMetadata")
        noted = notes(message).get("candidate", {}).get("groundingMetadata")
        assert grounding == (noted and thaw(noted))

    def test_goes_back(self, path):
        """It is sent back with every signature, byte for byte, in its order."""
        parts = [
            part
            for each in events_of(path)
            for part in each["candidates"][0].get("content", {}).get("parts", ())
        ]

        export = dump([collected(*events_of(path))])

        assert () == export.lost
        (content,) = export.payload["contents"]
        for key in ("thoughtSignature", "functionCall", "toolCall", "toolResponse"):
            assert [part[key] for part in parts if key in part] == [
                part[key] for part in content["parts"] if key in part
            ]
