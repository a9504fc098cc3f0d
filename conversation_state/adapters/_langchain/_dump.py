"""
From our messages to LangChain's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters._export import Export, PayloadWriter
from conversation_state.adapters._langchain._blocks import thaw_notes, write_block
from conversation_state.adapters._langchain._calls import dump_call_block, write_call
from conversation_state.adapters._langchain._response import put_response
from conversation_state.adapters._langchain._values import (
    CLASSES,
    DEFAULTS,
    SOURCE,
    decode_value,
    make_message,
)
from conversation_state.adapters._notes import RESERVED, has_own, notes_of
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, RefusalPart, TextPart


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of LangChain's.

    Messages that were loaded from LangChain come back equal, of the same class.
    `Export.lost` lists what differs from *messages* when they are loaded again:
    content that LangChain does not support or that is specific to another
    format, and mended texts. A signature is written if LangChain had it before,
    if there is a block for it, or if its signer is unknown.

    Raises:
        InvalidMessageError:
            If one of them is not a message.

        MissingExtraError:
            If LangChain is not installed.
    """
    write = PayloadWriter(SOURCE)
    found = [_dump_any(write, message, path) for message, path in write.each(messages)]
    payload = [message for message in found if message is not None]
    return Export(payload, tuple(write.lost))


# *message* as one of LangChain's; None if LangChain does not support it.
def dump_message(message: Message) -> Any:
    made = _dump_text_message(message)
    return made or _dump_any(PayloadWriter(SOURCE), message, "messages[0]")


def _dump_any(write: PayloadWriter, message: Message, path: str) -> Any:
    made = _dump_text_message(message)
    if made is not None:
        return made

    notes = thaw_notes(write.notes_on(message, path))
    ours = {
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
        "metadata": has_own(message.metadata),
    }
    write.lose_each(path, ours, "not supported by LangChain")
    if isinstance(message, UnknownMessage):
        return _write_unknown(write, message, path, notes)

    fields: dict[str, Any] = {}
    kwargs = notes.get("additional_kwargs", {})
    content = _build_content(write, message, path, notes, kwargs)
    if isinstance(message, AssistantMessage):
        content = _put_calls(write, message, path, content, fields)
        put_response(write, message, path, notes, fields)
    elif "response_metadata" in notes:
        fields["response_metadata"] = notes["response_metadata"]

    if isinstance(message, ToolMessage):
        _put_result(write, message, path, notes, fields)
    elif message.name or "name" in notes:
        fields["name"] = message.name

    if kwargs:
        fields["additional_kwargs"] = kwargs

    fields["content"] = content
    if "id" in notes:
        fields["id"] = notes["id"]

    fields |= notes.get("fields", {})
    kind = str(notes.get("class", ""))
    # A caller may have moved the notes to a message of another role.
    if kind not in CLASSES or CLASSES[kind] not in {"", message.role}:
        kind = DEFAULTS[message.role]

    return make_message(kind, fields)


def _dump_text_message(message: Message) -> Any:
    """
    *message* as one of LangChain's, if it has a text and an id only; else None.

    Most messages are like that, and need none of the other steps.
    """
    if isinstance(message, AssistantMessage):
        if message.tool_calls or message.response is not None:
            return None
    elif not isinstance(message, UserMessage):
        return None

    notes: Any = message.metadata
    for key in _ID_NOTE:
        if not isinstance(notes, dict) or len(notes) != 1:
            return None

        notes = notes.get(key)

    if (
        not isinstance(notes, str)
        or not isinstance(message.content, str)
        or message.name
        or message.run_id
        or message.turn_id
        or message.timestamp is not None
        or message.unknown
    ):
        return None

    fields = {"content": message.content, "id": notes}
    return make_message(DEFAULTS[message.role], fields)


# The path of an id's note in the metadata.
_ID_NOTE = (RESERVED, SOURCE, "id")


def _put_result(
    write: PayloadWriter,
    message: ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    fields: dict[str, Any],
) -> None:
    made_up = message.tool_call_id == notes.get("made_id")
    fields["tool_call_id"] = "" if made_up else message.tool_call_id
    if message.is_error:
        fields["status"] = "error"

    if "artifact" in notes:
        fields["artifact"] = notes["artifact"]

    if message.tool_name or "name" in notes:
        fields["name"] = message.tool_name

    why = "the name of a result is the tool's in LangChain"
    write.lose_each(path, {"name": bool(message.name)}, why)


def _write_unknown(
    write: PayloadWriter, message: UnknownMessage, path: str, notes: Mapping[str, Any]
) -> Any:
    raw = write.unknown(message.raw, message.source, path, "type")
    if raw is None:
        return None

    why = "not supported on an unknown message"
    write.lose_each(path, {"name": bool(message.name)}, why)
    if notes.get("odd"):
        raw = decode_value(raw)

    name = raw.pop("class", None)
    if str(name) not in CLASSES:
        write.lose(path, "class", "is not one of LangChain's messages")
        return None

    return make_message(name, raw)


def _build_content(
    write: PayloadWriter,
    message: Any,
    path: str,
    notes: Mapping[str, Any],
    kwargs: dict[str, Any],
) -> Any:
    if isinstance(message.content, str):
        return message.content

    blocks: list[Any] = []
    for at, part in enumerate(message.content):
        if _is_aside(part):
            key = "refusal" if isinstance(part, RefusalPart) else "reasoning_content"
            kwargs[key] = part.text
            continue

        block = write_block(write, part, f"{path}.parts[{at}]")
        if block is not None:
            blocks.append(block)

    # Each position is one in the whole list. They are in ascending order, so a block
    # that is inserted later moves none of those before it.
    for at, block in notes.get("beside", ()):
        blocks.insert(at, block)

    if notes.get("text") and all(
        isinstance(part, TextPart) for part in message.content if not _is_aside(part)
    ):
        return message.text

    return blocks or ([] if notes.get("empty") else "")


def _put_calls(
    write: PayloadWriter,
    message: AssistantMessage,
    path: str,
    content: Any,
    fields: dict[str, Any],
) -> Any:
    """
    Put the calls of *message* into *fields*; its *content* with the blocks that
    repeat them.
    """
    calls: dict[str, list[Any]] = {"tool_call": [], "invalid_tool_call": []}
    blocks: list[tuple[int, dict[str, Any]]] = []
    for at, call in enumerate(message.tool_calls):
        where = f"{path}.tool_calls[{at}]"
        raw, notes = write_call(write, call, where)
        invalid = not isinstance(raw.get("args"), dict)
        if calls["invalid_tool_call"] and not invalid:
            why = "calls with invalid arguments come last in LangChain"
            write.lose(where, "place", why)

        calls["invalid_tool_call" if invalid else "tool_call"].append(raw)
        block = dump_call_block(call, raw, notes)
        if block is not None:
            blocks.append(block)

    if calls["tool_call"]:
        fields["tool_calls"] = calls["tool_call"]

    if calls["invalid_tool_call"]:
        fields["invalid_tool_calls"] = calls["invalid_tool_call"]

    if not blocks:
        return content

    listed = content if isinstance(content, list) else []
    if isinstance(content, str) and content:
        listed = [{"type": "text", "text": content}]

    # In ascending order, a block that is inserted later moves none of those before it.
    for place, again in sorted(blocks, key=lambda one: one[0]):
        listed.insert(place, again)

    return listed


def _is_aside(part: Part) -> bool:
    return bool(notes_of(part.metadata, SOURCE).get("aside"))
