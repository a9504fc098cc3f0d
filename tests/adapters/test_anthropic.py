"""Anthropic Messages: what all adapters promise, and real traffic."""

import base64
import json
from contextlib import suppress
from typing import Any, ClassVar

import attrs
import pytest

from conversation_state._persistent import thaw
from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, ToolMessage, UserMessage
from conversation_state.parts import FilePart, ImagePart, TextPart, UnknownPart
from conversation_state.testing.provider import judge
from conversation_state.tools import ToolCall
from tests.adapters.anthropic import (
    REQUESTS,
    RESPONSES,
    cost,
    one,
    result,
    several,
    user,
)
from tests.adapters.contract import FormatContract, as_json, bare
from tests.adapters.helpers import lines
from tests.recorded import is_large


def meaning(arguments):
    """*arguments* without what JSON does not distinguish."""
    with suppress(ValueError, RecursionError):
        value = json.loads(arguments or "{}")
        if isinstance(value, dict):
            return json.dumps(value)

    return arguments


def as_it_comes_back(part, role):
    """*part* as it comes back."""
    if isinstance(part, UnknownPart) and part.source == "anthropic":
        raw: Any = thaw(part.raw)
        if role == "tool":
            return one(user(result(content=[raw]))).content[0]

        return one({"role": role, "content": [raw]}).content[0]

    head, _, body = (getattr(part, "url", None) or "").partition(";base64,")
    if isinstance(part, (FilePart, ImagePart)) and body and head.startswith("data:"):
        data = base64.b64decode(body + "==")
        media_type = part.media_type or head[5:]
        part = attrs.evolve(part, url=None, data=data, media_type=media_type)

    if isinstance(part, (FilePart, ImagePart)) and part.data and not part.media_type:
        starts = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg"}
        starts |= {b"GIF8": "image/gif", b"%PDF-": "application/pdf"}
        kinds = [kind for start, kind in starts.items() if part.data.startswith(start)]
        return attrs.evolve(part, media_type=(*kinds, "text/plain")[0])

    return part


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = anthropic
    documents: ClassVar = REQUESTS
    responses: ClassVar = RESPONSES

    def normalise(self, message):
        """
        Arguments are objects, a text beside calls is a part, and bytes are of
        some media type.
        """
        if isinstance(message, AssistantMessage):
            calls = [
                attrs.evolve(call, arguments=meaning(call.arguments))
                for call in message.tool_calls
            ]
            message = message.replace(tool_calls=calls)
            if calls and isinstance(message.content, str):
                message = message.replace(content=message.parts)

        if not isinstance(getattr(message, "content", ""), str):
            content = [as_it_comes_back(part, message.role) for part in message.content]
            message = message.replace(content=content)

        return bare(message)


def sent(payload):
    """All blocks of *payload*, a text as the one it is short for."""
    return [
        (message["role"], block)
        for message in payload["messages"]
        for block in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    ]


class TestRecorded:
    """Real conversations."""

    def exchanges(self, recordings):
        """All that were recorded, but for counts of tokens."""
        found = lines(recordings / "requests" / "anthropic.jsonl")
        return [one for one in found if "content" in one["response"]]

    def test_requests(self, recordings):
        """Requests come back as they were, system messages and all."""
        exchanges = lines(recordings / "requests" / "anthropic.jsonl")
        for exchange in exchanges:
            request = exchange["request"]
            export = dump(load(request))

            expected = {
                key: request[key] for key in ("messages", "system") if key in request
            }
            assert () == export.lost
            assert as_json(expected) == as_json(export.payload)
            assert as_json(expected["messages"]) == as_json(
                dump(load(request["messages"])).payload["messages"]
            )

        assert (58 if is_large(recordings) else 4) == len(exchanges)

    def test_responses(self, recordings):
        """Responses load with what they cost, and can be sent back."""
        for exchange in self.exchanges(recordings):
            response = exchange["response"]
            (message,) = several(response)
            raw_usage = response["usage"]

            export = dump([message])
            assert response["stop_reason"] == message.response.finish_reason
            assert response["model"] == message.response.model
            assert response["id"] == message.response.id
            assert (
                load_usage(response) == load_usage(raw_usage) == message.response.usage
            )
            assert message.response.usage.prompt_tokens == (
                raw_usage["input_tokens"]
                + raw_usage["cache_read_input_tokens"]
                + raw_usage["cache_creation_input_tokens"]
            )
            assert (
                raw_usage["output_tokens"] == message.response.usage.completion_tokens
            )
            assert () == export.lost
            assert as_json(response["content"]) == as_json(
                export.payload["messages"][0]["content"]
            )

    def test_counts_of_tokens(self, recordings):
        """Counting tokens gives a usage and no message."""
        counted = [
            one["response"]
            for one in lines(recordings / "requests" / "anthropic.jsonl")
            if "content" not in one["response"]
        ]

        assert (4 if is_large(recordings) else 1) == len(counted)
        for response in counted:
            assert response["input_tokens"] == cost(response).prompt_tokens
            with pytest.raises(DecodeError, match="neither messages nor content"):
                load(response)


class TestFailedResults:
    def test_with_an_image(self):
        """
        Of a result that failed, with an image, the image goes out and the mark is lost:
        the provider refuses both together.
        """
        image = ImagePart(url="https://example.com/a.png")
        failed = ToolMessage(
            [TextPart("Broken:"), image], tool_call_id="c1", is_error=True
        )
        call = AssistantMessage(tool_calls=[ToolCall("c1", "screenshot", "{}")])
        dumped = anthropic.dump([UserMessage("Look."), call, failed])
        [result] = dumped.payload["messages"][-1]["content"]

        assert ["text", "image"] == [block["type"] for block in result["content"]]
        assert "is_error" not in result
        assert ["is_error"] == [lost.what for lost in dumped.lost]
        assert () == judge("anthropic", dumped.payload)
