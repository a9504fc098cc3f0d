"""
Fast paths for many uniform chunks at once.

Nearly all chunks of a response hold one more piece of the same text or the same
arguments and nothing else. Each function here joins such chunks, or returns None
if one of them is anything else; it checks only what it must, because the checks
are nearly all the time that `concat` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._common_fields import COMMON, PLAIN
from conversation_state._persistent import EMPTY_MAP
from conversation_state.messages import AssistantMessage
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart

__all__ = ["join_arguments", "join_parts", "join_response", "join_texts"]

# Only an assistant message has all of these attributes, only texts can be joined,
# and only one part or call is taken: any other chunk raises one of these.
_NOT_AN_ANSWER = (AttributeError, TypeError, ValueError)

_TEXT_PARTS = (TextPart, ReasoningPart, RefusalPart)


def join_texts(chunks: Sequence[Any]) -> str | None:
    """
    The text of *chunks* if they hold nothing but text of an assistant.
    """
    # Pieces that fit are collected, and counted at the end: a comprehension without a
    # way out takes less time than a loop with one.
    try:
        texts = [
            chunk.content
            for chunk in chunks
            if chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
        ]
        return "".join(texts) if len(texts) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None


def join_response(chunks: Sequence[Any]) -> AssistantMessage | None:
    """
    The message of *chunks*, two or more, if they hold nothing but text of an
    assistant, and the last one perhaps what is known of the whole response.
    """
    first, before, last = chunks[0], chunks[-2], chunks[-1]
    # Three chunks show parts and calls at once, before all chunks are looked at.
    if not (
        first.__class__ is before.__class__ is last.__class__ is AssistantMessage
        and first.content.__class__ is before.content.__class__ is str
        and last.content.__class__ is str
        and not (before.tool_calls or last.tool_calls)
    ):
        return None

    text = join_texts(chunks[:-1])
    if text is None:
        return None

    common: dict[str, Any] = {}
    if last._common is not PLAIN:
        fields = zip(COMMON, last._common, PLAIN, strict=True)
        common = {name: value for name, value, plain in fields if value is not plain}

    return AssistantMessage(text + last.content, response=last.response, **common)


def join_arguments(chunks: Sequence[Any], index: int | None) -> str | None:
    """
    The arguments in *chunks* if they hold nothing but further arguments of the
    call that is open at *index*.
    """
    try:
        pieces = [
            call.arguments
            for chunk in chunks
            if not chunk.content
            and chunk.content.__class__ is str
            and chunk._common is PLAIN
            and chunk.response is None
            for (call,) in [chunk.tool_calls]  # compiled to an assignment, no loop
            if call.index == index
            and not call.id
            and not call.name
            and call.metadata is EMPTY_MAP
            and call.unknown is EMPTY_MAP
        ]
        return "".join(pieces) if len(pieces) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None


def join_parts(chunks: Sequence[Any], before: Part) -> Part | None:
    """
    The part in *chunks* if they hold nothing but more of *before*, a part of
    text.
    """
    kind: Any = before.__class__
    index, signed = before.index, kind is ReasoningPart
    if kind not in _TEXT_PARTS:
        return None

    try:
        texts = [
            part.text
            for chunk in chunks
            if chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
            and chunk.content.__class__ is tuple
            for (part,) in [chunk.content]
            if part.__class__ is kind
            and part.index == index
            and part.metadata is EMPTY_MAP
            and part.unknown is EMPTY_MAP
            and not (signed and part.signature)
        ]
        merged: Part = kind("".join(texts), index=index)
        return merged if len(texts) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None
