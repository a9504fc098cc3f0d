"""Conversations out of files of frameworks, which these wrote themselves."""

import asyncio
import enum
import json
import operator
import sqlite3
import sys
import warnings
from contextlib import closing
from time import sleep
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.usage import Usage as AgentsUsage
from click.testing import CliRunner
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Overwrite

from conversation_state.adapters import langchain
from conversation_state.aggregator import Aggregator
from conversation_state.cli import _frameworks
from conversation_state.cli._commands import cli
from conversation_state.cli._input import InputConversation, UnreadableInput
from conversation_state.hosts import agents
from conversation_state.store import open_store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    community = pytest.importorskip("langchain_community.chat_message_histories.sql")

CONFIG: Any = {"configurable": {"thread_id": "trip"}}
USAGE: Any = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}


def read(source: str, *files: Any) -> list[Any]:
    paths = [str(file) for file in files]
    return [*_frameworks.read_files(source, paths, advance=lambda _size: None)]


def texts(tree: Any) -> list[str]:
    return [message.text for message in tree.present]


def paths(tree: Any) -> set[tuple[str, ...]]:
    """The texts on the way to each message."""
    found = [[message.text for message in state] for state in tree.states]
    return {tuple(way[:end]) for way in found for end in range(len(way) + 1)}


def change(file: Any, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(sql, values)
        db.commit()


# LangGraph


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    note: str


def merge(old: Any, writes: Any) -> Any:
    for each in writes:
        old = add_messages(old or [], each)

    return old


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(merge, snapshot_frequency=4)]


class Rare(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(merge, snapshot_frequency=1000)]


class Noted(Rare):
    note: str


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


class Color(enum.Enum):
    RED = "red"


class Shouted(AIMessage):
    """A message of a class of our own."""


def answer(state: Any) -> Any:
    asked = state["messages"][-1].content
    number = len(state["messages"])
    if asked == "forget":
        return {
            "messages": [RemoveMessage(id=each.id) for each in state["messages"][:2]]
        }

    if asked == "over":
        return {"messages": Overwrite([HumanMessage("new")])}

    if asked == "edit":
        first = state["messages"][0]
        return {"messages": [HumanMessage("edited", id=first.id), AIMessage("Done.")]}

    if asked == "look":
        call: Any = {"name": "look_up", "args": {"q": number}, "id": f"call_{number}"}
        return {
            "messages": [
                AIMessage("", tool_calls=[call], usage_metadata=USAGE, id=f"r{number}"),
                ToolMessage("Found", tool_call_id=f"call_{number}", artifact=Color.RED),
                AIMessage(f"Seen {number}"),
            ]
        }

    return {
        "messages": [
            AIMessage(f"{number}: {asked}", usage_metadata=USAGE, id=f"r{number}")
        ]
    }


def graph_of(saver: Any, state: Any = Chat) -> Any:
    builder: Any = StateGraph(state)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def ask(graph: Any, text: str, config: Any = CONFIG) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, config)


def history_of(graph: Any) -> list[tuple[str, ...]]:
    """The texts of all states that LangGraph lists, the newest first."""
    return [
        tuple(message.content for message in each.values.get("messages", ()))
        for each in graph.get_state_history(CONFIG)
    ]


class TestLangGraph:
    """Files of `SqliteSaver`."""

    @pytest.mark.parametrize("state", [Chat, Delta, Rare, Plain])
    def test_branches(self, tmp_path, state):
        """
        Each list of messages that LangGraph lists for the thread is a way in the tree,
        and the newest is shown: forks, removed and edited messages, whole values and
        delta channels.
        """
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver, state)
            for text in ("one", "look", "two"):
                ask(graph, text)

            earlier = [*graph.get_state_history(CONFIG)][4].config
            ask(graph, "other", earlier)
            if state is not Plain:
                ask(graph, "edit")
                ask(graph, "forget")

            history = history_of(graph)

        (found,) = read("langgraph", file)

        assert "trip" == found.name
        assert history[0] == tuple(texts(found.tree))
        assert {each for each in history if each} <= paths(found.tree)
        assert any("other" in each for each in history)
        assert any(each[-1:] == ("7: two",) for each in history)

    def test_bill(self, tmp_path):
        """Each response is in the bill once, on whatever branches it is."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            for text in ("one", "look", "two"):
                ask(graph, text)

            ask(graph, "other", [*graph.get_state_history(CONFIG)][3].config)

        (found,) = read("langgraph", file)

        assert 4 * 11 == found.tree.total_usage.total_tokens
        assert 4 * 11 == found.tree.present.total_usage.total_tokens

    def test_messages(self, tmp_path):
        """Messages are LangChain's own, but for objects, which are their data."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            ask(graph, "look")
            saved = graph.get_state(CONFIG).values["messages"]

        (found,) = read("langgraph", file)
        messages = found.tree.present.messages
        for message in saved:
            if isinstance(message, ToolMessage):
                message.artifact = "red"

        assert langchain.load(saved) == tuple(messages)

    def test_class_of_others(self, tmp_path):
        """A message of a class of somebody's is read by what it says it is."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            config = graph_of(saver).update_state(
                CONFIG, {"messages": [HumanMessage("Hi!"), Shouted(content="HELLO!")]}
            )
            assert config

        (found,) = read("langgraph", file)

        assert ["Hi!", "HELLO!"] == texts(found.tree)
        assert "assistant" == found.tree.present[-1].role

    def test_subgraphs(self, tmp_path):
        """
        What a subgraph got and gave is in the thread once; a subgraph with a memory of
        its own is a conversation of its own.
        """
        inner: Any = StateGraph(Chat)
        inner.add_node("answer", answer).add_edge(START, "answer")
        own: Any = StateGraph(Chat)
        own.add_node("answer", answer).add_edge(START, "answer")
        remembering = own.compile(checkpointer=True)

        def consult(_state: Any) -> Any:
            remembering.invoke({"messages": [HumanMessage("aside")]})
            return {}

        builder: Any = StateGraph(Chat)
        builder.add_node("inner", inner.compile()).add_node("consult", consult)
        builder.add_edge(START, "inner").add_edge("inner", "consult")
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = builder.compile(checkpointer=saver)
            ask(graph, "one")
            ask(graph, "two")

        whole, aside = read("langgraph", file)

        assert ["one", "1: one", "two", "3: two"] == texts(whole.tree)
        assert "trip/consult" == aside.name
        assert ["aside", "1: aside", "aside", "3: aside"] == texts(aside.tree)

    @pytest.mark.parametrize(
        "write",
        [
            [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("new")],
            Overwrite([HumanMessage("new")]),
        ],
    )
    def test_everything_removed(self, tmp_path, write):
        """A delta channel without a whole value that was emptied begins anew."""

        def begin_anew(state: Any) -> Any:
            last = state["messages"][-1].content
            return {"messages": write if last == "forget" else [AIMessage("Yes.")]}

        builder: Any = StateGraph(Rare)
        builder.add_node("answer", begin_anew).add_edge(START, "answer")
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = builder.compile(checkpointer=saver)
            for text in ("one", "forget", "two"):
                ask(graph, text)

            history = history_of(graph)

        (found,) = read("langgraph", file)

        assert ["new", "two", "Yes."] == texts(found.tree)
        assert history[0] == tuple(texts(found.tree))
        assert ("one", "Yes.", "forget") in paths(found.tree)

    @pytest.mark.parametrize("text", ["one", "over"])
    @pytest.mark.parametrize("state", [Chat, Noted])
    def test_unfinished_step(self, tmp_path, state, text):
        """
        What a task wrote in a step that failed is shown as long as LangGraph shows it.
        """

        def fail(_state: Any) -> Any:
            while not is_written():  # else LangGraph may end before it writes
                sleep(0.001)

            raise ConnectionError("no answer")

        def is_written() -> bool:
            found = saver.get_tuple(CONFIG)
            if not found or found.metadata.get("step") != 0:
                return False  # what was asked is written, and not what answers

            writes = found.pending_writes or ()
            return any(channel == "messages" for _, channel, _ in writes)

        builder: Any = StateGraph(state)
        builder.add_node("answer", answer).add_node("fail", fail)
        builder.add_edge(START, "answer").add_edge(START, "fail")
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = builder.compile(checkpointer=saver)
            with pytest.raises(ConnectionError):
                ask(graph, text)

            shown = [graph.get_state(CONFIG).values["messages"]]
            found = read("langgraph", file)
            graph.update_state(CONFIG, {"note": "x"}, as_node="fail")
            shown.append(graph.get_state(CONFIG).values["messages"])
            found += read("langgraph", file)

        assert shown[0] != shown[1]
        assert [[each.content for each in said] for said in shown] == [
            texts(each.tree) for each in found
        ]

    def test_nothing_but_a_question(self, tmp_path):
        """A thread whose first step failed has what was asked."""
        builder: Any = StateGraph(Chat)
        builder.add_node("fail", lambda _: 1 / 0).add_edge(START, "fail")
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = builder.compile(checkpointer=saver)
            with pytest.raises(ZeroDivisionError):
                ask(graph, "one")

        change(
            file,
            "DELETE FROM checkpoints WHERE parent_checkpoint_id IS NOT NULL",
        )

        (found,) = read("langgraph", file)

        assert ["one"] == texts(found.tree)

    def test_one_id_twice(self, tmp_path):
        """A message that a list has twice stands there twice."""
        file = tmp_path / "threads.db"
        again = HumanMessage("Hi!", id="1")
        with SqliteSaver.from_conn_string(str(file)) as saver:
            said = {"messages": [again, again, AIMessage("Yes?", id="2"), again]}
            graph_of(saver, Plain).update_state(CONFIG, said)

        (found,) = read("langgraph", file)

        assert ["Hi!", "Hi!", "Yes?", "Hi!"] == texts(found.tree)
        assert 4 == len({entry.id for entry in found.tree.present.entries})

    def test_left_out(self, tmp_path):
        """Values that are no messages are named."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            graph.invoke({"messages": [HumanMessage("Hi!")], "note": "x"}, CONFIG)

        (found,) = read("langgraph", file)

        assert ("channels without messages are left out: 'note'",) == found.mended

    def test_several_threads(self, tmp_path):
        """Each thread is a conversation, and messages as dictionaries are read, too."""
        file = tmp_path / "threads.db"

        class Loose(TypedDict):
            chat: Annotated[list[Any], operator.add]

        builder: Any = StateGraph(Loose)
        builder.add_node(
            "answer", lambda _: {"chat": [{"role": "assistant", "content": "A"}]}
        )
        builder.add_edge(START, "answer")
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = builder.compile(checkpointer=saver)
            for thread in ("b", "a"):
                config: Any = {"configurable": {"thread_id": thread}}
                graph.invoke({"chat": [{"role": "user", "content": thread}]}, config)

        found = read("langgraph", file)

        assert [("a", ["a", "A"]), ("b", ["b", "A"])] == [
            (each.name, texts(each.tree)) for each in found
        ]

    def test_damaged(self, tmp_path):
        """
        A checkpoint that can't be read is named, and the others are there; the newest
        is made of what was written behind the one before.
        """
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            for text in ("one", "two"):
                ask(graph, text)

            newest, *_ = graph.get_state_history(CONFIG)

        id = newest.config["configurable"]["checkpoint_id"]
        for data in (b"\xc1", b"", ormsgpack.packb({"channel_values": 7}), None):
            change(
                file,
                "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?",
                data,
                id,
            )

            found, damage = read("langgraph", file)

            assert ["one", "1: one", "two", "3: two"] == texts(found.tree)
            assert f"'trip': checkpoint {id} is left out: " in damage.reason

    def test_list_as_key(self, tmp_path):
        """A list as a key, which msgpack has, harms no message."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            ask(graph_of(saver), "one")

        key, inside = b"\xb1additional_kwargs", b"\x90\x01"
        fields = {"content": "Hi!", "type": "human", "additional_kwargs": {}}
        packed = ormsgpack.packb(("module", "HumanMessage", fields, ""))
        packed = packed.replace(key + b"\x80", key + b"\x81" + inside)
        values = {"messages": [ormsgpack.Ext(5, packed)]}
        whole = ormsgpack.packb({"channel_values": values, "channel_versions": {}})
        change(file, "UPDATE checkpoints SET checkpoint = ?", whole)
        change(file, "DELETE FROM writes")

        (found,) = read("langgraph", file)

        assert ["Hi!"] == texts(found.tree)

    @pytest.mark.parametrize(
        ("kind", "words"),
        [
            ("pickle", "of the kind 'pickle', which only code could read"),
            ("msgpack+aes", "encrypted ('msgpack+aes')"),
            (None, "of the kind None"),
        ],
    )
    def test_kinds_that_are_not_read(self, tmp_path, kind, words):
        """Pickles, and what is encrypted, are refused in words, and nothing is run."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            ask(graph_of(saver), "one")

        # What a pickle that calls `os.mkdir` would do.
        made = tmp_path / "made"
        data = b"cos\nmkdir\n(V" + str(made).encode() + b"\ntR."
        change(file, "UPDATE checkpoints SET type = ?, checkpoint = ?", kind, data)

        found = read("langgraph", file)

        assert 3 == len(found)
        assert all(isinstance(each, UnreadableInput) for each in found)
        assert all(words in each.reason for each in found)
        assert not made.exists()

    @pytest.mark.parametrize("code", range(6))
    def test_no_code_is_run(self, tmp_path, code):
        """Nothing that a file names is imported or called, wherever it stands."""
        made, module = tmp_path / "made", "conversation_state_never_imported"
        (tmp_path / f"{module}.py").write_text(f"import os; os.mkdir({str(made)!r})")
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            ask(graph_of(saver), "one")

        def packed(name: str, data: Any) -> Any:
            whole = (module, name, data, "mkdir")
            return ormsgpack.Ext(code, ormsgpack.packb(whole))

        fields = {"content": "Hi!", "type": "human", "additional_kwargs": {"x": 1}}
        evil = ormsgpack.packb(("os", "mkdir", str(made), "mkdir"))
        message = (module, "Evil", {**fields, "name": "ann"}, "model_validate")
        values = {
            "messages": [ormsgpack.Ext(5, ormsgpack.packb(message))],
            "more": packed("Evil", "x"),
            "evil": ormsgpack.Ext(code, evil),
        }
        whole = {"v": 4, "id": "1", "channel_values": values, "channel_versions": {}}
        data = ormsgpack.packb(whole, option=ormsgpack.OPT_NON_STR_KEYS)
        change(file, "UPDATE checkpoints SET checkpoint = ?", data)
        sys.path.insert(0, str(tmp_path))
        try:
            (found,) = read("langgraph", file)
        finally:
            sys.path.remove(str(tmp_path))

        assert ["Hi!"] == texts(found.tree)
        assert not made.exists()
        assert module not in sys.modules

    def test_json_of_older_releases(self, tmp_path):
        """Checkpoints of the serializer before msgpack are read."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            ask(graph_of(saver), "one")

        def old(name: str, **fields: Any) -> Any:
            path = ["langchain", "schema", "messages", name]
            return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}

        messages = [
            old("HumanMessage", content="Hi!", id="1"),
            old("AIMessage", content="Hello.", id="2", usage_metadata=USAGE),
        ]
        whole = {"v": 1, "id": "1", "channel_values": {"messages": messages}}
        change(
            file,
            "UPDATE checkpoints SET type = 'json', checkpoint = ?",
            json.dumps(whole),
        )

        (found,) = read("langgraph", file)

        assert ["Hi!", "Hello."] == texts(found.tree)
        assert 11 == found.tree.total_usage.total_tokens

    def test_rings(self, tmp_path):
        """Checkpoints that are their own ancestors end, with all messages."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            for text in ("one", "two"):
                ask(graph, text)

            history = history_of(graph)

        newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
        change(
            file,
            f"UPDATE checkpoints SET parent_checkpoint_id = {newest} "
            "WHERE parent_checkpoint_id IS NULL",
        )

        (found,) = read("langgraph", file)

        assert history[0] == tuple(texts(found.tree))


# The Agents SDK


def items_of(number: int) -> list[Any]:
    call = f"call_{number}"
    return [
        {"role": "user", "content": f"Question {number}"},
        {
            "type": "function_call",
            "name": "look_up",
            "arguments": "{}",
            "call_id": call,
            "id": f"fc_{number}",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": call, "output": f"Found {number}"},
        {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{number}",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": f"Answer {number}", "annotations": []}
            ],
        },
    ]


def add(session: Any, *batches: list[Any]) -> None:
    async def use() -> None:
        for batch in batches:
            await session.add_items(batch)

    asyncio.run(use())


class TestAgents:
    """Files of the Agents SDK's sessions."""

    @pytest.mark.parametrize("tables", [(), ("talks", "items")])
    def test_sessions(self, tmp_path, tables):
        """Each session has the items that the SDK has, whatever tables are called."""
        file = tmp_path / "sessions.db"
        expected = {}
        for name in ("ann", "bob", ""):
            session = SQLiteSession(name, file, *tables)
            add(session, items_of(1), items_of(2))
            expected[name] = asyncio.run(session.get_items())
            session.close()

        found = {each.name: each for each in read("openai-agents", file)}

        assert expected == {
            name: agents.dump(each.tree.present.messages).payload
            for name, each in found.items()
        }
        assert all(not each.mended for each in found.values())

    def test_branches_and_bill(self, tmp_path):
        """
        Of an advanced session each branch is there, the one that was written to last is
        shown, and each turn is billed once.
        """
        file = tmp_path / "sessions.db"
        session = AdvancedSQLiteSession(
            session_id="ann", db_path=file, create_tables=True
        )
        branches = {}

        async def use() -> None:
            async def turn(number: int) -> None:
                await session.add_items(items_of(number))
                usage = AgentsUsage(
                    requests=2, input_tokens=100 * number, output_tokens=number
                )
                usage.total_tokens = 101 * number
                usage.input_tokens_details.cached_tokens = 7
                context: Any = SimpleNamespace(usage=usage)
                result: Any = SimpleNamespace(context_wrapper=context)
                await session.store_run_usage(result)

            for number in (1, 2, 3):
                await turn(number)

            await session.create_branch_from_turn(2, "other")
            await turn(4)
            await turn(3)
            for name in ("main", "other"):
                branches[name] = await session.get_items(branch_id=name)

        asyncio.run(use())
        session.close()

        (found,) = read("openai-agents", file)
        dumped = [
            agents.dump(state.messages).payload
            for state in (found.tree.path(leaf) for leaf in found.tree.leaves)
        ]

        assert branches["other"] == agents.dump(found.tree.present.messages).payload
        assert 2 == len(dumped)
        assert branches["main"] in dumped
        assert 101 * 13 == found.tree.total_usage.total_tokens
        assert 35 == found.tree.total_usage.prompt_tokens_details.cached_tokens

        # What was said in both of them behind other messages is another entry.
        nodes = found.tree.nodes
        assert len(nodes) == len({node.entry.id for node in nodes})

        # Back to the first branch.
        first = AdvancedSQLiteSession(session_id="ann", db_path=file)
        add(first, items_of(5))
        first.close()
        (found,) = read("openai-agents", file)

        assert "Answer 5" == found.tree.present[-1].text

    def test_damaged(self, tmp_path):
        """A row that is not JSON is named, and what is around it is there."""
        file = tmp_path / "sessions.db"
        session = SQLiteSession("ann", file)
        add(session, items_of(1), items_of(2))
        session.close()
        for data in ("{", "[]", b"\xff\xfe", None):
            sql = "UPDATE agent_messages SET message_data = ? WHERE id = 1"
            change(file, sql, data or "null")

            found, damage = read("openai-agents", file)

            assert ["", "Found 1", "Answer 1"] == texts(found.tree)[:3]
            assert "'ann': row 1 is left out: " in damage.reason

    def test_encrypted(self, tmp_path):
        """Items that an EncryptedSession wrote are refused by name."""
        file = tmp_path / "sessions.db"
        session = SQLiteSession("ann", file)
        secret = {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAAAB"}
        add(session, [secret] * 4)
        session.close()

        found = read("openai-agents", file)

        assert 4 == len(found)
        assert all("encrypted, by an EncryptedSession" in each.reason for each in found)


# LangChain


class TestLangChain:
    """Files of `SQLChatMessageHistory`."""

    @pytest.mark.parametrize("table", ["message_store", 'my "chats"'])
    def test_sessions(self, tmp_path, table):
        """Each session has the messages that LangChain has."""
        file = tmp_path / "chats.db"
        call: Any = {"name": "f", "args": {"x": 1}, "id": "c1"}
        said: list[Any] = [
            SystemMessage("Be kind."),
            HumanMessage("Hi!", additional_kwargs={"a": 1}),
            AIMessage("", tool_calls=[call], usage_metadata=USAGE, id="r1"),
            ToolMessage("Found", tool_call_id="c1", name="f"),
            AIMessage(
                [{"type": "text", "text": "Found it."}], usage_metadata=USAGE, id="r2"
            ),
        ]
        expected = {}
        for name in ("ann", "bob"):
            history = community.SQLChatMessageHistory(
                name, table_name=table, connection=f"sqlite:///{file}"
            )
            history.add_messages(said if name == "ann" else said[:2])
            expected[name] = langchain.load(history.messages)
            history.engine.dispose()

        found = {each.name: each for each in read("langchain", file)}

        assert expected == {
            name: tuple(each.tree.present.messages) for name, each in found.items()
        }
        assert 22 == found["ann"].tree.total_usage.total_tokens

    def test_functions(self, tmp_path):
        """A call of a function, and its result, are those of a tool."""
        file = tmp_path / "chats.db"
        called = {"function_call": {"name": "f", "arguments": "{}"}}
        history = community.SQLChatMessageHistory("ann", connection=f"sqlite:///{file}")
        history.add_message(AIMessage("", additional_kwargs=called))
        history.add_message(FunctionMessage(content="r", name="f"))
        history.engine.dispose()

        [found] = read("langchain", file)
        call, result = found.tree.present

        assert (call.tool_calls[0].id, "r") == (result.tool_call_id, result.text)

    def test_damaged(self, tmp_path):
        """A row that is no message of LangChain's is named, and the rest is there."""
        file = tmp_path / "chats.db"
        history = community.SQLChatMessageHistory("ann", connection=f"sqlite:///{file}")
        history.add_messages([HumanMessage(text) for text in "abc"])
        history.engine.dispose()
        for data in (
            "{",
            "[]",
            '{"type": "human"}',
            '{"type": 7, "data": {}}',
            b"\xff",
        ):
            change(file, "UPDATE message_store SET message = ? WHERE id = 2", data)

            found, damage = read("langchain", file)

            assert ["a", "c"] == texts(found.tree)
            assert "'ann': row 2 is left out: " in damage.reason


# Any of them


def langgraph_file(folder: Any) -> Any:
    file = folder / "threads.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        ask(graph_of(saver), "one")

    return file


def agents_file(folder: Any) -> Any:
    file = folder / "sessions.db"
    session = SQLiteSession("trip", file)
    add(session, items_of(1))
    session.close()
    return file


def langchain_file(folder: Any) -> Any:
    file = folder / "chats.db"
    history = community.SQLChatMessageHistory("trip", connection=f"sqlite:///{file}")
    history.add_messages([HumanMessage("one"), AIMessage("1: one")])
    history.engine.dispose()
    return file


FILES: Any = {
    "langchain": langchain_file,
    "langgraph": langgraph_file,
    "openai-agents": agents_file,
}


class TestFiles:
    """Files as such."""

    @pytest.mark.parametrize("source", FILES)
    def test_opened_read_only(self, tmp_path, source):
        """Reading changes no byte of a file, and leaves nothing beside it."""
        file = FILES[source](tmp_path)
        before = file.read_bytes()

        assert 1 == len(read(source, file))
        assert before == file.read_bytes()
        assert [file] == [*tmp_path.iterdir()]

    def test_in_use(self, tmp_path):
        """What a program that has the file open wrote last is read, too."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            ask(graph_of(saver), "one")
            (found,) = read("langgraph", file)

        assert ["one", "1: one"] == texts(found.tree)

    def test_one_moment(self, tmp_path):
        """All is read as it was when the file was opened, whatever is written since."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            for thread in ("a", "b"):
                ask(graph, thread, {"configurable": {"thread_id": thread}})

            items = _frameworks.read_files(
                "langgraph", [str(file)], advance=lambda _: None
            )
            next(items)
            ask(graph, "later", {"configurable": {"thread_id": "b"}})
            (found,) = items

        assert isinstance(found, InputConversation)
        assert found.tree is not None
        assert ["b", "1: b"] == texts(found.tree)

    @pytest.mark.parametrize("source", FILES)
    def test_of_another_kind(self, tmp_path, source):
        """A file of another framework is refused in a sentence that names it."""
        for other in FILES:
            file = FILES[other](tmp_path)
            if other != source:
                (found,) = read(source, file)

                assert f"{file}: no file of {source}, but of {other}: " in str(found)
                assert f"give --from {other}" in str(found)

    @pytest.mark.parametrize("source", ["langchain", "langgraph", "openai-agents"])
    def test_own_store(self, tmp_path, source):
        """A store of this library is called one."""
        with open_store(tmp_path / "chats.db") as store:
            store.save("trip", Aggregator.new().add_user_prompt("Hi"))

        (found,) = read(source, tmp_path / "chats.db")

        assert "but a store of this library: read it with --store" in str(found)

    def test_of_no_kind(self, tmp_path):
        """So is any other file, with what was expected and what is there."""
        database, text, empty = (
            tmp_path / name for name in ("a.db", "a.json", "empty")
        )
        change(database, "CREATE TABLE runs (id INTEGER, message TEXT)")
        text.write_text("[]")
        empty.touch()

        found = read("langgraph", database, text, empty, tmp_path, tmp_path / "none")
        words = (
            "no file of langgraph; expected the table checkpoints of SqliteSaver, "
            "since langgraph 0.2, found 'runs'"
        )

        assert [
            f"{database}: {words}",
            f"{text}: not a SQLite file, in which this framework keeps its data",
            f"{empty}: not a SQLite file, in which this framework keeps its data",
            f"{tmp_path}: a folder; give its files: it has a.db, a.json, empty",
            f"{tmp_path / 'none'}: no such file; {tmp_path} has a.db, a.json, empty",
        ] == [str(each) for each in found]

    @pytest.mark.parametrize("source", FILES)
    def test_cut(self, tmp_path, source):
        """A file that is cut anywhere is an error, or what is whole of it."""
        data = FILES[source](tmp_path).read_bytes()
        cut = tmp_path / "cut.db"
        for size in range(0, len(data), len(data) // 9):
            cut.write_bytes(data[:size])

            assert read(source, cut)

    @pytest.mark.parametrize("source", FILES)
    def test_equal_files(self, tmp_path, source):
        """A file that is read again gives an equal tree, identities included."""
        file = FILES[source](tmp_path)
        (first,), (second,) = read(source, file), read(source, file)

        assert first.tree == second.tree
        assert first.tree.nodes == second.tree.nodes


class TestImport:
    """``conversation-state import --from``."""

    def run(self, folder: Any, *args: Any) -> Any:
        store = f"sqlite:///{folder}/store.db"
        words = ["import", "--store", store, "--json", *map(str, args)]
        return CliRunner().invoke(cli, words)

    @pytest.mark.parametrize("source", FILES)
    def test_saved(self, tmp_path, source):
        """The conversations are saved under their names, and once."""
        file = FILES[source](tmp_path)

        first = self.run(tmp_path, "--from", source, "--prefix", "old/", file)
        again = self.run(tmp_path, "--from", source, "--prefix", "old/", file)

        assert (0, 0) == (first.exit_code, again.exit_code)
        assert ["imported", "unchanged"] == [
            json.loads(each.stdout)["outcome"] for each in (first, again)
        ]
        (found,) = read(source, file)
        with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            assert ("old/trip",) == store.names()
            assert texts(found.tree) == [each.text for each in store.load("old/trip")]

    def test_grown(self, tmp_path):
        """A file that has grown brings what is new, its branches and its bill."""
        file = tmp_path / "threads.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            graph = graph_of(saver)
            ask(graph, "one")
            ask(graph, "two")
            first = self.run(tmp_path, "--from", "langgraph", file)
            ask(graph, "other", [*graph.get_state_history(CONFIG)][3].config)
            grown = self.run(tmp_path, "--from", "langgraph", file)

        assert (0, 0) == (first.exit_code, grown.exit_code)
        assert "extended" == json.loads(grown.stdout)["outcome"]
        with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            tree = store.message_tree("trip")
            assert ["one", "1: one", "other", "3: other"] == texts(tree)
            assert 6 == len(tree)
            assert 33 == store.load("trip").total_usage.total_tokens

    def test_grown_answer(self, tmp_path):
        """Items that go on with the last answer make it longer, without a conflict."""
        file = tmp_path / "sessions.db"
        session = SQLiteSession("trip", file)
        results = []
        for batch in (items_of(1)[:2], items_of(1)[2:], items_of(2)):
            add(session, batch)
            results.append(self.run(tmp_path, "--from", "openai-agents", file))

        expected = asyncio.run(session.get_items())
        session.close()

        assert [0, 0, 0] == [each.exit_code for each in results]
        with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            assert expected == agents.dump(store.load("trip").messages).payload

    def test_refused(self, tmp_path):
        """What can't be read is reported, with status 2, and the rest is saved."""
        file = agents_file(tmp_path)
        other = tmp_path / "other.json"
        other.write_text("{}")

        result = self.run(tmp_path, "--from", "openai-agents", other, "-", file)

        assert 2 == result.exit_code
        assert f"{other}: not a SQLite file" in result.stderr
        assert "expected a file" in result.stderr
        assert "imported" == json.loads(result.stdout)["outcome"]

    def test_both_options(self, tmp_path):
        """A format beside a framework is wrong usage."""
        result = self.run(tmp_path, "--from", "langgraph", "--format", "langchain", "x")

        assert 2 == result.exit_code
        assert "--from and --format: expected one of them" in result.stderr

    def test_help(self):
        """The help lists the frameworks that are read."""
        result = CliRunner().invoke(cli, ["import", "--help"])

        assert all(source in result.stdout for source in _frameworks.SOURCES)
