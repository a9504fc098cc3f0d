"""
The worker threads that wait in the place of tasks.
"""

import threading
from _thread import allocate_lock
from typing import Any

import anyio
import anyio.to_thread
import pytest

from conversation_state import _waiting
from conversation_state._waiting import in_worker, run_in_anyio_thread

# Seconds for what comes at once on an idle machine; reached only by a fault.
PATIENCE_S = 60


def run_and_find_thread(patience_s=PATIENCE_S):
    """
    The thread in which a job ran.
    """
    found: list[threading.Thread] = []
    done = threading.Event()

    def job():
        found.append(threading.current_thread())
        done.set()

    in_worker(job)
    assert done.wait(patience_s)
    return found[0]


class TestWorkers:
    def test_idle_ones_end(self, monkeypatch):
        """
        A worker without a job ends after a while, and the next job has another one.
        """
        monkeypatch.setattr(_waiting, "_IDLE_S", 0.001)
        first = run_and_find_thread()
        first.join(PATIENCE_S)

        assert not first.is_alive()
        assert first is not run_and_find_thread()

    def test_daemons(self):
        """
        A job that never ends does not keep the program running.
        """
        assert run_and_find_thread().daemon

    @pytest.mark.parametrize("is_locked", [True, False])
    def test_woken_twice(self, is_locked):
        """
        A worker that found its last job before it was woken takes the next one.
        """
        worker: Any = object.__new__(_waiting._Worker)
        worker._job, worker._lock = {}, allocate_lock()
        if is_locked:
            worker._lock.acquire()

        assert worker.take(print)
        assert not worker.take(len)
        assert not worker._lock.locked()


class TestThreadsOfTasks:
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.parametrize("is_shielded", [True, False])
    def test_limit(self, backend, is_shielded):
        """
        A shielded call takes no place of anyio's limited threads, so that it begins
        however many of these are busy; any other call takes one.
        """

        async def main():
            limiter = anyio.to_thread.current_default_thread_limiter()
            return await run_in_anyio_thread(
                lambda: limiter.borrowed_tokens, is_shielded=is_shielded
            )

        assert (not is_shielded) == anyio.run(main, backend=backend)
