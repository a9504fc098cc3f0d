"""
Shared by all hooks: the context of one read, deferred hooks, names of keys.
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
    "READ_CONTEXT",
    "Hook",
    "ReadContext",
    "deferred_hook",
    "has_fields",
    "key_names",
    "unwrap_alias",
]

# cattrs' kind of hook: the plain value, and the type.
Hook: TypeAlias = "Callable[[Any, Any], Any]"


class ReadContext:
    """
    The context of reading one value.

    Attributes:
        known: Results of unions by the id of the raw value. A class in a union
            may hold that union again: without this, time would double with
            every level.

        count: The number of invalid items, without those of failed attempts.

        is_closed: Whether unknown keys are problems; else they are left out.
    """

    __slots__ = ("count", "is_closed", "known")

    count: int
    is_closed: bool
    known: dict[tuple[int, Any], tuple[Any, Exception | None]]

    def __init__(self, *, is_closed: bool) -> None:
        self.count = 0
        self.is_closed = is_closed
        self.known = {}


# The problems and limits of the value that is read now.
READ_CONTEXT: ContextVar[ReadContext] = ContextVar("READING")


def deferred_hook(converter: Converter, kind: Any) -> Hook:
    """
    The hook for *kind*, resolved later if it is under construction: types may
    be recursive.
    """
    making = _PENDING_TYPES.get()
    if kind in making:
        return converter.structure

    token = _PENDING_TYPES.set(making | {kind})
    try:
        return converter.get_structure_hook(kind)
    except RecursionError:  # what cattrs raises for a class in itself
        return converter.structure
    finally:
        _PENDING_TYPES.reset(token)


# The classes whose hooks are made now: one that contains itself is met again.
_PENDING_TYPES: ContextVar[frozenset[Any]] = ContextVar("_MAKING", default=frozenset())


def unwrap_alias(kind: Any) -> Any:
    """
    The type that *kind* is an alias or wrapper of; None if it is neither.
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


def key_names(kind: Any) -> frozenset[str]:
    """
    The keys of objects of *kind*; empty if it is no class with fields.
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
