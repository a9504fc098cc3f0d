"""
Two states that have something to do with each other, and their difference.
"""

from __future__ import annotations

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
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._states import aggregators
from conversation_state.testing.strategies._values import once, rarely, usages
from conversation_state.usage import Usage

__all__ = ["diffs", "relatives"]

# Few, so that both sides often have equal messages.
_MESSAGES: tuple[Message, ...] = (
    UserMessage("hi"),
    UserMessage("hi", metadata={"typed": "again"}),
    AssistantMessage("hi"),
    SystemMessage(""),
)
_VERBS = ["say", "many", "usage", "keyed usage", "fork", "at", "join", "erase", "move"]


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


@st.composite
def _build_branches(
    draw: DrawFn,
    max_steps: int,
    trunks: SearchStrategy[Aggregator],
    one_message: SearchStrategy[Message],
    usages: SearchStrategy[Usage],
) -> tuple[Aggregator, Aggregator]:
    # As much in common as makes a difference: to blocks of the log, and to
    # what can be moved or erased.
    trunk = draw(trunks).extend([draw(one_message)] * draw(st.sampled_from([0, 2, 45])))
    sides = [trunk, trunk]
    step = st.tuples(st.integers(0, 1), st.sampled_from(_VERBS))
    for at, verb in draw(st.lists(step, max_size=max_steps)):
        state = sides[at]
        if verb == "say":
            state = state.add(draw(one_message))
        elif verb == "many":
            state = state.extend([draw(one_message)] * draw(st.integers(2, 10)))
        elif verb == "usage":
            state = state.add_usage(draw(usages))
        elif verb == "keyed usage" and "order" not in [
            entry.id for entry in state.ledger
        ]:
            state = state.add_usage(draw(usages), key="order")
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
    trunks = aggregators(max_steps=3)
    one_message = rarely(st.sampled_from(_MESSAGES), messages())
    return _build_branches(max_steps, trunks, one_message, usages())


@once
def diffs(*, max_steps: int = 8) -> SearchStrategy[Diff]:
    """
    What two states that grew from one have in common, and what not.

    Args:
        max_steps: The most verbs it took to part them.

    Shrink as `relatives` do, to nothing that differs.
    """
    return relatives(max_steps=max_steps).map(lambda pair: diff(*pair))
