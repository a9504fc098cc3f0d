"""
Messages out: what they, their parts, calls and usages, and tools and documents
are as something orjson writes as it should.

That is plain JSON values but for UUIDs, and times where orjson writes them as
`isoformat` does: it takes a tenth of the time.

Written by hand, a function for each shape: a tool that reads annotations at
run time would take three times as long, and the format would follow the names
of attributes instead of a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from typing import Any, TypeAlias
from uuid import UUID

from conversation_state._persistent import PMap, thaw
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.codec._wire import UNKNOWN, base64_of, text_of_time
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
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.tools._infos import is_schema
from conversation_state.usage import Usage

__all__ = [
    "MESSAGES",
    "PARTS",
    "Object",
    "Write",
    "document_out",
    "ledger_out",
    "message_out",
    "messages_out",
    "not_ours",
    "origin_out",
    "part_out",
    "tool_call_out",
    "tool_info_out",
    "usage_out",
]

Object: TypeAlias = "dict[str, Any]"

Write: TypeAlias = "Callable[[Any], Any]"


def not_ours(value: object) -> TypeError:
    return TypeError(f"can't encode a {type(value).__name__}: {value!r:.80}")


def _put_map(data: Object, name: str, values: Mapping[str, Any]) -> None:
    if values:
        data[name] = thaw(values)


def _put_unknown(data: Object, unknown: PMap[str, Any]) -> None:
    if unknown:
        # No key of it is a known field's: the constructors see to that.
        data.update(thaw(unknown))


def usage_out(usage: Usage) -> Object:
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

    # A category may have the name of a field, and is kept apart then.
    apart: Object = {}
    for name in sorted(usage.extra):
        (apart if name in _USAGE_FIELDS else data)[name] = usage.extra[name]

    _put_map(data, "extra", apart)
    return data


_USAGE_FIELDS = frozenset({*Usage._names, "extra"})


def _logprob_out(logprob: LogProb) -> Object:
    data: Object = {"token": logprob.token, "logprob": logprob.logprob}
    if logprob.bytes is not None:
        data["bytes"] = base64_of(logprob.bytes)

    if logprob.top:
        data["top"] = [_logprob_out(other) for other in logprob.top]

    return data


def _response_out(response: ResponseMeta) -> Object:
    data: Object = {}
    if response.finish_reason:
        data["finish_reason"] = response.finish_reason

    if response.usage is not None:
        data["usage"] = usage_out(response.usage)

    if response.logprobs is not None:
        data["logprobs"] = [_logprob_out(each) for each in response.logprobs]

    if response.model:
        data["model"] = response.model

    _put_unknown(data, response.unknown)
    return data


def tool_call_out(call: ToolCall) -> Object:
    """
    A tool call, its arguments as the text they are.
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


def tool_info_out(tool: ToolInfo) -> Object:
    """
    A tool; its parameters as they were given.

    Nobody who reads it takes one for the other: what a schema has for ``type``
    is a text, and what parameters have for any name is an object.
    """
    data: Object = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description

    given = tool.parameters
    if given is not None:
        data["parameters"] = thaw(given) if is_schema(given) else _each_out(given)

    _put_map(data, "metadata", tool.metadata)
    _put_unknown(data, tool.unknown)
    return data


def _each_out(parameters: PMap[str, Parameter]) -> Object:
    return {name: _parameter_out(parameters[name]) for name in sorted(parameters)}


def _parameter_out(parameter: Parameter) -> Object:
    data: Object = {"type": parameter.type}
    if parameter.description:
        data["description"] = parameter.description

    if parameter.required:
        data["required"] = True

    if parameter.enum:
        data["enum"] = list(parameter.enum)

    if parameter.items is not None:
        data["items"] = _parameter_out(parameter.items)

    if parameter.properties:
        data["properties"] = _each_out(parameter.properties)

    return data


def document_out(document: Document) -> Object:
    """
    A document, its vectors in its metadata.
    """
    data: Object = {"id": document.id, "content": document.content}
    _put_map(data, "metadata", document.metadata)
    _put_unknown(data, document.unknown)
    return data


def part_out(part: Part) -> Object:
    """
    A part of any kind.
    """
    write = PARTS.get(part.__class__)
    if write is None:
        raise not_ours(part)

    data: Object = write(part)
    if part.index is not None:
        data["index"] = part.index

    _put_map(data, "metadata", part.metadata)
    _put_unknown(data, part.unknown)
    return data


def _text_out(part: TextPart | RefusalPart) -> Object:
    return {"type": part.kind, "text": part.text}


def _reasoning_out(part: ReasoningPart) -> Object:
    data = {"type": part.kind}
    if part.text:
        data["text"] = part.text

    if part.signature:
        data["signature"] = part.signature

    return data


def _media_out(part: MediaPart) -> Object:
    data: Object = {"type": part.kind}
    if part.data is None:
        data["url"] = part.url
    else:
        data["data"] = base64_of(part.data)

    if part.media_type:
        data["media_type"] = part.media_type

    if isinstance(part, ImagePart) and part.detail:
        data["detail"] = part.detail

    if isinstance(part, FilePart) and part.name:
        data["name"] = part.name

    return data


def _unknown__part_out(part: UnknownPart) -> Object:
    alone = part.index is None and not part.metadata and not part.unknown
    if alone and _stands_by_itself(part.raw, "type", part.source):
        return thaw(part.raw)  # type: ignore[no-any-return]

    return _wrapped("type", part.raw, part.source)


def _stands_by_itself(raw: PMap[str, Any], tag: str, source: str) -> bool:
    # It is not of a known kind: its constructor saw to that.
    kind = raw.get(tag)
    return not source and isinstance(kind, str) and kind != UNKNOWN


def _wrapped(tag: str, raw: PMap[str, Any], source: str) -> Object:
    data: Object = {tag: UNKNOWN}
    if source:
        data["source"] = source

    data["raw"] = thaw(raw)
    return data


PARTS: dict[type[Part], Write] = {
    **{kind: _media_out for kind in KINDS.values() if issubclass(kind, MediaPart)},
    TextPart: _text_out,
    RefusalPart: _text_out,
    ReasoningPart: _reasoning_out,
    UnknownPart: _unknown__part_out,
}


def message_out(message: Message) -> Object:
    """
    A message of any kind.
    """
    write = MESSAGES.get(message.__class__)
    if write is None:
        raise not_ours(message)

    return write(message)  # type: ignore[no-any-return]


def _said(message: UserMessage | SystemMessage | ToolMessage) -> Object:
    content = message.content
    if content.__class__ is str:
        return {"role": message.role, "content": content}

    return {"role": message.role, "parts": [part_out(part) for part in content]}  # type: ignore[arg-type]


def _put_common(data: Object, common: Common) -> None:
    name, run_id, turn_id, time, metadata, unknown = common
    if name:
        data["name"] = name

    if run_id is not None:
        data["run_id"] = run_id if run_id.__class__ is UUID else str(run_id)

    if turn_id is not None:
        data["turn_id"] = turn_id if turn_id.__class__ is UUID else str(turn_id)

    if time is not None:
        # Elsewhere orjson leaves out what is zero, or has no word for it.
        native = time.tzinfo is UTC and time.microsecond
        data["timestamp"] = time if native else text_of_time(time)

    if metadata:
        data["metadata"] = thaw(metadata)

    if unknown:
        _put_unknown(data, unknown)


def _spoken_out(message: UserMessage | SystemMessage) -> Object:
    data = _said(message)
    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _assistant_out(message: AssistantMessage) -> Object:
    data: Object = {"role": "assistant"}
    content = message.content
    if content.__class__ is str:
        if content:
            data["content"] = content
    else:
        data["parts"] = [part_out(part) for part in content]  # type: ignore[arg-type]

    if message.tool_calls:
        data["tool_calls"] = [tool_call_out(call) for call in message.tool_calls]

    if message.response is not None:
        data["response"] = _response_out(message.response)

    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _tool_out(message: ToolMessage) -> Object:
    data = _said(message)
    data["tool_call_id"] = message.tool_call_id
    if message.tool_name:
        data["tool_name"] = message.tool_name

    if message.is_error:
        data["is_error"] = True

    if message._common is not PLAIN:
        _put_common(data, message._common)

    return data


def _unknown_message_out(message: UnknownMessage) -> Object:
    common = message._common
    if common == PLAIN and _stands_by_itself(message.raw, "role", message.source):
        return thaw(message.raw)  # type: ignore[no-any-return]

    data = _wrapped("role", message.raw, message.source)
    _put_common(data, common)
    return data


MESSAGES: dict[type[Message], Write] = {
    SystemMessage: _spoken_out,
    UserMessage: _spoken_out,
    AssistantMessage: _assistant_out,
    ToolMessage: _tool_out,
    UnknownMessage: _unknown_message_out,
}


def messages_out(messages: Iterable[Message]) -> list[Object]:
    """
    Messages, one by one.
    """
    return [message_out(message) for message in messages]


def ledger_out(entry: LedgerEntry) -> Object:
    data: Object = {"id": entry.id, "usage": usage_out(entry.usage)}
    if entry.model:
        data["model"] = entry.model

    return data


def origin_out(state: Aggregator) -> Object:
    """
    Who a state is, and where it was forked.
    """
    data: Object = {"id": state.id}
    if state.parent_id is not None:
        data["parent_id"] = state.parent_id

    data["root_id"] = state.root_id
    data["init_len"] = state.init_len
    data["init_ledger_len"] = state.init_ledger_len
    return data
