"""
The values that templates get: plain data, copied.

No engine gets an object with attributes of its own, or one that runs code when it is
compared, iterated or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from conversation_state._persistent import check_text
from conversation_state._wording import describe_type, shorten_repr, shorten_text
from conversation_state.documents import Document
from conversation_state.messages import Message
from conversation_state.templates._bounds import (
    MAX_LEVELS,
    MAX_VALUES,
    Missing,
    Refused,
    dotted_path,
)

__all__ = [
    "EXACT",
    "LONGEST_INTEGER_BITS",
    "DocumentFields",
    "Variables",
    "copy_variables",
]

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
    """
    A document in a template: a map of its fields; its text is the content.
    """

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


class _ValuePath:
    """
    The path of a value; rendered only for an error.
    """

    __slots__ = ("_before", "_path")

    def __init__(self, path: tuple[Any, ...], before: str = "") -> None:
        self._path = path
        self._before = before

    def __str__(self) -> str:
        return f"{self._before}{shorten_text(dotted_path(self._path), _LINE)}"


_LINE = 80


def _read_items(items: Iterable[Any], at: Any) -> Iterator[Any]:
    try:
        yield from items
    except Exception as error:
        raise Refused(
            f"{_ValuePath(at)} can't be read: {type(error).__name__}"
        ) from error
