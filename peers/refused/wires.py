"""
A script's answers in the forms of the wires.

Written from the providers' references, not with the adapters. An id that the script
has not is left out, where the wire's clients can do without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peers.refused.scripts import ScriptedAnswer

__all__ = ["write_answer"]

Json = dict[str, Any]

_CHAT_REASONS = {"length": "length", "filter": "content_filter"}
_RESPONSES_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}
_TIME = 1_790_000_000


def write_answer(
    wire: str, answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Json:
    """
    *answer* as a whole response to *request*; *number* is unique in the conversation.

    Raises:
        KeyError: An unknown wire.
    """
    return _WHOLE[wire](answer, request, number)


# Chat Completions


def _chat_reason(answer: ScriptedAnswer) -> str:
    reason = _CHAT_REASONS.get(answer.finish)
    return reason or ("tool_calls" if answer.calls else "stop")


def _chat_usage(number: int) -> Json:
    prompt = 20 + number
    return {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}


def _chat_head(answer: ScriptedAnswer, request: Mapping[str, Any], kind: str) -> Json:
    head = {"object": kind, "created": _TIME, "model": request.get("model", "strict")}
    return head if answer.id is None else {"id": answer.id, **head}


def _chat_calls(answer: ScriptedAnswer) -> list[Json]:
    return [
        {
            **({} if call.id is None else {"id": call.id}),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in answer.calls
    ]


def _whole_chat(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Json:
    message: Json = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.refusal:
        message["refusal"] = answer.refusal

    if answer.thinking:
        message["reasoning_content"] = answer.thinking

    if answer.calls:
        message["tool_calls"] = _chat_calls(answer)

    choice = {"index": 0, "message": message, "finish_reason": _chat_reason(answer)}
    head = _chat_head(answer, request, "chat.completion")
    return {**head, "choices": [choice], "usage": _chat_usage(number)}


# Responses


def _output_items(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> list[Json]:
    items: list[Json] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
        if "reasoning.encrypted_content" in (request.get("include") or ()):
            item["encrypted_content"] = f"gAAAA{number}"

        items.append(item)

    content: list[Json] = []
    if answer.text is not None:
        content.append(
            {
                "type": "output_text",
                "text": answer.text,
                "annotations": [],
                "logprobs": [],
            }
        )

    if answer.refusal:
        content.append({"type": "refusal", "refusal": answer.refusal})

    status = "completed" if answer.finish == "stop" else "incomplete"
    if content:
        items.append(
            {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": content,
            }
        )

    items += [
        {
            "id": f"fc_{number}_{at}",
            "type": "function_call",
            "name": call.name,
            # The clients of this wire can't do without it.
            "call_id": call.id or "",
            "arguments": call.arguments,
            "status": status if at == len(answer.calls) - 1 else "completed",
        }
        for at, call in enumerate(answer.calls)
    ]
    return items


def _whole_response(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Json:
    reason = _RESPONSES_REASONS.get(answer.finish)
    return {
        # The clients of this wire can't do without it.
        "id": answer.id or "",
        "object": "response",
        "created_at": _TIME,
        "error": None,
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "model": request.get("model", "strict"),
        "output": _output_items(answer, request, number),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 20 + number,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 25 + number,
        },
    }


_WHOLE = {"openai_chat": _whole_chat, "openai_responses": _whole_response}
