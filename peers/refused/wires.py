"""
A script's answers in the forms of the wires: whole (`write_answer`), and as the events
of a stream (`stream_answer`).

Written from the providers' references, not with the adapters. An id that the script
has not is left out, where the wire's clients can do without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from peers.refused.scripts import ScriptedAnswer

__all__ = ["stream_answer", "write_answer"]

Json = dict[str, Any]

_CHAT_REASONS = {"length": "length", "filter": "content_filter"}
_ANTHROPIC_REASONS = {"length": "max_tokens", "filter": "refusal"}
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


def stream_answer(
    wire: str, answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Iterator[tuple[str, Json | str]]:
    """
    *answer* as the events of a streamed response: the name of each, or "", and its
    data.

    Raises:
        KeyError: An unknown wire.
    """
    yield from _STREAMED[wire](answer, request, number)


def _halves(text: str) -> tuple[str, ...]:
    middle = len(text) // 2
    return tuple(half for half in (text[:middle], text[middle:]) if half)


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


def _streamed_chat(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Iterator[tuple[str, Json | str]]:
    head = _chat_head(answer, request, "chat.completion.chunk")

    def chunk(delta: Json, reason: str | None = None) -> tuple[str, Json | str]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return "", {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": None if answer.text is None else ""})
    for half in _halves(answer.thinking):
        yield chunk({"reasoning_content": half})

    for half in _halves(answer.text or ""):
        yield chunk({"content": half})

    for half in _halves(answer.refusal):
        yield chunk({"refusal": half})

    for at, call in enumerate(_chat_calls(answer)):
        function = call["function"]
        first = {**call, "index": at, "function": {**function, "arguments": ""}}
        yield chunk({"tool_calls": [first]})
        for half in _halves(function["arguments"]):
            more = {"index": at, "function": {"arguments": half}}
            yield chunk({"tool_calls": [more]})

    yield chunk({}, _chat_reason(answer))
    if (request.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "choices": [], "usage": _chat_usage(number)}

    yield "", "[DONE]"


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


def _streamed_response(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Iterator[tuple[str, Json | str]]:
    whole = _whole_response(answer, request, number)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(whole["output"]):
        events += _item_events(item, at)

    kind = "completed" if whole["incomplete_details"] is None else "incomplete"
    events.append({"type": f"response.{kind}", "response": whole})
    for at, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": at}


def _item_events(item: Json, at: int) -> Iterator[Json]:
    place = {"item_id": item["id"], "output_index": at}

    empty = {**item, "status": "in_progress"}
    if item["type"] == "reasoning":
        del empty["status"]
        empty["summary"] = []
        (summary,) = item["summary"]
        index = {"summary_index": 0}
        part = "response.reasoning_summary_part"
        blank = {**summary, "text": ""}
        yield _event("response.output_item.added", output_index=at, item=empty)
        yield _event(f"{part}.added", **place, **index, part=blank)
        yield from _text_events(
            "response.reasoning_summary_text", summary["text"], place | index, "text"
        )
        yield _event(f"{part}.done", **place, **index, part=summary)
    elif item["type"] == "message":
        empty["content"] = []
        yield _event("response.output_item.added", output_index=at, item=empty)
        for number, block in enumerate(item["content"]):
            key = "refusal" if block["type"] == "refusal" else "text"
            index = {"content_index": number}
            blank = {**block, key: ""}
            yield _event("response.content_part.added", **place, **index, part=blank)
            kind = "refusal" if key == "refusal" else "output_text"
            more: Json = {} if key == "refusal" else {"logprobs": []}
            yield from _text_events(
                f"response.{kind}", block[key], place | index | more, key
            )
            yield _event("response.content_part.done", **place, **index, part=block)
    else:
        empty["arguments"] = ""
        yield _event("response.output_item.added", output_index=at, item=empty)
        yield from _text_events(
            "response.function_call_arguments",
            item["arguments"],
            place,
            "arguments",
            name=item["name"],
        )

    yield _event("response.output_item.done", output_index=at, item=item)


def _event(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


def _text_events(
    kind: str, text: str, place: Json, key: str, **last: Any
) -> Iterator[Json]:
    for half in _halves(text):
        yield _event(f"{kind}.delta", **place, delta=half)

    yield _event(f"{kind}.done", **place, **{key: text}, **last)


# Anthropic's Messages


def _blocks(answer: ScriptedAnswer, number: int) -> list[Json]:
    blocks: list[Json] = []
    if answer.thinking:
        signature = f"signed-{number}"
        blocks.append(
            {"type": "thinking", "thinking": answer.thinking, "signature": signature}
        )

    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})

    if answer.refusal:
        blocks.append({"type": "text", "text": answer.refusal})

    blocks += [
        {
            "type": "tool_use",
            "id": call.id or "",
            "name": call.name,
            "input": _read_object(call.arguments),
        }
        for call in answer.calls
    ]
    return blocks


# This wire has no text of arguments but in streams: what is no object can't be said.
def _read_object(text: str) -> Json:

    try:
        value = json.loads(text)
    except ValueError:
        return {}

    return value if isinstance(value, dict) else {}


def _whole_message(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Json:
    reason = _ANTHROPIC_REASONS.get(answer.finish)
    return {
        "id": answer.id or "",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "strict"),
        "content": _blocks(answer, number),
        "stop_reason": reason or ("tool_use" if answer.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 20 + number, "output_tokens": 5},
    }


def _streamed_message(
    answer: ScriptedAnswer, request: Mapping[str, Any], number: int
) -> Iterator[tuple[str, Json | str]]:
    whole = _whole_message(answer, request, number)
    begun = {**whole, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for at, block in enumerate(whole["content"]):
        events += _block_events(block, at)

    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": 5}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    events.append({"type": "message_stop"})
    for event in events:
        yield event["type"], event


def _block_events(block: Json, at: int) -> Iterator[Json]:

    pieces: list[Json]
    if block["type"] == "thinking":
        empty: Json = {"type": "thinking", "thinking": "", "signature": ""}
        pieces = [
            {"type": "thinking_delta", "thinking": half}
            for half in _halves(block["thinking"])
        ]
        pieces.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "text":
        empty = {"type": "text", "text": ""}
        pieces = [
            {"type": "text_delta", "text": half} for half in _halves(block["text"])
        ]
    else:
        empty = {**block, "input": {}}
        pieces = [
            {"type": "input_json_delta", "partial_json": half}
            for half in _halves(json.dumps(block["input"]))
        ]

    yield {"type": "content_block_start", "index": at, "content_block": empty}
    for delta in pieces:
        yield {"type": "content_block_delta", "index": at, "delta": delta}

    yield {"type": "content_block_stop", "index": at}


_WHOLE = {
    "openai_chat": _whole_chat,
    "openai_responses": _whole_response,
    "anthropic": _whole_message,
}
_STREAMED = {
    "openai_chat": _streamed_chat,
    "openai_responses": _streamed_response,
    "anthropic": _streamed_message,
}
