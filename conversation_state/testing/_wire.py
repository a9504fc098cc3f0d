"""
What providers send and get, written by hand: requests, responses and streams of events
of the four wires, as plain JSON.

What lives here: the writers that `provider_payloads` and `event_streams` draw through.
They share no code with `adapters`, which are checked with what they write.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

Json: TypeAlias = dict[str, Any]
# Cuts a text into the pieces of a stream.
Cut: TypeAlias = Callable[[str], list[str]]

FORMATS = ("openai_chat", "openai_responses", "anthropic", "gemini")
_USAGE = Usage(1_021, 83)


def write_request(wire: str, messages: Iterable[Message]) -> Json:
    """
    The part of a request that carries *messages*; what the format can't say is left
    out.
    """
    return _REQUESTS[wire](list(messages))


def write_response(wire: str, message: AssistantMessage) -> Json:
    """The response that has *message*."""
    return _RESPONSES[wire](message)


def write_events(wire: str, message: AssistantMessage, cut: Cut) -> list[Json]:
    """The events of a stream that has *message*, its texts and arguments *cut*."""
    return list(_STREAMS[wire](message, cut))


def is_object(arguments: str) -> bool:
    """Whether the arguments of a call are a JSON object."""
    return _read_object(arguments) is not None


def _read_object(arguments: str) -> Json | None:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return None

    return value if isinstance(value, dict) else None


def _id_of(message: AssistantMessage) -> str:
    return message.response.id if message.response and message.response.id else "r_1"


def _reason_of(message: AssistantMessage) -> str:
    reason = message.response.finish_reason if message.response else ""
    return reason or ("tool_calls" if message.tool_calls else "stop")


def _usage_of(message: AssistantMessage) -> Usage:
    usage = message.response.usage if message.response else None
    return usage or _USAGE


def _base64(image: ImagePart) -> str:
    return base64.b64encode(image.data or b"").decode()


def _url(image: ImagePart) -> str:
    return (
        image.url or f"data:{image.media_type or 'image/png'};base64,{_base64(image)}"
    )


# Chat completions of OpenAI


def _request_chat(messages: list[Message]) -> Json:
    known = [each for each in messages if not isinstance(each, UnknownMessage)]
    return {"messages": [_chat_message(each) for each in known]}


def _chat_message(message: Message) -> Json:
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": message.text,
        }

    if isinstance(message, AssistantMessage):
        return _chat_answer(message)

    written: Json = {"role": message.role, "content": getattr(message, "text", "")}
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        parts = [_chat_part(each) for each in message.parts]
        written["content"] = [each for each in parts if each] or ""

    return written


def _chat_part(part: Any) -> Json | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}

    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": _url(part)}}

    return None


def _chat_answer(message: AssistantMessage) -> Json:
    refusals = [each.text for each in message.parts if isinstance(each, RefusalPart)]
    written: Json = {"role": "assistant", "content": message.text or None}
    if refusals:
        written["refusal"] = "".join(refusals)

    if message.tool_calls:
        written["tool_calls"] = [_chat_call(each) for each in message.tool_calls]

    return written


def _chat_call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


def _respond_chat(message: AssistantMessage) -> Json:
    choice = {
        "index": 0,
        "message": _chat_answer(message),
        "finish_reason": _reason_of(message),
    }
    return {
        "id": _id_of(message),
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": "gpt-5",
        "choices": [choice],
        "usage": _chat_usage(_usage_of(message)),
    }


def _stream_chat(message: AssistantMessage, cut: Cut) -> Iterator[Json]:
    def chunk(delta: Json, reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {
            "id": _id_of(message),
            "object": "chat.completion.chunk",
            "created": 1_750_000_000,
            "model": "gpt-5",
            "choices": [choice],
        }

    answer = _chat_answer(message)
    yield chunk({"role": "assistant", "content": ""})
    for key in ("content", "refusal"):
        for piece in cut(answer.get(key) or ""):
            yield chunk({key: piece})

    for index, call in enumerate(answer.get("tool_calls", ())):
        function = call["function"]
        pieces = cut(function["arguments"])
        first = {**call, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **first}]})
        for piece in pieces:
            part = {"index": index, "function": {"arguments": piece}}
            yield chunk({"tool_calls": [part]})

    yield chunk({}, _reason_of(message))
    yield {**chunk({}), "choices": [], "usage": _chat_usage(_usage_of(message))}


# Responses of OpenAI


def _request_responses(messages: list[Message]) -> Json:
    items: list[Json] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.tool_call_id,
                    "output": message.text,
                }
            )
        elif isinstance(message, AssistantMessage):
            items += _response_items(message)
        else:
            parts = [_response_part(each) for each in getattr(message, "parts", ())]
            content = [each for each in parts if each]
            if content:
                items.append({"role": message.role, "content": content})

    return {"input": items}


def _response_part(part: Any) -> Json | None:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}

    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": _url(part), "detail": "auto"}

    return None


def _response_items(message: AssistantMessage) -> list[Json]:
    items: list[Json] = []
    content: list[Json] = []
    name = _id_of(message)
    for number, part in enumerate(message.parts):
        if isinstance(part, ReasoningPart):
            summary = [{"type": "summary_text", "text": part.text}] * bool(part.text)
            item = {"type": "reasoning", "id": f"rs_{name}_{number}"}
            sealed = part.signature or None
            items.append({**item, "summary": summary, "encrypted_content": sealed})
        elif isinstance(part, TextPart) and part.text:
            content.append(
                {"type": "output_text", "text": part.text, "annotations": []}
            )
        elif isinstance(part, RefusalPart):
            content.append({"type": "refusal", "refusal": part.text})

    if content:
        items.append(
            {
                "type": "message",
                "id": f"msg_{name}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )

    for number, call in enumerate(message.tool_calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{name}_{number}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )

    return items


def _respond_responses(message: AssistantMessage) -> Json:
    usage, reason = _usage_of(message), _reason_of(message)
    is_cut = reason == "length"
    return {
        "id": _id_of(message),
        "object": "response",
        "created_at": 1_750_000_000,
        "model": "gpt-5",
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "output": _response_items(message),
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.total_tokens,
        },
    }


def _stream_responses(message: AssistantMessage, cut: Cut) -> Iterator[Json]:
    whole = _respond_responses(message)
    empty = {**whole, "status": "in_progress", "output": [], "usage": None}
    numbered = iter(range(1_000_000))

    def event(kind: str, **fields: Any) -> Json:
        return {"type": f"response.{kind}", "sequence_number": next(numbered), **fields}

    yield event("created", response=empty)
    yield event("in_progress", response=empty)
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        start = {**item, "status": "in_progress"}
        if item["type"] == "function_call":
            yield event(
                "output_item.added", output_index=at, item={**start, "arguments": ""}
            )
            for piece in cut(item["arguments"]):
                yield event("function_call_arguments.delta", **place, delta=piece)

            yield event(
                "function_call_arguments.done", **place, arguments=item["arguments"]
            )
        elif item["type"] == "message":
            yield event(
                "output_item.added", output_index=at, item={**start, "content": []}
            )
            for number, part in enumerate(item["content"]):
                yield from _stream_part(
                    event, {**place, "content_index": number}, part, cut
                )
        else:
            yield event(
                "output_item.added", output_index=at, item={**item, "summary": []}
            )
            for number, part in enumerate(item["summary"]):
                where = {**place, "summary_index": number}
                blank = {**part, "text": ""}
                yield event("reasoning_summary_part.added", **where, part=blank)
                for piece in cut(part["text"]):
                    yield event("reasoning_summary_text.delta", **where, delta=piece)

                yield event("reasoning_summary_text.done", **where, text=part["text"])
                yield event("reasoning_summary_part.done", **where, part=part)

        yield event("output_item.done", output_index=at, item=item)

    ended = "incomplete" if whole["status"] == "incomplete" else "completed"
    yield event(ended, response=whole)


def _stream_part(
    event: Callable[..., Json], place: Json, part: Json, cut: Cut
) -> Iterator[Json]:
    key = "text" if part["type"] == "output_text" else "refusal"
    kind = "output_text" if key == "text" else "refusal"
    yield event("content_part.added", **place, part={**part, key: ""})
    for piece in cut(part[key]):
        yield event(f"{kind}.delta", **place, delta=piece)

    yield event(f"{kind}.done", **place, **{key: part[key]})
    yield event("content_part.done", **place, part=part)


# Messages of Anthropic


def _request_anthropic(messages: list[Message]) -> Json:
    system = [each.text for each in messages if isinstance(each, SystemMessage)]
    written: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if not blocks:
            continue

        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})

    start = {"system": "\n\n".join(system)} if any(system) else {}
    return {**start, "messages": written}


def _blocks(message: Message) -> list[Json]:
    if isinstance(message, SystemMessage):
        return []

    blocks = [_block(each) for each in getattr(message, "parts", ())]
    content = [each for each in blocks if each]
    if isinstance(message, ToolMessage):
        result: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        result["content"] = content
        return [result | ({"is_error": True} if message.is_error else {})]

    return content + [_use(each) for each in message.tool_calls]


def _block(part: Any) -> Json | None:
    if isinstance(part, (TextPart, RefusalPart)):
        return {"type": "text", "text": part.text} if part.text else None

    if isinstance(part, ReasoningPart):
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}

    if isinstance(part, ImagePart):
        source = (
            {"type": "url", "url": part.url}
            if part.url
            else {
                "type": "base64",
                "media_type": part.media_type or "image/png",
                "data": _base64(part),
            }
        )
        return {"type": "image", "source": source}

    return None


def _use(call: ToolCall) -> Json:
    taken = _read_object(call.arguments)
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": {} if taken is None else taken,
    }


_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def _respond_anthropic(message: AssistantMessage) -> Json:
    usage = _usage_of(message)
    reason = _reason_of(message)
    return {
        "id": _id_of(message),
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": _blocks(message),
        "stop_reason": _STOPS.get(reason, reason),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
        },
    }


def _stream_anthropic(message: AssistantMessage, cut: Cut) -> Iterator[Json]:
    whole = _respond_anthropic(message)
    start = {**whole, "content": [], "stop_reason": None}
    start["usage"] = {**whole["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(whole["content"]):

        def delta(kind: str, key: str, piece: str, at: int = index) -> Json:
            piece_of = {"type": kind, key: piece}
            return {"type": "content_block_delta", "index": at, "delta": piece_of}

        empty = {
            "text": {**block, "text": ""},
            "thinking": {**block, "thinking": "", "signature": ""},
            "tool_use": {**block, "input": {}},
        }[block["type"]]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if block["type"] == "text":
            for piece in cut(block["text"]):
                yield delta("text_delta", "text", piece)
        elif block["type"] == "thinking":
            for piece in cut(block["thinking"]):
                yield delta("thinking_delta", "thinking", piece)

            yield delta("signature_delta", "signature", block["signature"])
        else:
            for piece in cut(json.dumps(block["input"])):
                yield delta("input_json_delta", "partial_json", piece)

        yield {"type": "content_block_stop", "index": index}

    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": whole["usage"]["output_tokens"]},
    }
    yield {"type": "message_stop"}


# Gemini


def _request_gemini(messages: list[Message]) -> Json:
    system = [each.text for each in messages if isinstance(each, SystemMessage)]
    contents: list[Json] = []
    names = {call.id: call.name for each in messages for call in each.tool_calls}
    for message in messages:
        if isinstance(message, SystemMessage):
            continue

        if isinstance(message, ToolMessage):
            key = "error" if message.is_error else "output"
            name = names.get(message.tool_call_id) or message.tool_name or "unknown"
            answer = {"name": name, "response": {key: message.text}}
            parts: list[Json] = [{"functionResponse": answer}]
        else:
            parts = _gemini_parts(message)

        role = "model" if isinstance(message, AssistantMessage) else "user"
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})

    start: Json = {}
    if any(system):
        start["systemInstruction"] = {"parts": [{"text": each} for each in system]}

    return {**start, "contents": contents}


def _gemini_parts(message: Message) -> list[Json]:
    parts: list[Json] = []
    signature = ""
    for part in getattr(message, "parts", ()):
        if isinstance(part, (TextPart, RefusalPart)) and part.text:
            parts.append({"text": part.text})
        elif isinstance(part, ReasoningPart):
            signature = signature or part.signature
            parts += [{"text": part.text, "thought": True}] * bool(part.text)
        elif isinstance(part, ImagePart):
            kind = part.media_type or "image/png"
            parts.append(
                {"fileData": {"mimeType": kind, "fileUri": part.url}}
                if part.url
                else {"inlineData": {"mimeType": kind, "data": _base64(part)}}
            )

    for number, call in enumerate(message.tool_calls):
        taken = _read_object(call.arguments)
        made: Json = {"functionCall": {"name": call.name, "args": taken or {}}}
        if signature and not number:
            made["thoughtSignature"] = signature

        parts.append(made)

    return parts


_ENDS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _gemini_chunk(
    message: AssistantMessage, parts: list[Json], *, is_last: bool
) -> Json:
    usage = _usage_of(message)
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if is_last:
        candidate["finishReason"] = _ENDS.get(_reason_of(message), "STOP")

    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt_tokens,
            "candidatesTokenCount": usage.completion_tokens,
            "totalTokenCount": usage.total_tokens,
        },
        "modelVersion": "gemini-2.5-pro",
        "responseId": _id_of(message),
    }


def _respond_gemini(message: AssistantMessage) -> Json:
    return _gemini_chunk(message, _gemini_parts(message), is_last=True)


def _stream_gemini(message: AssistantMessage, cut: Cut) -> Iterator[Json]:
    for part in _gemini_parts(message):
        if "text" in part:
            for piece in cut(part["text"]):
                yield _gemini_chunk(message, [{**part, "text": piece}], is_last=False)
        else:
            yield _gemini_chunk(message, [part], is_last=False)

    yield _gemini_chunk(message, [{"text": ""}], is_last=True)


_REQUESTS: dict[str, Callable[[list[Message]], Json]] = {
    "openai_chat": _request_chat,
    "openai_responses": _request_responses,
    "anthropic": _request_anthropic,
    "gemini": _request_gemini,
}
_RESPONSES: dict[str, Callable[[AssistantMessage], Json]] = {
    "openai_chat": _respond_chat,
    "openai_responses": _respond_responses,
    "anthropic": _respond_anthropic,
    "gemini": _respond_gemini,
}
_STREAMS: dict[str, Callable[[AssistantMessage, Cut], Iterator[Json]]] = {
    "openai_chat": _stream_chat,
    "openai_responses": _stream_responses,
    "anthropic": _stream_anthropic,
    "gemini": _stream_gemini,
}
# What a server says when it breaks off with an error.
ERRORS: dict[str, Json] = {
    "openai_chat": {
        "error": {"message": "The server had an error", "type": "server_error"}
    },
    "openai_responses": {
        "type": "error",
        "code": "server_error",
        "message": "The server had an error",
        "param": None,
    },
    "anthropic": {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    },
    "gemini": {
        "error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}
    },
}
