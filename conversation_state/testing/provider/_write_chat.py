"""Responses and streams of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conversation_state.messages import AssistantMessage
from conversation_state.testing.provider._writing import (
    Numbers,
    pieces_of,
    split_text,
    tokens_of,
)
from conversation_state.usage import Usage

__all__ = ["stream_chat", "write_chat"]

_CREATED = 1_700_000_000


def write_chat(
    message: AssistantMessage, body: Mapping[str, Any], numbers: Numbers
) -> dict[str, Any]:
    """The whole response."""
    written: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    calls = []
    for piece in pieces_of(message):
        if piece.kind == "text":
            written["content"] = (written["content"] or "") + piece.text
        elif piece.kind == "refusal":
            written["refusal"] = (written["refusal"] or "") + piece.text
        elif piece.kind == "reasoning":
            reasoning = written.get("reasoning_content", "")
            written["reasoning_content"] = reasoning + piece.text
        elif piece.kind == "call":
            function = {"name": piece.call.name, "arguments": piece.call.arguments}
            id_ = piece.call.id or numbers.call_id()
            calls.append({"id": id_, "type": "function", "function": function})
        else:
            written.update(piece.raw)

    if calls:
        written["tool_calls"] = calls
    elif written["content"] is None and written["refusal"] is None:
        written["content"] = ""

    response = message.response
    usual = "tool_calls" if calls else "stop"
    return {
        "id": (response and response.id) or numbers.id("chatcmpl-"),
        "object": "chat.completion",
        "created": _CREATED,
        "model": (response and response.model) or body.get("model", "strict"),
        "choices": [
            {
                "index": 0,
                "message": written,
                "logprobs": None,
                "finish_reason": (response and response.finish_reason) or usual,
            }
        ],
        "usage": _usage(tokens_of(message, body)),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": prompt.cached_tokens,
            "audio_tokens": prompt.audio_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": completion.reasoning_tokens,
            "audio_tokens": completion.audio_tokens,
            "accepted_prediction_tokens": completion.accepted_prediction_tokens,
            "rejected_prediction_tokens": completion.rejected_prediction_tokens,
        },
    }


def stream_chat(
    response: Mapping[str, Any], body: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    head = {
        "id": response.get("id"),
        "object": "chat.completion.chunk",
        "created": response.get("created", _CREATED),
        "model": response.get("model"),
    }

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    for choice in response.get("choices") or ():
        message = choice["message"]
        yield chunk({"role": "assistant", "content": "", "refusal": None})
        reasoning = message.get("reasoning_content")
        if reasoning is not None:
            for text in split_text(reasoning) if reasoning else ("",):
                yield chunk({"reasoning_content": text})

        for text in split_text(message.get("content") or ""):
            yield chunk({"content": text})

        for text in split_text(message.get("refusal") or ""):
            yield chunk({"refusal": text})

        for at, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            first = {**call, "index": at, "function": {**function, "arguments": ""}}
            yield chunk({"tool_calls": [first]})
            for text in split_text(function["arguments"]):
                part = {"index": at, "function": {"arguments": text}}
                yield chunk({"tool_calls": [part]})

        yield chunk({}, choice.get("finish_reason"))

    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": response.get("usage")}
