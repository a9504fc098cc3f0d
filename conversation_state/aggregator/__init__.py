"""
The state of a conversation: its entries, and the ledger of what they cost.

An `Aggregator` is a value. Every verb returns a new one and leaves the old
one as it was, so keeping a state *is* keeping a reference, and a fork costs
one small object however long the conversation is.

What lives here: making the next state from a state (`add`, `extend`,
`add_usage`), the two verbs that relate a state to its own past (`fork`,
`join`), and what can be kept or shipped of one (`Checkpoint`, `Turn`). What
does not: order in time (`timeline`), what a model gets to see (`trimming`),
bytes (`codec`), disks (`store`).
"""

from conversation_state._persistent import Log
from conversation_state.aggregator._entries import Entry, LedgerEntry, Messages
from conversation_state.aggregator._state import (
    Aggregator,
    Checkpoint,
    Turn,
    join,
    ledger_union,
    total_usage,
)
from conversation_state.messages import response_key

__all__ = [
    "Aggregator",
    "Checkpoint",
    "Entry",
    "LedgerEntry",
    "Log",
    "Messages",
    "Turn",
    "join",
    "ledger_union",
    "response_key",
    "total_usage",
]
