"""
OpenAI's Responses: what all adapters promise, and real traffic.
"""

from typing import ClassVar

import attrs

from conversation_state.adapters import openai_responses
from conversation_state.adapters._notes import notes_of
from conversation_state.adapters.openai_responses import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage
from conversation_state.parts import MediaPart, ReasoningPart
from tests.adapters.contract import FormatContract, as_json, bare
from tests.adapters.kept import lines
from tests.adapters.openai_responses import REQUESTS, RESPONSES, several
from tests.adapters.test_openai_chat import as_it_comes_back
from tests.recorded import is_large


def in_order(message):
    """
    *message* with its parts, and its calls, in the order of their indexes.
    """
    parts, calls = message.content, message.tool_calls
    if isinstance(parts, str) or any(one.index is None for one in (*parts, *calls)):
        return message

    return message.replace(
        content=sorted(parts, key=lambda part: part.index),
        tool_calls=sorted(calls, key=lambda call: call.index),
    )


class TestContract(FormatContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = openai_responses
    documents: ClassVar = REQUESTS
    responses: ClassVar = RESPONSES

    def normalise(self, message):
        """
        An id that was made up is as good as none, no parts are not text, and indexes
        give the order.
        """
        if isinstance(message, AssistantMessage):
            message = in_order(message)
            calls = [
                attrs.evolve(call, id="")
                if "made_id" in notes_of(call.metadata, "openai_responses")
                else call
                for call in message.tool_calls
            ]
            message = message.replace(tool_calls=calls, content=message.content or "")

        if getattr(message, "content", "") == ():
            message = message.replace(content="")

        if not isinstance(getattr(message, "content", ""), str):
            content = [
                as_it_comes_back(part) if isinstance(part, MediaPart) else part
                for part in message.content
            ]
            message = message.replace(content=content)

        return bare(message)


def input_of(request):
    """
    What of a *request* carries the conversation.
    """
    return {key: request[key] for key in ("instructions", "input") if key in request}


def exchanges(data):
    """
    The recorded requests and their responses.
    """
    return lines(data / "requests" / "openai_responses.jsonl")


# Responses that are none: how many tokens an input would have.
COUNTED = "responses_usage_limit_exceeded#0"


class TestRecorded:
    """
    Real conversations.
    """

    def test_requests(self, recordings):
        """
        Requests come back as they were, key for key.
        """
        for exchange in exchanges(recordings):
            export = dump(load(exchange["request"]))

            assert () == export.lost
            assert as_json(input_of(exchange["request"])) == as_json(export.payload)

    def test_responses(self, recordings):
        """
        Responses load with what they cost, and can be sent back as they came.
        """
        refused = []
        for exchange in exchanges(recordings):
            whole = exchange["response"]
            try:
                *before, message = several(whole)
            except DecodeError as error:
                refused.append((exchange["name"], [p.path for p in error.problems]))
                continue

            export = dump([*before, message])
            assert ["user"] * len(before) == [one.role for one in before]
            assert whole.get("status", "") == message.response.finish_reason
            assert whole.get("model", "") == message.response.model
            assert load_usage(whole) == message.response.usage
            assert load_usage(whole.get("usage")) == message.response.usage
            assert () == export.lost
            assert as_json(whole["output"]) == as_json(export.payload["input"])

        assert ([(COUNTED, ["$"])] if is_large(recordings) else []) == refused

    def test_usage(self, recordings):
        """
        Input and output together are the total, so that what is cached,
        written to the cache, or thought, is a part of them.
        """
        usages = [load_usage(each["response"]) for each in exchanges(recordings)]
        used = [usage for usage in usages if usage]

        assert any(usage.prompt_tokens_details.cached_tokens for usage in used)
        assert is_large(recordings) == any(
            "cache_write_tokens" in usage.extra for usage in used
        )
        assert any(usage.completion_tokens_details.reasoning_tokens for usage in used)
        assert all(
            usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
            and usage.prompt_tokens >= usage.extra.get("cache_write_tokens", 0)
            for usage in used
        )

    def test_signatures(self, recordings):
        """
        What thoughts are signed with is there byte for byte, once.
        """
        for exchange in exchanges(recordings):
            items = as_json(exchange["request"].get("input"))
            signed = [
                part.signature
                for message in load(exchange["request"])
                for part in message.parts
                if isinstance(part, ReasoningPart) and part.signature
            ]

            assert items.count('"type": "reasoning"') == len(signed)
            assert all(signature in items for signature in signed)
