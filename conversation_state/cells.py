"""
Cells: the current state of a program, in which no update is lost.

A `Cell` holds the current value of something that a program's threads and
tasks share; the values themselves never change. Past values are kept by
`timeline`, and many branches are run at once by `parallel`.

The values since the slowest watch are a linked list: a change adds one value, and
each watch is at the value it reported last. So a change is a few assignments, between
which Python looks for no signal, and all watches see it or none.

A lock guards the changes. It is never held while a function or a callback runs. It
is reentrant, because the handler of a signal may change the cell at any moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import CoroutineType
from typing import Any, Generic, NoReturn, Self, TypeVar

from conversation_state._locks import RLock
from conversation_state._waiting import TaskEvent
from conversation_state._wording import add_missing_names, check_function, shorten_repr

__all__ = ["Cell", "Watch"]

T = TypeVar("T")

# How often `swap` calls its function before it gives up.
_MAX_ATTEMPTS = 10_000

_OUTDATED = (
    f"can't swap: the cell was changed during each of {_MAX_ATTEMPTS:,} calls of the "
    "function. Let it return the new value and change nothing, and do slow work before"
)

_NOTHING_SEEN: Any = object()


class _Value(Generic[T]):
    """A *value* of a cell, and the one that is *next*, once there is one."""

    __slots__ = ("next", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.next: _Value[T] | None = None


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

    __slots__ = ("__weakref__", "_lock", "_newest", "_watches")

    def __init__(self, value: T) -> None:
        self._newest = _Value(value)
        self._lock = RLock()
        # In the order in which they began.
        self._watches: tuple[Watch[T], ...] = ()

    @property
    def value(self) -> T:
        """The current value. Never waits."""
        return self._newest.value

    def swap(self, function: Callable[[T], T]) -> T:
        """
        Set the value to *function* of the current one; return the new value.

        *function* is called again if another thread changed the cell meanwhile,
        so it should be pure and fast; no lock is held. If it returns its argument,
        nothing changes. One that takes longer than the time between others' changes
        may never succeed: do slow work first, and swap only its result in::

            turn = research(cell.value.fork()).turn
            cell.swap(lambda state: state.join(turn))

        Raises:
            RuntimeError: If the cell was changed during each of 10,000 calls;
                *function* itself may have changed it.
            TypeError: If *function* is async.
        """
        for _ in range(_MAX_ATTEMPTS):
            old = self._newest.value
            new = function(old)
            if isinstance(new, CoroutineType):
                new.close()  # one that is never awaited warns when it is collected
                raise TypeError(
                    f"function is {shorten_repr(function)}, an async function; "
                    "await cell.aswap(function)"
                )

            if new is old or self.compare_and_set(old, new):
                return new

        raise RuntimeError(_OUTDATED)

    async def aswap(self, function: Callable[[T], Awaitable[T]]) -> T:
        """
        Like `swap`, with an async function, which may be awaited again.

        Other tasks run meanwhile. Cancelled, it changes nothing.
        """
        from anyio.lowlevel import checkpoint  # noqa: PLC0415 - slow to import

        for _ in range(_MAX_ATTEMPTS):
            old = self._newest.value
            new = await function(old)
            if new is old or self.compare_and_set(old, new):
                return new

            # A function that never waits would otherwise keep the others from ending,
            # and could not be cancelled.
            await checkpoint()

        raise RuntimeError(_OUTDATED)

    def compare_and_set(self, old: T, new: T) -> bool:
        """
        Set the value to *new* if it is *old*; return whether it was.

        Compares by identity, as Clojure does: an equal value that is another
        object does not match, numbers and texts included.
        """
        added, is_changed = _Value(new), False
        try:
            with self._lock:
                newest = self._newest
                if newest.value is not old:
                    return False

                if new is not old:
                    # Without a call in between: see above.
                    newest.next = self._newest = added
                    is_changed = True
        finally:  # also where an interrupt comes right after the change
            if is_changed and self._watches:
                self._call_watches()

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
        return _NewestValues(self)

    def __repr__(self) -> str:
        return f"<Cell: {shorten_repr(self.value)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "can't copy or pickle a Cell: it is one place for all threads of a "
            "process. Share the cell itself, or use its value: Cell(cell.value)."
        )

    def _call_watches(self) -> None:
        interrupt = None
        for watch in self._watches:
            raised = watch._call_pending()
            interrupt = interrupt or raised

        if interrupt is not None:
            raise interrupt


class Watch(Generic[T]):
    """
    Calls of a callback for every change of a cell; made by `Cell.watch`.

    As a context manager it is closed at the end of the block.
    """

    __slots__ = (
        "__weakref__",
        "_callback",
        "_caller",
        "_cell",
        "_on_error",
        "_reported",
    )

    def __init__(
        self,
        cell: Cell[T],
        callback: Callable[[T, T], object],
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        check_function("callback", callback)
        if on_error is not None:
            check_function("on_error", on_error)

        self._cell = cell
        self._callback: Callable[[T, T], object] | None = callback
        self._on_error = on_error
        # A token of the thread that calls it, if one does.
        self._caller: object = None
        # What it was called with last; None if it is closed.
        self._reported: _Value[T] | None = None
        with cell._lock:
            self._reported = cell._newest
            cell._watches = (*cell._watches, self)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, so that no further call begins."""
        return self._callback is None

    def close(self) -> None:
        """
        End the calls. Idempotent.

        No call begins afterwards. One that runs in another thread may still
        finish.
        """
        cell = self._cell
        with cell._lock:
            cell._watches = tuple(each for each in cell._watches if each is not self)
            self._callback = self._on_error = self._reported = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Watch: {'closed' if self.is_closed else 'open'}>"

    def _call_pending(self) -> BaseException | None:
        # Call the callback for each change it was not called for, unless another call
        # of it runs: the thread of that call looks again. What interrupted it, if
        # anything did.
        interrupt, token = None, object()
        while self._has_pending():
            try:
                with self._cell._lock:
                    if self._caller is None:
                        self._caller = token

                if self._caller is not token:
                    break

                # Not as a condition: see `Pipe.wait_to_send` of streams.
                while True:
                    if not self._has_pending():
                        break

                    raised = self._call_next()
                    interrupt = interrupt or raised
            finally:
                if self._caller is token:
                    self._caller = None
                if self._callback is None:  # closed while `_call_next` went on
                    self._reported = None

        return interrupt

    def _has_pending(self) -> bool:
        reported = self._reported
        return (
            self._callback is not None
            and reported is not None
            and reported.next is not None
        )

    def _call_next(self) -> BaseException | None:
        callback, on_error = self._callback, self._on_error
        old = self._reported
        new = None if old is None else old.next
        if callback is None or old is None or new is None:  # it was closed
            return None

        # Python calls no handler of a signal between this and the callback.
        self._reported = new
        try:
            try:
                callback(old.value, new.value)
            except Exception as error:
                if on_error is None:
                    raise

                on_error(error)
        except Exception:  # the change was made, so the swap must not fail
            import logging  # noqa: PLC0415 - slower to import than this module

            logging.getLogger("conversation_state.cells").exception(
                "%r raised when it was called for a change; the change was made",
                callback,
            )
        except BaseException as error:  # noqa: BLE001 - raised after all watches
            return error

        return None


class _NewestValues(AsyncIterator[T]):
    """The newest values of a cell, each once."""

    __slots__ = ("__weakref__", "_cell", "_last_value")

    def __init__(self, cell: Cell[T]) -> None:
        self._cell = cell
        self._last_value: T = _NOTHING_SEEN

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        from anyio.lowlevel import checkpoint  # noqa: PLC0415 - slow to import

        # This also runs if a value is there already: each step lets other tasks run.
        await checkpoint()
        while (value := self._cell.value) is self._last_value:
            changed = TaskEvent()
            with self._cell.watch(lambda *_: changed.set()):  # noqa: B023 - it ends here
                # A change before this was not watched.
                if self._cell.value is value:
                    await changed.wait()

        self._last_value = value
        return value


add_missing_names(
    Cell,
    "a Cell has",
    {"get": "value", **dict.fromkeys(("reset", "set", "update"), "swap")},
)
