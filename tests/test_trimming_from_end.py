"""
Views of long conversations, which are found from the end: what they show depends on the
conversation and the budget alone, damaged or not.
"""

from functools import partial
from itertools import count as count_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, decode, encode
from conversation_state.counting import TokenBudget
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ReasoningPart
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import TrimContext, fit, repair, trim
from tests.processes import count_calls
from tests.test_trimming import calls, result

DAMAGE = {
    "orphan": lambda _: result("gone"),
    "stopped call": lambda n: calls(f"stopped_{n}"),
    "second result": lambda n: result(f"c{n - 1}", "again"),
    "empty prompt": lambda _: UserMessage(" "),
    "empty answer": lambda _: AssistantMessage(""),
    "thinking alone": lambda _: AssistantMessage([ReasoningPart("hm")]),
    "late instruction": lambda _: SystemMessage("Be brief."),
}


@st.composite
def long_states(draw, damage=tuple(DAMAGE), *, ids=("unique",)):
    """
    Conversations of 70 to 250 messages: turns with calls and results, more or fewer
    prompts, some results that come late, and *damage* at up to four places.
    """
    random = draw(st.randoms(use_true_random=False))
    rate = draw(st.sampled_from([0.02, 0.1, 0.4]))
    messages = [SystemMessage("Help.")] * draw(st.integers(0, 2))
    size = draw(st.integers(70, 250))
    places = draw(st.lists(st.integers(0, 80), max_size=4)) if damage else []
    is_reused = draw(st.sampled_from(ids)) == "reused"
    late = []  # type: ignore[var-annotated]
    for turn in count_from():
        if random.random() < rate:
            messages.append(UserMessage("go on " * random.randint(1, 9)))  # type: ignore[arg-type]

        if late and random.random() < 0.3:
            messages.append(result(late.pop()))

        if turn in places:
            messages.append(DAMAGE[draw(st.sampled_from(damage))](turn))

        if len(messages) >= size:
            break

        name = "call_0" if is_reused else f"c{turn}"
        messages.append(calls(name))
        if damage and not is_reused and random.random() < 0.03:
            late.append(name)
        else:
            messages.append(result(name, "res " * random.randint(1, 20)))

    state = Aggregator.new(messages=messages)
    return state if draw(st.booleans()) else state.add_user_prompt("Next?")


limits = st.integers(10, 2_000)


def show(state, limit, *steps):
    """What a view shows, with positions, or the error that it raises."""
    try:
        view = trim(state, TokenBudget(context_window=limit), *steps)
    except (BudgetExceededError, InvalidTranscriptError) as error:
        return type(error)

    return [(each.seq, each.message) for each in view.elements]


class TestFromTheEnd:
    """The newest messages are read alone, and nothing differs for it."""

    @given(long_states(damage=()), limits)
    def test_valid_ones_as_by_a_survey_of_the_whole(self, state, limit):
        """
        Of a conversation without damage: the view that is found from its end is the one
        that reading all of it gives.
        """
        found = show(decode(encode(state)), limit)

        def survey(view):
            return view

        assert show(state, limit, repair(), survey, fit()) == found

    @given(long_states(), limits)
    def test_damaged_ones_as_by_a_repair_of_the_whole(self, state, limit):
        """
        Of a damaged conversation, too: what is shown is what repairing all of it and
        fitting that gives, where neither is refused.
        """
        found = show(decode(encode(state)), limit)
        whole = repair()(trim(state, None, lambda view: view))
        view = show_of(whole, limit)
        if found is not BudgetExceededError and view is not BudgetExceededError:
            assert view == found

    @given(long_states(ids=("unique", "reused")), st.lists(limits, max_size=3), limits)
    def test_what_was_asked_before_changes_nothing(self, state, others, limit):
        """
        A view is the same whether the conversation was never read, was read for other
        budgets, or was read as a whole: ids that were changed, too.
        """
        expected = show(decode(encode(state)), limit)
        for other in others:
            show(state, other)

        assert show(state, limit) == expected
        trim(state, None)
        assert show(state, limit) == expected
        show(state, limit, fit())
        assert show(state, limit) == expected

    def test_an_empty_system_message_is_left_out(self):
        """As it is of a short conversation, and listed."""
        lead = [SystemMessage("Be brief."), SystemMessage("")]
        turns = [UserMessage("question"), AssistantMessage("answer")]
        for count in (2, 100):
            view = trim([*lead, *turns * count], TokenBudget(context_window=20))

            assert () == view.problems()
            assert ["Be brief.", "question"] == [each.text for each in view][:2]
            assert (1, "invalid: message is empty (messages[1])") == view.dropped[0]

    def test_reading_the_whole_changes_no_id(self):
        """
        An id that an old and a new turn have stays as it is where a view shows the new
        one alone, also after the whole was read.
        """
        state = Aggregator.new([UserMessage("Go.")])
        for n in range(60):
            name = "call_0" if n in {3, 57} else f"c{n}"
            state = state.add(calls(name)).add(result(name, "res " * 5))

        fresh = decode(encode(state))
        (flaw,) = trim(state, None, lambda view: view).problems()
        trim(state, None)

        assert "repeated call id" == flaw.kind
        assert show(state, 200) == show(fresh, 200)

    @given(long_states(ids=("unique", "reused")), limits)
    def test_they_are_right(self, state, limit):
        """
        No problem is left, the first to speak is a user, nothing is over the budget,
        and each message is shown or listed as dropped.
        """
        try:
            view = trim(state, TokenBudget(context_window=limit))
        except BudgetExceededError:
            return

        views_add_up(view)
        assert () == view.problems()
        assert view.total_tokens <= limit
        assert sum(each.tokens for each in view.elements) == view.total_tokens
        spoken = [one for one in view.messages if one.role != "system"]
        assert spoken[0].role == "user"
        assert {each.seq for each in view.elements} | {
            each.seq for each in view.dropped
        } == {*range(len(state))}
        assert list(trim(list(view.messages), None).messages) == list(view.messages)


def show_of(view, limit):
    """What `fit` shows of *view*, whose every message was read and repaired."""
    messages = list(view.messages)
    positions = [each.seq for each in view.elements]
    fitted = TrimContext.of(messages, TokenBudget(context_window=limit))
    try:
        fitted = fit().fit_shown(fitted)  # type: ignore[attr-defined]
    except BudgetExceededError as error:
        return type(error)

    return [(positions[each.seq], each.message) for each in fitted.elements]


class TestTheTask:
    """Which message of a user stays before the run."""

    @pytest.mark.parametrize("content", ["", " \n"])
    def test_is_not_an_empty_one(self, content):
        """A message that providers refuse is no task; the one before it is."""
        state = Aggregator.new([UserMessage("Fix it."), UserMessage(content)])
        for n in range(60):
            state = state.add(calls(f"c{n}")).add(result(f"c{n}", "done " * 9))

        view = trim(state, TokenBudget(context_window=200))

        assert "Fix it." == view.messages[0].text
        assert () == view.problems()

    def test_has_a_name_that_all_take(self):
        """Its name is made right, like those of the newest messages."""
        state = Aggregator.new([UserMessage("Fix it.", name="Ann Lee")])
        for n in range(60):
            state = state.add(calls(f"c{n}")).add(result(f"c{n}", "done " * 9))

        view = trim(state, TokenBudget(context_window=200))

        assert "Fix it." == view.messages[0].text
        assert () == view.problems()


class TestChangedIds:
    """Ids of calls that came twice."""

    def test_depend_on_their_message_alone(self):
        """
        Of two calls with one id in one message both have the same new ids, whatever
        is before it.
        """
        state = Aggregator.new([UserMessage("Go.")])
        for n in range(100):
            twice = AssistantMessage(
                tool_calls=[ToolCall("call_0", "f"), ToolCall("call_0", "g")]
            )
            state = state.add(twice)
            for text in ("one", f"two of {n}"):
                state = state.add(ToolMessage(text, tool_call_id="call_0"))

        newest = set()
        for limit in (40, 80, 160):
            view = trim(state, TokenBudget(context_window=limit))
            last = [one for one in view.messages if one.tool_calls][-1]
            newest.add(tuple(call.id for call in last.tool_calls))

        assert 1 == len(newest)


class TestCost:
    """What was wrong long ago costs nothing in later turns."""

    def test_of_a_call_that_was_stopped_at_the_beginning(self):
        """
        Once all was read, by a view without a budget say, a turn behind a stopped call
        costs the same after 400 messages as after 4,000.
        """
        costs = []
        for size in (200, 2_000):
            state = Aggregator.new([UserMessage("Go."), calls("stopped")])
            for n in range(size):
                state = state.add(UserMessage(f"question {n}"))
                state = state.add(AssistantMessage(f"answer {n}"))

            trim(state, None)
            budget = TokenBudget(context_window=100)
            trim(state, budget)
            later = state.add_user_prompt("And now?")
            costs.append(count_calls(partial(trim, later, budget)))

        assert costs[1] < 1.5 * costs[0]
