"""
Nobody is passed over: of two who go on from one checkpoint, the second hears
of it, and a fork on purpose is a fork.
"""

import asyncio
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command, interrupt

from conversation_state.adapters.langgraph import ConversationStateSaver
from conversation_state.errors import StaleHeadError, StaleThreadError
from conversation_state.store import open_store
from tests.adapters.langgraph import CONFIG, graph_of, opened, said, saver_of, say, urls


def meeting(barrier):
    """
    A node that waits until all others are there as well.
    """

    def meet(state):
        barrier.wait(timeout=30)
        return {"messages": [AIMessage(f"to {state['messages'][-1].content}")]}

    return meet


class _Late(ConversationStateSaver):
    """
    A saver whose readers wait for each other before they go on.
    """

    def __init__(self, store, barrier):
        super().__init__(store)
        self.barrier = barrier

    def get_tuple(self, config):
        found = super().get_tuple(config)
        self.barrier.wait(timeout=30)
        return found


def both(turn: Any) -> list[Any]:
    """
    What comes of two turns at once: texts or errors.
    """
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(turn, text) for text in ("left", "right")]
        return [future.exception() or future.result() for future in futures]


@pytest.mark.parametrize("kind", urls())
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
class TestTwoRuns:
    def test_from_one_checkpoint(self, kind, durability, tmp_path):
        """
        Of two savers that read one checkpoint one is refused; what the other
        said is there, once, and after it the refused one may go on.
        """
        with opened(kind, tmp_path) as (store, again):
            say(graph_of(saver_of(store)), "a")
            barrier = Barrier(2)

            def turn(text):
                graph = graph_of(_Late(again(), barrier))
                return say(graph, text, durability=durability)

            found = both(turn)
            saver = saver_of(again())

            (error,) = [each for each in found if isinstance(each, Exception)]
            (done,) = [each for each in found if not isinstance(each, Exception)]
            assert isinstance(error, StaleThreadError)
            assert done == said(saver.store, saver.name("1"))
            assert 4 == len(done)
            assert 6 == len(say(graph_of(saver), "later"))

    def test_from_nothing(self, kind, durability, tmp_path):
        """
        The same in a thread that did not exist when both looked.
        """
        with opened(kind, tmp_path) as (store, again):
            barrier = Barrier(2)

            def turn(text):
                graph = graph_of(_Late(again(), barrier))
                return say(graph, text, durability=durability)

            found = both(turn)

            (error,) = [each for each in found if isinstance(each, Exception)]
            (done,) = [each for each in found if not isinstance(each, Exception)]
            assert isinstance(error, StaleThreadError)
            assert error.expected is None
            assert done == said(store, saver_of(store).name("1"))


def _many(url, who, count):
    """
    Turns in a process of its own, each said again until it is in.
    """
    with ConversationStateSaver.from_url(url) as saver:
        graph = graph_of(saver)
        for at in range(count):
            while True:
                try:
                    say(graph, f"{who}{at}", durability="exit")
                except StaleThreadError:
                    continue

                break


class TestWriters:
    def test_processes(self, tmp_path):
        """
        Two processes that talk in one thread lose nothing: each turn is there
        once, in its writer's order, with its answer after it. Each is one
        checkpoint: where there are more, those before the refused one stay.
        """
        url = f"sqlite:///{tmp_path}/t.db"
        open_store(url).close()
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=_many, args=(url, who, 8)) for who in ("p", "q")
        ]
        for process in processes:
            process.start()

        for process in processes:
            process.join(timeout=120)
            assert 0 == process.exitcode

        with open_store(url) as store:
            texts = said(store, ConversationStateSaver(store).name("1"))

            assert 32 == len(texts)
            for who in "pq":
                asked = [text for text in texts[::2] if text[0] == who]
                assert [f"{who}{at}" for at in range(8)] == asked

            for at in range(0, 32, 2):
                assert f"{at + 1}: {texts[at]}" == texts[at + 1]

            assert () == store.verify()

    def test_tasks(self):
        """
        The same of tasks in an event loop, on one saver.
        """
        with open_store("memory:") as store:
            graph = graph_of(saver_of(store))

            async def turn(text):
                while True:
                    try:
                        given = {"messages": [HumanMessage(text)]}
                        return await graph.ainvoke(given, CONFIG, durability="exit")
                    except StaleThreadError:
                        await asyncio.sleep(0)

            async def all_of_them():
                await asyncio.gather(*[turn(str(at)) for at in range(8)])

            asyncio.run(all_of_them())
            texts = said(store, saver_of(store).name("1"))

            assert {*map(str, range(8))} == {*texts[::2]}
            assert 16 == len(texts)


class TestOnPurpose:
    @pytest.fixture
    def store(self):
        """
        A store in memory.
        """
        with open_store("memory:") as store:
            yield store

    def test_error(self, store):
        """
        The error names the thread and both checkpoints, says what to do, is a
        StaleHeadError, and can be pickled; nothing was written.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        say(graph, "a")
        config: Any = saver.get_tuple(CONFIG).config
        say(graph, "b")
        newest = saver.get_tuple(CONFIG).checkpoint["id"]
        checkpoint: Any = saver.get_tuple(CONFIG).checkpoint
        count = len([*saver.list(CONFIG)])
        with pytest.raises(StaleHeadError) as caught:
            saver.put(config, {**checkpoint, "id": "~"}, {}, {})

        error: Any = pickle.loads(pickle.dumps(caught.value))

        assert ("1", "", config["configurable"]["checkpoint_id"], newest) == (
            *(error.thread, error.namespace),
            *(error.expected, error.actual),
        )
        assert str(error) == str(caught.value)
        assert newest in str(error)
        assert "checkpoint_id" in str(error)
        assert count == len([*saver.list(CONFIG)])

    def test_time_travel(self, store):
        """
        A config that names a checkpoint forks, also one that was the newest
        when it was given, and also after others went on.
        """
        graph = graph_of(saver_of(store))
        say(graph, "a")
        state = graph.get_state(CONFIG)
        say(graph, "b")

        assert ["a", "1: a", "c", "3: c"] == say(graph, "c", state.config)
        graph.update_state(state.config, {"messages": [HumanMessage("d")]})
        assert ["a", "1: a", "d"] == [
            message.content for message in graph.get_state(CONFIG).values["messages"]
        ]

    def test_update_while_it_runs(self, store):
        """
        Whoever changes a thread while a graph runs in it is not passed over by
        the graph.
        """
        saver = saver_of(store)

        def meddle(_state):
            graph.update_state(CONFIG, {"messages": [HumanMessage("wait!")]})
            return {"messages": [AIMessage("done")]}

        graph = graph_of(saver, meddle)
        with pytest.raises(StaleThreadError):
            say(graph, "a", durability="sync")

        assert ["a", "wait!"] == said(store, saver.name("1"))

    def test_two_answers(self, store):
        """
        An interrupt that is answered twice at once is answered once.
        """
        barrier = Barrier(2)

        def ask(_state):
            return {"messages": [AIMessage(interrupt("?"))]}

        say(graph_of(saver_of(store), ask), "a")

        def answer(text):
            graph = graph_of(_Late(store, barrier), ask)
            graph.invoke(Command(resume=text), CONFIG)
            return text

        found = both(answer)

        (done,) = [each for each in found if isinstance(each, str)]
        assert 1 == sum(isinstance(each, StaleThreadError) for each in found)
        assert ["a", done] == said(store, saver_of(store).name("1"))

    def test_siblings(self, store):
        """
        Who asks for LangGraph's own way has it: both are there, and the last
        one is the thread's.
        """
        saver = saver_of(store, allow_siblings=True)

        def meddle(_state):
            graph.update_state(CONFIG, {"messages": [HumanMessage("wait!")]})
            return {"messages": [AIMessage("done")]}

        graph = graph_of(saver, meddle)

        assert ["a", "done"] == say(graph, "a", durability="sync")
        assert {("a",), ("a", "wait!"), ("a", "done")} <= {
            tuple(m.content for m in each.values.get("messages", ()))
            for each in graph.get_state_history(CONFIG)
        }
