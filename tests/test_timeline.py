import copy
import gc
import pickle
import re
import tracemalloc
import weakref
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from conversation_state import Aggregator
from conversation_state._persistent import Log
from conversation_state.errors import ConversationStateError, UnknownMomentError
from conversation_state.testing.laws import (
    copies_are_equal,
    equal_values_hash_alike,
    goto_changes_no_moments,
    nothing_committed_is_lost,
    redo_then_undo_is_the_identity,
    timelines_add_up,
    timelines_unchanged,
    undo_then_redo_is_the_identity,
)
from conversation_state.testing.strategies import aggregators, moments, timelines
from conversation_state.timeline import Moment, Moments, Timeline, _timeline
from tests.processes import count_calls

QUICK = settings(
    max_examples=2_000,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
)


class State:
    """
    A state that can be watched.
    """


def tree() -> Timeline[str]:
    """
    Two branches, one of which parts again.

        0 start ── 1 left ── 2 a
                          └─ 4 b ── 5
               └── 3 right

    The present is 5.
    """
    left = Timeline.begin("S", "start").commit("L", "left").commit("A", "a")
    right = left.goto(0).commit("R", "right")
    return right.goto(1).commit("B", "b").commit("C")


def numbers(moments: Any) -> list[int]:
    """
    The numbers of *moments*.
    """
    return [moment.number for moment in moments]


def differs(present: object, state: object) -> bool:
    """
    A filter: an equal state is not worth a step.
    """
    return present != state


class TestBegin:
    def test_is_one_moment(self):
        """
        The state is present, has a label, and nothing is before or ahead.
        """
        timeline = Timeline.begin("S", "start")

        assert "S" == timeline.present
        assert Moment(0, "S", "start", None, None) == timeline.moment
        assert [timeline.moment] == timeline.moments
        assert (timeline.moment,) == timeline.tips == timeline.path
        assert not timeline.can_undo
        assert not timeline.can_redo
        assert timeline.limit is None

    def test_takes_any_state(self):
        """
        Also one that has no hash, or is None.
        """
        state: dict[str, list[int]] = {"a": []}

        assert state is Timeline.begin(state).present
        assert Timeline.begin(None).commit(None, "none").undo().present is None


class TestCommit:
    def test_is_the_next_moment(self):
        """
        Numbered on, on top of the present one, which is unchanged.
        """
        begun = Timeline.begin("S")
        timeline = begun.commit("A", "asked", group="typing")

        assert "A" == timeline.present
        assert Moment(1, "A", "asked", "typing", 0) == timeline.moment
        assert [begun.moment, timeline.moment] == timeline.moments
        assert "S" == begun.present
        assert 1 == len(begun.moments)

    def test_keeps_the_future_that_was_undone(self):
        """
        After an undo it becomes a branch beside what is committed.
        """
        timeline = Timeline.begin("S").commit("A").commit("B").undo().commit("C")

        assert ["B", "C"] == [moment.state for moment in timeline.tips]
        assert [0, 1, 3] == numbers(timeline.path)
        assert [2, 3] == numbers(timeline.children(1))

    def test_of_the_present_state_changes_nothing(self):
        """
        The very same object without a label is not a step; with a label, or only
        equal, it is one.
        """
        state = ["S"]
        timeline = Timeline.begin(state)

        assert timeline is timeline.commit(state)
        assert timeline is timeline.commit(state, group="typing")
        assert 2 == len(timeline.commit(state, "kept").moments)
        assert 2 == len(timeline.commit(["S"]).moments)

    def test_takes_texts_of_a_class(self):
        """
        A label that is a kind of text becomes plain text.
        """
        label = type("Label", (str,), {})("東京")

        assert str is type(Timeline.begin("S").commit("A", label).moment.label)


class TestGroup:
    def test_is_one_step(self):
        """
        What follows in the same group takes the place of the moment.
        """
        begun = Timeline.begin("")
        typed = begun
        for text in ("H", "He", "Hey"):
            typed = typed.commit(text, group="typing")

        assert ["", "Hey"] == [moment.state for moment in typed.moments]
        assert Moment(1, "Hey", "", "typing", 0) == typed.moment
        assert begun.moment is typed.undo().moment

    @pytest.mark.parametrize("before", [0, 1, 30, 31, 32, 63, 64, 1024])
    def test_wherever_it_begins(self, before):
        """
        Also at the borders of the log's blocks, and over several of them.
        """
        timeline: Timeline[object] = Timeline.begin(-1)
        for i in range(before):
            timeline = timeline.commit(i)

        for text in "abcdef":
            timeline = timeline.commit(text, group="typing")

        last = timeline.commit("g", group="other").undo()

        assert before + 2 == len(timeline.moments)
        assert [*range(-1, before), "f"] == [each.state for each in timeline.moments]
        assert "f" == last.present

    def test_newest_label_stands(self):
        """
        The label of the step is the last that was given.
        """
        timeline = Timeline.begin("").commit("a", "first", group="g")

        assert "first" == timeline.commit("b", group="g").moment.label
        assert "second" == timeline.commit("b", "second", group="g").moment.label

    @pytest.mark.parametrize(
        "between",
        [
            lambda timeline: timeline.commit("x"),
            lambda timeline: timeline.commit("x", group="other"),
            lambda timeline: timeline.undo().redo(),
            lambda timeline: timeline.goto(0).goto(1),
            lambda timeline: timeline.goto(1),
            lambda timeline: timeline.goto(timeline.moment),
        ],
        ids=["commit", "another group", "undo and redo", "goto", "here", "present"],
    )
    def test_ends_with_anything_else(self, between):
        """
        After anything else, the same group is another step.
        """
        typed = between(Timeline.begin("").commit("a", group="g"))
        again = typed.commit("b", group="g")

        assert len(typed.moments) + 1 == len(again.moments)

    def test_of_a_moment_that_is_not_present(self):
        """
        Going to the present moment ends the group of an answer that arrives elsewhere.
        """
        answered = Timeline.begin("").commit("a", group="g", stay=True)
        again = answered.goto(0).commit("b", group="g", stay=True)

        assert 3 == len(again.moments)
        assert 2 == len(answered.commit("b", group="g", stay=True).moments)

    def test_nothing_to_close(self):
        """
        Where no group is open, closing it is the same timeline.
        """
        begun = Timeline.begin("")
        steps = [begun, begun.commit("a"), begun.commit("a", stay=True)]
        typed = begun.commit("a", group="g")

        for each in [*steps, typed.undo(), typed.close_group()]:
            assert each is each.close_group()

        assert typed is not typed.close_group()

    def test_goes_on_where_nothing_happened(self):
        """
        An undo or redo that has nowhere to go does not end it.
        """
        typed = Timeline.begin("").commit("a", group="g")
        forgotten = Timeline.begin("", limit=1).commit("a", group="g")

        assert typed is typed.redo()
        assert forgotten is forgotten.undo()
        assert 2 == len(typed.redo().commit("b", group="g").moments)

    def test_same_by_content(self):
        """
        Equal groups are one, though their texts are different objects, and
        are kept as plain texts.
        """
        group = next(iter(StrEnum("Group", {"TYPING": "typing"})))
        typed = Timeline.begin("").commit("a", group="typin" + chr(ord("g")))
        again = typed.commit("b", group="typi" + chr(ord("n")) + "g").commit(
            "c", group=group
        )
        other = Timeline.begin("").commit("a", group=group)

        assert ["", "c"] == [moment.state for moment in again.moments]
        assert str is type(other.moment.group)

    def test_frees_what_was_replaced(self):
        """
        Of a group, only the newest state is kept.
        """
        timeline: Timeline[Any] = Timeline.begin(None)
        watches = []
        for _ in range(100):
            state = State()
            watches.append(weakref.ref(state))
            timeline = timeline.commit(state, group="typing")
            del state

        assert [timeline.present] == [watch() for watch in watches if watch()]


class TestCost:
    """
    What is kept is shared, and not copied.
    """

    USES: ClassVar[dict[str, Callable[[Timeline[int]], object]]] = {
        "moments": lambda timeline: timeline.moments,
        "present": lambda timeline: timeline.present,
        "commit": lambda timeline: timeline.commit(-1),
        "commit a branch": lambda timeline: timeline.undo().commit(-1),
        "commit in a group": lambda timeline: timeline.commit(-1, group="g").commit(
            -2, group="g"
        ),
        "undo": lambda timeline: timeline.undo(),
        "redo": lambda timeline: timeline.undo().redo(),
        "goto": lambda timeline: timeline.goto(len(timeline.moments) - 5),
        "can": lambda timeline: (timeline.can_undo, timeline.can_redo),
        "equal": lambda timeline: timeline.undo().redo() == timeline,
        "with_filter": lambda timeline: timeline.with_filter(differs),
    }

    @pytest.mark.parametrize("use", USES)
    @pytest.mark.parametrize("limit", [None, 20_000])
    def test_of_each_use(self, use, limit):
        """
        A hundred times as many moments, and a few steps more.
        """
        counts = []
        for size in (110, 11_000):
            timeline = Timeline.begin(0, limit=limit)
            for i in range(size):
                timeline = timeline.commit(i)

            counts.append(count_calls(partial(self.USES[use], timeline)))

        few, more = counts
        assert 60 > more - few

    def test_of_forgetting(self, monkeypatch):
        """
        What is forgotten is dropped when it is an eighth of the limit, and the
        rest is copied then, and not with every commit.
        """
        copied = []

        def watch(items):
            copied.append(len(items))
            return Log(items)

        timeline = Timeline.begin(0, limit=800)
        monkeypatch.setattr(_timeline, "Log", watch)
        for i in range(2_000):
            timeline = timeline.commit(i)

        assert 800 == len(timeline.moments)
        assert 2_000 / 100 >= len(copied) > 0
        assert 8 * 2_000 >= sum(copied)


class TestFilter:
    def test_takes_the_place(self):
        """
        A change that is not worth a step replaces the present state; its number and
        what is ahead stay.
        """
        timeline = Timeline.begin(1.0, filter=differs).commit(2.0).commit(3.0)
        back = timeline.undo()
        replaced = back.commit(2, "two")

        assert [1.0, 2, 3.0] == [moment.state for moment in replaced.moments]
        assert int is type(replaced.present)
        assert Moment(1, 2, "two", None, 0) == replaced.moment
        assert 3.0 == replaced.redo().present
        assert float is type(back.present)
        assert 4 == len(replaced.commit(5).moments)

    def test_keeps_the_label(self):
        """
        Unless it has one of its own.
        """
        timeline: Timeline[float] = Timeline.begin(1, "one", filter=differs)

        assert "one" == timeline.commit(1.0).moment.label
        assert "uno" == timeline.commit(1.0, "uno").moment.label

    def test_in_the_middle_of_many(self):
        """
        Also where many moments came since, over the borders of blocks.
        """
        timeline: Timeline[float] = Timeline.begin(0, filter=differs)
        for i in range(1, 100):
            timeline = timeline.commit(i)

        for at in (0, 1, 31, 32, 33, 63, 64, 98, 99):
            replaced = timeline.goto(at).commit(float(at))

            assert list(range(100)) == [moment.state for moment in replaced.moments]
            assert float is type(replaced.moments[at].state)
            assert timeline.goto(at) == replaced

    def test_ends_a_group(self):
        """
        What takes the place of a moment without being of its group ends it.
        """
        begun: Timeline[float] = Timeline.begin(0, filter=differs)
        typed = begun.commit(1, group="g")

        assert 2 == len(typed.commit(1.0, group="g").commit(2, group="g").moments)
        assert 3 == len(typed.commit(1.0).commit(2, group="g").moments)
        assert "g" == typed.commit(1.0).moment.group

    def test_is_not_asked_within_a_group(self):
        """
        Nor about the state that is present.
        """
        asked = []

        def note(present, state):
            asked.append((present, state))
            return True

        begun = Timeline.begin("", filter=note)
        begun.commit("a", group="g").commit("b", group="g").commit("b")

        assert [("", "a")] == asked

    def test_with_filter(self):
        """
        Another one, or none; the same timeline for the same one.
        """
        plain: Timeline[float] = Timeline.begin(1)
        plain = plain.commit(2, group="g")
        filtered = plain.with_filter(differs)

        assert 2 == len(filtered.commit(2.0).moments)
        assert 3 == len(filtered.with_filter(None).commit(2.0).moments)
        assert 2 == len(filtered.commit(3, group="g").moments)
        assert filtered == plain
        assert filtered is filtered.with_filter(differs)
        assert plain is plain.with_filter(None)
        with pytest.raises(TypeError, match="filter is 'no'; expected a function"):
            plain.with_filter("no")  # type: ignore[arg-type]


class TestLimit:
    @pytest.mark.parametrize("limit", [1, 2, 7, 8, 9, 16, 64, 100])
    def test_forgets_the_oldest(self, limit):
        """
        At most so many are kept; the oldest of them is a root.
        """
        timeline = Timeline.begin(0, limit=limit)
        for i in range(1, 300):
            timeline = timeline.commit(i)
            kept = range(max(0, i + 1 - limit), i + 1)

            assert list(kept) == [moment.state for moment in timeline.moments]
            assert list(kept) == numbers(timeline.moments)

        oldest = timeline.goto(timeline.moments[0])

        assert not oldest.can_undo
        assert oldest is oldest.undo()
        assert limit == len(timeline.path)
        assert (oldest.moment.number,) == tuple(numbers(oldest.path))
        assert limit == timeline.limit

    def test_forgets_by_age_alone(self):
        """
        Also what lies on the way to the present, and never the present.
        """
        timeline = Timeline.begin("S", limit=3).commit("A").commit("B")
        timeline = timeline.goto(0).commit("C")

        assert ["A", "B", "C"] == [moment.state for moment in timeline.moments]
        assert (timeline.moment,) == timeline.path
        assert [2, 3] == numbers(timeline.tips)
        assert "A" == timeline.goto(2).undo().present

    def test_forgets_where_redo_went(self):
        """
        Of what is forgotten nothing stays: a timeline that came there another
        way is equal.
        """
        away = Timeline.begin("S", limit=2).commit("A").undo().commit("B").commit("C")
        again = Timeline.begin("S", limit=2).commit("A").undo().commit("B")

        assert again.commit("C") == away
        assert {} == dict(away._redo_targets)

    def test_chooses_nothing_that_is_forgotten(self):
        """
        Two branches of a forgotten moment are roots, and going from one to the
        other is not a choice.
        """
        timeline = Timeline.begin(0, limit=16).commit(1).undo()
        for i in range(2, 17):
            timeline = timeline.commit(i)

        assert timeline._base < timeline.moments[0].number == 1
        assert timeline == timeline.goto(1).goto(16)
        assert not timeline.goto(1).can_undo
        assert not timeline.goto(2).can_undo
        with pytest.raises(UnknownMomentError, match="is not ahead"):
            timeline.goto(1).redo(timeline.moments[1])

        with pytest.raises(UnknownMomentError, match="moment 0 is forgotten"):
            timeline.goto(0)

    @pytest.mark.parametrize("limit", [1, 5, 8, 50, 200])
    def test_frees_what_is_forgotten(self, limit):
        """
        All but an eighth of the limit is freed at once.
        """
        timeline: Timeline[Any] = Timeline.begin(None, limit=limit)
        watches = []
        for _ in range(500):
            state = State()
            watches.append(weakref.ref(state))
            timeline = timeline.commit(state)
            alive = sum(watch() is not None for watch in watches)

            assert alive <= limit + max(limit // 8, 1)

        del state, timeline

        assert [] == [watch for watch in watches if watch()]

    def test_is_not_pickled(self):
        """
        What is forgotten is in no copy, even where it was not freed yet.
        """
        timeline = Timeline.begin("forgotten", limit=80)
        for i in range(80):
            timeline = timeline.commit(str(i))

        assert 80 == len(timeline.moments)
        assert b"forgotten" not in pickle.dumps(timeline)
        assert timeline == pickle.loads(pickle.dumps(timeline))

    def test_costs_the_same(self):
        """
        A commit copies no more under a large limit than under a small one.
        """

        def copied(limit):
            timeline = Timeline.begin(0, limit=limit)
            logs = []
            for i in range(1, 4 * limit):
                timeline = timeline.commit(i)
                logs.append(timeline._base)

            return len(set(logs)) * limit / len(logs)

        assert copied(64) <= 8
        assert copied(1_024) <= 8


class TestUndo:
    def test_goes_back(self):
        """
        One moment at a time, to the first, which stays.
        """
        timeline = tree()
        states = []
        while timeline.can_undo:
            timeline = timeline.undo()
            states.append(timeline.present)

        assert ["B", "L", "S"] == states
        assert timeline is timeline.undo()


class TestRedo:
    def test_goes_where_it_was(self):
        """
        Into the child that was visited last, by a commit at first.
        """
        timeline = tree()
        start = timeline.goto(0)

        assert [1, 4, 5] == numbers(
            [start.redo().moment, start.redo().redo().moment, timeline.moment]
        )
        assert timeline is timeline.redo()
        assert not timeline.can_redo

    @pytest.mark.parametrize(
        ("visited", "path"),
        [
            ([2], [0, 1, 2]),
            ([3], [0, 3]),
            ([3, 1], [0, 1, 4, 5]),
            ([2, 3], [0, 3]),
            ([2, 3, 1], [0, 1, 2]),
            ([5, 3, 2], [0, 1, 2]),
        ],
    )
    def test_remembers_what_was_visited(self, visited, path):
        """
        Going to a moment chooses all of the way there, and nothing beyond.
        """
        timeline = tree()
        for number in visited:
            timeline = timeline.goto(number)

        timeline = timeline.goto(0)
        way = [timeline.moment]
        while timeline.can_redo:
            timeline = timeline.redo()
            way.append(timeline.moment)

        assert path == numbers(way)

    def test_goes_into_a_moment(self):
        """
        One step towards it, which is chosen from then on.
        """
        timeline = tree()
        start = timeline.goto(0)
        far = start.redo(timeline.moments[2])

        assert "L" == far.present
        assert "A" == far.redo(timeline.moments[2]).present
        assert "R" == start.redo(timeline.moments[3]).present
        assert "R" == start.redo(timeline.moments[3]).undo().redo().present

    def test_goes_into_a_label(self):
        """
        The newest moment of that label that is ahead.
        """
        twice = tree().goto(3).commit("A", "a").goto(0)

        assert "R" == twice.redo("a").present
        assert "A" == twice.redo("a").redo("a").present
        assert "L" == twice.redo("b").present
        assert "A" == twice.goto(1).redo("a").present


class TestElsewhere:
    """
    What arrives while the present is somewhere else.
    """

    def test_a_stream_while_the_user_goes_back(self):
        """
        The pieces of an answer are one step on the question, wherever the user is.
        """
        chat = Timeline.begin("hi").commit("asked", "question")
        for size in range(1, 4):
            chat = chat.commit("answer"[:size], on="question", stay=True, group="a")
            assert "asked" == chat.present

        number = chat.moments[-1].number
        chat = chat.undo().amend(number, "answer", "done")

        assert "hi" == chat.present
        assert ["hi", "asked", "answer"] == [each.state for each in chat.moments]
        assert "answer" == chat.redo(2).present
        assert "answer" == chat.goto("done").present

    def test_the_present_is_not_forgotten(self):
        """
        A limit is exceeded until the next commit that does not stay.
        """
        chat = Timeline.begin(0, limit=2).commit(1)
        for state in range(2, 6):
            chat = chat.commit(state, stay=True)

        assert 1 == chat.present
        assert [1, 2, 3, 4, 5] == [each.state for each in chat.moments]
        assert [5, 6] == [each.state for each in chat.goto(5).commit(6).moments]

    def test_nothing_new(self):
        """
        What changes nothing is the timeline itself.
        """
        chat = Timeline.begin("hi").commit("asked", "question")

        assert chat.commit("asked", stay=True) is chat
        assert chat.amend(1, "asked") is chat
        assert chat.amend(1, "asked", "question") is chat
        assert chat.undo(0) is chat
        assert chat.redo(5) is chat
        assert chat.undo(5) == chat.goto(0)


class TestGoto:
    def test_goes_anywhere(self):
        """
        By moment or by number; from there, undo goes back its own way.
        """
        timeline = tree()
        for moment in timeline.moments:
            there = timeline.goto(moment)

            assert moment is there.moment
            assert there == timeline.goto(moment.number)

        assert [0, 1, 2] == numbers(timeline.goto(2).path)
        assert timeline is timeline.goto(5)
        assert timeline is timeline.goto(timeline.moment)

    def test_takes_an_equal_moment(self):
        """
        Of an equal timeline, such as a decoded one.
        """
        there = tree().goto(tree().moments[3])

        assert "R" == there.present

    def test_is_an_error_that_pickles(self):
        """
        All facts survive.
        """
        error = UnknownMomentError("a", "is not ahead", ((1, "b"),))
        copied = pickle.loads(pickle.dumps(error))

        assert vars(error) == vars(copied)
        assert str(error) == str(copied)


# What the types forbid can be tried all the same.
begin: Any = Timeline.begin
LATE: Any = Timeline.begin("S", limit=2).commit("A").commit("B", "b").commit("C")
OTHER: Any = Timeline.begin("S").commit("X").commit("Y").moment
REPLACED = Timeline.begin("").commit("a", group="g")


@pytest.mark.parametrize(
    ("error", "shown", "call"),
    [
        *[
            (
                *(ValueError, f"limit is {limit!r}; expected an int"),
                partial(begin, "S", limit=limit),
            )
            for limit in (0, -1, 1.5, "5", True)
        ],
        (TypeError, "label is 5; expected a str", lambda: begin("S", 5)),
        (ValueError, "label holds '\\ud800'", lambda: begin("S", "\ud800")),
        (TypeError, "filter is 5; expected a function", lambda: LATE.with_filter(5)),
        (TypeError, "Timeline.begin(state)", Timeline),
        (TypeError, "label is None; expected a str", lambda: LATE.commit("A", None)),
        (TypeError, "group is 5; expected", lambda: LATE.commit("A", group=5)),
        (ValueError, "group is empty", lambda: LATE.commit("A", group="")),
        (ValueError, "group holds", lambda: LATE.commit("A", group="\udfff")),
        (TypeError, "into is 1.5; expected a Moment, a", lambda: LATE.redo(1.5)),
        (ValueError, "number of steps is -1", lambda: LATE.undo(-1)),
        (TypeError, "number of steps is 1.0", lambda: LATE.undo(1.0)),
        (TypeError, "expected a Moment, its number or", lambda: LATE.goto(None)),
        (UnknownMomentError, "moment 7 is not in", lambda: LATE.commit("x", on=7)),
        (UnknownMomentError, "'a' is not in", lambda: LATE.amend("a", "x")),
        (UnknownMomentError, "1 is forgotten; valid moments: 2", lambda: LATE.goto(1)),
        (UnknownMomentError, "2 is of another timeline", lambda: tree().goto(OTHER)),
        (
            *(UnknownMomentError, "its state was replaced"),
            lambda: REPLACED.commit("b", group="g").goto(REPLACED.moment),
        ),
        (UnknownMomentError, "not ahead; valid moments: none", lambda: LATE.redo("a")),
    ],
)
def test_refuses(error, shown, call):
    """
    What can't be done is an error at once, which says what was asked and what is so.
    """
    with pytest.raises(error, match=re.escape(shown)):
        call()


def test_lists_what_is_there():
    """
    An error of an unknown moment has what was asked, why it is unknown, and what there
    is: the newest moments, or those that are ahead.
    """
    with pytest.raises(UnknownMomentError) as unknown:
        tree().goto(6)

    with pytest.raises(UnknownMomentError) as behind:
        tree().goto(1).redo("left")

    error = unknown.value
    there = ((1, "left"), (2, "a"), (3, "right"), (4, "b"), (5, ""))
    assert (6, "is not in this timeline", there) == (
        *(error.asked, error.problem, error.there),
    )
    assert isinstance(error, (LookupError, ConversationStateError))
    assert str(error).endswith("3 ('right'), 4 ('b'), 5")
    assert ((2, "a"), (4, "b")) == behind.value.there
    assert str(behind.value).endswith("is not ahead; valid moments: 2 ('a'), 4 ('b')")


class TestReading:
    def test_tips(self):
        """
        What nothing was committed on, in order.
        """
        assert [2, 3, 5] == numbers(tree().tips)
        assert tree().tips == tree().goto(1).tips

    def test_children(self):
        """
        Of the present moment, of another, of a number.
        """
        timeline = tree()

        assert [1, 3] == numbers(timeline.children(0))
        assert [2, 4] == numbers(timeline.goto(1).children())
        assert [2, 4] == numbers(timeline.children(timeline.moments[1]))
        assert () == timeline.children()
        with pytest.raises(UnknownMomentError):
            timeline.children(6)

    def test_path(self):
        """
        How the present came about.
        """
        assert [0, 1, 4, 5] == numbers(tree().path)
        assert [0, 3] == numbers(tree().goto(3).path)

    def test_moments(self):
        """
        A sequence: indexes, slices, backwards, membership.
        """
        moments = tree().moments

        assert isinstance(moments, Moments)
        assert 6 == len(moments)
        assert [0, 5, 5] == numbers([moments[0], moments[-1], moments[5]])
        assert [1, 2, 3] == numbers(moments[1:4])
        assert isinstance(moments[1:4], Moments)
        assert [5, 3] == numbers(moments[:1:-2])
        assert [] == list(moments[4:2])
        assert [5, 4, 3, 2, 1, 0] == numbers(reversed(moments))
        assert moments[2] in moments
        assert moments[1:4][1:] == moments[2:4]
        assert hash(moments) == hash(tree().moments)
        for at in (6, -7):
            with pytest.raises(IndexError, match="of 6 moments"):
                moments[at]

    def test_slices_of_one_timeline(self):
        """
        Slices that share a log are equal where they have equal moments only.
        """
        timeline = Timeline.begin(0)
        for state in range(1, 70):
            timeline = timeline.commit(state)

        moments = timeline.moments
        for skip in range(6):
            assert (skip == 0) == (moments[0:64] == moments[skip : 64 + skip])
            assert (skip == 0) == (moments[skip : 64 + skip] == moments[0:64])

    def test_moments_of_a_limited_timeline(self):
        """
        Never show what is forgotten, whether it was freed or not.
        """
        timeline = Timeline.begin(0, limit=50)
        for i in range(1, 53):
            timeline = timeline.commit(i)

        moments = timeline.moments

        assert timeline._base < 3
        assert 50 == len(moments)
        assert [3, 52] == numbers([moments[0], moments[-1]])
        assert 3 == moments[-50].number
        assert [3, 4] == numbers(moments[:2])
        assert [51, 52] == numbers(moments[-2:])
        assert list(range(52, 2, -1)) == numbers(reversed(moments))
        with pytest.raises(IndexError):
            moments[-51]

    def test_repr(self):
        """
        How much there is, and where one is.
        """
        begun = Timeline.begin("S")

        assert "<Timeline: 1 moment, 1 tip, at 0>" == repr(begun)
        assert "<Timeline: 6 moments, 3 tips, at 5>" == repr(tree())
        assert "<Timeline: 6 moments, 3 tips, at 'left'>" == repr(tree().goto(1))


class TestEquality:
    def test_is_by_content(self):
        """
        Moments, present, limit, and where redo goes.
        """
        timeline = tree()

        assert timeline == tree()
        assert hash(timeline) == hash(tree())
        assert timeline != timeline.undo()
        assert timeline != timeline.commit("X")
        assert timeline.goto(1) != timeline.goto(2).goto(1)
        assert Timeline.begin("S") != Timeline.begin("S", limit=5)
        assert Timeline.begin("S") != Timeline.begin("T")
        assert Timeline.begin("S") != Timeline.begin("S", "start")
        assert Timeline.begin("S") != "S"

    def test_of_what_forgot(self):
        """
        What is not freed yet makes no difference.
        """
        early, late = Timeline.begin(0, limit=40), Timeline.begin(-1, limit=40)
        for i in range(1, 43):
            early, late = early.commit(i), late.commit(i)

        assert early == late
        assert early.moments == late.moments
        assert hash(early) == hash(late)

    def test_of_slices(self):
        """
        Slices are equal if their moments are, and not for being of one timeline or
        for beginning with the same moment.
        """
        moments = Timeline.begin(0).commit(1).commit(2).moments
        other = Timeline.begin(0).commit(1)
        ends = [other.commit(2).moments, other.commit(3).moments]
        # The same moments as those of `other` without being a part of its log.
        copied, changed = [each[::-1][::-1][1:] for each in ends]

        assert moments[:2] != moments[1:]
        assert moments[1:] == moments[::-1][::-1][1:]
        assert ends[0][1:] == copied
        assert ends[0][1:] != changed

    def test_leaves_out_filters_and_open_groups(self):
        """
        Undo then redo is the identity, though it ends a group.
        """
        typed = Timeline.begin("").commit("a", group="g")

        assert typed == typed.undo().redo()
        assert Timeline.begin("") == Timeline.begin("", filter=differs)

    def test_of_states_without_a_hash(self):
        """
        A timeline has one all the same.
        """
        made = [Timeline.begin([1]).commit([2]) for _ in range(2)]

        assert 1 == len({*made})
        assert 1 == len({timeline.moment for timeline in made})


class TestCopies:
    def test_of_many_moments(self):
        """
        A long history needs no more stack than a short one.
        """
        timeline = Timeline.begin("")
        for i in range(20_000):
            timeline = timeline.commit(str(i))

        assert timeline == pickle.loads(pickle.dumps(timeline))
        assert timeline == copy.deepcopy(timeline)
        assert timeline is copy.copy(timeline)

    def test_share_what_was_shared(self):
        """
        States pickle as what they have in common, and come back so.
        """
        chat = Aggregator.new()
        timeline = Timeline.begin(chat)
        for i in range(500):
            chat = chat.add_user_prompt(f"{i} " * 20)
            timeline = timeline.commit(chat)

        data = pickle.dumps(timeline)
        states = [moment.state for moment in pickle.loads(data).moments]

        assert len(data) < 3 * len(pickle.dumps(chat))
        assert all(a.entries[0] is b.entries[0] for a, b in pairwise(states[1:]))

    def test_deep(self):
        """
        A deep copy copies the states.
        """
        timeline = Timeline.begin(["S"]).commit(["A"])
        copied = copy.deepcopy(timeline)
        copied.present.append("B")

        assert ["A"] == timeline.present
        assert ["A", "B"] == copied.moments[1].state

    def test_keep_open_groups(self):
        """
        A pickled timeline goes on where it was.
        """
        typed = pickle.loads(pickle.dumps(Timeline.begin("").commit("a", group="g")))

        assert 2 == len(typed.commit("b", group="g").moments)

    def test_filters(self):
        """
        A function of a module is pickled, and a nameless one is refused.
        """
        kept = pickle.loads(pickle.dumps(Timeline.begin(1, filter=differs)))

        assert 1 == len(kept.commit(1.0).moments)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            pickle.dumps(Timeline.begin(1, filter=lambda a, b: a != b))


class TestMemory:
    @pytest.mark.parametrize("label", ["", "a label of all"])
    def test_of_a_step(self, label):
        """
        About a hundred bytes beside the state, however many there are.
        """

        def bytes_per_step(steps):
            states = [object() for _ in range(steps)]
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            timeline: Timeline[object] = Timeline.begin(None)
            for state in states:
                timeline = timeline.commit(state, label)

            size = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert steps + 1 == len(timeline.moments)
            return size / steps

        assert bytes_per_step(1_000) < 130
        assert bytes_per_step(20_000) < 130

    def test_of_every_timeline(self):
        """
        Keeping all of them keeps what they have in common once.
        """
        gc.collect()
        tracemalloc.start()
        timelines = [Timeline.begin(0)]
        for i in range(5_000):
            timelines.append(timelines[-1].commit(i))

        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()

        assert size / 5_000 < 400

    def test_a_straight_history_remembers_no_choices(self):
        """
        Where redo goes is stored only where it is not the next moment.
        """
        timeline: Timeline[object] = Timeline.begin(0)
        for i in range(1, 50):
            timeline = timeline.commit(i)

        assert 0 == len(timeline.undo().undo().redo().goto(3).goto(40)._redo_targets)
        assert 1 == len(timeline.undo().commit("x")._redo_targets)
        assert 0 == len(timeline.undo().commit("x").goto(49)._redo_targets)


@given(timelines())
def test_add_up(timeline):
    """
    Whatever was done, the tree is one.
    """
    timelines_add_up(timeline)


@given(timelines())
def test_undo_and_redo(timeline):
    """
    Each undoes the other.
    """
    undo_then_redo_is_the_identity(timeline)
    redo_then_undo_is_the_identity(timeline)


@given(timelines(states=st.integers()), st.lists(st.text().map(lambda t: [t])))
def test_nothing_is_lost(timeline, states):
    """
    Without a limit.
    """
    if timeline.limit is None:
        nothing_committed_is_lost(timeline, states)


@given(timelines(), st.data())
def test_there_and_back(timeline, data):
    """
    Going somewhere and back changes only where redo goes.
    """
    number = data.draw(st.sampled_from(numbers(timeline.moments)))

    goto_changes_no_moments(timeline, number)


@given(timelines(), timelines(), aggregators(), st.data())
def test_old_timelines_are_unchanged(timeline, other, state, data):
    """
    Whatever is done with a timeline, it stays what it was.
    """
    moment = data.draw(st.sampled_from(timeline.moments))
    with timelines_unchanged(timeline, other):
        timeline.undo().commit(state, "new", group="typing").commit(1, group="typing")
        timeline.goto(moment).commit(state).undo().redo()
        timeline.with_filter(lambda a, b: False).goto(moment).commit(state)
        timeline.tips, timeline.path, repr(timeline), hash(timeline)


@given(timelines())
def test_copies(timeline):
    """
    Copies are equal, and hash alike.
    """
    copies_are_equal(timeline)


@given(timelines(states=st.integers(0, 2)), timelines(states=st.integers(0, 2)))
def test_equal_values_hash_alike(one, other):
    """
    Equality goes both ways.
    """
    equal_values_hash_alike(one, other)
    equal_values_hash_alike(one, pickle.loads(pickle.dumps(one)))


@given(moments())
def test_moments_are_values(moment):
    """
    They are equal by content, have a hash, and can't be changed.
    """
    copies_are_equal(moment)
    with pytest.raises(AttributeError):
        moment.label = "other"


class TestLaws:
    """
    A broken law raises an error that names it.
    """

    @pytest.mark.parametrize(
        ("verb", "lie", "law", "problem"),
        [
            (
                "undo",
                lambda self: self.goto(0),
                undo_then_redo_is_the_identity,
                "undid something else",
            ),
            (
                "redo",
                lambda self: self,
                undo_then_redo_is_the_identity,
                "redoes something else",
            ),
            (
                "redo",
                lambda self: self.goto(3),
                redo_then_undo_is_the_identity,
                "redid something else",
            ),
            (
                "undo",
                lambda self: self,
                redo_then_undo_is_the_identity,
                "undoes something else",
            ),
            (
                "commit",
                lambda self, state, label: Timeline.begin(state),
                partial(nothing_committed_is_lost, states=["X"]),
                "something is lost",
            ),
            (
                "goto",
                lambda self, moment: self,
                partial(goto_changes_no_moments, number=0),
                "went elsewhere",
            ),
            ("can_undo", False, timelines_add_up, "undo does not say"),
            ("can_redo", False, timelines_add_up, "redo does not say"),
            ("tips", (), timelines_add_up, "the tips are others"),
            ("children", lambda self: (), timelines_add_up, "the children are others"),
            ("limit", 2, timelines_add_up, "kept too many"),
            ("present", "X", timelines_add_up, "the present state is another"),
            ("path", tree().moments[:1], timelines_add_up, "the path leads elsewhere"),
        ],
    )
    def test_of_timelines(self, verb, lie, law, problem, monkeypatch):
        """
        Of timelines whose verbs lie.
        """
        timeline = tree().goto(1).redo()
        at_one = timeline.undo()
        given = timeline if law is undo_then_redo_is_the_identity else at_one
        monkeypatch.setattr(Timeline, verb, lie)

        with pytest.raises(AssertionError, match=problem):
            law(given)

    def test_timelines_unchanged(self, monkeypatch):
        """
        A timeline that changes is noticed.
        """
        timeline = tree()

        with (
            pytest.raises(AssertionError, match="was changed"),
            timelines_unchanged(timeline),
        ):
            monkeypatch.setattr(timeline, "_moment", timeline.undo().moment)


class TestStrategies:
    def test_timelines(self):
        """
        Trees, limits, groups, labels; states of several conversations.
        """
        missing: dict[str, Callable[[Timeline[Any]], object]] = {
            "tree": lambda timeline: 2 < len(timeline.tips),
            "middle": lambda timeline: timeline.can_undo and timeline.can_redo,
            "forgot": lambda timeline: timeline.moments[0].number,
            "chosen": lambda timeline: timeline._redo_targets,
            "open": lambda timeline: timeline._open >= 0 and timeline.moment.group,
            "labels": lambda timeline: any(each.label for each in timeline.moments),
            "states": lambda timeline: len({x.state.id for x in timeline.moments}) > 1,
        }

        def is_the_last(timeline):
            for name in [name for name, holds in missing.items() if holds(timeline)]:
                del missing[name]

            return not missing

        with suppress(NoSuchExample):
            find(
                timelines(),
                is_the_last,
                settings=settings(QUICK, phases=[Phase.generate]),
            )

        assert {} == missing

    def test_shrink(self):
        """
        To one moment without a label.
        """
        timeline = find(timelines(), lambda _: True, settings=QUICK)

        assert 1 == len(timeline.moments)
        assert ("", None) == (timeline.moment.label, timeline.limit)
        assert 0 == find(moments(), lambda _: True, settings=QUICK).number

    def test_of_any_states(self):
        """
        Those that are given are those that are committed.
        """
        made = timelines(states=st.integers(5, 9))
        timeline = find(made, lambda made: 2 < len(made.moments), settings=QUICK)

        assert {5, 6, 7, 8, 9} >= {moment.state for moment in timeline.moments}
