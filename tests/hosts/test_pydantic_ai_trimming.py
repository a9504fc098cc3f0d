"""
What Pydantic AI's models get to see: a trimmer as a history processor, and as
a capability.
"""

import asyncio
import gc
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from conversation_state.counting import TokenBudget, by_characters
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.hosts.pydantic_ai import (
    TrimmedRequests,
    ahistory_processor,
    history_processor,
)
from conversation_state.trimming import (
    TrimContext,
    Trimmer,
    arolling_summary,
    compact,
    fit,
    keep_last,
    rolling_summary,
    shorten_tool_results,
    trim,
)
from tests.adapters.pydantic_ai import NEW_YEAR, answers, asks, calls, says


def within(tokens, *steps, **options):
    return Trimmer(TokenBudget(context_window=tokens), *steps, **options)


def chat(turns, **fields):
    """
    A history with a system prompt and so many questions and answers, and one
    question more.
    """
    system = SystemPromptPart("SYSTEM", timestamp=NEW_YEAR)
    history = [ModelRequest(parts=[system, *asks("first" * 8).parts], **fields)]
    for turn in range(turns):
        history += [
            says(f"answer {turn} " * 4),
            asks(f"question {turn} " * 4, **fields),
        ]

    return history


def is_valid(history):
    called = set()
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.tool_call_id not in called:
                return False

        called = {getattr(part, "tool_call_id", None) for part in message.parts}

    return isinstance(history[-1], ModelRequest)


def processor(trimmer):
    return history_processor(trimmer)


def awaited(trimmer):
    return ahistory_processor(trimmer)


class Seen:
    """A model that remembers what it was shown."""

    def __init__(self):
        self.requests = []
        self.model = FunctionModel(self._answer_request)

    def _answer_request(self, messages, _info):
        self.requests.append(list(messages))
        return ModelResponse(parts=[TextPart("a long answer " * 4)])


class TestHistoryProcessor:
    """`history_processor` keeps what fits, as it was given."""

    def test_keeps_what_it_was_given(self):
        """
        What is kept are the very messages; the request that holds the system
        prompt is left with that.
        """
        history = chat(9)
        kept = processor(within(60))(history)

        assert [SystemPromptPart] == [type(part) for part in kept[0].parts]
        assert history[0].parts[0] is kept[0].parts[0]
        assert 2 < len(kept) < len(history)
        for one, other in zip(kept[1:], history[-len(kept) + 1 :], strict=True):
            assert one is other

    def test_sees_changes(self):
        """A message with other or more parts is another one, also to the budget."""
        process, history = processor(within(60)), chat(3)
        before = process(history)
        history[-1].parts = [UserPromptPart("new " * 40)]
        after = process(history)

        assert "new " * 40 == after[-1].parts[0].content
        assert len(after) < len(before)

        history[-1].parts.append(UserPromptPart("and more"))

        assert "and more" == process(history)[-1].parts[-1].content

    def test_changed_calls(self):
        """A response whose call gets another id is whole, and its result follows."""
        asked = ModelResponse(parts=[TextPart("Hm."), *calls("c").parts])
        history = [asks("x"), *[asked, answers("c"), says("y"), asks("x")] * 2]

        kept = processor(within(1_000))(history)

        made = [one for message in kept for one in message.parts]
        ids = [one.tool_call_id for one in made if isinstance(one, ToolCallPart)]
        given = [type(one) for message in history for one in message.parts]
        assert given == [type(one) for one in made]
        assert 2 == len({*ids})
        assert is_valid(kept)

    @given(st.integers(30, 200), st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def test_never_orphans(self, tokens, turns):
        """
        No result without its call, whatever is left out; the newest request
        is always there.
        """
        history = chat(0)
        for at, size in enumerate(turns):
            ids = [f"c{at}_{one}" for one in range(size)]
            history += [calls(*ids), answers(*ids)] if size else [says("x" * 40)]
            if not size:
                history.append(asks("next"))

        try:
            kept = processor(within(tokens))(history)
        except BudgetExceededError:
            return

        assert is_valid(kept)
        assert kept[-1] is history[-1]

    def test_repairs_what_steps_break(self):
        """A step that parts calls and results does not reach the provider."""
        history = [asks("?"), calls("c1"), answers("c1"), says("noon"), asks("And?")]

        def first_gone(view):
            return view.remove(1)

        kept = processor(within(999, first_gone))(history)

        assert [history[0], history[3], history[4]] == kept

    @pytest.mark.parametrize(
        "trimmer",
        [within(8_000), partial(trim, budget=TokenBudget(context_window=8_000))],
    )
    def test_a_stopped_call_hides_nothing(self, trimmer):
        """
        All that stands before a call without a result is shown, and an answer
        to the call, by any trimmer without steps.
        """
        history = [*chat(9), calls("c"), asks("still there?")]

        shown: Any = history_processor(trimmer)(history)

        assert history == [*shown[:-2], shown[-1]]
        assert "c" == shown[-2].parts[0].tool_call_id
        assert isinstance(shown[-2].parts[0], ToolReturnPart)

    @pytest.mark.parametrize("make", [history_processor, ahistory_processor])
    @pytest.mark.parametrize(
        "steps",
        [(), (fit(),), (shorten_tool_results(50), fit()), (keep_last(5),)],
        ids=["none", "fit", "shorten-fit", "keep-last"],
    )
    def test_a_deferred_result(self, make, steps):
        """
        A result that is in a request of its own, after what another tool told the user,
        is shown behind its call, whatever the steps.
        """
        told = ModelRequest(parts=[*answers("c1").parts, *asks("A picture.").parts])
        history: Any = [asks("?"), calls("c1", "c2"), told, answers("c2")]

        shown: Any = make(within(8_000, *steps))(list(history))
        if make is ahistory_processor:
            shown = asyncio.run(shown)

        assert history[:2] == shown[:2]
        parts = [part for message in shown[2:] for part in message.parts]
        assert [*answers("c1", "c2").parts, *asks("A picture.").parts] == parts

    def test_goes_on_from_the_view_before(self):
        """Of a history that grew: a summary that is enough is not billed again."""
        asked = []

        def summarise(messages):
            asked.append(len(messages))
            return "summary"

        async def asummarise(messages):
            return summarise(messages)

        history = chat(9)
        longer = [*history, says("an answer"), asks("more?")]
        trimmer = within(8_000, rolling_summary(60, 2, summarise))
        later = within(8_000, arolling_summary(60, 2, asummarise))
        process, aprocess = history_processor(trimmer), ahistory_processor(later)
        for shown in (process(history), asyncio.run(aprocess(history))):
            assert "summary" in str(shown)

        for shown in (process(longer), asyncio.run(aprocess(longer))):
            assert "summary" in str(shown)
            assert longer[-2:] == shown[-2:]

        assert [asked[0]] * 2 == asked

    def test_other_content(self):
        """
        A message that a step rewrites is sent so, in the same request, with all that
        stood beside it.
        """
        history = [asks("?"), calls("c1", "c2"), answers("c1", "c2", text="x" * 400)]
        history[2].parts = [*history[2].parts, UserPromptPart("And?")]
        history[2].metadata = {"kept": True}
        kept = processor(within(999, shorten_tool_results(10)))(history)

        assert history[:2] == kept[:2]
        assert [True, True] == [len(part.content) < 200 for part in kept[2].parts[:2]]
        assert history[2].parts[2] is kept[2].parts[2]
        assert {"kept": True} == kept[2].metadata
        assert "x" * 400 == history[2].parts[0].content

    def test_summaries(self):
        """A summary is a request of its own, in the place of what it sums up."""
        history = chat(3)
        step = compact(range(2, 6), lambda messages: f"{len(messages)} messages")
        kept = processor(within(999, step))(history)

        assert history[0] is kept[0]
        assert "4 messages" == kept[1].parts[0].content
        assert history[5:] == kept[2:]

    def test_instructions_count(self):
        """Instructions take up room once, however often they are repeated."""
        options = {"instructions": "x" * 80}
        plain = processor(within(100))(chat(9))
        kept = processor(within(100))(chat(9, **options))
        none = processor(within(100 + 20))(chat(9, **options))

        assert len(kept) < len(plain) == len(none)

    def test_counts_once(self):
        """In a run of n turns each message is counted once."""
        counted = []

        def counter(message):
            counted.append(message.text)
            return by_characters(message)

        process = processor(within(9_999, counter=counter))
        history = chat(0, instructions="Be kind.")
        for turn in range(50):
            history += [says(f"answer {turn}"), asks(f"question {turn}")]
            process(list(history))

        assert len(counted) == len({*counted}) == 103

    def test_forgets(self):
        """After an object is collected, no entry about it is left."""
        process = processor(within(9_999))
        process(chat(3))
        gc.collect()
        cells = [cell.cell_contents for cell in process.__closure__]
        (known,) = [one for one in cells if hasattr(one, "_found")]

        assert {} == known._found

    def test_newest_left_out(self):
        """
        A view without the newest request is refused, with an error that explains it.
        """
        process = processor(lambda messages: TrimContext.of(messages).remove([3, 4]))
        empty: Any = [asks("", instructions="Be brief.")]

        with pytest.raises(InvalidTranscriptError, match=r"messages\[2\].*removed"):
            process(chat(1))

        with pytest.raises(InvalidTranscriptError, match=r"\(invalid: .* is empty"):
            processor(within(999))(empty)

    def test_misuse(self):
        """What is not a trimmer, and what gives no view, is an error at once."""
        with pytest.raises(TypeError, match=r"expected a Trimmer, got .*TokenBudget"):
            processor(TokenBudget(context_window=9))

        with pytest.raises(TypeError, match="returns a TrimContext, got a list"):
            processor(list)(chat(1))

        with pytest.raises(TypeError, match="expected a Trimmer, got a function"):
            awaited(lambda messages: messages)


def run_turns(agent, turns):

    async def chat():
        history = None
        for turn in range(turns):
            result = await agent.run(f"{turn}", message_history=history)
            history = result.all_messages()

        return history

    return asyncio.run(chat())


class TestAgents:
    """An agent that is given one."""

    def test_process_history(self):
        """The model sees what fits, turn after turn, and the system prompt."""
        seen = Seen()
        shows = processor(within(80))
        agent = Agent(
            seen.model, system_prompt="SYSTEM", capabilities=[ProcessHistory(shows)]
        )
        run_turns(agent, 12)

        assert all(len(request) <= 12 for request in seen.requests)
        assert all("SYSTEM" == one[0].parts[0].content for one in seen.requests)
        assert "11" == seen.requests[-1][-1].parts[-1].content

    def test_what_is_said_of_an_empty_response_is_said_by_the_user(self):
        """
        The empty response is in no view, so a system message would directly follow a
        tool's result, which Mistral refuses. The history keeps what it was.
        """
        script = [
            ModelResponse(parts=[ToolCallPart("book", {"train": 7}, "c1")]),
            ModelResponse(parts=[]),
            ModelResponse(parts=[TextPart("Booked.")]),
        ]
        answers = iter(script)
        agent: Any = Agent(
            FunctionModel(lambda _messages, _info: next(answers)),
            capabilities=[TrimmedRequests(Trimmer(None))],
        )

        @agent.tool_plain
        def book(train: int) -> str:
            return f"{train} is booked."

        history: Any = asyncio.run(agent.run("Book it.")).all_messages()[:-1]

        kept: Any = history_processor(Trimmer(None))(history)

        def kinds_of(messages):
            return [part.part_kind for message in messages for part in message.parts]

        first = ["user-prompt", "tool-call", "tool-return"]
        assert kinds_of(history) == [*first, "retry-feedback"]
        assert kinds_of(kept) == [*first, "user-prompt"]
        assert kept[-1].parts[-1].content == history[-1].parts[-1].content

    def test_trimmed_requests(self):
        """The model sees what fits, and the history stays whole."""
        seen = Seen()
        agent = Agent(seen.model, capabilities=[TrimmedRequests(within(60))])
        history = run_turns(agent, 8)

        assert 16 == len(history)
        assert max(len(request) for request in seen.requests) < 10
        assert "7" == seen.requests[-1][-1].parts[-1].content
