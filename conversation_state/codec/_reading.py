"""
Reading: from plain JSON values to what is made of them, or to all that is
wrong with them.

What lives here: the one pass every value is read by, whatever it is. What
does not: what values there are (`_in`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from conversation_state._persistent import check_text, freeze
from conversation_state._persistent.frozen import MOST_LEVELS
from conversation_state.codec._problems import At, Problems, shown
from conversation_state.codec._wire import bytes_of, time_of, uuid_of
from conversation_state.errors import (
    InvalidDocumentError,
    InvalidMessageError,
    InvalidPartError,
    InvalidToolError,
    InvalidUsageError,
    TemplateError,
)

__all__ = ["Read", "Reader", "Shape", "many", "one"]

# Makes a value of what is there. Where something is wrong, it is added to the
# reader's problems, and what is given back is of no use.
Read: TypeAlias = "Callable[[Reader, Any, At], Any]"


# What constructors say where something can't be what it says it is.
_REFUSED = (
    InvalidDocumentError,
    InvalidMessageError,
    InvalidPartError,
    InvalidToolError,
    InvalidUsageError,
    TemplateError,
)


class Shape(NamedTuple):
    """
    An object: what it may hold, what it must, and what is made of it.

    Attributes:
        make: Takes the fields by name.

        fields: How to read each.

        required: Those that must be there.

        grows: Whether fields of other names are kept, as the argument
            *unknown*; else they are problems.
    """

    make: Callable[..., Any]
    fields: Mapping[str, Read]
    required: tuple[str, ...] = ()
    grows: bool = True


class Reader:
    """
    One reading of one document.

    Attributes:
        problems: What was wrong so far.

        has_maps: Whether there was any JSON that is not ours to understand,
            metadata say.

        kinds: What kinds of document there are, where that is more than those
            of this library.

        last_stamp: What the last message with any common fields had of them:
            as it was there, and what was made of it.
    """

    __slots__ = ("_uuids", "has_maps", "kinds", "last_stamp", "problems")

    problems: Problems
    has_maps: bool
    kinds: Mapping[str, tuple[type, Read]]
    last_stamp: tuple[Any, Any]
    _uuids: dict[str, UUID]

    def __init__(self) -> None:
        self.problems = Problems()
        self.has_maps = False
        self.kinds = {}
        self.last_stamp = (), None
        # All messages of a turn have the same two.
        self._uuids = {}

    def expected(self, what: str, value: Any, at: At) -> Any:
        """
        Add that something else is there.
        """
        self.problems.add(at, f"expected {what}, got {shown(value)}")

    # Scalars

    def text(self, value: Any, at: At) -> Any:
        """
        A text of valid Unicode.
        """
        if value.__class__ is not str:
            return self.expected("a text", value, at)

        if not value.isascii():
            self._check(check_text, value, at)

        return value

    def _check(self, check: Callable[[Any, str], Any], value: Any, at: At) -> None:
        try:
            check(value, "it")
        except ValueError as error:
            self.problems.add(at, str(error))

    def truth(self, value: Any, at: At) -> Any:
        """
        True or False.
        """
        if value.__class__ is not bool:
            return self.expected("true or false", value, at)

        return value

    def integer(self, value: Any, at: At) -> Any:
        """
        An integer of at most 64 bits.
        """
        if value.__class__ is not int or not -(2**63) <= value < 2**64:
            return self.expected("an integer of at most 64 bits", value, at)

        return value

    def count(self, value: Any, at: At) -> Any:
        """
        A number of tokens.
        """
        if value.__class__ is not int or not 0 <= value < 2**63:
            return self.expected("an integer from 0 to 2**63 - 1", value, at)

        return value

    def number(self, value: Any, at: At) -> Any:
        """
        A number, with a fraction or without.
        """
        return value if value.__class__ is float else self.integer(value, at)

    def base64(self, value: Any, at: At) -> Any:
        """
        Bytes.
        """
        return self._converted(bytes_of, "a text that is base64", value, at)

    def time(self, value: Any, at: At) -> Any:
        """
        An aware time.
        """
        what = "a time with an offset, like 2025-12-31T23:59:59.000000+00:00"
        return self._converted(time_of, what, value, at)

    def uuid(self, value: Any, at: At) -> Any:
        """
        A UUID, the same object for the same text.
        """
        known = self._uuids.get(value) if value.__class__ is str else None
        if known is None:
            what = "a UUID, like 01234567-89ab-7def-8123-456789abcdef"
            known = self._converted(uuid_of, what, value, at)
            if known is not None:
                self._uuids[value] = known

        return known

    def _converted(
        self, convert: Callable[[str], Any], what: str, value: Any, at: At
    ) -> Any:
        try:
            if value.__class__ is str:
                return convert(value)
        except ValueError:
            pass

        return self.expected(what, value, at)

    def json_map(self, value: Any, at: At) -> Any:
        """
        An object that is not ours to understand, as it is: the constructor it
        is for freezes it.
        """
        self.has_maps = True
        return value if self.is_object(value, at) else None

    # Objects and arrays

    def is_object(self, raw: Any, at: At) -> bool:
        """
        Whether *raw* is an object. If not, that is wrong.
        """
        if raw.__class__ is dict:
            return True

        self.expected("an object", raw, at)
        return False

    def is_array(self, raw: Any, at: At) -> bool:
        """
        Whether *raw* is an array. If not, that is wrong.
        """
        if raw.__class__ is list:
            return True

        self.expected("an array", raw, at)
        return False

    def has_text(self, raw: dict[str, Any], name: str, at: At) -> bool:
        """
        Whether the field *name* of *raw* is a text. If not, that is wrong.
        """
        if raw.get(name).__class__ is str:
            return True

        if name in raw:
            self.expected("a text", raw[name], (at, name))
        else:
            self.problems.add((at, name), "missing")

        return False

    def fields(
        self, raw: dict[str, Any], at: At, shape: Shape, tag: str | None = None
    ) -> dict[str, Any]:
        """
        What the fields of *raw* hold, by name, all but *tag*.
        """
        _, reads, required, grows = shape
        given: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, value in raw.items():
            read = reads.get(key)
            if read is _TEXT and value.__class__ is str and value.isascii():
                given[key] = value  # most fields; the call would cost more
            elif read is not None:
                given[key] = read(self, value, (at, key))
            elif key != tag:
                unknown[key] = value

        for name in required:
            if name not in given:
                self.problems.add((at, name), "missing")

        if unknown and grows:
            self.has_maps = True
            given["unknown"] = unknown
        else:
            for key in unknown:
                self.problems.add((at, key), "unknown field")

        return given

    def object(self, raw: Any, at: At, shape: Shape, tag: str | None = None) -> Any:
        """
        What the shape makes of *raw*.
        """
        if not self.is_object(raw, at):
            return None

        before = self.problems.count
        given = self.fields(raw, at, shape, tag)
        if self.problems.count == before:
            return self.made(at, shape.make, given)

        return None

    def made(
        self,
        at: At,
        make: Callable[..., Any],
        given: dict[str, Any],
        whole: str = "unknown",
    ) -> Any:
        """
        What *make* makes of what is *given*; *whole* names what no field of
        the object holds, but the object itself.
        """
        try:
            return make(**given)
        except _REFUSED as error:
            what = str(error)

        before = self.problems.count
        for name, value in given.items():
            if value.__class__ is dict:
                self.check_json(value, at if name == whole else (at, name))

        if self.problems.count == before:
            # Constructors name what they mind: `ImagePart.url is empty; ...`.
            named = re.match(rf"{make.__name__}\.(\w+) ", what)
            if named and named[1] in given:
                at, what = (at, named[1]), what[named.end() :]

            self.problems.add(at, what)
        else:
            # They stop at what they mind first; so ask for the rest.
            rest = {k: {} if v.__class__ is dict else v for k, v in given.items()}
            self.made(at, make, rest)

        return None

    def check_json(self, value: Any, at: At, depth: int = 0) -> None:
        """
        Add all that keeps *value* from being frozen. Only asked if something
        does: the rules are those of `freeze`, which stops at the first.
        """
        items: Iterable[tuple[Any, Any]]
        if value.__class__ is dict:
            items = value.items()
            for key in value:
                self._check(check_text, key, (at, key))
        elif value.__class__ is list:
            items = enumerate(value)
        else:
            return self._check(freeze, value, at)

        if depth == MOST_LEVELS:
            what = f"nested more than {MOST_LEVELS} levels deep"
            return self.problems.add(at, what)

        for key, item in items:
            self.check_json(item, (at, key), depth + 1)

        return None

    def array(self, raw: Any, at: At, read: Read) -> list[Any] | None:
        """
        A list of what *read* makes of each item; None if it is no array.
        """
        if not self.is_array(raw, at):
            return None

        return [read(self, item, (at, i)) for i, item in enumerate(raw)]


_TEXT = Reader.text


def one(shape: Shape) -> Read:
    """
    Reads objects of one shape.
    """
    return lambda reader, raw, at: reader.object(raw, at, shape)


def many(read: Read) -> Read:
    """
    Reads arrays of what *read* reads.
    """
    return lambda reader, raw, at: reader.array(raw, at, read)
