"""Message trees: siblings, the message that is shown, and the way to it."""

import pickle
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from conversation_state import Aggregator, Timeline, Usage, decode, encode
from conversation_state.codec import from_data, to_data
from conversation_state.errors import DecodeError
from conversation_state.testing.laws import message_trees_add_up
from conversation_state.testing.strategies import timelines
from conversation_state.tree import MessageTree
from tests.processes import count_calls
from tests.states import rebuild_state

ASKED = Aggregator.new().add_user_prompt("Where to?")
SEA = ASKED.add_assistant_message("To the sea.").add_usage(Usage(10))
HILLS = SEA.before(SEA.entries[-1].id).add_assistant_message("Uphill.")
# What type checkers refuse is given, too.
Tree: Any = MessageTree


def texts(state):
    return [message.text for message in state]


def last(state):
    return state.entries[-1].id


class TestOf:
    """Trees of states and timelines."""

    def test_siblings(self):
        """A regenerated answer is a sibling of the first one."""
        tree = MessageTree.of(SEA, HILLS)

        assert (1, (last(SEA), last(HILLS))) == tree.siblings(last(HILLS))
        assert (0, (last(ASKED),)) == tree.siblings(last(ASKED))
        assert last(HILLS) == tree.head
        assert (last(SEA), last(HILLS)) == tree.leaves
        assert 3 == len(tree)

    def test_of_a_timeline(self):
        """All moments of a timeline; the present one is shown."""
        timeline = Timeline.begin(ASKED).commit(SEA).undo().commit(HILLS).goto(1)
        tree = MessageTree.of(timeline)

        assert MessageTree.of(ASKED, SEA, HILLS, SEA) == tree
        assert ["Where to?", "To the sea."] == texts(tree.present)

    def test_nothing(self):
        """A conversation begins without messages."""
        tree = MessageTree.of(Aggregator.new())

        assert tree.head is None
        assert () == tree.nodes
        assert () == tree.leaves
        assert [] == texts(tree.present)
        assert tree

    @pytest.mark.parametrize(
        ("given", "error", "problem"),
        [
            ([], ValueError, "at least one state"),
            ([ASKED, "chat"], TypeError, "made of Aggregators and Timelines"),
            ([Timeline.begin("a")], TypeError, "made of Aggregators and Timelines"),
        ],
    )
    def test_something_else(self, given, error, problem):
        """What is not a state is refused."""
        with pytest.raises(error, match=problem):
            Tree.of(*given)

    @given(timelines())
    def test_any_timeline(self, timeline):
        """Whatever a timeline holds."""
        tree = MessageTree.of(timeline)

        message_trees_add_up(tree)
        assert list(timeline.present) == list(tree.present)


class TestMoving:
    """Another way is shown."""

    def test_switch(self):
        """Down to the newest message behind the one that is asked for."""
        booked = SEA.add_user_prompt("Book it.").add_assistant_message("Booked.")
        tree = MessageTree.of(booked, HILLS)
        other = tree.switch(last(SEA))

        assert last(booked) == other.head
        assert texts(booked) == texts(other.present)
        assert last(HILLS) == tree.head
        assert other.switch(last(ASKED)).head == last(HILLS)
        assert other.switch(last(booked)) is other

    def test_switch_after_a_join(self):
        """
        The way that is shown leads through the message that is asked for, where
        what stands behind it here has another past.
        """
        added = ASKED.fork().add_user_prompt("In May.")
        sea, hills = SEA.join(added), HILLS.join(added)
        tree = MessageTree.of(sea, hills.add_assistant_message("It may rain."))
        switched = tree.switch(last(SEA))

        assert texts(sea) == texts(switched.present)
        assert last(added) == switched.head
        assert switched.switch(last(SEA)) is switched

        same_head = MessageTree.of(sea, hills)

        assert texts(sea) == texts(same_head.switch(last(SEA)).present)
        assert texts(HILLS) == texts(same_head.switch(last(HILLS)).present)

    def test_joined_again(self):
        """A joined state that is there already changes nothing, in which order ever."""
        other = ASKED.fork().add_assistant_message("Uphill.")
        one, two = SEA.join(other), other.join(SEA)
        tree = MessageTree.of(one, two)

        assert texts(one) != texts(two)
        assert tree.add(two) is tree
        assert (one, two) == tuple(tree.add(one).states)
        assert texts(one) == texts(decode(encode(tree.add(one))).present)

    @pytest.mark.parametrize("verb", ["switch", "path", "siblings", "node"])
    def test_unknown(self, verb):
        """An entry that the tree does not have is refused."""
        with pytest.raises(LookupError, match="this tree has no entry 'nothing'"):
            getattr(MessageTree.of(SEA), verb)("nothing")
        with pytest.raises(LookupError, match=r"this tree has no entry \[1\]"):
            getattr(MessageTree.of(SEA), verb)([1])

    def test_switch_to_none(self):
        """The state before the first message is on every way, so None is refused."""
        with pytest.raises(LookupError, match="this tree has no entry None"):
            MessageTree.of(SEA).switch(None)  # type: ignore[arg-type]


class TestBill:
    """Every way has the whole bill."""

    def test_of_the_whole_tree(self):
        """What an abandoned answer cost is in the ledger of the other one."""
        hills = ASKED.add_assistant_message("Uphill.").add_usage(Usage(5))
        tree = MessageTree.of(SEA, hills)

        assert Usage(15) == tree.total_usage
        for leaf in tree.leaves:
            assert Usage(15) == tree.path(leaf).total_usage

        assert Usage(15) == tree.path(None).total_usage

    def test_one_key_with_two_usages(self):
        """Each state keeps its own usage under a key, and has all the others."""
        one = ASKED.add_usage(Usage(1), key="request 1").add_user_prompt("a")
        two = ASKED.add_usage(Usage(2), key="request 1").add_user_prompt("b")
        tree = MessageTree.of(SEA, one, two)

        message_trees_add_up(tree)
        assert Usage(11) == tree.path(last(one)).total_usage
        assert Usage(12) == tree.path(last(two)).total_usage

    @pytest.mark.parametrize("is_branch", [False, True])
    def test_usage_costs_what_is_new(self, is_branch):
        """
        Adding a state that brings nothing but usage does not read the ledgers of
        the states that are there.
        """
        counts = []
        for size in (64, 1_024):
            timeline = Timeline.begin(ASKED.add_usage(Usage(1)))
            for _ in range(size):
                timeline = timeline.commit(timeline.present.add_usage(Usage(1)))

            tree = MessageTree.of(timeline)
            state = ASKED.add_usage(Usage(1)) if is_branch else timeline.present
            counts.append(count_calls(partial(tree.add, state.add_usage(Usage(1)))))

        assert counts[1] < 2 * counts[0]


class TestValue:
    """Trees are values."""

    def test_equality(self):
        """Equal by messages, places, what is shown, and the ledger."""
        tree = MessageTree.of(SEA, HILLS)

        assert MessageTree.of(SEA, HILLS) == tree
        assert hash(MessageTree.of(SEA, HILLS)) == hash(tree)
        assert tree.switch(last(SEA)) != tree
        assert MessageTree.of(HILLS, SEA) != tree.switch(last(SEA))
        assert tree != "tree"

        forked = SEA.fork()
        assert MessageTree.of(SEA, forked).head == MessageTree.of(forked, SEA).head
        assert MessageTree.of(SEA, forked) != MessageTree.of(forked, SEA)
        assert pickle.loads(pickle.dumps(tree)) == tree

    def test_written_again(self):
        """
        What was read is written as it was, also if what is shown is a copy of a state
        that is there.
        """
        for state in (Aggregator.new(), SEA):
            copy = pickle.loads(pickle.dumps(state))
            written = encode(MessageTree.of(state, state.fork(), copy))

            assert encode(decode(written)) == written

    def test_states_of_something_else(self):
        """A tree is of states of a conversation."""
        data = to_data(MessageTree.of(SEA))
        data["states"] = [{"json": 1}]
        data["moments"] = [{"state": 0}]

        with pytest.raises(DecodeError, match=r"moments\[0\].*no state of a conv"):
            from_data(data)

    def test_costs_what_is_new(self):
        """Adding a state looks at its new messages, not at its past."""
        counts = []
        for size in (100, 10_000):
            state = Aggregator.new().extend([SEA[0]] * size)
            tree = MessageTree.of(state)
            counts.append(count_calls(partial(tree.add, state.add_user_prompt("more"))))

        assert counts[1] < 2 * counts[0]

    def test_copy_that_differs_in_the_middle(self):
        """
        A state read again that differs in one message is compared once with those
        that are there, not once for each of its messages.
        """
        counts = []
        for size in (64, 1_024):
            timeline = Timeline.begin(ASKED)
            for _ in range(size):
                timeline = timeline.commit(timeline.present.add_user_prompt("And?"))

            tree = MessageTree.of(timeline)
            copy = change_message(timeline.present, size // 2)
            counts.append(count_calls(partial(tree.add, copy)) / size)
            assert size + 1 == len(tree.add(copy))

        assert counts[1] < 2 * counts[0]


def change_message(state: Aggregator, at: int) -> Aggregator:
    """A copy of *state* that shares nothing with it and has another message at *at*."""
    state = pickle.loads(pickle.dumps(state))
    entries = list(state.entries)
    entries[at] = entries[at]._replace(message=ASKED[0])
    return rebuild_state(state, entries=entries)
