"""
What the readers of the four wires share: paths, types in JSON's words, names; and the
checks of names and ids that differ by a number alone.

A reader goes through a request once, and leaves lists for the checks. What is not of
the form at all it notes itself, under the name of a rule (`Faults`); a request that
can't be read goes no further.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Finding = tuple[str, Mapping[str, Any]]
Check = Callable[[Any], Iterable[Finding]]
# The ids, the names or the schemas in a request, each with its path.
Lister = Callable[[Any], Iterable[tuple[str, Any]]]

_JSON_TYPES: Mapping[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    dict: "an object",
    list: "an array",
    tuple: "an array",
    type(None): "null",
}

NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")


def says(value: Any) -> str:
    """The type of *value* in JSON's words, as OpenAI's errors name it."""
    return _JSON_TYPES.get(type(value), "an object")


def article(words: Sequence[str]) -> str:
    """The words in quotes, with an "and" before the last."""
    quoted = [f"'{word}'" for word in words]
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}" if quoted[1:] else quoted[0]


def objects_of(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Place and object of each object in an array; of anything else, nothing."""
    if isinstance(value, list | tuple):
        for at, each in enumerate(value):
            if isinstance(each, Mapping):
                yield at, each


def error_of_arguments(text: str) -> str:
    """What Python's parser says of arguments that are no JSON object; "" of one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return str(error)

    return "" if isinstance(value, dict) else "arguments must be a JSON object"


def is_spoken(text: str) -> bool:
    """Whether *text* has more than white space."""
    return bool(text) and not text.isspace()


def has_word_json(value: Any) -> bool:
    """Whether a text anywhere in *value* has "JSON", in whatever case."""
    if isinstance(value, str):
        return "json" in value.lower()

    if isinstance(value, Mapping):
        return any(map(has_word_json, value.values()))

    return isinstance(value, list | tuple) and any(map(has_word_json, value))


def find_inner_schemas(
    schema: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """*schema*, and those inside it, each with the keys that lead to it."""
    if not isinstance(schema, Mapping):
        return

    yield path, schema
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, each in properties.items():
            yield from find_inner_schemas(each, (*path, "properties", str(name)))

    yield from find_inner_schemas(schema.get("items"), (*path, "items"))
    for at, each in objects_of(schema.get("anyOf")):
        yield from find_inner_schemas(each, (*path, f"anyOf[{at}]"))


# What is wrong in the form, and does not keep the rest from being read.
_READABLE = frozenset({"calls_empty", "extra", "unknown", "foreign_block"})


class Faults:
    """What a reader found wrong in the form of a request."""

    def __init__(self) -> None:
        # Path and values of each fault, by the name of the rule.
        self.by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
        # Whether one of them is such that no other check can go on.
        self.are_unreadable = False

    def note(self, rule: str, path: str, **values: Any) -> None:
        """The request breaks *rule* at *path*."""
        self.by_rule[rule].append((path, {"path": path, **values}))
        if rule not in _READABLE:
            self.are_unreadable = True

    def note_type(self, path: str, wanted: str, value: Any) -> None:
        """The *value* at *path* is of another type than is *wanted*."""
        self.note("type", path, wanted=wanted, found=says(value))


def noted(rule: str) -> Check:
    """A check that gives what the reader noted under *rule*."""

    def find_noted(request: Any) -> Iterable[Finding]:
        faults: Mapping[str, list[Finding]] = request.faults.by_rule
        return faults.get(rule, ())

    return find_noted


def wrong(
    list_values: Lister, is_wrong: Callable[[Any], object], **values: Any
) -> Check:
    """A check for those of the values that are wrong; *values* are for its text."""

    def find_wrong(request: Any) -> Iterator[Finding]:
        for path, found in list_values(request):
            if is_wrong(found):
                yield path, {"path": path, "found": found, **values}

    return find_wrong


def empty(list_words: Lister) -> Check:
    """A check for words without a character."""
    return wrong(list_words, lambda word: not word)


def longer_than(limit: int, list_words: Lister) -> Check:
    """A check for words, or arrays, with more than *limit* characters, or items."""

    def find_long(request: Any) -> Iterator[Finding]:
        for path, word in list_words(request):
            if len(word) > limit:
                yield path, {"path": path, "limit": limit, "length": len(word)}

    return find_long


def has_odd_characters(list_words: Lister) -> Check:
    """A check for words with other than letters, digits, underscores and dashes."""
    return wrong(
        list_words,
        lambda word: word and not NAME.match(word),
        pattern="^[a-zA-Z0-9_-]+$",
    )


def wrong_request(path: str, is_wrong: Callable[[Any], object]) -> Check:
    """A check for requests that are wrong as a whole, which the one at *path* says."""
    return wrong(lambda request: [(path, request)], is_wrong)
