"""Summaries: one message for many, and one that grows with the conversation."""

import asyncio
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, decode, encode
from conversation_state.counting import TokenBudget, cost
from conversation_state.errors import BudgetExceededError, CompactionError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
    id_of_key,
)
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import views_add_up
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    Dropped,
    TrimContext,
    Trimmer,
    acompact,
    arolling_summary,
    atrim,
    clear_tool_results,
    compact,
    fit,
    keep_last,
    record_summaries,
    repair,
    rolling_summary,
    trim,
)
from conversation_state.usage import Usage
from tests.test_trimming import anything, calls, order_problems, result


def listing(messages):
    """A summary that lists what it was made of."""
    return f"[{'|'.join(message.text for message in messages)}]"


async def alisting(messages):
    """The same after a while."""
    await asyncio.sleep(0)
    return listing(messages)


def broken(messages):
    """A summariser that is down."""
    raise OSError(f"no model for {len(messages)} messages")


def giving(summary):
    """A summariser that gives this, whatever it reads."""
    return lambda _: summary


def mark(message):
    """The mark in the metadata of a summary."""
    return message.metadata["conversation_state"]


def texts(view):
    """The texts of a view."""
    return [message.text for message in view]


class TestCompact:
    """`compact` puts one message in the place of exactly those it was given."""

    @given(anything, st.integers(0, 8), st.integers(0, 8), st.sets(st.integers(0, 8)))
    def test_replaces_exactly_the_range_or_refuses(self, history, start, stop, removed):
        """
        What is shown outside stays; the originals are listed; nothing that was
        valid becomes invalid; where it would, the range is refused.
        """
        context = TrimContext.of(history).remove(removed)
        inside = [one for one in context.elements if start <= one.seq < stop]
        try:
            view = compact(range(start, stop), lambda _: "sum")(context)
        except CompactionError:
            naive = [one.message for one in context.elements if one.seq < start]
            naive.append(UserMessage("sum"))
            naive += [one.message for one in context.elements if one.seq >= stop]
            # An agent that goes on would break it, if it isn't broken yet.
            naive += [result(name) for name in open_calls(context.messages)]
            assert len(TrimContext.of(naive).problems()) > 0
            return

        views_add_up(view)
        if not inside:
            assert view is context
            return

        expected = list(context.messages)
        at = list(context.elements).index(inside[0])
        expected[at : at + len(inside)] = [view.messages[at]]
        assert expected == list(view.messages)
        assert "sum" == view.messages[at].text
        assert inside[0].seq == view.elements[at].seq
        gone = {one.seq for one in view.dropped if one.reason == "compacted"}
        assert {one.seq for one in inside} == gone
        assert len(view.problems()) <= len(context.problems())
        assert history == view.original.messages

    def test_carries_what_it_stands_for(self):
        """Identities of the entries, and positions; given in order."""
        state = Aggregator.new(messages=map(UserMessage, "abcde"))
        seen = []

        def summarise(messages):
            seen.append(messages)
            return "b to d"

        view = trim(state, None, compact(range(1, 4), summarise))

        assert [tuple(state.messages[1:4])] == seen
        ids = tuple(entry.id for entry in state.entries)[1:4]
        assert ids == mark(view.messages[1])["compacted"]
        assert ((1, 4),) == mark(view.messages[1])["seqs"]
        assert "user" == view.messages[1].role
        assert view.messages[1:2] == view.summaries
        assert [Dropped(seq, "compacted") for seq in (1, 2, 3)] == list(view.dropped)

    def test_composes_and_nests(self):
        """
        Two ranges make two summaries; one over both stands for what both
        stood for.
        """
        state = Aggregator.new(messages=map(UserMessage, "abcdef"))
        ids = tuple(entry.id for entry in state.entries)

        two = trim(state, None, compact(range(2), listing), compact([3, 4], listing))
        assert ["[a|b]", "c", "[d|e]", "f"] == texts(two)
        assert [0, 2, 3, 5] == [one.seq for one in two.elements]
        assert [((0, 2),), ((3, 5),)] == [mark(one)["seqs"] for one in two.summaries]

        nested = compact(range(1, 5), listing)
        # Position 1 is not shown any more: the summary at 0 stands apart.
        assert ["[a|b]", "[c|[d|e]]", "f"] == texts(nested(two))
        whole = compact(range(5), listing)(two)
        assert ["[[a|b]|c|[d|e]]", "f"] == texts(whole)
        assert ids[:5] == mark(whole.messages[0])["compacted"]
        assert ((0, 5),) == mark(whole.messages[0])["seqs"]
        views_add_up(whole)
        assert 1 == len(whole.summaries)

    def test_takes_a_message(self):
        """Its role and metadata stay."""
        history = [UserMessage("a"), UserMessage("b")]

        def summarise(messages):
            return AssistantMessage(listing(messages), metadata={"by": "me"})

        view = trim(history, None, compact(range(2), summarise))

        assert ("assistant", "me") == (
            view.messages[0].role,
            view.messages[0].metadata["by"],
        )
        # Messages that are in no state have no identity.
        assert () == mark(view.messages[0])["compacted"]

    @pytest.mark.parametrize(
        ("given_", "history"),
        [
            ("", "blank text, ''"),
            (None, "gave None; expected a text"),
            (7, "gave 7; expected a text"),
            (UserMessage(""), "an empty message"),
            (calls("x"), "calls tools"),
            (result("x"), "gave ToolMessage"),
        ],
    )
    def test_reports_an_invalid_summary(self, given_, history):
        """The view is what it was, and has the reason."""
        context = TrimContext.of([UserMessage("a"), UserMessage("b")])
        step = compact(range(2), lambda _: given_)

        view = step(context)

        assert context.elements == view.elements
        assert () == view.dropped == view.summaries  # type: ignore[comparison-overlap]
        ((failed_step, error),) = view.failures
        assert step is failed_step
        assert isinstance(error, CompactionError)
        assert history in str(error)
        assert (0, 1) == error.seqs
        assert "1 failure>" in repr(view)

    def test_reports_the_error_of_a_summariser(self):
        """And goes on: the next steps see the view as it was."""
        history = [UserMessage("a"), UserMessage("b")]

        view = trim(history, None, compact(range(2), broken), keep_last(1))

        assert history[1:] == view.messages
        assert "no model for 2 messages" == str(view.failures[0].error)
        assert isinstance(view.failures[0].error, OSError)

    def test_does_not_catch_what_ends_a_program(self):
        """Only errors are listed; an interrupt is raised."""

        def interrupted(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            trim([UserMessage("a")], None, compact([0], interrupted))

    def test_refuses_to_part_calls_from_results(self):
        """With an error that says where to begin or end instead."""
        history = [UserMessage("a"), calls("x", "y"), result("x"), result("y")]
        history += [UserMessage("b"), calls("z")]

        with pytest.raises(
            CompactionError,
            match=r"messages\[0\] to messages\[2\]: messages\[3\] is among the "
            r"results of calls, which would be separated from them; "
            r"stop at 1 or 4 or 5",
        ):
            trim(history, None, compact(range(3), listing))
        with pytest.raises(CompactionError, match=r"start at 0 or 1 or 4, for example"):
            trim(history, None, compact(range(2, 5), listing))
        with pytest.raises(
            CompactionError, match="calls at the end have no results yet"
        ):
            trim(history, None, compact(range(4, 6), listing))
        # A late answer behind a stranger belongs to its call, too.
        history = [calls("x"), result("stranger"), result("x")]
        with pytest.raises(CompactionError, match="stop at 3, for example"):
            trim(history, None, compact([0], listing))

    def test_refuses_where_no_end_would_do(self):
        """No position is advised where calls without results follow."""
        history = [UserMessage("a"), calls("x", "y"), result("x")]

        with pytest.raises(CompactionError, match=r"separated from them$"):
            trim(history, None, compact([1], listing))

    def test_refuses_to_lose_what_is_between(self):
        """What the view shows between two of the positions has no place to go."""
        history = list(map(UserMessage, "abc"))

        with pytest.raises(CompactionError, match=r"shows messages\[1\] between them"):
            trim(history, None, compact({0, 2}, listing))
        view = trim(history, None, lambda c: c.remove(1), compact({0, 2}, listing))
        assert ["[a|c]"] == texts(view)
        expected = (
            Dropped(0, "compacted"),
            Dropped(1, "removed"),
            Dropped(2, "compacted"),
        )
        assert expected == view.dropped
        views_add_up(view)

    def test_a_dropped_summary_is_accounted_for(self):
        """
        Its position has the reason for which it was dropped, the others that they were
        compacted; and it is still known.
        """
        history = list(map(UserMessage, "abc"))
        view = trim(
            history, None, compact(range(2), lambda _: "long" * 9), keep_last(1)
        )

        assert (Dropped(0, "over the count"), Dropped(1, "compacted")) == view.dropped
        assert ["long" * 9] == texts(view.summaries)
        views_add_up(view)

    def test_a_summary_can_have_other_words(self):
        """Replaced, it stands for the same."""
        history = list(map(UserMessage, "abc"))
        view = trim(history, None, compact(range(2), listing))

        other = view.replace(0, UserMessage("other"))

        assert view.dropped == other.dropped
        assert ["other", "c"] == texts(other)
        views_add_up(other)

    def test_explains_wrong_arguments(self):
        """When the step is made, not when a model was asked."""
        for seqs in (3, "ab", ["a"]):
            with pytest.raises(TypeError):
                compact(seqs, listing)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a function from messages to a text, got"):
            compact([1], "summary")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="use acompact, with atrim"):
            compact([1], alisting)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a function from messages"):
            acompact([1], None)  # type: ignore[arg-type]


def open_calls(messages):
    """The calls at the very end without a result."""
    found: set[str] = set()
    for message in messages:
        if message.role == "tool":
            found.discard(message.tool_call_id)
        else:
            found = {call.id for call in getattr(message, "tool_calls", ())}

    return sorted(name for name in found if name)


class TestPaid:
    """What a summary cost is never lost."""

    META = ResponseMeta(usage=Usage(90, 9), model="gpt-5", id="resp_1")

    def test_reports_the_usage_of_a_summariser(self):
        """
        The response of a message that it gave, refused ones too, and those of
        this view alone; recorded under the response's id, once.
        """
        history = list(map(UserMessage, "abcd"))
        given = [
            AssistantMessage("sum", response=self.META),
            AssistantMessage("", response=attrs.evolve(self.META, id="")),
            AssistantMessage("free", response=ResponseMeta(usage=Usage())),
            "text",
        ]
        steps = [compact([at], giving(one)) for at, one in enumerate(given)]

        view = trim(history, None, *steps)

        named, unnamed = view.summary_responses
        assert self.META == named
        assert attrs.evolve(self.META, id=unnamed.id) == unnamed
        assert 1 == len(view.failures)
        assert ["sum", "b", "free", "text"] == texts(view)
        assert view.summary_responses == fit()(view).summary_responses
        state = record_summaries(Aggregator.new(), view)
        assert [
            ("resp_1", Usage(90, 9), "gpt-5"),
            (unnamed.id, Usage(90, 9), "gpt-5"),
        ] == [(id_of_key(entry.id), *entry[1:3]) for entry in state.ledger]
        assert state is record_summaries(state, view)
        later = trim(history, None, previous=view)
        assert () == later.summary_responses
        assert state is record_summaries(state, later)

    def test_records_every_summary_of_one_id(self):
        """
        Where a server gives every response one id, each usage is recorded, once, and is
        that of no answer of unknown usage.
        """
        more = attrs.evolve(self.META, usage=Usage(1))
        answers = [AssistantMessage("s", response=meta) for meta in (self.META, more)]
        steps = [compact([at], giving(one)) for at, one in enumerate(answers)]
        view = trim(list(map(UserMessage, "ab")), None, *steps)

        state = record_summaries(Aggregator.new(), view)

        late = AssistantMessage("Yes.", response=ResponseMeta(id="resp_1"))

        assert [("resp_1", Usage(90, 9)), ("resp_1", Usage(1))] == [
            (id_of_key(entry.id), entry.usage) for entry in state.ledger
        ]
        assert state is record_summaries(state, view)
        assert 1 == len(cost(state.add(late)).unbilled)

    def test_records_that_it_was_interrupted(self):
        """A summary that was cut off cost at least what it reported."""
        meta = attrs.evolve(self.META, finish_reason="interrupted")
        step = compact([0], giving(AssistantMessage("s", response=meta)))
        state = record_summaries(
            Aggregator.new(), trim([UserMessage("a"), UserMessage("b")], None, step)
        )

        assert ["interrupted"] == [entry.caveat for entry in state.ledger]

    @pytest.mark.parametrize("wrong", [None, (), Aggregator.new()])
    def test_records_only_views(self, wrong):
        """What is neither a view nor an error is refused."""
        with pytest.raises(TypeError, match="record_summaries takes a view"):
            record_summaries(Aggregator.new(), wrong)

    def test_is_not_lost_where_a_later_step_raises(self):
        """
        The error has the summary and what it cost, after pickling too; the
        next turn goes on from there.
        """
        state = chat(9)
        paid = AssistantMessage("s" * 400, response=self.META)
        steps = (rolling_summary(30, 4, lambda _: paid), fit())

        async def asummarise(_):
            return paid

        async def asteps():
            step = arolling_summary(30, 4, asummarise)
            return await atrim(state, TokenBudget(context_window=2), step, fit())

        with pytest.raises(BudgetExceededError) as caught:
            trim(state, TokenBudget(context_window=2), *steps)
        with pytest.raises(BudgetExceededError) as awaited:
            asyncio.run(asteps())

        for error in (caught.value, awaited.value):
            for one in (error, pickle.loads(pickle.dumps(error))):
                assert (self.META,) == one.summary_responses
                assert paid.text == one.summaries[0].text
                assert Usage(90, 9) == record_summaries(state, one).total_usage
                view = trim(
                    state, None, rolling_summary(30, 4, broken), previous=one.summaries
                )
                assert paid.text == view.messages[1].text
                assert () == view.failures

    def test_any_error_has_it(self):
        """
        One of a caller's step, too; and an error without a summary before it
        is as it was.
        """

        def fail(_):
            raise OSError("no")

        with pytest.raises(OSError, match="no") as caught:
            trim([UserMessage("a")], None, compact([0], listing), fail)
        assert ["[a]"] == texts(caught.value.summaries)  # type: ignore[attr-defined]

        with pytest.raises(OSError, match="no") as caught:
            trim([UserMessage("a")], None, fail)
        assert not hasattr(caught.value, "summaries")

    def test_error_that_cannot_be_changed(self):
        """An error that takes no attributes is raised as it is."""

        class Frozen(Exception):  # noqa: N818 - raised by the test only
            def __setattr__(self, name, value):
                raise AttributeError(name)

        def fail(_):
            raise Frozen

        with pytest.raises(Frozen):
            trim([UserMessage("a")], None, compact([0], listing), fail)


class TestAwaited:
    """`atrim` takes steps that have to be awaited among others."""

    def test_mixes_both_kinds(self):
        """A view of steps that answer at once and steps that don't."""
        history = list(map(UserMessage, "abcde"))

        async def step(context):
            await asyncio.sleep(0)
            return context.remove(4)

        steps = (compact([0, 1], listing), step, acompact([2, 3], alisting))
        view = asyncio.run(atrim(history, None, *steps))

        assert ["[a|b]", "[c|d]"] == texts(view)
        assert view == asyncio.run(Trimmer(None, *steps).acall(history))
        assert history[-1:] == asyncio.run(atrim(history, None, keep_last(1))).messages

    def test_reports_the_error_of_a_summariser(self):
        """Raised before or after waiting; the view is what it was."""

        async def late(messages):
            await asyncio.sleep(0)
            return broken(messages)

        async def blank(_):
            return "  "

        for summarise, error in (
            (broken, OSError),
            (late, OSError),
            (blank, ValueError),
        ):
            view = asyncio.run(
                atrim([UserMessage("a")], None, acompact([0], summarise))
            )
            assert ["a"] == texts(view)
            assert isinstance(view.failures[0].error, error)

    def test_a_cancelled_one_is_cancelled(self):
        """Cancelling is not a failure of a summariser."""

        async def forever(_):
            await asyncio.sleep(60)

        async def main():
            task = asyncio.ensure_future(
                atrim([UserMessage("a")], None, acompact([0], forever))
            )
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())

    def test_trim_reports_that_it_can_not_wait(self):
        """
        An awaitable is refused with the name of who takes it, wherever it
        shows.
        """
        history = [UserMessage("a")]

        with pytest.raises(TypeError, match=r"use atrim, or Trimmer\.acall"):
            trim(history, None, acompact([0], alisting))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="use acompact, with atrim"):
            trim(history, None, compact([0], lambda history: alisting(history)))  # type: ignore[arg-type, return-value]  # noqa: PLW0108 - hides that it is async
        with pytest.raises(
            TypeError, match="expected a TrimContext in return, got None"
        ):
            asyncio.run(atrim(history, None, lambda _: None))  # type: ignore[arg-type, return-value]

    def test_knows_objects_that_have_to_be_awaited(self):
        """An object with an async call is as good as a function."""

        class Summariser:
            async def __call__(self, messages):
                return listing(messages)

        step = compact([0], Summariser())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="use acompact, with atrim"):
            trim([UserMessage("a")], None, step)
        view = asyncio.run(atrim([UserMessage("a")], None, acompact([0], Summariser())))
        assert ["[a]"] == texts(view)


def chat(turns):
    """A state of so many turns, each of a call and its result."""
    state = Aggregator.new().add(SystemMessage("be brief"))
    for n in range(turns):
        state = turn(state, n)

    return state


def turn(state, n):
    """One turn more."""
    return state.extend(
        [
            UserMessage(f"q{n}"),
            calls(f"c{n}"),
            ToolMessage(f"r{n}", tool_call_id=f"c{n}"),
            AssistantMessage(f"a{n}"),
        ]
    )


class TestRollingSummary:
    """`rolling_summary` sums up what no summary covers yet."""

    def test_keeps_an_answer_that_was_made_up(self):
        """
        A call and the answer that `repair` gave it share a position, and stay
        together among the newest.
        """
        history = [
            UserMessage("a"),
            AssistantMessage(tool_calls=[ToolCall("c", "f")]),
            UserMessage("b"),
            UserMessage("d"),
        ]
        view = trim(history, None, repair(), rolling_summary(0, 3, lambda _: "summary"))

        assert ["user", "assistant", "tool", "user", "user"] == [
            message.role for message in view
        ]
        assert "summary" == view.messages[0].text

    def test_goes_on_when_awaited(self):
        """
        `Trimmer.acall` takes the view before, too: a summary that is enough is
        not asked for again.
        """
        asked = []

        async def summarise(messages):
            asked.append(len(messages))
            return "summary"

        state = Aggregator.new(messages=[UserMessage("a" * 40)] * 6)
        trimmer = Trimmer(None, arolling_summary(40, 2, summarise))
        first = asyncio.run(trimmer.acall(state))
        again = asyncio.run(trimmer.acall(state.add_user_prompt("b"), previous=first))

        assert [4] == asked
        assert ["summary", *["a" * 40] * 2] == texts(first)
        assert ["summary", *["a" * 40] * 2, "b"] == texts(again)

    def test_goes_on_from_an_answer(self):
        """
        A summary that is a model's own message goes on, too, though a made prompt
        stands before it in a request.
        """
        asked = []

        def summarise(messages):
            asked.append(len(messages))
            return AssistantMessage("summary")

        state = Aggregator.new(messages=[UserMessage("a" * 40)] * 6)
        trimmer = Trimmer(None, rolling_summary(40, 2, summarise), repair())
        first = trimmer(state)
        again = trimmer(state.add_user_prompt("b"), previous=first)
        stored = trimmer(state, previous=first.summaries)

        assert [4] == asked
        assert ["user", "assistant", "user", "user"] == [each.role for each in first]
        assert ["summary", *["a" * 40] * 2, "b"] == texts(again)[1:]
        assert ["summary"] == [each.text for each in stored.summaries]

    def test_reads_nothing_twice(self):
        """
        Turn by turn: each message goes to the summariser once, after the
        summary of all before it.
        """
        asked = []

        def summarise(messages):
            asked.append(messages)
            return f"sum {len(asked)}"

        trimmer = Trimmer(None, rolling_summary(16, 4, summarise))
        state, view = chat(0), TrimContext.of([])
        for n in range(40):
            state = turn(state, n)
            view = trimmer(state, previous=view)

            views_add_up(view)
            assert () == view.problems()
            assert "be brief" == view.messages[0].text
            assert list(state.messages[-4:]) == list(view.messages[-4:])
            assert view.total_tokens <= 16 or n == 0

        assert 40 > len(asked) > 5
        read = [one for messages in asked for one in messages]
        originals = [one for one in read if not one.text.startswith("sum")]
        assert originals == list(state.messages[1 : 1 + len(originals)])
        summaries = [messages[0].text for messages in asked[1:]]
        assert [f"sum {n}" for n in range(1, len(asked))] == summaries
        stands_for = mark(view.summaries[0])["compacted"]
        assert [entry.id for entry in state.entries][1 : 1 + len(stands_for)] == list(
            stands_for
        )
        assert len(originals) == len(stands_for)

    def test_does_nothing_below_its_limit(self):
        """The very same view, and *summarise* is not called."""
        context = TrimContext.of(chat(3))

        assert context is rolling_summary(context.total_tokens, 2, broken)(context)

    def test_does_not_sum_up_a_summary_alone(self):
        """One that is too long itself stays: there is nothing new to read."""
        state = chat(9)
        view = trim(state, None, rolling_summary(1, 4, lambda _: "long" * 50))

        later = trim(state, None, rolling_summary(1, 4, broken), previous=view)

        assert () == later.failures
        assert view.messages == later.messages

    def test_goes_on_from_what_was_written_down(self):
        """In another process, from the state and the summaries alone."""
        state = chat(9)
        view = trim(state, None, rolling_summary(30, 4, lambda _: "sum"))
        summaries = decode(encode(list(view.summaries)))

        here = decode(encode(state)).add(UserMessage("!"))
        later = trim(here, None, rolling_summary(30, 4, broken), previous=summaries)

        assert [*texts(view), "!"] == texts(later)
        assert () == later.failures
        views_add_up(later)

    def test_forks_share_it_as_far_as_it_reaches(self):
        """
        A fork behind what is summed up takes the summary; one from before does not, for
        it would contain what never was in its history.
        """
        state = chat(9)
        view = trim(state, None, rolling_summary(10, 2, lambda _: "sum"))
        covered = len(mark(view.summaries[0])["compacted"])

        step = rolling_summary(8, 2, lambda m: f"{len(m)} read")
        late = state.fork(at=covered + 1).extend(map(UserMessage, ["other", "one"]))
        for previous in (view, view.summaries):
            taken = trim(late, None, step, previous=previous)
            assert "sum" == taken.messages[1].text
            early = state.fork(at=covered).extend(map(UserMessage, "abc"))
            again = trim(early, None, step, previous=previous)
            assert "sum" not in texts(again)
            assert f"{covered} read" == again.messages[1].text

    def test_never_hides_the_newest_messages(self):
        """
        After going back, a summary that reaches into the messages to be kept
        is not used, and neither is it where one of them alone is left.
        """
        state = Aggregator.new(
            messages=[UserMessage(f"question {n}, in a few words") for n in range(20)]
        )
        step = rolling_summary(40, 3, lambda messages: f"{len(messages)} read")
        view = trim(state, None, step)
        assert "17 read" == view.messages[0].text

        for previous in (view, view.summaries):
            for at in range(1, 21):
                back = trim(state.fork(at=at), None, step, previous=previous)
                newest = state.messages[max(at - 3, 0) : at]
                assert list(newest) == list(back.messages)[-len(newest) :]

    def test_reveals_nothing_that_was_removed(self):
        """
        A summary of a message that this view removes, or replaces
        that the summary did not read, is not used; what is only too much for
        the view may be summed up in it.
        """
        state = chat(9)
        step = rolling_summary(30, 4, lambda messages: f"{len(messages)} read")
        view = trim(state, None, step)
        (summary,) = view.summaries

        def redact(context):
            return context.replace(1, UserMessage("(redacted)"))

        for hide in (lambda context: context.remove(1), redact):
            for previous in (view, view.summaries):
                hidden = trim(state, None, hide, step, previous=previous)
                assert summary not in list(hidden.messages)
                again = trim(
                    state,
                    None,
                    hide,
                    rolling_summary(30, 4, broken),
                    previous=hidden.summaries,
                )
                assert hidden.messages == again.messages
                assert () == again.failures

        for smaller in (keep_last(12), clear_tool_results(keep=0, marker=".")):
            shown = trim(
                state, None, smaller, rolling_summary(8, 4, broken), previous=view
            )
            assert summary is shown.messages[1]
            assert () == shown.failures

    def test_reveals_nothing_that_an_adapter_noted(self):
        """So it is with a message that has notes of an adapter's."""
        state = Aggregator.new()
        for message in chat(9):
            notes = {"conversation_state": {"openai_chat": {"keys": {"a": 1}}}}
            state = state.add(message.replace(metadata=notes))

        step = rolling_summary(30, 4, lambda messages: f"{len(messages)} read")
        view = trim(state, None, step)

        def redact(context):
            return context.replace(1, state[1].replace(content="(redacted)"))

        hidden = trim(state, None, redact, step, previous=view)

        assert view.summaries[0] not in list(hidden.messages)

    def test_stands_for_nothing_that_was_removed(self):
        """
        A summary of what is before and behind a removed message does not stand for
        that message, and neither does the next one that is made of it.
        """
        state = chat(9)
        step = rolling_summary(30, 4, lambda messages: f"{len(messages)} read")

        def hide(context):
            return context.remove(3)

        view = trim(state, None, hide, step)
        view = trim(state, None, hide, step, previous=view.summaries)
        more = state.extend(map(UserMessage, ["x" * 40, "y" * 40, "z", "v", "w"]))
        later = trim(more, None, hide, step, previous=view)
        removed = state.entries[3].id

        for shown in (view, later):
            (summary,) = shown.summaries
            assert removed not in mark(summary)["compacted"]
            assert state.entries[4].id in mark(summary)["compacted"]

    def test_remembers_a_summary_that_a_turn_does_not_need(self):
        """
        After an undo below the limit, and in a fork that needs another one:
        going forth again reads nothing.
        """
        state = chat(9)
        limit = TrimContext.of(state).total_tokens - 1
        step = rolling_summary(limit, 4, lambda messages: f"{len(messages)} read")
        view = trim(state, None, step)
        free = rolling_summary(limit, 4, broken)

        undone = trim(state.fork(at=9), None, free, previous=view)
        assert undone.messages == state.fork(at=9).messages
        assert view.summaries == undone.summaries
        for previous in (undone, undone.summaries):
            again = trim(state, None, free, previous=previous)
            assert view.messages == again.messages
            assert () == again.failures

        other = trim(
            state.fork(at=20), None, rolling_summary(5, 4, listing), previous=view
        )
        assert 2 == len(other.summaries)
        for previous in (other, other.summaries):
            again = trim(state, None, free, previous=previous)
            assert view.messages == again.messages

    def test_remembers_a_bounded_number(self):
        """Eight summaries of earlier views, however many turns there were."""
        view = None
        for n in range(20):
            view = trim(
                [UserMessage(f"other {n} {at}") for at in range(9)],
                None,
                rolling_summary(3, 1, giving(f"summary {n}")),
                previous=view,
            )

        expected = [f"summary {n}" for n in range(19, 10, -1)]
        assert expected == texts(view.summaries)  # type: ignore[union-attr]

    def test_a_failure_leaves_the_summary_before(self):
        """It still stands, the error is listed, and the next turn makes up for it."""
        state = chat(9)
        view = trim(state, None, rolling_summary(30, 4, listing))
        state = state.add(UserMessage("and?"))

        failed = trim(state, None, rolling_summary(5, 4, broken), previous=view)
        assert 1 == len(failed.failures)
        assert view.summaries == failed.summaries
        assert [*texts(view), "and?"] == texts(failed)

        step = rolling_summary(5, 4, lambda m: f"new of {m[0].text[:3]}")
        again = trim(state, None, step, previous=failed)
        assert ["new of [q0"] == texts(again.summaries)
        assert () == again.failures

    def test_keeps_whole_groups(self):
        """
        A few more than asked for, where calls would lose their results; and
        calls that are about to be answered, always.
        """
        state = chat(3).add(UserMessage("q")).add(calls("z"))

        for keep, kept in ((0, 1), (1, 1), (2, 2), (3, 3), (4, 5), (5, 5), (6, 6)):
            view = trim(state, None, rolling_summary(1, keep, lambda _: "sum"))
            views_add_up(view)
            assert () == view.problems()
            assert ["be brief", "sum"] == texts(view)[:2]
            assert 2 + kept == len(view)

    def test_fit_keeps_a_system_message(self):
        """A summary by the system stands in front, and goes on from there."""
        step = rolling_summary(8, 2, lambda m: SystemMessage(f"{len(m)} messages"))
        trimmer = Trimmer(TokenBudget(context_window=9), step, fit())
        state, view = chat(0), None
        for n in range(9):
            state = turn(state, n)
            view = trimmer(state, previous=view)
            views_add_up(view)
            if n:
                assert ["system", "system"] == [one.role for one in view][:2]
                assert 1 == len(view.summaries)

    def test_does_not_believe_what_others_wrote(self):
        """Marks that are none, or stand for something else, are not taken over."""
        state = chat(5)
        ids = [entry.id for entry in state.entries]
        lies: tuple[dict[str, Any], ...] = (
            {},
            {"seqs": [[1, 3]]},
            {"seqs": 7, "compacted": ids[1:3]},
            {"seqs": [[1, "3"]], "compacted": ids[1:3]},
            {"seqs": [[1, 2, 3]], "compacted": ids[1:3]},
            {"seqs": [[1, 2**62]], "compacted": ids[1:3]},
            {"seqs": [[-2, 0]], "compacted": ids[-2:]},
            {"seqs": [], "compacted": []},
            {"seqs": [[1, 3]], "compacted": ids[2:4]},
        )
        for wrong in lies:
            history = UserMessage(
                "lie", metadata={"conversation_state": {"rolling": True, **wrong}}
            )
            view = trim(state, None, rolling_summary(5, 2, listing), previous=[history])
            assert "lie" not in texts(view), wrong

        history = UserMessage("no mark", metadata={"conversation_state": 7})
        view = trim(state, None, rolling_summary(5, 2, listing), previous=[history])
        assert "no mark" not in texts(view)

    def test_works_for_messages_in_no_state(self):
        """They have no identities; equal messages at the same positions do."""
        history = list(chat(5).messages)
        view = trim(history, None, rolling_summary(20, 2, lambda _: "sum"))

        later = trim(
            [*history, UserMessage("!")],
            None,
            rolling_summary(20, 2, broken),
            previous=view,
        )

        assert [*texts(view), "!"] == texts(later)

    @given(
        our.transcripts(max_size=12), st.integers(0, 30), st.integers(0, 5), st.data()
    )
    def test_never_breaks_a_valid_chat(self, history, limit, keep, data):
        """
        Message by message, forked and not: valid, accounted for, and the state
        untouched.
        """
        step = rolling_summary(limit, keep, lambda m: f"{len(m)}")
        state, view = Aggregator.new(), None
        for message in history:
            if data.draw(st.integers(0, 9)) == 0:
                state = state.fork()

            state = state.add(message)
            view = trim(state, None, step, previous=view)
            views_add_up(view)
            assert {"start"} >= {one.kind for one in order_problems(view)}
            assert state.messages == view.original.messages

    def test_wait_for_it(self):
        """A function that has to be awaited is for the async twin."""
        with pytest.raises(TypeError, match="use arolling_summary, with atrim"):
            rolling_summary(9, 2, alisting)  # type: ignore[arg-type]

    def test_previous_is_a_view_or_messages(self):
        """Something else is refused at once."""
        with pytest.raises(TypeError, match="expected a message, got a str"):
            trim([], None, previous="summary")  # type: ignore[arg-type]
