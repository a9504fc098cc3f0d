"""
Threads of a fan-out's own.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from conversation_state._waiting import in_worker

__all__ = ["Threads"]

_MOST = 32


class Threads:
    """
    As much of an executor as a fan-out asks for: 32 threads at most.

    They are daemons, so a step that never ends does not keep the program from
    ending, and they serve the next fan-out as well.
    """

    __slots__ = ("_jobs", "_lock", "_working")

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[[Any], Any], Any]] = deque()
        self._lock = allocate_lock()
        self._working = 0

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """
        A future of ``function(argument)``.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._jobs.append((future, function, argument))
            if self._working == _MOST:
                return future

            self._working += 1

        try:
            in_worker(self._work)
        except RuntimeError:  # there are no more threads to be had
            with self._lock:
                self._working -= 1
                # Those there are do it, or have done so by now.
                if not self._working and self._jobs:
                    self._jobs.pop()
                    raise

        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._working -= 1
                    return

                future, function, argument = self._jobs.popleft()

            if future.set_running_or_notify_cancel():
                try:
                    result = function(argument)
                except BaseException as error:  # noqa: BLE001 - the future's to tell
                    future.set_exception(error)
                else:
                    future.set_result(result)

            del future, function, argument
