"""Cells: reading, swapping and following the current value."""

from __future__ import annotations

import time
from _thread import get_ident
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Generic, NoReturn, Self, TypeVar

from conversation_state._waiting import (
    TaskWaiter,
    Waiter,
    require_anyio,
    running_loop,
    wake_all,
)
from conversation_state._wording import shorten_repr
from conversation_state.cells._watch import Version, Watch, release_token

T = TypeVar("T")

# After so many lost races other threads wait, for how long at most, and how long
# between two looks.
_MAX_LOST_RACES = 4
_MAX_WAIT_S = 1.0
_POLL_S = 0.001

# How often a function may change the cell whose next value it computes.
_MAX_OWN_CHANGES = 100

_NOTHING_SEEN: Any = object()


class _Attempts:
    """
    A call of `swap` that lost a race, and its right to go first.

    That right does not stop others from changing the cell: they wait for a
    while, if they can, and then go on. So no thread starves, and none waits
    without a limit.
    """

    __slots__ = ("_lost", "_own", "_start", "_thread", "lasts_s")

    # For how long others wait; set before they can find it as the first.
    lasts_s: float

    def __init__(self) -> None:
        self._lost = self._own = 0
        self._thread = get_ident()

    def begin(self, first: dict[int, _Attempts]) -> None:
        if self._lost >= _MAX_LOST_RACES:
            first.setdefault(0, self)

        self._start = time.monotonic()

    def lose(self, winner: Version[Any]) -> None:
        """
        Count a race that was lost to *winner*.

        Raises:
            RuntimeError: If the function itself made the change too often.
        """
        self._lost += 1
        self._own += winner.during is self
        # Twice what this attempt took, as the next one may take a bit longer.
        self.lasts_s = min(2 * (time.monotonic() - self._start) + 0.01, _MAX_WAIT_S)
        if self._own >= _MAX_OWN_CHANGES:
            raise RuntimeError(
                f"can't swap: the function itself changed this cell {self._own} "
                "times, so that its result was always outdated. Let it return the "
                "new value and change nothing."
            )

    def may_be_waited_for(self) -> bool:
        # Whether this thread may wait for it: not where it runs an event loop, or where
        # its own function swaps, which would wait for itself.
        return self._thread != get_ident() and running_loop() is None


# The call of `swap` or `aswap` whose function runs here, if it lost a race.
_running_attempts: ContextVar[_Attempts | None] = ContextVar(
    "conversation_state.cells", default=None
)


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

    __slots__ = ("__weakref__", "_first", "_version", "_waiters", "_watches")

    def __init__(self, value: T) -> None:
        # A version near the newest one, if not the newest.
        self._version = Version(value)
        # Watches, in the order they began; changes of a dict are atomic.
        self._watches: dict[Watch[T], None] = {}
        self._waiters: deque[Waiter] = deque()
        # Empty, or the call that lost too many races, and goes first.
        self._first: dict[int, _Attempts] = {}

    @property
    def value(self) -> T:
        """The current value. Never waits."""
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
        # The first attempt makes no `_Attempts` object, because most swaps meet no
        # other.
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
                release_token(self._first, attempts)
        finally:  # an interrupt may have ended the other one
            release_token(self._first, attempts)

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
                release_token(self._first, attempts)
        finally:  # an interrupt may have ended the other one
            release_token(self._first, attempts)

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
        return f"<Cell: {shorten_repr(self.value)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "can't copy or pickle a Cell: it is one place for all threads of a "
            "process. Share the cell itself, or use its value: Cell(cell.value)."
        )

    def _find_newest(self) -> Version[T]:
        version = self._version
        if version.after:
            while version.after:
                version = version.after[0]

            # Another thread may have set a newer one; then the next walk is longer.
            self._version = version

        return version

    def _wait_for_first(self) -> None:
        first = self._first.get(0)
        if first is not None and first.may_be_waited_for():
            until = time.monotonic() + first.lasts_s
            while self._first.get(0) is first and time.monotonic() < until:
                time.sleep(_POLL_S)

    def _try_append(self, version: Version[T], value: T) -> bool:
        # Whether *value* became the successor of *version*; notifies watchers if so.
        after = Version(value, _running_attempts.get())
        try:
            try:
                # Atomic: of all threads that try it, one adds its own version.
                if version.after.setdefault(0, after) is after:
                    self._version = after
            finally:
                self._notify_watchers(version, after)
        finally:  # an interrupt may have ended the other one
            self._notify_watchers(version, after)

        return version.after[0] is after

    def _notify_watchers(self, version: Version[T], after: Version[T]) -> None:
        # Call the watchers, and wake those that wait, if *after* won. Idempotent.
        if not (self._watches or self._waiters) or version.after.get(0) is not after:
            return

        try:
            interrupt = None
            # A copy, as callbacks may begin and close watches.
            for watch in list(self._watches):
                # Again after an error, which ended one call: others may be pending.
                while (error := watch._call_pending()) is not None:
                    interrupt = interrupt or error

            if interrupt is not None:
                raise interrupt
        finally:  # also after an interrupt in a callback
            if self._waiters:
                wake_all(self._waiters)

    def _swap_until_done(self, attempts: _Attempts, function: Callable[[T], T]) -> T:
        while True:
            self._wait_for_first()
            attempts.begin(self._first)
            version, token = self._find_newest(), _running_attempts.set(attempts)
            try:
                new = function(version.value)
            finally:
                _running_attempts.reset(token)

            if new is version.value or self._try_append(version, new):
                return new

            attempts.lose(version.after[0])

    async def _aswap_until_done(
        self, attempts: _Attempts, function: Callable[[T], Awaitable[T]], anyio: Any
    ) -> T:
        while True:
            first = self._first.get(0)
            if first is not None and first is not attempts:
                with anyio.move_on_after(first.lasts_s):
                    while self._first.get(0) is first:
                        await anyio.sleep(_POLL_S)

            attempts.begin(self._first)
            version, token = self._find_newest(), _running_attempts.set(attempts)
            try:
                new = await function(version.value)
            finally:
                _running_attempts.reset(token)

            if new is version.value or self._try_append(version, new):
                return new

            attempts.lose(version.after[0])
            # A function that never waits would otherwise keep the others from ending,
            # and could not be cancelled.
            await anyio.lowlevel.checkpoint()


class _NewestValues(AsyncIterator[T]):
    """The newest values of a cell, each once."""

    __slots__ = ("__weakref__", "_cell", "_last_value")

    def __init__(self, cell: Cell[T]) -> None:
        self._cell = cell
        self._last_value: T = _NOTHING_SEEN

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        cell = self._cell
        # This also runs if a value is there already: each step lets other tasks run.
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
