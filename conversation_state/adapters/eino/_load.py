"""
From eino's messages to ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import (
    ObjectReader,
    is_list,
    is_map,
    note_mended,
    read_extra,
)
from conversation_state.adapters._usage import find_usage_block, usage_in
from conversation_state.adapters._wire import MESSAGE_CLASSES, MessageLoader
from conversation_state.adapters.eino._parts import (
    CALL,
    LISTS,
    OLD,
    REASONING,
    SOURCE,
    as_text,
    read_old_parts,
    read_parts,
)
from conversation_state.adapters.eino._response import (
    COUNTS,
    read_counts,
    read_response,
)
from conversation_state.messages import Message
from conversation_state.parts import Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

_SPOKEN = frozenset({"content", "extra", "name", "role", OLD})
_KNOWN = {
    "assistant": _SPOKEN
    | {LISTS["assistant"], REASONING, "response_meta", "tool_calls"},
    "system": _SPOKEN | {LISTS["system"]},
    "tool": _SPOKEN | {LISTS["tool"], "tool_call_id", "tool_name"},
    "user": _SPOKEN | {LISTS["user"]},
}
_CALL = frozenset(CALL)
_FUNCTION = frozenset({"arguments", "name"})
_MAX_INT = 2**63 - 1


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of messages, an object that has one as
    ``messages``, or one message. A call without an id gets one made of its place, and
    so does its result.

    Raises:
        DecodeError:
            If something is not what Go would read, or a number is not a count.
    """
    expected = "a message, a list of messages, or an object of one"
    return EinoLoader().load(payload, expected)


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a message, its ``response_meta`` or the usage in that, cost. Cached
    tokens are a part of the prompt's, and reasoning is one of the completion's.

    Raises:
        DecodeError:
            If a count is invalid.

    >>> load_usage({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11})
    Usage(9, 2)
    """
    expected = "a message, or its response_meta"
    return usage_in(payload, _find_usage, read_counts, expected)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$.response_meta": payload.get("response_meta"), "$": payload}
    return find_usage_block(holders, COUNTS)


class EinoLoader(MessageLoader):
    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        if "role" in payload:
            message = self.message(payload, "$", "message_0")
            return [] if message is None else [message]

        if is_list(payload.get("messages")):
            return self.history(payload["messages"], "$.messages")

        if "messages" in payload:
            self.wrong("$.messages", payload["messages"], "a list of messages")
        else:
            what = "has neither a role nor messages; expected a message or several"
            self.problem("$", what)

        return []

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        node = ObjectReader(self, raw, path)
        problems, mended_before = self.count, len(self.mended)
        role = node.text("role")
        if self.count > problems:
            return None

        message = None
        if role in MESSAGE_CLASSES:
            message = self._load_known(node, role, prefix, mended_before)

        if message is None and self.count == problems:
            message = node.as_unknown_message(SOURCE, mended_before)

        return message if self.count == problems else None

    def _load_known(
        self, node: ObjectReader, role: str, prefix: str, mended_before: int
    ) -> Message | None:
        """
        A message of a *role* we know; None if its content does not fit that role.
        """
        problems = self.count
        node.keep(_KNOWN[role])
        extra = read_extra(node, "extra")
        content: str | list[Part] = node.nullable("content")
        parts = _read_listed_parts(node, role)
        # eino's models pass over the content if there is a list.
        if parts and content:
            node.keys["content"] = content

        fields: dict[str, Any] = {"name": node.optional("name")}
        if role == "assistant":
            fields["tool_calls"] = self.read_calls(node, prefix, _read_tool_call)
            fields["response"] = read_response(node)
            content = _add_reasoning(node, content, parts)
        elif parts:
            content = parts

        if role == "tool":
            name = fields["tool_name"] = node.optional("tool_name")
            call_id = node.optional("tool_call_id")
            fields["tool_call_id"] = self.resolve_call(node, call_id, name, prefix)

        # A `SystemMessage` holds texts only; eino checks neither roles nor their parts.
        is_odd = role == "system" and not all(isinstance(p, TextPart) for p in parts)
        if is_odd or self.count > problems:
            return None

        note_mended(node, mended_before)
        metadata = node.metadata(SOURCE, extra)
        return MESSAGE_CLASSES[role](content, **fields, metadata=metadata)


def _read_tool_call(node: ObjectReader, made: str) -> ToolCall:
    node.keep(_CALL)
    extra = read_extra(node, "extra")
    name = arguments = ""
    body = node.inside("function")
    if body is not None:
        name, arguments = body.optional("name"), body.optional("arguments")
        node.keep_within("function", body, _FUNCTION)

    kind = node.nullable("type")
    if not kind:
        # eino documents "function", and leaves it empty.
        node.notes["without"] = ["type"]

    # Pieces of a streamed call come with an index, and the id with the first of them:
    # ids made up for the others would differ, and the pieces could not be joined.
    index = _read_index(node)
    call_id = node.nullable("id")
    if not call_id and index is None:
        call_id = node.notes["made_id"] = made

    return ToolCall(
        call_id,
        name,
        arguments,
        index=index,
        type=kind or "function",
        metadata=node.metadata(SOURCE, extra),
    )


def _read_index(node: ObjectReader) -> int | None:
    given = node.raw.get("index")
    if given is None:
        if "index" in node.raw:
            node.keys["index"] = None

        return None

    # Go takes negative ones, and a `ToolCall` does not.
    if given.__class__ is not int or not -_MAX_INT - 1 <= given <= _MAX_INT:
        node.wrong("index", "an integer of 64 bits, or null")
    elif given >= 0:
        return int(given)
    else:
        node.keys["index"] = given

    return None


def _read_listed_parts(node: ObjectReader, role: str) -> list[Part]:
    new = LISTS[role]
    for key in (new, OLD):
        given = node.raw.get(key)
        if given is not None and not is_list(given):
            node.wrong(key, "a list or null")
        elif key in node.raw and not given:
            node.keys[key] = given

    parts: list[Part] = []
    if is_list(node.raw.get(new)):
        parts = read_parts(node, new)
        # Without a note, texts that need no list would be written as the content.
        if parts and (role == "system" or as_text(parts)):
            node.notes["under"] = new

    if is_list(node.raw.get(OLD)) and node.raw[OLD]:
        if parts:
            old = node.raw[OLD]
            node.keys[OLD] = node.reading.json(old, f"{node.path}.{OLD}")
        else:
            parts = read_old_parts(node, OLD)
            node.notes["under"] = OLD

    return parts


def _add_reasoning(
    node: ObjectReader, content: str | list[Part], parts: list[Part]
) -> str | list[Part]:
    """
    The content of an assistant: its thoughts, and then the *parts*, or the
    *content* without parts.
    """
    text = node.optional(REASONING)
    if not text:
        return parts or content

    if not parts:
        parts = [TextPart(content)] if isinstance(content, str) and content else []
        return [ReasoningPart(text), *parts]

    again = [part.text for part in parts if isinstance(part, ReasoningPart)]
    if text == "".join(again):
        # Some models fill in both; it was thought once.
        node.keys[REASONING] = text
        return parts

    metadata = with_notes(SOURCE, {"under": REASONING})
    return [ReasoningPart(text, metadata=metadata), *parts]
