"""
From messages to Responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters._export import (
    Export,
    Writing,
    map_of,
    notes_of,
    written_over,
)
from conversation_state.adapters._responses._answer import Answer
from conversation_state.adapters._responses._blocks import write_block
from conversation_state.adapters._responses._words import RESULTS, SOURCE
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

__all__ = ["dump", "write_items"]


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a request has them: ``{"instructions": ..., "input": [...]}``.

    A system message in front that is a text is the ``instructions``, which
    are left out if there is none; all others are items.

    What was loaded from this format is written as it was. What the format
    can't say is in `Export.lost`: thoughts that this provider has not signed,
    thoughts that nothing follows (it refuses both), names of speakers, media
    where it takes none, `ToolMessage.is_error`, what is another provider's
    own, what had to be mended. Ours, and so neither sent nor lost, are
    timestamps, run and turn ids, `AssistantMessage.response`, positions
    (*index*) and the caller's own metadata.

    Raises:
        InvalidMessageError:
            If one of them is no message.
    """
    write = Writing(SOURCE)
    said = list(messages)
    payload: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, message in enumerate(said):
        path = f"messages[{at}]"
        if not at and isinstance(message, SystemMessage) and _is_instructions(message):
            _notes(write, message, path)
            payload["instructions"] = message.content
        else:
            followed = _is_more(said, at + 1)
            items += write_items(write, message, path, calls, followed=followed)

    payload["input"] = items
    return write.export(payload)


def write_items(
    write: Writing,
    message: Message,
    path: str,
    calls: dict[str, ToolCall],
    *,
    followed: bool,
) -> list[dict[str, Any]]:
    """
    The items of one *message*, none if it can't be said.

    Args:
        write: What is lost is noted here.

        message: The message.

        path: Where it is.

        calls: Those before it, by their ids; its own are added.

        followed: Whether what a thought at its end led to stands behind it.
            If not, such a thought is lost.
    """
    match message:
        case AssistantMessage():
            calls.update({call.id: call for call in message.tool_calls})
            return _answer(write, message, path, followed=followed)
        case ToolMessage():
            return [_result(write, message, path, calls)]
        case SystemMessage() | UserMessage():
            return [_spoken(write, message, path)]
        case UnknownMessage():
            _notes(write, message, path)
            raw = write.unknown(message.raw, message.source, path, "type")
            return [] if raw is None else [raw]
        case _:
            msg = f"{path} is a {type(message).__name__}; expected a Message"
            raise InvalidMessageError(msg)


def _is_more(said: Sequence[Message], at: int) -> bool:
    """
    Whether what stands at *at* can be what a thought before it led to.
    """
    after = said[at] if at < len(said) else None
    if isinstance(after, UnknownMessage):
        return after.source == SOURCE and "role" not in after.raw

    return isinstance(after, AssistantMessage)


def _is_instructions(message: SystemMessage) -> bool:
    notes = notes_of(message.metadata, SOURCE)
    return isinstance(message.content, str) and "role" not in notes


def _notes(write: Writing, message: Message, path: str) -> Mapping[str, Any]:
    """
    The notes on *message*; its name, and what was mended in it, is lost.
    """
    notes = write.notes_on(message, path)
    if message.name:
        write.lose(path, "name", "nobody has a name of their own here")

    return notes


def _spoken(
    write: Writing, message: SystemMessage | UserMessage, path: str
) -> dict[str, Any]:
    notes = _notes(write, message, path)
    role = message.role
    if role == "system" and notes.get("role") == "developer":
        role = "developer"

    raw = {"role": role, "content": _content(write, message, path)}
    return written_over(map_of(notes, "keys"), raw)


def _content(
    write: Writing, message: SystemMessage | UserMessage | ToolMessage, path: str
) -> str | list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return content

    blocks = [
        write_block(write, part, f"{path}.parts[{at}]", message.role)
        for at, part in enumerate(content)
    ]
    # What is lost leaves a message behind: who spoke when is said still.
    told = [block for block in blocks if block is not None]
    return told if told or not content else ""


def _result(
    write: Writing, message: ToolMessage, path: str, calls: Mapping[str, ToolCall]
) -> dict[str, Any]:
    notes = _notes(write, message, path)
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
        write.lose(path, "tool_name", "is told by the call, which has another one")

    if message.is_error:
        write.lose(path, "is_error", "nothing but its text can tell that a tool failed")

    raw["output"] = _content(write, message, path)
    return written_over(map_of(notes, "keys"), raw)


def _answer(
    write: Writing, message: AssistantMessage, path: str, *, followed: bool
) -> list[dict[str, Any]]:
    notes = _notes(write, message, path)
    if notes.get("silent") is True and not (message.content or message.tool_calls):
        return []

    answer = Answer(write)
    if isinstance(message.content, str):
        if message.content or not message.tool_calls:
            answer.add_plain(message.content)

        said: list[Any] = []
    else:
        said = [
            (part, f"{path}.parts[{at}]") for at, part in enumerate(message.content)
        ]

    calls = [
        (call, f"{path}.tool_calls[{at}]") for at, call in enumerate(message.tool_calls)
    ]
    for one, where in _in_order(said, calls):
        answer.add(one, where)

    # What is lost leaves a message behind, also where it was all.
    return answer.items(followed=followed) or [{"role": "assistant", "content": ""}]


def _in_order(parts: list[Any], calls: list[Any]) -> list[Any]:
    """
    *parts* and *calls* in the places they had in the response.

    If one of them does not tell its place, calls that do stand before the
    parts behind them, and parts before all other calls.
    """
    both = [*parts, *calls]
    if all(one.index is not None for one, _ in both):
        return sorted(both, key=lambda one: one[0].index)  # stable

    ordered: list[Any] = []
    waiting = calls[::-1]
    for part in parts:
        at = part[0].index
        while waiting and at is not None and _is_before(waiting[-1][0].index, at):
            ordered.append(waiting.pop())

        ordered.append(part)

    return [*ordered, *waiting[::-1]]


def _is_before(index: int | None, at: int) -> bool:
    return index is not None and index < at
