"""
Real runs of the OpenAI Agents SDK on sessions in a store, with a model of prepared
answers.
"""

import asyncio

import pytest
from agents import (
    Agent,
    MaxTurnsExceeded,
    OpenAIResponsesCompactionSession,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
)
from agents.memory import SessionSettings
from openai.types.responses import ResponseOutputMessage

from conversation_state import AssistantMessage, ToolMessage
from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.hosts.agents import StoreSession
from conversation_state.trimming import TrimContext, Trimmer, keep_last
from tests.adapters.contract import as_json
from tests.hosts.agents import Scripted, calls, says, thinks

QUIET = RunConfig(tracing_disabled=True)
run = asyncio.run


@function_tool
def add(a: int, b: int) -> int:
    return a + b


@function_tool(needs_approval=True)
def book(what: str) -> str:
    return f"{what}: booked."


def agent(*answers, **options):
    model = Scripted(*answers, named=options.pop("named", True))
    tools = options.pop("tools", [add])
    return Agent("desk", model=model, tools=tools, **options), model


ANSWERS = (
    [thinks(), calls("add", "c1", a=1, b=2), calls("add", "c2", a=3, b=4)],
    [says("3 and 7.")],
)


@pytest.fixture
def session(store):
    return StoreSession(store, "alice")


async def whole(desk, prompt, session, **options):
    options |= {"session": session, "run_config": QUIET}
    return await Runner.run(desk, prompt, **options)


async def streamed(desk, prompt, session, **options):
    options |= {"session": session, "run_config": QUIET}
    result = Runner.run_streamed(desk, prompt, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("runs", [whole, streamed])
class TestRun:
    def test_holds_all_messages(self, session, runs):
        """
        The session has what the run would send on, and what the SDK's own
        session has.
        """

        async def check(session):
            first, _ = agent(*ANSWERS)
            second, model = agent([says("Bye.", 2)])
            ours = await runs(first, "Add.", session)
            await runs(second, "Bye!", session)
            return ours.to_input_list(), await session.get_items(), model.asked

        peer = SQLiteSession("alice")
        sent, items, asked = run(check(session))
        theirs, their_items, their_asked = run(check(peer))
        peer.close()

        assert as_json(sent) == as_json(items[: len(sent)])
        assert as_json(their_items) == as_json(items)
        assert as_json(their_asked) == as_json(asked)
        assert theirs == sent

    def test_is_a_conversation(self, session, runs):
        """
        A response of the model's is one message, whatever it called, and every adapter
        can dump it.
        """
        desk, _ = agent(*ANSWERS)
        run(runs(desk, "Add.", session))
        state = run(session.state())

        assert [AssistantMessage, ToolMessage, ToolMessage, AssistantMessage] == [
            type(message) for message in state.messages[1:]
        ]
        assert ["c1", "c2"] == [call.id for call in state[1].tool_calls]
        assert () == TrimContext.of(state).problems()
        assert as_json(run(session.get_items())) == as_json(
            openai_responses.dump(state).payload["input"]
        )
        chat = openai_chat.dump(state).payload["messages"]
        assert ["user", "assistant", "tool", "tool", "assistant"] == [
            message["role"] for message in chat
        ]
        turns = anthropic.dump(state).payload["messages"]
        assert ["c1", "c2"] == [block["tool_use_id"] for block in turns[2]["content"]]
        contents = gemini.dump(state).payload["contents"]
        assert ["user", "model", "user", "model"] == [one["role"] for one in contents]

    def test_approval(self, session, runs):
        """
        A run that stops to ask goes on where it stopped, also from JSON, and
        everything is there once.
        """
        desk, _ = agent([calls("book", what="A room")], [says("Done.")], tools=[book])

        async def check():
            result = await runs(desk, "Book.", session)
            kept = result.to_state().to_json()
            state = await RunState.from_json(desk, kept)
            (asked,) = state.get_interruptions()
            state.approve(asked)
            return await runs(desk, state, session)

        result = run(check())

        assert "Done." == result.final_output
        assert ["user", "function_call", "function_call_output", "message"] == [
            item.get("type", item.get("role")) for item in run(session.get_items())
        ]
        assert () == TrimContext.of(run(session.state())).problems()

    def test_view(self, store, runs):
        """
        The model sees what the view shows, and its answer is stored with all the rest.
        """
        session = StoreSession(store, "alice", view=Trimmer(None, keep_last(1)))
        desk, model = agent(*ANSWERS, [says("Bye.", 2)])
        run(runs(desk, "Add.", session))
        run(runs(desk, "Bye!", session))

        assert ["Add.", "3 and 7.", "Bye!"] == [
            message.text for message in openai_responses.load(model.asked[-1])
        ]
        assert 7 == len(run(session.state()))

    def test_record(self, session, runs):
        """A run is billed once, however often it is recorded."""
        desk, _ = agent(*ANSWERS)
        result = run(runs(desk, "Add.", session))

        usage = run(session.record(result))
        assert usage == run(session.record(result))
        assert result.context_wrapper.usage.total_tokens == usage.total_tokens
        assert 220 == usage.total_tokens
        if runs is streamed:
            assert 128 == usage.prompt_tokens_details.cached_tokens
            assert 16 == usage.extra["cache_write_tokens"]
            assert 10 == usage.completion_tokens_details.reasoning_tokens

    @pytest.mark.parametrize("named", [True, False], ids=["ids", "no ids"])
    def test_hooks(self, session, runs, named):
        """
        With the session's hooks each response is billed when it is there, once, also if
        the run is recorded afterwards, and where the provider gives no ids.
        """
        desk, _ = agent(*ANSWERS, named=named)
        result = run(runs(desk, "Add.", session, hooks=session.hooks(model="gpt-5")))
        state = run(session.state())

        assert 220 == state.total_usage.total_tokens
        assert result.context_wrapper.usage.total_tokens == 220
        assert ["gpt-5", "gpt-5"] == [entry.model for entry in state.ledger]
        assert state.total_usage == run(session.record(result, model="gpt-5"))

    @pytest.mark.parametrize("has_hooks", [True, False])
    def test_bill_of_a_failure(self, session, runs, has_hooks):
        """
        Usage of a run before it failed is recorded: by hooks when it is there, or from
        the error.
        """
        desk, _ = agent(*[[calls("add", f"c{n}", a=n, b=n)] for n in range(20)])
        options = {"hooks": session.hooks()} if has_hooks else {}
        with pytest.raises(MaxTurnsExceeded) as caught:
            run(runs(desk, "Add.", session, **options))

        recorded = run(session.state()).total_usage.total_tokens
        assert caught.value.run_data is not None
        usage = run(session.record(caught.value.run_data))

        assert (1100 if has_hooks else 0) == recorded
        assert 1100 == usage.total_tokens
        assert 21 == len(run(session.get_items()))
        assert () == TrimContext.of(run(session.state())).problems()


class TestSettings:
    @pytest.mark.parametrize("limit", range(1, 7))
    def test_limit(self, store, limit):
        """Wherever a limit cuts, a run goes on, and all stays stored."""
        settings = SessionSettings(limit=limit)
        session = StoreSession(store, "alice", session_settings=settings)
        desk, model = agent(*ANSWERS, [says("Bye.", 2)])
        run(whole(desk, "Add.", session))
        run(whole(desk, "Bye!", session))

        assert limit + 1 >= len(model.asked[-1])
        assert 7 == len(run(session.state()))


class Compacting:
    """As much of OpenAI's client as a compaction asks for."""

    class responses:  # noqa: N801 - the client's word
        """Its part for responses."""

        @staticmethod
        async def compact(**_):

            class Compacted:
                output = (
                    ResponseOutputMessage.model_validate(
                        {**says("All of it.").model_dump(), "id": "msg_9"}
                    ),
                )
                usage = None

            return Compacted


class TestCompaction:
    def test_loses_nothing(self, session):
        """
        Under the SDK's session that compacts, what was compacted stays in
        the history.
        """
        compacting = OpenAIResponsesCompactionSession(
            "alice",
            underlying_session=session,
            client=Compacting,  # type: ignore[arg-type]
            compaction_mode="input",
        )

        async def check():
            await whole(agent(*ANSWERS)[0], "Add.", session)
            await compacting.run_compaction({"force": True})
            return await compacting.get_items(), await session.history()

        items, history = run(check())

        assert ["All of it."] == [item["content"][0]["text"] for item in items]
        whole_chat = [head for head in history if head.length == 5]
        assert "3 and 7." == run(session.state(at=whole_chat[0]))[-1].text
