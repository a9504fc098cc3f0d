"""
Unique identities of entries, ledger entries and states.

Both are made of a number that is random when a process starts and counts up
from there, and both are reseeded after `os.fork`, so nothing is ever handed out
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
from typing import TYPE_CHECKING

from conversation_state._wording import shorten_repr

if TYPE_CHECKING:
    from uuid import UUID


# What the identities of entries begin with in this process.
_prefix = ""
# The number of the next entry.
_next_entry = count().__next__
# The number of the next state.
_next_state = count().__next__


class _CountPerThread(threading.local):
    """
    `itertools.count` for interpreters in which threads really run at once.

    There its increment is not atomic in every release, so each thread counts
    from a random place of its own. A lock would have to be given back also by
    a thread that is interrupted while it enters it.
    """

    def __init__(self, start: int, bits: int) -> None:
        # Called again in each thread. The highest bit is kept free, as in
        # `_renew_prefix`.
        random = int.from_bytes(os.urandom(8), "big") & (1 << bits) - 1
        self._next = count(start + random).__next__

    def __next__(self) -> int:
        return self._next()


def _renew_prefix() -> None:
    global _prefix, _next_entry, _next_state  # noqa: PLW0603 - one set a process
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    _prefix = f"{os.urandom(12).hex()}-"
    # What a UUID of version 7 has besides time: version, 12 random bits, variant,
    # and 62 bits that start at random and count. The highest of them is kept
    # free, so that counting up never runs out.
    random = int.from_bytes(os.urandom(10), "big")
    start = 0x7 << 76 | (random >> 61 & 0xFFF) << 64 | 0b10 << 62
    if has_gil:
        _next_entry = count(1).__next__
        _next_state = count(start | random & (1 << 61) - 1).__next__
    else:
        _next_entry = _CountPerThread(1, 63).__next__
        _next_state = _CountPerThread(start, 61).__next__


def new_entry_id() -> str:
    """
    An identity for one append: opaque text of about 30 ASCII characters.

    Unique across threads, processes and `os.fork`: 96 random bits a process,
    then a count, which begins at 63 random bits in each thread of a
    free-threaded build. About 120 ns.
    """
    return f"{_prefix}{_next_entry():x}"


def new_uuid_number() -> int:
    """
    The 128 bits of a UUID of version 7: `uuid.UUID(int=...)` makes it one.

    Ordered in time within a process, also within one millisecond (in a
    free-threaded build within a thread). About 200 ns; a `UUID` object on top
    would cost a microsecond, so states make theirs when asked.

    Source:
        RFC 9562, section 5.7, with a counter in place of random bits as its
        section 6.2 allows.
    """
    milliseconds = time.time_ns() // 1_000_000
    return (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | _next_state()


def make_uuid(number: int) -> UUID:
    import uuid  # noqa: PLC0415 - most programs never ask for one

    return uuid.UUID(int=number)


def number_of_uuid(id: object) -> int:
    import uuid  # noqa: PLC0415 - only callers that have a UUID need it

    if not isinstance(id, uuid.UUID):
        raise TypeError(f"id: expected a uuid.UUID or None, got {shorten_repr(id)}")

    return id.int


_renew_prefix()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_prefix)
