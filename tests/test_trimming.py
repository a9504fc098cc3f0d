"""
Trimming: views with guarantees, proven against brute force.
"""

import json
import pickle
import random
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.counting import TokenBudget, by_characters
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall
from conversation_state.trimming import Dropped, Element, TrimContext, fit, trim


def calls(*ids):
    """
    An assistant's message that makes these calls.
    """
    return AssistantMessage(tool_calls=[ToolCall(name, "f", "{}") for name in ids])


def result(call_id, text="res"):
    """
    The answer to a call.
    """
    return ToolMessage(text, tool_call_id=call_id)


def is_valid(view: Sequence[Message]) -> bool:
    """
    The judge: a plain reading of what providers refuse, written on its own.
    """
    for at, message in enumerate(view):
        made = [call.id for call in getattr(message, "tool_calls", ())]
        behind = at + 1
        while behind < len(view) and view[behind].role == "tool":
            behind += 1

        given_ids = [getattr(one, "tool_call_id", "") for one in view[at + 1 : behind]]
        if message.role == "tool":
            continue

        if len(set(made)) != len(made) or len(set(given_ids)) != len(given_ids):
            return False

        if not set(given_ids) <= set(made):
            return False

        if behind < len(view) and set(given_ids) != set(made):
            return False

    return not view or view[0].role != "tool"


def best_view(said, limit, *, keep_system, start_on_user):
    """
    Brute force: what `fit` should give, or the error it should raise.
    """
    lead = 0
    while keep_system and lead < len(said) and said[lead].role == "system":
        lead += 1

    runs = range(lead, len(said) + (lead == len(said)))
    views = [
        (*said[:lead], *said[start:])
        for start in runs
        if is_valid((*said[:lead], *said[start:]))
        and not (start_on_user and start < len(said) and said[start].role != "user")
    ]
    for view in views:
        if sum(map(by_characters, view)) <= limit:
            return view

    if not said:
        return ()

    return BudgetExceededError if views else InvalidTranscriptError


words = st.sampled_from(["", "four", "eight wd", "a longer text of words"])
pool = st.one_of(
    words.map(SystemMessage),
    words.map(UserMessage),
    words.map(AssistantMessage),
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=3).map(lambda i: calls(*i)),
    st.builds(result, st.sampled_from("xyz"), words),
)
small = st.lists(pool, max_size=8).map(tuple)
anything = small | our.transcripts() | our.broken_transcripts()
options = st.fixed_dictionaries(
    {"keep_system": st.booleans(), "start_on_user": st.booleans()}
)


class TestFit:
    """
    `fit` keeps the longest run of newest messages that fits and is valid.
    """

    @given(anything, st.integers(0, 60), options)
    def test_gives_what_brute_force_finds(self, said, limit, choice):
        """
        Over all transcripts, broken ones too: the longest view there is, or
        the error that there is none.
        """
        expected = best_view(said, limit, **choice)
        budget = TokenBudget(context_window=limit)

        if isinstance(expected, tuple):
            assert expected == trim(said, budget, fit(**choice)).messages
        else:
            with pytest.raises(expected):
                trim(said, budget, fit(**choice))

    @given(anything, st.integers(0, 60), options)
    def test_is_never_over_budget_never_invalid_and_loses_no_account(
        self, said, limit, choice
    ):
        """
        Each guarantee by itself, and every message is either shown or listed.
        """
        budget = TokenBudget(context_window=limit)
        try:
            view = trim(said, budget, fit(**choice))
        except (BudgetExceededError, InvalidTranscriptError):
            return

        assert view.total_tokens == sum(map(by_characters, view.messages)) <= limit
        assert () == view.problems()
        assert is_valid(list(view.messages))
        assert not said or said[-1] is view.messages[-1]
        shown = [element.seq for element in view.elements]
        assert [said[seq] for seq in shown] == list(view.messages)
        gone = [dropped.seq for dropped in view.dropped]
        assert list(range(len(said))) == sorted(shown + gone)
        assert shown == sorted(shown)
        assert gone == sorted(gone)

    @given(anything, st.integers(0, 60), st.data())
    def test_fits_what_a_step_before_it_left(self, said, limit, data):
        """
        After removals, fitting a view is fitting what it shows.
        """
        removed = data.draw(st.sets(st.integers(0, max(len(said) - 1, 0))))
        left = [one for at, one in enumerate(said) if at not in removed]
        expected = best_view(tuple(left), limit, keep_system=True, start_on_user=False)
        context = TrimContext.of(said, TokenBudget(context_window=limit))
        narrowed = context.remove(removed)

        if isinstance(expected, tuple):
            view = fit()(narrowed)
            assert expected == view.messages
            assert view.total_tokens == sum(map(by_characters, expected))
            assert len(said) == len(view) + len(view.dropped)
            assert list(range(len(said))) == sorted(
                [*(e.seq for e in view.elements), *(d.seq for d in view.dropped)]
            )
        else:
            with pytest.raises(expected):
                fit()(narrowed)

    @given(our.transcripts(min_size=1), st.integers(1, 40))
    def test_fitting_twice_changes_nothing(self, said, limit):
        """
        What fits is left as it is: the very same view.
        """
        try:
            view = trim(said, TokenBudget(context_window=limit))
        except BudgetExceededError:
            return

        assert view is fit()(view)

    def test_keeps_an_answer_with_its_calls(self):
        """
        Parallel calls and their results stay or go together, at every budget.
        """
        said = [UserMessage("aaaa"), calls("x", "y"), result("x"), result("y")]

        assert said == trim(said, TokenBudget(context_window=5)).messages
        assert said[1:] == trim(said, TokenBudget(context_window=4)).messages
        with pytest.raises(BudgetExceededError) as caught:
            trim(said, TokenBudget(context_window=3))

        assert (4, 3) == (caught.value.needed_tokens, caught.value.limit_tokens)
        assert "needs 4 tokens and the budget leaves 3" in str(caught.value)

    def test_calls_at_the_very_end_may_be_unanswered(self):
        """
        An agent that is about to run its tools has a valid view.
        """
        said = [UserMessage("a"), calls("x", "y"), result("x")]

        assert said == trim(said, TokenBudget(context_window=100)).messages

    def test_says_why_no_view_is_valid(self):
        """
        A result without its call can't be shown, and the error names it.
        """
        said = [UserMessage("a"), result("gone")]

        with pytest.raises(InvalidTranscriptError, match=r"messages\[1\].*'gone'"):
            trim(said, TokenBudget(context_window=100))

    def test_says_that_no_user_spoke(self):
        """
        A view can't start on a user's message if there is none.
        """
        with pytest.raises(InvalidTranscriptError, match="no user's message"):
            trim([AssistantMessage("hi")], None, fit(start_on_user=True))

    def test_tells_over_budget_from_not_valid(self):
        """
        What a provider would refuse is dropped for that, the rest for size.
        """
        said = [calls("lost"), UserMessage("aaaa"), UserMessage("b"), UserMessage("c")]

        view = trim(said, TokenBudget(context_window=2))

        assert (Dropped(0, "not valid"), Dropped(1, "over budget")) == view.dropped

    def test_needs_no_limit(self):
        """
        Without a budget only what is invalid goes.
        """
        said = [result("gone"), UserMessage("a" * 1_000)]

        assert said[1:] == trim(said, None).messages

    def test_steps_are_values(self):
        """
        Steps with the same options are equal and survive pickling.
        """
        step = fit(start_on_user=True)

        assert fit(start_on_user=True) == step
        assert step == pickle.loads(pickle.dumps(step))


class TestTrimContext:
    """
    Views are values over a state that never changes.
    """

    @given(anything, st.lists(st.sets(st.integers(-3, 12)), max_size=4))
    def test_remove_keeps_a_running_total(self, said, removals):
        """
        After any removals: the messages that are left, their sum, their old
        positions; and the views before are as they were.
        """
        context = TrimContext.of(said)
        left = dict(enumerate(said))
        for seqs in removals:
            before, shown = context, list(context.messages)
            context = context.remove(seqs)
            gone = seqs & left.keys()
            left = {at: one for at, one in left.items() if at not in seqs}

            assert bool(gone) == (context is not before)
            assert shown == list(before.messages)
            assert list(left.values()) == context.messages
            assert list(left) == [element.seq for element in context.elements]
            assert sum(map(by_characters, left.values())) == context.total_tokens
            assert set(range(len(said))) - left.keys() == {
                dropped.seq for dropped in context.dropped
            }

        assert said == context.original.messages

    def test_remove_takes_one_or_many(self):
        """
        A position or any iterable of them; unknown ones change nothing.
        """
        context = TrimContext.of([UserMessage("a"), UserMessage("b")])

        assert context.remove([1]) == context.remove(1) == context.remove(range(1, 9))
        assert context is context.remove([]) is context.remove([-1, 7])
        assert (
            context.remove(1) == context.remove([1, 1]) == context.remove(1).remove(1)
        )
        assert (Dropped(1, "removed"),) == context.remove(1).dropped
        with pytest.raises(TypeError):
            context.remove(["1"])  # type: ignore[list-item]

    @given(anything)
    def test_problems_are_what_a_provider_refuses(self, said):
        """
        No problem is found exactly where the judge finds none.
        """
        assert is_valid(said) == (() == TrimContext.of(said).problems())

    @pytest.mark.parametrize(
        ("kind", "seqs", "said"),
        [
            ("orphaned result", (0,), [result("x")]),
            ("orphaned result", (1,), [calls("y"), result("x")]),
            ("dangling call", (0, 1), [calls("x"), UserMessage("hi")]),
            ("dangling call", (0, 2), [calls("x", "y"), result("y"), calls("z")]),
            ("repeated result", (0, 2), [calls("x"), result("x"), result("x")]),
            ("repeated call id", (0,), [calls("x", "x")]),
        ],
    )
    def test_problems_say_what_where_and_what_to_do(self, kind, seqs, said):
        """
        Each flaw has a kind, the positions concerned, and a sentence.
        """
        (flaw,) = TrimContext.of(said).problems()

        assert (kind, seqs) == (flaw.kind, flaw.seqs)
        assert f"messages[{seqs[0]}]" in str(flaw)

    @given(small, st.data())
    def test_views_are_sequences(self, said, data):
        """
        What is shown and what is dropped can be indexed from both ends.
        """
        removed = data.draw(st.sets(st.integers(0, 8), max_size=3))
        context = TrimContext.of(said).remove(removed)

        for view in (context.messages, context.elements, context.dropped):
            plain = list(view)
            assert len(plain) == len(view)
            assert plain == [view[at] for at in range(len(view))]
            assert plain == [view[at - len(view)] for at in range(len(view))]
            assert tuple(plain[1:3]) == view[1:3]
            with pytest.raises(IndexError):
                view[len(view)]

    def test_elements_tell_position_weight_and_role(self):
        """
        An element is what a step needs to decide.
        """
        context = TrimContext.of([SystemMessage("aaaa"), UserMessage("hello")])

        expected = Element(1, UserMessage("hello"), 2, "user")
        assert expected == context.remove(0).elements[0]

    def test_is_a_value(self):
        """
        Views of the same are equal, pickle, and can't be changed.
        """
        said = [UserMessage("a"), UserMessage("b")]
        context = TrimContext.of(said, TokenBudget(context_window=9)).remove(0)

        again = TrimContext.of(said, TokenBudget(context_window=9)).remove(0)
        assert again == context
        assert context == pickle.loads(pickle.dumps(context))
        with pytest.raises(AttributeError):
            context.budget = None  # type: ignore[misc]

    def test_says_what_is_wrong_with_its_arguments(self):
        """
        A number is no budget and a text no message; the error says what is.
        """
        with pytest.raises(TypeError, match="expected a TokenBudget"):
            TrimContext.of([UserMessage("a")], 8_000)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a view shows messages, got a str"):
            TrimContext.of(["a"])  # type: ignore[list-item]

    def test_is_readable(self):
        """
        Its repr tells how much of what is shown.
        """
        view = trim(
            [UserMessage("a" * 9), UserMessage("b")], TokenBudget(context_window=1)
        )

        assert "<TrimContext: 1 of 2 messages, 1 tokens, a limit of 1>" == repr(view)


class TestTrim:
    """
    `trim` runs a view through steps.
    """

    def test_runs_steps_in_order(self):
        """
        Each step gets what the one before gave.
        """
        said = [UserMessage("a"), UserMessage("b"), UserMessage("c")]

        view = trim(said, None, lambda c: c.remove(0), lambda c: c.remove(2))

        assert said[1:2] == view.messages

    def test_refuses_a_step_that_gives_no_view(self):
        """
        A step that forgot its return is named.
        """
        with pytest.raises(TypeError, match="gave None; a step takes"):
            trim([], None, lambda _: None)  # type: ignore[arg-type, return-value]

    @given(our.aggregators(), st.integers(0, 50))
    def test_never_touches_the_state(self, state, limit):
        """
        Whatever a view drops, the state is what it was.
        """
        before = list(state.entries)
        try:
            view = trim(state, TokenBudget(context_window=limit))
        except (BudgetExceededError, InvalidTranscriptError):
            view = TrimContext.of(state)

        assert before == list(state.entries)
        assert state.messages == view.original.messages


class TestCost:
    """
    Each message is weighed once in its life, and surveyed once in a state's.
    """

    def test_weighs_a_message_once_for_all_states_and_forks(self):
        """
        Turn by turn, in forks, joins and older states: one call a message.
        """
        asked = []

        def counter(message):
            asked.append(message)
            return 1

        state, kept = Aggregator.new(), []
        for n in range(200):
            state = state.add(UserMessage(str(n)))
            kept.append(state)
            trim(state, TokenBudget(context_window=10), counter=counter)

        fork = state.fork(at=150).add(UserMessage("other"))
        for view in (fork, state.join(fork), kept[77], kept[77].fork()):
            trim(view, TokenBudget(context_window=3), counter=counter)

        assert 201 == len(asked)

    def test_surveys_what_is_new(self, monkeypatch):
        """
        Fitting the next state reads what came since, not what was before; so
        does fitting an older one, which a later one has been read for.
        """
        said = [UserMessage("a"), AssistantMessage("b")] * 5_000
        state = Aggregator.new(messages=said)
        budget = TokenBudget(context_window=100)
        trim(state, budget)
        steps = []
        survey = type(TrimContext.of([])._survey())
        step = survey.with_message

        def counted(self, *args):
            steps.append(args)
            return step(self, *args)

        monkeypatch.setattr(survey, "with_message", counted)
        trim(state.add(UserMessage("c")), budget)
        assert 1 == len(steps)

        trim(state.fork(at=7_000), budget)
        assert 1 + 32 >= len(steps)


class TestRealConversations:
    """
    The recorded conversations at every budget.
    """

    def test_fit_holds_at_every_budget(self, shared_data):
        """
        A sample of budgets from 1 to the full size of all 100 conversations:
        within the budget and valid, or an error that names a larger one.
        """
        draw = random.Random(7)
        lines = (shared_data / "transcripts" / "airline.jsonl").read_text().splitlines()
        fitted, needed = 0, []
        for line in lines:
            said = [_plain(one) for one in json.loads(line)["messages"]]
            context = TrimContext.of(Aggregator.new(messages=said))
            for limit in draw.sample(range(1, context.total_tokens + 1), 40):
                budget = TokenBudget(context_window=limit)
                try:
                    view = trim(said, budget)
                except BudgetExceededError as error:
                    needed.append(limit < error.needed_tokens <= context.total_tokens)
                    continue

                fitted += 1
                assert view.total_tokens <= limit
                assert is_valid(list(view.messages))
                assert said[-1] == view.messages[-1]

        assert all(needed)
        assert fitted > len(lines)


def _plain(message):
    role, text = message["role"], message.get("content") or ""
    if role == "tool":
        return ToolMessage(text, tool_call_id=message["tool_call_id"])

    made = [
        ToolCall(one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in message.get("tool_calls", ())
    ]
    if role == "assistant":
        return AssistantMessage(text, tool_calls=made)

    return {"system": SystemMessage, "user": UserMessage}[role](text)


def test_a_long_view_is_not_written_out():
    """
    The view of a long talk is read lazily: its first message costs one.
    """
    said = [UserMessage("a")] * 10_000
    view = trim(said, None)

    assert said[:3] == list(islice(view.messages, 3))
    assert said[-1] is view.messages[-1]
