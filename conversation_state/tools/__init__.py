"""
Tools that a model may call, and the calls it made.

What lives here: the description of a tool for a model (`ToolInfo`), which can be
made from a function, a call as the model wrote it (`ToolCall`), and `call`, which
runs one. What does not: the call's result (a `ToolMessage` in `messages`), and the
form that a provider expects (`adapters`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later
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


# Every state needs calls; few programs that keep states describe tools, or run them:
# that makes a message of what the codec reads, both in higher layers.
_INFOS = f"{__name__}._infos"
_CALLS = "conversation_state._tool_calls"
__getattr__, __dir__ = open_later(
    __name__,
    {
        "MAX_PARAMETER_LEVELS": _INFOS,
        "Parameter": _INFOS,
        "ToolChoice": _INFOS,
        "ToolInfo": _INFOS,
        "acall": _CALLS,
        "call": _CALLS,
        "is_schema": _INFOS,
        "parameters_schema": _INFOS,
    },
)
