"""
Ctrl-C at every moment of a verb leaves the state before it or after it, and
nothing that another thread waits for.
"""

import sys
import threading
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.store import open_store
from tests.interrupts import interrupt_at_each_opcode, interrupt_by_signals

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
MORE = CHAT.add_user_prompt("and?")

# What is in the way of a store for good ends with an error after so long.
PATIENCE = "?timeout_s=20"

VERBS = {
    "save": lambda store: store.save("chat", MORE),
    "first save": lambda store: store.save("new", CHAT.fork()),
    "load": lambda store: store.load("chat"),
    "fork": lambda store: store.fork("chat", "new"),
    "erase": lambda store: store.erase(CHAT.entries[0].id, reason="asked"),
    "collect": lambda store: store.collect_garbage(),
}


def check_whole(store, completed):
    """
    The store has all of what was interrupted or nothing, and another thread goes
    on with it.
    """
    del completed
    assert store.load("chat").messages in (
        CHAT.messages,
        MORE.messages,
        store.load("chat", at=1).messages,
    )
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


def check_usable(store, completed):
    """The same, and nothing is damaged; closes the store."""
    check_whole(store, completed)
    assert () == store.verify()
    store.close()


@pytest.fixture(params=["memory", "sqlite"])
def prepare(request, tmp_path):
    """Makes a store with one conversation."""
    made: list[Any] = []

    def prepare():
        url = "memory:"
        if request.param == "sqlite":
            made.append(None)
            url = f"sqlite:///{tmp_path}/{len(made)}.db{PATIENCE}"

        store = open_store(url)
        store.save("chat", CHAT)
        return store

    return prepare


def keep_error(verb):
    """
    A verb whose interrupt is kept with its traceback, as a console does: that has
    the frames of the block, and what the block had acquired.
    """
    errors: list[BaseException] = []

    def run(store):
        errors.clear()
        try:
            verb(store)
        except KeyboardInterrupt as error:
            errors.append(error)
            raise

    return run


def dropped(*verbs):
    return [pytest.param(VERBS[verb], False, id=verb) for verb in verbs]


def kept(*verbs):
    return [pytest.param(VERBS[verb], True, id=f"{verb}-kept") for verb in verbs]


def goes_on(check):
    """What holds after the interrupted thread itself went on."""

    def check_after(store, completed):
        store.save("here", CHAT.fork())
        check(store, completed)

    return check_after


@pytest.mark.parametrize(
    ("verb", "is_kept"), [*dropped(*VERBS), *kept("save", "load", "erase")]
)
def test_each_instruction(prepare, verb, is_kept):
    """
    Before each instruction where the interpreter looks for signals, whether or not
    the error is kept: others may then wait until the thread itself goes on.
    """
    moments = interrupt_at_each_opcode(
        keep_error(verb) if is_kept else verb,
        goes_on(check_usable) if is_kept else check_usable,
        prepare=prepare,
        modules=[
            "conversation_state.store._transaction",
            "conversation_state.store.backends.memory",
            "conversation_state.store.backends._blocks",
            "conversation_state.store.backends._sqlite",
            "conversation_state.store.backends._sqlite_block",
            "conversation_state.store.backends._sqlite_connection",
        ],
        only_where_signals_arrive=True,
    )

    assert 30 < moments


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm signal")
@pytest.mark.parametrize("verb", ["save", "first save", "erase"])
def test_signals(prepare, verb):
    """By a real signal at a random moment."""
    interrupted = interrupt_by_signals(
        VERBS[verb], check_usable, prepare=prepare, times=60, within_s=0.0008
    )

    assert interrupted
