import copy
import gc
import pickle
import re
import tracemalloc
import weakref
from asyncio import sleep
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state._persistent import Log
from conversation_state.codec import decode, encode
from conversation_state.errors import ConversationStateError, UnknownMomentError
from conversation_state.testing.laws import (
    copies_are_equal,
    equal_values_hash_alike,
    goto_changes_no_moments,
    nothing_committed_is_lost,
    redo_then_undo_is_the_identity,
    timelines_add_up,
    unchanged,
    undo_then_redo_is_the_identity,
)
from conversation_state.testing.strategies import (
    aggregators,
    moments,
    states,
    timelines,
)
from conversation_state.timeline import Moment, Moments, Timeline
from tests.processes import count_calls, count_lines

QUICK = settings(
    max_examples=2_000,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
)


class State:
    """A state that can be watched."""


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
    """The numbers of *moments*."""
    return [moment.number for moment in moments]


def differs(present: object, state: object) -> bool:
    """A filter: an equal state is not worth a step."""
    return present != state


class TestBegin:
    def test_is_one_moment(self):
        """The state is present, has a label, and nothing is before or ahead."""
        timeline = Timeline.begin("S", "start")

        assert "S" == timeline.present
        assert Moment(0, "S", "start", None, None) == timeline.moment
        assert [timeline.moment] == timeline.moments
        assert (timeline.moment,) == timeline.tips == timeline.path
        assert not timeline.can_undo
        assert not timeline.can_redo
        assert timeline.limit is None

    def test_takes_any_state(self):
        """Also one that has no hash, or is None."""
        state: dict[str, list[int]] = {"a": []}

        assert state is Timeline.begin(state).present
        assert 1 == len({Timeline.begin(state).moment, Timeline.begin(state).moment})
        assert Timeline.begin(None).commit(None, "none").undo().present is None


class TestCommit:
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


class TestGroup:
    def test_nothing_to_close(self):
        """Where no group is open, closing it is the same timeline."""
        begun = Timeline.begin("")
        steps = [begun, begun.commit("a"), begun.commit("a", stay=True)]
        typed = begun.commit("a", group="g")

        for each in [*steps, typed.undo(), typed.close_group()]:
            assert each is each.close_group()

        assert typed is not typed.close_group()

    def test_goes_on_where_nothing_happened(self):
        """An undo or redo that has nowhere to go does not end it."""
        typed = Timeline.begin("").commit("a", group="g")
        forgotten = Timeline.begin("", limit=1).commit("a", group="g")

        assert typed is typed.redo()
        assert forgotten is forgotten.undo()
        assert 2 == len(typed.redo().commit("b", group="g").moments)

    def test_frees_what_was_replaced(self):
        """Of a group, only the newest state is kept."""
        timeline: Timeline[Any] = Timeline.begin(None)
        watches = []
        for _ in range(100):
            state = State()
            watches.append(weakref.ref(state))
            timeline = timeline.commit(state, group="typing")
            del state

        assert [timeline.present] == [watch() for watch in watches if watch()]


class TestCost:
    """What is kept is shared, and not copied."""

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
        """A hundred times as many moments, and a few steps more."""
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
        monkeypatch.setattr("conversation_state.timeline.Log", watch)
        for i in range(2_000):
            timeline = timeline.commit(i)

        assert 800 == len(timeline.moments)
        assert 2_000 / 100 >= len(copied) > 0
        assert 8 * 2_000 >= sum(copied)


class TestFilter:
    def test_is_not_asked_within_a_group(self):
        """Nor about the state that is present."""
        asked = []

        def note(present, state):
            asked.append((present, state))
            return True

        begun = Timeline.begin("", filter=note)
        begun.commit("a", group="g").commit("b", group="g").commit("b")

        assert [("", "a")] == asked

    def test_the_same_again(self):
        """A state that is no step, committed again with its label, changes nothing."""
        timeline = Timeline.begin("a", "first", filter=differs)

        assert timeline is timeline.commit("a", "first")
        assert timeline.commit("a", "other") is not timeline

    def test_with_filter(self):
        """Another one, or none; the same timeline for the same one."""
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
        """All but an eighth of the limit is freed at once."""
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
        """What is forgotten is in no copy, even where it was not freed yet."""
        timeline = Timeline.begin("forgotten", limit=80)
        for i in range(80):
            timeline = timeline.commit(str(i))

        assert 80 == len(timeline.moments)
        assert b"forgotten" not in pickle.dumps(timeline)
        assert timeline == pickle.loads(pickle.dumps(timeline))


class TestSiblings:
    """A limit spares the alternatives of what is kept."""

    def test_spared(self):
        """An alternative is there as long as the other one is."""
        chat = Timeline.begin("asked", limit=3).commit("sea").undo().commit("hills")
        for state in ("a", "b"):
            chat = chat.commit(state)

        assert ["sea", "hills", "a", "b"] == [each.state for each in chat.moments]
        assert ["a", "b", "c"] == [each.state for each in chat.commit("c").moments]

    def test_after_a_copy(self):
        """Also in a timeline that was pickled or decoded, and after an undo."""
        chat = Timeline.begin("asked", limit=2).commit("sea").undo().commit("hills")
        for again in (pickle.loads(pickle.dumps(chat)), decode(encode(chat))):
            later = again.undo().redo().commit("a")

            assert ["sea", "hills", "a"] == [each.state for each in later.moments]

    def test_not_without_end(self):
        """No more moments are spared than a limit keeps."""
        chat = Timeline.begin("asked", limit=3)
        for number in range(1, 20):
            chat = chat.commit(f"answer {number}", on=0, stay=True)

        chat = chat.goto(19).commit("thanks")

        assert [*range(16, 21)] == [moment.number for moment in chat.moments]


class TestTime:
    """Steps that follow each other quickly are one."""

    def test_typing(self):
        """A step within so many seconds of the last replaces it."""
        draft = Timeline.begin("")
        for at, text in ((0, "D"), (0.4, "De"), (0.8, "Dea"), (2, "Dear")):
            draft = draft.commit(text, within_s=0.5, at=at)

        assert ["", "Dea", "Dear"] == [each.state for each in draft.moments]
        assert "Dea" == draft.undo().present

    def test_groups(self):
        """Steps of different groups are not taken together, however near."""
        draft = Timeline.begin("").commit("D", group="type", within_s=1, at=0)
        other = draft.commit("", group="delete", within_s=1, at=0.1)

        assert ["", "D", ""] == [each.state for each in other.moments]
        assert ["", "De"] == [
            each.state
            for each in draft.commit("De", group="type", within_s=1, at=1).moments
        ]

    def test_closed(self):
        """Going anywhere, and `close_group`, ends the time."""
        draft = Timeline.begin("").commit("D", within_s=9, at=0)
        for closed in (draft.close_group(), draft.undo().redo(), draft.goto(1)):
            assert 3 == len(closed.commit("De", within_s=9, at=1).moments)

    @pytest.mark.parametrize(
        ("options", "error", "problem"),
        [
            ({"within_s": 1}, ValueError, "and at is None; expected seconds"),
            ({"within_s": -1, "at": 0}, ValueError, "within_s is -1"),
            ({"within_s": float("nan"), "at": 0}, ValueError, "within_s is nan"),
            ({"within_s": "1", "at": 0}, TypeError, "within_s is '1'"),
            ({"at": True}, TypeError, "at is True"),
        ],
    )
    def test_refused(self, options, error, problem):
        """A time without a clock, and what is no number of seconds, are refused."""
        with pytest.raises(error, match=problem):
            Timeline.begin("").commit("D", **options)


class TestNotes:
    """What a program keeps with a step."""

    def test_kept(self):
        """A note is frozen, and stays with its step, encoded and pickled."""
        draft = Timeline.begin("").commit("Dear", note={"cursor": [4]})

        assert {"cursor": (4,)} == draft.moment.note
        assert {} == draft.undo().moment.note
        for again in (pickle.loads(pickle.dumps(draft)), decode(encode(draft))):
            assert draft == again
            assert {"cursor": (4,)} == again.moment.note

        assert draft != Timeline.begin("").commit("Dear")

    def test_replaced(self):
        """A further commit of a step keeps its note, or gives another."""
        draft = Timeline.begin("").commit("D", group="type", note={"cursor": 1})

        assert {"cursor": 1} == draft.commit("De", group="type").moment.note
        other = draft.commit("De", group="type", note={"cursor": 2})
        assert {"cursor": 2} == other.moment.note
        assert {"cursor": 3} == draft.amend(1, "D", note={"cursor": 3}).moment.note
        assert {"cursor": 1} == draft.amend(1, "Dear").moment.note

    def test_alone(self):
        """A note alone is a step."""
        draft = Timeline.begin("Dear")

        assert draft.commit("Dear") is draft
        assert 2 == len(draft.commit("Dear", note={"cursor": 0}).moments)

    def test_refused(self):
        """What is no JSON is refused."""
        with pytest.raises(ValueError, match="note is 5; expected a mapping"):
            Timeline.begin("").commit("D", note=5)  # type: ignore[arg-type]


class TestFirstChange:
    @pytest.mark.parametrize("size", [2, 33, 70])
    def test_where_two_part(self, size):
        """The number of the first moment that is another one in one of the two."""
        timeline: Timeline[Any] = Timeline.begin(0)
        for state in range(1, size):
            timeline = timeline.commit(state)

        assert size == timeline.first_change(timeline)
        assert size == timeline.first_change(timeline.commit("a"))
        assert size == timeline.commit("a").first_change(timeline.commit("b"))
        assert size - 1 == timeline.first_change(timeline.amend(size - 1, "a"))
        assert 1 == timeline.amend(1, "a").first_change(timeline)

    def test_costs_no_look_at_what_is_shared(self):
        """A hundred times as many shared moments, and a few steps more."""
        costs = []
        for size in (110, 11_000):
            timeline = Timeline.begin(0)
            for state in range(1, size):
                timeline = timeline.commit(state)

            other = timeline.commit(-1)
            costs.append(count_lines(partial(timeline.first_change, other)))

        assert 100 > costs[1] - costs[0]

    def test_after_some_were_forgotten(self):
        """Counting begins with what both have kept."""
        timelines = [Timeline.begin(0, limit=8)]
        for state in range(1, 30):
            timelines.append(timelines[-1].commit(state))

        old, new = timelines[20], timelines[29]
        assert new.moments[0].number == new.first_change(old) == old.first_change(new)
        assert 29 == timelines[28].first_change(new)

    def test_what_differs_behind_what_was_forgotten(self):
        """Two values that forgot their oldest moments are unequal by any other one."""
        timeline: Timeline[Any] = Timeline.begin(0, limit=400)
        for state in range(1, 431):
            timeline = timeline.commit(state)

        first = timeline.moments[0].number
        for number in (first, 415, 416, 430):
            assert timeline.moments != timeline.amend(number, "a").moments

        assert timeline.moments == timeline.amend(430, "a").amend(430, 430).moments

    def test_of_something_else(self):
        """Anything but a timeline is refused."""
        with pytest.raises(TypeError, match="first_change takes a Timeline, got 5"):
            Timeline.begin(0).first_change(5)  # type: ignore[arg-type]


class TestElsewhere:
    """What arrives while the present is somewhere else."""

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

    def test_going_to_a_stream(self):
        """Who goes on with an answer's group is there, and the group stays open."""
        chat = Timeline.begin("hi").commit("asked", "question").goto(0)
        chat = chat.commit("ans", on=1, stay=True, group="a")
        there = chat.commit("answer", on=1, group="a")

        assert "hi" == chat.present
        assert "answer" == there.present
        assert ["hi", "asked", "answer"] == [each.state for each in there.moments]
        assert 3 == len(there.commit("answered", group="a").moments)
        assert 4 == len(there.commit("other", group="b").moments)

    def test_the_present_is_not_forgotten(self):
        """A limit is exceeded until the next commit that does not stay."""
        chat = Timeline.begin(0, limit=2).commit(1)
        for state in range(2, 6):
            chat = chat.commit(state, on=state - 1, stay=True)

        assert 1 == chat.present
        assert [1, 2, 3, 4, 5] == [each.state for each in chat.moments]
        assert [5, 6] == [each.state for each in chat.goto(5).commit(6).moments]

    def test_nothing_new(self):
        """What changes nothing is the timeline itself."""
        chat = Timeline.begin("hi").commit("asked", "question")

        assert chat.commit("asked", stay=True) is chat
        assert chat.amend(1, "asked") is chat
        assert chat.amend(1, "asked", "question") is chat
        assert chat.undo(0) is chat
        assert chat.redo(5) is chat
        assert chat.undo(5) == chat.goto(0)


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
        (TypeError, "an async function", lambda: LATE.with_filter(sleep)),
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
    def test_children(self):
        """Of the present moment, of another, of a number."""
        timeline = tree()

        assert [1, 3] == numbers(timeline.children(0))
        assert [2, 4] == numbers(timeline.goto(1).children())
        assert [2, 4] == numbers(timeline.children(timeline.moments[1]))
        assert () == timeline.children()
        with pytest.raises(UnknownMomentError):
            timeline.children(6)

    def test_moments(self):
        """A sequence: indexes, slices, backwards, membership."""
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
        """Slices that share a log are equal where they have equal moments only."""
        timeline = Timeline.begin(0)
        for state in range(1, 70):
            timeline = timeline.commit(state)

        moments = timeline.moments
        for skip in range(6):
            assert (skip == 0) == (moments[0:64] == moments[skip : 64 + skip])
            assert (skip == 0) == (moments[skip : 64 + skip] == moments[0:64])

    def test_moments_of_a_limited_timeline(self):
        """Never show what is forgotten, whether it was freed or not."""
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
        """How much there is, and where one is."""
        begun = Timeline.begin("S")

        assert "<Timeline: 1 moment, 1 tip, at 0>" == repr(begun)
        assert "<Timeline: 6 moments, 3 tips, at 5>" == repr(tree())
        assert "<Timeline: 6 moments, 3 tips, at 'left'>" == repr(tree().goto(1))


class TestEquality:
    def test_is_by_content(self):
        """Moments, present, limit, and where redo goes."""
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

    def test_of_a_state_that_is_unequal_to_itself(self):
        """One state is the same in two timelines, as it is in two lists."""
        state = float("nan")

        assert Timeline.begin(state) == Timeline.begin(state)

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


class TestCopies:
    def test_of_many_moments(self):
        """A long history needs no more stack than a short one."""
        timeline = Timeline.begin("")
        for i in range(20_000):
            timeline = timeline.commit(str(i))

        assert timeline == pickle.loads(pickle.dumps(timeline))
        assert timeline == copy.deepcopy(timeline)
        assert timeline is copy.copy(timeline)

    def test_share_what_was_shared(self):
        """States pickle as what they have in common, and come back so."""
        chat = Aggregator.new()
        timeline = Timeline.begin(chat)
        for i in range(500):
            chat = chat.add_user_prompt(f"{i} " * 20)
            timeline = timeline.commit(chat)

        data = pickle.dumps(timeline)
        states = [moment.state for moment in pickle.loads(data).moments]

        assert len(data) < 3 * len(pickle.dumps(chat))
        assert all(a.entries[0] is b.entries[0] for a, b in pairwise(states[1:]))


class TestMemory:
    @pytest.mark.parametrize("label", ["", "a label of all"])
    def test_of_a_step(self, label):
        """About a hundred bytes beside the state, however many there are."""

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

    def test_a_straight_history_remembers_no_choices(self):
        """Where redo goes is stored only where it is not the next moment."""
        timeline: Timeline[object] = Timeline.begin(0)
        for i in range(1, 50):
            timeline = timeline.commit(i)

        assert 0 == len(timeline.undo().undo().redo().goto(3).goto(40)._redo_targets)
        assert 1 == len(timeline.undo().commit("x")._redo_targets)
        assert 0 == len(timeline.undo().commit("x").goto(49)._redo_targets)


@given(timelines())
def test_add_up(timeline):
    """Whatever was done, the tree is one."""
    timelines_add_up(timeline)


@given(timelines())
def test_undo_and_redo(timeline):
    """Each undoes the other."""
    undo_then_redo_is_the_identity(timeline)
    redo_then_undo_is_the_identity(timeline)


@given(timelines(states=st.integers()), st.lists(st.text().map(lambda t: [t])))
def test_nothing_is_lost(timeline, states):
    """Without a limit."""
    if timeline.limit is None:
        nothing_committed_is_lost(timeline, states)


@given(timelines(), st.data())
def test_there_and_back(timeline, data):
    """Going somewhere and back changes only where redo goes."""
    number = data.draw(st.sampled_from(numbers(timeline.moments)))

    goto_changes_no_moments(timeline, number)


@given(timelines(), timelines(), aggregators() | states(), st.data())
def test_old_timelines_are_unchanged(timeline, other, state, data):
    """Whatever is done with a timeline, it stays what it was."""
    moment = data.draw(st.sampled_from(timeline.moments))
    with unchanged(timeline, other):
        timeline.undo().commit(state, "new", group="typing").commit(1, group="typing")
        timeline.goto(moment).commit(state).undo().redo()
        timeline.with_filter(lambda a, b: False).goto(moment).commit(state)
        timeline.tips, timeline.path, repr(timeline), hash(timeline)


@given(timelines())
def test_copies(timeline):
    """Copies are equal, and hash alike."""
    copies_are_equal(timeline)


@given(timelines(states=st.integers(0, 2)), timelines(states=st.integers(0, 2)))
def test_equal_values_hash_alike(one, other):
    """Equality goes both ways."""
    equal_values_hash_alike(one, other)
    equal_values_hash_alike(one, pickle.loads(pickle.dumps(one)))


@given(moments())
def test_moments_are_values(moment):
    """They are equal by content, have a hash, and can't be changed."""
    copies_are_equal(moment)
    with pytest.raises(AttributeError):
        moment.label = "other"


class TestLaws:
    """A broken law raises an error that names it."""

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
        """Of timelines whose verbs lie."""
        timeline = tree().goto(1).redo()
        at_one = timeline.undo()
        given = timeline if law is undo_then_redo_is_the_identity else at_one
        monkeypatch.setattr(Timeline, verb, lie)

        with pytest.raises(AssertionError, match=problem):
            law(given)

    def test_unchanged(self, monkeypatch):
        """A timeline that changes is noticed."""
        timeline = tree()

        with (
            pytest.raises(AssertionError, match="was changed"),
            unchanged(timeline),
        ):
            monkeypatch.setattr(timeline, "_moment", timeline.undo().moment)


class TestStrategies:
    def test_shrink(self):
        """To one moment without a label."""
        timeline = find(timelines(), lambda _: True, settings=QUICK)

        assert 1 == len(timeline.moments)
        assert ("", None) == (timeline.moment.label, timeline.limit)
        assert 0 == find(moments(), lambda _: True, settings=QUICK).number

    def test_of_any_states(self):
        """Those that are given are those that are committed."""
        made = timelines(states=st.integers(5, 9))
        timeline = find(made, lambda made: 2 < len(made.moments), settings=QUICK)

        assert {5, 6, 7, 8, 9} >= {moment.state for moment in timeline.moments}
