"""Writes of several threads in one transaction."""

import os
import sys
import threading
from contextlib import contextmanager
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import open_store
from conversation_state.store.backends import _sqlite_connection as _connection
from conversation_state.store.records import WriteGroup, reading
from tests.interrupts import interrupt_at_each_opcode

CHAT = Aggregator.new().add_user_prompt("When is the next train?")


@pytest.fixture
def store(tmp_path):
    """A store in a file."""
    with open_store(f"sqlite:///{tmp_path / 'chats.db'}") as store:
        yield store


class Waiting:
    """Writes of threads that wait while the first one is under way."""

    def __init__(self, store, works):
        self.group = WriteGroup(store)
        self.results = {}
        self._works = works
        self._threads = []
        self.transactions = 0
        backend = store._core.backend
        writing = backend.writing

        def count():
            self.transactions += 1
            return writing()

        backend.writing = count

    def run(self, first):
        """All of them, after *first*, which ends when the others wait."""

        def begin_others(writer):
            if not self._threads:
                for name, work in self._works.items():
                    thread = threading.Thread(
                        target=self._write_result, args=(name, work)
                    )
                    thread.start()
                    self._threads.append(thread)

                while len(self.group._waiting) <= len(self._works):
                    pass

            return first(writer)

        self._write_result("first", begin_others)
        for thread in self._threads:
            thread.join()

    def _write_result(self, name, work):
        try:
            self.results[name] = self.group.write(work)
        except Exception as error:  # noqa: BLE001 - what the caller would see
            self.results[name] = error


def put(key):
    """A write of one record, whose result is its key."""

    def work(writer):
        writer.add(key, b"value")
        return key

    return work


def refuse(writer):
    """A write that is refused, after it wrote something."""
    writer.add(b"refused", b"value")
    raise LookupError("refused")


def keys(store):
    """The keys of all records."""
    with reading(store) as rows:
        return rows.keys(b"", None)


class TestWrite:
    def test_alone(self, store):
        """A write returns what its function returns, and is done then."""
        group = WriteGroup(store)

        assert b"a" == group.write(put(b"a"))
        assert [b"a"] == keys(store)

    def test_one_transaction(self, store):
        """
        Writes that come while one is under way are in its transaction, and each
        gets its own result.
        """
        waiting = Waiting(store, {"b": put(b"b"), "c": put(b"c")})

        waiting.run(put(b"a"))

        assert {"first": b"a", "b": b"b", "c": b"c"} == waiting.results
        assert [b"a", b"b", b"c"] == keys(store)
        assert 1 == waiting.transactions

    @pytest.mark.parametrize("is_first", [False, True])
    def test_refused(self, store, is_first):
        """
        A write that raises, the one that began the transaction too, writes nothing; the
        others in it are repeated without it.
        """
        works = {"refused": refuse, "b": put(b"b"), "c": put(b"c")}
        first = "refused" if is_first else "b"
        waiting = Waiting(store, works)
        del works[first]

        waiting.run(refuse if is_first else put(b"b"))

        results = {**waiting.results, first: waiting.results["first"]}
        assert "refused" == str(results["refused"])
        assert (b"b", b"c") == (results["b"], results["c"])
        assert [b"b", b"c"] == keys(store)

    def test_not_committed(self, store, monkeypatch):
        """
        No write returns before what it wrote is committed: where that fails, each
        raises.
        """
        waiting = Waiting(store, {"b": put(b"b")})
        backend = store._core.backend
        writing = backend.writing

        @contextmanager
        def full():
            with writing() as tx:
                yield tx
                raise StoreError(store.url, "the disk is full")

        monkeypatch.setattr(backend, "writing", full)
        waiting.run(put(b"a"))

        assert ["the disk is full"] * 2 == [
            error.problem for error in waiting.results.values()
        ]
        assert [] == keys(store)

    def test_interrupted(self, tmp_path):
        """
        Ctrl-C at every moment leaves the write done or not, nothing that another
        thread waits for, and nothing for that thread to do.
        """
        made: list[Any] = []

        def prepare():
            made.append(None)
            path = tmp_path / f"{len(made)}.db"
            store = open_store(f"sqlite:///{path}?timeout_s=20")
            return store, WriteGroup(store)

        def check(made, completed):
            store, group = made
            before = {*keys(store)}
            thread = threading.Thread(target=lambda: group.write(put(b"b")))
            thread.start()
            thread.join()
            assert {b"a"} == before or not completed
            assert {*before, b"b"} == {*keys(store)}
            store.close()

        moments = interrupt_at_each_opcode(
            lambda made: made[1].write(put(b"a")),
            check,
            prepare=prepare,
            modules=[
                "conversation_state.store.records",
                "conversation_state.store.backends._blocks",
            ],
            only_where_signals_arrive=True,
        )

        assert 30 < moments

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked(self, store, monkeypatch):
        """A child that was forked while a write was under way writes by itself."""
        # How long a fork waits for a write, which here waits for the fork.
        monkeypatch.setattr(_connection, "PATIENCE_S", 0.01)
        group = WriteGroup(store)
        children: list[int] = []

        def fork(writer):
            if not children:
                forking = threading.Thread(target=fork_child)
                forking.start()
                forking.join()

            writer.add(b"a", b"value")

        def fork_child():
            child = os.fork()
            if not child:
                try:
                    assert group._turn._find_block() is None
                    assert not group._waiting
                finally:
                    os._exit(sys.exc_info()[0] is not None)

            children.append(child)

        group.write(fork)

        assert 0 == os.waitpid(children[0], 0)[1]


class TestSave:
    def test_remembered(self, store):
        """
        A state that continues the remembered one is saved, and held with the
        digests of its logs.
        """
        group = WriteGroup(store)
        saved = group.write(lambda writer: writer.save("chat", CHAT))
        more = CHAT.add_assistant_message("At noon.")

        def save_more(writer):
            assert CHAT == writer.recall("chat")
            return writer.save("chat", more)

        longer = group.write(save_more)

        assert (1, 2) == (saved.entries.length, longer.entries.length)
        assert more == store.load("chat")
        with reading(store) as rows:
            assert more.entries == rows.entries(longer.entries)
            assert CHAT.entries == rows.entries(saved.entries)

    def test_outdated_memory(self, store, tmp_path):
        """
        Where another program saved since, the write is repeated with what that
        saved: it sees the newest state, and loses none of it.
        """
        group = WriteGroup(store)
        group.write(lambda writer: writer.save("chat", CHAT))
        theirs = CHAT.add_assistant_message("At noon.")
        with open_store(f"sqlite:///{tmp_path / 'chats.db'}") as other:
            other.save("chat", theirs)

        seen = []

        def add(writer):
            before = writer.recall("chat")
            seen.append(before)
            writer.save("chat", before.add_user_prompt("Thanks."))

        group.write(add)

        assert [CHAT, theirs] == seen
        assert "Thanks." == store.load("chat")[-1].text
        assert 3 == len(store.load("chat"))
