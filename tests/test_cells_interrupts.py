"""Cells after a Ctrl-C: no update is lost, and watchers go on."""

import itertools
import threading
from functools import partial
from typing import Any

import pytest

from conversation_state import cells
from conversation_state.testing import laws
from tests.interrupts import interrupt_at_each_opcode, interrupt_by_signals
from tests.threads import finish, start

Cell: Any = cells.Cell

interrupt_anywhere = partial(
    interrupt_at_each_opcode,
    modules=["conversation_state.cells", "conversation_state._waiting"],
)


def one_more(n):
    return n + 1


class TestWatch:
    """Watches of a cell whose change is interrupted."""

    def prepare(self):
        cell = Cell(0)
        seen: dict[int, int] = {}
        # It is C: an interrupt comes before or after it, not within.
        watch = cell.watch(seen.setdefault)
        return cell, watch, seen

    def check(self, subject, completed):
        cell, watch, seen = subject
        last = cell.swap(one_more)
        watch.close()
        cell.swap(one_more)

        laws.histories_are_linear(0, list(seen.items()), last)
        assert not cell._watches

    def test_goes_on_after_an_interrupted_change(self):
        """
        It is called with every change that was made, once and in order,
        wherever one was interrupted.
        """
        interrupt_anywhere(
            lambda subject: subject[0].swap(one_more),
            self.check,
            prepare=self.prepare,
            only_where_signals_arrive=True,
        )

    def test_goes_on_wherever_it_is_interrupted(self):
        """The next change is seen, whatever instruction the interrupt came at."""

        def check(subject, completed):
            cell, _, seen = subject
            last = cell.swap(one_more)

            assert last in seen.values()

        interrupt_anywhere(
            lambda subject: subject[0].swap(one_more), check, prepare=self.prepare
        )

    def test_goes_on_after_signals(self):
        """The same for real interrupts at random moments."""

        def swap(subject):
            for _ in itertools.repeat(None):
                subject[0].swap(one_more)

        assert 200 == interrupt_by_signals(swap, self.check, prepare=self.prepare)

    def test_an_interrupted_watch_is_not_added(self):
        """
        Where beginning a watch is interrupted, nothing stays behind that could
        not be closed.
        """
        cell = Cell(0)

        def check(_, completed):
            assert completed or not cell._watches
            cell._watches.clear()

        interrupt_anywhere(
            lambda _: cells.Watch(cell, print, None),
            check,
            prepare=lambda: None,
            only_where_signals_arrive=True,
        )

    def test_closes_wherever_its_block_is_interrupted(self):
        """The end of a `with` block closes the watch, or closing again does."""

        def leave(subject):
            with subject[1]:
                pass

        def check(subject, completed):
            cell, watch, _ = subject
            if not completed:
                watch.close()

            assert watch.is_closed
            assert not cell._watches

        interrupt_anywhere(leave, check, prepare=self.prepare)


class TestSwap:
    """Changes that are interrupted, and those of others."""

    def test_gives_back_its_turn(self):
        """
        A slow function that was let through, and was interrupted, is in no
        other's way.
        """

        def slowly(cell):
            calls = itertools.count()

            def function(n):
                if next(calls) < 6:
                    other = threading.Thread(target=cell.swap, args=(one_more,))
                    other.start()
                    finish(other)
                return n + 100

            cell.swap(function)

        def check(cell, completed):
            assert not cell._first
            value = cell.value
            assert value + 1 == cell.swap(one_more)

        interrupt_anywhere(slowly, check, prepare=lambda: Cell(0))

    def test_is_made_or_not(self):
        """An interrupted change was made once at most; the cell works on."""

        def check(cell, completed):
            assert cell.value == 1 if completed else cell.value in {0, 1}
            value = cell.value
            assert value + 1 == cell.swap(one_more)

        for change in (
            lambda cell: cell.swap(one_more),
            lambda cell: cell.compare_and_set(0, 1),
        ):
            interrupt_anywhere(change, check, prepare=lambda: Cell(0))

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_wakes_those_that_wait_for_a_change(self, backend):
        """
        A task that waits for a change sees it, wherever the thread that made it
        was interrupted.
        """
        anyio = pytest.importorskip("anyio")

        def prepare():
            cell, ready, seen = Cell(0), threading.Event(), []

            async def read():
                async for value in cell.awatch():
                    seen.append(value)
                    ready.set()
                    if value:
                        return

            thread = start(lambda: anyio.run(read, backend=backend))
            ready.wait(20)
            return cell, seen, thread

        def check(subject, completed):
            cell, seen, thread = subject
            if not cell.value:
                cell.swap(one_more)
            finish(thread)
            assert [0, 1] == seen

        interrupt_anywhere(
            lambda subject: subject[0].swap(one_more), check, prepare=prepare
        )
