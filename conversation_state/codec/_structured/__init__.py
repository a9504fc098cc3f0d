"""
Any type of users' own: plain JSON values made into it, strictly.

What lives here: how texts, numbers, arrays, objects and unions of them become
what a type says, and how what cattrs finds wrong becomes problems with paths.
What does not: finding the JSON (`parsing`), and classes that are written, too
(`_registered`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from cattrs import Converter, StructureHandlerNotFoundError

from conversation_state.codec._problems import At, Problems
from conversation_state.codec._structured._objects import object_of, of_ours
from conversation_state.codec._structured._scalars import (
    SCALARS,
    enumeration,
    literal,
    null,
    scalar,
)
from conversation_state.codec._structured._several import (
    ARRAYS,
    MAPS,
    array,
    map_of,
    tuple_of,
)
from conversation_state.codec._structured._shapes import (
    READING,
    Hook,
    Reading,
    has_fields,
    later,
    unwrapped,
)
from conversation_state.codec._structured._unions import union
from conversation_state.codec._structured._wrong import found, named, words_of

__all__ = ["Structure", "found", "has_fields", "of_ours", "structurer"]

# Makes a value of a plain JSON value at a place.
Structure: TypeAlias = "Callable[[Any, At], Any]"


def structurer(kind: Any) -> Structure:
    """
    What makes a value of type *kind* of a plain JSON value, or raises
    `DecodeError` with all that is wrong; it chains what a user's class raised.

    Raises:
        TypeError:
            If nobody knows how to read *kind*, or something it is made of.
    """
    kind = NoneType if kind is None else kind
    try:
        hook: Hook = _converter().get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        inner = "" if error.type_ is kind else f", nor {named(error.type_)} in it"
        msg = f"can't read {named(kind)} from JSON{inner}: {error}"
        raise TypeError(msg) from None
    except Exception as error:  # whatever looking at annotations raises
        msg = f"can't read {named(kind)} from JSON: {words_of(error)}"
        raise TypeError(msg) from error

    def read(raw: Any, at: At) -> Any:
        token = READING.set(Reading())
        try:
            return hook(raw, kind)
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            wrong = error
        finally:
            READING.reset(token)

        problems, cause = Problems(), None
        for where, what, inside, raised in found(wrong, at):
            problems.add(where, what, inside=inside)
            cause = cause or raised

        raise problems.error() from cause

    return read


@cache
def _converter() -> Converter:
    made = Converter(detailed_validation=True)
    made.register_structure_hook_factory(lambda _: True, partial(_hook, made))
    for kind in SCALARS:
        made.register_structure_hook(kind, partial(scalar, kind))

    return made


def _hook(converter: Converter, kind: Any) -> Hook:
    """
    What reads values of *kind*, which is no scalar.
    """
    if kind is Any or kind is object:
        return lambda raw, _: raw

    if kind is None or kind is NoneType:
        return null

    base = unwrapped(kind)
    if base is not None:
        hook = later(converter, base)
        return lambda raw, _: hook(raw, base)

    origin = get_origin(kind) or kind
    if origin is Literal:
        return literal(get_args(kind))

    if origin is Union or origin is UnionType:
        return union(converter, kind)

    made = _of_class(converter, kind, origin) if isinstance(origin, type) else None
    if made is None:
        raise _unreadable(kind)

    return made


def _of_class(converter: Converter, kind: Any, origin: type) -> Hook | None:
    args = get_args(kind)
    if origin is tuple:
        return tuple_of(converter, args)

    if origin in ARRAYS:
        return array(converter, ARRAYS[origin], *args)

    if origin in MAPS:
        return map_of(converter, MAPS[origin], *args)

    if issubclass(origin, Enum):
        return enumeration

    return object_of(converter, kind, origin)


def _unreadable(kind: Any) -> StructureHandlerNotFoundError:
    msg = (
        "what can be read are attrs classes, dataclasses, TypedDict, NamedTuple, Enum, "
        "Literal, unions, list, tuple, set, dict, str, int, float, bool, None, Any, "
        f"{', '.join(each.__name__ for each in list(SCALARS)[3:] if each is not str)}"
    )
    return StructureHandlerNotFoundError(msg, kind)
