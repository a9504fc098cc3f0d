"""What stores promise under stress, for a moment each; `make stress` takes minutes."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conversation_state import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import Store, open_store
from conversation_state.store.backend import ConflictError
from conversation_state.store.backends.memory import MemoryBackend
from tests.store import server as servers
from tests.store.promises.case import RecordingBackend
from tests.store.stress import COUNTED, WRONG

ROOT = Path(__file__).resolve().parent.parent.parent
CHAT = Aggregator.new().add_user_prompt("When is the next train?")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
@pytest.mark.integration
def test_nothing_is_lost(kind):
    """
    Processes that append to one name and to many, that race for a head, and
    that are killed meanwhile, also in a pipeline, every verb interrupted, and every
    statement failing once: nothing is lost, there twice, out of order or damaged.
    """
    if kind == "postgresql":
        servers.server()  # a missing server is reported there

    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.store.stress", "--only", kind),
            *("--seconds", "0.2", "--processes", "4", "--kills", "6"),
            *("--interrupts", "30"),
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    head, *rows, last = done.stdout.splitlines()
    found = [
        dict(zip(COUNTED, map(_parse_number, row[34:].split()), strict=False))
        for row in rows
    ]

    assert (0, "", "Nothing was lost.") == (done.returncode, done.stderr, last)
    assert list(COUNTED) == head.split()[1:]
    assert 7 == len(found)
    assert all(row["saves"] for row in found)
    assert not any(row[what] for row in found for what in WRONG)
    assert found[2]["conflicts"]
    assert 2 <= found[3]["kills"]
    assert 6 <= found[4]["kills"]
    assert 30 <= found[5]["interrupts"]
    assert 50 < found[6]["failures"]
    assert (kind == "postgresql") == bool(found[6]["unknown"])


def _parse_number(shown):
    return int(shown.replace(",", "")) if shown.replace(",", "").isdigit() else 0


class TestConflicts:
    """Errors that a backend may raise at any moment, and that ours rarely raise."""

    VERBS = (
        lambda store: store.fork("chat", "fork"),
        lambda store: store.label("chat", "here"),
        lambda store: store.erase(CHAT.entries[0].id, reason="asked"),
        lambda store: store.delete("chat"),
        lambda store: store.collect_garbage(),
    )

    @pytest.mark.parametrize("at", ["begin", "commit"])
    def test_tried_again(self, at):
        """A block that conflicted with another writer is decided anew."""
        backend = MemoryBackend()
        Store(backend).save("chat", CHAT)
        left = 0

        def on_call(call):
            nonlocal left
            if left and (at == "begin" or call.verb == "commit"):
                left -= 1
                raise ConflictError(call)

        store = Store(RecordingBackend(backend, on_call))
        for verb in self.VERBS:
            left = 3
            verb(store)

            assert 0 == left

        assert ("fork",) == store.names()
        assert () == store.verify()

    def test_given_up(self):
        """Where that never ends there is an error in the end."""
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT)
        store.save("gone", Aggregator.new(messages=CHAT))
        store.delete("gone")

        def on_call(call):
            if call.verb == "commit":
                raise ConflictError(call)

        store = Store(RecordingBackend(backend, on_call))
        for verb in self.VERBS:
            with pytest.raises(StoreError, match="gave up after 100 conflicting"):
                verb(store)

        assert CHAT == store.load("chat")


def test_opened_at_once(tmp_path):
    """
    However many processes open a new file at once, it is made once, and no process
    takes it for another program's or gives up.
    """
    barrier = threading.Barrier(12)

    def start(path):
        barrier.wait()
        with open_store(f"sqlite:///{path}") as store:
            return store.names()

    with ThreadPoolExecutor(12) as threads:
        for turn in range(30):
            paths = [tmp_path / f"{turn}.db"] * 12

            assert [()] * 12 == list(threads.map(start, paths))
