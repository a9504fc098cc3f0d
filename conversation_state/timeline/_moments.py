"""
Moments: the steps of a timeline, and a view of all that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import attrs

from conversation_state._persistent import Log, View

__all__ = ["Moment", "Moments"]

S = TypeVar("S")


@attrs.frozen(weakref_slot=False)
class Moment(Generic[S]):
    """
    One step of a timeline: a state, and where it came from.

    Made by the verbs of a `Timeline`. Equal by content; hashable whatever the
    state is.

    Attributes:
        number: Its place in the order of commits, from 0 on. A timeline gives
            each number once, also when it forgets.

        state: What was committed.

        label: What it is called; not unique.

        group: What it may grow with: see `Timeline.commit`.

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
        numbers = range(self._skip, len(self._log))
        if not isinstance(at, slice):
            try:
                number: int = numbers[at]
            except IndexError:
                msg = f"position {at} of {len(numbers)} moments"
                raise IndexError(msg) from None

            return self._log[number]

        chosen = numbers[at]
        if chosen.step == 1 and chosen:
            return Moments(self._log.take(chosen.stop), chosen.start)

        return Moments(Log([self._log[number] for number in chosen]))

    def __iter__(self) -> Iterator[Moment[S]]:
        return self._log.iterate(self._skip)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Moments) and self._skip == other._skip == 0:
            return self._log == other._log  # sees what is shared

        return super().__eq__(other)

    __hash__ = View.__hash__
