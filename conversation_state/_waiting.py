"""
Waiting, in threads and in tasks, and being woken from either.

For streams, cells and branches, which all wait for threads and tasks at once.

A waiter is put into queues and woken by whoever takes it out. Queues are
deques, whose single operations are atomic: finalizers put and take as well,
at moments when this very thread may hold any lock.
"""

from __future__ import annotations

import contextvars
import os
import sys
from _thread import allocate_lock
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from functools import cache
from threading import Thread
from typing import Any

from conversation_state.errors import MissingExtraError

__all__ = [
    "TaskWaiter",
    "ThreadWaiter",
    "Waiter",
    "call_soon",
    "in_worker",
    "running_loop",
    "spawn",
    "the_anyio",
    "wake_all",
]


@cache
def the_anyio(wanted: str = "streams in async code") -> Any:
    """
    The package anyio.

    Args:
        wanted: What needs it.

    Raises:
        MissingExtraError:
            If it is not installed.
    """
    try:
        import anyio  # noqa: PLC0415 - an extra
        import anyio.lowlevel  # noqa: PLC0415 - the same
        import anyio.to_thread  # noqa: PLC0415 - the same
    except ImportError as error:
        raise MissingExtraError(wanted, "anyio") from error

    return anyio


def running_loop() -> Any:
    """
    The event loop that runs in this thread; None if there is none.
    """
    # Nobody runs under trio without having imported it, and asking anyio which
    # of the two it is takes longer.
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token()

    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_soon(loop: Any, function: Callable[[], object]) -> bool:
    """
    Whether *loop* will call *function*; False if it has ended.
    """
    soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    try:
        soon(function)
    except RuntimeError:
        return False

    return True


def spawn(loop: Any, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """
    Run *function* as a task of *loop*, which runs here.

    Nobody's nursery is open for it. Both kinds of loop cancel such a task when
    they end; it must raise nothing else.
    """
    if hasattr(loop, "create_task"):
        loop.create_task(function())
    else:
        spawn_in_trio = sys.modules["trio"].lowlevel.spawn_system_task
        spawn_in_trio(function, context=contextvars.copy_context())


class Waiter:
    """
    Somebody who waits, and the queues they wait in.
    """

    __slots__ = ("places",)

    # Whether a thread waits here, and so can't run an event loop meanwhile.
    blocks: bool

    places: list[deque[Waiter]]

    def __init__(self) -> None:
        self.places = []

    def enter(self, place: deque[Waiter]) -> None:
        """
        Queue up.
        """
        place.append(self)
        self.places.append(place)

    def leave(self) -> None:
        """
        Leave all queues.
        """
        for place in self.places:
            try:  # noqa: SIM105 - quicker than suppress
                place.remove(self)
            except ValueError:
                pass

    @abstractmethod
    def wake(self) -> None:
        """
        Let them go on; may be called from anywhere, and more than once.
        """


class ThreadWaiter(Waiter):
    """
    A thread that waits.
    """

    __slots__ = ("_lock",)

    blocks = True

    def __init__(self) -> None:
        super().__init__()
        self._lock = allocate_lock()
        self._lock.acquire()

    def wait(self, timeout_s: float = -1) -> None:
        """
        Return once woken, or after *timeout_s* seconds if that is not negative.
        """
        self._lock.acquire(timeout=timeout_s)

    def wake(self) -> None:
        try:  # noqa: SIM105 - quicker than suppress
            self._lock.release()
        except RuntimeError:  # woken before
            pass


class TaskWaiter(Waiter):
    """
    A task that waits.
    """

    __slots__ = ("_event", "_loop")

    blocks = False

    def __init__(self) -> None:
        super().__init__()
        self._event = the_anyio().Event()
        self._loop = running_loop()

    async def wait(self) -> None:
        """
        Return once woken.
        """
        await self._event.wait()

    def wake(self) -> None:
        if running_loop() is self._loop:
            self._event.set()
        else:
            call_soon(self._loop, self._event.set)


def wake_all(place: deque[Waiter]) -> None:
    """
    Empty a queue.
    """
    while place:
        try:
            waiter = place.popleft()
        except IndexError:
            return

        waiter.wake()


# Workers: threads that pull from sources that block, while somebody waits for
# more than one source or must not block, and threads that run branches.

_IDLE_S = 10

_idle: deque[_Worker] = deque()
if hasattr(os, "register_at_fork"):  # threads don't come along; not on Windows
    os.register_at_fork(after_in_child=_idle.clear)


class _Worker:
    """
    A thread that does one job after the other, and ends when it gets none.
    """

    __slots__ = ("_lock", "job")

    def __init__(self, job: Callable[[], object]) -> None:
        self.job: Callable[[], object] | None = job
        self._lock = allocate_lock()
        self._lock.acquire()
        # A job that blocks for ever must not keep the program from ending.
        Thread(target=self._work, name="conversation_state", daemon=True).start()

    def wake(self) -> None:
        self._lock.release()

    def _work(self) -> None:
        while self.job is not None:
            self.job()
            self.job = None
            _idle.append(self)
            if not self._lock.acquire(timeout=_IDLE_S):
                try:
                    _idle.remove(self)
                except ValueError:  # somebody has a job, in this very moment
                    self._lock.acquire()


def in_worker(job: Callable[[], object]) -> None:
    """
    Have *job*, which never raises, done in a thread, in this context.
    """
    context = contextvars.copy_context()

    def work() -> None:
        context.run(job)

    try:
        worker = _idle.pop()
    except IndexError:
        _Worker(work)
    else:
        worker.job = work
        worker.wake()
