"""
From LangChain's messages to ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from conversation_state.adapters._langchain._blocks import mended_text, read_block
from conversation_state.adapters._langchain._response import load_response
from conversation_state.adapters._langchain._values import (
    CLASSES,
    DEFAULTS,
    ROLES,
    SOURCE,
    class_names,
    encode_value,
    keep_notes,
    make_message,
    message_classes,
)
from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import DocumentReader
from conversation_state.adapters._wire import MESSAGE_CLASSES
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import Message, UnknownMessage
from conversation_state.parts import Part, TextPart, UnknownPart

_COMMON = frozenset(
    {"additional_kwargs", "content", "id", "name", "response_metadata", "type"}
)
_KNOWN = {
    "assistant": _COMMON | {"invalid_tool_calls", "tool_calls", "usage_metadata"},
    "system": _COMMON,
    "tool": _COMMON | {"artifact", "status", "tool_call_id"},
    "user": _COMMON,
}
# The values that these fields have in every chunk. They are not noted, because the
# class sets them again.
_EMPTY_VALUES: Mapping[str, Any] = {"chunk_position": None, "tool_call_chunks": []}
# The id of a result that has none, because our `ToolMessage` requires one.
_NO_ID = "no_id"
# The fields that are sent to a model.
_VIEW_FIELDS = (
    "content",
    "invalid_tool_calls",
    "name",
    "role",
    "status",
    "tool_call_id",
    "tool_calls",
)


def load(messages: Any) -> tuple[Message, ...]:
    """
    Our messages for LangChain's *messages*, or for a single one of them.

    Nothing is lost: content without an equivalent is kept as an unknown part or
    message, or in notes (see this package). A lone surrogate in a text becomes
    U+FFFD, and a note lists its path.

    Raises:
        DecodeError:
            If a message is not of one of LangChain's own classes, or can't be
            kept, for example because its artifact is an arbitrary object; with
            every problem and its path.

        MissingExtraError:
            If LangChain is not installed.
    """
    read = DocumentReader()
    source: Iterable[Any] = messages
    # Checked first, because a message is iterable, too: it yields its fields.
    if type(messages) in class_names():
        source = (messages,)
    elif isinstance(messages, (str, bytes, Mapping)) or not isinstance(
        messages, Iterable
    ):
        read.wrong("$", messages, "messages of LangChain's")
        source = ()

    found = [_load_any(read, one, f"$[{at}]") for at, one in enumerate(source)]
    read.finish()
    return tuple([message for message in found if message is not None])


def load_message(message: Any) -> Message:
    read = DocumentReader()
    found = _load_any(read, message, "$")
    read.finish()
    assert found is not None  # noqa: S101 - else `finish` raises
    return found


def load_for_view(message: Any) -> Message:
    """
    Our message for one that is only viewed, and not saved: if *message* can't be
    kept as a whole, its content and calls.

    Raises:
        DecodeError:
            If it is not a message of LangChain's, or these can't be kept.
    """
    try:
        return load_message(message)
    except DecodeError:
        names = map(class_names().get, type(message).__mro__)
        name = next(filter(None, names), None)
        if name is None:
            raise

        values = vars(message)
        fields = {field: values[field] for field in _VIEW_FIELDS if field in values}
        return load_message(make_message(name, fields))


def _load_any(read: DocumentReader, message: Any, path: str) -> Message | None:
    name = class_names().get(type(message))
    if name is None:
        _report_class(read, message, path)
        return None

    try:
        return _load_known(read, message, name, path)
    except (AttributeError, LookupError, TypeError) as error:
        # Setting a field of a message does not validate it.
        read.problem(path, f"is not a valid {name}: {error!r}")
        return None


def _load_known(
    read: DocumentReader, message: Any, name: str, path: str
) -> Message | None:
    raw: dict[str, Any] = vars(message)
    role = CLASSES[name] or ROLES.get(raw.get("role", ""), "")
    if not role:
        return _load_unknown(read, message, name, path)

    problems, mended_before = read.count, len(read.mended)
    notes = _collect_notes(message, raw, name, role)
    fields: dict[str, Any] = {}
    if raw["name"]:
        key = "tool_name" if role == "tool" else "name"
        fields[key] = mended_text(read, raw["name"], f"{path}.name")

    if role == "assistant":
        fields["content"] = load_response(read, raw, path, notes, fields)
    else:
        fields["content"] = _load_plain_content(read, raw["content"], path, role, notes)

    if role == "tool":
        fields["is_error"] = raw["status"] == "error"
        answered = mended_text(read, raw["tool_call_id"], f"{path}.tool_call_id")
        if not answered:
            answered = notes["made_id"] = _NO_ID

        fields["tool_call_id"] = answered

    if read.count > problems:
        return None

    if len(read.mended) > mended_before:
        where = dict.fromkeys(read.mended[mended_before:])
        notes["mended"] = [each[len(path) + 1 :] for each in where]

    # Without notes no metadata is passed: checking an empty map would take a third more
    # time for a text without an id.
    kind = MESSAGE_CLASSES[role]
    if not notes:
        return kind(**fields)

    return keep_notes(partial(kind, **fields), read, notes, path)


def _report_class(read: DocumentReader, message: Any, path: str) -> None:
    kind = type(message)
    if not isinstance(message, tuple({*message_classes().values()})):
        read.wrong(path, message, "a message of LangChain's")
        return

    # A subclass could not be restored, because loading from a store never imports the
    # modules that its contents name.
    known = next(one.__name__ for one in kind.__mro__ if one in class_names())
    what = f"expected LangChain's {known}, got its subclass {kind.__name__}"
    read.problem(path, what)


def _collect_notes(
    message: Any, raw: dict[str, Any], name: str, role: str
) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    if name != DEFAULTS[role]:
        notes["class"] = name

    if raw["name"] == "":
        notes["name"] = ""

    if raw["id"] is not None:
        notes["id"] = raw["id"]

    for key in ("additional_kwargs", "response_metadata"):
        if raw[key]:
            notes[key] = raw[key]

    if role == "tool" and raw["artifact"] is not None:
        notes["artifact"] = raw["artifact"]

    known = _KNOWN[role]
    more = message.model_extra
    if more or not raw.keys() <= known:
        fields = {
            key: value
            for key, value in {**raw, **(more or {})}.items()
            if key not in known
            and not (key in _EMPTY_VALUES and value == _EMPTY_VALUES[key])
        }
        if fields:
            notes["fields"] = fields

    return notes


def _load_unknown(read: DocumentReader, message: Any, name: str, path: str) -> Message:
    # Empty fields are left out, because the class sets all of them again except the
    # content.
    fields = {
        key: value
        for key, value in vars(message).items()
        if key == "content" or (value is not None and value != {})
    }
    fields |= message.model_extra or {}
    raw = {**fields, "class": name}
    try:
        return UnknownMessage(raw, source=SOURCE)
    except InvalidMessageError:
        kept, odd = encode_value(read, raw, path), {"odd": True}
        return UnknownMessage(kept, source=SOURCE, metadata=with_notes(SOURCE, odd))


def _load_plain_content(
    read: DocumentReader, content: Any, path: str, role: str, notes: dict[str, Any]
) -> str | list[Part]:
    if isinstance(content, str):
        return mended_text(read, content, f"{path}.content")

    found = [
        read_block(read, block, f"{path}.content[{at}]", role, "")
        for at, block in enumerate(content)
    ]
    parts = [part for part in found if part is not None]
    if not parts:
        notes["empty"] = True

    texts: list[Part] = [part for part in parts if isinstance(part, TextPart)]
    if role != "system" or len(texts) == len(parts):
        return parts

    # Our `SystemMessage` holds text only, so a note keeps the other blocks and their
    # positions.
    notes["beside"] = [
        [at, content[at]]
        for at, part in enumerate(parts)
        if isinstance(part, UnknownPart)
    ]
    return texts
