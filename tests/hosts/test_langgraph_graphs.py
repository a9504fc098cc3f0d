"""
Real graphs run on our stores: turns, interrupts, time travel, graphs in
graphs, in each durability, sync and async.
"""

import asyncio
import json
import pickle
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from conversation_state.hosts.langgraph import ConversationStateSaver
from tests.hosts.langgraph import (
    CONFIG,
    KINDS,
    ChatState,
    echo,
    graph_of,
    opened,
    rows_of,
    run_turn,
    saver_of,
    texts_of,
)


class TestTurns:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_goes_on(self, stores, durability):
        """
        A thread goes on where it was, also in a store that is opened again; its
        messages are under its name.
        """
        store, again = stores
        first = run_turn(graph_of(saver_of(store)), "a", durability=durability)
        other = again()
        saver = saver_of(other)

        second = run_turn(graph_of(saver), "b", durability=durability)

        assert ["a", "1: a"] == first
        assert ["a", "1: a", "b", "3: b"] == second == texts_of(other, saver.name("1"))
        assert ("langgraph/1/messages",) == other.names()
        assert () == other.verify()

    def test_same_as_in_memory(self, store):
        """
        What LangGraph's own checkpointer gives is what ours gives, but for ids
        and times: values, what is next, metadata, writes.
        """

        def history(saver):
            graph = graph_of(saver)
            run_turn(graph, "a")
            run_turn(graph, "b")
            return [
                (
                    [(type(m), m.content) for m in each.values.get("messages", ())],
                    each.next,
                    each.metadata,
                    [(t.name, t.error, t.interrupts) for t in each.tasks],
                    each.parent_config is None,
                )
                for each in graph.get_state_history(CONFIG)
            ]

        assert history(InMemorySaver()) == history(saver_of(store))


class TestConfigs:
    def test_names_of_langgraph(self):
        """What LangGraph's own checkpointers are made with names what to write."""
        saver: Any = ConversationStateSaver

        with pytest.raises(AttributeError, match=r"from_url\(url\) opens a store"):
            saver.from_conn_string("threads.db")

    def test_as_langgraph(self, store):
        """
        The newest checkpoint is the first one of the history, config and all,
        and its config holds what LangGraph's own checkpointer puts there.
        """
        configs = []
        for saver in (saver_of(store), InMemorySaver()):
            graph = graph_of(saver)
            run_turn(graph, "a")
            newest = graph.get_state(CONFIG)
            configs.append(newest.config["configurable"])

            assert newest == next(graph.get_state_history(CONFIG))
            assert newest == graph.get_state(newest.config)

        ours, theirs = configs

        assert [*theirs] == [*ours]
        assert theirs["thread_id"] == ours["thread_id"]

    def test_texts(self, store):
        """
        A thread's id decides as a plain text what it equals: a subclass of `str` is
        asked, as LangGraph's own tests have one.
        """

        class AnyText(str):
            __slots__ = ()

            def __eq__(self, other):
                return isinstance(other, str)

            __hash__ = str.__hash__

        saver = saver_of(store)
        run_turn(graph_of(saver), "a")
        thread = saver.get_tuple(CONFIG).config["configurable"]["thread_id"]

        assert AnyText() == thread
        assert thread == AnyText()
        assert {thread} == {str(thread)}
        assert thread != thread.encode()

    def test_copied(self, store):
        """A config outside of a run is plain data: it pickles, and is JSON."""
        saver = saver_of(store)
        run_turn(graph_of(saver), "a")
        config = saver.get_tuple(CONFIG).config
        copy = pickle.loads(pickle.dumps(config))

        assert config == copy == json.loads(json.dumps(config)) == deepcopy(config)
        assert {str} == {type(value) for value in copy["configurable"].values()}


@dataclass
class Plan:
    """A class of the caller's, as a value of a channel."""

    goal: str


class TestAllowedTypes:
    def test_listed(self, store):
        """
        LangGraph copies a saver for the types that a graph names: the copy restores
        them where it lists checkpoints, too.
        """
        strict = saver_of(store, serde=JsonPlusSerializer(allowed_msgpack_modules=[]))
        saver = strict.with_allowlist([(Plan.__module__, Plan.__name__)])
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"p": Plan("walk")}}
        config = saver.put(
            {"configurable": {"thread_id": "1", "checkpoint_ns": ""}},
            *(checkpoint, {}, {"p": 1}),
        )

        async def alist():
            return [each async for each in saver.alist(CONFIG)]

        for found in ([*saver.list(CONFIG)], asyncio.run(alist())):
            assert [saver.get_tuple(config)] == found
            assert Plan("walk") == found[0].checkpoint["channel_values"]["p"]

        assert Plan("walk") != strict.get(config)["channel_values"]["p"]


class TestInterrupts:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_resumes(self, stores, durability):
        """A graph that asked is answered after the store was opened again."""
        store, again = stores

        def ask(state):
            answer = interrupt({"question": "really?"})
            return {
                "messages": [AIMessage(f"{answer}: {state['messages'][-1].content}")]
            }

        graph = graph_of(saver_of(store), ask)
        given = {"messages": [HumanMessage("a")]}
        stopped = graph.invoke(given, CONFIG, durability=durability)
        asked = graph.get_state(CONFIG)

        assert [{"question": "really?"}] == [i.value for i in stopped["__interrupt__"]]
        assert ("answer",) == asked.next
        assert "really?" == asked.tasks[0].interrupts[0].value["question"]

        graph = graph_of(saver_of(again()), ask)
        done = graph.invoke(Command(resume="yes"), CONFIG, durability=durability)

        assert ["a", "yes: a"] == [message.content for message in done["messages"]]
        assert () == graph.get_state(CONFIG).next


class TestTimeTravel:
    def test_fork(self, stores):
        """An older checkpoint is gone on from, and both ways stay restorable."""
        store, _ = stores
        saver = saver_of(store)
        graph = graph_of(saver)
        run_turn(graph, "a")
        early = graph.get_state(CONFIG).config
        run_turn(graph, "b")
        late = graph.get_state(CONFIG).config

        forked = run_turn(graph, "c", early)

        assert ["a", "1: a", "c", "3: c"] == forked == texts_of(store, saver.name("1"))
        for config, expected in ((early, 2), (late, 4)):
            assert expected == len(graph.get_state(config).values["messages"])

        assert [*"bc"] == [
            each.values["messages"][2].content
            for each in sorted(
                graph.get_state_history(CONFIG), key=lambda each: str(each.created_at)
            )
            if len(each.values.get("messages", ())) == 4
        ]
        assert () == store.verify()

    def test_update_state(self, stores):
        """
        A message that is changed by its id in an older checkpoint makes a
        branch; what was before it is shared, and the original stays.
        """
        store, _ = stores
        saver = saver_of(store)
        graph = graph_of(saver)
        for text in "ab":
            run_turn(graph, text)

        before = graph.get_state(CONFIG)
        entries = store.load(saver.name("1")).entries
        changed = before.values["messages"][2].model_copy(update={"content": "B"})
        config = graph.update_state(before.config, {"messages": [changed]})
        after = graph.get_state(config).values["messages"]
        new = store.load(saver.name("1")).entries

        assert ["a", "1: a", "B", "3: b"] == [message.content for message in after]
        assert changed == after[2]
        assert entries.common_prefix(new) == 2
        assert entries[3] == new[3]
        assert entries[2].id != new[2].id
        assert before.values == graph.get_state(before.config).values

    @pytest.mark.parametrize(
        ("update", "expected"),
        [
            (
                lambda m: [
                    RemoveMessage(id=REMOVE_ALL_MESSAGES),
                    HumanMessage("summary"),
                    *m[2:],
                ],
                ["summary", "b", "3: b"],
            ),
            (
                lambda m: [RemoveMessage(id=REMOVE_ALL_MESSAGES), *m[::-1]],
                ["3: b", "b", "1: a", "a"],
            ),
            (lambda _m: [RemoveMessage(id=REMOVE_ALL_MESSAGES)], []),
        ],
        ids=["summary", "reordered", "emptied"],
    )
    def test_changed_lists(self, store, update, expected):
        """
        Lists that are removed from, summarised, reordered and emptied are what
        they are, and the messages that stayed keep their identities.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        for text in "ab":
            run_turn(graph, text)

        before = store.load(saver.name("1"))
        messages = graph.get_state(CONFIG).values["messages"]
        graph.update_state(CONFIG, {"messages": update(messages)})
        after = store.load(saver.name("1"))
        ids = {entry.message.text: entry.id for entry in before.entries}

        assert expected == [
            message.content for message in graph.get_state(CONFIG).values["messages"]
        ]
        assert expected == [message.text for message in after]
        for entry in after.entries:
            assert entry.id == ids.get(entry.message.text, entry.id)

        assert expected == run_turn(graph, "c")[: len(expected)]


class TestCopies:
    def test_newest(self, stores):
        """
        A copy of the newest checkpoint has its newest values too, and shares
        their messages; so has a copy in a store that was opened again.
        """
        store, again = stores
        graph = graph_of(saver_of(store))
        run_turn(graph, "a")
        run_turn(graph, "b")
        before = rows_of(store)
        original = graph.get_state(CONFIG)
        copied = []
        for each in (store, again()):
            graph = graph_of(saver_of(each))
            newest = graph.get_state(CONFIG).config
            graph.update_state(newest, None, as_node="__copy__")
            copied.append(graph.get_state(CONFIG))

        assert ["a", "1: a", "b", "3: b"] == texts_of(store, "langgraph/1/messages")
        assert before["entries"] == rows_of(store)["entries"]
        for copy in copied:
            assert original.values == copy.values
            assert "fork" == copy.metadata["source"]

        assert copied[0].config != copied[1].config

    def test_other_channels(self, store):
        """The same for values that are not messages."""

        class Both(TypedDict):
            count: int
            text: str

        builder: Any = StateGraph(Both)
        builder.add_node("one", lambda state: {"count": state["count"] + 1})
        builder.add_node("two", lambda state: {"text": state["text"] + "x" * 100})
        builder.add_edge(START, "one")
        builder.add_edge("one", "two")
        graph = builder.compile(checkpointer=saver_of(store))
        graph.invoke({"count": 1, "text": "y"}, CONFIG)
        for original in list(graph.get_state_history(CONFIG)):
            graph.update_state(original.config, None, as_node="__copy__")

            assert original.values == graph.get_state(CONFIG).values


class TestGraphsInGraphs:
    def test_namespaces(self, store):
        """
        Graphs in graphs have checkpoints of their own, and share the messages that
        they were given, once the outer one is written, which only "sync" waits for.
        """
        inner: Any = StateGraph(ChatState)
        inner.add_node("deep", echo)
        inner.add_edge(START, "deep")
        outer: Any = StateGraph(ChatState)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        saver = saver_of(store)
        graph = outer.compile(checkpointer=saver)
        run_turn(graph, "a", durability="sync")
        before = len(store._cache.backend.tables["entries"].rows)
        run_turn(graph, "b", durability="sync")

        assert ["a", "1: a", "b", "3: b"] == texts_of(store, saver.name("1"))
        assert 3 >= len(store._cache.backend.tables["entries"].rows) - before
        inside = [name for name in store.names() if "inner" in name]
        assert 2 == len(inside)
        assert [2, 4] == sorted(len(store.load(name)) for name in inside)

    def test_kept_inside(self, store):
        """
        A graph with a history of its own goes on from it, and is replayed where
        the outer one is, as with LangGraph's own checkpointer.
        """
        inner: Any = StateGraph(ChatState)
        inner.add_node("deep", echo)
        inner.add_edge(START, "deep")
        compiled = inner.compile(checkpointer=True)

        def call(state):
            done = compiled.invoke({"messages": [state["messages"][-1]]})
            return {"messages": [AIMessage(f"inside {len(done['messages'])}")]}

        def run(saver):
            graph = graph_of(saver, call)
            first = run_turn(graph, "a")
            early = graph.get_state(CONFIG).config
            second = run_turn(graph, "b")
            older = list(graph.get_state_history(CONFIG))[4].config
            again = graph.invoke(None, older)["messages"]
            third = [run_turn(graph, "c", early), run_turn(graph, "d", older)]
            third.append([message.content for message in again])
            return [first, second, *third, run_turn(graph, "e")]

        assert run(InMemorySaver()) == run(saver_of(store))


def extend(old, new):
    return [*old, *(message for each in new for message in each)]


class Often(TypedDict):
    """A state with a delta channel that is kept whole now and then."""

    messages: Annotated[list[AnyMessage], DeltaChannel(extend, snapshot_frequency=3)]


class TestDelta:
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    def test_history(self, stores, durability):
        """
        LangGraph's delta channel is put together of what was written, with and
        without snapshots, forked, copied, and pruned.
        """
        store, again = stores
        builder: Any = StateGraph(Often)
        builder.add_node("answer", echo)
        builder.add_edge(START, "answer")
        graph = builder.compile(checkpointer=saver_of(store))
        for text in "abcd":
            run_turn(graph, text, durability=durability)

        all_said = run_turn(graph, "e", durability=durability)

        saver = ConversationStateSaver(again())
        graph = builder.compile(checkpointer=saver)
        history = list(graph.get_state_history(CONFIG))
        lengths = [len(each.values.get("messages", ())) for each in history]

        assert 10 == len(all_said)
        assert sorted(lengths, reverse=True) == lengths
        assert 10 == lengths[0]

        early = next(each for each in history if len(each.values["messages"]) == 4)
        forked = run_turn(graph, "f", early.config, durability=durability)

        assert ["a", "1: a", "b", "3: b", "f", "5: f"] == forked

        saver.copy_thread("1", "2")
        saver.prune(["1"])
        for thread in "12":
            config: Any = {"configurable": {"thread_id": thread}}
            values = graph.get_state(config).values

            assert forked == [message.content for message in values["messages"]]
            assert 8 == len(run_turn(graph, "g", config, durability=durability))

    def test_newest_snapshot(self, store):
        """
        A checkpoint in which a delta channel did not change since it was kept
        whole has its value, as with LangGraph's own checkpointer.
        """

        class Two(TypedDict):
            messages: Annotated[
                list[AnyMessage], DeltaChannel(extend, snapshot_frequency=1)
            ]
            count: int

        def last(saver):
            builder: Any = StateGraph(Two)
            builder.add_node("count", lambda _: {"count": 1})
            builder.add_edge(START, "count")
            graph = builder.compile(saver)
            graph.invoke({"messages": [HumanMessage("a", id="1")]}, CONFIG)
            for count in range(5):
                graph.update_state(CONFIG, {"count": count}, as_node="count")

            return saver.get_tuple(CONFIG).checkpoint["channel_values"]

        assert last(InMemorySaver()) == last(saver_of(store))
        assert "messages" in last(saver_of(store))


@pytest.mark.parametrize("kind", KINDS)
def test_conformance(kind, tmp_path):
    """
    In LangGraph's own suite for checkpointers every capability is there and passes, the
    optional ones as well; none of their tests is left out, and the store is whole after
    each.
    """
    damages: list[object] = []

    @checkpointer_test(name=f"ours on {kind}")
    async def ours():
        with opened(kind, tmp_path / str(len(damages))) as (store, _):
            yield ConversationStateSaver(store)
            damages.append(store.verify())

    for at in range(len(ALL_CAPABILITIES)):
        (tmp_path / str(at)).mkdir()

    report = asyncio.run(validate(ours))

    assert {each.value for each in ALL_CAPABILITIES} == {*report.results}
    for result in report.results.values():
        assert [] == result.failures
        assert (True, True, 0, 0) == (
            *(result.detected, result.passed),
            *(result.tests_failed, result.tests_skipped),
        )
        assert result.tests_passed

    assert "FULL" == report.conformance_level()
    assert [()] * len(ALL_CAPABILITIES) == damages
