"""
States, every one kept, beside what people keep today.

Adding a message takes 1.2 µs and at most 450 bytes for a state that is kept,
and at most 1.6 times what a bare append to the pure Python pvector takes; a
fork and a checkpoint take 1 µs; a join grows with what both sides added since
they parted. Flat from 10 to 1,000,000 messages, where copying a list, shallow
or deep, grows with the square of its length.

Ten thousand forks join one after another in 1.3 times what they take in one call. A
copy that was decoded is compared once, in less than half the time that decoding it
took, and then known. So is the first `add_usage` with a key on a decoded ledger, which
makes its index; the next one takes microseconds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

from pyrsistent._pvector import python_pvector

from benchmarks.measure import Row, bytes_kept, seconds, seconds_each
from conversation_state import Aggregator, Usage, UserMessage, decode, encode

SIZES = (10, 1_000, 10_000, 100_000, 1_000_000)
MESSAGE = UserMessage("When is the next train?")


NOTHING = Aggregator.new()


def _keep_states(n: int) -> list[Any]:
    state = NOTHING
    states = [state] * n
    for i in range(n):
        state = state.add(MESSAGE)
        states[i] = state

    return states


def _keep_vectors(n: int) -> list[Any]:
    vector: Any = python_pvector()  # type: ignore[no-untyped-call]
    vectors = [vector] * n
    for i in range(n):
        vector = vector.append(MESSAGE)
        vectors[i] = vector

    return vectors


def _keep_lists(n: int) -> list[Any]:
    messages: list[Any] = []
    kept = [messages] * n
    for i in range(n):
        messages = [*messages, MESSAGE]
        kept[i] = messages

    return kept


def _keep_deep_copies(n: int) -> list[Any]:
    messages: list[Any] = []
    kept = [messages] * n
    for i in range(n):
        messages.append({"role": "user", "content": "When is the next train?"})
        kept[i] = copy.deepcopy(messages)

    return kept


def _repeat_making(times: int, make: Callable[[int], Any], n: int) -> None:
    for _ in range(times):
        make(n)


def rows() -> Iterator[Row]:
    """Rows for adding, forking and joining."""
    for n in SIZES:
        yield from _measure_adding(n)

    for n in SIZES:
        yield from _measure_branching(n)

    state = NOTHING.extend([MESSAGE] * 10)
    forks = [state.fork().extend([MESSAGE] * 10) for _ in range(1_000)]
    assert 10_010 == len(state.join(*forks))
    took = seconds(lambda: state.join(*forks)) * 1e3
    yield Row("join 1,000 forks with ten messages each", 1_000, took, unit="ms")
    for n in (100, 10_000):
        forks = [state.fork().extend([MESSAGE] * 10) for _ in range(n)]
        ours = seconds(partial(_join_one_by_one, state, forks), for_s=0.1)
        peer = seconds(partial(state.join, *forks), for_s=0.1)
        row = partial(Row, "join forks one by one, each", n, ours / n * 1e6)
        yield row("in one call", peer / n * 1e6, "µs")

    for n in (1_000, 100_000):
        yield from _measure_copies(n)


def _join_one_by_one(state: Any, forks: list[Any]) -> Any:
    for fork in forks:
        state = state.join(fork)

    return state


def _measure_copies(n: int) -> Iterator[Row]:
    state = NOTHING.extend([MESSAGE] * n)
    for i in range(n):
        state = state.add_usage(Usage(1), key=f"request-{i}")

    wire = encode(state)
    copied, decoding = _time(partial(decode, wire))
    _, first = _time(partial(state.join, copied))
    _, again = _time(partial(state.join, copied))
    billed, indexing = _time(partial(copied.add_usage, Usage(1), key="first"))
    _, billing = _time(partial(billed.add_usage, Usage(1), key="next"))
    row = partial(Row, n=n, beside="decode", peer=decoding, unit="ms")
    yield row("join a decoded copy", ours=first)
    yield row("join it again", ours=again)
    yield row("its first add_usage with a key", ours=indexing)
    yield row("the next one", ours=billing)


def _time(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a single call gives, and its milliseconds: the next may take less."""
    started = process_time()
    found = function()
    return found, (process_time() - started) * 1e3


def _measure_adding(n: int) -> Iterator[Row]:
    times = max(1, 2_000 // n)
    each = 1e9 / (n * times)
    ours = seconds(partial(_repeat_making, times, _keep_states, n)) * each
    for beside, make, most in (
        ("pvector, pure Python", _keep_vectors, 1_000_000),
        ("copy of a list", _keep_lists, 10_000),
        ("copy.deepcopy of dicts", _keep_deep_copies, 1_000),
    ):
        if n <= most:
            peer = seconds(partial(_repeat_making, times, make, n)) * each
            yield Row("add, every state kept", n, ours, beside, peer)

    if n <= 100_000:
        kept = bytes_kept(partial(_keep_states, n)) / n
        peer = bytes_kept(partial(_keep_vectors, n)) / n
        beside = "pvector, pure Python"
        yield Row("memory of a kept state", n, kept, beside, peer, "bytes")


def _measure_branching(n: int) -> Iterator[Row]:
    state = NOTHING.extend([MESSAGE] * n)
    one = state.fork().extend([MESSAGE] * 10)
    two = state.fork().extend([MESSAGE] * 10)
    joined = state.join(one, two)
    assert n + 20 == len(joined)
    assert joined is joined.join(one)
    for claim, function in (
        ("fork", state.fork),
        ("checkpoint", state.checkpoint),
        ("join two forks with ten messages each", partial(state.join, one, two)),
        ("join what is there already", partial(joined.join, two)),
    ):
        yield Row(claim, n, seconds_each(function) * 1e9)
