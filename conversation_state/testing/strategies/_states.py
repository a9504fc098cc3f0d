"""
States, turns and checkpoints.
"""

from __future__ import annotations

from datetime import datetime

import attrs
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state._identity import new_entry_id
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
from conversation_state.messages import Message, UserMessage
from conversation_state.testing._code import USUAL_TIME, format_code
from conversation_state.testing._comparison import unpickled
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._values import (
    once,
    rarely,
    texts,
    timestamps,
    usages,
    uuids,
)
from conversation_state.usage import Usage

__all__ = [
    "aggregators",
    "checkpoints",
    "entries",
    "ledger_entries",
    "turns",
]


@once
def entries() -> SearchStrategy[Entry]:
    """
    Entries, as a state holds them; their identities are new ones.

    Shrink as their messages do.
    """
    return st.builds(Entry, st.builds(new_entry_id), messages())


@once
def ledger_entries() -> SearchStrategy[LedgerEntry]:
    """
    Ledger entries, keyed or with new identities.

    Shrink to an empty usage without a model.
    """
    ids = st.builds(new_entry_id) | texts(min_size=1, max_size=8)
    times = st.none() | timestamps()
    return st.builds(LedgerEntry, ids, usages(), texts(max_size=6), times)


# Few keys and few usages, so that branches meet under one key, sometimes with
# different usages.
_KEYS = ("request 1", "request 2", "request 3")
_PAID = (Usage(10, 5), Usage(1))


@attrs.frozen
class _Steps:
    """
    What states are grown with.
    """

    messages: SearchStrategy[Message]
    usages: SearchStrategy[Usage]
    models: SearchStrategy[str]
    times: SearchStrategy[datetime]


@st.composite
def _draw_aggregators(draw: DrawFn, max_steps: int, steps: _Steps) -> Aggregator:
    states = [Aggregator.new(id=draw(st.none() | uuids()))]
    for _ in range(draw(st.integers(0, max_steps))):
        # Counted from the end: shrinks to the newest, and so to states in one line.
        state = states[draw(st.integers(-len(states), -1))]
        step = draw(
            st.sampled_from(
                ["add", "usage", "key", "fork", "at", "join", "many", "ship"]
            )
        )
        if step == "add":
            state = state.add(draw(steps.messages))
        elif step == "usage":
            model, time = draw(steps.models), draw(steps.times)
            state = state.add_usage(draw(steps.usages), model=model, at=time)
        elif step == "key":
            key, usage = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_PAID))
            # Under a key that is taken, another usage is refused.
            if key not in [entry.id for entry in state.ledger]:
                state = state.add_usage(usage, key=key, at=draw(steps.times))
        elif step == "fork":
            state = state.fork()
        elif step == "at":
            state = state.fork(at=draw(st.integers(0, len(state))))
        elif step == "join":
            state = state.join(draw(st.sampled_from(states)))
        elif step == "many":
            # Enough messages to cross the borders of the log's blocks, in one draw.
            state = state.extend([draw(steps.messages)] * draw(st.integers(1, 70)))
        else:
            state = unpickled(state)

        states.append(state)

    # Hypothesis asks for the repr only of what it prints, once a test has failed.
    note(_Code(states[-1]))
    return states[-1]


class _Code:
    """
    Writes a state as code, on demand.
    """

    def __init__(self, state: Aggregator) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"A state that was drawn, as code:\n{format_code(self._state)}"


@once
def aggregators(*, max_steps: int = 6) -> SearchStrategy[Aggregator]:
    """
    States with a past: roots, forks and forks of forks, from the end or from
    earlier on; joined with their relatives; usage with keys and without; some
    longer than a block of the log, some unpickled.

    Args:
        max_steps: The most verbs it took to get there.

    Shrink to fewer steps, and to a root without messages. Identities are new
    ones each time, and do not shrink. A failing test prints each state as code.
    """
    usual: SearchStrategy[Message] = texts().map(UserMessage)
    times = rarely(st.just(USUAL_TIME), timestamps())
    steps = _Steps(rarely(usual, messages()), usages(), texts(max_size=6), times)
    return _draw_aggregators(max_steps, steps)


@once
def turns(*, max_steps: int = 6) -> SearchStrategy[Turn]:
    """
    What was added to a state since its fork; some shipped, and so without it.

    Shrink to empty turns of roots.
    """

    def turn(state: Aggregator, ships: bool) -> Turn:  # noqa: FBT001 - drawn
        return unpickled(state.turn) if ships else state.turn

    return st.builds(turn, aggregators(max_steps=max_steps), st.booleans())


@once
def checkpoints(*, max_steps: int = 6) -> SearchStrategy[Checkpoint]:
    """
    Labelled states, under any label.

    Shrink to an empty root without a label.
    """
    return st.builds(Checkpoint, aggregators(max_steps=max_steps), texts(max_size=8))
