"""
LangChain: message histories in a store (extra ``langchain``).

::

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

from typing import TYPE_CHECKING

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._host import import_lazily
from conversation_state.adapters._langchain import dump, load
from conversation_state.adapters.langchain._trimmed import trimmed

if TYPE_CHECKING:
    from conversation_state.adapters.langchain._history import StoreChatMessageHistory

__all__ = ["Export", "Lost", "StoreChatMessageHistory", "dump", "load", "trimmed"]


__getattr__ = import_lazily(
    __name__,
    {"StoreChatMessageHistory": "_history"},
    extra="langchain",
    needs={"langchain_core"},
)
