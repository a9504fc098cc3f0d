"""
Cells: the current state of a program, in which no update is lost.

A `Cell` holds the current value of something that a program's threads and
tasks share; the values themselves never change. What lives here: reading,
swapping and watching it. What does not: past values (`timeline`), and running
many branches at once (`parallel`).

A cell's history is a chain of versions, each of which gets its successor by a
single atomic operation; a thread that loses that race retries from the version
that won. So no lock is held while functions and watchers run, there is nothing
for a signal or a finalizer to deadlock on, and each walk along the chain sees
each change once and in order.

An interrupt may come between any two instructions. What a thread acquires, the
turn of a slow function or of a watcher, is a token in a dict: acquired by a
single operation, and released by an idempotent call in two nested `finally`. A
single interrupt can cut short only one of them.
"""

from __future__ import annotations

import time
from _thread import get_ident
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from conversation_state._waiting import (
    TaskWaiter,
    ThreadWaiter,
    Waiter,
    require_anyio,
    running_loop,
    wake_all,
)

__all__ = ["Cell", "Watch"]

T = TypeVar("T")

# After so many lost races other threads wait, and for how long at most.
_MAX_LOST_RACES = 4
_MAX_WAIT_S = 1.0

# How often a function may change the cell whose next value it computes.
_MAX_OWN_CHANGES = 100

_NOTHING_SEEN: Any = object()

# The call of `swap` or `aswap` whose function runs here, if it lost a race.
_running: ContextVar[_Attempts | None] = ContextVar(
    "conversation_state.cells", default=None
)


class _Version(Generic[T]):
    """
    A value of a cell, and its successor.
    """

    __slots__ = ("after", "during", "value")

    value: T
    # The call of `swap` whose function made it, if it is known to be one.
    during: _Attempts | None
    # Empty, or the next version: with `setdefault` exactly one thread wins.
    after: dict[int, _Version[T]]

    def __init__(self, value: T) -> None:
        self.value = value
        self.during = _running.get()
        self.after = {}


class _Attempts:
    """
    A call of `swap` that lost a race, and its right to go first.

    That right does not stop others from changing the cell: they wait for a
    while, if they can, and then go on. So no thread starves, and none waits
    without a limit.
    """

    __slots__ = ("_lasts_s", "_lost", "_outer", "_own", "_start", "_thread", "_waiter")

    def __init__(self) -> None:
        self._lasts_s = 0.01
        self._lost = self._own = 0
        # The call inside of whose function this one is.
        self._outer = _running.get()
        self._thread = get_ident()
        self._waiter = ThreadWaiter()

    def begin(self, first: dict[int, _Attempts]) -> None:
        """
        Begin another attempt, as the *first* after a few lost races.
        """
        if self._lost >= _MAX_LOST_RACES:
            first.setdefault(0, self)

        self._start = time.monotonic()

    def lose(self, winner: _Version[Any]) -> None:
        """
        Count a race that was lost to *winner*.

        Raises:
            RuntimeError: If the function itself made the change too often.
        """
        during = winner.during
        while during is not None and during is not self:
            during = during._outer

        self._lost += 1
        self._own += during is self
        self._lasts_s = min(2 * (time.monotonic() - self._start) + 0.01, _MAX_WAIT_S)
        if self._own >= _MAX_OWN_CHANGES:
            raise RuntimeError(
                f"can't swap: the function itself changed this cell {self._own} "
                "times, so that its result was always outdated. Let it return the "
                "new value and change nothing."
            )

    def end(self, first: dict[int, _Attempts]) -> None:
        """
        Let the others go on. Idempotent.
        """
        self._waiter.wake()
        _release_token(first, self)

    def wait(self) -> None:
        """
        Wait until it ends, but not without end.
        """
        # A thread that runs an event loop must not block, and one whose own
        # function swaps would wait for itself.
        if self._thread != get_ident() and running_loop() is None:
            self._waiter.wait(self._lasts_s)
            self._waiter.wake()  # the next thread that waits

    async def await_end(self, first: dict[int, _Attempts], anyio: Any) -> None:
        """
        Like `wait`, in a task.
        """
        with anyio.move_on_after(self._lasts_s):
            while first.get(0) is self:
                await anyio.sleep(0.001)


def _release_token(place: dict[int, Any], token: object) -> None:
    """
    Remove *token* from *place* if it is there. Idempotent.
    """
    if place.get(0) is token:
        place.clear()


class Cell(Generic[T]):
    """
    A reference to the current value, shared by threads and tasks.

    No update is lost: a change applies only to the value it was computed from.
    Holds any immutable value, a state above all. Thread-safe.

    A cell is a reference, not a value: it equals only itself, and can't be
    copied or pickled.

    Args:
        value: The first value.

    Source:
        Clojure's and immer's atoms; the history in order is ours.

    >>> from conversation_state import Aggregator, Usage
    >>> current = Cell(Aggregator.new())
    >>> _ = current.swap(lambda state: state.add_user_prompt("Hi!"))
    >>> _ = current.swap(lambda state: state.add_usage(Usage(8, 2)))
    >>> len(current.value), current.value.total_usage.total_tokens
    (1, 10)
    """

    __slots__ = (
        "__weakref__",
        "_first",
        "_version",
        "_waiters",
        "_watches",
    )

    def __init__(self, value: T) -> None:
        # A version near the newest one, if not the newest.
        self._version = _Version(value)
        # Watches, in the order they began; changes of a dict are atomic.
        self._watches: dict[Watch[T], None] = {}
        self._waiters: deque[Waiter] = deque()
        # Empty, or the call that lost too many races, and goes first.
        self._first: dict[int, _Attempts] = {}

    @property
    def value(self) -> T:
        """
        The current value. Never waits.
        """
        return self._find_newest().value

    def swap(self, function: Callable[[T], T]) -> T:
        """
        Set the value to *function* of the current one; return the new value.

        *function* is called again if another thread changed the cell meanwhile,
        so it should be pure and fast; no lock is held. After a few lost races
        other threads wait for it, for as long as it is expected to take, up to
        a second. If it returns its argument, nothing changes.

        Do slow work first, and swap only its result in::

            turn = research(cell.value.fork()).turn
            cell.swap(lambda state: state.join(turn))

        Raises:
            RuntimeError:
                If *function* itself changes this cell whenever it is called.
        """
        self._wait_for_first()
        version = self._find_newest()
        new = function(version.value)
        if new is version.value or self._try_append(version, new):
            return new

        attempts = _Attempts()
        # Only one call inside: neither a `return` nor, on Python 3.12, a loop's
        # jump back is covered by the `finally` around it.
        try:
            try:
                new = self._swap_until_done(attempts, function)
            finally:
                attempts.end(self._first)
        finally:
            attempts.end(self._first)  # an interrupt may have ended the other one

        return new

    async def aswap(self, function: Callable[[T], Awaitable[T]]) -> T:
        """
        Like `swap`, with an async function, which may be awaited again.

        Other tasks run meanwhile. Those that `swap` in the same loop can't wait,
        so a function that takes longer than the time between their changes
        never succeeds; see `swap` for what to do instead.

        Raises:
            RuntimeError:
                If *function* itself changes this cell whenever it is called.
        """
        anyio = require_anyio("Cell.aswap")
        attempts = _Attempts()
        # Only one call inside, see `swap`.
        try:
            try:
                new = await self._aswap_until_done(attempts, function, anyio)
            finally:
                attempts.end(self._first)
        finally:
            attempts.end(self._first)  # an interrupt may have ended the other one

        return new

    def compare_and_set(self, old: T, new: T) -> bool:
        """
        Set the value to *new* if it is *old*; return whether it was.

        Compares by identity, as Clojure does: an equal value that is another
        object does not match, numbers and texts included.
        """
        while True:
            version = self._find_newest()
            if version.value is not old:
                return False

            if old is new or self._try_append(version, new):
                return True

    def watch(
        self,
        callback: Callable[[T, T], object],
        *,
        on_error: Callable[[Exception], object] | None = None,
    ) -> Watch[T]:
        """
        A watch that calls *callback* with the old and the new value of every
        change from now on, until it is closed.

        It is called once for each change and in order: the new value of one
        call is the old value of the next. The thread that made the change calls
        it before `swap` returns, unless another call of the same *callback* is
        still running; then the thread of that call does, after it. So calls of
        a *callback* never overlap, and it may change the cell.

        An `Exception` from *callback* affects neither the change nor other
        watches: it is passed to *on_error*, or else logged to
        `conversation_state.cells`. Other exceptions, an interrupt for example,
        are raised after all watches were called.
        """
        return Watch(self, callback, on_error)

    def awatch(self) -> AsyncIterator[T]:
        """
        The current value, and then the newest one after every change.

        For ``async for``, under asyncio and trio, of changes made in any
        thread. A slow reader gets the newest value and skips those in between,
        as a display needs it; use `watch` to see each change. There is nothing
        to close: a reader that stops leaves nothing behind.
        """
        require_anyio("Cell.awatch")
        return _NewestValues(self)

    def __repr__(self) -> str:
        return f"<Cell: {self.value!r:.80}>"

    def __copy__(self) -> NoReturn:
        raise TypeError(
            "can't copy a Cell: a copy would not see later changes. Share the cell "
            "itself, or copy its value: Cell(cell.value)."
        )

    def __deepcopy__(self, _memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "can't pickle a Cell: it is shared by the threads of one process. Send "
            "its value, and join or swap in the result here."
        )

    def _find_newest(self) -> _Version[T]:
        version = self._version
        if version.after:
            while version.after:
                version = version.after[0]

            # Another thread may have set a newer one; then the next walk is longer.
            self._version = version

        return version

    def _wait_for_first(self) -> None:
        first = self._first.get(0)
        if first is not None:
            first.wait()

    def _try_append(self, version: _Version[T], value: T) -> bool:
        """
        Whether *value* became the successor of *version*; notifies watchers if so.
        """
        after = _Version(value)
        try:
            try:
                if version.after.setdefault(0, after) is after:
                    self._version = after
            finally:
                self._notify_watchers(version, after)
        finally:
            self._notify_watchers(
                version, after
            )  # an interrupt may have ended the other one

        return version.after[0] is after

    def _notify_watchers(self, version: _Version[T], after: _Version[T]) -> None:
        """
        Call the watchers, and wake those that wait, if *after* won. Idempotent.
        """
        if version.after.get(0) is not after:
            return

        try:
            if self._watches:
                self._call_watches()
        finally:  # also after an interrupt in a callback
            if self._waiters:
                wake_all(self._waiters)

    def _call_watches(self) -> None:
        interrupt = None
        for watch in list(self._watches):
            while True:
                try:
                    watch._call_pending()
                except BaseException as error:  # noqa: BLE001 - raised below
                    interrupt = interrupt or error
                else:
                    break

        if interrupt is not None:
            raise interrupt

    def _swap_until_done(self, attempts: _Attempts, function: Callable[[T], T]) -> T:
        while True:
            self._wait_for_first()
            attempts.begin(self._first)
            version, token = self._find_newest(), _running.set(attempts)
            try:
                new = function(version.value)
            finally:
                _running.reset(token)

            if new is version.value or self._try_append(version, new):
                return new

            attempts.lose(version.after[0])

    async def _aswap_until_done(
        self, attempts: _Attempts, function: Callable[[T], Awaitable[T]], anyio: Any
    ) -> T:
        while True:
            first = self._first.get(0)
            if first is not None and first is not attempts:
                await first.await_end(self._first, anyio)

            attempts.begin(self._first)
            version, token = self._find_newest(), _running.set(attempts)
            try:
                new = await function(version.value)
            finally:
                _running.reset(token)

            if new is version.value or self._try_append(version, new):
                return new

            attempts.lose(version.after[0])
            await anyio.lowlevel.checkpoint()


class Watch(Generic[T]):
    """
    Calls of a callback for every change of a cell; made by `Cell.watch`.

    As a context manager it is closed at the end of the block.
    """

    __slots__ = (
        "__weakref__",
        "_callback",
        "_on_error",
        "_running_call",
        "_version",
        "_watches",
    )

    def __init__(
        self,
        cell: Cell[T],
        callback: Callable[[T, T], object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        for name, function in (("callback", callback), ("on_error", on_error)):
            if not callable(function) and (function is not None or name == "callback"):
                raise TypeError(f"{name} is {function!r:.80}; expected a function")

        self._callback: Callable[[T, T], object] | None = callback
        self._on_error = on_error
        # Empty, or a token of the thread that calls the callback.
        self._running_call: dict[int, object] = {}
        # The cell's watches.
        self._watches = cell._watches
        # The last version it was called with.
        self._version: _Version[T] | None = cell._find_newest()
        try:
            self._watches[self] = None
            # Changes since that version, by threads that did not see this watch.
            self._call_pending()
        except BaseException:
            self.close()  # there is nothing to close it with
            raise

    @property
    def is_closed(self) -> bool:
        """
        Whether it was closed, so that no further call begins.
        """
        return self._callback is None

    def close(self) -> None:
        """
        End the calls. Idempotent.

        No call begins afterwards. One that runs in another thread may still
        finish.
        """
        self._callback = self._on_error = self._version = None
        self._watches.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        finally:
            self.close()  # an interrupt may have ended the other one

    def __repr__(self) -> str:
        return f"<Watch: {'closed' if self.is_closed else 'open'}>"

    def _call_pending(self) -> None:
        """
        Call the callback for new versions, unless another call of it runs: the
        thread of that call looks again.
        """
        while self._next_version() is not None:
            token, acquired = object(), False
            try:
                try:
                    acquired = self._call_in_order(token)
                finally:
                    _release_token(self._running_call, token)
            finally:
                _release_token(
                    self._running_call, token
                )  # if an interrupt ended the other

            if not acquired:
                break

    def _call_in_order(self, token: object) -> bool:
        if self._running_call.setdefault(0, token) is not token:
            return False

        while (new := self._next_version()) is not None:
            self._call_once(new)

        return True

    def _next_version(self) -> _Version[T] | None:
        version = self._version
        return None if version is None else version.after.get(0)

    def _call_once(self, new: _Version[T]) -> None:
        # In this order: a concurrent `close` either clears the new version, or is
        # seen below.
        old, self._version = self._version, new
        callback, on_error = self._callback, self._on_error
        if callback is None or old is None:
            self._version = None
            return

        try:
            try:
                callback(old.value, new.value)
            except Exception as error:
                if on_error is None:
                    raise

                on_error(error)
        except Exception as error:  # noqa: BLE001 - logged
            _log_error(callback, error)


def _log_error(callback: object, error: Exception) -> None:
    import logging  # noqa: PLC0415 - slower to import than this module

    logging.getLogger("conversation_state.cells").error(
        "%r raised when it was called for a change; the change was made",
        callback,
        exc_info=error,
    )


class _NewestValues(AsyncIterator[T]):
    """
    The newest values of a cell, each once.
    """

    __slots__ = ("__weakref__", "_cell", "_last_value")

    def __init__(self, cell: Cell[T]) -> None:
        self._cell = cell
        self._last_value: T = _NOTHING_SEEN

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        cell = self._cell
        await require_anyio().lowlevel.checkpoint()
        while (value := cell.value) is self._last_value:
            waiter = TaskWaiter()
            waiter.enter(cell._waiters)
            try:
                # A change before this did not see the waiter.
                if cell.value is self._last_value:
                    await waiter.wait()
            finally:
                waiter.leave()

        self._last_value = value
        return value
