"""
Marks: what a message of ours says about itself, in its metadata.

All under one key, so that nobody else's metadata is in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from conversation_state._persistent import EMPTY_MAP
from conversation_state.messages import Message

__all__ = ["MARK", "mark_of", "marked"]

MARK = "conversation_state"
M = TypeVar("M", bound=Message)


def mark_of(message: Message) -> Mapping[str, Any]:
    """
    What *message* says about itself; empty if nothing.
    """
    mark = message.metadata.get(MARK)
    return mark if isinstance(mark, Mapping) else EMPTY_MAP


def marked(message: M, mark: Mapping[str, Any], **changes: Any) -> M:
    """
    *message* with *changes*, and *mark* beside the marks it has.
    """
    both = {**mark_of(message), **mark}
    metadata = {**message.metadata, MARK: both}
    return message.replace(metadata=metadata, **changes)
