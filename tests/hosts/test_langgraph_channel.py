"""A state of ours as a key of a graph's state."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Overwrite, Send, interrupt

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    Usage,
    UserMessage,
)
from conversation_state.hosts.langgraph import StateChannel, add_to_state
from conversation_state.store import open_store
from conversation_state.testing.strategies import aggregators, messages, states
from conversation_state.tree import MessageTree
from tests.hosts.langgraph import CONFIG, saver_of
from tests.processes import count_calls

COUNTS: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
# An answer and its usage, in each way that a node can return them.
SAYS = pytest.mark.parametrize(
    "say",
    [
        lambda: AIMessage("b", usage_metadata=COUNTS),
        lambda: AssistantMessage("b", response=ResponseMeta(usage=Usage(1, 1))),
        lambda: [AssistantMessage("b"), Usage(1, 1)],
    ],
    ids=["langchain", "response", "usage"],
)


class State(TypedDict):
    """A graph's state with one of ours in it."""

    chat: Annotated[Aggregator, StateChannel]
    done: Annotated[list[str], operator.add]


def built(*nodes, **options):
    builder: Any = StateGraph(State)
    for at, node in enumerate(nodes):
        builder.add_node(f"node{at}", node)
        builder.add_edge(START, f"node{at}")

    return builder.compile(**options)


def texts(state):
    return [message.text for message in state]


class Anything(TypedDict):
    """A graph's state with a value of any kind."""

    value: Any


def kept(value):
    """What a saver gives back of a value that a node returned."""
    builder: Any = StateGraph(Anything)
    builder.add_node("node", lambda _: {"value": value})
    builder.add_edge(START, "node")
    with open_store("memory:") as store:
        graph = builder.compile(saver_of(store))
        graph.invoke({"value": None}, CONFIG, durability="sync")
        return graph.get_state(CONFIG).values["value"]


class TestAdd:
    @given(aggregators() | states(), st.lists(messages(), max_size=4))
    def test_kinds(self, state, new):
        """
        Messages, lists of them, states that grew, their turns and usage are
        added; nothing changes nothing.
        """
        grown = state.extend(new)
        usage = Usage(1, 2)

        assert [*state, *new] == list(add_to_state(state, new))
        assert grown == add_to_state(state, grown)
        assert grown.entries == add_to_state(state, grown.fork()).entries
        assert state is add_to_state(state, None)
        assert state is add_to_state(state, [])
        assert state is add_to_state(state, state)
        assert state.total_usage + usage == add_to_state(state, [usage]).total_usage

    def test_langchain(self):
        """LangChain's messages are added as ours."""
        messages = [HumanMessage("a"), AIMessage("b"), (AssistantMessage("c"),)]

        assert ["a", "b", "c"] == texts(add_to_state(Aggregator.new(), messages))

    @pytest.mark.parametrize(
        ("update", "problem"),
        [
            ("text", "str"),
            ({"messages": []}, "dict"),
            (1, "int"),
            ([UserMessage("a"), 1], "int"),
            (RemoveMessage(id="1"), "removed"),
        ],
    )
    def test_refused(self, update, problem):
        """All else is an error that says what is asked for."""
        with pytest.raises(TypeError, match=problem):
            add_to_state(Aggregator.new(), update)


class TestChannel:
    def test_side_by_side(self):
        """
        Messages of nodes that ran side by side are joined in their order, once,
        whatever they gave; and the usage is the sum.
        """
        graph = built(
            lambda state: {"chat": state["chat"].add_assistant_message("b")},
            lambda _state: {"chat": [AIMessage("c"), Usage(1, 1)]},
            lambda state: {"chat": state["chat"].fork().add_user_prompt("d")},
            lambda _state: {"done": ["e"]},
        )
        chat = graph.invoke({"chat": UserMessage("a")})["chat"]

        assert [*"abcd"] == texts(chat)
        assert 2 == chat.total_usage.total_tokens

    @pytest.mark.parametrize("start", [{"chat": UserMessage("a")}, {"done": ["a"]}])
    @SAYS
    def test_sent_on(self, start, say):
        """
        A state that the edges behind a node send to others, and that comes back from
        them, has what the node said once, and its usage.
        """
        builder: Any = StateGraph(State)
        builder.add_node("plan", lambda _: {"chat": say()})
        builder.add_node("other", lambda _: {"chat": AssistantMessage("b")})
        builder.add_node(
            "work", lambda state: {"chat": state["chat"].add_assistant_message("c")}
        )
        builder.add_edge(START, "plan").add_edge(START, "other")
        for node in ("plan", "other"):
            builder.add_conditional_edges(
                node, lambda state: [Send("work", {"chat": state["chat"]})], ["work"]
            )

        chat = builder.compile().invoke(start)["chat"]

        assert ["b", "b", "c", "c"] == texts(chat)[-4:]
        assert 2 == chat.total_usage.total_tokens

    def test_sent_on_after_an_answer(self, stores):
        """So does one that waited in the store for what another node had asked."""
        builder: Any = StateGraph(State)
        builder.add_node("plan", lambda _: {"chat": AIMessage("b")})
        builder.add_node("ask", lambda _: {"done": [interrupt("?")]})
        builder.add_node(
            "work", lambda state: {"chat": state["chat"].add_assistant_message("c")}
        )
        builder.add_edge(START, "plan").add_edge(START, "ask")
        builder.add_conditional_edges(
            "plan", lambda state: [Send("work", {"chat": state["chat"]})], ["work"]
        )
        store, again = stores
        builder.compile(saver_of(store)).invoke({"chat": UserMessage("a")}, CONFIG)
        graph = builder.compile(saver_of(again()))

        assert [*"abc"] == texts(graph.invoke(Command(resume="!"), CONFIG)["chat"])

    @SAYS
    def test_run_again(self, store, say):
        """A node that says the same once more is billed once more."""
        builder: Any = StateGraph(State)
        builder.add_node("say", lambda _: {"chat": say()})
        builder.add_edge(START, "say")
        saver = saver_of(store)
        graph = builder.compile(saver)
        graph.invoke({"chat": UserMessage("a")}, CONFIG)
        (before,) = [
            each for each in graph.get_state_history(CONFIG) if each.next == ("say",)
        ]
        graph.invoke(None, before.config)
        chat = graph.invoke({"chat": UserMessage("a")}, CONFIG)["chat"]

        assert [*"abab"] == texts(chat)
        assert 6 == store.load(saver.name("1", "chat")).total_usage.total_tokens

    @SAYS
    def test_subgraphs(self, say):
        """Two graphs side by side that say the same say it twice, and are billed so."""
        graph = built(*[built(lambda _: {"chat": say()}) for _ in range(2)])
        chat = graph.invoke({"chat": UserMessage("a")})["chat"]

        assert [*"abb"] == texts(chat)
        assert 4 == chat.total_usage.total_tokens

    def test_siblings(self):
        """The same answer to two questions is two entries, each of its own branch."""
        chat = Aggregator.new().add_user_prompt("a")

        def ask(question):
            channel = StateChannel()
            for update in (chat, AssistantMessage(question), UserMessage("yes")):
                channel.update([update])

            return channel.get()

        pay, delete = ask("Pay 5?"), ask("Delete all?")
        tree = MessageTree.of(pay, delete)
        with open_store("memory:") as store:
            store.save("pay", pay)
            store.save("delete", delete)
            store.erase(pay.entries[-1].id, reason="asked")

            assert ["a", "Delete all?", "yes"] == texts(store.load("delete"))

        assert ["a", "Pay 5?", "yes", "Delete all?", "yes"] == texts(pay.join(delete))
        for state in (pay, delete):
            assert texts(state) == texts(tree.path(state.entries[-1].id))

    @pytest.mark.parametrize("kind", [HumanMessage, UserMessage])
    def test_same_again(self, kind):
        """One message, and equal usage, that two steps add are there twice."""
        channel = StateChannel()
        message = kind("a")
        for _ in range(2):
            channel.update([message])

        for _ in range(2):
            channel.update([Usage(1, 1)])

        assert ["a", "a"] == texts(channel.get())
        assert 2 == len({entry.id for entry in channel.get().entries})
        assert 4 == channel.get().total_usage.total_tokens

    def test_same_in_a_subgraph(self):
        """One message with an id from a node and from a subgraph is one entry."""
        said = {"chat": AIMessage("b", id="1")}
        graph = built(built(lambda _: said), lambda _: said)

        assert ["a", "b"] == texts(graph.invoke({"chat": UserMessage("a")})["chat"])

    @pytest.mark.parametrize("update", [UserMessage("a"), Usage(1, 1)])
    def test_cost(self, update):
        """
        An update costs the same after many as after few, and many in one list the same
        each, also if they are equal.
        """

        def count(size):
            channel = StateChannel()
            many = count_calls(lambda: channel.update([[update] * size]))
            return many, count_calls(lambda: channel.update([update]))

        few, one = count(100)
        many, next_one = count(3_000)

        assert many < 40 * few
        assert next_one < 2 * one

    def test_begins(self):
        """
        A state stays as it is if nothing is added to it; without any input there is no
        state.
        """
        chat = Aggregator.new().add_user_prompt("a")

        assert chat is built(lambda _: None).invoke({"chat": chat})["chat"]
        assert "chat" not in built(lambda _: None).invoke({"done": ["x"]})

    def test_nothing_new(self):
        """A step without updates changes nothing, and says so."""
        chat = Aggregator.new().add_user_prompt("a")
        channel = StateChannel()

        assert not channel.update([])
        assert channel.update([chat])
        assert not channel.update([])
        assert chat is channel.get()

    @pytest.mark.parametrize("depth", [0, 1, 32])
    def test_deep(self, depth):
        """A state comes back from as deep as 32 lists."""
        chat = Aggregator.new().add_user_prompt("a")
        value: Any = chat
        for _ in range(depth):
            value = [value]

        found = kept(value)
        for _ in range(depth):
            [found] = found

        assert chat == found

    def test_too_deep(self):
        """What is deeper, or contains itself, is refused by LangGraph's serializer."""
        value: Any = Aggregator.new()
        for _ in range(33):
            value = [value]

        with pytest.raises(TypeError, match="not msgpack serializable: Aggregator"):
            kept(value)

        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(TypeError, match="Recursion limit"):
            kept(endless)

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_handed_on(self, durability):
        """
        States go through a thread in whatever LangGraph hands on: `Overwrite`,
        `Send`, questions and answers.
        """

        def ask(state):
            answer = interrupt(state["chat"])
            return {"chat": Overwrite(answer)}

        builder: Any = StateGraph(State)
        builder.add_node("ask", ask)
        builder.add_node("tell", lambda state: {"chat": state["chat"].messages[-1]})
        builder.add_edge(START, "ask")
        builder.add_conditional_edges(
            "ask", lambda state: [Send("tell", {"chat": state["chat"].fork(at=1)})]
        )
        with open_store("memory:") as store:
            graph = builder.compile(saver_of(store), interrupt_before=["tell"])
            start = {"chat": [UserMessage("a"), UserMessage("b")]}
            asked = graph.invoke(start, CONFIG, durability=durability)
            state = asked["__interrupt__"][0].value
            answer: Any = Command(resume=state.fork(at=1).add_user_prompt("c"))
            graph.invoke(answer, CONFIG, durability=durability)

            assert ("tell",) == graph.get_state(CONFIG).next

            done = graph.invoke(None, CONFIG, durability=durability)

            assert ["a", "b"] == texts(state)
            assert ["a", "c", "a"] == texts(done["chat"])
