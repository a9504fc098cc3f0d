"""
Pieces of one thing, joined: metadata, a part, a tool call, a response.

Every function takes the pieces in order and is linear in their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeVar

import attrs

from conversation_state._persistent import EMPTY_MAP, JsonMap, SortedJsonMap, make_map
from conversation_state.messages import ResponseMeta
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
    union_total,
)

D = TypeVar("D", PromptTokensDetails, CompletionTokensDetails)
UsageMode: TypeAlias = Literal["cumulative", "delta"]


# Of JSON values of different types the one of the highest rank stands. "The last
# one" would not be associative: of three values, the result would depend on which
# two are merged first.
_NULL, _NUMBER, _TEXT, _LIST, _MAP = range(5)


def _rank_json_type(value: object) -> int:
    if value is None:
        return _NULL

    if isinstance(value, str):
        return _TEXT

    if isinstance(value, tuple):
        return _LIST

    return _MAP if isinstance(value, JsonMap) else _NUMBER


def _merge_values(values: Sequence[Any]) -> Any:
    richest = max(map(_rank_json_type, values))
    values = [value for value in values if _rank_json_type(value) == richest]
    if len(values) == 1 or richest <= _NUMBER:
        return values[-1]

    if richest == _TEXT:
        return "".join(values)

    return merge_maps(values) if richest == _MAP else tuple(chain.from_iterable(values))


def merge_maps(maps: Iterable[Any]) -> Any:
    """
    Pieces of metadata or of unknown fields, which are `JsonMap`, merged key by key.
    """
    given = [each for each in maps if each]
    if len(given) <= 1:
        return given[0] if given else EMPTY_MAP

    values: dict[str, list[Any]] = {}
    for each in given:
        for key, value in each.items():
            values.setdefault(key, []).append(value)

    merged = {key: _merge_values(each) for key, each in values.items()}
    is_sorted = all(each.__class__ is SortedJsonMap for each in given)
    return make_map(merged, SortedJsonMap if is_sorted else JsonMap)


_MERGEABLE = (TextPart, ReasoningPart, RefusalPart, AudioPart)


def continues_part(piece: Part, first: Part) -> bool:
    """Whether *piece* continues the part whose first piece is *first*."""
    if piece.__class__ is not first.__class__ or piece.index != first.index:
        return False

    # Only pieces with bytes are joined: if one of them has a URL, either its URL or the
    # bytes would be lost.
    if isinstance(piece, AudioPart) and isinstance(first, AudioPart):
        return (
            piece.data is not None
            and first.data is not None
            and piece.media_type in {"", first.media_type}
        )

    return isinstance(piece, _MERGEABLE)


def merge_parts(pieces: Sequence[Any]) -> Part:
    """The part made of *pieces*, each of which continues the first."""
    first: Part = pieces[0]
    if len(pieces) == 1:
        return first

    about: dict[str, Any] = {
        "index": first.index,
        "metadata": merge_maps([piece.metadata for piece in pieces]),
        "unknown": merge_maps([piece.unknown for piece in pieces]),
    }
    if isinstance(first, AudioPart):
        data = b"".join([piece.data for piece in pieces])
        return AudioPart(data=data, media_type=first.media_type, **about)

    text = "".join([piece.text for piece in pieces])
    if isinstance(first, ReasoningPart):
        signatures = [piece.signature for piece in pieces if piece.signature]
        return ReasoningPart(text, signatures[-1] if signatures else "", **about)

    kind = TextPart if isinstance(first, TextPart) else RefusalPart
    return kind(text, **about)


def merge_calls(pieces: Sequence[ToolCall]) -> ToolCall:
    """The tool call made of *pieces*, which are known to be of one."""
    if len(pieces) == 1:
        return pieces[0]

    # The type of a piece without an id is only the default.
    named = next((piece for piece in pieces if piece.id), pieces[0])
    return ToolCall(
        named.id,
        next((piece.name for piece in pieces if piece.name), ""),
        # The arguments are not parsed, because pieces are cut anywhere, and the whole
        # may be invalid, too.
        "".join([piece.arguments for piece in pieces]),
        index=named.index,
        type=named.type,
        metadata=merge_maps([piece.metadata for piece in pieces]),
        unknown=merge_maps([piece.unknown for piece in pieces]),
    )


def merge_responses(
    pieces: Sequence[ResponseMeta], mode: UsageMode
) -> ResponseMeta | None:
    if len(pieces) <= 1:
        return pieces[0] if pieces else None

    usages = [piece.usage for piece in pieces if piece.usage is not None]
    logprobs = [piece.logprobs for piece in pieces if piece.logprobs is not None]
    return ResponseMeta(
        next((x.finish_reason for x in reversed(pieces) if x.finish_reason), ""),
        _merge_usages(usages, mode) if usages else None,
        tuple(chain.from_iterable(logprobs)) if logprobs else None,
        next((piece.model for piece in reversed(pieces) if piece.model), ""),
        # Some providers give each chunk an id of its own: the first one stands.
        next((piece.id for piece in pieces if piece.id), ""),
        unknown=merge_maps([piece.unknown for piece in pieces]),
    )


def _merge_usages(usages: Sequence[Usage], mode: UsageMode) -> Usage:
    # Each count is combined over all usages at once: combining two usages at a time
    # would copy the categories of all before, which is quadratic.
    if len(usages) == 1:
        return usages[0]

    combine: Callable[[list[int]], int] = sum if mode == "delta" else max
    extra: dict[str, list[int]] = {}
    for usage in usages:
        for name, count in usage.extra.items():
            extra.setdefault(name, []).append(count)

    return Usage(
        combine([usage.prompt_tokens for usage in usages]),
        combine([usage.completion_tokens for usage in usages]),
        sum([usage.total_tokens for usage in usages])
        if mode == "delta"
        else union_total(usages),
        _merge_details([usage.prompt_tokens_details for usage in usages], combine),
        _merge_details([usage.completion_tokens_details for usage in usages], combine),
        {name: combine(counts) for name, counts in extra.items()},
    )


def _merge_details(given: Sequence[D], combine: Callable[[list[int]], int]) -> D:
    kind = type(given[0])
    return kind(
        **{
            field.name: combine([getattr(each, field.name) for each in given])
            for field in attrs.fields(kind)
        }
    )
