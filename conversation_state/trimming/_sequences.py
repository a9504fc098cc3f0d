"""
What is read from a selection: the sequences that a view gives, of what it shows and
what it drops; and what two views have in common at their start, which a provider may
have cached.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from conversation_state._persistent import View, final
from conversation_state.counting import count
from conversation_state.messages import Message
from conversation_state.trimming._elements import COMPACTED, MOVED, Dropped
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import survey_log

I = TypeVar("I")  # noqa: E741 - an item


class _SelectionView(View[I]):
    """
    A view of a selection. Pickled as the tuple of its items, which it equals:
    without the rest of the conversation, and without the counter.
    """

    __slots__ = ()

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
        return (make(seq, message) for seq, message in self._selection.located())

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        selection = self._selection
        seq, place = selection.find_shown(range(len(self))[at])
        message = selection.messages_at(seq)[place]
        edit = selection.changes.get(seq)
        return self._make(edit.seqs[place] if edit and edit.seqs else seq, message)


class DroppedView(_SelectionView[Dropped]):
    __slots__ = ("_selection",)

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __len__(self) -> int:
        selection = self._selection
        removed, elsewhere = self._find_removed()
        count = sum([stop - start for start, stop, _ in selection.ranges])
        count -= sum([not selection.spans(seq, seq + 1) for seq in elsewhere])
        return count + len(self._find_single(removed))

    def __iter__(self) -> Iterator[Dropped]:
        removed, elsewhere = self._find_removed()
        ranges = self._iterate_ranges(removed, elsewhere)
        return merge(ranges, self._find_single(removed))

    def _iterate_ranges(
        self, removed: Mapping[int, str], elsewhere: Container[int]
    ) -> Iterator[Dropped]:
        for start, stop, reason in self._selection.ranges:
            for seq in range(start, stop):
                if seq not in elsewhere:
                    yield Dropped(seq, removed.get(seq, reason))

    def _find_removed(self) -> tuple[dict[int, str], set[int]]:
        """Why single positions are not shown, and those that are shown elsewhere."""
        selection = self._selection
        removed: dict[int, str] = {}
        moved: dict[int, int] = {}  # where what was moved stands
        for seq, edit in selection.changes.items():
            moved.update(dict.fromkeys(edit.seqs, seq))
            if edit.reason and edit.reason != MOVED:
                removed[seq] = edit.reason

        elsewhere: set[int] = set()
        for seq, place in moved.items():
            if seq == place:
                continue

            if selection.is_shown(place):
                elsewhere.add(seq)
            else:
                removed[seq] = selection.drop_reason(place)

        return removed, elsewhere

    def _find_single(self, removed: Mapping[int, str]) -> list[Dropped]:
        """The positions in no range that were *removed*, or show a summary."""
        selection = self._selection
        changes = selection.changes.items()
        summaries = [seq for seq, edit in changes if edit.stands_for]
        replaced = {seq: edit.left_out for seq, edit in changes if edit.left_out}
        found = {**dict.fromkeys(summaries, COMPACTED), **replaced, **removed}
        return [
            Dropped(seq, reason)
            for seq, reason in sorted(found.items())
            if selection.spans(seq, seq + 1)
        ]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        position = range(len(self))[at]
        selection = self._selection
        # Positions that were dropped one by one stand between those of the ranges.
        if selection.changes:
            return next(islice(self, position, None))

        for start, stop, reason in selection.ranges:
            if position < stop - start:
                return Dropped(start + position, reason)

            position -= stop - start

        raise AssertionError  # the ranges add up to the length


# A run of positions that show their own messages, or what another one shows.
_Run: TypeAlias = "range | tuple[Message, ...]"


@final
class SharedPrefix(NamedTuple):
    """
    What two views have in common at their start.

    Attributes:
        messages: How many messages.
        tokens: How many tokens these fill, by the first view's counter.
    """

    messages: int
    tokens: int


def find_shared_prefix(ours: Selection, theirs: Selection) -> SharedPrefix:
    """
    What both selections show at their start. O(log n) where it is the same
    entries, else O(messages that are equal).
    """

    def count_before(seq: int) -> int:
        taken = ours.entries.take(seq)
        return survey_log(taken, ours.counter, ours.rules).tokens

    same = ours.entries.common_prefix(theirs.entries)
    runs, others = _split_runs(ours), _split_runs(theirs)
    left, right = next(runs, None), next(others, None)
    messages = tokens = 0
    while left and right:
        # A run is skipped as a whole only if it has the same position on both sides: at
        # different positions, equal messages are different entries.
        if (
            isinstance(left, range)
            and isinstance(right, range)
            and left.start == right.start < same
        ):
            stop = min(left.stop, right.stop, same)
            common = stop - left.start
            tokens += count_before(stop) - count_before(left.start)
        else:
            message = _get_first(ours, left)
            other = _get_first(theirs, right)
            if not (message is other or message == other):
                break

            common = 1
            tokens += count(message, ours.counter)

        messages += common
        left = left[common:] or next(runs, None)
        right = right[common:] or next(others, None)

    return SharedPrefix(messages, tokens)


def _split_runs(selection: Selection) -> Iterator[_Run]:
    for span in selection.spans():
        start = span.start
        for seq, edit in selection.iterate_edits([span]):
            if start < seq:
                yield range(start, seq)

            if edit.shown:
                yield edit.shown

            start = seq + 1

        if start < span.stop:
            yield range(start, span.stop)


def _get_first(selection: Selection, run: _Run) -> Message:
    first = run[0]
    return selection.entries[first].message if isinstance(first, int) else first
