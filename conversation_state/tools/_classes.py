"""
Docstrings in the styles of Google, NumPy, Sphinx and this library; and classes with
fields: which these are, and the values of their type variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from inspect import Parameter, cleandoc, signature
from typing import (
    Any,
    Generic,
    NamedTuple,
    NotRequired,
    Required,
    TypeAlias,
    get_args,
    get_origin,
    is_typeddict,
)

import attrs
import docstring_parser
import msgspec

# The value of each type variable.
Variables: TypeAlias = "dict[Any, Any]"

# Qualifiers, which don't change the JSON of a type.
WRAPPERS = {"ClassVar", "Final", "NotRequired", "ReadOnly", "Required"}

_OMITTED: Any = object()


def has_fields(cls: type) -> bool:
    return (
        attrs.has(cls)
        or is_dataclass(cls)
        or is_typeddict(cls)
        or issubclass(cls, msgspec.Struct)
        or is_named_tuple(cls)
    )


def is_named_tuple(cls: type) -> bool:
    """Whether *cls* is a named tuple: its fields have an order."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def type_name(kind: Any) -> str:
    """The name of a class or an alias, without its arguments."""
    return str(getattr(kind, "__name__", "") or get_origin(kind).__name__)


def substitute_variables(kind: Any, variables: Variables) -> Any:
    """*kind* with the values of the type variables in it."""
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
    """The keys of a `TypedDict` as parameters, each with its type."""
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
    """The parameters of the constructor of *cls*, each with its type."""
    hints = dict(hints)
    if attrs.has(cls):
        # The constructor takes a private field without its underscore.
        for field in attrs.fields(cls):
            hints[field.alias] = hints.get(field.name, field.type or Any)

    for parameter in signature(cls).parameters.values():
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            yield parameter, hints.get(parameter.name, Any)


# A doctest up to the next empty line.
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
# What dataclasses and named tuples generate where there is no docstring.
_GENERATED = re.compile(r"\w+\(.*\)", re.DOTALL)


class Docstring(NamedTuple):
    """
    A parsed docstring.

    Attributes:
        summary: Its first sentence or sentences, on one line.

        description: All before the first section, without doctests.

        fields: Descriptions of parameters or attributes, by name.
    """

    summary: str = ""
    description: str = ""
    fields: dict[str, str] = {}  # noqa: RUF012 - never changed


def parse_docstring(docstring: str | None) -> Docstring:
    text = _DOCTEST.sub("", cleandoc(docstring or "")).strip()
    if not text:
        return Docstring()

    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # noqa: BLE001 - an IndexError, too: the text describes itself
        return Docstring(_join_lines(text.partition("\n\n")[0]), text)

    # NumPy documents several at once (`x, y`), and stars may be written.
    fields = {
        name.strip().lstrip("*"): each.description.strip()
        for each in parsed.params
        for name in each.arg_name.split(",")
        if each.description
    }
    description = (parsed.description or "").strip()
    return Docstring(_join_lines(description.partition("\n\n")[0]), description, fields)


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def parse_class_docstring(cls: type[Any]) -> Docstring:
    """The docstring of *cls*, with the descriptions of its bases' fields."""
    fields: dict[str, str] = {}
    docstring = Docstring()
    for each in reversed(cls.__mro__):
        own = vars(each).get("__doc__")
        if isinstance(own, str):
            docstring = parse_docstring(own)
            fields.update(docstring.fields)

    summary = ""
    own = vars(cls).get("__doc__")
    if isinstance(own, str) and not _GENERATED.fullmatch(own):
        summary = docstring.summary

    return Docstring(summary, "", fields)
