"""
Conversations with language models, as values.
"""

from __future__ import annotations

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
    "ToolCall",
    "ToolMessage",
    "Turn",
    "Usage",
    "UserMessage",
    "VideoPart",
    "join",
]
