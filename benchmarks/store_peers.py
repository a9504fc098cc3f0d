"""
Four hundred turns of two messages of 500 characters, saved after each message,
beside LangGraph's `SqliteSaver` and OpenAI Agents' `SQLiteSession`: the size
of the file, the time a turn takes, and the time to load the newest state.

Every state is restorable with ours and with LangGraph's: its default channel
writes all messages again into each checkpoint, its delta channel what is new
and a snapshot now and then. The session keeps one list, so only its newest
state is there. A turn of LangGraph's is one run of a graph with one node; what
its saver takes is measured apart, over all its threads, so that it may be more
than the turn. All use a log (WAL), and files count after the last connection
was closed.

Times are CPU time of all threads, in turn: what else a turn waits for is the disk,
which has other work, too.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple, Protocol, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from benchmarks.measure import Row, seconds
from conversation_state import Aggregator, AssistantMessage, UserMessage
from conversation_state.store import open_store

TURNS = 400
TEXT = "x" * 500


class Closes(Protocol):
    """**Protocol:** what is closed after use."""

    def close(self) -> object:
        """Close it."""
        ...


class Kept(NamedTuple):
    """
    What came of all turns.

    Attributes:
        turn_ms: What a turn took, in CPU time as all times.

        saving_ms: What of that the saver took; all, where it does nothing else.

        size: The bytes of the file.

        load_ms: What it took to open the file and load the newest state.
    """

    turn_ms: float
    saving_ms: float
    size: int
    load_ms: float


def kept_of(
    path: Path, turns: Callable[[], float | None], load: Callable[[], int]
) -> Kept:
    """What came of *turns*, which say what of their time was saving, if not all."""
    start = time.process_time()
    saving = turns()
    took = time.process_time() - start
    assert 2 * TURNS == load()
    assert not Path(f"{path}-wal").exists()
    size = path.stat().st_size
    loading = seconds(load) * 1e3
    saving = took if saving is None else saving
    return Kept(took / TURNS * 1e3, saving / TURNS * 1e3, size, loading)


def _make_ours(folder: str, synchronous: str) -> Kept:
    path = Path(folder, "ours.db")
    url = f"sqlite:///{path}?synchronous={synchronous}"

    def turns() -> None:
        state = Aggregator.new()
        with open_store(url) as store:
            for _ in range(TURNS):
                state = state.add(UserMessage(TEXT))
                store.save("chat", state)
                state = state.add(AssistantMessage(TEXT))
                store.save("chat", state)

    def load() -> int:
        with open_store(url) as store:
            return len(store.load("chat"))

    kept = kept_of(path, turns, load)
    with open_store(url) as store:
        for at in (1, TURNS, 2 * TURNS):
            assert at == len(store.load("chat", at=at))

    return kept


def extend(
    before: Sequence[AnyMessage], new: Sequence[Sequence[AnyMessage]]
) -> list[AnyMessage]:
    """
    The messages *before*, and then all that is *new*; what a delta channel asks for.
    """
    return [*before, *(message for each in new for message in each)]


class Whole(TypedDict):
    """The usual state of a graph."""

    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    """The same with the channel that writes what is new."""

    messages: Annotated[list[AnyMessage], DeltaChannel(extend)]


def saver_in(path: Path, synchronous: str) -> tuple[Closes, Any]:
    """LangGraph's own checkpointer, and what is to be closed after it."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection, SqliteSaver(connection)


def langgraph(
    folder: str,
    synchronous: str,
    *,
    delta: bool,
    saver_in: Callable[[Path, str], tuple[Closes, Any]] = saver_in,
) -> Kept:
    """A graph of one node on a checkpointer."""
    total = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                total[0] += time.thread_time() - start

        return call

    path = Path(folder, "langgraph.db")

    def opened() -> tuple[Closes, Any]:
        connection, saver = saver_in(path, synchronous)
        saver.put, saver.put_writes = timed(saver.put), timed(saver.put_writes)
        schema: Any = Delta if delta else Whole
        graph: Any = StateGraph(schema)
        graph.add_node("answer", lambda _state: {"messages": [AIMessage(TEXT)]})
        graph.add_edge(START, "answer")
        return connection, graph.compile(checkpointer=saver)

    config: Any = {"configurable": {"thread_id": "chat"}}

    def turns() -> float:
        connection, graph = opened()
        with closing(connection):
            for _ in range(TURNS):
                graph.invoke({"messages": [HumanMessage(TEXT)]}, config)

        return total[0]

    def load() -> int:
        connection, graph = opened()
        with closing(connection):
            return len(graph.get_state(config).values["messages"])

    return kept_of(path, turns, load)


def session(folder: str) -> Kept:
    """A session of OpenAI's Agents, which has one list."""
    from agents import SQLiteSession

    path = Path(folder, "session.db")

    def turns() -> None:
        async def run() -> None:
            session = SQLiteSession("chat", path)
            for _ in range(TURNS):
                await session.add_items([{"role": "user", "content": TEXT}])
                await session.add_items([{"role": "assistant", "content": TEXT}])

            session.close()

        asyncio.run(run())

    def load() -> int:
        session = SQLiteSession("chat", path)
        items = asyncio.run(session.get_items())
        session.close()
        return len(items)

    return kept_of(path, turns, load)


def in_turn(*runs: Callable[[str], Kept], times: int = 5) -> list[Kept]:
    """
    The medians of several runs of each, in turn: so that a disk that others
    keep busy is as busy for all.
    """
    kept: list[list[Kept]] = [[] for _ in runs]
    for _ in range(times):
        for run, found in zip(runs, kept, strict=True):
            with TemporaryDirectory() as folder:
                found.append(run(folder))

    return [Kept._make(map(median, zip(*found, strict=True))) for found in kept]


def rows() -> Iterator[Row]:
    """Each peer, with both kinds of durability where it can be set."""
    sizes: list[Row] = []
    for synchronous in ("normal", "full"):
        # A full sync is SQLite's default, and the session offers no other.
        quick: dict[str, Callable[[str], Kept]]
        quick = {"": partial(_make_ours, synchronous=synchronous)}
        if synchronous == "full":
            quick["Agents SQLiteSession"] = session

        found = dict(zip(quick, in_turn(*quick.values()), strict=True))
        ours = found.pop("")
        for beside, delta in (
            ("LangGraph, full values", False),
            ("LangGraph, delta channel", True),
        ):
            with TemporaryDirectory() as folder:
                found[beside] = langgraph(folder, synchronous, delta=delta)

        for beside, theirs in found.items():
            claim = f"a turn, {synchronous}"
            yield Row(claim, TURNS, ours.turn_ms, beside, theirs.turn_ms, "ms")
            if theirs.saving_ms != theirs.turn_ms:
                claim = f"its saves alone, {synchronous}"
                yield Row(claim, TURNS, ours.turn_ms, beside, theirs.saving_ms, "ms")

            claim = f"open and load, {synchronous}"
            yield Row(claim, 2 * TURNS, ours.load_ms, beside, theirs.load_ms, "ms")
            if synchronous == "full":
                claim, size = "the file", theirs.size / 1e3
                sizes.append(Row(claim, 2 * TURNS, ours.size / 1e3, beside, size, "kB"))

    yield from sizes
