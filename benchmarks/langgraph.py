"""
Steps with a checkpoint each, beside LangGraph's `add_messages` with its
`InMemorySaver`.

Each of its checkpoints holds all messages again, so four times the steps take
sixteen times its memory: it is measured up to 400 steps, and ours alone beyond.
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


def _make_checkpoints(n: int) -> list[Any]:
    state, kept = Aggregator.new(), []
    for i in range(n):
        message = (
            UserMessage(f"question {i}") if i % 2 else AssistantMessage(f"answer {i}")
        )
        state = state.add(message)
        kept.append(state.checkpoint(str(i)))

    return kept


class State(TypedDict):
    """LangGraph's state of a conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


def _run_langgraph(n: int) -> Any:
    def step(state: State) -> dict[str, Any]:
        i = len(state["messages"])
        message = HumanMessage(f"question {i}") if i % 2 else AIMessage(f"answer {i}")
        return {"messages": [message]}

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
    """Time and memory of 100 and of 400 steps beside the peer, and of 1,000 of ours."""
    beside = "LangGraph InMemorySaver"
    for n in (100, 400):
        took, kept = _measure_ours(n)
        theirs = seconds(partial(_run_langgraph, n), least=1, for_s=0) * 1e3
        yield Row("steps with a checkpoint each", n, took, beside, theirs, "ms")
        held = bytes_kept(partial(_run_langgraph, n)) / 1e6
        yield Row("memory they keep", n, kept, beside, held, "MB")

    took, kept = _measure_ours(1_000)
    yield Row("steps with a checkpoint each, without peer", 1_000, took, unit="ms")
    yield Row("memory they keep, without peer", 1_000, kept, unit="MB")


def _measure_ours(n: int) -> tuple[float, float]:
    """The milliseconds that *n* steps take, and the megabytes that they keep."""
    took = seconds(partial(_make_checkpoints, n)) * 1e3
    return took, bytes_kept(partial(_make_checkpoints, n)) / 1e6
