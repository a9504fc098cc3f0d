"""Writing what is not there yet of a log: its rows, large content and origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.messages import find_erasure, make_tombstone
from conversation_state.store._log import (
    LARGE,
    LEDGER,
    DamagedRow,
    LogEnd,
    LogRow,
    LogTable,
    Segments,
    extend_segments,
    extract_blobs,
    pack_id,
    tombstone_digest,
)
from conversation_state.store._transaction import Transaction
from conversation_state.store.schema import (
    SHIFT,
    Blob,
    Branch,
    Origin,
    Start,
    Use,
    key_range,
)

_NOTHING: Mapping[bytes, str] = {}


def has_erased_content(
    erased: Mapping[bytes, str], state: Aggregator, start: int = 0
) -> bool:
    """
    Whether a state, from the message at *start* on, still has content that was erased.
    """
    return bool(erased) and any(
        id.encode() in erased and find_erasure(message) is None
        for id, message in state.entries.iterate(start)
    )


class LogToWrite:
    """
    A log that is to be saved, and its digests at any length, computed on demand.

    Attributes:
        table: Which of the two logs it is.

        log: The entries.

        segments: Where a beginning of it stands that is there already, as far as is
            known.
    """

    def __init__(self, table: LogTable, log: Log[Any]) -> None:
        self.table = table
        self.log = log
        self.segments: Segments = ()
        # The digest at a length, before which nothing is computed again; and the rows
        # after it.
        self._known: tuple[int, bytes] | None = None
        self._rows: list[LogRow] = []

    def begin_at(self, segments: Segments, digest: bytes) -> None:
        """Its beginning stands at *segments*, and has that digest."""
        self.segments = segments
        self._known = segments[-1].stop, digest

    def digest_at(self, length: int) -> bytes:
        """The digest of the first *length* entries."""
        if self._known is None or length < self._known[0]:
            # A fold is kept with the blocks of the log, so that later saves of any
            # state that shares them compute only what is new.
            return self.table.digest(self.log.take(length))

        since, digest = self._known
        return self.rows(since)[length - since - 1].digest if length > since else digest

    def rows(self, start: int) -> list[LogRow]:
        if self._known is None or start < self._known[0]:
            self._known, self._rows = (start, self.digest_at(start)), []

        since, digest = self._known
        if not self._rows:
            self._rows = self.table.rows(digest, self.log.iterate(since))

        return self._rows[start - since :]


def write_log(transaction: Transaction, new: LogToWrite) -> LogEnd:
    """
    Write what is not there yet of a log; where it ends then, and `LogToWrite.segments`
    are where all of it stands. Entries that were erased become tombstones.
    """
    tables, table, length = transaction.tables, new.table, len(new.log)
    locate_log(transaction, new)
    start = new.segments[-1].stop if new.segments else 0
    branch = new.segments[-1].branch if new.segments else 0
    if start < length:
        rows = new.rows(start)
        # If another log continues that branch already, its places are taken.
        if not new.segments or _find_end(transaction, table, branch) != start:
            parent, branch = branch, tables.new_number()
            tables.add("branches", [Branch(branch, parent, start)])
            tables.add("starts", [Start(rows[0].digest, branch)])

        entries = list(new.log.iterate(start))
        erased = transaction.cache.erased
        place = branch << SHIFT | start
        add_rows(transaction, table, place, entries, rows, erased=erased)
        new.segments = extend_segments(new.segments, branch, length)

    return LogEnd(branch, length, new.digest_at(length))


def locate_log(transaction: Transaction, new: LogToWrite) -> None:
    """
    Find where the longest beginning of a log stands that is there already.

    O(log n) digests are read for each branch on the way, one if the log goes
    on where the branch does.
    """
    length = len(new.log)
    while True:
        at = new.segments[-1].stop if new.segments else 0
        if at == length:
            return

        if new.segments:
            branch = new.segments[-1].branch
            end = _count_common(transaction, new, branch, at)
            if end > at:
                new.segments = extend_segments(new.segments, branch, end)
                continue

        next_branch = _find_branch(transaction, new.table, new.digest_at(at + 1))
        if next_branch is None:
            return

        new.segments = extend_segments(new.segments, next_branch, at + 1)


def _count_common(
    transaction: Transaction, new: LogToWrite, branch: int, at: int
) -> int:
    """How far the log and the branch go on together, from *at* on."""
    find_digest = transaction.find_digest
    low, high = at, min(_find_end(transaction, new.table, branch), len(new.log))
    # Most logs go on where a branch ends: one digest shows that.
    if low < high and find_digest(new.table, branch, high) == new.digest_at(high):
        return high

    # A digest covers all rows before it: where two differ, all later ones do, so
    # bisection finds the first.
    while low + 1 < high:
        middle = (low + high) // 2
        if find_digest(new.table, branch, middle) == new.digest_at(middle):
            low = middle
        else:
            high = middle

    return low


def _find_branch(
    transaction: Transaction, table: LogTable, digest: bytes
) -> int | None:
    """
    The branch whose first row has that digest. One that has another is damage: what
    is written next would belong to a past that is not its own.
    """
    tx = transaction.tables
    row = tx.get("starts", digest)
    if row is None:
        return None

    branch: int = row[1]
    start = tx.get("branches", branch, ("start",))
    if start is None or transaction.find_digest(table, branch, start[0] + 1) != digest:
        raise DamagedRow(
            f"branch {branch} begins with another row than it was kept for"
        )

    return branch


def _find_end(transaction: Transaction, table: LogTable, branch: int) -> int:
    """The position after the last row of a branch."""
    low, high = key_range(branch)
    scan = transaction.tables.scan
    last = scan(table.table, low, high, columns=("place",), limit=1, backwards=True)
    return last[0][0] - low + 1 if last else 0


def add_rows(
    transaction: Transaction,
    table: LogTable,
    place: int,
    entries: Sequence[Any],
    rows: Sequence[LogRow],
    *,
    erased: Mapping[bytes, str] = _NOTHING,
) -> None:
    """
    Add the rows of entries from a place on, and their large content; tombstones for
    those that were erased.
    """
    tx = transaction.tables
    if table is LEDGER:
        made = [(place + i, pack_id(row[0]), *row[1:]) for i, row in enumerate(rows)]
        tx.add(table.table, made)
        return

    made = []
    uses: list[Use] = []
    for entry, row in zip(entries, rows, strict=True):
        id, body, content, digest = row
        message = entry.message
        if erased and content is None and id in erased:
            # The entry was erased, and a state that still has its content does not
            # restore it.
            content = table.content(entry)
            message = make_tombstone(message, content, erased[id])
            body, _ = table.encode(entry._replace(message=message))

        if content is not None:
            # The chain of digests covers the erased content, not the tombstone.
            content += tombstone_digest(id, body)

        if len(body) >= LARGE:
            body, blobs = extract_blobs(message, body)
            if blobs:
                uses.append(Use(place, b"".join(blobs)))

            for blob, data in blobs.items():
                # Only its size is read, because the content itself may be megabytes.
                if tx.get("blobs", blob, ("size",)) is None:
                    tx.add("blobs", [Blob(blob, len(data), data)])

        made.append((place, pack_id(id), body, content, digest))
        place += 1

    tx.add(table.table, made)
    if uses:
        tx.add("uses", uses)


def add_origin(transaction: Transaction, origin: Origin) -> int:
    """The number of an origin, which is added if it is new."""
    tx = transaction.tables
    number = origin.first_number()
    while (row := tx.get("origins", number)) is not None:
        if Origin._make(row[1:]) == origin:
            return number

        number += 1  # once in ten million million origins

    tx.add("origins", [(number, *origin)])
    return number
