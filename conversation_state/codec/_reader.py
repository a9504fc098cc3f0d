"""
Reads plain JSON values into objects, or collects all their problems.

Not cattrs, which reads users' classes (`_structured`): it drops the valid fields of
an object in which another one is invalid, but checks across fields need them; and
it holds an exception for each problem, of which hostile documents have millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._canonical import JsonPath, describe_json, render_path
from conversation_state._persistent import check_text, freeze
from conversation_state._persistent.frozen import MAX_LEVELS
from conversation_state._wording import format_count
from conversation_state.codec._fast import Interned
from conversation_state.codec._format import (
    ENVELOPE,
    INLINE_KINDS,
    NAMED_KINDS,
    parse_base64,
    parse_time,
    parse_uuid,
)
from conversation_state.errors import (
    DecodeError,
    InvalidDocumentError,
    InvalidMessageError,
    InvalidPartError,
    InvalidToolError,
    InvalidUsageError,
    Problem,
    TemplateError,
)

# Reads a value at a path. If it is invalid, that is added to the reader's problems,
# and the result must not be used.
Read: TypeAlias = "Callable[[CodecReader, Any, JsonPath], Any]"


# The errors of constructors.
_REFUSED = (
    InvalidDocumentError,
    InvalidMessageError,
    InvalidPartError,
    InvalidToolError,
    InvalidUsageError,
    TemplateError,
)


_MAX_LISTED = 100


class Shape(NamedTuple):
    """The fields of an object, and how to construct it."""

    make: Callable[..., Any]  # called with the fields by name
    fields: Mapping[str, Read]  # the reader of each
    required: tuple[str, ...] = ()  # those that must be there
    # Whether unknown fields are kept, as the argument *unknown*; else they are
    # problems.
    keeps_unknown: bool = True


def strict_shape(make: Callable[..., Any], *required: str, **fields: Read) -> Shape:
    return Shape(make, fields, required, keeps_unknown=False)


@attrs.define(eq=False)
class Problems:
    """The problems found so far: all of them counted, the first hundred listed."""

    count: int = 0
    _listed: list[Problem] = attrs.field(factory=list)

    def add(self, path: JsonPath, what: str, *, inside: str = "") -> None:
        """Add a problem at *path*, or at the path *inside* of it."""
        self.count += 1
        if len(self._listed) < _MAX_LISTED:
            self._listed.append(Problem(f"{render_path(path)}{inside}", what))

    def error(self) -> DecodeError:
        """All of them, as an error to raise."""
        listed = self._listed
        more = self.count - len(listed)
        if more:
            rest = f"and {format_count(more, 'more problem')}"
            listed = [*listed, Problem("$", rest)]

        return DecodeError(tuple(listed))


@attrs.define(kw_only=True, eq=False)
class CodecReader:
    """Reads one document."""

    problems: Problems = attrs.field(factory=Problems)  # the problems so far
    # Whether there was any JSON of others, such as metadata.
    has_foreign_json: bool = False
    # The class and the reader of each kind of document.
    kinds: Mapping[str, tuple[type, Read]] = attrs.field(factory=dict)
    # Whether the raw values hold nothing that JSON can't, as those that a parser made:
    # only then the fast pass may read them.
    is_plain: bool = False
    # What the fast pass has met before in this document.
    interned: Interned = attrs.field(factory=dict)

    def add_mismatch(self, what: str, value: Any, path: JsonPath) -> Any:
        self.problems.add(path, f"expected {what}, got {describe_json(value)}")

    # Scalars

    def text(self, value: Any, path: JsonPath) -> Any:
        """A text of valid Unicode."""
        if value.__class__ is not str:
            return self.add_mismatch("a text", value, path)

        if not value.isascii():
            self._check_value(check_text, value, path)

        return value

    def _check_value(
        self, check: Callable[[Any, str], Any], value: Any, path: JsonPath
    ) -> None:
        try:
            check(value, "it")
        except ValueError as error:
            self.problems.add(path, str(error))

    def boolean(self, value: Any, path: JsonPath) -> Any:
        if value.__class__ is not bool:
            return self.add_mismatch("true or false", value, path)

        return value

    def integer(self, value: Any, path: JsonPath) -> Any:
        if value.__class__ is not int or not -(2**63) <= value < 2**64:
            return self.add_mismatch("an integer of at most 64 bits", value, path)

        return value

    def count(self, value: Any, path: JsonPath) -> Any:
        """A number of tokens."""
        if value.__class__ is not int or not 0 <= value < 2**63:
            return self.add_mismatch("an integer from 0 to 2**63 - 1", value, path)

        return value

    def number(self, value: Any, path: JsonPath) -> Any:
        """A number, with a fraction or without."""
        return value if value.__class__ is float else self.integer(value, path)

    def base64(self, value: Any, path: JsonPath) -> Any:
        return self._convert_text(parse_base64, "a text that is base64", value, path)

    def time(self, value: Any, path: JsonPath) -> Any:
        """An aware time."""
        what = "a time with an offset, like 2025-12-31T23:59:59.000000+00:00"
        return self._convert_text(parse_time, what, value, path)

    def uuid(self, value: Any, path: JsonPath) -> Any:
        """A UUID, the same object for the same text."""
        known = self.interned.get(value) if value.__class__ is str else None
        if known is None:
            what = "a UUID, like 01234567-89ab-7def-8123-456789abcdef"
            known = self._convert_text(parse_uuid, what, value, path)
            if known is not None:
                self.interned[value] = known

        return known

    def _convert_text(
        self, convert: Callable[[str], Any], what: str, value: Any, path: JsonPath
    ) -> Any:
        try:
            if value.__class__ is str:
                return convert(value)
        except ValueError:
            pass

        return self.add_mismatch(what, value, path)

    def json_map(self, value: Any, path: JsonPath) -> Any:
        """An object of others, such as metadata, as it is: constructors freeze it."""
        self.has_foreign_json = True
        return value if self.is_object(value, path) else None

    # Objects and arrays

    def is_object(self, raw: Any, path: JsonPath) -> bool:
        """Whether *raw* is an object. If not, adds a problem."""
        if raw.__class__ is dict:
            return True

        self.add_mismatch("an object", raw, path)
        return False

    def is_array(self, raw: Any, path: JsonPath) -> bool:
        """Whether *raw* is an array. If not, adds a problem."""
        if raw.__class__ is list:
            return True

        self.add_mismatch("an array", raw, path)
        return False

    def has_text(self, raw: dict[str, Any], name: str, path: JsonPath) -> bool:
        """Whether the field *name* of *raw* is a text. If not, adds a problem."""
        if raw.get(name).__class__ is str:
            return True

        if name in raw:
            self.add_mismatch("a text", raw[name], (path, name))
        else:
            self.problems.add((path, name), "missing")

        return False

    def read_fields(
        self, raw: dict[str, Any], path: JsonPath, shape: Shape, tag: str | None = None
    ) -> dict[str, Any]:
        """The values of the fields of *raw* by name, all but *tag*."""
        _, reads, required, keeps_unknown = shape
        given: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, value in raw.items():
            read = reads.get(key)
            if read is _TEXT and value.__class__ is str and value.isascii():
                given[key] = value  # most fields; a call would cost more
            elif read is not None:
                given[key] = read(self, value, (path, key))
            elif key != tag:
                unknown[key] = value

        for name in required:
            if name not in given:
                self.problems.add((path, name), "missing")

        if unknown and keeps_unknown:
            self.has_foreign_json = True
            given["unknown"] = unknown
        else:
            for key in unknown:
                self.problems.add((path, key), "unknown field")

        return given

    def read_object(self, raw: Any, path: JsonPath, shape: Shape) -> Any:
        """Construct the object that *raw* represents, of *shape*."""
        if not self.is_object(raw, path):
            return None

        before = self.problems.count
        given = self.read_fields(raw, path, shape)
        if self.problems.count == before:
            return self.construct(path, shape.make, given)

        return None

    def construct(
        self,
        path: JsonPath,
        make: Callable[..., Any],
        given: dict[str, Any],
        whole_field: str = "unknown",
    ) -> Any:
        """
        Construct an object of the fields in *given*; *whole_field* names the one
        whose value is not a field's but the whole object.
        """
        try:
            return make(**given)
        except _REFUSED as error:
            refused = error

        before = self.problems.count
        for name, value in given.items():
            if value.__class__ is dict:
                self.check_json(value, path if name == whole_field else (path, name))

        if self.problems.count == before:
            field = getattr(refused, "field", "")
            if field in given:
                self.problems.add((path, field), refused.problem)
            else:
                self.problems.add(path, str(refused))
        else:
            # A constructor stops at the first invalid field; find those after it.
            rest = {k: {} if v.__class__ is dict else v for k, v in given.items()}
            self.construct(path, make, rest)

        return None

    def check_json(self, value: Any, path: JsonPath, depth: int = 0) -> None:
        """
        Add every reason why *value* can't be frozen. Only called if there is one:
        `freeze` has the same rules and stops at the first.
        """
        items: Iterable[tuple[Any, Any]]
        if value.__class__ is dict:
            items = value.items()
            for key in value:
                self._check_value(check_text, key, (path, key))
        elif value.__class__ is list:
            items = enumerate(value)
        else:
            return self._check_value(freeze, value, path)

        if depth == MAX_LEVELS:
            what = f"nested more than {MAX_LEVELS} levels deep"
            return self.problems.add(path, what)

        for key, item in items:
            self.check_json(item, (path, key), depth + 1)

        return None

    def find_kind(self, data: dict[str, Any], path: JsonPath) -> str:
        """The kind of a document; "", and a problem, if it is unknown."""
        kind: Any = data.get("kind")
        if kind.__class__ is str and kind in self.kinds:
            return kind

        known = ", ".join(sorted(self.kinds))
        what = f"unknown kind {describe_json(kind)}; expected one of {known}"
        self.problems.add((path, "kind"), what if "kind" in data else "missing")
        return ""

    def read_body(self, data: dict[str, Any], path: JsonPath) -> Any:
        """
        The value of a document: of all of *data* but the envelope, of which a
        state in a timeline has only the kind.
        """
        kind = self.find_kind(data, path)
        if not kind:
            return None

        _, read = self.kinds[kind]
        envelope = ENVELOPE if path is None else {"kind"}
        body = {name: value for name, value in data.items() if name not in envelope}
        if kind in INLINE_KINDS:
            return read(self, body, path)

        field = kind if kind in NAMED_KINDS else "value"
        return self.read_fields(
            body, path, strict_shape(dict, field, **{field: read})
        ).get(field)

    def read_array(self, raw: Any, path: JsonPath, read: Read) -> list[Any] | None:
        """The items of *raw*, read by *read*; None if it is not an array."""
        if not self.is_array(raw, path):
            return None

        return [read(self, item, (path, i)) for i, item in enumerate(raw)]


_TEXT = CodecReader.text


def object_reader(shape: Shape) -> Read:
    return lambda reader, raw, path: reader.read_object(raw, path, shape)


def array_reader(read: Read) -> Read:
    return lambda reader, raw, path: reader.read_array(raw, path, read)
