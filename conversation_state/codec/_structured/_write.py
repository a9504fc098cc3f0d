"""
Instances of registered classes as plain JSON values.

What lives here: writing, and the check that what was written reads as the
same value. What does not: reading (`_structured`), and how values of this
library are written (`_encode`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields as fields_of_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

import attrs

from conversation_state._canonical import dump
from conversation_state._persistent import View, check_text
from conversation_state._wording import shorten_repr, with_article
from conversation_state.codec import _encode
from conversation_state.codec._format import format_base64, format_time
from conversation_state.codec._structured._classes import OwnValue
from conversation_state.codec._structured._hooks import has_fields

__all__ = ["is_same", "write_value"]

# orjson writes no more than 254, and a document has some around a value.
_MAX_LEVELS = 240
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1

_ARRAYS = (list, tuple, deque, View)
_AS_TEXT: dict[type, Callable[[Any], str]] = {
    datetime: format_time,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
    Decimal: str,
    PurePath: str,
    bytes: format_base64,
}


def write_value(
    value: Any, write_own_value: Callable[[Any], Any], level: int = 0
) -> Any:
    """
    *value* as plain JSON values; *write_own_value* writes values of this library.

    Deterministic: sets are written in the order of their items' JSON.

    Raises:
        ValueError:
            If it holds a number or a text that JSON can't represent, or is nested
            too deeply, for example in itself.

        TypeError:
            If it holds a value of a type that can't be written.
    """
    if level > _MAX_LEVELS:
        msg = f"it is nested more than {_MAX_LEVELS} levels deep, or holds itself"
        raise ValueError(msg)

    value = value.value if isinstance(value, Enum) else value
    if value is None or isinstance(value, (bool, str, int, float)):
        return _write_scalar(value)

    cls = type(value)
    if cls in _encode.WRITES and cls not in (list, tuple):
        return write_own_value(value)

    items = _iterate_items(value)
    if items is not None:
        return {
            key: write_value(item, write_own_value, level + 1) for key, item in items
        }

    if isinstance(value, _ARRAYS):
        return [write_value(item, write_own_value, level + 1) for item in value]

    if isinstance(value, AbstractSet):
        return sorted(
            (write_value(item, write_own_value, level + 1) for item in value), key=dump
        )

    return _write_as_text(value, f"can't write {with_article(cls.__name__)} as JSON")


def _write_scalar(value: str | float | None) -> str | int | float | None:
    if isinstance(value, str):
        return check_text(value, "a text in it")

    if value is None or isinstance(value, bool):
        return value

    if isinstance(value, int):
        if _MIN_INT <= value <= _MAX_INT:
            return int(value)

        msg = f"JSON can't represent {shorten_repr(value)}: it takes more than 64 bits"
        raise ValueError(msg)

    if isfinite(value):
        return float(value)  # orjson writes no subclass of it

    msg = f"JSON can't represent {shorten_repr(value)}"
    raise ValueError(msg)


def _write_as_text(value: Any, failed: str) -> str:
    """
    Raises:
        TypeError:
            With the message *failed*, if it is not written as a text.
    """
    for kind, text_of in _AS_TEXT.items():
        if isinstance(value, kind):
            return text_of(value)

    raise TypeError(failed)


def _write_key(key: Any) -> str:
    plain = key.value if isinstance(key, Enum) else key
    if isinstance(plain, str):
        return check_text(plain, "a key in it")

    if isinstance(plain, int) and not isinstance(plain, bool):
        return str(int(plain))

    failed = f"can't write {shorten_repr(key)} as a key; keys of JSON are texts"
    return _write_as_text(plain, failed)


def _iterate_items(value: Any) -> Iterable[tuple[str, Any]] | None:
    """
    What an object holds by key; None if *value* is not written as one.
    """
    if has_fields(type(value)):
        # The names that `__init__` takes, which attrs may derive from others.
        return [
            (getattr(field, "alias", None) or field.name, getattr(value, field.name))
            for field in _fields_of(type(value))
            if field.init
        ]

    if isinstance(value, Mapping):
        return [(_write_key(key), item) for key, item in value.items()]

    return None


def _fields_of(cls: Any) -> tuple[Any, ...]:
    return attrs.fields(cls) if attrs.has(cls) else fields_of_dataclass(cls)


def _compared_names(cls: type) -> list[str]:
    """
    The fields that an instance takes, and those it is compared by.
    """
    return [
        field.name
        for field in _fields_of(cls)
        if field.init or getattr(field, "eq", getattr(field, "compare", True))
    ]


def is_same(value: Any, made: Any) -> bool:
    """
    Whether *made* has the content of *value*: equal, or of the same class with
    the same fields where that class doesn't compare by content. Sequences may
    be of different classes: `Sequence[int]` is read as a list.
    """
    # A field of type Any has kept it, and would have plain JSON in its place once it
    # is decoded.
    if isinstance(made, OwnValue):
        return False

    if isinstance(value, _ARRAYS):
        return isinstance(made, _ARRAYS) and _are_same(value, made)

    if isinstance(value, Mapping) and isinstance(made, Mapping):
        return value.keys() == made.keys() and all(
            is_same(item, made[key]) for key, item in value.items()
        )

    cls = type(value)
    if cls is type(made) and has_fields(cls) and cls not in _encode.WRITES:
        names = _compared_names(cls)
        return _are_same(
            [getattr(value, name) for name in names],
            [getattr(made, name) for name in names],
        )

    return bool(value is made or value == made)


def _are_same(values: Iterable[Any], made: Iterable[Any]) -> bool:
    ours, theirs = list(values), list(made)
    return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
