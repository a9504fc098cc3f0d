"""
Tombstones: messages in place of those whose content was erased.

A tombstone has the role of the message but no content. It keeps the ids that
connect calls and results, the reason, and the digest of the content: so the
digests of all later entries stay valid, also after a state is loaded and saved
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from conversation_state._persistent import EMPTY_MAP, final
from conversation_state.messages._base import Message
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

# The one key of a tombstone's metadata.
ERASED = "conversation_state.erased"

_DIGEST_DIGITS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


@final
class Erasure(NamedTuple):
    """
    The erasure of a message's content.

    Attributes:
        content: The digest of the content.
        reason: Why it was erased.
    """

    content: bytes
    reason: str

    def __str__(self) -> str:
        return f"erased: {self.reason}"


def make_tombstone(message: Message, content: bytes, reason: str) -> Message:
    """The message that replaces *message*, whose content had that digest."""
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


def find_erasure(message: Message) -> Erasure | None:
    """The erasure that *message* is the tombstone of; None for any other."""
    # Every message that is saved or shown is asked, and most have no metadata.
    metadata = message._common.metadata
    if metadata is EMPTY_MAP or len(metadata) != 1:
        return None

    noted = metadata.get(ERASED)
    if noted is None or not hasattr(noted, "get"):
        return None

    content, reason = noted.get("content"), noted.get("reason")
    if not isinstance(content, str) or not isinstance(reason, str):
        return None

    if len(content) != _DIGEST_DIGITS or not _HEXADECIMAL.issuperset(content):
        return None

    # Compared with a new tombstone: a message with content isn't one, whatever its
    # metadata claim.
    erasure = Erasure(bytes.fromhex(content), reason)
    return erasure if make_tombstone(message, *erasure) == message else None
