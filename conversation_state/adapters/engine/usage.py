"""
Token counts: what all adapters share when they read usage.

Servers report counts as floats, as text, as null or as nonsense, and the answer was
paid for all the same. So a count that can't be read never hides an answer: a response
keeps it in its notes, under ``usage``, and has no usage at all if its prompt or its
completion can't be counted without it. Only `load_usage`, which gives nothing else,
refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard

from conversation_state.adapters.engine.export import is_empty_value
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

_MAX_COUNT = 2**63 - 1
_MAX_LEVELS = 20  # of a usage block; no provider's has more than four
_COUNT = "an integer from 0 to 2**63 - 1"
# The counts without which nothing is known of the prompt, or of the completion.
_NEEDED = frozenset({
    "cache_creation_input_tokens", "cache_read_input_tokens", "candidatesTokenCount",
    "candidates_token_count", "completion_tokens", "input_tokens", "output_tokens",
    "promptTokenCount", "prompt_token_count", "prompt_tokens", "responseTokenCount",
    "response_token_count", "thoughtsTokenCount", "thoughts_token_count",
    "toolUsePromptTokenCount", "tool_use_prompt_token_count",
})  # fmt: skip
# Those of them that are always given. In other formats null stands for a 0.
_ALWAYS = ("completion_tokens", "input_tokens", "output_tokens", "prompt_tokens")
_PROMPT = ("input_tokens", "promptTokenCount", "prompt_token_count", "prompt_tokens")
_TOTALS = ("totalTokenCount", "total_token_count", "total_tokens")
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
    """Whether *value* is a number of tokens."""
    return value.__class__ is int and 0 <= value <= _MAX_COUNT


def as_count(value: Any) -> int | None:
    """
    The count that *value* is, None if it isn't a count: 12.0 is 12.

    >>> as_count(12.0), as_count(12.5), as_count("12"), as_count(True)
    (12, None, None, None)

    Source:
        OpenRouter and gateways in front of other providers report floats.
    """
    if value.__class__ is float and isfinite(value) and value.is_integer():
        value = int(value)

    return value if is_count(value) else None


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
        DecodeError: If it is not an object, or a count in it is invalid.
    """
    reader = DocumentReader()
    usage = None
    if is_map(payload):
        block, path = find(payload)
        if block is not None:
            usage, _ = read_usage_block(reader, block, path, count)
    elif payload is not None:
        reader.wrong("$", payload, expected)

    reader.finish()
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
    reader: DocumentReader, block: Any, path: str, count: CountReader
) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage in *block*, at *path*, None if there was a problem; and the values that
    are not counts.
    """
    if not is_map(block):
        reader.wrong(path, block, "an object")
        return None, {}

    problems = reader.count
    totals, details, extra, left = count(reader, block, path)
    usage = None
    # Usage without the invalid count would be too low, so None is returned.
    if reader.count == problems:
        usage = _make_usage(reader, totals, details, extra, path)

    return usage, reader.rest(left, frozenset(), path)


def read_billed(
    reader: DocumentReader, block: Any, path: str, count: CountReader
) -> tuple[Usage | None, Any]:
    """
    As `read_usage_block`, of an answer that was paid for: nothing in *block* is a
    problem of the document. The usage is None if it is unknown, and counts that can't
    be read are among the values that are not counts.
    """
    if not is_map(block):
        return None, reader.json(as_kept(block), path)

    trial = DocumentReader()
    totals, details, extra, left = count(trial, block, path)
    odd = {
        re.split(r"[.\[]", problem.path[len(path) + 1 :])[0]
        for problem in trial.problems
    }
    odd |= {name for name in _ALWAYS if block.get(name, 0) is None}
    usage = None
    if odd.isdisjoint(_NEEDED) and trial.count == len(trial.problems):
        usage = _make_usage(trial, totals, details, extra, path)

    if usage is None:
        left = dict(block)
    elif odd:
        left = {**left, **{name: block[name] for name in odd if name in block}}

    return usage, reader.rest(as_kept(left), frozenset(), path) if left else {}


def read_paid_text(node: ObjectReader, key: str, rest: dict[str, Any]) -> str:
    """
    The text under *key* in an answer that was paid for; a number as a text, and "" for
    any other value. What is neither text nor null is kept in *rest*.
    """
    value = node.raw.get(key)
    if value is None or isinstance(value, str):
        return node.nullable(key)

    rest[key] = node.reading.json(as_kept(value), f"{node.path}.{key}")
    return str(rest[key]) if isinstance(value, (int, float)) else ""


def as_kept(value: Any, depth: int = 0) -> Any:
    """
    *value* as JSON that can be kept: what it can't represent, such as NaN, is a text.
    """
    if value is None or isinstance(value, str | bool) or depth > _MAX_LEVELS:
        return value if depth <= _MAX_LEVELS else "..."

    if is_map(value):
        return {
            key if isinstance(key, str) else str(key): as_kept(value[key], depth + 1)
            for key in value
        }

    if is_list(value):
        return [as_kept(item, depth + 1) for item in value]

    if value.__class__ is int:
        return value if abs(value) <= _MAX_COUNT else hex(value)

    return value if isinstance(value, float) and isfinite(value) else repr(value)


class RunningCounts:
    """
    The usage so far in a stream, each event of which may have some of the counts, or
    all of them again.

    A count never goes down: an event that has less of it, or null, does not set it
    back. Only of the prompt the latest count stands that is not 0, because providers
    correct it, also downwards. A count that can't be read makes it unknown until one
    can.

    Source:
        In recorded streams of Gemini the prompt is 169 tokens in the first event and 79
        in the last, which is billed; and an event in the middle has only the prompt.
    """

    def __init__(self, count: CountReader) -> None:
        self._count = count
        self._block: Any = None

    def add(self, block: Any) -> None:
        """Add the usage *block* of an event; None changes nothing."""
        # A copy: a client may change the same object for the next event.
        block = as_kept(block)
        if not isinstance(block, dict):
            self._block = self._block if block is None else block
            return

        if not isinstance(self._block, dict):
            self._block = {}

        before = _get_needed(self._block)
        _merge_counts(self._block, block, 0)
        merged = _get_needed(self._block)
        for name in _TOTALS:
            value, total = block.get(name), as_count(self._block.get(name))
            if value is not None and as_count(value) is None:
                self._block[name] = value
            elif value is not None and merged == _get_needed(block):
                new = as_count(value) or 0
                self._block[name] = max(new, total or 0) if merged == before else new
            elif merged != before:
                # Neither this total nor the one before is that of all counts.
                self._block.pop(name, None)

    def read(self) -> tuple[Usage | None, Any]:
        """The usage, None if it is unknown; and the values that are not counts."""
        if self._block is None:
            return None, {}

        return read_billed(DocumentReader(), self._block, "$", self._count)


def _get_needed(block: Mapping[str, Any]) -> dict[str, int]:
    counts = {name: as_count(block[name]) for name in _NEEDED & block.keys()}
    return {name: count for name, count in counts.items() if count}


def _merge_counts(kept: dict[str, Any], news: Mapping[str, Any], depth: int) -> None:
    """Merge *news* into what is *kept*, except totals."""
    for key, value in news.items():
        before = kept.get(key)
        new, old = as_count(value), as_count(before)
        if key in _TOTALS:
            continue

        if is_empty_value(value):
            kept.setdefault(key, value)
        elif isinstance(value, dict) and depth < _MAX_LEVELS:
            inside = kept[key] = dict(before) if isinstance(before, dict) else {}
            _merge_counts(inside, value, depth + 1)
        elif new is None or old is None or new >= old or (new and key in _PROMPT):
            kept[key] = value


def split_counts(
    reader: DocumentReader, block: Mapping[Any, Any], known: Collection[str], path: str
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
            known_count = as_count(value)
            if known_count is not None:
                counts[key] = known_count
            elif value is not None:
                reader.wrong(f"{path}.{key}", value, _COUNT)
        # A name with half of a surrogate pair is left to `DocumentReader.rest`, which
        # mends it and notes that.
        elif isinstance(key, str) and mended(key) == key and is_count(value):
            others[key] = value
        else:
            left[key] = value

    return counts, others, left


def read_counts(
    reader: DocumentReader,
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
    counts, extra, left = split_counts(reader, block, known, path)
    details: list[dict[str, int]] = []
    for name, (whose, names) in breakdowns.items():
        left.pop(name, None)
        within, here = block.get(name), f"{path}.{name}"
        if not is_map(within):
            if within is not None:
                reader.wrong(here, within, "an object or null")

            within = {}

        found, others, rest = split_counts(reader, within, names, here)
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
    reader: DocumentReader,
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
        reader.problem(path, str(found))
        return None
