"""Streams of Gemini's responses: chunks that concatenate to the message."""

import copy
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import gemini
from conversation_state.adapters.gemini import dump, load_chunks
from conversation_state.chunks import concat
from conversation_state.parts import (
    UnknownPart,
)
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters.contract import as_json, bare
from tests.adapters.gemini import PNG_TEXT, call, model, notes, several, usage_of
from tests.adapters.stream_contract import StreamContract, events_of, split_text

RECORDED = recorded.streams("gemini")


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


def collected(*events) -> Any:
    """The message that *events* make."""
    return concat(load_chunks(events))


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

    def test_call_in_pieces(self):
        """It is given with its last piece, and not with what comes after it."""
        pieces: list[Any] = [
            {"name": "f", "willContinue": True},
            {"partialArgs": [{"jsonPath": "$.a", "stringValue": "b"}]},
        ]
        events = [event({"functionCall": each}) for each in pieces]
        chunks = list(load_chunks([*events, event(text("c"))]))

        assert [(1, ""), (0, "c")] == [
            (len(chunk.tool_calls), chunk.text) for chunk in chunks[:2]
        ]

    @pytest.mark.parametrize("choice", [-1, True])
    def test_no_choice(self, choice):
        """What is not a number of an answer is refused at once."""
        with pytest.raises(ValueError, match="choice"):
            load_chunks([], choice=choice)


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
