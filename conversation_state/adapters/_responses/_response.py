"""
What a response tells beside its items.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from conversation_state.adapters._reading import Place, is_map
from conversation_state.adapters._responses._usage import read_usage
from conversation_state.usage import Usage

__all__ = ["Told", "failure_of", "read_response"]

# What says again what was asked for, which is no part of what was answered.
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


class Told(NamedTuple):
    """
    What is told about a response.
    """

    finish_reason: str
    usage: Usage | None
    model: str
    notes: dict[str, Any]


def read_response(place: Place) -> Told:
    """
    What the response *place* tells. Null is nothing told.
    """
    raw = place.raw
    usage, left = None, dict[str, Any]()
    if raw.get("usage") is not None:
        usage, left = read_usage(place.reading, raw["usage"], f"{place.path}.usage")

    model = "" if raw.get("model") is None else place.text("model")
    told = place.reading.rest(raw, _KNOWN, place.path)
    notes = {key: value for key, value in told.items() if value is not None}
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

    return Told(reason, usage, model, notes)


def failure_of(error: object) -> str:
    """
    Why the provider failed, in its own words; "" if it did not say.
    """
    said = error.get("message") if is_map(error) else error
    return said if isinstance(said, str) else ""
