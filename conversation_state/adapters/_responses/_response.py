"""
The metadata of a response.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from conversation_state.adapters._reading import ObjectReader, is_map, take_text
from conversation_state.adapters._responses._usage import read_usage
from conversation_state.usage import Usage

__all__ = ["ResponseInfo", "read_response"]

# Keys that repeat the request.
_ECHO = frozenset(
    {
        "background",
        "frequency_penalty",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
# The SDK adds all text as `output_text`.
_KNOWN = _ECHO | {"model", "output", "output_text", "usage"}


class ResponseInfo(NamedTuple):
    """
    The metadata of a response.
    """

    finish_reason: str
    usage: Usage | None
    model: str
    id: str
    notes: dict[str, Any]


def read_response(place: ObjectReader) -> ResponseInfo:
    """
    The metadata of the response *place*. Null counts as missing.
    """
    raw = place.raw
    usage, left = None, dict[str, Any]()
    if raw.get("usage") is not None:
        usage, left = read_usage(place.reading, raw["usage"], f"{place.path}.usage")

    model = "" if raw.get("model") is None else place.text("model")
    info = place.reading.rest(raw, _KNOWN, place.path)
    notes = {key: value for key, value in info.items() if value is not None}
    if notes.get("object") == "response":
        del notes["object"]

    status = "" if raw.get("status") is None else place.text("status")
    details = raw.get("incomplete_details")
    why = details.get("reason") if is_map(details) else None
    reason = status
    if status == "incomplete" and why and isinstance(why, str):
        reason = notes["incomplete_details"]["reason"]
    else:
        notes.pop("status", None)

    if left:
        notes["usage"] = left

    return ResponseInfo(reason, usage, model, take_text(notes, "id"), notes)
