"""What a request says, read from its JSON: texts, calls and results, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class RequestLine(NamedTuple):
    """
    One thing that a request says.

    Attributes:
        kind: ``system``, ``user``, ``assistant``, ``call`` or ``result``.

        text: The text; of a result what the tool returned.

        id: The id of the call; where a wire has none, the name of the function.

        arguments: Of a call its arguments, with sorted keys; "" if they are not an
            object.
    """

    kind: str
    text: str
    id: str = ""
    arguments: str = ""


def read_request(wire: str, body: Mapping[str, Any]) -> list[RequestLine]:
    """What the *body* of a request says."""
    return list(_READERS[wire](body))


def read_arguments(arguments: Any) -> str:
    """*arguments* of a call in one normal form; "" if they are invalid."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return ""

    return json.dumps(arguments, sort_keys=True) if isinstance(arguments, dict) else ""


def _read_text(content: Any) -> str:
    if isinstance(content, str):
        return content

    if isinstance(content, Mapping):
        content = [content]

    parts = content if isinstance(content, list) else []
    texts = [each.get("text", "") for each in parts if isinstance(each, Mapping)]
    return "".join([each for each in texts if isinstance(each, str)])


def _read_chat(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    for message in body.get("messages") or ():
        role, text = message.get("role"), _read_text(message.get("content"))
        if role == "tool":
            yield RequestLine("result", text, message.get("tool_call_id", ""))
            continue

        kind = "system" if role in {"system", "developer"} else str(role)
        if text:
            yield RequestLine(kind, text)

        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            yield RequestLine(
                "call",
                function.get("name", ""),
                call.get("id", ""),
                read_arguments(function.get("arguments")),
            )


def _read_responses(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    if body.get("instructions"):
        yield RequestLine("system", body["instructions"])

    items = body.get("input") or ()
    if isinstance(items, str):
        yield RequestLine("user", items)
        return

    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield RequestLine(
                "call",
                item.get("name", ""),
                item.get("call_id", ""),
                read_arguments(item.get("arguments")),
            )
        elif kind == "function_call_output":
            output = _read_text(item.get("output"))
            yield RequestLine("result", output, item.get("call_id", ""))
        elif kind == "message":
            role = item.get("role")
            named = "system" if role in {"system", "developer"} else str(role)
            yield RequestLine(named, _read_text(item.get("content")))


def _read_anthropic(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    if body.get("system"):
        yield RequestLine("system", _read_text(body["system"]))

    for message in body.get("messages") or ():
        role, content = message.get("role", ""), message.get("content")
        if isinstance(content, str):
            yield RequestLine(role, content)
            continue

        for block in content or ():
            if block.get("type") == "text":
                yield RequestLine(role, block.get("text", ""))
            elif block.get("type") == "tool_use":
                yield RequestLine(
                    "call",
                    block.get("name", ""),
                    block.get("id", ""),
                    read_arguments(block.get("input")),
                )
            elif block.get("type") == "tool_result":
                text = _read_text(block.get("content"))
                yield RequestLine("result", text, block.get("tool_use_id", ""))


def _read_gemini(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    system = body.get("systemInstruction") or body.get("system_instruction")
    if system:
        yield RequestLine("system", _read_text(system.get("parts")))

    for content in body.get("contents") or ():
        kind = "assistant" if content.get("role") == "model" else "user"
        for part in content.get("parts") or ():
            call, result = part.get("functionCall"), part.get("functionResponse")
            if call:
                name = call.get("name", "")
                arguments = read_arguments(call.get("args") or {})
                yield RequestLine("call", name, call.get("id") or name, arguments)
            elif result:
                name = result.get("id") or result.get("name", "")
                yield RequestLine("result", str(result.get("response")), name)
            elif part.get("text"):
                yield RequestLine(kind, part["text"])


_READERS: dict[str, Callable[[Mapping[str, Any]], Iterable[RequestLine]]] = {
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
}
