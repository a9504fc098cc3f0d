"""
Tools: what a model may call, and the calls it made.

What lives here: what a model is told of a tool (`ToolInfo`), from a function
if one likes, and a call as the model wrote it (`ToolCall`). What does not: the
call's result (a `ToolMessage` in `messages`), and how a provider wants to be
told (`adapters`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conversation_state.tools._calls import ToolCall

if TYPE_CHECKING:
    from conversation_state.tools._infos import (
        Parameter,
        ToolChoice,
        ToolInfo,
        parameters_schema,
    )

__all__ = ["Parameter", "ToolCall", "ToolChoice", "ToolInfo", "parameters_schema"]


def __getattr__(name: str) -> Any:
    # Every state knows calls, and few programs that keep states tell of tools.
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    value = getattr(import_module(f"{__name__}._infos"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
