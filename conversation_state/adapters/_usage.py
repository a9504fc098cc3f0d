"""
Token counts: what all adapters share when they read usage.

What does not live here: which counts a provider has, and which of them include
others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard

from conversation_state.adapters._reading import (
    DocumentReader,
    is_map,
    mended,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

_MAX_COUNT = 2**63 - 1
# Categories of `Usage.extra` for the counts in a breakdown, where the category is not
# the name of the breakdown and that of the count.
_CATEGORIES: Mapping[str, str] = dict.fromkeys(
    ("cache_creation_tokens", "cache_write_tokens"), "cache_write_tokens"
)

Totals = tuple[int, int, int | None]
Details = Sequence[Mapping[str, int]]
# Totals (prompt, completion, all), details of the first two, other categories,
# and the values that are not counts.
Counted = tuple[Totals, Details, Mapping[str, int], Mapping[str, Any]]
# Reads the counts of a format from a usage block and its path.
CountReader = Callable[[DocumentReader, Mapping[Any, Any], str], Counted]


def is_count(value: Any) -> TypeGuard[int]:
    return value.__class__ is int and 0 <= value <= _MAX_COUNT


def usage_in(
    payload: Any,
    find: Callable[[Mapping[str, Any]], tuple[Any, str]],
    count: CountReader,
    expected: str = "a response, an event of a stream or a usage block",
) -> Usage | None:
    """
    The usage in *payload*; None if it has none, or is None.

    *find* finds the usage block in it, or None, and its path.

    Raises:
        DecodeError:
            If it is not an object, or a count in it is invalid.
    """
    read = DocumentReader()
    usage = None
    if is_map(payload):
        block, path = find(payload)
        if block is not None:
            usage, _ = read_usage_block(read, block, path, count)
    elif payload is not None:
        read.wrong("$", payload, expected)

    read.finish()
    return usage


def find_usage_block(
    holders: Mapping[str, Any], counts: Collection[str], key: str = "usage"
) -> tuple[Any, str]:
    """
    The usage block, or None, and its path.

    It is what the first of *holders* (objects by their paths) has under *key*, or the
    payload itself if that has one of *counts*.
    """
    for path, holder in holders.items():
        if is_map(holder) and holder.get(key) is not None:
            return holder[key], f"{path}.{key}"

    payload = holders["$"]
    return (payload if any(name in payload for name in counts) else None), "$"


def read_usage_block(
    read: DocumentReader, block: Any, path: str, count: CountReader
) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage in *block*, at *path*, None if there was a problem; and the values that
    are not counts.
    """
    if not is_map(block):
        read.wrong(path, block, "an object")
        return None, {}

    problems = read.count
    totals, details, extra, left = count(read, block, path)
    usage = None
    # Usage without the invalid count would be too low, so None is returned.
    if read.count == problems:
        usage = _make_usage(read, totals, details, extra, path)

    return usage, read.rest(left, frozenset(), path)


def split_counts(
    read: DocumentReader, block: Mapping[Any, Any], known: Collection[str], path: str
) -> tuple[dict[str, int], dict[str, int], dict[str, Any]]:
    """
    The counts in *block* under *known* names, those under other names, and the
    values that are not counts.
    """
    counts: dict[str, int] = {}
    others: dict[str, int] = {}
    left: dict[str, Any] = {}
    for key, value in block.items():
        if key in known:
            if is_count(value):
                counts[key] = value
            elif value is not None:
                read.wrong(f"{path}.{key}", value, "an integer from 0 to 2**63 - 1")
        # A name with half of a surrogate pair is left to `DocumentReader.rest`, which
        # mends it and notes that.
        elif isinstance(key, str) and mended(key) == key and is_count(value):
            others[key] = value
        else:
            left[key] = value

    return counts, others, left


def read_counts(
    read: DocumentReader,
    block: Mapping[Any, Any],
    known: tuple[str, ...],
    breakdowns: Mapping[str, tuple[str, tuple[str, ...]]],
    path: str,
) -> tuple[dict[str, int], list[dict[str, int]], dict[str, int], dict[str, Any]]:
    """
    The counts in *block* under *known* names, those in each of its *breakdowns*,
    other counts, and the values that are not counts.

    *breakdowns* has for each name the kind of tokens that it is of, and the counts in
    it that are known.
    """
    counts, extra, left = split_counts(read, block, known, path)
    details: list[dict[str, int]] = []
    for name, (whose, names) in breakdowns.items():
        left.pop(name, None)
        within, here = block.get(name), f"{path}.{name}"
        if not is_map(within):
            if within is not None:
                read.wrong(here, within, "an object or null")

            within = {}

        found, others, rest = split_counts(read, within, names, here)
        details.append(found)
        for key, count in others.items():
            # Two breakdowns may count the same category differently. The first count
            # stands in *extra*, and the other one is kept with the rest.
            category = _CATEGORIES.get(key, f"{whose}_{key}")
            if extra.setdefault(category, count) != count:
                rest[key] = count

        if rest:
            left[name] = rest

    return counts, details, extra, left


def _make_usage(
    read: DocumentReader,
    counts: Totals,
    details: Details,
    extra: Mapping[str, int],
    path: str,
) -> Usage | None:
    """
    The usage of *counts* (prompt, completion, total) and the *details* of the
    first two; None if their sum is larger than a count can be.
    """
    within, written = details
    try:
        return Usage(
            *counts,
            PromptTokensDetails(**within),
            CompletionTokensDetails(**written),
            extra,
        )
    except InvalidUsageError as found:
        # Each count was checked when it was read; only their sum can be too large.
        read.problem(path, str(found))
        return None
