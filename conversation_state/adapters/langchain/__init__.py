"""
LangChain: message histories in a store (extra ``langchain``).

    history = StoreChatMessageHistory(store, "alice")
    history.add_messages([HumanMessage("Hi!"), AIMessage("Hello.")])
    history.messages                          # LangChain's, equal to those
    history.state                             # the same as a state of ours

    model.invoke(history.trimmed(trimmer))    # what the model gets to see

`load` makes messages of ours of LangChain's, and `dump` gives those again:
equal, and of the same class. `conversation_state.adapters._langchain` tells
what becomes of what, and which notes are left under ``langchain``. `trimmed`
does for any list of messages what LangChain's ``trim_messages`` does, in the
steps of `conversation_state.trimming`.

The module is imported without LangChain; what it is needed for says so.

Source:
    LangChain's ``BaseChatMessageHistory``, which is for those who keep
    messages, and only they; graphs have checkpoints (`langgraph`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._langchain import dump, load
from conversation_state.adapters.langchain._trimmed import trimmed
from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from conversation_state.adapters.langchain._history import StoreChatMessageHistory

__all__ = ["Export", "Lost", "StoreChatMessageHistory", "dump", "load", "trimmed"]


def __getattr__(name: str) -> Any:
    # LangChain's class is a base of it, so it is made when it is asked for.
    if name != "StoreChatMessageHistory":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    try:
        from conversation_state.adapters.langchain import (  # noqa: PLC0415 - an extra
            _history,
        )
    except ImportError as error:
        raise MissingExtraError(name, "langchain") from error

    return _history.StoreChatMessageHistory
