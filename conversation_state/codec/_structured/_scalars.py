"""
Texts, numbers, truth and null, and what is written as one of them.
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

from conversation_state.codec._problems import shown
from conversation_state.codec._structured._shapes import Hook
from conversation_state.codec._structured._wrong import Misfit
from conversation_state.codec._wire import bytes_of, uuid_of

__all__ = ["SCALARS", "enumeration", "literal", "null", "scalar"]

_MOST_NAMED = 10
_MOST_EXACT = 2**53


def null(raw: Any, _: Any) -> None:
    if raw is not None:
        raise Misfit("null", shown(raw))


def scalar(base: type, raw: Any, kind: Any) -> Any:
    """
    A value of *base*, or of a subclass of it: *kind*.
    """
    if kind is not base and issubclass(kind, Enum):
        return enumeration(raw, kind)

    what, convert = SCALARS[base]
    with suppress(ValueError, OverflowError):
        made = convert(raw)
        if made is not None:
            return made if kind is base else kind(made)

    raise Misfit(what, shown(raw))


def _of_text(convert: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda raw: convert(raw) if type(raw) is str else None


def _integer(raw: Any) -> int | None:
    if type(raw) is int:
        return raw

    # To JSON Schema 5.0 is an integer, and some models write it.
    if type(raw) is float and raw.is_integer() and abs(raw) <= _MOST_EXACT:
        return int(raw)

    return None


def _number(raw: Any) -> float | None:
    return float(raw) if type(raw) in (int, float) else None


_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def _decimal(raw: Any) -> Decimal | None:
    if type(raw) in (int, float):
        return Decimal(repr(raw))

    return Decimal(raw) if type(raw) is str and _DECIMAL.fullmatch(raw) else None


# Most telling first: of a union with several of them, that one takes a value.
SCALARS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("true or false", lambda raw: raw if type(raw) is bool else None),
    int: ("an integer", _integer),
    float: ("a number", _number),
    UUID: ("a UUID", _of_text(uuid_of)),
    date: ("a date, like 2025-12-31", _of_text(date.fromisoformat)),
    datetime: ("a time, like 2025-12-31T23:59:59Z", _of_text(datetime.fromisoformat)),
    time: ("a time of day, like 23:59:59", _of_text(time.fromisoformat)),
    Decimal: ("a number, or a text of one", _decimal),
    str: ("a text", lambda raw: raw if type(raw) is str else None),
    bytes: ("a text that is base64", _of_text(bytes_of)),
    Path: ("a text that is a path", _of_text(Path)),
}


def _same(raw: Any, value: Any) -> bool:
    # `True == 1`, and `1.0 == 1`.
    return type(raw) is type(value) and bool(raw == value)


def _listed(values: Iterable[Any]) -> str:
    words = [shown(value) for value in values]
    if len(words) > _MOST_NAMED:
        words[_MOST_NAMED:] = [f"{len(words) - _MOST_NAMED} more"]

    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def literal(values: tuple[Any, ...]) -> Hook:
    known = [(v.value if isinstance(v, Enum) else v, v) for v in values]
    what = _listed(plain for plain, _ in known)

    def structure(raw: Any, _: Any) -> Any:
        for plain, value in known:
            if _same(raw, plain):
                return value

        raise Misfit(what, shown(raw), is_tag=True)

    return structure


def enumeration(raw: Any, kind: Any) -> Any:
    # Asked by calling it, for the class may know further names (`_missing_`).
    if any(type(each.value) is type(raw) for each in kind):
        with suppress(ValueError):
            return kind(raw)

    raise Misfit(_listed(each.value for each in kind), shown(raw), is_tag=True)
