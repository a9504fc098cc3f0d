"""
Identities: of entries and ledger entries, and of states.

Both are made of a number that is random when a process starts and counts up
from there, and both start anew after `os.fork`, so nothing is ever handed out
twice. Neither asks the operating system for randomness each time: that would
cost more than everything else a message needs together.

What is unique here is not secret: who knows one identity can guess the next.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import count

__all__ = ["new_entry_id", "new_uuid_number"]

_prefix = ""
_next_entry = count().__next__
_next_state = count().__next__


class _LockedCount:
    """
    `itertools.count` for interpreters in which threads really run at once.

    There its increment is not atomic in every release.
    """

    def __init__(self, start: int) -> None:
        self._value = start
        self._lock = threading.Lock()

    def __next__(self) -> int:
        with self._lock:
            self._value += 1
            return self._value


def _renew() -> None:
    """
    Start both counters anew, from places nobody else is at.
    """
    global _prefix, _next_entry, _next_state  # noqa: PLW0603 - one set a process
    locked = not getattr(sys, "_is_gil_enabled", lambda: True)()
    kind = _LockedCount if locked else count
    _prefix = f"{os.urandom(12).hex()}-"
    _next_entry = kind(1).__next__
    # What a UUID of version 7 has beside time: version, 12 random bits, variant,
    # and 62 bits that start at random and count. The highest of them is kept
    # free, so that counting up never runs out.
    random = int.from_bytes(os.urandom(10), "big")
    start = 0x7 << 76 | (random >> 61 & 0xFFF) << 64 | 0b10 << 62
    _next_state = kind(start | random & (1 << 61) - 1).__next__


def new_entry_id() -> str:
    """
    An identity for one append: opaque text of about 30 ASCII characters.

    Unique across threads, processes and `os.fork`: 96 random bits a process,
    then a count. About 120 ns.
    """
    return f"{_prefix}{_next_entry():x}"


def new_uuid_number() -> int:
    """
    The 128 bits of a UUID of version 7: `uuid.UUID(int=...)` makes it one.

    Ordered in time within a process, also within one millisecond. About
    200 ns; a `UUID` object on top would cost a microsecond, so states make
    theirs when asked.

    Source:
        RFC 9562, section 5.7, with a counter in place of random bits as its
        section 6.2 allows.
    """
    milliseconds = time.time_ns() // 1_000_000
    return (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | _next_state()


_renew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
