"""
The laws of this library hold for every value that its strategies make; the strategies
make what is documented; and the laws notice when they are broken.
"""

from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.chunks import concat
from conversation_state.counting import TokenBudget
from conversation_state.errors import ConcatError
from conversation_state.testing import laws
from conversation_state.testing._comparison import unpickled
from conversation_state.testing.strategies import (
    aggregators,
    checkpoints,
    messages,
    states,
    timelines,
    turns,
)
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.trimming import TrimContext
from tests.states import rebuild_state

# Three states of one timeline.
RELATIVES = timelines().flatmap(
    lambda timeline: st.tuples(
        *[st.sampled_from([moment.state for moment in timeline.moments])] * 3
    )
)


class TestStates:
    """What holds for every state; see `test_aggregator_machine.py` for the verbs."""

    @given(aggregators() | states())
    def test_adds_up(self, state):
        """All ways to ask a state agree."""
        laws.states_add_up(state)

    @given(RELATIVES | st.tuples(*[aggregators() | states()] * 3))
    def test_joins(self, states):
        """
        Joining is the ordered union, idempotent, associative, and counts usage once: of
        states that grew from one, and of strangers.
        """
        a, b, c = states

        laws.join_keeps_both_orders(a, b)
        laws.join_is_idempotent(a, b)
        laws.join_is_associative(a, b, c)
        laws.join_counts_usage_once(a, b, c)
        laws.turns_bring_what_was_added(a, b)
        laws.equal_values_hash_alike(a.turn, b.turn)

    @given(aggregators() | states() | turns() | checkpoints())
    def test_copies(self, value):
        """States, turns and checkpoints survive copying and pickling."""
        laws.copies_are_equal(value)


class TestMessages:
    """What holds for every message."""

    @given(messages())
    def test_replace(self, message):
        """Replacing nothing changes nothing."""
        laws.replacing_nothing_changes_nothing(message)
        laws.copies_are_equal(message)


class Liar:
    """Something that breaks laws."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    def __hash__(self) -> int:
        return 7


class ByAddress:
    """Something equal to its copies, whose hashes are others."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByAddress)

    __hash__ = object.__hash__


STATE = Aggregator.new(messages=[UserMessage("a")]).add_usage(Usage(1))
OTHER = STATE.fork().add_user_prompt("b").add_usage(Usage(2))


CALL = AssistantMessage(tool_calls=[ToolCall("c", "f")])
ANSWERED = STATE.extend([CALL, ToolMessage("d", tool_call_id="c"), UserMessage("e")])
FIRST, CALLED, RESULT, _ = [entry.id for entry in ANSWERED.entries]
JOIN, REPLACE = Aggregator.join, Aggregator.replace_message
WITHOUT = Aggregator.without


def join_twice(state, *others):
    for one in others:
        state = state.extend(one)

    return state


def join_nothing(state, *_others):
    return state


def join_always(state, *others):
    """Makes another state, if one of equal content."""
    return unpickled(JOIN(state, *others))


def join_again(state, *others):
    """Does so, but of a state and itself."""
    is_known = all(one is state for one in others)
    return state if is_known else join_always(state, *others)


def join_copies_again(state, *others):
    """Makes another state of copies of what it has."""
    joined = JOIN(state, *others)
    known = {id(message) for message in state}
    is_known = all(id(one.message) in known for it in others for one in it.entries)
    return joined if joined is not state or is_known else unpickled(joined)


def join_always_to_forks(state, *others):
    return join_always(state, *others) if state.parent_id else JOIN(state, *others)


def join_in_front(state, *others):
    joined = JOIN(state, *others)
    new = list(joined.entries)[len(state) :]
    return rebuild_state(joined, entries=[*new, *state.entries])


def fork_nothing(state, *, at=0):
    return Aggregator.new(messages=state)


def extend_in_place(state, _messages):
    longer = state.add_user_prompt("more")
    object.__setattr__(state, "_log", longer._log)
    return longer


def replace_always(*arguments):
    """Makes another state, if one of equal content."""
    return unpickled(REPLACE(*arguments))


def replace_in_place(state, entry_id, message):
    entries = [
        entry._replace(message=message) if entry.id == entry_id else entry
        for entry in state.entries
    ]
    return rebuild_state(state, entries=entries)


def leave_out_alone(state, entry_ids):
    """Leaves a result without its call, and a call without its result."""
    entries = [entry for entry in state.entries if entry.id not in entry_ids]
    return rebuild_state(state, entries=entries, init_len=0)


def then_change(verb, change):
    """*verb*, and then a change of the list of entries."""

    def changed(state, *arguments):
        made = verb(state, *arguments)
        return rebuild_state(made, entries=change(list(made.entries)), init_len=0)

    return changed


def then_bill(verb):
    """*verb*, and then a usage more."""
    return lambda *arguments: verb(*arguments).add_usage(Usage(1))


def drop_results(entries):
    return [entry for entry in entries if entry.message.role != "tool"]


def turn_rest_round(entries):
    return [entries[0], *entries[:0:-1]]


PAIR = (STATE, OTHER)
SAME_CALL = (ANSWERED, CALLED, CALL.replace(content="f"))
OTHER_START = (ANSWERED, FIRST, UserMessage("f"))
Lies: TypeAlias = dict[Any, list[tuple[str, Any, tuple[Any, ...], str]]]
# Of each law, the verbs that may lie: how, for which values, and what it says.
OF_STATES: Lies = {
    laws.states_add_up: [
        ("init_len", 5, (STATE,), "forked outside"),
        ("total_usage", Usage(9), (STATE,), "is no sum"),
    ],
    laws.forks_inherit: [
        ("fork", fork_nothing, (STATE,), "not the first 1"),
        ("join", join_always_to_forks, (STATE,), "a parent that moved nowhere"),
    ],
    laws.join_is_idempotent: [
        ("join", join_twice, PAIR, "something to itself"),
        ("join", join_again, PAIR, "a branch brought something"),
    ],
    laws.join_is_associative: [("join", join_twice, (STATE, OTHER, OTHER), "is not")],
    laws.join_keeps_both_orders: [
        ("join", join_nothing, PAIR, "ordered union"),
        ("join", join_in_front, PAIR, "ordered union"),
        ("join", join_always, (OTHER, STATE), "a needless state"),
        ("total_usage", Usage(9), PAIR, "is no sum"),
    ],
    laws.join_counts_usage_once: [("join", join_nothing, PAIR, "^joined Usage")],
    laws.turns_bring_what_was_added: [
        ("join", join_twice, PAIR, "something else"),
        ("join", join_in_front, PAIR, "ordered union"),
        ("join", join_again, PAIR, "a branch brought something"),
        ("join", join_copies_again, PAIR, "something again, shipped"),
    ],
    laws.checkpoints_restore: [
        ("total_usage", Usage(9), (STATE, []), "is no sum"),
        ("extend", extend_in_place, (STATE.fork(), []), "was changed"),
    ],
    laws.replacing_keeps_what_follows: [
        (
            *("replace_message", replace_always),
            *((ANSWERED, CALLED, CALL), "nothing was replaced"),
        ),
        ("replace_message", lambda a, *_: a, OTHER_START, "another message"),
        ("replace_message", replace_in_place, OTHER_START, "no identity"),
        (
            *("replace_message", then_change(REPLACE, drop_results)),
            *(SAME_CALL, "others went"),
        ),
        (
            *("replace_message", then_change(REPLACE, lambda some: some[1:])),
            *(SAME_CALL, "the past changed"),
        ),
        (
            *("replace_message", then_change(REPLACE, turn_rest_round)),
            *(OTHER_START, "reordered"),
        ),
        ("replace_message", then_bill(REPLACE), OTHER_START, "another bill"),
        ("join", join_in_front, OTHER_START, "a join reorders"),
        ("join", join_nothing, OTHER_START, "a join loses messages"),
    ],
    laws.leaving_out_keeps_the_rest: [
        ("without", lambda a, _: unpickled(a), (ANSWERED, []), "nothing was left out"),
        ("without", lambda a, _: a, (ANSWERED, [CALLED]), "is still there"),
        (
            *("without", then_change(WITHOUT, lambda some: some[::-1])),
            *((ANSWERED, [CALLED]), "in another order"),
        ),
        (
            *("without", then_change(WITHOUT, lambda some: some[1:])),
            *((ANSWERED, [CALLED]), "what has no call went"),
        ),
        ("without", then_bill(WITHOUT), (ANSWERED, [CALLED]), "another bill"),
        ("without", leave_out_alone, (ANSWERED, [CALLED]), "lost its result"),
        ("without", leave_out_alone, (ANSWERED, [RESULT]), "lost its result"),
    ],
}

FIRST_OF_TWO = Timeline.begin("a")
LAST = FIRST_OF_TWO.commit("b").commit("c")
MIDDLE = LAST.undo()
A, B, C = LAST.moments
COMMIT, GOTO = Timeline.commit, Timeline.goto

OF_TIMELINES: Lies = {
    laws.timelines_add_up: [
        ("moments", [A, C], (LAST,), "numbers have gaps"),
        ("moments", [A, attrs.evolve(B, parent=None), C], (LAST,), "another first"),
        ("moments", [A, attrs.evolve(B, parent=1), C], (LAST,), "a parent came later"),
        ("moment", attrs.evolve(C), (LAST,), "the present is not kept"),
        ("present", "d", (LAST,), "the present state is another"),
        ("limit", 1, (LAST,), "kept too many"),
        ("path", (A, B), (LAST,), "the path leads elsewhere"),
        ("path", (B, C), (LAST,), "the path begins too late"),
        ("path", (A, C), (LAST,), "the path leaves the tree"),
        ("redo", lambda it: it, (LAST,), "redo goes elsewhere"),
        ("tips", (), (LAST,), "the tips are others"),
        ("children", lambda _: (), (MIDDLE,), "the children are others"),
        ("can_redo", False, (MIDDLE,), "redo does not say"),
        ("can_undo", False, (MIDDLE,), "undo does not say"),
    ],
    laws.undo_then_redo_is_the_identity: [
        ("undo", unpickled, (FIRST_OF_TWO,), "undid what is not there"),
        ("undo", lambda it: it, (MIDDLE,), "undid something else"),
        ("redo", lambda it: it, (MIDDLE,), "redoes something else"),
    ],
    laws.redo_then_undo_is_the_identity: [
        ("redo", unpickled, (LAST,), "redid what is not there"),
        ("redo", lambda it: it, (MIDDLE,), "redid something else"),
        ("undo", lambda it: it, (MIDDLE,), "undoes something else"),
    ],
    laws.nothing_committed_is_lost: [
        ("limit", 3, (LAST, "d"), "a limit is for losing something"),
        ("commit", lambda _, state, __: Timeline.begin(state), (LAST, "d"), "is lost"),
        ("commit", lambda it, *_: COMMIT(it, "e"), (LAST, "d"), "something else was"),
        ("goto", lambda it, _: it, (LAST, "d"), "can't go back"),
    ],
    laws.goto_changes_no_moments: [
        ("goto", lambda it, _: it, (LAST, 0), "went elsewhere"),
        (
            *("goto", lambda it, to: GOTO(COMMIT(it, "d"), to)),
            *((LAST, 0), "changes what is kept"),
        ),
        ("goto", lambda it, _: GOTO(it, 0), (LAST, 0), "came back to something else"),
    ],
}

FORKS = tuple([STATE.fork().add_user_prompt(each) for each in "xy"])
TREE = MessageTree.of(*FORKS)
ROOT_ID = TREE.nodes[0].id
ADD, PATH, SIBLINGS = MessageTree.add, MessageTree.path, MessageTree.siblings
UNHEARD = UserMessage("z")

OF_TREES: Lies = {
    laws.message_trees_add_up: [
        ("nodes", TREE.nodes[::-1], (TREE,), "a parent came later"),
        ("siblings", lambda _, id_: (1, ("", id_)), (TREE,), "other siblings"),
        ("siblings", lambda _, id_: (0, (id_, id_)), (TREE,), "a sibling twice"),
        ("siblings", lambda *it: (0, SIBLINGS(*it)[1]), (TREE,), "another position"),
        ("path", lambda *_: STATE, (TREE,), "a path leads elsewhere"),
        (
            *("path", lambda *it: replace_in_place(PATH(*it), it[1], UNHEARD)),
            *((TREE,), "another message"),
        ),
        ("path", then_bill(PATH), (TREE,), "another bill"),
        ("switch", lambda it, _: it, (TREE,), "it is not shown"),
        ("head", None, (TREE,), "no head"),
        ("head", ROOT_ID, (TREE,), "the head is not last"),
        ("head", "z", (MessageTree.of(STATE.fork(at=0)),), "a head without messages"),
        ("leaves", (), (TREE,), "other leaves"),
        ("__len__", lambda _: 9, (TREE,), "a message twice"),
    ],
    laws.paths_lead_to_states: [
        ("leaves", (), FORKS, "other leaves"),
        ("joined", {"z": ()}, FORKS, "an entry stands behind several"),
        (
            "add",
            lambda it, *some: it if len(it) else ADD(it, *some),
            FORKS,
            "not shown",
        ),
    ],
}

VIEW = TrimContext.of(ANSWERED).remove([0])
HEAVIER = [one._replace(tokens=9) for one in VIEW.elements]

OF_VIEWS: Lies = {
    laws.views_add_up: [
        ("messages", (), (VIEW,), "other messages"),
        ("__len__", lambda _: 9, (VIEW,), "another size"),
        ("elements", HEAVIER, (VIEW,), "elements weighed otherwise"),
        ("total_tokens", 0, (VIEW,), "another total"),
        ("dropped", [*VIEW.dropped] * 2, (VIEW,), "dropped twice, or out of order"),
        ("dropped", (), (VIEW,), "not all accounted for"),
    ],
}


def refuse(_chunks):
    raise ConcatError("not now")


def concat_two(chunks):
    return concat(chunks[:2])


PIECES = [AssistantMessage(each) for each in "abc"]
OF_FUNCTIONS: Lies = {
    laws.concat_of_one_is_itself: [
        ("concat", refuse, (PIECES[0],), "is refused, though it is whole"),
        ("concat", lambda some: concat([*some, *PIECES]), (PIECES[0],), "changes it"),
        ("concat", lambda _: PIECES[1], (PIECES[0],), "gives"),
    ],
    laws.concat_is_associative: [
        ("concat", concat_two, (PIECES, 1), "joining from 1 on"),
        ("concat", concat_two, (PIECES, 2), "joining the first 2"),
    ],
    laws.accumulators_concat: [("concat", concat_two, (PIECES,), "after 3")],
}


class TestLaws:
    """A broken law raises an error that names it."""

    @pytest.mark.parametrize(
        ("law", "arguments", "message"),
        [
            (laws.adding_is_a_commutative_monoid, "abc", "depends on the order"),
            (laws.larger_is_a_semilattice, (1, 1, 4), "is not the larger"),
            (laws.adding_is_a_commutative_monoid, (0.1, 0.2, 0.3), "on the grouping"),
            (laws.equal_values_hash_alike, (Liar(), 5), "is not equal to itself"),
            (laws.equal_values_hash_alike, (5, Liar()), "are equal, their hashes"),
            (laws.copies_are_equal, (Liar(),), "a copy of .* is <"),
            (laws.copies_are_equal, (ByAddress(),), "has another hash"),
        ],
    )
    def test_of_values(self, law, arguments, message):
        """Of values that are none of ours."""
        with pytest.raises(AssertionError, match=message):
            law(*arguments)

    @pytest.mark.parametrize(
        ("owner", "law", "lie"),
        [
            (owner, law, lie)
            for owner, told in {
                Aggregator: OF_STATES,
                Timeline: OF_TIMELINES,
                MessageTree: OF_TREES,
                TrimContext: OF_VIEWS,
                laws: OF_FUNCTIONS,
            }.items()
            for law, lies in told.items()
            for lie in lies
        ],
    )
    def test_of_ours(self, monkeypatch, owner, law, lie):
        """Of states, timelines, trees and views whose verbs lie."""
        verb, told, arguments, message = lie
        monkeypatch.setattr(owner, verb, told)
        with pytest.raises(AssertionError, match=message):
            law(*arguments)

    @pytest.mark.parametrize(
        ("view", "message"),
        [
            (TrimContext.of(ANSWERED, TokenBudget(context_window=1)), "over budget"),
            (TrimContext.of(ANSWERED).remove([3]), "lost the newest"),
            (TrimContext.of(ANSWERED).remove([2]), "not valid"),
            (TrimContext.of([UNHEARD, ANSWERED[-1]]), "out of order"),
        ],
    )
    def test_of_fit(self, view, message):
        """Of views that show what they may not."""
        with pytest.raises(AssertionError, match=message):
            laws.views_fit(TrimContext.of(ANSWERED), view)

    def test_unchanged(self, monkeypatch):
        """A state that changes is noticed."""
        state = Aggregator.new(messages=[UserMessage("a")])
        with (
            pytest.raises(AssertionError, match="was changed"),
            laws.unchanged(state),
        ):
            monkeypatch.setattr(state, "_log", state.add_user_prompt("b")._log)

    def test_unchanged_but_for_its_objects(self, monkeypatch):
        """So is one that holds equal messages, but other objects."""
        state = Aggregator.new(messages=[UserMessage("a")])
        with (
            pytest.raises(AssertionError, match="holds other objects"),
            laws.unchanged(state),
        ):
            monkeypatch.setattr(state, "_log", unpickled(state)._log)

    def test_unchanged_timelines(self, monkeypatch):
        """So is a timeline that changes."""
        timeline = Timeline.begin("a")
        with (
            pytest.raises(AssertionError, match="was changed"),
            laws.unchanged(timeline),
        ):
            monkeypatch.setattr(Timeline, "limit", 1)

    def test_ids_used_again(self):
        """A call whose id is used again is not reported to have lost its result."""
        twice = AssistantMessage(tool_calls=[ToolCall("a", "f"), ToolCall("b", "f")])
        state = Aggregator.new().add(twice).add(twice)

        laws.leaving_out_keeps_the_rest(state, [state.entries[0].id])
