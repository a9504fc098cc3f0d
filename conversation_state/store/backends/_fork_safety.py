"""
What a child of `os.fork` does with inherited locks and connections.

A child has the threads' memory and not the threads: locks that another thread
held stay locked, and blocks that another thread had open never end. An object
with such state registers here and replaces it in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["BLOCK_ABANDONED", "check_process", "renew_in_children"]

BLOCK_ABANDONED = (
    "this thread began another block meanwhile, in a signal handler for example; "
    "nothing was written, try again"
)


class _Renewable(Protocol):
    def renew(self) -> None: ...


# Everything to renew in a child, as long as it is referenced elsewhere.
_registered: WeakSet[_Renewable] = WeakSet()
# The process that they belong to.
_process = os.getpid()


def renew_in_children(thing: _Renewable) -> None:
    """
    Have `thing.renew()` called in each child of `os.fork`, as long as it is
    referenced elsewhere.
    """
    _registered.add(thing)


def check_process() -> None:
    """
    Renew if this is a child that was forked past Python's hooks.

    Servers that fork in C, such as uWSGI, don't always call Python's hooks.
    """
    if _process != os.getpid():
        _renew_all()


def _renew_all() -> None:
    global _process  # noqa: PLW0603 - the one place that changes it

    _process = os.getpid()
    for thing in list(_registered):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
