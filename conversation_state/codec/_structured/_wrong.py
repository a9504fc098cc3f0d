"""
What is wrong with a value, and where, out of what cattrs raised.
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

from conversation_state.codec._problems import At
from conversation_state.errors import DecodeError

__all__ = [
    "Alike",
    "Closest",
    "Found",
    "Misfit",
    "found",
    "named",
    "several",
    "words_of",
]

_MOST_WORDS = 200


class Found(NamedTuple):
    """
    One thing wrong.

    Attributes:
        at: Where.

        what: What.

        inside: The path inside of there.

        raised: What a user's own class raised, if it was that.
    """

    at: At
    what: str
    inside: str = ""
    raised: Exception | None = None


class Misfit(Exception):  # noqa: N818 - it says what is the case
    """
    A value that this type has no place for, though another one may.
    """

    def __init__(self, expected: str, got: str, *, is_tag: bool = False) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got
        self.is_tag = is_tag

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


class Closest(Exception):  # noqa: N818 - it says what is the case
    """
    What is wrong with a value as the likeliest member of a union.
    """

    def __init__(self, name: str, wrong: Exception) -> None:
        super().__init__(name, wrong)
        self.name = name
        self.wrong = wrong


class Alike(Exception):  # noqa: N818 - it says what is the case
    """
    An object that several classes of a union take, and none of them rather.
    """

    def __init__(self, those: str) -> None:
        super().__init__(those)
        self.those = those

    def __str__(self) -> str:
        return (
            f"fits {self.those} alike; give each a field of another Literal type to "
            "tell them apart"
        )


def several(errors: list[Exception], kind: Any) -> IterableValidationError:
    """
    Several errors, or an error that others may have noted places on, as one.
    """
    msg = "several"
    return IterableValidationError(msg, errors, kind)  # pyright: ignore[reportCallIssue] - their `__new__` takes three


def found(error: Exception, at: At) -> Iterator[Found]:
    """
    All that is wrong according to an error of cattrs or of a user's class.
    """
    left: list[tuple[Exception, At, str]] = [(error, at, "")]
    while left:
        error, at, as_what = left.pop()
        if isinstance(error, Closest):
            left.append((error.wrong, at, error.name))
        elif isinstance(error, (ClassValidationError, IterableValidationError)):
            noted, others = error.group_exceptions()
            inner = [(each, at, as_what) for each in others]
            for each, note in noted:
                step = (
                    _key_of(error.cl, note.name)
                    if isinstance(note, AttributeValidationNote)
                    else note.index
                )
                inner.append((each, (at, step), as_what))

            left += reversed(inner)
        else:
            for where, what, inside, raised in _leaf(error, at):
                what_as = f"{what} (read as {as_what})" if as_what else what
                yield Found(where, what_as, inside, raised)


def _leaf(error: Exception, at: At) -> Iterator[Found]:
    if isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            yield Found((at, name), "unknown field")
    elif isinstance(error, DecodeError):
        for problem in error.problems:
            yield Found(at, problem.what, problem.path[1:])
    elif isinstance(error, KeyError) and at and error.args == (at[1],):
        yield Found(at, "missing")
    elif isinstance(error, RecursionError):
        yield Found(at, "nested too deeply")
    elif isinstance(error, (Alike, Misfit)):
        yield Found(at, str(error))
    else:
        named = error.args[1] if len(error.args) > 1 else None
        if isinstance(named, attrs.Attribute):  # a validator of attrs' own
            at = (at, named.alias or named.name)

        yield Found(at, words_of(error), raised=error)


def words_of(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    words = ""
    with suppress(Exception):  # a user's `__str__` may fail, too
        words = first if type(first) is str and len(error.args) > 1 else str(error)

    return words[:_MOST_WORDS] or type(error).__name__


def _key_of(cls: Any, name: str) -> str:
    """
    What JSON calls the field *name* of *cls*: as its `__init__` does.
    """
    origin = get_origin(cls) or cls
    if name and attrs.has(origin):
        field = attrs.fields_dict(origin).get(name)
        return (field and field.alias) or name

    return name


def named(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__

    return repr(kind)[:_MOST_WORDS]
