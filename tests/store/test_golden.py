"""
A store's file that a release wrote is read by every later one, with what hosts keep.

`python -m tests.store.test_golden 0.1.0` writes the file of a release, and what is in
it. Until that release a change of the tables writes it anew; from then on it is never
changed, and a change of the tables is a step of `STEPS`.
"""
# ruff: noqa: PLC0415 - hosts are imported only where they are installed

import asyncio
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator, Timeline, Usage, decode, encode, open_store
from conversation_state.tree import MessageTree

GOLDEN = Path(__file__).parents[1] / "golden" / "stores"
RELEASES = sorted(path.name.removesuffix(".json") for path in GOLDEN.glob("*.json"))
# Longer than what a row holds itself.
LONG = "When is the train to Bern? " * 160
ITEMS: Any = [
    {"role": "user", "content": "When is the train?"},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "12:30"},
]
CLAUDE: Any = {"project_key": "app", "session_id": "s1"}
LINE: Any = {
    "type": "user",
    "uuid": "u1",
    "parentUuid": None,
    "sessionId": "s1",
    "message": {"role": "user", "content": "Fix the parser."},
}
THREAD: Any = {"configurable": {"thread_id": "ann"}}


@pytest.fixture(params=RELEASES)
def golden(request, tmp_path):
    """A store on a copy of a release's file, and what that release had in it."""
    path = tmp_path / "golden.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{request.param}.db.gz").read_bytes()))
    there = json.loads((GOLDEN / f"{request.param}.json").read_text("utf-8"))
    with open_store(path) as store:
        yield store, there


class TestStates:
    def test_revisions(self, golden):
        """Every revision of every name is there, with its labels and notes."""
        store, there = golden

        assert there["revisions"] == describe_revisions(store)
        assert () == store.verify()

    def test_timeline_and_tree(self, golden):
        """A timeline has its moments, and a tree its siblings."""
        store, there = golden

        assert decode(there["timeline"]) == store.load_timeline("draft")
        assert decode(there["tree"]) == store.message_tree("chat")

    def test_goes_on(self, golden):
        """A name of an older file is continued, and what was there stays."""
        store, _ = golden
        before = store.history("trip")
        store.update("trip", lambda state: state.add_user_prompt("And tomorrow?"))

        assert list(before) == list(store.history("trip"))[1:]
        assert () == store.verify()


class TestHosts:
    def test_agents(self, golden):
        """A session of the Agents SDK has its items."""
        pytest.importorskip("agents")
        from conversation_state.hosts.agents import StoreSession

        session = StoreSession(golden[0], "alice")

        assert ITEMS == asyncio.run(session.get_items())

    def test_pydantic_ai(self, golden):
        """A conversation of Pydantic AI has its messages and usage."""
        pytest.importorskip("pydantic_ai")
        from conversation_state.hosts.pydantic_ai import StoreBackend

        loaded = asyncio.run(StoreBackend(golden[0]).load("travel"))

        assert golden[1]["pydantic_ai"] == describe_pydantic_ai(loaded)

    def test_claude(self, golden):
        """A session of the Claude Agent SDK has its entries."""
        pytest.importorskip("claude_agent_sdk")
        from conversation_state.hosts.claude_agent import ClaudeSessionStore

        assert [LINE] == asyncio.run(ClaudeSessionStore(golden[0]).load(CLAUDE))

    def test_langgraph(self, golden):
        """A thread of LangGraph has all its checkpoints."""
        pytest.importorskip("langgraph")
        from conversation_state.hosts.langgraph import ConversationStateSaver

        graph = make_graph(ConversationStateSaver(golden[0]))

        assert golden[1]["langgraph"] == describe_thread(graph)


def describe_revisions(store):
    return {
        name: [
            {
                "revision": head.revision,
                "labels": sorted(head.labels),
                "notes": dict(head.notes),
                "state": encode(store.load(name, at=head)).decode(),
            }
            for head in store.history(name)
        ]
        for name in store.names()
    }


def describe_pydantic_ai(conversation):
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    return {
        "messages": ModelMessagesTypeAdapter.dump_python(
            conversation.messages, mode="json"
        ),
        "tokens": conversation.usage.total_tokens,
    }


def make_graph(saver):
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    usage = {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}
    answer = {"messages": [AIMessage("At noon.", usage_metadata=usage, id="run-1")]}
    builder = StateGraph(MessagesState).add_node("answer", lambda state: answer)
    return builder.add_edge(START, "answer").compile(checkpointer=saver)


def describe_thread(graph):
    return [
        [
            snapshot.config["configurable"]["checkpoint_id"],
            [message.content for message in snapshot.values.get("messages", ())],
        ]
        for snapshot in graph.get_state_history(THREAD)
    ]


def write_states(store):
    """What the library itself keeps in a store."""
    trip = Aggregator.new().add_user_prompt("To Bern?").add_usage(Usage(20, 5))
    store.save("trip", trip, label="asked", notes={"title": "A trip"})
    trip = trip.add_assistant_message(LONG).add_usage(Usage(7, 1), key="k", model="m")
    store.save("trip", trip)
    store.fork("trip", "trip, again", at="asked")
    store.rollback("trip, again", 1)
    store.step("report", "plan", lambda state: state.add_user_prompt("Plan."))
    wrong = store.update("trip", lambda state: state.add_user_prompt("hunter2"))
    store.erase(wrong.entries[-1].id, reason="a password")

    draft = Timeline.begin(Aggregator.new()).commit(trip, label="one").undo()
    store.save_timeline("draft", draft.commit(trip.add_user_prompt("Or by bus?")))
    asked = Aggregator.new().add_user_prompt("Where to?")
    tree = MessageTree.of(asked.add_assistant_message("To the sea."))
    store.save_tree("chat", tree.add(asked.add_assistant_message("To the hills.")))
    store.save("gone", trip)
    store.delete("gone")


async def write_hosts(store):
    """What each host keeps there; a description of what can't be compared."""
    from langchain_core.messages import HumanMessage
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.models.test import TestModel

    from conversation_state.hosts.agents import StoreSession
    from conversation_state.hosts.claude_agent import ClaudeSessionStore
    from conversation_state.hosts.langgraph import ConversationStateSaver
    from conversation_state.hosts.pydantic_ai import StoreBackend

    await StoreSession(store, "alice").add_items(ITEMS)
    await ClaudeSessionStore(store).append(CLAUDE, [LINE])
    backend = StoreBackend(store)
    agent = Agent(TestModel(custom_output_text="At noon."), instructions="Be brief.")
    conversation = Conversation(conversation_id="travel")
    await backend.save(await agent.run("When?", conversation=conversation))
    graph = make_graph(ConversationStateSaver(store))
    for question in "When?", "And back?":
        await graph.ainvoke({"messages": [HumanMessage(question)]}, THREAD)

    described = describe_pydantic_ai(await backend.load("travel"))
    return {"pydantic_ai": described, "langgraph": describe_thread(graph)}


def write(release):
    """The file of this *release*, and what is in it."""
    path = GOLDEN / f"{release}.db"
    with open_store(path) as store:
        write_states(store)
        there = asyncio.run(write_hosts(store))
        there["revisions"] = describe_revisions(store)
        there["timeline"] = encode(store.load_timeline("draft")).decode()
        there["tree"] = encode(store.message_tree("chat")).decode()

    packed = gzip.compress(path.read_bytes(), mtime=0)
    path.with_name(f"{release}.db.gz").write_bytes(packed)
    path.unlink()
    text = json.dumps(there, ensure_ascii=False, indent=1)
    (GOLDEN / f"{release}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
