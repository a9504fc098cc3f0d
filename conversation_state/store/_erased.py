"""
Tombstones: what stands where an entry was erased.

A message of the same role that says nothing, keeps the ids by which calls
and results belong together, and carries the digest of what was there: so the
digests of everything after it stay what they were, and so do states that are
loaded, and saved again.
"""

from __future__ import annotations

from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

__all__ = ["ERASED", "erased_content", "tombstone"]

# The one key of a tombstone's metadata.
ERASED = "conversation_state.erased"

_DIGEST_DIGITS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


def tombstone(message: Message, content: bytes, reason: str) -> Message:
    """
    What stands where *message*, whose content had that digest, was erased.
    """
    common: dict[str, Any] = {
        "run_id": message.run_id,
        "turn_id": message.turn_id,
        "timestamp": message.timestamp,
        "metadata": {ERASED: {"content": content.hex(), "reason": reason}},
    }
    if isinstance(message, AssistantMessage):
        calls = [ToolCall(call.id, call.name) for call in message.tool_calls]
        return AssistantMessage(tool_calls=calls, **common)

    if isinstance(message, ToolMessage):
        common["tool_name"] = message.tool_name
        return ToolMessage("", tool_call_id=message.tool_call_id, **common)

    if isinstance(message, UnknownMessage):
        return UnknownMessage({}, source=message.source, **common)

    kind = SystemMessage if isinstance(message, SystemMessage) else UserMessage
    return kind("", **common)


def erased_content(message: Message) -> bytes | None:
    """
    The digest that *message* carries if it is a tombstone; else None.
    """
    metadata = message._common.metadata
    if metadata is EMPTY_MAP or len(metadata) != 1:
        return None

    told = metadata.get(ERASED)
    if told is None or not hasattr(told, "get"):
        return None

    content, reason = told.get("content"), told.get("reason")
    if not isinstance(content, str) or not isinstance(reason, str):
        return None

    if len(content) != _DIGEST_DIGITS or not _HEXADECIMAL.issuperset(content):
        return None

    # Only what could not be told from one that was made here: a message that
    # says anything is no tombstone, whatever its metadata claim.
    digest = bytes.fromhex(content)
    return digest if tombstone(message, digest, reason) == message else None
