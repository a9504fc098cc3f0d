"""
The end of a pipe that is written to.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from conversation_state._waiting import TaskWaiter, ThreadWaiter, require_anyio
from conversation_state._wording import shorten_repr
from conversation_state.streams._cells import END, Fault, make_broken_off_fault
from conversation_state.streams._pipe import Offer, Pipe

__all__ = ["Sender"]

T_contra = TypeVar("T_contra", contravariant=True)

# After so many sends in a row, other tasks may run.
_MAX_IN_A_ROW = 64


class Sender(Generic[T_contra]):
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

        Raises:
            StreamClosedError:
                If this sender was closed.
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
        """
        Like `fail`, without blocking other tasks.

        Raises:
            StreamClosedError:
                If this sender was closed.

            TypeError:
                If *error* is not an `Exception`.

            ValueError:
                If *error* is how Python says the end of an iteration.
        """
        return await self._asend_item(Fault(_check_error(error)))

    def close(self) -> None:
        """
        End the stream after what was sent. Idempotent.

        Senders that still wait get a `StreamClosedError`.
        """
        self._close_pipe()

    async def aclose(self) -> None:
        """
        Like `close`, which never waits.
        """
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

    def __reduce__(self) -> Any:
        raise TypeError(
            "can't pickle a Sender: it belongs to a pipe of this process. Send the "
            "items over, and into a pipe that was made there."
        )

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
        pipe, offer = self._pipe, Offer(item)
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

        pipe, offer = self._pipe, Offer(item)
        try:
            try:
                is_sent = await self._await_room(offer)
            finally:
                pipe.withdraw(offer)
        finally:
            if not offer.is_over:
                pipe.withdraw(offer)

        return is_sent

    async def _await_room(self, offer: Offer) -> bool:
        pipe = self._pipe
        pipe.offers.append(offer)
        # Nothing is awaited after it was sent: a cancelled sender has not sent.
        while (is_sent := pipe.accept(offer)) is None:
            if offer.waiter is None:
                offer.waiter = TaskWaiter()
            else:
                self._in_a_row = 0
                await offer.waiter.wait()  # type: ignore[attr-defined]
                offer.waiter = None  # it can be woken only once

        return is_sent


def _wait_for_room(pipe: Pipe, offer: Offer) -> bool:
    pipe.offers.append(offer)
    while (is_sent := pipe.accept(offer)) is None:
        if offer.waiter is None:
            # Look again, because room that was made just now woke no waiter.
            offer.waiter = ThreadWaiter()
        else:
            offer.waiter.wait()  # type: ignore[attr-defined]

    return is_sent


def _make_last_fault(error: BaseException) -> Fault:
    if isinstance(error, Exception):
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            stopped = RuntimeError(f"the sender's block raised {type(error).__name__}")
            stopped.__cause__ = error
            return Fault(stopped)

        return Fault(error)

    return make_broken_off_fault(
        f"its sender's block was left by {type(error).__name__}"
    )


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
