"""
Pydantic AI: its messages, what its models see of them, and a store as its
conversations (extra ``pydantic-ai``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.pydantic_ai._dump import dump
from conversation_state.adapters.pydantic_ai._load import load
from conversation_state.adapters.pydantic_ai._processor import (
    Trims,
    ahistory_processor,
    history_processor,
)
from conversation_state.adapters.pydantic_ai._usage import load_usage
from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from conversation_state.adapters.pydantic_ai._backend import StoreBackend
    from conversation_state.adapters.pydantic_ai._capability import TrimmedRequests

__all__ = [
    "Export",
    "Lost",
    "StoreBackend",
    "TrimmedRequests",
    "Trims",
    "ahistory_processor",
    "dump",
    "history_processor",
    "load",
    "load_usage",
]


def __getattr__(name: str) -> Any:
    # Classes of the SDK are their bases, so they are made when asked for.
    try:
        if name == "StoreBackend":
            from conversation_state.adapters.pydantic_ai._backend import (  # noqa: PLC0415 - as said
                StoreBackend,
            )

            return StoreBackend

        if name == "TrimmedRequests":
            from conversation_state.adapters.pydantic_ai._capability import (  # noqa: PLC0415 - as said
                TrimmedRequests,
            )

            return TrimmedRequests
    except ModuleNotFoundError as error:
        what = f"{name}, which Pydantic AI's class is the base of,"
        raise MissingExtraError(what, "pydantic-ai") from error

    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
