"""
Timelines: an undo tree of states, itself a value.

A `Timeline` has every state that was committed to it, one of which is the
present one. Going back loses nothing: a commit after an undo starts a branch
next to the moments that were undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Never, SupportsIndex, TypeVar, overload

import attrs

from conversation_state._drawing import draw_fragment, draw_outline
from conversation_state._persistent import (
    EMPTY_MAP,
    Log,
    View,
    check_text,
    final,
    freeze_map,
)
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import (
    add_missing_names,
    check_function,
    format_count,
    refuse_assignments,
    shorten_repr,
)
from conversation_state.aggregator import Aggregator
from conversation_state.errors import UnknownMomentError
from conversation_state.pickling import Maker

__all__ = ["Moment", "Moments", "Timeline"]

S = TypeVar("S")
T = TypeVar("T")

_new = object.__new__

# Stands for the number of a missing moment; less than any number.
_NO_MOMENT = -1

# The moment whose group is open, and when it was committed to.
_CLOSED: tuple[int, float | None] = (_NO_MOMENT, None)

# The most moments that an error lists.
_MAX_LISTED = 5

# Forgotten moments stay in the log until they are an eighth of the limit. So
# forgetting costs the same for any limit: eight items copied for each commit.
_FORGOTTEN_SHARE = 8

_NO_TARGETS: PMap[int, int] = pmap()


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
        note: What a program keeps with the step: the place of the cursor, a draft.
            JSON values, frozen deeply.
    """

    number: int
    state: S = attrs.field(hash=False)
    label: str = ""
    group: str | None = None
    parent: int | None = None
    note: Mapping[str, Any] = EMPTY_MAP


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
    ours = a.number, a.label, a.group, a.parent, a.note
    if ours != (b.number, b.label, b.group, b.parent, b.note):
        return False

    if isinstance(a.state, Aggregator) and isinstance(b.state, Aggregator):
        return a.state._equals_beyond(b.state, known)

    return a.state is b.state or bool(a.state == b.state)


@final
class _Step(NamedTuple, Generic[S]):
    # What `Timeline.commit` is asked to commit.
    state: S
    label: str
    group: str | None
    within_s: float | None
    at: float | None
    note: Mapping[str, Any] | None


@final
class Options(NamedTuple):
    """The options of `Timeline.begin`, the same for all timelines that grow from it."""

    limit: int | None
    filter: Callable[[Any, Any], object] | None


@final
class Timeline(Generic[S]):
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

    __slots__ = (
        "__weakref__",
        "_base",
        "_first",
        "_log",
        "_moment",
        "_newest_children",
        "_open",
        "_open_at",
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
    # the same place, replaces it. _NO_MOMENT if no group is open.
    _open: int
    # When the open group was committed to, by the caller's clock; None if it gave none.
    _open_at: float | None
    # By number, the newest child of a moment, if it is not the next number; only where
    # there is a limit, which spares the siblings of what is kept.
    _newest_children: PMap[int, int]

    def __init__(self, *_: Never, **__: Never) -> None:
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
                first. Siblings of these stay, with what came after them: up to as
                many moments again, so that an alternative that is shown beside
                another is there as long as that is. None keeps all. Forgotten
                moments are freed when they make up an eighth of the limit.
            filter: Called with the present state and the one to be committed;
                returns whether the difference deserves a step of its own. If
                not, the new state replaces the present one.

        Raises:
            TypeError: If *label* is not text, or *filter* is not callable.
            ValueError: If *limit* is not an integer from 1 on, or *label* can't be
                written as UTF-8.

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
        timeline = _make_timeline(log, first, first, moment, pmap(redo), options)
        if limit is not None:
            timeline._newest_children = pmap(
                {
                    each.parent: each.number
                    for each in log
                    if each.parent is not None and each.number != each.parent + 1
                }
            )

        return timeline

    # What there is

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
            UnknownMomentError, TypeError: As `goto` does.
        """
        number = (self._moment if of is None else self._find_moment(of)).number
        since = self._log.iterate(number + 1 - self._base)
        return tuple([each for each in since if each.parent == number])

    def first_change(self, other: Timeline[Any]) -> int:
        """
        The number of the first moment that is not the very same here and in *other*,
        an earlier or later value of this timeline; one more than the newest if none
        is. Cost: O(log n) while both share their past, O(n) after moments were
        forgotten.

        Raises:
            TypeError: If *other* is something else.
        """
        if not isinstance(other, Timeline):
            raise TypeError(f"first_change takes a Timeline, got {shorten_repr(other)}")

        number = max(self._first, other._first)
        if self._base == other._base:
            # In whole blocks, so a few moments are asked one by one.
            number = max(number, self._base + self._log.shared_prefix(other._log))

        ours, theirs = (
            each._log.iterate(number - each._base) for each in (self, other)
        )
        for a, b in zip(ours, theirs, strict=False):
            if a is not b:
                break

            number += 1

        return number

    # Committing

    def commit(
        self,
        state: S,
        label: str = "",
        *,
        group: str | None = None,
        within_s: float | None = None,
        at: float | None = None,
        note: Mapping[str, Any] | None = None,
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
            within_s: Take commits together that follow each other within so many
                seconds, as an editor does with typing: this one replaces the one
                before if that is no longer ago, and has the same *group*, or also
                none.
            at: When it is committed, in seconds of a clock of the caller's that
                does not go back, ``time.monotonic()`` say. No clock is read here.
            note: What to keep with the step, as JSON values: the place of the cursor,
                a draft. Without one, a commit that replaces another keeps its note.
            on: The moment that *state* grew from, if that is not the present one:
                a moment, its number or its label, as for `goto`.
            stay: Whether the present stays where it is: for an answer that
                arrives while the user looks at something else. The new moment is
                ``moments[-1]``; the present one is never forgotten for it, so
                a *limit* may be exceeded until the next commit that does not
                stay.

        Raises:
            TypeError: If *label* or *group* is not text, *on* no moment, or *within_s*
                or *at* no number.
            UnknownMomentError: If this timeline does not have *on*, or has forgotten
                it.
            ValueError: If *group* is empty, one of them can't be written as UTF-8,
                *note* has something else than JSON values, or *within_s* is given and
                *at* is not.

        Source:
            Groups are redux-undo's *groupBy*, and those by time ProseMirror's
            *newGroupDelay*.

        >>> draft = Timeline.begin("").commit("D", within_s=0.5, at=7.0)
        >>> draft = draft.commit("De", within_s=0.5, at=7.2)
        >>> draft = draft.commit("Dear", within_s=0.5, at=9.0)
        >>> [moment.state for moment in draft.moments]
        ['', 'De', 'Dear']
        """
        # An ASCII text has no surrogates; a call of the check would take twice as long.
        if label.__class__ is not str or not label.isascii():
            label = _check_label(label, "label")

        has_group = group is not None or within_s is not None
        if has_group or at is not None:
            group = _check_group(group, within_s, at)

        if note is not None:
            note = freeze_map(note, "note")

        if on is not None or stay:
            step = _Step(state, label, group, within_s, at, note)
            parent = self._moment if on is None else self._find_moment(on)
            return self._commit_elsewhere(step, parent, stay=stay)

        moment = self._moment
        if state is moment.state and not label and note is None:
            return self

        # The open group may be that of a moment that is not present: of an answer that
        # was committed with *stay*.
        is_group_open = (
            has_group
            and self._open == moment.number
            and self._takes_into_group(moment, group, within_s, at)
        )
        keeps_step = self._options.filter
        if is_group_open or (
            keeps_step is not None and not keeps_step(moment.state, state)
        ):
            changed = _replace_fields(moment, state, label, note)
            if is_group_open:
                return self._replace_moment(changed, self._open, at)

            return self._replace_moment(changed, _NO_MOMENT, None)

        number, targets = self._base + len(self._log), self._redo_targets
        # This is `_set_redo_target` of a child that is new, so nothing is discarded.
        if number != moment.number + 1:
            targets = targets.set(moment.number, number)

        kept = EMPTY_MAP if note is None else note
        made = Moment(number, state, label, group, moment.number, kept)
        opened, at = (number, at) if has_group else _CLOSED
        if self._options.limit is not None:
            return self._append_moment(made, made, targets, (opened, at))

        # `_append_moment` inlined, which saves a tenth of the time of each step.
        log, base, first = self._log.append(made), self._base, self._first
        return _make_timeline(
            log, base, first, made, targets, self._options, opened, at
        )

    def amend(
        self,
        moment: Moment[S] | int | str,
        state: S,
        label: str | None = None,
        *,
        note: Mapping[str, Any] | None = None,
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
            note: Its new note; None keeps the one it has.

        Raises:
            UnknownMomentError, TypeError: As `goto` does; and if *label* is not text.
            ValueError: If *note* has something else than JSON values.

        >>> draft = Timeline.begin("Dear").commit("Dear A", stay=True)
        >>> draft.amend(1, "Dear Ann").redo().present
        'Dear Ann'
        """
        found = self._find_moment(moment)
        label = found.label if label is None else _check_label(label, "label")
        note = found.note if note is None else freeze_map(note, "note")
        changed = Moment(found.number, state, label, found.group, found.parent, note)
        return self._replace_moment(changed, self._open, self._open_at)

    def with_filter(
        self,
        filter: Callable[[S, S], object] | None,  # noqa: A002 - redux-undo's word
    ) -> Timeline[S]:
        """
        This timeline with another *filter*, or none; itself if it has that one
        already.

        For decoded timelines: a *filter* is a function, which is not encoded.

        Raises:
            TypeError: If *filter* is not callable.
        """
        options = Options(self._options.limit, _check_filter(filter))
        if options == self._options:
            return self

        log, base, first, moment, targets, _, *rest = self._pickled_fields()
        return _make_timeline(log, base, first, moment, targets, options, *rest)

    def close_group(self) -> Timeline[S]:
        """
        This timeline without an open group: the next commit is a step of its own,
        whatever its group. The timeline itself if no group is open.
        """
        if self._open == _NO_MOMENT:
            return self

        return self._move_to(self._moment, self._redo_targets)

    # Moving

    def undo(self, n: int = 1) -> Timeline[S]:
        """
        This timeline *n* steps back: with the parent of the present moment as the
        present, or that one's parent. Stops at the oldest moment that is kept;
        itself if it is there already.

        Raises:
            ValueError: If *n* is negative.
            TypeError: If *n* is not an integer.

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

    def redo(self, into: Moment[S] | str | int | None = None) -> Timeline[S]:
        """
        This timeline one step further; itself if nothing is ahead.

        Args:
            into: How many steps, each to the child that was visited last, as far
                as there are any; None is one. Or which way, if several moments
                were committed on the present one: a moment ahead, or its label
                (the newest with that label). That takes one step towards it,
                however far it is.

        Raises:
            UnknownMomentError: If *into* is not ahead.
            ValueError: If *into* is a negative number.
            TypeError: If *into* is of another type.
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

    def goto(self, moment: Moment[S] | int | str) -> Timeline[S]:
        """
        This timeline with any of its moments as the present.

        From there `undo` goes to that moment's parents, and `redo` back to that
        moment. O(steps between the two). For the present moment returns the
        timeline itself, unless a group is open, which ends.

        Args:
            moment: A moment of this timeline, its number, or its label (the
                newest with that label).

        Raises:
            UnknownMomentError: If this timeline does not have it, or has forgotten it.
            TypeError: If *moment* is neither a moment nor an integer nor a text.
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
                if parent != _NO_MOMENT:
                    targets = _set_redo_target(targets, parent, there)

                there = parent

        return self._move_to(found, targets)

    # Implementation

    def _move_to(self, moment: Moment[S], targets: PMap[int, int]) -> Timeline[S]:
        timeline: Timeline[S] = _new(Timeline)
        timeline._log = self._log
        timeline._base = self._base
        timeline._first = self._first
        timeline._moment = moment
        timeline._redo_targets = targets
        timeline._options = self._options
        timeline._open, timeline._open_at = _CLOSED
        timeline._newest_children = self._newest_children
        return timeline

    def _get_parent(self, moment: Moment[S]) -> Moment[S] | None:
        parent = moment.parent
        if parent is None or parent < self._first:
            return None

        return self._log[parent - self._base]

    def _parent_number(self, number: int) -> int:
        parent = self._log[number - self._base].parent
        return _NO_MOMENT if parent is None or parent < self._first else parent

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

    def _takes_into_group(
        self,
        moment: Moment[S],
        group: str | None,
        within_s: float | None,
        at: float | None,
    ) -> bool:
        # Whether a commit belongs to the group of *moment*, which is the open one.
        before = self._open_at
        is_near = within_s is None or (
            before is not None and at is not None and at - before <= within_s
        )
        return is_near and group == moment.group

    def _commit_elsewhere(
        self, step: _Step[S], parent: Moment[S], *, stay: bool
    ) -> Timeline[S]:
        # This timeline with a step on any moment; with *stay*, the present one stays
        # where it is.
        state, label, group, within_s, at, note = step
        has_group = group is not None or within_s is not None
        last = self._find_open(parent) if has_group else None
        if last is not None and self._takes_into_group(last, group, within_s, at):
            changed = _replace_fields(last, state, label, note)
            replaced = self._replace_moment(changed, last.number, at)
            if stay or last.number == self._moment.number:
                return replaced

            there = replaced.goto(last.number)
            # `goto` has just made it, and closed the group.
            there._open, there._open_at = last.number, at
            return there

        if not stay:
            # Going to the present moment would end its group.
            there = self if parent is self._moment else self.goto(parent)
            return there.commit(
                state, label, group=group, within_s=within_s, at=at, note=note
            )

        if state is parent.state and not label and note is None:
            return self

        keeps_step = self._options.filter
        if keeps_step is not None and not keeps_step(parent.state, state):
            changed = _replace_fields(parent, state, label, note)
            return self._replace_moment(changed, _NO_MOMENT, None)

        number, targets = self._base + len(self._log), self._redo_targets
        # The target of `redo` stays, because the new moment was not visited.
        if number != parent.number + 1 and self._find_redo(parent.number) is None:
            targets = targets.set(parent.number, number)

        made = Moment(number, state, label, group, parent.number, note or EMPTY_MAP)
        opened = (number, at) if has_group else _CLOSED
        return self._append_moment(made, self._moment, targets, opened)

    def _find_open(self, parent: Moment[S]) -> Moment[S] | None:
        # The moment whose group is open, if it was committed on *parent*.
        if self._open < self._first:
            return None

        last = self._log[self._open - self._base]
        return last if last.parent == parent.number else None

    def _append_moment(
        self,
        made: Moment[S],
        present: Moment[S],
        targets: PMap[int, int],
        opened: tuple[int, float | None],
    ) -> Timeline[S]:
        options, newest = self._options, self._newest_children
        log, base, first = self._log.append(made), self._base, self._first
        number, parent, limit = made.number, made.parent, options.limit
        if limit is not None:
            if parent is not None and number != parent + 1:
                newest = newest.set(parent, number)

            # The present one is kept.
            kept = min(number - limit + 1, present.number)
            log, base, first, targets, newest = _forget_moments(
                log, base, first, targets, newest, kept, limit
            )

        return _make_timeline(
            log, base, first, present, targets, options, *opened, newest
        )

    def _replace_moment(
        self, made: Moment[S], opened: int, at: float | None
    ) -> Timeline[S]:
        log, base = self._log, self._base
        place = made.number - base
        old = log[place]
        is_same = made.state is old.state and made.label == old.label
        if (
            is_same
            and made.note == old.note
            and (opened, at) == (self._open, self._open_at)
        ):
            return self

        # O(moments since that one).
        after = log.iterate(place + 1) if place + 1 < len(log) else ()
        log = log.take(place).append(made).extend(after)
        present = made if made.number == self._moment.number else self._moment
        targets, newest = self._redo_targets, self._newest_children
        return _make_timeline(
            log, base, self._first, present, targets, self._options, opened, at, newest
        )

    # A timeline as a value

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
            self._open_at,
            self._newest_children,
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
    opened: int = _NO_MOMENT,
    opened_at: float | None = None,
    newest_children: PMap[int, int] = _NO_TARGETS,
) -> Timeline[S]:
    timeline: Timeline[S] = _new(Timeline)
    timeline._log = log
    timeline._base = base
    timeline._first = first
    timeline._moment = moment
    timeline._redo_targets = targets
    timeline._options = options
    timeline._open = opened
    timeline._open_at = opened_at
    timeline._newest_children = newest_children
    return timeline


_TIMELINE = Maker("timeline.Timeline", _make_timeline)
refuse_assignments(
    Timeline,
    "a timeline never changes; timeline = timeline.commit(state) is the next one",
)


def _forget_moments(  # noqa: PLR0917 - the fields of a timeline
    log: Log[Moment[S]],
    base: int,
    first: int,
    targets: PMap[int, int],
    newest: PMap[int, int],
    kept: int,
    limit: int,
) -> tuple[Log[Moment[S]], int, int, PMap[int, int], PMap[int, int]]:
    # Forget what is before *kept*, up to a sibling of what is not; no more than *limit*
    # moments are spared.
    while first < kept:
        parent = log[first - base].parent
        if parent is not None:
            sibling = newest.get(parent, _NO_MOMENT)
            if sibling >= kept and first > kept - limit:
                break

            if sibling == first:
                newest = newest.discard(parent)

        if targets:
            # No other entry leads to a forgotten moment: a child has the larger number.
            targets = targets.discard(first)

        first += 1

    if (first - base) * _FORGOTTEN_SHARE >= limit:
        return Log(list(log.iterate(first - base))), first, first, targets, newest

    return log, base, first, targets, newest


def _check_group(group: object, within_s: object, at: object) -> str | None:
    checked = None if group is None else _check_label(group, "group")
    if checked == "":
        raise ValueError("group is empty; leave it out for a step without a group")

    for name, value in (("within_s", within_s), ("at", at)):
        if value is not None and type(value) not in {int, float}:
            raise TypeError(
                f"{name} is {shorten_repr(value)}; expected a number of seconds"
            )

    if within_s is not None and (at is None or not within_s >= 0):  # type: ignore[operator]  # a number
        raise ValueError(
            f"within_s is {shorten_repr(within_s)} and at is {shorten_repr(at)}; "
            "expected seconds from 0 on, and when the step is committed"
        )

    return checked


def _replace_fields(
    old: Moment[S], state: S, label: str, note: Mapping[str, Any] | None
) -> Moment[S]:
    # What a further commit of one step makes of it.
    note = old.note if note is None else note
    return Moment(old.number, state, label or old.label, old.group, old.parent, note)


def _check_label(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shorten_repr(value)}; expected a str")

    return check_text(value, name)


def _check_filter(function: Any) -> Callable[[Any, Any], object] | None:
    if function is not None:
        check_function("filter", function)

    return function  # type: ignore[no-any-return]


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


add_missing_names(
    Timeline,
    "a Timeline has",
    {
        **dict.fromkeys(("current", "head", "state", "value"), "present"),
        **dict.fromkeys(("history", "states"), "moments"),
    },
)
