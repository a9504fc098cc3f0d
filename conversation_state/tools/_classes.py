"""
Classes with fields, and what their type variables stand for.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, Generic, TypeAlias, get_args, get_origin, is_typeddict

import attrs
import msgspec

__all__ = [
    "Variables",
    "filled",
    "has_fields",
    "is_named_tuple",
    "name_of",
    "variables_of",
]

# What each type variable stands for.
Variables: TypeAlias = "dict[Any, Any]"


def has_fields(cls: type) -> bool:
    """
    Whether it is known what an instance of *cls* is made of.
    """
    return (
        attrs.has(cls)
        or is_dataclass(cls)
        or is_typeddict(cls)
        or issubclass(cls, msgspec.Struct)
        or is_named_tuple(cls)
    )


def is_named_tuple(cls: type) -> bool:
    """
    Whether what an instance of *cls* is made of has an order, and names.
    """
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def name_of(kind: Any) -> str:
    """
    What a class or an alias is called, whatever it is made with.
    """
    return str(getattr(kind, "__name__", "") or get_origin(kind).__name__)


def filled(kind: Any, variables: Variables) -> Any:
    """
    *kind* with what type variables in it stand for.
    """
    free = getattr(kind, "__parameters__", ())
    if not variables or not free or isinstance(kind, type):
        return kind

    return kind[tuple(variables.get(each, each) for each in free)]


def variables_of(cls: Any, args: tuple[Any, ...]) -> Variables:
    """
    What the type variables of *cls*, made with *args*, and of its bases stand
    for.
    """
    found = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    for base in vars(cls).get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if isinstance(origin, type) and origin not in (Generic, object):
            inner = [found.get(each, filled(each, found)) for each in get_args(base)]
            found = {**variables_of(origin, tuple(inner)), **found}

    return found
