"""
The versions of a cell, and watches: calls of a function for every change.

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

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from conversation_state._wording import shorten_repr

if TYPE_CHECKING:
    from conversation_state.cells._cell import Cell


T = TypeVar("T")


class Version(Generic[T]):
    """A value of a cell, and its successor."""

    __slots__ = ("after", "during", "value")

    def __init__(self, value: T, during: object = None) -> None:
        self.value = value
        # The call of `swap` whose function made it, if that lost a race.
        self.during = during
        # Empty, or the next version: with `setdefault` exactly one thread wins.
        self.after: dict[int, Version[T]] = {}


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
                raise TypeError(
                    f"{name} is {shorten_repr(function)}; expected a function"
                )

        self._callback: Callable[[T, T], object] | None = callback
        self._on_error = on_error
        # Empty, or a token of the thread that calls the callback.
        self._running_call: dict[int, object] = {}
        # The cell's watches.
        self._watches = cell._watches
        # The last version it was called with.
        self._version: Version[T] | None = cell._find_newest()
        try:
            self._watches[self] = None
            # Changes since that version, by threads that did not see this watch.
            if (error := self._call_pending()) is not None:
                raise error  # noqa: TRY301 - closed below
        except BaseException:
            self.close()  # there is nothing to close it with
            raise

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

    def _call_pending(self) -> BaseException | None:
        # Call the callback for new versions, unless another call of it runs: the thread
        # of that call looks again. What interrupted the callback, if it did.
        try:
            while self._next_version() is not None:
                token, acquired = object(), False
                try:
                    try:
                        acquired = self._call_in_order(token)
                    finally:
                        release_token(self._running_call, token)
                finally:  # an interrupt may have ended the other one
                    release_token(self._running_call, token)

                if not acquired:
                    break
        except BaseException as error:  # noqa: BLE001 - raised after all watches
            return error

        return None

    def _call_in_order(self, token: object) -> bool:
        if self._running_call.setdefault(0, token) is not token:
            return False

        while (new := self._next_version()) is not None:
            # The version is set first: a concurrent `close` either clears the new
            # version, or is seen below.
            old, self._version = self._version, new
            callback, on_error = self._callback, self._on_error
            if callback is None or old is None:
                self._version = None
                break

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

        return True

    def _next_version(self) -> Version[T] | None:
        version = self._version
        return None if version is None else version.after.get(0)


def release_token(place: dict[int, Any], token: object) -> None:
    # Idempotent.
    if place.get(0) is token:
        place.clear()
