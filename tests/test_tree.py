"""Message trees: siblings, the message that is shown, and the way to it."""

import pickle
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Timeline,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    decode,
    encode,
)
from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.codec import from_data, to_data
from conversation_state.errors import DecodeError
from conversation_state.messages import ResponseMeta, UnknownMessage
from conversation_state.parts import ReasoningPart
from conversation_state.testing.laws import message_trees_add_up
from conversation_state.testing.strategies import timelines
from conversation_state.tree import MessageTree, name, ui_id_of
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


def moments(state):
    """A tree of each state that *state* was, and of itself."""
    past = [state.before(entry.id) for entry in state.entries]
    return [*map(MessageTree.of, [*past, state])]


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

    def test_without_of(self):
        """A tree is made of states only."""
        with pytest.raises(TypeError, match=r"MessageTree\.of\(\*states\)"):
            MessageTree()

    @given(timelines())
    def test_any_timeline(self, timeline):
        """Whatever a timeline holds."""
        tree = MessageTree.of(timeline)

        message_trees_add_up(tree)
        assert list(timeline.present) == list(tree.present)


class TestMoving:
    """Another way is shown."""

    def test_switch(self):
        """Down to the message behind it that was shown last, or else the newest."""
        booked = SEA.add_user_prompt("Book it.").add_assistant_message("Booked.")
        tree = MessageTree.of(booked, HILLS)
        other = tree.switch(last(SEA))

        assert last(booked) == other.head
        assert texts(booked) == texts(other.present)
        assert last(HILLS) == tree.head
        assert other.switch(last(ASKED)) is other
        assert tree.switch(last(ASKED)) is tree
        assert other.switch(last(booked)) is other

    def test_way_to_the_head(self):
        """The way to the head is the state that is shown, though others have it."""
        fork = SEA.fork()
        tree = MessageTree.of(SEA, fork)

        assert fork.id == tree.path(tree.head).id == tree.present.id

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
        assert texts(hills) == texts(same_head.switch(last(HILLS)).present)

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


class TestVisited:
    """A switch remembers which child was shown last."""

    def test_flips(self):
        """Away and back again is where one was, also after a copy."""
        on_sea = SEA.add_user_prompt("When?")
        again = SEA.add_user_prompt("How?")
        tree = MessageTree.of(on_sea, again, HILLS).switch(last(on_sea))
        away = tree.switch(last(HILLS))

        assert last(on_sea) == away.switch(last(SEA)).head
        for copy in (pickle.loads(pickle.dumps(away)), decode(encode(away))):
            assert away == copy
            assert last(on_sea) == copy.switch(last(SEA)).head

        assert MessageTree.of(on_sea, again, HILLS) != away

    def test_stays(self):
        """What comes while another is shown is not shown by a switch."""
        chat = Timeline.begin(ASKED).commit(SEA)
        tree = MessageTree.of(chat)
        chat = chat.commit(HILLS, on=0, stay=True)

        assert last(SEA) == tree.follow(chat).switch(last(ASKED)).head

    def test_damaged(self):
        """Pairs that don't fit a tree change nothing; an odd number is a problem."""
        data = to_data(MessageTree.of(SEA, HILLS).switch(last(SEA)))

        assert [1, 2] == data["visited"]
        assert from_data({**data, "visited": [9, 7, 1, 9]}) == MessageTree.of(
            SEA, HILLS
        ).switch(last(SEA))
        with pytest.raises(DecodeError, match=r"visited: an odd number"):
            from_data({**data, "visited": [1]})


class TestNames:
    """The ids that interfaces know messages by."""

    def test_one_message(self):
        """Pieces of one answer are one message, the newest of which stands."""
        sea, hills = (
            ASKED.add(name(AssistantMessage(text), "a1")) for text in ("To", "To the")
        )
        tree = MessageTree.of(sea, hills)

        assert ["Where to?", "To the"] == [node.message.text for node in tree]
        assert (0, (last(hills),)) == tree.siblings(tree.find("a1"))
        assert last(sea) not in tree
        assert texts(hills) == texts(tree.path(tree.find("a1")))
        assert 2 == len(decode(encode(tree)))

    def test_pieces_of_calls_that_come_late(self):
        """A piece of a call never stands for the whole one."""
        piece, whole = [
            AssistantMessage("To", tool_calls=(ToolCall("c1", "f", text),))
            for text in ('{"a', '{"a": 1}')
        ]
        states = [ASKED.add(name(each, "a1")) for each in (whole, piece)]
        assert name(whole, "a1") == [*MessageTree.of(*states)][1].message

    def test_pieces_that_come_late(self):
        """A state that went on from a piece takes nothing from the whole."""
        piece = ASKED.add(name(AssistantMessage("To"), "a1"))
        whole = ASKED.add(name(AssistantMessage("To the sea."), "a1"))
        further = piece.add_user_prompt("?")
        chat = Timeline.begin(piece).commit(further).amend(0, whole)
        for tree in (MessageTree.of(chat), MessageTree.of(whole, further, piece)):
            assert ["Where to?", "To the sea.", "?"] == [
                each.message.text for each in tree
            ]
            assert texts(further) == texts(tree.path(last(further)))
            assert tree == decode(encode(tree))

    @pytest.mark.parametrize(
        ("first", "then"),
        [
            (
                AssistantMessage("To"),
                AssistantMessage("To", response=ResponseMeta(usage=Usage(9, 2))),
            ),
            (
                AssistantMessage((ReasoningPart("Hm"),)),
                AssistantMessage((ReasoningPart("Hm."),)),
            ),
            (
                AssistantMessage((ReasoningPart("Hm."),)),
                AssistantMessage((ReasoningPart("Hm.", signature="c2ln"),)),
            ),
            (
                AssistantMessage(tool_calls=[ToolCall("c1", "f", '{"a')]),
                AssistantMessage(tool_calls=[ToolCall("c1", "f", '{"a": 1}')]),
            ),
            (
                AssistantMessage(tool_calls=[ToolCall("c1", "f", '{"a": 1}')]),
                AssistantMessage(tool_calls=[ToolCall("c2", "f", '{"a')]),
            ),
        ],
        ids=[
            *("its tokens are counted", "a thought goes on", "a thought is signed"),
            *("arguments go on", "another call"),
        ],
    )
    def test_more_that_is_no_text(self, first, then):
        """Of an answer that goes on without a text, the newer stands."""
        tree = MessageTree.of(*[ASKED.add(name(each, "a1")) for each in (first, then)])
        assert [name(then, "a1")] == [each.message for each in tree][1:]

    def test_what_follows(self):
        """What stands behind a piece stands behind the whole."""
        piece = ASKED.add(name(AssistantMessage("To"), "a1")).add_user_prompt("?")
        whole = piece.replace_message(
            piece.entries[1].id, name(AssistantMessage("To the sea."), "a1")
        )
        tree = MessageTree.of(piece, whole)

        assert ["Where to?", "To the sea.", "?"] == [each.message.text for each in tree]
        assert texts(whole) == texts(tree.path(last(whole)))

    def test_what_follows_twice(self):
        """So it does where it stands behind another message, too."""
        sea = SEA.add_user_prompt("?")
        piece = sea.replace_message(last(SEA), name(AssistantMessage("To"), "a1"))
        whole = piece.replace_message(
            piece.entries[1].id, name(AssistantMessage("Uphill."), "a1")
        )
        tree = MessageTree.of(sea, piece, whole)

        assert 5 == len(tree)
        assert texts(whole) == texts(tree.present)
        assert [last(SEA), whole.entries[1].id] == list(tree.siblings(last(SEA))[1])

    def test_find(self):
        """A name, or else the entry's identity; in O(1)."""
        state = ASKED.add(name(AssistantMessage("Uphill."), "a1"))
        tree = MessageTree.of(state)

        assert "a1" == ui_id_of(state.entries[1])
        assert last(state) == tree.find("a1") == tree.find(last(state))
        assert last(ASKED) == ui_id_of(ASKED.entries[0]) == tree.find(last(ASKED))
        for unknown in ("a2", "", None, [1]):
            with pytest.raises(LookupError, match="this tree has no entry"):
                tree.find(unknown)  # type: ignore[arg-type]

    def test_kept(self):
        """A name keeps other metadata, and goes nowhere but to interfaces."""
        message = UserMessage("Hi!", metadata={"lang": "en"})
        named = name(name(message, "old"), "new")

        assert "en" == named.metadata["lang"]
        assert "new" == ui_id_of(Aggregator.new([named]).entries[0])
        for adapter in (openai_chat, openai_responses, anthropic, gemini):
            assert adapter.dump([message]) == adapter.dump([named])

    @pytest.mark.parametrize("wrong", ["", 5, None])
    def test_refused(self, wrong):
        """An id is a text."""
        with pytest.raises(ValueError, match=r"ui_id is .*; expected a text"):
            name(UserMessage("Hi!"), wrong)

    @pytest.mark.parametrize(
        "metadata",
        [{"conversation_state": each} for each in (5, {"ui": "x"}, {"ui": {"id": 5}})],
    )
    def test_foreign(self, metadata):
        """What others keep under our key is no name."""
        state = Aggregator.new([UserMessage("Hi!", metadata=metadata)])

        assert last(state) == ui_id_of(state.entries[0])
        assert "a" == ui_id_of(Aggregator.new([name(state[0], "a")]).entries[0])


class TestCopies:
    """An entry that stands behind different ones has a node behind each."""

    def test_replaced(self):
        """Where a message was replaced, what follows stands in both branches."""
        state = SEA.add_user_prompt("When?")
        other = state.replace_message(last(SEA), AssistantMessage("Uphill."))
        tree = MessageTree.of(state, other)
        when = last(state)

        assert 5 == len(tree)
        assert {when: (other.entries[1].id,)} == dict(tree.joined)
        assert f"{when}~2" == tree.head
        assert texts(other) == texts(tree.path(when))
        switched = tree.switch(last(SEA))
        assert when == switched.head
        assert texts(state) == texts(switched.path(when))
        assert texts(other) == texts(switched.path(f"{when}~2"))
        assert [when, f"{when}~2"] == [
            node.id for node in tree.nodes if node.entry.id == when
        ]
        message_trees_add_up(tree)

    def test_left_out(self):
        """Where one was left out, what follows is its sibling."""
        state = SEA.add_user_prompt("When?")
        tree = MessageTree.of(state, state.without([last(SEA)]))

        assert f"{last(state)}~2" == tree.head
        assert (1, (last(SEA), tree.head)) == tree.siblings(tree.head)

    def test_visited_is_kept(self):
        """Where a branch is taken away, the one that was visited is still shown."""
        timeline = Timeline.begin(ASKED)
        for each in (SEA, HILLS, ASKED.add_assistant_message("Home.")):
            timeline = timeline.goto(0).commit(each)

        tree = (
            MessageTree.of(timeline).follow(timeline.goto(1)).follow(timeline.goto(0))
        )
        amended = timeline.goto(0).amend(3, ASKED.add_assistant_message("Away."))
        tree = tree.follow(amended)

        assert texts(SEA) == texts(tree.switch(last(ASKED)).present)

    @pytest.mark.parametrize("gone", [(1, 2), (3, 2), (1, 3)])
    def test_taken_away(self, gone):
        """Of three copies two go with their branches; the last one needs no number."""
        asked = SEA.add_user_prompt("When?")
        when = asked.entries[-1]
        branches = [SEA, HILLS, SEA.replace_message(last(SEA), HILLS[-1])]
        timeline = Timeline.begin(ASKED)
        for each in branches:
            grown = rebuild_state(each, entries=[*each.entries, when])
            timeline = timeline.goto(0).commit(grown)

        tree = MessageTree.of(timeline).follow(timeline)
        for number in gone:
            assert f"{when.id}~1" in tree
            state = ASKED.add_user_prompt(f"Number {number}.")
            timeline = timeline.amend(number, state)
            tree = tree.follow(timeline)
            assert when.id in tree
            message_trees_add_up(tree)

        copies = [node.id for node in tree.nodes if node.entry.id == when.id]
        assert [when.id] == copies
        assert "When?" == texts(tree.path(when.id))[-1]
        assert f"{when.id}~1" not in tree
        assert () == tuple(tree.joined)


class TestFollow:
    """A tree that follows the values of a timeline."""

    def test_amended(self):
        """What was amended away is gone, and leaves no sibling."""
        chat = Timeline.begin(ASKED).commit(SEA)
        tree = MessageTree.of(chat)
        for text in ("To the", "To the hills."):
            chat = chat.amend(1, ASKED.add_assistant_message(text))
            tree = tree.follow(chat)

        assert ["Where to?", "To the hills."] == [node.message.text for node in tree]
        assert last(SEA) not in tree
        assert texts(chat.present) == texts(tree.present)
        assert 2 == len(decode(encode(tree)))
        assert MessageTree.of(chat).leaves == tree.leaves

    def test_amended_before(self):
        """The states behind an amended one stay, in a copy, too."""
        answered = ASKED.add_assistant_message("To the sea.")
        chat = Timeline.begin(ASKED).commit(answered).commit(HILLS, on=0)
        tree = MessageTree.of(chat).follow(chat.amend(0, Aggregator.new()))

        assert answered.entries == tree.path(last(answered)).entries
        assert list_ways(tree) == list_ways(decode(encode(tree)))

    @pytest.mark.parametrize("further", [[], [SEA]], ids=["the last", "one before"])
    def test_bill_of_what_was_amended(self, further):
        """Usage that only an amended state had is on no path."""
        chat = Timeline.begin(Aggregator.new()).commit(ASKED.add_usage(Usage(1)))
        for state in further:
            chat = chat.commit(state)

        tree = MessageTree.of(chat).follow(chat.amend(1, HILLS))

        assert tree.total_usage == tree.path(last(ASKED)).total_usage
        assert MessageTree.of(chat.amend(1, HILLS)).total_usage == tree.total_usage

    def test_order(self):
        """Messages stand in the order of the moments, as in a tree that is loaded."""
        chat = Timeline.begin(ASKED).commit(ASKED, note={}).commit(HILLS, on=0)
        tree = MessageTree.of(chat)
        chat = chat.amend(1, SEA)
        tree = tree.follow(chat)

        assert (1, (last(SEA), last(HILLS))) == tree.siblings(last(HILLS))
        assert MessageTree.of(chat).nodes == tree.nodes
        assert tree == decode(encode(tree))

    def test_shown_last(self):
        """What took the place of a message is shown as that was."""
        chat = Timeline.begin(ASKED).commit(SEA).commit(HILLS, on=0).goto(1).undo()
        tree = MessageTree.of(chat.goto(1)).follow(chat)
        beach = ASKED.add_assistant_message("To the beach.").add_user_prompt("Which?")
        tree = tree.follow(chat.amend(1, beach))

        assert texts(beach) == texts(tree.switch(last(ASKED)).present)

    def test_name_of_two(self):
        """A name that two messages had stays that of the older one."""
        answer = name(AssistantMessage("T"), "a")
        other = Aggregator.new().add_user_prompt("When?").add(answer)
        named = ASKED.add(answer)
        chat = Timeline.begin(ASKED).commit(named).commit(other, on=0)
        tree = MessageTree.of(chat).follow(chat.amend(2, SEA))

        assert last(named) == tree.find("a")

    def test_named(self):
        """A named answer keeps its place among its siblings while it streams."""
        chat = Timeline.begin(ASKED).commit(ASKED.add(name(AssistantMessage("T"), "a")))
        chat = chat.commit(HILLS, on=0)
        tree = MessageTree.of(chat)
        chat = chat.amend(1, ASKED.add(name(AssistantMessage("To"), "a")))
        tree = tree.follow(chat)

        assert (0, (tree.find("a"), last(HILLS))) == tree.siblings(tree.find("a"))

    def test_named_twice(self):
        """A name that two messages have stays that of the newer one."""
        answer = name(AssistantMessage("T"), "a")
        other = Aggregator.new().add_user_prompt("When?").add(answer)
        chat = Timeline.begin(ASKED).commit(ASKED.add(answer)).commit(other, on=0)
        tree = MessageTree.of(chat).follow(chat.amend(1, SEA))

        assert last(other) == tree.find("a")

    def test_moves(self):
        """Undo and redo show another way, and change nothing else."""
        chat = Timeline.begin(ASKED).commit(SEA)
        tree = MessageTree.of(chat)
        undone = tree.follow(chat.undo())

        assert last(ASKED) == undone.head
        assert 2 == len(undone)
        assert undone.follow(chat) == tree
        assert tree.follow(chat) is tree

    def test_refused(self):
        """What is no timeline of states is refused."""
        with pytest.raises(TypeError, match="follow takes a Timeline"):
            MessageTree.of(SEA).follow(SEA)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="made of Aggregators"):
            MessageTree.of(SEA).follow(Timeline.begin(5))  # type: ignore[arg-type]

    @settings(max_examples=25)
    @given(timelines(), st.data())
    def test_any(self, timeline, data):
        """
        After any further steps it has what a tree of the whole timeline has, and
        shows what that shows.
        """
        tree = MessageTree.of(timeline)
        for _ in range(data.draw(st.integers(1, 6))):
            timeline = data.draw(one_step(timeline))
            tree = tree.follow(timeline)
            whole = MessageTree.of(timeline)

            assert list(timeline.present) == list(tree.present)
            assert list_ways(whole) <= list_ways(tree)
            if timeline.limit is None:
                assert whole.nodes == tree.nodes
                assert whole.total_usage == tree.total_usage

            copy = decode(encode(tree))
            assert copy == tree
            assert encode(copy) == encode(tree)

        message_trees_add_up(tree)


def list_ways(tree):
    """The identities of the entries from the first to each message."""
    ways: dict[str | None, tuple[str, ...]] = {None: ()}
    for node in tree.nodes:
        ways[node.id] = (*ways[node.parent], node.entry.id)

    return {*ways.values()}


def one_step(timeline):
    """*timeline*, moved, amended or extended."""
    present = timeline.present
    answer = st.sampled_from(["a", "b"]).map(present.add_assistant_message)
    moments = st.sampled_from(timeline.moments)
    return st.one_of(
        answer.map(timeline.commit),
        st.tuples(moments, answer).map(lambda given: timeline.amend(*given)),
        moments.map(timeline.goto),
        st.tuples(answer, moments).map(
            lambda given: timeline.commit(given[0], on=given[1], stay=True)
        ),
    )


class TestDrawing:
    """What an interface has to draw, and what its acts are about."""

    CALL = ToolCall("c1", "trains", "{}")
    START = ASKED.add(AssistantMessage(tool_calls=[CALL]))
    RESULT = START.add(ToolMessage("9:04", tool_call_id="c1"))
    WHOLE = RESULT.add_assistant_message("At 9:04.")

    def test_everything(self):
        """For an interface that shows nothing, all is new."""
        tree = MessageTree.of(self.WHOLE)

        assert (None, tuple(self.WHOLE.entries)) == tree.news(None)

    def test_an_answer_is_one_message(self):
        """A call, its result and what follows are drawn together, and named once."""
        first, call, *_ = self.WHOLE.entries
        before, after = MessageTree.of(self.START), MessageTree.of(self.WHOLE)
        asked = after.add(self.WHOLE.add_user_prompt("And back?"))

        assert (first.id, tuple(self.WHOLE.entries[1:])) == after.news(before)
        assert (first.id, (call,)) == before.news(after)
        assert (call.id, tuple(asked.shown.entries[4:])) == asked.news(after)
        assert (call.id, ()) == after.news(asked)
        assert (call.id, ()) == after.news(after)

    @pytest.mark.parametrize("at", range(5))
    def test_what_is_not_shown(self, at):
        """
        A message of an unknown role parts no answer and names nothing; and it stays
        where it is behind a question that is asked again.
        """
        hidden = UnknownMessage({"type": "computer_call_output"})
        asked = self.WHOLE.add_user_prompt("And back?").messages
        named = [name(each, f"m{number}") for number, each in enumerate(asked)]
        without = moments(Aggregator.new(named))
        trees = moments(Aggregator.new([*named[:at], hidden, *named[at:]]))
        del trees[at]

        for one, before in zip(without, trees, strict=True):
            for other, after in zip(without, trees, strict=True):
                ui_id, entries = after.news(before)
                shown = [each.message for each in entries if each.message != hidden]
                expected, new = other.news(one)
                assert (expected, [each.message for each in new]) == (ui_id, shown)

        tree = trees[4]
        answer = [each.id for each in tree.present.entries if each.message in named[1:]]
        again = {0: [hidden, named[0]], 1: [named[0], hidden]}.get(at, named[:1])
        questions = [tree.path(tree.question(each)).messages for each in answer]
        assert [again] * 3 == questions

    def test_siblings_are_news(self):
        """A message that got an alternative is drawn again, with what follows it."""
        before = MessageTree.of(SEA)
        after = before.add(HILLS).switch(last(SEA))

        assert (last(ASKED), tuple(SEA.entries[1:])) == after.news(before)

    def test_pagers_of_an_older_piece(self):
        """A state that is shown may have a piece of what the tree has whole."""
        piece = ASKED.add(name(AssistantMessage("To"), "a1"))
        whole = ASKED.add(name(AssistantMessage("To the sea."), "a1"))
        tree = MessageTree.of(Timeline.begin(HILLS).commit(piece).commit(whole).undo())

        assert texts(piece) == texts(tree.present)
        assert {"a1": (1, (last(HILLS), "a1"))} == tree.pagers()
        assert (piece.entries[1],) == tree.news(MessageTree.of(piece))[1]

    def test_question(self):
        """What an answer is to, from any part of it."""
        tree = MessageTree.of(self.WHOLE)
        alone = MessageTree.of(Aggregator.new([AssistantMessage("Hello!")]))

        assert {last(ASKED)} == {tree.question(e.id) for e in self.WHOLE.entries}
        assert None is alone.question(str(alone.head))
        with pytest.raises(LookupError):
            tree.question("none")

    def test_moment(self):
        """The newest moment that ends with the head; there may be none."""
        timeline = Timeline.begin(ASKED).commit(SEA).commit(HILLS).commit(SEA, note={})
        tree = MessageTree.of(timeline)

        assert 3 == tree.moment
        assert 2 == tree.switch(last(HILLS)).moment
        with pytest.raises(LookupError, match="no moment"):
            _ = MessageTree.of(SEA).moment


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

    @pytest.mark.parametrize("shown", [[], [ASKED]])
    @pytest.mark.parametrize("is_branch", [False, True])
    def test_usage_costs_what_is_new(self, is_branch, shown):
        """
        Adding a state that brings nothing but usage does not read the ledgers of
        the states that are there, also where another one is shown.
        """
        counts = []
        for size in (64, 1_024):
            timeline = Timeline.begin(ASKED.add_usage(Usage(1)))
            for _ in range(size):
                timeline = timeline.commit(timeline.present.add_usage(Usage(1)))

            tree = MessageTree.of(timeline, *shown)
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
        assert "<MessageTree: 3 messages, 2 leaves>" == repr(tree)
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
