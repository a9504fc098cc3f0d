"""
What views promise: a list of what is wrong with them, steps in any order, and starts
that stay where they are.
"""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.counting import TokenBudget, by_characters
from conversation_state.errors import (
    BudgetExceededError,
    CompactionError,
    InvalidTranscriptError,
)
from conversation_state.messages import AssistantMessage, SystemMessage, UserMessage
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    SharedPrefix,
    TrimContext,
    Trimmer,
    fit,
    repair,
    trim,
)
from tests.test_trimming import (
    anything,
    calls,
    is_valid,
    one_step,
    order_problems,
    result,
    small,
)


class TestProblems:
    """What is wrong with a view, and where."""

    def test_many_calls(self):
        """A flaw of a thousand calls names three of them."""
        many = [ToolCall(f"call {at:03} {'x' * 1_000}", "f") for at in range(1_000)]
        history = [AssistantMessage("", tool_calls=many), UserMessage("Go on")]
        flaws = TrimContext.of(history).problems()
        (flaw,) = [flaw for flaw in flaws if flaw.kind == "dangling call"]

        assert flaw.what.startswith("messages[0] calls 'call 000 xxx")
        assert "..., 997 more, and messages[1] follows before the" in flaw.what
        assert len(flaw.what) < 400

    @given(anything)
    def test_finds_what_providers_refuse(self, history):
        """Exactly where calls and results are not in order, there is a flaw of that."""
        flaws = TrimContext.of(history).problems()
        pairs = [
            flaw
            for flaw in flaws
            if flaw.kind in {"orphaned result", "repeated result", "dangling call"}
            # Two messages may have one id: that is a flaw, and no wrong order.
            or (flaw.kind == "repeated call id" and len(flaw.seqs) == 1)
        ]

        assert is_valid(history) == (not pairs)

    def test_starts_on_a_user(self):
        """After the leading system messages, if there are other messages at all."""
        history = [SystemMessage("a"), AssistantMessage("b"), UserMessage("c")]

        (flaw,) = TrimContext.of(history).problems()

        assert ("start", (1,)) == (flaw.kind, flaw.seqs)
        assert "'assistant'" in str(flaw)
        assert () == TrimContext.of(history[:1]).problems()
        assert () == TrimContext.of([]).problems()

    def test_has_the_positions_of_the_view(self):
        """Messages that were left out count."""
        view = TrimContext.of([UserMessage("a"), AssistantMessage("b"), result("x")])
        flaws = view.remove(0).problems()

        assert [("start", (1,)), ("orphaned result", (2,))] == [
            (flaw.kind, flaw.seqs) for flaw in flaws
        ]


class TestAnyOrder:
    """Steps in any order: each keeps the account, and a `fit` at the end holds."""

    @given(
        anything,
        st.lists(one_step, max_size=4),
        st.integers(0, 40),
        st.integers(0, 12),
    )
    def test_a_fit_at_the_end_holds(self, history, steps, limit, slack):
        """
        Within the budget, valid, with the newest message that is left; and
        every view on the way is what it was.
        """
        context = TrimContext.of(history, TokenBudget(context_window=limit))
        kept = [(context, list(context.elements), list(context.dropped))]
        for step in [*steps, fit(slack=slack)]:
            before = context
            try:
                context = step(context)
            except CompactionError:
                continue
            except (BudgetExceededError, InvalidTranscriptError):
                # That these are right is held against brute force above.
                continue

            views_add_up(context)
            assert history == context.original.messages
            kept.append((context, list(context.elements), list(context.dropped)))
            if type(step) is type(fit()):
                assert context.total_tokens <= limit
                assert is_valid(list(context.messages))
                assert not len(before) or before.messages[-1] is context.messages[-1]

        for view, elements, dropped in kept:
            assert elements == list(view.elements)
            assert dropped == list(view.dropped)
            assert len(elements) == len(view.elements)
            assert [view.elements[at] for at in range(len(view))] == elements
            assert [view.dropped[at] for at in range(len(dropped))] == dropped
            assert view.failures or view == pickle.loads(pickle.dumps(view))


def turns(state, count):
    """States of a conversation, one after each message."""
    for n in range(count):
        for message in (
            UserMessage(f"question {n}"),
            calls(f"c{n}"),
            result(f"c{n}", "an answer of some words"),
            AssistantMessage(f"so {n}"),
        ):
            state = state.add(message)
            yield state


def start_of_run(view):
    """Where the newest messages begin that follow each other."""
    seqs = [one.seq for one in view.elements]
    start = seqs[-1]
    while start - 1 in seqs and start > 1:
        start -= 1

    return start


class TestSlack:
    """With slack, the start of a view moves seldom, and far."""

    @given(our.transcripts(max_size=12), st.integers(1, 60), st.integers(1, 80))
    def test_gives_a_valid_run_that_is_no_longer(self, history, limit, slack):
        """What `fit` gives, or a later start of it; and the same error."""
        budget = TokenBudget(context_window=limit)
        try:
            most = trim(history, budget, fit())
        except BudgetExceededError:
            with pytest.raises(BudgetExceededError):
                trim(history, budget, fit(slack=slack))
            return

        view = trim(history, budget, fit(slack=slack))

        shown = [one.seq for one in view.elements]
        assert {*shown} <= {one.seq for one in most.elements}
        assert [] == order_problems(view)
        assert view.messages[-1:] == most.messages[-1:]
        views_add_up(view)

    @pytest.mark.parametrize("slack", [1, 10, 20, 40])
    def test_moves_only_when_it_must_and_that_much_farther(self, slack):
        """
        The same start until it no longer fits; then at least *slack* tokens
        go, and it depends on nothing but the state.
        """
        limit = 100
        budget = TokenBudget(context_window=limit)
        first = Aggregator.new().add(SystemMessage("be brief " * 7))
        start, moves, weights = 1, 0, list[int]()
        for state in turns(first, 60):
            view = trim(state, budget, fit(slack=slack))
            entries = TrimContext.of(state)
            again = trim(list(state.messages), budget, fit(slack=slack))
            assert view.messages == again.messages
            assert limit >= view.total_tokens
            now = start_of_run(view)
            weights = [one.tokens for one in entries.elements]
            if now != start:
                # The run from the old start, and a task, are too long by now.
                assert weights[0] + max(weights[1:]) + sum(weights[start:]) > limit
                # Where a task goes, the run may begin earlier by what that fills.
                assert sum(weights[start:now]) + max(weights[1:]) >= slack
                moves += 1

            start = now

        assert 2 < moves <= sum(weights) / slack

    def test_is_at_most_half_of_the_room(self):
        """More would leave next to nothing, and move all the time."""
        history = [UserMessage("four")] * 130
        budget = TokenBudget(context_window=20)

        views = [trim(history[:n], budget, fit(slack=1_000)) for n in range(100, 130)]

        starts = {view.elements[0].seq for view in views}
        assert {10, 20} >= {
            end - start for start, end in itertools.pairwise(sorted(starts))
        }
        assert 3 <= len(starts) <= 4
        assert all(10 <= view.total_tokens <= 20 for view in views)


class TestSharedPrefix:
    """`shared_prefix` counts what two views begin with."""

    @given(
        anything,
        st.tuples(*[st.lists(one_step, max_size=3)] * 2),
        st.integers(0, 60),
        small,
        st.booleans(),
    )
    def test_counts_what_comparing_counts(
        self, history, pipelines, limit, more, related
    ):
        """
        For any two views, of one state or of two: the messages that are equal
        from the start on, and their tokens.
        """
        state = Aggregator.new(messages=history)
        later = (state if related else Aggregator.new(messages=history)).extend(more)
        views = []
        for one, steps in zip((state, later), pipelines, strict=True):
            view = TrimContext.of(one, TokenBudget(context_window=limit))
            for step in steps:
                try:
                    view = step(view)
                except (BudgetExceededError, CompactionError, InvalidTranscriptError):
                    continue

            views.append(view)

        left, right = (list(view.messages) for view in views)
        same = 0
        while left[same : same + 1] == right[same : same + 1] != []:
            same += 1

        expected = SharedPrefix(same, sum(map(by_characters, left[:same])))
        assert expected == views[0].shared_prefix(views[1])
        assert expected == views[1].shared_prefix(views[0])
        assert (len(left), views[0].total_tokens) == views[0].shared_prefix(views[0])

    def test_reads_runs_not_messages(self, monkeypatch):
        """A thousand messages in common are not compared one by one."""
        asked = []
        compare = UserMessage.__eq__

        def watch(self, other):
            asked.append(other)
            return compare(self, other)

        monkeypatch.setattr(UserMessage, "__eq__", watch)
        state = Aggregator.new(messages=[UserMessage("four") for _ in range(5_000)])
        one = trim(state, TokenBudget(context_window=4_000))
        two = TrimContext.of(state.add(UserMessage("more"))).remove(range(1_000))

        assert (4_000, 4_000) == one.shared_prefix(two)
        assert [] == asked


class TestTrimmer:
    """A `Trimmer` is a budget and steps, to be kept."""

    @given(anything, st.integers(0, 40))
    def test_reports_what_trim_reports(self, history, limit):
        """
        For every conversation it is given, and with `repair` and `fit` if there
        are no steps.
        """
        budget = TokenBudget(context_window=limit)
        try:
            expected = trim(history, budget, counter=by_text)
        except (BudgetExceededError, InvalidTranscriptError) as error:
            with pytest.raises(type(error)):
                Trimmer(budget, counter=by_text)(history)
            return

        assert expected == Trimmer(budget, counter=by_text)(history)
        assert expected == Trimmer(budget, repair(), fit(), counter=by_text)(history)

    def test_is_a_value(self):
        """Equal to the same, hashable, picklable, and never changed."""
        trimmer = Trimmer(TokenBudget(context_window=9), repair(), fit(slack=3))

        assert trimmer == pickle.loads(pickle.dumps(trimmer))
        assert hash(trimmer) == hash(pickle.loads(pickle.dumps(trimmer)))
        assert trimmer != Trimmer(TokenBudget(context_window=9), fit(slack=3))
        assert (repair(), fit(slack=3)) == trimmer.steps
        with pytest.raises(AttributeError):
            trimmer.budget = None  # type: ignore[misc]

    @pytest.mark.parametrize("make", [Trimmer, lambda *args: trim((), *args)])
    def test_explains_wrong_arguments(self, make):
        """At once, before there is a conversation."""
        with pytest.raises(TypeError, match="expected a TokenBudget"):
            make(8_000, fit())
        with pytest.raises(TypeError, match="functions from view to view, got"):
            make(None, "fit")

    def test_views_ask_for_views(self):
        """Something else is named in the error."""
        view = TrimContext.of([UserMessage("a")])

        with pytest.raises(TypeError, match=r"other: expected a TrimContext, got \[\]"):
            view.shared_prefix([])  # type: ignore[arg-type]


def by_text(message):
    """A counter of words."""
    return len(message.text.split())
