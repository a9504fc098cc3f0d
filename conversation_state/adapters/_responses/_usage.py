"""
Usage in Responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._reading import DocumentReader, is_map
from conversation_state.adapters._usage import (
    Counted,
    read_counts,
    read_usage_block,
    usage_in,
)
from conversation_state.usage import Usage

__all__ = ["load_usage", "read_usage"]

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {
    "input_tokens_details": ("prompt", ("audio_tokens", "cached_tokens")),
    "output_tokens_details": (
        "completion",
        (
            "accepted_prediction_tokens",
            "audio_tokens",
            "reasoning_tokens",
            "rejected_prediction_tokens",
        ),
    ),
}


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    None if it has no usage. Integers that have no field are in `Usage.extra`,
    those of a breakdown with ``prompt_`` or ``completion_`` before their name,
    but for ``cache_write_tokens``; what is no count of tokens is left out.

    Raises:
        DecodeError:
            If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        ``input_tokens`` include what was read from the cache and what was
        written to it, ``output_tokens`` include the reasoning: in all recorded
        responses the total is input and output together, whatever the details
        are. What tools cost (``tool_usage``) is beside the usage, and not
        added to it.

    >>> load_usage({"input_tokens": 9, "output_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, _find_usage, read_usage)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    """
    The usage block in *payload*, None if there is none; and its path.
    """
    response = payload.get("response")
    if is_map(response) and response.get("usage") is not None:
        return response["usage"], "$.response.usage"

    if payload.get("usage") is not None:
        return payload["usage"], "$.usage"

    return (payload if any(name in payload for name in _COUNTS) else None), "$"


def read_usage(
    read: DocumentReader, block: Any, path: str
) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage in *block*, None if there was a problem; and what else it has.
    """
    return read_usage_block(read, block, path, _read_counts)


def _read_counts(read: DocumentReader, block: Mapping[Any, Any], path: str) -> Counted:
    counts, details, extra, left = read_counts(read, block, _COUNTS, _DETAILS, path)
    prompt, completion = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    return (prompt, completion, counts.get("total_tokens")), details, extra, left
