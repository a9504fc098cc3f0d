"""Responses and streams of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from conversation_state.messages import AssistantMessage
from conversation_state.testing.provider._writing import (
    AnswerPiece,
    Numbers,
    arguments_of,
    pieces_of,
    split_text,
    tokens_of,
)
from conversation_state.usage import Usage

__all__ = ["stream_anthropic", "write_anthropic"]


def write_anthropic(
    message: AssistantMessage, body: Mapping[str, Any], numbers: Numbers
) -> dict[str, Any]:
    """The whole response."""
    content = [_block(piece, numbers) for piece in pieces_of(message)]
    response = message.response
    usual = "tool_use" if message.tool_calls else "end_turn"
    return {
        "id": (response and response.id) or numbers.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": (response and response.model) or body.get("model", "strict"),
        "content": content,
        "stop_reason": (response and response.finish_reason) or usual,
        "stop_sequence": None,
        "usage": _usage(tokens_of(message, body)),
    }


def _block(piece: AnswerPiece, numbers: Numbers) -> dict[str, Any]:
    if piece.kind == "call":
        return {
            "type": "tool_use",
            "id": piece.call.id or numbers.call_id(),
            "name": piece.call.name,
            "input": arguments_of(piece.call),
        }

    if piece.kind == "reasoning":
        signature = piece.signature or numbers.id("EqRkCkYIBxgCKkBz")
        return {"type": "thinking", "thinking": piece.text, "signature": signature}

    if piece.kind == "raw":
        return dict(piece.raw)

    return {"type": "text", "text": piece.text}


def _usage(usage: Usage) -> dict[str, Any]:
    read = usage.prompt_tokens_details.cached_tokens
    written = usage.extra.get("cache_write_tokens", 0)
    return {
        "input_tokens": max(usage.prompt_tokens - read - written, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.completion_tokens,
    }


def stream_anthropic(
    response: Mapping[str, Any],
    body: Mapping[str, Any],  # noqa: ARG001 - as the other streams
) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    usage = response.get("usage") or {}
    begun = {**response, "content": [], "stop_reason": None}
    begun["usage"] = {**usage, "output_tokens": min(usage.get("output_tokens", 0), 1)}
    yield {"type": "message_start", "message": begun}
    for at, block in enumerate(response["content"]):
        start, deltas = _begun(block)
        yield {"type": "content_block_start", "index": at, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}

        yield {"type": "content_block_stop", "index": at}

    stop = {key: response.get(key) for key in ("stop_reason", "stop_sequence")}
    output = {"output_tokens": usage.get("output_tokens", 0)}
    yield {"type": "message_delta", "delta": stop, "usage": output}
    yield {"type": "message_stop"}


def _begun(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        deltas = [
            {"type": "text_delta", "text": text} for text in split_text(block["text"])
        ]
        return {**block, "text": ""}, deltas

    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": text}
            for text in split_text(block["thinking"])
        ]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]

    if kind in ("tool_use", "server_tool_use"):
        written = json.dumps(block["input"])
        deltas = [
            {"type": "input_json_delta", "partial_json": text}
            for text in ("", *split_text(written))
        ]
        return {**block, "input": {}}, deltas

    return dict(block), []
