"""
The fast pass: what its generated readers and writers have in common.

What lives here: fields that all messages have, parts by their type, usages and
the JSON of others. What does not: fields of one class (`_readers`, `_writers`),
and what is wrong with a raw value: in any doubt a reader raises `Doubt`, and the
slow pass reads the value again.

The readers go past the constructors, so each rule of a constructor is a check
here or there. They trust raw values to be what JSON can hold: texts of valid
Unicode, keys that are texts, integers of at most 64 bits. What was not a JSON text
is checked by `is_loadable` before.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from conversation_state.messages import Common, UnknownMessage
from conversation_state.parts import KINDS, MediaPart, Part, UnknownPart
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

M = TypeVar("M", bound=MediaPart)
D = TypeVar("D", bound=PromptTokensDetails | CompletionTokensDetails)

Object: TypeAlias = "dict[str, Any]"
Raw: TypeAlias = "dict[str, Any]"

# What one document repeats: UUIDs by their text, and the common fields of
# messages by their raw values. Equal ones are one object, as before writing.
Seen: TypeAlias = "dict[Any, Any]"

# The largest count and position.
MAX: Final = 2**63 - 1
_SCALARS: Final = frozenset({str, int, bool, type(None)})
# orjson reads integers beyond 64 bits as floats; those are in doubt.
_FLOAT_LIMIT: Final = 2.0**63


class Doubt(Exception):  # noqa: N818 - named for the fact
    """A raw value that the slow pass has to read: invalid, or merely unusual."""


# What a reader raises in doubt: also where a required field is missing, and
# where a UUID, a time or base64 is invalid.
DOUBTS: Final = (Doubt, KeyError, ValueError)


# The JSON of others


def freeze_object(  # noqa: C901 - a call takes as long as a map
    raw: Raw, kind: type[JsonMap] = SortedJsonMap, depth: int = 0
) -> JsonMap:
    """*raw* as an immutable map."""
    if raw.__class__ is not dict or depth == MAX_LEVELS:
        raise Doubt

    # Keys, and a look at each value, take less than `items` does for so few.
    if len(raw) == 1:  # most, and nothing to compare
        (key,) = raw
        value = raw[key]
        cls = value.__class__
        if cls is dict:
            return kind({key: freeze_object(value, kind, depth + 1)})

        if cls is str or cls in _SCALARS:
            return kind(raw)

        return kind({key: _freeze_item(value, kind, depth + 1)})

    if not raw:
        return EMPTY_MAP

    items, last, is_sorted = raw, "", True
    for key in raw:
        if key < last:
            is_sorted = False  # not as we write it

        last = key
        value = raw[key]
        cls = value.__class__
        if cls is str or cls in _SCALARS:
            continue

        if items is raw:  # which is not ours to change
            items = raw.copy()

        items[key] = (
            freeze_object(value, kind, depth + 1)
            if cls is dict
            else _freeze_item(value, kind, depth + 1)
        )

    if not is_sorted and kind is SortedJsonMap:
        items = {name: items[name] for name in sorted(items)}

    return kind(items)


def _freeze_item(value: Any, kind: type[JsonMap], depth: int) -> Any:
    cls = value.__class__
    if cls is list and depth < MAX_LEVELS:
        return tuple(
            [
                item
                if item.__class__ in _SCALARS
                else freeze_object(item, kind, depth + 1)
                if item.__class__ is dict
                else _freeze_item(item, kind, depth + 1)
                for item in value
            ]
        )

    if cls is float and -_FLOAT_LIMIT < value < _FLOAT_LIMIT:
        return value

    raise Doubt


def read_unknown(raw: Raw, left: int, known: frozenset[str]) -> JsonMap:
    """The *left* fields of *raw* that are not *known*."""
    unknown = {key: value for key, value in raw.items() if key not in known}
    if len(unknown) != left:
        raise Doubt  # a known one is null

    return freeze_object(unknown, JsonMap)


def read_notes(
    raw: Raw, left: int, known: frozenset[str]
) -> tuple[int | None, JsonMap, JsonMap]:
    """
    The *left* fields of *raw*, a part or a call: its position in a response, its
    metadata, and those that are not *known*.
    """
    index, given, metadata = raw.get("index"), raw.get("metadata"), EMPTY_MAP
    if index is not None:
        left -= 1
        if index.__class__ is not int or not -1 < index <= MAX:
            raise Doubt

    if given is not None:
        left -= 1
        metadata = freeze_object(given)

    return index, metadata, read_unknown(raw, left, known) if left else EMPTY_MAP


# Messages

# This takes half the time of calling `Common`.
_new_common: Final = partial(tuple.__new__, Common)


def read_common(raw: Raw, left: int, known: frozenset[str], seen: Seen) -> Common:
    """The *left* fields of a message, which all messages may have."""
    metadata = EMPTY_MAP
    given = raw.get("metadata")
    if given is not None:
        left -= 1
        metadata = freeze_object(given)
        if not metadata:
            raise Doubt  # it may be all there is

        if not left:
            return _new_common(("", None, None, None, metadata, EMPTY_MAP))

    stamp = raw.get("name"), raw.get("run_id"), raw.get("turn_id"), raw.get("timestamp")
    left -= 4 - stamp.count(None)
    # The types are checked before the values become a key, because a value that is not
    # a text may have no hash.
    for text in stamp:
        if text is not None and (text.__class__ is not str or not text):
            raise Doubt

    common: Common | None = seen.get(stamp)
    if common is None:
        name, run_id, turn_id, time = stamp
        common = seen[stamp] = Common(
            name or "",
            run_id and read_uuid(run_id, seen),
            turn_id and read_uuid(turn_id, seen),
            time and parse_time(time),
        )

    if metadata or left:
        unknown = read_unknown(raw, left, known) if left else EMPTY_MAP
        return Common(*common[:4], metadata, unknown)

    return common


def read_uuid(text: str, seen: Seen) -> UUID:
    """A UUID, the same object for the same text."""
    uuid: UUID | None = seen.get(text)
    if uuid is None:
        uuid = seen[text] = parse_uuid(text)

    return uuid


def read_parts(raw: list[Raw], readers: Mapping[str, Any]) -> tuple[Part, ...]:
    """
    The parts of a message; *readers* reads those it may hold, and under ``*``
    those of a type that this version doesn't know.
    """
    if raw.__class__ is not list:
        raise Doubt

    other, parts = readers["*"], []
    for item in raw:
        if item.__class__ is not dict:
            raise Doubt

        kind = item["type"]
        if kind.__class__ is not str:
            raise Doubt

        parts.append(readers.get(kind, other)(item))

    return tuple(parts)


_MEDIA_KEYS: Final = {
    cls: frozenset({"type", *[each.name for each in attrs.fields(cls)]}) - {"unknown"}
    for cls in KINDS.values()
    if issubclass(cls, MediaPart)
}


def read_media_part(cls: type[M], raw: Raw) -> M:
    """A part of media, by its constructor."""
    known = _MEDIA_KEYS[cls]
    fields = {key: value for key, value in raw.items() if key in known}
    left = len(raw) - len(fields)
    if None in fields.values():
        raise Doubt

    del fields["type"]
    if "data" in fields:
        if fields["data"].__class__ is not str:
            raise Doubt

        fields["data"] = parse_base64(fields["data"])

    if "metadata" in fields:
        fields["metadata"] = freeze_object(fields["metadata"])

    if left:
        fields["unknown"] = read_unknown(raw, left, known)

    return cls(**fields)


def read_new_part(raw: Raw) -> UnknownPart:
    """A part of a type that this version doesn't know."""
    return UnknownPart(freeze_object(raw, JsonMap))


def refuse(_raw: Raw) -> Never:
    """A part that a message can't hold."""
    raise Doubt


def write_media_part(part: MediaPart) -> Object:
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


def is_as_it_came(value: UnknownMessage | UnknownPart, tag: str) -> bool:
    """
    Whether an unknown value says what it is, so that it needs no wrapper. Its
    constructor has checked that it is of no known kind.
    """
    kind = value.raw.get(tag)
    return not value.source and isinstance(kind, str) and kind != UNKNOWN


def write_common(data: Object, common: Common) -> None:
    """Add the fields that all messages may have."""
    name, run_id, turn_id, time, metadata, unknown = common
    if name:
        data["name"] = name

    if run_id is not None:
        data["run_id"] = run_id

    if turn_id is not None:
        data["turn_id"] = turn_id

    if time is not None:
        data["timestamp"] = write_time(time)

    if metadata:
        data["metadata"] = metadata

    if unknown:
        data.update(unknown)


def write_time(time: datetime) -> datetime | str:
    # orjson omits zero microseconds, and knows few time zones.
    is_native = time.tzinfo is UTC and time.microsecond
    return time if is_native else format_time(time)


# Usages


_USAGE_KEYS = frozenset({*Usage._names, "extra"})
_NO_PROMPT: Final[PromptTokensDetails] = PromptTokensDetails._nothing
_NO_COMPLETION: Final[CompletionTokensDetails] = CompletionTokensDetails._nothing
_new_usage: Final = make_draft(Usage)


def read_usage(raw: Raw) -> Usage:
    """A usage. Unknown names are further categories of tokens."""
    if raw.__class__ is not dict:
        raise Doubt

    prompt = raw.get("prompt_tokens", 0)
    completion = raw.get("completion_tokens", 0)
    if prompt.__class__ is not int or completion.__class__ is not int:
        raise Doubt

    both = prompt + completion
    total = raw.get("total_tokens", both)
    if total.__class__ is not int or not (
        -1 < prompt <= MAX and -1 < completion <= MAX and -1 < total <= MAX
    ):
        raise Doubt

    of_prompt, of_completion, extra = _NO_PROMPT, _NO_COMPLETION, EMPTY_MAP
    if len(raw) != ("prompt_tokens" in raw) + ("completion_tokens" in raw):
        if "prompt_tokens_details" in raw:
            of_prompt = _read_details(PromptTokensDetails, raw["prompt_tokens_details"])

        if "completion_tokens_details" in raw:
            of_completion = _read_details(
                CompletionTokensDetails, raw["completion_tokens_details"]
            )

        if "extra" in raw:
            raise Doubt

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


def _read_details(cls: type[D], raw: Raw) -> D:
    if not _check_counts(raw).keys() <= {*cls._names}:
        raise Doubt

    return cls(**raw)


def _check_counts(raw: Raw) -> Raw:
    if raw.__class__ is not dict:
        raise Doubt

    for count in raw.values():
        if count.__class__ is not int or not -1 < count <= MAX:
            raise Doubt

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
