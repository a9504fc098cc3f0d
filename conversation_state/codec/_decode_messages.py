"""
Reads messages, their parts, calls and usages.

Two passes. The fast one (`_readers`, generated) reads what is as usual, and is
in doubt about the rest. The slow one, here, reads a message that is in doubt
once more: a `Reader` checks types, so that it can report the path of a wrong
one, and leaves every other rule to the constructors of the values. A problem is
recorded and reading goes on; only the object with the problem is not
constructed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import JsonPath
from conversation_state.codec import _readers
from conversation_state.codec._fast import DOUBTS, Doubt, is_json
from conversation_state.codec._fast import read_usage as read_fast_usage
from conversation_state.codec._format import UNKNOWN
from conversation_state.codec._reader import (
    Read,
    Reader,
    Shape,
    array_reader,
    object_reader,
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
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)

__all__ = [
    "read_message",
    "read_messages",
    "read_part",
    "read_tool_call",
    "read_usage",
    "strict_shape",
]


def strict_shape(make: Callable[..., Any], *required: str, **fields: Read) -> Shape:
    return Shape(make, fields, required, keeps_unknown=False)


# Usages


def read_usage(reader: Reader, raw: Any, path: JsonPath) -> Any:
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


def _read_extra(reader: Reader, raw: Any, path: JsonPath) -> Any:
    if not reader.is_object(raw, path):
        return None

    return {key: reader.count(value, (path, key)) for key, value in raw.items()}


def _details_reader(kind: type[PromptTokensDetails | CompletionTokensDetails]) -> Read:
    return object_reader(strict_shape(kind, **dict.fromkeys(kind._names, Reader.count)))


_USAGE_READERS: dict[str, Read] = {
    "prompt_tokens": Reader.count,
    "completion_tokens": Reader.count,
    "total_tokens": Reader.count,
    "prompt_tokens_details": _details_reader(PromptTokensDetails),
    "completion_tokens_details": _details_reader(CompletionTokensDetails),
    "extra": _read_extra,
}


# Tool calls and responses


def read_tool_call(reader: Reader, raw: Any, path: JsonPath) -> Any:
    return reader.read_object(raw, path, _TOOL_CALL)


_TOOL_CALL_FIELDS: dict[str, Read] = {
    "id": Reader.text,
    "name": Reader.text,
    "arguments": Reader.text,
    "index": Reader.integer,
    "type": Reader.text,
    "metadata": Reader.json_map,
}
_TOOL_CALL = Shape(ToolCall, _TOOL_CALL_FIELDS, ("id", "name"))

_LOGPROB_FIELDS: dict[str, Read] = {
    "token": Reader.text,
    "logprob": Reader.number,
    "bytes": Reader.base64,
}
# An alternative has no alternatives of its own, so that nothing nests.
_read_top_logprobs = array_reader(
    object_reader(strict_shape(LogProb, "token", "logprob", **_LOGPROB_FIELDS))
)
_RESPONSE_FIELDS: dict[str, Read] = {
    "finish_reason": Reader.text,
    "usage": read_usage,
    "logprobs": array_reader(
        object_reader(
            strict_shape(
                LogProb, "token", "logprob", **_LOGPROB_FIELDS, top=_read_top_logprobs
            )
        )
    ),
    "model": Reader.text,
    "id": Reader.text,
}
_RESPONSE = Shape(ResponseMeta, _RESPONSE_FIELDS)


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
    reader: Reader, raw: Any, path: JsonPath, tagged: _TaggedShapes
) -> Any:
    """
    A part or a message, of a known kind or not.
    """
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

    if kind == UNKNOWN and not given.get("source"):
        name = given["raw"].get(tag)
        if name.__class__ is str and name in shapes and name != UNKNOWN:
            return _read_wrapped(reader, given, path, tagged)

    return reader.construct(path, shape.make, given)


def _read_wrapped(
    reader: Reader, given: dict[str, Any], path: JsonPath, tagged: _TaggedShapes
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


def read_part(reader: Reader, raw: Any, path: JsonPath) -> Any:
    return _read_tagged(reader, raw, path, _PARTS)


def _part_shape(kind: type[Part], *required: str, **fields: Read) -> Shape:
    common = {"metadata": Reader.json_map, "index": Reader.integer}
    return Shape(kind, {**fields, **common}, required)


_MEDIA_FIELDS: dict[str, Read] = {
    "url": Reader.text,
    "data": Reader.base64,
    "media_type": Reader.text,
}
_UNKNOWN_FIELDS: dict[str, Read] = {"raw": Reader.json_map, "source": Reader.text}
_PARTS = _TaggedShapes(
    "type",
    {
        "text": _part_shape(TextPart, "text", text=Reader.text),
        "image": _part_shape(ImagePart, **_MEDIA_FIELDS, detail=Reader.text),
        "audio": _part_shape(AudioPart, **_MEDIA_FIELDS),
        "video": _part_shape(VideoPart, **_MEDIA_FIELDS),
        "file": _part_shape(FilePart, **_MEDIA_FIELDS, name=Reader.text),
        "reasoning": _part_shape(
            ReasoningPart, text=Reader.text, signature=Reader.text
        ),
        "refusal": _part_shape(RefusalPart, "text", text=Reader.text),
        UNKNOWN: _part_shape(UnknownPart, "raw", **_UNKNOWN_FIELDS),
    },
    UnknownPart,
)


# Messages


def read_message(reader: Reader, raw: Any, path: JsonPath) -> Any:
    try:
        return _read_fast(raw, reader)
    except DOUBTS:
        if reader.problems.is_trial and not reader.is_parsed:
            raise  # it may hold itself, and the slow pass would never end

        return _read_slowly(reader, raw, path)


def _read_slowly(reader: Reader, raw: Any, path: JsonPath) -> Any:
    return _read_tagged(reader, raw, path, _MESSAGES)


def _read_fast(raw: Any, reader: Reader) -> Message:
    if raw.__class__ is not dict or not (reader.is_parsed or is_json(raw)):
        raise Doubt

    role = raw["role"]
    if role.__class__ is not str:
        raise Doubt

    message: Message = _FAST_READERS.get(role, _read_new)(raw, reader.seen)
    return message


_FAST_READERS = {role: read for role, read in _readers.MESSAGES.items() if role != "*"}
_read_new = _readers.MESSAGES["*"]


def _merge_content_fields(
    reader: Reader, given: dict[str, Any], path: JsonPath, kind: Any
) -> None:
    """
    Replace parts by content: a message has exactly one of the two.
    """
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


def read_messages(reader: Reader, raw: Any, path: JsonPath) -> list[Any] | None:
    if raw.__class__ is not list and not reader.is_array(raw, path):
        return None

    if not reader.is_parsed:
        return [read_message(reader, item, (path, i)) for i, item in enumerate(raw)]

    # The same without a call each, for what most messages are.
    readers, seen = _FAST_READERS, reader.seen
    made: list[Any] = []
    for i, item in enumerate(raw):
        try:
            made.append(readers[item["role"]](item, seen))
        except (*DOUBTS, TypeError):
            role = item.get("role") if item.__class__ is dict else None
            known = role.__class__ is str and role in readers
            read = _read_slowly if known else read_message
            made.append(read(reader, item, (path, i)))

    return made


def _message_shape(kind: type[Message], *required: str, **fields: Read) -> Shape:
    common: dict[str, Read] = {
        "name": Reader.text,
        "run_id": Reader.uuid,
        "turn_id": Reader.uuid,
        "timestamp": Reader.time,
        "metadata": Reader.json_map,
    }
    return Shape(kind, {**fields, **common}, required)


_CONTENT_FIELDS: dict[str, Read] = {
    "content": Reader.text,
    "parts": array_reader(read_part),
}
_MESSAGES = _TaggedShapes(
    "role",
    {
        "system": _message_shape(SystemMessage, **_CONTENT_FIELDS),
        "user": _message_shape(UserMessage, **_CONTENT_FIELDS),
        "assistant": _message_shape(
            AssistantMessage,
            **_CONTENT_FIELDS,
            tool_calls=array_reader(read_tool_call),
            response=object_reader(_RESPONSE),
        ),
        "tool": _message_shape(
            ToolMessage,
            "tool_call_id",
            **_CONTENT_FIELDS,
            tool_call_id=Reader.text,
            tool_name=Reader.text,
            is_error=Reader.boolean,
        ),
        UNKNOWN: _message_shape(UnknownMessage, "raw", **_UNKNOWN_FIELDS),
    },
    UnknownMessage,
)
