"""
What hosts that check the keys of a request take of a message, of which other hosts'
answers have more: thoughts, citations, nulls, kinds of calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.export import PayloadWriter, is_empty_value
from conversation_state.adapters.openai_chat._blocks import REASONING_KEYS

_OF_RESULT = frozenset({"name", "tool_call_id"})
_OF_CALL = frozenset({"function", "id", "type"})
_OF_FUNCTION = frozenset({"arguments", "name"})
# The content of each kind of block, and the keys of that if it is an object.
_OF_BLOCKS: Mapping[str, frozenset[str]] = {
    "image_url": frozenset({"detail", "url"}),
    "input_audio": frozenset({"data", "format"}),
    "text": frozenset(),
    "thinking": frozenset(),
}
_AS_TEXT = "the host has no refusals; it is sent as text"


def is_checked(writer: PayloadWriter) -> bool:
    """Whether the host of the request refuses keys that it does not know."""
    return writer.rules is not None and writer.rules.message_keys is not None


def fit_to_host(writer: PayloadWriter, raw: dict[str, Any], path: str) -> None:
    """
    Leave out of *raw*, a message, what the host of the request refuses; what is more
    than null or empty is listed as lost.
    """
    keys = None if writer.rules is None else writer.rules.message_keys
    if keys is None:
        return

    refusal = raw.get("refusal")
    if isinstance(refusal, str) and refusal and "refusal" not in keys:
        said = raw.get("content")
        blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
        raw["content"] = [*(blocks or ()), {"type": "text", "text": raw.pop("refusal")}]
        writer.lose(path, "refusal", _AS_TEXT)

    if isinstance(raw.get("content"), list):
        fit = [_fit_block(writer, block, path) for block in raw["content"]]
        raw["content"] = [block for block in fit if block is not None] or ""

    allowed = keys | _OF_RESULT if raw["role"] == "tool" else keys
    _keep_known(writer, raw, allowed, path)
    calls = raw.get("tool_calls")
    if calls:
        raw["tool_calls"] = [_fit_call(writer, call, path) for call in calls]


def _fit_block(
    writer: PayloadWriter, block: dict[str, Any], path: str
) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        writer.lose(path, "refusal", _AS_TEXT)
        block = {**block, "type": "text", "text": block["refusal"], "refusal": None}
        kind = "text"

    if not isinstance(kind, str) or kind not in _OF_BLOCKS:
        what = kind if isinstance(kind, str) and kind else "unknown"
        writer.lose(path, what, "the host does not support content of this type")
        return None

    block = {**block}
    _keep_known(writer, block, frozenset({"type", kind}), path)
    if isinstance(block.get(kind), dict):
        block[kind] = {**block[kind]}
        _keep_known(writer, block[kind], _OF_BLOCKS[kind], path)

    return block


def _fit_call(writer: PayloadWriter, call: dict[str, Any], path: str) -> dict[str, Any]:
    if not isinstance(call.get("function"), dict):
        # Functions only: what the call has is the object of its arguments.
        kind = str(call.get("type"))
        body = call.get(kind)
        given = body if isinstance(body, dict) else {}
        rest = {key: given[key] for key in given if key != "name"}
        called = {
            "name": given.get("name", kind),
            "arguments": json.dumps(rest, ensure_ascii=False),
        }
        call = {"id": call.get("id"), "type": "function", "function": called}
        writer.lose(path, "type", f"the host calls functions only, and no {kind}")

    call = {**call, "function": {**call["function"]}, "type": "function"}
    _keep_known(writer, call, _OF_CALL, path)
    _keep_known(writer, call["function"], _OF_FUNCTION, path)
    return call


def _keep_known(
    writer: PayloadWriter, raw: dict[str, Any], keys: frozenset[str], path: str
) -> None:
    for key in [key for key in raw if key not in keys]:
        if not is_empty_value(raw.pop(key)):
            what = "reasoning" if key in REASONING_KEYS else key
            writer.lose(path, what, f"the host refuses the key {key}")
