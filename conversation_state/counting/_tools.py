"""
Tools: how many tokens their schemas fill.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from conversation_state._persistent import freeze_map
from conversation_state.counting._estimate import TokenCounter, by_characters, count
from conversation_state.messages import SystemMessage
from conversation_state.tools import ToolInfo

__all__ = ["count_tools"]


def count_tools(
    tool_infos: Iterable[ToolInfo], counter: TokenCounter = by_characters
) -> int:
    """
    How many tokens the schemas of tools fill, beside the messages.

    Each tool counts as a system message with its name, description and
    JSON Schema (keys sorted) as compact JSON. Absent fields are left out,
    metadata are not sent, and the order of tools makes no difference.

    An estimate: providers rewrite schemas before the model reads them, each in
    its own way and none of them documented. `calibrated` measures what they
    make of it.

    >>> count_tools([ToolInfo("clock", "Tells the time.")])
    12
    """
    tokens = 0
    for tool in tool_infos:
        if not isinstance(tool, ToolInfo):
            msg = (
                f"tool_infos: expected ToolInfos, got a {type(tool).__name__}: "
                f"{tool!r:.80}"
            )
            raise TypeError(msg)

        tokens += count(SystemMessage(_format_tool(tool)), counter)

    return tokens


def _format_tool(tool: ToolInfo) -> str:
    """
    What stands for *tool* in a prompt.

    >>> _format_tool(ToolInfo("clock", parameters={}))
    '{"name":"clock","parameters":{"properties":{},"type":"object"}}'
    """
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description

    if tool.schema is not None:
        # Sorted: equal schemas count the same, whichever way they were given.
        fields["parameters"] = freeze_map(tool.schema, "parameters")

    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
