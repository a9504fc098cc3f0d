"""
A server that keeps no state in memory, as `examples/stateless_server.py` is one: it
appends the question, makes a view of at most 7,000 tokens, and appends the answer.

A turn takes as long at 100 messages as at 1,000,000, and with thousands of
conversations in turn as with one; those are of 10 to 100,000 messages, most of them
short. On PostgreSQL, here on the same machine, it is 8 round trips to the server, and
12 in long conversations: 1.5 to 2.6 times what two bare inserts and a query take, each
in its transaction. To load, trim, add and save takes 5 to 11 times as long at 100
messages, and a hundred times at 10,000.

A request is such a turn with what Starlette takes, and each call in a worker thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, cycle, islice
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks.measure import Row, seconds
from benchmarks.postgres import Bare
from benchmarks.store import TEXT, in_turn, make_state
from conversation_state import AssistantMessage, Usage, UserMessage, trim
from conversation_state.messages import ResponseMeta
from conversation_state.store import Store, open_store
from examples.stateless_server import BUDGET, create_app
from tests.store.server import Server

_UNCOUNTED, _TURNS = 20, 400
_MOST_LOADED = 10_000  # more takes seconds a turn
_answers = count()


def _fill(store: Store, name: str, n: int) -> None:
    state = make_state(n)
    for i in range(min(n // 2, 10_000)):
        state = state.add_usage(Usage(500, 5), key=f"request-{i}", model="m")

    store.save(name, state)


def _fill_many(store: Store, names: Sequence[str]) -> list[str]:
    """
    Conversations of 10 messages, each tenth as many with ten times as many; a part of
    the names, in which are all the long ones.
    """
    for start in range(0, len(names), 1000):
        few = names[start : start + 1000]
        store.save_all({name: make_state(10) for name in few})

    found: list[str] = []
    for part, n in ((20, 90), (200, 900), (2_000, 9_000), (10_000, 90_000)):
        longer = names[part - 1 :: part]
        found = [*longer, *found]
        for name in longer:
            store.append(name, *make_state(n))

    spread = [*found[: _TURNS // 2], *names[:: max(len(names) // _TURNS, 1)]]
    return list(dict.fromkeys(spread))[:_TURNS]


def take_turn(store: Store, name: str) -> None:
    """What the server does with the store."""
    meta = ResponseMeta(id=f"r-{next(_answers)}", usage=Usage(500, 5), model="m")
    store.append(name, UserMessage(TEXT))
    store.view(name, BUDGET)
    store.append(name, AssistantMessage(TEXT, response=meta))


def _load_and_save(store: Store) -> None:
    state = store.load("chat").add_user_prompt(TEXT)
    store.save("chat", state)
    trim(state, BUDGET)
    store.save("chat", store.load("chat").add_assistant_message(TEXT))


async def _answer(_asked: Any) -> AssistantMessage:
    meta = ResponseMeta(id=f"r-{next(_answers)}", usage=Usage(500, 5), model="m")
    return AssistantMessage(TEXT, response=meta)


def _measure(take: Callable[[str], Any], names: Sequence[str]) -> list[float]:
    """Of turns in all *names* in turn: p50 and p99 by the wall, and p50 in CPU time."""
    for name in islice(cycle(names), _UNCOUNTED):
        take(name)

    wall, cpu = [], []
    for name in islice(cycle(names), _TURNS):
        start, start_cpu = perf_counter(), process_time()
        take(name)
        wall.append(perf_counter() - start)
        cpu.append(process_time() - start_cpu)

    wall, cpu, middle = sorted(wall), sorted(cpu), _TURNS // 2
    return [1e3 * s for s in (wall[middle], wall[-_TURNS // 100], cpu[middle])]


def _rows(what: str, n: int, measured: list[float]) -> Iterator[Row]:
    for shown, took in zip(("p50", "p99", "p50, CPU"), measured, strict=True):
        yield Row(f"{what}, {shown}", n, took, unit="ms")


def _request(app: Any, loop: asyncio.AbstractEventLoop) -> Callable[[str], None]:
    """A function that has *app* answer a question, without a network."""
    body = json.dumps({"text": TEXT}).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    def ask(name: str) -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": f"/{name}"}
        scope |= {"root_path": "", "query_string": b"", "headers": []}
        loop.run_until_complete(app(scope, receive, send))
        assert sent[0]["status"] == 200, sent

    return ask


def _measure_lengths(backend: str, url: str, n: int) -> Iterator[Row]:
    with open_store(url) as store:
        _fill(store, "chat", n)

    with open_store(url, remembered=0) as store:
        take = partial(take_turn, store)
        yield from _rows(f"{backend}: a turn", n, _measure(take, ["chat"]))
        if n <= _MOST_LOADED:
            took = seconds(partial(_load_and_save, store)) * 1e3
            yield Row(f"{backend}: load, trim, save", n, took, unit="ms")


def _measure_bare(server: Server, n: int) -> Row:
    """A turn beside two bare inserts and a bare query of 64 rows, in turn."""
    bare = Bare(server, "on")
    for _ in range(64):
        bare.insert()

    def take_bare_turn() -> None:
        bare.insert()
        bare.read(64)
        bare.insert()

    with open_store(server.url(f"turns_{n}"), remembered=0) as store:
        take = partial(take_turn, store, "chat")
        ours, theirs = in_turn(take, take_bare_turn, 10, 21, clock=perf_counter)

    bare.close()
    claim, beside = "PostgreSQL: a turn", "bare transactions"
    return Row(claim, n, ours / 1e3, beside, theirs / 1e3, "ms")


def _measure_names(
    backend: str, url: str, n: int, loop: asyncio.AbstractEventLoop
) -> Iterator[Row]:
    with open_store(url) as store:
        names = _fill_many(store, [f"user {number}" for number in range(n)])

    with open_store(url) as store:
        take = partial(take_turn, store)
        ask = _request(create_app(store, _answer), loop)
        for what, function in (("a turn", take), ("a request", ask)):
            measured = _measure(function, names)
            yield from _rows(f"{backend}: {what}, names in turn", n, measured)


def _rows_of(backend: str, make_url: Callable[[str], str]) -> Iterator[Row]:
    for n in (100, 10_000, 1_000_000):
        yield from _measure_lengths(backend, make_url(f"turns_{n}"), n)

    loop = asyncio.new_event_loop()
    try:
        for n in (1, 100, 10_000):
            yield from _measure_names(backend, make_url(f"names_{n}"), n, loop)
    finally:
        loop.close()


def rows() -> Iterator[Row]:
    """Turns at three lengths, and in up to 10,000 conversations, on both databases."""
    with TemporaryDirectory() as folder:
        yield from _rows_of("SQLite", lambda name: f"sqlite:///{folder}/{name}.db")

    server = Server()
    try:
        yield from _rows_of("PostgreSQL", server.url)
        for n in (100, 1_000_000):
            yield _measure_bare(server, n)
    finally:
        server.stop()
