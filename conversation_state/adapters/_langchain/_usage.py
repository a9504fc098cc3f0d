"""
Usage: LangChain's ``usage_metadata``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.adapters._export import PayloadWriter
from conversation_state.adapters._usage import is_count
from conversation_state.errors import InvalidUsageError
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

__all__ = ["find_zeros", "lose_usage", "read_usage", "write_usage"]

_WRITTEN = "cache_write_tokens"
_NOTHING: Mapping[str, Any] = {}

# Tokens written to Anthropic's cache, by their lifetime there. If LangChain has these
# counts, its sum is 0.
_LIFETIMES = {
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
}
# LangChain puts the service tier in front of the names of OpenAI's details, because
# tiers have different prices.
_TIERS = ("", "flex_", "priority_")


def read_usage(raw: Any) -> Usage | None:
    """
    The usage in *raw*; None if it is not a count of tokens.

    Source:
        ``_create_usage_metadata`` of LangChain's packages for Anthropic and OpenAI.
    """
    if not isinstance(raw, Mapping):
        return None

    within = raw.get("input_token_details") or _NOTHING
    made = raw.get("output_token_details") or _NOTHING
    try:
        return Usage(
            raw["input_tokens"],
            raw["output_tokens"],
            raw["total_tokens"],
            PromptTokensDetails(
                audio_tokens=within.get("audio") or 0,
                cached_tokens=_find_of_any_tier(within, "cache_read"),
            ),
            CompletionTokensDetails(
                accepted_prediction_tokens=made.get("accepted_prediction") or 0,
                audio_tokens=made.get("audio") or 0,
                reasoning_tokens=_find_of_any_tier(made, "reasoning"),
                rejected_prediction_tokens=made.get("rejected_prediction") or 0,
            ),
            _read_cache_writes(within),
        )
    except (AttributeError, InvalidUsageError, KeyError):
        # The counts of a streamed message may be invalid. The caller keeps them
        # unchanged in a note.
        return None


def _find_of_any_tier(details: Mapping[str, Any], name: str) -> Any:
    counts = [details.get(f"{tier}{name}") for tier in _TIERS]
    return next(filter(None, counts), 0)


def _read_cache_writes(within: Mapping[str, Any]) -> dict[str, Any]:
    """
    The tokens written to the cache, as counts of `Usage.extra`; with those of each
    lifetime if they add up to the total.
    """
    written = within.get("cache_creation") or 0
    parts = {
        ours: within[theirs]
        for theirs, ours in _LIFETIMES.items()
        if is_count(within.get(theirs))
    }
    total = sum(parts.values())
    # `written` is compared with a list and not a set, because an invalid count may not
    # be hashable.
    return {_WRITTEN: total, **parts} if written in [0, total] else {_WRITTEN: written}


def find_zeros(raw: Mapping[str, Any]) -> list[str]:
    """
    The paths of zeros in *raw*: empty breakdowns, and zero counts in them.
    """
    found = []
    for key in ("input_token_details", "output_token_details"):
        counts = raw.get(key)
        if isinstance(counts, dict):
            found += [f"{key}.{name}" for name, count in counts.items() if count == 0]
            if not counts:
                found.append(key)

    return found


def write_usage(usage: Usage, zeros: Sequence[str] = ()) -> dict[str, Any]:
    """
    *usage* as LangChain's. Zeros are left out, except for those of *zeros*.
    """
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    within = {
        "audio": prompt.audio_tokens,
        "cache_creation": usage.extra.get(_WRITTEN, 0),
        "cache_read": prompt.cached_tokens,
    }
    made = {
        "accepted_prediction": completion.accepted_prediction_tokens,
        "audio": completion.audio_tokens,
        "reasoning": completion.reasoning_tokens,
        "rejected_prediction": completion.rejected_prediction_tokens,
    }
    raw: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    for key, counts in (
        ("input_token_details", within),
        ("output_token_details", made),
    ):
        used = {name: count for name, count in counts.items() if count}
        if used:
            raw[key] = used

    for where in zeros:
        key, _, name = where.partition(".")
        details = raw.setdefault(key, {})
        if name:
            details.setdefault(name, 0)

    return raw


def lose_usage(write: PayloadWriter, usage: Usage, raw: Any, path: str) -> None:
    """
    List the counts of *usage*, at *path*, that are not in *raw*, LangChain's.
    """
    kept = read_usage(raw)
    for name in sorted(usage.extra):
        if kept is None or name not in kept.extra:
            write.lose(path, name, "is no count that LangChain keeps")
