"""
Ten and a thousand conversations saved at once on one event loop: a message each, into a
file of SQLite, beside a bare insert of the same bytes in worker threads, and Pydantic
AI's own store, which is in memory.

The lag is the longest that the loop came late to a task that sleeps for a millisecond:
what every other request waits. Each call is in a worker thread of anyio, of which there
are 40; the store writes one after the other, as SQLite does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks.measure import LeftOut, Row
from benchmarks.store import TEXT, make_state, open_bare
from conversation_state import UserMessage
from conversation_state.codec import encode_message
from conversation_state.store import open_store

_COUNTS = (10, 1_000)
_TIMES = 3


class _Took(NamedTuple):
    wall_ms: float
    cpu_ms: float
    lag_ms: float


async def _watch_lag(found: list[float]) -> None:
    while True:
        start = perf_counter()
        await asyncio.sleep(0.001)
        found.append(perf_counter() - start - 0.001)


async def _take_all(calls: Sequence[Callable[[], Awaitable[Any]]]) -> _Took:
    """What all *calls* take, begun at once."""
    lags: list[float] = []
    watching = asyncio.create_task(_watch_lag(lags))
    await asyncio.sleep(0.01)
    start, start_cpu = perf_counter(), process_time()
    await asyncio.gather(*[call() for call in calls])
    wall, cpu = perf_counter() - start, process_time() - start_cpu
    await asyncio.sleep(0)
    watching.cancel()
    return _Took(wall * 1e3, cpu * 1e3, max(lags) * 1e3)


def _best(take: Callable[[], _Took]) -> _Took:
    # Of each the best of several: what the machine can do when left alone.
    return _Took(*map(min, zip(*[take() for _ in range(_TIMES)], strict=True)))


def _measure_store(url: str, names: Sequence[str]) -> tuple[_Took, _Took]:
    with open_store(url, remembered=len(names)) as store:
        states = {name: make_state(100) for name in names}
        store.save_all(states)

        def save() -> _Took:
            for name in names:
                states[name] = states[name].add_user_prompt(TEXT)

            saves = [partial(store.asave, *each) for each in states.items()]
            return asyncio.run(_take_all(saves))

        saves = _best(save)
        assert states[names[7]] == store.load(names[7])

    with open_store(url) as store:
        question = UserMessage(TEXT)
        appends = [partial(store.aappend, name, question) for name in names]
        took = _best(lambda: asyncio.run(_take_all(appends)))
        assert 100 + 2 * _TIMES == len(store.load(names[7]))

    return saves, took


def _measure_bare(folder: str, count: int) -> _Took:
    body, lock = encode_message(UserMessage(TEXT)), threading.Lock()
    with closing(open_bare(folder, "normal")) as connection:

        def insert() -> None:
            with lock:
                connection.execute("INSERT INTO bare (body) VALUES (?)", (body,))

        inserts = [partial(asyncio.to_thread, insert)] * count
        took = _best(lambda: asyncio.run(_take_all(inserts)))
        (found,) = connection.execute("SELECT count(*) FROM bare").fetchone()
        assert _TIMES * count == found

    return took


async def _measure_memory(names: Sequence[str]) -> _Took:
    from pydantic_ai import Agent
    from pydantic_ai.conversation_store import InMemoryConversationStore
    from pydantic_ai.models.test import TestModel

    store, agent = InMemoryConversationStore(), Agent(TestModel())
    results = [await agent.run(TEXT, conversation_id=name) for name in names]
    return await _take_all([partial(store.save, result) for result in results])


def rows() -> Iterator[Row | LeftOut]:
    """Saves and appends, and the lag of the loop meanwhile."""
    for count in _COUNTS:
        yield from _measure_saves(count)


def _measure_saves(count: int) -> Iterator[Row | LeftOut]:
    names = [f"user {number}" for number in range(count)]
    with TemporaryDirectory() as folder:
        saves, appends = _measure_store(f"sqlite:///{folder}/chats.db", names)
        bare = _measure_bare(folder, count)

    for what, took in ("asave", saves), ("aappend", appends):
        row = partial(Row, n=count, beside="bare inserts", unit="ms")
        yield row(f"{what}, all at once", ours=took.wall_ms, peer=bare.wall_ms)
        yield row(f"{what}, CPU", ours=took.cpu_ms, peer=bare.cpu_ms)
        yield row(f"{what}, the loop's lag", ours=took.lag_ms, peer=bare.lag_ms)

    try:
        memory = asyncio.run(_measure_memory(names))
    except ImportError:
        yield LeftOut("Pydantic AI", "its conversation stores came with 2.68")
        return

    row = partial(Row, n=count, beside="in memory", unit="ms")
    yield row("asave, beside Pydantic AI's", ours=saves.wall_ms, peer=memory.wall_ms)
    yield row("the loop's lag", ours=saves.lag_ms, peer=memory.lag_ms)
