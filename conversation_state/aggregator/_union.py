"""
Ordered union by identity: what joining is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from conversation_state._persistent import Log
from conversation_state.aggregator._entries import id_of

__all__ = ["Union"]


class Union:
    """
    The ordered union of logs by identity, while it is being made.

    Grows the log it starts with. Another log takes its place only where that
    one holds the very same structure and more, so a copy that was decoded or
    unpickled never becomes a second past beside the one that is kept.

    Identities are collected from the end of the log backwards, only as far as
    somebody parted from it, and once for all who join: a thousand siblings
    cost what they said, not its square.
    """

    __slots__ = ("_ids", "_since", "log")

    def __init__(self, log: Log[Any]) -> None:
        self.log = log
        self._since = len(log)
        self._ids: set[str] = set()

    def add(self, other: Log[Any]) -> None:
        """
        Everything in *other* that is not here yet.
        """
        parted = self.log.common_prefix(other)
        if parted == len(other):
            return

        if parted == len(self.log) and self.log.is_shared_start_of(other):
            self._ids.update(map(id_of, other.iterate(parted)))
            self.log = other
        else:
            self._add_missing(parted, other.iterate(parted))

    def add_new(self, added: Log[Any], base: Log[Any] | None) -> None:
        """
        The same for what was *added* to a *base*, of which nothing is taken.
        """
        if added:
            # Nothing added is in the base, nor in what we share with it.
            parted = 0 if base is None else self.log.common_prefix(base)
            self._add_missing(parted, iter(added))

    def _add_missing(self, parted: int, entries: Iterator[Any]) -> None:
        if parted < self._since:
            missing = islice(self.log.iterate(parted), self._since - parted)
            self._ids.update(map(id_of, missing))
            self._since = parted

        ids = self._ids
        new = [entry for entry in entries if entry[0] not in ids]
        ids.update(map(id_of, new))
        self.log = self.log.extend(new)
