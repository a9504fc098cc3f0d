"""
Python's cyclic garbage collector, paused while many values are made at once.

Values have no cycles, but each collection looks at all that were made so far: of the
time in which a million messages are decoded, that is more than half.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
# How many threads and calls want it paused, and whether it was on before the first.
_pauses = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Pause the collector for a block; pauses may be nested, and those of several threads
    overlap. Behind the last one it is on again, if it was on before the first.

    What is unreachable is not freed meanwhile, unless it has no cycles; memory that is
    frozen by the program stays so.
    """
    is_counted = False
    try:
        is_counted = _begin()
        yield
    finally:
        if is_counted:
            _end()


def _begin() -> bool:
    global _pauses, _was_on  # noqa: PLW0603 - the collector is the process's own
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()

        _pauses += 1

    return True


def _end() -> None:
    global _pauses  # noqa: PLW0603 - likewise
    with _lock:
        _pauses -= 1
        if not _pauses and _was_on:
            gc.enable()


def _reset() -> None:
    # The threads that paused it are not in a child process.
    global _lock, _pauses  # noqa: PLW0603 - likewise
    _lock = threading.Lock()
    if _pauses and _was_on:
        gc.enable()

    _pauses = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
