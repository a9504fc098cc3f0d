"""
Blocks of every backend: what they have in common, permits to open them, and what a
child of `os.fork` does with those of its parent.

Threads are interrupted anywhere, from Python 3.14 on also between two steps of a
`with` statement. A permit or lock is released when nothing refers to its holder any
more. A thread that goes on while something still does (a kept traceback) takes it
over from itself.

A child of a fork has the threads' memory and not the threads: locks that another
thread held stay locked, and blocks that another thread had open never end. An object
with such state registers here and replaces it in the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import RLock
from typing import Any, Protocol
from weakref import WeakSet, ref

from conversation_state.store.backend import Key, Row
from conversation_state.store.schema import TABLES, Name, Revision, key_range

BLOCK_ABANDONED = (
    "this thread began another block meanwhile, in a signal handler for example; "
    "nothing was written, try again"
)


class SequentialBlock:
    """A block that has no better way than one range, or one row, after the other."""

    __slots__ = ()

    get: Callable[..., Row | None]
    scan: Callable[..., list[Row]]
    remove: Callable[..., int]

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        return [
            self.scan(table, low, high, columns=columns, limit=limit)
            for low, high in ranges
        ]

    def scan_heads(self, low: str, high: str | None, limit: int) -> list[Row]:
        found = []
        for row in self.scan("names", low, high, limit=limit):
            name = Name._make(row)
            ends = key_range(name.number)
            newest = self.scan("revisions", *ends, limit=1, backwards=True)
            revision = newest[0] if newest else _NO_REVISION
            origin = self.get("origins", Revision._make(revision).origin)
            found.append((*row, *revision, *(origin or _NO_ORIGIN)))

        return found

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        return sum([self.remove(table, low, high) for low, high in ranges])


_NO_REVISION = (None,) * len(TABLES["revisions"].column_names)
_NO_ORIGIN = (None,) * len(TABLES["origins"].column_names)


# A child of `os.fork`


# Everything to renew in a child, as long as it is referenced elsewhere.
_registered: WeakSet[Any] = WeakSet()
# The process that they belong to.
_process = os.getpid()


def renew_in_children(thing: Any) -> None:
    """
    Have `thing.renew()` called in each child of `os.fork`, as long as it is
    referenced elsewhere.
    """
    _registered.add(thing)


def check_process() -> None:
    """
    Renew if this is a child that was forked past Python's hooks.

    Servers that fork in C, such as uWSGI, don't always call Python's hooks.
    """
    if _process != os.getpid():
        _renew_all()


def _renew_all() -> None:
    global _process  # noqa: PLW0603 - the one place that changes it

    _process = os.getpid()
    for thing in list(_registered):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


# Permits


class Permit:
    """
    The right to open one more block.

    One that is dropped, because its holder was interrupted, is replaced.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: SimpleQueue[Permit]) -> None:
        self._queue = ref(queue)

    def __del__(self) -> None:
        queue = self._queue()
        if queue is not None:
            queue.put(Permit(queue))


class Permits:
    """
    A fixed number of permits.

    Attributes:
        free: Those that no block has. A queue rather than a semaphore, which
            hangs for good where a thread is interrupted inside of it.
    """

    def __init__(self, count: int) -> None:
        self.free: SimpleQueue[Permit] = SimpleQueue()
        for _ in range(count):
            self.free.put(Permit(self.free))

    def acquire(self, timeout_s: float) -> Permit | None:
        """A permit; None if none was released for so long."""
        try:
            return self.free.get(timeout=timeout_s)
        except Empty:
            return None


class _Holder(Protocol):
    # Undoes the changes of a block whose end was not reached.
    def abandon(self) -> None: ...


class OneAtATime:
    """
    One block at a time, whichever thread it is of.

    No thread opens two. One that begins another was interrupted before the end
    of the first, or is in a signal handler in the middle of it: the first is
    abandoned.
    """

    def __init__(self) -> None:
        # Its owner is a thread, and known in the same step that takes it: a permit
        # could get lost on its way to the block.
        self._lock: Any = RLock()
        # Changed only by the thread that has the lock. Weak, since the lock is
        # released when nothing else refers to the block.
        self._block: ref[_Holder] | None = None

    def enter(self, block: _Holder, timeout_s: float) -> bool:
        """
        Wait for the turn of *block*; False if it did not come for so long.

        Whatever it raises, `leave` has to be called.
        """
        lock = self._lock
        # By position: half the time.
        if not lock._is_owned() and not lock.acquire(True, timeout_s):  # noqa: FBT003
            return False

        left = self._find_block()
        self._block = ref(block, self._release_dropped)
        if left is not None:
            left.abandon()

        return True

    def leave(self, block: _Holder) -> None:
        """
        The other end of `enter`; nothing if it is not the turn of *block*, or not
        any more.
        """
        if self._lock._is_owned():
            there = self._find_block()
            if there is None or there is block:
                self._block = None
                self._lock.release()

    def _release_dropped(self, block: ref[_Holder]) -> None:
        """The same for a block that was dropped before its end was reached."""
        if self._block is block and self._lock._is_owned():
            self._block = None
            self._lock.release()

    def _find_block(self) -> _Holder | None:
        return None if self._block is None else self._block()
