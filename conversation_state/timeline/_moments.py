"""Moments: the steps of a timeline, and a view of all that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, SupportsIndex, TypeVar, overload

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
    # Whether two timelines have equal moments. States of one conversation have nearly
    # everything in common, but a decoded timeline shares nothing with its original: so
    # what is known to be equal is remembered and not compared once for each state.
    if len(ours) != len(theirs):
        return False

    known: set[tuple[int, int]] = set()
    start = max(ours._log.shared_prefix(theirs._log) - ours._skip, 0)
    return all(
        a is b or _is_equal(a, b, known)
        for a, b in zip(
            ours._log.iterate(ours._skip + start),
            theirs._log.iterate(theirs._skip + start),
            strict=True,
        )
    )


def _is_equal(a: Moment[Any], b: Moment[Any], known: set[tuple[int, int]]) -> bool:
    if (a.number, a.label, a.group, a.parent) != (b.number, b.label, b.group, b.parent):
        return False

    if isinstance(a.state, Aggregator) and isinstance(b.state, Aggregator):
        return a.state._equals_beyond(b.state, known)

    return a.state is b.state or bool(a.state == b.state)
