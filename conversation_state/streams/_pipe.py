"""Pipes, whose items come by themselves: of a sender, or of an async iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Generator
from types import coroutine
from typing import Any, Generic, Self, TypeVar

from conversation_state._locks import RLock
from conversation_state._waiting import call_soon, load_anyio, running_loop, start_task
from conversation_state._wording import shorten_repr
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import (
    ABORTED,
    CIRCLE,
    END,
    MAX_IN_A_ROW,
    Fault,
    ProcessBound,
    Queue,
    Source,
    StreamCell,
    Waiter,
    WaitingTask,
    WaitingThread,
    enter,
    log_failed_close,
    make_broken_fault,
    run,
    wake_all,
)

T_contra = TypeVar("T_contra", contravariant=True)


class Pipe:
    """
    What a producer and a `PipeSource` share. It does not refer to that one, so that a
    producer keeps nothing that can't be read any more.

    Attributes:
        is_closed: Whether the sender ended it.
        is_deserted: Whether no reader is left.
        is_over: Whether nothing more comes.
        items, lock, readers: `items`, `lock` and `waiters` of the source.
        senders: The queue of producers that wait. Only the first may send: it is woken
            when there may be room, and has sent nothing if it is cancelled just then.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_closed = self.is_deserted = self.is_over = False
        self.items: deque[Any] = deque()
        self.lock = RLock()
        self.readers: Queue = set()
        self.senders: deque[Waiter] = deque()

    def send(self, item: Any, waiter: Waiter | None) -> bool | None:
        # Whether *item* was sent; None if that has to wait.
        try:
            with self.lock:
                if self.is_closed:
                    raise StreamClosedError(  # noqa: TRY301 - under the lock
                        "can't send: this sender was closed. Nothing comes after the "
                        "end of a stream."
                    )
                if self.is_over:
                    return False

                senders = self.senders
                if self.has_room() and (not senders or senders[0] is waiter):
                    self.items.append(item)
                    if senders:
                        senders.popleft()
                        self.wake_sender()

                    wake_all(self.readers)
                    return True

                if waiter is not None and waiter not in senders:
                    senders.append(waiter)

                return None
        except BaseException:
            self.leave(waiter)
            raise

    # Not an async function: one that an interrupt keeps from beginning is warned about.
    @coroutine
    def wait_to_send(self, item: Any, waiter: Waiter) -> Generator[Any, Any, bool]:
        try:
            # Nothing is awaited after it was sent: a cancelled sender has not sent.
            # Python 3.13 leaves the jump back of a loop with a condition out of the
            # block: an interrupt that comes just there would not be caught.
            while True:
                is_sent = self.send(item, waiter)
                if is_sent is not None:
                    return is_sent

                yield from waiter.wait()  # type: ignore[misc]
        except BaseException:
            self.leave(waiter)
            raise

    def leave(self, waiter: Waiter | None = None) -> None:
        # What an interrupt left undone.
        with self.lock:
            if waiter is not None and waiter in self.senders:
                self.senders.remove(waiter)

            self.wake_sender()
            if self.items:
                wake_all(self.readers)

    def has_room(self) -> bool:
        # With capacity 0, for one item if a reader waits for it.
        n = len(self.items)
        return n < self.capacity or (not n and bool(self.readers))

    def wake_sender(self) -> None:
        if self.senders and self.has_room():
            self.senders[0].set()

    def request(self, waiter: Waiter | None, *, block: bool) -> None:  # noqa: ARG002
        """Let *waiter* wait for an item. For the one that holds the lock."""
        if waiter is not None:
            enter(self.readers, waiter)
            self.wake_sender()

    def end(self, *last: Any) -> None:
        with self.lock:
            if not self.is_over:
                self.items.extend((*last, END))
                self.is_over = True

            wake_all(self.readers)
            for waiter in self.senders.copy():
                waiter.set()

    def stop(self) -> None:
        """Readers want no more, and have their end."""


class PipeSource(Source):
    """The end of a pipe that is read."""

    __slots__ = ("pipe",)

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self.pipe = pipe
        self.items, self.lock, self.waiters = pipe.items, pipe.lock, pipe.readers

    def poll(self, cell: StreamCell, waiter: Waiter | None, *, block: bool) -> None:
        try:
            with self.lock:
                if cell.source is self and not self.items:
                    self.pipe.request(waiter, block=block)
                if cell.source is self and self.items:
                    self.take(cell)
                    self.pipe.wake_sender()
        except BaseException:
            self.pipe.leave()
            raise

    def abort(self) -> None:
        if not self.pipe.is_over:
            self.pipe.end(Fault(StreamClosedError(ABORTED)))
            self.pipe.stop()

    def __del__(self) -> None:
        self.pipe.is_deserted = True
        if not self.pipe.is_over:
            self.pipe.end()
            self.pipe.stop()

        self.items.clear()


class Sender(ProcessBound, Generic[T_contra]):
    """
    The end of a pipe that is written to; made by `pipe`.

    For many threads and tasks at once. As a context manager it is closed at the end
    of the block; an exception that leaves the block is the last thing its readers get.
    One that is dropped without having been closed breaks the stream off: its readers
    get a `StreamClosedError`, and then the end.
    """

    __slots__ = ("__weakref__", "_in_a_row", "_pipe")

    def __init__(self, pipe: Pipe) -> None:
        if not isinstance(pipe, Pipe):
            raise TypeError("can't call Sender(); use pipe(capacity)")

        self._in_a_row = 0
        self._pipe = pipe

    def send(self, item: T_contra) -> bool:
        """
        Whether *item* was sent; False if no reader is left, or the stream was aborted.

        Waits while the pipe is full; with capacity 0, until a reader waits for it.
        If it is interrupted, *item* was sent once at most.

        Raises:
            StreamClosedError: If this sender was closed.
        """
        is_sent = self._pipe.send(item, None)
        if is_sent is None:
            is_sent = run(self._pipe.wait_to_send(item, WaitingThread()))

        return is_sent

    async def asend(self, item: T_contra) -> bool:
        """Like `send`, for tasks. One that is cancelled has not sent its *item*."""
        self._in_a_row += 1
        if self._in_a_row > MAX_IN_A_ROW:
            self._in_a_row = 0
            await load_anyio().lowlevel.checkpoint()

        is_sent = self._pipe.send(item, None)
        if is_sent is None:
            self._in_a_row = 0
            is_sent = await self._pipe.wait_to_send(item, WaitingTask())

        return is_sent

    def fail(self, error: Exception) -> bool:
        """
        Whether *error* was sent, to its place among the items; both sides go on.

        Raises:
            StreamClosedError: If this sender was closed.
            TypeError: If *error* is not an `Exception`.
            ValueError: If *error* is how Python says the end of an iteration.
        """
        return self.send(_make_fault(error))

    async def afail(self, error: Exception) -> bool:
        """Like `fail`, for tasks."""
        return await self.asend(_make_fault(error))

    def close(self) -> None:
        """End the stream after what was sent; who waits gets an error. Idempotent."""
        self._end_pipe()

    async def aclose(self) -> None:
        """Like `close`, which never waits."""
        self._end_pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> None:
        # The last thing goes into a full pipe, too: leaving a block must not wait.
        if error is None:
            self._end_pipe()
        elif isinstance(error, Exception):
            self._end_pipe(Fault(error))
        else:
            why = f"its sender's block was left by {type(error).__name__}"
            self._end_pipe(make_broken_fault(why))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> None:
        self.__exit__(kind, error, traceback)

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)  # which a call of Sender() leaves out
        if pipe is not None:
            pipe.end(make_broken_fault("its sender was dropped without close()"))

    def __repr__(self) -> str:
        pipe = self._pipe
        state = "aborted" if pipe.is_over else "open"
        state = "deserted" if pipe.is_deserted else state
        state = "closed" if pipe.is_closed else state
        waiting = sum(item is not END for item in pipe.items.copy())
        return f"<Sender: {state}, {waiting} of {pipe.capacity} waiting>"

    def _end_pipe(self, *last: Fault) -> None:
        with self._pipe.lock:
            self._pipe.is_closed = True
            self._pipe.end(*last)


def _make_fault(error: Exception) -> Any:
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

    return Fault(error)


class Pump(Pipe):
    """
    A pipe for one reader's wish at a time, and the task that reads an async iterator
    into it, in the loop of the first reader. The task lives as long as there may be a
    reader: cancelling one does not affect the others, and merges can wait for several.
    """

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__(0)
        self._iterator: Any = iterator
        self._loop: Any = None
        self._task_id: int | None = None

    def request(self, waiter: Waiter | None, *, block: bool) -> None:
        if block or isinstance(waiter, WaitingThread):
            raise TypeError(
                "this stream has an async source, and the element to be read next is "
                "not there yet; read it with async for (or acollect)"
            )

        if waiter is None:
            return

        anyio, here = load_anyio(), running_loop()
        if here is self._loop and self._task_id == anyio.get_current_task().id:
            raise StreamClosedError(CIRCLE)

        enter(self.readers, waiter)
        if self._loop is None:
            self._ended, self._scope = anyio.Event(), anyio.CancelScope()
            self._loop = here
            start_task(self._run)
        elif self.senders and not self.senders[0].set():
            # It was closed without cancelling its tasks.
            self.end(make_broken_fault("the event loop of its source has ended"))

    async def _run(self) -> None:
        self._task_id = load_anyio().get_current_task().id
        last: tuple[Fault, ...] = ()
        try:
            with self._scope:
                last = await self._read()
        except BaseException as error:
            why = f"{type(error).__name__} went through its source"
            last = (make_broken_fault(why),)
            raise
        finally:
            self.end(*last)
            try:
                await self._close_iterator()
            finally:
                self._ended.set()

    async def _read(self) -> tuple[Fault, ...]:
        waiter = WaitingTask()
        self.senders.append(waiter)
        while True:
            while not self.has_room():
                await waiter.wait()

            try:
                item = await anext(self._iterator)
            except StopAsyncIteration:
                return ()
            except Exception as error:  # noqa: BLE001 - the source's: readers get it
                return (Fault(error),)

            with self.lock:
                self.items.append(item)
                del item
                wake_all(self.readers)

    async def _close_iterator(self) -> None:
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "aclose", None)
        if close is None:
            return

        try:
            await close()
        except BaseException as error:
            failed: BaseException | None = error
            if isinstance(error, BaseExceptionGroup):
                # A generator that is closed inside a task group raises this.
                failed = error.split(GeneratorExit)[1]
            if failed is not None and not isinstance(failed, Exception):
                raise
            if failed is not None:
                log_failed_close(iterator, failed)

    def stop(self) -> None:
        if self._loop is not None:
            # A finalizer may call this in any thread, and in the middle of the loop's
            # own code; a scope may be cancelled only between two steps of its loop.
            call_soon(self._loop, self._scope.cancel)

    async def stopped(self) -> None:
        """Return once the iterator is closed, if it is read in this loop or in none."""
        if self._loop is None:
            await self._close_iterator()
        elif self._loop is running_loop():
            await self._ended.wait()
