"""
Steps of pipelines beyond the contract: in async code, and interrupted.
"""

import anyio
import anyio.lowlevel
import pytest

from conversation_state import Aggregator, Usage, fan_out, save_progress
from conversation_state.errors import StoreError
from conversation_state.store import open_store
from conversation_state.store._steps import PipelineStep
from tests.interrupts import interrupt_at_each_opcode

TALK = Aggregator.new().add_user_prompt("When is the next train?")
ANSWERED = TALK.add_assistant_message("At noon.").add_usage(Usage(7), key="answer")
NOTED = TALK.add_usage(Usage(5), key="noted")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    path = f"sqlite:///{tmp_path}/talks.db?timeout_s=20"
    with open_store("memory:" if request.param == "memory" else path) as store:
        store.save("talk", TALK)
        yield store


class Never:
    """
    What never ends.
    """

    def __await__(self):
        yield


def keys(state):
    return [entry.id for entry in state.ledger]


class TestStep:
    def test_interrupted(self, tmp_path):
        """
        Ctrl-C at every moment leaves the step done, or not done and what was noted
        paid; the next run does it if it was not.
        """
        made: list[None] = []

        def prepare():
            made.append(None)
            path = tmp_path / f"{len(made)}.db"
            store = open_store(f"sqlite:///{path}?timeout_s=20")
            store.save("talk", TALK)
            return store, []

        def answer(calls, state):
            save_progress(NOTED)
            calls.append(state)
            return ANSWERED

        def run(subject):
            store, calls = subject
            return store.step("talk", "answer", lambda state: answer(calls, state))

        def check(subject, completed):
            store, calls = subject
            is_done = store.latest("talk").labels == ("answer",)
            assert is_done or not completed
            called = len(calls)
            assert ANSWERED.messages == run(subject).messages
            assert called + (not is_done) == len(calls)
            assert ["answer", "noted"] == sorted(keys(store.load("talk")))
            assert () == store.verify()
            store.close()

        moments = interrupt_at_each_opcode(
            run,
            check,
            prepare=prepare,
            modules=["conversation_state.store._steps"],
            only_where_signals_arrive=True,
        )

        assert 20 < moments

    def test_error_outlasts_a_failing_store(self, store):
        """
        Where neither the step nor the store works, the step's error is raised, and
        has a note that what was spent is lost.
        """

        def work(state):
            save_progress(state.add_usage(Usage(5)))
            store.close()
            raise TimeoutError("no answer")

        with pytest.raises(TimeoutError, match="no answer") as caught:
            store.step("talk", "answer", work)

        (note,) = caught.value.__notes__
        assert "what the step had spent was not saved" in note

    def test_store_fails_after_the_step(self, store):
        """
        What can't be saved is an error, not a step that was done.
        """

        def work(state):
            store.close()
            return state.add_assistant_message("At noon.")

        with pytest.raises(StoreError, match="closed"):
            store.step("talk", "answer", work)

    def test_nested(self, store):
        """
        A step may do steps, of its own name too, and fan out; each is paid once.
        """

        def outer(state):
            inner = store.step("talk", "inner", lambda _: ANSWERED)
            steps = [
                lambda fork, i=i: save_progress(fork.add_usage(Usage(1), key=f"{i}"))
                for i in range(3)
            ]
            return fan_out(inner, steps).state

        done = store.step("talk", "outer", outer)

        assert ["answer", "0", "1", "2"] == keys(done)
        assert ANSWERED.messages == done.messages
        assert done == store.load("talk", at="outer") == store.load("talk")
        assert ANSWERED == store.step("talk", "inner", outer)

    def test_closed_coroutine(self, store):
        """
        A coroutine that is closed in the middle of a step pays what it noted.
        """

        async def work(state):
            save_progress(NOTED)
            await Never()
            return ANSWERED

        async def run_here(function, **_):
            return function()

        running = PipelineStep(store._core, "talk", "answer").arun(work, run_here)
        running.send(None)
        running.close()

        assert ["noted"] == keys(store.load("talk"))


class TestAsync:
    pytestmark = pytest.mark.anyio

    async def test_once(self, store):
        """
        An async function is awaited here, once.
        """
        calls = []

        async def work(state):
            calls.append(state)
            await anyio.lowlevel.checkpoint()
            return ANSWERED

        for _ in range(2):
            assert ANSWERED == await store.astep("talk", "answer", work)

        assert [TALK] == calls
        assert ANSWERED == store.step("talk", "answer", lambda _: TALK)

    async def test_fails(self, store):
        """
        What a step had noted when it failed is paid, and it can be tried again.
        """

        async def work(state):
            save_progress(NOTED)
            await anyio.lowlevel.checkpoint()
            raise TimeoutError("no answer")

        with pytest.raises(TimeoutError, match="no answer"):
            await store.astep("talk", "answer", work)

        assert (TALK.messages, ["noted"]) == (
            store.load("talk").messages,
            keys(store.load("talk")),
        )

    async def test_cancelled(self, store):
        """
        The same where the task is cancelled.
        """

        async def work(state):
            save_progress(NOTED)
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            await store.astep("talk", "answer", work)

        assert tasks.cancel_scope.cancelled_caught
        assert ["noted"] == keys(store.load("talk"))

    async def test_cancelled_too_late(self, store):
        """
        What a function has made is saved although the task was cancelled.
        """

        async def work(state):
            tasks.cancel_scope.cancel()
            return ANSWERED

        async with anyio.create_task_group() as tasks:
            await store.astep("talk", "answer", work)
            await anyio.lowlevel.checkpoint()

        assert tasks.cancel_scope.cancelled_caught
        assert ANSWERED == store.load("talk", at="answer")

    async def test_plain_function(self, store):
        """
        A function that is not async is refused, with what takes it.
        """
        with pytest.raises(TypeError, match="step takes it"):
            await store.astep("talk", "answer", lambda state: state)
