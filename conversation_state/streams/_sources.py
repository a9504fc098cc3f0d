"""
Where items come from: what is in memory, what blocks, and what is awaited.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from conversation_state._waiting import (
    Waiter,
    call_soon,
    in_worker,
    running_loop,
    spawn,
    the_anyio,
    wake_all,
)
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    END,
    PENDING,
    Cell,
    Fault,
    Source,
    asking,
    fault,
    pull,
)

__all__ = ["AsyncSource", "BlockingSource", "ReadySource", "closing"]


# What `closing` collects: pumps whose last reader went in this thread.
_closed_here = threading.local()


class closing:  # noqa: N801 - used like a function
    """
    Collects the pumps that come to an end in a block, for who can await them.
    """

    __slots__ = ("_before", "_pumps")

    def __enter__(self) -> list[_Pump]:
        self._before = getattr(_closed_here, "pumps", None)
        self._pumps: list[_Pump] = []
        _closed_here.pumps = self._pumps
        return self._pumps

    def __exit__(self, *_: object) -> None:
        _closed_here.pumps = self._before


def _interrupted(error: BaseException) -> Fault:
    return Fault(
        StreamClosedError(
            f"the stream broke off: {type(error).__name__} went through its source"
        )
    )


class ReadySource(Source):
    """
    Items that are in memory: asking for one takes no time.
    """

    __slots__ = ("_ask", "_last")

    # None once the iterator is done for.
    _ask: Callable[[Any], Any] | None

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__()
        self._ask = asking(iterator)
        # What is left to say then.
        self._last: Fault | None = None

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002 - an iterator in memory never blocks
        return self._next()

    def _next(self) -> Any:
        if self._ask is None:
            last, self._last = self._last, None
            return last or END

        try:
            item = self._ask(None)
        except BaseException as error:
            # A generator is finished by this, others may have lost an item:
            # the next reader must not take it for the end.
            self._last = _interrupted(error)
            self._ask = None
            raise

        if type(item) is Fault:
            item.caller, self._ask = self._ask, None

        return item


class BlockingSource(ReadySource):
    """
    An iterator nobody knows anything about: asking may take long.

    Threads ask it themselves. For tasks, and for merges, a worker does, one
    item at a time.
    """

    __slots__ = ("_close", "_is_asked", "_waiters")

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__(iterator)
        self._close: Callable[[], object] | None = getattr(iterator, "close", None)
        self._is_asked = False
        self._waiters: deque[Waiter] = deque()

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:
        if block or self._ask is None:
            return self._next()

        if waiter is not None:
            waiter.enter(self._waiters)
            if not self._is_asked:
                self._is_asked = True
                in_worker(_Asking(self, cell))

        return PENDING

    def ask(self, cell: Cell) -> None:
        """
        Fill *cell*, in a worker.
        """
        # What leaves the source in spite of everything is told in the stream.
        with suppress(BaseException):
            pull(cell, None, block=True)

        self._is_asked = False
        wake_all(self._waiters)

    def __del__(self) -> None:
        if callable(self._close):
            self._close()


class _Asking:
    """
    The job of a worker.
    """

    __slots__ = ("_cell", "_source")

    def __init__(self, source: BlockingSource, cell: Cell) -> None:
        self._source = source
        self._cell = cell

    def __call__(self) -> None:
        self._source.ask(self._cell)


class AsyncSource(Source):
    """
    An async iterator, asked by a task of its own, one item at a time.

    So a reader that is cancelled takes nothing from the others, and merges
    can wait for several. The task lives as long as anyone can read.
    """

    __slots__ = ("_pump",)

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__()
        self._pump = _Pump(iterator)

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002 - one cell is empty at a time
        pump = self._pump
        if not pump.items:
            if block or (waiter is not None and waiter.blocks):
                raise TypeError(
                    "this stream has an async source, and the element to be read "
                    "next is not there yet; read it with async for (or acollect)"
                )

            if waiter is None:
                return PENDING

            waiter.enter(pump.waiters)
            pump.ask()
            if not pump.items:
                return PENDING

        return pump.items.popleft()

    def __del__(self) -> None:
        self._pump.stop()


class _Pump:
    """
    The task that asks an async iterator.

    Attributes:
        items: What it gave, and nobody took yet.

        waiters: Who waits for that.
    """

    __slots__ = (
        "_ended",
        "_is_asked",
        "_is_over",
        "_iterator",
        "_loop",
        "_scope",
        "_task_id",
        "_wanted",
        "items",
        "waiters",
    )

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        self._iterator = iterator
        self._loop: Any = None
        self._task_id = 0
        self._is_asked = False
        self._is_over = False
        self.items: deque[Any] = deque()
        self.waiters: deque[Waiter] = deque()

    def ask(self) -> None:
        """
        Have the next item asked for, if it isn't yet.
        """
        if self._task_id and self._task_id == self._here():
            raise StreamClosedError(_CIRCLE)

        if self._is_asked or self._is_over:
            return

        self._is_asked = True
        if self._loop is None:
            self._start()
        elif self._loop is running_loop():
            self._wanted.set()
        elif not call_soon(self._loop, self._want):
            # Closed without a word to its tasks.
            self._over(_interrupted_loop())

    def _here(self) -> int:
        if self._loop is not running_loop():
            return 0

        return int(the_anyio().get_current_task().id)

    def _want(self) -> None:
        self._wanted.set()

    def _start(self) -> None:
        anyio = the_anyio()
        self._scope = anyio.CancelScope()
        self._wanted = anyio.Event()
        self._wanted.set()
        self._ended = anyio.Event()
        self._loop = loop = running_loop()
        spawn(loop, self._run)

    async def _run(self) -> None:
        anyio = the_anyio()
        self._task_id = anyio.get_current_task().id
        last: Fault | None = None
        try:
            with self._scope:
                last = await self._ask_on(anyio)
        except BaseException as error:
            last = _interrupted(error)
            raise
        finally:
            self._over(last)
            try:
                await self._close()
            finally:
                self._ended.set()

    async def _ask_on(self, anyio: Any) -> Fault | None:
        iterator = self._iterator
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return None
            except Exception as error:  # noqa: BLE001 - in-band
                return fault(error)

            self.items.append(item)
            # In this order: who is woken may ask for the next one.
            del item
            self._is_asked = False
            wake_all(self.waiters)

    def _over(self, last: Fault | None) -> None:
        self._is_over = True
        if last is not None:
            self.items.append(last)

        self.items.append(END)
        wake_all(self.waiters)

    async def _close(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is None:
            return

        try:
            await close()
        except BaseException as error:
            failed: BaseException | None = error
            if isinstance(error, BaseExceptionGroup):
                # A generator that is closed amid a task group says so this way.
                failed = error.split(GeneratorExit)[1]
            if failed is None:
                return
            if not isinstance(failed, Exception):
                raise

            import logging  # noqa: PLC0415 - seldom needed, and slow to import

            # Whoever dropped the stream is long gone.
            logging.getLogger("conversation_state.streams").exception(
                "closing the source of a stream failed: %r", self._iterator
            )

    def stop(self) -> None:
        """
        End the task: nobody will ask again.
        """
        if self._loop is not None and not self._is_over:
            call_soon(self._loop, self._scope.cancel)

        pumps = getattr(_closed_here, "pumps", None)
        if pumps is not None:
            pumps.append(self)

    async def stopped(self) -> None:
        """
        Return once the iterator is closed.
        """
        if self._loop is None:
            await self._close()
        elif self._loop is running_loop():
            await self._ended.wait()


def _interrupted_loop() -> Fault:
    return Fault(
        StreamClosedError(
            "the stream broke off: the event loop of its source has ended"
        )
    )


_CIRCLE = (
    "this stream is read by its own source, which would wait for itself for ever; "
    "let it read another stream"
)
