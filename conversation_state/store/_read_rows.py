"""
Reading rows: some at a time, entries from those of logs, and errors where they are
not what was saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import error as struct_error
from typing import Any, NamedTuple

from conversation_state._canonical import load
from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors import ConversationStateError, StoreError
from conversation_state.messages import find_erasure
from conversation_state.store._blobs import BlobReader, canonical, insert_placeholders
from conversation_state.store._packing import unpack_ids
from conversation_state.store.backend import Reading, Row
from conversation_state.store.log import (
    DIGEST_SIZE,
    ENTRIES,
    LEDGER,
    Kind,
    LogRow,
    Segment,
    Segments,
    chain_digest,
    chain_digests,
    content_digest,
    cut_segments,
    digest_of,
)
from conversation_state.store.schema import (
    SHIFT,
    Branch,
    Origin,
    Revision,
    is_sealed,
    state_digest,
)

__all__ = [
    "PAGE",
    "UNREADABLE",
    "TableLogRows",
    "check_content",
    "damage_error",
    "find_digest",
    "items_between",
    "iterate_rows",
    "read_blob",
    "read_digest_before",
    "read_digests",
    "read_revision",
    "read_rows",
    "read_segments",
    "seal",
]

# How many rows are asked for at once.
PAGE = 1000

# What comes of reading rows that no store wrote.
UNREADABLE = (
    ConversationStateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct_error,
)


def read_revision(row: tuple[Any, ...], store: str) -> Revision:
    """
    A row of ``revisions``.

    Raises:
        StoreError:
            If it is not what was written.
    """
    revision = Revision._make(row)
    if is_sealed(revision):
        return revision

    what = f"the row of revision {row[0] & ((1 << SHIFT) - 1)} is not what was written"
    raise damage_error(store, what)


def damage_error(store: str, what: str) -> StoreError:
    return StoreError(store, f"{what}; verify() lists what is damaged")


def iterate_rows(
    tx: Reading,
    table: str,
    columns: tuple[str, ...] | None = None,
    *,
    low: Any = None,
    high: Any = None,
) -> Iterator[tuple[Any, ...]]:
    """
    The rows of a table from key *low* on and before *high*, some at a time.

    Ends on any file, for it demands that keys grow: in a damaged one what comes
    after a key may be before it.

    Raises:
        ValueError:
            If a key is not greater than the one before it.
    """
    last = None
    while rows := tx.scan(table, low, high, columns=columns, limit=PAGE):
        for row in rows:
            key = row[0]
            if last is not None and not last < key:
                msg = (
                    f"the keys of the table {table} are out of order at "
                    f"{shorten_repr(key)}"
                )
                raise ValueError(msg)

            last = key
            yield row

        if len(rows) < PAGE:
            return

        low = _find_next_key(last)


def _find_next_key(key: Any) -> Any:
    """
    The least key that comes after *key*. No text holds U+0000.
    """
    return key + (
        1 if key.__class__ is int else "\x01" if key.__class__ is str else b"\0"
    )


def seal(*contents: bytes) -> bytes:
    """
    The digest of what nothing else is the digest of.
    """
    sizes = b"".join([len(each).to_bytes(8) for each in contents])
    return digest_of(sizes + b"".join(contents))


class TableLogRows:
    """
    Looks up which rows exist, while a block is open.
    """

    def __init__(self, tx: Reading, kind: Kind) -> None:
        self._tx = tx
        self._table = kind.table

    def find_branch(self, digest: bytes) -> int | None:
        """
        The branch whose first row has that digest.

        Raises:
            ValueError:
                If it has another one: what is written next would belong to a past
                that is not its own.
        """
        row = self._tx.get("starts", digest)
        if row is None:
            return None

        branch = row[1]
        start = self._tx.get("branches", branch, ("start",))
        if start is None or self.digest(branch, *start) != digest:
            msg = f"branch {branch} begins with another row than it was kept for"
            raise ValueError(msg)

        return int(branch)

    def find_end(self, branch: int) -> int:
        """
        The position after the last row of a branch.
        """
        low, high = branch << SHIFT, (branch + 1) << SHIFT
        last = self._tx.scan(
            self._table, low, high, columns=("place",), limit=1, backwards=True
        )
        return last[0][0] - low + 1 if last else 0

    def digest(self, branch: int, position: int) -> bytes | None:
        """
        The digest of a row; None if it is not there.
        """
        place = branch << SHIFT | position
        row = self._tx.get(self._table, place, ("digest",))
        return None if row is None else row[0]


def read_segments(tx: Reading, store: str, branch: int, length: int) -> Segments:
    """
    Where a log stands that ends in a branch. A row is read for each segment.

    Raises:
        StoreError:
            If a branch is missing.
    """
    found = []
    # Numbers grow, so a parent is less than its branch: this ends on any file.
    while branch:
        row = tx.get("branches", branch)
        there = None if row is None else Branch._make(row)
        if (
            there is None
            or not 0 <= there.parent < branch
            or not 0 <= there.start < length
        ):
            raise damage_error(store, f"branch {branch} is missing or leads nowhere")

        found.append(Segment(branch, there.start, length))
        branch, length = there.parent, there.start

    if length:
        raise damage_error(store, f"{format_count(length, 'row')} in no branch")

    found.reverse()
    return tuple(found)


def find_digest(tx: Reading, kind: Kind, branch: int, length: int) -> bytes | None:
    """
    The digest of a log that ends in a branch; None if its row is not there.
    """
    if not length:
        return kind.start

    return TableLogRows(tx, kind).digest(branch, length - 1)


def read_digest_before(
    tx: Reading, store: str, kind: Kind, segments: Segments, length: int
) -> bytes:
    """
    The digest of the first *length* entries of a log.

    Raises:
        StoreError:
            If its row is missing.
    """
    there = cut_segments(segments, length)
    digest = find_digest(tx, kind, there[-1].branch if there else 0, length)
    if digest is None:
        raise damage_error(store, f"the {kind.table} before {length} are missing")

    return digest


def read_digests(
    tx: Reading,
    store: str,
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
    entries_digest = entries_digest or find_digest(
        tx, ENTRIES, revision.branch, revision.length
    )
    ledger_digest = find_digest(
        tx, LEDGER, revision.ledger_branch, revision.ledger_length
    )
    if entries_digest is None or ledger_digest is None:
        raise damage_error(
            store, f"the newest rows of revision {revision.number} are gone"
        )

    if state_digest(entries_digest, ledger_digest, origin.digest()) != revision.digest:
        raise damage_error(store, f"revision {revision.number} is not what was saved")

    return entries_digest, ledger_digest


class _Page(NamedTuple):
    """
    Rows that follow each other, column by column.

    Made once for a thousand of them: a `LogRow` for each takes longer than all
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
        pack_id, *rest = zip(*rows, strict=True)
        return cls(unpack_ids(pack_id), *rest)

    def rows(self) -> list[LogRow]:
        """
        The same row by row.
        """
        return list(map(LogRow, *self))


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
            rows = tx.scan(kind.table, place, high, columns=LogRow._fields)
            if len(rows) < high - place:
                # One scan for the whole range: a damaged length may be any number.
                found = tx.scan(kind.table, place, high, columns=("place",))
                missing = set(range(place, high)).difference(*zip(*found, strict=True))
                gap = min(missing) & ((1 << SHIFT) - 1)
                raise damage_error(store, f"the {kind.table} from {gap} on are missing")

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
    before = read_digest_before(tx, store, kind, segments, start)
    blobs = BlobReader(lambda digest: read_blob(tx, store, digest))
    for page in pages_between(tx, store, kind, segments, start):
        try:
            raw = _load_bodies(page.bodies)
            read = _decode_items(kind, page.ids, raw, blobs)
            if list in map(type, raw) or page.contents.count(None) < len(raw):
                after = _compute_digests(kind, page, read, before, blobs)
            else:
                after = tuple(chain_digests(before, page.ids, page.bodies))

            # A page is compared as a whole, which takes no step for each row; if it
            # differs, the rows below say which one is damaged.
            if after != page.digests:
                raise ValueError
        except UNREADABLE:
            for row in page.rows():
                what = _describe_problem(kind, row, before, blobs)
                if what:
                    name = row.id.decode(errors="replace")
                    what = f"the entry {name!r} of {kind.table} {what}"
                    raise damage_error(store, what) from None

                before = row.digest

            raise

        items += read
        digests += page.digests
        before = digests[-1]

    return items, digests


def read_rows(kind: Kind, rows: list[LogRow], blobs: BlobReader) -> list[Any]:
    """
    The entries that rows say.
    """
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
        item._replace(message=blobs(item.message, each[1]))
        if each.__class__ is list
        else item
        for item, each in zip(items, raw, strict=True)
    ]


def _compute_digests(
    kind: Kind, page: _Page, items: list[Any], before: bytes, blobs: BlobReader
) -> tuple[bytes, ...]:
    """
    The digests at each row as they should be, if some of the rows refer to
    large content or were erased; only those up to the first that is damaged.
    """
    made = []
    for row, item in zip(page.rows(), items, strict=True):
        content, what = check_content(kind, row, item, blobs)
        if what:
            break

        before = chain_digest(before, content)
        made.append(before)

    return tuple(made)


def _describe_problem(kind: Kind, row: LogRow, before: bytes, blobs: BlobReader) -> str:
    """
    What is wrong with one row; "" if nothing is.
    """
    try:
        (item,) = read_rows(kind, [row], blobs)
        content, what = check_content(kind, row, item, blobs)
    except UNREADABLE as error:
        return f"can't be read: {getattr(error, 'problem', error)}"

    if not what and chain_digest(before, content) != row.digest:
        what = "is not what was saved"

    return what


def check_content(
    kind: Kind, row: LogRow, item: Any, blobs: BlobReader
) -> tuple[bytes, str]:
    """
    The digest of a row's content, or of what it was before it was erased, and what is
    wrong with it: "" if nothing is.
    """
    if row.content is None:
        return content_digest(row.id, canonical(row.body, blobs)), ""

    content = row.content[:DIGEST_SIZE]
    erasure = None if kind is LEDGER else find_erasure(item.message)
    if erasure is None or erasure.content != content:
        return b"", "is marked as erased, and no tombstone of what was there"

    if row.content != content + seal(row.id, row.body):
        return b"", "is a tombstone, and not the one that was put there"

    return content, ""


def read_blob(tx: Reading, store: str, digest: bytes) -> bytes:
    """
    The content that is kept as *digest*.

    Raises:
        StoreError:
            If it is missing.
    """
    row = tx.get("blobs", digest, ("data",))
    if row is None:
        raise damage_error(store, f"the large content {digest.hex()} is missing")

    data: bytes = row[0]
    return data
