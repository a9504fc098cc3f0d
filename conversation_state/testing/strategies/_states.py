"""
States, turns and checkpoints; pairs of states and their difference, timelines and
message trees; what stores return besides states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

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
from conversation_state.diffing import Diff, diff
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.store import Head, Receipt, Window
from conversation_state.testing._code import USUAL_TIME, format_code
from conversation_state.testing._comparison import unpickled
from conversation_state.testing._drawing import few, few_fields, once, rarely
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._values import (
    COUNTS,
    texts,
    timestamps,
    usages,
    uuids,
)
from conversation_state.timeline import Moment, Timeline
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage


@once
def entries() -> SearchStrategy[Entry]:
    """
    Entries, as a state holds them; their identities are new ones; shrink as their
    messages do.
    """
    return st.builds(Entry, st.builds(new_entry_id), messages())


@once
def _usual_caveats() -> SearchStrategy[str]:
    usual = ["", "interrupted", "service_tier 'flex'", "interrupted, speed 'fast'"]
    return rarely(st.sampled_from(usual), texts())


@once
def ledger_entries() -> SearchStrategy[LedgerEntry]:
    """
    Ledger entries, keyed or with new identities; shrink to an empty usage without a
    model.
    """
    ids = st.builds(new_entry_id) | texts(min_size=1)
    times = st.none() | timestamps()
    return st.builds(LedgerEntry, ids, usages(), texts(), times, _usual_caveats())


# Few keys and usages, so that branches meet under one key, sometimes with
# different usages; and few messages, so that they often have equal ones.
_KEYS = ("request 1", "request 2", "request 3")
_PAID = (Usage(1), Usage(2))
_EQUAL: tuple[Message, ...] = tuple(
    kind("hi", metadata=note)
    for kind in (UserMessage, AssistantMessage, SystemMessage)
    for note in ({}, {"typed": None})
)
_STEPS = ("add", "usage", "key", "fork", "at", "join", "many", "ship")


@once
def _plain_messages() -> SearchStrategy[Message]:
    usual: SearchStrategy[Message] = texts().map(UserMessage)
    return rarely(usual, messages())


@once
def _usual_times() -> SearchStrategy[datetime]:
    return rarely(st.just(USUAL_TIME), timestamps())


def _draw_step(
    draw: DrawFn,
    state: Aggregator,
    others: Sequence[Aggregator],
    message: SearchStrategy[Message],
) -> Aggregator:
    """*state* after one of the verbs; it joins one of the *others*."""
    step = draw(st.sampled_from(_STEPS))
    if step == "add":
        state = state.add(draw(message))
    elif step == "usage":
        model, at, caveat = draw(texts()), draw(_usual_times()), draw(_usual_caveats())
        state = state.add_usage(draw(usages()), model=model, at=at, caveat=caveat)
    elif step == "key":
        key, usage = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_PAID))
        # Under a key that is taken, another usage is refused.
        if key not in [entry.id for entry in state.ledger]:
            state = state.add_usage(usage, key=key, at=draw(_usual_times()))
    elif step == "fork":
        state = state.fork()
    elif step == "at":
        state = state.fork(at=draw(st.integers(0, len(state))))
    elif step == "join":
        state = state.join(draw(st.sampled_from(others)))
    elif step == "many":
        # Enough messages to cross the borders of the log's blocks, in one draw.
        state = state.extend([draw(message)] * draw(st.integers(1, 70)))
    else:
        state = unpickled(state)

    return state


@st.composite
def _draw_aggregators(draw: DrawFn, max_steps: int) -> Aggregator:
    states = [Aggregator.new(id=draw(st.none() | uuids()))]
    for _ in range(draw(st.integers(0, max_steps))):
        # Counted from the end: shrinks to the newest, and so to states in one line.
        state = states[draw(st.integers(-len(states), -1))]
        states.append(_draw_step(draw, state, states, _plain_messages()))

    # Hypothesis asks for the repr only of what it prints, once a test has failed.
    note(DrawnState(states[-1]))
    return states[-1]


class DrawnState:
    """What a failing test prints of a state: it as code, made only if it is printed."""

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


def _draw_lifelike() -> SearchStrategy[Aggregator]:
    """States that look like life, besides those that verbs can make."""
    # They are made of what is here.
    from conversation_state.testing.strategies._life import states  # noqa: PLC0415

    return aggregators() | states()


@once
def turns() -> SearchStrategy[Turn]:
    """
    What was added to a state since its fork; some shipped, and so without it; shrink to
    empty turns of roots.
    """

    def turn(state: Aggregator, ships: bool) -> Turn:
        return unpickled(state.turn) if ships else state.turn

    return st.builds(turn, _draw_lifelike(), st.booleans())


@once
def checkpoints() -> SearchStrategy[Checkpoint]:
    """Labelled states, under any label; shrink to an empty root without a label."""
    return st.builds(Checkpoint, _draw_lifelike(), texts())


# What grew from states


def _alter_state(draw: DrawFn, state: Aggregator) -> Aggregator:
    """*state* as a store may have changed it: with an entry erased, or moved."""
    entries = list(state.entries)
    # One of the last, so that little of a long past is in the difference.
    last = min(len(entries), 4)
    at = draw(st.integers(-last, -1))
    if draw(st.booleans()):
        entries[at] = Entry(entries[at].id, UserMessage("erased"))
    else:
        moved = entries.pop(at)
        entries.insert(draw(st.integers(len(entries) + 1 - last, len(entries))), moved)

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
def _draw_relatives(draw: DrawFn) -> tuple[Aggregator, Aggregator]:
    message = rarely(st.sampled_from(_EQUAL), messages())
    # As much in common as makes a difference: to blocks of the log, and to
    # what can be moved or erased.
    trunk = draw(aggregators(max_steps=3) | _draw_lifelike()).extend(
        [draw(message)] * draw(st.sampled_from([0, 2, 45]))
    )
    sides = [trunk, trunk]
    for at in draw(st.lists(st.integers(0, 1), max_size=8)):
        if len(sides[at]) and draw(st.integers(0, 3)) == 0:
            sides[at] = _alter_state(draw, sides[at])
        else:
            sides[at] = _draw_step(draw, sides[at], sides, message)

    return sides[0], sides[1]


@once
def relatives() -> SearchStrategy[tuple[Aggregator, Aggregator]]:
    """
    Two states that grew from one, or from parts of it: apart, joined, with
    usage under one key; with entries that say the same, and some that were erased or
    moved on one side.

    Shrink to fewer steps, and to twice an empty root.
    """
    return _draw_relatives()


@once
def diffs() -> SearchStrategy[Diff]:
    """
    What two states that grew from one have in common, and what not.

    Shrink as `relatives` do, to nothing that differs.
    """
    return relatives().map(lambda pair: diff(*pair))


# What needs no more than the timeline.
_MOVES: Mapping[str, Callable[[Timeline[Any]], Timeline[Any]]] = {
    "undo": Timeline.undo,
    "redo": Timeline.redo,
    "ship": unpickled,
}
# Mostly commits, because moves need several moments.
_TIMELINE_VERBS = ("commit", "commit", "commit", "goto", *_MOVES)
_STEP_NOTES = rarely(st.none(), st.just({"cursor": 3}))


@st.composite
def _draw_timeline(draw: DrawFn, states: SearchStrategy[Any] | None) -> Timeline[Any]:
    labels = rarely(st.just(""), texts())
    timeline: Timeline[Any] = Timeline.begin(
        draw(_draw_lifelike() if states is None else states),
        draw(labels),
        limit=draw(rarely(st.none(), st.integers(1, 5))),
    )
    for _ in range(draw(st.integers(0, 10))):
        verb = draw(st.sampled_from(_TIMELINE_VERBS))
        if verb == "commit":
            old = [moment.state for moment in timeline.moments]
            if states is not None:
                state = draw(states)
            elif draw(st.integers(0, 3)):
                state = _draw_step(draw, timeline.present, old, _plain_messages())
            else:
                state = draw(st.sampled_from(old) | _draw_lifelike())

            group = draw(st.sampled_from([None, "typing", "東京"]))
            timeline = timeline.commit(
                state, draw(labels), group=group, note=draw(_STEP_NOTES)
            )
        elif verb == "goto":
            timeline = timeline.goto(draw(st.sampled_from(timeline.moments)))
        else:
            timeline = _MOVES[verb](timeline)

    return timeline


@once
def timelines(
    *, states: SearchStrategy[Any] | None = None
) -> SearchStrategy[Timeline[Any]]:
    """
    Timelines with a past: branches, moments gone back to, limits that forgot
    some; some unpickled. None has a filter.

    Args:
        states: What is committed; without, states of a conversation that grow
            from one another, which is what `aggregators` makes and more.

    Shrink to one moment without a label, and to fewer verbs.
    """
    return _draw_timeline(states)


@once
def moments() -> SearchStrategy[Moment[Any]]:
    """
    Moments of such timelines; shrink to the first of a timeline that has no other.
    """
    made = timelines()
    return made.flatmap(lambda timeline: st.sampled_from(timeline.moments))


@once
def message_trees() -> SearchStrategy[MessageTree]:
    """
    Message trees with siblings, joined messages, and any of them shown; shrink to the
    tree of an empty state.
    """
    from conversation_state.testing.strategies._life import diamonds  # noqa: PLC0415

    joined = diamonds().map(lambda diamond: MessageTree.of(*diamond))
    return (timelines().map(MessageTree.of) | joined).flatmap(_show_any_message)


def _show_any_message(tree: MessageTree) -> SearchStrategy[MessageTree]:
    if not len(tree):
        return st.just(tree)

    ids = [node.id for node in tree.nodes]
    return st.just(tree) | st.sampled_from(ids).map(tree.switch)


# What stores return besides states


_REVISIONS = st.integers(1, 2**32)
_NAMES = texts(min_size=1).filter(lambda name: "\0" not in name)
_DIGESTS = st.binary(min_size=16, max_size=16).map(bytes.hex)


_MS = timedelta(milliseconds=1)
# Whole milliseconds, as stores keep them.
_SAVED_AT = st.integers(0, 2**42).map(
    lambda number: datetime.fromtimestamp(0, UTC) + number * _MS
)


@once
def heads() -> SearchStrategy[Head]:
    """
    Saved states of any name, with labels or without; shrink to the first revision,
    without messages or labels, saved in 1970.
    """
    labels = few(_NAMES, unique=True).map(tuple)
    return st.builds(
        Head,
        _NAMES,
        _REVISIONS,
        uuids(),
        COUNTS,
        COUNTS,
        _DIGESTS,
        labels,
        _SAVED_AT,
        st.none() | _REVISIONS,
        few_fields(texts(), texts()).map(FrozenMap),
    )


@once
def windows() -> SearchStrategy[Window]:
    """The newest messages of saved states; shrink to all of a state without any."""

    def window(head: Head, newest: list[Entry], start: int) -> Window:
        return Window(head._replace(length=start + len(newest)), start, Log(newest))

    newest = few(entries())
    return st.builds(window, heads(), newest, COUNTS)


@once
def receipts() -> SearchStrategy[Receipt]:
    """
    Erasures of any entry, the first or once more; shrink to one that found nothing left
    to do.
    """
    ids = texts(min_size=1)
    counts = (COUNTS, COUNTS)
    return st.builds(Receipt, ids, _NAMES, _DIGESTS, _SAVED_AT, *counts)
