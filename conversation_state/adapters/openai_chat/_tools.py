"""
Tools and the choice among them as Chat Completions requests have them.
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

    A request is ``{**dump(messages).payload, **dump_tools(tools).payload, "model":
    …}``; without tools there are no keys. Listed in `Export.lost`, and left out,
    are tools whose name is refused or stands twice, and what OpenAI refuses at the
    top of a schema (``anyOf``, ``enum``, …).

    Args:
        tools: What the model may call.

        choice: Whether it may, must or must not call one; None: the provider's
            default, it may.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        OpenAI's reference: names are 1 to 64 letters, digits, ``_`` and ``-``; a
        function without ``parameters`` takes none.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["tool_choice"]
    'required'
    """
    return write_tools(tools, choice, OPENAI, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description

    if schema is not None:
        function["parameters"] = schema

    return {"type": "function", "function": function}


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = OPENAI_CHOICES[choice]

    return request
