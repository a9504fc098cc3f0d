"""
Waiting in threads and in tasks, and being woken from either.

Used by streams, cells and branches, which wait for threads and tasks at once, and
by stores, whose methods have async twins that wait for a worker thread.

A waiter enters queues, is woken, and leaves them. Queues are deques, whose
single operations are atomic: finalizers use them as well, at moments when this
thread may be anywhere.

An interrupt may come between any two instructions. So nothing here has to be
released, and a waiter is woken before it is removed from a queue: every step is
idempotent, and an interrupted step is repeated by the next caller.
"""

from __future__ import annotations

import contextvars
import os
import sys
from _thread import allocate_lock
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import cache, partial, wraps
from inspect import cleandoc
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from concurrent.futures import Future


C = TypeVar("C", bound=type)
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@cache
def require_anyio(wanted: str = "streams in async code") -> Any:
    """
    The package anyio.

    Args:
        wanted: What needs it.

    Raises:
        MissingExtraError:
            If it is not installed.
    """
    try:
        import anyio  # noqa: PLC0415 - an extra
        import anyio.lowlevel  # noqa: PLC0415 - the same
        import anyio.to_thread  # noqa: PLC0415 - the same
    except ImportError as error:
        raise MissingExtraError(wanted, "anyio") from error

    return anyio


def running_loop() -> Any:
    # Code that runs under trio has imported it; asking anyio which loop runs is
    # slower.
    trio = sys.modules.get("trio")
    if trio is not None:
        try:  # `in_trio_run` would be quicker, and is new in trio 0.29
            return trio.lowlevel.current_trio_token()
        except (AttributeError, RuntimeError):  # perhaps it is just being imported
            pass

    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_soon(loop: Any, function: Callable[[], object]) -> bool:
    # Whether *loop* will call *function*; False if it has ended.
    # A token of trio, or an event loop of asyncio; both raise a RuntimeError at their
    # end, and both may be called from a finalizer or a signal handler.
    soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    try:
        soon(function)
    except RuntimeError:
        return False

    return True


def spawn(loop: Any, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # Run *function* as a task of *loop*, which runs here. It belongs to no nursery.
    # Both kinds of loop cancel such a task when they end; it must raise nothing else.
    if hasattr(loop, "create_task"):
        # asyncio refers to its tasks weakly: *function* has to enter a cancel scope
        # of anyio that its caller holds, since that refers to the task.
        loop.create_task(function())
    else:
        # Without a context, trio gives system tasks one that lacks the caller's
        # context variables.
        spawn_in_trio = sys.modules["trio"].lowlevel.spawn_system_task
        spawn_in_trio(function, context=contextvars.copy_context())


class Waiter:
    """A waiting thread or task, and the queues it is in."""

    __slots__ = ("queues",)

    # Whether a thread waits here, and so can't run an event loop meanwhile.
    blocks: bool

    def __init__(self) -> None:
        self.queues: list[deque[Waiter]] = []

    def enter(self, queue: deque[Waiter]) -> None:
        self.queues.append(queue)
        queue.append(self)

    def leave(self) -> None:
        # Waiters are compared by identity, in C: no other code runs while `remove`
        # looks for one, which would be an error if that changed the queue.
        for queue in self.queues:
            try:  # noqa: SIM105 - quicker than suppress
                queue.remove(self)
            except ValueError:
                pass

    @abstractmethod
    def wake(self) -> None:
        """End the wait; may be called from anywhere, and more than once."""


class ThreadWaiter(Waiter):
    __slots__ = ("_lock",)

    blocks = True

    def __init__(self) -> None:
        super().__init__()
        # Not an Event: a finalizer that sets one in a thread which is about to set it
        # would wait for the lock inside it, and so for itself.
        self._lock = allocate_lock()
        self._lock.acquire()

    def wait(self, timeout_s: float = -1) -> None:
        # Return once woken, or after *timeout_s* seconds if that is not negative.
        self._lock.acquire(timeout=timeout_s)

    def wake(self) -> None:
        try:  # noqa: SIM105 - quicker than suppress
            self._lock.release()
        except RuntimeError:  # woken before
            pass


class TaskWaiter(Waiter):
    __slots__ = ("_event", "_loop")

    blocks = False

    def __init__(self) -> None:
        super().__init__()
        self._event = require_anyio().Event()
        self._loop = running_loop()

    async def wait(self) -> None:
        await self._event.wait()

    def wake(self) -> None:
        if running_loop() is self._loop:
            self._event.set()
        else:
            call_soon(self._loop, self._event.set)


class TaskEvent:
    """An event that tasks of the event loop it is made in await, set by any thread."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = require_anyio().Event()
        self._loop = running_loop()

    async def wait(self) -> None:
        await self._event.wait()

    def set(self) -> None:
        call_soon(self._loop, self._event.set)


def wake_all(queue: deque[Waiter]) -> None:
    for waiter in queue.copy():
        waiter.wake()
        try:  # noqa: SIM105 - quicker than suppress
            queue.remove(waiter)
        except ValueError:  # it left
            pass


# Workers: threads that pull from sources that block, while a reader waits for
# more than one source or must not block, and threads that run branches.

_IDLE_S = 10

# Worker threads without a task, which end after a while.
_idle: deque[_Worker] = deque()
if hasattr(os, "register_at_fork"):  # threads don't come along; not on Windows
    os.register_at_fork(after_in_child=_idle.clear)


class _Worker:
    """A thread that runs one job after another, and ends after some idle time."""

    __slots__ = ("_job", "_lock")

    def __init__(self, job: Callable[[], object]) -> None:
        # Empty, a job, or `_ended_worker`: with `setdefault` exactly one wins.
        self._job: dict[int, Callable[[], object]] = {0: job}
        self._lock = allocate_lock()
        self._lock.acquire()
        # A daemon, because a job that blocks must not keep the program running.
        Thread(target=self._run_jobs, name="conversation_state", daemon=True).start()

    def take(self, job: Callable[[], object]) -> bool:
        # Whether it will run *job*; False if it has ended.
        if self._job.setdefault(0, job) is not job:
            return False

        try:  # noqa: SIM105 - quicker than suppress
            self._lock.release()
        except RuntimeError:  # it found the last job without being woken
            pass

        return True

    def _run_jobs(self) -> None:
        while True:
            self._job[0]()
            # Before it is idle: `take` would find the last job, and give up on it.
            self._job.clear()
            _idle.append(self)
            while 0 not in self._job:
                if not self._lock.acquire(timeout=_IDLE_S) and self._try_end():
                    return

    def _try_end(self) -> bool:
        if self._job.setdefault(0, _ended_worker) is not _ended_worker:
            return False

        with suppress(ValueError):  # the thread that took it out was interrupted
            _idle.remove(self)

        return True


def _ended_worker() -> None:
    pass


def in_worker(job: Callable[[], object]) -> None:
    """
    Run *job*, which never raises, in a thread, in this context.

    An interrupt may leave it undone, or done though it was raised.
    """
    context = contextvars.copy_context()

    def work() -> None:
        context.run(job)

    while True:
        try:
            # The one that was used last, so that those that are not needed end.
            worker = _idle.pop()
        except IndexError:
            _Worker(work)
            return

        if worker.take(work):
            return


def call_shielded(function: Callable[[], object]) -> None:
    """
    Call *function* in a thread that no signal interrupts.

    Futures and executors of the standard library may stay locked for good if an
    interrupt comes while they enter a lock.
    """
    if current_thread() is not main_thread():
        function()
        return

    waiter = ThreadWaiter()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread, below
            errors.append(error)
        finally:
            waiter.wake()

    try:
        in_worker(call)
    except RuntimeError:  # no more threads can be started
        function()
        return

    waiter.wait()
    for error in errors:
        raise error


# Async twins: methods for event loops that run the synchronous one in a thread


async def run_in_anyio_thread(
    function: Callable[[], T], *, is_shielded: bool = False
) -> T:
    """
    What *function* returns in a worker thread of anyio. Once begun it ends, and is
    waited for, also where the task is cancelled; shielded, it also begins, however
    many threads are busy.
    """
    from concurrent.futures import Future  # noqa: PLC0415 - imports logging

    anyio = require_anyio("a store in async code")
    limiter = _get_shielded_limiter() if is_shielded else None
    cancelled: BaseException | None = None
    with anyio.CancelScope(shield=is_shielded):
        while True:
            future: Future[T] = Future()
            try:
                run = partial(_run_unless_cancelled, [(future, function)])
                await anyio.to_thread.run_sync(run, limiter=limiter)
                break
            except anyio.get_cancelled_exc_class() as error:
                # Scopes don't stop asyncio's own `cancel`, wherever this waits.
                cancelled = error
                if not future.cancel():  # it has begun
                    await _wait_until_done(future)
                    break

                if not is_shielded:
                    raise

    try:
        if cancelled is not None:
            raise cancelled from future.exception()

        return future.result()
    finally:
        # Tracebacks hold this frame, which would hold their errors.
        del cancelled, future


def _run_unless_cancelled(call: list[tuple[Future[T], Callable[[], T]]]) -> None:
    # Taken out of *call*, since frames of the event loop's thread hold that.
    future, function = call.pop()
    if not future.set_running_or_notify_cancel():
        return

    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future  # its error's traceback holds this frame


async def _wait_until_done(future: Future[Any]) -> None:
    anyio = require_anyio()
    waiter = TaskWaiter()
    future.add_done_callback(lambda _: waiter.wake())
    with anyio.CancelScope(shield=True):
        while not future.done():
            with suppress(anyio.get_cancelled_exc_class()):  # not the first one
                await waiter.wait()


@cache
def _make_limiter_variable() -> Any:
    return require_anyio().lowlevel.RunVar("conversation_state_shielded_limiter")


def _get_shielded_limiter() -> Any:
    # How many threads this event loop gives to what is shielded, as many as anyio gives
    # to all else. None of those can keep it waiting.
    variable = _make_limiter_variable()
    limiter = variable.get(None)
    if limiter is None:
        limiter = require_anyio().CapacityLimiter(40)
        variable.set(limiter)

    return limiter


def async_twin(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """
    A method that awaits what *method* returns in a worker thread.

    `asave = async_twin(save)` in the body of a class is all there is to write: type
    checkers see the parameters of `save`, its overloads included, and `help` shows
    its docstring. It calls the method of that name, which a subclass may override.
    """
    # With a second parameter, mypy would see the first overload only.
    return _make_twin(method, run_in_anyio_thread)


def add_async_twins(
    *names: str, run: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Callable[[C], C]:
    """
    Decorate a class so that it has the twins of the methods *names*, which *run*
    runs: where a base class of another library declares them, whose annotations
    count.
    """

    def add(cls: C) -> C:
        for name in names:
            setattr(cls, f"a{name}", _make_twin(getattr(cls, name), run))

        return cls

    return add


def _make_twin(
    method: Callable[Concatenate[S, P], T],
    run: Callable[[Callable[[], Any]], Awaitable[Any]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    name = method.__name__

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await run(partial(getattr(self, name), *args, **kwargs))
        return result

    twin.__name__ = f"a{name}"
    twin.__qualname__ = method.__qualname__.removesuffix(name) + twin.__name__
    # Compilers since Python 3.13 remove its indentation, and earlier ones don't.
    twin.__doc__ = f"The async twin of `{name}`.\n\n{cleandoc(method.__doc__ or '')}"
    return twin
