"""
The versions of a cell, and calls that make one; how a token is released.

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
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from conversation_state._waiting import ThreadWaiter, running_loop

__all__ = ["Attempts", "Version", "release_token", "running_attempts"]

T = TypeVar("T")

# After so many lost races other threads wait, and for how long at most.
_MAX_LOST_RACES = 4
_MAX_WAIT_S = 1.0

# How often a function may change the cell whose next value it computes.
_MAX_OWN_CHANGES = 100

# The call of `swap` or `aswap` whose function runs here, if it lost a race.
running_attempts: ContextVar[Attempts | None] = ContextVar(
    "conversation_state.cells", default=None
)


class Version(Generic[T]):
    """
    A value of a cell, and its successor.
    """

    __slots__ = ("after", "during", "value")

    value: T
    # The call of `swap` whose function made it, if it is known to be one.
    during: Attempts | None
    # Empty, or the next version: with `setdefault` exactly one thread wins.
    after: dict[int, Version[T]]

    def __init__(self, value: T) -> None:
        self.value = value
        self.during = running_attempts.get()
        self.after = {}


class Attempts:
    """
    A call of `swap` that lost a race, and its right to go first.

    That right does not stop others from changing the cell: they wait for a
    while, if they can, and then go on. So no thread starves, and none waits
    without a limit.
    """

    __slots__ = ("_lasts_s", "_lost", "_outer", "_own", "_start", "_thread", "_waiter")

    # For how long others wait; set before they can find it as the first.
    _lasts_s: float

    def __init__(self) -> None:
        self._lost = self._own = 0
        # The call inside of whose function this one is.
        self._outer = running_attempts.get()
        self._thread = get_ident()
        self._waiter = ThreadWaiter()

    def begin(self, first: dict[int, Attempts]) -> None:
        """
        Begin another attempt, as the *first* after a few lost races.
        """
        if self._lost >= _MAX_LOST_RACES:
            first.setdefault(0, self)

        self._start = time.monotonic()

    def lose(self, winner: Version[Any]) -> None:
        """
        Count a race that was lost to *winner*.

        Raises:
            RuntimeError: If the function itself made the change too often.
        """
        # The winner may also be a swap inside of this function, or of a function that
        # that one calls.
        during = winner.during
        while during is not None and during is not self:
            during = during._outer

        self._lost += 1
        self._own += during is self
        # Twice what this attempt took, as the next one may take a bit longer.
        self._lasts_s = min(2 * (time.monotonic() - self._start) + 0.01, _MAX_WAIT_S)
        if self._own >= _MAX_OWN_CHANGES:
            raise RuntimeError(
                f"can't swap: the function itself changed this cell {self._own} "
                "times, so that its result was always outdated. Let it return the "
                "new value and change nothing."
            )

    def end(self, first: dict[int, Attempts]) -> None:
        """
        Let the others go on. Idempotent.
        """
        self._waiter.wake()
        release_token(first, self)

    def wait(self) -> None:
        """
        Wait until it ends, but not without end.
        """
        # A thread that runs an event loop must not block, and one whose own
        # function swaps would wait for itself.
        if self._thread != get_ident() and running_loop() is None:
            self._waiter.wait(self._lasts_s)
            self._waiter.wake()  # the next thread that waits

    async def await_end(self, first: dict[int, Attempts], anyio: Any) -> None:
        """
        Like `wait`, in a task.
        """
        with anyio.move_on_after(self._lasts_s):
            while first.get(0) is self:
                await anyio.sleep(0.001)


def release_token(place: dict[int, Any], token: object) -> None:
    """
    Remove *token* from *place* if it is there. Idempotent.
    """
    if place.get(0) is token:
        place.clear()
