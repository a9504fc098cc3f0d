"""
What a store remembers: for the names it used last, their heads and states.

That is only ever a guess: others may have saved since, and every use is checked
against the tables, in the transaction that acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from conversation_state._persistent.maps import PMap
from conversation_state.aggregator import Aggregator
from conversation_state.store._values import Head
from conversation_state.store.backend import Reading
from conversation_state.store.log import Segments
from conversation_state.store.schema import (
    Change,
    MomentRow,
    Name,
    Revision,
    TimelineRow,
    is_sealed,
)
from conversation_state.timeline import Timeline

__all__ = ["Memory", "RememberedHead", "RememberedTimeline"]


class RememberedHead(NamedTuple):
    """
    The head of a name as this store saw it last, and its state.

    Attributes:
        name: The name.

        revision: The head's row.

        head: The same for users.

        state: The state.

        entries: Where its entries stand.

        ledger: Where its ledger stands.

        digests: Those of both logs.

        origin: The digest of its origin.
    """

    name: Name
    revision: Revision
    head: Head
    state: Aggregator
    entries: Segments
    ledger: Segments
    digests: tuple[bytes, bytes]
    origin: bytes


class RememberedTimeline(NamedTuple):
    """
    The timeline of a name as this store saw it last, and the rows of it and its
    moments, by number.
    """

    row: TimelineRow
    timeline: Timeline[Aggregator]
    moments: PMap[int, MomentRow]


_NOTHING: tuple[int, None] = -1, None


class _Timelines:
    """
    The timelines that were used last, by name, each with the number of changes for
    which it holds. Its row is compared with the table before each use. Thread-safe
    as `Memory` is.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._found: dict[str, tuple[int, RememberedTimeline]] = {}

    def recall(self, name: str, changes: int) -> RememberedTimeline | None:
        valid_for, found = self._found.get(name, _NOTHING)
        return found if valid_for == changes else None

    def remember(self, name: str, found: RememberedTimeline, changes: int) -> None:
        if self._kept:
            self._found.pop(name, None)
            self._found[name] = changes, found
            for oldest in list(self._found)[: -self._kept]:
                self._found.pop(oldest, None)

    def clear(self) -> None:
        self._found.clear()


class Memory:
    """
    What a store remembers.

    Thread-safe without a lock: each step changes one thing, and everything
    remembered has the number of changes for which it holds. So an interrupt at any
    moment, or a fork while another thread is here, leaves nothing locked.

    Attributes:
        erased: Why each entry was erased, by identity, as far as is known. It
            only grows.

        changes: How many changes to existing rows are known.

        timelines: Those that were used last.

        is_erasure_lost: Whether the note of one is damaged or missing: then
            nothing is saved, since what was erased could come back.
    """

    def __init__(self, kept: int) -> None:
        self.erased: dict[bytes, str] = {}
        self.changes = 0
        self.is_erasure_lost = False
        self.timelines = _Timelines(kept)
        self._kept = kept
        # In order of use, the most recently used one last.
        self._heads: dict[str, tuple[int, RememberedHead]] = {}

    def recall(self, name: str, changes: int) -> RememberedHead | None:
        """
        The head of *name* as it was seen last; None if there were other than
        *changes* changes since or before.
        """
        valid_for, head = self._heads.get(name, _NOTHING)
        return head if valid_for == changes == self.changes else None

    def recall_all(self, changes: int) -> Iterable[RememberedHead]:
        """
        Every head that is remembered; none as above.
        """
        if changes != self.changes:
            return []

        every = list(self._heads.values())
        return [head for valid_for, head in every if valid_for == changes]

    def remember(self, head: RememberedHead, changes: int) -> None:
        """
        Remember a head that was read when *changes* changes were known.
        """
        if changes != self.changes or not self._kept:
            return

        name = head.name.name
        valid_for, old = self._heads.pop(name, _NOTHING)
        # If two threads read the same name, the slower one may have older rows. If it
        # wins all the same, the next use reads the new rows once more.
        if (
            old is not None
            and valid_for == changes
            and old.revision.revision > head.revision.revision
        ):
            head = old

        self._heads[name] = changes, head
        if len(self._heads) > self._kept:
            # A copy, since other threads may change it meanwhile.
            for oldest in list(self._heads)[: -self._kept]:
                self._heads.pop(oldest, None)

    def forget(self, name: str | None = None) -> None:
        """
        Remember nothing of a name, or of all.
        """
        if name is None:
            self._heads.clear()
            self.timelines.clear()
        else:
            self._heads.pop(name, None)

    def catch_up(self, tx: Reading) -> int:
        """
        Learn what rows were changed by others, and forget what they were; how
        many changes are known now.
        """
        changes = self.changes
        new = list(map(Change._make, tx.scan("changes", changes + 1, None)))
        if new:
            if not all(
                change.number == number and is_sealed(change)
                for number, change in enumerate(new, changes + 1)
            ):
                self.is_erasure_lost = True

            # Erased identities are recorded before the number of changes: a thread that
            # saw only the new number would save erased content again.
            self.erased.update(
                {change.entry: change.reason for change in new if change.entry}
            )
            changes = new[-1].number
            # If two threads are here at once, the slower one may set the number back;
            # the same changes are then read once more.
            if changes > self.changes:
                self.changes = changes
                self.forget()

        return changes
