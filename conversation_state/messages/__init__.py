"""
Messages: who said what.

Everything *said* passes through here. What lives here: the five kinds of
message, what a provider told about a response, and the envelope that stamps
the messages of one turn. What does not: the parts they hold (`parts`), the
calls they make (`tools`), and the order they were said in (`aggregator`).
"""

from conversation_state.messages._base import Message
from conversation_state.messages._envelope import Envelope
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.messages._response import LogProb, ResponseMeta

__all__ = [
    "AssistantMessage",
    "Envelope",
    "LogProb",
    "Message",
    "ResponseMeta",
    "SystemMessage",
    "ToolMessage",
    "UnknownMessage",
    "UserMessage",
]
