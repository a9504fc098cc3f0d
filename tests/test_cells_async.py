"""Cells in tasks, under asyncio and trio, and between tasks and threads."""

import gc
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from conversation_state import Aggregator, Usage, UserMessage, _waiting, cells
from tests.processes import run_script

pytestmark = pytest.mark.anyio

Cell: Any = cells.Cell


class Value:
    """Something that can be weakly referred to, and is equal to all its like."""

    def __eq__(self, other):
        return isinstance(other, Value)

    def __hash__(self):
        return 1


def one_more(n):
    return n + 1


class TestSwap:
    """`Cell.aswap`."""

    async def test_overtaken(self):
        """One that returns its argument is called once, even if it was overtaken."""
        cell, calls = Cell(1), []

        async def overtaken(n):
            calls.append(n)
            cell.swap(one_more)
            return n

        assert 1 == await cell.aswap(overtaken)
        assert ([1], 2) == (calls, cell.value)

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

    async def test_a_function_that_always_changes_the_cell_ends(self):
        """As in `swap`, an endless loop is an error instead."""
        cell = Cell(0)

        async def function(n):
            return cell.swap(one_more) + n

        with pytest.raises(RuntimeError, match=r"changed during each of 10,000 calls"):
            await cell.aswap(function)

    async def test_cancelled_it_changes_nothing(self):
        """Cancelled while its function always comes too late, it changes nothing."""
        cell, tries = Cell(0), []

        async def overtaken(n):
            tries.append(n)
            if len(tries) == 8:
                scope.cancel()
            cell.swap(one_more)
            return n + 1

        with anyio.CancelScope() as scope:
            await cell.aswap(overtaken)

        assert 8 == cell.value == len(tries)


class TestWatch:
    """`Cell.awatch`."""

    async def test_gives_the_newest(self):
        """
        Values in between are left out; one that is equal to the last and another object
        is new.
        """
        cell = Cell(Value())
        values = cell.awatch()

        assert await anext(values) is cell.value
        for _ in range(10):
            cell.swap(lambda _: Value())
        with anyio.fail_after(60):
            assert await anext(values) is cell.value

    async def test_sees_a_change_just_before_it_waits(self):
        """A change by another thread, when it has looked and not begun to watch."""

        class Changing(cells.Cell[int]):
            def watch(self, callback, *, on_error=None):
                self.swap(one_more)
                return super().watch(callback, on_error=on_error)

        values = Changing(0).awatch()

        assert 0 == await anext(values)
        with anyio.fail_after(60):
            assert 1 == await anext(values)

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
                while len(cell._watches) < 2:  # noqa: ASYNC110 - what it waits for is under test
                    await anyio.sleep(0.001)
                with pytest.raises(KeyboardInterrupt):
                    cell.swap(one_more)

        assert [0, 1] == seen

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

        assert not cell._watches
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

    def test_wakes_no_reader_whose_loop_has_ended(self, anyio_backend):
        """A reader whose loop is gone disturbs no change."""
        cell = Cell(0)

        async def read():
            changed = _waiting.TaskEvent()
            cell.watch(lambda *_: changed.set())

        anyio.run(read, backend=anyio_backend)

        assert 1 == cell.swap(one_more)


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
