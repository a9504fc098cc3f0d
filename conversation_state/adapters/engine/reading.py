"""Reading JSON of others: every problem with its path; text is mended on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Self, TypeGuard

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import format_count, name_to_json, shorten_repr
from conversation_state.adapters.engine.notes import RESERVED, own_of, with_notes
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import UnknownMessage
from conversation_state.parts import UnknownPart

# Ten levels less than a frozen value may have, because notes wrap what is kept.
_MAX_LEVELS = 90
# Each item of hostile input may be wrong, and an error that lists all of them would be
# as large as the input.
_MAX_LISTED = 100
_MAX_SHOWN = 40  # characters of a text in an error
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_NONE: frozenset[str] = frozenset()
# The classes of JSON values other than objects. Looking up a class here is several
# times faster than `isinstance` with the abstract class `Mapping`.
_NO_MAPS = frozenset({str, int, float, bool, list, tuple, type(None)})
_AS_JSON = "; use model_dump(mode='json')"


def is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether *value* is an object of JSON."""
    return isinstance(value, dict) or (
        value.__class__ not in _NO_MAPS and isinstance(value, Mapping)
    )


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether *value* is a list of JSON."""
    return isinstance(value, (list, tuple))


def is_same_value(some: object, other: object) -> bool:
    """
    Whether two JSON values are the same: as ``==``, but a boolean is no number.

    >>> is_same_value({"a": [1]}, {"a": [1.0]}), is_same_value([1], [True])
    (True, False)
    """
    if is_map(some) and is_map(other):
        return some.keys() == other.keys() and all(
            is_same_value(some[key], other[key]) for key in some
        )

    if is_list(some) and is_list(other):
        return len(some) == len(other) and all(map(is_same_value, some, other))

    return some == other and isinstance(some, bool) == isinstance(other, bool)


def mended(text: str) -> str:
    """
    *text* as valid Unicode: pairs of surrogates are joined, a half that is
    alone becomes U+FFFD.
    """
    # Most texts are ASCII, which CPython stores with a text: the check is O(1).
    if text.isascii():
        return text

    # JSON escapes a character outside the first plane as two surrogates. If these come
    # in two texts that are joined later, `json` can't combine them; UTF-16 does.
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return text


def describe_failure(error: object) -> str:
    """Why the provider failed: the message of *error*, an object or a text."""
    message = error.get("message") if is_map(error) else error
    if isinstance(message, str) and message:
        return mended(message)

    return "no reason given"


# The SDKs of OpenAI and Anthropic add the parsed value to a response whose text they
# parsed (`_PARSED`). It is redundant, and no provider accepts it in a request. The
# objects that it is in have one of the types `_WITH_PARSED`, and are under one of the
# keys `_AROUND_PARSED`.
_PARSED = frozenset({"parsed", "parsed_arguments", "parsed_output"})
_WITH_PARSED = (None, "function", "function_call", "message", "output_text", "text")
_AROUND_PARSED = frozenset({"content", "function", "tool_calls"})

# These SDKs rename keys that are Python keywords, in objects of the types
# `_WITH_RENAMED`. They add such a key as null if the provider did not send it.
_RENAMED = {"async_": "async", "from_": "from"}
_WITH_RENAMED = ("custom_tool_call", "fallback", "function_call")


def as_sent(raw: Any, depth: int = 0) -> Any:
    """
    *raw*, an answer in a response, as the provider sent it: without the values that
    an SDK added to it, and under the provider's own keys.
    """
    # The reader refuses a value that is nested deeper, with its path.
    if depth > _MAX_LEVELS:
        return raw

    if is_list(raw):
        return [as_sent(item, depth + 1) for item in raw]

    if not is_map(raw):
        return raw

    kind = raw.get("type")
    if kind in _WITH_RENAMED:
        # A null was added by the SDK; the provider would refuse the key in a request.
        restored = {
            name: raw[key]
            for key, name in _RENAMED.items()
            if raw.get(key) is not None and name not in raw
        }
        raw = {**{key: raw[key] for key in raw if key not in _RENAMED}, **restored}

    if kind not in _WITH_PARSED:
        return raw

    return {
        key: as_sent(value, depth + 1) if key in _AROUND_PARSED else value
        for key, value in raw.items()
        if key not in _PARSED
    }


def _is_scalar(value: Any) -> bool:
    if isinstance(value, int):
        return _MIN_INT <= value <= _MAX_INT

    return value is None or (isinstance(value, float) and isfinite(value))


def _describe_value(value: Any) -> str:
    """*value* for an error, in JSON's terms and on one line."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]

    if isinstance(value, str):
        short = value[:_MAX_SHOWN]
        return repr(mended(short if short == value else f"{short}..."))

    if isinstance(value, int):
        return repr(value) if abs(value) <= _MAX_INT else "an integer beyond 64 bits"

    if isinstance(value, float):
        return repr(value)

    if is_map(value):
        return "an object"

    return "a list" if is_list(value) else f"a Python {type(value).__name__}"


def _advise_json(value: object) -> str:
    # How to make JSON of an object of an SDK, or of a text.
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        return "; parse it first: json.loads(text)"

    if isinstance(value, (Iterator, AsyncIterator)):
        return "; load_chunks and aload_chunks read streams, of events as JSON"

    to_json = "" if is_map(value) or is_list(value) else name_to_json(value)
    return f"; make it JSON first, with its {to_json}" if to_json else ""


class DocumentReader:
    """One document while it is read. Never leaves the function that reads it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []  # at most the first hundred
        self.count = 0  # of all problems
        self.mended: list[str] = []  # paths of texts that held half of a pair
        # Whether it is an answer, which was paid for: numbers that can't be kept are
        # texts in it, and no problems; nor are calls without a name or arguments.
        self.is_answer = False
        self._is_of_call = False  # what is read now

    def problem(self, path: str, what: str) -> None:
        """Report that what is at *path* can't be read."""
        self.count += 1
        if self.count <= _MAX_LISTED:
            self.problems.append(Problem(path, what))

    def wrong(self, path: str, value: object, expected: str) -> None:
        """Report that *value* at *path* is not what is *expected*."""
        advice = _advise_json(value)
        self.problem(path, f"is {_describe_value(value)}; expected {expected}{advice}")

    def finish(self) -> None:
        """
        Raises:
            DecodeError: If there was a problem; with up to a hundred problems, and the
                number of the others.
        """
        more = self.count - len(self.problems)
        if more:
            what = f"and {format_count(more, 'more problem')}"
            self.problems.append(Problem("$", what))

        if self.problems:
            raise DecodeError(tuple(self.problems))

    def json(self, value: Any, path: str, depth: int = 0) -> Any:
        """*value* as plain JSON that can be kept: texts mended, all else as it is."""
        if isinstance(value, str):
            text = mended(value)
            if text is not value:
                self.mended.append(path)

            return text

        is_object = is_map(value)
        if not (is_object or is_list(value)):
            return value if _is_scalar(value) else self._read_odd_scalar(value, path)

        if depth == _MAX_LEVELS:
            self.problem(path, f"is nested more than {_MAX_LEVELS} levels deep")
            return None

        if is_object:
            return self.rest(value, _NONE, path, depth)

        return [
            self.json(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)
        ]

    def arguments(self, value: Any, path: str) -> Any:
        """
        What is at *path* as `json` reads it, with integers of any size: arguments of a
        call are a text of JSON, which holds them.
        """
        self._is_of_call = True
        try:
            return self.json(value, path)
        finally:
            self._is_of_call = False

    def _read_odd_scalar(self, value: Any, path: str) -> str | int | None:
        if self._is_of_call and value.__class__ is int:
            return value

        if self.is_answer and isinstance(value, (int, float)):
            return repr(value) if isinstance(value, float) else hex(value)

        shown = _describe_value(value)
        advice = _AS_JSON if shown.startswith("a Python ") else ""
        self.problem(path, f"is {shown}, which can't be kept as JSON{advice}")
        return None

    def rest(
        self, raw: Mapping[Any, Any], known: frozenset[str], path: str, depth: int = 0
    ) -> dict[str, Any]:
        """What *raw* has besides the *known* keys, as plain JSON."""
        rest: dict[str, Any] = {}
        if raw.keys() <= known:
            return rest

        for key, value in raw.items():
            if key in known:
                continue

            if not isinstance(key, str):
                self.problem(
                    path, f"has the key {_describe_value(key)}; keys of JSON are text"
                )
                continue

            name = mended(key)
            if name is not key:
                self.mended.append(f"{path}.{name}")
                # Mending may make two keys equal, and the first value would be lost.
                if name in raw or name in rest:
                    self.problem(
                        path, f"has two keys that are mended to {shorten_repr(name)}"
                    )

            rest[name] = self.json(value, f"{path}.{name}", depth + 1)

        return rest


def text_of(raw: Mapping[str, Any], key: str) -> str:
    """The text under *key*; "" if it is missing or something else."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def take_text(notes: dict[str, Any], key: str) -> str:
    """The text under *key*, taken out of *notes*; "" if missing or not text."""
    return notes.pop(key) if isinstance(notes.get(key), str) else ""


@attrs.define(eq=False)
class ObjectReader:
    """
    One JSON object of a document while it is read, and what is to be noted about it.
    """

    reading: DocumentReader
    raw: Mapping[str, Any]
    path: str
    # How the object differs from the one that `dump` would write.
    notes: dict[str, Any] = attrs.field(factory=dict, init=False)
    # The keys that no field of ours holds, with their values; they become the note
    # ``keys``.
    keys: dict[str, Any] = attrs.field(factory=dict, init=False)

    def text(self, key: str) -> str:
        """The text under *key*, which must be there; "" if there was a problem."""
        value = self.raw.get(key)
        if not isinstance(value, str):
            self.wrong(key, "a text")
            return ""

        text = mended(value)
        if text is not value:
            self.reading.mended.append(f"{self.path}.{key}")

        return text

    def optional(self, key: str) -> str:
        """
        The text under *key*; "" if it is missing, null or empty. A null or empty
        value is kept in `keys`.
        """
        value = self.raw.get(key)
        if value is None or value == "":
            if key in self.raw:
                self.keys[key] = value

            return ""

        return self.text(key)

    def nullable(self, key: str) -> str:
        """The text under *key*; "" if it is missing or null."""
        return "" if self.raw.get(key) is None else self.text(key)

    def text_of_call(self, key: str) -> str:
        """
        The text under *key*, which must be there, but for an answer: that was paid for.
        """
        return self.nullable(key) if self.reading.is_answer else self.text(key)

    def if_text(self, key: str) -> str:
        """
        As `optional`, but any value is valid: one that is not text is kept in `keys`.
        """
        value = self.raw.get(key)
        if value is None or isinstance(value, str):
            return self.optional(key)

        self.keys[key] = self.reading.json(value, f"{self.path}.{key}")
        return ""

    def wrong(self, key: str, expected: str) -> None:
        """Report that the value under *key*, if any, is not what is *expected*."""
        path = f"{self.path}.{key}"
        if key in self.raw:
            self.reading.wrong(path, self.raw[key], expected)
        else:
            self.reading.problem(path, f"is missing; expected {expected}")

    def keep(self, known: frozenset[str]) -> None:
        """Note all keys but those that are *known*."""
        if not self.raw.keys() <= known:
            self.keys.update(self.reading.rest(self.raw, known, self.path))

    def child(self, key: str) -> Self:
        """A reader of the object under *key*."""
        return self.__class__(self.reading, self.raw[key], f"{self.path}.{key}")

    def inside(self, key: str) -> Self | None:
        """The object under *key*; None if it is missing or null, or wrong."""
        given = self.raw.get(key)
        if is_map(given):
            return self.child(key)

        if given is not None:
            self.wrong(key, "an object or null")

        return None

    def required(self, key: str) -> Self | None:
        """The object under *key*, which must be there; None if it is not, or wrong."""
        if is_map(self.raw.get(key)):
            return self.child(key)

        self.wrong(key, "an object")
        return None

    def keep_within(
        self, key: str, inside: ObjectReader, known: frozenset[str]
    ) -> None:
        """Keep, under *key*, all but the *known* keys of the object *inside*."""
        inside.keep(known)
        if inside.keys:
            self.keys[key] = inside.keys

    def objects(self, key: str) -> Iterator[Self]:
        """Each object in the list under *key*; any other item is noted as wrong."""
        for at, raw in enumerate(self.raw[key]):
            path = f"{self.path}.{key}[{at}]"
            if is_map(raw):
                yield self.__class__(self.reading, raw, path)
            else:
                self.reading.wrong(path, raw, "an object")

    def optional_objects(self, key: str, expected: str) -> Iterator[Self]:
        """
        As `objects`; none if the key is missing or null. Any other value is noted
        as wrong, with what was *expected*.
        """
        given = self.raw.get(key)
        if is_list(given):
            return self.objects(key)

        if given is not None:
            self.wrong(key, expected)

        return iter(())

    def as_unknown(self, source: str, index: int | None = None) -> UnknownPart:
        """The object as a part that the format *source* keeps as it is."""
        raw = self.reading.json(self.raw, self.path)
        metadata = self.metadata(source)
        return UnknownPart(raw, source=source, index=index, metadata=metadata)

    def as_unknown_message(self, source: str, mended_before: int) -> UnknownMessage:
        """
        As `as_unknown`, as a message; with what was mended in it since there were
        *mended_before* texts, and without what was noted in an attempt to read it.
        """
        fresh = self.__class__(self.reading, self.raw, self.path)
        raw = self.reading.json(self.raw, self.path)
        note_mended(fresh, mended_before)
        return UnknownMessage(raw, source=source, metadata=fresh.metadata(source))

    def metadata(
        self, source: str, own: Mapping[str, Any] = EMPTY_MAP
    ) -> Mapping[str, Any]:
        """
        The metadata that keeps what was noted, under the name of *source*; with *own*,
        the caller's.
        """
        # Most objects have no notes, and this runs for each of them.
        if not (self.keys or self.notes):
            return own

        notes = {**self.notes, "keys": self.keys} if self.keys else self.notes
        return with_notes(source, notes, own)


def read_extra(node: ObjectReader, key: str) -> dict[str, Any]:
    """
    The map under *key*, as metadata of ours.

    A value under the reserved key would be read as notes of adapters, so it is
    kept in a note named *key*; marks of views stay in the metadata. An empty map
    is kept among the keys of *node*.
    """
    given = node.raw.get(key)
    if given is None:
        return {}

    if not is_map(given):
        node.wrong(key, "an object or null")
        return {}

    if not given:
        node.keys[key] = {}
        return {}

    extra: dict[str, Any] = node.reading.json(given, f"{node.path}.{key}")
    if RESERVED in extra:
        theirs = extra.pop(RESERVED)
        marks = own_of({RESERVED: theirs}).get(RESERVED) if is_map(theirs) else None
        if marks:
            extra[RESERVED] = marks
            theirs = {name: theirs[name] for name in theirs if name not in marks}

        if theirs or not marks:
            node.notes[key] = {RESERVED: theirs}

    return extra


def order_by_parents(
    parents: Mapping[str, str | None], ids: Iterable[str]
) -> list[str]:
    """*ids*, each behind its ancestors by *parents*, else in order; rings are cut."""
    done: set[str] = set()
    order: list[str] = []
    for id in ids:
        way = []
        here: str | None = id
        while here is not None and here in parents and here not in done:
            done.add(here)
            way.append(here)
            here = parents[here]

        order += reversed(way)

    return order


def note_mended(node: ObjectReader, before: int, within: str = "") -> None:
    """
    Note which texts were mended since there were *before* of them: their paths
    relative to the path *within*, or to that of *node*.

    All of them must begin with it: as many characters are cut off, whatever they are.
    Of an item that becomes several messages, each notes its own.
    """
    mended = node.reading.mended[before:]
    if mended:
        # The slice also removes the dot behind the path. A path may be listed twice:
        # an object that can't become a message is read again to keep it whole.
        start = len(within or node.path) + 1
        node.notes["mended"] = [path[start:] for path in dict.fromkeys(mended)]
