"""
What a template may cost, counted while it is rendered.

Counted, not timed: a count ends the same template at the same place on every
machine and in every thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "MOST_CHARACTERS",
    "MOST_DEPTH",
    "MOST_LEVELS",
    "MOST_STEPS",
    "MOST_TEMPLATE_CHARACTERS",
    "MOST_VALUES",
    "MOST_WIDTH",
    "Meter",
    "Missing",
    "Refused",
    "check_width",
    "dotted",
    "dotted_path",
]

MOST_CHARACTERS = 1_000_000
"""
Characters one text may become, and write on the way.
"""

MOST_TEMPLATE_CHARACTERS = 100_000
"""
Characters of a text that holds any syntax; others may be as long as they like.
"""

MOST_STEPS = 200_000
"""
Steps one text may take: about one for each thing done and each value looked at.
"""

MOST_VALUES = 100_000
"""
Values, counted at every level, that the variables of one call may hold.
"""

MOST_WIDTH = 10_000
"""
How wide a format may pad, and how precise a number may be.
"""

# How deep values may be nested; as in messages' metadata.
MOST_LEVELS = 100
# How deep templates may be nested, in themselves or in calling each other.
MOST_DEPTH = 50

# A step looks at as many characters of a text.
_CHARACTERS_A_STEP = 128
# Integers up to here are written with no more than the characters of others.
_WORD = 64
# What a scalar is written with, at most, see `_values`: the longest integer.
_SCALAR = 4_000
_SMALL = 32


class Refused(Exception):  # noqa: N818 - never seen outside: becomes TemplateError
    """
    What is wrong with a template or a value, in words.
    """


class Missing(Exception):  # noqa: N818 - never seen outside: MissingVariableError
    """
    The dotted name of a variable that is not there.
    """


def dotted(*steps: object) -> str:
    """
    A variable's name and the keys below it, as errors call them.
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
    """
    Raises:
        Refused: If *number* is wider than anything may be.
    """
    if not -MOST_WIDTH <= number <= MOST_WIDTH:
        raise Refused(f"{what} is over {MOST_WIDTH:,}, the widest there is")


class Meter:
    """
    What is left for one text.
    """

    __slots__ = ("_characters", "_depth", "_steps")

    def __init__(self) -> None:
        self._steps = MOST_STEPS
        self._characters = MOST_CHARACTERS
        self._depth = 0

    def step(self, count: int = 1) -> None:
        """
        Takes *count* steps.
        """
        self._steps -= count
        if self._steps < 0:
            raise Refused(f"it takes more than {MOST_STEPS:,} steps")

    def write(self, count: int) -> None:
        """
        Writes *count* characters.
        """
        self._characters -= count
        if self._characters < 0:
            raise Refused(f"it writes more than {MOST_CHARACTERS:,} characters")

    def make(self, count: int) -> None:
        """
        Makes a value of *count* characters or items, on the way.
        """
        if count > MOST_CHARACTERS:
            raise Refused(
                f"it makes a value of more than {MOST_CHARACTERS:,} characters or items"
            )

        self.step(1 + count // _CHARACTERS_A_STEP)

    def enter(self) -> None:
        """
        Goes one level down; `leave` goes up again.
        """
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise Refused(
                f"it calls itself, or others, more than {MOST_DEPTH} levels deep"
            )

    def leave(self) -> None:
        """
        Goes one level up.
        """
        self._depth -= 1

    def weigh(  # noqa: C901 - a branch for each kind of value
        self, value: Any, check_scalar: Callable[[Any], object] = type
    ) -> int:
        """
        Counts the steps of reading all of *value*.

        Returns:
            How many characters it takes to write it, at most, without escapes.
            *check_scalar* is called with what is no text, number or collection.
        """
        if value.__class__ is str:
            length = len(value)
            self.step(1 + length // _CHARACTERS_A_STEP)
            return length

        if value.__class__ is int and value.bit_length() <= _WORD:
            self.step()
            return _SMALL

        characters, levels = 0, 0
        level: list[Any] = [value]
        while level:
            if levels > MOST_LEVELS:
                raise Refused(
                    f"it makes a value nested more than {MOST_LEVELS} levels deep"
                )

            below: list[Any] = []
            for each in level:
                if isinstance(each, str):
                    self.step(1 + len(each) // _CHARACTERS_A_STEP)
                    characters += 4 + len(each)
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
