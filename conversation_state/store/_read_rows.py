"""
Reading rows: some at a time, entries from those of logs, and errors where they are
not what was saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from conversation_state._canonical import load
from conversation_state._wording import format_count, shorten_repr
from conversation_state.messages import find_erasure
from conversation_state.store._log import (
    DIGEST_SIZE,
    LEDGER,
    Kind,
    LogRow,
    Segment,
    Segments,
    chain_digest,
    chain_digests,
    content_digest,
    cut_segments,
    tombstone_digest,
)
from conversation_state.store._packing import (
    BlobReader,
    insert_placeholders,
    unpack_ids,
)
from conversation_state.store._transaction import UNREADABLE, Transaction
from conversation_state.store.backend import Reading, Row
from conversation_state.store.schema import (
    SHIFT,
    Branch,
    Name,
    Origin,
    Revision,
    state_digest,
)

# How many rows are asked for at once.
PAGE = 1000


def iterate_rows(
    tx: Reading,
    table: str,
    columns: tuple[str, ...] | None = None,
    *,
    low: Any = None,
    high: Any = None,
) -> Iterator[Row]:
    """
    The rows of a table from key *low* on and before *high*, some at a time.

    Ends on any file, for it demands that keys grow: in a damaged one what comes
    after a key may be before it.

    Raises:
        ValueError:
            If a key is not greater than the one before it.
    """
    last: Any = None
    while rows := tx.scan(table, low, high, columns=columns, limit=PAGE):
        for row in rows:
            key = row[0]
            if last is not None and not last < key:
                where = f"the table {table} are out of order at {shorten_repr(key)}"
                raise ValueError(f"the keys of {where}")

            last = key
            yield row

        if len(rows) < PAGE:
            return

        # The least key that comes after it: no text holds U+0000.
        low = last + {int: 1, str: "\x01", bytes: b"\0"}[last.__class__]


def iterate_revisions(transaction: Transaction, name: Name) -> Iterator[Revision]:
    low, high = name.number << SHIFT, (name.number + 1) << SHIFT
    rows = iterate_rows(transaction.tables, "revisions", low=low, high=high)
    return map(transaction.check_revision, rows)


# Where logs stand


def find_branch(tx: Reading, kind: Kind, digest: bytes) -> int | None:
    """
    The branch whose first row has that digest.

    Raises:
        ValueError:
            If it has another one: what is written next would belong to a past
            that is not its own.
    """
    row = tx.get("starts", digest)
    if row is None:
        return None

    branch: int = row[1]
    start = tx.get("branches", branch, ("start",))
    if start is None or find_digest(tx, kind, branch, start[0] + 1) != digest:
        raise ValueError(
            f"branch {branch} begins with another row than it was kept for"
        )

    return branch


def find_end(tx: Reading, kind: Kind, branch: int) -> int:
    """
    The position after the last row of a branch.
    """
    low, high = branch << SHIFT, (branch + 1) << SHIFT
    last = tx.scan(kind.table, low, high, columns=("place",), limit=1, backwards=True)
    return last[0][0] - low + 1 if last else 0


def find_digest(tx: Reading, kind: Kind, branch: int, length: int) -> bytes | None:
    """
    The digest of a log that ends in a branch; None if its row is not there.
    """
    if not length:
        return kind.start

    row = tx.get(kind.table, branch << SHIFT | length - 1, ("digest",))
    return None if row is None else row[0]


def read_segments(transaction: Transaction, branch: int, length: int) -> Segments:
    """
    Where a log stands that ends in a branch. A row is read for each segment.

    Raises:
        StoreError:
            If a branch is missing.
    """
    found = []
    # Numbers grow, so a parent is less than its branch: this ends on any file.
    while branch:
        row = transaction.tables.get("branches", branch)
        _, parent, start = (0, -1, -1) if row is None else Branch._make(row)
        if not 0 <= parent < branch or not 0 <= start < length:
            raise transaction.damage_error(
                f"branch {branch} is missing or leads nowhere"
            )

        found.append(Segment(branch, start, length))
        branch, length = parent, start

    if length:
        raise transaction.damage_error(f"{format_count(length, 'row')} in no branch")

    found.reverse()
    return tuple(found)


def read_digest_before(
    transaction: Transaction, kind: Kind, segments: Segments, length: int
) -> bytes:
    there = cut_segments(segments, length)
    branch = there[-1].branch if there else 0
    digest = find_digest(transaction.tables, kind, branch, length)
    if digest is None:
        what = f"the {kind.table} before {length} are missing"
        raise transaction.damage_error(what)

    return digest


def read_digests(
    transaction: Transaction,
    revision: Revision,
    origin: Origin,
    *,
    entries_digest: bytes | None = None,
) -> tuple[bytes, bytes]:
    """
    The digests of both logs of a saved state; that of its messages is not read if
    it is given.

    Raises:
        StoreError:
            If their newest rows are missing, or are of another state.
    """
    tx = transaction.tables
    entries, ledger = revision.log_ends
    entries_digest = entries_digest or find_digest(tx, *entries)
    ledger_digest = find_digest(tx, *ledger)
    if entries_digest is None or ledger_digest is None:
        what = f"the newest rows of revision {revision.number} are gone"
        raise transaction.damage_error(what)

    if state_digest(entries_digest, ledger_digest, origin.digest()) != revision.digest:
        what = f"revision {revision.number} is not what was saved"
        raise transaction.damage_error(what)

    return entries_digest, ledger_digest


# Entries


def make_blob_reader(transaction: Transaction) -> BlobReader:
    return BlobReader(lambda digest: read_blob(transaction, digest))


def read_blob(transaction: Transaction, digest: bytes) -> bytes:
    row = transaction.tables.get("blobs", digest, ("data",))
    if row is None:
        what = f"the large content {digest.hex()} is missing"
        raise transaction.damage_error(what)

    data: bytes = row[0]
    return data


def read_items(
    transaction: Transaction, kind: Kind, segments: Segments, start: int
) -> tuple[list[Any], list[bytes]]:
    """
    The entries of a log from position *start* on, and the digests at each.

    Raises:
        StoreError:
            If one is missing, or is not what was saved; says which.
    """
    items: list[Any] = []
    digests: list[bytes] = []
    before = read_digest_before(transaction, kind, segments, start)
    blobs = make_blob_reader(transaction)
    for page in _iterate_pages(transaction, kind, segments, start):
        # Column by column: to make a `LogRow` of each takes longer than all that is
        # done with it.
        packed_ids, bodies, contents, page_digests = zip(*page, strict=True)
        ids = unpack_ids(packed_ids)
        rows = map(LogRow, ids, bodies, contents, page_digests)
        try:
            raw = _load_bodies(bodies)
            read = _decode_items(kind, ids, raw, blobs)
            if list in map(type, raw) or contents.count(None) < len(raw):
                after = [*_compute_digests(kind, rows, read, before, blobs)]
            else:
                after = chain_digests(before, ids, bodies)

            # A page is compared as a whole, which takes no step for each row.
            if (*after,) != page_digests:
                raise ValueError
        except UNREADABLE:
            rows = map(LogRow, ids, bodies, contents, page_digests)
            _raise_first_damage(transaction, kind, rows, before, blobs)
            raise

        items += read
        digests += page_digests
        before = digests[-1]

    return items, digests


def _iterate_pages(
    transaction: Transaction, kind: Kind, segments: Segments, start: int
) -> Iterator[list[Row]]:
    tx = transaction.tables
    for branch, first, stop in segments:
        place = branch << SHIFT | max(first, start)
        end = branch << SHIFT | stop
        while place < end:
            high = min(end, place + PAGE)
            rows = tx.scan(kind.table, place, high, columns=LogRow._fields)
            if len(rows) < high - place:
                # One scan for the whole range: a damaged length may be any number.
                found = tx.scan(kind.table, place, high, columns=("place",))
                missing = set(range(place, high)).difference(*zip(*found, strict=True))
                gap = min(missing) & ((1 << SHIFT) - 1)
                what = f"the {kind.table} from {gap} on are missing"
                raise transaction.damage_error(what)

            yield rows
            place = high


def read_rows(kind: Kind, rows: list[LogRow], blobs: BlobReader) -> list[Any]:
    raw = _load_bodies([row.body for row in rows])
    return _decode_items(kind, [row.id for row in rows], raw, blobs)


def _load_bodies(bodies: Sequence[bytes]) -> list[Any]:
    # Parsing all bodies as one text takes half the time.
    raw: list[Any] = load(b"[%b]" % b",".join(bodies))
    return raw


def _decode_items(
    kind: Kind, ids: list[bytes], raw: list[Any], blobs: BlobReader
) -> list[Any]:
    names = list(map(bytes.decode, ids))
    if list not in map(type, raw):
        return kind.read(names, raw)

    items = kind.read(names, [insert_placeholders(each) for each in raw])
    return [
        item._replace(message=blobs.restore_message(item.message, each[1]))
        if each.__class__ is list
        else item
        for item, each in zip(items, raw, strict=True)
    ]


def _compute_digests(
    kind: Kind,
    rows: Iterator[LogRow],
    items: list[Any],
    before: bytes,
    blobs: BlobReader,
) -> Iterator[bytes]:
    """
    The digests at each row as they should be, if some of the rows refer to
    large content or were erased; only those up to the first that is damaged.
    """
    for row, item in zip(rows, items, strict=True):
        content, what = check_content(kind, row, item, blobs)
        if what:
            return

        before = chain_digest(before, content)
        yield before


def _raise_first_damage(
    transaction: Transaction,
    kind: Kind,
    rows: Iterator[LogRow],
    before: bytes,
    blobs: BlobReader,
) -> None:
    for row in rows:
        try:
            (item,) = read_rows(kind, [row], blobs)
            content, what = check_content(kind, row, item, blobs)
            if not what and chain_digest(before, content) != row.digest:
                what = "is not what was saved"
        except UNREADABLE as error:
            what = f"can't be read: {getattr(error, 'problem', error)}"

        if what:
            name = row.id.decode(errors="replace")
            what = f"the entry {name!r} of {kind.table} {what}"
            raise transaction.damage_error(what) from None

        before = row.digest


def check_content(
    kind: Kind, row: LogRow, item: Any, blobs: BlobReader
) -> tuple[bytes, str]:
    """
    The digest of a row's content, or of what it was before it was erased, and what is
    wrong with it: "" if nothing is.
    """
    if row.content is None:
        return content_digest(row.id, blobs.restore_body(row.body)), ""

    content = row.content[:DIGEST_SIZE]
    erasure = None if kind is LEDGER else find_erasure(item.message)
    if erasure is None or erasure.content != content:
        return b"", "is marked as erased, and no tombstone of what was there"

    if row.content != content + tombstone_digest(row.id, row.body):
        return b"", "is a tombstone, and not the one that was put there"

    return content, ""
