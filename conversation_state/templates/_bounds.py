"""
Limits of work and output, counted while a template is rendered.

Counted, not timed: a template ends at the same step on every machine and in every
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_LEVELS",
    "MAX_STEPS",
    "MAX_TEMPLATE_CHARACTERS",
    "MAX_VALUES",
    "MAX_WIDTH",
    "Meter",
    "Missing",
    "Refused",
    "check_width",
    "dotted",
    "dotted_path",
]

MAX_CHARACTERS = 1_000_000
"""
Characters that rendering one text may write, and have in its result.
"""

MAX_TEMPLATE_CHARACTERS = 100_000
"""
Characters of a text with template syntax; other texts have no limit.
"""

MAX_STEPS = 200_000
"""
Steps of rendering one text: about one for each operation and each value read.
"""

MAX_VALUES = 100_000
"""
Values, counted at every level, that the variables of one call may hold.
"""

MAX_WIDTH = 10_000
"""
The largest width and precision of a format.
"""

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
    """
    A problem of a template or a value.
    """


class Missing(Exception):  # noqa: N818 - never seen outside: MissingVariableError
    """
    The dotted name of a missing variable.
    """


def dotted(*steps: object) -> str:
    """
    A variable's name and the keys below it, for errors.
    """
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


def check_width(number: int, what: str) -> None:
    if not -MAX_WIDTH <= number <= MAX_WIDTH:
        raise Refused(f"{what} is over {MAX_WIDTH:,}, the widest there is")


class Meter:
    """
    The rest of the limits while one text is rendered.
    """

    __slots__ = ("_characters", "_steps")

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._characters = MAX_CHARACTERS

    def step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise Refused(f"it takes more than {MAX_STEPS:,} steps")

    def write(self, count: int) -> None:
        self._characters -= count
        if self._characters < 0:
            raise Refused(f"it writes more than {MAX_CHARACTERS:,} characters")

    def make(self, count: int) -> None:
        """
        Count an intermediate value of *count* characters or items.
        """
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
