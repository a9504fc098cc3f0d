"""
What all kinds of type have in common: hooks, names of keys, one reading.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import fields as fields_of_dataclass
from dataclasses import is_dataclass
from typing import (
    Annotated,
    Any,
    Final,
    NewType,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs
from cattrs import Converter

__all__ = [
    "READING",
    "Hook",
    "Reading",
    "has_fields",
    "later",
    "names_of",
    "unwrapped",
]

# cattrs' kind of hook: the plain value, and the type.
Hook: TypeAlias = "Callable[[Any, Any], Any]"


class Reading:
    """
    One value being read.

    Attributes:
        known: What unions made of arrays and objects so far. Classes in a
            union may hold that union again: without this, time would double
            with every level.

        count: How many items were wrong, except in what is tried only.
    """

    __slots__ = ("count", "known")

    count: int
    known: dict[tuple[int, Any], tuple[Any, Exception | None]]

    def __init__(self) -> None:
        self.count = 0
        self.known = {}


READING: ContextVar[Reading] = ContextVar("READING")


def later(converter: Converter, kind: Any) -> Hook:
    """
    What reads *kind*, which may be what is being made ready right now.
    """
    making = _MAKING.get()
    if kind in making:
        return converter.structure

    token = _MAKING.set(making | {kind})
    try:
        return converter.get_structure_hook(kind)
    except RecursionError:  # what cattrs raises for a class in itself
        return converter.structure
    finally:
        _MAKING.reset(token)


_MAKING: ContextVar[frozenset[Any]] = ContextVar("_MAKING", default=frozenset())


def unwrapped(kind: Any) -> Any:
    """
    What *kind* is another name of; None if it is not.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return kind.__origin__

    if origin is Final:
        return get_args(kind)[0]

    if isinstance(kind, NewType):
        return kind.__supertype__

    # Written `type Name = ...` from Python 3.12 on.
    alias = kind if origin is None else origin
    if type(alias).__name__ != "TypeAliasType":
        return None

    base = alias.__value__
    if origin is None:
        return base

    given = dict(zip(alias.__type_params__, get_args(kind), strict=True))
    used = getattr(base, "__parameters__", ())
    return base[tuple(given[each] for each in used)] if used else base


def has_fields(cls: Any) -> bool:
    """
    Whether *cls* is an attrs class or a dataclass.
    """
    return attrs.has(cls) or is_dataclass(cls)


def names_of(kind: Any) -> frozenset[str]:
    """
    The keys of objects that *kind* knows; none if it is no class of fields.
    """
    origin = get_origin(kind) or kind
    if attrs.has(origin):
        fields = attrs.fields(origin)
        return frozenset(f.alias or f.name for f in fields if f.init)

    if is_dataclass(origin):
        return frozenset(f.name for f in fields_of_dataclass(origin) if f.init)

    if is_typeddict(origin):
        return frozenset(get_type_hints(origin))

    return frozenset(getattr(origin, "_fields", ()))
