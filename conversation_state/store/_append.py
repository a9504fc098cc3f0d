"""
The fast path of a save: for a state that grew from the head as it was seen last.

Its new rows and a revision are added, on condition that the head is still that one.
Nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.store._memory import RememberedHead
from conversation_state.store._packing import now
from conversation_state.store._transaction import Core
from conversation_state.store._values import Extras
from conversation_state.store._write_rows import add_rows, point_label
from conversation_state.store.backend import Writing
from conversation_state.store.log import (
    ENTRIES,
    LEDGER,
    Kind,
    LogRow,
    extend_segments,
    take_newest,
)
from conversation_state.store.schema import SHIFT, Revision, make_sealed, state_digest

__all__ = ["Append", "make_append", "write_append"]


class _NewRows(NamedTuple):
    """
    Rows that go on where a branch ends.
    """

    kind: Kind
    place: int
    entries: Sequence[Any]
    rows: list[LogRow]


class Append(NamedTuple):
    """
    A head that continues another one, and what to write for it.
    """

    head: RememberedHead
    rows: list[_NewRows]
    label: str


def make_append(
    core: Core, old: RememberedHead, state: Aggregator, extras: Extras
) -> Append | None:
    """
    The head that *state* makes of the old one from which it grew, and what to write
    for it; None if it did not, or if that can't be done without reading.
    """
    before, row = old.state, old.revision
    # Where the note of an erasure is damaged, the slow path raises.
    if before._origin != state._origin or core.is_erasure_lost:
        return None

    new: list[_NewRows] = []
    entries, ledger = old.entries, old.ledger
    length, ledger_length = row.length, row.ledger_length
    entries_digest, ledger_digest = old.digests
    if state.entries is not before.entries:
        place = row.branch << SHIFT | length
        rows = _make_new_rows(
            ENTRIES, before.entries, state.entries, place, entries_digest
        )
        if rows is None:
            return None

        # The slow path writes tombstones in their place.
        if core.erased and not core.erased.keys().isdisjoint(r.id for r in rows.rows):
            return None

        if rows.rows:
            new.append(rows)
            length += len(rows.rows)
            entries = extend_segments(entries, row.branch, length)
            entries_digest = rows.rows[-1].digest

    if state.ledger is not before.ledger:
        place = row.ledger_branch << SHIFT | ledger_length
        rows = _make_new_rows(LEDGER, before.ledger, state.ledger, place, ledger_digest)
        if rows is None:
            return None

        if rows.rows:
            new.append(rows)
            ledger_length += len(rows.rows)
            ledger = extend_segments(ledger, row.ledger_branch, ledger_length)
            ledger_digest = rows.rows[-1].digest

    # The state is the head itself: the slow path adds a label or notes to the head's
    # revision, and makes no new one.
    if not new:
        return None

    revision = make_sealed(
        Revision,
        row.revision + 1,
        row.number if extras.parent < 0 else extras.parent,
        row.branch,
        length,
        row.ledger_branch,
        ledger_length,
        row.origin,
        now(),
        state_digest(entries_digest, ledger_digest, old.origin),
        *extras.columns(),
    )
    head = revision.head(old.name.name, old.head.state_id)
    digests = entries_digest, ledger_digest
    remembered = RememberedHead(
        old.name, revision, head, state, entries, ledger, digests, old.origin
    )
    return Append(remembered, new, extras.label)


def _make_new_rows(
    kind: Kind, before: Log[Any], log: Log[Any], place: int, digest: bytes
) -> _NewRows | None:
    """
    The rows that *log* has beyond *before*, from a place on, the end of a branch;
    None if it did not grow from it, or if that is the empty log.
    """
    length = place & ((1 << SHIFT) - 1)
    # An empty log has no branch that could be continued.
    if not length or log.common_prefix(before) != length:
        return None

    entries = take_newest(log, len(log) - length)
    return _NewRows(kind, place, entries, kind.rows(digest, entries))


def write_append(
    url: str, tx: Writing, old: RememberedHead, new: Append, changes: int
) -> None:
    """
    Write a revision that continues *old*.

    Raises:
        ConflictError:
            If that is no longer the head, or there were other than so many
            *changes* of existing rows.
    """
    revision = new.head.revision
    tx.add(
        "revisions",
        [revision],
        if_exists=(("revisions", old.revision.revision),),
        if_absent=(("changes", changes + 1),),
    )
    # If another name has continued the same branch since, these places are taken: the
    # insert is a `ConflictError`, and the slow path begins a branch.
    for rows in new.rows:
        add_rows(tx, *rows, erased=_NOTHING)

    if new.label:
        point_label(tx, url, new.label, revision.revision)


_NOTHING: Mapping[bytes, str] = {}
