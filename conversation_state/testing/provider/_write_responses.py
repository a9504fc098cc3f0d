"""Responses and streams of the Responses API."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from conversation_state.messages import AssistantMessage
from conversation_state.testing.provider._writing import (
    AnswerPiece,
    Numbers,
    pieces_of,
    split_text,
    tokens_of,
)
from conversation_state.usage import Usage

__all__ = ["stream_responses", "write_responses"]

_CREATED = 1_700_000_000
_INCOMPLETE = {
    "length": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


def write_responses(
    message: AssistantMessage, body: Mapping[str, Any], numbers: Numbers
) -> dict[str, Any]:
    """The whole response."""
    output: list[dict[str, Any]] = []
    for piece in pieces_of(message):
        if piece.kind in ("text", "refusal"):
            if not output or output[-1]["type"] != "message":
                output.append(
                    {
                        "id": numbers.id("msg_"),
                        "type": "message",
                        "status": "completed",
                        "role": "assistant",
                        "content": [],
                    }
                )

            output[-1]["content"].append(_part(piece))
        else:
            output.append(_item(piece, body, numbers))

    meta = message.response
    reason = _INCOMPLETE.get(meta.finish_reason if meta else "")
    return {
        "id": (meta and meta.id) or numbers.id("resp_"),
        "object": "response",
        "created_at": _CREATED,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": (meta and meta.model) or body.get("model", "strict"),
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(tokens_of(message, body)),
        "user": None,
        "metadata": {},
    }


def _part(piece: AnswerPiece) -> dict[str, Any]:
    if piece.kind == "refusal":
        return {"type": "refusal", "refusal": piece.text}

    return {
        "type": "output_text",
        "text": piece.text,
        "annotations": [],
        "logprobs": [],
    }


def _item(
    piece: AnswerPiece, body: Mapping[str, Any], numbers: Numbers
) -> dict[str, Any]:
    if piece.kind == "call":
        return {
            "id": numbers.id("fc_"),
            "type": "function_call",
            "status": "completed",
            "call_id": piece.call.id or numbers.call_id(),
            "name": piece.call.name,
            "arguments": piece.call.arguments,
        }

    if piece.kind == "raw":
        return dict(piece.raw)

    item: dict[str, Any] = {"id": numbers.id("rs_"), "type": "reasoning", "summary": []}
    if piece.text:
        item["summary"] = [{"type": "summary_text", "text": piece.text}]

    if "reasoning.encrypted_content" in (body.get("include") or ()):
        item["encrypted_content"] = piece.signature or numbers.id("gAAAA")

    return item


def _usage(usage: Usage) -> dict[str, Any]:
    cached = usage.prompt_tokens_details.cached_tokens
    reasoning = usage.completion_tokens_details.reasoning_tokens
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.total_tokens,
    }


def stream_responses(
    response: Mapping[str, Any],
    body: Mapping[str, Any],  # noqa: ARG001 - as the other streams
) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    numbers = itertools.count()
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    end = "incomplete" if response.get("status") == "incomplete" else "completed"
    events = itertools.chain(
        (
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ),
        *(_item_events(at, item) for at, item in enumerate(response["output"])),
        ({"type": f"response.{end}", "response": response},),
    )
    for event in events:
        yield {**event, "sequence_number": next(numbers)}


def _item_events(at: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    empty = {"message": "content", "reasoning": "summary", "function_call": "arguments"}
    key = empty.get(item["type"])
    begun = dict(item)
    if key is not None:
        begun[key] = "" if key == "arguments" else []
        if "status" in begun:
            begun["status"] = "in_progress"

    yield {"type": "response.output_item.added", "output_index": at, "item": begun}
    place = {"item_id": item.get("id"), "output_index": at}
    if key == "content":
        for part_at, part in enumerate(item["content"]):
            yield from _part_events({**place, "content_index": part_at}, part)
    elif key == "summary":
        for part_at, part in enumerate(item["summary"]):
            yield from _summary_events({**place, "summary_index": part_at}, part)
    elif key == "arguments":
        name = "response.function_call_arguments"
        for text in split_text(item["arguments"]):
            yield {"type": f"{name}.delta", **place, "delta": text}

        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": f"{name}.done", **place, **done}

    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _part_events(
    place: Mapping[str, Any], part: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    key = "refusal" if part["type"] == "refusal" else "text"
    name = "response.refusal" if key == "refusal" else "response.output_text"
    logprobs: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**part, key: ""}}
    for text in split_text(part[key]):
        yield {"type": f"{name}.delta", **place, "delta": text, **logprobs}

    yield {"type": f"{name}.done", **place, key: part[key], **logprobs}
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary_events(
    place: Mapping[str, Any], part: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **place, "part": {**part, "text": ""}}
    for text in split_text(part["text"]):
        yield {"type": f"{name}_text.delta", **place, "delta": text}

    yield {"type": f"{name}_text.done", **place, "text": part["text"]}
    yield {"type": f"{name}_part.done", **place, "part": part}
