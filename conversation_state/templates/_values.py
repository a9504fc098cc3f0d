"""
The values that templates get: plain data that was copied, and bounded.

No engine gets an object with attributes of its own, or one that runs code when it is
compared, iterated or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from conversation_state._wording import describe_type, shorten_repr, shorten_text
from conversation_state.documents import Document
from conversation_state.messages import Message

MAX_CHARACTERS = 1_000_000
"""Characters that one rendered text may have."""

MAX_VALUES = 100_000
"""
Values, counted at every level, that the variables of one call may hold; of a text in a
list or a mapping each 100 characters count as one.
"""

# The deepest nesting of values; as in messages' metadata.
_MAX_LEVELS = 100

# The variable and the keys below it.
_Path: TypeAlias = "tuple[str | int, ...]"


class Refused(Exception):  # noqa: N818 - never seen outside: becomes TemplateError
    """A problem of a template or a value."""


class Missing(Exception):  # noqa: N818 - never seen outside: MissingVariableError
    """The path of a missing variable."""

    def __init__(self, *path: str | int) -> None:
        super().__init__(".".join(map(str, path)))


class Fields(dict[Any, Any]):
    """A mapping that knows its path, for errors."""

    __slots__ = ("_path",)  # private, so that Jinja2 takes it for no key's value

    def __init__(self, path: _Path) -> None:
        self._path = path

    def __gotemplate_lookup__(self, key: str | int) -> Any:
        # As gotpl looks up a field.
        if key in self:
            return self[key]

        raise Missing(*self._path, key)


class DocumentText(str):
    """A document in a template: its content, with its fields below it."""

    __slots__ = ("_fields",)
    _fields: Fields

    def __getattr__(self, name: str) -> Any:
        # For Jinja2, which takes `document.id` and `document['id']` for attributes.
        if name in self._fields:
            return self._fields[name]

        raise AttributeError(name)

    def __gotemplate_lookup__(self, key: str) -> Any:
        return self._fields.__gotemplate_lookup__(key)


class Items(list[Any]):
    """A list that knows its path, for errors."""

    __slots__ = ("_path",)

    def __init__(self, path: _Path) -> None:
        self._path = path


def read_below(value: Any, key: str | int, path: str) -> Any:
    """What *value*, at *path*, has under *key*, or at that position."""
    if isinstance(value, Variables):
        return value[str(key)]

    value = value._fields if isinstance(value, DocumentText) else value
    if isinstance(value, Fields):
        if key in value:
            return value[key]
    elif not isinstance(value, Items) or type(key) is not int:
        raise Refused(
            f"{path} is {describe_type(value)} and has no {shorten_repr(str(key), 40)} "
            "below it: that takes a map and a key, or a list and a position"
        )
    elif 0 <= key < len(value):
        return value[key]

    raise Missing(*value._path, key)


def join_bounded(pieces: Iterable[str]) -> str:
    """*pieces* in one text, if they are not too long."""
    texts, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise Refused(f"it becomes more than {MAX_CHARACTERS:,} characters")

        texts.append(piece)

    return "".join(texts)


_SCALARS = (date, datetime, time, UUID)
_BYTES = (bytes, bytearray, memoryview)
# Vectors have thousands of values, which no template shows.
_VECTORS = {"_dense_vector", "_sparse_vector"}


class Variables(Mapping[str, Any]):
    """
    The variables of one call, each converted to plain data on first use: those that
    a template does not name are never read.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given
        self._plain: dict[str, Any] = {}
        self._left = MAX_VALUES

    def __getitem__(self, name: str) -> Any:
        if name not in self._plain:
            if name not in self._given:
                raise Missing(name)

            self._plain[name] = self._make_plain(self._given[name], (name,))

        return self._plain[name]

    __gotemplate_lookup__ = __getitem__

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def _make_plain(self, value: Any, path: _Path) -> Any:
        is_text = isinstance(value, (str, Message))
        text = str(value) if is_text else ""
        # Writing a list makes a text of all of its texts.
        self._left -= 1 + (len(text) // 100 if len(path) > 1 else 0)
        if self._left < 0:
            raise Refused(f"the variables hold more than {MAX_VALUES:,} values")

        if is_text:
            return text

        if value is None or isinstance(value, (bool, *_SCALARS)):
            return value

        # An enum, for example, may format itself in its own way.
        if isinstance(value, (int, float)):
            return int(value) if isinstance(value, int) else float(value)

        if isinstance(value, Decimal):
            # A format writes all digits, a billion of "1E+999999999".
            if abs(value.adjusted()) > MAX_CHARACTERS:
                raise Refused(
                    f"{_join_path(path)} is a decimal number too large or small"
                )

            return value

        return self._copy_collection(value, path)

    def _copy_collection(self, value: Any, path: _Path) -> Any:
        if len(path) > _MAX_LEVELS:
            raise Refused(
                f"{_join_path(path)} is more than {_MAX_LEVELS} levels deep, or holds "
                "itself"
            )

        if isinstance(value, Document):
            metadata = value.metadata
            names = sorted(metadata.keys() - _VECTORS)
            inner = {name: metadata[name] for name in names}
            own = {"id": value.id, "content": value.content, "metadata": inner}
            document = DocumentText(value.content)
            document._fields = self._make_plain(own, path)
            return document

        if isinstance(value, Mapping):
            fields = Fields(path)
            for key, item in value.items():
                if not isinstance(key, (str, int)):
                    raise Refused(
                        f"{_join_path(path)} has a key that is {describe_type(key)}; "
                        "keys are texts or integers"
                    )

                plain = self._make_plain(key, (*path, "a key"))
                fields[plain] = self._make_plain(item, (*path, plain))

            return fields

        if isinstance(value, Sequence) and not isinstance(value, _BYTES):
            items = Items(path)
            for at, item in enumerate(value):
                items.append(self._make_plain(item, (*path, at)))

            return items

        raise Refused(
            f"{_join_path(path)} is {describe_type(value)}; templates take plain data: "
            "texts, numbers, truth, None, dates, messages, documents, and lists and "
            "mappings of them"
        )


def _join_path(path: _Path) -> str:
    return shorten_text(".".join([str(step)[:80] for step in path]), 80)
