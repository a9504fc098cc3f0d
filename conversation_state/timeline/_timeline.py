"""
The verbs of a timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import Log, PMap, check_text, final, pmap
from conversation_state._wording import format_count
from conversation_state.timeline._moments import Moment
from conversation_state.timeline._reader import NO_MOMENT, _TimelineReader

__all__ = ["Timeline"]

S = TypeVar("S")
T = TypeVar("T")

_new = object.__new__

# Forgotten moments stay in the log until they are an eighth of the limit. So
# forgetting costs the same for any limit: eight items copied for each commit.
_FORGOTTEN_SHARE = 8

_NO_TARGETS: PMap[int, int] = pmap()


class _Options(NamedTuple):
    """
    The options of `Timeline.begin`, the same for all timelines that grow from it.
    """

    limit: int | None
    filter: Callable[[Any, Any], object] | None


@final
class Timeline(_TimelineReader[S]):
    """
    An undo tree of states, one of which is the present one.

    A value: every verb returns the next timeline and leaves this one unchanged.
    States may be of any type and are not copied, so use immutable ones.

    Equal by its moments, the present one among them, its *limit*, and where
    `redo` goes, but not by its *filter* or by whether a group is still open.
    Hashable, whatever the states are. Picklable if they are; a *filter* is
    pickled as any function is: by its name in its module, or not at all.

    Costs, up to a million moments: `commit`, `undo` and `redo` about two
    microseconds, and a hundred bytes for each moment besides its state.

    Made by `Timeline.begin`.

    >>> draft = Timeline.begin("Dear").commit("Dear Ann").commit("Dear Anna")
    >>> draft.undo().present
    'Dear Ann'
    >>> other = draft.undo().commit("Dear Anne")
    >>> [moment.state for moment in other.tips]
    ['Dear Anna', 'Dear Anne']
    >>> other.goto(2).present
    'Dear Anna'
    """

    __slots__ = ("__weakref__", "_is_group_open", "_options")

    _options: _Options
    # Whether the next commit of the present moment's group replaces that moment:
    # whether this timeline was made by committing it.
    _is_group_open: bool

    def __init__(self) -> None:
        msg = "make timelines with Timeline.begin(state) or decode(data)"
        raise TypeError(msg)

    @classmethod
    def begin(
        cls,
        state: T,
        label: str = "",
        *,
        limit: int | None = None,
        filter: Callable[[T, T], object] | None = None,  # noqa: A002 - redux-undo's word
    ) -> Timeline[T]:
        """
        A timeline of one moment.

        Args:
            state: Its state.

            label: Its label.

            limit: The most moments that are kept; the oldest are forgotten
                first. None keeps all. Forgotten moments are freed when they
                make up an eighth of the limit.

            filter: Called with the present state and the one to be committed;
                returns whether the difference deserves a step of its own. If
                not, the new state replaces the present one.

        Raises:
            TypeError:
                If *label* is no text, or *filter* is not callable.

            ValueError:
                If *limit* is no integer from 1 on, or *label* can't be written
                as UTF-8.

        Source:
            *limit* and *filter* are redux-undo's.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            msg = f"limit is {limit!r}; expected an integer from 1 on, or None for all"
            raise ValueError(msg)

        moment = Moment(0, state, _check_label(label, "label"))
        options = _Options(limit, _check_filter(filter))
        return _make_timeline(Log((moment,)), 0, 0, moment, _NO_TARGETS, options)

    @classmethod
    def rebuild(
        cls,
        *,
        moments: Iterable[Moment[T]],
        present: int,
        redo: Mapping[int, int],
        limit: int | None = None,
    ) -> Timeline[T]:
        """
        A timeline from all its fields, for decoders. O(n).

        Does not validate them: numbers must have no gaps, and parents come
        before their children.

        Args:
            moments: The moments, oldest first.

            present: The number of the present one.

            redo: By number, where `redo` goes from there, if that is not the
                next number.

            limit: The most moments that are kept.
        """
        log = Log(moments)
        first = log[0].number
        moment, options = log[present - first], _Options(limit, None)
        return _make_timeline(log, first, first, moment, pmap(redo), options)

    @property
    def limit(self) -> int | None:
        """
        The most moments that are kept; None if all are.
        """
        return self._options.limit

    # Verbs

    def commit(
        self, state: S, label: str = "", *, group: str | None = None
    ) -> Timeline[S]:
        """
        This timeline with *state* as the present.

        Committing the present state itself, the same object, without a label
        changes nothing. An equal state is a step, because comparing states may
        cost as much as they are large.

        Args:
            state: The next present state.

            label: The label of the step.

            group: The group of the step. Consecutive commits of one group are
                one step: each replaces the one before, and its label if it has
                one. `goto` ends the group, even to the present moment; so do
                `undo` and `redo`, unless there is nowhere to go.

        Raises:
            TypeError:
                If *label* or *group* is no text.

            ValueError:
                If *group* is empty, or one of them can't be written as UTF-8.

        Source:
            Groups are redux-undo's *groupBy*.
        """
        if label.__class__ is not str or not label.isascii():
            label = _check_label(label, "label")

        if group is not None:
            group = _check_label(group, "group")
            if not group:
                msg = "group is empty; leave it out for a step without a group"
                raise ValueError(msg)

        moment, options = self._moment, self._options
        if state is moment.state and not label:
            return self

        is_group_open = (
            self._is_group_open and group is not None and group == moment.group
        )
        keeps_step = options.filter
        if is_group_open or (
            keeps_step is not None and not keeps_step(moment.state, state)
        ):
            return self._replace_present(state, label, is_group_open)

        log, base, first = self._log, self._base, self._first
        number, targets = base + len(log), self._redo_targets
        if number != moment.number + 1:
            targets = targets.set(moment.number, number)

        made = Moment(number, state, label, group, moment.number)
        log = log.append(made)
        limit = options.limit
        if limit is not None and number - first >= limit:
            if targets:
                targets = targets.discard(first)

            first += 1
            if (first - base) * _FORGOTTEN_SHARE >= limit:
                log, base = Log(list(log.iterate(first - base))), first

        return _make_timeline(log, base, first, made, targets, options, True)  # noqa: FBT003 - hot

    def undo(self) -> Timeline[S]:
        """
        This timeline with the parent of the present moment as the present;
        itself if there is none.

        >>> draft = Timeline.begin("Dear").commit("Dear Ann")
        >>> draft.undo().redo() == draft
        True
        """
        parent = self._get_parent(self._moment)
        return self if parent is None else self._move_to(parent, self._redo_targets)

    def redo(self, into: Moment[S] | str | None = None) -> Timeline[S]:
        """
        This timeline one step further; itself if nothing is ahead.

        Args:
            into: Which way, if several moments were committed on the present
                one: a moment ahead, or its label (the newest with that label).
                Takes one step towards it, however far it is. None goes to the
                child that was visited last.

        Raises:
            UnknownMomentError:
                If *into* is not ahead.

            TypeError:
                If *into* is of another type.
        """
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

    def goto(self, moment: Moment[S] | int) -> Timeline[S]:
        """
        This timeline with any of its moments as the present.

        From there `undo` goes to that moment's parents, and `redo` back to that
        moment. O(steps between the two). For the present moment returns the
        timeline itself, unless a group is open, which ends.

        Args:
            moment: A moment of this timeline, or its number.

        Raises:
            UnknownMomentError:
                If this timeline does not have it, or has forgotten it.

            TypeError:
                If *moment* is neither a moment nor an integer.
        """
        found = self._find_moment(moment)
        if found is self._moment:
            # A moment that was gone to must stay, so its group ends.
            is_open = self._is_group_open and found.group is not None
            return self._move_to(found, self._redo_targets) if is_open else self

        # Above the common ancestor, `redo` leads to it already.
        targets = self._redo_targets
        here, there = self._moment.number, found.number
        while here != there:
            if here > there:
                here = self._parent_number(here)
            else:
                parent = self._parent_number(there)
                if parent != NO_MOMENT:
                    targets = _set_redo_target(targets, parent, there)

                there = parent

        return self._move_to(found, targets)

    def with_filter(
        self,
        filter: Callable[[S, S], object] | None,  # noqa: A002 - redux-undo's word
    ) -> Timeline[S]:
        """
        This timeline with another *filter*, or none; itself if it has that one
        already.

        For decoded timelines: a *filter* is a function, which is not encoded.

        Raises:
            TypeError:
                If *filter* is not callable.
        """
        options = _Options(self._options.limit, _check_filter(filter))
        if options == self._options:
            return self

        log, base, first, moment, targets, _, is_group_open = self._pickled_fields()
        return _make_timeline(log, base, first, moment, targets, options, is_group_open)

    # Implementation

    def _replace_present(
        self,
        state: S,
        label: str,
        is_group_open: bool,  # noqa: FBT001 - hot
    ) -> Timeline[S]:
        """
        This timeline with *state* instead of the present one. O(moments since
        that one).
        """
        old, log = self._moment, self._log
        at = old.number - self._base
        made = Moment(old.number, state, label or old.label, old.group, old.parent)
        after = log.iterate(at + 1) if at + 1 < len(log) else ()
        log = log.take(at).append(made).extend(after)
        fields = (
            log,
            self._base,
            self._first,
            made,
            self._redo_targets,
            self._options,
            is_group_open,
        )
        return _make_timeline(*fields)

    def _move_to(self, moment: Moment[S], targets: PMap[int, int]) -> Timeline[S]:
        first = self._first
        return _make_timeline(
            self._log, self._base, first, moment, targets, self._options
        )

    def _pickled_fields(self) -> tuple[Any, ...]:
        log, base, first = self._log, self._base, self._first
        if base < first:  # forgotten states must not be in the pickle
            log, base = Log(list(log.iterate(first - base))), first

        return (
            log,
            base,
            first,
            self._moment,
            self._redo_targets,
            self._options,
            self._is_group_open,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, Timeline):
            return NotImplemented

        return (
            self._moment.number == other._moment.number
            and self._first == other._first
            and self._redo_targets == other._redo_targets
            and self._options.limit == other._options.limit
            and self.moments == other.moments
        )

    def __hash__(self) -> int:
        # All that equal timelines have in common and that is hashable: states
        # may not be.
        return hash((self._first, len(self.moments), self._moment))

    def __repr__(self) -> str:
        moments = format_count(len(self.moments), "moment")
        tips = format_count(len(self.tips), "tip")
        label = self._moment.label
        return (
            f"<Timeline: {moments}, {tips}, "
            f"at {repr(label) if label else self._moment.number}>"
        )

    def __copy__(self) -> Timeline[S]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_timeline, self._pickled_fields()


def _make_timeline(  # noqa: PLR0917 - hot, and what pickles call
    log: Log[Moment[S]],
    base: int,
    first: int,
    moment: Moment[S],
    targets: PMap[int, int],
    options: _Options,
    is_group_open: bool = False,  # noqa: FBT001, FBT002 - the same
) -> Timeline[S]:
    timeline: Timeline[S] = _new(Timeline)
    timeline._log = log
    timeline._base = base
    timeline._first = first
    timeline._moment = moment
    timeline._redo_targets = targets
    timeline._options = options
    timeline._is_group_open = is_group_open
    return timeline


def _set_redo_target(
    targets: PMap[int, int], parent: int, child: int
) -> PMap[int, int]:
    """
    *targets* with *child* as the child of *parent* that was visited last.
    """
    if child == parent + 1:
        return targets.discard(parent) if targets else targets

    return targets.set(parent, child)


def _check_label(value: object, name: str) -> str:
    if not isinstance(value, str):
        msg = f"{name} is {value!r:.80}; expected a str"
        raise TypeError(msg)

    return check_text(value, name)


def _check_filter(function: Any) -> Callable[[Any, Any], object] | None:
    if function is None or callable(function):
        return function  # type: ignore[no-any-return]

    msg = f"filter is {function!r:.80}; expected a function of two states, or None"
    raise TypeError(msg)
