"""
Going back and forth in a timeline.
"""

from __future__ import annotations

from typing import Self, TypeVar

from conversation_state._persistent.maps import PMap
from conversation_state._wording import shorten_repr
from conversation_state.timeline._moments import Moment
from conversation_state.timeline._reader import NO_MOMENT, _TimelineReader

__all__ = ["_MovableTimeline"]

S = TypeVar("S")

_new = object.__new__


class _MovableTimeline(_TimelineReader[S]):
    """
    The verbs of a `Timeline` that change which moment is present, and commit none.
    """

    __slots__ = ()

    def close_group(self) -> Self:
        """
        This timeline without an open group: the next commit is a step of its own,
        whatever its group. The timeline itself if no group is open.
        """
        if self._open == NO_MOMENT:
            return self

        return self._move_to(self._moment, self._redo_targets)

    def undo(self, n: int = 1) -> Self:
        """
        This timeline *n* steps back: with the parent of the present moment as the
        present, or that one's parent. Stops at the oldest moment that is kept;
        itself if it is there already.

        Raises:
            ValueError:
                If *n* is negative.

            TypeError:
                If *n* is not an integer.

        >>> from conversation_state import Timeline
        >>> draft = Timeline.begin("Dear").commit("Dear Ann")
        >>> draft.undo().redo() == draft
        True
        """
        _check_steps(n)
        moment = self._moment
        while n and (parent := self._get_parent(moment)) is not None:
            moment = parent
            n -= 1

        if moment is self._moment:
            return self

        # `redo` leads back already: each verb that makes a moment present sets where
        # `redo` goes from its parent.
        return self._move_to(moment, self._redo_targets)

    def redo(self, into: Moment[S] | str | int | None = None) -> Self:
        """
        This timeline one step further; itself if nothing is ahead.

        Args:
            into: How many steps, each to the child that was visited last, as far
                as there are any; None is one. Or which way, if several moments
                were committed on the present one: a moment ahead, or its label
                (the newest with that label). That takes one step towards it,
                however far it is.

        Raises:
            UnknownMomentError:
                If *into* is not ahead.

            ValueError:
                If *into* is a negative number.

            TypeError:
                If *into* is of another type.
        """
        if isinstance(into, int):
            _check_steps(into)
            further = self
            for _ in range(into):
                before, further = further, further.redo()
                if further is before:
                    break

            return further

        present = self._moment.number
        step = (
            self._find_redo(present) if into is None else self._find_step_towards(into)
        )
        if step is None:
            return self

        targets = (
            self._redo_targets
            if into is None
            else _set_redo_target(self._redo_targets, present, step)
        )
        return self._move_to(self._log[step - self._base], targets)

    def goto(self, moment: Moment[S] | int | str) -> Self:
        """
        This timeline with any of its moments as the present.

        From there `undo` goes to that moment's parents, and `redo` back to that
        moment. O(steps between the two). For the present moment returns the
        timeline itself, unless a group is open, which ends.

        Args:
            moment: A moment of this timeline, its number, or its label (the
                newest with that label).

        Raises:
            UnknownMomentError:
                If this timeline does not have it, or has forgotten it.

            TypeError:
                If *moment* is neither a moment nor an integer nor a text.
        """
        found = self._find_moment(moment)
        if found is self._moment:
            # A moment that was the target of `goto` must stay, so its group ends.
            return self.close_group()

        # Above the common ancestor, `redo` leads to it already.
        targets = self._redo_targets
        here, there = self._moment.number, found.number
        # A child has a larger number than its parent, so the larger of two moments is
        # no ancestor of the other.
        while here != there:
            if here > there:
                here = self._parent_number(here)
            else:
                parent = self._parent_number(there)
                if parent != NO_MOMENT:
                    targets = _set_redo_target(targets, parent, there)

                there = parent

        return self._move_to(found, targets)

    def _move_to(self, moment: Moment[S], targets: PMap[int, int]) -> Self:
        timeline = _new(self.__class__)
        timeline._log = self._log
        timeline._base = self._base
        timeline._first = self._first
        timeline._moment = moment
        timeline._redo_targets = targets
        timeline._options = self._options
        timeline._open = NO_MOMENT
        return timeline


def _set_redo_target(
    targets: PMap[int, int], parent: int, child: int
) -> PMap[int, int]:
    """
    *targets* with *child* as the child of *parent* that was visited last.
    """
    # No entry is needed where `redo` goes by default (`_find_redo`), so a linear
    # history has no map.
    if child == parent + 1:
        return targets.discard(parent) if targets else targets

    return targets.set(parent, child)


def _check_steps(n: object) -> None:
    if type(n) is not int:
        msg = f"the number of steps is {shorten_repr(n)}; expected an integer"
        raise TypeError(msg)

    if n < 0:
        msg = f"the number of steps is {shorten_repr(n)}; expected 0 or more"
        raise ValueError(msg)
