"""
Sources: items in memory, iterators that may block, and async iterators.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Any

from conversation_state._waiting import (
    Waiter,
    call_soon,
    in_worker,
    require_anyio,
    running_loop,
    spawn,
    wake_all,
)
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    EMPTY,
    END,
    LAST,
    SET_ITEM,
    Fault,
    Source,
    StreamCell,
    describe_interrupt,
    fault,
    is_ended,
    pull,
)

__all__ = ["AsyncSource", "BlockingSource", "ReadySource", "pumps_ended_by"]


# What `pumps_ended_by` collects: pumps that lost their last reader in this thread.
_closed_here = threading.local()


def pumps_ended_by(close: Callable[[], object]) -> list[_Pump]:
    """
    The pumps that come to an end while *close* runs, for those that can await it.
    """
    before = getattr(_closed_here, "pumps", None)
    pumps: list[_Pump] = []
    try:
        try:
            _closed_here.pumps = pumps
            close()
        finally:
            _closed_here.pumps = before
    finally:
        _closed_here.pumps = before  # the first call may have been interrupted

    return pumps


# What a cell holds while its item is asked for.
_ASKED = object()


class ReadySource(Source):
    """
    Items in memory: getting one never blocks.
    """

    __slots__ = ("_asks", "_fills", "_interrupt", "_is_over", "_targets")

    _asks: Generator[Fault | None, None, None] | None

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__()
        self._asks = None
        # The cell to be filled, until the iterator is asked.
        self._targets: deque[StreamCell] = deque()
        # Takes the target, asks the iterator, and fills the one with the item
        # of the other, in one call: so no interrupt comes between, and where the
        # target was taken and not filled, one went through the iterator.
        self._fills = map(
            SET_ITEM,
            map(deque.popleft, repeat(self._targets)),
            chain(map(next, repeat(iterator)), (END,)),
        )
        # What went through the iterator, if that was noted.
        self._interrupt = "an interrupt"
        self._is_over = False

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,  # noqa: ARG002 - the same
        *,
        block: bool,  # noqa: ARG002 - never blocks
    ) -> StreamCell | None:
        return self._fill_next(cell)

    def _fill_next(self, cell: StreamCell) -> StreamCell:
        if cell.item is EMPTY and self._is_over:
            cell.item = END
        elif cell.item is EMPTY or cell.item is _ASKED:
            self._ask_iterator(cell)

        return LAST if cell.item is END else StreamCell(cell.link)

    def _ask_iterator(self, cell: StreamCell) -> None:
        targets = self._targets
        if cell.item is EMPTY:
            if not targets:
                targets.append(cell)

            cell.item = _ASKED

        if not targets:
            # An interrupt ends a generator, and another iterator may have lost an
            # item: that must not look like the end of the stream.
            self._is_over = True
            cell.item = describe_interrupt(self._interrupt)
            return

        asks = self._asks
        if asks is None or is_ended(asks):  # ended by an interrupt
            asks = _ask_repeatedly(self._fills)
            next(asks)
            self._asks = asks

        try:
            failed = next(asks)
        except BaseException as error:
            if targets:  # it was not asked
                cell.item = EMPTY
                targets.clear()  # they would keep each other
            else:
                self._interrupt = type(error).__name__

            raise

        if failed is not None:
            failed.caller = asks
            self._is_over = True
            cell.item = failed


def _ask_repeatedly(fill: Iterator[None]) -> Generator[Fault | None, None, None]:
    # A generator for the same reason as in `calling`.
    failed: list[Fault | None] = [None]
    while True:
        yield failed.pop()
        try:
            next(fill)
            failed.append(None)
        except Exception as error:  # noqa: BLE001 - in-band
            failed.append(fault(error))


class BlockingSource(ReadySource):
    """
    Any iterator: getting an item may block.

    Threads call it themselves. For tasks, and for merges, a worker does, one
    item at a time.
    """

    __slots__ = ("_close", "_job", "_waiters")

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__(iterator)
        self._close: Callable[[], object] | None = getattr(iterator, "close", None)
        self._job: _Job | None = None
        self._waiters: deque[Waiter] = deque()

    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        # An item that is there already needs no waiting.
        if (
            block
            or self._is_over
            or (cell.item is not EMPTY and cell.item is not _ASKED)
        ):
            return self._fill_next(cell)

        if waiter is not None:
            waiter.enter(self._waiters)
            job = self._job
            if job is None or not job.is_begun or job.is_over:
                # Possibly again for the same cell, which is harmless.
                job = self._job = _Job()
                in_worker(partial(self._ask_in_worker, job, cell))
                job.is_begun = True

        return None

    def _ask_in_worker(self, job: _Job, cell: StreamCell) -> None:
        # An error of the source is an item of the stream already.
        with suppress(BaseException):
            pull(cell, None, block=True)

        job.is_over = True
        wake_all(self._waiters)

    def __del__(self) -> None:
        close = getattr(self, "_close", None)  # making it may be interrupted
        if callable(close):
            close()


class _Job:
    """
    The progress of a worker's job.
    """

    __slots__ = ("is_begun", "is_over")

    def __init__(self) -> None:
        self.is_begun = False
        self.is_over = False


class AsyncSource(Source):
    """
    An async iterator, read by a task of its own, one item at a time.

    So cancelling a reader does not affect the others, and merges can wait for
    several. The task lives as long as there may be a reader.
    """

    __slots__ = ("_pump",)

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__()
        self._pump = _Pump(iterator)

    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        pump = self._pump
        if not pump.take(cell):
            if block or (waiter is not None and waiter.blocks):
                raise TypeError(
                    "this stream has an async source, and the element to be read "
                    "next is not there yet; read it with async for (or acollect)"
                )

            if waiter is None:
                return None

            waiter.enter(pump.waiters)
            pump.ask()
            if not pump.take(cell):
                return None

        return LAST if cell.item is END else StreamCell(cell.link)

    def __del__(self) -> None:
        pump = getattr(self, "_pump", None)
        if pump is not None:
            pump.stop()


class _PumpTask:
    """
    A task that reads an async iterator.

    Attributes:
        ended: Set once the iterator is closed.

        is_spawned: Whether the task will run.

        wanted: Set when the next item is wanted.
    """

    __slots__ = ("ended", "is_spawned", "loop", "scope", "wanted")

    def __init__(self) -> None:
        anyio = require_anyio()
        self.ended = anyio.Event()
        self.is_spawned = False
        self.loop = running_loop()
        self.scope = anyio.CancelScope()
        self.wanted = anyio.Event()
        self.wanted.set()


class _Pump:
    """
    An async iterator, and the task that reads it.

    Attributes:
        asked: How many items were asked for.

        given: How many of them arrived.

        items: Those that no cell has yet.

        waiters: Those that wait for items.
    """

    __slots__ = (
        "_claim",
        "_is_over",
        "_iterator",
        "_run",
        "_task_id",
        "asked",
        "given",
        "items",
        "waiters",
    )

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        self._iterator = iterator
        # Empty, or the run that asks: with `setdefault` exactly one wins.
        self._claim: dict[int, _PumpTask] = {}
        self._is_over = False
        self._run: _PumpTask | None = None
        self._task_id = 0
        self.asked = 0
        self.given = 0
        self.items: deque[Any] = deque()
        self.waiters: deque[Waiter] = deque()

    def take(self, cell: StreamCell) -> bool:
        """
        Put the next item into *cell*; whether there was one. For one reader at a
        time.
        """
        if cell.item is EMPTY:
            try:
                # One call, so that no interrupt comes between the two.
                next(map(SET_ITEM, (cell,), map(deque.popleft, (self.items,))))
            except IndexError:
                return False

        return True

    def ask(self) -> None:
        """
        Request the next item, unless it is requested already.
        """
        if self._task_id and self._task_id == self._current_task_id():
            raise StreamClosedError(_CIRCLE)

        if self._is_over:
            return

        run = self._run
        if run is None or not run.is_spawned:
            # Possibly again after an interrupt; only the first task reads.
            run = self._run = _PumpTask()
            spawn(run.loop, partial(self._run_task, run))
            run.is_spawned = True
            return

        want = partial(self._request_item, run, self.given + 1)
        if run.loop is running_loop():
            want()
        elif not call_soon(run.loop, want):
            # The loop was closed without cancelling its tasks.
            self._finish(_make_ended_loop_fault())

    def _current_task_id(self) -> int:
        if self._run is None or self._run.loop is not running_loop():
            return 0

        return int(require_anyio().get_current_task().id)

    def _request_item(self, run: _PumpTask, number: int) -> None:
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
                last = await self._ask_repeatedly(run)
        except BaseException as error:
            last = describe_interrupt(type(error).__name__)
            raise
        finally:
            try:
                self._finish(last)
            finally:
                self._finish(last)  # the first call may have been interrupted

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
            except Exception as error:  # noqa: BLE001 - in-band
                return fault(error)

            # In this order: a woken reader may request the next one.
            self.given += 1
            self.items.append(item)
            del item
            wake_all(self.waiters)

    def _finish(self, last: Fault | None) -> None:
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

            # There is no caller to raise it in.
            logging.getLogger("conversation_state.streams").exception(
                "closing the source of a stream failed: %r", self._iterator
            )

    def stop(self) -> None:
        """
        Cancel the task: there is no reader any more.
        """
        run = self._run
        if run is not None and not self._is_over:
            call_soon(run.loop, run.scope.cancel)

        pumps = getattr(_closed_here, "pumps", None)
        if pumps is not None:
            pumps.append(self)

    async def stopped(self) -> None:
        """
        Return once the iterator is closed.
        """
        run = self._run
        if run is None or not run.is_spawned:
            await self._close_iterator()
        elif run.loop is running_loop():
            await run.ended.wait()


def _make_ended_loop_fault() -> Fault:
    return Fault(
        StreamClosedError(
            "the stream broke off: the event loop of its source has ended"
        )
    )


_CIRCLE = (
    "this stream is read by its own source, which is a deadlock; "
    "let it read another stream"
)
