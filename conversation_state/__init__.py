"""
Conversations with language models, as immutable values.

The front door: the names most programs need. The rest is one door further, in
the module named for it: `conversation_state.usage`, `conversation_state.parts`
and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._drawing import set_drawer
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
from conversation_state.parts import ImagePart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from conversation_state.cells import Cell
    from conversation_state.chunks import Accumulator, concat
    from conversation_state.codec import decode, encode
    from conversation_state.counting import TokenBudget, by_characters, cost
    from conversation_state.diffing import diff
    from conversation_state.messages import Envelope
    from conversation_state.parallel import fan_out, save_progress
    from conversation_state.store import open_store
    from conversation_state.timeline import Timeline
    from conversation_state.tools import ToolInfo
    from conversation_state.tree import MessageTree
    from conversation_state.trimming import TrimContext, Trimmer, fit, repair, trim

__all__ = [
    "Accumulator",
    "Aggregator",
    "AssistantMessage",
    "Cell",
    "Checkpoint",
    "ConversationStateError",
    "Envelope",
    "ImagePart",
    "Message",
    "MessageTree",
    "ResponseMeta",
    "SystemMessage",
    "TextPart",
    "Timeline",
    "TokenBudget",
    "ToolCall",
    "ToolInfo",
    "ToolMessage",
    "TrimContext",
    "Trimmer",
    "Turn",
    "Usage",
    "UserMessage",
    "by_characters",
    "concat",
    "cost",
    "decode",
    "diff",
    "encode",
    "fan_out",
    "fit",
    "join",
    "open_store",
    "repair",
    "save_progress",
    "trim",
]


# Not every program trims, writes or branches out, and these modules bring more than
# all the others.
__getattr__, __dir__ = open_later(
    __name__,
    {
        "Accumulator": "conversation_state.chunks",
        "Cell": "conversation_state.cells",
        "Envelope": "conversation_state.messages",
        "MessageTree": "conversation_state.tree",
        "Timeline": "conversation_state.timeline",
        "TokenBudget": "conversation_state.counting",
        "ToolInfo": "conversation_state.tools",
        "TrimContext": "conversation_state.trimming",
        "Trimmer": "conversation_state.trimming",
        "by_characters": "conversation_state.counting",
        "concat": "conversation_state.chunks",
        "cost": "conversation_state.counting",
        "decode": "conversation_state.codec",
        "diff": "conversation_state.diffing",
        "encode": "conversation_state.codec",
        "fan_out": "conversation_state.parallel",
        "fit": "conversation_state.trimming",
        "open_store": "conversation_state.store",
        "repair": "conversation_state.trimming",
        "save_progress": "conversation_state.parallel",
        "trim": "conversation_state.trimming",
    },
)

# Values draw themselves in notebooks, by a module that is above them all.
set_drawer("conversation_state.pages")
