"""
What views promise: named properties, steps in any order, and starts that stay where
they are.
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
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    CALLS_KEEP_RESULTS,
    PROPERTIES,
    REASONING_STAYS,
    RESULTS_FOLLOW_CALLS,
    STARTS_ON_USER,
    SYSTEM_IN_FRONT,
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


def thought(*more):
    """A message of reasoning, and its other content."""
    return AssistantMessage([ReasoningPart("hm"), *more])


def _name(wanted):
    return wanted.name


class TestProperties:
    """Each property reports what is wrong, where, and where cuts do no harm."""

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
    def test_those_that_all_want_make_a_view_valid(self, history):
        """
        Together they report a flaw exactly where the check of a whole view finds one;
        and `problems` reports the same.
        """
        everywhere = [one for one in PROPERTIES if one.everywhere]
        flaws = [flaw for one in everywhere for flaw in one.flaws(history)]

        order = [RESULTS_FOLLOW_CALLS, CALLS_KEEP_RESULTS]
        assert is_valid(history) == all(one.holds(history) for one in order)
        problems = TrimContext.of(history).problems()
        assert {*flaws} <= {*problems}
        assert {*problems} - {*flaws} == {
            flaw for flaw in problems if flaw.property not in {*map(_name, everywhere)}
        }
        assert {flaw.property for flaw in flaws} == {
            one.name for one in everywhere if not one.holds(history)
        }

    @given(anything)
    def test_a_cut_is_safe_if_it_adds_no_flaw(self, history):
        """
        For properties of pairs: both halves together lack nothing that the
        whole had.
        """
        cuts = RESULTS_FOLLOW_CALLS.safe_cuts(history)
        keeps = CALLS_KEEP_RESULTS.safe_cuts(history)

        assert {0, len(history)} <= cuts & keeps
        assert cuts | keeps <= {*range(len(history) + 1)}
        for at in range(len(history) + 1):
            halves = history[:at], history[at:]
            adds = sum(len(RESULTS_FOLLOW_CALLS.flaws(half)) for half in halves) > len(
                RESULTS_FOLLOW_CALLS.flaws(history)
            )
            if at in cuts:
                assert not adds
            if adds:
                assert at not in cuts

    def test_parallel_results_stay_together(self):
        """Cuts are safe around a group, not within."""
        history = [UserMessage("a"), calls("x", "y"), result("x"), result("y")]
        history.append(UserMessage("b"))

        assert {0, 1, 4, 5} == CALLS_KEEP_RESULTS.safe_cuts(history)
        assert {0, 1, 4, 5} == RESULTS_FOLLOW_CALLS.safe_cuts(history)
        # A stranger among the results parts nothing, and a cut there would.
        history.insert(3, result("z"))
        assert {0, 1, 5, 6} == CALLS_KEEP_RESULTS.safe_cuts(history)
        assert {0, 1, 5, 6} == RESULTS_FOLLOW_CALLS.safe_cuts(history)
        # One that belongs to no call can be cut off at either side.
        alone = [UserMessage("a"), result("z"), UserMessage("b")]
        assert {0, 1, 2, 3} == CALLS_KEEP_RESULTS.safe_cuts(alone)

    def test_system_messages_in_front(self):
        """Late ones are flaws; the leading ones are not cut."""
        lead = [SystemMessage("a"), SystemMessage("b")]
        history = [*lead, UserMessage("c"), SystemMessage("d")]

        (flaw,) = SYSTEM_IN_FRONT.flaws(history)
        assert ("late system message", (2, 3)) == (flaw.kind, flaw.seqs)
        assert "put it in front" in str(flaw)
        assert SYSTEM_IN_FRONT.holds(history[:3])
        assert {0, 2, 3, 4} == SYSTEM_IN_FRONT.safe_cuts(history)

    def test_reasoning_stays_with_what_it_led_to(self):
        """
        A message of reasoning alone belongs to the next of the assistant; one that also
        has text or calls is not separated from its reasoning.
        """
        history = [UserMessage("a"), thought(), calls("x"), result("x")]

        assert REASONING_STAYS.holds(history)
        assert {0, 1, 3, 4} == REASONING_STAYS.safe_cuts(history)
        (flaw,) = REASONING_STAYS.flaws([thought(), UserMessage("a")])
        assert ("parted reasoning", (0, 1)) == (flaw.kind, flaw.seqs)
        for whole in (thought(TextPart("hi")), calls("x"), AssistantMessage("")):
            assert REASONING_STAYS.holds([whole, UserMessage("a")])
            assert {0, 1, 2} == REASONING_STAYS.safe_cuts([whole, calls("y")])

    def test_starts_on_a_user(self):
        """After the leading system messages, if there are other messages at all."""
        history = [SystemMessage("a"), AssistantMessage("b"), UserMessage("c")]

        (flaw,) = STARTS_ON_USER.flaws(history)
        assert ("start", (1,)) == (flaw.kind, flaw.seqs)
        assert "'assistant'" in str(flaw)
        assert {0, 2, 3} == STARTS_ON_USER.safe_cuts(history)
        assert STARTS_ON_USER.holds([])
        assert STARTS_ON_USER.holds(history[:1])

    def test_starts_on_a_user_behind_system_messages(self):
        """
        A view may start before a system message if a user's follows it, and
        not if something else does.
        """
        late = [UserMessage("a"), SystemMessage("b"), SystemMessage("c")]

        assert {0, 1, 2, 3, 4} == STARTS_ON_USER.safe_cuts([*late, UserMessage("d")])
        assert {0, 4} == STARTS_ON_USER.safe_cuts([*late, AssistantMessage("d")])
        assert {0, 1, 2, 3} == STARTS_ON_USER.safe_cuts(late)

    def test_problems_takes_what_only_some_want(self):
        """With the view's own positions; those that all require are listed once."""
        view = TrimContext.of([UserMessage("a"), AssistantMessage("b"), result("x")])
        view = view.remove(0)

        kinds = [
            (flaw.kind, flaw.seqs, flaw.property) for flaw in view.problems(*PROPERTIES)
        ]
        assert [
            ("start", (1,), STARTS_ON_USER.name),
            ("orphaned result", (2,), RESULTS_FOLLOW_CALLS.name),
        ] == kinds

    @pytest.mark.parametrize("ask", ["holds", "flaws", "safe_cuts"])
    @pytest.mark.parametrize("wanted", PROPERTIES, ids=repr)
    def test_are_of_messages(self, wanted, ask):
        """Something else is named in the error, in place of a property that holds."""
        with pytest.raises(TypeError, match="messages: expected Messages or a list"):
            getattr(wanted, ask)(3)
        with pytest.raises(TypeError, match="expected a message, got a str: 'Hi'"):
            getattr(wanted, ask)([UserMessage("Hi."), "Hi"])


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

    def test_views_ask_for_views_and_properties(self):
        """Something else is named in the error."""
        view = TrimContext.of([UserMessage("a")])

        with pytest.raises(TypeError, match=r"other: expected a TrimContext, got \[\]"):
            view.shared_prefix([])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="such as SYSTEM_IN_FRONT, got 'system'"):
            view.problems("system")  # type: ignore[arg-type]


def by_text(message):
    """A counter of words."""
    return len(message.text.split())
