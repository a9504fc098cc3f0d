"""
Classes with fields: which these are, and the values of their type variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from inspect import Parameter, signature
from typing import (
    Any,
    Generic,
    NotRequired,
    Required,
    TypeAlias,
    get_args,
    get_origin,
    is_typeddict,
)

import attrs
import msgspec

__all__ = [
    "WRAPPERS",
    "Variables",
    "has_fields",
    "is_named_tuple",
    "list_constructor",
    "list_typed_dict",
    "resolve_variables",
    "substitute_variables",
    "type_name",
]

# The value of each type variable.
Variables: TypeAlias = "dict[Any, Any]"

# Qualifiers, which don't change the JSON of a type.
WRAPPERS = {"ClassVar", "Final", "NotRequired", "ReadOnly", "Required"}

_OMITTED: Any = object()


def has_fields(cls: type) -> bool:
    """
    Whether *cls* declares its fields.
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
    Whether *cls* is a named tuple: its fields have an order.
    """
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def type_name(kind: Any) -> str:
    """
    The name of a class or an alias, without its arguments.
    """
    return str(getattr(kind, "__name__", "") or get_origin(kind).__name__)


def substitute_variables(kind: Any, variables: Variables) -> Any:
    """
    *kind* with the values of the type variables in it.
    """
    # A class without arguments has parameters, too: its own, not those of the class
    # around it, even if both are the same variable.
    free = getattr(kind, "__parameters__", ())
    if not variables or not free or isinstance(kind, type):
        return kind

    return kind[tuple(variables.get(each, each) for each in free)]


def resolve_variables(cls: Any, args: tuple[Any, ...]) -> Variables:
    """
    The values of the type variables of *cls*, subscripted with *args*, and of its
    bases.
    """
    # `vars` is used, because a class whose bases are not generic inherits the attribute
    # of a generic ancestor.
    found = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    for base in vars(cls).get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if isinstance(origin, type) and origin not in (Generic, object):
            inner = [
                found.get(each, substitute_variables(each, found))
                for each in get_args(base)
            ]
            found = {**resolve_variables(origin, tuple(inner)), **found}

    return found


def list_typed_dict(cls: Any, hints: dict[str, Any]) -> Iterator[tuple[Parameter, Any]]:
    """
    The keys of a `TypedDict` as parameters, each with its type.
    """
    for name, kind in hints.items():
        needed = name in cls.__required_keys__
        bare = kind
        while getattr(get_origin(bare), "_name", None) in WRAPPERS:
            # A class whose annotations are strings does not resolve these qualifiers
            # itself.
            needed = {Required: True, NotRequired: False}.get(get_origin(bare), needed)
            (bare,) = get_args(bare)

        default = Parameter.empty if needed else _OMITTED
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default), bare


def list_constructor(
    cls: Any, hints: dict[str, Any]
) -> Iterator[tuple[Parameter, Any]]:
    """
    The parameters of the constructor of *cls*, each with its type.
    """
    hints = dict(hints)
    if attrs.has(cls):
        # The constructor takes a private field without its underscore.
        for field in attrs.fields(cls):
            hints[field.alias] = hints.get(field.name, field.type or Any)

    for parameter in signature(cls).parameters.values():
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            yield parameter, hints.get(parameter.name, Any)
