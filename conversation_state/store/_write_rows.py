"""Writing rows: what is not there yet of a log, large content, origins and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.messages import find_erasure, make_tombstone
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    Kind,
    LogRow,
    Segments,
    extend_segments,
    extract_blobs,
    pack_id,
    take_newest,
    tombstone_digest,
)
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import (
    Head,
    join_labels,
    label_key,
    split_labels,
)
from conversation_state.store.backend import Writing
from conversation_state.store.schema import (
    SHIFT,
    Blob,
    Branch,
    Label,
    Name,
    Origin,
    Revision,
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


class LogDigests:
    """
    The digests of a log at any length, computed on demand. Before a length whose digest
    is *known* nothing is computed again.
    """

    def __init__(
        self, kind: Kind, log: Log[Any], known: tuple[int, bytes] | None = None
    ) -> None:
        self.kind = kind
        self.log = log
        self._known = known
        # Those after the known length.
        self._rows: list[LogRow] = []

    def at(self, length: int) -> bytes:
        """The digest of the first *length* entries."""
        if self._known is None or length < self._known[0]:
            # A fold is kept with the blocks of the log, so that later saves of any
            # state that shares them compute only what is new.
            return self.kind.digest(self.log.take(length))

        since, digest = self._known
        return self.rows(since)[length - since - 1].digest if length > since else digest

    def rows(self, start: int) -> list[LogRow]:
        if self._known is None or start < self._known[0]:
            self._known, self._rows = (start, self.at(start)), []

        since, digest = self._known
        if not self._rows:
            self._rows = self.kind.rows(digest, self.log.iterate(since))

        return self._rows[start - since :]


def write_log(
    transaction: Transaction,
    past: LogDigests,
    segments: Segments = (),
) -> Segments:
    """
    Write what is not there yet of a log, a beginning of which stands at *segments*;
    where all of it stands then. Entries that were erased become tombstones.
    """
    tx, kind, log = transaction.tables, past.kind, past.log
    segments = locate_log(transaction, past, segments)
    start = segments[-1].stop if segments else 0
    if start == len(log):
        return segments

    rows = past.rows(start)
    branch = segments[-1].branch if segments else 0
    # If another log continues that branch already, its places are taken.
    if not segments or _find_end(transaction, kind, branch) != start:
        parent, branch = branch, tx.new_number()
        tx.add("branches", [Branch(branch, parent, start)])
        tx.add("starts", [Start(rows[0].digest, branch)])

    new = take_newest(log, len(rows))
    erased = transaction.core.erased
    add_rows(transaction, kind, branch << SHIFT | start, new, rows, erased=erased)
    return extend_segments(segments, branch, len(log))


def locate_log(
    transaction: Transaction, past: LogDigests, segments: Segments = ()
) -> Segments:
    """
    Where the longest beginning of a log stands that is there already, of which
    *segments* are known.

    O(log n) digests are read for each branch on the way, one if the log goes
    on where the branch does.
    """
    length = len(past.log)
    while True:
        at = segments[-1].stop if segments else 0
        if at == length:
            return segments

        if segments:
            branch = segments[-1].branch
            end = _count_common(transaction, past, branch, at)
            if end > at:
                segments = extend_segments(segments, branch, end)
                continue

        next_branch = _find_branch(transaction, past.kind, past.at(at + 1))
        if next_branch is None:
            return segments

        segments = extend_segments(segments, next_branch, at + 1)


def _count_common(
    transaction: Transaction, past: LogDigests, branch: int, at: int
) -> int:
    """How far the log and the branch go on together, from *at* on."""
    kind = past.kind
    low, high = at, min(_find_end(transaction, kind, branch), len(past.log))
    # Most logs go on where a branch ends: one digest shows that.
    if low < high and transaction.find_digest(kind, branch, high) == past.at(high):
        return high

    # A digest covers all rows before it: where two differ, all later ones do, so
    # bisection finds the first.
    while low + 1 < high:
        middle = (low + high) // 2
        if transaction.find_digest(kind, branch, middle) == past.at(middle):
            low = middle
        else:
            high = middle

    return low


def _find_branch(transaction: Transaction, kind: Kind, digest: bytes) -> int | None:
    """
    The branch whose first row has that digest.

    Raises:
        ValueError:
            If it has another one: what is written next would belong to a past
            that is not its own.
    """
    tx = transaction.tables
    row = tx.get("starts", digest)
    if row is None:
        return None

    branch: int = row[1]
    start = tx.get("branches", branch, ("start",))
    if start is None or transaction.find_digest(kind, branch, start[0] + 1) != digest:
        raise ValueError(
            f"branch {branch} begins with another row than it was kept for"
        )

    return branch


def _find_end(transaction: Transaction, kind: Kind, branch: int) -> int:
    """The position after the last row of a branch."""
    low, high = key_range(branch)
    scan = transaction.tables.scan
    last = scan(kind.table, low, high, columns=("place",), limit=1, backwards=True)
    return last[0][0] - low + 1 if last else 0


def add_rows(
    transaction: Transaction,
    kind: Kind,
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
            content += tombstone_digest(id, body)

        body, blobs = extract_blobs(message, body)
        if blobs:
            uses.append(Use(place, b"".join(blobs)))

        for blob, data in blobs.items():
            # Only its size is read, because the content itself may be megabytes.
            if tx.get("blobs", blob, ("size",)) is None:
                tx.add("blobs", [Blob(blob, len(data), data)])

        made.append((place, pack_id(id), body, content, digest))
        place += 1

    tx.add(kind.table, made)
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


def point_label(transaction: Transaction, label: str, revision: int) -> None:
    """Make *label* point to a revision whose row has it, and no longer to another."""
    tx = transaction.tables
    key = label_key(revision >> SHIFT, label)
    row = tx.get("labels", key)
    if row is None:
        tx.add("labels", [Label(key, revision)])
        return

    before = tx.get("revisions", row[1])
    if before is not None and row[1] != revision:
        drop_label(tx, transaction.check_revision(before), label)

    tx.set("labels", key, revision=revision)


def add_label(
    transaction: Transaction, name: Name, revision: Revision, label: str
) -> Head:
    """Make *label* point to an existing revision, besides its other labels."""
    labels = split_labels(revision.labels)
    if label not in labels:
        packed = join_labels([*labels, label])
        revision = set_columns(transaction.tables, revision, labels=packed)
        point_label(transaction, label, revision.revision)

    return transaction.make_head(name, revision)


def drop_label(tx: Writing, revision: Revision, label: str) -> Revision:
    left = [each for each in split_labels(revision.labels) if each != label]
    return set_columns(tx, revision, labels=join_labels(left))


def set_columns(tx: Writing, revision: Revision, **values: bytes) -> Revision:
    new = revision.resealed(**values)
    if new != revision:
        tx.set("revisions", new.revision, **values, seal=new.seal)

    return new


def put_row(tx: Writing, table: str, old: Any, row: Any) -> None:
    if old is None:
        tx.add(table, [row])
    elif old != row:
        values = row._asdict()
        tx.set(table, values.pop(row._fields[0]), **values)
