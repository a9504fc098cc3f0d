"""
Shared by all hooks: the context of one read, deferred hooks, names of keys, and
the errors of cattrs as problems with paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import fields as fields_of_dataclass
from dataclasses import is_dataclass
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    NewType,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs
from cattrs import (
    AttributeValidationNote,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
)

from conversation_state._canonical import JsonPath
from conversation_state._wording import shorten_repr
from conversation_state.errors import DecodeError

_MAX_TEXT = 200


class LocatedProblem(NamedTuple):
    """
    A problem with its path.

    Attributes:
        path: Its path.

        what: The problem.

        inside: A further path inside of that value.

        raised: The error of a user's own class, if there was one.
    """

    path: JsonPath
    what: str
    inside: str = ""
    raised: Exception | None = None


@attrs.define(slots=False, repr=False, eq=False)
class TypeMismatch(Exception):  # noqa: N818 - named for the fact
    """A value of the wrong type; another member of a union may accept it."""

    expected: str
    got: str
    is_tag: bool = attrs.field(default=False, kw_only=True)

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


@attrs.define(slots=False, repr=False, eq=False)
class ClosestMember(Exception):  # noqa: N818 - named for the fact
    """The error of the member of a union that is closest to the value."""

    name: str
    wrong: Exception


@attrs.define(slots=False, repr=False, eq=False)
class AmbiguousUnion(Exception):  # noqa: N818 - named for the fact
    """An object that fits several classes of a union equally well."""

    those: str

    def __str__(self) -> str:
        return (
            f"fits {self.those} equally; give each a field of another Literal type to "
            "tell them apart"
        )


def group_errors(errors: list[Exception], kind: Any) -> IterableValidationError:
    """Several errors as one; also wraps an error that has path notes already."""
    msg = "several"
    return IterableValidationError(msg, errors, kind)  # pyright: ignore[reportCallIssue] - their `__new__` takes three


def iterate_problems(error: Exception, path: JsonPath) -> Iterator[LocatedProblem]:
    """All problems in an error of cattrs or of a user's class."""
    # A list is used instead of recursion, because errors are nested as deeply as the
    # value.
    left: list[tuple[Exception, JsonPath, str]] = [(error, path, "")]
    while left:
        error, path, as_what = left.pop()
        if isinstance(error, ClosestMember):
            left.append((error.wrong, path, error.name))
        elif isinstance(error, (ClassValidationError, IterableValidationError)):
            noted, others = error.group_exceptions()
            inner = [(each, path, as_what) for each in others]
            for each, note in noted:
                step = (
                    _key_of(error.cl, note.name)
                    if isinstance(note, AttributeValidationNote)
                    else note.index
                )
                inner.append((each, (path, step), as_what))

            left += reversed(inner)
        else:
            for where, what, inside, raised in _leaf_problems(error, path):
                what_as = f"{what} (read as {as_what})" if as_what else what
                yield LocatedProblem(where, what_as, inside, raised)


def _leaf_problems(error: Exception, path: JsonPath) -> Iterator[LocatedProblem]:
    if isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            yield LocatedProblem((path, name), "unknown field")
    elif isinstance(error, DecodeError):
        for problem in error.problems:
            yield LocatedProblem(path, problem.what, problem.path[1:])
    elif isinstance(error, KeyError) and path and error.args == (path[1],):
        yield LocatedProblem(path, "missing")
    elif isinstance(error, RecursionError):
        yield LocatedProblem(path, "nested too deeply")
    elif isinstance(error, (AmbiguousUnion, TypeMismatch)):
        yield LocatedProblem(path, str(error))
    else:
        named = error.args[1] if len(error.args) > 1 else None
        if isinstance(named, attrs.Attribute):  # a validator of attrs' own
            path = (path, named.alias or named.name)

        yield LocatedProblem(path, error_text(error), raised=error)


def error_text(error: Exception) -> str:
    # The validators of attrs have the field and the value, of any length, among the
    # arguments, after the message.
    first = error.args[0] if error.args else ""
    words = ""
    with suppress(Exception):  # a user's `__str__` may fail, too
        words = first if type(first) is str and len(error.args) > 1 else str(error)

    return words[:_MAX_TEXT] or type(error).__name__


def _key_of(cls: Any, name: str) -> str:
    """The key in JSON of the field *name* of *cls*: its name in `__init__`."""
    origin = get_origin(cls) or cls
    if name and attrs.has(origin):
        field = attrs.fields_dict(origin).get(name)
        return (field and field.alias) or name

    return name


def type_name(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__

    return shorten_repr(kind, _MAX_TEXT)


# cattrs' kind of hook: the plain value, and the type.
Hook: TypeAlias = "Callable[[Any, Any], Any]"


@attrs.define(kw_only=True, eq=False)
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

    known: dict[tuple[int, Any], tuple[Any, Exception | None]] = attrs.field(
        factory=dict
    )
    count: int = 0
    is_closed: bool


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
    """The type that *kind* is an alias or wrapper of; None if it is neither."""
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
    return attrs.has(cls) or is_dataclass(cls)


def key_names(kind: Any) -> frozenset[str]:
    """The keys of objects of *kind*; empty if it is not a class with fields."""
    origin = get_origin(kind) or kind
    if attrs.has(origin):
        fields = attrs.fields(origin)
        return frozenset(f.alias or f.name for f in fields if f.init)

    if is_dataclass(origin):
        return frozenset(f.name for f in fields_of_dataclass(origin) if f.init)

    if is_typeddict(origin):
        return frozenset(get_type_hints(origin))

    return frozenset(getattr(origin, "_fields", ()))
