"""
A thousand steps with a checkpoint each, beside LangGraph's `add_messages`
with its `InMemorySaver`.

Ours are milliseconds and less than a megabyte; theirs about two seconds and
hundreds of megabytes, because each checkpoint holds all messages again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from benchmarks.measure import Row, bytes_kept, seconds
from conversation_state import Aggregator, AssistantMessage, UserMessage


def _ours(n: int) -> list[Any]:
    state, kept = Aggregator.new(), []
    for i in range(n):
        said = (
            UserMessage(f"question {i}") if i % 2 else AssistantMessage(f"answer {i}")
        )
        state = state.add(said)
        kept.append(state.checkpoint(str(i)))

    return kept


class State(TypedDict):
    """
    LangGraph's state of a conversation.
    """

    messages: Annotated[list[AnyMessage], add_messages]


def _theirs(n: int) -> Any:
    def step(state: State) -> dict[str, Any]:
        i = len(state["messages"])
        said = HumanMessage(f"question {i}") if i % 2 else AIMessage(f"answer {i}")
        return {"messages": [said]}

    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    saver = InMemorySaver()
    compiled = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(n):
        compiled.invoke({"messages": []}, config)

    assert n == len(compiled.get_state(config).values["messages"])
    return saver


def rows() -> Iterator[Row]:
    """
    Time and memory of 100 and of 1,000 steps.
    """
    beside = "LangGraph InMemorySaver"
    for n in (100, 1_000):
        ours = seconds(partial(_ours, n)) * 1e3
        theirs = seconds(partial(_theirs, n), least=1, for_s=0) * 1e3
        yield Row("steps with a checkpoint each", n, ours, beside, theirs, "ms")
        kept = bytes_kept(partial(_ours, n)) / 1e6
        held = bytes_kept(partial(_theirs, n)) / 1e6
        yield Row("memory they keep", n, kept, beside, held, "MB")
