"""
Loads the conversations of a large file in other processes, while this one reads and
saves.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeAlias

from conversation_state.cli import _formats
from conversation_state.cli._formats import FoundConversation
from conversation_state.cli._values import JsonValue
from conversation_state.errors import DecodeError

Loaded: TypeAlias = FoundConversation | DecodeError

# From this size of a file on, in bytes: starting a process takes half a second.
LARGE_BYTES = 32 << 20
# So much is loaded at a time, and so many of such batches wait for each worker; what
# comes while that many wait is loaded here.
_BATCH_BYTES = 1 << 20
_MAX_WAITING = 2
_MAX_WORKERS = 4
# How many more objects there are before the next collection; none is in a cycle.
_GC_THRESHOLDS = (50_000, 20, 100)


class ParallelLoader:
    """
    Values that are being loaded, in order.

    Where no processes can be started, or one ends, values are loaded in this one.
    """

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self._batch: list[JsonValue] = []
        self._size = 0
        self._waiting: deque[tuple[list[JsonValue], Future[list[Loaded]] | None]] = (
            deque()
        )
        self._count = max(1, min(_MAX_WORKERS, (os.cpu_count() or 1) - 1))
        self._pool: ProcessPoolExecutor | None = None
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*_GC_THRESHOLDS)

    def add(self, value: JsonValue) -> Iterator[tuple[JsonValue, Loaded]]:
        """Add *value*; what was loaded of those before it."""
        self._batch.append(value)
        self._size += value.size
        if self._size >= _BATCH_BYTES:
            self._submit_values()

        while len(self._waiting) > (_MAX_WAITING + 1) * self._count:
            yield from self._take_loaded()

    def finish(self) -> Iterator[tuple[JsonValue, Loaded]]:
        """All that is not given yet."""
        self._submit_values()
        while self._waiting:
            yield from self._take_loaded()

    def close(self) -> None:
        gc.set_threshold(*self._thresholds)
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _submit_values(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return

        future = None
        busy = sum(each is not None and not each.done() for _, each in self._waiting)
        if busy >= _MAX_WAITING * self._count:
            self._waiting.append((batch, None))
            return

        try:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    self._count, multiprocessing.get_context("spawn"), _prepare_worker
                )

            data = [value.data for value in batch]
            # A Ctrl-C while a process starts would print a traceback there.
            with _hold_interrupts():
                future = self._pool.submit(load_all, data, self._format)
        except (OSError, NotImplementedError, RuntimeError):
            pass  # without semaphores, say; the last is of one that is broken

        self._waiting.append((batch, future))

    def _take_loaded(self) -> Iterator[tuple[JsonValue, Loaded]]:
        batch, future = self._waiting.popleft()
        loaded: list[Loaded] | None = None
        if future is not None:
            try:
                loaded = future.result()
            except BrokenProcessPool:
                self.close()

        if loaded is None:
            loaded = load_all([value.data for value in batch], self._format)

        yield from zip(batch, loaded, strict=True)


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    # Processes inherit the mask.
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover - Windows
        yield
        return

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def load_all(data: list[Any], format_name: str) -> list[Loaded]:
    """What is in each of *data*, or why nothing is."""
    loaded: list[Loaded] = []
    for each in data:
        try:
            loaded.append(_formats.load(each, format_name))
        except DecodeError as error:
            loaded.append(error)

    return loaded


def _prepare_worker() -> None:
    # The process that reads gets the error; it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*_GC_THRESHOLDS)
