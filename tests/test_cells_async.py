"""Cells in tasks, under asyncio and trio, and between tasks and threads."""

import gc
import sys
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from conversation_state import Aggregator, Usage, UserMessage, _waiting, cells
from conversation_state.cells import _cell
from conversation_state.errors import MissingExtraError
from tests.processes import run_script

pytestmark = pytest.mark.anyio

Cell: Any = cells.Cell


class Value:
    """Something that can be weakly referred to."""


def one_more(n):
    return n + 1


def a_turn(lasts_s):
    """The turn of a thread that does not get done."""
    turn = _cell._Attempts()
    turn._thread, turn.lasts_s = 0, lasts_s
    return turn


class TestSwap:
    """`Cell.aswap`."""

    async def test_loses_nothing(self):
        """
        Tasks that wait while they add, and threads, lose no message and no
        usage.
        """
        cell = Cell(Aggregator.new())
        message = UserMessage("Hi!")

        async def add(state):
            await anyio.lowlevel.checkpoint()
            return state.add(message).add_usage(Usage(1))

        async def task():
            for _ in range(20):
                await cell.aswap(add)

        def thread():
            for _ in range(500):
                cell.swap(lambda state: state.add(message).add_usage(Usage(1)))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(task)
                group.start_soon(anyio.to_thread.run_sync, thread)

        assert 5_200 == len(cell.value) == cell.value.total_usage.prompt_tokens

    async def test_the_same_value_changes_nothing(self):
        """A function that gives back what it got makes no change."""
        cell, changes = Cell(1_000), []
        cell.watch(lambda *both: changes.append(both))

        async def same(n):
            return n

        assert 1_000 == await cell.aswap(same)
        assert [] == changes

    async def test_the_slow_get_through(self):
        """
        A function that takes longer than other tasks leave the cell alone is
        let through after a while.
        """
        cell, calls = Cell(0), []

        async def quick(n):
            await anyio.lowlevel.checkpoint()
            return n + 1

        async def others():
            while True:
                await cell.aswap(quick)
                await anyio.lowlevel.checkpoint()

        async def slow(n):
            calls.append(n)
            for _ in range(200):
                if cell.value != n:
                    break
                await anyio.lowlevel.checkpoint()
            return n + 1

        async with anyio.create_task_group() as group:
            group.start_soon(others)
            group.start_soon(others)
            await cell.aswap(slow)
            group.cancel_scope.cancel()

        assert 4 < len(calls), "there was no conflict"

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_function_that_always_changes_the_cell_ends(self, is_async):
        """
        As in `swap`, an endless loop is an error instead; also where the change is made
        by a task that the function began.
        """
        cell = Cell(0)

        async def change():
            cell.swap(one_more)

        async def function(n):
            if is_async:
                async with anyio.create_task_group() as group:
                    group.start_soon(change)
            else:
                cell.swap(one_more)
            return n

        async def function_of_its_own(n):
            return await function(n) - 1

        with anyio.fail_after(60):
            with pytest.raises(RuntimeError, match="itself changed this cell"):
                await cell.aswap(function_of_its_own)

        value = cell.value
        assert value + 1 == cell.swap(one_more)

    async def test_gives_way_for_a_while(self):
        """
        A waiter that was let through and does not finish is not waited for without end.
        """
        cell = Cell(0)
        cell._first[0] = a_turn(0.01)

        async def function(n):
            return n + 1

        with anyio.fail_after(60):
            assert 1 == await cell.aswap(function)
            assert 2 == await anyio.to_thread.run_sync(cell.swap, one_more)

    async def test_cancelled_it_changes_nothing(self):
        """
        Cancelled while it is tried, also while others give way to it, it
        changes nothing and blocks no other task.
        """
        cell, tries = Cell(0), []

        async def overtaken(n):
            tries.append(n)
            if len(tries) > 8:
                assert cell._first
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            cell.swap(one_more)
            return n + 1

        with anyio.CancelScope() as scope:
            await cell.aswap(overtaken)

        assert 8 == cell.value
        assert not cell._first

    async def test_a_swap_beside_it_does_not_wait(self):
        """
        A task that swaps while a slow function was promised to be let through
        goes on at once, since the loop could not run it meanwhile.
        """
        cell, calls = Cell(0), []

        async def slow(n):
            calls.append(n)
            if len(calls) < 8:
                await anyio.lowlevel.checkpoint()
                cell.swap(one_more)
            return n + 100

        assert 107 == await cell.aswap(slow)

    async def test_a_swap_in_a_loop_never_waits(self):
        """
        Nor does it for a thread that was promised to be let through: nothing
        else could run in this loop meanwhile.
        """
        cell = Cell(0)
        cell._first[0] = a_turn(1_000)

        assert 1 == cell.swap(one_more)


class TestWatch:
    """`Cell.awatch`."""

    async def test_gives_an_equal_value(self):
        """A change to an equal value that is another object is a change."""

        class Alike:
            def __eq__(self, other):
                return isinstance(other, Alike)

            def __hash__(self):
                return 1

        first, second = Alike(), Alike()
        cell = Cell(first)
        values = cell.awatch()

        assert await anext(values) is first
        cell.swap(lambda _: second)
        with anyio.fail_after(20):
            assert await anext(values) is second

    async def test_is_woken_by_threads(self):
        """Changes made in other threads wake who waits; the last one is seen."""
        cell, seen = Cell(0), []

        async def read():
            async for value in cell.awatch():
                seen.append(value)
                if value == 4_000:
                    return

        def change():
            for _ in range(1_000):
                cell.swap(one_more)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(read)
            for _ in range(4):
                group.start_soon(anyio.to_thread.run_sync, change)

        assert 2 == seen.count(4_000)

    async def test_is_woken_by_an_interrupted_change(self):
        """A change is seen though a callback's interrupt came out of it."""
        cell, seen = Cell(0), []

        def interrupted(*_):
            raise KeyboardInterrupt

        async def read():
            async for value in cell.awatch():
                seen.append(value)
                if value:
                    return

        cell.watch(interrupted)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                while not cell._waiters:  # noqa: ASYNC110 - what it waits for is under test
                    await anyio.sleep(0.001)
                with pytest.raises(KeyboardInterrupt):
                    cell.swap(one_more)

        assert [0, 1] == seen

    async def test_a_change_before_it_waits(self, monkeypatch):
        """A change whose maker did not see who waits is not missed."""
        cell = Cell(0)

        class Late(_waiting.TaskWaiter):
            def enter(self, place):
                cell.swap(one_more)
                super().enter(place)

        values = cell.awatch()
        await anext(values)
        monkeypatch.setattr(_cell, "TaskWaiter", Late)
        with anyio.fail_after(60):
            assert 1 == await anext(values)

    async def test_who_is_slow_gets_the_newest(self):
        """Values in between are left out."""
        cell = Cell(0)
        values = cell.awatch()
        await anext(values)
        for _ in range(10):
            cell.swap(one_more)

        assert 10 == await anext(values)

    async def test_leaves_nothing_behind(self):
        """
        Cancelled while it waits, dropped, or left, it is gone, and so are the
        values it saw.
        """
        cell = Cell(Value())
        seen = weakref.ref(cell.value)
        values = cell.awatch()
        gone = weakref.ref(values)

        async def read(values):
            with anyio.move_on_after(0.01):
                async for _ in values:
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(read, values)

        assert not cell._waiters
        values = None
        await anyio.sleep(0.01)
        cell.swap(lambda _: Value())
        gc.collect()

        assert gone() is None
        assert seen() is None

    async def test_gives_way(self):
        """
        A loop that always finds a new value lets others run, and can be
        cancelled.
        """
        cell = Cell(0)
        with anyio.move_on_after(0.01) as scope:
            async for _ in cell.awatch():
                cell.swap(one_more)

        assert scope.cancelled_caught

    def test_wakes_no_waiter_whose_loop_has_ended(self, anyio_backend):
        """A reader whose loop is gone disturbs no change."""
        cell = Cell(0)

        async def read():
            await anext(values := cell.awatch())
            waiter = _waiting.TaskWaiter()
            waiter.enter(cell._waiters)
            return values

        anyio.run(read, backend=anyio_backend)

        assert 1 == cell.swap(one_more)


async def test_needs_anyio(monkeypatch):
    """Without anyio, async use names the extra; the rest works."""
    cell = Cell(0)
    monkeypatch.setitem(sys.modules, "anyio", None)
    _waiting.require_anyio.cache_clear()
    try:
        assert 1 == cell.swap(one_more)
        with pytest.raises(MissingExtraError, match=r"awatch needs.*\[anyio\]"):
            cell.awatch()
        with pytest.raises(MissingExtraError, match=r"aswap needs.*\[anyio\]"):
            await cell.aswap(one_more)
    finally:
        _waiting.require_anyio.cache_clear()


def test_sync_code_takes_no_anyio():
    """Swapping and watching import neither anyio nor asyncio."""
    script = (
        "import sys\n"
        "from conversation_state.cells import Cell\n"
        "cell = Cell(0)\n"
        "cell.watch(lambda *_: None)\n"
        "cell.swap(lambda n: n + 1)\n"
        "print({'anyio', 'asyncio'} & {*sys.modules})"
    )

    assert "set()" == run_script(script).strip()
