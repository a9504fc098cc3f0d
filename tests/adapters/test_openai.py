"""
What Chat Completions and Responses have in common.
"""

import json
from types import ModuleType
from typing import Any

import attrs
import pytest

from conversation_state.adapters import openai_chat, openai_responses
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
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses
from tests.adapters.contract import as_json, refusal
from tests.adapters.helpers import table

TOO_LARGE = "is an integer beyond 64 bits, which can't be kept as JSON"


@attrs.frozen
class OpenAIFormat:
    """
    One of the two formats: its *adapter*, the *key* of the messages in a request, the
    type of a *block* of a user's text, and the path of *logprobs* in a response.
    """

    adapter: ModuleType
    key: str
    block: str
    logprobs: str

    def respond(self, logprobs: Any) -> Any:
        """
        A response with a text and its *logprobs*.
        """
        if self.adapter is openai_responses:
            block = responses.text("a", logprobs=logprobs)
            return responses.response(responses.message(block))

        choice = {"message": chat.answer(content="a")}
        return {"choices": [{**choice, "logprobs": {"content": logprobs}}]}


@pytest.fixture(params=["chat", "responses"])
def openai(request) -> OpenAIFormat:
    """
    Each of the two formats.
    """
    if request.param == "chat":
        where = "$.choices[0].logprobs.content"
        return OpenAIFormat(openai_chat, "messages", "text", where)

    where = "$.output[0].content[0].logprobs"
    return OpenAIFormat(openai_responses, "input", "input_text", where)


class TestDump:
    """
    What neither format can represent is listed.
    """

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
        """
        Each loss has its path and its name; the rest of the message is sent.
        """
        export = openai.adapter.dump([message])

        assert [(f"messages[0]{path}", what)] == [
            (one.path, one.what) for one in export.lost
        ]
        assert all(one.why for one in export.lost)
        assert as_json(export.payload)

    @pytest.mark.parametrize(
        "message",
        [
            AssistantMessage([]),
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
        (sent,) = openai.adapter.dump([message]).payload[openai.key]
        key = "output" if "output" in sent else "content"
        listed = {**sent, key: []}
        again = openai.adapter.dump(openai.adapter.load([listed]))

        assert "" == sent[key]
        assert [listed] == again.payload[openai.key]

    def test_ours_is_not_lost(self, openai):
        """
        What is never sent to a model is neither sent nor listed.
        """
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

        assert () == openai.adapter.dump([ours]).lost
        assert openai.adapter.dump([plain]) == openai.adapter.dump([ours])


class TestLoad:
    """
    What both formats have is read in the same way.
    """

    def test_a_whole_request(self, openai):
        """
        Of a request only the messages are read; the bare list will do.
        """
        messages = [{"role": "user", "content": "hi"}]
        request = {"model": "m", openai.key: messages, "tools": []}
        load = openai.adapter.load

        assert (UserMessage("hi"),) == load(messages)
        assert load(messages) == load(request) == load(tuple(messages))

    def test_bounded(self, openai):
        """
        Very deep, very wide and very wrong documents are refused like others.
        """
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
        """
        A response is bounded, too: what is wrong with it is a `DecodeError`.
        """
        deep = json.loads(f'{{"{key}":[' * 400 + "]}" * 400)
        whole = (
            responses.response({**responses.message("a"), key: [deep]})
            if openai.adapter is openai_responses
            else {"choices": [{"message": chat.answer(**{key: [deep]})}]}
        )

        assert refusal(openai.adapter.load, whole) is not None

    def test_problems_of_content(self, openai):
        """
        One mistake does not hide the next, and each has what was expected.
        """
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
        """
        What is not a list of tokens and how likely they were is refused.
        """
        found = refusal(openai.adapter.load, openai.respond(logprobs))

        assert isinstance(found, DecodeError)
        assert [f"{openai.logprobs}{path}"] == [one.path for one in found.problems]
