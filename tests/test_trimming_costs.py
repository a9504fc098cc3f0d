"""Trimming the next state costs what is new in it, and leaves little behind."""

import gc
import pickle
import re
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from conversation_state import Aggregator, decode, encode
from conversation_state.counting import TokenBudget
from conversation_state.errors import (
    BudgetExceededError,
    CompactionError,
    InvalidTranscriptError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    TrimContext,
    clear_tool_results,
    compact,
    fit,
    keep_first_and_last,
    keep_last,
    repair,
    shorten_tool_results,
    trim,
)
from tests.processes import count_calls, count_lines
from tests.profiles import is_thorough
from tests.test_trimming import calls, one_step, pool, result

REFUSED = BudgetExceededError, CompactionError, InvalidTranscriptError

long_results = st.builds(
    result, st.sampled_from("xyz"), st.sampled_from(["ok", "a" * 40, "b" * 400])
)
history = our.broken_transcripts() | st.lists(pool | long_results, max_size=14)
pipelines = st.lists(one_step, min_size=1, max_size=4)
LATE = [calls("y"), SystemMessage("x"), result("y")]


def views(conversation, budget, pipeline):
    """The view after each step, but for those that are refused."""
    found = [TrimContext.of(conversation, budget)]
    for step in pipeline:
        try:
            found.append(step(found[-1]))
        except REFUSED:
            found.append(found[-1])

    return found


def account(view):
    """All parts of a view that can be compared."""
    return (
        list(view.elements),
        list(view.dropped),
        view.total_tokens,
        [(str(failure.error), failure.step) for failure in view.failures],
        view.summaries,
    )


class TestSameAsFresh:
    """What was remembered of earlier states changes no view."""

    # A result that was moved to its call, and a step that reads it again, or drops
    # where it was.
    @example([], [*LATE, calls("x")], [repair(), repair(at_end=True)], 0)
    @example([], [*LATE, SystemMessage("x")], [repair(), keep_first_and_last(1, 1)], 0)
    @given(
        history,
        st.lists(pool | long_results, max_size=6),
        pipelines,
        st.integers(0, 90),
    )
    def test_as_of_a_copy_that_shares_nothing(self, messages, more, pipeline, limit):
        """
        Message by message, with any steps: the view of a state whose past was
        trimmed is that of a decoded copy, which was never seen.
        """
        budget = TokenBudget(context_window=limit)
        state = Aggregator.new(messages=messages)
        views(state, budget, pipeline)
        for message in more[:6]:
            state = state.add(message)
            found = views(state, budget, pipeline)
            fresh = views(decode(encode(state)), budget, pipeline)
            for ours, theirs in zip(found, fresh, strict=True):
                views_add_up(ours)
                assert account(theirs) == account(ours)
                assert theirs._selection == ours._selection

    @given(history, st.lists(one_step, min_size=1, max_size=3), st.integers(0, 90))
    def test_as_of_a_view_that_was_read_again(self, messages, pipeline, limit):
        """
        A view that was pickled shows the same, and so does what steps make of
        it, which read it message by message.
        """
        assume(not re.search("compact|rolling", repr(pipeline)))
        budget = TokenBudget(context_window=limit)
        first, *rest = pipeline
        view = views(messages, budget, [first])[-1]
        copy = TrimContext.of(messages, budget)._with_selection(
            pickle.loads(pickle.dumps(view._selection))
        )

        assert view._selection == copy._selection
        assert hash(view._selection) == hash(copy._selection)
        for step in rest:
            if re.search("slack=[1-9]", repr(step)):
                continue  # spaced by what messages filled before

            try:
                view = step(view)
            except REFUSED as error:
                with pytest.raises(type(error)):
                    step(copy)

                continue

            copy = step(copy)
            assert list(view.elements) == list(copy.elements)
            assert list(view.dropped) == list(copy.dropped)

    @given(history, pipelines)
    def test_index_is_what_listing_gives(self, messages, pipeline):
        """From either end and in slices, in views of any steps."""
        view = views(messages, TokenBudget(context_window=60), pipeline)[-1]
        for sequence in (view.messages, view.elements, view.dropped):
            listed = list(sequence)
            assert len(listed) == len(sequence)
            assert listed == [sequence[at] for at in range(len(listed))]
            assert listed == [sequence[at - len(listed)] for at in range(len(listed))]
            assert tuple(listed[1:3]) == sequence[1:3]
            with pytest.raises(IndexError):
                sequence[len(sequence)]


CHAT = (
    UserMessage("When does the next train to Bern leave, and is it on time?"),
    calls("x", "y"),
    result("x", "12:30, not delayed; " * 9),
    result("y", "12:30, not delayed; " * 9),
    AssistantMessage("It leaves at 12:30, and it is on time."),
)
DAMAGED = (*CHAT, calls("z"), UserMessage("Stop."), result("w"), calls("d", "d"))

PIPELINES = {
    "repair": (repair(),),
    "shorten": (shorten_tool_results(20),),
    "clear": (clear_tool_results(),),
    "shorten, clear": (shorten_tool_results(20), clear_tool_results()),
    "repair, clear, fit": (repair(), clear_tool_results(), fit()),
    "clear, keep": (clear_tool_results(), keep_last(10)),
    "repair, shorten, clear, keep": (
        repair(),
        shorten_tool_results(20),
        clear_tool_results(),
        keep_first_and_last(2, 5),
    ),
    "clear, fit with slack": (clear_tool_results(), fit(slack=20)),
    "default": (),
}


def grown(size: int, transcript: Sequence[Message] = CHAT) -> Aggregator:
    """A state of so many messages, in which ids are of one round of *transcript*."""
    messages: list[Message] = [SystemMessage("Be brief.")]
    for at, message in enumerate(islice(cycle(transcript), size - 1)):
        messages.append(_of_round(message, at // len(transcript)))

    return Aggregator.new(messages=messages)


def _of_round(message: Message, number: int) -> Message:
    if isinstance(message, ToolMessage):
        return message.replace(tool_call_id=f"{message.tool_call_id}{number}")

    if not message.tool_calls:
        return message

    made = [attrs.evolve(call, id=f"{call.id}{number}") for call in message.tool_calls]
    return message.replace(tool_calls=made)


class TestEveryBudget:
    """Steps on a whole log, and `fit` behind them, as on what they show."""

    @pytest.mark.parametrize("transcript", [CHAT, DAMAGED])
    @pytest.mark.parametrize(
        "steps",
        [
            (repair(), clear_tool_results(keep=1, marker=".")),
            (repair(), shorten_tool_results(9), clear_tool_results(keep=2)),
            (repair(), clear_tool_results(keep=3), shorten_tool_results(9)),
            # What stands for a result may be longer than it.
            (repair(at_end=True), shorten_tool_results(0, marker="{cut} " * 30)),
        ],
    )
    def test_is_what_a_view_gives_that_is_read_again(self, transcript, steps):
        """
        At every seventh budget, and in `make fuzz` at every third, the same view or the
        same error; each index is what listing gives.
        """
        state = grown(31, transcript)
        whole = trim(state, None, *steps)
        read_again = pickle.loads(pickle.dumps(whole._selection))
        for limit in range(1, whole.total_tokens + 5, 3 if is_thorough() else 7):
            budget = TokenBudget(context_window=limit)
            for step in (fit(), keep_last(1 + limit % 20)):
                context = TrimContext.of(state, budget)._with_selection(read_again)
                try:
                    expected = step(context)
                except BudgetExceededError as error:
                    with pytest.raises(BudgetExceededError, match=str(error)[:60]):
                        trim(state, budget, *steps, step)

                    continue

                view = trim(state, budget, *steps, step)
                views_add_up(view)
                shown = list(view.elements)
                assert list(expected.elements) == shown
                assert list(expected.dropped) == list(view.dropped)
                assert shown == [view.elements[at] for at in range(len(shown))]


class TestWhatChanged:
    """Every step costs what is new since the state before."""

    @pytest.mark.parametrize("name", PIPELINES)
    def test_next_state(self, name):
        """
        A state that was trimmed one message ago takes as many calls at 2,000
        messages as at 200, but for some bisections.
        """
        few, more = [
            self.count_next(size, CHAT, PIPELINES[name]) for size in (200, 2_000)
        ]

        assert 1_500 > more
        assert 400 > more - few

    def test_next_state_of_damage(self):
        """
        Where the newest messages have to be repaired, a fitted view costs these,
        however many there are before them.
        """
        few, more = [self.count_next(size, DAMAGED, ()) for size in (400, 4_000)]

        assert 1.5 > more / few

    @staticmethod
    def count_next(size, transcript, steps):
        # All end where the messages end.
        state = grown(1 + size - size % len(transcript), transcript)
        budget = TokenBudget(context_window=200)
        trim(state, budget, *steps)
        later = state.add(UserMessage("Thanks."))
        return count_calls(lambda: trim(later, budget, *steps))

    def test_reads_nothing_again(self):
        """The results that earlier views rewrote are the very objects in the next."""
        state = grown(400)
        steps = shorten_tool_results(20), clear_tool_results()
        before = trim(state, None, *steps)
        after = trim(state.add(UserMessage("Thanks.")).add(CHAT[0]), None, *steps)

        shown = list(zip(before, after, strict=False))

        assert 400 == len(shown)
        assert all(one is other for one, other in shown)
        assert {"[cleared]"} < {one.text for one in before if one.role == "tool"}

    def test_older_state(self):
        """An older state costs what its own view shows."""
        state = grown(2_001)
        budget = TokenBudget(context_window=200)
        trim(state, budget)

        assert 1_500 > count_calls(lambda: trim(state.fork(at=1_401), budget))

    def test_siblings_share_what_was_read(self):
        """A hundred branches of a state that was trimmed read what they added."""
        state = grown(311)
        budget = TokenBudget(context_window=200)
        trim(state, budget)
        forks = [state.fork().add(UserMessage(f"{n}")) for n in range(100)]

        counts = {count_calls(lambda f=fork: trim(f, budget)) for fork in forks}  # type: ignore[misc]

        # The first one marks what the state before may forget.
        assert 10 > max(counts) - min(counts)

    def test_several_models(self):
        """
        Four models, each with steps and a counter of its own, cost no more each turn
        than one does.
        """
        state = grown(400)
        pipelines = [
            (repair(), shorten_tool_results(20 + n), clear_tool_results(keep=n), fit())
            for n in range(4)
        ]
        budget = TokenBudget(context_window=200)

        def show_all() -> None:
            for n, steps in enumerate(pipelines):
                trim(state, budget, *steps, counter=COUNTERS[n])

        show_all()
        state = state.add(UserMessage("Thanks."))
        assert 4 * 1_500 > count_calls(show_all)


COUNTERS: list[Callable[[Message], int]] = [
    lambda message: len(message.text.split()),
    lambda message: len(message.text),
    lambda message: len(message.text) // 2,
    lambda message: len(message.text) // 3,
]


class TestCallsWithOneId:
    def test_cost_what_they_are(self):
        """
        Each of many calls with one id, as of a model that repeats itself, is
        named once and gets its result, without another look at those before it.
        """
        counts = []
        for size in (20, 200):
            called = AssistantMessage(tool_calls=[ToolCall("c", "f")] * size)
            state = Aggregator.new([called, *[result("c")] * size, UserMessage("?")])
            counts.append(count_lines(partial(trim, state, None, repair())) / size)

            view = trim(state, None, repair())
            assert () == view.problems()
            assert size + 3 == len(view)  # with a user who speaks first

        assert counts[1] < 1.5 * counts[0]


class TestManySummaries:
    def test_are_read_with_one_look_at_each(self):
        """
        A view of many summaries, one of every two messages, is read by looking at
        each of them once, not once more for all others.
        """
        counts = []
        for size in (20, 200):
            state = Aggregator.new([UserMessage("Hi.")] * (4 * size))
            view = trim(
                state,
                None,
                *[
                    compact((at, at + 1), lambda _: "So")
                    for at in range(0, 4 * size, 4)
                ],
            )
            counts.append(count_lines(partial(list, view)) / size)

            assert 3 * size == len(view)

        assert counts[1] < 1.5 * counts[0]


class TestWeight:
    """What trimming and listing leave behind in a state that is kept."""

    def test_of_a_kept_state(self):
        """At most 340 bytes for each of 500 states, one message apart."""
        budget = TokenBudget(context_window=500)

        def measure(read: Callable[[Aggregator], object]) -> float:
            messages = [UserMessage(f"question {n}") for n in range(500)]
            state, kept = Aggregator.new(), []
            gc.collect()
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                for message in messages:
                    state = state.add(message)
                    kept.append(state)
                    read(state)

                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()

            return (after - before) / len(kept)

        def read_view(state: Aggregator) -> None:
            trim(state, budget)
            list(trim(state, budget).messages)

        measure(read_view)  # first what is kept once, of coverage, too
        alone = measure(lambda _state: None)
        read = measure(read_view)

        assert 340 >= read - alone
