"""
Saving and loading in PostgreSQL, beside a bare insert of the same bytes in a
transaction, over a connection with the same settings.

A save of one new message is one trip to the server, and costs the same at 10
and at 100,000 messages. Writers of different names don't wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import psycopg

from benchmarks.measure import Row, seconds, seconds_each
from benchmarks.store import TEXT, in_turn, make_state
from conversation_state import Aggregator, UserMessage, decode, encode
from conversation_state.codec import encode_message
from conversation_state.store import open_store
from tests.store.server import Server

_CLOCK = time.perf_counter  # most of what is measured is the server's work
_FOR_S = 4.0
_BODY = encode_message(UserMessage(TEXT))


class Bare:
    """A table of bodies, and a row for each insert."""

    def __init__(self, server: Server, synchronous: str) -> None:
        self._connection = psycopg.connect(
            server.dsn(),
            autocommit=True,
            options=f"-c synchronous_commit={synchronous}",
        )
        self._run_sql("CREATE TABLE IF NOT EXISTS bare (place bigserial, body bytea)")

    def _run_sql(self, sql: str, *given: Any) -> None:
        execute: Any = self._connection.execute
        execute(sql, given or None)

    def insert(self) -> None:
        """One body, in a transaction."""
        self._run_sql("BEGIN")
        self._run_sql("INSERT INTO bare (body) VALUES (%s)", _BODY)
        self._run_sql("COMMIT")

    def read(self, count: int) -> None:
        """So many bodies, in a transaction."""
        self._run_sql("BEGIN")
        self._connection.execute("SELECT body FROM bare LIMIT %s", (count,)).fetchall()
        self._run_sql("COMMIT")

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def _measure_saves(
    server: Server, n: int, synchronous: str, times: int, turns: int
) -> Row:
    options = f"&synchronous_commit={synchronous}"
    bare = Bare(server, synchronous)
    with open_store(server.url(f"saves_{synchronous}_{n}", options)) as store:
        state = make_state(n)
        store.save("chat", state)
        states = [state]
        for _ in range(times * turns):
            states.append(states[-1].add_user_prompt(TEXT))

        rest = iter(states[1:])
        ours, theirs = in_turn(
            lambda: store.save("chat", next(rest)),
            bare.insert,
            times,
            turns,
            clock=_CLOCK,
        )
        assert states[-1] == store.load("chat")

    bare.close()
    beside = "a bare insert"
    return Row(f"PostgreSQL: save, commit {synchronous}", n, ours, beside, theirs, "µs")


def _measure_loads(server: Server, n: int) -> Iterator[Row]:
    url = server.url(f"loads_{n}")
    state = make_state(n)
    with open_store(url) as store:
        store.save("chat", state)
        again = seconds_each(lambda: store.load("chat"), clock=_CLOCK) * 1e6

    with open_store(url) as store:

        def load() -> Aggregator:
            store._cache.forget()
            return store.load("chat")

        wire = encode(state)
        assert state == load()
        read = seconds(lambda: decode(wire), clock=_CLOCK) * 1e3
        whole = seconds(load, clock=_CLOCK) * 1e3
        yield Row("PostgreSQL: load", n, whole, "decode", read, "ms")

    yield Row("PostgreSQL: load what was saved here", n, again, unit="µs")


def _store_writer(url: str, who: int) -> int:
    state, count = Aggregator.new(), 0
    with open_store(url) as store:
        store.save(f"chat {who}", state)
        until = time.monotonic() + _FOR_S
        while time.monotonic() < until:
            state = state.add_user_prompt(TEXT)
            store.save(f"chat {who}", state)
            count += 1

    return count


def _bare_writer(dsn: str) -> int:
    count = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        until = time.monotonic() + _FOR_S
        while time.monotonic() < until:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO bare (body) VALUES (%s)", (_BODY,))
            connection.execute("COMMIT")
            count += 1

    return count


def _measure_writers(server: Server) -> Row:
    url = server.url("writers")
    open_store(url).close()
    Bare(server, "on").close()
    with ProcessPoolExecutor(16, mp_context=get_context("fork")) as processes:
        ours = sum(processes.map(_store_writer, [url] * 16, range(16)))
        theirs = sum(processes.map(_bare_writer, [server.dsn()] * 16))

    claim, beside = "PostgreSQL: a save, 16 writers", "bare inserts"
    return Row(claim, 16, _FOR_S / ours * 1e6, beside, _FOR_S / theirs * 1e6, "µs")


def rows() -> Iterator[Row]:
    """Saves at four lengths, with both kinds of durability; sixteen writers; loads."""
    server = Server()
    try:
        for n in (10, 1_000, 10_000, 100_000):
            yield _measure_saves(server, n, "off", 50, 11)

        for n in (10, 100_000):
            yield _measure_saves(server, n, "on", 10, 7)

        yield _measure_writers(server)
        for n in (10, 1_000, 10_000, 100_000):
            yield from _measure_loads(server, n)
    finally:
        server.stop()
