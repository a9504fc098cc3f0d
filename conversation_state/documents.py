"""Documents: retrieved texts, with what a search knows about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from math import isfinite
from operator import index
from typing import Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    FrozenMap,
    check_text,
    final,
    freeze_map,
    freeze_notes,
    is_same_json,
    make_map,
)
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidDocumentError

__all__ = ["Document"]

_SCORE = "_score"
_SUB_INDEXES = "_sub_indexes"
_DENSE_VECTOR = "_dense_vector"
_SPARSE_VECTOR = "_sparse_vector"
_DSL = "_dsl"
_EXTRA_INFO = "_extra_info"

_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1
_DIMENSION = re.compile(r"0|-?[1-9][0-9]{0,18}")


@final
@attrs.frozen
class Document:
    """
    A retrieved text with its metadata.

    The results of a search are in the metadata, under names that begin with an
    underscore. Each has a property that reads it and a method that returns a
    document with another value. Values that another system wrote are kept as
    they are; the property is None if the value is invalid or missing.

    Attributes:
        id: Its id in the index it comes from; "" until it has one.
        content: Its text.
        metadata: JSON values, frozen deeply.
        unknown: Fields that a newer version wrote with the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidDocumentError: If a value is not what its field holds, or text holds half
            of a surrogate pair.

    Source:
        eino's `schema.Document` and the names of its metadata, ``_score`` and so
        on. There, vectors and sub-indexes are lost on the way through JSON.

    >>> found = Document("1", "Trains to Bern leave at 12:30.").with_score(0.9)
    >>> found.score, found.dense_vector, str(found)
    (0.9, None, 'Trains to Bern leave at 12:30.')
    """

    id: str
    content: str
    metadata: Mapping[str, Any] = EMPTY_MAP
    unknown: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for field in ("id", "content"):
            text = check_text(
                getattr(self, field), f"Document.{field}", InvalidDocumentError
            )
            object.__setattr__(self, field, text)

        if self.metadata is not EMPTY_MAP or self.unknown is not EMPTY_MAP:
            own = [field.name for field in attrs.fields(Document)]
            freeze_notes(self, own, InvalidDocumentError)

    def __str__(self) -> str:
        return self.content

    def _with_metadata(self, key: str, value: Any, current: Any = None) -> Document:
        """
        This document with *value*, which is frozen, under *key*; None removes it.
        Itself if that is what its property reads, *current*.
        """
        if value is not None and value == current:
            return self

        metadata = dict(self.metadata)
        if value is not None:
            metadata[key] = value
        elif key in metadata:
            del metadata[key]
        else:
            return self

        # Not by the constructor, which would freeze a long vector once more.
        changed = object.__new__(Document)
        for field in ("id", "content", "unknown"):
            object.__setattr__(changed, field, getattr(self, field))

        object.__setattr__(changed, "metadata", make_map(metadata))
        return changed

    @property
    def score(self) -> float | None:
        """
        Its relevance to the query; larger is better. None if there is no score,
        which is not the same as 0.
        """
        score: Any = self.metadata.get(_SCORE)
        # By type: True is an int, too, and no score.
        return float(score) if type(score) in _NUMBERS else None

    def with_score(self, score: float | None) -> Document:
        """
        This document with that score, or without any.

        Raises:
            InvalidDocumentError: If it is not a finite number.
        """
        if score is None:
            return self._with_metadata(_SCORE, None)

        (number,) = _convert_floats([score], "score is")
        return self._with_metadata(_SCORE, number, self.score)

    @property
    def sub_indexes(self) -> tuple[str, ...] | None:
        """The parts of an index that it is in; None if unknown."""
        names: Any = self.metadata.get(_SUB_INDEXES)
        if names.__class__ is tuple and {*map(type, names)} <= {str}:
            return names

        return None

    def with_sub_indexes(self, names: Iterable[str] | None) -> Document:
        """
        This document in those parts of an index; None removes them.

        Raises:
            InvalidDocumentError: If they are not texts, or are one text instead of
                several.
        """
        if names is None:
            return self._with_metadata(_SUB_INDEXES, None)

        if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
            raise InvalidDocumentError(
                f"sub_indexes are {shorten_repr(names)}; expected several names"
            )

        kept = tuple(
            check_text(name, "one of the sub_indexes", InvalidDocumentError)
            for name in names
        )
        return self._with_metadata(_SUB_INDEXES, kept, self.sub_indexes)

    @property
    def dense_vector(self) -> tuple[float, ...] | None:
        """Its vector in an embedding space, or None. O(dimensions)."""
        vector: Any = self.metadata.get(_DENSE_VECTOR)
        if vector.__class__ is not tuple:
            return None

        kinds = {*map(type, vector)}
        if kinds <= {float}:
            return vector

        return tuple(map(float, vector)) if kinds <= _NUMBERS else None

    def with_dense_vector(self, vector: Iterable[float] | None) -> Document:
        """
        This document with that vector; None removes it. O(dimensions).

        Accepts any numbers, those of a NumPy array too.

        Raises:
            InvalidDocumentError: If one of them is not a finite number.
        """
        if vector is None:
            return self._with_metadata(_DENSE_VECTOR, None)

        if isinstance(vector, _NOT_SEQUENCES) or not _is_iterable(vector):
            raise InvalidDocumentError(
                f"dense_vector is {shorten_repr(vector)}; expected a sequence of "
                "numbers"
            )

        kept = _convert_floats(vector, "dense_vector has")
        return self._with_metadata(_DENSE_VECTOR, kept, self.dense_vector)

    @property
    def sparse_vector(self) -> Mapping[int, float] | None:
        """
        The dimensions in which its vector is not zero, with their values; None if
        it has no such vector. O(dimensions).
        """
        vector = self.metadata.get(_SPARSE_VECTOR)
        if not isinstance(vector, Mapping):
            return None

        if not {*map(type, vector.values())} <= _NUMBERS:
            return None

        read = {_parse_dimension(key): float(vector[key]) for key in vector}
        dimensions = {key: each for key, each in read.items() if key is not None}
        return FrozenMap(dimensions) if len(dimensions) == len(read) else None

    def with_sparse_vector(self, vector: Mapping[int, float] | None) -> Document:
        """
        This document with those dimensions; None removes them. O(dimensions).

        They are integers of at most 64 bits, and strings in the metadata, because
        keys of JSON are strings.

        Raises:
            InvalidDocumentError: If a dimension is not an integer, or one is not a
                finite number.
        """
        if vector is None:
            return self._with_metadata(_SPARSE_VECTOR, None)

        if not isinstance(vector, Mapping):
            raise InvalidDocumentError(
                f"sparse_vector is {shorten_repr(vector)}; expected a mapping of "
                "dimensions to numbers"
            )

        keys = [str(_check_dimension(each)) for each in vector]
        numbers = _convert_floats(vector.values(), "sparse_vector has")
        kept = make_map(dict(zip(keys, numbers, strict=True)))
        # Compared with the metadata, whose keys are strings as well.
        return self._with_metadata(
            _SPARSE_VECTOR, kept, self.metadata.get(_SPARSE_VECTOR)
        )

    @property
    def dsl(self) -> Mapping[str, Any] | None:
        """
        The query that finds it, in the language of the search engine; None if
        unknown.
        """
        dsl = self.metadata.get(_DSL)
        return dsl if isinstance(dsl, FrozenMap) else None

    def with_dsl(self, dsl: Mapping[str, Any] | None) -> Document:
        """
        This document with that query, or without any.

        Raises:
            InvalidDocumentError: If it is not a mapping of JSON values.
        """
        if dsl is None:
            return self._with_metadata(_DSL, None)

        kept = freeze_map(dsl, "dsl", InvalidDocumentError)
        # A query with 1 is not the one with 1.0 or true, though they are equal.
        return self if is_same_json(kept, self.dsl) else self._with_metadata(_DSL, kept)

    @property
    def extra_info(self) -> str | None:
        """Further text about it, or None."""
        info = self.metadata.get(_EXTRA_INFO)
        return info if info.__class__ is str else None

    def with_extra_info(self, info: str | None) -> Document:
        """
        This document with that text; None removes it.

        Raises:
            InvalidDocumentError: If it is not text.
        """
        if info is None:
            return self._with_metadata(_EXTRA_INFO, None)

        kept = check_text(info, "extra_info", InvalidDocumentError)
        return self._with_metadata(_EXTRA_INFO, kept, self.extra_info)


_NUMBERS = {int, float}
# What yields numbers too, but no coordinates in their order.
_NOT_SEQUENCES = (str, bytes, Mapping, AbstractSet)


def _is_iterable(value: object) -> bool:
    # Some libraries' arrays have no __iter__: Python then counts from item 0.
    return isinstance(value, Iterable) or hasattr(value, "__getitem__")


def _is_number(kind: type) -> bool:
    return not issubclass(kind, (str, bytes, bool)) and (
        hasattr(kind, "__float__") or hasattr(kind, "__index__")
    )


def _convert_floats(given: Iterable[Any], what: str) -> tuple[float, ...]:
    values = tuple(given)
    # By type and not by value: an embedding has thousands of floats, of one type.
    kinds = {*map(type, values)}
    if kinds - {float}:
        # `float` would accept a text that holds a number, and True.
        strange = {kind for kind in kinds if not _is_number(kind)}
        if strange:
            value = next(value for value in values if type(value) in strange)
            raise InvalidDocumentError(
                f"{what} {shorten_repr(value)}, which is no number"
            )

        try:
            values = tuple(map(float, values))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidDocumentError(f"{what} an invalid number: {error}") from None

    if not all(map(isfinite, values)):
        wrong = next(value for value in values if not isfinite(value))
        raise InvalidDocumentError(
            f"{what} {shorten_repr(wrong)}, which JSON can't represent"
        )

    return values


def _parse_dimension(key: str) -> int | None:
    """The integer that *key* is the text of, if it is one as `str` writes it."""
    # Neither "01" nor "+1": one dimension could stand there under several keys.
    is_plain = _DIMENSION.fullmatch(key) is not None
    return int(key) if is_plain and _MIN_INT <= int(key) <= _MAX_INT else None


def _check_dimension(given: Any) -> int:
    try:
        number = None if given.__class__ is bool else index(given)
    except TypeError:
        number = None

    if number is None or not _MIN_INT <= number <= _MAX_INT:
        raise InvalidDocumentError(
            f"sparse_vector has the dimension {shorten_repr(given)}; expected an "
            "integer of at most 64 bits"
        )

    return number
