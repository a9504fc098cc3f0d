"""
Hooks for texts, numbers, booleans and null, and for types written as these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from conversation_state._canonical import describe_json
from conversation_state.codec._format import parse_base64, parse_uuid
from conversation_state.codec._structured._errors import TypeMismatch
from conversation_state.codec._structured._hooks import Hook

__all__ = ["SCALARS", "literal_hook", "read_enum", "read_null", "read_scalar"]

_MAX_LISTED = 10
_MAX_EXACT = 2**53


def read_null(raw: Any, _: Any) -> None:
    if raw is not None:
        raise TypeMismatch("null", describe_json(raw))


def read_scalar(base: type, raw: Any, kind: Any) -> Any:
    """
    A value of *base*, or of a subclass of it: *kind*.
    """
    if kind is not base and issubclass(kind, Enum):
        return read_enum(raw, kind)

    what, convert = SCALARS[base]
    with suppress(ValueError, OverflowError):
        made = convert(raw)
        if made is not None:
            return made if kind is base else kind(made)

    raise TypeMismatch(what, describe_json(raw))


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


_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def _convert_decimal(raw: Any) -> Decimal | None:
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
