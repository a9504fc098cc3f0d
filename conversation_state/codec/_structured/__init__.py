"""
Converts plain JSON values to users' own types, strictly.

What lives here: hooks for scalars, arrays, objects and unions, the errors of cattrs
as problems with paths, and registered classes, which are written, too. What does
not: finding the JSON (`parsing`).

Imported only where it is needed: cattrs takes 50 ms.
"""

from __future__ import annotations

import typing
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields as fields_of_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from math import isfinite
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

import attrs
from cattrs import Converter, StructureHandlerNotFoundError

from conversation_state._canonical import JsonPath, dump, load
from conversation_state._persistent import View, check_text
from conversation_state._wording import shorten_repr, with_article
from conversation_state.codec import _kinds
from conversation_state.codec._format import format_base64, format_time
from conversation_state.codec._reader import CodecReader, Problems, Read
from conversation_state.codec._structured._classes import class_hook, union_hook
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    Hook,
    ReadContext,
    deferred_hook,
    error_text,
    has_fields,
    iterate_problems,
    type_name,
    unwrap_alias,
)
from conversation_state.codec._structured._values import (
    ARRAYS,
    MAPS,
    SCALARS,
    array_hook,
    literal_hook,
    map_hook,
    read_enum,
    read_null,
    read_scalar,
    tuple_hook,
)

__all__ = [
    "Structure",
    "check_class",
    "read_class",
    "structurer",
    "unstructure",
    "write_instance",
]

_ANY_TUPLE = (tuple, typing.Tuple)  # noqa: UP006 - is not `tuple[()]`

# Converts a plain JSON value at a path.
Structure: TypeAlias = "Callable[[Any, JsonPath], Any]"


def structurer(kind: Any) -> Structure:
    """
    A function that converts a plain JSON value to *kind*, or raises
    `DecodeError` with all problems; its cause is the error of a user's class.

    Keys that a class does not have are left out.

    Raises:
        TypeError:
            If *kind*, or a type in it, can't be read.
    """
    kind = NoneType if kind is None else kind
    hook = _find_hook(kind, f"can't read {type_name(kind)} from JSON")

    def read(raw: Any, path: JsonPath) -> Any:
        value, wrong = _run_hook(hook, raw, kind, is_closed=False)
        if wrong is None:
            return value

        problems, cause = Problems(), None
        for where, what, inside, raised in iterate_problems(wrong, path):
            problems.add(where, what, inside=inside)
            cause = cause or raised

        raise problems.error() from cause

    return read


def check_class(cls: type) -> None:
    """
    Check that *cls* can be registered.

    Raises:
        TypeError:
            If it is neither an attrs class nor a dataclass, or a field of it
            is of a type that can't be read.
    """
    if not isinstance(cls, type) or not has_fields(cls):
        raise TypeError(
            f"{shorten_repr(cls)} is neither an attrs class nor a dataclass"
        )

    _find_hook(cls, f"can't register {cls.__name__}")


def read_class(cls: type) -> Read:
    """
    How to read instances of a registered class. Keys that a class does not
    have are problems: written data has no others.
    """

    def read(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
        reader.has_foreign_json = True
        value, wrong = _run_hook(_find_hook(cls, ""), raw, cls, is_closed=True)
        for where, what, inside, _ in iterate_problems(wrong, path) if wrong else ():
            reader.problems.add(where, what, inside=inside)

        return value

    return read


def write_instance(value: Any) -> Any:
    """
    An instance of a registered class as plain JSON values, which are read as
    an equal one.

    Raises:
        ValueError:
            If it holds what JSON can't represent, or what would be read as
            something else or not at all.

        TypeError:
            If it holds a value of a type that can't be written.
    """
    # The value is read back before it is returned, because a value that can't be
    # decoded must not be saved.
    cls, raw = type(value), write_value(value)
    data = load(dump(raw))
    made, wrong = _run_hook(_find_hook(cls, ""), data, cls, is_closed=True)
    if wrong is not None:
        problems = Problems()
        for where, what, inside, _ in iterate_problems(wrong, None):
            problems.add(where, what, inside=inside)

        msg = f"can't encode this {cls.__name__}, it could not be decoded: "
        raise ValueError(msg + str(problems.error())) from wrong

    if not is_same(value, made):
        raise ValueError(
            f"can't encode {shorten_repr(value)}: it would be decoded as "
            f"{shorten_repr(made)}, which is not equal; declare each field as the "
            "type of what it holds"
        )

    return raw


def unstructure(value: Any) -> Any:
    """
    Any value that can be read, as plain JSON values, without reading it again.

    Raises:
        TypeError, ValueError:
            As `write_value`.
    """
    return load(dump(write_value(value)))


def _find_hook(kind: Any, failed: str) -> Hook:
    try:
        hook: Hook = _get_converter().get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        inner = "" if error.type_ is kind else f", nor {type_name(error.type_)} in it"
        raise TypeError(f"{failed}{inner}: {error}") from None
    except Exception as error:  # whatever looking at annotations raises
        raise TypeError(f"{failed}: {error_text(error)}") from error

    return hook


def _run_hook(
    hook: Hook, raw: Any, kind: Any, *, is_closed: bool
) -> tuple[Any, Exception | None]:
    # A context variable, because cattrs calls hooks with a value and a type only.
    token = READ_CONTEXT.set(ReadContext(is_closed=is_closed))
    try:
        return hook(raw, kind), None
    except Exception as error:  # noqa: BLE001 - any of a class's own checks: returned
        return None, error
    finally:
        READ_CONTEXT.reset(token)


@cache
def _get_converter() -> Converter:
    """The converter for users' classes, with a hook for each class it has met."""
    made = Converter(detailed_validation=True)
    made.register_structure_hook_factory(lambda _: True, partial(_make_hook, made))
    for kind in SCALARS:
        made.register_structure_hook(kind, partial(read_scalar, kind))

    # The hook is registered by class, because cattrs before 26 prefers its own hook to
    # a predicate.
    made.register_structure_hook(Enum, read_enum)
    return made


def _make_hook(converter: Converter, kind: Any) -> Hook:
    if kind is Any or kind is object:
        return lambda raw, _: raw

    if kind is None or kind is NoneType:
        return read_null

    base = unwrap_alias(kind)
    if base is not None:
        hook = deferred_hook(converter, base)
        return lambda raw, _: hook(raw, base)

    origin = get_origin(kind) or kind
    if origin is Literal:
        return literal_hook(get_args(kind))

    if origin is Union or origin is UnionType:
        return union_hook(converter, kind)

    made = (
        _make_class_hook(converter, kind, origin) if isinstance(origin, type) else None
    )
    if made is None:
        raise _unreadable_type(kind)

    return made


def _make_class_hook(converter: Converter, kind: Any, origin: type) -> Hook | None:
    args = get_args(kind)
    if origin is tuple:
        return tuple_hook(converter, None if kind in _ANY_TUPLE else args)

    if origin in ARRAYS:
        return array_hook(converter, ARRAYS[origin], *args)

    if origin in MAPS:
        return map_hook(converter, MAPS[origin], *args)

    return class_hook(converter, kind, origin)


def _unreadable_type(kind: Any) -> StructureHandlerNotFoundError:
    msg = (
        "what can be read are attrs classes, dataclasses, TypedDict, NamedTuple, Enum, "
        "Literal, unions, list, tuple, set, dict, str, int, float, bool, None, Any, "
        f"{', '.join(each.__name__ for each in list(SCALARS)[3:] if each is not str)}"
    )
    return StructureHandlerNotFoundError(msg, kind)


# Writing

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


def write_value(value: Any, level: int = 0) -> Any:
    """
    *value* as values for orjson.

    Deterministic: sets are written in the order of their items' JSON.

    Raises:
        ValueError:
            If it holds a number or a text that JSON can't represent, or is nested
            too deeply, for example in itself.

        TypeError:
            If it holds a value of a type that can't be written.
    """
    if level > _MAX_LEVELS:
        raise ValueError(
            f"it is nested more than {_MAX_LEVELS} levels deep, or holds itself"
        )

    value = value.value if isinstance(value, Enum) else value
    if value is None or isinstance(value, (bool, str, int, float)):
        return _write_scalar(value)

    cls = type(value)
    if cls in _kinds.WRITES and cls not in (list, tuple):
        _, write = _kinds.WRITES[cls]
        return write(value)

    items = _iterate_items(value)
    if items is not None:
        return {key: write_value(item, level + 1) for key, item in items}

    if isinstance(value, _ARRAYS):
        return [write_value(item, level + 1) for item in value]

    if isinstance(value, AbstractSet):
        return sorted((write_value(item, level + 1) for item in value), key=dump)

    return _write_as_text(value, f"can't write {with_article(cls.__name__)} as JSON")


def _write_scalar(value: str | float | None) -> str | int | float | None:
    if isinstance(value, str):
        return check_text(value, "a text in it")

    if value is None or isinstance(value, bool):
        return value

    if isinstance(value, int):
        if _MIN_INT <= value <= _MAX_INT:
            return int(value)

        raise ValueError(
            f"JSON can't represent {shorten_repr(value)}: it takes more than 64 bits"
        )

    if isfinite(value):
        return float(value)  # orjson writes no subclass of it

    raise ValueError(f"JSON can't represent {shorten_repr(value)}")


def _write_as_text(value: Any, failed: str) -> str:
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
    """What an object holds by key; None if *value* is not written as one."""
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
    """The fields that an instance takes, and those it is compared by."""
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
    if isinstance(value, _ARRAYS):
        return isinstance(made, _ARRAYS) and _are_same(value, made)

    if isinstance(value, Mapping) and isinstance(made, Mapping):
        return value.keys() == made.keys() and all(
            is_same(item, made[key]) for key, item in value.items()
        )

    cls = type(value)
    if cls is type(made) and has_fields(cls) and cls not in _kinds.WRITES:
        names = _compared_names(cls)
        return _are_same(
            [getattr(value, name) for name in names],
            [getattr(made, name) for name in names],
        )

    return bool(value is made or value == made)


def _are_same(values: Iterable[Any], made: Iterable[Any]) -> bool:
    ours, theirs = list(values), list(made)
    return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
