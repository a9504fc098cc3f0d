"""
Many chunks alike, looked at at once.

Nearly all chunks of a response bring one more piece of the same thing and say
nothing else. Each function here says what such chunks bring, or None if one of
them is no such chunk; it asks each what it must and no more, for all the time
`concat` takes is the asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.messages._base import PLAIN
from conversation_state.parts import (
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)

__all__ = ["more_arguments", "more_of", "plain_text"]

# Only an assistant's message has all of these attributes, and only texts can
# be joined: what else there may be among chunks raises one of these.
_OTHERS = (AttributeError, TypeError)

_TEXTUAL = (TextPart, ReasoningPart, RefusalPart)


def plain_text(chunks: Sequence[Any]) -> str | None:
    """
    The text of *chunks* if they are nothing but an assistant's text.
    """
    try:
        texts = [
            chunk.content
            for chunk in chunks
            if chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
        ]
        return "".join(texts) if len(texts) == len(chunks) else None
    except _OTHERS:
        return None


def more_arguments(chunks: Sequence[Any], at: int | None) -> str | None:
    """
    The arguments in *chunks* if they are nothing but more of those of the call
    that is open at index *at*.
    """
    try:
        pieces = [
            call.arguments
            for chunk in chunks
            if not chunk.content
            and chunk.content.__class__ is str
            and chunk._common is PLAIN
            and chunk.response is None
            and len(chunk.tool_calls) == 1
            for call in chunk.tool_calls
            if call.index == at
            and not call.id
            and not call.name
            and call.metadata is EMPTY_MAP
            and call.unknown is EMPTY_MAP
        ]
        return "".join(pieces) if len(pieces) == len(chunks) else None
    except _OTHERS:
        return None


def more_of(chunks: Sequence[Any], before: Part) -> Part | None:
    """
    The part in *chunks* if they are nothing but more of *before*, a part whose
    pieces are texts.
    """
    kind: Any = before.__class__
    index, signed = before.index, kind is ReasoningPart
    if kind not in _TEXTUAL:
        return None

    try:
        texts = [
            part.text
            for chunk in chunks
            if chunk.content.__class__ is tuple
            and chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
            and len(chunk.content) == 1
            for part in chunk.content
            if part.__class__ is kind
            and part.index == index
            and part.metadata is EMPTY_MAP
            and part.unknown is EMPTY_MAP
            and not (signed and part.signature)
        ]
        if len(texts) == len(chunks):
            return kind("".join(texts), index=index)  # type: ignore[no-any-return]
    except _OTHERS:
        pass

    return None
