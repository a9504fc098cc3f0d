"""
Threads that end in the middle: those that a child of `os.fork` lacks, and those
that go on elsewhere.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["TAKEN_OVER", "renew_in_children"]

TAKEN_OVER = (
    "the thread that wrote has begun to write something else meanwhile, in a signal's "
    "handler say; nothing was written, try again"
)


class _Renewable(Protocol):
    def renew(self) -> None: ...


_known: WeakSet[_Renewable] = WeakSet()


def renew_in_children(thing: _Renewable) -> None:
    """
    Have `thing.renew()` called in each child of `os.fork`, while it is there: locks
    that other threads of the parent held would be held for good.
    """
    _known.add(thing)


def _renew() -> None:
    for thing in list(_known):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
