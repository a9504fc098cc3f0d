"""A trimmer's view in the requests of LangChain's agents."""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from conversation_state.adapters import langchain
from conversation_state.counting import TokenBudget
from conversation_state.errors import DecodeError
from conversation_state.hosts.langchain import trimmed, trimming_middleware
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.trimming import Trimmer, keep_last, rolling_summary
from conversation_state.usage import Usage

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Scripted(BaseChatModel):
    """Gives the answers of a script, and keeps what it was asked."""

    answers: list[Any]
    _requests: list[Any] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, *_tools: Any, **_options: Any) -> Any:
        return self

    def _generate(self, messages, *_arguments, **_options):
        self._requests.append(messages)
        answer = self.answers[len(self._requests) - 1]
        if isinstance(answer, Exception):
            raise answer

        return ChatResult(generations=[ChatGeneration(message=answer)])


def book(train: int) -> str:
    """Books a seat."""
    if not train:
        raise ConnectionError("the office does not answer")

    return f"Booked on {train}."


def asks(call_id="c1", train: Any = 7):
    call = {"id": call_id, "name": "book", "args": {"train": train}}
    return AIMessage("", tool_calls=[call])


def agent_of(model, trimmer, **options):
    middleware = [trimming_middleware(trimmer)]
    return create_agent(
        model, [book], middleware=middleware, checkpointer=InMemorySaver(), **options
    )


def say(agent, text):
    return agent.invoke({"messages": [HumanMessage(text)]}, THREAD)["messages"]


async def asay(agent, text):
    result = await agent.ainvoke({"messages": [HumanMessage(text)]}, THREAD)
    return result["messages"]


def run_turn(agent, text, *, is_async):
    return asyncio.run(asay(agent, text)) if is_async else say(agent, text)


@pytest.mark.parametrize("is_async", [False, True])
class TestTrimmingMiddleware:
    def test_requests_are_trimmed_and_the_state_is_whole(self, is_async):
        """The model gets the view, whose messages are those of the state."""
        model = Scripted(answers=[asks(), AIMessage("Done."), AIMessage("Bye.")])
        agent = agent_of(model, Trimmer(None, keep_last(1)))
        run_turn(agent, "Book 7.", is_async=is_async)
        state = run_turn(agent, "Thanks.", is_async=is_async)

        texts = [[message.text for message in request] for request in model._requests]
        assert texts[0] == ["Book 7."]
        assert texts[1][-2:] == ["", "Booked on 7."]
        assert texts[2] == ["Thanks."]
        assert [message.text for message in state] == [
            *("Book 7.", "", "Booked on 7.", "Done.", "Thanks.", "Bye."),
        ]
        assert model._requests[-1][0] == state[-2]

    def test_the_system_prompt_is_counted_and_kept(self, is_async):
        """It is in front of each view, and takes room of the budget."""
        answers = [AIMessage("Yes."), AIMessage("No.")]
        budget = Trimmer(TokenBudget(context_window=20))
        prompt = "You are a railway clerk, and brief."
        shown = {}
        for name, options in {"with": {"system_prompt": prompt}, "without": {}}.items():
            model = Scripted(answers=answers)
            agent = agent_of(model, budget, **options)
            run_turn(agent, "Is there a train to Bern?", is_async=is_async)
            run_turn(agent, "And to Basel, by noon?", is_async=is_async)
            shown[name] = model._requests[-1]

        assert shown["with"][0] == SystemMessage(prompt)
        assert len(shown["with"][1:]) < len(shown["without"])

    @pytest.mark.parametrize("steps", [(), (keep_last(9),)])
    def test_a_call_that_has_no_result_is_answered(self, is_async, steps):
        """
        After a turn that stopped while a tool ran, the model is told that there is no
        result; the state has no such message.
        """
        model = Scripted(answers=[asks(train=0), AIMessage("Sorry.")])
        agent = agent_of(model, Trimmer(None, *steps))
        with pytest.raises(ConnectionError):
            run_turn(agent, "Book 0.", is_async=is_async)

        state = run_turn(agent, "And?", is_async=is_async)

        first, call, answer, question = model._requests[-1]
        assert [first, call, question] == state[:3]
        assert isinstance(answer, ToolMessage)
        assert (answer.tool_call_id, answer.status) == ("c1", "error")
        assert len(state) == 4

    def test_a_refusal_is_sent_as_a_text(self, is_async):
        """
        LangChain sends no refusal to Chat Completions, but an empty message, which is
        refused.
        """
        why = "I can't help with that."
        left = AIMessage("", additional_kwargs={"refusal": why})
        model = Scripted(answers=[left, AIMessage("Yes.")])
        agent = agent_of(model, Trimmer(None))
        run_turn(agent, "Book it.", is_async=is_async)
        state = run_turn(agent, "And a tea?", is_async=is_async)

        assert [message.text for message in model._requests[-1]] == [
            *("Book it.", why, "And a tea?"),
        ]
        assert state[1].text == ""

    @pytest.mark.parametrize(
        ("text", "calls"), [("", asks("c1").tool_calls), ("One is booked.", [])]
    )
    def test_a_refusal_beside_something_else_stays_one(self, text, calls, is_async):
        """A message with a call or a text is not empty without its refusal."""
        refusal = {"refusal": "I can't book more."}
        left = AIMessage(text, additional_kwargs=refusal, tool_calls=calls)
        model = Scripted(answers=[left, AIMessage("Done."), AIMessage("Bye.")])
        agent = agent_of(model, Trimmer(None))
        run_turn(agent, "Book it.", is_async=is_async)
        run_turn(agent, "And?", is_async=is_async)

        sent = model._requests[-1][1]
        assert (text, refusal, calls) == (
            *(sent.text, sent.additional_kwargs, sent.tool_calls),
        )

    def test_an_id_that_comes_again_is_another_in_the_request(self, is_async):
        """Servers that number the calls of each answer give one id in every turn."""
        model = Scripted(
            answers=[asks("call_0"), asks("call_0", 8), AIMessage("Done.")]
        )
        agent = agent_of(model, Trimmer(None))
        state = run_turn(agent, "Book 7 and 8.", is_async=is_async)

        request = model._requests[-1]
        calls = [call["id"] for message in request[1::2] for call in message.tool_calls]
        results = [message.tool_call_id for message in request[2::2]]
        assert calls == results
        assert len(set(calls)) == 2
        texts = [message.text for message in request[2::2]]
        assert texts == ["Booked on 7.", "Booked on 8."]
        assert {call["id"] for call in state[1].tool_calls + state[3].tool_calls} == {
            "call_0"
        }

    def test_one_view_starts_from_the_one_before(self, is_async):
        """
        A summary that was billed is not made again, and the last view says its cost.
        """
        asked = []

        def summarise(messages):
            asked.append(len(messages))
            meta = ResponseMeta(id="s1", usage=Usage(9, 1))
            return AssistantMessage("summary", response=meta)

        trimmer = Trimmer(None, rolling_summary(10, 2, summarise))
        model = Scripted(answers=[AIMessage(f"Answer {at}." * 4) for at in range(4)])
        middleware = trimming_middleware(trimmer)
        assert middleware.last_view is None
        agent = create_agent(model, middleware=[middleware])
        messages: Any = [HumanMessage("Is there a train to Bern?"), *model.answers[:2]]
        for _ in range(2):
            given: Any = {"messages": [*messages, HumanMessage("And?")]}
            if is_async:
                asyncio.run(agent.ainvoke(given))
            else:
                agent.invoke(given)

        assert len(asked) == 1
        assert "summary" in [message.text for message in model._requests[-1]]
        assert middleware.last_view is not None


class TestRequest:
    """The request that the model gets."""

    PROMPT = SystemMessage("Be brief.")
    CHAT = (HumanMessage("Hi!"), AIMessage("Hello."), HumanMessage("Bye."))

    def shown(self, *steps, **fields):
        """The system message and the messages of a request that was trimmed."""
        requests: list[Any] = []
        request = ModelRequest(model=Scripted(answers=[]), **fields)
        middleware: Any = trimming_middleware(Trimmer(None, *steps))
        middleware.wrap_model_call(request, requests.append)
        return requests[0].system_message, requests[0].messages

    def test_prompt_apart(self):
        """A prompt that stands apart stays so, and a message of the state one."""
        chat = [*self.CHAT]

        lead, messages = self.shown(system_message=self.PROMPT, messages=chat)
        assert lead is self.PROMPT
        assert [id(each) for each in messages] == [id(each) for each in chat]

        lead, messages = self.shown(messages=[self.PROMPT, *chat])
        assert lead is None
        assert messages[0] is self.PROMPT

    def test_a_message_without_a_text(self):
        """A picture alone is sent as it is."""
        block = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
        picture = HumanMessage([block])
        _, (sent,) = self.shown(messages=[picture])

        assert sent is picture

    def test_a_step_that_hides_the_prompt(self):
        """Then it is sent all the same, but for it nothing that is hidden."""
        step = keep_last(1, keep_system=False)

        lead, messages = self.shown(
            step, system_message=self.PROMPT, messages=[*self.CHAT]
        )

        assert (lead, messages) == (self.PROMPT, [self.CHAT[-1]])

    @pytest.mark.parametrize(
        "message",
        [
            HumanMessage("Hi!", name="ann"),
            SystemMessage("Be brief."),
            AIMessage("Hm.", name="bot", tool_calls=asks().tool_calls),
            AIMessage("", invalid_tool_calls=[{"id": "c1", "name": "f", "args": "{"}]),
            ToolMessage("no", tool_call_id="c1", status="error", name="book"),
            ChatMessage(content="Hi!", role="user"),
        ],
    )
    def test_what_cannot_be_saved(self, message):
        """Of a message with fields that can't be saved all that is sent is viewed."""
        odd = message.model_copy(update={"additional_kwargs": {"lock": object()}})

        with pytest.raises(DecodeError):
            langchain.load([odd])

        assert langchain.load_readable(odd) == langchain.load_readable(message)
        with pytest.raises(DecodeError, match="expected a message"):
            langchain.load_readable("hi")


class TestMiddlewareArguments:
    def test_steps_that_are_awaited(self):
        """A model is called with a view whose steps had to be awaited."""

        async def last(view):
            await asyncio.sleep(0)
            return keep_last(1)(view)

        model = Scripted(answers=[AIMessage("Yes."), AIMessage("No.")])
        agent = agent_of(model, Trimmer(None, last))
        asyncio.run(asay(agent, "When?"))
        asyncio.run(asay(agent, "And?"))

        assert [message.text for message in model._requests[-1]] == ["And?"]

    def test_something_else_is_refused(self):
        """The error names the parameter."""
        step: Any = keep_last(1)
        for use in (trimming_middleware, lambda step: trimmed([], step)):
            with pytest.raises(TypeError, match=r"^trimmer: expected a Trimmer, got"):
                use(step)
