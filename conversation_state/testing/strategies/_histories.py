"""
Two states that have something to do with each other and their difference, timelines
and message trees.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.aggregator import Aggregator, Entry
from conversation_state.diffing import Diff, diff
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.testing._comparison import unpickled
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._states import aggregators
from conversation_state.testing.strategies._values import once, rarely, texts, usages
from conversation_state.timeline import Moment, Timeline
from conversation_state.tree import MessageTree

# Few, so that both sides often have equal messages.
_MESSAGES: tuple[Message, ...] = (
    UserMessage("hi"),
    UserMessage("hi", metadata={"typed": "again"}),
    AssistantMessage("hi"),
    SystemMessage(""),
)
_STEPS = [
    "say",
    "many",
    "usage",
    "keyed usage",
    "fork",
    "at",
    "join",
    "erase",
    "move",
]


def _alter_state(draw: DrawFn, state: Aggregator, *, is_erased: bool) -> Aggregator:
    """
    A version of *state* as a store or another program may have changed it.
    """
    entries = list(state.entries)
    # One of the last, so that little of a long past is in the difference.
    few = min(len(entries), 4)
    at = draw(st.integers(-few, -1))
    if is_erased:
        entries[at] = Entry(entries[at].id, UserMessage("erased"))
    else:
        moved = entries.pop(at)
        entries.insert(draw(st.integers(len(entries) + 1 - few, len(entries))), moved)

    return Aggregator.rebuild(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=state.init_len,
        init_ledger_len=state.init_ledger_len,
        entries=entries,
        ledger=list(state.ledger),
    )


@once
def _few_messages() -> SearchStrategy[Message]:
    return rarely(st.sampled_from(_MESSAGES), messages())


@st.composite
def _build_branches(draw: DrawFn, max_steps: int) -> tuple[Aggregator, Aggregator]:
    one_message = _few_messages()
    # As much in common as makes a difference: to blocks of the log, and to
    # what can be moved or erased.
    trunk = draw(aggregators(max_steps=3)).extend(
        [draw(one_message)] * draw(st.sampled_from([0, 2, 45]))
    )
    sides = [trunk, trunk]
    step = st.tuples(st.integers(0, 1), st.sampled_from(_STEPS))
    for at, verb in draw(st.lists(step, max_size=max_steps)):
        state = sides[at]
        if verb == "say":
            state = state.add(draw(one_message))
        elif verb == "many":
            state = state.extend([draw(one_message)] * draw(st.integers(2, 10)))
        elif verb == "usage":
            state = state.add_usage(draw(usages()))
        elif verb == "keyed usage" and "order" not in [
            entry.id for entry in state.ledger
        ]:
            state = state.add_usage(draw(usages()), key="order")
        elif verb == "fork":
            state = state.fork()
        elif verb == "at":
            state = state.fork(at=draw(st.integers(0, len(state))))
        elif verb == "join":
            state = state.join(sides[1 - at])
        elif verb in ("erase", "move") and len(state):
            state = _alter_state(draw, state, is_erased=verb == "erase")

        sides[at] = state

    return sides[0], sides[1]


@once
def relatives(*, max_steps: int = 8) -> SearchStrategy[tuple[Aggregator, Aggregator]]:
    """
    Two states that grew from one, or from parts of it: apart, joined, with
    usage under one key; with entries that say the same, and some that were erased or
    moved on one side.

    Args:
        max_steps: The most verbs it took to part them.

    Shrink to fewer steps, and to twice an empty root.
    """
    return _build_branches(max_steps)


@once
def diffs(*, max_steps: int = 8) -> SearchStrategy[Diff]:
    """
    What two states that grew from one have in common, and what not.

    Args:
        max_steps: The most verbs it took to part them.

    Shrink as `relatives` do, to nothing that differs.
    """
    return relatives(max_steps=max_steps).map(lambda pair: diff(*pair))


# Mostly commits, because moves need several moments.
_TIMELINE_VERBS = ("commit", "commit", "commit", "undo", "redo", "goto", "ship")


def _next_state(draw: DrawFn, timeline: Timeline[Any]) -> Any:
    """
    What a program that uses a timeline would commit next.
    """
    state = timeline.present
    step = draw(st.sampled_from(["add", "usage", "fork", "at", "join", "old", "other"]))
    if step == "other" or not isinstance(state, Aggregator):
        return draw(aggregators())

    if step == "add":
        return state.add(draw(texts().map(UserMessage)))

    if step == "usage":
        return state.add_usage(draw(usages()))

    if step in {"fork", "at"}:
        at = draw(st.integers(0, len(state))) if step == "at" else None
        return state.fork(at=at)

    old = draw(st.sampled_from(timeline.moments)).state
    return state.join(old) if step == "join" else old


@st.composite
def _build_timeline(
    draw: DrawFn, states: SearchStrategy[Any] | None, max_steps: int
) -> Timeline[Any]:
    labels = rarely(st.just(""), texts(max_size=6))
    timeline: Timeline[Any] = Timeline.begin(
        draw(aggregators() if states is None else states),
        draw(labels),
        limit=draw(rarely(st.none(), st.integers(1, 5))),
    )
    for _ in range(draw(st.integers(0, max_steps))):
        verb = draw(st.sampled_from(_TIMELINE_VERBS))
        if verb == "commit":
            state = _next_state(draw, timeline) if states is None else draw(states)
            group = draw(st.sampled_from([None, None, "typing", "東京"]))
            timeline = timeline.commit(state, draw(labels), group=group)
        elif verb == "undo":
            timeline = timeline.undo()
        elif verb == "redo":
            timeline = timeline.redo()
        elif verb == "goto":
            timeline = timeline.goto(draw(st.sampled_from(timeline.moments)))
        else:
            timeline = unpickled(timeline)

    return timeline


@once
def timelines(
    *, states: SearchStrategy[Any] | None = None, max_steps: int = 10
) -> SearchStrategy[Timeline[Any]]:
    """
    Timelines with a past: branches, moments gone back to, limits that forgot
    some; some unpickled. None has a filter.

    Args:
        states: What is committed; without, states of a conversation that grow
            from one another, which is what `aggregators` makes and more.

        max_steps: The most verbs it took to get there.

    Shrink to one moment without a label, and to fewer verbs.
    """
    return _build_timeline(states, max_steps)


@once
def moments(
    *, states: SearchStrategy[Any] | None = None, max_steps: int = 10
) -> SearchStrategy[Moment[Any]]:
    """
    Moments of such timelines; shrink to the first of a timeline that has no other.
    """
    made = timelines(states=states, max_steps=max_steps)
    return made.flatmap(lambda timeline: st.sampled_from(timeline.moments))


@once
def message_trees() -> SearchStrategy[MessageTree]:
    """
    Message trees with siblings, joined messages, and any of them shown; shrink to the
    tree of an empty state.
    """
    return timelines().flatmap(_show_any_message)


def _show_any_message(timeline: Timeline[Any]) -> SearchStrategy[MessageTree]:
    tree = MessageTree.of(timeline)
    if not len(tree):
        return st.just(tree)

    ids = [node.id for node in tree.nodes]
    return st.just(tree) | st.sampled_from(ids).map(tree.switch)
