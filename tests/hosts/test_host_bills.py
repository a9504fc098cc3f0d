"""
One response, in every host: the same bill, to the token and by the same identity.

Each host gets it as its own integration of the provider hands it over.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from agents.items import ModelResponse as AgentsResponse
from agents.usage import Usage as AgentsUsage
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
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
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Usage,
    UserMessage,
    open_store,
)
from conversation_state.adapters import langchain as langchain_adapter
from conversation_state.adapters import openai_chat
from conversation_state.adapters import pydantic_ai as pydantic_ai_adapter
from conversation_state.aggregator import response_key
from conversation_state.counting import cost
from conversation_state.hosts import agents as agents_host
from conversation_state.hosts.agents import StoreSession
from conversation_state.hosts.langgraph import ConversationStateSaver
from conversation_state.hosts.pydantic_ai import StoreBackend
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails

MODEL, ID = "gpt-5", "chatcmpl-1"
KEY = response_key(AssistantMessage("Noon."), id=ID)
EXPECTED = Usage(
    100,
    20,
    prompt_tokens_details=PromptTokensDetails(cached_tokens=60),
    completion_tokens_details=CompletionTokensDetails(reasoning_tokens=12),
)


def of_plain_state(_store):
    answer = {"role": "assistant", "content": "Noon."}
    response: dict[str, Any] = {
        "id": ID,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": answer}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 12},
        },
    }
    state = Aggregator.new([UserMessage("What time is it?")])
    return state.add_response(*openai_chat.load(response))


def langchain_answer():
    return AIMessage(
        "Noon.",
        id=f"lc_run--{ID}",
        response_metadata={"id": ID, "model_name": MODEL, "finish_reason": "stop"},
        usage_metadata={
            "input_tokens": 100,
            "output_tokens": 20,
            "total_tokens": 120,
            "input_token_details": {"cache_read": 60},
            "output_token_details": {"reasoning": 12},
        },
    )


def of_langgraph(store):
    builder: Any = StateGraph(MessagesState).add_edge(START, "answer")
    builder.add_node("answer", lambda _: {"messages": langchain_answer()})
    saver = ConversationStateSaver(store)
    config: Any = {"configurable": {"thread_id": "chat"}}
    builder.compile(checkpointer=saver).invoke({"messages": "When?"}, config)
    return store.load(saver.name("chat"))


def pydantic_ai_history():
    usage = RequestUsage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=60,
        output_reasoning_tokens=12,
        details={"reasoning_tokens": 12},
    )
    answer = ModelResponse(
        [TextPart("Noon.")],
        usage=usage,
        model_name=MODEL,
        provider_name="openai",
        provider_response_id=ID,
    )
    return [ModelRequest([UserPromptPart("What time is it?")]), answer]


def of_pydantic_ai(store):
    backend: Any = StoreBackend(store)
    conversation = Conversation(conversation_id="chat", messages=pydantic_ai_history())
    asyncio.run(backend.save(conversation))
    return store.load("chat")


def of_pydantic_ai_messages(_store):
    return Aggregator.new(pydantic_ai_adapter.load(pydantic_ai_history()))


def of_agents(store):
    usage = AgentsUsage(
        requests=1,
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        input_tokens_details=InputTokensDetails(cached_tokens=60, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=12),
    )

    async def run():
        session = StoreSession(store, "chat")
        items: list[Any] = [
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": "Noon."},
        ]
        await session.add_items(items)
        text = ResponseOutputText(type="output_text", text="Noon.", annotations=[])
        said = ResponseOutputMessage(
            id="msg_1",
            type="message",
            role="assistant",
            status="completed",
            content=[text],
        )
        result: Any = SimpleNamespace(raw_responses=[AgentsResponse([said], usage, ID)])
        await session.record(result, model=MODEL)

    asyncio.run(run())
    return store.load("chat")


HOSTS = [
    of_plain_state,
    of_langgraph,
    of_pydantic_ai,
    of_pydantic_ai_messages,
    of_agents,
]


@pytest.mark.parametrize("run", HOSTS, ids=lambda run: run.__name__[3:])
def test_same_everywhere(run):
    """
    The response is in the ledger once, under the provider's id and its content, with
    the model and every count of the provider. What is saved by a host has its bill
    already: there is nothing left to record. What it cost is not $0.00.
    """
    with open_store("memory:") as store:
        state = run(store)

    # A state that was made of messages has no ledger until they are recorded.
    if run is of_pydantic_ai_messages:
        state = state.record_responses()

    assert [(KEY, MODEL, EXPECTED)] == [
        (entry.id, entry.model, entry.usage) for entry in state.ledger
    ]
    assert state is state.record_responses()
    assert () == cost(state).unbilled
    assert "$0.00" != str(cost(state)).split(maxsplit=1)[0].rstrip(".,:;")


def test_answers_with_calls():
    """
    The key of an answer with a text and two calls is one key, however a host hands
    over the arguments: as the model's text, or parsed.
    """
    texts = ['{"a": 1,"b":"x"}', "{}"]
    parsed: list[Any] = [{"a": 1, "b": "x"}, {}]
    ids = ["c1", "c2"]
    message = {
        "role": "assistant",
        "content": "I'll look.",
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": text}}
            for id, text in zip(ids, texts, strict=True)
        ],
    }
    chat = {"id": ID, "choices": [{"index": 0, "message": message}]}
    langchain = AIMessage(
        "I'll look.",
        tool_calls=[
            {"id": id, "name": "f", "args": args}
            for id, args in zip(ids, parsed, strict=True)
        ],
    )
    block = {"type": "output_text", "text": "I'll look.", "annotations": []}
    items: list[Any] = [
        {"type": "message", "id": "m", "role": "assistant", "content": [block]},
        *(
            {"type": "function_call", "call_id": id, "name": "f", "arguments": text}
            for id, text in zip(ids, texts, strict=True)
        ),
    ]
    hosts = {
        "chat": openai_chat.load(chat),
        "langchain": langchain_adapter.load([langchain]),
        "agents": agents_host.load(items),
    }
    for name, each in {"as text": texts, "parsed": parsed}.items():
        parts = [ToolCallPart("f", one, id) for one, id in zip(each, ids, strict=True)]
        answer = ModelResponse([TextPart("I'll look."), *parts])
        hosts[f"pydantic_ai, {name}"] = pydantic_ai_adapter.load([answer])

    keys = {name: response_key(*ours, id=ID) for name, ours in hosts.items()}
    assert len(set(keys.values())) == 1, keys
