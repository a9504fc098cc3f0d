"""
Pipes: what one side sends, the other reads.

What lives here: what both sides share, and the end that is read. What does not:
the end that is written to (`_sender`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

from conversation_state._waiting import Waiter, wake_all
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    END,
    LAST,
    Source,
    StreamCell,
    make_abort_fault,
    make_broken_off_fault,
    take_item,
)

__all__ = ["Offer", "Pipe", "PipeSource"]


class Offer:
    """
    An item that is being sent: first in the queue of senders, then among the items.

    Attributes:
        is_over: Whether it left the queue, and those that wait for that know.

        waiter: What its sender waits with, if it does.
    """

    __slots__ = ("is_over", "item", "waiter")

    def __init__(self, item: Any) -> None:
        self.is_over = False
        self.item = item
        self.waiter: Waiter | None = None


class Pipe:
    """
    What both sides share.

    Senders queue up, and only the first may put its item among the items. So
    there is no lock that an interrupt could leave held: a sender leaves the
    queue however it ends, and wakes the next one.

    Attributes:
        items: Sent and not yet read: offers, at most *capacity* of them. After
            closing, perhaps a `Fault`, and `END`.

        offers: The queue of senders: what each sends.

        readers: Waiters for items.

        is_aborted: Whether a reader stopped it: senders learn that, and what was
            sent before can be read.

        is_closed: Whether nothing more will be sent.

        is_deserted: Whether there is no reader any more.
    """

    __slots__ = (
        "capacity",
        "is_aborted",
        "is_closed",
        "is_deserted",
        "items",
        "offers",
        "readers",
        "watched",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_aborted = False
        self.is_closed = False
        self.is_deserted = False
        self.items: deque[Any] = deque()
        self.offers: deque[Offer] = deque()
        self.readers: deque[Waiter] = deque()
        # The pipe watches both ends itself, because Python swallows an interrupt that
        # is raised in a finalizer, and the rest of the finalizer does not run.
        self.watched: list[ref[Any]] = []

    def watch(self, end: object, callback: Callable[[], object]) -> None:
        """
        Call *callback* when *end* is gone.
        """
        self.watched.append(ref(end, lambda _: callback()))

    def accept(self, offer: Offer) -> bool | None:
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
        """
        Whether an item may be sent: always to a reader that waits for one.
        """
        n = len(self.items)
        return n < self.capacity or (not n and bool(self.readers))

    def withdraw(self, offer: Offer) -> None:
        """
        Leave the queue, and wake those that wait for that. Idempotent.
        """
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
        """
        Let the first sender look again.
        """
        try:
            waiter = self.offers[0].waiter
        except IndexError:
            return

        if waiter is not None:
            waiter.wake()

    def take(self, cell: StreamCell) -> bool:
        """
        Put the next item into *cell*; whether there was one. For one reader at a
        time.
        """
        if not take_item(cell, self.items):
            return False

        # An interrupt may leave the offer in the cell: then this is repeated.
        item = cell.item
        if type(item) is Offer:
            cell.item = item.item

        return True

    def close(self, *last: Any) -> None:
        """
        End the pipe with *last*. Idempotent.
        """
        try:
            self._append_end(*last, END)
        finally:
            self._append_end(*last, END)  # the first call may have been interrupted

    def abort(self) -> None:
        """
        End the pipe for both sides, unless it was closed. Idempotent.
        """
        if not self.is_closed:
            self.is_aborted = True  # before the end, for `accept` looks after it adds
            self._append_last(make_abort_fault(), END)

    def _append_end(self, *last: Any) -> None:
        self.is_closed = True
        self._append_last(*last)

    def _append_last(self, *last: Any) -> None:
        # Nothing after the end is read, so it may be there twice.
        if not self.is_deserted and self._find_newest_item() is not END:
            self.items.extend(last)

        wake_all(self.readers)
        self._wake_senders()

    def _find_newest_item(self) -> Any:
        try:
            return self.items[-1]
        except IndexError:
            return None

    def break_off(self) -> None:
        """
        End the pipe, whose sender is gone, unless it was closed.
        """
        if not self.is_closed:
            self.close(make_broken_off_fault("its sender was dropped without close()"))

    def abandon(self) -> None:
        """
        Tell senders that the last reader is gone.
        """
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
    """
    The end of a pipe that is read.
    """

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


_CLOSED = "can't send: this sender was closed. Nothing comes after the end of a stream."
