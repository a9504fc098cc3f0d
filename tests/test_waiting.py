"""The worker threads that wait in the place of tasks."""

import asyncio
import gc
import threading
import weakref
from _thread import allocate_lock
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from conversation_state import _waiting
from conversation_state._waiting import in_worker, run_in_anyio_thread

# Seconds for what comes at once on an idle machine; reached only by a fault.
PATIENCE_S = 60


def run_and_find_thread(patience_s=PATIENCE_S):
    """The thread in which a job ran."""
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
        """A job that never ends does not keep the program running."""
        thread = run_and_find_thread()

        assert thread.daemon
        assert "conversation_state" == thread.name

    @pytest.mark.parametrize("is_locked", [True, False])
    def test_woken_twice(self, is_locked):
        """A worker that found its last job before it was woken takes the next one."""
        worker: Any = object.__new__(_waiting._Worker)
        worker._job, worker._lock = {}, allocate_lock()
        if is_locked:
            worker._lock.acquire()

        assert worker.take(print)
        assert not worker.take(len)
        assert not worker._lock.locked()
        # It has one now, so it may not end, though nothing woke it.
        assert not worker._try_end()


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

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.parametrize("is_shielded", [True, False])
    def test_errors_are_freed(self, backend, is_shielded):
        """An error, and what its traceback holds, does not wait for the collector."""

        class Token:
            pass

        def fail(_token):
            raise ValueError("of the call")

        async def main():
            token = Token()
            freed = weakref.ref(token)
            call = partial(fail, token)
            del token
            with pytest.raises(ValueError, match="of the call"):
                await run_in_anyio_thread(call, is_shielded=is_shielded)

            del call
            # The thread releases its last call a moment after its end.
            for _ in range(1_000):
                if freed() is None:
                    return True

                await anyio.sleep(0.001)

            return False

        gc.disable()
        try:
            assert anyio.run(main, backend=backend)
        finally:
            gc.enable()

    def test_cancelled_before_it_runs(self):
        """
        A call that has to wait for a thread when its task is cancelled never begins.
        """
        calls: list[str] = []

        async def main():
            anyio.to_thread.current_default_thread_limiter().total_tokens = 1
            begun, go_on = threading.Event(), threading.Event()

            def occupy():
                begun.set()
                assert go_on.wait(PATIENCE_S)

            occupied = asyncio.create_task(run_in_anyio_thread(occupy))
            assert await asyncio.to_thread(begun.wait, PATIENCE_S)
            task = asyncio.create_task(run_in_anyio_thread(lambda: calls.append("")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await occupied

        asyncio.run(main())

        assert [] == calls

    @pytest.mark.parametrize("is_shielded", [True, False])
    def test_cancelled_while_it_runs(self, is_shielded):
        """
        A call that has begun is waited for, however often its task is cancelled; what
        went wrong in it is the cause of the cancellation, and nothing of either
        waits for the collector.
        """
        begun, go_on = threading.Event(), threading.Event()

        class Token:
            pass

        def work(_token):
            begun.set()
            assert go_on.wait(PATIENCE_S)
            raise ValueError("of the call")

        async def wait_for(token):
            await run_in_anyio_thread(partial(work, token), is_shielded=is_shielded)

        async def main():
            token = Token()
            freed = weakref.ref(token)
            task = asyncio.create_task(wait_for(token))
            del token
            assert await asyncio.to_thread(begun.wait, PATIENCE_S)
            for _ in range(3):
                task.cancel()
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not task.done()

            go_on.set()
            gc.disable()
            try:
                with pytest.raises(asyncio.CancelledError) as caught:
                    await task
                assert "of the call" == str(caught.value.__cause__)
                del task, caught
                # anyio's thread releases its last call a moment after its end.
                for _ in range(1_000):
                    if freed() is None:
                        break
                    await asyncio.sleep(0.001)
                assert freed() is None
            finally:
                gc.enable()

        asyncio.run(main())
