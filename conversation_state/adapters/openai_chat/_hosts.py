"""
What hosts that check the keys of a request take of a message, of which other hosts'
answers have more: thoughts, citations, nulls.
"""

from __future__ import annotations

import json
from typing import Any

from conversation_state.adapters.engine.export import PayloadWriter, is_empty_value
from conversation_state.adapters.openai_chat._blocks import REASONING_KEYS

_OF_RESULT = frozenset({"name", "tool_call_id"})
_OF_CALL = frozenset({"function", "id", "type"})
_OF_FUNCTION = frozenset({"arguments", "name"})


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
        writer.lose(path, "refusal", "the host has no refusals; it is sent as text")

    if isinstance(raw.get("content"), list):
        raw["content"] = [_as_text(block) for block in raw["content"]]

    allowed = keys | _OF_RESULT if raw["role"] == "tool" else keys
    _keep(writer, raw, allowed, path)
    for at, call in enumerate(raw.get("tool_calls") or ()):
        _fit_call(writer, call, f"{path}.tool_calls[{at}]")

    if raw.get("tool_calls") is None:
        raw.pop("tool_calls", None)


def _as_text(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "refusal":
        return {"type": "text", "text": block["refusal"]}

    return block


def _fit_call(writer: PayloadWriter, call: dict[str, Any], path: str) -> None:
    custom = call.pop("custom", None)
    if isinstance(custom, dict):
        # Functions only; their arguments are an object.
        arguments = json.dumps({"input": custom.get("input", "")}, ensure_ascii=False)
        call["function"] = {"name": custom.get("name", ""), "arguments": arguments}
        call["type"] = "function"
        writer.lose(path, "type", "the host calls functions only; it is sent as one")

    _keep(writer, call, _OF_CALL, path)
    function = call.get("function")
    if isinstance(function, dict):
        _keep(writer, function, _OF_FUNCTION, path)


def _keep(
    writer: PayloadWriter, raw: dict[str, Any], keys: frozenset[str], path: str
) -> None:
    for key in [key for key in raw if key not in keys]:
        if not is_empty_value(raw.pop(key)):
            what = "reasoning" if key in REASONING_KEYS else key
            writer.lose(path, what, f"the host refuses the key {key}")
