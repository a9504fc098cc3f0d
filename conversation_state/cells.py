"""
Cells: the one thing here that changes.

A `Cell` holds the current value of something that a program's threads and
tasks share; the values themselves never change. What lives here: reading,
swapping and watching it. What does not: past values (`timeline` keeps those
that somebody commits), and running many branches at once (`parallel`).

A cell's history is a chain of moments, each of which gets one next moment by
a single atomic operation; whoever loses that race tries again from the moment
that won. So there is no lock to hold while functions and watchers run, and
nothing for a signal or a finalizer to deadlock on; and whoever walks the chain
sees each change once and in order.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from conversation_state._waiting import (
    TaskWaiter,
    Waiter,
    running_loop,
    the_anyio,
    wake_all,
)

__all__ = ["Cell", "Watch"]

T = TypeVar("T")

# After so many lost races others are asked to wait, and for how long at most.
_PATIENCE = 4
_LONGEST_S = 1.0

# After so many changes that a function made itself, of the cell it is to change.
_OWN_CHANGES = 100

_NEVER: Any = object()

# The call of `Cell.aswap` whose function runs here.
_within: ContextVar[object] = ContextVar("conversation_state.cells", default=None)


class _Moment(Generic[T]):
    """
    A value that a cell has had, and what came after it.
    """

    __slots__ = ("after", "by", "value", "within")

    value: T
    # The thread that brought it about.
    by: int
    # The call of `Cell.aswap` whose function did; None if none did.
    within: object
    # Holds nothing, or the next moment: `setdefault` lets one be the first.
    after: dict[int, _Moment[T]]

    def __init__(self, value: T, by: int) -> None:
        self.value = value
        self.by = by
        self.within = _within.get()
        self.after = {}


class Cell(Generic[T]):
    """
    A reference to the current value, shared by threads and tasks.

    No update is lost: a change is made only to the very value it was computed
    from. Holds any value that is not changed itself, a state above all.

    A cell is a place, not a value: equal to itself only; not to be copied or
    pickled.

    Args:
        value: What it holds at first.

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
        "_held_by",
        "_held_s",
        "_moment",
        "_turn",
        "_waiters",
        "_watches",
    )

    def __init__(self, value: T) -> None:
        # A moment from which the newest one is near.
        self._moment = _Moment(value, 0)
        # Watches, in the order they began; of a dict no change is half done.
        self._watches: dict[Watch[T], None] = {}
        self._waiters: deque[Waiter] = deque()
        # Held by whoever has lost too often: by which thread, and how long
        # others should give way.
        self._turn = allocate_lock()
        self._held_by = 0
        self._held_s = 0.0

    @property
    def value(self) -> T:
        """
        The current value. Never waits.
        """
        return self._newest().value

    def swap(self, function: Callable[[T], T]) -> T:
        """
        The new value, which *function* made of the current one.

        *function* is called again if somebody else was quicker, so it should
        be pure, and quick; nothing is locked meanwhile. After a few lost races
        other threads give way to it for as long as it seems to take, up to a
        second. If it returns the value it got, nothing has changed.

        What takes long is better done first, and only its result swapped in::

            turn = research(cell.value.fork()).turn
            cell.swap(lambda state: state.join(turn))

        Raises:
            RuntimeError:
                If *function* itself changes this cell whenever it is called.
        """
        self._give_way()
        moment = self._newest()
        new = function(moment.value)
        if new is moment.value or self._follow(moment, new):
            return new

        return self._swap_on(function, moment)

    async def aswap(self, function: Callable[[T], Awaitable[T]]) -> T:
        """
        Like `swap` with a function that is awaited, and perhaps again.

        Other tasks go on meanwhile. Those that `swap` in the same loop can't
        give way, so a function that takes longer than they leave it alone
        never gets through; see `swap` for what to do instead.

        Raises:
            RuntimeError:
                If *function* itself changes this cell whenever it is called.
        """
        anyio = the_anyio("Cell.aswap")
        lost, own, took, has_turn = 0, 0, 0.0, False
        call = object()
        try:
            while True:
                if not has_turn and self._turn.locked():
                    await self._agive_way(anyio)

                if lost >= _PATIENCE and not has_turn:
                    has_turn = self._turn.acquire(blocking=False)

                if has_turn:
                    self._hold(took)

                moment, start = self._newest(), time.monotonic()
                token = _within.set(call)
                try:
                    new = await function(moment.value)
                finally:
                    _within.reset(token)

                if new is moment.value or self._follow(moment, new):
                    return new

                own += moment.after[0].within is call
                _check_own(own)
                lost += 1
                took = time.monotonic() - start
                await anyio.lowlevel.checkpoint()
        finally:
            if has_turn:
                self._let_go()

    def compare_and_set(self, old: T, new: T) -> bool:
        """
        Whether the current value was *old*, and is *new* now.

        Compares by identity, as Clojure does: an equal value that is another
        object is not *old*. That holds for numbers and texts, too.
        """
        while True:
            moment = self._newest()
            if moment.value is not old:
                return False

            if old is new or self._follow(moment, new):
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

        Each change is told once and in order: the new value of one call is the
        old value of the next. It is told by the thread that made it, before
        `swap` returns, unless another call of the same *callback* is still
        running; then by the thread in which that runs, after it. So a
        *callback* never runs twice at once, and may change the cell.

        What *callback* raises harms neither the change nor other watches: it
        goes to *on_error*, or else to the log `conversation_state.cells`. What
        is no `Exception`, an interrupt say, is raised once all are told.
        """
        return Watch(self, callback, on_error)

    def awatch(self) -> AsyncIterator[T]:
        """
        The current value, and then the newest one after every change.

        For ``async for``, under asyncio and trio, of changes made in any
        thread. Who reads slowly gets the newest value and none of those in
        between, which is what showing it takes; use `watch` to see each. There
        is nothing to close: who stops reading leaves nothing behind.
        """
        the_anyio("Cell.awatch")
        return _Newest(self)

    def __repr__(self) -> str:
        return f"<Cell: {self.value!r:.80}>"

    def __copy__(self) -> NoReturn:
        raise TypeError(
            "can't copy a Cell: a copy would miss what others swap in. Share the "
            "cell itself, or copy its value: Cell(cell.value)."
        )

    def __deepcopy__(self, _memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "can't pickle a Cell: it is shared by the threads of one process. Send "
            "its value, and join or swap in here what comes back."
        )

    def _newest(self) -> _Moment[T]:
        moment = self._moment
        if moment.after:
            while moment.after:
                moment = moment.after[0]

            # Others may have gone further, which costs the next one few steps.
            self._moment = moment

        return moment

    def _follow(self, moment: _Moment[T], value: T) -> bool:
        """
        Whether *value* came right after *moment*; tells everybody if it did.
        """
        after = _Moment(value, get_ident())
        if moment.after.setdefault(0, after) is not after:
            return False

        self._moment = after
        try:
            if self._watches:
                self._tell()
        finally:  # an interrupt of a callback's own is for its thread alone
            if self._waiters:
                wake_all(self._waiters)

        return True

    def _tell(self) -> None:
        interrupt = None
        for watch in list(self._watches):
            while True:
                try:
                    watch._tell()
                except BaseException as error:  # noqa: BLE001 - raised below
                    interrupt = interrupt or error
                else:
                    break

        if interrupt is not None:
            raise interrupt

    def _swap_on(self, function: Callable[[T], T], moment: _Moment[T]) -> T:
        """
        The same as `swap` for who has lost a race after *moment*.
        """
        lost, own, took, has_turn = 1, 0, 0.0, False
        try:
            while True:
                # Between reading and writing, this thread did nothing but call
                # the function.
                own += moment.after[0].by == get_ident()
                _check_own(own)
                if not has_turn:
                    self._give_way()
                    has_turn = lost >= _PATIENCE and self._turn.acquire(blocking=False)

                if has_turn:
                    self._hold(took)

                moment, start = self._newest(), time.monotonic()
                new = function(moment.value)
                if new is moment.value or self._follow(moment, new):
                    return new

                lost += 1
                took = time.monotonic() - start
        finally:
            if has_turn:
                self._let_go()

    # Who holds the turn has no more right to change the cell than others: they
    # wait for a while, if they can, and then go on. So nobody starves, and
    # nobody who waits can be waited for without end.

    def _hold(self, took: float) -> None:
        self._held_by = get_ident()
        self._held_s = min(2 * took + 0.01, _LONGEST_S)

    def _let_go(self) -> None:
        self._held_by = 0
        self._turn.release()

    def _give_way(self) -> None:
        if not self._turn.locked() or self._held_by == get_ident():
            return

        # A thread that runs an event loop must not stand still.
        if running_loop() is None and self._turn.acquire(timeout=self._held_s):
            self._turn.release()

    async def _agive_way(self, anyio: Any) -> None:
        with anyio.move_on_after(self._held_s):
            while self._turn.locked():
                await anyio.sleep(0.001)


def _check_own(changes: int) -> None:
    if changes >= _OWN_CHANGES:
        raise RuntimeError(
            f"can't swap: {changes} times the function changed this very cell while "
            "it was called, so that what it returned came too late. Let it return "
            "the new value and change nothing."
        )


class Watch(Generic[T]):
    """
    Calls of a callback for every change of a cell; made by `Cell.watch`.

    As a context manager it is closed at the end of the block.
    """

    __slots__ = ("__weakref__", "_callback", "_moment", "_on_error", "_telling", "_to")

    def __init__(
        self,
        cell: Cell[T],
        callback: Callable[[T, T], object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        for name, function in (("callback", callback), ("on_error", on_error)):
            if not callable(function) and (function is not None or name == "callback"):
                raise TypeError(f"watch takes a function as {name}, got {function!r}")

        self._callback: Callable[[T, T], object] | None = callback
        self._on_error = on_error
        self._telling = allocate_lock()
        self._to: dict[Watch[T], None] | None = cell._watches
        # The last moment that was told.
        self._moment: _Moment[T] | None = cell._newest()
        cell._watches[self] = None
        self._tell()  # what came since that moment, by somebody who did not see us

    @property
    def is_closed(self) -> bool:
        """
        Whether no call begins any more.
        """
        return self._callback is None

    def close(self) -> None:
        """
        End the calls; again changes nothing.

        No call begins afterwards. One that runs in another thread may end
        later.
        """
        watches, self._to = self._to, None
        self._callback = self._on_error = self._moment = None
        if watches is not None:
            watches.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Watch: {'closed' if self.is_closed else 'open'}>"

    def _tell(self) -> None:
        """
        Tell what is new, unless somebody is at it, who then looks again.
        """
        while self._next() is not None:
            if not self._telling.acquire(blocking=False):
                return

            try:
                while (new := self._next()) is not None:
                    self._call(new)
            finally:
                self._telling.release()

    def _next(self) -> _Moment[T] | None:
        moment = self._moment
        return None if moment is None else moment.after.get(0)

    def _call(self, new: _Moment[T]) -> None:
        # In this order: whoever closes meanwhile finds the new moment, or is found.
        old, self._moment = self._moment, new
        callback, on_error = self._callback, self._on_error
        if callback is None or old is None:
            self._moment = None
            return

        try:
            try:
                callback(old.value, new.value)
            except Exception as error:
                if on_error is None:
                    raise

                on_error(error)
        except Exception as error:  # noqa: BLE001 - logged
            _report(callback, error)


def _report(callback: object, error: Exception) -> None:
    import logging  # noqa: PLC0415 - takes longer to import than all of this room

    logging.getLogger("conversation_state.cells").error(
        "%r raised when it was told of a change; the change was made",
        callback,
        exc_info=error,
    )


class _Newest(AsyncIterator[T]):
    """
    The newest values of a cell, each once.
    """

    __slots__ = ("__weakref__", "_cell", "_seen")

    def __init__(self, cell: Cell[T]) -> None:
        self._cell = cell
        self._seen: T = _NEVER

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        cell = self._cell
        await the_anyio().lowlevel.checkpoint()
        while (value := cell.value) is self._seen:
            waiter = TaskWaiter()
            waiter.enter(cell._waiters)
            try:
                # Whoever changed it before that did not see who waits.
                if cell.value is self._seen:
                    await waiter.wait()
            finally:
                waiter.leave()

        self._seen = value
        return value
