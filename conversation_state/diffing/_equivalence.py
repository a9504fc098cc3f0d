"""
Pairs of messages with the same content on two sides.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import attrs

from conversation_state.aggregator import Entry
from conversation_state.diffing._divergence import Pair
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    find_erasure,
)
from conversation_state.parts import Part, ReasoningPart, TextPart

__all__ = ["make_content_key", "pair_equivalent"]

# The fields of a part that are not content.
_IGNORED_FIELDS = {"index", "metadata", "signature", "unknown"}


def make_content_key(message: Message) -> object:
    """
    A key that is equal for messages with the same content.

    Includes role, name, text, the other parts except reasoning, and calls by type,
    name and arguments; for a tool's result also the tool's name and whether it
    failed. Excludes what differs between attempts: ids, times, metadata, the
    response, the reasoning (unless there is nothing else), and how a text is split
    into parts.
    """
    kind, name = type(message), message.name
    erasure = find_erasure(message)
    if erasure is not None:
        # By the digest of the erased content: two erased messages may differ.
        return kind, erasure.content

    content = getattr(message, "content", ())
    if not isinstance(content, str):
        content = _make_parts_key(content)

    if isinstance(message, AssistantMessage):
        calls = [(call.type, call.name, call.arguments) for call in message.tool_calls]
        if not content and not calls and message.reasoning:
            content = ("reasoning", message.reasoning)

        return kind, name, content, *calls

    if isinstance(message, ToolMessage):
        return kind, name, content, message.tool_name, message.is_error

    if isinstance(message, UnknownMessage):
        return kind, name, message.raw, message.source

    return kind, name, content


def _make_parts_key(parts: Iterable[Part]) -> object:
    """
    A key of *parts*; of text parts alone, their text.
    """
    pieces: list[Any] = []
    content = [part for part in parts if not isinstance(part, ReasoningPart)]
    for is_text, run in groupby(content, lambda part: isinstance(part, TextPart)):
        if is_text:
            text = "".join([part.text for part in run])  # type: ignore[attr-defined]
            pieces += [text] if text else []
        else:
            pieces += [(part.kind, *_list_content_fields(part)) for part in run]

    if not pieces:
        return ""

    return pieces[0] if len(pieces) == 1 else tuple(pieces)


def _list_content_fields(part: Part) -> list[Any]:
    names = [field.name for field in attrs.fields(type(part))]
    return [getattr(part, name) for name in names if name not in _IGNORED_FIELDS]


def pair_equivalent(a: Iterable[Entry], b: Iterable[Entry]) -> tuple[Pair[Entry], ...]:
    """
    Entries of *a* and *b* with the same content, in *a*'s order.

    Each is in one pair at most: the first entry with some content in *a* with
    the first one in *b*, the second with the second. Linear.
    """
    theirs: defaultdict[object, deque[Entry]] = defaultdict(deque)
    for entry in b:
        theirs[make_content_key(entry.message)].append(entry)

    pairs = []
    for entry in a if theirs else ():
        unpaired = theirs.get(make_content_key(entry.message))
        if unpaired:
            pairs.append(Pair(entry, unpaired.popleft()))

    return tuple(pairs)
