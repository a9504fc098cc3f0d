"""
The moments of a timeline, how they are found, and going back and forth between them:
everything but the verbs that commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Self, TypeVar

from conversation_state._lazy import draw_fragment, draw_outline
from conversation_state._persistent import Log, final
from conversation_state._persistent.maps import PMap
from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors import UnknownMomentError
from conversation_state.timeline._moments import Moment, Moments

S = TypeVar("S")

_new = object.__new__

# Stands for the number of a missing moment; less than any number.
NO_MOMENT = -1

# The most moments that an error lists.
_MAX_LISTED = 5


@final
class Options(NamedTuple):
    """The options of `Timeline.begin`, the same for all timelines that grow from it."""

    limit: int | None
    filter: Callable[[Any, Any], object] | None


class MovableTimeline(Generic[S]):
    """A `Timeline` without the verbs that commit."""

    __slots__ = (
        "_base",
        "_first",
        "_log",
        "_moment",
        "_open",
        "_options",
        "_redo_targets",
    )

    # All moments from number `_base` on; those before `_first` are forgotten, and
    # stay in the log until it is copied.
    _log: Log[Moment[S]]
    _base: int
    _first: int
    _moment: Moment[S]
    # By number, where `redo` goes if that is not the next number: to the child
    # that was visited last.
    _redo_targets: PMap[int, int]
    _options: Options
    # The number of the moment whose group is open: the next commit of that group, in
    # the same place, replaces it. NO_MOMENT if no group is open.
    _open: int

    @property
    def present(self) -> S:
        """The present state."""
        return self._moment.state

    @property
    def moment(self) -> Moment[S]:
        """The present moment."""
        return self._moment

    @property
    def moments(self) -> Moments[S]:
        """All moments that are kept, in the order of their commits. O(1)."""
        return Moments(self._log, self._first - self._base)

    @property
    def limit(self) -> int | None:
        """The most moments that are kept; None if all are."""
        return self._options.limit

    @property
    def tips(self) -> tuple[Moment[S], ...]:
        """
        The moments that nothing was committed on, in the order of their
        commits: the ends of all branches. O(n).
        """
        parents = {moment.parent for moment in self.moments}
        return tuple([each for each in self.moments if each.number not in parents])

    @property
    def path(self) -> tuple[Moment[S], ...]:
        """
        The moments from the oldest that is kept to the present one, each
        committed on the one before. O(its length).
        """
        path = [self._moment]
        while (parent := self._get_parent(path[-1])) is not None:
            path.append(parent)

        return tuple(reversed(path))

    @property
    def can_undo(self) -> bool:
        """Whether there is a moment to go back to."""
        return self._get_parent(self._moment) is not None

    @property
    def can_redo(self) -> bool:
        """Whether a moment was committed on the present one."""
        return self._find_redo(self._moment.number) is not None

    def children(self, of: Moment[S] | int | None = None) -> tuple[Moment[S], ...]:
        """
        The moments that were committed on one, in order.

        O(moments since that one); to draw the whole tree, read the *parent* of
        each moment instead.

        Args:
            of: A moment or its number; None is the present one.

        Raises:
            UnknownMomentError, TypeError:
                As `goto` does.
        """
        number = (self._moment if of is None else self._find_moment(of)).number
        since = self._log.iterate(number + 1 - self._base)
        return tuple([each for each in since if each.parent == number])

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

    # Implementation

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

    def _get_parent(self, moment: Moment[S]) -> Moment[S] | None:
        parent = moment.parent
        if parent is None or parent < self._first:
            return None

        return self._log[parent - self._base]

    def _parent_number(self, number: int) -> int:
        parent = self._log[number - self._base].parent
        return NO_MOMENT if parent is None or parent < self._first else parent

    def _find_redo(self, number: int) -> int | None:
        target = self._redo_targets.get(number) if self._redo_targets else None
        if target is None:
            at = number + 1 - self._base
            if at < len(self._log) and self._log[at].parent == number:
                target = number + 1

        return target

    def _find_step_towards(self, into: Moment[S] | str) -> int:
        present = self._moment.number
        if isinstance(into, Moment):
            step = self._find_moment(into).number
        elif isinstance(into, str):
            step = self._find_label_ahead(into)
        else:
            raise TypeError(
                f"into is {shorten_repr(into)}; expected a Moment, a label or a "
                "number of steps"
            )

        # Numbers become smaller on the way up, so no moment further up is the present
        # one.
        while (parent := self._parent_number(step)) > present:
            step = parent

        if parent == present and step > present:
            return step

        wanted: int | str = into.number if isinstance(into, Moment) else into
        raise UnknownMomentError(wanted, "is not ahead", _list_moments(self.children()))

    def _find_label_ahead(self, label: str) -> int:
        # The number of the newest moment with *label* that grew from the present one;
        # the number of the present one if no moment did.
        found = present = self._moment.number
        # One pass suffices, because a parent comes before its children.
        ahead = {present}
        for moment in self._log.iterate(present + 1 - self._base):
            if moment.parent in ahead:
                ahead.add(moment.number)
                if moment.label == label:
                    found = moment.number

        return found

    def _find_moment(self, moment: object) -> Moment[S]:
        if isinstance(moment, str):
            return self._find_label(moment)

        number = moment.number if isinstance(moment, Moment) else moment
        if type(number) is not int:
            raise TypeError(
                "expected a Moment, its number or its label, got "
                f"{shorten_repr(moment)}"
            )

        at = number - self._base
        if number < self._first or at >= len(self._log):
            is_forgotten = 0 <= number < self._first
            problem = "is forgotten" if is_forgotten else "is not in this timeline"
            raise UnknownMomentError(number, problem, self._list_newest())

        found = self._log[at]
        # Identity comes first: comparing two states may cost as much as they are large.
        if isinstance(moment, Moment) and found is not moment and found != moment:
            problem = "is of another timeline, or its state was replaced since then"
            raise UnknownMomentError(number, problem, self._list_newest())

        return found

    def _find_label(self, label: str) -> Moment[S]:
        for at in range(len(self._log) - 1, self._first - self._base - 1, -1):
            if self._log[at].label == label:
                return self._log[at]

        raise UnknownMomentError(label, "is not in this timeline", self._list_newest())

    def _list_newest(self) -> tuple[tuple[int, str], ...]:
        return _list_moments(self.moments[-_MAX_LISTED:])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, MovableTimeline):
            return NotImplemented

        return (
            self._moment.number == other._moment.number
            and self._first == other._first
            and self._redo_targets == other._redo_targets
            and self._options.limit == other._options.limit
            and self.moments == other.moments
        )

    def __hash__(self) -> int:
        # Equal timelines are equal in these, and these are hashable; states may not be.
        return hash((self._first, len(self.moments), self._moment))

    def __repr__(self) -> str:
        moments = format_count(len(self.moments), "moment")
        tips = format_count(len(self.tips), "tip")
        label = self._moment.label
        return (
            f"<Timeline: {moments}, {tips}, "
            f"at {repr(label) if label else self._moment.number}>"
        )

    def __str__(self) -> str:
        return draw_outline(self)

    def _repr_html_(self) -> str:
        return draw_fragment(self)


def _list_moments(moments: Iterable[Moment[Any]]) -> tuple[tuple[int, str], ...]:
    return tuple([(each.number, each.label) for each in moments])


def _set_redo_target(
    targets: PMap[int, int], parent: int, child: int
) -> PMap[int, int]:
    # *targets* with *child* as the child of *parent* that was visited last.
    # No entry is needed where `redo` goes by default (`_find_redo`), so a linear
    # history has no map.
    if child == parent + 1:
        return targets.discard(parent) if targets else targets

    return targets.set(parent, child)


def _check_steps(n: object) -> None:
    if type(n) is not int or n < 0:
        error = TypeError if type(n) is not int else ValueError
        problem = f"the number of steps is {shorten_repr(n)}; expected 0 or more"
        raise error(problem)
