"""
Conversations with language models, as immutable values.

The front door: the names most programs need. The rest is one door further, in
the module named for it: `conversation_state.usage`, `conversation_state.parts`
and so on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conversation_state.aggregator import Aggregator, Checkpoint, Turn, join
from conversation_state.errors import ConversationStateError
from conversation_state.messages import (
    AssistantMessage,
    Envelope,
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


# Not every program trims, writes or branches out, and these rooms bring more than
# all the others: they are opened when somebody asks for something in them.
_LATER = {
    "Cell": "cells",
    "Timeline": "timeline",
    "TokenBudget": "counting",
    "TrimContext": "trimming",
    "by_characters": "counting",
    "concat": "chunks",
    "decode": "codec",
    "diff": "diffing",
    "encode": "codec",
    "fan_out": "parallel",
    "fit": "trimming",
    "open_store": "store",
    "trim": "trimming",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
