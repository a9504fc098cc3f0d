"""
Pipes: what one side sends, the other reads.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from conversation_state._waiting import (
    TaskWaiter,
    ThreadWaiter,
    Waiter,
    the_anyio,
    wake_all,
)
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import END, PENDING, Cell, Fault, Source

__all__ = ["Pipe", "PipeSource", "Sender"]

T_contra = TypeVar("T_contra", contravariant=True)

# So many sends in a row may do without giving way to other tasks.
_IN_A_ROW = 64


class _Offer:
    """
    An item that waits for room, with who waits for it.
    """

    __slots__ = ("is_taken", "item", "waiter")

    def __init__(self, item: Any, waiter: Waiter) -> None:
        self.item = item
        self.waiter = waiter
        self.is_taken = False


class Pipe:
    """
    What both sides share.

    Attributes:
        items: Sent and not yet read, at most *capacity* of them.

        offers: Of those who wait until there is room.

        readers: Who waits for items.

        is_closed: Whether nothing more will be sent.

        is_deserted: Whether nobody can read any more.
    """

    __slots__ = (
        "capacity",
        "is_closed",
        "is_deserted",
        "items",
        "lock",
        "offers",
        "readers",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_closed = False
        self.is_deserted = False
        self.items: deque[Any] = deque()
        self.lock = allocate_lock()
        self.offers: deque[_Offer] = deque()
        self.readers: deque[Waiter] = deque()

    def settle(self) -> None:
        """
        Take what was offered while there is room; needs the lock.
        """
        while self.offers and len(self.items) < self.capacity:
            self._accept(self.items)

    def _accept(self, items: deque[Any]) -> None:
        try:
            offer = self.offers.popleft()
        except IndexError:  # the last reader has just gone
            return

        items.append(offer.item)
        offer.is_taken = True
        offer.waiter.wake()

    def take(self) -> Any:
        """
        The next item, `END` or `PENDING`; for one reader at a time.
        """
        try:
            item = self.items.popleft()
        except IndexError:
            return self._take_offered()

        # A sender who found the pipe full looks again after making an offer,
        # so either they see the room or this sees the offer.
        if self.offers:
            with self.lock:
                self.settle()

        return item

    def _take_offered(self) -> Any:
        with self.lock:
            is_closed = self.is_closed
            if not self.items and self.offers:  # nothing waits in a pipe of no room
                self._accept(self.items)

            if self.items:
                item = self.items.popleft()
                self.settle()
                return item

        return END if is_closed else PENDING

    def desert(self) -> None:
        """
        Tell senders that the last reader is gone; needs no lock.
        """
        self.is_deserted = True
        self.items.clear()
        while self.offers:
            try:
                offer = self.offers.popleft()
            except IndexError:
                return

            offer.waiter.wake()


class PipeSource(Source):
    """
    The end of a pipe that is read.
    """

    __slots__ = ("_pipe",)

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:  # noqa: ARG002 - a pipe never blocks who polls it
        pipe = self._pipe
        item = pipe.take()
        if item is PENDING and waiter is not None:
            waiter.enter(pipe.readers)
            item = pipe.take()

        return item

    def __del__(self) -> None:
        self._pipe.desert()


class Sender(Generic[T_contra]):
    """
    The end of a pipe that is written to; made by `pipe`.

    May be used by many threads and tasks at once. As a context manager it is
    closed at the end of the block; an exception that leaves the block is the
    last thing its readers get.

    A sender that is dropped without having been closed breaks the stream off:
    its readers get a `StreamClosedError`, and then the end.
    """

    __slots__ = ("_in_a_row", "_pipe")

    def __init__(self, pipe: Pipe) -> None:
        if not isinstance(pipe, Pipe):
            raise TypeError("can't make a Sender alone; pipe(capacity) makes both ends")

        self._pipe = pipe
        self._in_a_row = 0

    def send(self, item: T_contra) -> bool:
        """
        Whether *item* was sent; False if nobody can read it any more.

        Waits while the pipe is full; with capacity 0, until it is read.

        Raises:
            StreamClosedError:
                If this sender was closed.
        """
        return self._send(item)

    async def asend(self, item: T_contra) -> bool:
        """
        Like `send`, without blocking other tasks.

        If it is cancelled while it waits, *item* is not sent.

        Raises:
            StreamClosedError:
                If this sender was closed.
        """
        return await self._asend(item)

    def fail(self, error: Exception) -> bool:
        """
        Whether *error* was sent; it keeps its place among the items.

        Readers go on after it if they want to, and so may the sender.

        Raises:
            StreamClosedError:
                If this sender was closed.

            TypeError:
                If *error* is no `Exception`.

            ValueError:
                If *error* is how Python says the end of an iteration.
        """
        return self._send(Fault(_checked(error)))

    async def afail(self, error: Exception) -> bool:
        """
        Like `fail`, without blocking other tasks.

        Raises:
            StreamClosedError:
                If this sender was closed.

            TypeError:
                If *error* is no `Exception`.

            ValueError:
                If *error* is how Python says the end of an iteration.
        """
        return await self._asend(Fault(_checked(error)))

    def close(self) -> None:
        """
        End the stream after what was sent; again changes nothing.

        Whoever still waits to send gets a `StreamClosedError`.
        """
        self._close()

    async def aclose(self) -> None:
        """
        Like `close`, which never waits.
        """
        the_anyio()
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(error)

    async def __aenter__(self) -> Self:
        the_anyio()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(error)

    def __del__(self) -> None:
        # No lock: this thread may have it, and nobody else sends.
        pipe = getattr(self, "_pipe", None)
        if pipe is not None and not pipe.is_closed:
            pipe.items.append(_broken_off("its sender was dropped without close()"))
            pipe.is_closed = True
            wake_all(pipe.readers)

    def __reduce__(self) -> Any:
        raise TypeError(
            "can't pickle a Sender: it belongs to a pipe of this process. Send the "
            "items over, and into a pipe that was made there."
        )

    def __repr__(self) -> str:
        pipe = self._pipe
        state = "deserted" if pipe.is_deserted else "open"
        state = "closed" if pipe.is_closed else state
        return f"<Sender: {state}, {len(pipe.items)} of {pipe.capacity} waiting>"

    def _close(self, error: BaseException | None = None) -> None:
        pipe = self._pipe
        with pipe.lock:
            refused = list(pipe.offers)
            pipe.offers.clear()
            if error is not None and not pipe.is_closed and not pipe.is_deserted:
                # Has room in a full pipe, lest the way out of a block wait.
                pipe.items.append(_last(error))

            pipe.is_closed = True

        for offer in refused:
            offer.waiter.wake()

        wake_all(pipe.readers)

    def _offer(self, item: Any, waiter: type[Waiter]) -> _Offer | bool:
        # Whether it was sent, or what to wait for.
        pipe = self._pipe
        with pipe.lock:
            if pipe.is_closed:
                raise StreamClosedError(_CLOSED)
            if pipe.is_deserted:
                return False

            if len(pipe.items) < pipe.capacity and not pipe.offers:
                pipe.items.append(item)
                offer = None
            else:
                offer = _Offer(item, waiter())
                pipe.offers.append(offer)
                pipe.settle()

        if pipe.readers:
            wake_all(pipe.readers)

        if offer is None:
            return True

        if pipe.is_deserted:  # perhaps before there was an offer to refuse
            offer.waiter.wake()

        return offer

    def _outcome(self, offer: _Offer) -> bool:
        if offer.is_taken:
            return True
        if self._pipe.is_deserted:
            return False

        raise StreamClosedError(_CLOSED)

    def _withdraw(self, offer: _Offer) -> None:
        pipe = self._pipe
        with pipe.lock:
            if offer in pipe.offers:
                pipe.offers.remove(offer)

    def _send(self, item: Any) -> bool:
        offer = self._offer(item, ThreadWaiter)
        if not isinstance(offer, _Offer):
            return offer

        try:
            offer.waiter.wait()  # type: ignore[attr-defined]
        except BaseException:
            self._withdraw(offer)
            raise

        return self._outcome(offer)

    async def _asend(self, item: Any) -> bool:
        anyio = the_anyio()
        self._in_a_row += 1
        if self._in_a_row > _IN_A_ROW:
            self._in_a_row = 0
            await anyio.lowlevel.checkpoint()

        offer = self._offer(item, TaskWaiter)
        if not isinstance(offer, _Offer):
            return offer

        self._in_a_row = 0
        try:
            await offer.waiter.wait()  # type: ignore[attr-defined]
        except BaseException:
            self._withdraw(offer)
            raise

        return self._outcome(offer)


_CLOSED = "can't send: this sender was closed. Nothing comes after the end of a stream."


def _broken_off(why: str) -> Fault:
    return Fault(StreamClosedError(f"the stream broke off: {why}"))


def _last(error: BaseException) -> Fault:
    if isinstance(error, Exception):
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            stopped = RuntimeError(f"the sender's block raised {type(error).__name__}")
            stopped.__cause__ = error
            return Fault(stopped)

        return Fault(error)

    return _broken_off(f"its sender's block was left by {type(error).__name__}")


def _checked(error: Exception) -> Exception:
    if not isinstance(error, Exception):
        raise TypeError(
            f"can't send {error!r:.80} as an error; expected an instance of Exception"
        )

    if isinstance(error, (StopIteration, StopAsyncIteration)):
        raise ValueError(  # noqa: TRY004 - its type is fine, its meaning is not
            f"can't send {type(error).__name__} as an error: readers would take it "
            "for the end, and lose what follows. Call close() to end the stream."
        )

    return error
