"""
Where a tree of messages found what it has: entries, and the usages of its ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state._persistent.maps import PMap
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry

__all__ = ["EntryPosition", "TreeLedger", "count_known"]


class EntryPosition(NamedTuple):
    """
    Where an entry was first found: in which state, and behind how many others.
    """

    state: Aggregator
    position: int

    @property
    def log(self) -> Log[Entry]:
        """
        The log it was found in.
        """
        return self.state.entries


class _UsagePosition(NamedTuple):
    """
    Where an entry of a ledger was first found: in which ledger, and behind how many
    others.
    """

    log: Log[LedgerEntry]
    position: int


class TreeLedger(NamedTuple):
    """
    The ledger of a whole tree: the union of its states' ledgers.

    Attributes:
        entries: The entries, each once, in the order in which they came.

        places: Where each was found, by identity.
    """

    entries: Log[LedgerEntry]
    places: PMap[str, _UsagePosition]

    def with_ledger(
        self, ledger: Log[LedgerEntry], known: Log[LedgerEntry]
    ) -> TreeLedger:
        """
        The same with what *ledger* has and this lacks; itself if that is nothing.
        All that is in *known* is here. Costs what *ledger* has besides that.
        """
        start = count_known(ledger, self.places, known.common_prefix(ledger))
        if start == len(ledger):
            return self

        new = []
        places: Any = self.places.evolver()  # whose `in` type checkers don't know
        for position, entry in enumerate(ledger.iterate(start), start):
            if entry.id not in places:
                places[entry.id] = _UsagePosition(ledger, position)
                new.append(entry)

        if not new:
            return self

        # Where the ledger begins with this one it is taken as it is, so that states
        # that grow from it share it.
        entries = self.entries
        is_longer = entries.common_prefix(ledger) == len(entries)
        if is_longer and entries.is_shared_start_of(ledger):
            return TreeLedger(ledger, places.persistent())

        return TreeLedger(entries.extend(new), places.persistent())


def count_known(items: Log[Any], places: Mapping[str, Any], known: int = 0) -> int:
    """
    How many of the first *items* stand in *places* behind the same ones; no less
    than *known*.
    """
    compared: Log[Any] | None = None
    common = 0
    for position in range(len(items) - 1, known - 1, -1):
        place = places.get(items[position].id)
        if place is None or place.position != position:
            continue

        # What has more in common with a log than *items* has parts from *items*
        # where that log does: a copy of which one item differs is compared once.
        if compared is None or place.log.common_prefix(compared) <= common:
            common, compared = place.log.common_prefix(items), place.log

        if common > position:
            return position + 1

    return known
