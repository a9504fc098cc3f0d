"""Threads, and what streams are made of, for tests that must not hang."""

import threading
import time
from typing import Any

import pytest

from conversation_state import streams

pipe: Any = streams.pipe


class Thing:
    """Something that can be weakly referred to."""


class Boom(Exception):  # noqa: N818 - a word to look for
    """An error of a source's own."""

    partial: Any


def start(function, *arguments):
    """A daemon thread that runs *function*."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def finish(*threads):
    """Join *threads*, in a minute at most."""
    for thread in threads:
        thread.join(60)

        assert not thread.is_alive(), "a thread hangs"


def in_threads(*functions):
    """What each gave, or raised, run at once."""
    gave: list[Any] = [None] * len(functions)
    barrier = threading.Barrier(len(functions))

    def run(n, function):
        barrier.wait(60)
        try:
            gave[n] = function()
        except BaseException as error:  # noqa: BLE001 - a thread's outcome
            gave[n] = error

    finish(*[start(run, *pair) for pair in enumerate(functions)])
    return gave


def until(condition):
    """Return once *condition* holds; in a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            pytest.fail("never happened")

        time.sleep(0.001)


def when(condition, function):
    """A function that waits until *condition* holds, then calls *function*."""

    def wait():
        until(condition)
        return function()

    return wait


def sent(*items):
    """A closed pipe's stream: exceptions among *items* are sent as errors."""
    sender, stream = pipe(len(items))
    for item in items:
        if isinstance(item, Exception):
            sender.fail(item)
        else:
            sender.send(item)

    sender.close()
    return stream
