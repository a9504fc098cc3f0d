"""
The values that templates get, plain data that was copied; and the limits of work and
output.

Limits are counted while a template is rendered, not timed: it ends at the same step on
every machine and in every thread. No engine gets an object with attributes of its own,
or one that runs code when it is compared, iterated or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs

from conversation_state._persistent import check_text
from conversation_state._wording import describe_type, shorten_repr, shorten_text
from conversation_state.documents import Document
from conversation_state.messages import Message

MAX_CHARACTERS = 1_000_000
"""Characters that rendering one text may write, and have in its result."""

MAX_TEMPLATE_CHARACTERS = 100_000
"""Characters of a text with template syntax; other texts have no limit."""

MAX_STEPS = 200_000
"""Steps of rendering one text: about one for each operation and each value read."""

MAX_VALUES = 100_000
"""Values, counted at every level, that the variables of one call may hold."""

MAX_WIDTH = 10_000
"""The largest width and precision of a format."""

# The deepest nesting of values; as in messages' metadata.
MAX_LEVELS = 100
# The deepest nesting of templates.
MAX_DEPTH = 50

# One step reads so many characters of a text.
_CHARACTERS_A_STEP = 128
# Integers of up to so many bits are counted as small values.
_WORD = 64
# The most characters of a scalar: the longest integer, see `_values`.
_SCALAR = 4_000
_SMALL = 32


class Refused(Exception):  # noqa: N818 - never seen outside: becomes TemplateError
    """A problem of a template or a value."""


class Missing(Exception):  # noqa: N818 - never seen outside: MissingVariableError
    """The dotted name of a missing variable."""


def dotted(*steps: object) -> str:
    """A variable's name and the keys below it, for errors."""
    return ".".join([str(step) for step in steps if step != ""])


def dotted_path(path: tuple[Any, ...]) -> str:
    """
    The dotted name of a value by its path: the path before and a key, or nothing.

    Paths are made into a text for errors only: hostile data has many values
    behind long keys.
    """
    steps: list[object] = []
    while path:
        path, step = path
        steps.append(step)

    return dotted(*reversed(steps))


def find_path(values: dict[str, Any], wanted: object = None) -> tuple[Any, ...]:
    # Where *wanted*, a list or a mapping, is in *values*; empty if it is not there.
    stack: list[tuple[Any, tuple[Any, ...]]] = [(values, ())]
    while stack:
        value, path = stack.pop()
        if value is wanted:
            return path

        if isinstance(value, (dict, list)):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend((below, (*path, key)) for key, below in pairs)

    return ()


def check_width(number: int, what: str) -> None:
    if not -MAX_WIDTH <= number <= MAX_WIDTH:
        raise Refused(f"{what} is over {MAX_WIDTH:,}, the widest there is")


@attrs.define(eq=False)
class Meter:
    """The rest of the limits while one text is rendered."""

    _steps: int = MAX_STEPS
    _characters: int = MAX_CHARACTERS

    def step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise Refused(f"it takes more than {MAX_STEPS:,} steps")

    def write(self, count: int) -> None:
        self._characters -= count
        if self._characters < 0:
            raise Refused(f"it writes more than {MAX_CHARACTERS:,} characters")

    def make(self, count: int) -> None:
        """Count an intermediate value of *count* characters or items."""
        if count > MAX_CHARACTERS:
            raise Refused(
                f"it makes a value of more than {MAX_CHARACTERS:,} characters or items"
            )

        self.step(1 + count // _CHARACTERS_A_STEP)

    def measure(  # noqa: C901 - a branch for each kind of value
        self, value: Any, check_scalar: Callable[[Any], object] = type
    ) -> int:
        """
        Count the steps of reading all of *value*.

        Returns:
            The most characters of its text, without escapes. *check_scalar* is
            called with values that are not text, numbers or collections.
        """
        if value.__class__ is str:
            length = len(value)
            self.step(1 + length // _CHARACTERS_A_STEP)
            return length

        if value.__class__ is int and value.bit_length() <= _WORD:
            self.step()
            return _SMALL

        # Level by level: recursion could end in a RecursionError before the limit.
        characters, levels = 0, 0
        level: list[Any] = [value]
        while level:
            if levels > MAX_LEVELS:
                raise Refused(
                    f"it makes a value nested more than {MAX_LEVELS} levels deep"
                )

            below: list[Any] = []
            for each in level:
                if isinstance(each, str):
                    self.step(1 + len(each) // _CHARACTERS_A_STEP)
                    characters += 4 + len(each)  # quotes, a comma and a space
                elif isinstance(each, int) and each.bit_length() > _WORD:
                    self.step()
                    characters += _SCALAR
                elif isinstance(each, (list, tuple)):
                    self.step(1 + len(each))
                    characters += 2
                    below.extend(each)
                elif isinstance(each, dict):
                    self.step(1 + 2 * len(each))
                    characters += 2
                    below.extend(each)
                    below.extend(each.values())
                elif isinstance(each, range):
                    self.step(1 + len(each))
                    characters += 24 * len(each)
                else:
                    self.step()
                    characters += _SMALL
                    check_scalar(each)

            level = below
            levels += 1

        return characters


# Unchanged for fstring, which has format specs for them; texts for the others.
EXACT = frozenset({Decimal, datetime, date, time, UUID})

# Fewer than 4,300 digits, Python's own limit of converting integers.
LONGEST_INTEGER_BITS = 13_000


def copy_variables(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Refused(
            f"variables is {describe_type(given)}; expected a mapping of names to "
            "values"
        )

    variables = dict(given)
    for name in variables:
        if not isinstance(name, str):
            raise Refused(
                f"variables has the key {shorten_repr(name)}; names of variables are "
                "texts"
            )

    return variables


class Variables:
    """
    The variables of one call, each converted to plain data on first use: those that
    a template does not name are never read.
    """

    __slots__ = ("_exact", "_given", "_left", "_plain")

    def __init__(self, given: dict[str, object], *, exact: bool = False) -> None:
        self._given = given
        self._exact = exact
        self._plain: dict[str, Any] = {}
        self._left = MAX_VALUES

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def __getitem__(self, name: str) -> Any:
        if name not in self._given:
            raise Missing(name)

        if name not in self._plain:
            self._plain[name] = self._make_plain(self._given[name], ((), name), 0)

        return self._plain[name]

    def all(self) -> dict[str, Any]:
        # The variables are converted once, because a template can ask for all of them
        # in every round of a loop.
        if len(self._plain) < len(self._given):
            for name in self._given:
                self[name]

        return self._plain

    def _make_plain(self, value: Any, at: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Refused(f"the variables hold more than {MAX_VALUES:,} values")

        # This uses `type`, because the attribute `__class__` of a hostile object may be
        # `bool`.
        if value is None or type(value) is bool:
            return value

        if isinstance(value, (str, Message)):
            text = value if isinstance(value, str) else str(value)
            return check_text(text, _ValuePath(at), Refused)

        if isinstance(value, (int, float)):
            return _plain_number(value, at)

        if type(value) in EXACT:
            return value if self._exact else str(value)

        if depth == MAX_LEVELS:
            raise Refused(
                f"{_ValuePath(at)} is nested more than {MAX_LEVELS} levels deep, or "
                "holds itself"
            )

        if isinstance(value, (Mapping, Document)):
            return self._plain_mapping(value, at, depth)

        if isinstance(value, Sequence) and not isinstance(value, _BYTES):
            # This calls the builtin's own method, because a subclass may run other
            # code.
            items = list.__iter__(value) if isinstance(value, list) else value
            return [
                self._make_plain(item, (at, number), depth + 1)
                for number, item in enumerate(_read_items(items, at))
            ]

        raise Refused(
            f"{_ValuePath(at)} is {describe_type(value)}; templates take plain data: "
            "texts, numbers, truth, None, dates, messages, documents, and lists and "
            "mappings of them"
        )

    def _plain_mapping(
        self, value: Mapping[Any, Any] | Document, at: Any, depth: int
    ) -> Any:
        if isinstance(value, Document):
            return DocumentFields(self._plain_mapping(_fields_of(value), at, depth))

        pairs = dict.items(value) if isinstance(value, dict) else value.items()
        plain: dict[Any, Any] = {}
        for pair in _read_items(pairs, at):
            key, item = pair
            if isinstance(key, str):
                key = check_text(key, _ValuePath(at, "a key of "), Refused)
            elif type(key) is not int:
                raise Refused(
                    f"{_ValuePath(at)} has a key that is {describe_type(key)}; keys "
                    "are texts or integers"
                )

            plain[key] = self._make_plain(item, (at, key), depth + 1)

        return plain


# Vectors have thousands of values, which no template shows.
_VECTORS = {"_dense_vector", "_sparse_vector"}


class DocumentFields(dict[str, Any]):
    """A document in a template: a map of its fields; its text is the content."""

    __slots__ = ()

    def __str__(self) -> str:
        content: str = self["content"]
        return content

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def _fields_of(document: Document) -> dict[str, Any]:
    metadata = document.metadata
    names = sorted(metadata.keys() - _VECTORS)
    return {
        "id": document.id,
        "content": document.content,
        "metadata": {name: metadata[name] for name in names},
    }


_BYTES = (bytes, bytearray, memoryview)


def _plain_number(value: float, at: Any) -> int | float:
    # An enum or another subclass is converted to its plain number, because it may
    # format itself differently.
    if isinstance(value, float):
        return float.__float__(value)

    number = int.__index__(value)
    if number.bit_length() > LONGEST_INTEGER_BITS:
        raise Refused(f"{_ValuePath(at)} is an integer of more than 3,900 digits")

    return number


@attrs.frozen(eq=False)
class _ValuePath:
    """The path of a value; rendered only for an error."""

    path: tuple[Any, ...]
    before: str = ""

    def __str__(self) -> str:
        return f"{self.before}{shorten_text(dotted_path(self.path), _LINE)}"


_LINE = 80


def _read_items(items: Iterable[Any], at: Any) -> Iterator[Any]:
    try:
        yield from items
    except Exception as error:
        raise Refused(
            f"{_ValuePath(at)} can't be read: {type(error).__name__}"
        ) from error
