"""
Conversations with language models, as values.

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
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from conversation_state.chunks import concat
    from conversation_state.codec import decode, encode
    from conversation_state.counting import TokenBudget, by_characters
    from conversation_state.trimming import TrimContext, fit, trim

__all__ = [
    "Aggregator",
    "AssistantMessage",
    "AudioPart",
    "Checkpoint",
    "ConversationStateError",
    "Envelope",
    "FilePart",
    "ImagePart",
    "Message",
    "ReasoningPart",
    "RefusalPart",
    "ResponseMeta",
    "SystemMessage",
    "TextPart",
    "TokenBudget",
    "ToolCall",
    "ToolMessage",
    "TrimContext",
    "Turn",
    "Usage",
    "UserMessage",
    "VideoPart",
    "by_characters",
    "concat",
    "decode",
    "encode",
    "fit",
    "join",
    "trim",
]


# Not every program trims or writes, and these rooms bring half as much again as
# all the others: they are opened when somebody asks for something in them.
_LATER = {
    "TokenBudget": "counting",
    "TrimContext": "trimming",
    "by_characters": "counting",
    "concat": "chunks",
    "decode": "codec",
    "encode": "codec",
    "fit": "trimming",
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
