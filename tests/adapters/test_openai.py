"""
What Chat Completions and Responses have in common: what all adapters promise, real
traffic, and what both lose and refuse.
"""

import base64
import json
from contextlib import suppress
from typing import Any, ClassVar

import attrs
import pytest

from conversation_state.adapters import Lost, openai_chat, openai_responses
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    ReasoningPart,
)
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses
from tests.adapters.contract import FormatContract, as_json, bare, refusal
from tests.adapters.helpers import as_is, lines
from tests.adapters.openai_formats import FORMATS, OpenAIFormat
from tests.recorded import is_large


@pytest.fixture(params=FORMATS)
def openai(request) -> OpenAIFormat:
    """Each of the two formats."""
    return FORMATS[request.param]


def as_it_comes_back(part):
    """*part* as it comes back: data: urls as bytes, audio of the usual type."""
    head, _, body = (getattr(part, "url", None) or "").partition(";base64,")
    if isinstance(part, ImagePart) and body and head.startswith("data:"):
        with suppress(ValueError):
            data = base64.b64decode(body, validate=True)
            return ImagePart(data=data, media_type=head[5:], detail=part.detail)

    if isinstance(part, AudioPart):
        usual = {"audio/mp3": "audio/mpeg", "audio/wave": "audio/wav"}
        usual |= dict.fromkeys(("audio/x-wav", "audio/vnd.wave"), "audio/wav")
        return attrs.evolve(
            part, media_type=usual.get(part.media_type, part.media_type)
        )

    return part


class OpenAIContract(FormatContract):
    """What all adapters promise."""

    def normalise(self, message):
        """
        An id that was made up is as good as none, no parts are not text, and indexes
        give the order where all have one.
        """
        _, _, name = self.adapter.__name__.rpartition(".")
        content = getattr(message, "content", "")
        if isinstance(message, AssistantMessage):
            calls = [
                attrs.evolve(call, id="")
                if "made_id" in notes_of(call.metadata, name)
                else call
                for call in message.tool_calls
            ]
            listed = () if isinstance(content, str) else content
            if self.adapter is openai_responses and all(
                one.index is not None for one in (*listed, *calls)
            ):
                calls.sort(key=lambda call: call.index or 0)
                if listed:
                    content = sorted(listed, key=lambda part: part.index)

            message = message.replace(tool_calls=calls)

        if content == ():
            message = message.replace(content="")
        elif not isinstance(content, str):
            message = message.replace(content=[*map(as_it_comes_back, content)])

        return bare(message)


class TestChat(OpenAIContract):
    adapter: ClassVar = openai_chat
    documents: ClassVar = chat.REQUESTS
    responses: ClassVar = chat.RESPONSES


class TestResponses(OpenAIContract):
    adapter: ClassVar = openai_responses
    documents: ClassVar = responses.REQUESTS
    responses: ClassVar = responses.RESPONSES


def exchanges(data, openai):
    """The recorded requests of a format, and their responses."""
    return lines(data / "requests" / f"{openai.name}.jsonl")


# These are recorded as responses, but say only how many tokens an input would have.
INVALID = {
    "openai_chat": "invalid_response#0",
    "openai_responses": "responses_usage_limit_exceeded#0",
}


class TestRecorded:
    """Real conversations."""

    def test_transcripts(self, recordings):
        """A hundred conversations of an agent come back as they were, without notes."""
        chats = lines(recordings / "transcripts" / "airline.jsonl")

        for each in chats:
            loaded = openai_chat.load(each)
            export = openai_chat.dump(loaded)
            assert () == export.lost
            assert as_json(each["messages"]) == as_json(export.payload["messages"])
            assert all(not message.metadata for message in loaded)

        assert (100 if is_large(recordings) else 4) == len(chats)

    def test_requests(self, recordings, openai):
        """
        So do the requests of half a dozen providers, with the signatures of thoughts
        byte for byte.
        """
        for exchange in exchanges(recordings, openai):
            request = exchange["request"]
            loaded = openai.adapter.load(request)
            export = as_is(openai.adapter).dump(loaded)
            expected = {
                key: request[key]
                for key in ("instructions", openai.key)
                if key in request
            }
            signed = [
                part.signature
                for message in loaded
                for part in message.parts
                if isinstance(part, ReasoningPart) and part.signature
            ]

            assert () == export.lost
            assert as_json(expected) == as_json(export.payload)
            assert as_json(request).count('"type": "reasoning"') == len(signed)

    def test_responses(self, recordings, openai):
        """
        Their responses load with what they cost, and can be sent back as they came.
        """
        refused = []
        load_usage = openai.adapter.load_usage
        for exchange in exchanges(recordings, openai):
            response = exchange["response"]
            try:
                loaded = openai.adapter.load(response)
            except DecodeError as error:
                refused.append((exchange["name"], [p.path for p in error.problems]))
                continue

            meta = loaded[-1].response
            reason = response.get("status", "")
            if openai.adapter is openai_chat:
                reason = response["choices"][0]["finish_reason"]

            export = as_is(openai.adapter).dump(loaded)
            assert reason == meta.finish_reason
            assert response.get("model", "") == meta.model
            assert (
                load_usage(response) == load_usage(response.get("usage")) == meta.usage
            )
            assert () == export.lost
            assert as_json(openai.messages_of(response)) == as_json(
                export.payload[openai.key]
            )

        invalid = [(INVALID[openai.name], ["$"])]
        assert (invalid if is_large(recordings) else []) == refused

    def test_usage(self, recordings):
        """
        In Responses input and output together are the total, so that what is cached,
        written to the cache, or thought, is a part of them.
        """
        listed = exchanges(recordings, FORMATS["responses"])
        usages = [openai_responses.load_usage(each["response"]) for each in listed]
        used = [usage for usage in usages if usage]

        assert any(usage.prompt_tokens_details.cached_tokens for usage in used)
        assert any(usage.completion_tokens_details.reasoning_tokens for usage in used)
        assert all(
            usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
            and usage.prompt_tokens >= usage.extra.get("cache_write_tokens", 0)
            for usage in used
        )


class TestLoad:
    """What both formats have is read in the same way."""

    @pytest.mark.parametrize("kind", ["audio/wav", "audio/x;rate=8000", ""])
    def test_audio_as_a_url(self, kind):
        """In chats its whole media type is in the url that it is written as."""
        block = {"type": "input_audio", "input_audio": f"data:{kind};base64,AA=="}
        history = [{"role": "user", "content": [block]}]

        loaded = openai_chat.load(history)
        export = as_is(openai_chat).dump(loaded)

        part: Any = loaded[0].parts[0]
        assert kind == part.media_type
        assert (history, ()) == (export.payload["messages"], export.lost)

    def test_a_whole_request(self, openai):
        """Of a request only the messages are read; the bare list will do."""
        messages = [{"role": "user", "content": "hi"}]
        request = {"model": "m", openai.key: messages, "tools": []}
        load = openai.adapter.load

        assert (UserMessage("hi"),) == load(messages)
        assert load(messages) == load(request) == load(tuple(messages))

    def test_bounded(self, openai):
        """Very deep, very wide and very wrong documents are refused like others."""
        deep = json.loads('{"a":[' * 400 + "]}" * 400)
        wide = [{"role": "user", "content": [3] * 100}] * 100

        found = refusal(openai.adapter.load, wide)
        too_deep = refusal(
            openai.adapter.load, [{"role": "user", "content": "hi", "deep": deep}]
        )

        assert found is not None
        assert 101 == len(found.problems)
        assert "$: and 9,900 more problems" == str(found.problems[-1])
        assert "nested more than 90 levels deep" in str(too_deep)

    @pytest.mark.parametrize("key", ["content", "tool_calls"])
    def test_an_answer_nested_too_deep(self, openai, key):
        """A response is bounded, too: what is wrong with it is a `DecodeError`."""
        deep = json.loads(f'{{"{key}":[' * 400 + "]}" * 400)
        whole = (
            responses.response({**responses.message("a"), key: [deep]})
            if openai.adapter is openai_responses
            else {"choices": [{"message": chat.answer(**{key: [deep]})}]}
        )

        assert refusal(openai.adapter.load, whole) is not None


def test_export_is_a_value():
    """Equal by content; losses read as sentences."""
    lost = Lost("messages[0]", "is_error", "has no place")
    dump = as_is(openai_chat).dump

    assert "messages[0]: is_error: has no place" == str(lost)
    assert dump([UserMessage("hi")]) == dump([UserMessage("hi")])
    assert dump([UserMessage("hi")]) != dump([UserMessage("ho")])


def test_calls_without_ids():
    """Ids that are made up for two responses differ."""
    wholes: list[Any] = [
        *[
            responses.response(responses.call(call_id=""), id=name)
            for name in ("x", "y")
        ],
        *[
            {"id": name, "choices": [{"message": chat.answer(tool_calls=[raw])}]}
            for name, raw in (("x", chat.call(id="")), ("y", chat.call(id="")))
        ],
    ]
    loaded: Any = [
        (openai_responses if "output" in whole else openai_chat).load(whole)[0]
        for whole in wholes
    ]

    assert ["x_call_0", "y_call_0"] * 2 == [each.tool_calls[0].id for each in loaded]
