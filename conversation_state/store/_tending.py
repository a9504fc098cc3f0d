"""
Tending: names forked and deleted, rows collected that nobody needs, and
entries erased.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from conversation_state._canonical import load
from conversation_state._identity import new_uuid_number
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
)
from conversation_state.store._erased import tombstone
from conversation_state.store._restoring import blob_of
from conversation_state.store._rows import (
    PAGE,
    SHIFT,
    Origin,
    Revision,
    all_rows,
    change_seal,
    digest_at,
    digests_of,
    packed,
    seal,
    state_digest,
    time_of,
    unpacked,
)
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


def checkpoint(core: Core, text: str, label: str, at: At) -> Head:
    """
    What `Store.checkpoint` does.
    """
    checked_at(checked_name(text), at)
    if label:
        checked_name(label, "label")

    with core.writing() as tx:
        name = core.named(tx, text)
        return relabel(core, tx, name, core.revision(tx, name, at), label)


def delete(core: Core, text: str) -> None:
    """
    What `Store.delete` does.
    """
    checked_name(text)
    with core.writing() as tx:
        number = core.named(tx, text).number
        tx.remove("names", text, f"{text}\x01")
        tx.remove("revisions", number << SHIFT, (number + 1) << SHIFT)
        tx.remove("labels", label_key(number, ""), label_key(number + 1, ""))

    core.forget(text)


# Garbage


def collect_garbage(core: Core) -> Collected:
    """
    What `Store.collect_garbage` does.
    """
    with core.writing() as tx:
        reach, origins = _reach(tx)
        counts = {ENTRIES.table: 0, LEDGER.table: 0}
        size = branches = 0
        for branch, _, start in list(all_rows(tx, "branches")):
            low, high = branch << SHIFT, (branch + 1) << SHIFT
            needed = reach.get(branch, 0)
            if not needed:
                _drop_branch(tx, branch, start)
                branches += 1

            for table in counts:
                size += _weight(tx, table, low + needed, high)
                counts[table] += tx.remove(table, low + needed, high)

            tx.remove("uses", low + needed, high)

        gone = [
            number
            for (number,) in all_rows(tx, "origins", ("origin",))
            if number not in origins
        ]
        for number in gone:
            tx.remove("origins", number, number + 1)

        blobs, blob_size = drop_blobs(tx)
        if any(counts.values()):
            # Their places may be taken by others now.
            _note_change(tx, b"", b"", "collected")

    core.forget()
    core.backend.scrub()
    told, paid = counts[ENTRIES.table], counts[LEDGER.table]
    return Collected(told, paid, branches, len(gone), blobs, size + blob_size)


def _reach(tx: Reading) -> tuple[dict[int, int], set[int]]:
    """
    How far each branch is needed, and which origins are.
    """
    reach: dict[int, int] = {}
    origins = set()
    for row in all_rows(tx, "revisions"):
        revision = Revision._make(row)
        origins.add(revision.origin)
        for branch, length in (
            (revision.branch, revision.length),
            (revision.ledger_branch, revision.ledger_length),
        ):
            reach[branch] = max(reach.get(branch, 0), length)

    # A branch is younger than the one it starts from.
    for branch, parent, start in sorted(all_rows(tx, "branches"), reverse=True):
        if branch in reach:
            reach[parent] = max(reach.get(parent, 0), start)

    return reach, origins


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


def drop_blobs(tx: Writing) -> tuple[int, int]:
    """
    Let go of large content that nobody refers to: how many, and their bytes.
    """
    used = set()
    for _, digests in all_rows(tx, "uses"):
        used.update(
            [digests[i : i + _BLOB_SIZE] for i in range(0, len(digests), _BLOB_SIZE)]
        )

    count = size = 0
    for digest, weight in tx.scan("blobs", None, None, columns=("digest", "size")):
        if digest not in used:
            tx.remove("blobs", digest, digest + b"\0")
            count, size = count + 1, size + weight

    return count, size


# Erasure


def erase(core: Core, entry_id: str, reason: str) -> Receipt:
    """
    What `Store.erase` does.
    """
    checked_name(reason, "reason")
    id = entry_id.encode()
    with core.writing() as tx:
        places = tx.find(ENTRIES.table, "id", packed(id))
        before = tx.find("changes", "entry", id)
        if not places and not before:
            raise NotSavedError(core.url, "entry", entry_id)

        contents = [_erase_at(core, tx, place, reason) for place in places]
        new = [content for content in contents if content is not None]
        if not before:
            before = [_note_change(tx, id, new[0], reason)]

        row = tx.get("changes", before[0])
        blobs, _ = drop_blobs(tx)

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


def _erase_at(core: Core, tx: Writing, place: Any, reason: str) -> bytes | None:
    """
    The digest of what was erased at a place; None if it had been before.
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
    tx.remove("uses", place, place + 1)
    return content
