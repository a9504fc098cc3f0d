"""
Writing: rows of entries, large content, origins and labels, into the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.store._blobs import shelved
from conversation_state.store._core import Core, Name, label_key, now
from conversation_state.store._erased import tombstone
from conversation_state.store._rows import Origin, Revision, change_seal, packed, seal
from conversation_state.store._values import Head
from conversation_state.store.backend import Writing
from conversation_state.store.log import ENTRIES, LEDGER, Kind, Placed

__all__ = ["add_origin", "add_rows", "note_change", "relabel", "set_label"]


def add_rows(
    tx: Writing,
    kind: Kind,
    place: int,
    entries: Sequence[Any],
    rows: Sequence[Placed],
    *,
    erased: Mapping[bytes, str],
) -> None:
    """
    Add the rows of entries from a place on, and the large content they show;
    tombstones for those that were erased.
    """
    if kind is LEDGER:
        made = [(place + i, packed(row[0]), *row[1:]) for i, row in enumerate(rows)]
        tx.add(kind.table, made)
        return

    made = []
    uses: list[tuple[int, bytes]] = []
    for entry, row in zip(entries, rows, strict=True):
        id, body, content, digest = row
        message = entry.message
        if erased and content is None and id in erased:
            # It was erased, and does not come back with whoever still has it.
            content = kind.content(entry)
            message = tombstone(message, content, erased[id])
            body = ENTRIES.body(entry._replace(message=message))

        if content is not None:
            content += seal(id, body)

        body, blobs = shelved(message, body)
        if blobs:
            add_blobs(tx, blobs)
            uses.append((place, b"".join(blobs)))

        made.append((place, packed(id), body, content, digest))
        place += 1

    tx.add(kind.table, made)
    if uses:
        tx.add("uses", uses)


def add_blobs(tx: Writing, blobs: dict[bytes, bytes]) -> None:
    """
    Keep large content that is not there yet.
    """
    for digest, data in blobs.items():
        if tx.get("blobs", digest, ("size",)) is None:
            tx.add("blobs", [(digest, len(data), data)])


def add_origin(tx: Writing, origin: Origin) -> int:
    """
    The number of an origin, which is there then.
    """
    number = origin.first_number()
    while (row := tx.get("origins", number)) is not None:
        if Origin._make(row[1:]) == origin:
            return number

        number += 1  # two with one number: once in ten million million

    tx.add("origins", [(number, *origin)])
    return number


def set_label(tx: Writing, number: int, label: str, revision: int) -> None:
    key = label_key(number, label)
    if tx.get("labels", key) is None:
        tx.add("labels", [(key, revision)])
    else:
        tx.set("labels", key, revision=revision)


def relabel(
    core: Core, tx: Writing, name: Name, revision: Revision, label: str
) -> Head:
    """
    Give a revision another label, or none.
    """
    if revision.label:
        old = label_key(name.number, revision.label)
        row = tx.get("labels", old)
        if row is not None and row[1] == revision.revision:
            tx.remove("labels", old, old + b"\0")

    if label:
        set_label(tx, name.number, label, revision.revision)

    tx.set("revisions", revision.revision, label=label)
    core.forget(name.text)
    return core.head(tx, name, revision._replace(label=label))


def note_change(tx: Writing, entry: bytes, content: bytes, reason: str) -> int:
    """
    Let everybody know that rows which were there changed.
    """
    last = tx.scan("changes", None, None, columns=("number",), limit=1, backwards=True)
    number = last[0][0] + 1 if last else 1
    at = now()
    content += change_seal(number, entry, content, reason, at)
    tx.add("changes", [(number, entry, content, reason, at)])
    return number
