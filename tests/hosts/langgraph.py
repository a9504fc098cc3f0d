"""Graphs with scripted nodes, on stores of ours."""

from collections import Counter
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from conversation_state.hosts.langgraph import ConversationStateSaver
from conversation_state.store import open_store
from conversation_state.store.backend import TABLES
from tests.store import server as servers

__all__ = [
    "CONFIG",
    "KINDS",
    "ChatState",
    "echo",
    "graph_of",
    "opened",
    "rows_of",
    "run_turn",
    "stored_bytes",
    "texts_of",
]

CONFIG: Any = {"configurable": {"thread_id": "1"}}
# The kinds of stores to test with.
KINDS = (
    *("memory", "sqlite"),
    pytest.param("postgres", marks=pytest.mark.integration),
)


@contextmanager
def opened(kind, folder):
    """
    An empty store of that kind, and a function that opens it once more; in
    memory, the same one.
    """
    if kind == "memory":
        with open_store("memory:") as store:
            yield store, lambda: store
        return

    if kind == "sqlite":
        url = f"sqlite:///{folder}/t.db"
        with open_store(url) as store:
            yield store, lambda: open_store(url)
        return

    server, schema = servers.server(), servers.schema_of(folder)
    try:
        with open_store(server.url(schema)) as store:
            yield store, lambda: open_store(server.url(schema))
    finally:
        server.drop(schema)


class ChatState(TypedDict):
    """The usual state of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]


def echo(state):
    messages = state["messages"]
    return {"messages": [AIMessage(f"{len(messages)}: {messages[-1].content}")]}


def graph_of(saver: Any, node: Any = echo, **options: Any) -> Any:
    builder: Any = StateGraph(ChatState)
    builder.add_node("answer", node)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver, **options)


def run_turn(graph, text, config=CONFIG, **options):
    state = graph.invoke({"messages": [HumanMessage(text)]}, config, **options)
    return [message.content for message in state["messages"]]


def texts_of(store, name):
    return [message.text for message in store.load(name)]


def rows_of(store):
    with store._cache.backend.reading() as rows:
        return Counter({name: len(rows.scan(name, None, None)) for name in TABLES})


def stored_bytes(store):
    with store._cache.backend.reading() as rows:
        found = [*rows.scan("records", None, None), *rows.scan("entries", None, None)]

    return sum(len(value) for row in found for value in row if type(value) is bytes)


def saver_of(store: Any, **options: Any) -> Any:
    return ConversationStateSaver(store, **options)
