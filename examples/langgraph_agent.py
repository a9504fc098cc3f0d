"""
An agent in LangGraph whose thread is kept in a file of ours: it survives being
closed, goes back in time, stays small, and leaves for another provider.

    python examples/langgraph_agent.py [FILE]

The model is scripted: no network, no key.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from conversation_state import open_store
from conversation_state.adapters import anthropic
from conversation_state.hosts.langgraph import ConversationStateSaver

TRAINS = {"Bern": "9:02", "Basel": "9:31"}


class State(TypedDict):
    """The usual state of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]


def model(state: State) -> dict[str, Any]:
    """Asks for the timetable when a town is named, and answers with what it says."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"The next train goes at {last.content}.")]}

    town = next((town for town in TRAINS if town in str(last.content)), None)
    if town is None:
        return {"messages": [AIMessage("Where to?")]}

    call = {"name": "timetable", "args": {"to": town}, "id": f"call_{town}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def tools(state: State) -> dict[str, Any]:
    """Looks into the timetable."""
    (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]  # a call is last
    found = TRAINS[call["args"]["to"]]
    return {"messages": [ToolMessage(found, tool_call_id=call["id"])]}


def agent(saver: ConversationStateSaver) -> Any:
    """The graph: the model, and tools until it asks for none."""
    builder: Any = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model",
        lambda state: "tools" if state["messages"][-1].tool_calls else "__end__",
    )
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


def print_line(what: str, text: str) -> None:
    """A line of what is to be seen."""
    sys.stdout.write(f"{what + ':':<14} {text}\n")


def main(arguments: Sequence[str]) -> None:
    """
    A conversation, closed and opened again, forked, and shown as another provider's.
    """
    with TemporaryDirectory() as folder:
        path = Path(arguments[0] if arguments else f"{folder}/threads.db")
        thread: Any = {"configurable": {"thread_id": "ann"}}
        with ConversationStateSaver.from_url(f"sqlite:///{path}") as saver:
            agent(saver).invoke({"messages": [HumanMessage("Hello.")]}, thread)

        with open_store(f"sqlite:///{path}") as store:
            saver = ConversationStateSaver(store)
            graph = agent(saver)
            asked = graph.get_state(thread).config
            graph.invoke({"messages": [HumanMessage("To Bern.")]}, thread)
            print_line("opened again", store.load(saver.name("ann"))[-1].text)

            graph.invoke({"messages": [HumanMessage("No, to Basel.")]}, asked)
            chat = store.load(saver.name("ann"))
            print_line("back in time", " / ".join(m.text for m in chat if m.text))

            saver.copy_thread("ann", "bob")
            for _ in range(50):
                graph.invoke({"messages": [HumanMessage("To Bern, please.")]}, thread)

            characters = sum(
                len(message.text) for message in store.load(saver.name("ann"))
            )
            count = len(list(graph.get_state_history(thread)))
            print_line("a long conversation", f"{count} checkpoints, each restorable")

            left = anthropic.dump(store.load(saver.name("bob")))
            last = left.payload["messages"][-2]["content"][0]
            print_line("for Anthropic", json.dumps(last))
            print_line("damaged", str(store.verify() or "nothing"))

        kilobytes = path.stat().st_size // 1000
        print_line(
            "the file", f"{kilobytes} kB for {characters} characters and their past"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
