"""
Turns the errors of cattrs into problems with paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, get_args, get_origin

import attrs
from cattrs import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
)

from conversation_state._canonical import JsonPath
from conversation_state.errors import DecodeError

__all__ = [
    "AmbiguousUnion",
    "ClosestMember",
    "LocatedProblem",
    "TypeMismatch",
    "error_text",
    "group_errors",
    "iterate_problems",
    "type_name",
]

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


class TypeMismatch(Exception):  # noqa: N818 - named for the fact
    """
    A value of the wrong type; another member of a union may accept it.
    """

    def __init__(self, expected: str, got: str, *, is_tag: bool = False) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got
        self.is_tag = is_tag

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


class ClosestMember(Exception):  # noqa: N818 - named for the fact
    """
    The error of the member of a union that is closest to the value.
    """

    def __init__(self, name: str, wrong: Exception) -> None:
        super().__init__(name, wrong)
        self.name = name
        self.wrong = wrong


class AmbiguousUnion(Exception):  # noqa: N818 - named for the fact
    """
    An object that fits several classes of a union equally well.
    """

    def __init__(self, those: str) -> None:
        super().__init__(those)
        self.those = those

    def __str__(self) -> str:
        return (
            f"fits {self.those} equally; give each a field of another Literal type to "
            "tell them apart"
        )


def group_errors(errors: list[Exception], kind: Any) -> IterableValidationError:
    """
    Several errors as one; also wraps an error that has path notes already.
    """
    msg = "several"
    return IterableValidationError(msg, errors, kind)  # pyright: ignore[reportCallIssue] - their `__new__` takes three


def iterate_problems(error: Exception, path: JsonPath) -> Iterator[LocatedProblem]:
    """
    All problems in an error of cattrs or of a user's class.
    """
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
    first = error.args[0] if error.args else ""
    words = ""
    with suppress(Exception):  # a user's `__str__` may fail, too
        words = first if type(first) is str and len(error.args) > 1 else str(error)

    return words[:_MAX_TEXT] or type(error).__name__


def _key_of(cls: Any, name: str) -> str:
    """
    The key in JSON of the field *name* of *cls*: its name in `__init__`.
    """
    origin = get_origin(cls) or cls
    if name and attrs.has(origin):
        field = attrs.fields_dict(origin).get(name)
        return (field and field.alias) or name

    return name


def type_name(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__

    return repr(kind)[:_MAX_TEXT]
