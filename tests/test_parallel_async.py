"""
Branches in tasks, under asyncio and trio: recorded usage is kept, whichever task is
cancelled.
"""

import asyncio
import signal
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio

from conversation_state import Turn, parallel
from conversation_state.errors import BranchError, FanOutError
from conversation_state.parallel import save_progress
from tests.branches import Refused, Stop, add_text, refused
from tests.executor_contract import CHAT, fan_out, texts, tokens

pytestmark = pytest.mark.anyio

afan_out: Any = parallel.afan_out


async def async_add_text(text, state):
    await anyio.lowlevel.checkpoint()
    return add_text(text, state)


async def async_add_text_slowly(seconds, text, state):
    await anyio.sleep(seconds)
    return add_text(text, state)


async def arefused(state):
    await anyio.lowlevel.checkpoint()
    return refused(state)


async def hangs(state, then=lambda: None):
    save_progress(add_text("so far", state))
    then()
    await anyio.sleep_forever()


@pytest.fixture
def time_is_up(monkeypatch):
    """
    A function: once it is called in the loop, and not before, the time of the
    fan-out that was given 60 seconds is up.
    """
    scopes = []

    def move_on_after(delay):
        assert delay == 60
        scopes.append(anyio.CancelScope())
        return scopes[-1]

    def is_up():
        scopes[-1].deadline = anyio.current_time()

    monkeypatch.setattr(anyio, "move_on_after", move_on_after)
    return is_up


class UpAfter:
    """A time that is up when this was called so many times."""

    def __init__(self, calls, scope):
        self.left = calls
        self.scope = scope

    def __call__(self, *_):
        self.left -= 1
        if not self.left:
            self.scope.deadline = anyio.current_time()


class TestTasks:
    """`afan_out` with async steps."""

    async def test_joins_in_the_order_of_the_steps(self):
        """
        What each branch added follows in the order of the steps, though the
        first one is the last to finish.
        """
        steps = [
            partial(async_add_text_slowly, (3 - n) * 0.02, str(n)) for n in range(4)
        ]
        with anyio.fail_after(60):
            done = await afan_out(CHAT, steps)

        assert ["Go!", "0", "1", "2", "3"] == texts(done.state)
        assert 50 == tokens(done.state)
        assert CHAT.id == done.state.id
        assert () == done.failures

    async def test_runs_at_once(self):
        """A thousand steps that wait for each other are all run."""
        here, last = [], anyio.Event()

        async def step(state):
            here.append(1)
            if len(here) == 1_000:
                last.set()
            await last.wait()
            return state.add_user_prompt("x")

        with anyio.fail_after(60):
            done = await afan_out(CHAT, [step] * 1_000)

        assert 1_001 == len(done.state)

    async def test_failures(self):
        """A failed branch loses nothing of the others; what it had kept counts."""
        steps = [
            partial(async_add_text, "a"),
            arefused,
            partial(async_add_text_slowly, 0.02, "c"),
        ]
        done = await afan_out(CHAT, steps, on_error="keep")
        with pytest.raises(FanOutError) as caught:
            await afan_out(CHAT, steps)

        (failure,) = done.failures
        assert 1 == failure.step
        assert isinstance(failure.error, Refused)
        for state in (done.state, caught.value.state):
            assert ["Go!", "a", "half of it", "c"] == texts(state)
            assert 40 == tokens(state)

    async def test_an_inner_fan_out_that_fails(self):
        """Its error is the step's, and what its branches had is kept, once."""

        async def outer(state):
            return (
                await afan_out(state, [arefused, partial(async_add_text, "b")])
            ).state

        done = await afan_out(CHAT, [outer], on_error="keep")
        (failure,) = done.failures

        assert isinstance(failure.error, FanOutError)
        assert ["Go!", "half of it", "b"] == texts(done.state)
        assert 30 == tokens(done.state)

    @pytest.mark.parametrize(
        ("step", "problem"),
        [(lambda state: state, "awaits"), (save_progress, "executor=")],
    )
    async def test_a_plain_step(self, step, problem):
        """A plain function would block the loop; the error says where to run it."""
        done = await afan_out(
            CHAT, [step, partial(async_add_text, "b")], on_error="keep"
        )

        assert ["Go!", "b"] == texts(done.state)
        assert isinstance(done.failures[0].error, BranchError)
        assert problem in str(done.failures[0].error)

    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, Stop])
    async def test_an_interrupt_goes_through(self, interrupt):
        """
        A step that raises what is not an `Exception` ends the fan-out at once, as
        itself; the progress of others is reported.
        """
        turns: list[Turn] = []

        async def stops(_):
            await anyio.lowlevel.checkpoint()
            raise interrupt

        with pytest.raises(interrupt):
            await afan_out(CHAT, [hangs, stops], on_turn=turns.append)

        assert [[], ["so far"]] == sorted(map(texts, turns))


class TestCancelled:
    """A fan-out that is cancelled from outside."""

    async def test_reports_saved_progress(self):
        """
        All tasks are cancelled, and the progress of each, and what others had added, is
        reported before the cancellation goes on.
        """
        turns: list[Turn] = []
        with anyio.move_on_after(60) as scope:
            here = UpAfter(4, scope)

            def on_turn(turn):
                turns.append(turn)
                here()

            hang = partial(hangs, then=here)
            steps = [hang, partial(async_add_text, "b"), arefused, hang]
            await afan_out(CHAT, steps, on_turn=on_turn)

        assert scope.cancelled_caught
        assert [["b"], ["half of it"], ["so far"], ["so far"]] == sorted(
            map(texts, turns)
        )

    async def test_before_it_began(self):
        """Cancelled before, nothing was added."""
        turns: list[Turn] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await afan_out(CHAT, [hangs] * 3, on_turn=turns.append)

        assert scope.cancelled_caught
        assert 3 == len(turns)

    async def test_in_a_branch(self):
        """What an inner fan-out had is the outer step's when both are cancelled."""
        turns: list[Turn] = []

        with anyio.move_on_after(60) as scope:
            here = UpAfter(3, scope)

            async def outer(state):
                hang = partial(hangs, then=here)
                steps = [hang, partial(async_add_text, "b"), hang]
                return (await afan_out(state, steps, on_turn=here)).state

            await afan_out(CHAT, [outer], on_turn=turns.append)

        assert [["so far", "b", "so far"]] == [*map(texts, turns)]

    async def test_a_step_may_finish(self):
        """A step that catches its cancellation and returns is done."""
        turns: list[Turn] = []

        with anyio.move_on_after(60) as scope:

            async def finishes(state):
                scope.deadline = anyio.current_time()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.05)
                return add_text("done", state)

            await afan_out(CHAT, [finishes], on_turn=turns.append)

        assert [["done"]] == [*map(texts, turns)]

    def test_by_task_cancel(self):
        """Cancelled as asyncio's own tasks are, it reports the saved progress, too."""
        turns: list[Turn] = []

        async def main():
            begun = asyncio.Event()
            steps = [partial(hangs, then=begun.set), partial(async_add_text, "b")]
            task = asyncio.ensure_future(afan_out(CHAT, steps, on_turn=turns.append))
            await begun.wait()
            while not turns:  # noqa: ASYNC110 - what it waits for is under test
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(60) as timeout:

                def time_is_up():
                    timeout.reschedule(asyncio.get_running_loop().time())

                hang = partial(hangs, then=time_is_up)
                await afan_out(CHAT, [hang], on_turn=turns.append)

        with pytest.raises(TimeoutError):
            asyncio.run(main())
        assert [["b"], ["so far"], ["so far"]] == sorted(map(texts, turns))

    def test_by_something_it_waited_for(self):
        """A step whose own task was cancelled has failed, and no other."""

        async def step(state):
            save_progress(add_text("so far", state))
            inner = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(inner.cancel)
            await inner

        done = asyncio.run(
            afan_out(CHAT, [step, partial(async_add_text, "b")], on_error="keep")
        )

        assert ["Go!", "so far", "b"] == texts(done.state)
        assert "was cancelled by something" in str(done.failures[0].error)

    def test_with_a_nursery_of_its_own(self, time_is_up):
        """A step that runs trio's nurseries is cancelled like any other."""

        async def step(state):
            save_progress(add_text("so far", state))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(trio.sleep_forever)
                time_is_up()

        async def main():
            return await afan_out(CHAT, [step], on_error="keep", timeout_s=60)

        done = trio.run(main)

        assert ["Go!", "so far"] == texts(done.state)
        assert isinstance(done.failures[0].error, TimeoutError)


class TestTimeout:
    """`afan_out(timeout_s=...)`."""

    async def test_returns_what_was_kept(self, time_is_up):
        """
        When time is up, what is not done is cancelled and has failed, with
        what it had kept.
        """
        done = await afan_out(
            CHAT,
            [hangs, partial(async_add_text, "b")],
            timeout_s=60,
            on_error="keep",
            on_turn=lambda _: time_is_up(),
        )

        assert ["Go!", "so far", "b"] == texts(done.state)
        assert isinstance(done.failures[0].error, TimeoutError)
        assert "longer than 60 s" in str(done.failures[0].error)

    async def test_soon(self):
        """It is up by itself, too."""
        done = await afan_out(CHAT, [hangs], timeout_s=0.01, on_error="keep")

        assert [TimeoutError] == [type(failure.error) for failure in done.failures]


class TestExecutor:
    """`afan_out(executor=...)`."""

    async def test_does_not_block(self):
        """Plain functions are run in the pool while other tasks go on."""
        go, ticks = threading.Event(), []

        def step(state):
            assert go.wait(60)
            return add_text("x", state)

        async def tick():
            for _ in range(5):
                await anyio.sleep(0.001)
                ticks.append(1)
            go.set()

        with ThreadPoolExecutor(2) as pool, anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(tick)
                done = await afan_out(
                    CHAT, [step, refused], executor=pool, on_error="keep"
                )

        assert 5 == len(ticks)
        assert ["Go!", "x", "half of it"] == texts(done.state)

    async def test_cancelled_where_all_have_ended(self):
        """A cancellation is noticed, too, where an executor runs all steps at once."""

        class HereExecutor(Executor):
            def submit(self, function, /, *arguments, **options):
                future: Future[Any] = Future()
                future.set_result(function(*arguments))
                return future

        with anyio.CancelScope() as scope:
            scope.cancel()
            await afan_out(CHAT, [partial(add_text, "x")], executor=HereExecutor())
            raise AssertionError

        assert scope.cancelled_caught

    async def test_cancelled(self):
        """
        Cancelled, it reports the saved progress; what runs on is reported again when it
        ends; what has not begun never does.
        """
        go, inside, began = threading.Event(), threading.Event(), []
        turns: list[Turn] = []

        def slow(state):
            began.append(1)
            state = save_progress(add_text("so far", state))
            inside.set()
            assert go.wait(60)
            return add_text("later", state)

        with ThreadPoolExecutor(1) as pool:
            async with anyio.create_task_group() as group:

                async def cancel():
                    await anyio.to_thread.run_sync(inside.wait)
                    group.cancel_scope.cancel()

                group.start_soon(cancel)
                await afan_out(CHAT, [slow] * 3, executor=pool, on_turn=turns.append)

            assert [[], [], ["so far"]] == sorted(map(texts, turns))
            go.set()

        assert [1] == began
        assert ["so far", "later"] == texts(turns[-1])
        assert 4 == len(turns)

    async def test_time_is_up(self, time_is_up):
        """At the end of the time what runs has failed, with what it had kept."""
        go, inside = threading.Event(), threading.Event()

        def slow(state):
            save_progress(add_text("so far", state))
            inside.set()
            assert go.wait(60)
            return state

        def notice_turn(turn):
            if texts(turn) == ["b"]:
                assert inside.wait(60)
                time_is_up()

        with ThreadPoolExecutor(2) as pool:
            done = await afan_out(
                CHAT,
                [slow, partial(add_text, "b")],
                executor=pool,
                timeout_s=60,
                on_error="keep",
                on_turn=notice_turn,
            )
            go.set()

        assert ["Go!", "so far", "b"] == texts(done.state)
        assert [TimeoutError] == [type(failure.error) for failure in done.failures]

    def test_nested_in_one_pool(self, anyio_backend):
        """
        A step of a pool that runs a loop of its own, which fans out in the
        same pool, does not wait for itself.
        """
        with ThreadPoolExecutor(1) as pool:

            def outer(name, state):
                async def main():
                    steps = [partial(add_text, f"{name}{n}") for n in range(3)]
                    with anyio.fail_after(60):
                        return (await afan_out(state, steps, executor=pool)).state

                return anyio.run(main, backend=anyio_backend)

            steps = [partial(outer, name) for name in "ab"]
            done = fan_out(CHAT, steps, executor=pool)

        assert ["Go!", "a0", "a1", "a2", "b0", "b1", "b2"] == texts(done.state)


class TestSignals:
    """Interrupts of a loop."""

    def test_trio(self):
        """
        An interrupt that trio delivers to the task that waits for the branches leaves
        it as an interrupt, and the saved progress is reported.
        """
        turns: list[Turn] = []

        # As if the signal came while trio itself is at work.
        @trio.lowlevel.enable_ki_protection
        def interrupt():
            signal.raise_signal(signal.SIGINT)

        async def main():
            steps = [partial(hangs, then=interrupt)] * 2
            await afan_out(CHAT, steps, on_turn=turns.append)

        with pytest.raises(KeyboardInterrupt):
            trio.run(main)

        assert ["so far"] in [*map(texts, turns)]

    async def test_in_a_group(self):
        """An interrupt that a task group of a step's own wraps is raised alone."""
        turns: list[Turn] = []

        async def step(state):
            save_progress(add_text("so far", state))
            await anyio.lowlevel.checkpoint()
            raise BaseExceptionGroup("of a task group", [SystemExit(3), ValueError()])

        with pytest.raises(SystemExit) as caught:
            await afan_out(CHAT, [step], on_turn=turns.append)

        assert caught.value.code == 3
        assert [["so far"]] == [*map(texts, turns)]

    @pytest.mark.parametrize("in_pool", [False, True])
    def test_cancelled_at_random_moments(self, anyio_backend, in_pool):
        """
        Cancelled at any moment, the progress of each step that ran is reported, and
        nothing is left that runs on.
        """
        turns: list[Turn] = []
        began: list[str] = []

        async def astep(text, state):
            began.append(text)
            state = save_progress(add_text(text, state))
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            return state

        def step(text, state):
            began.append(text)
            return save_progress(add_text(text, state))

        async def main(name, checkpoints):
            async with anyio.create_task_group() as group:
                steps = [
                    partial(step if in_pool else astep, f"{name} {n}") for n in range(4)
                ]
                options = {
                    "on_turn": turns.append,
                    "executor": pool if in_pool else None,
                }
                group.start_soon(partial(afan_out, CHAT, steps, **options))
                for _ in range(checkpoints):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

        with ThreadPoolExecutor(2) as pool:
            for number in range(60):
                anyio.run(main, number, number % 15, backend=anyio_backend)

        assert began
        assert {*began} == {text for turn in turns for text in texts(turn)}
