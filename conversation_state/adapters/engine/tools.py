"""
Descriptions of tools as providers' requests have them.

What lives here: what all providers share, checks and the order of things. What
does not: how a provider writes a tool and a choice (its own ``dump_tools``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from conversation_state._persistent import check_iterable
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.export import NEWER, Export, Lost
from conversation_state.errors import InvalidToolError
from conversation_state.requests import OPENAI_CHAT, TextRule
from conversation_state.tools import ToolChoice, ToolInfo


class ToolRules(NamedTuple):
    """What a provider refuses."""

    provider: str  # its name, for people
    names: TextRule  # the form of the name of a tool
    refused: Collection[str] = ()  # keywords at the top of a schema


OPENAI = ToolRules(
    "OpenAI",
    OPENAI_CHAT.call_names,
    ("allOf", "anyOf", "const", "enum", "not", "oneOf"),
)
_OPENAI_CHOICES = {
    ToolChoice.FORBIDDEN: "none",
    ToolChoice.ALLOWED: "auto",
    ToolChoice.FORCED: "required",
}


def write_tools(
    tools: Iterable[ToolInfo],
    choice: ToolChoice | None,
    rules: ToolRules,
    write_tool: Callable[[ToolInfo, dict[str, Any] | None], dict[str, Any]],
    write_request: Callable[[list[dict[str, Any]], ToolChoice | None], dict[str, Any]],
) -> Export:
    """
    *tools* and *choice* as keys of a request, and what it can't have.

    *write_tool* makes a tool of its description and its schema, None if it has no
    parameters; *write_request* makes the keys of all tools and the choice.

    Raises:
        InvalidToolError:
            If *tools* are something else than `ToolInfo`, or *choice* than a
            `ToolChoice` or None.
    """
    lost: list[Lost] = []
    written: dict[str, dict[str, Any]] = {}
    for at, tool in enumerate(_check_tools(tools)):
        path = f"tools[{at}]"
        # A tool with an invalid name is left out, because the provider would refuse
        # the whole request.
        if not rules.names.is_valid(tool.name):
            why = f"a name that {rules.provider} refuses; a name is {rules.names}"
            lost.append(Lost(path, tool.name, why))
        elif tool.name in written:
            why = "is the name of another tool before it"
            lost.append(Lost(path, tool.name, why))
        else:
            schema = None
            if tool.parameters is not None:
                schema, refused = _object_schema(tool, rules.refused)
                why = f"is refused by {rules.provider} at the top of a schema"
                lost += [Lost(f"{path}.parameters", key, why) for key in refused]

            lost += [Lost(path, key, NEWER) for key in sorted(tool.unknown)]
            written[tool.name] = write_tool(tool, schema)

    choice = _check_choice(choice)
    # Providers refuse a choice without tools.
    if not written:
        if choice is ToolChoice.FORCED:
            lost.append(Lost("choice", choice.value, "there is no tool to call"))

        return Export({}, tuple(lost))

    return Export(write_request([*written.values()], choice), tuple(lost))


def _check_tools(tools: Any) -> Iterable[ToolInfo]:
    # Texts and maps are iterable, too. Without this check the error would be about
    # their first item.
    if isinstance(tools, (ToolInfo, str, bytes, Mapping)):
        like = "; put it into a list" if isinstance(tools, ToolInfo) else ""
        raise InvalidToolError(
            f"tools is {shorten_repr(tools)}; expected several ToolInfo{like}"
        )

    check_iterable(tools, "tools", "a list of ToolInfos")
    for at, tool in enumerate(tools):
        if not isinstance(tool, ToolInfo):
            like = "; ToolInfo.from_function makes one" * callable(tool)
            raise InvalidToolError(
                f"tools[{at}] is {shorten_repr(tool)}; expected a ToolInfo{like}"
            )

        yield tool


def _check_choice(choice: Any) -> ToolChoice | None:
    try:
        return None if choice is None else ToolChoice(choice)
    except ValueError:
        names = ", ".join(f"ToolChoice.{each.name}" for each in ToolChoice)
        raise InvalidToolError(
            f"choice is {shorten_repr(choice)}; expected {names}, or None"
        ) from None


def _object_schema(
    tool: ToolInfo, refused: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """
    The schema of a tool's arguments without the keywords that are *refused* at
    its top, and which of them it had.

    Its type is always "object", because arguments are; other types that it allows
    are dropped.
    """
    schema = tool.json_schema()
    removed = [key for key in schema if key in refused]
    kept = {key: value for key, value in schema.items() if key not in refused}
    kept["type"] = "object"
    return kept, removed


def write_openai_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    """The keys for *tools* and *choice* that both of OpenAI's formats have."""
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = _OPENAI_CHOICES[choice]

    return request
