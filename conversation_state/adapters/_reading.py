"""
Reading JSON that somebody else wrote: every problem is found, each with its
path, and text is mended on the way.

What lives here: what all adapters share when they load. What does not: what
any provider means by what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard

from conversation_state._persistent import EMPTY_MAP
from conversation_state.errors import DecodeError, Problem

__all__ = ["Place", "Reading", "is_list", "is_map", "mended"]

# Ten less than a frozen value may have: what is kept is wrapped in notes.
_MOST_LEVELS = 90
_MOST_LISTED = 100
_MOST_SHOWN = 40  # characters of a text in an error
_LEAST, _MOST = -(2**63), 2**64 - 1
_NONE: frozenset[str] = frozenset()


def is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """
    Whether *value* is a JSON object.
    """
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """
    Whether *value* is a JSON array.
    """
    return isinstance(value, (list, tuple))


def mended(text: str) -> str:
    """
    *text* as valid Unicode: pairs of surrogates are joined, a half that is
    alone becomes U+FFFD.
    """
    if text.isascii():
        return text

    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return text


def _is_scalar(value: Any) -> bool:
    if isinstance(value, int):
        return _LEAST <= value <= _MOST

    return value is None or (isinstance(value, float) and isfinite(value))


def _shown(value: Any) -> str:
    """
    *value* in JSON's words, never more than a line of it.
    """
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]

    if isinstance(value, str):
        short = value[:_MOST_SHOWN]
        return repr(mended(short if short == value else f"{short}..."))

    if isinstance(value, int):
        return repr(value) if abs(value) <= _MOST else "an integer beyond 64 bits"

    if isinstance(value, float):
        return repr(value)

    if is_map(value):
        return "an object"

    return "a list" if is_list(value) else f"a Python {type(value).__name__}"


class Reading:
    """
    One document while it is read. Never leaves the function that reads it.

    Attributes:
        problems: What is wrong so far, the first hundred things of it.

        count: How many things are wrong so far.

        mended: The paths of texts that held half of a surrogate pair.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.count = 0
        self.mended: list[str] = []

    def problem(self, path: str, what: str) -> None:
        """
        Note that *what* is wrong at *path*.
        """
        self.count += 1
        if self.count <= _MOST_LISTED:
            self.problems.append(Problem(path, what))

    def wrong(self, path: str, value: object, expected: str) -> None:
        """
        Note that *value* is not what was *expected*.
        """
        self.problem(path, f"is {_shown(value)}; expected {expected}")

    def finish(self) -> None:
        """
        Raises:
            DecodeError:
                If anything was wrong; with all of it, up to a hundred
                problems and the number of the others.
        """
        more = self.count - len(self.problems)
        if more:
            what = f"and {more:,} more problem{'s'[: more != 1]}"
            self.problems.append(Problem("$", what))

        if self.problems:
            raise DecodeError(tuple(self.problems))

    def text(self, raw: Mapping[str, Any], key: str, path: str) -> str:
        """
        The text that *raw*, at *path*, has under *key*; "" if there is none.
        """
        value = raw.get(key)
        if not isinstance(value, str):
            if key in raw:
                self.wrong(f"{path}.{key}", value, "a text")
            else:
                self.problem(f"{path}.{key}", "is missing; expected a text")

            return ""

        text = mended(value)
        if text is not value:
            self.mended.append(f"{path}.{key}")

        return text

    def json(self, value: Any, path: str, depth: int = 0) -> Any:
        """
        *value* as plain JSON that can be kept: texts mended, nothing else
        changed.
        """
        if isinstance(value, str):
            text = mended(value)
            if text is not value:
                self.mended.append(path)

            return text

        if not (is_map(value) or is_list(value)):
            if not _is_scalar(value):
                self.problem(path, f"is {_shown(value)}, which can't be kept as JSON")
                return None

            return value

        if depth == _MOST_LEVELS:
            self.problem(path, f"is nested more than {_MOST_LEVELS} levels deep")
            return None

        if is_map(value):
            return self.rest(value, _NONE, path, depth)

        return [
            self.json(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)
        ]

    def rest(
        self, raw: Mapping[Any, Any], known: frozenset[str], path: str, depth: int = 0
    ) -> dict[str, Any]:
        """
        What *raw* has beside the *known* keys, as plain JSON.
        """
        rest: dict[str, Any] = {}
        for key, value in raw.items():
            if key in known:
                continue

            if not isinstance(key, str):
                self.problem(path, f"has the key {_shown(key)}; keys of JSON are text")
                continue

            name = mended(key)
            if name is not key:
                self.mended.append(f"{path}.{name}")
                if name in raw or name in rest:
                    self.problem(path, f"has two keys that are mended to {name!r}")

            rest[name] = self.json(value, f"{path}.{name}", depth + 1)

        return rest


class Place:
    """
    One JSON object while it is read, and what is to be noted about it.

    Attributes:
        reading: The document it is in.

        raw: The object.

        path: Where it is.

        notes: How it differs from what would be written.

        keys: What no field of ours holds; a note of its own.
    """

    __slots__ = ("keys", "notes", "path", "raw", "reading")

    def __init__(self, reading: Reading, raw: Mapping[str, Any], path: str) -> None:
        self.reading = reading
        self.raw = raw
        self.path = path
        self.notes: dict[str, Any] = {}
        self.keys: dict[str, Any] = {}

    def text(self, key: str) -> str:
        """
        The text under *key*, which must be there.
        """
        return self.reading.text(self.raw, key, self.path)

    def optional(self, key: str) -> str:
        """
        The text under *key*; "" if there is none, and *how* there is none is
        kept.
        """
        value = self.raw.get(key)
        if value is None or value == "":
            if key in self.raw:
                self.keys[key] = value

            return ""

        return self.text(key)

    def if_text(self, key: str) -> str:
        """
        The same, where anything may stand: what is no text is kept.
        """
        value = self.raw.get(key)
        if value is None or isinstance(value, str):
            return self.optional(key)

        self.keys[key] = self.reading.json(value, f"{self.path}.{key}")
        return ""

    def wrong(self, key: str, expected: str) -> None:
        """
        Note that what is under *key* is not what was *expected*.
        """
        path = f"{self.path}.{key}"
        if key in self.raw:
            self.reading.wrong(path, self.raw[key], expected)
        else:
            self.reading.problem(path, f"is missing; expected {expected}")

    def keep(self, known: frozenset[str]) -> None:
        """
        Keep all but the *known* keys.
        """
        if not self.raw.keys() <= known:
            self.keys.update(self.reading.rest(self.raw, known, self.path))

    def metadata(self, source: str) -> Any:
        """
        The metadata that keeps what was noted, under the name of *source*.
        """
        # Any: what takes metadata takes any mapping, and says it is a PMap.
        if self.keys:
            return {source: {**self.notes, "keys": self.keys}}

        return {source: self.notes} if self.notes else EMPTY_MAP
