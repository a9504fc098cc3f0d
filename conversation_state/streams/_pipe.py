"""Pipes: what one side sends, the other reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from weakref import ref

import attrs

from conversation_state._waiting import (
    TaskWaiter,
    ThreadWaiter,
    Waiter,
    require_anyio,
    wake_all,
)
from conversation_state._wording import shorten_repr
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    END,
    LAST,
    Fault,
    ProcessBound,
    Source,
    StreamCell,
    fault,
    make_abort_fault,
    make_broken_off_fault,
    take_item,
)

T_contra = TypeVar("T_contra", contravariant=True)

# After so many sends in a row, other tasks may run.
_MAX_IN_A_ROW = 64

_CLOSED = "can't send: this sender was closed. Nothing comes after the end of a stream."


@attrs.define(eq=False)
class _Offer:
    """
    An item that is being sent: first in the queue of senders, then among the items.
    """

    item: Any
    # Whether it left the queue, and those that wait for that know.
    is_over: bool = False
    # What its sender waits with, if it does.
    waiter: Any = None


@attrs.define(eq=False)
class Pipe:
    """
    What both sides share.

    Senders queue up, and only the first may put its item among the items. So
    there is no lock that an interrupt could leave held: a sender leaves the
    queue however it ends, and wakes the next one.
    """

    capacity: int
    # Whether a reader stopped it: senders learn that, and what was sent before can be
    # read.
    is_aborted: bool = False
    # Whether nothing more will be sent.
    is_closed: bool = False
    # Whether there is no reader any more.
    is_deserted: bool = False
    # Sent and not yet read: offers, at most *capacity* of them. After closing,
    # perhaps a `Fault`, and `END`.
    items: deque[Any] = attrs.Factory(deque)
    # The queue of senders: what each sends.
    offers: deque[_Offer] = attrs.Factory(deque)
    # Waiters for items.
    readers: deque[Waiter] = attrs.Factory(deque)
    # The pipe watches both ends itself, because Python swallows an interrupt that is
    # raised in a finalizer, and the rest of the finalizer does not run.
    watched: list[ref[Any]] = attrs.Factory(list)

    def watch(self, end: object, callback: Callable[[], object]) -> None:
        self.watched.append(ref(end, lambda _: callback()))

    def accept(self, offer: _Offer) -> bool | None:
        """
        Whether an offer in the queue was sent; None if it has to wait.

        Raises:
            StreamClosedError:
                If the pipe is closed.
        """
        if self.is_closed:
            raise StreamClosedError(_CLOSED)
        if self.is_deserted or self.is_aborted:
            return False
        if self.offers[0] is not offer or not self.has_room():
            return None

        self.items.append(offer)
        if self.is_deserted:  # perhaps before there was something to clear
            self.items.clear()
            return False

        # The pipe may have been closed before the offer was added: items after the end
        # are lost.
        if self.is_closed or self.is_aborted:
            try:
                self.items.remove(offer)
            except ValueError:  # it was read
                return True

            if self.is_aborted:
                return False

            raise StreamClosedError(_CLOSED)

        return True

    def has_room(self) -> bool:
        # Whether an item may be sent: always to a reader that waits for one.
        n = len(self.items)
        return n < self.capacity or (not n and bool(self.readers))

    def withdraw(self, offer: _Offer) -> None:
        # Leave the queue, and wake those that wait for that. Idempotent.
        try:  # noqa: SIM105 - quicker than suppress
            self.offers.remove(offer)
        except ValueError:
            pass

        if self.readers and self.items:
            wake_all(self.readers)

        if self.offers:
            self.wake_sender()

        offer.is_over = True  # all is done

    def wake_sender(self) -> None:
        try:
            waiter = self.offers[0].waiter
        except IndexError:
            return

        if waiter is not None:
            waiter.wake()

    def take(self, cell: StreamCell) -> bool:
        # Whether the next item was put into *cell*. For one reader at a time.
        if not take_item(cell, self.items):
            return False

        # An interrupt may leave the offer in the cell: then this is repeated.
        item = cell.item
        if type(item) is _Offer:
            cell.item = item.item

        return True

    def close(self, *last: Any) -> None:
        # Idempotent.
        try:
            self.is_closed = True
            self._append_last(*last, END)
        finally:  # the first call may have been interrupted
            self.is_closed = True
            self._append_last(*last, END)

    def abort(self) -> None:
        # Idempotent.
        if not self.is_closed:
            self.is_aborted = True  # before the end, for `accept` looks after it adds
            self._append_last(make_abort_fault(), END)

    def _append_last(self, *last: Any) -> None:
        # Nothing after the end is read, so it may be there twice.
        if not self.is_deserted and END not in self.items.copy():
            self.items.extend(last)

        wake_all(self.readers)
        self._wake_senders()

    def break_off(self) -> None:
        # End the pipe, whose sender is gone, unless it was closed.
        if not self.is_closed:
            self.close(make_broken_off_fault("its sender was dropped without close()"))

    def abandon(self) -> None:
        # The flag is set before the items are cleared: `accept` adds an item and then
        # checks the flag, so one of the two always clears items that no reader can get.
        self.is_deserted = True
        self.items.clear()
        self._wake_senders()

    def _wake_senders(self) -> None:
        for offer in self.offers.copy():
            if offer.waiter is not None:
                offer.waiter.wake()


class PipeSource(Source):
    """The end of a pipe that is read."""

    __slots__ = ("__weakref__", "_pipe")

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe
        pipe.watch(self, pipe.abandon)

    def poll(
        self,
        cell: StreamCell,
        waiter: Waiter | None,
        *,
        block: bool,  # noqa: ARG002 - never blocks
    ) -> StreamCell | None:
        pipe = self._pipe
        if not pipe.take(cell):
            if waiter is None:
                return None

            # The waiter enters the queue before the second look, so that an item that
            # arrives after it wakes this reader.
            waiter.enter(pipe.readers)
            pipe.wake_sender()  # if there is no room without a reader that waits
            if not pipe.take(cell):
                return None

        return LAST if cell.item is END else StreamCell(cell.link)

    def abort(self) -> None:
        self._pipe.abort()

    def wake(self) -> None:
        if self.busy:
            wake_all(self.busy)

        # Each element that leaves a full pipe makes room for one sender.
        pipe = self._pipe
        if pipe.offers and len(pipe.items) < pipe.capacity:
            pipe.wake_sender()

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)  # making it may be interrupted
        if pipe is not None:
            pipe.abandon()


class Sender(ProcessBound, Generic[T_contra]):
    """
    The end of a pipe that is written to; made by `pipe`.

    May be used by many threads and tasks at once. As a context manager it is
    closed at the end of the block; an exception that leaves the block is the
    last thing its readers get.

    A sender that is dropped without having been closed breaks the stream off:
    its readers get a `StreamClosedError`, and then the end.
    """

    __slots__ = ("__weakref__", "_in_a_row", "_pipe")

    def __init__(self, pipe: Pipe) -> None:
        if not isinstance(pipe, Pipe):
            raise TypeError("can't call Sender(); use pipe(capacity)")

        self._in_a_row = 0
        self._pipe = pipe
        pipe.watch(self, pipe.break_off)

    def send(self, item: T_contra) -> bool:
        """
        Whether *item* was sent; False if it can't be read any more: there is no
        reader, or `Stream.abort` was called.

        Waits while the pipe is full; with capacity 0, until a reader waits for it.
        If it is interrupted, *item* was sent once at most.

        Raises:
            StreamClosedError:
                If this sender was closed.
        """
        return self._send_item(item)

    async def asend(self, item: T_contra) -> bool:
        """
        Like `send`, without blocking other tasks.

        If it is cancelled while it waits, *item* is not sent.
        """
        return await self._asend_item(item)

    def fail(self, error: Exception) -> bool:
        """
        Whether *error* was sent; it keeps its place among the items.

        Readers go on after it if they want to, and so may the sender.

        Raises:
            StreamClosedError:
                If this sender was closed.

            TypeError:
                If *error* is not an `Exception`.

            ValueError:
                If *error* is how Python says the end of an iteration.
        """
        return self._send_item(Fault(_check_error(error)))

    async def afail(self, error: Exception) -> bool:
        """Like `fail`, without blocking other tasks."""
        return await self._asend_item(Fault(_check_error(error)))

    def close(self) -> None:
        """
        End the stream after what was sent. Idempotent.

        Senders that still wait get a `StreamClosedError`.
        """
        self._close_pipe()

    async def aclose(self) -> None:
        """Like `close`, which never waits."""
        require_anyio()
        self._close_pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close_pipe(error)

    async def __aenter__(self) -> Self:
        require_anyio()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close_pipe(error)

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)
        if pipe is not None:
            pipe.break_off()

    def __repr__(self) -> str:
        pipe = self._pipe
        state = "deserted" if pipe.is_deserted else "open"
        state = "aborted" if pipe.is_aborted else state
        state = "closed" if pipe.is_closed else state
        waiting = sum(item is not END for item in pipe.items.copy())
        return f"<Sender: {state}, {waiting} of {pipe.capacity} waiting>"

    def _close_pipe(self, error: BaseException | None = None) -> None:
        pipe = self._pipe
        # If no reader can get the error, sending it would only keep its frames alive.
        if error is None or pipe.is_closed or pipe.is_deserted:
            pipe.close()
        else:
            # The last item is put into a full pipe, too, because leaving a `with` block
            # must not wait.
            pipe.close(_make_last_fault(error))

    def _send_item(self, item: Any) -> bool:
        pipe, offer = self._pipe, _Offer(item)
        # One call within, see `pull`.
        try:
            try:
                is_sent = _wait_for_room(pipe, offer)
            finally:
                pipe.withdraw(offer)
        finally:
            if not offer.is_over:  # the first call was interrupted
                pipe.withdraw(offer)

        return is_sent

    async def _asend_item(self, item: Any) -> bool:
        anyio = require_anyio()
        self._in_a_row += 1
        if self._in_a_row > _MAX_IN_A_ROW:
            self._in_a_row = 0
            await anyio.lowlevel.checkpoint()

        pipe, offer = self._pipe, _Offer(item)
        try:
            try:
                is_sent = await self._await_room(offer)
            finally:
                pipe.withdraw(offer)
        finally:
            if not offer.is_over:
                pipe.withdraw(offer)

        return is_sent

    async def _await_room(self, offer: _Offer) -> bool:
        pipe = self._pipe
        pipe.offers.append(offer)
        # Nothing is awaited after it was sent: a cancelled sender has not sent.
        while (is_sent := pipe.accept(offer)) is None:
            if offer.waiter is None:
                offer.waiter = TaskWaiter()
            else:
                self._in_a_row = 0
                await offer.waiter.wait()
                offer.waiter = None  # it can be woken only once

        return is_sent


def _wait_for_room(pipe: Pipe, offer: _Offer) -> bool:
    pipe.offers.append(offer)
    while (is_sent := pipe.accept(offer)) is None:
        if offer.waiter is None:
            # Look again, because room that was made just now woke no waiter.
            offer.waiter = ThreadWaiter()
        else:
            offer.waiter.wait()

    return is_sent


def _make_last_fault(error: BaseException) -> Fault:
    if isinstance(error, Exception):
        return fault(error)

    why = f"its sender's block was left by {type(error).__name__}"
    return make_broken_off_fault(why)


def _check_error(error: Exception) -> Exception:
    if not isinstance(error, Exception):
        raise TypeError(
            f"can't send {shorten_repr(error)} as an error; expected an instance of "
            "Exception"
        )

    if isinstance(error, (StopIteration, StopAsyncIteration)):
        raise ValueError(  # noqa: TRY004 - its type is fine, its meaning is not
            f"can't send {type(error).__name__} as an error: readers would take it "
            "for the end, and lose what follows. Call close() to end the stream."
        )

    return error
