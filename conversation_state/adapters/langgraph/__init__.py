"""
LangGraph's checkpoints on a store of ours.

    saver = ConversationStateSaver(store)       # or .from_url("sqlite:///t.db")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(..., {"configurable": {"thread_id": "1"}})
    talk = store.load(saver.name("1"))          # and whoever's dump(talk)

What was said, in whatever channels hold lists of LangChain's messages, is kept
as shared structure: a turn writes what is new in it, a fork writes nothing of
its past. All else is kept as bytes of the saver's serde. `StateChannel` is a
key of a graph's state that holds one of our states.

What lives here: the checkpointer (`_saver`), checkpoints as records
(`_stored`, `_values`) and in which order they are looked for (`_keys`,
`_threads`); lists of messages as logs (`_conversations`, `_templates`); how
they are written (`_putting`) and let go of (`_letting_go`); and the channel
(`_channel`). What does not: what messages say (`adapters._langchain`), and
where records are kept (`store`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._langchain import dump, load
from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from conversation_state.adapters.langgraph._channel import (
        StateChannel,
        add_to_state,
    )
    from conversation_state.adapters.langgraph._saver import ConversationStateSaver

__all__ = [
    "ConversationStateSaver",
    "Export",
    "Lost",
    "StateChannel",
    "add_to_state",
    "dump",
    "load",
]

# Subclasses of LangGraph's: made when they are asked for, so that this can be
# imported where LangGraph is not installed.
_WHERE = {
    "ConversationStateSaver": "_saver",
    "StateChannel": "_channel",
    "add_to_state": "_channel",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    try:
        module = import_module(f"{__name__}.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"langchain_core", "langgraph"}:
            raise

        what = f"conversation_state.adapters.langgraph.{name}"
        raise MissingExtraError(what, "langgraph") from error

    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
