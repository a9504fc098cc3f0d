"""Messages from LangChain's to ours, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from conversation_state.adapters.engine.export import Export, PayloadWriter
from conversation_state.adapters.engine.notes import (
    RESERVED,
    has_own,
    notes_of,
    with_notes,
)
from conversation_state.adapters.engine.reading import DocumentReader
from conversation_state.adapters.engine.wire import MESSAGE_CLASSES
from conversation_state.adapters.langchain._blocks import (
    mended_text,
    read_block,
    thaw_notes,
    write_block,
)
from conversation_state.adapters.langchain._response import (
    dump_call_block,
    load_response,
    put_response,
    write_call,
)
from conversation_state.adapters.langchain._values import (
    CLASSES,
    DEFAULTS,
    ROLES,
    SOURCE,
    class_names,
    decode_value,
    encode_value,
    keep_notes,
    make_message,
    message_classes,
    restore_message,
)
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, RefusalPart, TextPart, UnknownPart

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
# The fields that are read of a message that can't be kept as a whole.
_READABLE = (
    *("content", "id", "invalid_tool_calls", "name", "role", "status"),
    *("tool_call_id", "tool_calls", "usage_metadata"),
)
# The id of a result that has none, because our `ToolMessage` requires one.
_NO_ID = "no_id"


def load(messages: Any) -> tuple[Message, ...]:
    """
    Our messages for LangChain's *messages*, or for a single one of them; a list may
    also hold dumps of messages, as ``messages_to_dict`` and ``dumpd`` make them.

    Nothing is lost: content without an equivalent is kept as an unknown part or
    message, or in notes (see this package). A lone surrogate in a text becomes
    U+FFFD, and a note lists its path.

    Raises:
        DecodeError: If a message is not of one of LangChain's own classes, or can't be
            kept, for example because its artifact is an arbitrary object; with every
            problem and its path.
        MissingExtraError: If LangChain is not installed.
    """
    reader = DocumentReader()
    source: Iterable[Any] = messages
    # Checked first, because a message is iterable, too: it yields its fields.
    if type(messages) in class_names():
        source = (messages,)
    elif isinstance(messages, (str, bytes, Mapping)) or not isinstance(
        messages, Iterable
    ):
        reader.wrong("$", messages, "messages of LangChain's")
        source = ()

    found = [_load_any(reader, one, f"$[{at}]") for at, one in enumerate(source)]
    reader.finish()
    return tuple([message for message in found if message is not None])


def load_message(message: Any) -> Message:
    reader = DocumentReader()
    found = _load_any(reader, message, "$")
    reader.finish()
    assert found is not None  # noqa: S101 - else `finish` raises
    return found


def load_readable(message: Any) -> Message:
    """
    Our message for one that need not be restored: of a *message* that can't be kept as
    a whole its content, its calls, its usage, and what is plain text, a number or a
    boolean of its ``response_metadata``.

    Raises:
        DecodeError: If it is not a message of LangChain's, or these can't be kept.
    """
    try:
        return load_message(message)
    except DecodeError:
        names = map(class_names().get, type(message).__mro__)
        name = next(filter(None, names), None)
        if name is None:
            raise

        values = vars(message)
        fields = {field: values[field] for field in _READABLE if field in values}
        metadata = values.get("response_metadata")
        if isinstance(metadata, dict):
            fields["response_metadata"] = {
                key: value
                for key, value in metadata.items()
                if type(key) is str and type(value) in {bool, float, int, str}
            }

        return load_message(make_message(name, fields))


def _load_any(reader: DocumentReader, message: Any, path: str) -> Message | None:
    if isinstance(message, dict):
        try:
            message = restore_message(message)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            first = str(error).partition("\n")[0]
            reader.problem(path, f"can't be restored: {first}")
            return None

    name = class_names().get(type(message))
    if name is None:
        _report_class(reader, message, path)
        return None

    try:
        return _load_known(reader, message, name, path)
    except (AttributeError, LookupError, TypeError) as error:
        # Setting a field of a message does not validate it.
        reader.problem(path, f"is not a valid {name}: {error!r}")
        return None


def _load_known(
    reader: DocumentReader, message: Any, name: str, path: str
) -> Message | None:
    raw: dict[str, Any] = vars(message)
    role = CLASSES[name] or ROLES.get(raw.get("role", ""), "")
    if not role:
        return _load_unknown(reader, message, name, path)

    problems, mended_before = reader.count, len(reader.mended)
    notes = _collect_notes(message, raw, name, role)
    fields: dict[str, Any] = {}
    if raw["name"]:
        key = "tool_name" if role == "tool" else "name"
        fields[key] = mended_text(reader, raw["name"], f"{path}.name")

    if role == "assistant":
        fields["content"] = load_response(reader, raw, path, notes, fields)
    else:
        fields["content"] = _load_plain_content(
            reader, raw["content"], path, role, notes
        )

    if role == "tool":
        fields["is_error"] = raw["status"] == "error"
        answered = mended_text(reader, raw["tool_call_id"], f"{path}.tool_call_id")
        if not answered:
            answered = notes["made_id"] = _NO_ID

        fields["tool_call_id"] = answered

    if reader.count > problems:
        return None

    if len(reader.mended) > mended_before:
        where = dict.fromkeys(reader.mended[mended_before:])
        notes["mended"] = [each[len(path) + 1 :] for each in where]

    # Without notes no metadata is passed: checking an empty map would take a third more
    # time for a text without an id.
    kind = MESSAGE_CLASSES[role]
    if not notes:
        return kind(**fields)

    return keep_notes(partial(kind, **fields), reader, notes, path)


def _report_class(reader: DocumentReader, message: Any, path: str) -> None:
    kind = type(message)
    if not isinstance(message, tuple({*message_classes().values()})):
        reader.wrong(path, message, "a message of LangChain's")
        return

    # A subclass could not be restored, because loading from a store never imports the
    # modules that its contents name.
    known = next(one.__name__ for one in kind.__mro__ if one in class_names())
    what = f"expected LangChain's {known}, got its subclass {kind.__name__}"
    reader.problem(path, what)


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


def _load_unknown(
    reader: DocumentReader, message: Any, name: str, path: str
) -> Message:
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
        kept, odd = encode_value(reader, raw, path), {"odd": True}
        return UnknownMessage(kept, source=SOURCE, metadata=with_notes(SOURCE, odd))


def _load_plain_content(
    reader: DocumentReader, content: Any, path: str, role: str, notes: dict[str, Any]
) -> str | list[Part]:
    if isinstance(content, str):
        return mended_text(reader, content, f"{path}.content")

    found = [
        read_block(reader, block, f"{path}.content[{at}]", role, "")
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
    notes["blocks"] = [
        [at, content[at]]
        for at, part in enumerate(parts)
        if isinstance(part, UnknownPart)
    ]
    return texts


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of LangChain's.

    Messages that were loaded from LangChain come back equal, of the same class.
    `Export.lost` lists what differs from *messages* when they are loaded again:
    content that LangChain does not support or that is specific to another
    format, and mended texts. A signature is written if LangChain had it before,
    if there is a block for it, or if its signer is unknown.

    Raises:
        InvalidMessageError: If one of them is not a message.
        MissingExtraError: If LangChain is not installed.
    """
    writer = PayloadWriter(SOURCE)
    found = [
        _dump_any(writer, message, path) for message, path in writer.each(messages)
    ]
    payload = [message for message in found if message is not None]
    return Export(payload, tuple(writer.lost))


# *message* as one of LangChain's; None if LangChain does not support it.
def dump_message(message: Message) -> Any:
    made = _dump_text_message(message)
    return made or _dump_any(PayloadWriter(SOURCE), message, "messages[0]")


def _dump_any(writer: PayloadWriter, message: Message, path: str) -> Any:
    made = _dump_text_message(message)
    if made is not None:
        return made

    notes = thaw_notes(writer.notes_on(message, path))
    ours = {
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
        "metadata": has_own(message.metadata),
    }
    writer.lose_each(path, ours, "not supported by LangChain")
    if isinstance(message, UnknownMessage):
        return _write_unknown(writer, message, path, notes)

    fields: dict[str, Any] = {}
    kwargs = notes.get("additional_kwargs", {})
    content = _build_content(writer, message, path, notes, kwargs)
    if isinstance(message, AssistantMessage):
        content = _put_calls(writer, message, path, content, fields)
        put_response(writer, message, path, notes, fields)
    elif "response_metadata" in notes:
        fields["response_metadata"] = notes["response_metadata"]

    if isinstance(message, ToolMessage):
        _put_result(writer, message, path, notes, fields)
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
    writer: PayloadWriter,
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
    writer.lose_each(path, {"name": bool(message.name)}, why)


def _write_unknown(
    writer: PayloadWriter, message: UnknownMessage, path: str, notes: Mapping[str, Any]
) -> Any:
    raw = writer.unknown(message.raw, message.source, path)
    if raw is None:
        return None

    why = "not supported on an unknown message"
    writer.lose_each(path, {"name": bool(message.name)}, why)
    if notes.get("odd"):
        raw = decode_value(raw)

    name = raw.pop("class", None)
    if str(name) not in CLASSES:
        writer.lose(path, "class", "is not one of LangChain's messages")
        return None

    return make_message(name, raw)


def _build_content(
    writer: PayloadWriter,
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

        block = write_block(writer, part, f"{path}.parts[{at}]")
        if block is not None:
            blocks.append(block)

    # Each position is one in the whole list. They are in ascending order, so a block
    # that is inserted later moves none of those before it.
    for at, block in notes.get("blocks", ()):
        blocks.insert(at, block)

    if notes.get("text") and all(
        isinstance(part, TextPart) for part in message.content if not _is_aside(part)
    ):
        return message.text

    return blocks or ([] if notes.get("empty") else "")


def _put_calls(
    writer: PayloadWriter,
    message: AssistantMessage,
    path: str,
    content: Any,
    fields: dict[str, Any],
) -> Any:
    """Put the calls of *message* into *fields*, their blocks into *content*."""
    calls: dict[str, list[Any]] = {"tool_call": [], "invalid_tool_call": []}
    blocks: list[tuple[int, dict[str, Any]]] = []
    for at, call in enumerate(message.tool_calls):
        where = f"{path}.tool_calls[{at}]"
        raw, notes = write_call(writer, call, where)
        invalid = not isinstance(raw.get("args"), dict)
        if calls["invalid_tool_call"] and not invalid:
            why = "calls with invalid arguments come last in LangChain"
            writer.lose(where, "place", why)

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
