"""
Tools and the choice among them as Responses requests have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conversation_state.adapters._export import Export
from conversation_state.adapters._tools import OPENAI, OPENAI_CHOICES, write_tools
from conversation_state.tools import ToolChoice, ToolInfo

__all__ = ["dump_tools"]


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Without tools there are no keys. Listed in `Export.lost`, and left out, are
    tools whose name is refused or stands twice, and what OpenAI refuses at the top
    of a schema (``anyOf``, ``enum``, …).

    Args:
        tools: What the model may call.

        choice: Whether it may, must or must not call one; None: the provider's
            default, it may.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        OpenAI's reference: ``parameters`` and ``strict`` are always there. Schemas
        are sent as they are, so they are not strict: strict ones may use a part of
        JSON Schema only, and have no parameters that may be left out.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool]).payload["tools"][0]["strict"]
    False
    """
    return write_tools(tools, choice, OPENAI, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written = {
        "type": "function",
        "name": tool.name,
        "parameters": tool.json_schema() if schema is None else schema,
        "strict": False,
    }
    if tool.description:
        written["description"] = tool.description

    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = OPENAI_CHOICES[choice]

    return request
