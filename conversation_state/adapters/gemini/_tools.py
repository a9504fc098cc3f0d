"""
Tools and the choice among them as Gemini's requests have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conversation_state.adapters._export import Export
from conversation_state.adapters._tools import ToolRules, write_tools
from conversation_state.tools import ToolChoice, ToolInfo

__all__ = ["dump_tools"]

_RULES = ToolRules(
    "Gemini",
    "[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    "1 to 64 letters, digits, _, ., : and -, the first a letter or _",
)
_MODES = {
    ToolChoice.FORBIDDEN: "NONE",
    ToolChoice.ALLOWED: "AUTO",
    ToolChoice.FORCED: "ANY",
}


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``toolConfig`` of a request.

    Without tools there are no keys. Listed in `Export.lost`, and left out, are
    tools whose name is refused or stands twice.

    Args:
        tools: What the model may call.

        choice: Whether it may, must or must not call one; None: the provider's
            default, it may.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        Gemini's reference: ``parametersJsonSchema`` takes JSON Schema, where
        ``parameters`` takes a dialect of OpenAPI.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["toolConfig"]
    {'functionCallingConfig': {'mode': 'ANY'}}
    """
    return write_tools(tools, choice, _RULES, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if schema is not None:
        written["parametersJsonSchema"] = schema

    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": [{"functionDeclarations": tools}]}
    if choice is not None:
        request["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}

    return request
