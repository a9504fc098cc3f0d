"""
The fast pass: values to raw values for orjson, and raw values to values.

Straight-line code, because half of decoding is here. A reader makes what is written
as this codec writes it. In any doubt, about a value that is invalid or merely
unusual, it raises `UnusualValueError`, and the slow pass (`_messages`) reads the
value again and lists what is wrong.

The readers go past the constructors, so each rule of a constructor is a check here.
They trust raw values to be what JSON can hold: texts of valid Unicode, keys that are
texts, integers of at most 64 bits. What was not a JSON text is checked by
`is_loadable` before. A new field of a value class needs a line in its reader and its
writer: a test sets each field alone and decodes it.
"""

# Fields have the names they have, and a draft may have any field.
# ruff: noqa: A001
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Never, TypeAlias, TypeVar
from uuid import UUID

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    JsonMap,
    SortedJsonMap,
    make_draft,
    make_map,
)
from conversation_state._persistent.frozen import MAX_LEVELS
from conversation_state.codec._format import (
    UNKNOWN,
    format_base64,
    format_time,
    parse_base64,
    parse_time,
    parse_uuid,
)
from conversation_state.messages import (
    PLAIN,
    AssistantMessage,
    Common,
    LogProb,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    KINDS,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

D = TypeVar("D", bound=PromptTokensDetails | CompletionTokensDetails)

Object: TypeAlias = "dict[str, Any]"

# What one document repeats: UUIDs by their text, and the common fields of
# messages by their raw values. Equal ones are one object, as before writing.
Interned: TypeAlias = "dict[Any, Any]"

# The largest count and position.
_MAX: Final = 2**63 - 1
_SCALARS: Final = frozenset({str, int, bool, type(None)})
# orjson reads integers beyond 64 bits as floats; those are in doubt.
_FLOAT_LIMIT: Final = 2.0**63


class UnusualValueError(Exception):
    """A raw value that the slow pass has to read: invalid, or merely unusual."""


# What a reader raises in doubt: also where a required field is missing, and
# where a UUID, a time or base64 is invalid.
UNUSUAL_ERRORS: Final = (UnusualValueError, KeyError, ValueError)


# The JSON of others


def _freeze_object(
    raw: Object, kind: type[JsonMap] = SortedJsonMap, depth: int = 0
) -> JsonMap:
    """*raw* as an immutable map."""
    if raw.__class__ is not dict or depth == MAX_LEVELS:
        raise UnusualValueError

    items, last = raw, ""
    # Keys, and a look at each value, take less than `items` does for so few.
    for key in raw:
        if key < last and kind is SortedJsonMap:  # not as we write it
            ordered = {name: raw[name] for name in sorted(raw)}
            return _freeze_object(ordered, kind, depth)

        last = key
        value = raw[key]
        cls = value.__class__
        if cls is str:
            continue

        if cls is dict:
            value = _freeze_object(value, kind, depth + 1)
        elif cls is list:
            value = _freeze_list(value, kind, depth + 1) if value else ()
        elif cls in _SCALARS or _is_usual_float(value):
            continue
        else:
            raise UnusualValueError

        if items is raw:  # which is not ours to change
            items = raw.copy()

        items[key] = value

    return kind(items) if raw else EMPTY_MAP


def _freeze_list(raw: list[Any], kind: type[JsonMap], depth: int) -> tuple[Any, ...]:
    if depth == MAX_LEVELS:
        raise UnusualValueError

    if _SCALARS.issuperset(map(type, raw)):
        return tuple(raw)

    items: list[Any] = []
    for item in raw:
        cls = item.__class__
        if cls is dict:
            items.append(_freeze_object(item, kind, depth + 1))
        elif cls is list:
            items.append(_freeze_list(item, kind, depth + 1))
        elif cls in _SCALARS or _is_usual_float(item):
            items.append(item)
        else:
            raise UnusualValueError

    return tuple(items)


def _is_usual_float(value: Any) -> bool:
    return value.__class__ is float and -_FLOAT_LIMIT < value < _FLOAT_LIMIT


def _read_unknown(raw: Object, left: int, known: frozenset[str]) -> JsonMap:
    """The *left* fields of *raw* that are not *known*."""
    unknown = {key: value for key, value in raw.items() if key not in known}
    if len(unknown) != left:
        raise UnusualValueError  # a known one is null, or not what it should be

    return _freeze_object(unknown, JsonMap)


# What `_read_notes` gives where there is nothing.
_NO_NOTES: Final = (None, EMPTY_MAP, EMPTY_MAP)


def _read_notes(
    raw: Object, left: int, known: frozenset[str]
) -> tuple[int | None, JsonMap, JsonMap]:
    """
    The *left* fields of *raw*, a part or a call: its position in a response, its
    metadata, and those that are not *known*.
    """
    index, given, metadata = raw.get("index"), raw.get("metadata"), EMPTY_MAP
    if index is not None:
        left -= 1
        if index.__class__ is not int or not -1 < index <= _MAX:
            raise UnusualValueError

    if given is not None:
        left -= 1
        metadata = _freeze_object(given)

    return index, metadata, _read_unknown(raw, left, known) if left else EMPTY_MAP


# Usages


_USAGE_KEYS = frozenset({*Usage._names, "extra"})
_NO_PROMPT: Final[PromptTokensDetails] = PromptTokensDetails._nothing
_NO_COMPLETION: Final[CompletionTokensDetails] = CompletionTokensDetails._nothing
_new_usage: Final = make_draft(Usage)
_new_details: Final[dict[type, Any]] = {
    cls: make_draft(cls) for cls in (PromptTokensDetails, CompletionTokensDetails)
}


def read_usage(raw: Object) -> Usage:
    """A usage. Unknown names are further categories of tokens."""
    if raw.__class__ is not dict:
        raise UnusualValueError

    prompt = raw.get("prompt_tokens", 0)
    completion = raw.get("completion_tokens", 0)
    if prompt.__class__ is not int or completion.__class__ is not int:
        raise UnusualValueError

    both = prompt + completion
    total = raw.get("total_tokens", both)
    if total.__class__ is not int or not (
        -1 < prompt <= _MAX and -1 < completion <= _MAX and -1 < total <= _MAX
    ):
        raise UnusualValueError

    of_prompt, of_completion, extra = _NO_PROMPT, _NO_COMPLETION, EMPTY_MAP
    if len(raw) != ("prompt_tokens" in raw) + ("completion_tokens" in raw):
        if "prompt_tokens_details" in raw:
            of_prompt = _read_details(PromptTokensDetails, raw["prompt_tokens_details"])

        if "completion_tokens_details" in raw:
            of_completion = _read_details(
                CompletionTokensDetails, raw["completion_tokens_details"]
            )

        if "extra" in raw:
            raise UnusualValueError

        counts = {name: n for name, n in raw.items() if name not in _USAGE_KEYS}
        if counts:
            extra = make_map(
                {name: n for name, n in _check_counts(counts).items() if n}
            )

    usage = _new_usage()
    usage.prompt_tokens = prompt
    usage.completion_tokens = completion
    usage.total_tokens = total
    usage.prompt_tokens_details = of_prompt
    usage.completion_tokens_details = of_completion
    usage.extra = extra
    usage.__class__ = Usage
    made: Usage = usage
    return made


def _read_details(cls: type[D], raw: Object) -> D:
    names = cls._names
    if not _check_counts(raw).keys() <= {*names}:
        raise UnusualValueError

    details = _new_details[cls]()
    for name in names:
        setattr(details, name, raw.get(name, 0))

    details.__class__ = cls
    return details


def _check_counts(raw: Object) -> Object:
    if raw.__class__ is not dict:
        raise UnusualValueError

    for count in raw.values():
        if count.__class__ is not int or not -1 < count <= _MAX:
            raise UnusualValueError

    return raw


def write_usage(usage: Usage) -> Object:
    """The counts that are not zero, and the total unless it is their sum."""
    data: Object = {}
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    if prompt:
        data["prompt_tokens"] = prompt

    if completion:
        data["completion_tokens"] = completion

    if usage.total_tokens != prompt + completion:
        data["total_tokens"] = usage.total_tokens

    if usage.prompt_tokens_details is not _NO_PROMPT:
        _write_counts(data, "prompt_tokens_details", usage.prompt_tokens_details)

    if usage.completion_tokens_details is not _NO_COMPLETION:
        _write_counts(
            data, "completion_tokens_details", usage.completion_tokens_details
        )

    if usage.extra:
        # A category with the name of a field must not overwrite the field.
        apart: Object = {}
        for name in usage.extra:
            (apart if name in _USAGE_KEYS else data)[name] = usage.extra[name]

        if apart:
            data["extra"] = apart

    return data


def _write_counts(
    data: Object, name: str, details: PromptTokensDetails | CompletionTokensDetails
) -> None:
    counts = {each: n for each in details._names if (n := getattr(details, each))}
    if counts:
        data[name] = counts


# Calls and responses

_TOOL_CALL_KEYS = frozenset({"arguments", "id", "index", "metadata", "name", "type"})
_RESPONSE_KEYS = frozenset({"finish_reason", "id", "logprobs", "model", "usage"})

_new_tool_call: Final = make_draft(ToolCall)
_new_log_prob: Final = make_draft(LogProb)
_new_response: Final = make_draft(ResponseMeta)


def _read_tool_call(raw: Object) -> ToolCall:
    if raw.__class__ is not dict:
        raise UnusualValueError

    left = len(raw) - 2
    id, name, arguments = raw["id"], raw["name"], raw.get("arguments", "")
    if arguments != "":
        left -= 1

    if (
        id.__class__ is not str
        or name.__class__ is not str
        or arguments.__class__ is not str
    ):
        raise UnusualValueError

    index, type = None, "function"
    metadata = unknown = EMPTY_MAP
    if left:
        type = raw.get("type", "function")
        if type != "function":
            left -= 1

        if type.__class__ is not str:
            raise UnusualValueError

        index, metadata, unknown = _read_notes(raw, left, _TOOL_CALL_KEYS)

    call = _new_tool_call()
    call.id = id
    call.name = name
    call.arguments = arguments
    call.index = index
    call.type = type
    call.metadata = metadata
    call.unknown = unknown
    call.__class__ = ToolCall
    return call


def write_tool_call(call: ToolCall) -> Object:
    raw: Object = {"id": call.id, "name": call.name}
    if arguments := call.arguments:
        raw["arguments"] = arguments

    if (index := call.index) is not None:
        raw["index"] = index

    if (type := call.type) != "function":
        raw["type"] = type

    if metadata := call.metadata:
        raw["metadata"] = metadata

    if call.unknown:
        raw.update(call.unknown)

    return raw


def _read_log_prob(raw: Object) -> LogProb:
    if raw.__class__ is not dict:
        raise UnusualValueError

    # Before alternatives are read, so that nothing is read deeper than one level.
    if raw.get("top").__class__ is list and any(
        each.__class__ is not dict or "top" in each for each in raw["top"]
    ):
        raise UnusualValueError

    left = len(raw) - 2
    token, logprob = raw["token"], raw["logprob"]
    # Only a float is finite beyond doubt; the slow pass also takes integers.
    if (
        token.__class__ is not str
        or logprob.__class__ is not float
        or logprob - logprob != 0
    ):
        raise UnusualValueError

    bytes = None
    top: Any = ()
    if left:
        bytes, top = raw.get("bytes"), raw.get("top", ())
        if bytes is not None:
            left -= 1
            if bytes.__class__ is not str:
                raise UnusualValueError

            bytes = parse_base64(bytes)

        if top != ():
            left -= 1
            if top.__class__ is not list:
                raise UnusualValueError

            top = tuple([_read_log_prob(each) for each in top])

        if left:
            raise UnusualValueError

    value = _new_log_prob()
    value.token = token
    value.logprob = logprob
    value.bytes = bytes
    value.top = top
    value.__class__ = LogProb
    return value


def _write_log_prob(value: LogProb) -> Object:
    raw: Object = {"token": value.token, "logprob": value.logprob}
    if (bytes := value.bytes) is not None:
        raw["bytes"] = format_base64(bytes)

    if top := value.top:
        raw["top"] = [_write_log_prob(each) for each in top]

    return raw


def _read_response(raw: Object) -> ResponseMeta:
    if raw.__class__ is not dict:
        raise UnusualValueError

    left = len(raw)
    finish_reason, usage = raw.get("finish_reason", ""), raw.get("usage")
    model, id = raw.get("model", ""), raw.get("id", "")
    left -= (finish_reason != "") + (model != "") + (id != "")
    if usage is not None:
        left -= 1
        usage = read_usage(usage)

    if (
        finish_reason.__class__ is not str
        or model.__class__ is not str
        or id.__class__ is not str
    ):
        raise UnusualValueError

    logprobs, unknown = None, EMPTY_MAP
    if left:
        logprobs = raw.get("logprobs")
        if logprobs is not None:
            left -= 1
            if logprobs.__class__ is not list:
                raise UnusualValueError

            logprobs = tuple([_read_log_prob(each) for each in logprobs])

        if left:
            unknown = _read_unknown(raw, left, _RESPONSE_KEYS)

    response = _new_response()
    response.finish_reason = finish_reason
    response.usage = usage
    response.logprobs = logprobs
    response.model = model
    response.id = id
    response.unknown = unknown
    response.__class__ = ResponseMeta
    return response


def _write_response(response: ResponseMeta) -> Object:
    raw: Object = {}
    if finish_reason := response.finish_reason:
        raw["finish_reason"] = finish_reason

    if (usage := response.usage) is not None:
        raw["usage"] = write_usage(usage)

    if (logprobs := response.logprobs) is not None:
        raw["logprobs"] = [_write_log_prob(each) for each in logprobs]

    if model := response.model:
        raw["model"] = model

    if id := response.id:
        raw["id"] = id

    if response.unknown:
        raw.update(response.unknown)

    return raw


# Parts

_TEXT_KEYS = frozenset({"index", "metadata", "text", "type"})
_REASONING_KEYS = _TEXT_KEYS | {"signature"}
_UNKNOWN_PART_KEYS = frozenset({"index", "metadata", "raw", "source", "type"})
_MEDIA_KEYS: Final = {
    cls: frozenset({"type", *[each.name for each in attrs.fields(cls)]}) - {"unknown"}
    for cls in KINDS.values()
    if issubclass(cls, MediaPart)
}

_new_text_part: Final = make_draft(TextPart)
_new_reasoning_part: Final = make_draft(ReasoningPart)
_new_unknown_part: Final = make_draft(UnknownPart)


def _read_text_part(raw: Object) -> TextPart:
    left = len(raw) - 2
    text = raw["text"]
    if text.__class__ is not str:
        raise UnusualValueError

    part = _new_text_part()
    notes = _read_notes(raw, left, _TEXT_KEYS) if left else _NO_NOTES
    part.index, part.metadata, part.unknown = notes
    part.text = text
    part.__class__ = TextPart
    return part


def _read_refusal_part(raw: Object) -> RefusalPart:
    part = _read_text_part(raw)
    return RefusalPart(
        part.text, metadata=part.metadata, index=part.index, unknown=part.unknown
    )


def _read_reasoning_part(raw: Object) -> ReasoningPart:
    left = len(raw) - 1
    text, signature = raw.get("text", ""), raw.get("signature", "")
    if text != "":
        left -= 1

    if signature != "":
        left -= 1

    if text.__class__ is not str or signature.__class__ is not str:
        raise UnusualValueError

    part = _new_reasoning_part()
    notes = _read_notes(raw, left, _REASONING_KEYS) if left else _NO_NOTES
    part.index, part.metadata, part.unknown = notes
    part.text = text
    part.signature = signature
    part.__class__ = ReasoningPart
    return part


def _read_unknown_part(raw: Object) -> UnknownPart:
    """A part that a provider defined, in its wrapper."""
    left = len(raw) - 3
    inner, source = _freeze_object(raw["raw"], JsonMap), raw["source"]
    if source.__class__ is not str or not source:
        raise UnusualValueError

    part = _new_unknown_part()
    notes = _read_notes(raw, left, _UNKNOWN_PART_KEYS) if left else _NO_NOTES
    part.index, part.metadata, part.unknown = notes
    part.raw = inner
    part.source = source
    part.__class__ = UnknownPart
    return part


def _read_media_part(cls: type[MediaPart], raw: Object) -> MediaPart:
    """A part of media, by its constructor: most of the time goes to its bytes."""
    known = _MEDIA_KEYS[cls]
    fields = {key: value for key, value in raw.items() if key in known}
    left = len(raw) - len(fields)
    if None in fields.values():
        raise UnusualValueError

    del fields["type"]
    if "data" in fields:
        if fields["data"].__class__ is not str:
            raise UnusualValueError

        fields["data"] = parse_base64(fields["data"])

    if "metadata" in fields:
        fields["metadata"] = _freeze_object(fields["metadata"])

    if left:
        fields["unknown"] = _read_unknown(raw, left, known)

    return cls(**fields)


def _refuse_part(_raw: Object) -> Never:
    """A part that a message can't hold."""
    raise UnusualValueError


# Of each type, and under ``*`` of a type that this version doesn't know.
_ASSISTANT_PARTS: dict[str, Any] = {
    **{cls.kind: partial(_read_media_part, cls) for cls in _MEDIA_KEYS},
    "text": _read_text_part,
    "reasoning": _read_reasoning_part,
    "refusal": _read_refusal_part,
    "unknown": _read_unknown_part,
    "*": lambda raw: UnknownPart(_freeze_object(raw, JsonMap)),
}
_USER_PARTS = {**_ASSISTANT_PARTS, "reasoning": _refuse_part, "refusal": _refuse_part}
_SYSTEM_PARTS: dict[str, Any] = {"text": _read_text_part, "*": _refuse_part}


def _read_parts(raw: list[Object], readers: Mapping[str, Any]) -> tuple[Part, ...]:
    if raw.__class__ is not list:
        raise UnusualValueError

    other, parts = readers["*"], []
    for item in raw:
        if item.__class__ is not dict:
            raise UnusualValueError

        kind = item["type"]
        if kind.__class__ is not str:
            raise UnusualValueError

        parts.append(readers.get(kind, other)(item))

    return tuple(parts)


def _write_text_part(part: TextPart | RefusalPart) -> Object:
    raw: Object = {"type": "text", "text": part.text}
    if (index := part.index) is not None:
        raw["index"] = index

    if metadata := part.metadata:
        raw["metadata"] = metadata

    if part.unknown:
        raw.update(part.unknown)

    return raw


def _write_reasoning_part(part: ReasoningPart) -> Object:
    raw: Object = {"type": "reasoning"}
    if text := part.text:
        raw["text"] = text

    if signature := part.signature:
        raw["signature"] = signature

    if (index := part.index) is not None:
        raw["index"] = index

    if metadata := part.metadata:
        raw["metadata"] = metadata

    if part.unknown:
        raw.update(part.unknown)

    return raw


def _write_media_part(part: MediaPart) -> Object:
    raw: Object = {"type": part.kind}
    if part.data is None:
        raw["url"] = part.url
    else:
        raw["data"] = format_base64(part.data)

    for name in ("media_type", "detail", "name", "index", "metadata"):
        value = getattr(part, name, None)
        if value or value == 0:  # the index 0 is not a default
            raw[name] = value

    raw.update(part.unknown)
    return raw


def _write_unknown_part(part: UnknownPart) -> Object:
    if (
        _needs_no_wrapper(part, "type")
        and part.index is None
        and not (part.metadata or part.unknown)
    ):
        return {**part.raw}

    raw: Object = {"type": UNKNOWN}
    if source := part.source:
        raw["source"] = source

    raw["raw"] = part.raw
    if (index := part.index) is not None:
        raw["index"] = index

    if metadata := part.metadata:
        raw["metadata"] = metadata

    raw.update(part.unknown)
    return raw


def _needs_no_wrapper(value: UnknownMessage | UnknownPart, tag: str) -> bool:
    """Whether an unknown value says what it is: its constructor refuses known kinds."""
    kind = value.raw.get(tag)
    return not value.source and isinstance(kind, str) and kind != UNKNOWN


PART_WRITERS: dict[type, Any] = {
    **dict.fromkeys(_MEDIA_KEYS, _write_media_part),
    TextPart: _write_text_part,
    ReasoningPart: _write_reasoning_part,
    RefusalPart: lambda part: _write_text_part(part) | {"type": "refusal"},
    UnknownPart: _write_unknown_part,
}


# Messages

_MESSAGE_KEYS = frozenset(
    {"role", "parts", "content", "name", "run_id", "turn_id", "timestamp", "metadata"}
)
_ASSISTANT_KEYS = _MESSAGE_KEYS | {"response", "tool_calls"}
_TOOL_KEYS = _MESSAGE_KEYS | {"is_error", "tool_call_id", "tool_name"}
_UNKNOWN_MESSAGE_KEYS = _MESSAGE_KEYS | {"raw", "source"}

_new_system_message: Final = make_draft(SystemMessage)
_new_user_message: Final = make_draft(UserMessage)
_new_assistant_message: Final = make_draft(AssistantMessage)
_new_tool_message: Final = make_draft(ToolMessage)
_new_unknown_message: Final = make_draft(UnknownMessage)

# This takes half the time of calling `Common`.
_new_common: Final = partial(tuple.__new__, Common)


def _read_common(
    raw: Object, left: int, known: frozenset[str], interned: Interned
) -> Common:
    """The *left* fields of a message, which all messages may have."""
    metadata = EMPTY_MAP
    raw_metadata = raw.get("metadata")
    if raw_metadata is not None:
        left -= 1
        metadata = _freeze_object(raw_metadata)
        if not metadata:
            raise UnusualValueError  # it may be all there is

        if not left:
            return _new_common(("", None, None, None, metadata, EMPTY_MAP))

    stamp = raw.get("name"), raw.get("run_id"), raw.get("turn_id"), raw.get("timestamp")
    left -= 4 - stamp.count(None)
    # The types are checked before the values become a key, because a value that is not
    # a text may have no hash.
    for text in stamp:
        if text is not None and (text.__class__ is not str or not text):
            raise UnusualValueError

    common: Common | None = interned.get(stamp)
    if common is None:
        name, run_id, turn_id, time = stamp
        common = interned[stamp] = Common(
            name or "",
            run_id and _read_uuid(run_id, interned),
            turn_id and _read_uuid(turn_id, interned),
            time and parse_time(time),
        )

    if metadata or left:
        unknown = _read_unknown(raw, left, known) if left else EMPTY_MAP
        return Common(*common[:4], metadata, unknown)

    return common


def _read_uuid(text: str, interned: Interned) -> UUID:
    uuid: UUID | None = interned.get(text)
    if uuid is None:
        uuid = interned[text] = parse_uuid(text)

    return uuid


def _write_common(raw: Object, common: Common) -> None:
    """Add the fields that all messages may have."""
    name, run_id, turn_id, time, metadata, unknown = common
    if name:
        raw["name"] = name

    if run_id is not None:
        raw["run_id"] = run_id

    if turn_id is not None:
        raw["turn_id"] = turn_id

    if time is not None:
        raw["timestamp"] = write_time(time)

    if metadata:
        raw["metadata"] = metadata

    if unknown:
        raw.update(unknown)


def write_time(time: datetime) -> datetime | str:
    # orjson omits zero microseconds, and knows few time zones.
    is_native = time.tzinfo is UTC and time.microsecond
    return time if is_native else format_time(time)


def _read_prompt(
    new: Callable[[], Any],
    cls: type,
    parts: Mapping[str, Any],
    raw: Object,
    interned: Interned,
) -> Any:
    """A message with nothing but content and common fields, of class *cls*."""
    left = len(raw) - 2
    content = raw.get("content")
    if content.__class__ is not str:
        content = _read_parts(raw["parts"], parts)

    message = new()
    message._common = (
        _read_common(raw, left, _MESSAGE_KEYS, interned) if left else PLAIN
    )
    message.content = content
    message.__class__ = cls
    return message


def _write_user_message(message: SystemMessage | UserMessage) -> Object:
    content = message.content
    raw: Object
    if content.__class__ is str:
        raw = {"role": "user", "content": content}
    else:
        parts = [PART_WRITERS[part.__class__](part) for part in content]
        raw = {"role": "user", "parts": parts}

    if message._common is not PLAIN:
        _write_common(raw, message._common)

    return raw


def _read_assistant_message(raw: Object, interned: Interned) -> AssistantMessage:
    left = len(raw) - 2
    content = raw.get("content")
    if content.__class__ is not str:
        if "parts" in raw:
            content = _read_parts(raw["parts"], _ASSISTANT_PARTS)
        else:
            content = ""
            left += 1

    tool_calls: Any = ()
    response, common = None, PLAIN
    if left:
        tool_calls, response = raw.get("tool_calls", ()), raw.get("response")
        if tool_calls != ():
            left -= 1
            if tool_calls.__class__ is not list:
                raise UnusualValueError

            tool_calls = tuple([_read_tool_call(each) for each in tool_calls])

        if response is not None:
            left -= 1
            response = _read_response(response)

        if left:
            common = _read_common(raw, left, _ASSISTANT_KEYS, interned)

    message = _new_assistant_message()
    message._common = common
    message.content = content
    message.tool_calls = tool_calls
    message.response = response
    message.__class__ = AssistantMessage
    return message


def _write_assistant_message(message: AssistantMessage) -> Object:
    raw: Object = {"role": "assistant"}
    content = message.content
    if content.__class__ is not str:
        raw["parts"] = [PART_WRITERS[part.__class__](part) for part in content]
    elif content:
        raw["content"] = content

    if message.tool_calls:
        raw["tool_calls"] = [write_tool_call(each) for each in message.tool_calls]

    if (response := message.response) is not None:
        raw["response"] = _write_response(response)

    if message._common is not PLAIN:
        _write_common(raw, message._common)

    return raw


def _read_tool_message(raw: Object, interned: Interned) -> ToolMessage:
    left = len(raw) - 3
    tool_call_id, tool_name = raw["tool_call_id"], raw.get("tool_name", "")
    if tool_name != "":
        left -= 1

    if (
        tool_call_id.__class__ is not str
        or not tool_call_id
        or tool_name.__class__ is not str
    ):
        raise UnusualValueError

    content = raw.get("content")
    if content.__class__ is not str:
        content = _read_parts(raw["parts"], _USER_PARTS)

    is_error, common = False, PLAIN
    if left:
        is_error = raw.get("is_error", False)
        if is_error:
            left -= 1

        if is_error.__class__ is not bool:
            raise UnusualValueError

        if left:
            common = _read_common(raw, left, _TOOL_KEYS, interned)

    message = _new_tool_message()
    message._common = common
    message.content = content
    message.tool_call_id = tool_call_id
    message.tool_name = tool_name
    message.is_error = is_error
    message.__class__ = ToolMessage
    return message


def _write_tool_message(message: ToolMessage) -> Object:
    content, call_id = message.content, message.tool_call_id
    raw: Object
    if content.__class__ is str:
        raw = {"role": "tool", "content": content, "tool_call_id": call_id}
    else:
        parts = [PART_WRITERS[part.__class__](part) for part in content]
        raw = {"role": "tool", "parts": parts, "tool_call_id": call_id}

    if tool_name := message.tool_name:
        raw["tool_name"] = tool_name

    if message.is_error:
        raw["is_error"] = True

    if message._common is not PLAIN:
        _write_common(raw, message._common)

    return raw


def _read_unknown_message(raw: Object, interned: Interned) -> UnknownMessage:
    """A message that a provider defined, in its wrapper."""
    left = len(raw) - 3
    inner, source = _freeze_object(raw["raw"], JsonMap), raw["source"]
    if source.__class__ is not str or not source:
        raise UnusualValueError

    message = _new_unknown_message()
    message._common = (
        _read_common(raw, left, _UNKNOWN_MESSAGE_KEYS, interned) if left else PLAIN
    )
    message.raw = inner
    message.source = source
    message.__class__ = UnknownMessage
    return message


def _write_unknown_message(message: UnknownMessage) -> Object:
    # By value: `PLAIN` may come from another process.
    if _needs_no_wrapper(message, "role") and message._common == PLAIN:
        return {**message.raw}

    raw: Object = {"role": UNKNOWN}
    if source := message.source:
        raw["source"] = source

    raw["raw"] = message.raw
    _write_common(raw, message._common)
    return raw


# A message of a role that this version doesn't know is rare, and left to the slow pass.
MESSAGE_READERS: dict[str, Any] = {
    "system": partial(_read_prompt, _new_system_message, SystemMessage, _SYSTEM_PARTS),
    "user": partial(_read_prompt, _new_user_message, UserMessage, _USER_PARTS),
    "assistant": _read_assistant_message,
    "tool": _read_tool_message,
    "unknown": _read_unknown_message,
}
MESSAGE_WRITERS: dict[type, Any] = {
    SystemMessage: lambda message: _write_user_message(message) | {"role": "system"},
    UserMessage: _write_user_message,
    AssistantMessage: _write_assistant_message,
    ToolMessage: _write_tool_message,
    UnknownMessage: _write_unknown_message,
}
