"""
Writing rows: those of entries, large content, origins, labels and changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.messages import make_tombstone
from conversation_state.store._blobs import extract_blobs
from conversation_state.store._packing import (
    join_labels,
    label_key,
    now,
    pack_id,
    split_labels,
)
from conversation_state.store._read_rows import read_revision, seal
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import Head
from conversation_state.store.backend import Writing
from conversation_state.store.log import ENTRIES, LEDGER, Kind, LogRow
from conversation_state.store.schema import (
    SHIFT,
    Blob,
    Change,
    Label,
    Name,
    Origin,
    Revision,
    Use,
    make_sealed,
)

__all__ = [
    "add_label",
    "add_origin",
    "add_rows",
    "note_change",
    "point_label",
    "remove_label",
    "set_columns",
]


def add_rows(
    tx: Writing,
    kind: Kind,
    place: int,
    entries: Sequence[Any],
    rows: Sequence[LogRow],
    *,
    erased: Mapping[bytes, str],
) -> None:
    """
    Add the rows of entries from a place on, and their large content; tombstones for
    those that were erased.
    """
    if kind is LEDGER:
        made = [(place + i, pack_id(row[0]), *row[1:]) for i, row in enumerate(rows)]
        tx.add(kind.table, made)
        return

    made = []
    uses: list[Use] = []
    for entry, row in zip(entries, rows, strict=True):
        id, body, content, digest = row
        message = entry.message
        if erased and content is None and id in erased:
            # The entry was erased, and a state that still has its content does not
            # restore it.
            content = kind.content(entry)
            message = make_tombstone(message, content, erased[id])
            body = ENTRIES.body(entry._replace(message=message))

        if content is not None:
            # The chain of digests covers the erased content, not the tombstone.
            content += seal(id, body)

        body, blobs = extract_blobs(message, body)
        if blobs:
            add_blobs(tx, blobs)
            uses.append(Use(place, b"".join(blobs)))

        made.append((place, pack_id(id), body, content, digest))
        place += 1

    tx.add(kind.table, made)
    if uses:
        tx.add("uses", uses)


def add_blobs(tx: Writing, blobs: dict[bytes, bytes]) -> None:
    """
    Add large content that is not there yet.
    """
    for digest, data in blobs.items():
        # Only the column *size* is read, because the content itself may be megabytes.
        if tx.get("blobs", digest, ("size",)) is None:
            tx.add("blobs", [Blob(digest, len(data), data)])


def add_origin(tx: Writing, origin: Origin) -> int:
    """
    The number of an origin, which is added if it is new.
    """
    number = origin.first_number()
    while (row := tx.get("origins", number)) is not None:
        if Origin._make(row[1:]) == origin:
            return number

        number += 1  # once in ten million million origins

    tx.add("origins", [(number, *origin)])
    return number


def point_label(tx: Writing, url: str, label: str, revision: int) -> None:
    """
    Make *label* point to a revision whose row has it, and no longer to another.
    """
    key = label_key(revision >> SHIFT, label)
    row = tx.get("labels", key)
    if row is None:
        tx.add("labels", [Label(key, revision)])
        return

    before = tx.get("revisions", row[1])
    if before is not None and row[1] != revision:
        _drop_label(tx, read_revision(before, url), label)

    tx.set("labels", key, revision=revision)


def add_label(
    transaction: Transaction, name: Name, revision: Revision, label: str
) -> Head:
    """
    Make *label* point to an existing revision, besides its other labels.
    """
    tx = transaction.tables
    labels = split_labels(revision.labels)
    if label not in labels:
        revision = _set_labels(tx, revision, [*labels, label])
        point_label(tx, transaction.url, label, revision.revision)

    return transaction.make_head(name, revision)


def remove_label(
    transaction: Transaction, name: Name, revision: Revision, label: str
) -> Head:
    """
    Remove *label*, which points to that revision.
    """
    tx = transaction.tables
    key = label_key(name.number, label)
    tx.remove("labels", key, key + b"\0")
    return transaction.make_head(name, _drop_label(tx, revision, label))


def _drop_label(tx: Writing, revision: Revision, label: str) -> Revision:
    left = [each for each in split_labels(revision.labels) if each != label]
    return _set_labels(tx, revision, left)


def _set_labels(tx: Writing, revision: Revision, labels: list[str]) -> Revision:
    # Not `set_columns`: a save that moves a label would take a fiftieth longer.
    new = revision.resealed(labels=join_labels(labels))
    tx.set("revisions", new.revision, labels=new.labels, seal=new.seal)
    return new


def set_columns(tx: Writing, revision: Revision, **values: bytes) -> Revision:
    """
    The revision with other *values*.
    """
    new = revision.resealed(**values)
    if new != revision:
        tx.set("revisions", new.revision, **values, seal=new.seal)

    return new


def note_change(tx: Writing, entry: bytes, content: bytes, reason: str) -> int:
    """
    Note for all stores that existing rows changed; the number of the change.
    """
    last = tx.scan("changes", None, None, columns=("number",), limit=1, backwards=True)
    # The numbers have no gaps, because the fast path of a save asks for the next number
    # only.
    number = last[0][0] + 1 if last else 1
    tx.add("changes", [make_sealed(Change, number, entry, content, reason, now())])
    return number
