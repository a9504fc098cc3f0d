"""
Turns of two messages of 500 characters in the hosts: on our store, and on what
each host has itself.

- *LangGraph*: a run of a graph with one node, so that what LangGraph itself takes
  is in a turn. Its default channel writes all messages again into each checkpoint,
  its delta channel what is new; with all of them every checkpoint is restorable.
  What the checkpointer takes is measured apart. A turn is 0.8 to 0.9 times one with
  the delta channel, whose values LangGraph itself rebuilds in each turn, and its saves
  alone 2.1 to 2.6 times the delta channel's: a save writes the conversation as well,
  with a revision, and compares every message with what it was, since callers may
  change messages (an eighth of it). Both commit about five times a turn, which is a
  quarter of our saves and more than half of the delta channel's. To skip what each
  save reads first, where no other connection wrote, would save 9 % of ours at most.
  To open and load is 1.1 to 1.6 times the delta channel's: each row's two digests are
  computed, and a message is made twice, as ours and as LangChain's. An eighth of it
  is the collector's, which walks these objects.
- *OpenAI Agents*: two calls of `add_items`, as a run makes them. `SQLiteSession`
  keeps one list, and no past; a turn takes 0.9 to 1.2 times its time.
- *Pydantic AI*: one `save` of a run's result. Its own store is in memory.

All files use a log (WAL) and a full sync, as SQLite does by default, and count
after the last connection was closed. Times are CPU time of all threads, in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from benchmarks.measure import LeftOut, Row
from benchmarks.store_peers import (
    TEXT,
    TURNS,
    Closes,
    Kept,
    in_turn,
    kept_of,
    langgraph,
    session,
)
from conversation_state.hosts.agents import StoreSession
from conversation_state.hosts.langgraph import ConversationStateSaver
from conversation_state.store import open_store

_OPTIONS = "?synchronous=full"


def saver_in(path: Path, synchronous: str) -> tuple[Closes, Any]:
    """Our checkpointer, and its store."""
    store = open_store(f"sqlite:///{path}?synchronous={synchronous}")
    return store, ConversationStateSaver(store)


def _langgraph_rows() -> Iterator[Row]:
    run = partial(langgraph, synchronous="full", delta=False)
    peers = {
        "LangGraph, full values": run,
        "LangGraph, delta channel": partial(run, delta=True),
    }
    ours, *found = in_turn(partial(run, saver_in=saver_in), *peers.values(), times=3)
    for beside, theirs in zip(peers, found, strict=True):
        row = partial(Row, beside=beside, unit="ms")
        yield row("LangGraph: a turn", TURNS, ours.turn_ms, peer=theirs.turn_ms)
        yield row("its saves alone", TURNS, ours.saving_ms, peer=theirs.saving_ms)
        yield row("open and load", 2 * TURNS, ours.load_ms, peer=theirs.load_ms)
        size = ours.size / 1e3
        yield Row("the file", 2 * TURNS, size, beside, theirs.size / 1e3, "kB")


def _our_session(folder: str) -> Kept:
    path = Path(folder, "session.db")
    open_session = partial(StoreSession.from_url, f"sqlite:///{path}{_OPTIONS}", "chat")

    def turns() -> None:
        async def run() -> None:
            async with open_session() as session:
                for _ in range(TURNS):
                    await session.add_items([{"role": "user", "content": TEXT}])
                    await session.add_items([{"role": "assistant", "content": TEXT}])

        asyncio.run(run())

    def load() -> int:
        with open_session() as session:
            return len(asyncio.run(session.get_items()))

    return kept_of(path, turns, load)


def _agents_rows() -> Iterator[Row]:
    ours, theirs = in_turn(_our_session, session, times=3)
    row = partial(Row, beside="Agents SQLiteSession", unit="ms")
    yield row("Agents: a turn", TURNS, ours.turn_ms, peer=theirs.turn_ms)
    yield row("open and load", 2 * TURNS, ours.load_ms, peer=theirs.load_ms)


async def _save_runs(store: Any) -> tuple[float, float]:
    """The milliseconds of a save, and of a load of the conversation at the end."""
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.models.test import TestModel

    agent = Agent(TestModel(custom_output_text=TEXT))
    limits = UsageLimits(request_limit=None)
    result = await agent.run(TEXT, conversation_id="chat")
    await store.save(result)
    saving = loading = 0.0
    for _ in range(TURNS // 4):
        start = process_time()
        conversation = await store.load("chat")
        loading = process_time() - start
        result = await agent.run(TEXT, conversation=conversation, usage_limits=limits)
        start = process_time()
        await store.save(result)
        saving += process_time() - start

    return saving / (TURNS // 4) * 1e3, loading * 1e3


def _pydantic_ai_rows() -> Iterator[Row | LeftOut]:
    try:
        from pydantic_ai.conversation_store import InMemoryConversationStore
    except ImportError:
        yield LeftOut("Pydantic AI", "its conversation stores came with 2.68")
        return

    from conversation_state.hosts.pydantic_ai import StoreBackend

    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/conversations.db{_OPTIONS}"
        with StoreBackend.from_url(url) as backend:
            saving, loading = asyncio.run(_save_runs(backend))

    theirs = asyncio.run(_save_runs(InMemoryConversationStore()))
    row = partial(Row, beside="in memory", unit="ms")
    yield row("Pydantic AI: a save, in a file", TURNS // 4, saving, peer=theirs[0])
    yield row("a load", TURNS // 2, loading, peer=theirs[1])


def rows() -> Iterator[Row | LeftOut]:
    """Each host beside its own."""
    yield from _langgraph_rows()
    yield from _agents_rows()
    yield from _pydantic_ai_rows()
