"""
The metadata of a stream so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from conversation_state.adapters._export import is_empty_value
from conversation_state.adapters._reading import DocumentReader
from conversation_state.adapters.gemini._parts import text_of
from conversation_state.adapters.gemini._response import read_usage
from conversation_state.usage import Usage

__all__ = ["StreamNotes", "StreamUsage"]

# No sum of two counts below it is over 2**63 - 1.
_HUGE = 2**60


# What was cited, and what was read. The items of other lists are counted by
# others, and the last list is whole.
_LISTS = frozenset(
    {
        "citationMetadata",
        "citation_metadata",
        "urlContextMetadata",
        "url_context_metadata",
    }
)


class StreamNotes:
    """
    Metadata that no field of ours holds.

    Attributes:
        values: What is to be noted.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._listed: set[tuple[str, str, str]] = set()

    def keep(self, fields: Mapping[str, Any]) -> None:
        """
        Keep *fields*: maps are merged, of all else the last value stands
        that isn't empty.
        """
        for name, value in fields.items():
            before = self.values.get(name)
            if is_empty_value(value):
                continue

            if name in _LISTS and isinstance(value, dict):
                self._add_listed(name, value)
            elif isinstance(before, dict) and isinstance(value, dict):
                before.update(value)
            else:
                self.values[name] = value

    def has(self, raw: Mapping[str, Any], names: Iterable[str]) -> bool:
        """
        Whether the values of *raw* under *names* are empty, or the last ones.
        """
        for name in names:
            value = raw.get(name)
            if not is_empty_value(value) and value != self.values.get(name):
                return False

        return True

    def _add_listed(self, name: str, fields: Mapping[str, Any]) -> None:
        """
        Keep what is new in the lists of *fields*: an event may have those of its
        own piece, or of all pieces so far.
        """
        kept = self.values.get(name)
        if not isinstance(kept, dict):
            kept = self.values[name] = {}

        for key, value in fields.items():
            listed = kept.get(key, []) if isinstance(value, list) else None
            if not isinstance(listed, list):
                kept[key] = value
                continue

            kept[key] = listed
            for item in value:
                known = (name, key, text_of(item))
                if known not in self._listed:
                    self._listed.add(known)
                    listed.append(item)


class StreamUsage:
    """
    The usage so far: every event has it, and the last one is right.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        # Counts that came since: read when they are asked for.
        self._latest: tuple[int, ...] | None = None
        self._size = -1
        self._counted: tuple[str, ...] = ()
        self._get_counts: Callable[[Any], Any] = bool
        self._get_others: Callable[[Any], Any] = bool
        self._others: dict[str, Any] = {}
        self._expected: Any = True

    def quick(self, event: Mapping[str, Any]) -> bool:
        """
        Whether *event* has no more than new counts, and `usage` will see to
        them.
        """
        block: Any = event.get("usageMetadata")
        if block is None:
            return True

        try:
            counts = self._get_counts(block)
            if len(block) != self._size or self._get_others(block) != self._expected:
                return False

            for count in counts:
                if count.__class__ is not int or not 0 <= count < _HUGE:
                    return False
        except (LookupError, RecursionError, TypeError):
            return False

        self._latest = counts
        return True

    def read(self, read: DocumentReader, block: Any, path: str) -> dict[str, Any]:
        usage, left = read_usage(read, block, path)
        if usage is None:
            return {}

        self._usage, self._latest, self._size = usage, None, -1
        counted = [
            key
            for key, value in block.items()
            if value.__class__ is int
            and value < _HUGE
            and isinstance(key, str)
            and key.isascii()
        ]
        others = read.rest(block, frozenset(counted), path)
        if len(counted) > 1:
            self._size = len(block)
            self._counted = tuple(counted)
            self._get_counts = itemgetter(*counted)
            self._others = others
            self._get_others = itemgetter(*others) if others else bool
            self._expected = self._get_others(others) if others else True

        return left

    def usage(self) -> Usage | None:
        if self._latest is not None:
            latest = zip(self._counted, self._latest, strict=True)
            block = {**self._others, **dict(latest)}
            self._usage, _ = read_usage(DocumentReader(), block, "$")

        return self._usage
