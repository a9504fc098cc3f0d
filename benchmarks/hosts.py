"""
Four hundred turns of two messages of 500 characters in LangGraph, on our
checkpointer and on its own, whose default channel writes all messages again
into each checkpoint, and its delta channel what is new; and beside both,
OpenAI Agents' `SQLiteSession`, which keeps one list and no past.

A turn is one run of a graph with one node: what LangGraph itself takes is in
it, and all checkpoints are restorable. What the checkpointer takes is told
apart, over all its threads, so that it may be more than the turn. All use a
log (WAL), and files count after the last connection was closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Row
from benchmarks.store_peers import TURNS, Closes, Kept, langgraph, session
from conversation_state.adapters.langgraph import ConversationStateSaver
from conversation_state.store import open_store


def saver_in(path: Path, synchronous: str) -> tuple[Closes, Any]:
    """
    Our checkpointer, and its store.
    """
    store = open_store(f"sqlite:///{path}?synchronous={synchronous}")
    return store, ConversationStateSaver(store)


def rows() -> Iterator[Row]:
    """
    Each peer, at LangGraph's own durability.
    """
    ours = partial(langgraph, synchronous="full", delta=False, saver_in=saver_in)
    peers = {
        "LangGraph, full values": partial(langgraph, synchronous="full", delta=False),
        "LangGraph, delta channel": partial(langgraph, synchronous="full", delta=True),
        "Agents SQLiteSession": session,
    }

    def found(run: Any) -> Kept:
        with TemporaryDirectory() as folder:
            kept: Kept = run(folder)
            return kept

    here = found(ours)
    for beside, run in peers.items():
        there = found(run)
        yield Row("a turn", TURNS, here.turn_ms, beside, there.turn_ms, "ms")
        saved = here.saving_ms, beside, there.saving_ms
        yield Row("its saves alone", TURNS, *saved, "ms")
        loaded = here.load_ms, beside, there.load_ms
        yield Row("open and load", 2 * TURNS, *loaded, "ms")
        sizes = here.size / 1e3, beside, there.size / 1e3
        yield Row("the file", 2 * TURNS, *sizes, "kB")
