"""
The verbs of a timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import Log, PMap, check_text, pmap
from conversation_state.timeline._kept import NONE, Kept
from conversation_state.timeline._moments import Moment

__all__ = ["Timeline"]

S = TypeVar("S")
T = TypeVar("T")

_new = object.__new__

# Forgotten moments wait in the log until they are an eighth of the limit, so
# that forgetting costs the same for any limit: eight items copied per commit.
_SHARE = 8

_NOT_CHOSEN: PMap[int, int] = pmap()


class _Rules(NamedTuple):
    """
    How a timeline was begun; the same for all it grows into.
    """

    limit: int | None
    # The filter: whether a state is worth a step after another.
    worth: Callable[[Any, Any], object] | None


class Timeline(Kept[S]):
    """
    An undo tree of states: what was committed, and which of it is present.

    A value: every verb gives the next timeline and leaves this one as it was.
    States are kept, not copied, and may be anything; only those that never
    change are safe from a change.

    Equal by its moments, the present one among them, its *limit*, and where
    `redo` goes; a *filter*, and whether a group is still open, are no part of
    that. Hashable, whatever the states are. Picklable, if they are; a *filter*
    is pickled as any function is: by its name in its module, or not at all.

    Costs, up to a million moments: `commit`, `undo` and `redo` about two
    microseconds, and a hundred bytes for each moment besides its state.

    Made by `Timeline.begin`.

    >>> draft = Timeline.begin("Dear").commit("Dear Ann").commit("Dear Anna")
    >>> draft.undo().present
    'Dear Ann'
    >>> other = draft.undo().commit("Dear Anne")
    >>> [moment.state for moment in other.branches]
    ['Dear Anna', 'Dear Anne']
    >>> other.goto(2).present
    'Dear Anna'
    """

    __slots__ = ("__weakref__", "_grows", "_rules")

    _rules: _Rules
    # Whether the present moment's group may still grow: whether committing it
    # was the last that happened.
    _grows: bool

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

            label: What it is called.

            limit: The most moments that are kept; the oldest are forgotten
                first. None keeps all. What is forgotten is freed when it makes
                up an eighth of the limit.

            filter: Asked with the present state and the one to be committed,
                whether the difference is worth a step of its own. If not, the
                new state takes the place of the present one.

        Raises:
            TypeError:
                If *label* is no text, or *filter* can't be called.

            ValueError:
                If *limit* is no integer from 1 on, or *label* can't be written
                as UTF-8.

        Source:
            *limit* and *filter* are redux-undo's.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            msg = f"limit is {limit!r}; expected an integer from 1 on, or None for all"
            raise ValueError(msg)

        moment = Moment(0, state, _text(label, "label"))
        rules = _Rules(limit, _callable(filter))
        return _timeline(Log((moment,)), 0, 0, moment, _NOT_CHOSEN, rules)

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
        A timeline from all that makes it one; what decoding ends in. O(n).

        Trusts what it is given: numbers without gaps, parents before their
        children.

        Args:
            moments: What is kept, oldest first.

            present: The number of the present one.

            redo: Where `redo` goes from which, where that is not the moment
                right after it.

            limit: The most moments that are kept.
        """
        log = Log(moments)
        first = log[0].number
        moment, rules = log[present - first], _Rules(limit, None)
        return _timeline(log, first, first, moment, pmap(redo), rules)

    @property
    def limit(self) -> int | None:
        """
        The most moments that are kept; None if all are.
        """
        return self._rules.limit

    # Verbs

    def commit(
        self, state: S, label: str = "", *, group: str | None = None
    ) -> Timeline[S]:
        """
        This timeline with *state* as the present.

        Committing the very object that is present, without a label, changes
        nothing. An equal one is a step: comparing states may cost what they
        are large.

        Args:
            state: What is present from now on.

            label: What the step is called.

            group: What the step belongs to. Commits of one group that follow
                each other, with nothing else in between, are one step: each
                takes the place of the one before, and its label, if it has
                one. An undo, redo or goto ends the group.

        Raises:
            TypeError:
                If *label* or *group* is no text.

            ValueError:
                If *group* is empty, or one of them can't be written as UTF-8.

        Source:
            Groups are redux-undo's *groupBy*.
        """
        if label.__class__ is not str or not label.isascii():
            label = _text(label, "label")

        if group is not None and not _text(group, "group"):
            msg = "group is empty; leave it out if this step belongs to none"
            raise ValueError(msg)

        moment, rules = self._moment, self._rules
        if state is moment.state and not label:
            return self

        grows = self._grows and group is not None and group == moment.group
        worth = rules.worth
        if grows or (worth is not None and not worth(moment.state, state)):
            return self._replaced(state, label, grows)

        log, base, first = self._log, self._base, self._first
        number, chosen = base + len(log), self._chosen
        if number != moment.number + 1:
            chosen = chosen.set(moment.number, number)

        made = Moment(number, state, label, group, moment.number)
        log = log.append(made)
        limit = rules.limit
        if limit is not None and number - first >= limit:
            if chosen:
                chosen = chosen.discard(first)

            first += 1
            if (first - base) * _SHARE >= limit:
                log, base = Log(list(log.iterate(first - base))), first

        return _timeline(log, base, first, made, chosen, rules, True)  # noqa: FBT003 - hot

    def undo(self) -> Timeline[S]:
        """
        This timeline with the moment before as the present; itself if there is
        none.

        >>> draft = Timeline.begin("Dear").commit("Dear Ann")
        >>> draft.undo().redo() == draft
        True
        """
        parent = self._parent(self._moment)
        return self if parent is None else self._at(parent, self._chosen)

    def redo(self, into: Moment[S] | str | None = None) -> Timeline[S]:
        """
        This timeline one step further; itself if nothing is ahead.

        Args:
            into: Where to, if several moments were committed on the present
                one: a moment ahead, or the label of one, of which the newest
                is meant. It is one step towards it, however far it is. None
                goes where the timeline was last.

        Raises:
            UnknownMomentError:
                If *into* is not ahead.

            TypeError:
                If *into* is something else.
        """
        present = self._moment.number
        step = self._next(present) if into is None else self._step(into)
        if step is None:
            return self

        chosen = (
            self._chosen if into is None else _choosing(self._chosen, present, step)
        )
        return self._at(self._log[step - self._base], chosen)

    def goto(self, moment: Moment[S] | int) -> Timeline[S]:
        """
        This timeline with any moment it keeps as the present.

        From there `undo` goes back the way that moment came about, and `redo`
        goes the other way again. O(steps between the two).

        Args:
            moment: A moment of this timeline, or its number.

        Raises:
            UnknownMomentError:
                If this timeline does not keep it.

            TypeError:
                If *moment* is neither a moment nor an integer.
        """
        found = self._found(moment)
        if found is self._moment:
            return self

        # Above the moment where the two ways part, all are chosen already.
        chosen = self._chosen
        here, there = self._moment.number, found.number
        while here != there:
            if here > there:
                here = self._above(here)
            else:
                above = self._above(there)
                if above != NONE:
                    chosen = _choosing(chosen, above, there)

                there = above

        return self._at(found, chosen)

    def with_filter(
        self,
        filter: Callable[[S, S], object] | None,  # noqa: A002 - redux-undo's word
    ) -> Timeline[S]:
        """
        This timeline with another *filter*, or none; itself if it has just
        that.

        For one that was decoded: functions are not written.

        Raises:
            TypeError:
                If *filter* can't be called.
        """
        rules = _Rules(self._rules.limit, _callable(filter))
        if rules == self._rules:
            return self

        log, base, first, moment, chosen, _, grows = self._fields()
        return _timeline(log, base, first, moment, chosen, rules, grows)

    # How it works

    def _replaced(self, state: S, label: str, grows: bool) -> Timeline[S]:  # noqa: FBT001 - hot
        """
        This timeline with *state* in the place of the present one. O(moments
        since that one).
        """
        old, log = self._moment, self._log
        at = old.number - self._base
        made = Moment(old.number, state, label or old.label, old.group, old.parent)
        after = log.iterate(at + 1) if at + 1 < len(log) else ()
        log = log.take(at).append(made).extend(after)
        fields = log, self._base, self._first, made, self._chosen, self._rules, grows
        return _timeline(*fields)

    def _at(self, moment: Moment[S], chosen: PMap[int, int]) -> Timeline[S]:
        first = self._first
        return _timeline(self._log, self._base, first, moment, chosen, self._rules)

    def _fields(self) -> tuple[Any, ...]:
        log, base, first = self._log, self._base, self._first
        if base < first:  # what is forgotten is not for others to find
            log, base = Log(list(log.iterate(first - base))), first

        return log, base, first, self._moment, self._chosen, self._rules, self._grows

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, Timeline):
            return NotImplemented

        return (
            self._moment.number == other._moment.number
            and self._first == other._first
            and self._chosen == other._chosen
            and self._rules.limit == other._rules.limit
            and self.moments == other.moments
        )

    def __hash__(self) -> int:
        # Equal timelines agree in these, and states may have no hash.
        return hash((self._first, len(self.moments), self._moment))

    def __repr__(self) -> str:
        moments, branches = len(self.moments), len(self.branches)
        label = self._moment.label
        return (
            f"<Timeline: {moments:,} moment{'s'[: moments != 1]}, "
            f"{branches:,} branch{'es' if branches != 1 else ''}, "
            f"at {repr(label) if label else self._moment.number}>"
        )

    def __copy__(self) -> Timeline[S]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _timeline, self._fields()


def _timeline(  # noqa: PLR0917 - hot, and what pickles call
    log: Log[Moment[S]],
    base: int,
    first: int,
    moment: Moment[S],
    chosen: PMap[int, int],
    rules: _Rules,
    grows: bool = False,  # noqa: FBT001, FBT002 - the same
) -> Timeline[S]:
    timeline: Timeline[S] = _new(Timeline)
    timeline._log = log
    timeline._base = base
    timeline._first = first
    timeline._moment = moment
    timeline._chosen = chosen
    timeline._rules = rules
    timeline._grows = grows
    return timeline


def _choosing(chosen: PMap[int, int], parent: int, child: int) -> PMap[int, int]:
    """
    *chosen* with *child* as the one of *parent* that was visited last.
    """
    if child == parent + 1:
        return chosen.discard(parent) if chosen else chosen

    return chosen.set(parent, child)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        msg = f"{what} is {value!r:.80}; expected a str"
        raise TypeError(msg)

    return check_text(value, what)


def _callable(worth: Any) -> Callable[[Any, Any], object] | None:
    if worth is None or callable(worth):
        return worth  # type: ignore[no-any-return]

    msg = f"filter is {worth!r:.80}; expected a function of two states, or None"
    raise TypeError(msg)
