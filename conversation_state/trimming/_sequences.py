"""
The sequences that a view gives: what its selection shows, and what it drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import index
from typing import Any, Self, TypeVar

from conversation_state._persistent import View
from conversation_state._wording import shorten_repr
from conversation_state.messages import Message
from conversation_state.trimming._elements import COMPACTED, Dropped
from conversation_state.trimming._selection import Selection

__all__ = ["DroppedView", "ShownView"]

I = TypeVar("I")  # noqa: E741 - an item


class _SelectionView(View[I]):
    """
    A view of a selection. Pickled as the tuple of its items, which it equals:
    without the rest of the conversation, and without the counter.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        return repr(tuple(self))


class ShownView(_SelectionView[Any]):
    """
    What a selection shows, each message made into an item by *make*.

    Iterating costs what is there, an index O(log n) while no position was
    changed one by one, else O(n).
    """

    __slots__ = ("_make", "_selection")

    def __init__(
        self, selection: Selection, make: Callable[[int, Message], Any]
    ) -> None:
        self._selection = selection
        self._make = make

    def __len__(self) -> int:
        return self._selection.size

    def __iter__(self) -> Iterator[Any]:
        make = self._make
        return (make(seq, message) for seq, message in self._selection.pairs())

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        seq, place = self._selection.find_shown(_check_index(at, len(self)))
        return self._make(seq, self._selection.messages_at(seq)[place])


class DroppedView(_SelectionView[Dropped]):
    """
    What a selection does not show.
    """

    __slots__ = ("_selection",)

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __len__(self) -> int:
        ranges = self._selection.ranges
        single = self._find_single(self._find_removed())
        return sum([stop - start for start, stop, _ in ranges]) + len(single)

    def __iter__(self) -> Iterator[Dropped]:
        removed = self._find_removed()
        return merge(self._iterate_ranges(removed), self._find_single(removed))

    def _iterate_ranges(self, removed: Mapping[int, str]) -> Iterator[Dropped]:
        for start, stop, reason in self._selection.ranges:
            for seq in range(start, stop):
                yield Dropped(seq, removed.get(seq, reason))

    def _find_removed(self) -> dict[int, str]:
        """
        The positions that were dropped one by one, and why.
        """
        selection = self._selection
        removed = {seq: edit.reason for seq, edit, _ in selection.repairs}
        removed.update([(seq, edit.reason) for seq, edit in selection.changes.items()])
        return {seq: reason for seq, reason in removed.items() if reason}

    def _find_single(self, removed: Mapping[int, str]) -> list[Dropped]:
        """
        The positions in no range that were *removed*, or show a summary of
        themselves and others.
        """
        selection = self._selection
        changes = selection.changes.items()
        summaries = [seq for seq, edit in changes if edit.stands_for]
        found = {**dict.fromkeys(summaries, COMPACTED), **removed}
        return [
            Dropped(seq, reason)
            for seq, reason in sorted(found.items())
            if selection.spans(seq, seq + 1)
        ]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        position = _check_index(at, len(self))
        selection = self._selection
        # Positions that were dropped one by one stand between those of the ranges.
        if selection.changes or selection.repairs:
            return next(islice(self, position, None))

        for start, stop, reason in selection.ranges:
            if position < stop - start:
                return Dropped(start + position, reason)

            position -= stop - start

        raise AssertionError  # the ranges add up to the length


def _check_index(at: Any, size: int) -> int:
    wanted = index(at)
    position = wanted + size if wanted < 0 else wanted
    if 0 <= position < size:
        return position

    msg = f"index {shorten_repr(wanted)} is out of range for a view of {size}"
    raise IndexError(msg)
