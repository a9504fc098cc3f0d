"""
Items of a conversation, one by one: what `hosts.agents` needs of this format, whose
sessions add and remove items and have no instructions.
"""

from conversation_state.adapters.openai_responses._blocks import (
    CALLERS,
    CALLS,
    RESULTS,
    SOURCE,
)
from conversation_state.adapters.openai_responses._dump import write_items, write_view
from conversation_state.adapters.openai_responses._load import (
    load_items,
    read_responses_counts,
)

__all__ = [
    "CALLERS",
    "CALLS",
    "RESULTS",
    "SOURCE",
    "load_items",
    "read_responses_counts",
    "write_items",
    "write_view",
]
