"""
One run, in every host: the same bill, to the token and by the same identities.

The run is two responses of a provider, the first of which calls a tool; each
host gets them as its own integration of that provider hands them over.
"""

import asyncio
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from agents.items import ModelResponse as AgentsResponse
from agents.usage import Usage as AgentsUsage
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from openai.types.responses.response_usage import (
    InputTokensDetails,
    OutputTokensDetails,
)
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from conversation_state import Aggregator, Usage, UserMessage, open_store
from conversation_state import ToolMessage as OurToolMessage
from conversation_state.adapters import openai_chat
from conversation_state.adapters import pydantic_ai as pydantic_ai_adapter
from conversation_state.adapters.agents import StoreSession
from conversation_state.adapters.langchain import StoreChatMessageHistory
from conversation_state.adapters.langgraph import ConversationStateSaver
from conversation_state.adapters.pydantic_ai import StoreBackend
from conversation_state.counting import cost
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails

MODEL = "gpt-5"
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "clock", "arguments": "{}"},
}
RESPONSES: list[dict[str, Any]] = [
    {
        "id": "chatcmpl-1",
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 12},
        },
    },
    {
        "id": "chatcmpl-2",
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "It is noon."},
            }
        ],
        "usage": {
            "prompt_tokens": 140,
            "completion_tokens": 5,
            "total_tokens": 145,
            "prompt_tokens_details": {"cached_tokens": 100},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    },
]
EXPECTED = {
    "chatcmpl-1": Usage(
        100,
        20,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=60),
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=12),
    ),
    "chatcmpl-2": Usage(
        140, 5, prompt_tokens_details=PromptTokensDetails(cached_tokens=100)
    ),
}


def of_plain_state(_store):
    state = Aggregator.new([UserMessage("What time is it?")])
    state = state.add_response(*openai_chat.load(RESPONSES[0]))
    state = state.add_tool_response(OurToolMessage("12:00", tool_call_id="call_1"))
    return state.add_response(*openai_chat.load(RESPONSES[1]))


def langchain_answers():
    calls: list[Any] = [
        {"name": "clock", "args": {}, "id": "call_1", "type": "tool_call"}
    ]
    answers = []
    for response in RESPONSES:
        usage = response["usage"]
        message = response["choices"][0]["message"]
        answers.append(
            AIMessage(
                message["content"] or "",
                id=f"lc_run--{response['id']}",
                tool_calls=calls if "tool_calls" in message else [],
                response_metadata={
                    "id": response["id"],
                    "model_name": MODEL,
                    "finish_reason": response["choices"][0]["finish_reason"],
                },
                usage_metadata={
                    "input_tokens": usage["prompt_tokens"],
                    "output_tokens": usage["completion_tokens"],
                    "total_tokens": usage["total_tokens"],
                    "input_token_details": {
                        "cache_read": usage["prompt_tokens_details"]["cached_tokens"]
                    },
                    "output_token_details": {
                        "reasoning": usage["completion_tokens_details"][
                            "reasoning_tokens"
                        ]
                    },
                },
            )
        )

    return answers


def of_langchain(store):
    first, second = langchain_answers()
    history = StoreChatMessageHistory(store, "chat")
    history.add_messages([HumanMessage("What time is it?"), first])
    history.add_messages([ToolMessage("12:00", tool_call_id="call_1"), second])
    return store.load("chat")


class GraphState(TypedDict):
    """
    What the graph's channels hold.
    """

    messages: Annotated[list[Any], add_messages]


def of_langgraph(store):
    first, second = langchain_answers()
    steps = [[first], [ToolMessage("12:00", tool_call_id="call_1")], [second]]
    graph = StateGraph(GraphState)
    for at, step in enumerate(steps):
        graph.add_node(f"step {at}", lambda _, step=step: {"messages": step})
        graph.add_edge(f"step {at - 1}" if at else START, f"step {at}")

    graph.add_edge(f"step {len(steps) - 1}", END)
    saver = ConversationStateSaver(store)
    config: Any = {"configurable": {"thread_id": "chat"}}
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("What time is it?")]}, config)
    return store.load(saver.name("chat"))


def pydantic_ai_history():
    answers = []
    for response in RESPONSES:
        usage = response["usage"]
        message = response["choices"][0]["message"]
        part = (
            ToolCallPart("clock", "{}", tool_call_id="call_1")
            if "tool_calls" in message
            else TextPart(message["content"])
        )
        reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
        answers.append(
            ModelResponse(
                [part],
                usage=RequestUsage(
                    input_tokens=usage["prompt_tokens"],
                    output_tokens=usage["completion_tokens"],
                    cache_read_tokens=usage["prompt_tokens_details"]["cached_tokens"],
                    output_reasoning_tokens=reasoning,
                    details={"reasoning_tokens": reasoning} if reasoning else {},
                ),
                model_name=MODEL,
                provider_name="openai",
                provider_response_id=response["id"],
            )
        )

    result = ModelRequest([ToolReturnPart("clock", "12:00", "call_1")])
    question = ModelRequest([UserPromptPart("What time is it?")])
    return [question, answers[0], result, answers[1]]


def of_pydantic_ai(store):
    history = pydantic_ai_history()

    async def save():
        backend: Any = StoreBackend(store)
        conversation = Conversation(conversation_id="chat")
        for message in history:
            conversation.messages.append(message)
            await backend.save(conversation)

    asyncio.run(save())
    return store.load("chat")


def of_pydantic_ai_messages(_store):
    return Aggregator.new(pydantic_ai_adapter.load(pydantic_ai_history()))


def of_agents(store):
    items: list[Any] = [
        {"role": "user", "content": "What time is it?"},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "clock",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "12:00"},
        {"role": "assistant", "content": "It is noon."},
    ]
    responses = []
    for response in RESPONSES:
        usage = response["usage"]
        counted = AgentsUsage(
            requests=1,
            input_tokens=usage["prompt_tokens"],
            output_tokens=usage["completion_tokens"],
            total_tokens=usage["total_tokens"],
            input_tokens_details=InputTokensDetails(
                cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
                cache_write_tokens=0,
            ),
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=usage["completion_tokens_details"]["reasoning_tokens"]
            ),
        )
        responses.append(AgentsResponse([], counted, response["id"]))

    async def run():
        session = StoreSession(store, "chat")
        await session.add_items(items)
        result: Any = SimpleNamespace(raw_responses=responses)
        await session.record(result, model=MODEL)

    asyncio.run(run())
    return store.load("chat")


HOSTS = [
    of_plain_state,
    of_langchain,
    of_langgraph,
    of_pydantic_ai,
    of_pydantic_ai_messages,
    of_agents,
]
# A state that was made of messages has no ledger until they are recorded.
SAVED = [run for run in HOSTS if run is not of_pydantic_ai_messages]


class TestBill:
    @pytest.mark.parametrize("run", HOSTS, ids=lambda run: run.__name__[3:])
    def test_same_everywhere(self, run):
        """
        Each response is in the ledger once, under the provider's id, with the
        model and every count of the provider.
        """
        with open_store("memory:") as store:
            state = run(store).record_responses()

        assert EXPECTED == {entry.id: entry.usage for entry in state.ledger}
        assert {MODEL} == {entry.model for entry in state.ledger}

    @pytest.mark.parametrize("run", SAVED, ids=lambda run: run.__name__[3:])
    def test_hosts_record_it_themselves(self, run):
        """
        What is saved by a host has its bill: there is nothing left to record.
        """
        with open_store("memory:") as store:
            state = run(store)

        assert state is state.record_responses()
        assert len(EXPECTED) == len(state.ledger)
        assert () == cost(state).unbilled

    @pytest.mark.parametrize("run", HOSTS, ids=lambda run: run.__name__[3:])
    def test_cost_is_never_nothing(self, run):
        """
        A conversation that cost something does not show $0.00.
        """
        with open_store("memory:") as store:
            bill = str(cost(run(store)))

        assert "$0.00" != bill.split(maxsplit=1)[0].rstrip(".,:;")
