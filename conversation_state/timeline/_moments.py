"""
Moments: the steps of a timeline, and a view of all that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, SupportsIndex, TypeVar, overload
from uuid import UUID

import attrs

from conversation_state._persistent import Log, View, final
from conversation_state._wording import format_count
from conversation_state.aggregator import Aggregator
from conversation_state.pickling import Maker

S = TypeVar("S")


@final
@attrs.frozen(weakref_slot=False)
class Moment(Generic[S]):
    """
    One step of a timeline: a state, and where it came from.

    Made by the verbs of a `Timeline`. Equal by content; hashable whatever the
    state is.

    Attributes:
        number: Its place in the order of commits, from 0 on. A timeline uses
            each number once, even after the moment is forgotten.

        state: The state that was committed.

        label: Its name; not unique.

        group: The group of its step: see `Timeline.commit`.

        parent: The number of the moment it was committed on, which may be
            forgotten by now; None for the first.
    """

    number: int
    state: S = attrs.field(hash=False)
    label: str = ""
    group: str | None = None
    parent: int | None = None


class Moments(View[Moment[S]]):
    """
    The moments a timeline keeps, oldest first: an immutable view, O(1) to get.

    Index O(log n), slices are views too.
    """

    __slots__ = ("_log", "_skip")

    _log: Log[Moment[S]]
    # How many of the log's first moments are forgotten.
    _skip: int

    def __init__(self, log: Log[Moment[S]], skip: int = 0) -> None:
        self._log = log
        self._skip = skip

    def __len__(self) -> int:
        return len(self._log) - self._skip

    @overload
    def __getitem__(self, at: SupportsIndex) -> Moment[S]: ...
    @overload
    def __getitem__(self, at: slice) -> Moments[S]: ...
    def __getitem__(self, at: Any) -> Moment[S] | Moments[S]:
        # A range resolves negative positions and slices as a list does.
        numbers = range(self._skip, len(self._log))
        if not isinstance(at, slice):
            try:
                number: int = numbers[at]
            except IndexError:
                raise IndexError(
                    f"position {at} of {format_count(len(numbers), 'moment')}"
                ) from None

            return self._log[number]

        chosen = numbers[at]
        if chosen.step == 1 and chosen:
            return Moments(self._log.take(chosen.stop), chosen.start)

        return Moments(Log([self._log[number] for number in chosen]))

    def __iter__(self) -> Iterator[Moment[S]]:
        return self._log.iterate(self._skip)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Moments):
            return self is other or _are_equal(self, other)

        return super().__eq__(other)

    __hash__ = View.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _MOMENTS, (self._log, self._skip)


_MOMENTS = Maker("timeline.Moments", Moments)


def _are_equal(ours: Moments[Any], theirs: Moments[Any]) -> bool:
    # Whether two timelines have equal moments. O(n + the size of the states). States of
    # one conversation have nearly everything in common, but a decoded timeline shares
    # no structure with its original. So each pair of states is compared only beyond the
    # states they grew from, which are known to be equal.
    if len(ours) != len(theirs):
        return False

    known = _EqualStates()
    start = max(ours._log.shared_prefix(theirs._log) - ours._skip, 0)
    for a, b in zip(
        ours._log.iterate(ours._skip + start),
        theirs._log.iterate(theirs._skip + start),
        strict=True,
    ):
        if a is b:
            continue

        ours_but_state = a.number, a.label, a.group, a.parent
        if ours_but_state != (b.number, b.label, b.group, b.parent):
            return False

        if not known.are_equal(a, b):
            return False

    return True


class _EqualStates:
    """
    The pairs of states that were found equal so far.
    """

    def __init__(self) -> None:
        self._by_number: dict[int | None, tuple[Aggregator, Aggregator]] = {}
        self._by_root: dict[UUID, tuple[Aggregator, Aggregator]] = {}

    def are_equal(self, a: Moment[Any], b: Moment[Any]) -> bool:
        ours, theirs = a.state, b.state
        if not isinstance(ours, Aggregator) or not isinstance(theirs, Aggregator):
            return ours is theirs or bool(ours == theirs)

        # The parent's state; and, if the parent is forgotten or has a state of
        # another conversation, the newest state of this one.
        root = ours.root_id
        found = self._by_number.get(a.parent), self._by_root.get(root)
        near = [pair for pair in found if pair is not None]
        if not ours.equals(theirs, near=near):
            return False

        self._by_number[a.number] = self._by_root[root] = ours, theirs
        return True
