"""
Tools that a model may call, and the calls it made.

What lives here: the description of a tool for a model (`ToolInfo`), which can be
made from a function, a call as the model wrote it (`ToolCall`), and `call`, which
runs one. What does not: the call's result (a `ToolMessage` in `messages`), and the
form that a provider expects (`adapters`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conversation_state.tools._calls import ToolCall

if TYPE_CHECKING:
    from conversation_state._tool_calls import acall, call
    from conversation_state.tools._infos import (
        MAX_PARAMETER_LEVELS,
        Parameter,
        ToolChoice,
        ToolInfo,
        is_schema,
        parameters_schema,
    )

__all__ = [
    "MAX_PARAMETER_LEVELS",
    "Parameter",
    "ToolCall",
    "ToolChoice",
    "ToolInfo",
    "acall",
    "call",
    "is_schema",
    "parameters_schema",
]


_CALLS = "conversation_state._tool_calls"


def __getattr__(name: str) -> Any:
    # Every state needs calls; few programs that keep states describe tools.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    # Running a call makes a message of what the codec reads, both in higher layers.
    home = _CALLS if name in ("acall", "call") else f"{__name__}._infos"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
