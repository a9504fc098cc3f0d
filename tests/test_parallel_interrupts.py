"""
Interrupts of fan-outs: the usage that a step recorded is reported, nothing hangs, and
an interrupt is an interrupt.
"""

import gc
import signal
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from conversation_state import Aggregator, parallel
from conversation_state.parallel import save_progress
from tests.branches import USAGE, add_text
from tests.interrupts import interrupt_at_each_opcode, interrupt_by_signals
from tests.test_parallel import Travels

afan_out: Any = parallel.afan_out
fan_out: Any = parallel.fan_out

CHAT = Aggregator.new().add_user_prompt("Go!").add_usage(USAGE)

# What runs where the fan-out was called.
RUN_MODULES = [
    "conversation_state.parallel._runs",
    "conversation_state.parallel._outcomes",
    "conversation_state._waiting",
]


class Here(Executor):
    """Runs everything at once, in the calling thread."""

    def submit(self, function, /, *arguments, **_):
        future: Future[Any] = Future()
        assert future.set_running_or_notify_cancel()
        future.set_result(function(*arguments))
        return future


class Remembers(Travels):
    """Remembers the futures it made, as a server remembers what it has to bill."""

    def __init__(self):
        self.futures: list[Future[Any]] = []

    def submit(self, function, /, *arguments, **_):
        future = super().submit(function, *arguments)
        self.futures.append(future)
        return future


class Bill:
    """The usage that steps recorded, and what *on_turn* was called with."""

    def __init__(self):
        self.paid: list[str] = []
        self.state = CHAT
        self.executor: Any = None

    def step(self, text, state):
        self.paid.append(text)
        return add_text(text, state)

    def kept_step(self, text, state):
        return save_progress(self.step(text, state))

    async def async_step(self, text, state):
        await anyio.lowlevel.checkpoint()
        state = self.kept_step(text, state)
        await anyio.lowlevel.checkpoint()
        return state

    def on_turn(self, turn):
        self.state = self.state.join(turn)

    def steps(self, step):
        return [partial(step, text) for text in "ab"]

    def check(self, *_):
        """All usage was reported, if need be by a thread that ran on."""
        is_running = True
        while missing := self.find_missing():
            assert is_running, f"lost {missing}"
            # Checked before what is missing: the last thread reports, then it ends.
            threads = [each.name for each in threading.enumerate()]
            is_running = "conversation_state" in threads
            time.sleep(0.001)

    def find_missing(self):
        return {*self.paid} - {message.text for message in self.state}


class TestAtEachOpcode:
    """An interrupt before each instruction of `fan_out` and `afan_out`."""

    @pytest.mark.parametrize("executor", [None, Here()], ids=["threads", "here"])
    def test_usage_is_reported(self, executor):
        """The turn of every step that ran reaches *on_turn*."""

        def run(bill):
            steps = bill.steps(bill.step)
            fan_out(CHAT, steps, executor=executor, on_turn=bill.on_turn)

        moments = interrupt_at_each_opcode(
            run, Bill.check, prepare=Bill, modules=["conversation_state.parallel"]
        )

        assert moments > 500

    def test_returned_turn_is_reported(self):
        """The turn of every step that another process sent back does, too."""

        def prepare():
            bill = Bill()
            bill.executor = Remembers()
            return bill

        def run(bill):
            steps = [partial(add_text, text) for text in "ab"]
            fan_out(CHAT, steps, executor=bill.executor, on_turn=bill.on_turn)

        def check(bill, completed):
            for future in bill.executor.futures:
                turn = future.result().turn
                assert bill.state.join(turn) is bill.state

        moments = interrupt_at_each_opcode(
            run, check, prepare=prepare, modules=RUN_MODULES
        )

        assert moments > 300

    def test_nested_in_one_pool(self):
        """The same for a fan-out that runs itself what its pool has not begun."""

        def run(bill):
            def outer(state):
                steps = bill.steps(bill.step)
                return fan_out(state, steps, executor=busy, on_turn=bill.on_turn).state

            fan_out(CHAT, [outer], executor=Here())

        with ThreadPoolExecutor(1) as busy:
            go = threading.Event()
            busy.submit(go.wait)
            moments = interrupt_at_each_opcode(
                run, Bill.check, prepare=Bill, modules=RUN_MODULES
            )
            go.set()

        assert moments > 300

    def test_keep(self):
        """
        After an interrupt of `save_progress`, other threads of the step go on to keep.
        """

        def run(bill):
            def step(state):
                bill.kept_step("a", state)
                return state

            fan_out(CHAT, [step], executor=Here(), on_turn=bill.on_turn)

        def check(bill, completed):
            # The usage of "a" was recorded; whether it was saved depends on the moment.
            assert bill.find_missing() <= {"a"}
            assert fan_out(CHAT, bill.steps(bill.kept_step)).state

        interrupt_at_each_opcode(run, check, prepare=Bill, modules=RUN_MODULES)

    # A coroutine that was interrupted before it was awaited is warned about.
    @pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_tasks(self, backend):
        """
        The progress of a task is reported, and the interrupt leaves the loop alone, not
        in a group.
        """

        async def main(bill):
            await afan_out(CHAT, bill.steps(bill.async_step), on_turn=bill.on_turn)

        def run(bill):
            anyio.run(main, bill, backend=backend)

        def check(bill, completed):
            # A step can be interrupted between its payment and `save_progress`.
            assert len(bill.find_missing()) <= 1

        moments = interrupt_at_each_opcode(
            run,
            check,
            prepare=Bill,
            modules=["conversation_state.parallel._branches", *RUN_MODULES],
            only_where_signals_arrive=True,
        )
        gc.collect()

        assert moments > 100


class TestSignals:
    """Real signals, at random moments."""

    def test_threads(self):
        """The turn of every step that ran reaches *on_turn*."""

        def run(bill):
            for _ in range(20):
                fan_out(CHAT, bill.steps(bill.step), on_turn=bill.on_turn)

        interrupted = interrupt_by_signals(
            run, Bill.check, prepare=Bill, times=100, within_s=0.003
        )

        assert interrupted

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_pool(self, nested):
        """The same in a pool of the caller's, which works on afterwards."""

        def fan(bill, state):
            steps = bill.steps(bill.step)
            return fan_out(state, steps, executor=pool, on_turn=bill.on_turn).state

        def run(bill):
            for _ in range(20):
                if nested:
                    fan_out(CHAT, [partial(fan, bill)], executor=Here())
                else:
                    fan(bill, CHAT)

        def check(bill, completed):
            bill.check()
            assert 3 == pool.submit(abs, -3).result()

        with ThreadPoolExecutor(2) as pool:
            interrupted = interrupt_by_signals(
                run, check, prepare=Bill, times=100, within_s=0.003
            )

        assert interrupted

    def test_trio(self):
        """
        An interrupt that trio delivers to the task that waits for the branches leaves
        it as an interrupt, and the saved progress is reported.
        """
        bill = Bill()

        # As if the signal came while trio itself is at work.
        @trio.lowlevel.enable_ki_protection
        def interrupt():
            signal.raise_signal(signal.SIGINT)

        async def step(state):
            bill.kept_step("a", state)
            interrupt()
            await anyio.sleep_forever()

        async def main():
            await afan_out(CHAT, [step, step], on_turn=bill.on_turn)

        with pytest.raises(KeyboardInterrupt):
            trio.run(main)

        assert not bill.find_missing()

    def test_trio_nurseries_of_steps(self):
        """So does one that a nursery of a step's own has wrapped."""
        bill = Bill()

        async def child():
            raise KeyboardInterrupt

        async def step(state):
            bill.kept_step("a", state)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)

        async def main():
            await afan_out(CHAT, [step], on_turn=bill.on_turn)

        with pytest.raises(KeyboardInterrupt):
            trio.run(main)

        assert not bill.find_missing()
