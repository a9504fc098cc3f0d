"""
Converts plain JSON values to users' own types, strictly.

What lives here: hooks for scalars, arrays, objects and unions, the errors of cattrs
as problems with paths, and registered classes, which are written, too. What does
not: finding the JSON (`parsing`).

Imported only where it is needed: cattrs takes 50 ms.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from cattrs import Converter, StructureHandlerNotFoundError

from conversation_state._canonical import JsonPath, dump, load
from conversation_state._wording import shorten_repr
from conversation_state.codec._encode import write_body
from conversation_state.codec._reader import CodecReader, Problems, Read
from conversation_state.codec._structured._classes import (
    OwnValue,
    class_hook,
    union_hook,
)
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
from conversation_state.codec._structured._write import is_same, write_value

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
        msg = f"{shorten_repr(cls)} is neither an attrs class nor a dataclass"
        raise TypeError(msg)

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
    cls = type(value)
    raw = write_value(value, OwnValue)
    made, wrong = _run_hook(_find_hook(cls, ""), raw, cls, is_closed=True)
    if wrong is not None:
        problems = Problems()
        for where, what, inside, _ in iterate_problems(wrong, None):
            problems.add(where, what, inside=inside)

        msg = f"can't encode this {cls.__name__}, it could not be decoded: "
        raise ValueError(msg + str(problems.error())) from wrong

    if not is_same(value, made):
        msg = (
            f"can't encode {shorten_repr(value)}: it would be decoded as "
            f"{shorten_repr(made)}, which is not equal; declare each field as the "
            "type of what it holds"
        )
        raise ValueError(msg)

    return write_value(value, write_body)


def unstructure(value: Any) -> Any:
    """
    Any value that can be read, as plain JSON values, without reading it again.

    Raises:
        TypeError, ValueError:
            As `write_value`.
    """
    return load(dump(write_value(value, write_body)))


def _find_hook(kind: Any, failed: str) -> Hook:
    """
    Raises:
        TypeError:
            If *kind* has no hook; the message starts with *failed*.
    """
    try:
        hook: Hook = _get_converter().get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        inner = "" if error.type_ is kind else f", nor {type_name(error.type_)} in it"
        msg = f"{failed}{inner}: {error}"
        raise TypeError(msg) from None
    except Exception as error:  # whatever looking at annotations raises
        msg = f"{failed}: {error_text(error)}"
        raise TypeError(msg) from error

    return hook


def _run_hook(
    hook: Hook, raw: Any, kind: Any, *, is_closed: bool
) -> tuple[Any, Exception | None]:
    """
    The result of *hook*, or its error.
    """
    token = READ_CONTEXT.set(ReadContext(is_closed=is_closed))
    try:
        return hook(raw, kind), None
    except Exception as error:  # noqa: BLE001 - any of a class's own checks: returned
        return None, error
    finally:
        READ_CONTEXT.reset(token)


@cache
def _get_converter() -> Converter:
    """
    The converter for users' classes, with a hook for each class it has met.
    """
    made = Converter(detailed_validation=True)
    made.register_structure_hook_factory(lambda _: True, partial(_make_hook, made))
    for kind in SCALARS:
        made.register_structure_hook(kind, partial(read_scalar, kind))

    # The hook is registered by class, because cattrs before 26 prefers its own hook to
    # a predicate.
    made.register_structure_hook(Enum, read_enum)
    return made


def _make_hook(converter: Converter, kind: Any) -> Hook:
    """
    The hook for *kind*, which is not a scalar.
    """
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
