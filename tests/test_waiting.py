"""Calls of tasks in worker threads, and their cancellation."""

import asyncio
import gc
import threading
import time
from functools import partial
from weakref import ref

import anyio
import anyio.to_thread
import pytest

from conversation_state._waiting import (
    run_in_anyio_thread,
    running_loop,
    start_task,
)

# Seconds for what comes at once on an idle machine; reached only by a fault.
PATIENCE_S = 60


def test_a_task_that_ended_is_freed():
    """Of a task that ran in the background nothing is kept once it has ended."""

    async def main():
        tasks = []
        ended = asyncio.Event()

        async def work():
            tasks.append(ref(asyncio.current_task()))
            ended.set()

        start_task(work)
        await ended.wait()
        await asyncio.sleep(0)
        gc.collect()
        assert tasks[0]() is None

    asyncio.run(main())


def test_a_task_lives_until_it_ends():
    """A task that runs in the background is no garbage while it waits."""
    ended = []

    async def main():
        waiting = []

        async def work():
            future = asyncio.get_running_loop().create_future()
            waiting.append(ref(future))
            ended.append(await future)

        start_task(work)
        await asyncio.sleep(0)
        gc.collect()
        future = waiting[0]()
        assert future is not None
        future.set_result(1)
        await asyncio.sleep(0)

    asyncio.run(main())

    assert [1] == ended


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_of_a_worker_thread(backend):
    """What a worker thread starts is a task of the event loop it works for."""
    loops = []

    async def main():
        ended = anyio.Event()

        async def work():
            loops.append(running_loop())
            ended.set()

        await anyio.to_thread.run_sync(start_task, work)
        with anyio.fail_after(PATIENCE_S):
            await ended.wait()

        assert [running_loop()] == loops

    anyio.run(main, backend=backend)


class TestThreadsOfTasks:
    @pytest.mark.parametrize("options", [{}, {"is_shielded": True}])
    def test_cancelled_before_it_runs(self, options):
        """
        A call that has to wait for a thread when its task is cancelled never begins;
        one that is shielded runs.
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
            task = asyncio.create_task(
                run_in_anyio_thread(lambda: calls.append(""), **options)
            )
            # One that is shielded has a thread at once, and is done soon.
            for _ in range(1 if options else 10):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await occupied

        asyncio.run(main())

        assert [""] * len(options) == calls

    @pytest.mark.parametrize("is_shielded", [True, False])
    def test_cancelled_while_it_runs(self, is_shielded):
        """
        A call that has begun is waited for, however often its task is cancelled; what
        went wrong in it is the cause of the cancellation.
        """
        begun, go_on = threading.Event(), threading.Event()

        def work():
            begun.set()
            assert go_on.wait(PATIENCE_S)
            raise ValueError("of the call")

        async def main():
            task = asyncio.create_task(
                run_in_anyio_thread(work, is_shielded=is_shielded)
            )
            assert await asyncio.to_thread(begun.wait, PATIENCE_S)
            for _ in range(3):
                task.cancel()
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not task.done()

            go_on.set()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert "of the call" == str(caught.value.__cause__)

        asyncio.run(main())

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_threads_are_limited(self, backend):
        """As many calls run at once as the program lets worker threads be."""
        running: list[int] = []
        most: list[int] = []

        def work():
            running.append(1)
            most.append(len(running))
            time.sleep(1e-3)
            running.pop()

        async def main():
            anyio.to_thread.current_default_thread_limiter().total_tokens = 1
            async with anyio.create_task_group() as group:
                for _ in range(9):
                    group.start_soon(run_in_anyio_thread, work)

        anyio.run(main, backend=backend)

        assert [1] * 9 == most

    def test_waits_idly(self):
        """
        Cancelled by asyncio and by a scope around it, a task waits for its call without
        running again and again.
        """
        begun, go_on = threading.Event(), threading.Event()

        def work():
            begun.set()
            assert go_on.wait(PATIENCE_S)

        async def main():
            scope = anyio.CancelScope()

            async def call():
                with scope:
                    await run_in_anyio_thread(work)

            task = asyncio.create_task(call())
            assert await asyncio.to_thread(begun.wait, PATIENCE_S)
            task.cancel()
            await asyncio.sleep(0)
            scope.cancel()
            for _ in range(20):
                await asyncio.sleep(0)

            cancelled = task.cancelling()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

            assert cancelled <= 2

        asyncio.run(main())

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.parametrize("is_shielded", [True, False])
    def test_cancelled_at_random_moments(self, backend, is_shielded):
        """
        Whatever the moment, no call runs on once its task has ended, and a shielded one
        has run.
        """
        running: list[int] = []
        ran: list[int] = []

        def work(number):
            running.append(number)
            time.sleep(number % 3 * 1e-4)
            ran.append(running.pop())

        async def main():
            for number in range(100):
                async with anyio.create_task_group() as group:
                    group.start_soon(
                        partial(
                            run_in_anyio_thread,
                            partial(work, number),
                            is_shielded=is_shielded,
                        )
                    )
                    await anyio.sleep(number % 7 * 1e-4)
                    group.cancel_scope.cancel()

                assert not running

        anyio.run(main, backend=backend)

        assert len(ran) == len({*ran})
        if is_shielded:
            # A task that is cancelled before it begins runs nothing at all.
            assert 80 <= len(ran)
