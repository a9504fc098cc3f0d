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

# The call of `Cell.aswap` whose function runs here.
_running_aswap: ContextVar[object] = ContextVar(
    "conversation_state.cells", default=None
)


class _Version(Generic[T]):
    """
    A value of a cell, and its successor.
    """

    __slots__ = ("after", "by", "value", "within")

    value: T
    # The thread that made it.
    by: int
    # The call of `Cell.aswap` whose function made it; None if none did.
    within: object
    # Empty, or the next version: with `setdefault` exactly one thread wins.
    after: dict[int, _Version[T]]

    def __init__(self, value: T, by: int) -> None:
        self.value = value
        self.by = by
        self.within = _running_aswap.get()
        self.after = {}


class _CellTurn:
    """
    The right to go first of a thread that lost too many races, or the exclusive
    right to call a watcher.

    Attributes:
        lasts_s: How long other threads should wait for it.

        was_acquired: Whether it was ever held.
    """

    __slots__ = ("lasts_s", "thread", "was_acquired")

    def __init__(self) -> None:
        self.lasts_s = 0.01
        self.thread = get_ident()
        self.was_acquired = False

    def acquire(self, place: dict[int, _CellTurn]) -> bool:
        """
        Whether it is the one in *place*, which has room for one. Atomic.
        """
        return place.setdefault(0, self) is self

    def release(self, place: dict[int, _CellTurn]) -> bool:
        """
        Remove it from *place*; whether it was ever there. Idempotent.
        """
        if place.get(0) is self:
            self.was_acquired = True
            place.clear()

        return self.was_acquired


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
        "_turn",
        "_turn_waiters",
        "_version",
        "_waiters",
        "_watches",
    )

    def __init__(self, value: T) -> None:
        # A version near the newest one, if not the newest.
        self._version = _Version(value, 0)
        # Watches, in the order they began; changes of a dict are atomic.
        self._watches: dict[Watch[T], None] = {}
        self._waiters: deque[Waiter] = deque()
        # Empty, or the turn of a thread or task that lost too many races; and the
        # threads that wait for it to end.
        self._turn: dict[int, _CellTurn] = {}
        self._turn_waiters: deque[Waiter] = deque()

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
        self._wait_for_turn()
        version = self._find_newest()
        new = function(version.value)
        if new is version.value or self._try_append(version, new):
            return new

        return self._swap_contended(function, version)

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
        turn = _CellTurn()
        # Only one call inside, see `_swap_contended`.
        try:
            try:
                new = await self._aswap_until_done(turn, function, anyio)
            finally:
                self._release_turn(turn)
        finally:
            self._release_turn(turn)  # an interrupt may have ended the other one

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

    def _try_append(self, version: _Version[T], value: T) -> bool:
        """
        Whether *value* became the successor of *version*; notifies watchers if so.
        """
        after = _Version(value, get_ident())
        try:
            try:
                if version.after.setdefault(0, after) is after:
                    self._version = after
            finally:
                self._notify(version, after)
        finally:
            self._notify(version, after)  # an interrupt may have ended the other one

        return version.after[0] is after

    def _notify(self, version: _Version[T], after: _Version[T]) -> None:
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

    def _swap_contended(self, function: Callable[[T], T], version: _Version[T]) -> T:
        """
        `swap` after a lost race for the successor of *version*.
        """
        turn = _CellTurn()
        # Only one call inside: neither a `return` nor, on Python 3.12, a loop's
        # jump back is covered by the `finally` around it.
        try:
            try:
                new = self._swap_until_done(turn, function, version)
            finally:
                self._release_turn(turn)
        finally:
            self._release_turn(turn)  # an interrupt may have ended the other one

        return new

    def _swap_until_done(
        self, turn: _CellTurn, function: Callable[[T], T], version: _Version[T]
    ) -> T:
        lost, own = 1, 0
        while True:
            # Between reading and writing this thread only called the function, so
            # a change that this thread made is the function's own.
            own += version.after[0].by == get_ident()
            _check_own_changes(own)
            if self._turn.get(0) is not turn:
                self._wait_for_turn()
                if lost >= _MAX_LOST_RACES:
                    turn.acquire(self._turn)

            version, start = self._find_newest(), time.monotonic()
            new = function(version.value)
            if new is version.value or self._try_append(version, new):
                return new

            lost += 1
            turn.lasts_s = _estimate_duration(start)

    async def _aswap_until_done(
        self, turn: _CellTurn, function: Callable[[T], Awaitable[T]], anyio: Any
    ) -> T:
        lost, own, call = 0, 0, object()
        while True:
            if self._turn.get(0) is not turn:
                await self._await_turn(anyio)
                if lost >= _MAX_LOST_RACES:
                    turn.acquire(self._turn)

            version, start = self._find_newest(), time.monotonic()
            token = _running_aswap.set(call)
            try:
                new = await function(version.value)
            finally:
                _running_aswap.reset(token)

            if new is version.value or self._try_append(version, new):
                return new

            own += version.after[0].within is call
            _check_own_changes(own)
            lost += 1
            turn.lasts_s = _estimate_duration(start)
            await anyio.lowlevel.checkpoint()

    # Having the turn gives no exclusive right to change the cell: other threads
    # wait for a while, if they can, and then go on. So no thread starves, and
    # none waits without a limit.

    def _release_turn(self, turn: _CellTurn) -> None:
        if turn.release(self._turn) and self._turn_waiters:
            wake_all(self._turn_waiters)

    def _wait_for_turn(self) -> None:
        turn = self._turn.get(0)
        if turn is None or turn.thread == get_ident():
            return

        # A thread that runs an event loop must not block.
        if running_loop() is not None:
            return

        waiter = ThreadWaiter()
        try:
            waiter.enter(self._turn_waiters)
            if self._turn.get(0) is turn:
                waiter.wait(turn.lasts_s)
        finally:
            waiter.leave()

    async def _await_turn(self, anyio: Any) -> None:
        turn = self._turn.get(0)
        if turn is None:
            return

        with anyio.move_on_after(turn.lasts_s):
            while self._turn.get(0) is turn:
                await anyio.sleep(0.001)


def _estimate_duration(start: float) -> float:
    """
    How long other threads should wait for a function that began at *start*.
    """
    return min(2 * (time.monotonic() - start) + 0.01, _MAX_WAIT_S)


def _check_own_changes(changes: int) -> None:
    if changes >= _MAX_OWN_CHANGES:
        raise RuntimeError(
            f"can't swap: the function itself changed this cell {changes} times, so "
            "that its result was always outdated. Let it return the new value and "
            "change nothing."
        )


class Watch(Generic[T]):
    """
    Calls of a callback for every change of a cell; made by `Cell.watch`.

    As a context manager it is closed at the end of the block.
    """

    __slots__ = (
        "__weakref__",
        "_callback",
        "_on_error",
        "_turn",
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
        # Empty, or the turn of the thread that calls the callback.
        self._turn: dict[int, _CellTurn] = {}
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
        while self._next_moment() is not None:
            turn = _CellTurn()
            try:
                try:
                    if turn.acquire(self._turn):
                        self._call_in_order()
                finally:
                    turn.release(self._turn)
            finally:
                turn.release(self._turn)  # an interrupt may have ended the other

            if not turn.was_acquired:
                break

    def _call_in_order(self) -> None:
        while (new := self._next_moment()) is not None:
            self._call_once(new)

    def _next_moment(self) -> _Version[T] | None:
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
