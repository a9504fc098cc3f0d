"""
Usage in Pydantic AI's counts and in ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._notes import map_of
from conversation_state.adapters._reading import DocumentReader, is_map, mended
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

__all__ = ["load_usage", "read_usage", "write_usage"]

_MAX_COUNT = 2**63 - 1
# Counts that are kept in `Usage.extra` under their own names.
_EXTRA = (
    "cache_audio_read_tokens",
    "cache_write_1h_tokens",
    "cache_write_tokens",
    "requests",
    "tool_calls",
    "unmeasured_requests",
)
# Details that repeat a field, or a part of one.
_HAS_FIELD = frozenset(
    {
        *("audio_tokens", "cached_tokens", "input_tokens", "output_tokens"),
        *("cache_creation_input_tokens", "cache_read_input_tokens"),
        *("reasoning_tokens", "total_tokens"),
    }
)
_PREDICTED = ("accepted_prediction_tokens", "rejected_prediction_tokens")
_COUNTS = (
    "cache_read_tokens",
    "input_audio_tokens",
    "input_tokens",
    "output_audio_tokens",
    "output_reasoning_tokens",
    "output_tokens",
    *_EXTRA,
)


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a `RequestUsage`, a `RunUsage`, a `ModelResponse`, or
    one of these as JSON.

    None if it has no counts. Pydantic AI's counts are inclusive already, so
    none is added to another: ``input_tokens`` holds cache reads, cache writes
    and audio, ``output_tokens`` holds reasoning and audio. Counts without a
    field go to `Usage.extra`, under their own names, and so do ``details`` that
    repeat no field; ``cost`` and seconds of audio stay with the message.

    Raises:
        DecodeError:
            If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        ``pydantic_ai.usage.UsageBase`` documents what each count includes.

    >>> load_usage({"input_tokens": 9, "cache_read_tokens": 4, "output_tokens": 2})
    Usage(9, 2, prompt_tokens_details=PromptTokensDetails(cached_tokens=4))
    """
    read = DocumentReader()
    raw = payload
    if not (is_map(raw) or raw is None):
        raw = getattr(payload, "usage", payload)
        raw = getattr(raw, "__dict__", raw)

    if is_map(raw) and "parts" in raw:
        raw = raw.get("usage")

    usage = None
    if is_map(raw):
        usage = read_usage(read, raw, "$")
    elif raw is not None:
        read.wrong("$", raw, "a usage, or a response with usage")

    read.finish()
    return usage


def read_usage(read: DocumentReader, raw: Mapping[str, Any], path: str) -> Usage | None:
    """
    The usage in *raw*, None if all counts are zero.
    """
    counts = dict.fromkeys(_COUNTS, 0)
    for name in _COUNTS:
        value = raw.get(name)
        if value is None:
            continue

        if value != 0 and not _is_count(value):
            read.wrong(f"{path}.{name}", value, "a count from 0 to 2**63 - 1")
        else:
            counts[name] = int(value)

    if not counts["output_reasoning_tokens"]:
        # Older releases of Pydantic AI have this count in the details.
        reasoning: Any = map_of(raw, "details").get("reasoning_tokens")
        counts["output_reasoning_tokens"] = reasoning if _is_count(reasoning) else 0

    details = _read_details(raw)
    if not any(counts.values()) and not any(details.values()):
        return None

    prompt, completion = counts["input_tokens"], counts["output_tokens"]
    if prompt + completion > _MAX_COUNT:
        read.problem(path, "adds up to more than 2**63 - 1 tokens")
        return None

    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        prompt_tokens_details=PromptTokensDetails(
            audio_tokens=counts["input_audio_tokens"],
            cached_tokens=counts["cache_read_tokens"],
        ),
        completion_tokens_details=CompletionTokensDetails(
            audio_tokens=counts["output_audio_tokens"],
            reasoning_tokens=counts["output_reasoning_tokens"],
            **{name: details.pop(name, 0) for name in _PREDICTED},
        ),
        extra={**details, **{name: counts[name] for name in _EXTRA if counts[name]}},
    )


def _read_details(raw: Mapping[str, Any]) -> dict[str, int]:
    """
    A provider's counts for which Pydantic AI has no field.
    """
    details = raw.get("details")
    if not is_map(details):
        return {}

    return {
        mended(name): count
        for name, count in details.items()
        if isinstance(name, str) and name not in _HAS_FIELD and _is_count(count)
    }


def _is_count(value: Any) -> bool:
    return value.__class__ is int and 0 < value <= _MAX_COUNT


def write_usage(usage: Usage) -> tuple[dict[str, Any], list[str]]:
    """
    *usage* in Pydantic AI's counts, and the names of counts it does not have.
    """
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    counts: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "cache_read_tokens": prompt.cached_tokens,
        "input_audio_tokens": prompt.audio_tokens,
        "output_tokens": usage.completion_tokens,
        "output_audio_tokens": completion.audio_tokens,
        "output_reasoning_tokens": completion.reasoning_tokens,
    }
    details: dict[str, int] = {}
    lost: list[str] = []
    for name in sorted(usage.extra):
        if name in _HAS_FIELD or name in _PREDICTED:
            lost.append(name)
        else:
            known = name in {*_EXTRA} - {"requests", "tool_calls"}
            (counts if known else details)[name] = usage.extra[name]

    for name in _PREDICTED:
        details[name] = getattr(completion, name)

    if usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
        lost.append("total_tokens")

    own = {name: count for name, count in counts.items() if count}
    kept = {name: count for name, count in details.items() if count}
    return ({**own, "details": kept} if kept else own), lost
