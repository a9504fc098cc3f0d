"""
Sources: items in memory, and iterators that may block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from inspect import currentframe
from itertools import chain, repeat
from time import sleep
from types import FrameType
from typing import Any

from conversation_state._waiting import (
    Waiter,
    in_worker,
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
    raise_by_value,
)
from conversation_state.streams._pull import pull

__all__ = ["CIRCLE", "BlockingSource", "ReadySource"]


class ReadySource(Source):
    """
    Items in memory: getting one never blocks.

    Attributes:
        ask: Puts the next item into `box`, and returns what interrupted the iterator,
            for the caller to raise. A ValueError if it runs in another thread.

        box: The next item, until a cell or a reader takes it.
    """

    __slots__ = (
        "_asks",
        "_interrupts",
        "_is_over",
        "_puts",
        "_takes",
        "_targets",
        "_tickets",
        "ask",
        "box",
    )

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__()
        self.box: deque[Any] = deque()
        # The box, while the iterator may be asked.
        self._tickets = deque((self.box,))
        # Takes the ticket, asks the iterator, and puts the item into the box, in one
        # call: so no interrupt comes between, and where both are empty, one went
        # through the iterator.
        self._puts = map(
            deque.append,
            map(deque.popleft, repeat(self._tickets)),
            chain(map(next, repeat(iterator)), (END,)),
        )
        # Takes a cell, and puts the item from the box into it, in one call.
        self._targets: deque[StreamCell] = deque()
        self._takes = map(
            SET_ITEM,
            map(deque.popleft, repeat(self._targets)),
            map(deque.popleft, repeat(self.box)),
        )
        # The names of errors that went through the iterator.
        self._interrupts = ["an interrupt"]
        self._is_over = False
        self._start_asking()

    def _start_asking(self) -> None:
        # A generator for the same reason as in `calling`. One at a time may run it,
        # whether it has the turn or reads alone.
        self._asks: Any = _ask_repeatedly(
            self._puts, self._tickets, self.box, self._interrupts
        )
        next(self._asks)
        self.ask = self._asks.__next__

    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        targets = self._targets
        while cell.item is EMPTY:
            try:
                if not self.box and (self._tickets or self._may_ask()):
                    error = self.ask()
                    if error is not None:
                        raise_by_value(error)

                targets.append(cell)
                next(self._takes)
            except StopIteration:  # an interrupt ended the generator
                self._start_asking()
            except (IndexError, ValueError):
                # A reader that was alone when it began is asking the iterator.
                if not block:
                    if waiter is not None:
                        waiter.wake()

                    return None

                sleep(_RETRY_S)
            finally:
                targets.clear()  # they would keep each other

        item = cell.item
        if item is END:
            return LAST

        if type(item) is Fault:
            item.caller = self._asks
            self._is_over = True

        return StreamCell(cell.link)

    def _may_ask(self) -> bool:
        """
        Whether the ticket, which was missing, is back.
        """
        if self._asks.gi_running:
            if _is_caller(self._asks):
                raise StreamClosedError(CIRCLE)
        elif not (self._tickets or self.box):
            # An interrupt ends a generator, and another iterator may have lost
            # an item: that must not look like the end of the stream.
            why = self._interrupts[-1]
            self.box.append(END if self._is_over else describe_interrupt(why))

        return bool(self._tickets)


# How long a thread waits for one that read alone until now.
_RETRY_S = 0.001


def _ask_repeatedly(
    puts: Iterator[None],
    tickets: deque[deque[Any]],
    box: deque[Any],
    interrupts: list[str],
) -> Generator[BaseException | None, None, None]:
    # Yields what interrupted the iterator, for the caller to raise.
    raised: list[BaseException] = []
    while True:
        yield raised.pop() if raised else None
        try:
            if tickets:
                next(puts)
                tickets.append(box)
        except StopIteration:  # the end was reached before, and lost to an interrupt
            box.append(END)
        except Exception as error:  # noqa: BLE001 - in-band
            box.append(fault(error))
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            if box and not tickets:  # it came between the two
                tickets.append(box)

            interrupts.append(type(error).__name__)
            raised.append(error)


def _is_caller(generator: Any) -> bool:
    # Whether this call comes from inside of it.
    frame: FrameType | None = currentframe()
    while frame is not None and frame is not generator.gi_frame:
        frame = frame.f_back

    return frame is not None


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
        if block or self._is_over or self.box or cell.item is not EMPTY:
            return ReadySource.poll(self, cell, waiter, block=block)

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


CIRCLE = (
    "this stream is read by its own source, which is a deadlock; "
    "let it read another stream"
)
