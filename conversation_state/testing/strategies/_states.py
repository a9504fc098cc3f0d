"""
States, turns and checkpoints, and what stores return besides states.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state._identity import new_entry_id
from conversation_state._persistent import FrozenMap, Log
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
from conversation_state.messages import Message, UserMessage
from conversation_state.store import Collected, Damage, Head, Receipt, Window
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


@once
def entries() -> SearchStrategy[Entry]:
    """
    Entries, as a state holds them; their identities are new ones; shrink as their
    messages do.
    """
    return st.builds(Entry, st.builds(new_entry_id), messages())


@once
def ledger_entries() -> SearchStrategy[LedgerEntry]:
    """
    Ledger entries, keyed or with new identities; shrink to an empty usage without a
    model.
    """
    ids = st.builds(new_entry_id) | texts(min_size=1, max_size=8)
    times = st.none() | timestamps()
    return st.builds(LedgerEntry, ids, usages(), texts(max_size=6), times)


# Few keys and few usages, so that branches meet under one key, sometimes with
# different usages.
_KEYS = ("request 1", "request 2", "request 3")
_PAID = (Usage(10, 5), Usage(1))


@once
def _plain_messages() -> SearchStrategy[Message]:
    usual: SearchStrategy[Message] = texts().map(UserMessage)
    return rarely(usual, messages())


@once
def _usual_times() -> SearchStrategy[datetime]:
    return rarely(st.just(USUAL_TIME), timestamps())


@st.composite
def _draw_aggregators(draw: DrawFn, max_steps: int) -> Aggregator:
    message, time, model = _plain_messages(), _usual_times(), texts(max_size=6)
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
            state = state.add(draw(message))
        elif step == "usage":
            state = state.add_usage(draw(usages()), model=draw(model), at=draw(time))
        elif step == "key":
            key, usage = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_PAID))
            # Under a key that is taken, another usage is refused.
            if key not in [entry.id for entry in state.ledger]:
                state = state.add_usage(usage, key=key, at=draw(time))
        elif step == "fork":
            state = state.fork()
        elif step == "at":
            state = state.fork(at=draw(st.integers(0, len(state))))
        elif step == "join":
            state = state.join(draw(st.sampled_from(states)))
        elif step == "many":
            # Enough messages to cross the borders of the log's blocks, in one draw.
            state = state.extend([draw(message)] * draw(st.integers(1, 70)))
        else:
            state = unpickled(state)

        states.append(state)

    # Hypothesis asks for the repr only of what it prints, once a test has failed.
    note(_Code(states[-1]))
    return states[-1]


class _Code:
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
    return _draw_aggregators(max_steps)


@once
def turns(*, max_steps: int = 6) -> SearchStrategy[Turn]:
    """
    What was added to a state since its fork; some shipped, and so without it; shrink to
    empty turns of roots.
    """

    def turn(state: Aggregator, ships: bool) -> Turn:
        return unpickled(state.turn) if ships else state.turn

    return st.builds(turn, aggregators(max_steps=max_steps), st.booleans())


@once
def checkpoints(*, max_steps: int = 6) -> SearchStrategy[Checkpoint]:
    """
    Labelled states, under any label; shrink to an empty root without a label.
    """
    return st.builds(Checkpoint, aggregators(max_steps=max_steps), texts(max_size=8))


_COUNTS = st.integers(0, 2**32)
_NAMES = texts(min_size=1, max_size=8).filter(lambda name: "\0" not in name)


def _digest_bytes(size: int = 16) -> SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


def _saved_at() -> SearchStrategy[datetime]:
    # Whole milliseconds, as stores keep them.
    return st.integers(0, 2**42).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))


@once
def heads() -> SearchStrategy[Head]:
    """
    Saved states of any name, with labels or without; shrink to the first revision,
    without messages or labels, saved in 1970.
    """
    labels = st.lists(_NAMES, max_size=2, unique=True).map(tuple)
    return st.builds(
        Head,
        _NAMES,
        st.integers(1, 2**32 - 1),
        uuids(),
        _COUNTS,
        _COUNTS,
        _digest_bytes(),
        labels,
        _saved_at(),
        st.none() | st.integers(1, 2**32 - 2),
        st.dictionaries(texts(max_size=8), texts(max_size=8), max_size=2).map(
            FrozenMap
        ),
    )


@once
def windows() -> SearchStrategy[Window]:
    """
    The newest messages of saved states; shrink to all of a state without any.
    """

    def window(head: Head, newest: list[Entry], start: int) -> Window:
        return Window(head._replace(length=start + len(newest)), start, Log(newest))

    newest = st.lists(entries(), max_size=3)
    return st.builds(window, heads(), newest, _COUNTS)


@once
def receipts() -> SearchStrategy[Receipt]:
    """
    Erasures of any entry, the first or once more; shrink to one that found nothing left
    to do.
    """
    ids = texts(min_size=1, max_size=8)
    counts = (_COUNTS, _COUNTS)
    return st.builds(Receipt, ids, _NAMES, _digest_bytes(), _saved_at(), *counts)


@once
def collected() -> SearchStrategy[Collected]:
    """
    What a garbage collection deleted; shrinks to nothing.
    """
    return st.builds(Collected, *[_COUNTS] * 6)


@once
def damages() -> SearchStrategy[Damage]:
    """
    What is not what it should be; shrink to something about an entry without identity.
    """
    where = st.sampled_from(["entries", "ledger", "revisions", "blobs", "medium"])
    return st.builds(Damage, where, texts(max_size=8), texts(max_size=8))
