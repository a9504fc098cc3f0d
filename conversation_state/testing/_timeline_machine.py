"""
A machine that moves timelines about beside a plain tree; part of `machines`.
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any, NamedTuple

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state.errors import UnknownMomentError
from conversation_state.testing._timeline_laws import (
    redo_then_undo_is_the_identity,
    timelines_add_up,
    undo_then_redo_is_the_identity,
)
from conversation_state.timeline import Timeline

__all__ = ["TimelineMachine"]

_LABELS = st.sampled_from(["", "", "a", "b"])
_GROUPS = st.sampled_from([None, None, "x", "y"])
# Few of them, so that what is committed is often there already.
_STATES = st.integers(0, 9)


def is_worth_a_step(present: int, state: int) -> bool:
    """
    The filter of some of the timelines.
    """
    return (present + state) % 4 != 0


class _Node(NamedTuple):
    state: int
    label: str
    group: str | None
    parent: int | None


@attrs.frozen
class _Kept:
    """
    A timeline, and what it should be: moments by number, and for each the child
    that was visited last.
    """

    timeline: Timeline[int]
    nodes: dict[int, _Node]
    visited: dict[int, int]
    present: int
    newest: int
    limit: int | None
    filtered: bool
    grows: bool = False

    def ways_up(self, number: int) -> list[int]:
        """
        *number* and the moments above it that are kept.
        """
        ways = [number]
        while (parent := self.nodes[ways[-1]].parent) in self.nodes:
            ways.append(parent)

        return ways

    def moved(self, timeline: Timeline[int], number: int) -> _Kept:
        """
        What this should be after going to *number*.
        """
        if number == self.present:
            assert timeline is self.timeline, "went nowhere, and is another"
            return self

        visited, ways = dict(self.visited), self.ways_up(number)
        visited |= {above: below for below, above in pairwise(ways)}
        return attrs.evolve(
            self, timeline=timeline, present=number, visited=visited, grows=False
        )

    def check(self) -> None:
        """
        The timeline is still what the tree says.
        """
        timeline = self.timeline
        told = {
            each.number: _Node(each.state, each.label, each.group, each.parent)
            for each in timeline.moments
        }
        assert list(told.items()) == list(self.nodes.items()), f"not {self.nodes}"
        assert timeline.moment.number == self.present, f"not at {self.present}"
        assert timeline.limit == self.limit, "another limit"
        redo = {above: on for above, on in self.visited.items() if on != above + 1}
        again = Timeline.rebuild(
            moments=timeline.moments,
            present=self.present,
            redo=redo,
            limit=self.limit,
        )
        assert timeline == again, f"{timeline!r} is not what {again!r} is"
        timelines_add_up(timeline)
        undo_then_redo_is_the_identity(timeline)
        redo_then_undo_is_the_identity(timeline)


class TimelineMachine(RuleBasedStateMachine):
    """
    Timelines moved about by every verb, and kept.

    Keeps all timelines it ever made, and moves any of them next. Each is
    compared with a plain tree when it is made, and once more at the end, when
    it must be what it was.
    """

    timelines = Bundle[_Kept]("timelines")

    # Whether a group is still open after the journey of `carried`.
    carries_groups = True

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[_Kept] = []

    def carried(self, timeline: Timeline[int]) -> Timeline[int]:
        """
        *timeline* after a journey that shares nothing with it; here, pickled.

        To be overridden. A filter may get lost on the way.
        """
        copy: Timeline[int] = pickle.loads(pickle.dumps(timeline))  # noqa: S301 - our own
        return copy

    def _remember_state(self, kept: _Kept) -> _Kept:
        kept.check()
        self._kept.append(kept)
        return kept

    @initialize(
        target=timelines,
        state=_STATES,
        label=_LABELS,
        limit=st.none() | st.integers(1, 20),
        filtered=st.booleans(),
    )
    def begin(
        self,
        state: int,
        label: str,
        limit: int | None,
        filtered: bool,  # noqa: FBT001 - drawn
    ) -> _Kept:
        """
        One moment to start from.
        """
        worth = is_worth_a_step if filtered else None
        timeline = Timeline.begin(state, label, limit=limit, filter=worth)
        nodes = {0: _Node(state, label, None, None)}
        return self._remember_state(_Kept(timeline, nodes, {}, 0, 0, limit, filtered))

    @rule(target=timelines, kept=timelines, state=_STATES, label=_LABELS, group=_GROUPS)
    def commit(self, kept: _Kept, state: int, label: str, group: str | None) -> _Kept:
        """
        A step, or a state in the place of the present one.
        """
        return self._remember_state(self._commit_moment(kept, state, label, group))

    def _commit_moment(
        self, kept: _Kept, state: int, label: str = "", group: str | None = None
    ) -> _Kept:
        timeline = kept.timeline.commit(state, label, group=group)
        node = kept.nodes[kept.present]
        if state == node.state and not label:
            assert timeline is kept.timeline, "nothing is new, and it is another"
            return kept

        grows = kept.grows and group is not None and group == node.group
        if grows or (kept.filtered and not is_worth_a_step(node.state, state)):
            node = node._replace(state=state, label=label or node.label)
            nodes = {**kept.nodes, kept.present: node}
            return attrs.evolve(kept, timeline=timeline, nodes=nodes, grows=grows)

        number = kept.newest + 1
        nodes = {**kept.nodes, number: _Node(state, label, group, kept.present)}
        visited = {**kept.visited, kept.present: number}
        if kept.limit is not None and len(nodes) > kept.limit:
            oldest = min(nodes)
            del nodes[oldest]
            visited.pop(oldest, None)

        return attrs.evolve(
            kept,
            timeline=timeline,
            nodes=nodes,
            visited=visited,
            present=number,
            newest=number,
            grows=True,
        )

    @rule(target=timelines, kept=timelines, times=st.integers(1, 40))
    def commit_many(self, kept: _Kept, times: int) -> _Kept:
        """
        Many steps, past the borders of the log's blocks and over any limit.
        """
        for _ in range(times):
            before = kept.nodes[kept.present].state
            kept = self._commit_moment(kept, before + 1)

        return self._remember_state(kept)

    @rule(target=timelines, kept=timelines)
    def undo(self, kept: _Kept) -> _Kept:
        """
        One step back, if there is one.
        """
        up = kept.ways_up(kept.present)[:2][-1]
        return self._remember_state(kept.moved(kept.timeline.undo(), up))

    @rule(target=timelines, kept=timelines)
    def redo(self, kept: _Kept) -> _Kept:
        """
        One step on, to where it was last, if there is one.
        """
        on = kept.visited.get(kept.present, kept.present)
        return self._remember_state(kept.moved(kept.timeline.redo(), on))

    @rule(target=timelines, kept=timelines, data=st.data())
    def redo_into(self, kept: _Kept, data: st.DataObject) -> _Kept:
        """
        One step towards any moment, or a refusal.
        """
        number = data.draw(st.sampled_from(sorted(kept.nodes)))
        moment = kept.timeline.moments[number - min(kept.nodes)]
        return self._redo_moment(kept, moment, kept.ways_up(number))

    @rule(target=timelines, kept=timelines, label=_LABELS)
    def redo_into_label(self, kept: _Kept, label: str) -> _Kept:
        """
        One step towards the newest of a label that is ahead, or a refusal.
        """
        ahead = [
            number
            for number, node in kept.nodes.items()
            if node.label == label and kept.present in kept.ways_up(number)[1:]
        ]
        return self._redo_moment(kept, label, kept.ways_up(ahead[-1]) if ahead else [])

    def _redo_moment(self, kept: _Kept, into: Any, ways: list[int]) -> _Kept:
        if kept.present not in ways[1:]:
            try:
                kept.timeline.redo(into)
            except UnknownMomentError:
                return kept

            msg = f"{into!r} is not ahead, and was gone to"
            raise AssertionError(msg)

        on = ways[ways.index(kept.present) - 1]
        return self._remember_state(kept.moved(kept.timeline.redo(into), on))

    @rule(target=timelines, kept=timelines, data=st.data())
    def goto(self, kept: _Kept, data: st.DataObject) -> _Kept:
        """
        Any moment that is kept.
        """
        number = data.draw(st.sampled_from(sorted(kept.nodes)))
        there = kept.timeline.goto(number)
        if kept.grows and number == kept.present and kept.nodes[number].group:
            # Nothing but that the group is closed.
            assert there == kept.timeline, f"{kept.timeline!r} became {there!r}"
            return self._remember_state(attrs.evolve(kept, timeline=there, grows=False))

        return self._remember_state(kept.moved(there, number))

    @rule(kept=timelines, number=st.integers(-2, 500))
    def goto_unknown(self, kept: _Kept, number: int) -> None:
        """
        No moment that is not.
        """
        if number in kept.nodes:
            return

        try:
            kept.timeline.goto(number)
        except UnknownMomentError:
            return

        msg = f"{number} is not kept, and was gone to"
        raise AssertionError(msg)

    @rule(target=timelines, kept=timelines)
    def carry(self, kept: _Kept) -> _Kept:
        """
        What comes from far away is equal, and goes on alike.
        """
        copy = self.carried(kept.timeline)
        assert copy == kept.timeline, f"{copy!r} came of {kept.timeline!r}"
        assert hash(copy) == hash(kept.timeline), "a copy has another hash"
        copy = copy.with_filter(is_worth_a_step if kept.filtered else None)
        grows = kept.grows and self.carries_groups
        return self._remember_state(attrs.evolve(kept, timeline=copy, grows=grows))

    def teardown(self) -> None:
        """
        All that was kept is what it was.
        """
        for kept in self._kept:
            kept.check()
