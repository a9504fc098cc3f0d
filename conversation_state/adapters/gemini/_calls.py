"""
Calls of functions and what they returned, as parts of a content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import list_of, map_of
from conversation_state.adapters._reading import is_list, is_map
from conversation_state.adapters.gemini._parts import (
    SKIP_SIGNATURE,
    SOURCE,
    WRAPPERS,
    CasedObject,
    cased_key,
    kind_of,
    object_of,
    read_part,
    text_of,
    write_media,
)
from conversation_state.messages import ToolMessage
from conversation_state.parts import MediaPart, Part, TextPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["read_call", "read_returned", "write_call", "write_result"]


def read_call(
    node: CasedObject, made_id: str, index: int | None, *, first: bool
) -> ToolCall:
    """
    The call at *node*, with *made_id* unless it has one; *first* says whether
    it is the first one in its content.
    """
    key = node.key("functionCall")
    inside = node.inside(key)
    call_id = inside.optional("id")
    if not call_id:
        call_id = node.notes["made_id"] = made_id

    name = inside.optional("name")
    if "name" not in inside.raw:
        node.notes["without"] = ["name"]

    arguments = ""
    args = inside.raw.get("args")
    if is_map(args):
        arguments = _read_object_text(inside, "args")
    elif args is not None:
        inside.wrong("args", "an object or null")
    elif "args" in inside.raw:
        inside.keys["args"] = None

    known = {key}
    if first:
        signature = node.key("thoughtSignature")
        if node.raw.get(signature) == SKIP_SIGNATURE:
            known.add(signature)
        elif signature not in node.raw:
            node.notes.setdefault("without", []).append("thoughtSignature")

    node.keep(frozenset(known))
    node.keep_within(key, inside, frozenset({"args", "id", "name"}))
    metadata = node.metadata(SOURCE)
    return ToolCall(call_id, name, arguments, index=index, metadata=metadata)


def _read_object_text(node: CasedObject, key: str) -> str:
    reading = node.reading
    problems = reading.count
    value = reading.json(node.raw[key], f"{node.path}.{key}")
    return text_of(value) if reading.count == problems else ""


def write_call(
    write: PayloadWriter, call: ToolCall, path: str, *, first: bool
) -> dict[str, Any]:
    notes = write.notes(call, path)
    without = list_of(notes, "without")
    body: dict[str, Any] = {}
    if call.id and call.id != notes.get("made_id"):
        body["id"] = call.id

    if call.name or "name" not in without:
        body["name"] = call.name

    if call.type != "function":
        write.lose(path, "type", "all calls are function calls in this format")

    if call.arguments:
        value, why = object_of(call.arguments)
        if why:
            write.lose(path, "arguments", why)

        if value is not None:
            body["args"] = value

    raw: dict[str, Any] = {cased_key(notes, "functionCall"): body}
    merge_kept_keys(map_of(notes, "keys"), raw)
    key = cased_key(notes, "thoughtSignature")
    if first and key not in raw and "thoughtSignature" not in without:
        raw[key] = SKIP_SIGNATURE

    return raw


def read_returned(inside: CasedObject, notes: dict[str, Any]) -> tuple[Any, bool]:
    """
    What a function returned, as the content of a message, and whether it is
    an error. How it was written goes into *notes*.
    """
    response = inside.raw.get("response")
    is_error = False
    content: list[Part] = []
    if is_map(response):
        text, is_error, how = _read_response(inside, response)
        notes.update(how)
        if text is not None:
            content.append(TextPart(text))
    elif response is not None:
        inside.wrong("response", "an object")
    elif "response" in inside.raw:
        inside.keys["response"] = None
    else:
        notes["no_response"] = True

    parts = inside.raw.get("parts")
    if is_list(parts):
        content += [_read_media(part) for part in inside.objects("parts")]
    elif parts is not None:
        inside.wrong("parts", "a list or null")

    if not parts and "parts" in inside.raw:
        inside.keys["parts"] = parts

    if len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text, is_error

    return content, is_error


def _read_response(
    inside: CasedObject, response: Mapping[str, Any]
) -> tuple[str | None, bool, dict[str, Any]]:
    """
    The text of a *response*, None if it is empty; whether it is an error; and
    how it was written.
    """
    if not response:
        return None, False, {}

    if len(response) == 1:
        (key,) = response
        if key in ("error", *WRAPPERS) and isinstance(response[key], str):
            path = f"{inside.path}.response"
            text = inside.reading.text(response, key, path)
            usual = key in {"error", WRAPPERS[0]}
            return text, key == "error", {} if usual else {"under": key}

    return _read_object_text(inside, "response"), _is_error(response), {"object": True}


def _is_error(response: Mapping[str, Any]) -> bool:
    return response.get("error") is not None and response.get("output") is None


def _read_media(node: CasedObject) -> Part:
    if kind_of(node.raw) != "text":
        return read_part(node, "tool")

    # The text of a result is in its response, not among its parts.
    return UnknownPart(node.reading.json(node.raw, node.path), source=SOURCE)


def write_result(
    write: PayloadWriter,
    message: ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    about: tuple[str, str],
) -> dict[str, Any]:
    """
    The part that *message* is; *about* has the id and the name that are to be
    said in it.
    """
    fields = zip(("id", "name"), about, strict=True)
    body: dict[str, Any] = {key: value for key, value in fields if value}

    text, parts = _write_content(write, message, path)
    if text is not None or notes.get("no_response") is not True:
        body["response"] = _write_response(text, notes, is_error=message.is_error)

    if text is None and message.is_error:
        write.lose(path, "is_error", "only a result with a text can be an error")

    if parts:
        body["parts"] = parts

    key = cased_key(notes, "functionResponse")
    return merge_kept_keys(map_of(notes, "keys"), {key: body})


def _write_content(
    write: PayloadWriter, message: ToolMessage, path: str
) -> tuple[str | None, list[dict[str, Any]]]:
    """
    The text of *message*, or None, and its media.
    """
    if isinstance(message.content, str):
        return message.content, []

    text: str | None = None
    parts: list[dict[str, Any]] = []
    for at, part in enumerate(message.content):
        here = f"{path}.parts[{at}]"
        notes = write.notes(part, here)
        raw: dict[str, Any] | None = None
        if isinstance(part, TextPart):
            if at:
                why = "all text of a result is joined, before its media"
                write.lose(here, "text", why)

            text = (text or "") + part.text
        elif isinstance(part, MediaPart):
            raw = write_media(write, part, here, notes)
        elif isinstance(part, UnknownPart):
            raw = write.unknown(part.raw, part.source, here, "type")

        if raw is not None:
            parts.append(merge_kept_keys(map_of(notes, "keys"), raw))

    return text, parts


def _write_response(
    text: str | None, notes: Mapping[str, Any], *, is_error: bool
) -> dict[str, Any]:
    if text is None:
        return {}

    if notes.get("object") is True:
        value, why = object_of(text)
        if value and not why and _is_error(value) is is_error:
            return value

    under: Any = notes.get("under")
    if is_error:
        under = "error"
    elif under not in WRAPPERS:
        under = WRAPPERS[0]

    return {under: text}
