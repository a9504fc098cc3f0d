"""
No writer is overlooked: if two go on from one checkpoint, the second gets an error, and
a fork on purpose is a fork.
"""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from conversation_state.errors import (
    MirroredNameError,
    StaleHeadError,
    StaleThreadError,
)
from conversation_state.hosts.langgraph import ConversationStateSaver
from conversation_state.store import open_store
from tests.hosts.langgraph import (
    CONFIG,
    KINDS,
    graph_of,
    opened,
    run_turn,
    saver_of,
    texts_of,
)
from tests.signals import interrupt_by_signals


def meeting(barrier):

    def meet(state):
        barrier.wait(timeout=60)
        return {"messages": [AIMessage(f"to {state['messages'][-1].content}")]}

    return meet


class _Late(ConversationStateSaver):
    """A saver whose readers wait for each other before they go on."""

    def __init__(self, store, barrier):
        super().__init__(store)
        self.barrier = barrier

    def get_tuple(self, config):
        found = super().get_tuple(config)
        self.barrier.wait(timeout=60)
        return found


def both(turn: Any) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(turn, text) for text in ("left", "right")]
        return [future.exception() or future.result() for future in futures]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("is_begun", [True, False], ids=["begun", "empty"])
class TestTwoRuns:
    def test_one_is_refused(self, kind, durability, is_begun, tmp_path):
        """
        Of two savers that read one checkpoint, or an empty thread, one is refused;
        the other's messages are there, once, and after it the refused one may go on.
        """
        with opened(kind, tmp_path) as (store, again):
            if is_begun:
                run_turn(graph_of(saver_of(store)), "a")

            barrier = Barrier(2)

            def turn(text):
                graph = graph_of(_Late(again(), barrier))
                return run_turn(graph, text, durability=durability)

            found = both(turn)
            saver = saver_of(again())

            (error,) = [each for each in found if isinstance(each, Exception)]
            (done,) = [each for each in found if not isinstance(each, Exception)]
            assert isinstance(error, StaleThreadError)
            assert is_begun is (error.expected is not None)
            assert done == texts_of(saver.store, saver.name("1"))
            assert 2 + 2 * is_begun == len(done)
            assert len(done) + 2 == len(run_turn(graph_of(saver), "later"))


class TestOnPurpose:
    def test_error(self, store):
        """
        The error names the thread and both checkpoints, says what to do, is a
        StaleHeadError, and can be pickled; nothing was written.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        run_turn(graph, "a")
        config: Any = saver.get_tuple(CONFIG).config
        run_turn(graph, "b")
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

    def test_update_while_it_runs(self, store):
        """
        A graph that runs does not overwrite what another writer changes in its thread.
        """
        saver = saver_of(store)

        def meddle(_state):
            graph.update_state(CONFIG, {"messages": [HumanMessage("wait!")]})
            return {"messages": [AIMessage("done")]}

        graph = graph_of(saver, meddle)
        with pytest.raises(StaleThreadError):
            run_turn(graph, "a", durability="sync")

        assert ["a", "wait!"] == texts_of(store, saver.name("1"))

    def test_siblings(self, store):
        """
        A saver with LangGraph's own way keeps both, and the last one is the thread's.
        """
        saver = saver_of(store, allow_siblings=True)

        def meddle(_state):
            graph.update_state(CONFIG, {"messages": [HumanMessage("wait!")]})
            return {"messages": [AIMessage("done")]}

        graph = graph_of(saver, meddle)

        assert ["a", "done"] == run_turn(graph, "a", durability="sync")
        assert {("a",), ("a", "wait!"), ("a", "done")} <= {
            tuple(m.content for m in each.values.get("messages", ()))
            for each in graph.get_state_history(CONFIG)
        }


class TestEdits:
    """What is saved beside a graph is not lost: it is refused."""

    def test_refused(self, store):
        """
        A save under the name of a thread is an error with how to change the thread; the
        graph goes on as if nothing was.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        run_turn(graph, "a")
        name = saver.name("1")
        head, state = store.latest(name), store.load(name)
        store.save("mine", state)
        edits = (
            lambda: store.save(name, state.fork(at=1), expecting=head),
            lambda: store.save(name, state.add_user_prompt("x"), label="mine"),
            lambda: store.save_all({"mine": state.fork(), name: state.fork()}),
            lambda: store.update(name, lambda found: found.add_user_prompt("x")),
            lambda: store.rollback(name, 1),
            lambda: store.fork("mine", saver.name("2")),
            lambda: asyncio.run(store.asave(name, state.fork())),
        )
        for edit in edits:
            with pytest.raises(
                MirroredNameError, match=r"graph\.update_state"
            ) as caught:
                edit()

            assert "LangGraph" == caught.value.host
            assert caught.value.name in {name, saver.name("2")}
            assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))

        assert head == store.latest(name)
        assert state == store.load("mine")
        assert (
            ["a", "1: a", "b", "3: b"] == run_turn(graph, "b") == texts_of(store, name)
        )

    def test_allowed(self, store):
        """Labels, forks under other names and erasing are not edits."""
        saver = saver_of(store)
        graph = graph_of(saver)
        run_turn(graph, "a")
        name = saver.name("1")
        store.label(name, "here")
        store.fork(name, "mine")
        store.update("mine", lambda found: found.add_user_prompt("x"))
        store.erase(store.load(name).entries[0].id, reason="asked for")

        assert 4 == len(run_turn(graph, "b"))
        assert 2 == len(store.load(name, at="here"))
        assert 3 == len(store.load("mine"))


class TestInterrupted:
    def test_reads_go_on(self):
        """
        After a signal at a random moment of a read, what is remembered between
        reads leaves no other thread waiting, and the next read is whole.
        """

        def read(saver):
            return saver.get_tuple(CONFIG).checkpoint["channel_values"]["messages"]

        def check(saver, completed):
            assert texts == [message.content for message in read(saver)]

        with open_store("memory:") as store:
            graph = graph_of(saver_of(store))
            run_turn(graph, "a")
            texts = [message.content for message in read(saver_of(store))]
            interrupted = interrupt_by_signals(
                read, check, prepare=lambda: saver_of(store)
            )

        assert 2 == len(texts)
        assert interrupted
