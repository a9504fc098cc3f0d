"""
The moments of a timeline, and how they are found: everything but its verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from conversation_state._lazy import draw_fragment, draw_outline
from conversation_state._persistent import Log, final
from conversation_state._persistent.maps import PMap
from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors import UnknownMomentError
from conversation_state.timeline._moments import Moment, Moments

__all__ = ["NO_MOMENT", "Options", "_TimelineReader"]

S = TypeVar("S")

# Stands for the number of a missing moment; less than any number.
NO_MOMENT = -1

# The most moments that an error lists.
_MAX_LISTED = 5


@final
class Options(NamedTuple):
    """
    The options of `Timeline.begin`, the same for all timelines that grow from it.
    """

    limit: int | None
    filter: Callable[[Any, Any], object] | None


class _TimelineReader(Generic[S]):
    """
    The moments of a timeline, and which of them is present.

    The read-only half of a `Timeline`.
    """

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
        All moments that are kept, in the order of their commits. O(1).
        """
        return Moments(self._log, self._first - self._base)

    @property
    def limit(self) -> int | None:
        """
        The most moments that are kept; None if all are.
        """
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
        """
        Whether there is a moment to go back to.
        """
        return self._get_parent(self._moment) is not None

    @property
    def can_redo(self) -> bool:
        """
        Whether a moment was committed on the present one.
        """
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

    def _get_parent(self, moment: Moment[S]) -> Moment[S] | None:
        parent = moment.parent
        if parent is None or parent < self._first:
            return None

        return self._log[parent - self._base]

    def _parent_number(self, number: int) -> int:
        parent = self._log[number - self._base].parent
        return NO_MOMENT if parent is None or parent < self._first else parent

    def _find_redo(self, number: int) -> int | None:
        """
        The number that `redo` goes to from *number*, or None.
        """
        target = self._redo_targets.get(number) if self._redo_targets else None
        if target is None:
            at = number + 1 - self._base
            if at < len(self._log) and self._log[at].parent == number:
                target = number + 1

        return target

    def _find_step_towards(self, into: Moment[S] | str) -> int:
        """
        The first step from the present moment towards *into*.
        """
        present = self._moment.number
        if isinstance(into, Moment):
            step = self._find_moment(into).number
        elif isinstance(into, str):
            step = self._find_label_ahead(into)
        else:
            msg = (
                f"into is {shorten_repr(into)}; expected a Moment, a label or a "
                "number of steps"
            )
            raise TypeError(msg)

        # Numbers become smaller on the way up, so no moment further up is the present
        # one.
        while (parent := self._parent_number(step)) > present:
            step = parent

        if parent == present and step > present:
            return step

        wanted: int | str = into.number if isinstance(into, Moment) else into
        raise UnknownMomentError(wanted, "is not ahead", _list_moments(self.children()))

    def _find_label_ahead(self, label: str) -> int:
        """
        The number of the newest moment with *label* that grew from the present
        one; the number of the present one if no moment did.
        """
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
        """
        *moment*, which may be given by its number or its label, as this timeline
        has it.
        """
        if isinstance(moment, str):
            return self._find_label(moment)

        number = moment.number if isinstance(moment, Moment) else moment
        if type(number) is not int:
            msg = (
                "expected a Moment, its number or its label, got "
                f"{shorten_repr(moment)}"
            )
            raise TypeError(msg)

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

        if not isinstance(other, _TimelineReader):
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
