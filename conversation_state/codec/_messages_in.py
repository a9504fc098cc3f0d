"""
Messages in: what they, their parts, calls and usages are read from.

One pass and one set of rules. A `Reader` looks at types, so that it can say
where one is wrong, and leaves every other rule to the constructors of the
values. What is wrong is noted, and reading goes on beside it; only an object
in which something is wrong is not made.

The functions that say *usual* are shorter ways to the same values, for what
most messages are. Where they have any doubt they give up, and the long way
finds out what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import attrs

from conversation_state.codec._problems import At
from conversation_state.codec._reading import Read, Reader, Shape, many, one
from conversation_state.codec._wire import UNKNOWN
from conversation_state.errors import InvalidMessageError, InvalidUsageError
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
from conversation_state.messages._base import Common
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
    "strict",
]

_set = object.__setattr__


def strict(make: Callable[..., Any], *required: str, **fields: Read) -> Shape:
    return Shape(make, fields, required, grows=False)


# Usages


# The total is their sum, and left out.
_USUAL_COUNTS = ("prompt_tokens", "completion_tokens")


def read_usage(reader: Reader, raw: Any, at: At) -> Any:
    if not reader.is_object(raw, at):
        return None

    if len(raw) == len(_USUAL_COUNTS):
        with suppress(KeyError, InvalidUsageError):
            return Usage(*[raw[name] for name in _USUAL_COUNTS])

    before = reader.problems.count
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in raw.items():
        read = _USAGE.get(key)
        if read is None:
            # A category of its own, as any is that has no field yet.
            extra[key] = reader.count(value, (at, key))
        else:
            given[key] = read(reader, value, (at, key))

    if reader.problems.count != before:
        return None

    for key, value in given.pop("extra", {}).items():
        if key in extra:
            reader.problems.add((at, key), "is in extra, too")

        extra[key] = value

    if extra:
        given["extra"] = extra

    return reader.made(at, Usage, given)


def _extra(reader: Reader, raw: Any, at: At) -> Any:
    if not reader.is_object(raw, at):
        return None

    return {key: reader.count(value, (at, key)) for key, value in raw.items()}


def _breakdown(kind: type[PromptTokensDetails | CompletionTokensDetails]) -> Read:
    return one(strict(kind, **dict.fromkeys(kind._names, Reader.count)))


_USAGE: dict[str, Read] = {
    "prompt_tokens": Reader.count,
    "completion_tokens": Reader.count,
    "total_tokens": Reader.count,
    "prompt_tokens_details": _breakdown(PromptTokensDetails),
    "completion_tokens_details": _breakdown(CompletionTokensDetails),
    "extra": _extra,
}


# Tool calls and responses


_USUAL_CALL = ("id", "name", "arguments")


def read_tool_call(reader: Reader, raw: Any, at: At) -> Any:
    if raw.__class__ is dict and len(raw) == len(_USUAL_CALL):
        with suppress(KeyError, InvalidMessageError):
            return ToolCall(*[raw[name] for name in _USUAL_CALL])

    return reader.object(raw, at, _TOOL_CALL)


_CALL: dict[str, Read] = {
    "id": Reader.text,
    "name": Reader.text,
    "arguments": Reader.text,
    "index": Reader.integer,
    "type": Reader.text,
    "metadata": Reader.json_map,
}
_TOOL_CALL = Shape(ToolCall, _CALL, ("id", "name"))

_LIKELY: dict[str, Read] = {
    "token": Reader.text,
    "logprob": Reader.number,
    "bytes": Reader.base64,
}
# Those at one place have none of their own, so nothing nests.
_TOP = many(one(strict(LogProb, "token", "logprob", **_LIKELY)))
_TOLD: dict[str, Read] = {
    "finish_reason": Reader.text,
    "usage": read_usage,
    "logprobs": many(one(strict(LogProb, "token", "logprob", **_LIKELY, top=_TOP))),
    "model": Reader.text,
}
_RESPONSE = Shape(ResponseMeta, _TOLD)


# Parts


class _Family(NamedTuple):
    """
    Objects that say what they are.

    Attributes:
        tag: The field that says it.

        shapes: What each of ours looks like.

        unknown: What is made of the others, as they are.
    """

    tag: str
    shapes: dict[str, Shape]
    unknown: Callable[..., Any]


def _tagged(reader: Reader, raw: Any, at: At, family: _Family) -> Any:
    """
    A part or a message, of ours or not.
    """
    tag, shapes, unknown = family
    if not reader.is_object(raw, at) or not reader.has_text(raw, tag, at):
        return None

    kind = raw[tag]
    if kind not in shapes:
        reader.has_maps = True
        return reader.made(at, unknown, {"raw": raw}, whole="raw")

    shape = shapes[kind]
    before = reader.problems.count
    given = reader.fields(raw, at, shape, tag)
    if "content" in shape.fields:
        _settle_content(reader, given, at, shape.make)

    if reader.problems.count != before:
        return None

    if kind == UNKNOWN and not given.get("source"):
        name = given["raw"].get(tag)
        if name.__class__ is str and name in shapes and name != UNKNOWN:
            return _unwrapped(reader, given, at, family)

    return reader.made(at, shape.make, given)


def _unwrapped(reader: Reader, given: dict[str, Any], at: At, family: _Family) -> Any:
    """
    What an older version wrapped because it had no word for it.

    What was said about it since then is now said about what it is.
    """
    value = _tagged(reader, given.pop("raw"), (at, "raw"), family)
    if value is None:
        return None

    given.pop("source", None)
    for name in ("metadata", "unknown"):
        if name in given:
            given[name] = {**getattr(value, name), **given[name]}

    replace = attrs.evolve if isinstance(value, Part) else type(value).replace
    return reader.made(at, lambda **changes: replace(value, **changes), given)


def read_part(reader: Reader, raw: Any, at: At) -> Any:
    return _tagged(reader, raw, at, _PARTS)


def _part_of(kind: type[Part], *required: str, **fields: Read) -> Shape:
    common = {"metadata": Reader.json_map, "index": Reader.integer}
    return Shape(kind, {**fields, **common}, required)


_MEDIA: dict[str, Read] = {
    "url": Reader.text,
    "data": Reader.base64,
    "media_type": Reader.text,
}
_FOREIGN: dict[str, Read] = {"raw": Reader.json_map, "source": Reader.text}
_PARTS = _Family(
    "type",
    {
        "text": _part_of(TextPart, "text", text=Reader.text),
        "image": _part_of(ImagePart, **_MEDIA, detail=Reader.text),
        "audio": _part_of(AudioPart, **_MEDIA),
        "video": _part_of(VideoPart, **_MEDIA),
        "file": _part_of(FilePart, **_MEDIA, name=Reader.text),
        "reasoning": _part_of(ReasoningPart, text=Reader.text, signature=Reader.text),
        "refusal": _part_of(RefusalPart, "text", text=Reader.text),
        UNKNOWN: _part_of(UnknownPart, "raw", **_FOREIGN),
    },
    UnknownPart,
)


# Messages


def read_message(reader: Reader, raw: Any, at: At) -> Any:
    before = reader.problems.count
    message = _usual_message(reader, raw, at)
    if message is not None and reader.problems.count == before:
        return message

    reader.problems.forget(before)
    return _tagged(reader, raw, at, _MESSAGES)


def _usual_message(reader: Reader, raw: Any, at: At) -> Message | None:
    """
    The message, if it is a text, perhaps with calls and a response.
    """
    if raw.__class__ is not dict:
        return None

    role = raw.get("role")
    content = raw.get("content", "" if role == "assistant" else None)
    if content.__class__ is not str:
        return None

    message: Message
    left = len(raw) - 1 - ("content" in raw)
    try:
        if role == "assistant":
            message = _usual_answer(reader, raw, content, at)
            left -= ("tool_calls" in raw) + ("response" in raw)
        elif role == "tool":
            call_id, name = raw["tool_call_id"], raw.get("tool_name", "")
            message = ToolMessage(content, tool_call_id=call_id, tool_name=name)
            left -= 1 + ("tool_name" in raw)
        elif role == "user":
            message = UserMessage(content)
        else:
            return None
    except (KeyError, InvalidMessageError):
        return None

    if left:
        common = _usual_common(reader, raw, left, at)
        if common is None:
            return None

        # The message was made a line ago and nobody else has it yet.
        _set(message, "_common", common)

    return message


def _usual_answer(
    reader: Reader, raw: dict[str, Any], content: str, at: At
) -> AssistantMessage:
    calls: Any = ()
    if "tool_calls" in raw:
        calls = (
            reader.array(raw["tool_calls"], (at, "tool_calls"), read_tool_call) or ()
        )

    response = None
    if "response" in raw:
        response = reader.object(raw["response"], (at, "response"), _RESPONSE)

    return AssistantMessage(content, tool_calls=calls, response=response)


def _usual_common(
    reader: Reader, raw: dict[str, Any], left: int, at: At
) -> Common | None:
    """
    What any message may have, if the *left* fields are of that, and are not
    metadata.

    One object for messages one after another that say the same, as those of
    an envelope do: that is how they were before they were written.
    """
    stamp = raw.get("name"), raw.get("run_id"), raw.get("turn_id"), raw.get("timestamp")
    if left + stamp.count(None) != len(stamp):
        return None

    common: Common
    last, common = reader.last_stamp
    if stamp != last:
        name, run_id, turn_id, time = stamp
        before = reader.problems.count
        common = Common(
            "" if name is None else reader.text(name, at),
            None if run_id is None else reader.uuid(run_id, at),
            None if turn_id is None else reader.uuid(turn_id, at),
            None if time is None else reader.time(time, at),
        )
        if reader.problems.count != before:
            return None

        reader.last_stamp = stamp, common

    return common


def _settle_content(reader: Reader, given: dict[str, Any], at: At, kind: Any) -> None:
    """
    Make one of content and parts, which should be one of them.
    """
    if "parts" not in given:
        if "content" not in given and kind is not AssistantMessage:
            reader.problems.add((at, "content"), "missing")

        return

    if "content" in given:
        reader.problems.add((at, "parts"), "is there, and content is, too")

    given["content"] = parts = given.pop("parts") or ()
    for i, part in enumerate(parts):
        if part is not None and part.kind not in kind._holds:
            may = ", ".join(sorted(kind._holds))
            what = f"{kind.role} messages hold only parts of {may}"
            reader.problems.add(((at, "parts"), i), what)


def read_messages(reader: Reader, raw: Any, at: At) -> list[Any] | None:
    if not reader.is_array(raw, at):
        return None

    made: list[Any] = []
    for i, item in enumerate(raw):
        # Most messages are a text and nothing else.
        if item.__class__ is dict and len(item) == _TEXT_ALONE:
            role, content = item.get("role"), item.get("content")
            if content.__class__ is str and content.isascii():
                if role == "user":
                    made.append(UserMessage(content))
                    continue

                if role == "assistant":
                    made.append(AssistantMessage(content))
                    continue

        made.append(read_message(reader, item, (at, i)))

    return made


# Two fields: role and content.
_TEXT_ALONE = 2


def _message_of(kind: type[Message], *required: str, **fields: Read) -> Shape:
    common: dict[str, Read] = {
        "name": Reader.text,
        "run_id": Reader.uuid,
        "turn_id": Reader.uuid,
        "timestamp": Reader.time,
        "metadata": Reader.json_map,
    }
    return Shape(kind, {**fields, **common}, required)


_CONTENT: dict[str, Read] = {"content": Reader.text, "parts": many(read_part)}
_MESSAGES = _Family(
    "role",
    {
        "system": _message_of(SystemMessage, **_CONTENT),
        "user": _message_of(UserMessage, **_CONTENT),
        "assistant": _message_of(
            AssistantMessage,
            **_CONTENT,
            tool_calls=many(read_tool_call),
            response=one(_RESPONSE),
        ),
        "tool": _message_of(
            ToolMessage,
            "tool_call_id",
            **_CONTENT,
            tool_call_id=Reader.text,
            tool_name=Reader.text,
            is_error=Reader.truth,
        ),
        UNKNOWN: _message_of(UnknownMessage, "raw", **_FOREIGN),
    },
    UnknownMessage,
)
