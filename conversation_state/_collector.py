"""
Python's cyclic garbage collector, paused while many values are made at once.

Values have no cycles, but each collection looks at all that were made so far: of the
time in which a million messages are decoded, that is more than half.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from conversation_state._locks import RLock

# Re-entrant, since a signal handler may decode something, too.
_lock = RLock()
# What wants it paused.
_pauses: set[object] = set()
# Whether it ran when the first of these came.
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Pause the collector for a block; pauses may be nested, and those of several threads
    overlap. Behind the last one it is on again, if it was on before the first.

    What is unreachable is not freed meanwhile, unless it has no cycles; memory that is
    frozen by the program stays so.
    """
    pause = object()
    try:
        _begin_pause(pause)
        yield
    finally:
        # Twice, since an interrupt may come in the first.
        try:
            _end_pause(pause)
        finally:
            _end_pause(pause)


def _begin_pause(pause: object) -> None:
    global _was_on  # noqa: PLW0603 - the collector is the process's own
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()

        # Noted first: an interrupt right behind leaves what `_end_pause` takes back.
        _pauses.add(pause)
        gc.disable()


def _end_pause(pause: object) -> None:
    with _lock:
        if _pauses == {pause} and _was_on:
            gc.enable()

        _pauses.discard(pause)


def _reset_in_child() -> None:
    # The threads that paused it are not in a child process.
    global _lock  # noqa: PLW0603 - likewise
    _lock = RLock()
    if _pauses and _was_on:
        gc.enable()

    _pauses.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
