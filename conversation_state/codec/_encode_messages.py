"""
Writes messages, their parts, calls and usages, tools and documents as values for
orjson.

These are plain JSON values except UUIDs, and times where orjson writes them as
`isoformat` does, in a tenth of the time.

Written by hand, a function for each shape: a library that reads annotations at
run time would take three times as long, and the format would follow the names
of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from typing import Any, TypeAlias
from uuid import UUID

from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.codec._format import UNKNOWN, format_base64, format_time
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
from conversation_state.messages._base import PLAIN, Common
from conversation_state.parts import (
    KINDS,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import Parameter, ToolCall, ToolInfo, is_schema
from conversation_state.usage import Usage

__all__ = [
    "MESSAGES",
    "PARTS",
    "Object",
    "Write",
    "unsupported_type",
    "write_document",
    "write_ledger_entry",
    "write_message",
    "write_messages",
    "write_origin",
    "write_part",
    "write_tool_call",
    "write_tool_info",
    "write_usage",
]

Object: TypeAlias = "dict[str, Any]"

Write: TypeAlias = "Callable[[Any], Any]"


def unsupported_type(value: object) -> TypeError:
    return TypeError(f"can't encode a {type(value).__name__}: {value!r:.80}")


def _put_map(data: Object, name: str, values: Mapping[str, Any]) -> None:
    if values:
        data[name] = values


def _put_unknown(data: Object, unknown: Mapping[str, Any]) -> None:
    if unknown:
        # Its keys never overwrite known fields: the constructors check that.
        data.update(unknown)


def write_usage(usage: Usage) -> Object:
    """
    The counts that are not zero, and the total unless it is their sum.
    """
    data: Object = {}
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    if prompt:
        data["prompt_tokens"] = prompt

    if completion:
        data["completion_tokens"] = completion

    if usage.total_tokens != prompt + completion:
        data["total_tokens"] = usage.total_tokens

    for name in ("prompt_tokens_details", "completion_tokens_details"):
        details = getattr(usage, name)
        counts = {each: getattr(details, each) for each in details._names}
        _put_map(data, name, {each: n for each, n in counts.items() if n})

    # A category with the name of a field must not overwrite the field.
    apart: Object = {}
    for name, count in usage.extra.items():
        (apart if name in _USAGE_FIELDS else data)[name] = count

    _put_map(data, "extra", apart)
    return data


_USAGE_FIELDS = frozenset({*Usage._names, "extra"})


def _write_logprob(logprob: LogProb) -> Object:
    data: Object = {"token": logprob.token, "logprob": logprob.logprob}
    if logprob.bytes is not None:
        data["bytes"] = format_base64(logprob.bytes)

    if logprob.top:
        data["top"] = [_write_logprob(other) for other in logprob.top]

    return data


def _write_response(response: ResponseMeta) -> Object:
    data: Object = {}
    if response.finish_reason:
        data["finish_reason"] = response.finish_reason

    if response.usage is not None:
        data["usage"] = write_usage(response.usage)

    if response.logprobs is not None:
        data["logprobs"] = [_write_logprob(each) for each in response.logprobs]

    if response.model:
        data["model"] = response.model

    if response.id:
        data["id"] = response.id

    _put_unknown(data, response.unknown)
    return data


def write_tool_call(call: ToolCall) -> Object:
    """
    A tool call, its arguments as the original text.
    """
    data: Object = {"id": call.id, "name": call.name}
    if call.arguments:
        data["arguments"] = call.arguments

    if call.index is not None:
        data["index"] = call.index

    if call.type != "function":
        data["type"] = call.type

    _put_map(data, "metadata", call.metadata)
    _put_unknown(data, call.unknown)
    return data


def write_tool_info(tool: ToolInfo) -> Object:
    """
    A tool; its parameters as they were given.

    A reader tells a schema by its ``type``, which is a text; in a mapping of
    parameters every value is an object. Any other schema is wrapped.
    """
    data: Object = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description

    given = tool.parameters
    if given is not None:
        if not is_schema(given):
            data["parameters"] = _write_parameters(given)
        elif isinstance(given.get("type"), str):
            data["parameters"] = given
        else:
            data["parameters"] = {"schema": given}

    _put_map(data, "metadata", tool.metadata)
    _put_unknown(data, tool.unknown)
    return data


def _write_parameters(parameters: Mapping[str, Parameter]) -> Object:
    return {name: _write_parameter(parameters[name]) for name in parameters}


def _write_parameter(parameter: Parameter) -> Object:
    data: Object = {"type": parameter.type}
    if parameter.description:
        data["description"] = parameter.description

    if parameter.required:
        data["required"] = True

    if parameter.enum:
        data["enum"] = list(parameter.enum)

    if parameter.items is not None:
        data["items"] = _write_parameter(parameter.items)

    if parameter.properties:
        data["properties"] = _write_parameters(parameter.properties)

    return data


def write_document(document: Document) -> Object:
    """
    A document, its vectors in its metadata.
    """
    data: Object = {"id": document.id, "content": document.content}
    _put_map(data, "metadata", document.metadata)
    _put_unknown(data, document.unknown)
    return data


def write_part(part: Part) -> Object:
    """
    A part of any kind.
    """
    write = PARTS.get(part.__class__)
    if write is None:
        raise unsupported_type(part)

    data: Object = write(part)
    if part.index is not None:
        data["index"] = part.index

    _put_map(data, "metadata", part.metadata)
    _put_unknown(data, part.unknown)
    return data


def _write_text(part: TextPart | RefusalPart) -> Object:
    return {"type": part.kind, "text": part.text}


def _write_reasoning(part: ReasoningPart) -> Object:
    data = {"type": part.kind}
    if part.text:
        data["text"] = part.text

    if part.signature:
        data["signature"] = part.signature

    return data


def _write_media(part: MediaPart) -> Object:
    data: Object = {"type": part.kind}
    if part.data is None:
        data["url"] = part.url
    else:
        data["data"] = format_base64(part.data)

    if part.media_type:
        data["media_type"] = part.media_type

    if isinstance(part, ImagePart) and part.detail:
        data["detail"] = part.detail

    if isinstance(part, FilePart) and part.name:
        data["name"] = part.name

    return data


def _write_unknown_part(part: UnknownPart) -> Object:
    alone = part.index is None and not part.metadata and not part.unknown
    if alone and _is_self_describing(part.raw, "type", part.source):
        return {**part.raw}

    return _wrap_unknown("type", part.raw, part.source)


def _is_self_describing(raw: Mapping[str, Any], tag: str, source: str) -> bool:
    # It is not of a known kind: its constructor checks that.
    kind = raw.get(tag)
    return not source and isinstance(kind, str) and kind != UNKNOWN


def _wrap_unknown(tag: str, raw: Mapping[str, Any], source: str) -> Object:
    data: Object = {tag: UNKNOWN}
    if source:
        data["source"] = source

    data["raw"] = raw
    return data


PARTS: dict[type[Part], Write] = {
    **{kind: _write_media for kind in KINDS.values() if issubclass(kind, MediaPart)},
    TextPart: _write_text,
    RefusalPart: _write_text,
    ReasoningPart: _write_reasoning,
    UnknownPart: _write_unknown_part,
}


def write_message(message: Message) -> Object:
    """
    A message of any kind.
    """
    write = MESSAGES.get(message.__class__)
    if write is None:
        raise unsupported_type(message)

    return write(message)  # type: ignore[no-any-return]


def _write_content(message: UserMessage | SystemMessage | ToolMessage) -> Object:
    content = message.content
    if content.__class__ is str:
        return {"role": message.role, "content": content}

    return {"role": message.role, "parts": [write_part(part) for part in content]}  # type: ignore[arg-type]


def _put_common(data: Object, common: Common) -> None:
    name, run_id, turn_id, time, metadata, unknown = common
    if name:
        data["name"] = name

    if run_id is not None:
        data["run_id"] = run_id if run_id.__class__ is UUID else str(run_id)

    if turn_id is not None:
        data["turn_id"] = turn_id if turn_id.__class__ is UUID else str(turn_id)

    if time is not None:
        # For any other time orjson omits zero microseconds or does not support the
        # time zone.
        native = time.tzinfo is UTC and time.microsecond
        data["timestamp"] = time if native else format_time(time)

    if metadata:
        data["metadata"] = metadata

    if unknown:
        _put_unknown(data, unknown)


def _write_content_message(message: UserMessage | SystemMessage) -> Object:
    data = _write_content(message)
    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _write_assistant_message(message: AssistantMessage) -> Object:
    data: Object = {"role": "assistant"}
    content = message.content
    if content.__class__ is str:
        if content:
            data["content"] = content
    else:
        data["parts"] = [write_part(part) for part in content]  # type: ignore[arg-type]

    if message.tool_calls:
        data["tool_calls"] = [write_tool_call(call) for call in message.tool_calls]

    if message.response is not None:
        data["response"] = _write_response(message.response)

    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _write_tool_message(message: ToolMessage) -> Object:
    data = _write_content(message)
    data["tool_call_id"] = message.tool_call_id
    if message.tool_name:
        data["tool_name"] = message.tool_name

    if message.is_error:
        data["is_error"] = True

    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _write_unknown_message(message: UnknownMessage) -> Object:
    common = message._common
    if common == PLAIN and _is_self_describing(message.raw, "role", message.source):
        return {**message.raw}

    data = _wrap_unknown("role", message.raw, message.source)
    _put_common(data, common)
    return data


MESSAGES: dict[type[Message], Write] = {
    SystemMessage: _write_content_message,
    UserMessage: _write_content_message,
    AssistantMessage: _write_assistant_message,
    ToolMessage: _write_tool_message,
    UnknownMessage: _write_unknown_message,
}


def write_messages(messages: Iterable[Message]) -> list[Object]:
    """
    Messages as a list.
    """
    return [write_message(message) for message in messages]


def write_ledger_entry(entry: LedgerEntry) -> Object:
    data: Object = {"id": entry.id, "usage": write_usage(entry.usage)}
    if entry.model:
        data["model"] = entry.model

    return data


def write_origin(state: Aggregator) -> Object:
    """
    The identity of a state, and where it was forked.
    """
    data: Object = {"id": state.id}
    if state.parent_id is not None:
        data["parent_id"] = state.parent_id

    data["root_id"] = state.root_id
    data["init_len"] = state.init_len
    data["init_ledger_len"] = state.init_ledger_len
    return data
