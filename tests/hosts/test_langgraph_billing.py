"""
What a thread's answers cost is in the ledger of its conversation, each answer
once, whatever the thread does.
"""

from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from conversation_state import Aggregator, AssistantMessage, ResponseMeta, Usage
from conversation_state.aggregator import response_key
from conversation_state.hosts.langgraph import StateChannel, add_to_state
from tests.hosts.langgraph import CONFIG, ChatState, graph_of, run_turn, saver_of


class Model:
    """A model whose answers cost 100 tokens, then 200, and so on."""

    def __init__(self, *, with_ids=True):
        self.with_ids = with_ids
        self.calls = 0

    def __call__(self, _state):
        self.calls += 1
        return {"messages": [self.answer()]}

    def answer(self):
        n = self.calls
        metadata: dict[str, Any] = {"model_name": "m"}
        if self.with_ids:
            metadata["id"] = f"resp-{n}"

        usage: Any = {
            "input_tokens": 100 * n,
            "output_tokens": 0,
            "total_tokens": 100 * n,
        }
        return AIMessage(f"{n}", response_metadata=metadata, usage_metadata=usage)


@pytest.fixture(params=[True, False], ids=["ids", "no-ids"])
def model(request):
    return Model(with_ids=request.param)


def bill(store, name="langgraph/1/messages"):
    """
    The tokens in a ledger, entry by entry, all of which are responses that
    were recorded under their keys.
    """
    state = store.load(name)
    assert state is state.record_responses()

    return [entry.usage.total_tokens for entry in state.ledger]


class TestTurns:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_each_answer(self, stores, model, durability):
        """
        Every answer is in the ledger, under its id and model, also where the
        store is opened again between them.
        """
        store, again = stores
        run_turn(graph_of(saver_of(store), model), "a", durability=durability)
        other = again()
        run_turn(graph_of(saver_of(other), model), "b", durability=durability)
        ledger = other.load("langgraph/1/messages").ledger

        assert [100, 200] == bill(other)
        assert ["m", "m"] == [entry.model for entry in ledger]
        if model.with_ids:
            keys = [entry.id.partition("#")[0] for entry in ledger]
            assert ["resp-1", "resp-2"] == keys


class TestOnce:
    def test_replayed(self, store, model):
        """Running on from the end, or reading, bills nothing."""
        graph = graph_of(saver_of(store), model)
        run_turn(graph, "a")
        graph.invoke(None, CONFIG)
        list(graph.get_state_history(CONFIG))

        assert [100] == bill(store)

    def test_run_again(self, store, model):
        """A step that is run again is billed again, as the provider does."""
        graph = graph_of(saver_of(store), model)
        run_turn(graph, "a")
        before = next(
            each for each in graph.get_state_history(CONFIG) if each.next == ("answer",)
        )
        graph.invoke(None, before.config)

        assert [100, 200] == bill(store)
        assert ["a", "2"] == [m.text for m in store.load("langgraph/1/messages")]

    def test_rewritten(self, stores, model):
        """An answer whose text is changed is billed once, in whatever process."""
        store, again = stores
        run_turn(graph_of(saver_of(store), model), "a")
        for text, each in (("edited", store), ("once more", again())):
            graph = graph_of(saver_of(each), model)
            last = graph.get_state(CONFIG).values["messages"][-1]
            changed = last.model_copy(update={"content": text})
            graph.update_state(CONFIG, {"messages": [changed]})

        assert ["a", "once more"] == [
            message.text for message in store.load("langgraph/1/messages")
        ]
        assert [100] == bill(store)

    def test_put_again(self, store, model):
        """Messages that are taken away and put back, in another order, too."""
        graph = graph_of(saver_of(store), model)
        run_turn(graph, "a")
        run_turn(graph, "b")
        messages = graph.get_state(CONFIG).values["messages"]
        everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
        graph.update_state(CONFIG, {"messages": [everything]})

        assert [100, 200] == bill(store)

        graph.update_state(CONFIG, {"messages": messages[::-1]})

        assert 4 == len(store.load("langgraph/1/messages"))
        assert [100, 200] == bill(store)


class TestGoingBack:
    def test_keeps_usage(self, stores, model):
        """The bill of a thread that went back holds what was left aside."""
        store, again = stores
        graph = graph_of(saver_of(store), model)
        run_turn(graph, "a")
        early = graph.get_state(CONFIG).config
        run_turn(graph, "b")
        run_turn(graph_of(saver_of(again()), model), "c", early)

        assert ["a", "1", "c", "3"] == [
            message.text for message in again().load("langgraph/1/messages")
        ]
        assert [100, 200, 300] == bill(again())

    def test_copied_thread(self, store, model):
        """
        A copy of a thread shares its past: together they cost what they share
        once.
        """
        saver = saver_of(store)
        graph = graph_of(saver, model)
        run_turn(graph, "a")
        saver.copy_thread("1", "2")
        run_turn(graph, "b")
        run_turn(graph, "c", {"configurable": {"thread_id": "2"}})
        one, two = (store.load(saver.name(thread)) for thread in "12")

        assert 300 == one.total_usage.total_tokens
        assert 400 == two.total_usage.total_tokens
        assert 600 == one.join(two).total_usage.total_tokens

    def test_pruned(self, store, model):
        """Usage stays in the ledger after its checkpoints are gone."""
        saver = saver_of(store)
        graph = graph_of(saver, model)
        for run in "ab":
            run_turn(graph, run, {**CONFIG, "metadata": {"run_id": run}})

        saver.delete_for_runs(["b"])

        assert ["a", "1"] == [m.text for m in store.load(saver.name("1"))]
        assert [100, 200] == bill(store)

        saver.prune(["1"])

        assert [100, 200] == bill(store)

    def test_deleted_name(self, store, model):
        """
        A conversation that was deleted under its name is there with its bill
        after the next turn.
        """
        saver = saver_of(store)
        graph = graph_of(saver, model)
        run_turn(graph, "a")
        store.delete(saver.name("1"))
        run_turn(graph, "b")

        assert [100, 200] == bill(store)


class TestInside:
    def test_graphs_in_graphs(self, store):
        """
        The usage of a graph inside of another is counted in the outer one once, and
        that of the two together is no more.
        """
        model = Model()
        inner: Any = StateGraph(ChatState)
        inner.add_node("deep", model)
        inner.add_edge(START, "deep")
        outer: Any = StateGraph(ChatState)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        graph = outer.compile(checkpointer=saver_of(store))
        run_turn(graph, "a")
        run_turn(graph, "b")
        whole = Aggregator.new()
        for name in store.names():
            bill(store, name)
            whole = whole.join(store.load(name))

        assert [100, 200] == bill(store)
        assert 300 == whole.total_usage.total_tokens


class State(TypedDict):
    """A graph's state with one of ours in it."""

    chat: Annotated[Aggregator, StateChannel]


class TestChannel:
    def test_answers(self, model):
        """
        An answer that reports its usage is billed when it is added, ours or
        LangChain's, each once.
        """
        model.calls = 1
        meta = ResponseMeta("stop", Usage(5, 2), None, "m", id="r-2")
        ours = AssistantMessage("b", response=meta)
        state = add_to_state(Aggregator.new(), [model.answer(), ours, ours])

        assert 3 == len(state)
        assert [100, 7] == [entry.usage.total_tokens for entry in state.ledger]
        assert response_key(ours) == state.ledger[1].id

    def test_goes_back(self, stores):
        """
        The graph's state is as it was, and the saved ledger keeps the usage since, also
        where the thread goes on and is pruned.
        """
        store, again = stores
        model = Model()
        builder: Any = StateGraph(State)
        builder.add_node("answer", lambda state: {"chat": model(state)["messages"]})
        builder.add_edge(START, "answer")

        def turn(store, text, config=CONFIG):
            graph = builder.compile(checkpointer=saver_of(store))
            chat = graph.invoke({"chat": HumanMessage(text)}, config)["chat"]
            return graph.get_state(CONFIG).config, chat

        early, _ = turn(store, "a")
        turn(store, "b")
        turn(store, "c", early)
        _, chat = turn(again(), "d")
        name = "langgraph/1/chat"

        assert [100, 300, 400] == [each.usage.total_tokens for each in chat.ledger]
        assert [100, 200, 300, 400] == sorted(bill(store, name))
        assert chat.entries == store.load(name).entries
        assert chat == saver_of(again()).get_tuple(CONFIG).checkpoint[
            "channel_values"
        ].get("chat")

        saver_of(store).prune(["1"])

        assert [100, 200, 300, 400] == sorted(bill(store, name))
        assert () == store.verify()
