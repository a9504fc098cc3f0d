"""
Branches and cells, beside the least that could do.

Joining a thousand branches of ten messages takes 4 to 8 ms, with turns
of threads and with unpickled ones, whatever the state remembers. A swap takes
1.4 times what making the next state takes, which a lock around a list need not
make. A step costs at most three times what mapping forks over the same pool
does, and seven times with threads of its own. Out goes the state, pickled once; back
comes what was added.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock, Thread
from typing import Any

from benchmarks.measure import Row, seconds, seconds_each
from conversation_state import Aggregator, UserMessage, encode
from conversation_state.cells import Cell
from conversation_state.parallel import fan_out, save_progress
from conversation_state.parallel._branches import ForkedStep, Past, run_branch

MESSAGE = UserMessage("When is the next train?")
BRANCHES = 1_000


def _make_state(n: int) -> Aggregator:
    prompts = (UserMessage(f"{number:08}" + "x" * 192) for number in range(n))
    return Aggregator.new(messages=prompts)


def _make_branch(number: int, past: Past) -> ForkedStep:
    """What an executor is given of a step."""
    return ForkedStep(number, say_ten, past)


def _run(branch: ForkedStep) -> Any:
    outcome = run_branch(branch)
    assert outcome is not None
    return outcome


def say_ten(state: Aggregator) -> Aggregator:
    """Ten messages of two hundred characters."""
    prompts = (
        UserMessage(f"{state.id}{number:04}" + "x" * 160) for number in range(10)
    )
    return state.extend(prompts)


def _return_same(state: Aggregator) -> Aggregator:
    return state


def _measure_joins() -> Iterator[Row]:
    for n in (100, 10_000):
        state = _make_state(n)
        past = Past(state)
        turns = [_run(_make_branch(number, past)).turn for number in range(BRANCHES)]
        shipped = pickle.loads(pickle.dumps(turns))
        assert n + 10 * BRANCHES == len(state.join(*shipped))
        for name, some in (("of threads", turns), ("unpickled", shipped)):
            took = seconds(partial(state.join, *some)) * 1e3
            yield Row(f"join 1,000 turns of ten messages, {name}", n, took, unit="ms")


def _measure_bytes() -> Iterator[Row]:
    for n in (100, 10_000):
        state = _make_state(n)
        past = Past(state)
        out = [pickle.dumps(_make_branch(number, past)) for number in range(2)]
        back = _run(pickle.loads(out[0]))
        turn = back.turn
        peer = len(encode(state))
        yield Row("bytes out to a step", n, len(out[0]), "encode", peer, "bytes")
        peer = len(encode(turn))
        size = len(pickle.dumps(back))
        yield Row("bytes back with ten messages", n, size, "encode", peer, "bytes")
        took = seconds(partial(pickle.dumps, _make_branch(3, past))) * 1e6
        each = seconds(partial(pickle.dumps, state)) * 1e6
        yield Row("pickle the next branch", n, took, "the state", each, "µs")


def _measure_swaps() -> Iterator[Row]:
    cell: Cell[Aggregator] = Cell(Aggregator.new())
    lock, messages = Lock(), []

    class Bare:
        value = Aggregator.new()

    def swap() -> None:
        cell.swap(_add_message)

    def locked() -> None:
        with lock:
            messages.append(MESSAGE)

    def bare() -> None:
        Bare.value = _add_message(Bare.value)

    ours = seconds_each(swap) * 1e9
    for beside, function in (("bare attribute", bare), ("lock, list", locked)):
        peer = seconds_each(function) * 1e9
        yield Row("swap in one more message", 1, ours, beside, peer)

    ours = seconds_each(lambda: cell.value) * 1e9
    yield Row(
        "read the value", 1, ours, "attribute", seconds_each(lambda: Bare.value) * 1e9
    )

    for threads in (1, 16):
        times = 16_000 // threads

        def swaps(threads: int = threads, times: int = times) -> None:
            shared = Cell(Aggregator.new())
            _at_once(threads, times, partial(shared.swap, _add_message))
            assert 16_000 == len(shared.value)

        def locks(threads: int = threads, times: int = times) -> None:
            shared: list[Any] = []

            def append() -> None:
                with lock:
                    shared.append(MESSAGE)

            _at_once(threads, times, append)
            assert 16_000 == len(shared)

        ours, peer = seconds(swaps) / 16_000 * 1e9, seconds(locks) / 16_000 * 1e9
        yield Row("swap, so many threads at once", threads, ours, "lock, list", peer)


def _add_message(state: Aggregator) -> Aggregator:
    return state.add(MESSAGE)


def _at_once(threads: int, times: int, function: Callable[[], object]) -> None:
    def work() -> None:
        for _ in range(times):
            function()

    started = [Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def _fanning_out() -> Iterator[Row]:
    state = _make_state(1_000)
    with ThreadPoolExecutor(8) as pool:
        for k in (1, 10, 100, 1_000):
            steps = [_return_same] * k

            def mapped(k: int = k) -> None:
                forks = [state.fork() for _ in range(k)]
                assert state is state.join(*pool.map(_return_same, forks))

            peer = seconds(mapped) / k * 1e6
            for name, executor in (("a pool", pool), ("threads of its own", None)):
                claim = f"fan_out, a step that does nothing, {name}"
                took = seconds(partial(fan_out, state, steps, executor=executor)) / k
                yield Row(claim, k, took * 1e6, "executor.map", peer, "µs")

    yield Row(
        "save_progress, outside of a step",
        1,
        seconds_each(lambda: save_progress(state)) * 1e9,
    )
    took_each: list[float] = []

    def step(fork: Aggregator) -> Aggregator:
        grown = fork

        def grow() -> None:
            nonlocal grown
            grown = save_progress(grown.add(MESSAGE))

        def alone() -> None:
            nonlocal grown
            grown = grown.add(MESSAGE)

        took_each.append(seconds_each(grow) - seconds_each(alone))
        return fork

    fan_out(state, [step])
    yield Row("save_progress, in a step, after each message", 1, took_each[0] * 1e9)


def rows() -> Iterator[Row]:
    """Rows for joining, bytes, cells and fan-outs."""
    yield from _measure_joins()
    yield from _measure_bytes()
    yield from _measure_swaps()
    yield from _fanning_out()
