"""
Entries from rows: read, and seen to be what was saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from conversation_state._canonical import load
from conversation_state.store._blobs import Shown, canonical, stood_in
from conversation_state.store._erased import erased_content
from conversation_state.store._rows import (
    PAGE,
    SHIFT,
    UNREADABLE,
    all_unpacked,
    damaged,
    digest_before,
    seal,
)
from conversation_state.store.backend import Reading, Row
from conversation_state.store.log import (
    DIGEST_SIZE,
    LEDGER,
    Kind,
    Placed,
    Segments,
    chain,
    chained,
    content_digest,
)

__all__ = ["blob_of", "content_of", "items_between", "read_rows"]


class _Page(NamedTuple):
    """
    Rows that follow each other, column by column.

    Made once for a thousand of them: a `Placed` for each takes longer than all
    that is asked of it.
    """

    ids: list[bytes]
    bodies: tuple[bytes, ...]
    contents: tuple[bytes | None, ...]
    digests: tuple[bytes, ...]

    @classmethod
    def of(cls, rows: list[Row]) -> _Page:
        """
        The page of rows that are as in the tables, without their places.
        """
        packed, *rest = zip(*rows, strict=True)
        return cls(all_unpacked(packed), *rest)

    def rows(self) -> list[Placed]:
        """
        The same row by row.
        """
        return list(map(Placed, *self))


def pages_between(
    tx: Reading, store: str, kind: Kind, segments: Segments, start: int
) -> Iterator[_Page]:
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
            rows = tx.scan(kind.table, place, high, columns=Placed._fields)
            if len(rows) < high - place:
                # At once: a length that is damaged may be any number.
                found = tx.scan(kind.table, place, high, columns=("place",))
                missing = set(range(place, high)).difference(*zip(*found, strict=True))
                gap = min(missing) & ((1 << SHIFT) - 1)
                raise damaged(store, f"the {kind.table} from {gap} on are missing")

            yield _Page.of(rows)
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
    for page in pages_between(tx, store, kind, segments, start):
        try:
            raw = _raw(page.bodies)
            read = _items(kind, page.ids, raw, shown)
            if list in map(type, raw) or page.contents.count(None) < len(raw):
                after = _digests(kind, page, read, before, shown)
            else:
                after = tuple(chain(before, page.ids, page.bodies))

            if after != page.digests:
                raise ValueError
        except UNREADABLE:
            for row in page.rows():
                what = _problem(kind, row, before, shown)
                if what:
                    name = row.id.decode(errors="replace")
                    what = f"the entry {name!r} of {kind.table} {what}"
                    raise damaged(store, what) from None

                before = row.digest

            raise

        items += read
        digests += page.digests
        before = digests[-1]

    return items, digests


def read_rows(kind: Kind, rows: list[Placed], shown: Shown) -> list[Any]:
    """
    The entries that rows say.
    """
    raw = _raw([row.body for row in rows])
    return _items(kind, [row.id for row in rows], raw, shown)


def _raw(bodies: Sequence[bytes]) -> list[Any]:
    # One text for all of them is read in half the time.
    raw: list[Any] = load(b"[%b]" % b",".join(bodies))
    return raw


def _items(kind: Kind, ids: list[bytes], raw: list[Any], shown: Shown) -> list[Any]:
    names = list(map(bytes.decode, ids))
    if list not in map(type, raw):
        return kind.read(names, raw)

    items = kind.read(names, [stood_in(each) for each in raw])
    return [
        item._replace(message=shown(item.message, each[1]))
        if each.__class__ is list
        else item
        for item, each in zip(items, raw, strict=True)
    ]


def _digests(
    kind: Kind, page: _Page, items: list[Any], before: bytes, shown: Shown
) -> tuple[bytes, ...]:
    """
    The digests at each row as they should be, if some of the rows refer to
    large content or were erased; only those up to the first that is damaged.
    """
    made = []
    for row, item in zip(page.rows(), items, strict=True):
        content, what = content_of(kind, row, item, shown)
        if what:
            break

        before = chained(before, content)
        made.append(before)

    return tuple(made)


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
