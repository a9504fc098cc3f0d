"""
What blocks of several backends have in common: the plain way of a verb, whose turn it
is among threads, and what a child of `os.fork` begins anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

from conversation_state._locks import RLock
from conversation_state.store.backend import Key, Row
from conversation_state.store.schema import SHIFT, TABLES, Name, Revision, key_range

BLOCK_ABANDONED = (
    "this thread began another block meanwhile, in a signal handler for example; "
    "nothing was written, try again"
)


class SequentialBlock:
    """A block that has no better way than one range, or one row, after the other."""

    __slots__ = ()

    get: Callable[..., Row | None]
    scan: Callable[..., Any]
    remove: Callable[..., int]

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        return [
            self.scan(table, low, high, columns=columns, limit=limit)
            for low, high in ranges
        ]

    def scan_heads(self, low: str, high: str | None, limit: int) -> list[Row]:
        found = []
        for row in self.scan("names", low, high, limit=limit):
            name = Name._make(row)
            ends = key_range(name.number)
            newest = self.scan("revisions", *ends, limit=1, backwards=True)
            revision = newest[0] if newest else _NO_REVISION
            origin = self.get("origins", Revision._make(revision).origin)
            found.append((*row, *revision, *(origin or _NO_ORIGIN)))

        return found

    def get_head(self, name: str) -> Row | None:
        rows = self.scan_heads(name, f"{name}\x01", 1)
        if not rows:
            return None

        revision = Revision._make(rows[0][len(Name._fields) :][: len(_NO_REVISION)])
        starts: list[Any] = []
        digests: list[Any] = []
        for table, branch, length in revision.log_ends:
            start = last = None
            # A damaged or missing row has other types here.
            if branch.__class__ is length.__class__ is int:
                start = self.get("branches", branch, ("parent", "start"))
                place = (branch << SHIFT) + length - 1
                last = self.get(table.table, place, ("digest",))

            starts += start or (None, None)
            digests += last or (None,)

        number = ("number",)
        last = self.scan("changes", None, None, columns=number, limit=1, backwards=True)
        return (*rows[0], *starts, *digests, *(last[0] if last else (None,)))

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        return sum([self.remove(table, low, high) for low, high in ranges])


_NO_REVISION = (None,) * len(TABLES["revisions"].column_names)
_NO_ORIGIN = (None,) * len(TABLES["origins"].column_names)


class BlockTurn:
    """
    One block at a time, whichever thread it is of.

    A thread that begins another block was interrupted before the end of the first, or
    is in a signal handler in the middle of it: the first is abandoned.
    """

    # Its lock is reentrant, because such a lock knows its owner: an interrupt may come
    # as soon as it is acquired, before anything else can note that.

    def __init__(self) -> None:
        self.lock: Any = RLock()  # held by the thread whose block it is
        # The block whose turn it is; None if no block has it. Its method `abandon`
        # undoes what it did.
        self.block: Any = None

    @property
    def is_own(self) -> bool:
        """Whether this thread has it already."""
        owned: bool = self.lock._is_owned()
        return owned

    def begin(self, block: Any, timeout_s: float) -> bool:
        """Wait for the turn of *block*; False if it did not come for so long."""
        lock = self.lock
        try:
            # By position: half the time.
            if not lock._is_owned() and not lock.acquire(True, timeout_s):  # noqa: FBT003
                return False

            unfinished, self.block = self.block, block
            if unfinished is not None:
                unfinished.abandon()
        except BaseException:
            self.end(block)
            raise

        return True

    def end(self, block: Any) -> None:
        """
        The other end of `begin`; nothing if it is not the turn of *block*. Call it
        twice, the second time in the `finally` of the first, since an interrupt may
        come as a function begins.
        """
        if self.block is block:
            self.block = None
        elif self.block is not None:
            return

        if self.lock._is_owned():
            self.lock.release()


class LiveObjects:
    """
    Objects, as long as they are referenced elsewhere.

    Not a `WeakSet`: that has callbacks, and an interrupt that comes in one is lost, but
    for a warning on standard error.
    """

    def __init__(self) -> None:
        self._references: list[ref[Any]] = []

    def add(self, item: Any) -> None:
        """Add one that is not there."""
        for gone in [each for each in self._references if each() is None]:
            with suppress(ValueError):  # another thread removed it
                self._references.remove(gone)

        self._references.append(ref(item))

    def __iter__(self) -> Iterator[Any]:
        found = [reference() for reference in list(self._references)]
        return iter([each for each in found if each is not None])


# A child of `os.fork` has the memory of its parent and none of its other threads: locks
# that those held are never released, and their blocks never end.

# What has such state, as long as it is referenced elsewhere.
_registered = LiveObjects()


def renew_in_children(backend: Any) -> None:
    """Have `backend.renew()` called in each child of `os.fork`."""
    _registered.add(backend)


def renew_all() -> None:
    """Renew everything, in a child."""
    for backend in _registered:
        backend.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew_all)
