"""
When two messages say the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import attrs

from conversation_state.aggregator import Entry
from conversation_state.diffing._parting import Pair
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart

__all__ = ["same_pairs", "said"]

# What a part says nothing with.
_SILENT = {"index", "metadata", "signature", "unknown"}


def said(message: Message) -> object:
    """
    What a message says, and who says it: equal for messages that say the same.

    Role, name, text, other parts but for reasoning, and calls by type, name
    and arguments; of a tool's result also the tool's name and whether it
    failed. What is left out is what differs each time: ids, times, metadata,
    what the provider told, what a model thought before it spoke (unless that
    is all there is), and in how many pieces a text came.
    """
    kind, name = type(message), message.name
    content = getattr(message, "content", ())
    if not isinstance(content, str):
        content = _content(content)

    if isinstance(message, AssistantMessage):
        calls = [(call.type, call.name, call.arguments) for call in message.tool_calls]
        return kind, name, content or _thoughts(message, calls), *calls

    if isinstance(message, ToolMessage):
        return kind, name, content, message.tool_name, message.is_error

    if isinstance(message, UnknownMessage):
        return kind, name, message.raw, message.source

    return kind, name, content


def _content(parts: Iterable[Part]) -> object:
    """
    What *parts* say: a text if that is all, as if it had come in one piece.
    """
    pieces: list[Any] = []
    for is_text, run in groupby(filter(_is_said, parts), _is_text):
        if is_text:
            text = "".join([part.text for part in run])  # type: ignore[attr-defined]
            pieces += [text] if text else []
        else:
            pieces += map(_facts, run)

    if not pieces:
        return ""

    return pieces[0] if len(pieces) == 1 else tuple(pieces)


def _is_said(part: Part) -> bool:
    return not isinstance(part, ReasoningPart)


def _is_text(part: Part) -> bool:
    return isinstance(part, TextPart)


def _facts(part: Part) -> tuple[Any, ...]:
    fields = [field.name for field in attrs.fields(type(part))]
    return (part.kind, *[getattr(part, each) for each in fields if each not in _SILENT])


def _thoughts(message: Message, calls: list[Any]) -> object:
    thoughts = "" if calls else message.reasoning
    return ("reasoning", thoughts) if thoughts else ""


def same_pairs(a: Iterable[Entry], b: Iterable[Entry]) -> tuple[Pair[Entry], ...]:
    """
    Entries of *a* and *b* that say the same, in *a*'s order.

    Each is in one pair at most: the first of a saying here with the first of
    it there, the second with the second. Linear.
    """
    theirs: defaultdict[object, deque[Entry]] = defaultdict(deque)
    for entry in b:
        theirs[said(entry.message)].append(entry)

    pairs = []
    for entry in a if theirs else ():
        meant = theirs.get(said(entry.message))
        if meant:
            pairs.append(Pair(entry, meant.popleft()))

    return tuple(pairs)
