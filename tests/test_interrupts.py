"""Interrupting an operation at each moment: that the tool finds what it is for."""

import itertools
import threading

import pytest

from tests.interrupts import (
    interrupt_at_each_opcode,
    interrupt_by_signals,
    run_in_thread,
)
from tests.profiles import is_thorough


class Counter:
    """A lock and a number, taken and given back in several ways."""

    def __init__(self):
        self.lock = threading.Lock()
        self.n = 0

    def add_carelessly(self):
        self.lock.acquire()
        try:
            self.n += 1
        finally:
            self.lock.release()

    def add(self):
        with self.lock:
            self.n += 1

    def add_often(self):
        for _ in range(50):
            self.n += 1

    def add_twice(self):
        self.add()
        self.add()

    def add_either_way(self, is_careless):
        if is_careless:
            self.lock.acquire()
            self.lock.release()

        self.n += 1

    def swallow(self):
        try:
            self.n += 1
        except KeyboardInterrupt:
            self.n += 1


def is_free(counter, completed):
    assert counter.lock.acquire(timeout=0), "the lock is held"


class TestInterruptAtEachOpcode:
    def interrupt(self, operation, check=is_free, **options):
        return interrupt_at_each_opcode(
            operation, check, prepare=Counter, modules=[__name__], **options
        )

    def test_leaves_out_where_no_signal_arrives(self):
        """
        `with lock:` is safe where signals arrive, and not between all of its
        instructions.
        """
        assert self.interrupt(Counter.add, only_where_signals_arrive=True)

        with pytest.raises(AssertionError, match="the lock is held"):
            self.interrupt(Counter.add)
        with pytest.raises(AssertionError, match="the lock is held"):
            self.interrupt(Counter.add_carelessly, only_where_signals_arrive=True)

    def test_reports_whether_it_completed(self):
        """The check learns whether the operation returned; the last time it did."""
        seen = []
        moments = self.interrupt(
            Counter.add, lambda _, completed: seen.append(completed)
        )

        assert [False] * moments + [True] == seen
        seen.clear()
        self.interrupt(Counter.swallow, lambda _, completed: seen.append(completed))
        assert 1 < seen.count(True)

    @pytest.mark.skipif(is_thorough(), reason="each round is a moment then")
    def test_interrupts_the_first_round_of_a_loop(self):
        """
        An instruction is interrupted once for each place that its function is
        called from.
        """
        once = self.interrupt(Counter.add, lambda *_: None)

        assert once < 20
        assert self.interrupt(Counter.add_often, lambda *_: None) < 20
        assert 2 * once < self.interrupt(Counter.add_twice, lambda *_: None)

    def test_finds_what_comes_in_later_runs(self):
        """
        So is one in a call that came through other instructions in earlier runs,
        as other threads may make it.
        """
        runs = itertools.count()

        def prepare():
            return Counter(), next(runs) > 30

        def operate(subject):
            counter, is_careless = subject
            counter.add_either_way(is_careless)
            counter.n += 1
            counter.n += 1
            counter.n += 1

        with pytest.raises(AssertionError, match="the lock is held"):
            interrupt_at_each_opcode(
                operate,
                lambda subject, _: is_free(subject[0], None),
                prepare=prepare,
                modules=[__name__],
            )

    def test_reports_what_hangs(self):
        """A check that never returns is an error that names the place."""
        with pytest.raises(AssertionError, match=r"hangs: .* in Counter\.add"):
            self.interrupt(
                Counter.add_carelessly,
                lambda counter, _: counter.lock.acquire(),
                timeout_s=0.2,
            )

    def test_needs_an_instruction(self):
        """An operation that never enters the modules is an error."""
        with pytest.raises(AssertionError, match="no instruction"):
            interrupt_at_each_opcode(
                Counter.add, is_free, prepare=Counter, modules=["elsewhere"]
            )


class TestInterruptBySignals:
    def test_interrupts_what_goes_on(self):
        """
        An operation without an end is interrupted every time, and a check runs
        after each.
        """
        seen = []

        def go_on(counter):
            while True:
                counter.n += 1

        assert 20 == interrupt_by_signals(
            go_on,
            lambda _, completed: seen.append(completed),
            prepare=Counter,
            times=20,
        )
        assert [False] * 20 == seen


class TestRunInThread:
    def test_waits_for_a_thread_that_is_slow_to_start(self):
        """It does not hang where nothing was counted before it was looked at first."""
        counting = threading.Event()

        def count():
            counting.set()
            return 0

        run_in_thread(counting.wait, 30, lambda: "", count=count)

    def test_finds_a_thread_that_hangs(self):
        """What counts nothing more is reported, with what it was doing."""
        ended = threading.Event()
        with pytest.raises(AssertionError, match="hangs: interrupted in add"):
            run_in_thread(
                ended.wait, 0.01, lambda: "interrupted in add", count=lambda: 3
            )

        ended.set()
