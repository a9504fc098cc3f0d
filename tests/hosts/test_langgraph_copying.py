"""Threads of other checkpointers, copied with what their interrupted tasks wrote."""

import asyncio
import operator
from contextlib import suppress
from itertools import chain
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from conversation_state.errors import NotSavedError
from conversation_state.hosts.langgraph import ConversationStateSaver
from conversation_state.store import open_store

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]


def fetch(_state, config):
    if config["configurable"]["fails"]:
        raise ConnectionError("the bank does not answer")

    return {"log": ["fetched"], "total": 1}


def pay(_state):
    return {"log": ["paid"], "total": 100}


def ask(_state):
    return {"log": [f"approved: {interrupt('ok?')}"]}


def ask_twice(_state):
    first = interrupt("first?")
    return {"log": [f"{first} and {interrupt('second?')}"], "total": 7}


def end(state):
    return {"log": [f"end with {state['total']}"]}


def parallel():
    """One node has finished, another waits, a third waits for a second answer."""
    builder = StateGraph(Log)
    builder.add_node("pay", pay).add_node("ask", ask).add_node("twice", ask_twice)
    builder.add_node("end", end).add_edge(["pay", "ask", "twice"], "end")
    for name in ("pay", "ask", "twice"):
        builder.add_edge(START, name)

    return builder


def failing():
    """One node has finished, another has failed."""
    builder = StateGraph(Log).add_node("pay", pay).add_node("fetch", fetch)
    builder.add_node("end", end).add_edge(["pay", "fetch"], "end")
    return builder.add_edge(START, "pay").add_edge(START, "fetch")


def sending():
    """One node is sent to several times; every second time it waits."""

    def work(state):
        number = state["number"]
        if number % 2:
            number *= interrupt(f"double {number}?")

        return {"log": [f"worked on {number}"], "total": number}

    def send(_state):
        return [Send("work", {"number": number}) for number in range(5)]

    builder = StateGraph(Log).add_node("work", work).add_node("end", end)
    builder.add_conditional_edges(START, send, ["work"])
    return builder.add_edge("work", "end")


def nested():
    """A subgraph waits beside a node that has finished."""
    inner = parallel().compile()
    builder = StateGraph(Log).add_node("inner", inner).add_node("pay", pay)
    builder.add_node("end", end).add_edge(["inner", "pay"], "end")
    return builder.add_edge(START, "inner").add_edge(START, "pay")


def remembering():
    """A subgraph with checkpoints of its own waits."""
    inner = parallel().compile(checkpointer=True)
    builder = StateGraph(Log).add_node("inner", inner).add_node("end", end)
    return builder.add_edge(START, "inner").add_edge("inner", "end")


def routing():
    """A node has finished with a command, whose jump is a write like its others."""
    builder = StateGraph(Log).add_node("ask", ask).add_node("end", end)
    builder.add_node(
        "route", lambda _: Command(goto="end", update={"log": ["routed"], "total": 3})
    )
    return builder.add_edge(START, "ask").add_edge(START, "route")


def extend(old, new):
    return [*old, *chain.from_iterable(new)]


class DeltaLog(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend)]
    total: Annotated[int, operator.add]


def rebuilt():
    """
    A channel whose value LangGraph rebuilds from the writes of earlier checkpoints.
    """
    builder = StateGraph(DeltaLog).add_node("ask", ask).add_node("end", end)
    for name in ("c", "a", "b"):
        builder.add_node(name, lambda _, name=name: {"log": [name, name.upper()]})
        builder.add_edge(START, name)

    return builder.add_edge(["a", "b", "c"], "ask").add_edge("ask", "end")


GRAPHS = [parallel, failing, sending, nested, remembering, routing, rebuilt]


def run(builder, saver, given, config=CONFIG, *, fails=False):
    """The result of a run, without the random ids of its interrupts; or its error."""
    config = {"configurable": {**config["configurable"], "fails": fails}}
    try:
        result = builder.compile(checkpointer=saver).invoke(given, config)
    except ConnectionError as error:
        return str(error)

    asked = [each.value for each in result.pop("__interrupt__", ())]
    return result, sorted(asked)


def begin(builder, saver, config=CONFIG):
    return run(builder, saver, {"log": [], "total": 0}, config, fails=True)


def resume(builder, saver, config=CONFIG):
    """
    The results of resuming until nothing waits, each interrupt answered by its text.
    """
    graph = builder.compile(checkpointer=saver)
    results: list[Any] = []
    while (state := graph.get_state(config)).next:
        answers = {each.id: 2 * (len(results) + 1) for each in state.interrupts}
        given: Any = Command(resume=answers) if answers else None
        results.append(run(builder, saver, given, config))

    return results


def history(builder, saver, config=CONFIG):
    """Everything that a graph says about the states of a thread."""
    graph = builder.compile(checkpointer=saver)
    return [
        (*each[:5], each.tasks, each.interrupts)
        for each in graph.get_state_history(config)
    ]


@pytest.fixture
def new():
    with ConversationStateSaver.from_url("memory:") as saver:
        yield saver


@pytest.fixture(params=["LangGraph's", "ours"])
def old(request):
    if request.param == "ours":
        with ConversationStateSaver.from_url("memory:") as saver:
            yield saver
    else:
        yield InMemorySaver()


class TestCopyFrom:
    @pytest.mark.parametrize("make", GRAPHS)
    def test_an_interrupted_run_is_resumed_as_it_would_be_there(self, make, old, new):
        """What was written before the copy is used, and no finished node runs again."""
        builder = make()
        first = begin(builder, old)

        assert new.copy_from(old, "1") == ("1",)

        before = history(builder, old)
        assert history(builder, new) == before
        results = resume(builder, old)
        assert resume(builder, new) == results
        assert results
        assert results[-1] != first

    @pytest.mark.parametrize("make", GRAPHS)
    def test_a_run_that_was_resumed_in_part_is_resumed(self, make, old, new):
        """The answers that a task has already had are not asked for again."""
        builder = make()
        begin(builder, old)
        state = builder.compile(checkpointer=old).get_state(CONFIG)
        for each in state.interrupts[:1]:
            run(builder, old, Command(resume={each.id: 3}))

        new.copy_from(old, "1")

        assert history(builder, new) == history(builder, old)
        assert resume(builder, new) == resume(builder, old)

    @pytest.mark.parametrize("make", GRAPHS)
    def test_a_finished_thread_is_continued_and_gone_back_in(self, make, old, new):
        """
        Each earlier checkpoint can be run from, and a new run follows the last one.
        """
        builder = make()
        begin(builder, old)
        resume(builder, old)
        graph = builder.compile(checkpointer=old)
        early = list(graph.get_state_history(CONFIG))[-1].config
        graph.update_state(early, {"log": ["another past"]})
        new.copy_from(old, "1")

        assert history(builder, new) == history(builder, old)
        again = [run(builder, saver, {"log": ["again"]}) for saver in (old, new)]
        assert again[0] == again[1]
        assert resume(builder, old) == resume(builder, new)

    def test_all_writes_of_a_task_are_copied_in_order(self, new):
        """Several writes of several tasks, with errors and interrupts between them."""
        writes = {
            "t-2": [("a", 1), ("__error__", "x"), ("a", 2), ("b", 3)],
            "t-1": [("__interrupt__", ("i",)), ("b", 4), ("b", 5), ("__resume__", [6])],
        }
        first: Any = InMemorySaver()
        begin(parallel(), first)
        config = first.get_tuple(CONFIG).config
        for task, each in writes.items():
            first.put_writes(config, each, task, "~path")

        new.copy_from(first)

        before = first.get_tuple(CONFIG).pending_writes
        after = new.get_tuple(CONFIG).pending_writes
        assert list(dict.fromkeys(task for task, _, _ in before)) == list(
            dict.fromkeys(task for task, _, _ in after)
        )
        assert sorted(map(repr, before)) == sorted(map(repr, after))
        assert [each for each in before if "__" not in each[1]] == [
            each for each in after if "__" not in each[1]
        ]

    def test_writes_keep_their_numbers(self, new):
        """
        A task that failed after its writes can put them again, and nothing changes.
        """
        old: Any = InMemorySaver()
        writes = [("a", 1), ("a", 2)]
        begin(parallel(), old)
        config = old.get_tuple(CONFIG).config
        old.put_writes(config, writes, "t-1")
        old.put_writes(config, [("__error__", "x")], "t-1")
        new.copy_from(old)
        before = new.get_tuple(CONFIG).pending_writes

        new.put_writes(new.get_tuple(CONFIG).config, writes, "t-1")

        assert new.get_tuple(CONFIG).pending_writes == before

    def test_all_threads_are_copied(self, old, new):
        """Without a thread, every one is; a second copy finds nothing to do."""
        builder = parallel()
        configs = [{"configurable": {"thread_id": name}} for name in ("a", "b", "c")]
        for config in configs:
            begin(builder, old, config)

        new.copy_from(old, "b")

        assert sorted(new.copy_from(old)) == ["a", "c"]
        assert new.copy_from(old) == ()
        for config in configs:
            assert history(builder, new, config) == history(builder, old, config)
            assert resume(builder, new, config) == resume(builder, old, config)

    def test_a_copied_thread_may_have_been_continued(self, old, new):
        """Copying it once more leaves what was added here."""
        builder = parallel()
        begin(builder, old)
        new.copy_from(old)
        resume(builder, new)
        continued = history(builder, new)

        assert new.copy_from(old) == ()
        assert history(builder, new) == continued

    def test_another_thread_of_that_id_is_not_replaced(self, old, new):
        """It is refused, and nothing of it changes."""
        builder = parallel()
        for saver in (old, new):
            begin(builder, saver)

        before = history(builder, new)
        with pytest.raises(ValueError, match=r"thread '1': it exists here already, "):
            new.copy_from(old)

        assert history(builder, new) == before

    def test_a_thread_is_copied_as_a_whole_or_not_at_all(self, old, new):
        """A checkpoint that can't be read leaves nothing behind."""
        builder = parallel()
        begin(builder, old)
        resume(builder, old)
        read, count = old.get_tuple, 0

        def fail(config):
            nonlocal count
            count += 1
            if count > 2:
                raise ConnectionError("gone")

            return read(config)

        old.get_tuple = fail
        with pytest.raises(ConnectionError):
            new.copy_from(old)

        assert list(new.list(None)) == []
        old.get_tuple = read
        assert new.copy_from(old) == ("1",)

    def test_the_conversation_and_its_bill_come_along(self, old, new):
        """The newest messages are under the thread's name, each answer billed once."""
        usage = {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}

        class Chat(TypedDict):
            messages: Annotated[list[AnyMessage], add_messages]

        def answer(state):
            count = len(state["messages"])
            message = AIMessage(f"{count}", id=f"r-{count}", usage_metadata=usage)
            return {"messages": [message]}

        builder = StateGraph(Chat).add_node("answer", answer)
        builder.add_edge(START, "answer")
        for text in ("When?", "And back?"):
            run(builder, old, {"messages": [HumanMessage(text)]})

        new.copy_from(old)

        state = new.store.load(new.name("1"))
        assert [each.text for each in state] == ["When?", "1", "And back?", "3"]
        assert state.total_usage.total_tokens == 70
        assert history(builder, new) == history(builder, old)

    def test_numbers_as_ids(self, new):
        """LangGraph takes ids of threads that are not texts."""
        old, builder = InMemorySaver(), parallel()
        config: Any = {"configurable": {"thread_id": 7}}
        begin(builder, old, config)

        assert new.copy_from(old, 7) == ("7",)
        assert resume(builder, new, config) == resume(builder, old, config)

    def test_unknown_threads_and_other_objects_are_refused(self, new):
        """The error says what is missing."""
        with pytest.raises(NotSavedError, match="there is no thread 'x'"):
            new.copy_from(InMemorySaver(), "x")

        with pytest.raises(TypeError, match="expected a checkpointer"):
            new.copy_from("sqlite:///threads.db")

    def test_an_asynchronous_saver_is_copied(self, new):
        """LangGraph's refuse to be called on their event loop, and so need the twin."""

        class Bound(InMemorySaver):
            def list(self, *arguments, **options):
                with suppress(RuntimeError):
                    asyncio.get_running_loop()
                    pytest.fail("called on the event loop")

                return super().list(*arguments, **options)

        old, builder = Bound(), parallel()
        begin(builder, old)

        async def converse():
            return await new.acopy_from(old)

        assert asyncio.run(converse()) == ("1",)
        assert resume(builder, new) == resume(builder, old)

    def test_in_a_file(self, tmp_path):
        """The copy is there when the file is opened again."""
        old, builder = InMemorySaver(), nested()
        begin(builder, old)
        url = f"sqlite:///{tmp_path}/t.db"
        with ConversationStateSaver.from_url(url) as saver:
            saver.copy_from(old)

        with open_store(url) as store:
            saver = ConversationStateSaver(store)
            assert history(builder, saver) == history(builder, old)
            assert resume(builder, saver) == resume(builder, old)
            assert store.verify() == ()
