"""
States and timelines, compared step by step with plain lists and trees.

For Hypothesis: ``TestStates = AggregatorMachine.TestCase`` runs it. A store or
an executor overrides `carried`, to run it on values that were saved or sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import attrs

from conversation_state.errors import MissingExtraError, UnknownMomentError

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise MissingExtraError(__name__, "testing") from error

from hypothesis.stateful import Bundle, initialize, rule
from hypothesis.strategies import SearchStrategy

from conversation_state.testing._state_machine import AggregatorMachine, CarryingMachine
from conversation_state.testing.laws import (
    redo_then_undo_is_the_identity,
    timelines_add_up,
    undo_then_redo_is_the_identity,
)
from conversation_state.timeline import Moment, Timeline

__all__ = ["AggregatorMachine", "TimelineMachine"]


def is_worth_a_step(present: int, state: int) -> bool:
    """The filter of some of the timelines."""
    return (present + state) % 4 != 0


@attrs.frozen
class _PlainTimeline:
    """
    The verbs of a timeline, over a dict of moments by number, and one of the child of
    each that was visited last.
    """

    nodes: dict[int, Moment[int]]
    limit: int | None
    is_filtered: bool
    present: int = 0
    newest: int = 0
    visited: dict[int, int] = attrs.field(factory=dict)
    # The moment whose group is open.
    opened: int | None = None
    opened_at: int | None = None

    def list_ways_up(self, number: int) -> list[int]:
        ways = [number]
        # A forgotten moment is no longer the parent of any other.
        while (parent := self.nodes[ways[-1]].parent) in self.nodes:
            ways.append(parent)

        return ways

    def find_moments(self, asked: int | str) -> list[int]:
        found = [
            number
            for number, node in self.nodes.items()
            if asked in {number, node.label}
        ]
        if not found:
            raise UnknownMomentError(asked, "is not kept")

        return found

    def commit(
        self,
        state: int,
        label: str = "",
        group: str | None = None,
        on: int | None = None,
        *,
        within_s: int | None = None,
        at: int | None = None,
        note: Mapping[str, Any] | None = None,
        stay: bool = False,
    ) -> _PlainTimeline:
        parent = self.present if on is None else self.find_moments(on)[-1]
        # A group is open only if its moment is kept.
        opened = -1 if self.opened not in self.nodes else self.opened
        has_group = group is not None or within_s is not None
        grows = has_group and opened >= 0 and self.nodes[opened].group == group
        if within_s is not None:
            before = self.opened_at
            is_near = None not in {at, before} and at - before <= within_s  # type: ignore[operator]  # numbers
            grows = grows and is_near

        if grows and (on is not None or stay) and self.nodes[opened].parent == parent:
            grown = self.amend(opened, state, label or None, note=note)
            grown = attrs.evolve(grown, opened_at=at)
            return grown if stay else grown.move(opened, opened=opened, at=at)

        if not stay and parent != self.present:
            there = self.move(parent)
            return there.commit(
                state, label, group, within_s=within_s, at=at, note=note
            )

        node = self.nodes[parent]
        if state == node.state and not label and note is None:
            return self

        if not stay and grows and opened == parent:
            grown = self.amend(parent, state, label or None, note=note)
            return attrs.evolve(grown, opened_at=at)

        if self.is_filtered and not is_worth_a_step(node.state, state):
            return self.amend(parent, state, label or None, note=note).close_group()

        number = self.newest + 1
        made = Moment(number, state, label, group, parent, note or {})
        opened_now = (number, at) if has_group else (None, None)
        return self.append(made, stay=stay, opened=opened_now)

    def append(
        self, made: Moment[int], *, stay: bool, opened: tuple[int | None, int | None]
    ) -> _PlainTimeline:
        number, parent = made.number, made.parent or 0
        # Redo leads to a commit that stays only if there was no other moment to redo.
        visited = {parent: number, **self.visited}
        if not stay:
            visited[parent] = number

        present, first = self.present if stay else number, 0
        nodes = self.nodes | {number: made}
        if self.limit is not None:
            # Commits elsewhere may make the present the oldest moment: it is kept, with
            # all newer ones. So is a sibling of what is kept.
            kept = min(number - self.limit + 1, present)
            first = min(nodes)
            parents = {each.parent for each in nodes.values() if each.number >= kept}
            while first < kept and (
                first <= kept - self.limit
                or nodes[first].parent not in parents - {None}
            ):
                first += 1

        return attrs.evolve(
            self,
            nodes={number: each for number, each in nodes.items() if number >= first},
            visited={above: on for above, on in visited.items() if above >= first},
            present=present,
            newest=number,
            opened=opened[0],
            opened_at=opened[1],
        )

    def amend(
        self,
        moment: int | str,
        state: int,
        label: str | None = None,
        *,
        note: Mapping[str, Any] | None = None,
    ) -> _PlainTimeline:
        number = self.find_moments(moment)[-1]
        node = self.nodes[number]
        label = node.label if label is None else label
        note = node.note if note is None else note
        node = attrs.evolve(node, state=state, label=label, note=note)
        return attrs.evolve(self, nodes={**self.nodes, number: node})

    def move(
        self, number: int, *, opened: int | None = None, at: int | None = None
    ) -> _PlainTimeline:
        if number == self.present:
            return self

        ways = self.list_ways_up(number)
        visited = self.visited | {above: below for below, above in pairwise(ways)}
        return attrs.evolve(
            self, present=number, visited=visited, opened=opened, opened_at=at
        )

    def goto(self, moment: int | str) -> _PlainTimeline:
        number = self.find_moments(moment)[-1]
        return self.close_group() if number == self.present else self.move(number)

    def undo(self, n: int) -> _PlainTimeline:
        return self.move(self.list_ways_up(self.present)[: n + 1][-1])

    def redo(self, into: int | str) -> _PlainTimeline:
        number = self.present
        if isinstance(into, int):
            for _ in range(into):
                number = self.visited.get(number, number)

            return self.move(number)

        ways = [self.list_ways_up(found) for found in self.find_moments(into)]
        ahead = [each for each in ways if number in each[1:]]
        if not ahead:
            raise UnknownMomentError(into, "is not ahead")

        return self.move(ahead[-1][ahead[-1].index(number) - 1])

    def close_group(self) -> _PlainTimeline:
        return attrs.evolve(self, opened=None, opened_at=None)


class _TimelineModel(NamedTuple):
    timeline: Timeline[int]
    plain: _PlainTimeline

    def check(self) -> None:
        timeline, plain = self
        redo = {above: on for above, on in plain.visited.items() if on != above + 1}
        again = Timeline.rebuild(
            moments=timeline.moments,
            present=plain.present,
            redo=redo,
            limit=plain.limit,
        )

        assert [*timeline.moments] == [*plain.nodes.values()], f"not {plain.nodes}"
        assert timeline.moment.number == plain.present, f"not at {plain.present}"
        assert timeline.limit == plain.limit, "another limit"
        assert timeline == again, f"{timeline!r} is not what {again!r} is"
        timelines_add_up(timeline)
        undo_then_redo_is_the_identity(timeline)
        redo_then_undo_is_the_identity(timeline)


_LABELS = st.sampled_from(["", "", "a", "b"])
# Few values, so that a committed value is often there already.
_STATES = st.integers(0, 9)


# Moments, as how many commits they are older than the newest; some are not there: with
# a negative number, forgotten, or not yet committed.
_AGES = st.sampled_from([0, 1, 2, 3, 4, 6, 10, 30, -1])
_NOTES = st.sampled_from([None, None, {}, {"cursor": 3}])
_COMMIT: dict[str, SearchStrategy[Any]] = {
    "state": _STATES,
    "label": _LABELS,
    "group": st.sampled_from([None, None, "x", "y"]),
    "note": _NOTES,
}
_TIMES = {"within_s": st.integers(0, 2), "at": st.integers(0, 5)}
_AMEND = {
    "moment": _AGES,
    "state": _STATES,
    "label": st.none() | _LABELS,
    "note": _NOTES,
}
_CALLS: list[tuple[str, dict[str, SearchStrategy[Any]]]] = [
    ("commit", _COMMIT),
    ("commit", _COMMIT | _TIMES),
    ("commit", _COMMIT | {"on": _AGES}),
    ("commit", _COMMIT | _TIMES | {"on": _AGES, "stay": st.booleans()}),
    ("commit", _COMMIT | {"on": _AGES, "stay": st.just(value=True)}),
    ("commit", _COMMIT | {"times": st.integers(1, 40)}),
    ("amend", _AMEND),
    ("undo", {"n": st.integers(0, 4)}),
    ("redo", {"into": st.integers(0, 4) | _LABELS}),
    ("goto", {"moment": _AGES | _LABELS}),
    ("close_group", {}),
    ("carry", {}),
]


class TimelineMachine(CarryingMachine):
    """
    Timelines moved about by every verb, and kept.

    Keeps all timelines it ever made, and moves any of them next. Each is
    compared with a plain one when it is made, and once more at the end, when
    it must be what it was. Calls `carried` with timelines; a filter may get lost on
    the way.
    """

    timelines = Bundle[_TimelineModel]("timelines")

    # Whether a group is still open after the journey of `carried`.
    carries_groups = True

    def __init__(self) -> None:
        super().__init__()
        self._models: list[_TimelineModel] = []

    def _check_model(self, model: _TimelineModel) -> _TimelineModel:
        model.check()
        self._models.append(model)
        return model

    def teardown(self) -> None:
        """All timelines that were ever made are what they were."""
        for model in self._models:
            model.check()

    @initialize(
        target=timelines,
        state=_STATES,
        label=_LABELS,
        limit=st.none() | st.integers(1, 20),
        is_filtered=st.booleans(),
    )
    def begin(
        self, state: int, label: str, limit: int | None, is_filtered: bool
    ) -> _TimelineModel:
        keep = is_worth_a_step if is_filtered else None
        timeline = Timeline.begin(state, label, limit=limit, filter=keep)
        nodes = {0: Moment(0, state, label)}
        plain = _PlainTimeline(nodes, limit, is_filtered)
        return self._check_model(_TimelineModel(timeline, plain))

    @rule(
        target=timelines,
        before=timelines,
        call=st.one_of(
            [
                st.tuples(st.just(verb), st.fixed_dictionaries(arguments))
                for verb, arguments in _CALLS
            ]
        ),
    )
    def step(
        self, before: _TimelineModel, call: tuple[str, dict[str, Any]]
    ) -> _TimelineModel:
        """
        One of the verbs, or a journey; now and then many commits, which cross the
        borders of the log's blocks and exceed any limit.
        """
        verb, arguments = call
        if verb == "carry":
            return self._continue_copy(before)

        for name in {"moment", "on"} & {*arguments}:
            if isinstance(arguments[name], int):
                arguments[name] = before.plain.newest - arguments[name]

        for _ in range(arguments.pop("times", 0)):
            state = before.timeline.present + 1
            before = self._take_step(before, "commit", {"state": state})

        after = self._take_step(before, verb, arguments)
        return before if after is before else self._check_model(after)

    def _take_step(
        self, before: _TimelineModel, verb: str, arguments: dict[str, Any]
    ) -> _TimelineModel:
        """
        What comes of a timeline and of a plain one, or *before* if both refuse it.
        """
        timeline, plain = before
        try:
            plain = getattr(plain, verb)(**arguments)
        except UnknownMomentError as error:
            with suppress(UnknownMomentError):
                getattr(timeline, verb)(**arguments)
                wrong = f"{error.asked!r} is not there, and was gone to"
                raise AssertionError(wrong) from None

            return before

        timeline = getattr(timeline, verb)(**arguments)
        if plain == before.plain:
            assert timeline is before.timeline, "nothing is new, and it is another"
            return before

        return _TimelineModel(timeline, plain)

    def _continue_copy(self, before: _TimelineModel) -> _TimelineModel:
        """What comes from far away is equal, and goes on alike."""
        timeline, plain = before
        copy = self.carried(timeline)
        assert copy == timeline, f"{copy!r} came of {timeline!r}"
        assert hash(copy) == hash(timeline), "a copy has another hash"
        copy = copy.with_filter(is_worth_a_step if plain.is_filtered else None)
        plain = plain if self.carries_groups else plain.close_group()
        return self._check_model(_TimelineModel(copy, plain))
