"""
Conversations with language models, as immutable values.

The front door: the names most programs need. The rest is one door further, in
the module named for it: `conversation_state.usage`, `conversation_state.parts`
and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later
from conversation_state.aggregator import Aggregator, Checkpoint, Turn, join
from conversation_state.errors import ConversationStateError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import FilePart, ImagePart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from conversation_state.cells import Cell
    from conversation_state.chunks import concat
    from conversation_state.codec import decode, encode
    from conversation_state.counting import TokenBudget, by_characters
    from conversation_state.diffing import diff
    from conversation_state.messages import Envelope
    from conversation_state.parallel import fan_out
    from conversation_state.store import open_store
    from conversation_state.timeline import Timeline
    from conversation_state.trimming import TrimContext, fit, trim

__all__ = [
    "Aggregator",
    "AssistantMessage",
    "Cell",
    "Checkpoint",
    "ConversationStateError",
    "Envelope",
    "FilePart",
    "ImagePart",
    "Message",
    "ResponseMeta",
    "SystemMessage",
    "TextPart",
    "Timeline",
    "TokenBudget",
    "ToolCall",
    "ToolMessage",
    "TrimContext",
    "Turn",
    "Usage",
    "UserMessage",
    "by_characters",
    "concat",
    "decode",
    "diff",
    "encode",
    "fan_out",
    "fit",
    "join",
    "open_store",
    "trim",
]


# Not every program trims, writes or branches out, and these modules bring more than
# all the others.
__getattr__, __dir__ = open_later(
    __name__,
    {
        "Cell": "conversation_state.cells",
        "Envelope": "conversation_state.messages",
        "Timeline": "conversation_state.timeline",
        "TokenBudget": "conversation_state.counting",
        "TrimContext": "conversation_state.trimming",
        "by_characters": "conversation_state.counting",
        "concat": "conversation_state.chunks",
        "decode": "conversation_state.codec",
        "diff": "conversation_state.diffing",
        "encode": "conversation_state.codec",
        "fan_out": "conversation_state.parallel",
        "fit": "conversation_state.trimming",
        "open_store": "conversation_state.store",
        "trim": "conversation_state.trimming",
    },
)
