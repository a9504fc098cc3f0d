"""
Measuring, with the garbage collector on: memory, and time, which is CPU time of all
threads of this process. Where a server or another process does the work, the clock is
said.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LeftOut", "Row", "bytes_kept", "seconds", "seconds_each"]


class Row(NamedTuple):
    """
    One comparison.

    Attributes:
        claim: What is done.

        n: How large the thing is that it is done to.

        ours: What we take, in *unit*.

        beside: Who the peer is; "" without a peer.

        peer: What it takes.

        unit: ``ns``, ``µs``, ``ms``, ``s``, ``bytes``, ...
    """

    claim: str
    n: int
    ours: float
    beside: str = ""
    peer: float | None = None
    unit: str = "ns"

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's."""
        return self.ours / self.peer if self.peer else None


class LeftOut(NamedTuple):
    """
    Rows that can't be measured here.

    Attributes:
        claim: Which rows.

        why: What is missing for them.

        is_error: Whether something failed that is there.
    """

    claim: str
    why: str
    is_error: bool = False


def seconds(
    function: Callable[[], Any],
    *,
    least: int = 3,
    for_s: float = 0.3,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """
    The shortest of several calls: what the machine can do when left alone.

    Called *least* times, and on until *for_s* seconds of the *clock* are gone.
    """
    best, total, calls = float("inf"), 0.0, 0
    while calls < least or total < for_s:
        start = clock()
        function()
        took = clock() - start
        best, total, calls = min(best, took), total + took, calls + 1

    return best


def seconds_each(
    function: Callable[[], Any],
    *,
    for_s: float = 0.2,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """What one call takes, for calls too short to be timed alone."""
    times = 1
    while True:
        start = clock()
        for _ in range(times):
            function()

        if clock() - start > for_s / 20:
            break

        times *= 4

    def many() -> None:
        for _ in range(times):
            function()

    return seconds(many, for_s=for_s, clock=clock) / times


def bytes_kept(make: Callable[[], Any]) -> int:
    """How much memory what *make* gives keeps alive, in bytes."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = make()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del kept
    return size
