"""
Persistent collections: the log under every state, and small frozen maps.

What lives here: `Log`, an append-only sequence whose every version stays
readable and shares what it has in common with the others; `View`, for what
shows a part of it; equality by content, and classes without
subclasses; and JSON values made immutable
(`freeze`, `thaw`), on `FrozenMap`, a dict that never changes. Maps that grow are
in `conversation_state._persistent.maps`. What does not: anything that knows what
a message is.
"""

from conversation_state._persistent.content import ByContent, View, final, make_draft
from conversation_state._persistent.frozen import (
    EMPTY_MAP,
    Frozen,
    FrozenMap,
    JsonMap,
    SortedJsonMap,
    check_iterable,
    check_list,
    check_text,
    check_time,
    check_unknown,
    freeze,
    freeze_map,
    freeze_notes,
    is_same_json,
    make_map,
    thaw,
)
from conversation_state._persistent.log import Log, log_with_gap

__all__ = [
    "EMPTY_MAP",
    "ByContent",
    "Frozen",
    "FrozenMap",
    "JsonMap",
    "Log",
    "SortedJsonMap",
    "View",
    "check_iterable",
    "check_list",
    "check_text",
    "check_time",
    "check_unknown",
    "final",
    "freeze",
    "freeze_map",
    "freeze_notes",
    "is_same_json",
    "log_with_gap",
    "make_draft",
    "make_map",
    "thaw",
]
