"""
From messages to Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters._export import Export, PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import list_of, map_of, notes_of
from conversation_state.adapters.openai_chat._blocks import write_part
from conversation_state.adapters.openai_chat._constants import REASONING_KEYS, SOURCE
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import AudioPart, Part, ReasoningPart, RefusalPart
from conversation_state.tools import ToolCall

__all__ = ["dump"]

# Keys of an assistant message that has no calls and nothing beside its content.
_BARE = frozenset({"content", "name", "role"})


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a request has them: ``{"messages": [...]}``.

    What was loaded from this format is written as it was. What the format
    can't represent is in `Export.lost`: reasoning but in the dialect it came in,
    media where it takes none, `ToolMessage.is_error`, what is another
    provider's own, what had to be mended. Ours, and so neither sent nor lost,
    are timestamps, run and turn ids, `AssistantMessage.response`, positions
    (*index*) and the caller's own metadata.

    Raises:
        InvalidMessageError:
            If one of them is no message.
    """
    write = PayloadWriter(SOURCE)
    raws: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        raw: dict[str, Any] | None
        match message:
            case AssistantMessage():
                raw = _write_assistant(write, message, path)
            case ToolMessage():
                raw = _write_result(write, message, path)
            case SystemMessage() | UserMessage():
                raw = _write_message(write, message, path)
            case UnknownMessage():
                write.notes_on(message, path)
                raw = write.unknown(message.raw, message.source, path, "role")
            case _:
                msg = f"{path} is a {type(message).__name__}; expected a Message"
                raise InvalidMessageError(msg)

        if raw is not None:
            raws.append(raw)

    return write.export({"messages": raws})


def _write_message(
    write: PayloadWriter, message: SystemMessage | UserMessage, path: str
) -> dict[str, Any]:
    notes = write.notes_on(message, path)
    raw: dict[str, Any] = {"role": message.role}
    if message.role == "system" and notes.get("role") == "developer":
        raw["role"] = "developer"

    if message.name:
        raw["name"] = message.name

    _put_content(write, message, path, notes, raw)
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_result(
    write: PayloadWriter, message: ToolMessage, path: str
) -> dict[str, Any]:
    notes = write.notes_on(message, path)
    raw: dict[str, Any] = {"role": "tool"}
    if notes.get("role") == "function":
        raw["role"] = "function"

    if message.tool_call_id != notes.get("made_id"):
        raw["tool_call_id"] = message.tool_call_id

    if message.tool_name:
        raw["name"] = message.tool_name

    if message.name:
        write.lose(
            path, "name", "in a tool message the name is the tool's, not the sender's"
        )

    if message.is_error:
        write.lose(
            path,
            "is_error",
            "the format has no flag for a failed call; only the text can say it",
        )

    _put_content(write, message, path, notes, raw)
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _put_content(
    write: PayloadWriter,
    message: SystemMessage | UserMessage | ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
) -> None:
    content = message.content
    if not isinstance(content, str):
        blocks = _write_blocks(
            write,
            [(part, f"{path}.parts[{at}]") for at, part in enumerate(content)],
            message.role,
        )
        # A message that loses all its parts is still sent: the order of roles stays.
        listed = notes.get("list") is True and not content
        raw["content"] = blocks if blocks or listed else ""
    elif content or "content" not in list_of(notes, "without"):
        raw["content"] = content


def _write_blocks(
    write: PayloadWriter, parts: Iterable[tuple[Part, str]], role: str
) -> list[dict[str, Any]]:
    blocks = [write_part(write, part, path, role) for part, path in parts]
    return [block for block in blocks if block is not None]


def _write_assistant(
    write: PayloadWriter, message: AssistantMessage, path: str
) -> dict[str, Any]:
    notes = write.notes_on(message, path)
    raw: dict[str, Any] = {"role": "assistant", "content": ""}
    if message.name:
        raw["name"] = message.name

    content: str | list[dict[str, Any]]
    if isinstance(message.content, str):
        content = message.content
    else:
        listed = notes.get("list") is True
        content = _write_answer_content(
            write, message.content, path, raw, listed=listed
        )

    for at, call in enumerate(message.tool_calls):
        _put_call(write, call, f"{path}.tool_calls[{at}]", raw)

    raw["content"] = content
    if isinstance(content, str) and not content:
        if "content" in list_of(notes, "without"):
            del raw["content"]
        elif not raw.keys() <= _BARE:
            # As the provider does itself where there are calls.
            raw["content"] = None

    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_answer_content(
    write: PayloadWriter,
    parts: tuple[Part, ...],
    path: str,
    raw: dict[str, Any],
    *,
    listed: bool,
) -> str | list[dict[str, Any]]:
    """
    The content of an assistant's *parts*; what stands beside it is put into
    *raw*.
    """
    inside: list[tuple[Part, str]] = []
    for at, part in enumerate(parts):
        here = f"{path}.parts[{at}]"
        if not _put_aside(write, part, here, raw, late=bool(inside)):
            inside.append((part, here))

    refusal = _refusal_beside(inside)
    if refusal is not None:
        write.notes(*inside.pop())
        raw["refusal"] = refusal

    blocks = _write_blocks(write, inside, "assistant")
    if listed or (blocks and len(blocks) == len(parts)):
        return blocks

    # With the rest beside it, one text is a text and not a list.
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text

    return blocks or ""


def _put_aside(
    write: PayloadWriter, part: Part, path: str, raw: dict[str, Any], *, late: bool
) -> bool:
    """
    Put *part* into *raw*, beside the content, if it stood there.
    """
    notes = notes_of(part.metadata, SOURCE)
    under = map_of(notes, "under")
    if not under:
        return False

    if isinstance(part, ReasoningPart) and part.text:
        keys = [key for key in REASONING_KEYS if under.get(key) is True]
        if late or any(key in raw for key in keys):
            write.lose(
                path,
                "reasoning",
                "reasoning is one text before the content; this part was moved",
            )

        for key in keys:
            raw[key] = raw.get(key, "") + part.text

        if keys:
            write.notes(part, path)

        return bool(keys)

    # Audio that the provider made is with the provider, under its id.
    name = map_of(notes, "keys").get("id")
    if not isinstance(part, AudioPart) or not isinstance(name, str) or "audio" in raw:
        return False

    write.notes(part, path)
    raw["audio"] = {"id": name}
    return True


def _refusal_beside(inside: list[tuple[Part, str]]) -> str | None:
    """
    The refusal at the end of *inside* if it stands beside the content: where
    it is alone, as usual, or where it stood there.
    """
    part = inside[-1][0] if inside else None
    if not isinstance(part, RefusalPart) or not part.text:
        return None

    notes = notes_of(part.metadata, SOURCE)
    alone = len(inside) == 1 and not notes
    return part.text if alone or map_of(notes, "under") else None


def _put_call(
    write: PayloadWriter, call: ToolCall, path: str, raw: dict[str, Any]
) -> None:
    notes = write.notes(call, path)
    keys = map_of(notes, "keys")
    legacy = bool(map_of(notes, "under"))
    custom = call.type == "custom"
    without = list_of(notes, "without")
    key = "input" if custom else "arguments"
    body: dict[str, Any] = {"name": call.name, key: call.arguments}
    if not call.arguments and key in without:
        del body[key]

    if legacy and not custom and "function_call" not in raw:
        raw["function_call"] = merge_kept_keys(keys, body)
        return

    one: dict[str, Any] = {}
    if call.id and (legacy or call.id != notes.get("made_id")):
        one["id"] = call.id

    if call.type != "function" or not ("type" in without or "type" in keys):
        one["type"] = call.type

    # The fields of another kind of call are all among the keys.
    if call.name or call.arguments or call.type in {"custom", "function"}:
        one["custom" if custom else "function"] = body

    raw.setdefault("tool_calls", []).append(merge_kept_keys(keys, one))
