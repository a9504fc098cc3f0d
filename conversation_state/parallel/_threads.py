"""
Threads of a fan-out's own, and interrupts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import TypeVar

from conversation_state._waiting import ThreadWaiter, in_worker

__all__ = ["Threads", "call_shielded", "find_interrupt", "raise_interrupt"]

T = TypeVar("T")

_MAX_THREADS = 32


class Threads:
    """
    Up to 32 threads that run jobs.

    They are daemons, so a step that never ends does not keep the program from
    ending, and they serve the next fan-out as well.

    Takes no lock: jobs and permits are in deques, so an interrupt leaves nothing
    held. A thread that finds no job gives its permit back and then looks once
    more, so a job that was submitted in between is not left behind.
    """

    __slots__ = ("_jobs", "_permits")

    def __init__(self) -> None:
        # Each job is in a deque of its own: the thread that takes it out runs it.
        self._jobs: deque[deque[Callable[[], object]]] = deque()
        self._permits = deque([True] * _MAX_THREADS)

    def submit(self, job: Callable[[], object]) -> None:
        """
        Have *job*, which never raises, run in a thread.

        Raises:
            RuntimeError:
                If no thread can be started; *job* never runs then.
        """
        offered = deque((job,))
        self._jobs.append(offered)
        if _pop_first(self._permits) is None:
            return

        try:
            in_worker(self._run_jobs)
        except RuntimeError:  # no more threads can be started
            self._permits.append(True)
            # The running threads will run the job. If there is none, the job must not
            # run later.
            if len(self._permits) == _MAX_THREADS and _pop_first(offered) is not None:
                raise

    def _run_jobs(self) -> None:
        has_permit = True
        while has_permit:
            while (offered := _pop_first(self._jobs)) is not None:
                job = _pop_first(offered)
                if job is not None:
                    job()

            self._permits.append(True)
            has_permit = bool(self._jobs) and _pop_first(self._permits) is not None


def _pop_first(items: deque[T]) -> T | None:
    try:
        return items.popleft()
    except IndexError:
        return None


def find_interrupt(error: BaseException | None) -> BaseException | None:
    """
    The interrupt that *error* is, or that a group contains, as trio's nurseries
    raise it; any other error that is not an `Exception`, itself; else None.
    """
    if error is None or isinstance(error, Exception):
        return None

    if isinstance(error, BaseExceptionGroup):
        for kind in (KeyboardInterrupt, SystemExit):
            found: BaseException | None = error.subgroup(kind)
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            if found is not None:
                return found

    return error


def raise_interrupt(error: BaseException | None) -> None:
    """
    Raise what `find_interrupt` finds, if it finds anything.
    """
    found = find_interrupt(error)
    if found is error and found is not None:
        raise found
    if found is not None:
        raise found from error


def call_shielded(function: Callable[[], object]) -> None:
    """
    Call *function* in a thread that no signal interrupts.

    Futures and executors of the standard library may stay locked for good if an
    interrupt comes while they enter a lock.
    """
    if current_thread() is not main_thread():
        function()
        return

    waiter = ThreadWaiter()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread, below
            errors.append(error)
        finally:
            waiter.wake()

    try:
        in_worker(call)
    except RuntimeError:  # no more threads can be started
        function()
        return

    waiter.wait()
    for error in errors:
        raise error
