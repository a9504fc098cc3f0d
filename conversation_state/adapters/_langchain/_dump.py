"""
From our messages to LangChain's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._export import PROVIDERS, Export, Writing
from conversation_state.adapters._extras import lose_each
from conversation_state.adapters._langchain._blocks import thawed, write_block
from conversation_state.adapters._langchain._calls import block_of, write_call
from conversation_state.adapters._langchain._json import made
from conversation_state.adapters._langchain._usage import (
    lose_usage,
    read_usage,
    write_usage,
)
from conversation_state.adapters._langchain._words import (
    CLASSES,
    DEFAULTS,
    MODELS,
    REASONS,
    SOURCE,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import Part, RefusalPart, TextPart
from conversation_state.usage import Usage

__all__ = ["dump", "dump_message"]

_NOTHING = ResponseMeta()
# What notes have to be, that become fields of a message.
_TYPES: Mapping[str, type[Any]] = {
    "additional_kwargs": dict,
    "beside": list,
    "fields": dict,
    "id": str,
    "response_metadata": dict,
    "usage": dict,
    "zeros": list,
}


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of LangChain's.

    What was loaded from LangChain comes back equal, of the same class.
    `Export.lost` lists what differs from *messages* when they are loaded
    again: what LangChain has no word for, what is another adapter's own, what
    had to be mended. A signature is written if LangChain had it before, if
    there is a block for it, or if it is nobody's.

    Raises:
        InvalidMessageError:
            If one of them is no message, or its notes are none of ours.

        MissingExtraError:
            If LangChain is not installed.
    """
    write = Writing(SOURCE)
    found = [
        _checked(write, message, f"messages[{at}]")
        for at, message in enumerate(messages)
    ]
    payload = [message for message in found if message is not None]
    return Export(payload, tuple(write.lost))


def dump_message(message: Message) -> Any:
    """
    The same for a single one, where nobody asks what is lost; None if LangChain
    has no word for it.
    """
    return _checked(Writing(SOURCE), message, "messages[0]")


def _checked(write: Writing, message: Message, path: str) -> Any:
    if not isinstance(message, Message):
        msg = f"{path} is a {type(message).__name__}; expected a Message"
        raise InvalidMessageError(msg)

    try:
        return _message(write, message, path)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # Metadata is anybody's to write, and so may be notes that are none.
        if not message.metadata.get(SOURCE):
            raise

        msg = (
            f"{path}.metadata[{SOURCE!r}] holds what no adapter noted: {error}. The "
            "name is that of LangChain's adapter; give what is yours another one"
        )
        raise InvalidMessageError(msg) from error


def _message(write: Writing, message: Message, path: str) -> Any:
    notes = _checked_notes(thawed(write.notes_on(message, path)))
    _lose_own(write, message, path)
    if isinstance(message, UnknownMessage):
        return _unknown(write, message, path, notes)

    fields: dict[str, Any] = {}
    kwargs = notes.get("additional_kwargs", {})
    content = _content(write, message, path, notes, kwargs)
    if isinstance(message, AssistantMessage):
        content = _put_calls(write, message, path, content, fields)
        _put_response(write, message, path, notes, fields)
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
    if kind not in CLASSES or CLASSES[kind] not in {"", message.role}:
        kind = DEFAULTS[message.role]

    return made(kind, fields)


def _checked_notes(notes: dict[str, Any]) -> dict[str, Any]:
    for name, value in notes.items():
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            what = f"{name} is a {type(value).__name__}"
            raise TypeError(what)

    return notes


def _lose_own(write: Writing, message: Message, path: str) -> None:
    """
    List what stands beside what *message* says, and is nobody's note.
    """
    ours = {
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
    }
    metadata = message.metadata
    if metadata is not EMPTY_MAP and (len(metadata) > 1 or SOURCE not in metadata):
        ours["metadata"] = any(name not in PROVIDERS for name in metadata)

    lose_each(write, path, ours, "has no place in a message of LangChain's")


def _put_result(
    write: Writing,
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

    why = "is the tool's, in a message of LangChain's"
    lose_each(write, path, {"name": bool(message.name)}, why)


def _unknown(
    write: Writing, message: UnknownMessage, path: str, notes: Mapping[str, Any]
) -> Any:
    said = write.unknown(message.raw, message.source, path, "type")
    if said is None:
        return None

    lose_each(write, path, {"name": bool(message.name)}, "stands beside a message")
    if notes.get("odd"):
        said = thawed({**said, "odd": True})
        del said["odd"]

    return made(said.pop("class"), said)


def _content(
    write: Writing,
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

    for at, block in notes.get("beside", ()):
        blocks.insert(at, block)

    if notes.get("text") and all(
        isinstance(part, TextPart) for part in message.content if not _is_aside(part)
    ):
        return message.text

    return blocks or ([] if notes.get("empty") else "")


def _put_calls(
    write: Writing,
    message: AssistantMessage,
    path: str,
    content: Any,
    fields: dict[str, Any],
) -> Any:
    """
    Put the calls of *message* into *fields*; its *content* with the blocks that
    say them once more.
    """
    calls: dict[str, list[Any]] = {"tool_call": [], "invalid_tool_call": []}
    blocks: list[tuple[int, dict[str, Any]]] = []
    for at, call in enumerate(message.tool_calls):
        where = f"{path}.tool_calls[{at}]"
        raw, notes = write_call(write, call, where)
        invalid = "args" not in raw or not isinstance(raw["args"], dict)
        if calls["invalid_tool_call"] and not invalid:
            why = "those that are no JSON objects stand behind the others there"
            write.lose(where, "place", why)

        calls["invalid_tool_call" if invalid else "tool_call"].append(raw)
        block = block_of(call, raw, notes)
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

    for place, again in sorted(blocks, key=lambda one: one[0]):
        listed.insert(place, again)

    return listed


def _put_response(
    write: Writing,
    message: AssistantMessage,
    path: str,
    notes: Mapping[str, Any],
    fields: dict[str, Any],
) -> None:
    response, told = message.response, notes.get("response_metadata", {})
    if response is None:
        response = _NOTHING

    where = f"{path}.response"
    newer = dict.fromkeys(sorted(response.unknown), True)
    beside = {"logprobs": response.logprobs is not None, **newer}
    lose_each(write, where, beside, "has no place in a message of LangChain's")
    if response.finish_reason:
        told[str(notes.get("reason", REASONS[0]))] = response.finish_reason

    if response.model:
        told[str(notes.get("model", MODELS[0]))] = response.model

    if response.usage is not None:
        lose_usage(write, response.usage, f"{where}.usage")

    if told:
        fields["response_metadata"] = told

    _put_usage(response.usage, notes, fields)


def _put_usage(
    usage: Usage | None, notes: Mapping[str, Any], fields: dict[str, Any]
) -> None:
    kept = notes.get("usage")
    if kept is not None and read_usage(kept) == usage:
        fields["usage_metadata"] = kept
    elif usage is not None:
        fields["usage_metadata"] = write_usage(usage, notes.get("zeros", ()))


def _is_aside(part: Part) -> bool:
    own = part.metadata.get(SOURCE)
    return isinstance(own, Mapping) and bool(own.get("aside"))
