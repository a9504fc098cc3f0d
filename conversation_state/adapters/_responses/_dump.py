"""
From messages to Responses, and tools as its requests have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters._export import (
    Export,
    PayloadWriter,
    is_before,
    merge_kept_keys,
)
from conversation_state.adapters._notes import map_of, notes_of
from conversation_state.adapters._responses._blocks import RESULTS, SOURCE, write_block
from conversation_state.adapters._responses._dump_items import ItemWriter
from conversation_state.adapters._tools import OPENAI, write_openai_request, write_tools
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

__all__ = ["dump", "dump_tools", "write_items"]


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a request has them: ``{"instructions": ..., "input": [...]}``.

    A system message in front that is a text is the ``instructions``, which
    are left out without one; all others are items.

    What was loaded from this format is written as it was. What the format
    can't represent is in `Export.lost`: thoughts that this provider has not signed,
    thoughts that nothing follows (it refuses both), names of speakers, media
    where it takes none, `ToolMessage.is_error`, what is another provider's
    own, what had to be mended. Ours, and so neither sent nor lost, are
    timestamps, run and turn ids, `AssistantMessage.response`, positions
    (*index*) and the caller's own metadata.

    Raises:
        InvalidMessageError:
            If one of them is not a message.
    """
    write = PayloadWriter(SOURCE)
    listed = list(messages)
    payload: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, (message, path) in enumerate(write.each(listed)):
        if not at and isinstance(message, SystemMessage) and _is_instructions(message):
            _read_message_notes(write, message, path)
            payload["instructions"] = message.content
        else:
            followed = _is_more(listed, at + 1)
            items += write_items(write, message, path, calls, followed=followed)

    payload["input"] = items
    return write.export(payload)


def write_items(
    write: PayloadWriter,
    message: Message,
    path: str,
    calls: dict[str, ToolCall],
    *,
    followed: bool,
) -> list[dict[str, Any]]:
    """
    The items of one *message*, none if all of it is lost.

    Args:
        write: What is lost is noted here.

        message: The message.

        path: Where it is.

        calls: Those before it, by their ids; its own are added.

        followed: Whether what a thought at its end led to stands behind it.
            If not, such a thought is lost.
    """
    if isinstance(message, AssistantMessage):
        calls.update({call.id: call for call in message.tool_calls})
        return _write_answer_items(write, message, path, followed=followed)

    if isinstance(message, ToolMessage):
        return [_write_result_item(write, message, path, calls)]

    if isinstance(message, UnknownMessage):
        _read_message_notes(write, message, path)
        raw = write.unknown(message.raw, message.source, path, "type")
        return [] if raw is None else [raw]

    return [_write_message_item(write, message, path)]


def _is_more(listed: Sequence[Message], at: int) -> bool:
    """
    Whether what stands at *at* can be what a thought before it led to.
    """
    after = listed[at] if at < len(listed) else None
    if isinstance(after, UnknownMessage):
        return after.source == SOURCE and "role" not in after.raw

    return isinstance(after, AssistantMessage)


def _is_instructions(message: SystemMessage) -> bool:
    notes = notes_of(message.metadata, SOURCE)
    return isinstance(message.content, str) and "role" not in notes


def _read_message_notes(
    write: PayloadWriter, message: Message, path: str
) -> Mapping[str, Any]:
    """
    The notes on *message*; its name, and what was mended in it, is lost.
    """
    notes = write.notes_on(message, path)
    if message.name:
        write.lose(path, "name", "messages have no name in this format")

    return notes


def _write_message_item(
    write: PayloadWriter, message: Any, path: str
) -> dict[str, Any]:
    notes = _read_message_notes(write, message, path)
    role = message.role
    if role == "system" and notes.get("role") == "developer":
        role = "developer"

    raw = {"role": role, "content": _write_content(write, message, path, notes)}
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_content(
    write: PayloadWriter, message: Any, path: str, notes: Mapping[str, Any]
) -> str | list[dict[str, Any]]:
    content: Any = message.content
    if isinstance(content, str):
        return content

    blocks = [
        write_block(write, part, f"{path}.parts[{at}]", message.role)
        for at, part in enumerate(content)
    ]
    # A message that loses all its parts is still sent: the order of roles stays.
    written = [block for block in blocks if block is not None]
    bare = notes.get("bare") is True and not content
    return written if written or bare else ""


def _write_result_item(
    write: PayloadWriter, message: ToolMessage, path: str, calls: Mapping[str, ToolCall]
) -> dict[str, Any]:
    notes = _read_message_notes(write, message, path)
    call = calls.get(message.tool_call_id)
    noted = notes.get("custom")
    custom = call is not None and call.type == "custom"
    custom = noted if isinstance(noted, bool) else custom
    raw: dict[str, Any] = {
        "type": RESULTS["custom" if custom else "function"],
        "call_id": message.tool_call_id,
    }
    if notes.get("named") is True and message.tool_name:
        raw["name"] = message.tool_name
    elif message.tool_name and (call is None or call.name != message.tool_name):
        write.lose(
            path,
            "tool_name",
            "the tool's name is in the call, which is missing or has another",
        )

    write.lose_error_flag(message, path)
    raw["output"] = _write_content(write, message, path, notes)
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_answer_items(
    write: PayloadWriter, message: AssistantMessage, path: str, *, followed: bool
) -> list[dict[str, Any]]:
    notes = _read_message_notes(write, message, path)
    if notes.get("silent") is True and not (message.content or message.tool_calls):
        return []

    answer = ItemWriter(write)
    listed: list[Any] = []
    if not isinstance(message.content, str):
        listed = [
            (part, f"{path}.parts[{at}]") for at, part in enumerate(message.content)
        ]
    elif message.content or not message.tool_calls:
        answer.add_plain(message.content)

    calls = [
        (call, f"{path}.tool_calls[{at}]") for at, call in enumerate(message.tool_calls)
    ]
    for one, where in _order_by_index(listed, calls):
        answer.add(one, where)

    # What is lost leaves a message behind, also where it was all.
    return answer.items(followed=followed) or [{"role": "assistant", "content": ""}]


def _order_by_index(parts: list[Any], calls: list[Any]) -> list[Any]:
    """
    *parts* and *calls* in the places they had in the response.

    If one of them has no index, calls that have one stand before the
    parts behind them, and parts before all other calls.
    """
    both = [*parts, *calls]
    if all(one.index is not None for one, _ in both):
        return sorted(both, key=lambda one: one[0].index)  # stable

    ordered: list[Any] = []
    waiting = calls[::-1]
    for part in parts:
        while waiting and is_before(waiting[-1][0], part[0]):
            ordered.append(waiting.pop())

        ordered.append(part)

    return [*ordered, *waiting[::-1]]


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
    return write_tools(tools, choice, OPENAI, _write_tool, write_openai_request)


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
