"""
Ctrl-C at any moment of a verb leaves the state before it or after it, and nothing that
another thread waits for.
"""

import gc
import sys
import threading
import warnings
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import Store, open_store
from tests.signals import interrupt_by_signals
from tests.store.promises.case import RecordingBackend

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
MORE = CHAT.add_user_prompt("and?")

VERBS = {
    "save": lambda store: store.save("chat", MORE),
    "first save": lambda store: store.save("new", CHAT.fork()),
    "load": lambda store: store.load("chat"),
    "fork": lambda store: store.fork("chat", "new"),
    "erase": lambda store: store.erase(CHAT.entries[0].id, reason="asked"),
    "collect": lambda store: store.collect_garbage(),
}


@pytest.fixture(autouse=True, scope="module")
def _collect_connections():
    yield
    # A connection whose opening was interrupted belongs to no store: it is closed here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=["memory", "sqlite"])
def prepare(request, tmp_path):
    """Makes a store with one conversation."""
    made: list[Any] = []

    def prepare():
        made.append(None)
        # What is in the way for good ends with an error after so long.
        path = f"sqlite:///{tmp_path}/{len(made)}.db?timeout_s=20"
        store = open_store("memory:" if request.param == "memory" else path)
        store.save("chat", CHAT)
        return store

    return prepare


def check_usable(store, completed):
    """
    The store has all of what was interrupted or nothing, and the thread and another one
    go on with it.
    """
    del completed
    before = store.load("chat", at=1).messages
    assert store.load("chat").messages in (CHAT.messages, MORE.messages, before)
    store.save("here", CHAT.fork())
    errors = []

    def go_on():
        try:
            store.save("elsewhere", CHAT.fork())
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    thread.join()
    for error in errors:
        raise error

    assert () == store.verify()
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm signal")
@pytest.mark.parametrize("verb", VERBS)
def test_signals(prepare, verb):
    """A real signal at a random moment leaves the store whole and usable."""
    interrupted = interrupt_by_signals(
        VERBS[verb], check_usable, prepare=prepare, times=30, within_s=0.0008
    )

    assert interrupted


def test_never_ended(prepare):
    """
    A block whose end was never got to has changed nothing once the same thread
    goes on.
    """
    with prepare() as store:
        unfinished = store._cache.backend.writing()
        unfinished.__enter__().add("branches", [(99, 0, 0)])
        store.save("new", CHAT.fork())

        assert () == store.verify()
        assert CHAT == store.load("chat")


def test_in_a_handler(prepare):
    """
    A signal handler that writes, in the middle of a write of the same thread, ends
    that write, and the thread does not wait for itself.
    """
    with prepare() as store:

        def on_call(call):
            if call.verb == "commit":
                store.save("handler", CHAT.fork())

        recording = Store(RecordingBackend(store._cache.backend, on_call))
        with pytest.raises(StoreError, match="try again"):
            recording.save("new", CHAT.fork())

        assert ("chat", "handler") == store.names()
        assert () == store.verify()
