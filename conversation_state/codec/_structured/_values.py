"""
Hooks for texts, numbers, booleans and null, for types written as these, and for
arrays and maps.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from cattrs import Converter, IterableValidationNote

from conversation_state._canonical import describe_json
from conversation_state._wording import format_count
from conversation_state.codec._format import parse_base64, parse_uuid
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    Hook,
    TypeMismatch,
    deferred_hook,
    group_errors,
    unwrap_alias,
)

_MAX_LISTED = 10
# Beyond it, a float may stand for other integers than the one that was written.
_MAX_EXACT = 2**53


def read_null(raw: Any, _: Any) -> None:
    if raw is not None:
        raise TypeMismatch("null", describe_json(raw))


def read_scalar(base: type, raw: Any, kind: Any) -> Any:
    """A value of *base*, or of a subclass of it: *kind*."""
    if kind is not base and issubclass(kind, Enum):
        return read_enum(raw, kind)

    what, convert = SCALARS[base]
    # An ArithmeticError is a number beyond what a float or a Decimal can be.
    with suppress(ValueError, ArithmeticError):
        made = convert(raw)
        if made is not None:
            return made if kind is base else _make_subclass(base, made, kind)

    raise TypeMismatch(what, describe_json(raw))


def _make_subclass(base: type, value: Any, kind: Any) -> Any:
    """*value*, of the class *base*, as an instance of its subclass *kind*."""
    if base in {date, datetime, time}:
        return kind.fromisoformat(value.isoformat())

    return kind(str(value) if base is UUID else value)


def _text_converter(convert: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda raw: convert(raw) if type(raw) is str else None


def _convert_integer(raw: Any) -> int | None:
    if type(raw) is int:
        return raw

    # In JSON Schema 5.0 is an integer, and some models write it.
    if type(raw) is float and raw.is_integer() and abs(raw) <= _MAX_EXACT:
        return int(raw)

    return None


def _convert_number(raw: Any) -> float | None:
    return float(raw) if type(raw) in (int, float) else None


# Decimal itself also takes NaN, Infinity, underscores and spaces.
_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def _convert_decimal(raw: Any) -> Decimal | None:
    # By its text: `Decimal(0.1)` has all 55 digits of that float.
    if type(raw) in (int, float):
        return Decimal(repr(raw))

    return Decimal(raw) if type(raw) is str and _DECIMAL.fullmatch(raw) else None


# The most specific first: of a union, the first that accepts a value is used.
SCALARS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("true or false", lambda raw: raw if type(raw) is bool else None),
    int: ("an integer", _convert_integer),
    float: ("a number", _convert_number),
    UUID: ("a UUID", _text_converter(parse_uuid)),
    date: ("a date, like 2025-12-31", _text_converter(date.fromisoformat)),
    datetime: (
        "a time, like 2025-12-31T23:59:59Z",
        _text_converter(datetime.fromisoformat),
    ),
    time: ("a time of day, like 23:59:59", _text_converter(time.fromisoformat)),
    Decimal: ("a number, or a text of one", _convert_decimal),
    str: ("a text", lambda raw: raw if type(raw) is str else None),
    bytes: ("a text that is base64", _text_converter(parse_base64)),
    Path: ("a text that is a path", _text_converter(Path)),
}


def _is_same_literal(raw: Any, value: Any) -> bool:
    # `True == 1`, and `1.0 == 1`.
    return type(raw) is type(value) and bool(raw == value)


def _list_values(values: Iterable[Any]) -> str:
    words = [describe_json(value) for value in values]
    if len(words) > _MAX_LISTED:
        words[_MAX_LISTED:] = [f"{len(words) - _MAX_LISTED} more"]

    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def literal_hook(values: tuple[Any, ...]) -> Hook:
    known = [(v.value if isinstance(v, Enum) else v, v) for v in values]
    what = _list_values(plain for plain, _ in known)

    def structure(raw: Any, _: Any) -> Any:
        for plain, value in known:
            if _is_same_literal(raw, plain):
                return value

        raise TypeMismatch(what, describe_json(raw), is_tag=True)

    return structure


def read_enum(raw: Any, kind: Any) -> Any:
    # By calling the class, because its `_missing_` may accept further values.
    if any(type(each.value) is type(raw) for each in kind):
        with suppress(ValueError):
            return kind(raw)

    raise TypeMismatch(
        _list_values(each.value for each in kind), describe_json(raw), is_tag=True
    )


_MAX_ERRORS = 100


ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    Sequence: list,
    MutableSequence: list,
    Collection: list,
    Iterable: list,
    set: set,
    AbstractSet: set,
    MutableSet: set,
    frozenset: frozenset,
    deque: deque,
}

MAPS: dict[Any, Callable[[Iterable[tuple[Any, Any]]], Any]] = {
    dict: dict,
    Mapping: dict,
    MutableMapping: dict,
    OrderedDict: OrderedDict,
}

# The last step of the path, the raw value, its hook and its type.
_Item: TypeAlias = "tuple[int | str, Any, Hook, Any]"


def read_items(items: Iterable[_Item], kind: Any) -> list[Any]:
    """All items read, or an error with all their problems."""
    made: list[Any] = []
    wrong: list[Exception] = []
    for step, raw, hook, item in items:
        try:
            made.append(hook(raw, item))
        except Exception as error:  # noqa: BLE001 - any of a class's own checks: grouped
            _add_path_note(error, step)
            wrong.append(error)
            # Hostile JSON may hold a million invalid items.
            reading = READ_CONTEXT.get()
            reading.count += 1
            if reading.count >= _MAX_ERRORS:
                break

    if wrong:
        raise group_errors(wrong, kind)

    return made


def _add_path_note(error: Exception, step: int | str) -> None:
    # As cattrs' own hooks do: `group_exceptions` finds the step in such a note.
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, IterableValidationNote("item", step, None)]


def check_array(raw: Any) -> None:
    if type(raw) is not list:
        raise TypeMismatch("an array", describe_json(raw))


def check_object(raw: Any) -> None:
    if type(raw) is not dict:
        raise TypeMismatch("an object", describe_json(raw))


def array_hook(
    converter: Converter, make: Callable[[list[Any]], Any], item: Any = Any
) -> Hook:
    hook = deferred_hook(converter, item)

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        items = ((i, one, hook, item) for i, one in enumerate(raw))
        return make(read_items(items, kind))

    return structure


def tuple_hook(converter: Converter, kinds: tuple[Any, ...] | None) -> Hook:
    """The hook for tuples of *kinds*; None is any."""
    if kinds is None or kinds[1:] == (Ellipsis,):
        return array_hook(converter, tuple, *(kinds or ())[:1])

    hooks = [deferred_hook(converter, kind) for kind in kinds]

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        if len(raw) != len(kinds):
            what = f"an array of {format_count(len(kinds), 'item')}"
            raise TypeMismatch(what, f"one of {len(raw)}")

        return tuple(
            read_items(zip(range(len(raw)), raw, hooks, kinds, strict=True), kind)
        )

    return structure


def map_hook(
    converter: Converter,
    make: Callable[[Iterable[tuple[Any, Any]]], Any],
    key: Any = str,
    value: Any = Any,
) -> Hook:
    read_key, read_value = _key_reader(converter, key), deferred_hook(converter, value)

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        values = read_items(((k, v, read_value, value) for k, v in raw.items()), kind)
        keys = read_items(((k, k, read_key, key) for k in raw), kind)
        made = make(zip(keys, values, strict=True))
        if len(made) < len(raw):  # one value has taken the place of another
            raise _describe_equal_keys(raw, keys)

        return made

    return structure


def _describe_equal_keys(raw: dict[str, Any], keys: list[Any]) -> TypeMismatch:
    first: dict[Any, str] = {}
    pairs = (
        (first.setdefault(key, name), name) for name, key in zip(raw, keys, strict=True)
    )
    both = next(pair for pair in pairs if pair[0] != pair[1])
    got = " and ".join(map(describe_json, both))
    return TypeMismatch("different keys", f"{got}, which are the same")


# Python reads at most 4,300 digits.
_INTEGER_KEY = re.compile(r"-?(?:0|[1-9]\d{0,4000})", re.ASCII)


def _key_reader(converter: Converter, key: Any) -> Hook:
    hook, base = deferred_hook(converter, key), key
    while (inner := unwrap_alias(base)) is not None:
        base = inner

    if not (isinstance(base, type) and issubclass(base, int)) or base is bool:
        return hook

    def structure(raw: Any, kind: Any) -> Any:
        return hook(int(raw) if _INTEGER_KEY.fullmatch(raw) else raw, kind)

    return structure
