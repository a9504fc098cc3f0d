"""Steps of pipelines beyond the contract: in async code, and interrupted."""

import asyncio
import gc
import threading
import weakref
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from conversation_state import Aggregator, Usage, fan_out, save_progress
from conversation_state.errors import InvalidUsageError, StoreError
from conversation_state.store import open_store
from conversation_state.store._steps import PipelineStep

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
ANSWERED = CHAT.add_assistant_message("At noon.").add_usage(Usage(7), key="answer")
NOTED = CHAT.add_usage(Usage(5), key="noted")


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    path = f"sqlite:///{tmp_path}/chats.db?timeout_s=20"
    with open_store("memory:" if request.param == "memory" else path) as store:
        store.save("chat", CHAT)
        yield store


def cancel_current_task():
    """Cancel the task that runs this, as asyncio does it."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


class Never:
    """What never ends."""

    def __await__(self):
        yield


def keys(state):
    return [entry.id for entry in state.ledger]


@asynccontextmanager
async def busy_threads():
    """All threads of anyio's default limiter are busy until the block ends."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1
    begun, ended = anyio.Event(), threading.Event()

    def work():
        anyio.from_thread.run_sync(begun.set)
        ended.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, work)
        await begun.wait()
        try:
            yield
        finally:
            ended.set()


class TestStep:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_interrupted(self, store, error):
        """
        After an interrupt the step is not done, and the usage that it had recorded is
        in the ledger; the next run does it.
        """

        def answer(_):
            save_progress(NOTED)
            raise error

        with pytest.raises(error):
            store.step("chat", "answer", answer)

        assert ["noted"] == keys(store.load("chat"))
        assert (
            ANSWERED.messages
            == store.step("chat", "answer", lambda _: ANSWERED).messages
        )
        assert ["answer", "noted"] == sorted(keys(store.load("chat")))
        assert () == store.verify()

    def test_error_outlasts_a_failing_store(self, store):
        """
        Where both the step and the store fail, the step's error is raised, and has a
        note with the usage that is lost.
        """

        def work(state):
            save_progress(state.add_usage(Usage(5)))
            store.close()
            raise TimeoutError("no answer")

        with pytest.raises(TimeoutError, match="no answer") as caught:
            store.step("chat", "answer", work)

        (note,) = caught.value.__notes__
        assert "the usage of the step was not saved" in note

    def test_nested(self, store):
        """
        A step may run steps, of its own name too, and fan out; the usage of each is
        counted once.
        """

        def outer(state):
            inner = store.step("chat", "inner", lambda _: ANSWERED)
            steps = [
                lambda fork, i=i: save_progress(fork.add_usage(Usage(1), key=f"{i}"))
                for i in range(3)
            ]
            return fan_out(inner, steps).state

        done = store.step("chat", "outer", outer)

        assert ["answer", "0", "1", "2"] == keys(done)
        assert ANSWERED.messages == done.messages
        assert done == store.load("chat", at="outer") == store.load("chat")
        assert ANSWERED == store.step("chat", "inner", outer)

    def test_two_usages_under_one_key(self, store):
        """
        A step that records two usages under one key is saved, and an error says
        which of them is not in the ledger.
        """

        def work(state):
            save_progress(state.add_usage(Usage(5), key="answer", model="small"))
            save_progress(NOTED)
            return ANSWERED

        with pytest.raises(InvalidUsageError, match="key 'answer' with Usage\\(5"):
            store.step("chat", "answer", work)

        done = store.load("chat", at="answer")
        assert ANSWERED.messages == done.messages
        assert [("answer", Usage(7)), ("noted", Usage(5))] == [
            entry[:2] for entry in done.ledger
        ]
        assert done == store.step("chat", "answer", work)

    @pytest.mark.parametrize("fails", [False, True])
    def test_another_usage_under_a_recorded_key(self, store, fails):
        """
        What is recorded stays as it is, whatever state a step makes, or fails with.
        """
        store.save("chat", NOTED)

        def work(state):
            again = CHAT.fork().add_usage(Usage(6), key="noted")
            save_progress(again.add_usage(Usage(2), key="new"))
            if fails:
                raise TimeoutError("no answer")

            return again.add_assistant_message("At noon.")

        error = TimeoutError if fails else InvalidUsageError
        with pytest.raises(error) as caught:
            store.step("chat", "answer", work)

        (problem,) = caught.value.__notes__ if fails else caught.value.args
        assert (
            "'noted' with Usage(6) for model '', but the ledger has Usage(5)" in problem
        )
        newest = store.load("chat")
        assert Usage(7) == newest.total_usage
        assert ["noted", "new"] == keys(newest)
        assert (1 if fails else 2) == len(newest)

    def test_closed_coroutine(self, store):
        """
        A coroutine that is closed in the middle of a step leaves the usage it recorded
        in the ledger.
        """

        async def work(state):
            save_progress(NOTED)
            await Never()
            return ANSWERED

        async def run_here(function, **_):
            return function()

        running = PipelineStep(store._cache, "chat", "answer").arun(work, run_here)
        running.send(None)
        running.close()

        assert ["noted"] == keys(store.load("chat"))

    def test_another_usage_in_the_same_step_elsewhere(self, store):
        """
        Where another process did the same step meanwhile, and recorded another
        usage under a key, an error says so; the step is done.
        """

        def work(state):
            store.step("chat", "answer", lambda _: ANSWERED)
            return state.add_usage(Usage(8), key="answer")

        with pytest.raises(InvalidUsageError, match="ledger has Usage\\(7\\)"):
            store.step("chat", "answer", work)

        assert ANSWERED == store.step("chat", "answer", work)


class TestAsync:
    pytestmark = pytest.mark.anyio

    async def test_once(self, store):
        """An async function is awaited here, once."""
        calls = []

        async def work(state):
            calls.append(state)
            await anyio.lowlevel.checkpoint()
            return ANSWERED

        for _ in range(2):
            assert ANSWERED == await store.astep("chat", "answer", work)

        assert [CHAT] == calls
        assert ANSWERED == store.step("chat", "answer", lambda _: CHAT)

    async def test_error_is_freed(self, store):
        """
        The error of a step, which holds its state, does not wait for the collector.
        """
        freed = []

        class NoAnswerError(Exception):
            def __init__(self):
                freed.append(weakref.ref(self))

        async def work(state):
            await anyio.lowlevel.checkpoint()
            raise NoAnswerError

        gc.disable()
        try:
            with pytest.raises(NoAnswerError):
                await store.astep("chat", "answer", work)

            # The thread that looked for its usage may hold it for a moment.
            for _ in range(1_000):
                if freed[0]() is None:
                    break

                await anyio.sleep(0.001)

            assert freed[0]() is None
        finally:
            gc.enable()

    async def test_cancelled(self, store):
        """The same where the task is cancelled."""

        async def work(state):
            save_progress(NOTED)
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            await store.astep("chat", "answer", work)

        assert tasks.cancel_scope.cancelled_caught
        assert ["noted"] == keys(store.load("chat"))

    async def test_cancelled_too_late(self, store):
        """What a function has made is saved although the task was cancelled."""

        async def work(state):
            tasks.cancel_scope.cancel()
            return ANSWERED

        async with anyio.create_task_group() as tasks:
            await store.astep("chat", "answer", work)
            await anyio.lowlevel.checkpoint()

        assert tasks.cancel_scope.cancelled_caught
        assert ANSWERED == store.load("chat", at="answer")

    @pytest.mark.parametrize("fails", [False, True])
    async def test_busy_threads(self, store, fails):
        """What was made, or noted, is saved while all other threads are busy."""

        async def run():
            with anyio.CancelScope() as scope:
                await store.astep("chat", "answer", partial(work, scope))

            ended.set()

        async def work(scope, state):
            save_progress(NOTED)
            begun.set()
            await may_end.wait()
            scope.cancel()
            if fails:
                await anyio.sleep_forever()

            return ANSWERED

        begun, may_end, ended = anyio.Event(), anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await begun.wait()
            async with busy_threads():
                may_end.set()
                await ended.wait()

        newest = store.load("chat")
        assert (["noted"] if fails else ["answer", "noted"]) == keys(newest)
        assert fails == (() == store.latest("chat").labels)

    async def test_plain_function(self, store):
        """A function that is not async is refused, with what takes it."""
        with pytest.raises(TypeError, match="step takes it"):
            await store.astep("chat", "answer", lambda state: state)


class TestAsyncio:
    """
    The same where asyncio's own `cancel` stops the task, as `asyncio.timeout` does:
    no scope of anyio holds that off.
    """

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.mark.parametrize("fails", [False, True])
    async def test_cancel_is_pending(self, store, fails):
        """
        What was made, or noted, is saved although a cancel comes with the
        function's end.
        """

        async def work(state):
            save_progress(NOTED)
            cancel_current_task()
            if fails:
                raise TimeoutError("no answer")

            return ANSWERED

        task = asyncio.create_task(store.astep("chat", "answer", work))
        with pytest.raises(asyncio.CancelledError):
            await task

        newest = store.load("chat")
        assert (["noted"] if fails else ["answer", "noted"]) == keys(newest)
        assert (() if fails else ("answer",)) == store.latest("chat").labels

    @pytest.mark.parametrize("times", [1, 2, 5])
    async def test_cancelled_again(self, store, times):
        """What was noted is saved, however often the task is cancelled."""
        begun = asyncio.Event()

        async def work(state):
            save_progress(NOTED)
            begun.set()
            await anyio.sleep_forever()

        task = asyncio.create_task(store.astep("chat", "answer", work))
        await begun.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)

        with pytest.raises(asyncio.CancelledError):
            await task

        assert ["noted"] == keys(store.load("chat"))

    async def test_save_fails_after_a_cancel(self, store):
        """
        A cancelled task stays cancelled where the save fails, and says why it did.
        """

        async def work(state):
            store.close()
            cancel_current_task()
            return ANSWERED

        task = asyncio.create_task(store.astep("chat", "answer", work))
        with pytest.raises(asyncio.CancelledError) as caught:
            await task

        assert isinstance(caught.value.__cause__, StoreError)
