"""
Collecting garbage: rows that no revision of any name needs, and no record.

It is found in a block that reads, and in nobody's way; what was saved since is
looked at in the block that lets go of it. Both ask about many rows at once: a
server may be far away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from conversation_state.store._core import Core, retried
from conversation_state.store._rows import PAGE, SHIFT, Revision, all_rows, damaged
from conversation_state.store._values import Collected
from conversation_state.store._writing import note_change
from conversation_state.store.backend import ConflictError, Reading, Writing
from conversation_state.store.log import ENTRIES, LEDGER

__all__ = ["collect_garbage", "drop_blobs", "each_of"]

_BLOB_SIZE = 32

Ranges = list[tuple[Any, Any]]


@retried
def collect_garbage(core: Core, *, vacuum: bool) -> Collected:
    """
    What `Store.collect_garbage` does.
    """
    # Found in a block that nobody waits for.
    with core.reading() as tx:
        found = _garbage(core, tx)

    collected = Collected(0, 0, 0, 0, 0, 0)
    if found.sizes or found.origins or found.blobs:
        with core.writing() as tx:
            collected = _let_go(core, tx, found)

        core.forget()

    if vacuum:
        core.backend.vacuum()
    else:
        core.backend.scrub()

    return collected


class _Garbage(NamedTuple):
    """
    What no revision needs, and all that was known when it was found.

    Attributes:
        change: The number of the last change of rows that were there.

        newest: The newest revision of each name's number.

        branches: Where each branch starts: its parent, and the position there.

        reach: How far each branch is needed.

        sizes: The bytes that are not needed of each branch of which not
            everything is.

        origins: Those that nobody has.

        blobs: Those that nothing refers to which is needed.
    """

    change: int
    newest: dict[int, int]
    branches: dict[int, tuple[int, int]]
    reach: dict[int, int]
    sizes: dict[int, int]
    origins: list[int]
    blobs: list[bytes]


def _garbage(core: Core, tx: Reading) -> _Garbage:
    newest: dict[int, int] = {}
    ends: dict[int, int] = {}
    origins = set()
    columns = "revision", "branch", "length", "ledger_branch", "ledger_length", "origin"
    for place, told, length, paid, spent, origin in all_rows(tx, "revisions", columns):
        newest[place >> SHIFT] = place
        origins.add(origin)
        ends[told] = max(ends.get(told, 0), length)
        ends[paid] = max(ends.get(paid, 0), spent)

    for branch, length in _held(tx):
        ends[branch] = max(ends.get(branch, 0), length)

    branches = {row[0]: row[1:] for row in all_rows(tx, "branches")}
    reach: dict[int, int] = {}
    for end in ends.items():
        _need(core, tx, branches, reach, end)

    return _Garbage(
        _last_change(tx),
        newest,
        branches,
        reach,
        {branch: _weight(tx, branch, reach) for branch in _over(tx, branches, reach)},
        [n for (n,) in all_rows(tx, "origins", ("origin",)) if n not in origins],
        _unused_blobs(tx, reach),
    )


def _held(tx: Reading) -> Iterator[tuple[int, int]]:
    """
    What records hold on to: branches, and how far.
    """
    for _, branch, length in all_rows(tx, "records", ("key", "branch", "length")):
        if branch:
            yield branch, length


def _last_change(tx: Reading) -> int:
    last = tx.scan("changes", None, None, columns=("number",), limit=1, backwards=True)
    return last[0][0] if last else 0


def _need(
    core: Core,
    tx: Reading,
    branches: dict[int, tuple[int, int]],
    reach: dict[int, int],
    end: tuple[int, int],
) -> None:
    """
    Note that a branch is needed up to a length, and what it starts from.
    """
    branch, length = end
    while branch and reach.get(branch, 0) < length:
        reach[branch] = length
        start = branches.get(branch)
        if start is None:
            row = tx.get("branches", branch)
            if row is None:
                # Else what it starts from would be taken for garbage.
                what = f"nothing was collected: branch {branch} is gone"
                raise damaged(core.url, what)

            start = branches[branch] = row[1:]

        branch, length = start


def _beyond(branch: int, reach: dict[int, int]) -> tuple[int, int]:
    """
    The places of a branch that are not needed.
    """
    return (branch << SHIFT) + reach.get(branch, 0), (branch + 1) << SHIFT


def _over(tx: Reading, branches: Iterable[int], reach: dict[int, int]) -> list[int]:
    """
    The branches of which not everything is needed.
    """
    found = {branch for branch in branches if branch not in reach}
    needed = [branch for branch in branches if branch in reach]
    ranges = [_beyond(branch, reach) for branch in needed]
    for kind in (ENTRIES, LEDGER):
        rows = tx.scan_each(kind.table, ranges, columns=("place",), limit=1)
        found |= {branch for branch, row in zip(needed, rows, strict=True) if row}

    return sorted(found)


def _weight(tx: Reading, branch: int, reach: dict[int, int]) -> int:
    size = 0
    for kind in (ENTRIES, LEDGER):
        low, high = _beyond(branch, reach)
        columns = "place", "body"
        while rows := tx.scan(kind.table, low, high, columns=columns, limit=PAGE):
            size += sum([len(body) for _, body in rows])
            low = rows[-1][0] + 1
            if len(rows) < PAGE:
                break

    return size


def _let_go(core: Core, tx: Writing, found: _Garbage) -> Collected:
    if _last_change(tx) != found.change:
        # Somebody else collected or erased: what was found may be no more.
        raise ConflictError("changes", found.change)

    reach, origins = dict(found.reach), {*found.origins}
    ranges: Ranges = []
    for _, number in all_rows(tx, "names", ("name", "number")):
        # Somebody may have saved since: what they need is no garbage.
        newest = found.newest.get(number)
        low = number << SHIFT if newest is None else newest + 1
        ranges.append((low, (number + 1) << SHIFT))

    for rows in tx.scan_each("revisions", ranges):
        for revision in map(Revision._make, rows):
            origins.discard(revision.origin)
            for end in (
                (revision.branch, revision.length),
                (revision.ledger_branch, revision.ledger_length),
            ):
                _need(core, tx, found.branches, reach, end)

    # All of them once more: a name may be gone whose messages a new one holds.
    for end in _held(tx):
        _need(core, tx, found.branches, reach, end)

    size = 0
    for branch, weight in found.sizes.items():
        is_same = reach.get(branch) == found.reach.get(branch)
        size += weight if is_same else _weight(tx, branch, reach)

    gone = [branch for branch in found.sizes if branch not in reach]
    _drop_starts(tx, [(branch, found.branches[branch][1]) for branch in gone])
    tx.remove_each("branches", [(branch, branch + 1) for branch in gone])
    ranges = [_beyond(branch, reach) for branch in found.sizes]
    told = tx.remove_each(ENTRIES.table, ranges)
    paid = tx.remove_each(LEDGER.table, ranges)
    tx.remove_each("uses", ranges)
    left = tx.remove_each("origins", [(number, number + 1) for number in origins])
    blobs, blob_size = drop_blobs(tx, found.blobs)
    if told or paid:
        # Their places may be taken by others now.
        note_change(tx, b"", b"", "collected")

    return Collected(told, paid, len(gone), left, blobs, size + blob_size)


def _drop_starts(tx: Writing, branches: list[tuple[int, int]]) -> None:
    """
    Let nobody find the first rows of branches that start at those positions.
    """
    places = [branch << SHIFT | start for branch, start in branches]
    first: Ranges = [(place, place + 1) for place in places]
    for kind in (ENTRIES, LEDGER):
        there = tx.scan_each(kind.table, first, columns=("digest",))
        digests = [digest for rows in there for (digest,) in rows]
        tx.remove_each("starts", [_only(digest) for digest in digests])


def _only(key: bytes) -> tuple[bytes, bytes]:
    """
    The range in which there is nothing but *key*.
    """
    return key, key + b"\0"


# Large content


def _unused_blobs(tx: Reading, reach: dict[int, int]) -> list[bytes]:
    """
    The large content that nothing refers to which is needed.
    """
    used = set()
    for place, digests in all_rows(tx, "uses"):
        if place & ((1 << SHIFT) - 1) < reach.get(place >> SHIFT, 0):
            used.update(each_of(digests))

    there = all_rows(tx, "blobs", ("digest",))
    return [digest for (digest,) in there if digest not in used]


def each_of(digests: bytes) -> list[bytes]:
    """
    The digests that a row of ``uses`` has.
    """
    return [digests[i : i + _BLOB_SIZE] for i in range(0, len(digests), _BLOB_SIZE)]


def drop_blobs(tx: Writing, digests: Iterable[bytes]) -> tuple[int, int]:
    """
    Let go of those of *digests* that nobody refers to: how many, and their
    bytes.
    """
    left = {*digests}
    if left:
        for _, used in all_rows(tx, "uses"):
            left.difference_update(each_of(used))

    ranges: Ranges = [_only(digest) for digest in sorted(left)]
    there = tx.scan_each("blobs", ranges, columns=("size",))
    return tx.remove_each("blobs", ranges), sum([rows[0][0] for rows in there if rows])
