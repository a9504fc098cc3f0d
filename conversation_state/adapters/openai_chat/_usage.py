"""
Usage in Chat Completions and its dialects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._reading import DocumentReader, is_list, is_map
from conversation_state.adapters._usage import (
    Counted,
    read_counts,
    read_usage_block,
    usage_in,
)
from conversation_state.usage import Usage

__all__ = ["find_usage", "load_usage", "read_usage"]

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = {
    "prompt_tokens_details": ("prompt", ("audio_tokens", "cached_tokens")),
    "completion_tokens_details": (
        "completion",
        (
            "accepted_prediction_tokens",
            "audio_tokens",
            "reasoning_tokens",
            "rejected_prediction_tokens",
        ),
    ),
}

# What others call `cached_tokens`: DeepSeek, and Moonshot.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens")


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    None if it has no usage. Counts include what they are made of: cached
    tokens are a part of the prompt's, reasoning of the completion's. Integers
    that have no field are in `Usage.extra`, those of a breakdown with
    ``prompt_`` or ``completion_`` before their name where it is ambiguous;
    what is not a count of tokens, such as Groq's seconds, is left out.

    Raises:
        DecodeError:
            If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        DeepSeek and Moonshot have names of their own for cached tokens. xAI
        counts reasoning beside the completion, which shows in its total.
        Groq once had usage under ``x_groq`` only, and Moonshot's streams have
        it in the choice.

    >>> load_usage({"prompt_tokens": 9, "completion_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, find_usage, read_usage)


def find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    """
    The usage block in *payload*, None if there is none; and its path.
    """
    if payload.get("usage") is not None:
        return payload["usage"], "$.usage"

    groq = payload.get("x_groq")
    if is_map(groq) and groq.get("usage") is not None:
        return groq["usage"], "$.x_groq.usage"

    choices = payload.get("choices")
    first = choices[0] if is_list(choices) and choices else None
    if is_map(first) and first.get("usage") is not None:
        return first["usage"], "$.choices[0].usage"

    if any(name in payload for name in _COUNTS):
        return payload, "$"

    return None, "$"


def read_usage(
    read: DocumentReader, block: Any, path: str
) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage in *block*, None if there was a problem; and what else it has.
    """
    return read_usage_block(read, block, path, _read_counts)


def _read_counts(read: DocumentReader, block: Mapping[Any, Any], path: str) -> Counted:
    counts, details, extra, left = read_counts(read, block, _COUNTS, _DETAILS, path)
    within, written = details
    for name in _CACHED:
        count = extra.get(name)
        if count is not None and within.get("cached_tokens", 0) in {0, count}:
            within["cached_tokens"] = extra.pop(name)

    prompt = counts.get("prompt_tokens", 0)
    completion = counts.get("completion_tokens", 0)
    total = counts.get("total_tokens")
    reasoning = written.get("reasoning_tokens", 0)
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning

    return (prompt, completion, total), details, extra, left
