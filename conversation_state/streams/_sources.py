"""Sources: items in memory, and iterators that may block."""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from inspect import currentframe
from itertools import chain, repeat
from time import sleep
from types import FrameType, GeneratorType
from typing import Any

import attrs

from conversation_state._waiting import Waiter, in_worker, wake_all
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    EMPTY,
    END,
    FILLED,
    LAST,
    SET_ITEM,
    Fault,
    Source,
    StreamCell,
    fault,
    make_abort_fault,
    make_bare_cell,
    make_broken_off_fault,
    raise_by_value,
)
from conversation_state.streams._pull import FORKS, pull


class ReadySource(Source):
    """
    Items in memory: getting one never blocks.

    Attributes:
        ask: Puts the next item into `box`, and returns what interrupted the iterator,
            for the caller to raise, in a list that it empties. A ValueError if it runs
            in another thread.

        box: The next item, until a cell or a reader takes it.

        fill: Called with a cell: puts the next item into it and returns `FILLED`, if
            no other reader polls and nothing is unusual. Otherwise the cell is left
            to `poll`, and the result is that of `ask`.
    """

    __slots__ = (
        "_asks",
        "_closers",
        "_closing",
        "_cuts",
        "_interrupts",
        "_is_over",
        "_puts",
        "_takes",
        "_targets",
        "_tickets",
        "ask",
        "box",
        "fill",
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
        # Empty, or the fault of an abort: with `setdefault` there is only one.
        self._cuts: dict[int, Fault] = {}
        # What closes the iterator, until an abort has called it.
        self._closers: deque[Callable[[], object]] = deque()
        # Empty, or the call that closes it: with `setdefault` exactly one wins.
        self._closing: dict[int, object] = {}
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
        # This is a generator for the same reason as in `calling`. Only one caller at a
        # time may run it, whether it holds the turn or reads alone.
        self._asks: Any = _ask_repeatedly(self)
        next(self._asks)
        self.fill = self._asks.send
        self.ask = self._asks.__next__

    def poll(  # noqa: C901, PLR0912 - one loop, any step of which is repeatable
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        link = cell.link
        if link is None:  # an abort took the turn away, and another filled it
            return None

        targets = self._targets
        while cell.item is EMPTY:
            if self._cuts and self._is_cut_next():
                cell.item = self._cuts[0]
                break

            try:
                if not self.box and (self._tickets or self._may_ask()):
                    interrupt = self.ask()
                    if interrupt is not None:
                        raise_by_value(interrupt.pop())
                    if self._cuts:
                        continue

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
            if item is self._cuts.get(0):
                if not self._asks.gi_running:  # or the abort was interrupted
                    close_iterator(self._closers, self._closing)

                return LAST

            item.caller = self._asks
            self._is_over = True

        return StreamCell(link)

    def abort(self) -> None:
        if self._is_over:
            return

        cut = self._cuts.setdefault(0, make_abort_fault())
        if not any(item is cut for item in self.box.copy()):
            # It stays the next item for all that poll from now on: only a reader
            # that was alone when it began takes one out.
            self.box.extend(repeat(cut, _CUTS))

        try:
            self._tickets.popleft()
            is_asked = False
        except IndexError:  # another thread asks the iterator, or it has ended
            is_asked = bool(self._asks.gi_running)

        if not is_asked:
            close_iterator(self._closers, self._closing)
        elif self._is_cut_next():
            # The reader inside the iterator may stay there for ever. It will find
            # what others now find, so they need not wait for its turn to end.
            self.turn.clear()

        self.wake()

    def _is_cut_next(self) -> bool:
        items = self.box.copy()
        return bool(items) and items[0] is self._cuts.get(0)

    def _may_ask(self) -> bool:
        # Whether the ticket, which was missing, is back.
        if self._asks.gi_running:
            if _is_caller(self._asks):
                raise StreamClosedError(CIRCLE)
        elif not (self._tickets or self.box):
            # An interrupt ends a generator, and another iterator may have lost
            # an item: that must not look like the end of the stream.
            why = f"{self._interrupts[-1]} went through its source"
            self.box.append(END if self._is_over else make_broken_off_fault(why))

        return bool(self._tickets)


# How many places an abort's fault has in the box: a reader that is alone takes one out,
# and one that is interrupted just then takes another.
_CUTS = 4

# How long a thread waits for one that read alone until now.
_RETRY_S = 0.001


def _ask_repeatedly(  # noqa: C901, PLR0912, PLR0915 - calls take longer than all
    source: ReadySource,
) -> Generator[Any, StreamCell | None, None]:
    # Yields what interrupted the iterator, for the caller to raise, in a list that it
    # empties, since this frame keeps what it yields; or `FILLED`.
    box, tickets, cuts = source.box, source._tickets, source._cuts
    puts, takes, targets = source._puts, source._takes, source._targets
    interrupts, turn, busy = source._interrupts, source.turn, source.busy
    closers, closing = source._closers, source._closing
    del source  # which owns this generator
    own = [0]
    result: object = None
    following: Any
    while True:
        cell = yield result
        result = None
        if cell is None:
            try:
                if tickets:
                    next(puts)
                    tickets.append(box)
                    if cuts:  # the abort left the closing to this call
                        close_iterator(closers, closing)
            except BaseException as error:  # noqa: BLE001 - `_put_error` says where
                result = _put_error(error, box, tickets, interrupts)

            continue

        # All that is done for a cell in the usual case. Each step is one of
        # `_pull_one` and `poll`, which go on from where an interrupt left it.
        own[0] = get_ident()
        has_asked = False
        try:
            try:
                if (
                    turn.setdefault(0, own) is own
                    and cell.item is EMPTY
                    and tickets
                    and not box
                ):
                    next(puts)
                    has_asked = True
                    tickets.append(box)
                    if cuts:
                        close_iterator(closers, closing)
                    else:
                        targets.append(cell)
                        next(takes)
                        if cell.item is not END:
                            following = make_bare_cell()
                            following.item = EMPTY
                            following.link = cell.link
                            following.next = None
                            cell.next = following
                            cell.link = following = None
                            result = FILLED
            except BaseException as error:  # noqa: BLE001 - `_put_error` says where
                targets.clear()  # it would keep the cell
                following = None
                # Otherwise a reader that was alone until now took the item.
                if not (has_asked and isinstance(error, IndexError)):
                    result = _put_error(error, box, tickets, interrupts)
            finally:
                if turn.get(0) is own:
                    turn.clear()

                if busy:
                    wake_all(busy)

                own[0] = 0  # all is done
        finally:
            if own[0]:  # the inner one was interrupted
                if turn.get(0) is own:
                    turn.clear()

                wake_all(busy)

            cell = None


def _put_error(
    error: BaseException,
    box: deque[Any],
    tickets: deque[deque[Any]],
    interrupts: list[str],
) -> list[BaseException] | None:
    # Put what an iterator raised into the box, or return it if it interrupted it.
    if isinstance(error, StopIteration):  # the end was lost to an interrupt before
        box.append(END)
    elif isinstance(error, Exception):
        box.append(fault(error))
    else:
        if box and not tickets:  # it came between the two
            tickets.append(box)

        interrupts.append(type(error).__name__)
        return [error]

    return None


def close_iterator(
    closers: deque[Callable[[], object]], closing: dict[int, object]
) -> None:
    # Call what closes an iterator, unless that was done or another call does it.
    own = object()
    try:
        if closing.setdefault(0, own) is own:
            _call_closers(closers)
    finally:
        if closing.get(0) is own:  # if this is interrupted, all else is done
            closing.clear()


def _call_closers(closers: deque[Callable[[], object]]) -> None:
    for close in closers.copy():
        try:
            close()
        except Exception:
            # A source is the user's code and may raise any error. Readers have its
            # items already and no caller waits for this call, so the error is logged.
            import logging  # noqa: PLC0415 - rarely needed, and slow to import

            logging.getLogger("conversation_state.streams").exception(
                "closing the source of a stream failed: %r", close
            )

        closers.clear()  # an interrupt comes before: then it is called again


def _close_asked_iterator(closers: deque[Callable[[], object]]) -> None:
    # Iterators that are running can't be closed now, and are closed later.
    with suppress(BaseException):
        for close in closers.copy():
            close()
            closers.clear()


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

    __slots__ = ("_is_closing", "_job", "_waiters")

    def __init__(self, iterator: Iterator[Any]) -> None:
        super().__init__(iterator)
        close = getattr(iterator, "close", None)
        if callable(close):
            self._closers.append(close)

        self._is_closing = False
        self._job: _WorkerJob | None = None
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
            if job is None or not job.is_running():
                # This may ask for the same cell again, which is harmless.
                job = self._job = _WorkerJob()
                in_worker(partial(self._ask_in_worker, job, cell))
                job.is_begun = True

        return None

    def _ask_in_worker(self, job: _WorkerJob, cell: StreamCell) -> None:
        # An error of the source is an item of the stream already.
        with suppress(BaseException):
            pull(cell, None, block=True)

        job.is_over = True
        wake_all(self._waiters)

    def abort(self) -> None:
        ReadySource.abort(self)
        wake_all(self._waiters)
        closers = self._closers.copy()
        if closers and self._cuts and not self._is_closing:
            # It is being asked. Closing it may end that, as it does a connection's
            # wait, or may wait for it: so a worker does. A generator can't be
            # closed now; the call that asks it closes it when it returns.
            if not isinstance(getattr(closers[0], "__self__", None), GeneratorType):
                in_worker(partial(_close_asked_iterator, self._closers))

            self._is_closing = True

    def __del__(self) -> None:
        # A generator is closed when it is freed; other iterators, such as connections,
        # have to be closed explicitly.
        for close in getattr(self, "_closers", ()):  # making it may be interrupted
            close()


@attrs.define(eq=False)
class _WorkerJob:
    """The progress of a worker's job."""

    is_begun: bool = False
    is_over: bool = False
    _forks: int = attrs.Factory(lambda: len(FORKS))

    def is_running(self) -> bool:
        return self.is_begun and not self.is_over and self._forks == len(FORKS)


CIRCLE = (
    "this stream is read by its own source, which is a deadlock; "
    "let it read another stream"
)
