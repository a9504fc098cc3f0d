"""
LangGraph's checkpoints on a store of ours.

::

    saver = ConversationStateSaver(store)       # or .from_url("sqlite:///t.db")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(..., {"configurable": {"thread_id": "1"}})
    state = store.load(saver.name("1"))         # for any adapter's dump

Lists of LangChain's messages, in any channel, are kept as shared structure: a
turn writes its new messages, a fork writes nothing of its past. Other values
are kept as bytes of the saver's serde. `StateChannel` is a key of a graph's
state that holds one of our states.

What is here: the checkpointer (`_saver`), and what it does with whole threads
(`_whole_threads`); checkpoints as records, read and put (`_checkpoints`), the keys of a
thread (`_threads`), lists of messages as logs (`_conversations`), and values of ours
(`_values`). What is not: the conversion of messages (`adapters.langchain`), and records
(`store`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state.adapters.langchain import dump, load
from conversation_state.hosts._host import import_lazily

if TYPE_CHECKING:
    from conversation_state.hosts.langgraph._saver import ConversationStateSaver
    from conversation_state.hosts.langgraph._values import StateChannel, add_to_state

__all__ = ["ConversationStateSaver", "StateChannel", "add_to_state", "dump", "load"]

__getattr__, __dir__ = import_lazily(
    __name__,
    {
        "ConversationStateSaver": "_saver",
        "StateChannel": "_values",
        "add_to_state": "_values",
    },
    extra="langgraph",
    needs={"langchain_core", "langgraph"},
)
