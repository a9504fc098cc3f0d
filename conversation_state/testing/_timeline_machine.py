"""
Timelines, compared step by step with a plain tree; part of `machines`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
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

_LABELS = st.sampled_from(["", "", "a", "b"])
_GROUPS = st.sampled_from([None, None, "x", "y"])
# Few values, so that a committed value is often there already.
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
class _TimelineModel:
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
    # The moment whose group is open.
    opened: int | None = None

    def ways_up(self, number: int) -> list[int]:
        """
        *number* and the moments above it that are kept.
        """
        ways = [number]
        # A forgotten moment is no longer the parent of any other.
        while (parent := self.nodes[ways[-1]].parent) in self.nodes:
            ways.append(parent)

        return ways

    def moved(self, timeline: Timeline[int], number: int) -> _TimelineModel:
        """
        The expected timeline after going to *number*.
        """
        if number == self.present:
            assert timeline is self.timeline, "went nowhere, and is another"
            return self

        visited, ways = dict(self.visited), self.ways_up(number)
        visited |= {above: below for below, above in pairwise(ways)}
        return attrs.evolve(
            self, timeline=timeline, present=number, visited=visited, opened=None
        )

    def replaced(
        self, timeline: Timeline[int], number: int, state: int, label: str
    ) -> _TimelineModel:
        """
        The expected timeline with another state, and a label if there is one.
        """
        node = self.nodes[number]
        node = node._replace(state=state, label=label or node.label)
        nodes = {**self.nodes, number: node}
        return attrs.evolve(self, timeline=timeline, nodes=nodes)

    def limited(self, nodes: dict[int, _Node], present: int) -> dict[int, _Node]:
        """
        The moments that a limit keeps of *nodes*: the newest, and those since the
        present one.
        """
        if self.limit is None:
            return nodes

        # Commits elsewhere may make the present the oldest moment: it is kept, with
        # all newer ones.
        first = min(max(nodes) - self.limit + 1, present)
        return {number: node for number, node in nodes.items() if number >= first}

    def check(self) -> None:
        """
        The timeline is still equal to the tree.
        """
        timeline = self.timeline
        moments = {
            each.number: _Node(each.state, each.label, each.group, each.parent)
            for each in timeline.moments
        }
        assert list(moments.items()) == list(self.nodes.items()), f"not {self.nodes}"
        assert timeline.moment.number == self.present, f"not at {self.present}"
        assert timeline.limit == self.limit, "another limit"
        redo = {above: on for above, on in self.visited.items() if on != above + 1}
        again = Timeline.rebuild(
            moments=timeline.moments, present=self.present, redo=redo, limit=self.limit
        )
        assert timeline == again, f"{timeline!r} is not what {again!r} is"
        timelines_add_up(timeline)
        undo_then_redo_is_the_identity(timeline)
        redo_then_undo_is_the_identity(timeline)


def _refuse_moment(go: Callable[[Any], object], moment: Any) -> None:
    try:
        go(moment)
    except UnknownMomentError:
        return

    raise AssertionError(f"{moment!r} is not there, and was gone to")


class TimelineMachine(RuleBasedStateMachine):
    """
    Timelines moved about by every verb, and kept.

    Keeps all timelines it ever made, and moves any of them next. Each is
    compared with a plain tree when it is made, and once more at the end, when
    it must be what it was.
    """

    timelines = Bundle[_TimelineModel]("timelines")

    # Whether a group is still open after the journey of `carried`.
    carries_groups = True

    def __init__(self) -> None:
        super().__init__()
        self._models: list[_TimelineModel] = []

    def carried(self, timeline: Timeline[int]) -> Timeline[int]:
        """
        *timeline* after a journey that shares nothing with it; here, pickled.

        To be overridden. A filter may get lost on the way.
        """
        copy: Timeline[int] = pickle.loads(pickle.dumps(timeline))  # noqa: S301 - our own
        return copy

    def _check_timeline(self, model: _TimelineModel) -> _TimelineModel:
        model.check()
        self._models.append(model)
        return model

    @initialize(
        target=timelines,
        state=_STATES,
        label=_LABELS,
        limit=st.none() | st.integers(1, 20),
        filtered=st.booleans(),
    )
    def begin(
        self, state: int, label: str, limit: int | None, filtered: bool
    ) -> _TimelineModel:
        keep = is_worth_a_step if filtered else None
        timeline = Timeline.begin(state, label, limit=limit, filter=keep)
        nodes = {0: _Node(state, label, None, None)}
        return self._check_timeline(
            _TimelineModel(timeline, nodes, {}, 0, 0, limit, filtered)
        )

    @rule(
        target=timelines, before=timelines, state=_STATES, label=_LABELS, group=_GROUPS
    )
    def commit(
        self, before: _TimelineModel, state: int, label: str, group: str | None
    ) -> _TimelineModel:
        return self._check_timeline(self._commit_moment(before, state, label, group))

    def _commit_moment(
        self,
        before: _TimelineModel,
        state: int,
        label: str = "",
        group: str | None = None,
    ) -> _TimelineModel:
        timeline = before.timeline.commit(state, label, group=group)
        node = before.nodes[before.present]
        if state == node.state and not label:
            assert timeline is before.timeline, "nothing is new, and it is another"
            return before

        grows = (
            before.opened == before.present
            and group is not None
            and group == node.group
        )
        if grows or (before.filtered and not is_worth_a_step(node.state, state)):
            replaced = before.replaced(timeline, before.present, state, label)
            return attrs.evolve(replaced, opened=before.present if grows else None)

        return self._add_moment(
            before, timeline, _Node(state, label, group, before.present)
        )

    def _add_moment(
        self,
        before: _TimelineModel,
        timeline: Timeline[int],
        node: _Node,
        *,
        stay: bool = False,
    ) -> _TimelineModel:
        number, parent = before.newest + 1, node.parent
        assert parent is not None
        # Redo leads to a commit that stays only if there was no other moment to redo.
        visited = {parent: number, **before.visited}
        if not stay:
            visited[parent] = number

        present = before.present if stay else number
        nodes = before.limited({**before.nodes, number: node}, present)
        return attrs.evolve(
            before,
            timeline=timeline,
            nodes=nodes,
            visited={above: on for above, on in visited.items() if above in nodes},
            present=present,
            newest=number,
            opened=None if node.group is None else number,
        )

    @rule(
        target=timelines,
        before=timelines,
        state=_STATES,
        label=_LABELS,
        group=_GROUPS,
        stay=st.booleans(),
        data=st.data(),
    )
    def commit_elsewhere(  # noqa: PLR0917 - drawn
        self,
        before: _TimelineModel,
        state: int,
        label: str,
        group: str | None,
        stay: bool,
        data: st.DataObject,
    ) -> _TimelineModel:
        """
        A step on any moment, the present one left where it is or not.
        """
        parent = data.draw(st.sampled_from(sorted(before.nodes)))
        timeline = before.timeline.commit(
            state, label, group=group, on=parent, stay=stay
        )
        opened = before.opened
        last = before.nodes.get(-1 if opened is None else opened)
        if last and last.group == group is not None and last.parent == parent:
            assert opened is not None
            replaced = before.replaced(timeline, opened, state, label)
            if stay or opened == before.present:
                return self._check_timeline(replaced)

            moved = attrs.evolve(replaced, timeline=before.timeline)
            moved = moved.moved(timeline, opened)
            return self._check_timeline(attrs.evolve(moved, opened=opened))

        if not stay:
            # Going to the present moment would close its group.
            there = before.timeline.goto(parent)
            went = before.moved(there, parent) if parent != before.present else before
            made = self._commit_moment(went, state, label, group)
            return self._check_timeline(attrs.evolve(made, timeline=timeline))

        if state == before.nodes[parent].state and not label:
            assert timeline is before.timeline, "nothing is new, and it is another"
            return before

        if before.filtered and not is_worth_a_step(before.nodes[parent].state, state):
            replaced = before.replaced(timeline, parent, state, label)
            return self._check_timeline(attrs.evolve(replaced, opened=None))

        node = _Node(state, label, group, parent)
        return self._check_timeline(self._add_moment(before, timeline, node, stay=True))

    @rule(
        target=timelines,
        before=timelines,
        state=_STATES,
        label=st.none() | _LABELS,
        data=st.data(),
    )
    def amend(
        self, before: _TimelineModel, state: int, label: str | None, data: st.DataObject
    ) -> _TimelineModel:
        number = data.draw(st.sampled_from(sorted(before.nodes)))
        node = before.nodes[number]
        timeline = before.timeline.amend(number, state, label)
        changed = node._replace(
            state=state, label=node.label if label is None else label
        )
        assert (timeline is before.timeline) == (changed == node), "no such change"
        nodes = {**before.nodes, number: changed}
        return self._check_timeline(
            attrs.evolve(before, timeline=timeline, nodes=nodes)
        )

    @rule(target=timelines, before=timelines)
    def close_group(self, before: _TimelineModel) -> _TimelineModel:
        timeline = before.timeline.close_group()
        if before.opened is None:
            assert timeline is before.timeline, "nothing was open, and it is another"

        return self._check_timeline(
            attrs.evolve(before, timeline=timeline, opened=None)
        )

    @rule(target=timelines, before=timelines, times=st.integers(1, 40))
    def commit_many(self, before: _TimelineModel, times: int) -> _TimelineModel:
        """
        Many steps, which cross the borders of the log's blocks and exceed any limit.
        """
        for _ in range(times):
            state = before.nodes[before.present].state + 1
            before = self._commit_moment(before, state)

        return self._check_timeline(before)

    @rule(target=timelines, before=timelines, n=st.integers(0, 4))
    def undo(self, before: _TimelineModel, n: int) -> _TimelineModel:
        up = before.ways_up(before.present)[: n + 1][-1]
        return self._check_timeline(before.moved(before.timeline.undo(n), up))

    @rule(target=timelines, before=timelines, n=st.integers(0, 4))
    def redo(self, before: _TimelineModel, n: int) -> _TimelineModel:
        on = before.present
        for _ in range(n):
            on = before.visited.get(on, on)

        return self._check_timeline(before.moved(before.timeline.redo(n), on))

    @rule(target=timelines, before=timelines, label=_LABELS)
    def goto_label(self, before: _TimelineModel, label: str) -> _TimelineModel:
        found = [number for number, node in before.nodes.items() if node.label == label]
        if found:
            there = before.timeline.goto(label)
            assert there == before.timeline.goto(max(found)), "went elsewhere"
            return before

        _refuse_moment(before.timeline.goto, label)
        return before

    @rule(target=timelines, before=timelines, data=st.data())
    def redo_into(self, before: _TimelineModel, data: st.DataObject) -> _TimelineModel:
        number = data.draw(st.sampled_from(sorted(before.nodes)))
        moment = before.timeline.moments[number - min(before.nodes)]
        return self._redo_moment(before, moment, before.ways_up(number))

    @rule(target=timelines, before=timelines, label=_LABELS)
    def redo_into_label(self, before: _TimelineModel, label: str) -> _TimelineModel:
        """
        One step towards the newest of a label that is ahead, or a refusal.
        """
        ahead = [
            number
            for number, node in before.nodes.items()
            if node.label == label and before.present in before.ways_up(number)[1:]
        ]
        return self._redo_moment(
            before, label, before.ways_up(ahead[-1]) if ahead else []
        )

    def _redo_moment(
        self, before: _TimelineModel, into: Any, ways: list[int]
    ) -> _TimelineModel:
        if before.present not in ways[1:]:
            _refuse_moment(before.timeline.redo, into)
            return before

        on = ways[ways.index(before.present) - 1]
        return self._check_timeline(before.moved(before.timeline.redo(into), on))

    @rule(target=timelines, before=timelines, data=st.data())
    def goto(self, before: _TimelineModel, data: st.DataObject) -> _TimelineModel:
        number = data.draw(st.sampled_from(sorted(before.nodes)))
        there = before.timeline.goto(number)
        if before.opened is not None and number == before.present:
            # The only change is that the group is closed.
            assert there == before.timeline, f"{before.timeline!r} became {there!r}"
            return self._check_timeline(
                attrs.evolve(before, timeline=there, opened=None)
            )

        return self._check_timeline(before.moved(there, number))

    @rule(before=timelines)
    def goto_unknown(self, before: _TimelineModel) -> None:
        """
        A moment that is not in the timeline is refused: a negative number, a forgotten
        moment, one that is not yet committed.
        """
        for number in (min(before.nodes) - 1, max(before.nodes) + 1):
            _refuse_moment(before.timeline.goto, number)

    @rule(target=timelines, before=timelines)
    def carry(self, before: _TimelineModel) -> _TimelineModel:
        """
        What comes from far away is equal, and goes on alike.
        """
        copy = self.carried(before.timeline)
        assert copy == before.timeline, f"{copy!r} came of {before.timeline!r}"
        assert hash(copy) == hash(before.timeline), "a copy has another hash"
        copy = copy.with_filter(is_worth_a_step if before.filtered else None)
        opened = before.opened if self.carries_groups else None
        return self._check_timeline(attrs.evolve(before, timeline=copy, opened=opened))

    def teardown(self) -> None:
        """
        All timelines that were ever made are what they were.
        """
        for model in self._models:
            model.check()
