"""
Waiting in tasks, under asyncio and trio: an event that any thread sets, and calls
that run in worker threads, as those of a store's async twins do.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial, wraps
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

C = TypeVar("C", bound=type)
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@cache
def load_anyio() -> Any:
    """The package anyio, imported when something waits: it takes a while."""
    import anyio  # noqa: PLC0415
    import anyio.from_thread  # noqa: PLC0415
    import anyio.lowlevel  # noqa: PLC0415
    import anyio.to_thread  # noqa: PLC0415

    return anyio


def running_loop() -> Any:
    # Code that runs under trio has imported it; asking anyio which loop runs is
    # slower.
    try:  # `in_trio_run` would be quicker, and is new in trio 0.29
        return sys.modules["trio"].lowlevel.current_trio_token()
    except (KeyError, AttributeError, RuntimeError):  # perhaps just being imported
        pass

    try:
        return sys.modules["asyncio"].get_running_loop()
    except (KeyError, RuntimeError):
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


# Tasks that run, since asyncio refers to them weakly.
_tasks: set[Any] = set()


def start_task(function: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """
    Run an async function as a task of the running event loop, or of the one whose
    worker thread this is. It lives until it ends, also if the caller is cancelled.

    Raises:
        RuntimeError: If there is no event loop.
    """
    loop = running_loop()
    if loop is None:
        load_anyio().from_thread.run_sync(start_task, function)
    elif hasattr(loop, "create_task"):
        task = loop.create_task(function())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    else:
        # Without a context, trio's system tasks lack the caller's variables.
        sys.modules["trio"].lowlevel.spawn_system_task(function, context=copy_context())


class TaskEvent:
    """An event that tasks of the event loop it is made in await, set by any thread."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = load_anyio().Event()
        self._loop = running_loop()

    async def wait(self) -> None:
        await self._event.wait()

    def set(self) -> bool:
        """Whether its event loop still runs."""
        return call_soon(self._loop, self._event.set)


async def run_in_anyio_thread(
    function: Callable[[], T], *, is_shielded: bool = False
) -> T:
    """
    What *function* returns in a worker thread of anyio.

    Where the task is cancelled, a call that has not begun never begins; one that has
    begun ends first, and what it raised is the cause of the cancellation. Shielded,
    it also begins. So a store's lock is held by no call that nothing waits for.
    """
    from concurrent.futures import Future  # noqa: PLC0415 - slow to import

    anyio = load_anyio()
    # A limit of its own: what is shielded begins however many threads are busy.
    limiter = anyio.CapacityLimiter(1) if is_shielded else None
    cancelled: BaseException | None = None
    with anyio.CancelScope(shield=is_shielded):
        while True:
            future: Future[T] = Future()
            try:
                await anyio.to_thread.run_sync(
                    _fulfil_future, future, function, limiter=limiter
                )
            except anyio.get_cancelled_exc_class() as error:
                # Scopes wait for the thread; asyncio's own `cancel` does not.
                cancelled = error
                if future.cancel():  # it has not begun, and never will
                    if is_shielded:
                        continue

                    raise

                await _wait_shielded(future)

            break

    if cancelled is not None:
        raise cancelled from future.exception()

    return future.result()


def _fulfil_future(future: Future[T], function: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised in the task
            future.set_exception(error)


async def _wait_shielded(future: Future[Any]) -> None:
    # Until *future* is done, however often the task is cancelled.
    anyio, ended = load_anyio(), TaskEvent()
    future.add_done_callback(lambda _: ended.set())
    with anyio.CancelScope(shield=True):
        while True:
            with suppress(anyio.get_cancelled_exc_class()):
                await ended.wait()
                return


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
