"""
Messages: a role, its content, and the facts about a response.

Everything *said* passes through here. What lives here: the five kinds of
message, what a provider told about a response, the envelope that stamps the
messages of one turn, and what stands where a message was erased. What does
not: the parts they hold (`parts`), the calls they make (`tools`), and the order
they were said in (`aggregator`).
"""

from conversation_state.messages._base import Message
from conversation_state.messages._envelope import Envelope, format_exception
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.messages._response import LogProb, ResponseMeta
from conversation_state.messages._tombstones import (
    ERASED,
    Erasure,
    find_erasure,
    make_tombstone,
)

__all__ = [
    "ERASED",
    "AssistantMessage",
    "Envelope",
    "Erasure",
    "LogProb",
    "Message",
    "ResponseMeta",
    "SystemMessage",
    "ToolMessage",
    "UnknownMessage",
    "UserMessage",
    "find_erasure",
    "format_exception",
    "make_tombstone",
]
