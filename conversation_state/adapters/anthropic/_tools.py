"""
Tools and the choice among them as Anthropic's requests have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conversation_state.adapters._export import Export
from conversation_state.adapters._tools import ToolRules, write_tools
from conversation_state.tools import ToolChoice, ToolInfo

__all__ = ["dump_tools"]

_RULES = ToolRules(
    "Anthropic",
    "[a-zA-Z0-9_-]{1,128}",
    "1 to 128 letters, digits, _ and -",
    ("allOf", "anyOf", "oneOf"),
)
_CHOICES = {
    ToolChoice.FORBIDDEN: "none",
    ToolChoice.ALLOWED: "auto",
    ToolChoice.FORCED: "any",
}


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Without tools there are no keys. Listed in `Export.lost`, and left out, are
    tools whose name is refused or stands twice, and what Anthropic refuses at the
    top of a schema (``anyOf``, ``oneOf``, ``allOf``).

    Args:
        tools: What the model may call.

        choice: Whether it may, must or must not call one; None: the provider's
            default, it may.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        Anthropic's reference; ``any`` is its word for a choice that is forced.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["tool_choice"]
    {'type': 'any'}
    """
    return write_tools(tools, choice, _RULES, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description

    written["input_schema"] = tool.json_schema() if schema is None else schema
    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = {"type": _CHOICES[choice]}

    return request
