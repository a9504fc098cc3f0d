"""What a request says, read from its JSON: texts, calls and results, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class RequestLine(NamedTuple):
    """One thing that a request says."""

    kind: str  # ``system``, ``user``, ``assistant``, ``call`` or ``result``
    text: str  # the text; of a result what the tool returned
    id: str = ""  # the id of the call; where a wire has none, the name of the function
    # Of a call its arguments, with sorted keys; "" if they are not an object.
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


def _list_objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; refused requests are read, too, and may have others."""
    listed = value if isinstance(value, list) else []
    return [each for each in listed if isinstance(each, Mapping)]


def _read_text(content: Any) -> str:
    if isinstance(content, str):
        return content

    if isinstance(content, Mapping):
        content = [content]

    texts = [each.get("text") for each in _list_objects(content)]
    return "".join([each for each in texts if isinstance(each, str)])


def _name_role(role: object) -> str:
    return "system" if role == "developer" else str(role)


def _read_call(call: Mapping[str, Any], id_: str, arguments: Any) -> RequestLine:
    return RequestLine("call", call.get("name", ""), id_, read_arguments(arguments))


def _read_chat(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    for message in _list_objects(body.get("messages")):
        role, text = message.get("role"), _read_text(message.get("content"))
        if role == "tool":
            yield RequestLine("result", text, message.get("tool_call_id", ""))
            continue

        if text:
            yield RequestLine(_name_role(role), text)

        for call in _list_objects(message.get("tool_calls")):
            for function in _list_objects([call.get("function")]):
                arguments = function.get("arguments")
                yield _read_call(function, call.get("id", ""), arguments)


def _read_responses(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    if body.get("instructions"):
        yield RequestLine("system", body["instructions"])

    items = body.get("input")
    if isinstance(items, str):
        yield RequestLine("user", items)

    for item in _list_objects(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            yield _read_call(item, item.get("call_id", ""), item.get("arguments"))
        elif kind == "function_call_output":
            output = _read_text(item.get("output"))
            yield RequestLine("result", output, item.get("call_id", ""))
        elif kind == "message":
            text = _read_text(item.get("content"))
            yield RequestLine(_name_role(item.get("role")), text)


def _read_anthropic(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    if body.get("system"):
        yield RequestLine("system", _read_text(body["system"]))

    for message in _list_objects(body.get("messages")):
        role, content = str(message.get("role")), message.get("content")
        if isinstance(content, str):
            yield RequestLine(role, content)

        for block in _list_objects(content):
            kind = block.get("type")
            if kind == "text":
                yield RequestLine(role, block.get("text", ""))
            elif kind == "tool_use":
                yield _read_call(block, block.get("id", ""), block.get("input"))
            elif kind == "tool_result":
                text = _read_text(block.get("content"))
                yield RequestLine("result", text, block.get("tool_use_id", ""))


def _read_gemini(body: Mapping[str, Any]) -> Iterator[RequestLine]:
    for key in ("systemInstruction", "system_instruction"):
        for system in _list_objects([body.get(key)]):
            yield RequestLine("system", _read_text(system.get("parts")))

    for content in _list_objects(body.get("contents")):
        kind = "assistant" if content.get("role") == "model" else "user"
        for part in _list_objects(content.get("parts")):
            for call in _list_objects([part.get("functionCall")]):
                id_ = call.get("id") or call.get("name", "")
                yield _read_call(call, id_, call.get("args", {}))

            for result in _list_objects([part.get("functionResponse")]):
                id_ = result.get("id") or result.get("name", "")
                yield RequestLine("result", str(result.get("response")), id_)

            if part.get("text"):
                yield RequestLine(kind, part["text"])


_READERS: dict[str, Callable[[Mapping[str, Any]], Iterable[RequestLine]]] = {
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
}
