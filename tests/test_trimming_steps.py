"""Steps that keep a number of messages, and that make tool results smaller."""

import pickle
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conversation_state import Aggregator, requests
from conversation_state.counting import TokenBudget, by_characters
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, ReasoningPart, TextPart
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    Dropped,
    Element,
    TrimContext,
    arolling_summary,
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
from tests.test_trimming import (
    SILENT,
    anything,
    calls,
    find_starts,
    is_valid,
    order_problems,
    result,
    small,
    with_task,
)


def by_length(message):
    """A counter that leaves nothing to rounding."""
    return len(message.text) + len(getattr(message, "tool_calls", ()))


def _seqs(dropped):
    return [(one.seq,) for one in dropped]


THOUGHT = AssistantMessage([ReasoningPart("hm")])
TURN = [UserMessage("b"), AssistantMessage("c"), UserMessage("d")]
LEFT_OUT = {"empty message", "thinking alone"}


def find_last_run(history, n):
    """
    Brute force: where the most starts that `keep_last` may keep, or that of the next
    size; None if no run is valid.
    """
    lead = find_lead(history)
    starts = find_starts(history, lead)
    small_enough = [start for start in starts if len(history) - start <= n]
    return (small_enough or starts[-1:] or [None])[0]


def find_lead(history):
    """How many system messages stand before all others."""
    lead = 0
    while lead < len(history) and history[lead].role == "system":
        lead += 1

    return lead


def kept_last(history, n):
    """Brute force: what `keep_last` shows."""
    start = find_last_run(history, n)
    return None if start is None else with_task(history, find_lead(history), start)


class TestKeepLast:
    """`keep_last` keeps so many messages, and no group in part."""

    # All of them, and a made prompt before the first.
    @example((AssistantMessage("a"), *[UserMessage("b")] * 4), 5)
    @given(anything, st.integers(1, 6))
    def test_keeps_the_most_that_is_valid(self, history, n):
        """The longest valid run of at most *n*; if there is none, the shortest."""
        expected = kept_last(history, n) if history else ()
        step = keep_last(n)
        if expected is None:
            with pytest.raises(InvalidTranscriptError):
                trim(history, None, step)
            return

        view = trim(history, None, step)

        assert expected == view.messages
        assert [] == order_problems(view)
        views_add_up(view)
        assert view is step(view)

    @given(small, st.integers(1, 4), st.data())
    def test_counts_what_a_view_shows(self, history, n, data):
        """After other steps: what they dropped or put there counts as shown."""
        removed = data.draw(st.sets(st.integers(0, 8)))
        context = repair()(TrimContext.of(history).remove(removed))
        expected = kept_last(tuple(context.messages), n) if len(context) else ()
        if expected is None:
            with pytest.raises(InvalidTranscriptError):
                keep_last(n)(context)
            return

        view = keep_last(n)(context)

        views_add_up(view)
        # An answer that `repair` made goes only together with the call.
        assert [] == order_problems(view)
        # So does a made prompt, which the count of single messages does not know.
        if not any(
            isinstance(one, UserMessage) and requests.is_made(one) for one in context
        ):
            assert expected == view.messages


class TestKeepFirstAndLast:
    """`keep_first_and_last` keeps both ends."""

    @given(anything, st.integers(0, 4), st.integers(1, 4))
    def test_keeps_whole_groups_at_both_ends(self, history, m, n):
        """
        Valid, with what `keep_last` keeps, and before it as many of the first
        messages as are whole.
        """
        start = find_last_run(history, n) if history else 0
        if start is None:
            with pytest.raises(InvalidTranscriptError):
                trim(history, None, keep_first_and_last(m, n))
            return

        view = trim(history, None, keep_first_and_last(m, n))

        lead = len(list(history)) and next(
            (at for at, one in enumerate(history) if one.role != "system"), len(history)
        )
        heads = [
            head
            for head in range(m + 1)
            if is_valid((*history[: lead + head], UserMessage("")))
            and all(is_valid(history[: lead + at]) for at in range(head))
        ]
        head = min(lead + max(heads, default=0), len(history))
        expected = history if head >= start else (*history[:head], *history[start:])
        if all(one.role in SILENT for one in history[:head]):
            kept = lead if head <= lead else min(head, start)
            expected = with_task(history, kept, start)

        assert expected == view.messages
        kinds = {one.kind for one in order_problems(view)}
        # What is kept of the first messages may begin with an answer.
        assert kinds <= ({"start"} if head > lead else set())
        views_add_up(view)


class TestBehindRepair:
    """Steps show a valid part of what `repair` made right."""

    @example([calls("x"), result("x"), *TURN], [keep_first_and_last(1, 1)], 9)
    @example(
        [UserMessage(""), calls("x"), result("x"), *TURN],
        [keep_first_and_last(2, 1)],
        9,
    )
    # A first message that is the start of something longer, or shows nothing.
    @example([THOUGHT, AssistantMessage("a"), *TURN], [keep_first_and_last(2, 1)], 9)
    @example([result("x"), calls("y"), *TURN[1:]], [keep_first_and_last(1, 1)], 9)
    @given(
        anything,
        st.lists(
            st.one_of(
                st.builds(keep_last, st.integers(1, 4), keep_system=st.booleans()),
                st.builds(
                    keep_first_and_last,
                    st.integers(0, 4),
                    st.integers(1, 4),
                    keep_system=st.booleans(),
                ),
                st.builds(
                    fit, keep_system=st.booleans(), slack=st.sampled_from([0, 7])
                ),
                st.builds(shorten_tool_results, st.integers(0, 9)),
                st.builds(clear_tool_results, keep=st.integers(0, 2)),
                st.builds(
                    lambda limit, keep: rolling_summary(
                        limit, keep, lambda messages: UserMessage("read")
                    ),
                    st.integers(0, 20),
                    st.integers(1, 3),
                ),
            ),
            min_size=1,
            max_size=3,
        ),
        st.integers(10, 60),
    )
    def test_is_valid(self, history, steps, limit):
        """
        No problems, any steps behind it: no call is parted from its result, thinking
        leads to something, and a user speaks first.
        """
        try:
            view = trim(history, TokenBudget(context_window=limit), repair(), *steps)
        except BudgetExceededError:
            return

        assert () == view.problems()
        views_add_up(view)


class TestShortenToolResults:
    """`shorten_tool_results` cuts the middle out of long results."""

    @given(
        st.text(max_size=60) | st.text(max_size=400), st.integers(0, 50), st.booleans()
    )
    def test_holds_the_limit_and_keeps_both_ends(self, text, limit, exact):
        """
        Within the limit, or nothing but the marker; as long as has room; and
        the same again.
        """
        counter = by_length if exact else by_characters
        history = [calls("x"), result("x", text), UserMessage("go on")]
        step = shorten_tool_results(limit, marker="<{cut}>")

        context = TrimContext.of(history, counter=counter)
        view = step(context)

        views_add_up(view)
        assert view is step(view)
        (shown,) = [one for one in view if one.role == "tool"]
        if counter(result("x", text)) <= limit:
            assert view is context
        elif shown.text == f"<{len(text):,}>":
            start, stop = text[:1], text[1:]
            if len(text) > 1:
                assert counter(result("x", f"{start}<{len(stop):,}>")) > limit
        else:
            assert counter(shown) <= limit
            before, _, rest = shown.text.rpartition("<")
            gone, _, after = rest.partition(">")
            while not gone.replace(",", "").isdigit():
                before, _, more = before.rpartition("<")
                rest = f"{more}<{rest}"
                gone, _, after = rest.partition(">")
            assert text.startswith(before)
            assert text.endswith(after)

    def test_marks_how_much_is_gone(self):
        """Beginning and end stay, with a note between, and the number is right."""
        history = [calls("x"), result("x", "a" * 500 + "b" * 500)]

        view = trim(history, None, shorten_tool_results(30))

        text = view.messages[1].text
        kept = text.replace("\n[… 906 characters cut …]\n", "")
        assert "a" * 47 + "b" * 47 == kept
        assert 30 == by_characters(view.messages[1])
        assert history[1] is view.original.messages[1]
        assert () == view.dropped

    def test_keeps_all_else(self):
        """Ids, names, metadata, images and the position stay."""
        image = ImagePart(data=b"GIF89a", media_type="image/gif")
        long = ToolMessage(
            [TextPart("a" * 99), image, TextPart("b" * 99)],
            tool_call_id="x",
            tool_name="f",
            is_error=True,
            metadata={"mine": 1, "conversation_state": {"also": 2}},
        )

        view = trim(
            [calls("x"), long], None, shorten_tool_results(10, marker="-{cut}-")
        )

        shown = view.messages[1]
        assert image is shown.parts[1]
        assert "a" * 18 + "-163-" == shown.parts[0].text  # type: ignore[attr-defined]
        assert "b" * 17 == shown.parts[2].text  # type: ignore[attr-defined]
        assert ("x", "f", True) == (shown.tool_call_id, shown.tool_name, shown.is_error)  # type: ignore[attr-defined]
        assert 1 == shown.metadata["mine"]
        mark = {"also": 2, "shortened_to": 35}
        assert mark == dict(shown.metadata["conversation_state"])
        assert 1 == view.elements[1].seq

    def test_leaves_images_and_others_messages_alone(self):
        """The limit is on the texts of tool results."""
        image = ImagePart(data=b"GIF89a")
        history = [
            UserMessage("a" * 99),
            calls("x"),
            ToolMessage([image, TextPart("short")], tool_call_id="x"),
        ]
        context = TrimContext.of(history)

        assert context is shorten_tool_results(10)(context)

    def test_shortens_again_what_was_shortened_less(self):
        """A smaller limit cuts more, a larger one nothing."""
        history = [calls("x"), result("x", "word " * 500)]
        once = trim(history, None, shorten_tool_results(100))

        assert once is shorten_tool_results(200)(once)
        twice = shorten_tool_results(20)(once)
        assert 20 >= by_characters(twice.messages[1])
        views_add_up(twice)


class TestClearToolResults:
    """`clear_tool_results` empties old results and keeps the pairs."""

    @given(anything, st.integers(0, 4))
    def test_clears_all_but_the_newest(self, history, keep):
        """
        The same messages at the same positions; old results are shorter; and doing it
        again changes nothing.
        """
        step = clear_tool_results(keep=keep, marker=".")
        context = TrimContext.of(history)

        view = step(context)

        views_add_up(view)
        assert view is step(view)
        assert view.total_tokens <= context.total_tokens
        assert context.problems() == view.problems()
        assert len(history) == len(view)
        results = [at for at, one in enumerate(history) if one.role == "tool"]
        old = results[: max(len(results) - keep, 0)]
        for at, (was, now) in enumerate(zip(history, view, strict=True)):
            if at in old and by_characters(was) > 1:
                assert "." == now.content  # type: ignore[attr-defined]
                assert was.tool_call_id == now.tool_call_id  # type: ignore[attr-defined]
                assert was.tool_name == now.tool_name  # type: ignore[attr-defined]
            else:
                assert was is now

    def test_keeps_three(self):
        """By default; and media go, too."""
        image = ToolMessage([ImagePart(data=b"GIF89a")], tool_call_id="a")
        history = [calls(*"abcd"), image, *[result(name, "b" * 50) for name in "bcd"]]

        view = trim(history, None, clear_tool_results())

        assert ["[cleared]", *["b" * 50] * 3] == [one.text for one in view][1:]
        assert view.messages[1].metadata["conversation_state"]["cleared"] is True
        assert history == view.original.messages


class TestRepair:
    """`repair` leaves no result and no call alone."""

    def test_turns_alternate(self):
        """By the rules of a host that wants it, made messages stand between."""
        rules = requests.rules("openai_chat", host="perplexity")
        user, answer = UserMessage("q"), AssistantMessage("a")
        history = [user, user, SystemMessage("By the way."), user, answer, answer, user]
        view = trim(history, None, rules=rules)
        late = [element.seq for element in view.elements if element.role == "system"]

        assert [*"q-q.-qa-aq"] == [
            "-" if requests.is_made(one) else one.text[-1] for one in view
        ]
        assert [2] == late
        assert () == view.problems()
        assert view is repair()(view)

    @pytest.mark.parametrize("limit", range(8, 40))
    def test_turns_alternate_behind_the_task(self, limit):
        """The task brings no neighbour of its own side, nor what was made for it."""
        rules = requests.rules("openai_chat", host="perplexity")
        user, blank, late = (
            UserMessage("hello"),
            UserMessage("  "),
            SystemMessage("Way."),
        )
        calling = AssistantMessage("a", tool_calls=[ToolCall("c", "f", "{}")])
        for history in (
            [user, user, user, late, blank, user, late, user],
            [user, blank, calling, AssistantMessage("hello"), user],
        ):
            try:
                view = trim(history, TokenBudget(context_window=limit), rules=rules)
            except BudgetExceededError:
                continue

            assert () == view.problems()
            views_add_up(view)

    @pytest.mark.parametrize("limit", range(3, 9))
    def test_thinking_stays_with_what_it_led_to(self, limit):
        """No view begins with what thinking led to, without the thinking."""
        thinking, answer = (
            AssistantMessage([ReasoningPart("hm")]),
            AssistantMessage("a"),
        )
        history = [UserMessage("q"), thinking, answer, UserMessage("r")]
        budget = TokenBudget(context_window=limit)
        view = list(trim(history, budget, counter=lambda _: 2))

        assert (thinking in view) == (answer in view)

    @given(anything, st.booleans(), st.sets(st.integers(0, 8)))
    def test_closes_every_call_and_drops_every_orphan(self, history, at_end, removed):
        """
        Nothing is left of those problems, all else is as it was, and doing it
        again changes nothing.
        """
        context = TrimContext.of(history).remove(removed)
        step = repair(at_end=at_end)

        view = step(context)

        views_add_up(view)
        assert () == view.problems()
        assert view is step(view)
        if not context.problems() and not at_end:
            assert view is context

        # All that anybody said stays, in its order.
        empty = {one.seqs for one in context.problems() if one.kind in LEFT_OUT}
        spoken = [
            one.message
            for one in context.elements
            if one.role != "tool" and (one.seq,) not in empty
        ]
        shown = [one for one in view if one.role != "tool" and not _is_synthetic(one)]
        assert [(one.role, one.text) for one in spoken] == [
            (one.role, one.text) for one in shown
        ]
        # A result is shown, or there is a reason why not.
        results = [one.text for one in context.messages if one.role == "tool"]
        kept = [one for one in view if one.role == "tool" and not _is_synthetic(one)]
        dropped = [one for one in view.dropped if one.reason.startswith("invalid")]
        # Where nothing else is left, a made message stands for one that is.
        assert len(dropped) <= len(view.failures) <= len(dropped) + 1
        assert len(results) == len(kept) + len(dropped) - len(empty & {*_seqs(dropped)})
        if at_end:
            more = TrimContext.of([*view.messages, UserMessage("go on")])
            assert () == more.problems()

    def test_lets_an_agent_go_on(self):
        """
        Stopped in the middle of two calls: one result is there, the other
        is a placeholder for the missing one.
        """
        history = [UserMessage("a"), calls("x", "y"), result("x"), UserMessage("b")]
        state = Aggregator.new(messages=history)

        view = trim(state, TokenBudget(context_window=100), repair(), fit())

        assert () == view.problems()
        answer = view.messages[2]
        assert ("y", "f", True) == (
            answer.tool_call_id,  # type: ignore[attr-defined]
            answer.tool_name,  # type: ignore[attr-defined]
            answer.is_error,  # type: ignore[attr-defined]
        )
        assert "unknown" in answer.text
        assert answer.metadata["conversation_state"]["synthetic"] is True
        assert [0, 1, 1, 2, 3] == [one.seq for one in view.elements]
        assert history == list(state.messages)

    def test_drops_what_answers_nothing(self):
        """Orphans and second answers, each with its place."""
        history = [UserMessage("a"), result("w"), calls("x"), result("x")]
        history += [result("x"), result("y")]

        view = trim(history, None, repair())

        assert [history[0], *history[2:4]] == view.messages
        reasons = {
            1: "result has no call w before it (messages[1])",
            4: "call x has another result (messages[4])",
            5: "result has no call y before it (messages[5])",
        }
        assert [
            Dropped(seq, f"invalid: {reason}") for seq, reason in reasons.items()
        ] == list(view.dropped)
        assert [
            f"the view leaves out 1 message: {reason}" for reason in reasons.values()
        ] == [str(failure.error) for failure in view.failures]

    def test_a_call_without_id_gets_one(self):
        """Its result, which can't name it, is made up under the new id."""
        nameless = ToolCall("", "f", "{}")
        history = [UserMessage("a"), AssistantMessage("Well.", tool_calls=[nameless])]
        history.append(UserMessage("go on"))

        view = trim(history, None, repair())

        (call,) = view.messages[1].tool_calls
        assert call.id
        assert call.id == view.messages[2].tool_call_id  # type: ignore[attr-defined]
        assert _is_synthetic(view.messages[2])
        assert () == view.problems() == view.dropped == view.failures  # type: ignore[comparison-overlap]
        views_add_up(view)

    def test_a_late_result_moves_to_its_call(self):
        """
        The user wrote while a tool ran: the result exists, so nothing is made up, and
        it keeps its position.
        """
        history = [UserMessage("a"), calls("x", "y"), result("x"), UserMessage("b")]
        history += [AssistantMessage("c"), result("y", "late"), UserMessage("d")]

        view = trim(history, None, repair())

        order = [0, 1, 2, 5, 3, 4, 6]
        assert order == [one.seq for one in view.elements]
        assert [history[seq] for seq in order] == list(view.messages)
        assert [one.message for one in view.elements] == [
            view.messages[at] for at in range(7)
        ]
        assert () == view.problems() == view.dropped == view.failures  # type: ignore[comparison-overlap]
        # What goes with its call is dropped with it.
        gone = fit()(trim(history, TokenBudget(context_window=3), repair()))
        assert {1, 2, 5} <= {one.seq for one in gone.dropped}

    def test_a_result_that_came_is_better_than_one_made_up(self):
        """An error that was made up goes when the result comes, with its reason."""
        made = ToolMessage(
            "no",
            tool_call_id="x",
            is_error=True,
            metadata={"conversation_state": {"synthetic": True}},
        )
        history = [UserMessage("a"), calls("x"), made, UserMessage("b"), result("x")]

        view = trim(history, None, repair())

        assert [history[0], history[1], history[4], history[3]] == list(view.messages)
        assert [2] == [one.seq for one in view.dropped]
        assert () == view.problems()

    @pytest.mark.parametrize(
        ("message", "kind"),
        [
            (AssistantMessage(""), "empty message"),
            (UserMessage(" "), "empty message"),
            (AssistantMessage([ReasoningPart("hm")]), "thinking alone"),
        ],
    )
    def test_leaves_out_what_is_empty(self, message, kind):
        """
        Providers refuse it: it is a problem, and what `repair` leaves out is listed.
        """
        history = [UserMessage("a"), message, UserMessage("b")]

        view = trim(history, None)

        (flaw,) = TrimContext.of(history).problems()
        assert (kind, (1,)) == (flaw.kind, flaw.seqs)
        assert [history[0], history[2]] == view.messages
        assert [1] == [one.seq for one in view.dropped]
        assert () == view.problems()
        assert 1 == len(view.failures)

    @pytest.mark.parametrize("length", [4, 400])
    def test_an_id_of_an_earlier_turn_is_changed(self, length):
        """
        With its result; by its entry alone, so that each view has the same id, whether
        all or the newest messages fit.
        """
        state = Aggregator.new()
        for turn in range(length):
            state = state.add_user_prompt(f"question {turn}").add(calls("call_0"))
            state = state.add_tool_response(result("call_0", f"result {turn}"))

        view = trim(state, TokenBudget(context_window=100))
        later = trim(state.add_user_prompt("b"), TokenBudget(context_window=100))

        ids = [call.id for one in view for call in one.tool_calls]
        assert len({*ids}) == len(ids) > 2
        answers = [one.tool_call_id for one in view if isinstance(one, ToolMessage)]
        assert ids == answers
        again = [call.id for one in later for call in one.tool_calls]
        assert ids[-2:] == again[-2:]
        assert () == view.problems() == later.problems()
        (flaw, *_) = TrimContext.of(state).problems()
        assert "repeated call id" == flaw.kind

    def test_names_and_ids_have_the_form_that_is_asked(self):
        """The default is right for all providers, and *rules* are those of one."""
        call = ToolCall("id with spaces " * 5, "multi_tool_use.parallel", "{}")
        history = [UserMessage("a"), AssistantMessage(tool_calls=[call])]
        history.append(result(call.id))

        view = trim(history, None)
        free = trim(history, None, rules=requests.GEMINI)

        (shown,) = view.messages[1].tool_calls
        assert "multi_tool_use_parallel" == shown.name
        assert len(shown.id) <= 40
        assert shown.id == view.messages[2].tool_call_id  # type: ignore[attr-defined]
        assert {"invalid call id", "invalid name"} == {
            flaw.kind for flaw in TrimContext.of(history).problems()
        }
        assert (call,) == free.messages[1].tool_calls
        assert () == free.problems()

    def test_gives_each_call_an_id_of_its_own(self):
        """
        Of calls with one id all but the first get a new one that no other has,
        and the results theirs, in the order of the calls; nothing else of the
        history is hidden.
        """
        history = [
            UserMessage("a"),
            AssistantMessage(
                tool_calls=[
                    ToolCall(name, "f", f'{{"n": {at}}}')
                    for at, name in enumerate(["x", "x-2", "x", "x"])
                ]
            ),
            *[result(name, f"of {at}") for at, name in enumerate(["x", "x", "x-2"])],
            UserMessage("b"),
        ]
        state = Aggregator.new(messages=history)

        view = trim(state, None)

        caller, *results = view.messages[1:-1]
        shown = [(call.id, call.arguments) for call in caller.tool_calls]
        assert [
            ("x", '{"n": 0}'),
            ("x-2", '{"n": 1}'),
        ] == shown[:2]
        assert 4 == len({call_id for call_id, _ in shown})
        third, fourth = [call_id for call_id, _ in shown[2:]]
        answers = {one.tool_call_id: one.text for one in results}  # type: ignore[attr-defined]
        assert ("of 0", "of 1", "of 2") == (
            answers["x"],
            answers[third],
            answers["x-2"],
        )
        assert _is_synthetic(results[0])
        assert fourth == results[0].tool_call_id  # type: ignore[attr-defined]
        assert () == view.problems()
        assert () == view.failures
        assert [] == list(view.dropped)
        assert history == list(state.messages)
        views_add_up(view)

    def test_gives_ids_where_calls_are_still_open(self):
        """
        At the end, too, where nothing answers them yet; without `repair`, the
        place is named.
        """
        history = [UserMessage("a"), calls("x", "x"), result("x")]

        assert 3 == len(trim(history, None))
        assert "x-2" == trim(history, None).messages[1].tool_calls[1].id
        nameless = trim([UserMessage("a"), calls("", ""), UserMessage("b")], None)
        assert () == nameless.problems()
        assert "a" == nameless.messages[0].text
        view = trim([*history, UserMessage("b")], None, fit())
        assert {"invalid: two calls have one id (messages[1])"} == {
            one.reason for one in view.dropped
        }
        assert str(view.failures[0].error).endswith(
            "two calls have one id (messages[1]); put repair() before this step to "
            "keep them"
        )

    def test_goes_with_its_call(self):
        """Removing a position removes the answer that was put there."""
        history = [calls("x"), UserMessage("a")]
        view = trim(history, None, repair())

        assert 4 == len(view)  # with a user who speaks first
        assert history[1:] == view.remove(0).messages
        views_add_up(view.remove(0))
        # And a range that covers the position counts it as it is shown.
        later = [*history, UserMessage("b" * 8), UserMessage("c")]
        budget = TokenBudget(context_window=1)
        fitted = fit()(trim(later, budget, repair()).remove(0))
        assert later[3:] == fitted.messages
        views_add_up(fitted)


def _is_synthetic(message):
    return "synthetic" in message.metadata.get("conversation_state", {})


class TestReplace:
    """`TrimContext.replace` shows another message."""

    def test_shows_another_message_at_the_position(self):
        """Tokens, elements and the original are right, and nothing is dropped."""
        history = [UserMessage("secret word"), UserMessage("b")]
        context = TrimContext.of(history)

        view = context.replace(0, UserMessage("…"))

        assert Element(0, UserMessage("…"), 1, "user") == view.elements[0]
        assert 2 == view.total_tokens
        assert () == view.dropped
        assert history == view.original.messages
        assert view is view.replace(0, UserMessage("…"))
        assert context is context.replace(1, UserMessage("b"))
        assert view == pickle.loads(pickle.dumps(view))

    def test_explains_wrong_arguments(self):
        """A position that is not shown, or something that is not a message."""
        context = TrimContext.of([UserMessage("a")]).remove(0)

        for seq in (0, 1, -1):
            with pytest.raises(ValueError, match=f"seq={seq}: the view shows nothing"):
                context.replace(seq, UserMessage("b"))
        with pytest.raises(TypeError, match="got a str: 'b'"):
            context.replace(0, "b")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            context.replace("0", UserMessage("b"))  # type: ignore[arg-type]


def lengths(messages):
    """A summary that can be pickled."""
    return f"{len(messages)} messages"


SECRET = UserMessage([ImagePart(data=b"GIF89a")])


@pytest.mark.parametrize(
    ("history", "steps", "shown", "dropped"),
    [
        pytest.param(
            [calls("lost"), *map(UserMessage, "abc")],
            [keep_last(2)],
            ["b", "c"],
            {0: "invalid: call lost has no result (messages[0])", 1: "over the count"},
            id="beyond the count, or behind something that no provider accepts",
        ),
        pytest.param(
            [UserMessage("a"), calls("x"), UserMessage("b")],
            [repair(), keep_last(2)],
            ["b"],
            {0: "over the count", 1: "over the count"},
            id="an answer that was made up is not kept without its call",
        ),
        pytest.param(
            [SystemMessage("s"), UserMessage("a"), UserMessage("b")],
            [keep_last(1, keep_system=False)],
            ["b"],
            {0: "over the count", 1: "over the count"},
            id="leading system messages are messages like others, if asked",
        ),
        pytest.param(
            [calls("x"), result("x", "1"), result("x"), *map(UserMessage, "bc")],
            [keep_first_and_last(5, 1)],
            ["", "1", "c"],
            {
                2: "invalid: call x has another result (messages[2])",
                3: "over the count",
            },
            id="no first ones behind a flaw",
        ),
        pytest.param(
            [calls("x"), result("x", "a" * 10**6)],
            [shorten_tool_results(0), shorten_tool_results(0)],
            ["", "\n[… 1,000,000 characters cut …]\n"],
            {},
            id="of a marker alone there is no more to cut",
        ),
        pytest.param(
            [calls("a"), result("a", "ok")],
            [clear_tool_results(keep=0)],
            ["", "ok"],
            {},
            id="a marker that is no smaller would only lose content",
        ),
        pytest.param(
            [UserMessage("a")],
            [compact([0], lambda _: SECRET)],
            [""],
            {0: "compacted"},
            id="a summary may be a picture",
        ),
        pytest.param(
            [UserMessage("a")],
            [compact([0], lambda _: "\ud800")],
            ["a"],
            {},
            id="half of a surrogate pair is no summary",
        ),
        pytest.param(
            [UserMessage("a")],
            [compact([-1, 1, 99], lengths), compact(range(5, 10**15), lengths)],
            ["a"],
            {},
            id="unknown positions change nothing",
        ),
        pytest.param(
            [calls("x"), UserMessage("a"), UserMessage("b")],
            [repair(), compact([0, 1], lengths)],
            ["4 messages", "b"],
            {0: "compacted", 1: "compacted"},
            id="a repaired call is summed up with its answer",
        ),
    ],
)
def test_examples(history, steps, shown, dropped):
    """What is shown, and why the rest is not."""
    view = trim(history, None, *steps)

    assert shown == [message.text for message in view]
    assert dropped == {each.seq: each.reason for each in view.dropped}
    views_add_up(view)


@pytest.mark.parametrize(
    "step",
    [
        keep_last(3),
        keep_first_and_last(1, 2),
        shorten_tool_results(10),
        clear_tool_results(keep=1),
        repair(at_end=True),
        fit(slack=7),
        compact([0, 1], lengths),
        rolling_summary(9, 2, lengths),
    ],
)
def test_steps_are_values(step):
    """
    Every step equals one with the same options, pickles, and has its options in its
    repr; and so does a view that it made. No private module is named in a pickle.
    """
    assert step == pickle.loads(pickle.dumps(step))
    assert hash(step) == hash(pickle.loads(pickle.dumps(step)))
    assert "=" in repr(step)
    assert b"conversation_state.trimming" not in pickle.dumps(step)
    history = list(map(UserMessage, "abcdefghijkl"))
    view = trim(history, None, step)
    assert view == trim(history, None, step) == pickle.loads(pickle.dumps(view))


def test_wants_numbers():
    """The error names the step and the number that is wrong."""
    wrong: list[Any] = [
        *[(keep_last, n, "n of keep_last") for n in (0, -1, True, 1.0, "3", None)],
        *[(partial(keep_first_and_last, n=2), m, "m of keep_fi") for m in (-1, "1")],
        (partial(keep_first_and_last, 1), 0, "n of keep_first_and_last"),
        *[
            (lambda n: fit(slack=n), n, "slack of fit")
            for n in (-1, 0.5, "9", None, False)
        ],
        (shorten_tool_results, -1, "limit_tokens of shorten_tool_results"),
        (lambda n: clear_tool_results(keep=n), "all", "keep of clear_tool_results"),
        *[
            (partial(step, keep_last=2, summarise=lengths), n, f"of {step.__name__}")
            for step in (rolling_summary, arolling_summary)
            for n in (-1, "5", None)
        ],
    ]
    for make, number, named in wrong:
        with pytest.raises(ValueError, match=f"{named}.*: expected an integer from"):
            make(number)

    with pytest.raises(ValueError, match="keep_last of rolling_summary: expected"):
        rolling_summary(5, -1, lengths)
    with pytest.raises(ValueError, match="marker is 7; expected a str"):
        shorten_tool_results(1, marker=7)  # type: ignore[arg-type]
