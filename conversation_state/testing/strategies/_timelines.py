"""
Timelines and their moments, and message trees.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.messages import UserMessage
from conversation_state.testing._comparison import unpickled
from conversation_state.testing.strategies._states import aggregators
from conversation_state.testing.strategies._values import once, rarely, texts, usages
from conversation_state.timeline import Moment, Timeline
from conversation_state.tree import MessageTree

__all__ = ["message_trees", "moments", "timelines"]

# Mostly commits, because moves need several moments.
_VERBS = ("commit", "commit", "commit", "undo", "redo", "goto", "ship")


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
        verb = draw(st.sampled_from(_VERBS))
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
    Moments of such timelines.

    Shrink to the first of a timeline that has no other.
    """
    made = timelines(states=states, max_steps=max_steps)
    return made.flatmap(lambda timeline: st.sampled_from(timeline.moments))


@once
def message_trees() -> SearchStrategy[MessageTree]:
    """
    Message trees with siblings, joined messages, and any of them shown.

    Shrink to the tree of an empty state.
    """
    return timelines().flatmap(_show_any_message)


def _show_any_message(timeline: Timeline[Any]) -> SearchStrategy[MessageTree]:
    tree = MessageTree.of(timeline)
    if not len(tree):
        return st.just(tree)

    ids = [node.id for node in tree.nodes]
    return st.just(tree) | st.sampled_from(ids).map(tree.switch)
