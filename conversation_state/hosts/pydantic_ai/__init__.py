"""
Pydantic AI: what its models see of a conversation, and a store as its conversations
(extra ``pydantic-ai``).

::

    agent = Agent(model, capabilities=[TrimmedRequests(trimmer)])
    backend = StoreBackend.from_url("sqlite:///conversations.db")
    await backend.save(result)

`adapters.pydantic_ai` documents how `load` and `dump` convert messages.

Source:
    ``pydantic_ai.conversation_store`` of 2.68.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state.adapters.pydantic_ai import dump, load
from conversation_state.hosts._host import import_lazily

if TYPE_CHECKING:
    from conversation_state.hosts.pydantic_ai._backend import StoreBackend
    from conversation_state.hosts.pydantic_ai._processor import (
        TrimmedRequests,
        ahistory_processor,
        history_processor,
    )

__all__ = [
    "StoreBackend",
    "TrimmedRequests",
    "ahistory_processor",
    "dump",
    "history_processor",
    "load",
]


__getattr__, __dir__ = import_lazily(
    __name__,
    {
        "StoreBackend": "_backend",
        "TrimmedRequests": "_processor",
        "ahistory_processor": "_processor",
        "history_processor": "_processor",
    },
    extra="pydantic-ai",
    needs={"pydantic", "pydantic_ai"},
)
