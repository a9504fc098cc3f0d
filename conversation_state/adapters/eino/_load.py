"""From eino's messages to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.eino._parts import (
    LISTS,
    OLD,
    REASONING,
    SOURCE,
    read_parts,
)
from conversation_state.adapters.engine.openai import read_logprob_list
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
    read_extra,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    find_usage_block,
    read_billed,
    split_counts,
    usage_in,
)
from conversation_state.adapters.engine.wire import MESSAGE_CLASSES, MessageLoader
from conversation_state.messages import LogProb, Message, ResponseMeta
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
_CALL = frozenset({"extra", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_RESPONSE = frozenset({"finish_reason", "logprobs", "usage"})
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
# The breakdowns, and the count that each of them has.
DETAILS = {
    "prompt_token_details": "cached_tokens",
    "completion_token_details": "reasoning_tokens",
}
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
    return usage_in(payload, _find_meta_usage, _read_meta_counts, expected)


def _find_meta_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$.response_meta": payload.get("response_meta"), "$": payload}
    return find_usage_block(holders, _COUNTS)


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
        """A message of a *role* we know; None if its content does not fit that role."""
        problems = self.count
        node.keep(_KNOWN[role])
        extra = read_extra(node, "extra")
        content: str | list[Part] = node.nullable("content")
        parts = _read_listed_parts(node, role)
        # eino's models pass over the content if there is a list.
        if parts and content:
            node.keys["content"] = content

        content = parts or content
        fields: dict[str, Any] = {"name": node.nullable("name")}
        if role == "assistant":
            fields["tool_calls"] = self.read_calls(node, prefix, _read_tool_call)
            node.keys.pop("tool_calls", None)
            fields["response"] = _read_response_meta(node)
            content = _add_reasoning(node, content)
        elif role == "tool":
            name = fields["tool_name"] = node.nullable("tool_name")
            call_id = node.nullable("tool_call_id")
            fields["tool_call_id"] = self.resolve_call(node, call_id, name, prefix)

        # A `SystemMessage` holds texts only, and is written as one; eino checks neither
        # roles nor their parts.
        is_text = all(isinstance(part, TextPart) for part in parts)
        is_odd = role == "system" and (not is_text or "content" in node.keys)
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
        name, arguments = body.nullable("name"), body.nullable("arguments")
        node.keep_within("function", body, _FUNCTION)

    index: Any = node.raw.get("index")
    if index is not None and (index.__class__ is not int or not 0 <= index <= _MAX_INT):
        node.wrong("index", "an integer from 0 to 2**63 - 1, or null")
        index = None

    # Pieces of a streamed call come with an index, and the id with the first of them:
    # ids made up for the others would differ, and the pieces could not be joined.
    call_id = node.nullable("id")
    if not call_id and index is None:
        call_id = node.notes["made_id"] = made

    return ToolCall(
        call_id,
        name,
        arguments,
        index=index,
        # eino documents "function", and leaves it empty.
        type=node.nullable("type") or "function",
        metadata=node.metadata(SOURCE, extra),
    )


def _read_listed_parts(node: ObjectReader, role: str) -> list[Part]:
    parts = read_parts(node, LISTS[role], role)
    if not parts:
        return read_parts(node, OLD, role)

    if node.raw.get(OLD):
        node.keys[OLD] = node.reading.json(node.raw[OLD], f"{node.path}.{OLD}")

    return parts


def _add_reasoning(node: ObjectReader, content: str | list[Part]) -> str | list[Part]:
    """The content of an assistant, after its thoughts."""
    text = node.nullable(REASONING)
    if isinstance(content, str):
        parts: list[Part] = [TextPart(content)] if content else []
        return [ReasoningPart(text), *parts] if text else content

    # Some models fill in both; it was thought once.
    again = [part.text for part in content if isinstance(part, ReasoningPart)]
    return (
        [ReasoningPart(text), *content] if text not in {"", "".join(again)} else content
    )


def _read_response_meta(message: ObjectReader) -> ResponseMeta | None:
    node = message.inside("response_meta")
    if node is None:
        return None

    usage, given = None, node.raw.get("usage")
    if given is not None:
        path = f"{node.path}.usage"
        usage, left = read_billed(node.reading, given, path, _read_meta_counts)
        if left:
            node.keys["usage"] = left

    reason, logprobs = node.nullable("finish_reason"), _read_logprobs(node)
    message.keep_within("response_meta", node, _RESPONSE)
    return ResponseMeta(reason, usage, logprobs)


def _read_meta_counts(
    reader: DocumentReader, raw: Mapping[Any, Any], path: str
) -> Counted:
    counts, others, left = split_counts(reader, raw, _COUNTS, path)
    # Unknown counts stay where they are: as categories of `Usage.extra` they could not
    # go back, because eino's usage has no field for these.
    left |= others
    block = ObjectReader(reader, raw, path)
    details: list[dict[str, int]] = []
    for key, name in DETAILS.items():
        left.pop(key, None)
        inside = block.inside(key)
        within = {} if inside is None else inside.raw
        found, others, rest = split_counts(reader, within, (name,), f"{path}.{key}")
        details.append(found)
        if rest or others:
            left[key] = rest | others

    prompt, completion, total = map(counts.get, _COUNTS)
    return (prompt or 0, completion or 0, total), details, {}, left


def _read_logprobs(node: ObjectReader) -> tuple[LogProb, ...] | None:
    inside = node.inside("logprobs")
    if inside is None:
        return None

    content = inside.raw.get("content")
    if content is not None and not is_list(content):
        inside.wrong("content", "a list or null")

    listed = content if is_list(content) else ()
    return read_logprob_list(node.reading, listed, f"{inside.path}.content")
