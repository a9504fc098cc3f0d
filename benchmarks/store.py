"""
Saving and loading, in one file of SQLite, beside a bare insert of the same
bytes into a table with the same settings.

A save of one new message costs the same at 10 and at 100,000 messages, and 2.6 to
3 times the bare insert in CPU time if nothing waits for the disk: 1.7 times for SQLite,
which writes a second row and its page and looks at the condition, the rest in Python.
800 messages of 500 characters, saved after each of them with every state
restorable, take a file of 1.4 to 1.6 times their JSON.

In a store that is open, 10,000 messages load in 1.8 times the CPU time of decoding
them, 1,000 in 2.6 and 100 in 2.8: a message takes SQLite 0.7 of what it takes to
decode one of 1,000, and its checksum 0.4. To open the file takes as long as to decode
500 to 800 messages: half of it is SQLite's, for the log beside it and the schema.

A label takes as long behind 3,000 others; where one revision has them all, 4 to 7 times
as long, since the row of that revision and the head have each.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Row, seconds, seconds_each
from conversation_state import (
    Aggregator,
    AssistantMessage,
    UserMessage,
    decode,
    encode,
)
from conversation_state.codec import encode_message
from conversation_state.store import Store, open_store

TEXT = "x" * 500


def make_state(n: int) -> Aggregator:
    """A state of *n* messages of 500 characters."""
    messages = [
        AssistantMessage(TEXT) if i % 2 else UserMessage(TEXT) for i in range(n)
    ]
    return Aggregator.new(messages=messages)


def open_bare(folder: str, synchronous: str) -> sqlite3.Connection:
    """A file with a table of bodies, for any thread, with the settings of a store."""
    path = f"{folder}/bare.db"
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for setting in (
        "journal_mode = WAL",
        f"synchronous = {synchronous}",
        f"wal_autocheckpoint = {4000 if synchronous == 'normal' else 250}",
        "secure_delete = ON",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()

    connection.execute("CREATE TABLE bare (place INTEGER PRIMARY KEY, body BLOB)")
    return connection


def in_turn(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    times: int,
    turns: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """
    The median of what both take by the *clock*, in microseconds a call, in turns of
    *times*: so that a busy machine is as busy for both.
    """
    took: tuple[list[float], list[float]] = [], []
    for _ in range(turns):
        for function, kept in zip((ours, theirs), took, strict=True):
            start = clock()
            for _ in range(times):
                function()

            kept.append((clock() - start) / times * 1e6)

    return sorted(took[0])[turns // 2], sorted(took[1])[turns // 2]


def _measure_saves(n: int, synchronous: str, times: int, turns: int) -> Row:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/chats.db?synchronous={synchronous}"
        store, connection = open_store(url), open_bare(folder, synchronous)
        state = make_state(n)
        store.save("chat", state)
        states = [state]
        for _ in range(times * turns):
            states.append(states[-1].add_user_prompt(TEXT))

        body, rest = encode_message(UserMessage(TEXT)), iter(states[1:])
        sql = "INSERT INTO bare (body) VALUES (?)"
        ours, theirs = in_turn(
            lambda: store.save("chat", next(rest)),
            lambda: connection.execute(sql, (body,)),
            times,
            turns,
        )
        assert states[-1] == store.load("chat")
        assert states[n] == store.load("chat", at=n + 1) if n < len(states) else True
        store.close()
        connection.close()

    beside = "a bare insert"
    return Row(f"save a message, {synchronous}", n, ours, beside, theirs, "µs")


def _measure_size() -> Row:
    with TemporaryDirectory() as folder:
        state = Aggregator.new()
        with open_store(f"sqlite:///{folder}/chats.db") as store:
            for message in make_state(800):
                state = state.add(message)
                store.save("chat", state)

            assert 400 == len(store.load("chat", at=400))

        size = (Path(folder) / "chats.db").stat().st_size
        raw = sum([len(encode_message(message)) for message in state])

    beside = "their JSON"
    return Row("a file, 800 states saved", 800, size / 1e3, beside, raw / 1e3, "kB")


def _load_from_new_store(url: str) -> Callable[[], Any]:
    def load() -> Aggregator:
        store: Store
        with open_store(url) as store:
            return store.load("chat")

    return load


def _measure_loads(n: int) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/chats.db"
        state = make_state(n)
        with open_store(url) as store:
            store.save("chat", state)
            again = seconds_each(lambda: store.load("chat")) * 1e6
            window = seconds_each(lambda: store.load("chat", last=20)) * 1e6

        wire, load = encode(state), _load_from_new_store(url)
        assert state == load()
        read = seconds(lambda: decode(wire)) * 1e3
        whole = seconds(load) * 1e3
        with open_store(url, remembered=0) as store:
            assert state == store.load("chat")
            opened = seconds(lambda: store.load("chat")) * 1e3

        yield Row("open and load", n, whole, "decode", read, "ms")
        yield Row("load, opened before", n, opened, "decode", read, "ms")
        yield Row("load what was saved here", n, again, unit="µs")
        yield Row("load the last 20", n, window, unit="µs")


def _measure_siblings(n: int) -> Row:
    """Saves under one name that did not grow from its head, behind *n* of them."""
    start = make_state(20)
    others = [start.add_user_prompt(f"{number}") for number in range(n + 50)]
    with TemporaryDirectory() as folder:
        store: Store
        with open_store(f"sqlite:///{folder}/chats.db") as store:
            head = store.save("chat", start)
            for other in others[:n]:
                head = store.save("chat", other, expecting=head)

            rest = iter(others[n:])

            def save() -> None:
                nonlocal head
                head = store.save("chat", next(rest), expecting=head)

            took = seconds(save, least=50, for_s=0)

    return Row("save a sibling, behind so many", n, took * 1e6, unit="µs")


def _measure_labels(n: int) -> Iterator[Row]:
    """Labels on the newest revision of a name with *n* that have one, and with *n*."""
    with TemporaryDirectory() as folder:
        store: Store
        with open_store(f"sqlite:///{folder}/chats.db") as store:
            state = Aggregator.new()
            for number in range(n):
                state = state.add_user_prompt(TEXT)
                store.save("many", state, label=f"saved {number}")

            store.save("one", state)
            for number in range(n):
                store.label("one", f"label {number}")

            labels = (f"newer {number}" for number in count())
            for claim, name in (
                ("label a revision, behind so many labels", "many"),
                ("label the one that has so many", "one"),
            ):
                label = partial(_take_label, store, name, labels)
                took = seconds(label, least=20, for_s=0) * 1e6
                yield Row(claim, n, took, unit="µs")


def _take_label(store: Store, name: str, labels: Iterator[str]) -> None:
    store.label(name, next(labels))


def rows() -> Iterator[Row]:
    """
    Saves at four lengths, with both kinds of durability, and of siblings; labels; a
    file's size; loads.
    """
    yield _measure_size()
    for n in (10, 1_000, 10_000, 100_000):
        yield _measure_saves(n, "normal", 100, 15)

    for n in (10, 10_000):
        yield _measure_saves(n, "full", 10, 5)

    for n in (30, 3_000):
        yield _measure_siblings(n)
        yield from _measure_labels(n)

    for n in (10, 1_000, 10_000, 100_000):
        yield from _measure_loads(n)
