"""
Reads messages, their parts, calls and usages, tools and documents.

Two passes. The fast one (`_readers`, generated) reads what is as usual, and is
in doubt about the rest. The slow one, here, reads a message that is in doubt
once more: a `CodecReader` checks types, so that it can report the path of a wrong
one, and leaves every other rule to the constructors of the values. A problem is
recorded and reading goes on; only the object with the problem is not
constructed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import JsonPath, is_loadable
from conversation_state._persistent import FrozenMap, freeze_map
from conversation_state.codec import _readers
from conversation_state.codec._fast import DOUBTS, Doubt
from conversation_state.codec._fast import read_usage as read_fast_usage
from conversation_state.codec._format import UNKNOWN
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    object_reader,
)
from conversation_state.documents import Document
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
from conversation_state.parts import KINDS, Part, UnknownPart
from conversation_state.tools import MAX_PARAMETER_LEVELS, Parameter, ToolCall, ToolInfo
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage


def strict_shape(make: Callable[..., Any], *required: str, **fields: Read) -> Shape:
    return Shape(make, fields, required, keeps_unknown=False)


# Usages


def read_usage(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if reader.is_parsed:
        with suppress(*DOUBTS):
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


def _make_shape(cls: type, **special: Read) -> Shape:
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


_TOOL_CALL = _make_shape(ToolCall)
_RESPONSE = _make_shape(ResponseMeta)


# Parts


class _TaggedShapes(NamedTuple):
    """
    Shapes of objects by the value of a tag: messages by role, parts by type.

    Attributes:
        tag: The name of the field.

        shapes: The shape of each known value.

        unknown: The class that keeps all others as they are.
    """

    tag: str
    shapes: dict[str, Shape]
    unknown: Callable[..., Any]


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

    shape = shapes[kind]
    before = reader.problems.count
    given = reader.read_fields(raw, path, shape, tag)
    if "content" in shape.fields:
        _merge_content_fields(reader, given, path, shape.make)

    if reader.problems.count != before:
        return None

    # A value with a source is of a provider's kind, even if the kind has the same name
    # as one of ours.
    if kind == UNKNOWN and not given.get("source"):
        name = given["raw"].get(tag)
        if name.__class__ is str and name in shapes and name != UNKNOWN:
            return _read_wrapped(reader, given, path, tagged)

    return reader.construct(path, shape.make, given)


def _read_wrapped(
    reader: CodecReader, given: dict[str, Any], path: JsonPath, tagged: _TaggedShapes
) -> Any:
    """
    A value that an older version wrapped, because it did not know its kind.

    Fields that were added to the wrapper go into the value.
    """
    value = _read_tagged(reader, given.pop("raw"), (path, "raw"), tagged)
    if value is None:
        return None

    given.pop("source", None)
    for name in ("metadata", "unknown"):
        if name in given:
            given[name] = {**getattr(value, name), **given[name]}

    replace = attrs.evolve if isinstance(value, Part) else type(value).replace
    return reader.construct(path, lambda **changes: replace(value, **changes), given)


def read_part(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return _read_tagged(reader, raw, path, _PARTS)


_PARTS = _TaggedShapes(
    "type",
    {
        **{kind: _make_shape(cls) for kind, cls in KINDS.items()},
        UNKNOWN: _make_shape(UnknownPart),
    },
    UnknownPart,
)


# Messages


def read_message(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    try:
        return _read_fast(raw, reader)
    except DOUBTS:
        return _read_slowly(reader, raw, path)


def _read_slowly(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return _read_tagged(reader, raw, path, _MESSAGES)


def _read_fast(raw: Any, reader: CodecReader) -> Message:
    if raw.__class__ is not dict or not (reader.is_parsed or is_loadable(raw)):
        raise Doubt

    role = raw["role"]
    if role.__class__ is not str:
        raise Doubt

    message: Message = _FAST_READERS.get(role, _read_new)(raw, reader.seen)
    return message


_FAST_READERS = {role: read for role, read in _readers.MESSAGES.items() if role != "*"}
_read_new = _readers.MESSAGES["*"]


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


def read_messages(reader: CodecReader, raw: Any, path: JsonPath) -> list[Any] | None:
    if raw.__class__ is not list and not reader.is_array(raw, path):
        return None

    if not (reader.is_parsed or is_loadable(raw)):
        return [read_message(reader, item, (path, i)) for i, item in enumerate(raw)]

    # This does the same without a call for each message, for the kinds that most
    # messages have.
    readers, seen = _FAST_READERS, reader.seen
    made: list[Any] = []
    for i, item in enumerate(raw):
        try:
            made.append(readers[item["role"]](item, seen))
        except (*DOUBTS, TypeError):  # an item that is not an object, for example
            # A message that the fast pass has just refused is not given to it again.
            role = item.get("role") if item.__class__ is dict else None
            known = role.__class__ is str and role in readers
            read = _read_slowly if known else read_message
            made.append(read(reader, item, (path, i)))

    return made


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

    shape = _make_shape(cls, **common)
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


# Tools and documents


def _read_parameters(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    reader.has_foreign_json = True
    if raw.__class__ is dict:
        if raw.get("type").__class__ is str:
            return raw

        schema = raw.get("schema") if len(raw) == 1 else None
        if isinstance(schema, dict) and schema.get("type").__class__ is not str:
            return _read_wrapped_schema(reader, schema, (path, "schema"))

    return _read_parameters_by_name(reader, raw, path, MAX_PARAMETER_LEVELS)


def _read_wrapped_schema(
    reader: CodecReader, raw: dict[str, Any], path: JsonPath
) -> Any:
    """
    A schema that was wrapped, because its type is not a text.
    """
    if not raw:
        return reader.problems.add(path, "is empty")

    try:
        return freeze_map(raw, "it", keep_order=True)
    except ValueError:
        return reader.check_json(raw, path)


def _read_parameters_by_name(
    reader: CodecReader, raw: Any, path: JsonPath, levels: int
) -> Any:
    if not reader.is_object(raw, path):
        return None

    # Frozen, because a dict would be taken for a JSON Schema.
    return FrozenMap(
        {key: _read_parameter(reader, raw[key], (path, key), levels) for key in raw}
    )


def _read_parameter(reader: CodecReader, raw: Any, path: JsonPath, levels: int) -> Any:
    # The depth is checked here, because the constructor that checks it runs after the
    # recursion, and JSON may be nested more deeply than Python can recurse.
    if not levels:
        what = f"nested more than {MAX_PARAMETER_LEVELS} levels deep"
        return reader.problems.add(path, what)

    fields: dict[str, Read] = {
        "type": CodecReader.text,
        "description": CodecReader.text,
        "required": CodecReader.boolean,
        "enum": _read_enum_values,
        "items": partial(_read_parameter, levels=levels - 1),
        "properties": partial(_read_parameters_by_name, levels=levels - 1),
    }
    return reader.read_object(
        raw, path, Shape(Parameter, fields, ("type",), keeps_unknown=False)
    )


def _read_enum_values(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return raw if reader.is_array(raw, path) else None


TOOL_INFO = _make_shape(ToolInfo, parameters=_read_parameters)
DOCUMENT = _make_shape(Document)
