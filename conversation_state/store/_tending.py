"""
Tending: names forked and deleted, rows collected that nobody needs, and
entries erased.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from conversation_state._canonical import load
from conversation_state._identity import new_uuid_number
from conversation_state._persistent import check_text
from conversation_state.codec import bare_message, bare_messages
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store._blobs import Shown, canonical
from conversation_state.store._core import (
    At,
    Core,
    Name,
    checked_at,
    checked_name,
    label_key,
    now,
    retried,
)
from conversation_state.store._erased import tombstone
from conversation_state.store._restoring import blob_of
from conversation_state.store._rows import (
    PAGE,
    SHIFT,
    Origin,
    Revision,
    TableShelf,
    all_rows,
    change_seal,
    damaged,
    digest_at,
    digests_of,
    packed,
    seal,
    state_digest,
    time_of,
    unpacked,
)
from conversation_state.store._saving import check_expecting, is_expected
from conversation_state.store._values import Collected, Head, Receipt
from conversation_state.store._writing import add_origin, relabel
from conversation_state.store.backend import ConflictError, Reading, Writing
from conversation_state.store.log import (
    DIGEST_SIZE,
    ENTRIES,
    LEDGER,
    content_digest,
)

__all__ = ["checkpoint", "collect_garbage", "delete", "erase", "fork"]

_BLOB_SIZE = 32


@retried
def fork(core: Core, text: str, new: str, at: At) -> Head:
    """
    What `Store.fork` does.
    """
    checked_at(checked_name(text), at)
    checked_name(new, "new_name")
    with core.writing() as tx:
        old = core.revision(tx, core.named(tx, text), at)
        there = core.find(tx, new)
        if there is not None:
            newest = core.revision(tx, there, None)
            raise StaleHeadError(core.url, new, 0, core.head(tx, there, newest))

        parent = core.origin(tx, old.origin)
        origin = Origin(
            new_uuid_number().to_bytes(16),
            parent.state,
            parent.root,
            old.length,
            old.ledger_length,
        )
        digests = digests_of(tx, core.url, old)
        name = Name(new, tx.new_number())
        revision = old._replace(
            revision=(name.number << SHIFT) + 1,
            origin=add_origin(tx, origin),
            digest=state_digest(*digests, origin.digest()),
            label="",
            saved_at=now(),
        )
        tx.add("names", [name.row()])
        tx.add("revisions", [revision])

    return revision.head(new, origin.state_id)


@retried
def checkpoint(core: Core, text: str, label: str, at: At) -> Head:
    """
    What `Store.checkpoint` does.
    """
    checked_at(checked_name(text), at)
    if label != "":
        checked_name(label, "label")

    with core.writing() as tx:
        name = core.named(tx, text)
        return relabel(core, tx, name, core.revision(tx, name, at), label)


@retried
def delete(core: Core, text: str, expecting: Head | int | None) -> None:
    """
    What `Store.delete` does.
    """
    checked_name(text)
    if expecting is not None:
        check_expecting(text, expecting)

    with core.writing() as tx:
        name = core.named(tx, text)
        number = name.number
        if expecting is not None:
            head = core.head(tx, name, core.revision(tx, name, None))
            if not is_expected(head, expecting):
                raise StaleHeadError(core.url, text, expecting, head)

        tx.remove("names", text, f"{text}\x01")
        tx.remove("revisions", number << SHIFT, (number + 1) << SHIFT)
        tx.remove("labels", label_key(number, ""), label_key(number + 1, ""))

    core.forget(text)


# Garbage


@retried
def collect_garbage(core: Core, *, vacuum: bool) -> Collected:
    """
    What `Store.collect_garbage` does.
    """
    # Found in a block that nobody waits for.
    with core.reading() as tx:
        found = _garbage(core, tx)

    collected = Collected(0, 0, 0, 0, 0, 0)
    if found.branches or found.origins or found.blobs:
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
        newest: The newest revision of each name's number.

        reach: How far each branch is needed.

        branches: Those of which not everything is.

        origins: Those that nobody has.

        blobs: Those that nothing refers to which is needed.
    """

    newest: dict[int, int]
    reach: dict[int, int]
    branches: list[int]
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

    # What a record holds that is written from here on is saved at that moment.
    for _, branch, length in all_rows(tx, "records", ("key", "branch", "length")):
        ends[branch] = max(ends.get(branch, 0), length)

    reach: dict[int, int] = {}
    for branch, length in ends.items():
        _need(core, tx, reach, branch, length)

    return _Garbage(
        newest,
        reach,
        [n for (n,) in all_rows(tx, "branches", ("branch",)) if _is_over(tx, n, reach)],
        [n for (n,) in all_rows(tx, "origins", ("origin",)) if n not in origins],
        unused_blobs(tx, reach),
    )


def _is_over(tx: Reading, branch: int, reach: dict[int, int]) -> bool:
    needed = reach.get(branch, 0)
    return any(TableShelf(tx, kind).tip(branch) > needed for kind in (ENTRIES, LEDGER))


def _need(
    core: Core, tx: Reading, reach: dict[int, int], branch: int, length: int
) -> None:
    """
    Note that a branch is needed up to a length, and what it starts from.
    """
    while branch and reach.get(branch, 0) < length:
        reach[branch] = length
        row = tx.get("branches", branch)
        if row is None:
            # Else what it starts from would be taken for garbage.
            raise damaged(core.url, f"nothing was collected: branch {branch} is gone")

        _, branch, length = row


def _let_go(core: Core, tx: Writing, found: _Garbage) -> Collected:
    reach, origins = found.reach, {*found.origins}
    for _, number in all_rows(tx, "names", ("name", "number")):
        # Somebody may have saved since: what they need is no garbage.
        newest = found.newest.get(number)
        low = number << SHIFT if newest is None else newest + 1
        for row in tx.scan("revisions", low, (number + 1) << SHIFT):
            revision = Revision._make(row)
            origins.discard(revision.origin)
            _need(core, tx, reach, revision.branch, revision.length)
            _need(core, tx, reach, revision.ledger_branch, revision.ledger_length)

    counts = {kind.table: 0 for kind in (ENTRIES, LEDGER)}
    size = branches = 0
    for branch in found.branches:
        there = tx.get("branches", branch)
        needed = reach.get(branch, 0)
        if there is not None and not needed:
            _drop_branch(tx, branch, there[2])
            branches += 1

        low, high = (branch << SHIFT) + needed, (branch + 1) << SHIFT
        for table in counts:
            size += _weight(tx, table, low, high)
            counts[table] += tx.remove(table, low, high)

        tx.remove("uses", low, high)

    gone = sum([tx.remove("origins", number, number + 1) for number in origins])
    blobs, blob_size = drop_blobs(tx, found.blobs)
    if any(counts.values()):
        # Their places may be taken by others now.
        _note_change(tx, b"", b"", "collected")

    told, paid = counts.values()
    return Collected(told, paid, branches, gone, blobs, size + blob_size)


def _drop_branch(tx: Writing, branch: int, start: int) -> None:
    for kind in (ENTRIES, LEDGER):
        digest = digest_at(tx, kind, branch, start + 1)
        if digest is not None:
            tx.remove("starts", digest, digest + b"\0")

    tx.remove("branches", branch, branch + 1)


def _weight(tx: Reading, table: str, low: int, high: int) -> int:
    size = 0
    while rows := tx.scan(table, low, high, columns=("place", "body"), limit=PAGE):
        size += sum([len(body) for _, body in rows])
        low = rows[-1][0] + 1

    return size


def unused_blobs(tx: Reading, reach: dict[int, int]) -> list[bytes]:
    """
    The large content that nothing refers to which is needed.
    """
    used = set()
    for place, digests in all_rows(tx, "uses"):
        if place & ((1 << SHIFT) - 1) < reach.get(place >> SHIFT, 0):
            used.update(_each_of(digests))

    there = all_rows(tx, "blobs", ("digest",))
    return [digest for (digest,) in there if digest not in used]


def _each_of(digests: bytes) -> list[bytes]:
    return [digests[i : i + _BLOB_SIZE] for i in range(0, len(digests), _BLOB_SIZE)]


def drop_blobs(tx: Writing, digests: Iterable[bytes]) -> tuple[int, int]:
    """
    Let go of those of *digests* that nobody refers to: how many, and their
    bytes.
    """
    left = {*digests}
    if left:
        for _, used in all_rows(tx, "uses"):
            left.difference_update(_each_of(used))

    count = size = 0
    for digest in sorted(left):
        row = tx.get("blobs", digest, ("size",))
        if row is not None:
            tx.remove("blobs", digest, digest + b"\0")
            count, size = count + 1, size + row[0]

    return count, size


# Erasure


@retried
def erase(core: Core, entry_id: str, reason: str) -> Receipt:
    """
    What `Store.erase` does.
    """
    checked_name(reason, "reason")
    id = check_text(entry_id, "entry_id").encode()
    with core.writing() as tx:
        places = tx.find(ENTRIES.table, "id", packed(id))
        before = tx.find("changes", "entry", id)
        if not places and not before:
            raise NotSavedError(core.url, "entry", entry_id)

        shown: set[bytes] = set()
        contents = [_erase_at(core, tx, place, reason, shown) for place in places]
        new = [content for content in contents if content is not None]
        if not before:
            before = [_note_change(tx, id, new[0], reason)]

        row = tx.get("changes", before[0])
        blobs, _ = drop_blobs(tx, shown)

    core.forget()
    core.backend.scrub()
    if row is None:
        raise StoreError(core.url, "the erasure just written is not there")

    _, _, content, why, at = row
    digest = content[:DIGEST_SIZE].hex()
    return Receipt(entry_id, why, digest, time_of(at), len(new), blobs)


def _note_change(tx: Writing, entry: bytes, content: bytes, reason: str) -> int:
    """
    Let everybody know that rows which were there changed.
    """
    last = tx.scan("changes", None, None, columns=("number",), limit=1, backwards=True)
    number = last[0][0] + 1 if last else 1
    at = now()
    content += change_seal(number, entry, content, reason, at)
    tx.add("changes", [(number, entry, content, reason, at)])
    return number


def _erase_at(
    core: Core, tx: Writing, place: Any, reason: str, shown: set[bytes]
) -> bytes | None:
    """
    The digest of what was erased at a place; None if it had been before. What
    large content it referred to comes into *shown*.
    """
    row = tx.get(ENTRIES.table, place)
    if row is None:
        raise ConflictError(place)

    _, id, body, erased, _ = row
    id = unpacked(id)
    if erased is not None:
        return None

    whole = canonical(body, Shown(partial(blob_of, tx, core.url)))
    (message,) = bare_messages([load(whole)])
    content = content_digest(id, whole)
    stone = bare_message(tombstone(message, content, reason))
    tx.set(ENTRIES.table, place, body=stone, content=content + seal(id, stone))
    uses = tx.get("uses", place)
    if uses is not None:
        shown.update(_each_of(uses[1]))
        tx.remove("uses", place, place + 1)

    return content
