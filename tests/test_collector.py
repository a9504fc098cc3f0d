"""The garbage collector is paused while much is decoded, and is then as it was."""

import gc
import os
import threading
from contextlib import contextmanager

import pytest

from conversation_state import Aggregator, _collector, decode, encode
from conversation_state._collector import collector_paused
from conversation_state.codec import from_data, to_data
from conversation_state.errors import DecodeError
from conversation_state.store import open_store

LONG = Aggregator.new().extend(
    [
        message
        for _ in range(2_000)
        for message in Aggregator.new().add_user_prompt("hi")
    ]
)


@pytest.fixture(autouse=True)
def collector():
    """It is on before a test, and after it."""
    gc.enable()
    yield
    assert gc.isenabled()


def count_collections(work):
    """How many collections there were while *work* ran."""
    seen: list[str] = []
    gc.callbacks.append(lambda phase, _: seen.append(phase))
    try:
        work()
    finally:
        gc.callbacks.pop()

    return seen.count("start")


def test_decode():
    """A long document is decoded without a collection, but for one behind it."""
    data = encode(LONG)

    assert 1 >= count_collections(lambda: decode(data))


def test_from_data():
    """Plain values are read without one, too."""
    data = to_data(LONG)

    assert 1 >= count_collections(lambda: from_data(data))


def test_load():
    """A long conversation is loaded from a store with hardly any."""
    with open_store("memory:", remembered=0) as store:
        store.save("long", LONG)

        assert 3 >= count_collections(lambda: store.load("long"))


def test_errors():
    """It is on again behind a document that is refused."""
    with pytest.raises(DecodeError):
        decode(encode(LONG)[:-100])


@contextmanager
def paused_elsewhere():
    """A thread pauses it meanwhile."""
    inside, go_on = threading.Event(), threading.Event()

    def pause():
        with collector_paused():
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=pause)
    thread.start()
    inside.wait()
    try:
        yield
    finally:
        go_on.set()
        thread.join()


def test_nested():
    """It is on again behind the last of several pauses, also of other threads."""
    with paused_elsewhere():
        with collector_paused(), collector_paused():
            pass

        assert not gc.isenabled()


def test_interrupted(monkeypatch):
    """It is on again behind an interrupt that comes while it is turned on."""
    interrupts = iter([None, KeyboardInterrupt, None])

    class Lock:
        def __enter__(self):
            if interrupt := next(interrupts):
                raise interrupt

        def __exit__(self, *_error):
            pass

    monkeypatch.setattr(_collector, "_lock", Lock())
    with pytest.raises(KeyboardInterrupt), collector_paused():
        pass

    assert gc.isenabled()
    assert [] == [*interrupts]


def test_was_off():
    """One that the program had turned off stays so."""
    gc.disable()
    try:
        decode(encode(LONG))

        assert not gc.isenabled()
    finally:
        gc.enable()


def is_on_in_child():
    """Whether it is on in a child process, and there behind a pause, too."""
    pid = os.fork()
    if not pid:
        is_on = gc.isenabled()
        with collector_paused():
            pass

        os._exit(is_on + 2 * gc.isenabled())

    return {0: False, 3: True}[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks():
    """In a child process it is on, though a thread of the parent had paused it."""
    with paused_elsewhere():
        assert is_on_in_child()

    # One that the program turned off stays so there, too.
    gc.disable()
    try:
        assert not is_on_in_child()
        with paused_elsewhere():
            assert not is_on_in_child()
    finally:
        gc.enable()
