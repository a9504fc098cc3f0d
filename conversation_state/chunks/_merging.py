"""
Pieces of one thing, joined: metadata, a part, a tool call, a response.

Every function takes the pieces in order and is linear in their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeVar

import attrs

from conversation_state._persistent import EMPTY_MAP, PMap, pmap
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
)

__all__ = [
    "UsageMode",
    "continues",
    "merged_calls",
    "merged_maps",
    "merged_parts",
    "merged_responses",
]

D = TypeVar("D", PromptTokensDetails, CompletionTokensDetails)
UsageMode: TypeAlias = Literal["cumulative", "delta"]


# Of JSON values of different kinds, the poorer gives way to the richer. "The
# last one" would do for two; of three, it would depend on which two are joined
# first.
_NULL, _NUMBER, _TEXT, _LIST, _MAP = range(5)


def _richness(value: object) -> int:
    if value is None:
        return _NULL

    if isinstance(value, str):
        return _TEXT

    if isinstance(value, tuple):
        return _LIST

    return _MAP if isinstance(value, PMap) else _NUMBER


def _merged_values(values: Sequence[Any]) -> Any:
    richest = max(map(_richness, values))
    values = [value for value in values if _richness(value) == richest]
    if len(values) == 1 or richest <= _NUMBER:
        return values[-1]

    if richest == _TEXT:
        return "".join(values)

    return (
        merged_maps(values) if richest == _MAP else tuple(chain.from_iterable(values))
    )


def merged_maps(maps: Iterable[PMap[str, Any]]) -> PMap[str, Any]:
    """
    Metadata in pieces, joined key by key.
    """
    given = [each for each in maps if each]
    if len(given) <= 1:
        return given[0] if given else EMPTY_MAP

    values: dict[str, list[Any]] = {}
    for each in given:
        for key, value in each.items():
            values.setdefault(key, []).append(value)

    return pmap({key: _merged_values(each) for key, each in values.items()})


_PIECEMEAL = (TextPart, ReasoningPart, RefusalPart, AudioPart)


def continues(piece: Part, first: Part) -> bool:
    """
    Whether *piece* is more of the part whose first piece is *first*.
    """
    if piece.__class__ is not first.__class__ or piece.index != first.index:
        return False

    if isinstance(piece, AudioPart) and isinstance(first, AudioPart):
        return (
            piece.data is not None
            and first.data is not None
            and piece.media_type in {"", first.media_type}
        )

    return isinstance(piece, _PIECEMEAL)


def merged_parts(pieces: Sequence[Any]) -> Part:
    """
    The part that *pieces*, each of which continues the first, are of.
    """
    first: Part = pieces[0]
    if len(pieces) == 1:
        return first

    about: dict[str, Any] = {
        "index": first.index,
        "metadata": merged_maps([piece.metadata for piece in pieces]),
        "unknown": merged_maps([piece.unknown for piece in pieces]),
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


def merged_calls(pieces: Sequence[ToolCall]) -> ToolCall:
    """
    The tool call that *pieces*, found to be of one, are of.
    """
    if len(pieces) == 1:
        return pieces[0]

    # Without an id, a piece says nothing of its type.
    named = next((piece for piece in pieces if piece.id), pieces[0])
    return ToolCall(
        named.id,
        next((piece.name for piece in pieces if piece.name), ""),
        "".join([piece.arguments for piece in pieces]),
        index=named.index,
        type=named.type,
        metadata=merged_maps([piece.metadata for piece in pieces]),
        unknown=merged_maps([piece.unknown for piece in pieces]),
    )


def merged_responses(
    pieces: Sequence[ResponseMeta], mode: UsageMode
) -> ResponseMeta | None:
    """
    What the provider told, in all.
    """
    if len(pieces) <= 1:
        return pieces[0] if pieces else None

    usages = [piece.usage for piece in pieces if piece.usage is not None]
    logprobs = [piece.logprobs for piece in pieces if piece.logprobs is not None]
    return ResponseMeta(
        _last(piece.finish_reason for piece in pieces),
        _spent(usages, mode) if usages else None,
        tuple(chain.from_iterable(logprobs)) if logprobs else None,
        _last(piece.model for piece in pieces),
        unknown=merged_maps([piece.unknown for piece in pieces]),
    )


def _last(words: Iterable[str]) -> str:
    said = ""
    for word in words:
        said = word or said

    return said


def _spent(usages: Sequence[Usage], mode: UsageMode) -> Usage:
    # Count by count: to combine two at a time would copy the categories of all
    # before.
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
        combine([usage.total_tokens for usage in usages]),
        _details([usage.prompt_tokens_details for usage in usages], combine),
        _details([usage.completion_tokens_details for usage in usages], combine),
        {name: combine(counts) for name, counts in extra.items()},
    )


def _details(given: Sequence[D], combine: Callable[[list[int]], int]) -> D:
    kind = type(given[0])
    return kind(
        **{
            field.name: combine([getattr(each, field.name) for each in given])
            for field in attrs.fields(kind)
        }
    )
