"""
Maintenance of a whole store: collecting garbage, and erasing entries.

Garbage are rows that no revision of any name needs and no record. Many rows are asked
for at once: a server may be far away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import attrs

from conversation_state._canonical import load as load_json
from conversation_state._persistent import check_text
from conversation_state.codec import decode_messages, encode_message
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.messages import Erasure, find_erasure, make_tombstone
from conversation_state.store._load import make_blob_reader
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    LogRow,
    content_digest,
    pack_id,
    tombstone_digest,
    unpack_id,
)
from conversation_state.store._transaction import PAGE, Core, Transaction
from conversation_state.store._values import Collected, Receipt, now, time_of
from conversation_state.store.backend import ConflictError
from conversation_state.store.schema import SHIFT, Branch, Change, Use, make_sealed

_BLOB_SIZE = 32

# Enough that a server is asked seldom, and few enough for memory.
_BRANCHES_AT_ONCE = 20

Ranges = list[tuple[Any, Any]]


def collect_garbage(core: Core, *, vacuum: bool) -> Collected:
    collected = core.write(_remove_garbage)
    core.forget()
    if vacuum:
        core.backend.vacuum()
        return collected

    return attrs.evolve(collected, remains=_scrub_files(core))


def _scrub_files(core: Core) -> str:
    """
    Make what was removed unreadable; why a copy may remain if that can't be
    done now, and "" otherwise.

    Does not raise: what was removed is removed.
    """
    try:
        core.backend.scrub()
    except (StoreError, ConflictError) as error:
        why = getattr(error, "problem", str(error))
        return (
            "a copy may remain in a file until collect_garbage(vacuum=True) has "
            f"succeeded: {why}"
        )

    return ""


def _remove_garbage(transaction: Transaction) -> Collected:
    tx = transaction.tables
    branches: dict[int, tuple[int, int]] = {
        branch: (parent, start)
        for branch, parent, start in transaction.iterate_rows(
            "branches", Branch._fields
        )
    }
    ends, origins = _find_needed(transaction)
    reach: dict[int, int] = {}
    for branch, length in ends:
        _mark_needed(transaction, branches, reach, branch, length)

    partly_needed = _list_partly_needed(transaction, branches, reach)
    ranges = [_get_unneeded_range(branch, reach) for branch in partly_needed]
    size = _sum_sizes(transaction, ranges)
    gone = [branch for branch in partly_needed if branch not in reach]
    # This comes first, because it reads the rows that are removed below: a branch is
    # found by the digest of its first row.
    first = [branch << SHIFT | branches[branch][1] for branch in gone]
    for kind in (ENTRIES, LEDGER):
        places = [(place, place + 1) for place in first]
        there = tx.scan_each(kind.table, places, columns=("digest",))
        digests = [digest for rows in there for (digest,) in rows]
        tx.remove_each("starts", _make_single_ranges(digests))

    tx.remove_each("branches", [(branch, branch + 1) for branch in gone])
    entries = tx.remove_each(ENTRIES.table, ranges)
    ledger_entries = tx.remove_each(LEDGER.table, ranges)
    tx.remove_each("uses", ranges)
    numbers = [n for (n,) in transaction.iterate_rows("origins", ("origin",))]
    ranges = [(number, number + 1) for number in numbers if number not in origins]
    removed_origins = tx.remove_each("origins", ranges)
    every = [digest for (digest,) in transaction.iterate_rows("blobs", ("digest",))]
    blobs, blob_size = _drop_blobs(transaction, every)
    if entries or ledger_entries:
        # Other rows may take their places now.
        _note_change(transaction, b"", b"", "collected")

    return Collected(
        entries, ledger_entries, len(gone), removed_origins, blobs, size + blob_size
    )


def _find_needed(
    transaction: Transaction,
) -> tuple[set[tuple[int, int]], set[int]]:
    """
    The branches that revisions and records need, each with how far, and the origins.
    """
    ends, origins = set(), set()
    for row in transaction.iterate_rows("revisions"):
        # What a damaged row needs would be taken for garbage.
        revision = transaction.check_revision(row)
        origins.add(revision.origin)
        ends.update([(branch, length) for _, branch, length in revision.log_ends])

    held = "key", "branch", "length"
    ends.update([row[1:] for row in transaction.iterate_rows("records", held)])
    return ends, origins


def _mark_needed(
    transaction: Transaction,
    branches: dict[int, tuple[int, int]],
    reach: dict[int, int],
    branch: int,
    length: int,
) -> None:
    """
    Note that a branch is needed up to a length, and what it starts from.
    """
    while branch and reach.get(branch, 0) < length:
        reach[branch] = length
        if branch not in branches:
            row = transaction.tables.get("branches", branch)
            if row is None:
                # What it starts from would be taken for garbage.
                what = f"nothing was collected: branch {branch} is gone"
                raise transaction.damage_error(what)

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
    for kind in (ENTRIES, LEDGER):
        rows = scan_each(kind.table, ranges, columns=("place",), limit=1)
        found |= {branch for branch, row in zip(needed, rows, strict=True) if row}

    return sorted(found)


def _sum_sizes(transaction: Transaction, ranges: Ranges) -> int:
    """
    The bytes of the rows of logs in *ranges*, read a few branches at a time.
    """
    size = 0
    columns = "place", "body"
    scan_each = transaction.tables.scan_each
    for kind, at in product(
        (ENTRIES, LEDGER), range(0, len(ranges), _BRANCHES_AT_ONCE)
    ):
        some = ranges[at : at + _BRANCHES_AT_ONCE]
        pages = scan_each(kind.table, some, columns=columns, limit=PAGE)
        for (_, high), rows in zip(some, pages, strict=True):
            low = rows[-1][0] + 1 if len(rows) == PAGE else high
            rest = transaction.iterate_rows(kind.table, columns, low=low, high=high)
            size += sum([len(body) for _, body in rows])
            size += sum(len(body) for _, body in rest) if low < high else 0

    return size


def _make_single_ranges(keys: Iterable[bytes]) -> Ranges:
    # Each is the range of one key alone.
    return [(key, key + b"\0") for key in keys]


def _split_digests(digests: bytes) -> list[bytes]:
    # Those that a row of "uses" has.
    return [digests[i : i + _BLOB_SIZE] for i in range(0, len(digests), _BLOB_SIZE)]


def _drop_blobs(transaction: Transaction, digests: Iterable[bytes]) -> tuple[int, int]:
    """
    Remove those of *digests* that nothing refers to: how many, and their bytes.
    """
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


def erase(core: Core, entry_id: str, reason: str) -> Receipt:
    id = check_text(entry_id, "entry_id").encode()

    def replace(transaction: Transaction) -> tuple[Change, int, int]:
        tx = transaction.tables
        places = tx.find(ENTRIES.table, "id", pack_id(id))
        before = tx.find("changes", "entry", id)
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
        return Change._make(row), len(new), blobs

    change, erased, blobs = core.write(replace)
    # The erasure is committed: nothing below may raise.
    core.forget()
    return Receipt(
        entry_id,
        change.reason,
        change.content.hex(),
        time_of(change.changed_at),
        erased,
        blobs,
        _scrub_files(core),
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
    whole = make_blob_reader(transaction).restore_body(row.body)
    (message,) = decode_messages([load_json(whole)])
    if row.content is not None:
        erasure = find_erasure(message)
        if erasure is None:
            name = id.decode(errors="replace")
            raise transaction.damage_error(f"the entry {name!r} is not a tombstone")

        return erasure, False

    content = content_digest(id, whole)
    stone = encode_message(make_tombstone(message, content, reason))
    marked = content + tombstone_digest(id, stone)
    tx.set(ENTRIES.table, place, body=stone, content=marked)
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
    """
    Note for all stores that existing rows changed; the number of the change.
    """
    # The numbers have no gaps, because the fast path of a save asks for the next number
    # only.
    number = _find_last_change(transaction) + 1
    row = make_sealed(Change, number, entry, content, reason, now())
    transaction.tables.add("changes", [row])
    return number
