"""
Entries from rows: read, and seen to be what was saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from conversation_state._canonical import load
from conversation_state.store._blobs import Shown, canonical, stood_in
from conversation_state.store._erased import erased_content
from conversation_state.store._rows import (
    PAGE,
    SHIFT,
    UNREADABLE,
    damaged,
    digest_before,
    seal,
    unpacked,
)
from conversation_state.store.backend import Reading
from conversation_state.store.log import (
    DIGEST_SIZE,
    LEDGER,
    Kind,
    Placed,
    Segments,
    chained,
    content_digest,
)

__all__ = ["blob_of", "content_of", "items_between", "read_rows"]


def rows_between(
    tx: Reading, store: str, kind: Kind, segments: Segments, start: int
) -> Iterator[list[Placed]]:
    """
    The rows of a log from position *start* on, some at a time.

    Raises:
        StoreError:
            If one is missing.
    """
    for branch, first, stop in segments:
        place = branch << SHIFT | max(first, start)
        end = branch << SHIFT | stop
        while place < end:
            high = min(end, place + PAGE)
            rows = tx.scan(kind.table, place, high)
            if len(rows) < high - place:
                # At once: a length that is damaged may be any number.
                there = {row[0] for row in rows}
                gap = min(set(range(place, high)) - there) & ((1 << SHIFT) - 1)
                raise damaged(store, f"the {kind.table} from {gap} on are missing")

            yield [Placed(unpacked(id), *rest) for _, id, *rest in rows]
            place = high


def items_between(
    tx: Reading, store: str, kind: Kind, segments: Segments, start: int
) -> tuple[list[Any], list[bytes]]:
    """
    The entries of a log from position *start* on, and the digests at each.

    Raises:
        StoreError:
            If one is missing, or is not what was saved; says which.
    """
    items: list[Any] = []
    digests: list[bytes] = []
    before = digest_before(tx, store, kind, segments, start)
    shown = Shown(lambda digest: blob_of(tx, store, digest))
    for rows in rows_between(tx, store, kind, segments, start):
        try:
            read = read_rows(kind, rows, shown)
            if not _follows(kind, rows, read, before, shown):
                raise ValueError
        except UNREADABLE:
            for row in rows:
                what = _problem(kind, row, before, shown)
                if what:
                    name = row.id.decode(errors="replace")
                    what = f"the entry {name!r} of {kind.table} {what}"
                    raise damaged(store, what) from None

                before = row.digest

            raise

        items += read
        digests += [row.digest for row in rows]
        before = digests[-1]

    return items, digests


def read_rows(kind: Kind, rows: list[Placed], shown: Shown) -> list[Any]:
    """
    The entries that rows say.
    """
    # One text for all of them is read in half the time.
    raw = load(b"[%b]" % b",".join([row.body for row in rows]))
    if list not in map(type, raw):
        return kind.read([row.id.decode() for row in rows], raw)

    plain = [stood_in(each) for each in raw]
    items = kind.read([row.id.decode() for row in rows], plain)
    return [
        item._replace(message=shown(item.message, each[1]))
        if each.__class__ is list
        else item
        for item, each in zip(items, raw, strict=True)
    ]


def _follows(
    kind: Kind, rows: list[Placed], items: list[Any], before: bytes, shown: Shown
) -> bool:
    """
    Whether rows are what was saved after *before*.
    """
    hashed, size = blake2b, DIGEST_SIZE
    for i, (id, body, stored, digest) in enumerate(rows):
        if stored is not None or body.startswith(b"["):
            content, what = content_of(kind, rows[i], items[i], shown)
            if what:
                return False
        else:
            # `content_digest`, written out: this is a quarter of all loading.
            content = hashed(b"%b\0%b" % (id, body), digest_size=size).digest()

        before = hashed(before + content, digest_size=size).digest()
        if before != digest:
            return False

    return True


def _problem(kind: Kind, row: Placed, before: bytes, shown: Shown) -> str:
    """
    What is wrong with one row; "" if nothing is.
    """
    try:
        (item,) = read_rows(kind, [row], shown)
        content, what = content_of(kind, row, item, shown)
    except UNREADABLE as error:
        return f"can't be read: {getattr(error, 'problem', error)}"

    if not what and chained(before, content) != row.digest:
        what = "is not what was saved"

    return what


def content_of(kind: Kind, row: Placed, item: Any, shown: Shown) -> tuple[bytes, str]:
    """
    The digest of what a row says, or said before it was erased, and what is
    wrong with it: "" if nothing is.
    """
    if row.content is None:
        return content_digest(row.id, canonical(row.body, shown)), ""

    content = row.content[:DIGEST_SIZE]
    if kind is LEDGER or erased_content(item.message) != content:
        return b"", "is marked as erased, and no tombstone of what was there"

    if row.content != content + seal(row.id, row.body):
        return b"", "is a tombstone, and not the one that was put there"

    return content, ""


def blob_of(tx: Reading, store: str, digest: bytes) -> bytes:
    """
    The content that is kept as *digest*.

    Raises:
        StoreError:
            If it is missing.
    """
    row = tx.get("blobs", digest, ("data",))
    if row is None:
        raise damaged(store, f"the large content {digest.hex()} is missing")

    data: bytes = row[0]
    return data
