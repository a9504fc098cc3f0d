"""
Messages, their parts, calls and usages.

Two passes read them. the fast one (`_fast`) reads what is as usual,
and is in doubt about the rest. The slow one, here, reads a message that is in doubt
once more: a `CodecReader` checks types, so that it can report the path of a wrong
one, and leaves every other rule to the constructors of the values. A problem is
recorded and reading goes on; only the object with the problem is not
constructed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import JsonPath, dump
from conversation_state._wording import describe_value
from conversation_state.codec._fast import (
    MESSAGE_READERS,
    MESSAGE_WRITERS,
    UNUSUAL_ERRORS,
    Object,
)
from conversation_state.codec._fast import read_usage as read_fast_usage
from conversation_state.codec._format import UNKNOWN
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    object_reader,
    strict_shape,
)
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import KINDS, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

# Usages


def read_usage(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if reader.is_plain:
        with suppress(*UNUSUAL_ERRORS):
            return read_fast_usage(raw)

    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in raw.items():
        read = _USAGE_READERS.get(key)
        if read is None:
            # Unknown names are further categories of tokens.
            extra[key] = reader.count(value, (path, key))
        else:
            given[key] = read(reader, value, (path, key))

    if reader.problems.count != before:
        return None

    for key, value in given.pop("extra", {}).items():
        if key in extra:
            reader.problems.add((path, key), "is in extra as well")

        extra[key] = value

    if extra:
        given["extra"] = extra

    return reader.construct(path, Usage, given)


def _read_extra(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if not reader.is_object(raw, path):
        return None

    return {key: reader.count(value, (path, key)) for key, value in raw.items()}


def _details_reader(kind: type[PromptTokensDetails | CompletionTokensDetails]) -> Read:
    return object_reader(
        strict_shape(kind, **dict.fromkeys(kind._names, CodecReader.count))
    )


_USAGE_READERS: dict[str, Read] = {
    "prompt_tokens": CodecReader.count,
    "completion_tokens": CodecReader.count,
    "total_tokens": CodecReader.count,
    "prompt_tokens_details": _details_reader(PromptTokensDetails),
    "completion_tokens_details": _details_reader(CompletionTokensDetails),
    "extra": _read_extra,
}


# Tool calls and responses


def read_tool_call(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return reader.read_object(raw, path, _TOOL_CALL)


_LOGPROB_FIELDS: dict[str, Read] = {
    "token": CodecReader.text,
    "logprob": CodecReader.number,
    "bytes": CodecReader.base64,
}
# An alternative has no alternatives of its own, so nothing is nested.
_read_top_logprobs = array_reader(
    object_reader(strict_shape(LogProb, "token", "logprob", **_LOGPROB_FIELDS))
)
_LOGPROB = strict_shape(
    LogProb, "token", "logprob", **_LOGPROB_FIELDS, top=_read_top_logprobs
)

# What reads a field of a value class, by the field's annotation.
_READS: dict[str, Read] = {
    "str": CodecReader.text,
    "bool": CodecReader.boolean,
    "int": CodecReader.integer,
    "bytes": CodecReader.base64,
    "Mapping[str, Any]": CodecReader.json_map,
    "Usage": read_usage,
    "tuple[LogProb, ...]": array_reader(object_reader(_LOGPROB)),
    "tuple[ToolCall, ...]": array_reader(read_tool_call),
}


def make_shape(cls: type, **special: Read) -> Shape:
    """
    The shape of a value class: its attrs fields, each read as its annotation says,
    or by what *special* has for it.
    """
    fields, required = special, []
    # Messages write their own `__init__`, of which attrs knows no defaults.
    defaults = cls.__init__.__kwdefaults__ or {}  # type: ignore[misc]
    for field in attrs.fields(cls):
        name, annotation = field.name, str(field.type).removesuffix(" | None")
        if name not in special and annotation in _READS and name != "unknown":
            fields[name] = _READS[annotation]

        if name in fields and field.default is attrs.NOTHING and name not in defaults:
            required.append(name)

    return Shape(cls, fields, tuple(required))


_TOOL_CALL = make_shape(ToolCall)
_RESPONSE = make_shape(ResponseMeta)


# Parts


class _TaggedShapes(NamedTuple):
    """Shapes of objects by the value of a tag: messages by role, parts by type."""

    tag: str  # the name of the field
    shapes: dict[str, Shape]  # the shape of each known value
    unknown: Callable[..., Any]  # the class that keeps all others as they are


def _read_tagged(
    reader: CodecReader, raw: Any, path: JsonPath, tagged: _TaggedShapes
) -> Any:
    tag, shapes, unknown = tagged
    if not reader.is_object(raw, path) or not reader.has_text(raw, tag, path):
        return None

    kind = raw[tag]
    if kind not in shapes:
        reader.has_foreign_json = True
        return reader.construct(path, unknown, {"raw": raw}, whole_field="raw")

    if kind == UNKNOWN and not raw.get("source"):
        raw = _unwrap_value(raw, tag, shapes)
        kind = raw[tag]

    shape = shapes[kind]
    before = reader.problems.count
    given = reader.read_fields(raw, path, shape, tag)
    if "content" in shape.fields:
        _merge_content_fields(reader, given, path, shape.make)

    if reader.problems.count != before:
        return None

    return reader.construct(path, shape.make, given)


def _unwrap_value(
    raw: dict[str, Any], tag: str, shapes: Mapping[str, Shape]
) -> dict[str, Any]:
    """
    The value in the wrapper *raw*, with what was added to the wrapper, if an older
    version wrapped it because it did not know its kind; else *raw* as it is.
    """
    inner: Any = raw.get("raw")
    kind = inner.get(tag) if inner.__class__ is dict else None
    if kind.__class__ is not str or kind == UNKNOWN or kind not in shapes:
        return raw

    added = {key: raw[key] for key in raw if key not in (tag, "raw", "source")}
    ours: Any = added.get("metadata")
    theirs = inner.get("metadata")
    if ours.__class__ is theirs.__class__ is dict:
        added["metadata"] = {**theirs, **ours}

    return {**inner, **added}


def read_part(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return _read_tagged(reader, raw, path, _PARTS)


_PARTS = _TaggedShapes(
    "type",
    {
        **{kind: make_shape(cls) for kind, cls in KINDS.items()},
        UNKNOWN: make_shape(UnknownPart),
    },
    UnknownPart,
)


# Messages


def read_message(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if reader.is_plain:
        with suppress(*UNUSUAL_ERRORS, TypeError):
            return MESSAGE_READERS[raw["role"]](raw, reader.interned)

    return _read_tagged(reader, raw, path, _MESSAGES)


def read_messages(reader: CodecReader, raw: Any, path: JsonPath) -> list[Any] | None:
    if raw.__class__ is not list or not reader.is_plain:
        return reader.read_array(raw, path, read_message)

    # This does the same without a call for each message.
    readers, interned = MESSAGE_READERS, reader.interned
    made: list[Any] = []
    for i, item in enumerate(raw):
        try:
            made.append(readers[item["role"]](item, interned))
        except (
            *UNUSUAL_ERRORS,
            TypeError,
        ):  # an item that is not an object, for example
            made.append(_read_tagged(reader, item, (path, i), _MESSAGES))

    return made


def _merge_content_fields(
    reader: CodecReader, given: dict[str, Any], path: JsonPath, kind: Any
) -> None:
    if "parts" not in given:
        if "content" not in given and kind is not AssistantMessage:
            reader.problems.add((path, "content"), "missing")

        return

    if "content" in given:
        reader.problems.add(
            (path, "parts"), "conflicts with content; a message has one of the two"
        )

    given["content"] = parts = given.pop("parts") or ()
    for i, part in enumerate(parts):
        if part is not None and part.kind not in kind._holds:
            may = ", ".join(sorted(kind._holds))
            what = f"{kind.role} messages can only contain parts of {may}"
            reader.problems.add(((path, "parts"), i), what)


def _message_shape(cls: type[Message]) -> Shape:
    common: dict[str, Read] = {
        "name": CodecReader.text,
        "run_id": CodecReader.uuid,
        "turn_id": CodecReader.uuid,
        "timestamp": CodecReader.time,
        "metadata": CodecReader.json_map,
    }
    if cls is AssistantMessage:
        common["response"] = object_reader(_RESPONSE)

    shape = make_shape(cls, **common)
    if cls is UnknownMessage:
        return shape

    # Either field may be given; that only one is, is checked where they are merged.
    fields = {
        **shape.fields,
        "content": CodecReader.text,
        "parts": array_reader(read_part),
    }
    return shape._replace(
        fields=fields, required=tuple({*shape.required} - {"content"})
    )


_MESSAGES = _TaggedShapes(
    "role",
    {
        cls.role: _message_shape(cls)
        for cls in (
            SystemMessage,
            UserMessage,
            AssistantMessage,
            ToolMessage,
            UnknownMessage,
        )
    },
    UnknownMessage,
)


# Writing


def write_message(message: Message) -> Object:
    """
    Raises:
        TypeError: If it is of no class of this library.
    """
    try:
        write = MESSAGE_WRITERS[message.__class__]
    except KeyError:
        raise TypeError(f"can't encode {describe_value(message)}") from None

    return write(message)  # type: ignore[no-any-return]


def encode_message(message: Message) -> bytes:
    """
    *message* as JSON text. Deterministic; about a microsecond.

    Raises:
        TypeError: If it is of no class of this library.
    """
    return dump(write_message(message))


def write_messages(messages: Iterable[Message]) -> list[Object]:
    return [write_message(message) for message in messages]
