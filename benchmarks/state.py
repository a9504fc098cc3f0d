"""
States, every one kept, beside what people keep today.

Adding a message takes 1.2 µs and at most 450 bytes for a state that is kept,
and at most 1.6 times what a bare append to the pure Python pvector takes; a
fork and a checkpoint take 1 µs; a join grows with what both sides said since
they parted. Flat from 10 to 1,000,000 messages, where copying a list, shallow
or deep, grows with the square of the talk.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pyrsistent._pvector import python_pvector

from benchmarks.measure import Row, bytes_kept, seconds, seconds_each
from conversation_state import Aggregator, UserMessage

SIZES = (10, 1_000, 10_000, 100_000, 1_000_000)
MESSAGE = UserMessage("When is the next train?")


NOTHING = Aggregator.new()


def _states(n: int) -> list[Any]:
    state = NOTHING
    states = [state] * n
    for i in range(n):
        state = state.add(MESSAGE)
        states[i] = state

    return states


def _vectors(n: int) -> list[Any]:
    vector: Any = python_pvector()
    vectors = [vector] * n
    for i in range(n):
        vector = vector.append(MESSAGE)
        vectors[i] = vector

    return vectors


def _lists(n: int) -> list[Any]:
    messages: list[Any] = []
    kept = [messages] * n
    for i in range(n):
        messages = [*messages, MESSAGE]
        kept[i] = messages

    return kept


def _deep(n: int) -> list[Any]:
    messages: list[Any] = []
    kept = [messages] * n
    for i in range(n):
        messages.append({"role": "user", "content": "When is the next train?"})
        kept[i] = copy.deepcopy(messages)

    return kept


def rows() -> Iterator[Row]:
    """
    Rows for adding, forking and joining.
    """
    for n in SIZES:
        times = max(1, 2_000 // n)
        each = 1e9 / (n * times)
        claim = "add, every state kept"
        ours = seconds(lambda n=n, times=times: [_states(n) for _ in range(times)]) * each
        for beside, make, most in (
            ("pvector, pure Python", _vectors, 1_000_000),
            ("copy of a list", _lists, 10_000),
            ("copy.deepcopy of dicts", _deep, 1_000),
        ):
            if n <= most:
                theirs = seconds(
                    lambda n=n, times=times, make=make: [make(n) for _ in range(times)]
                )
                yield Row(claim, n, ours, beside, theirs * each)

        if n <= 100_000:
            theirs = bytes_kept(lambda n=n: _vectors(n)) / n
            kept = bytes_kept(lambda n=n: _states(n)) / n
            yield Row("memory of a kept state", n, kept, "pvector, pure Python", theirs, "bytes")

    for n in SIZES:
        state = Aggregator.new(messages=[MESSAGE] * n)
        yield Row("fork", n, seconds_each(state.fork) * 1e9)
        yield Row("checkpoint", n, seconds_each(state.checkpoint) * 1e9)
        one = state.fork().extend([MESSAGE] * 10)
        two = state.fork().extend([MESSAGE] * 10)
        joined = state.join(one, two)
        assert n + 20 == len(joined)
        assert joined is joined.join(one)
        yield Row(
            "join two forks that said ten each",
            n,
            seconds_each(lambda state=state, one=one, two=two: state.join(one, two)) * 1e6,
            unit="µs",
        )
        yield Row(
            "join what is there already",
            n,
            seconds_each(lambda joined=joined, two=two: joined.join(two)) * 1e6,
            unit="µs",
        )

    state = Aggregator.new().extend([MESSAGE] * 10)
    forks = [state.fork().extend([MESSAGE] * 10) for _ in range(1_000)]
    assert 10_010 == len(state.join(*forks))
    took = seconds(lambda: state.join(*forks)) * 1e3
    yield Row("join 1,000 forks that said ten each", 1_000, took, unit="ms")
