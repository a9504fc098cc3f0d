"""
A list of messages in pieces: what `hosts.pydantic_ai` needs of this format, whose
backend and processor convert what is new, and keep what each message of Pydantic AI
became.
"""

from conversation_state.adapters.pydantic_ai._dump import (
    MessageGroups,
    as_objects,
    group_messages,
)
from conversation_state.adapters.pydantic_ai._load import as_data, load_after
from conversation_state.adapters.pydantic_ai._notes import SOURCE

__all__ = [
    "SOURCE",
    "MessageGroups",
    "as_data",
    "as_objects",
    "group_messages",
    "load_after",
]
