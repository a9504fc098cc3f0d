"""Trimming: views with guarantees, proven against brute force."""

import asyncio
import copy
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.counting import TokenBudget, by_characters
from conversation_state.errors import (
    BudgetExceededError,
    DroppedHistoryError,
    InvalidTranscriptError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.requests import is_made, make_prompt
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    Dropped,
    TrimContext,
    Trimmer,
    atrim,
    clear_tool_results,
    compact,
    fit,
    keep_first_and_last,
    keep_last,
    repair,
    rolling_summary,
    shorten_tool_results,
    trim,
)
from tests.profiles import fewer


def calls(*ids):
    """An assistant's message that makes these calls."""
    return AssistantMessage(tool_calls=[ToolCall(name, "f", "{}") for name in ids])


def result(call_id, text="res"):
    """The answer to a call."""
    return ToolMessage(text, tool_call_id=call_id)


# A user writes while two tools run.
MEANWHILE = [
    *(UserMessage("hi"), calls("x", "y"), UserMessage("?")),
    *(result("x", "1"), result("y", "2")),
]


def answers_stopped(message):
    """The id of a call that a made result answers; "" for other messages."""
    is_result = isinstance(message, ToolMessage) and message.text != "res"
    return message.tool_call_id if is_result else ""


# More than are copied for each result.
MANY = [f"c{at}" for at in range(100)]
LATE = {"c42", "c77"}


def is_valid(view: Sequence[Message]) -> bool:
    """The judge: a plain reading of what providers refuse, written on its own."""
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


def order_problems(view):
    """What is wrong with the order of *view*; forms are what `repair` mends."""
    order = {"orphaned result", "repeated result", "dangling call", "start"}
    return [flaw for flaw in view.problems() if flaw.kind in order]


def is_text(message):
    """Whether *message* has texts alone."""
    return all(isinstance(part, TextPart) for part in message.parts)


SILENT = {"system", "unknown"}


def with_task(history, lead, start):
    """
    What a view shows that starts its run there: the leading messages, the task, or a
    made message where there is none, unless the run begins with a user, and the run.
    """
    run = history[start:]
    speaker = next((one.role for one in run if one.role not in SILENT), "")
    if speaker == "user" or lead == len(history):
        return (*history[:lead], *run)

    # An empty message is no task: providers refuse it.
    users = [one for one in history[lead:start] if one.role == "user" and one.parts]
    users = [one for one in users if one.text.strip() or not is_text(one)]
    return (*history[:lead], *(users[-1:] or [make_prompt()]), *run)


def find_starts(history, lead):
    """
    Brute force: where a valid run may start. Messages of the system and of unknown
    roles alone are none, unless there is no other.
    """
    runs = range(lead, len(history) + (lead == len(history)))
    starts = [at for at in runs if is_valid((*history[:lead], *history[at:]))]
    spoken = [at for at in starts if {one.role for one in history[at:]} - SILENT]
    return spoken or starts


def best_view(history, limit, *, keep_system):
    """Brute force: what `fit` should give, or the error it should raise."""
    lead = 0
    while keep_system and lead < len(history) and history[lead].role == "system":
        lead += 1

    views = [with_task(history, lead, start) for start in find_starts(history, lead)]
    for view in views:
        if sum(map(by_characters, view)) <= limit:
            return view

    if not history:
        return ()

    return BudgetExceededError if views else InvalidTranscriptError


words = st.sampled_from(["x", "four", "eight wd", "a longer text of words", ""])
pool = st.one_of(
    words.map(SystemMessage),
    words.map(UserMessage),
    words.map(AssistantMessage),
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=3).map(lambda i: calls(*i)),
    st.builds(result, st.sampled_from("xyz"), words),
    st.just(UnknownMessage({})),
)
small = st.lists(pool, max_size=8).map(tuple)
anything = small | our.transcripts() | our.broken_transcripts()
options = st.fixed_dictionaries({"keep_system": st.booleans()})
# Any step.
one_step = st.one_of(
    st.builds(repair, at_end=st.booleans()),
    st.builds(
        shorten_tool_results,
        st.integers(0, 30),
        marker=st.sampled_from(["<{cut}>", "a longer marker, {cut} characters"]),
    ),
    st.builds(
        clear_tool_results,
        keep=st.integers(0, 4),
        marker=st.sampled_from([".", "[cleared]"]),
    ),
    st.builds(
        fit,
        keep_system=st.booleans(),
        slack=st.sampled_from([0, 0, 7]),
    ),
    st.builds(keep_last, st.integers(1, 6)),
    st.builds(keep_first_and_last, st.integers(0, 4), st.integers(1, 6)),
    st.builds(lambda seqs: lambda c: c.remove(seqs), st.sets(st.integers(0, 12))),
    st.builds(
        lambda start, stop, text: compact(range(start, stop), lambda _: text),
        st.integers(0, 8),
        st.integers(0, 8),
        st.sampled_from(["sum", "", "a long summary"]),
    ),
    st.builds(
        lambda limit, keep: rolling_summary(limit, keep, lambda m: f"{len(m)} read"),
        st.integers(0, 20),
        st.integers(0, 4),
    ),
)


class TestFit:
    """`fit` keeps the longest run of newest messages that fits and is valid."""

    @given(anything, st.integers(0, 60), options)
    def test_gives_what_brute_force_finds(self, history, limit, choice):
        """
        Over all transcripts, broken ones too: the longest valid view, or the error
        that no view is valid, or that says how much the smallest one needs.
        """
        expected = best_view(history, limit, **choice)
        budget = TokenBudget(context_window=limit)

        if isinstance(expected, tuple):
            assert expected == trim(history, budget, fit(**choice)).messages
        else:
            with pytest.raises(expected) as caught:
                trim(history, budget, fit(**choice))
            if expected is BudgetExceededError:
                needed = caught.value.needed_tokens
                enough = TokenBudget(context_window=needed)
                assert needed == trim(history, enough, fit(**choice)).total_tokens
                assert needed > limit
                with pytest.raises(BudgetExceededError):
                    trim(history, TokenBudget(context_window=needed - 1), fit(**choice))

    def test_no_limit(self):
        """Without a limit a made message of a user's has room, too."""
        chat = [UserMessage("hi"), calls("x"), result("x")]
        view = trim(chat, None, lambda view: view.remove([0]), fit())

        assert ["user", "assistant", "tool"] == [each.role for each in view.elements]

    @pytest.mark.parametrize("limit", range(6))
    @pytest.mark.parametrize(
        "texts", [("0", ""), ("0", *[""] * 5), ("", ""), ("0", "a", "")]
    )
    def test_begins_with_an_empty_user(self, texts, limit):
        """
        A run may begin with an empty message of a user, which fills no tokens: nothing
        is made to stand before it, and it needs no more than it fills.
        """
        first, *others = texts
        history = (AssistantMessage(first), *map(UserMessage, others))
        view = trim(history, TokenBudget(context_window=limit), fit())

        assert best_view(history, limit, keep_system=True) == view.messages

    @given(anything, st.integers(0, 60), st.data())
    def test_fits_what_a_step_before_it_left(self, history, limit, data):
        """After removals, fitting a view is fitting what it shows."""
        removed = data.draw(st.sets(st.integers(0, max(len(history) - 1, 0))))
        left = [one for at, one in enumerate(history) if at not in removed]
        expected = best_view(tuple(left), limit, keep_system=True)
        context = TrimContext.of(history, TokenBudget(context_window=limit))
        narrowed = context.remove(removed)

        if isinstance(expected, tuple):
            view = fit()(narrowed)
            assert expected == view.messages
            assert view.total_tokens == sum(map(by_characters, expected))
            own = [one.seq for one in view.elements if not is_made(one.message)]
            assert list(range(len(history))) == sorted(
                [*own, *(one.seq for one in view.dropped)]
            )
        else:
            with pytest.raises(expected):
                fit()(narrowed)

    @given(our.transcripts(min_size=1), st.integers(1, 40))
    def test_fitting_twice_changes_nothing(self, history, limit):
        """What fits is left as it is: the very same view."""
        try:
            view = trim(history, TokenBudget(context_window=limit))
        except BudgetExceededError:
            return

        assert view is fit()(view)

    def test_keeps_an_answer_with_its_calls(self):
        """Parallel calls and their results stay or go together, at every budget."""
        history = [UserMessage("aaaa"), calls("x", "y"), result("x"), result("y")]

        assert history == trim(history, TokenBudget(context_window=5)).messages
        with pytest.raises(BudgetExceededError) as caught:
            trim(history, TokenBudget(context_window=4))

        assert (5, 4) == (caught.value.needed_tokens, caught.value.limit_tokens)
        assert "needs 5 tokens and the budget leaves 4" in str(caught.value)

    @pytest.mark.parametrize("turns", [0, 100])
    @pytest.mark.parametrize("silent", [SystemMessage("brief"), UnknownMessage({})])
    def test_keeps_what_silent_messages_stand_behind(self, silent, turns):
        """These alone are no request: what was said before them stays, or nothing."""
        newest = [calls("x"), result("x", "r" * 400), silent, silent]
        history = [*[UserMessage("q"), AssistantMessage("a")] * turns, *newest]
        history.insert(2 * turns, UserMessage("Book!"))
        for step in ((), (keep_last(1),)):
            view = trim(history, TokenBudget(context_window=150), *step)

            assert history[-5:] == [*view.messages][-5:]

        for limit in (20, 100):
            with pytest.raises(BudgetExceededError):
                trim(history, TokenBudget(context_window=limit))

    def test_explains_why_no_view_is_valid(self):
        """A result without its call can't be shown, and the error names it."""
        history = [UserMessage("a"), result("gone")]

        with pytest.raises(InvalidTranscriptError, match=r"messages\[1\].*'gone'"):
            trim(history, TokenBudget(context_window=100), fit())

    def test_distinguishes_over_budget_from_invalid(self):
        """
        What a provider would refuse is dropped for that, the rest for size;
        and the invalid place is a failure.
        """
        history = [
            calls("lost"),
            UserMessage("aaaa"),
            UserMessage("b"),
            UserMessage("c"),
        ]

        view = trim(history, TokenBudget(context_window=2), fit())

        reason = "invalid: call lost has no result (messages[0])"
        assert (Dropped(0, reason), Dropped(1, "over budget")) == view.dropped
        ((step, error),) = view.failures
        assert fit() == step
        assert isinstance(error, DroppedHistoryError)
        assert ((0, 1), 1) == (error.seqs, error.dropped)
        assert (
            "the view leaves out 1 message: call lost has no result (messages[0]); put "
            "repair() before this step to keep them"
        ) == str(error)

    @pytest.mark.parametrize(
        ("reason", "history"),
        [
            ("call a has no result (messages[1])", [calls("a")]),
            ("calls a, b have no results (messages[1])", [calls("a", "b")]),
            (
                "calls a, b, c, 2 more have no results (messages[1])",
                [calls("a", "b", "c", "d", "e")],
            ),
            ("call without id has no result (messages[1])", [calls("")]),
            (f"call {'a' * 59}… has no result (messages[1])", [calls("a" * 61)]),
            ("two calls have one id (messages[1])", [calls("a", "a"), result("a")]),
            ("result has no call z before it (messages[1])", [result("z")]),
            (
                "call a has another result (messages[3])",
                [calls("a"), result("a"), result("a")],
            ),
            (
                "calls c42, c77 have no results (messages[1])",
                [calls(*MANY), *[result(id) for id in MANY if id not in LATE]],
            ),
            (
                "call c0 has another result (messages[4])",
                [calls(*MANY), *map(result, ["c0", "c1", "c0", *MANY[2:]])],
            ),
            (
                "call c42 has another result (messages[102])",
                [calls(*MANY), *map(result, MANY), result("c42")],
            ),
        ],
    )
    def test_names_the_invalid_place(self, reason, history):
        """
        Whatever a provider would refuse: `dropped` and `failures` name it, for
        every step that can't show what stands before it.
        """
        history = [UserMessage("old"), *history, UserMessage("new")]

        for step in (fit(), keep_last(9), keep_first_and_last(1, 9)):
            view = trim(history, None, step)
            # What `keep_first_and_last` keeps of the first ones is shown.
            gone = [one for one in view.dropped if one.seq]
            assert {f"invalid: {reason}"} == {one.reason for one in gone}
            assert UserMessage("new") == view.messages[-1]
            ((failed, error),) = view.failures
            assert failed == step
            assert reason in str(error)
            assert len(view.dropped) == error.dropped  # type: ignore[attr-defined]

    @fewer()
    @given(seed=st.randoms())
    def test_results_of_many_calls(self, seed):
        """In any order, and however many have come, each is pending until it comes."""
        order = seed.sample(MANY, len(MANY))
        state = Aggregator.new().add(UserMessage("go")).add(calls(*MANY))
        for at, id in enumerate(order):
            state = state.add(result(id))
            if not at % 7:
                view = trim(state.add(UserMessage("new")), None, repair())
                missing = {id for one in view if (id := answers_stopped(one))}

                assert {*order[at + 1 :]} == missing

        view = trim(state.add(UserMessage("new")), None)
        assert [*state, UserMessage("new")] == list(view)

    def test_keeps_the_task(self):
        """
        One prompt and many calls: the prompt stays, and the middle goes in whole
        groups.
        """
        history = [SystemMessage("s"), UserMessage("fix the tests, please")]
        for number in range(60):
            history += [calls(f"c{number}"), result(f"c{number}", "r" * 40)]

        view = trim(history, TokenBudget(context_window=120))

        assert tuple(history[:2]) == view.messages[:2]
        assert history[-1] == view.messages[-1]
        assert "assistant" == view.messages[2].role
        assert () == view.problems() == view.failures  # type: ignore[comparison-overlap]
        assert {"over budget"} == {one.reason for one in view.dropped}
        assert len(history) == len(view) + len(view.dropped)
        assert view.total_tokens <= 120

    @pytest.mark.parametrize("place", [0, 1, 2, 30, 31, 32, 33, 62, 63, 64, 95])
    def test_finds_the_task_wherever_it_is(self, place):
        """The newest user's message stays, however far back in a log it stands."""
        history: list[Message] = [UserMessage("old")] * place
        history.append(UserMessage("fix the tests, please"))
        for number in range(60):
            history += [calls(f"c{number}"), result(f"c{number}", "r" * 40)]

        state = Aggregator.new(history)
        view = trim(state, TokenBudget(context_window=120))

        assert "fix the tests, please" in [message.text for message in view.messages]
        assert history[-1] == view.messages[-1]
        assert () == view.problems()

    def test_a_nearer_user_is_better_than_the_task(self):
        """
        Where the task costs more than what is up to the next user's message, the view
        begins there.
        """
        history = [UserMessage("x" * 400), AssistantMessage("a"), UserMessage("b")]
        history.append(AssistantMessage("c"))

        view = trim(history, TokenBudget(context_window=50))

        assert history[2:] == view.messages

    def test_makes_a_user_where_none_speaks(self):
        """
        A greeting that was imported: providers refuse it without a message of a user.
        """
        view = trim([AssistantMessage("Hello?")], TokenBudget(context_window=50))

        assert [("user", True), ("assistant", False)] == [
            (one.role, is_made(one)) for one in view
        ]
        assert () == view.problems() == view.dropped  # type: ignore[comparison-overlap]
        assert sum(map(by_characters, view)) == view.total_tokens

    def test_views_with_failures_are_values(self):
        """Equal to the view of the same, and so after pickling."""
        history = [calls("lost"), UserMessage("a")]

        view = trim(history, None, fit())

        assert 1 == len(view.failures)
        assert (
            trim(list(history), None, fit()) == view == pickle.loads(pickle.dumps(view))
        )
        assert hash(view.failures[0]) == hash(
            pickle.loads(pickle.dumps(view.failures[0]))
        )
        assert view != trim([calls("other"), UserMessage("a")], None, fit())

    def test_views_of_other_counters_are_others(self):
        """Equal only where the same function counted, whatever it found."""
        history = [UserMessage("four")]
        one = TrimContext.of(history, counter=by_characters)
        other = TrimContext.of(history, counter=lambda message: 1)

        assert one.total_tokens == other.total_tokens
        assert one != other
        assert one == TrimContext.of(list(history), counter=by_characters)


class TestTrimContext:
    """Views are values over a state that never changes."""

    @given(anything, st.lists(st.sets(st.integers(-3, 12)), max_size=4))
    def test_remove_keeps_a_running_total(self, history, removals):
        """
        After any removals: the messages that are left, their sum, their old
        positions; and the views before are as they were.
        """
        context = TrimContext.of(history)
        left = dict(enumerate(history))
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
            assert set(range(len(history))) - left.keys() == {
                dropped.seq for dropped in context.dropped
            }

        assert history == context.original.messages

    def test_remove_takes_one_or_many(self):
        """A position or any iterable of them; unknown ones change nothing."""
        context = TrimContext.of([UserMessage("a"), UserMessage("b")])

        assert context.remove([1]) == context.remove(1) == context.remove(range(1, 9))
        assert context is context.remove([]) is context.remove([-1, 7])
        assert (
            context.remove(1) == context.remove([1, 1]) == context.remove(1).remove(1)
        )
        assert (Dropped(1, "removed"),) == context.remove(1).dropped
        with pytest.raises(TypeError):
            context.remove(["1"])  # type: ignore[list-item]

    @pytest.mark.parametrize(
        ("seqs", "left"),
        [
            ([3], [0, 1, 4, 2]),
            ([3, 4], [0, 1, 2]),
            ([1], [0, 2]),
            ([4, 1], [0, 2]),
        ],
    )
    def test_remove_what_was_moved(self, seqs, left):
        """A late result is removed by its own position, and goes with its call."""
        view = repair()(TrimContext.of(MEANWHILE)).remove(seqs)

        assert left == [each.seq for each in view.elements]
        assert {0, 1, 2, 3, 4} - {*left} == {each.seq for each in view.dropped}
        views_add_up(view)

    def test_repair_again(self):
        """A made message stays where it is, and is counted with what is there."""
        history = [SystemMessage("Brief."), AssistantMessage("hi"), UserMessage("?")]
        view = repair()(TrimContext.of([*history, AssistantMessage("a")]))
        again = repair()(view.replace(3, AssistantMessage("")))
        last = keep_last(1)(again)

        assert [0, 1, 1, 2] == [each.seq for each in again.elements]
        assert ["Brief.", "?"] == [each.text for each in last]
        views_add_up(last)

    def test_thinking_before_an_unknown_message(self):
        """A prompt that is made at the end parts it from nothing it may have led to."""
        history = [UserMessage("a"), AssistantMessage([ReasoningPart("Hm.")])]
        view = trim([*history, UnknownMessage({"role": "b"}), result("x")], None)

        assert () == view.problems()
        assert ["user", "assistant", "unknown", "user"] == [m.role for m in view]

    def test_replaced_call_of_what_was_moved(self):
        """A late result goes where a step replaced its call, and is listed."""
        view = repair()(TrimContext.of(MEANWHILE)).replace(1, calls("x"))
        again = repair()(view)

        assert [0, 1, 3, 2] == [each.seq for each in again.elements]
        assert [4] == [each.seq for each in again.dropped]
        assert "no call y" in again.dropped[0].reason
        views_add_up(again)

    def test_replace_one_of_several(self):
        """What stands at the position of a call stays: results that came late."""
        view = repair()(TrimContext.of(MEANWHILE))
        hidden = view.replace(3, result("x", "(hidden)"))
        hidden = hidden.replace(1, calls("x", "y").replace(content="So."))

        assert ["hi", "So.", "(hidden)", "2", "?"] == [each.text for each in hidden]
        assert () == hidden.problems()
        views_add_up(hidden)

    @pytest.mark.parametrize(
        ("kind", "seqs", "history"),
        [
            ("orphaned result", (0,), [result("x")]),
            ("orphaned result", (1,), [calls("y"), result("x")]),
            ("dangling call", (0, 1), [calls("x"), UserMessage("hi")]),
            ("dangling call", (0, 2), [calls("x", "y"), result("y"), calls("z")]),
            ("repeated result", (0, 2), [calls("x"), result("x"), result("x")]),
            ("repeated call id", (0,), [calls("x", "x")]),
            ("thinking alone", (0,), [AssistantMessage([ReasoningPart("Hm.")])]),
        ],
    )
    def test_problems_have_place_and_advice(self, kind, seqs, history):
        """Each flaw has a kind, the positions concerned, and a sentence."""
        flaws = TrimContext.of(history).problems()
        (flaw,) = [flaw for flaw in flaws if flaw.kind != "start"]

        assert (kind, seqs) == (flaw.kind, flaw.seqs)
        assert f"messages[{seqs[0]}]" in str(flaw)

    def test_what_it_shows_pickles(self):
        """
        What a view gives is pickled as a tuple, and nothing of what the view
        dropped with it; the counter may be any function.
        """
        history = [UserMessage("a secret"), UserMessage("b")]
        view = TrimContext.of(history, counter=lambda _: 1).remove(0)

        for part in (view.messages, view.elements, view.dropped):
            pickled = pickle.dumps(part)

            assert tuple(part) == pickle.loads(pickled) == part
            assert b"secret" not in pickled
            assert copy.copy(part) == copy.deepcopy(part) == part

    def test_what_was_dropped_behind_what_stays(self):
        """Each position of it is the message at that place, however it is asked for."""
        state = Aggregator.new([SystemMessage("Be brief.")])
        for number in range(20):
            state = state.add_user_prompt(f"question {number}")

        dropped = trim(state, TokenBudget(context_window=40)).dropped

        assert 1 == dropped[0].seq
        assert 1 < len(dropped) < 20
        assert [*range(1, len(dropped) + 1)] == [
            dropped[at].seq for at in range(len(dropped))
        ]
        assert len(dropped) == dropped[-1].seq

    def test_explains_wrong_arguments(self):
        """
        A number is not a budget and a text no message; the error has what was given.
        """
        with pytest.raises(TypeError, match="expected a TokenBudget"):
            TrimContext.of([UserMessage("a")], 8_000)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a message, got a str"):
            TrimContext.of(["a"])  # type: ignore[list-item]


class TestTrim:
    """`trim` runs a view through steps."""

    def test_refuses_a_step_that_gives_no_view(self):
        """A step that forgot its return is named."""
        with pytest.raises(
            TypeError, match="expected a TrimContext in return, got None"
        ):
            trim([], None, lambda _: None)  # type: ignore[arg-type, return-value]


def stopped(turns=50):
    """A state in which a user stopped a tool call and went on."""
    state = Aggregator.new(messages=[SystemMessage("sys")])
    for n in range(turns):
        state = state.add_user_prompt(f"q{n}").add_assistant_message(f"a{n}")

    state = state.add_tool_call(ToolCall("call_1", "f", "{}"))
    state = state.add_user_prompt("still there?").add_assistant_message("yes")
    return state.add_user_prompt("what did I ask first?")


class TestDefault:
    """Without steps a view is repaired and fitted: nothing is lost in silence."""

    def test_keeps_what_stands_before_a_stopped_call(self):
        """
        All messages are shown, and the call has a result that says that there is none;
        by every way to trim.
        """
        state = stopped()
        budget = TokenBudget(context_window=8_000)

        views = [
            trim(state, budget),
            asyncio.run(atrim(state, budget)),
            Trimmer(budget)(state),
            asyncio.run(Trimmer(budget).acall(state)),
        ]

        for view in views:
            assert views[0] == view
            assert len(state) + 1 == len(view)
            assert () == view.problems() == view.dropped == view.failures  # type: ignore[comparison-overlap]
            assert "q0" == view.messages[1].text
            assert "call_1" == view.messages[102].tool_call_id  # type: ignore[attr-defined]

    @given(anything, st.integers(0, 60))
    def test_is_what_the_two_steps_give_one_by_one(self, history, limit):
        """
        Over all transcripts, broken ones too: as if `repair` had looked at a
        view that other steps changed before.
        """
        budget = TokenBudget(context_window=limit)
        more = TrimContext.of([*history, UserMessage("gone")], budget)
        try:
            expected = fit()(repair()(more.remove(len(history))))
        except (BudgetExceededError, InvalidTranscriptError) as error:
            with pytest.raises(type(error)):
                trim(history, budget)
            return

        view = trim(history, budget)

        assert list(expected.elements) == list(view.elements)
        assert list(expected.dropped)[:-1] == list(view.dropped)
        assert expected.failures == view.failures
        assert expected.total_tokens == view.total_tokens
        # What `fit` takes from the log is what it finds in the view.
        fresh = pickle.loads(pickle.dumps(repair()(TrimContext.of(history, budget))))
        assert fit()(fresh) == view


class TestCost:
    """Each message is weighed once in its life, and surveyed once in a state's."""

    def test_weighs_a_message_once_for_all_states_and_forks(self):
        """Turn by turn, in forks, joins and older states: one call a message."""
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


def test_long_names_of_steps():
    """A step that returns no view is named, however long its qualified name is."""

    def step(view):
        return None

    step.__qualname__ = f"{'a' * 80}.drop_images"

    with pytest.raises(TypeError, match=r"drop_images: expected a TrimContext"):
        trim(Aggregator.new(), None, step)
