"""A timeline, and its verbs that commit states or change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from conversation_state._persistent import Log, check_text, final
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import shorten_repr
from conversation_state.pickling import Maker
from conversation_state.timeline._moments import Moment
from conversation_state.timeline._moves import NO_MOMENT, MovableTimeline, Options

S = TypeVar("S")
T = TypeVar("T")

_new = object.__new__

# Forgotten moments stay in the log until they are an eighth of the limit. So
# forgetting costs the same for any limit: eight items copied for each commit.
_FORGOTTEN_SHARE = 8

_NO_TARGETS: PMap[int, int] = pmap()


@final
class Timeline(MovableTimeline[S]):
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

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        raise TypeError("make timelines with Timeline.begin(state) or decode(data)")

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
                If *label* is not text, or *filter* is not callable.

            ValueError:
                If *limit* is not an integer from 1 on, or *label* can't be written
                as UTF-8.

        Source:
            *limit* and *filter* are redux-undo's.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(
                f"limit is {shorten_repr(limit)}; expected an integer from 1 on, or "
                "None for all"
            )

        moment = Moment(0, state, _check_label(label, "label"))
        options = Options(limit, _check_filter(filter))
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
        moment, options = log[present - first], Options(limit, None)
        return _make_timeline(log, first, first, moment, pmap(redo), options)

    # Verbs

    def commit(
        self,
        state: S,
        label: str = "",
        *,
        group: str | None = None,
        on: Moment[S] | int | str | None = None,
        stay: bool = False,
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
                one. `close_group` ends the group, and so does `goto`, even to the
                present moment; so do `undo` and `redo`, unless there is nowhere
                to go.

            on: The moment that *state* grew from, if that is not the present one:
                a moment, its number or its label, as for `goto`.

            stay: Whether the present stays where it is: for an answer that
                arrives while the user looks at something else. The new moment is
                ``moments[-1]``; the present one is never forgotten for it, so
                a *limit* may be exceeded until the next commit that does not
                stay.

        Raises:
            TypeError:
                If *label* or *group* is not text, or *on* no moment.

            UnknownMomentError:
                If this timeline does not have *on*, or has forgotten it.

            ValueError:
                If *group* is empty, or one of them can't be written as UTF-8.

        Source:
            Groups are redux-undo's *groupBy*.
        """
        # An ASCII text has no surrogates; a call of the check would take twice as long.
        if label.__class__ is not str or not label.isascii():
            label = _check_label(label, "label")

        if group is not None:
            group = _check_label(group, "group")
            if not group:
                raise ValueError(
                    "group is empty; leave it out for a step without a group"
                )

        if on is not None or stay:
            return self._commit_elsewhere(state, label, group, on, stay=stay)

        moment, options = self._moment, self._options
        if state is moment.state and not label:
            return self

        # The open group may be that of a moment that is not present: of an answer that
        # was committed with *stay*.
        is_group_open = (
            group is not None and group == moment.group and self._open == moment.number
        )
        keeps_step = options.filter
        if is_group_open or (
            keeps_step is not None and not keeps_step(moment.state, state)
        ):
            opened = self._open if is_group_open else NO_MOMENT
            return self._replace_moment(moment, state, label or moment.label, opened)

        log, base, first = self._log, self._base, self._first
        number, targets = base + len(log), self._redo_targets
        # This is `_set_redo_target` of a child that is new, so nothing is discarded.
        if number != moment.number + 1:
            targets = targets.set(moment.number, number)

        made = Moment(number, state, label, group, moment.number)
        log = log.append(made)
        limit = options.limit
        if limit is not None and number - first >= limit:
            log, base, first, targets = _forget_moments(
                log, base, first, targets, number - limit + 1, limit
            )

        opened = NO_MOMENT if group is None else number
        return _make_timeline(log, base, first, made, targets, options, opened)

    def amend(
        self, moment: Moment[S] | int | str, state: S, label: str | None = None
    ) -> Timeline[S]:
        """
        This timeline with *state* in the place of the state of *moment*, which
        keeps its number, its parent and what was committed on it.

        For a state that arrives in pieces: commit the first piece, keep the number of
        its moment, and amend it with each further piece, wherever the present is by
        then. O(moments since that one). With the same state and label it is the
        timeline itself.

        Args:
            moment: A moment of this timeline, its number or its label. A number
                stays valid while states are replaced.

            state: Its new state.

            label: Its new label; None keeps the one it has.

        Raises:
            UnknownMomentError, TypeError:
                As `goto` does; and if *label* is not text.

        >>> draft = Timeline.begin("Dear").commit("Dear A", stay=True)
        >>> draft.amend(1, "Dear Ann").redo().present
        'Dear Ann'
        """
        found = self._find_moment(moment)
        label = found.label if label is None else _check_label(label, "label")
        return self._replace_moment(found, state, label, self._open)

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
        options = Options(self._options.limit, _check_filter(filter))
        if options == self._options:
            return self

        log, base, first, moment, targets, _, opened = self._pickled_fields()
        return _make_timeline(log, base, first, moment, targets, options, opened)

    # Implementation

    def _commit_elsewhere(
        self,
        state: S,
        label: str,
        group: str | None,
        on: Moment[S] | int | str | None,
        *,
        stay: bool,
    ) -> Timeline[S]:
        # This timeline with *state* committed on any moment; with *stay*, the present
        # one stays where it is.
        parent = self._moment if on is None else self._find_moment(on)
        opened = self._open
        if group is not None and opened >= self._first:
            last = self._log[opened - self._base]
            if last.group == group and last.parent == parent.number:
                replaced = self.amend(opened, state, label or None)
                if stay or opened == self._moment.number:
                    return replaced

                there = replaced.goto(opened)
                there._open = opened  # `goto` has just made it, and closed the group
                return there

        if not stay:
            # Going to the present moment would end its group.
            there = self if parent is self._moment else self.goto(parent)
            return there.commit(state, label, group=group)

        if state is parent.state and not label:
            return self

        keeps_step = self._options.filter
        if keeps_step is not None and not keeps_step(parent.state, state):
            return self._replace_moment(parent, state, label or parent.label, NO_MOMENT)

        log, base, first = self._log, self._base, self._first
        number, targets = base + len(log), self._redo_targets
        # The target of `redo` stays, because the new moment was not visited.
        if number != parent.number + 1 and self._find_redo(parent.number) is None:
            targets = targets.set(parent.number, number)

        log = log.append(Moment(number, state, label, group, parent.number))
        limit, present = self._options.limit, self._moment
        if limit is not None:
            kept = min(number - limit + 1, present.number)
            if kept > first:
                log, base, first, targets = _forget_moments(
                    log, base, first, targets, kept, limit
                )

        opened = NO_MOMENT if group is None else number
        return _make_timeline(log, base, first, present, targets, self._options, opened)

    def _replace_moment(
        self, old: Moment[S], state: S, label: str, opened: int
    ) -> Timeline[S]:
        if state is old.state and label == old.label and opened == self._open:
            return self

        # O(moments since that one).
        log = self._log
        at = old.number - self._base
        made = Moment(old.number, state, label, old.group, old.parent)
        after = log.iterate(at + 1) if at + 1 < len(log) else ()
        log = log.take(at).append(made).extend(after)
        present = made if old.number == self._moment.number else self._moment
        targets, options = self._redo_targets, self._options
        return _make_timeline(
            log, self._base, self._first, present, targets, options, opened
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
            self._open,
        )

    def __copy__(self) -> Timeline[S]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _TIMELINE, self._pickled_fields()


def _make_timeline(  # noqa: PLR0917 - hot, and what pickles call
    log: Log[Moment[S]],
    base: int,
    first: int,
    moment: Moment[S],
    targets: PMap[int, int],
    options: Options,
    opened: int = NO_MOMENT,
) -> Timeline[S]:
    timeline: Timeline[S] = _new(Timeline)
    timeline._log = log
    timeline._base = base
    timeline._first = first
    timeline._moment = moment
    timeline._redo_targets = targets
    timeline._options = options
    timeline._open = opened
    return timeline


_TIMELINE = Maker("timeline.Timeline", _make_timeline)


def _forget_moments(  # noqa: PLR0917 - the fields of a timeline
    log: Log[Moment[S]],
    base: int,
    first: int,
    targets: PMap[int, int],
    kept: int,
    limit: int,
) -> tuple[Log[Moment[S]], int, int, PMap[int, int]]:
    if targets:
        # No other entry leads to a forgotten moment: a child has the larger number.
        for number in range(first, kept):
            targets = targets.discard(number)

    if (kept - base) * _FORGOTTEN_SHARE >= limit:
        return Log(list(log.iterate(kept - base))), kept, kept, targets

    return log, base, kept, targets


def _check_label(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shorten_repr(value)}; expected a str")

    return check_text(value, name)


def _check_filter(function: Any) -> Callable[[Any, Any], object] | None:
    if function is None or callable(function):
        return function  # type: ignore[no-any-return]

    raise TypeError(
        f"filter is {shorten_repr(function)}; expected a function of two states, or "
        "None"
    )
