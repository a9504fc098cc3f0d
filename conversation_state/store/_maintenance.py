"""
Maintenance of a whole store: collecting garbage, and erasing entries.

Garbage, rows that no revision of any name needs and no record, is found in a
transaction that blocks no writer; what was saved since is looked at in the
transaction that removes it. Both ask about many rows at once: a server may be far
away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import load as load_json
from conversation_state._persistent import check_text
from conversation_state.codec import decode_messages, encode_message
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.messages import Erasure, find_erasure, make_tombstone
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    BlobReader,
    DamagedRow,
    LogRow,
    checksum_of,
    content_digest,
    pack_id,
    reading_rows,
    tombstone_digest,
    unpack_id,
)
from conversation_state.store._references import find_ended_leases, remove_ended_leases
from conversation_state.store._transaction import ATTEMPTS, CachedBackend, Transaction
from conversation_state.store._values import Collected, Receipt, now, time_of
from conversation_state.store.backend import ConflictError
from conversation_state.store.schema import (
    SHIFT,
    Branch,
    Change,
    Revision,
    Use,
    check_seal,
    sealed,
)

_BLOB_SIZE = 32

Ranges = list[tuple[Any, Any]]


def collect_garbage(cache: CachedBackend, *, vacuum: bool) -> Collected:
    for _ in range(ATTEMPTS):
        # After a conflict it is found again: `Core.write` would try to remove the same
        # rows.
        with suppress(ConflictError):
            # In a transaction that blocks no writer.
            with cache.read() as transaction, reading_rows():
                found = _find_garbage(transaction)

            collected = Collected(0, 0, 0, 0, 0, 0)
            if found.sizes or found.origins or found.blobs or found.leases:
                writing = Transaction(cache, cache.backend.writing())
                with writing as transaction, reading_rows():
                    collected = _remove_garbage(transaction, found)

                cache.forget()

            if vacuum:
                cache.backend.vacuum()
                return collected

            return attrs.evolve(collected, remains=_scrub_files(cache))

    raise cache.make_conflict_error()


def _scrub_files(cache: CachedBackend) -> str:
    """
    Make what was removed unreadable; why a copy may remain if that can't be
    done now, and "" otherwise.

    Does not raise: what was removed is removed.
    """
    try:
        cache.backend.scrub()
    except (StoreError, ConflictError) as error:
        why = getattr(error, "problem", str(error))
        return (
            "a copy may remain in a file until collect_garbage(vacuum=True) has "
            f"succeeded: {why}"
        )

    return ""


class _Garbage(NamedTuple):
    """Rows that no revision needs, and what they were found with."""

    # The number of the last change of rows that were there.
    change: int
    # The newest revision of each name's number.
    newest: dict[int, int]
    # Where each branch starts: its parent, and the position there.
    branches: dict[int, tuple[int, int]]
    # How far each branch is needed.
    reach: dict[int, int]
    # Of each branch that is not needed as a whole, the bytes that are not.
    sizes: dict[int, int]
    origins: list[int]
    blobs: list[bytes]
    # The keys of revisions whose lease has ended.
    leases: list[int]


def _find_garbage(transaction: Transaction) -> _Garbage:
    newest: dict[int, int] = {}
    ends: dict[int, int] = {}
    origins = set()
    for row in transaction.iterate_rows("revisions"):
        # What a damaged row needs would be taken for garbage.
        revision = check_seal(Revision._make(row))
        newest[revision.revision >> SHIFT] = revision.revision
        origins.add(revision.origin)
        for _, branch, length in revision.log_ends:
            ends[branch] = max(ends.get(branch, 0), length)

    for branch, length in _scan_held(transaction):
        ends[branch] = max(ends.get(branch, 0), length)

    branches = {
        branch: (parent, start)
        for branch, parent, start in transaction.iterate_rows(
            "branches", Branch._fields
        )
    }
    reach: dict[int, int] = {}
    for branch, length in ends.items():
        _mark_needed(transaction, branches, reach, branch, length)

    used = set()
    for place, digests in transaction.iterate_rows("uses", Use._fields):
        if place & ((1 << SHIFT) - 1) < reach.get(place >> SHIFT, 0):
            used.update(_split_digests(digests))

    blobs = [digest for (digest,) in transaction.iterate_rows("blobs", ("digest",))]
    return _Garbage(
        _find_last_change(transaction),
        newest,
        branches,
        reach,
        {
            branch: _sum_sizes(transaction, branch, reach)
            for branch in _list_partly_needed(transaction, branches, reach)
        },
        [
            n
            for (n,) in transaction.iterate_rows("origins", ("origin",))
            if n not in origins
        ],
        [digest for digest in blobs if digest not in used],
        find_ended_leases(transaction),
    )


def _scan_held(transaction: Transaction) -> Iterator[tuple[int, int]]:
    """The branches that records need, and how far."""
    for _, branch, length in transaction.iterate_rows(
        "records", ("key", "branch", "length")
    ):
        if branch:
            yield branch, length


def _mark_needed(
    transaction: Transaction,
    branches: dict[int, tuple[int, int]],
    reach: dict[int, int],
    branch: int,
    length: int,
) -> None:
    """Note that a branch is needed up to a length, and what it starts from."""
    while branch and reach.get(branch, 0) < length:
        reach[branch] = length
        if branch not in branches:
            row = transaction.tables.get("branches", branch)
            if row is None:
                # What it starts from would be taken for garbage.
                what = f"nothing was collected: branch {branch} is gone"
                raise DamagedRow(what)

            branches[branch] = row[1:]

        branch, length = branches[branch]


def _get_unneeded_range(branch: int, reach: Mapping[int, int]) -> tuple[int, int]:
    return (branch << SHIFT) + reach.get(branch, 0), (branch + 1) << SHIFT


def _list_partly_needed(
    transaction: Transaction, branches: Iterable[int], reach: Mapping[int, int]
) -> list[int]:
    found = {branch for branch in branches if branch not in reach}
    needed = [branch for branch in branches if branch in reach]
    ranges = [_get_unneeded_range(branch, reach) for branch in needed]
    scan_each = transaction.tables.scan_each
    for table in (ENTRIES, LEDGER):
        rows = scan_each(table.table, ranges, columns=("place",), limit=1)
        found |= {branch for branch, row in zip(needed, rows, strict=True) if row}

    return sorted(found)


def _sum_sizes(transaction: Transaction, branch: int, reach: Mapping[int, int]) -> int:
    low, high = _get_unneeded_range(branch, reach)
    columns = "place", "body"
    return sum(
        len(body)
        for table in (ENTRIES, LEDGER)
        for _, body in transaction.iterate_rows(
            table.table, columns, low=low, high=high
        )
    )


def _remove_garbage(transaction: Transaction, found: _Garbage) -> Collected:
    tx = transaction.tables
    if _find_last_change(transaction) != found.change:
        # Rows were collected or erased since they were found.
        raise ConflictError("changes", found.change)

    reach, origins = dict(found.reach), {*found.origins}
    later: Ranges = []
    for _, number in transaction.iterate_rows("names", ("name", "number")):
        # What was saved since is not garbage.
        newest = found.newest.get(number)
        low = number << SHIFT if newest is None else newest + 1
        later.append((low, (number + 1) << SHIFT))

    # All records are scanned again, because a new one may hold messages of a deleted
    # name.
    ends = list(_scan_held(transaction))
    for rows in tx.scan_each("revisions", later):
        for revision in map(check_seal, map(Revision._make, rows)):
            origins.discard(revision.origin)
            ends += [(branch, length) for _, branch, length in revision.log_ends]

    for branch, length in ends:
        _mark_needed(transaction, found.branches, reach, branch, length)

    size = 0
    for branch, weight in found.sizes.items():
        is_same = reach.get(branch) == found.reach.get(branch)
        size += weight if is_same else _sum_sizes(transaction, branch, reach)

    gone = [branch for branch in found.sizes if branch not in reach]
    # This comes first, because it reads the rows that are removed below: a branch is
    # found by the digest of its first row.
    first = [branch << SHIFT | found.branches[branch][1] for branch in gone]
    for table in (ENTRIES, LEDGER):
        places = [(place, place + 1) for place in first]
        there = tx.scan_each(table.table, places, columns=("digest",))
        digests = [digest for rows in there for (digest,) in rows]
        tx.remove_each("starts", _make_single_ranges(digests))

    tx.remove_each("branches", [(branch, branch + 1) for branch in gone])
    ranges = [_get_unneeded_range(branch, reach) for branch in found.sizes]
    entries = tx.remove_each(ENTRIES.table, ranges)
    ledger_entries = tx.remove_each(LEDGER.table, ranges)
    tx.remove_each("uses", ranges)
    removed_origins = tx.remove_each(
        "origins", [(number, number + 1) for number in origins]
    )
    blobs, blob_size = _drop_blobs(transaction, found.blobs)
    remove_ended_leases(transaction, found.leases)
    if entries or ledger_entries:
        # Other rows may take their places now.
        _note_change(transaction, b"", b"", "collected")

    return Collected(
        entries, ledger_entries, len(gone), removed_origins, blobs, size + blob_size
    )


def _make_single_ranges(keys: Iterable[bytes]) -> Ranges:
    # Each is the range of one key alone.
    return [(key, key + b"\0") for key in keys]


def _split_digests(digests: bytes) -> list[bytes]:
    # Those that a row of "uses" has.
    return [digests[i : i + _BLOB_SIZE] for i in range(0, len(digests), _BLOB_SIZE)]


def _drop_blobs(transaction: Transaction, digests: Iterable[bytes]) -> tuple[int, int]:
    """Remove those of *digests* that nothing refers to: how many, and their bytes."""
    left = {*digests}
    if left:
        # All rows of "uses" are read: other messages may show the same content, and a
        # save may have come since the digests were collected.
        for _, used in transaction.iterate_rows("uses", Use._fields):
            left.difference_update(_split_digests(used))

    tx = transaction.tables
    ranges = _make_single_ranges(sorted(left))
    there = tx.scan_each("blobs", ranges, columns=("size",))
    return tx.remove_each("blobs", ranges), sum([rows[0][0] for rows in there if rows])


# Erasure


def erase(cache: CachedBackend, entry_id: str, reason: str) -> Receipt:
    id = check_text(entry_id, "entry_id").encode()

    def replace(transaction: Transaction) -> tuple[Change, int, int]:
        tx = transaction.tables
        places = tx.find(ENTRIES.table, "id", [pack_id(id)])
        before = tx.find("changes", "entry", [id])
        if not places and not before:
            raise NotSavedError(transaction.url, "entry", entry_id)

        blob_digests: set[bytes] = set()
        found = [
            _erase_at(transaction, place, reason, blob_digests) for place in places
        ]
        new = [erasure for erasure, is_new in found if is_new]
        if not before:
            # An entry that came in as a tombstone has its own reason.
            content, why = (new or [erasure for erasure, _ in found])[0]
            before = [_note_change(transaction, id, content, why)]

        row = tx.get("changes", before[0])
        if row is None:
            raise StoreError(transaction.url, "the erasure just written is not there")

        blobs, _ = _drop_blobs(transaction, blob_digests)
        return check_seal(Change._make(row)), len(new), blobs

    change, erased, blobs = cache.write(replace)
    # The erasure is committed: nothing below may raise.
    cache.forget()
    return Receipt(
        entry_id,
        change.reason,
        change.content.hex(),
        time_of(change.changed_at),
        erased,
        blobs,
        _scrub_files(cache),
    )


def _erase_at(
    transaction: Transaction, place: Any, reason: str, blob_digests: set[bytes]
) -> tuple[Erasure, bool]:
    """
    What is erased at a place, and whether it was not before. Adds the large content
    that it referred to to *blob_digests*.
    """
    tx = transaction.tables
    found = tx.get(ENTRIES.table, place, LogRow._fields)
    if found is None:
        raise ConflictError(place)

    row = LogRow._make(found)
    id = unpack_id(row.id)
    with reading_rows():
        whole = BlobReader(tx).restore_body(row.body)
        (message,) = decode_messages([load_json(whole)])

    if row.content is not None:
        erasure = find_erasure(message)
        if erasure is None:
            name = id.decode(errors="replace")
            raise DamagedRow(f"the entry {name!r} is not a tombstone")

        return erasure, False

    content = content_digest(id, whole)
    stone = encode_message(make_tombstone(message, content, reason))
    marked = content + tombstone_digest(id, stone)
    with reading_rows():
        # What is not of the content stays in the checksum, and so does damage.
        checksum = row.checksum ^ checksum_of(b"", row.id, row.body, None)
        checksum ^= checksum_of(b"", row.id, stone, marked)

    tx.set(ENTRIES.table, place, body=stone, content=marked, checksum=checksum)
    uses = tx.get("uses", place)
    if uses is not None:
        blob_digests.update(_split_digests(uses[1]))
        tx.remove("uses", place, place + 1)

    return Erasure(content, reason), True


def _find_last_change(transaction: Transaction) -> int:
    scan = transaction.tables.scan
    last = scan("changes", None, None, columns=("number",), limit=1, backwards=True)
    return last[0][0] if last else 0


def _note_change(
    transaction: Transaction, entry: bytes, content: bytes, reason: str
) -> int:
    """Note for all stores that existing rows changed; the number of the change."""
    # The numbers have no gaps, because the fast path of a save asks for the next number
    # only.
    number = _find_last_change(transaction) + 1
    change = Change(number, entry, content, reason, changed_at=now())
    transaction.tables.add("changes", [sealed(change)])
    return number
