"""
What a timeline keeps, and how it is found there.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from conversation_state._persistent import Log, PMap
from conversation_state.errors import UnknownMomentError
from conversation_state.timeline._moments import Moment, Moments

__all__ = ["NONE", "Kept"]

S = TypeVar("S")

# Instead of the number of a moment that is not there; less than any number.
NONE = -1

# How many moments an error names.
_SHOWN = 5


class Kept(Generic[S]):
    """
    The moments of a timeline, and which of them is present.

    The half of a `Timeline` that is read; the other half are its verbs.
    """

    __slots__ = ("_base", "_chosen", "_first", "_log", "_moment")

    # All moments from number `_base` on; those before `_first` are forgotten.
    _log: Log[Moment[S]]
    _base: int
    _first: int
    _moment: Moment[S]
    # The child that was visited last, where it is not the next moment.
    _chosen: PMap[int, int]

    @property
    def present(self) -> S:
        """
        The present state.
        """
        return self._moment.state

    @property
    def moment(self) -> Moment[S]:
        """
        The present moment.
        """
        return self._moment

    @property
    def moments(self) -> Moments[S]:
        """
        All moments that are kept, in the order they were committed. O(1).
        """
        return Moments(self._log, self._first - self._base)

    @property
    def branches(self) -> tuple[Moment[S], ...]:
        """
        The moments nothing was committed on, in the order they were. O(n).
        """
        parents = {moment.parent for moment in self.moments}
        return tuple([each for each in self.moments if each.number not in parents])

    @property
    def path(self) -> tuple[Moment[S], ...]:
        """
        How the present came about: the moments from the oldest that is kept to
        the present one, each committed on the one before. O(its length).
        """
        path = [self._moment]
        while (parent := self._parent(path[-1])) is not None:
            path.append(parent)

        return tuple(reversed(path))

    @property
    def can_undo(self) -> bool:
        """
        Whether there is a moment to go back to.
        """
        parent = self._moment.parent
        return parent is not None and parent >= self._first

    @property
    def can_redo(self) -> bool:
        """
        Whether there is a moment ahead.
        """
        return self._next(self._moment.number) is not None

    def children(self, of: Moment[S] | int | None = None) -> tuple[Moment[S], ...]:
        """
        The moments that were committed on one, in order.

        O(moments since that one); whoever draws the whole tree reads the
        *parent* of each moment instead.

        Args:
            of: A moment or its number; None is the present one.

        Raises:
            UnknownMomentError, TypeError:
                As `goto` does.
        """
        number = (self._moment if of is None else self._found(of)).number
        since = self._log.iterate(number + 1 - self._base)
        return tuple([each for each in since if each.parent == number])

    def _parent(self, moment: Moment[S]) -> Moment[S] | None:
        parent = moment.parent
        if parent is None or parent < self._first:
            return None

        return self._log[parent - self._base]

    def _above(self, number: int) -> int:
        parent = self._log[number - self._base].parent
        return NONE if parent is None or parent < self._first else parent

    def _next(self, number: int) -> int | None:
        """
        Where `redo` goes from *number*.
        """
        chosen = self._chosen.get(number) if self._chosen else None
        if chosen is None:
            at = number + 1 - self._base
            if at < len(self._log) and self._log[at].parent == number:
                chosen = number + 1

        return chosen

    def _step(self, into: Moment[S] | str) -> int:
        """
        The first step from the present moment towards *into*.
        """
        present = self._moment.number
        if isinstance(into, Moment):
            step = self._found(into).number
        elif isinstance(into, str):
            step = self._labelled(into)
        else:
            msg = f"redo takes a Moment or a label, got {into!r:.80}"
            raise TypeError(msg)

        while (above := self._above(step)) > present:
            step = above

        if above == present and step > present:
            return step

        asked: int | str = into.number if isinstance(into, Moment) else into
        raise UnknownMomentError(asked, "is not ahead", self._ahead())

    def _labelled(self, label: str) -> int:
        """
        The newest moment with *label* that is ahead; the present one if none
        is.
        """
        found = present = self._moment.number
        ahead = {present}
        for moment in self._log.iterate(present + 1 - self._base):
            if moment.parent in ahead:
                ahead.add(moment.number)
                if moment.label == label:
                    found = moment.number

        return found

    def _ahead(self) -> tuple[tuple[int, str], ...]:
        return tuple([(each.number, each.label) for each in self.children()])

    def _found(self, asked: object) -> Moment[S]:
        """
        The moment that *asked* is, or is the number of.
        """
        number = asked.number if isinstance(asked, Moment) else asked
        if type(number) is not int:
            msg = f"expected a Moment or its number, got {asked!r:.80}"
            raise TypeError(msg)

        at = number - self._base
        if number < self._first or at >= len(self._log):
            least = self._first
            gone = 0 <= number < least
            problem = "is forgotten" if gone else "is none of this timeline's"
            raise UnknownMomentError(number, problem, self._newest())

        found = self._log[at]
        if isinstance(asked, Moment) and found is not asked and found != asked:
            problem = "is of another timeline, or its state was replaced since"
            raise UnknownMomentError(number, problem, self._newest())

        return found

    def _newest(self) -> tuple[tuple[int, str], ...]:
        return tuple([(each.number, each.label) for each in self.moments[-_SHOWN:]])
