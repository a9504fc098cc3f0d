"""Async iterators as sources, and the tasks that read them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from weakref import ref

import attrs

from conversation_state._waiting import (
    Waiter,
    call_soon,
    require_anyio,
    running_loop,
    spawn,
    wake_all,
)
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    END,
    LAST,
    Fault,
    Source,
    StreamCell,
    fault,
    find_sources,
    make_abort_fault,
    make_broken_off_fault,
    take_item,
)
from conversation_state.streams._pull import FORKS
from conversation_state.streams._sources import CIRCLE

_FORKED = (
    "the event loop that reads this stream's source did not come along when the "
    "process was forked: let the child make its own stream"
)


def list_pumps(cell: StreamCell | None) -> list[tuple[ref[AsyncSource], _Pump]]:
    # The async sources that the list at *cell* comes from, without keeping them.
    sources = [] if cell is None else find_sources(cell)
    return [(ref(each), each._pump) for each in sources if type(each) is AsyncSource]


class AsyncSource(Source):
    """
    An async iterator, read by a task of its own, one item at a time.

    So cancelling a reader does not affect the others, and merges can wait for
    several. The task lives as long as there may be a reader.
    """

    __slots__ = ("__weakref__", "_pump")

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__()
        # The task refers to the pump, not to this source, so this source is freed with
        # the last cell that refers to it, and that ends the task.
        self._pump = _Pump(iterator)

    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        pump = self._pump
        if not take_item(cell, pump.items):
            if block or (waiter is not None and waiter.blocks):
                raise TypeError(
                    "this stream has an async source, and the element to be read "
                    "next is not there yet; read it with async for (or acollect)"
                )

            if waiter is None:
                return None

            waiter.enter(pump.waiters)
            pump.ask()
            if not take_item(cell, pump.items):
                return None

        return LAST if cell.item is END else StreamCell(cell.link)

    def abort(self) -> None:
        self._pump.abort()

    async def stopped(self) -> None:
        await self._pump.stopped()

    def __del__(self) -> None:
        pump = getattr(self, "_pump", None)
        if pump is not None:
            pump.stop()


@attrs.define(eq=False)
class _PumpTask:
    """
    A task that reads an async iterator.

    Attributes:
        ended: Set once the iterator is closed.

        wanted: Set when the next item is wanted.

        scope: What cancels it.

        forks: How many forks led to the process that it runs in.

        is_spawned: Whether the task will run.
    """

    ended: Any
    wanted: Any
    scope: Any
    loop: Any = attrs.Factory(running_loop)
    forks: int = attrs.Factory(lambda: len(FORKS))
    is_spawned: bool = False


@attrs.define(eq=False)
class _Pump:
    """
    An async iterator, and the task that reads it.

    Attributes:
        asked: How many items were asked for.

        given: How many of them arrived.

        items: Those that no cell has yet.

        waiters: Waiters for items.
    """

    _iterator: AsyncIterator[Any]
    # Empty, or the run that asks: with `setdefault` exactly one wins.
    _claim: dict[int, _PumpTask] = attrs.Factory(dict)
    _is_over: bool = False
    _run: _PumpTask | None = None
    _task_id: int = 0
    asked: int = 0
    given: int = 0
    items: deque[Any] = attrs.Factory(deque)
    waiters: deque[Waiter] = attrs.Factory(deque)

    def ask(self) -> None:
        if self._task_id and self._task_id == self._current_task_id():
            raise StreamClosedError(CIRCLE)

        if self._is_over:
            return

        run = self._run
        if run is None or not run.is_spawned:
            # Possibly again after an interrupt; only the first task reads.
            anyio = require_anyio()
            wanted = anyio.Event()
            wanted.set()
            run = _PumpTask(anyio.Event(), wanted, anyio.CancelScope())
            self._run = run
            spawn(run.loop, partial(self._run_task, run))
            run.is_spawned = True
            return

        want = partial(self._request_item, run, self.given + 1)
        if run.loop is running_loop():
            want()
        elif run.forks != len(FORKS):
            self._finish_items(Fault(StreamClosedError(_FORKED)))
        elif not call_soon(run.loop, want):
            # The loop was closed without cancelling its tasks.
            why = "the event loop of its source has ended"
            self._finish_items(make_broken_off_fault(why))

    def _current_task_id(self) -> int:
        if self._run is None or self._run.loop is not running_loop():
            return 0

        return int(require_anyio().get_current_task().id)

    def _request_item(self, run: _PumpTask, number: int) -> None:
        # The item may have arrived before a request for it from another thread.
        if self.asked < number:
            run.wanted.set()

    async def _run_task(self, run: _PumpTask) -> None:
        if self._claim.setdefault(0, run) is not run:
            return

        self._run = run
        anyio = require_anyio()
        self._task_id = anyio.get_current_task().id
        last: Fault | None = None
        try:
            with run.scope:
                if self._is_over:  # aborted before it began
                    run.scope.cancel()

                last = await self._ask_repeatedly(run)
        except BaseException as error:
            why = f"{type(error).__name__} went through its source"
            last = make_broken_off_fault(why)
            raise
        finally:
            try:
                self._finish_items(last)
            finally:
                self._finish_items(last)  # the first call may have been interrupted

            try:
                await self._close_iterator()
            finally:
                run.ended.set()

    async def _ask_repeatedly(self, run: _PumpTask) -> Fault | None:
        iterator = self._iterator
        while True:
            await run.wanted.wait()
            run.wanted = require_anyio().Event()
            self.asked += 1
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return None
            except Exception as error:  # noqa: BLE001 - the source's: readers get it
                return fault(error)

            # The counter is increased first, because a reader that is woken may request
            # the next item at once.
            self.given += 1
            self.items.append(item)
            del item
            wake_all(self.waiters)

    def _finish_items(self, last: Fault | None) -> None:
        # Nothing after the end is read, so it may be there twice.
        if not self._is_over:
            self.items.extend((END,) if last is None else (last, END))
            self._is_over = True

        wake_all(self.waiters)

    async def _close_iterator(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is None:
            return

        try:
            await close()
        except BaseException as error:
            failed: BaseException | None = error
            if isinstance(error, BaseExceptionGroup):
                # A generator that is closed inside a task group raises this.
                failed = error.split(GeneratorExit)[1]
            if failed is None:
                return
            if not isinstance(failed, Exception):
                raise

            import logging  # noqa: PLC0415 - rarely needed, and slow to import

            # The error is logged because no caller is left to raise it to.
            logging.getLogger("conversation_state.streams").exception(
                "closing the source of a stream failed: %r", self._iterator
            )

    def abort(self) -> None:
        # Idempotent.
        self._finish_items(make_abort_fault())
        # The end is recorded first, so that a task that starts in between sees it.
        run = self._run
        if run is not None:
            call_soon(run.loop, run.scope.cancel)

    def stop(self) -> None:
        # A finalizer may call this in any thread, and in the middle of the loop's own
        # code; a cancel scope may be cancelled only between two steps of its loop.
        run = self._run
        if run is not None and not self._is_over:
            call_soon(run.loop, run.scope.cancel)

    async def stopped(self) -> None:
        run = self._run
        if run is None or not run.is_spawned:
            await self._close_iterator()
        elif run.loop is running_loop():
            await run.ended.wait()
