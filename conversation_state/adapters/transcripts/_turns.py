"""From one turn to a message, or to calls, which stand in its text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_list,
    is_map,
    mended,
    note_mended,
)
from conversation_state.adapters.engine.wire import (
    MESSAGE_CLASSES,
    MessageLoader,
    parse_arguments,
)
from conversation_state.messages import Message
from conversation_state.parts import (
    ImagePart,
    Part,
    ReasoningPart,
    TextPart,
)
from conversation_state.tools import ToolCall

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "transcripts"

# Where a turn has its role.
WHO = ("from", "role")
_WHAT = ("value", "content", "text")
_THOUGHTS = ("reasoning_content", "thinking")

_CALLS = "calls"
_ROLES: Mapping[str, str] = {
    "assistant": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "developer": "system",
    "function": "tool",
    "function_call": _CALLS,
    "function_response": "tool",
    "gpt": "assistant",
    "human": "user",
    "model": "assistant",
    "observation": "tool",
    "system": "system",
    "tool": "tool",
    "tool_call": _CALLS,
    "tool_response": "tool",
    "user": "user",
}
_TEXT = frozenset({"text", "type"})
_IMAGE = frozenset({"image_url", "type"})
_IMAGE_URL = frozenset({"detail", "url"})
_FUNCTION = frozenset({"arguments", "name"})


class TranscriptTurn:
    def __init__(self, loader: MessageLoader, raw: Any, path: str, at: int) -> None:
        self.loader = loader
        self.problems, self.mended_before = loader.count, len(loader.mended)
        self.prefix = f"message_{at}"
        self.node = ObjectReader(loader, raw if is_map(raw) else {}, path)
        self.role = ""
        if is_map(raw):
            self.who = next((key for key in WHO if raw.get(key) is not None), "role")
            self.what = next((key for key in _WHAT if raw.get(key) is not None), "")
            given = raw.get(self.who)
            if isinstance(given, str):
                self.role = _ROLES.get(given.strip().lower(), "")

            if not self.role:
                self.node.wrong(self.who, f"one of {', '.join(_ROLES)}")
        else:
            loader.wrong(path, raw, "an object")

    def calls(self) -> list[ToolCall] | None:
        if self.role != _CALLS or not self.what:
            return None

        given = self.node.raw[self.what]
        text = mended(given) if isinstance(given, str) else _as_json(self._read_json())
        found = _parse_calls(text)
        if found is None:
            return None

        self._keep_rest(self.who, self.what)
        path = f"{self.node.path}.{self.what}"
        if text != given and isinstance(given, str):
            self.loader.mended.append(path)

        calls = [
            _read_call(
                ObjectReader(self.loader, call, path), f"{self.prefix}_call_{at}"
            )
            for at, call in enumerate(found)
        ]
        note_mended(self.node, self.mended_before)
        return calls if self._is_valid() else None

    def message(self) -> Message | None:
        """The message; None if there was a problem."""
        if not self._is_valid():
            return None

        found = None if self.role == _CALLS else self._load_known()
        if found is None and self._is_valid():
            return self.node.as_unknown_message(SOURCE, self.mended_before)

        return found if self._is_valid() else None

    def _is_valid(self) -> bool:
        return self.loader.count == self.problems

    def _read_json(self) -> Any:
        path = f"{self.node.path}.{self.what}"
        return self.loader.json(self.node.raw[self.what], path)

    def _keep_rest(self, *known: str) -> None:
        left = self.loader.rest(self.node.raw, frozenset(known), self.node.path)
        self.node.keys.update({k: v for k, v in left.items() if v is not None})

    def _load_known(self) -> Message | None:
        node, role = self.node, self.role
        content = self._read_turn_content()
        known = [self.who, self.what, "name"]
        name = self._get_text("name")
        fields: dict[str, Any] = {"tool_name" if role == "tool" else "name": name}
        if role == "tool":
            known.append("tool_call_id")
            given = self._get_text("tool_call_id")
            call_id = self.loader.resolve_call(node, given, name, self.prefix)
            fields["tool_call_id"] = call_id
        elif role == "assistant":
            known += ["tool_calls", *_THOUGHTS]
            calls = self.loader.read_calls(node, self.prefix, _read_call)
            # A turn without calls has none to write back, be it null or [].
            node.keys.pop("tool_calls", None)
            fields["tool_calls"] = calls
            content = self._add_reasoning(content)

        self._keep_rest(*known)
        is_odd = role == "system" and not (
            isinstance(content, str) or all(isinstance(p, TextPart) for p in content)
        )
        if is_odd or not self._is_valid():
            return None

        note_mended(node, self.mended_before)
        return MESSAGE_CLASSES[role](content, **fields, metadata=node.metadata(SOURCE))

    def _get_text(self, key: str) -> str:
        return "" if self.node.raw.get(key) is None else self.node.text(key)

    def _add_reasoning(self, content: str | list[Part]) -> str | list[Part]:
        thoughts: list[Part] = [
            ReasoningPart(text) for key in _THOUGHTS if (text := self._get_text(key))
        ]
        if not thoughts:
            return content

        if isinstance(content, str):
            content = [TextPart(content)] if content else []

        return [*thoughts, *content]

    def _read_turn_content(self) -> str | list[Part]:
        """
        The content. The result of a tool is a text for the model in any case, of
        whatever kind of JSON.
        """
        raw = self.node.raw
        if not self.what:
            # Null is not content, as OpenAI has it next to calls. Without any such key,
            # the content may be under one that is not known here, and would be lost.
            silent = any(key in raw for key in _WHAT) or raw.get("tool_calls")
            if not silent:
                what = f"has none of {', '.join(_WHAT)}; expected content"
                self.loader.problem(self.node.path, what)

            return ""

        given = raw[self.what]
        if isinstance(given, str):
            return self.node.text(self.what)

        if is_list(given) and all(_is_block(block) for block in given):
            path = f"{self.node.path}.{self.what}"
            return [
                self._read_turn_block(one, f"{path}[{at}]")
                for at, one in enumerate(given)
            ]

        if self.role == "tool":
            return _as_json(self._read_json())

        self.node.wrong(self.what, "a text, or a list of blocks")
        return ""

    def _read_turn_block(self, raw: Any, path: str) -> Part:
        loader = self.loader
        if isinstance(raw, str):
            text = mended(raw)
            if text is not raw:
                loader.mended.append(path)

            return TextPart(text)

        # A block with more keys than a part can hold stays unknown, and loses none.
        if raw.keys() == _TEXT and raw["type"] == "text":
            return TextPart(loader.text(raw, "text", path))

        if raw.keys() == _IMAGE and _is_shown(raw["image_url"]):
            node = ObjectReader(loader, raw["image_url"], f"{path}.image_url")
            return ImagePart(url=node.text("url"), detail=node.optional("detail"))

        return ObjectReader(loader, raw, path).as_unknown(SOURCE)


def _read_call(node: ObjectReader, made: str) -> ToolCall:
    inside = node
    if is_map(node.raw.get("function")):
        inside = node.child("function")
        node.keep(frozenset({"function", "id", "type"}))
        node.keep_within("function", inside, _FUNCTION)
    else:
        node.keep(_FUNCTION | {"id", "type"})

    name, given, arguments = inside.text("name"), inside.raw.get("arguments"), ""
    if isinstance(given, str):
        arguments = inside.text("arguments")
    elif given is not None:
        path = f"{inside.path}.arguments"
        arguments = _as_json(node.reading.json(given, path))

    call_id = node.nullable("id")
    if not call_id:
        call_id = node.notes["made_id"] = made

    return ToolCall(
        call_id,
        name,
        arguments,
        type=node.nullable("type") or "function",
        metadata=node.metadata(SOURCE),
    )


def _is_shown(body: Any) -> bool:
    return (
        is_map(body)
        and body.keys() <= _IMAGE_URL
        and bool(body.get("url"))
        and all(isinstance(text, str) for text in body.values())
    )


def _is_block(value: Any) -> bool:
    return isinstance(value, str) or (
        is_map(value) and isinstance(value.get("type"), str)
    )


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')
_scan = json.JSONDecoder().raw_decode


def _parse_calls(text: str) -> list[dict[str, Any]] | None:
    """
    The calls that *text*, in JSON, makes: one, or a list of them; None if it is
    no such thing.

    >>> _parse_calls('{"name": "f", "parameters": {"x":  1.0}}')
    [{'name': 'f', 'arguments': '{"x":  1.0}'}]
    """
    try:
        value = parse_arguments(text)
    except ValueError:
        return None

    calls: list[dict[str, Any]] = []
    end = 0
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            return None

        call = {key: given for key, given in each.items() if given is not None}
        arguments = call.pop("parameters", None)
        arguments = call.get("arguments", arguments)
        if arguments is not None and not isinstance(arguments, str):
            arguments, end = _find_arguments(text, end, arguments)

        if call.get("id").__class__ is int:
            call["id"] = str(call["id"])

        calls.append(call if arguments is None else {**call, "arguments": arguments})

    return calls or None


def _find_arguments(text: str, start: int, value: Any) -> tuple[str, int]:
    """
    The JSON text of *value*, the next arguments in *text* from *start* on, as the model
    wrote it; and where it ends.
    """
    found = _ARGUMENTS.search(text, start)
    if found is not None:
        given, end = _scan(text, found.end())
        if given == value:
            return text[found.end() : end], end

    # Other keys of this name come before it.
    return _as_json(value), start
