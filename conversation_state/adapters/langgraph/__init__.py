"""
LangGraph's checkpoints on a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation_state.adapters.langgraph._saver import ConversationStateSaver

__all__ = ["ConversationStateSaver"]


def __getattr__(name: str) -> Any:
    if name != "ConversationStateSaver":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    from conversation_state.adapters.langgraph._saver import (  # noqa: PLC0415 - an extra
        ConversationStateSaver,
    )

    return ConversationStateSaver
