"""Usage in Anthropic's responses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    is_list,
    is_map,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    as_count,
    find_usage_block,
    read_billed,
    split_counts,
    usage_in,
)
from conversation_state.usage import Usage

_WRITTEN, _READ = "cache_creation_input_tokens", "cache_read_input_tokens"
_COUNTS = frozenset({"input_tokens", "output_tokens", _READ, _WRITTEN})

# Breakdowns, and what their counts are called in `Usage.extra`; the names are
# those that prices go by.
_LIFETIMES = {
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
}
_TOOLS = {"web_search_requests": "web_searches"}
_THOUGHT = frozenset({"thinking_tokens"})
_BREAKDOWNS = frozenset({"cache_creation", "output_tokens_details", "server_tool_use"})

# What runs next to the response, and is not in its counts; and the attempts to make
# it, of which its counts are the last one's.
_BESIDE = frozenset({"advisor_message", "compaction"})
_FALLBACK = "fallback_message"
_ATTEMPTS = frozenset({_FALLBACK, "message"})


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    The provider counts what it read from its cache, and wrote to it, in addition to
    ``input_tokens``; here all three are `Usage.prompt_tokens`::

        prompt_tokens = input_tokens + cache_read_input_tokens
                      + cache_creation_input_tokens
        completion_tokens = output_tokens   # thinking is a part of it
        total_tokens = prompt_tokens + completion_tokens

    In `Usage.extra`: ``cache_write_tokens``, of which
    ``cache_write_5m_tokens`` and ``cache_write_1h_tokens`` are parts, given
    where they add up; ``web_searches``; and what ran next to the response, by
    ``advisor_message_prompt``, ``advisor_message_completion``,
    ``compaction_prompt`` and ``compaction_completion``, which prompt and
    completion do not include. Nor do they include what models wrote that
    declined to go on before another one answered: ``declined_message_prompt``
    and ``declined_message_completion``. Other integers keep their names.

    An event ``message_delta`` has running totals, in older versions of
    ``output_tokens`` only.

    Raises:
        DecodeError:
            If a count is invalid.

    Source:
        Anthropic's reference says what is the whole input and that output
        counts include thinking. Recorded responses show that tokens of
        advisors, and its guide to compaction that those of summaries, are in
        ``iterations`` only: they are billed, advisors at another model's
        price. So are, says its page on fallbacks, attempts that declined after
        some output; those without any are free.

    >>> usage = load_usage({"input_tokens": 3, "cache_read_input_tokens": 9})
    >>> usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens
    (12, 9)
    """
    return usage_in(payload, _find_usage, read_anthropic_counts)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$": payload, "$.message": payload.get("message")}
    return find_usage_block(holders, _COUNTS)


def read_anthropic_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, extra, left = split_counts(reader, block, _COUNTS, path)
    # An integer instead of a breakdown is wrong, and no category of its own.
    left |= {name: extra.pop(name) for name in _BREAKDOWNS & extra.keys()}
    extra |= _read_cache_writes(reader, counts, left, path)
    thought = _read_breakdown(reader, left, "output_tokens_details", _THOUGHT, path)
    used = _read_breakdown(reader, left, "server_tool_use", _TOOLS, path)
    extra |= {_TOOLS[name]: count for name, count in used.items()}
    for name, count in _read_iterations(block.get("iterations")):
        extra[name] = extra.get(name, 0) + count

    cached = counts.get(_READ, 0)
    prompt = counts.get("input_tokens", 0) + cached + extra["cache_write_tokens"]
    details = (
        {"cached_tokens": cached},
        {"reasoning_tokens": thought.get("thinking_tokens", 0)},
    )
    return (prompt, counts.get("output_tokens", 0), None), details, extra, left


def _read_breakdown(
    reader: DocumentReader,
    left: dict[str, Any],
    name: str,
    known: Collection[str],
    path: str,
) -> dict[str, int]:
    """The *known* counts in the breakdown *name*, of which the others are *left*."""
    block = left.get(name)
    if not is_map(block):
        if block is not None:
            reader.wrong(f"{path}.{name}", block, "an object or null")

        return {}

    counts, others, rest = split_counts(reader, block, known, f"{path}.{name}")
    left[name] = {**rest, **others}
    if not left[name]:
        del left[name]

    return counts


def _read_cache_writes(
    reader: DocumentReader, counts: dict[str, int], left: dict[str, Any], path: str
) -> dict[str, int]:
    given = left.get("cache_creation")
    parts = _read_breakdown(reader, left, "cache_creation", _LIFETIMES, path)
    others = map_of(left, "cache_creation")
    written = counts.get(_WRITTEN)
    if written is None:
        written = sum(parts.values()) + sum(
            as_count(one) or 0 for one in others.values()
        )

    # Whole, or not at all: a part alone would be priced wrongly.
    if others or sum(parts.values()) != written:
        parts = {}
        if given is not None:
            left["cache_creation"] = given
    else:
        left.pop("cache_creation", None)

    lifetimes = {_LIFETIMES[name]: count for name, count in parts.items()}
    return {**lifetimes, "cache_write_tokens": written}


def _read_iterations(iterations: Any) -> list[tuple[str, int]]:
    """Usage outside the response: names of categories, and counts."""
    listed = [one for one in iterations if is_map(one)] if is_list(iterations) else []
    attempts = [one for one in listed if _has_type(one, _ATTEMPTS)]
    found: list[tuple[str, int]] = []
    for one in listed:
        if _has_type(one, _BESIDE):
            kind = one["type"]
        elif _has_type(one, _ATTEMPTS) and _is_declined(one, attempts[-1]):
            kind = "declined_message"
        else:
            continue

        # Without iterations of its own: hostile ones are nested a thousand times.
        inside = {**one, "iterations": None}
        usage, _ = read_billed(DocumentReader(), inside, "$", read_anthropic_counts)
        if usage is not None:
            found.append((f"{kind}_prompt", usage.prompt_tokens))
            found.append((f"{kind}_completion", usage.completion_tokens))

    return found


def _has_type(iteration: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    kind = iteration.get("type")
    return isinstance(kind, str) and kind in kinds


def _is_declined(attempt: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """
    Whether *attempt* is billed, and another model's than the *last* one, which
    the counts of the response are of.
    """
    if attempt["type"] == _FALLBACK or not attempt.get("output_tokens"):
        return False

    # Without both names they may be steps of one model, which the counts are of.
    model, answered = attempt.get("model"), last.get("model")
    is_known = isinstance(model, str) and isinstance(answered, str)
    return last["type"] == _FALLBACK or (is_known and model != answered)
