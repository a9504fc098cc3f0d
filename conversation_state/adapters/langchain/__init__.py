"""
LangChain: message histories in a store (extra ``langchain``).

    history = StoreChatMessageHistory(store, "alice")
    history.add_messages([HumanMessage("Hi!"), AIMessage("Hello.")])
    history.messages                          # LangChain's, equal to those
    history.state                             # the same as a state of ours

    model.invoke(history.trimmed(trimmer))    # the view for the model

`load` makes our messages of LangChain's, and `dump` restores those: equal, and
of the same class. `conversation_state.adapters._langchain` documents the
conversion and its notes. `trimmed` does for any list of messages what
LangChain's ``trim_messages`` does, with the steps of
`conversation_state.trimming`.

The module can be imported without LangChain; functions that need it raise
`MissingExtraError`.

Source:
    LangChain's ``BaseChatMessageHistory``, which is for programs that keep
    messages themselves; graphs have checkpoints (`langgraph`).
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
    # A subclass of LangChain's class: imported on first use.
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
