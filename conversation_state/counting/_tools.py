"""
Tools: what telling a model of them fills.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.counting._weighing import TokenCounter, by_characters, count
from conversation_state.messages import SystemMessage
from conversation_state.tools import ToolInfo

__all__ = ["count_tools"]


def count_tools(
    tool_infos: Iterable[ToolInfo], counter: TokenCounter = by_characters
) -> int:
    """
    How many tokens the schemas of tools fill, beside the messages.

    Each tool counts as a system message that says its name, description and
    JSON Schema (keys sorted) as compact JSON. What a tool has not is left out,
    metadata are not sent, and the order of tools makes no difference.

    An estimate: providers rewrite schemas before the model reads them, each in
    its own way and none of them documented. `calibrated` tells what they make
    of it.

    >>> count_tools([ToolInfo("clock", "Tells the time.")])
    12
    """
    tokens = 0
    for tool in tool_infos:
        if not isinstance(tool, ToolInfo):
            msg = (
                f"count_tools takes ToolInfos, got a {type(tool).__name__}: "
                f"{tool!r:.80}"
            )
            raise TypeError(msg)

        tokens += count(SystemMessage(_text(tool)), counter)

    return tokens


def _text(tool: ToolInfo) -> str:
    """
    What stands for *tool* in a prompt.

    >>> _text(ToolInfo("clock", parameters={}))
    '{"name":"clock","parameters":{"properties":{},"type":"object"}}'
    """
    said: dict[str, Any] = {"name": tool.name}
    if tool.description:
        said["description"] = tool.description

    if tool.schema is not None:
        said["parameters"] = thaw(tool.schema)

    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))
