"""
Stores: states outside memory, under names, with every revision.

Every state that was saved stays restorable, and saving one writes what is new
in it. Names stand for conversations, revisions for the states they were in;
what states have in common is there once, under however many names.

What lives here: `open_store`, `restore`, `Store`, and the values it gives; what a
store needs of whatever keeps its rows (`backend`, `schema`); rows in memory, in SQLite
and in PostgreSQL (`backends`); what hosts keep beside states (`records`). What does
not: what a state is (`aggregator`), how one message is written (`codec`).
"""

from conversation_state.messages import ERASED
from conversation_state.store._store import Store, open_store, restore
from conversation_state.store._values import (
    Collected,
    Damage,
    Head,
    LabelMove,
    NamedHead,
    Receipt,
    StateRef,
    Window,
    check_name,
    check_not_mirrored,
)

__all__ = [
    "ERASED",
    "Collected",
    "Damage",
    "Head",
    "LabelMove",
    "NamedHead",
    "Receipt",
    "StateRef",
    "Store",
    "Window",
    "check_name",
    "check_not_mirrored",
    "open_store",
    "restore",
]
