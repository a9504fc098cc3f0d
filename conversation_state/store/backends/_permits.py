"""
Permits: how many blocks there may be at once, and one at a time.

Threads are interrupted anywhere, from Python 3.14 on also between two steps of a
`with` statement. A permit or lock is released when nothing refers to its holder any
more. A thread that goes on while something still does (a kept traceback) takes it
over from itself.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import RLock
from typing import Any, Protocol
from weakref import ref

__all__ = ["OneAtATime", "Permit", "Permits"]


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
        """
        A permit; None if none was released for so long.
        """
        try:
            return self.free.get(timeout=timeout_s)
        except Empty:
            return None


class _Block(Protocol):
    """
    **Protocol:** a block whose turn it may be.
    """

    def abandon(self) -> None:
        """
        Undo the changes of a block whose end was not reached.
        """
        ...


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
        self._block: ref[_Block] | None = None

    def enter(self, block: _Block, timeout_s: float) -> bool:
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

    def leave(self, block: _Block) -> None:
        """
        The other end of `enter`; nothing if it is not the turn of *block*, or not
        any more.
        """
        if self._lock._is_owned():
            there = self._find_block()
            if there is None or there is block:
                self._block = None
                self._lock.release()

    def _release_dropped(self, block: ref[_Block]) -> None:
        """
        The same for a block that was dropped before its end was reached.
        """
        if self._block is block and self._lock._is_owned():
            self._block = None
            self._lock.release()

    def _find_block(self) -> _Block | None:
        return None if self._block is None else self._block()
