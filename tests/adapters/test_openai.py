"""
What Chat Completions and Responses have in common: what all adapters promise, real
traffic, and what both lose and refuse.
"""

import base64
import json
from contextlib import suppress
from typing import ClassVar

import attrs
import pytest

from conversation_state.adapters import openai_chat, openai_responses
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses
from tests.adapters.contract import FormatContract, as_json, bare, refusal
from tests.adapters.helpers import table
from tests.adapters.kept import lines
from tests.adapters.openai_formats import FORMATS, OpenAIFormat
from tests.adapters.pieces import as_is
from tests.recorded import is_large

TOO_LARGE = "is an integer beyond 64 bits, which can't be kept as JSON"


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


class TestDump:
    """What neither format can represent is listed."""

    @table(
        "message, path, what",
        {
            "that a tool failed": (
                ToolMessage("no", tool_call_id="c1", is_error=True),
                *("", "is_error"),
            ),
            "a video": (
                UserMessage([TextPart("see"), VideoPart(url="https://a.b/c")]),
                *(".parts[1]", "video"),
            ),
            "sound by URL": (
                UserMessage([AudioPart(url="https://a.b/c")]),
                *(".parts[0]", "audio"),
            ),
            "the media type of a URL": (
                UserMessage([ImagePart(url="https://a.b/c", media_type="image/png")]),
                *(".parts[0]", "media_type"),
            ),
            "another provider's part": (
                UserMessage([UnknownPart({"type": "search"}, source="anthropic")]),
                *(".parts[0]", "search"),
            ),
            "a part of no provider": (
                AssistantMessage([UnknownPart({"type": "hologram"})]),
                *(".parts[0]", "hologram"),
            ),
            "another provider's message": (
                UnknownMessage({"role": "a", "type": "a"}, source="gemini"),
                *("", "a"),
            ),
            "an unknown field": (UserMessage("hi", unknown={"mood": 1}), "", "mood"),
            "an unknown field of a part": (
                UserMessage([TextPart("hi", unknown={"mood": 1})]),
                *(".parts[0]", "mood"),
            ),
            "an unknown field of a call": (
                AssistantMessage(tool_calls=[ToolCall("c", "f", unknown={"mood": 1})]),
                *(".tool_calls[0]", "mood"),
            ),
            "keys of another provider, but for nulls and what is the caller's": (
                UserMessage(
                    "hi",
                    metadata={
                        "conversation_state": {
                            "anthropic": {
                                "keys": {"cache_control": 1, "b": None, "c": {"d": ""}}
                            },
                            "gemini": "not a note",
                        },
                        "mine": {"keys": {"c": 1}},
                    },
                ),
                *("", "cache_control"),
            ),
        },
    )
    def test_lost(self, openai, message, path, what):
        """Each loss has its path and its name; the rest of the message is sent."""
        export = as_is(openai.adapter).dump([message])

        assert [(f"messages[0]{path}", what)] == [
            (one.path, one.what) for one in export.lost
        ]
        assert all(one.why for one in export.lost)
        assert as_json(export.payload)

    @pytest.mark.parametrize(
        "message",
        [
            SystemMessage([]),
            ToolMessage([], tool_call_id="c1"),
            UserMessage([]),
        ],
    )
    def test_no_parts(self, openai, message):
        """
        A list of nothing is refused by the provider; it is sent only if it was
        loaded so.
        """
        (sent,) = as_is(openai.adapter).dump([message]).payload[openai.key]
        key = "output" if "output" in sent else "content"
        listed = {**sent, key: []}
        again = as_is(openai.adapter).dump(openai.adapter.load([listed]))

        assert "" == sent[key]
        assert [listed] == again.payload[openai.key]

    def test_ours_is_not_lost(self, openai):
        """What is never sent to a model is neither sent nor listed."""
        plain = AssistantMessage(
            [TextPart("hi"), RefusalPart("no")], tool_calls=[ToolCall("c1", "f", "{}")]
        )
        ours = AssistantMessage(
            [
                TextPart("hi", index=2, metadata={"a": 1}),
                RefusalPart("no", index=3, metadata={"a": 1}),
            ],
            tool_calls=[ToolCall("c1", "f", "{}", index=4, metadata={"b": 2})],
            response=ResponseMeta("stop", Usage(1, 2)),
            metadata={"c": 3},
        )

        assert () == as_is(openai.adapter).dump([ours]).lost
        assert as_is(openai.adapter).dump([plain]) == as_is(openai.adapter).dump([ours])


class TestLoad:
    """What both formats have is read in the same way."""

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

    def test_problems_of_content(self, openai):
        """One mistake does not hide the next, and each has what was expected."""
        kind = openai.block
        content = [
            {"type": kind, "text": None},
            "hi",
            {"text": "hi"},
            {"type": kind},
            {"type": kind, "text": "hi", "extra": 2**64},
            {"type": "hologram", "of": {"you": -(2**64)}},
        ]

        found = refusal(openai.adapter.load, [3, {"role": "user", "content": content}])

        assert found is not None
        assert [
            "$[0]: is 3; expected an object",
            "$[1].content[0].text: is null; expected a text",
            "$[1].content[1]: is 'hi'; expected an object",
            "$[1].content[2].type: is missing; expected a text",
            "$[1].content[3].text: is missing; expected a text",
            f"$[1].content[4].extra: {TOO_LARGE}",
            f"$[1].content[5].of.you: {TOO_LARGE}",
        ] == [str(problem) for problem in found.problems]

    @table(
        "logprobs, path",
        {
            "no list": (3, ""),
            "no object": ([3], "[0]"),
            "no token": ([{"logprob": 0}], "[0].token"),
            "no number": ([{"token": "a"}], "[0].logprob"),
            "a boolean": ([{"token": "a", "logprob": True}], "[0].logprob"),
            "an integer of 400 digits": (
                [{"token": "a", "logprob": 10**400}],
                "[0].logprob",
            ),
            "an integer beyond 64 bits": (
                [{"token": "a", "logprob": 2**64}],
                "[0].logprob",
            ),
            "bytes beyond 255": (
                [{"token": "a", "logprob": 0, "bytes": [256]}],
                "[0].bytes",
            ),
            "others that are no list": (
                [{"token": "a", "logprob": 0, "top_logprobs": 3}],
                "[0].top_logprobs",
            ),
            "another that is no object": (
                [{"token": "a", "logprob": 0, "top_logprobs": [3]}],
                "[0].top_logprobs[0]",
            ),
        },
    )
    def test_logprobs_refused(self, openai, logprobs, path):
        """What is not a list of tokens and how likely they were is refused."""
        found = refusal(openai.adapter.load, openai.respond(logprobs))

        assert isinstance(found, DecodeError)
        assert [f"{openai.logprobs}{path}"] == [one.path for one in found.problems]
