"""
Requests of the four wires, written by hand, as plain JSON.

`provider_payloads` draws through these. They share no code with `adapters`, which are
checked with what they write.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
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

Json: TypeAlias = dict[str, Any]

FORMATS = ("openai_chat", "openai_responses", "anthropic", "gemini")


def write_request(wire: str, messages: Iterable[Message]) -> Json:
    """The part of a request that carries *messages*, but for what it can't say."""
    return _REQUESTS[wire](list(messages))


def is_object(arguments: str) -> bool:
    """Whether the arguments of a call are a JSON object."""
    return _read_object(arguments) is not None


def _read_object(arguments: str) -> Json | None:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None

    return value if isinstance(value, dict) else None


def _id_of(message: AssistantMessage) -> str:
    return message.response.id if message.response and message.response.id else "r_1"


def _base64(image: ImagePart) -> str:
    return base64.b64encode(image.data or b"").decode()


def _write_url(image: ImagePart) -> str:
    return (
        image.url or f"data:{image.media_type or 'image/png'};base64,{_base64(image)}"
    )


# Chat completions of OpenAI


def _chat_message(message: Message) -> Json:
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": message.text,
        }

    if isinstance(message, AssistantMessage):
        return _chat_answer(message)

    written: Json = {"role": message.role, "content": message.text}
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        parts = [_chat_part(each) for each in message.parts]
        written["content"] = [each for each in parts if each] or ""

    return written


def _chat_part(part: Any) -> Json | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}

    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": _write_url(part)}}

    return None


def _chat_answer(message: AssistantMessage) -> Json:
    written: Json = {"role": "assistant", "content": message.text}
    # As a part: beside a refusal under a key of its own, an answer needs a text.
    if any(isinstance(each, RefusalPart) for each in message.parts):
        written["content"] = [
            {"type": "refusal", "refusal": each.text}
            if isinstance(each, RefusalPart)
            else _chat_part(each)
            for each in message.parts
            if isinstance(each, RefusalPart)
            or (isinstance(each, TextPart) and each.text)
        ]

    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]

    # An answer of nothing else has to have a text, if an empty one.
    if not written["content"] and message.tool_calls:
        written["content"] = None

    return written


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
            parts = [_response_part(each) for each in message.parts]
            content = [each for each in parts if each]
            if content:
                items.append({"role": message.role, "content": content})

    return {"input": items}


def _response_part(part: Any) -> Json | None:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}

    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": _write_url(part), "detail": "auto"}

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


# Messages of Anthropic


def _request_anthropic(messages: list[Message]) -> Json:
    system = [each.text for each in messages if isinstance(each, SystemMessage)]
    written: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _write_blocks(message)
        if not blocks:
            continue

        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})

    start = {"system": "\n\n".join(system)} if any(system) else {}
    return {**start, "messages": written}


def _write_blocks(message: Message) -> list[Json]:
    if isinstance(message, SystemMessage):
        return []

    blocks = [_write_block(each) for each in message.parts]
    content = [each for each in blocks if each]
    if isinstance(message, ToolMessage):
        result: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        result["content"] = content
        return [result | ({"is_error": True} if message.is_error else {})]

    return content + [_write_call(each) for each in message.tool_calls]


def _write_block(part: Any) -> Json | None:
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


def _write_call(call: ToolCall) -> Json:
    taken = _read_object(call.arguments)
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": {} if taken is None else taken,
    }


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
    for part in message.parts:
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


_REQUESTS: dict[str, Callable[[list[Message]], Json]] = {
    "openai_chat": lambda messages: {
        "messages": [
            _chat_message(each)
            for each in messages
            if not isinstance(each, UnknownMessage)
        ]
    },
    "openai_responses": _request_responses,
    "anthropic": _request_anthropic,
    "gemini": _request_gemini,
}
