"""Responses and streams of Gemini's ``generateContent``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conversation_state.messages import AssistantMessage
from conversation_state.testing.provider._writing import (
    Numbers,
    arguments_of,
    pieces_of,
    split_text,
    tokens_of,
)
from conversation_state.usage import Usage

__all__ = ["stream_gemini", "write_gemini"]


def write_gemini(
    message: AssistantMessage, body: Mapping[str, Any], numbers: Numbers
) -> dict[str, Any]:
    """
    The whole response.

    A signature stands at the part after the thought that it signs. A Gemini 3 signs
    the first call of an answer.
    """
    parts: list[dict[str, Any]] = []
    signature = ""
    for piece in pieces_of(message):
        if piece.kind == "reasoning":
            if piece.text:
                parts.append({"text": piece.text, "thought": True})

            signature = piece.signature
            continue

        if piece.kind == "call":
            call = {
                "name": piece.call.name,
                "args": arguments_of(piece.call),
            }
            if piece.call.id:
                call["id"] = piece.call.id

            part: dict[str, Any] = {"functionCall": call}
        else:
            part = dict(piece.raw) if piece.kind == "raw" else {"text": piece.text}

        if signature:
            part["thoughtSignature"] = signature
            signature = ""

        parts.append(part)

    if "gemini-3" in str(body.get("model", "")):
        first = next((part for part in parts if "functionCall" in part), {})
        if first:
            first.setdefault("thoughtSignature", numbers.id("Cr4FAXLI2nz"))

    if signature:
        parts.append({"text": "", "thoughtSignature": signature})

    response = message.response
    candidate = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": (response and response.finish_reason) or "STOP",
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(tokens_of(message, body)),
        "modelVersion": (response and response.model) or body.get("model", "strict"),
        "responseId": (response and response.id) or numbers.id("response"),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    thoughts = usage.completion_tokens_details.reasoning_tokens
    written = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thoughts,
        "totalTokenCount": usage.total_tokens,
    }
    if thoughts:
        written["thoughtsTokenCount"] = thoughts

    if usage.prompt_tokens_details.cached_tokens:
        written["cachedContentTokenCount"] = usage.prompt_tokens_details.cached_tokens

    return written


def stream_gemini(
    response: Mapping[str, Any],
    body: Mapping[str, Any],  # noqa: ARG001 - as the other streams
) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    candidate = (response.get("candidates") or [{}])[0]
    events = [
        {"content": {"parts": [part], "role": "model"}, "index": 0}
        for whole in (candidate.get("content") or {}).get("parts") or ()
        for part in _split_part(whole)
    ]
    if not events:
        events = [{"index": 0}]

    events[-1]["finishReason"] = candidate.get("finishReason", "STOP")
    usage = response.get("usageMetadata") or {}
    for at, event in enumerate(events, 1):
        counted = usage
        if at < len(events):
            prompt = usage.get("promptTokenCount", 0)
            counted = {"promptTokenCount": prompt, "totalTokenCount": prompt}

        yield {**response, "candidates": [event], "usageMetadata": counted}


def _split_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = part.get("text")
    if not text:
        yield dict(part)
        return

    texts = list(split_text(text))
    rest = {key: value for key, value in part.items() if key != "thoughtSignature"}
    for piece in texts[:-1]:
        yield {**rest, "text": piece}

    yield {**part, "text": texts[-1]}
