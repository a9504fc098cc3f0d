"""LangGraph's threads in a store."""

import operator
from typing import Annotated, Any, TypedDict

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph

from conversation_state.hosts import langgraph
from conversation_state.hosts.langgraph import ConversationStateSaver
from tests.adapters.langchain import LANGCHAIN_MESSAGES
from tests.hosts.contract import HostContract


class State(TypedDict):
    """A graph's state, to which messages are added as they are."""

    messages: Annotated[list[AnyMessage], operator.add]


def graph_on(saver):
    builder: Any = StateGraph(State)
    builder.add_node("said", lambda _state: None)
    builder.add_edge(START, "said")
    return builder.compile(checkpointer=saver)


def thread(key):
    return {"configurable": {"thread_id": key}}


class LangGraphCase:
    """A checkpointer for all threads."""

    adapter = langgraph
    extra = "langgraph"
    packages = ("langchain_core", "langgraph")
    uses = (
        "adapter.ConversationStateSaver",
        "adapter.StateChannel",
        "adapter.add_to_state",
    )
    errors = (ValueError, TypeError)
    conversations = st.lists(LANGCHAIN_MESSAGES, max_size=4)

    def host(self, store, _key):
        return ConversationStateSaver(store)

    def from_url(self, url, _key):
        return ConversationStateSaver.from_url(url)

    def add(self, host, key, messages):
        graph_on(host).invoke({"messages": messages}, thread(key), durability="exit")

    async def aadd(self, host, key, messages):
        given = {"messages": messages}
        await graph_on(host).ainvoke(given, thread(key), durability="exit")

    def read(self, host, key):
        return graph_on(host).get_state(thread(key)).values.get("messages", [])

    async def aread(self, host, key):
        state = await graph_on(host).aget_state(thread(key))
        return state.values.get("messages", [])

    def clear(self, host, key):
        host.delete_thread(key)

    async def aclear(self, host, key):
        await host.adelete_thread(key)

    def name(self, key):
        return langgraph.ConversationStateSaver.name(None, key)  # type: ignore[arg-type]

    def turn(self, number):
        call = {"id": f"c{number}", "name": "clock", "args": {"zone": f"z{number}"}}
        fields = {"finish_reason": "stop", "model_name": "m", "headers": {"a": number}}
        return [
            HumanMessage(f"question {number}", id=f"h{number}"),
            AIMessage("", tool_calls=[call], id=f"q{number}"),
            ToolMessage(
                f"result {number}",
                tool_call_id=f"c{number}",
                name="clock",
                id=f"r{number}",
                artifact={"number": number},
            ),
            AIMessage(f"answer {number}", id=f"a{number}", response_metadata=fields),
        ]

    def user_message(self, text):
        return HumanMessage(text)


class TestLangGraphHost(HostContract):
    """What every host promises."""

    case = LangGraphCase()
