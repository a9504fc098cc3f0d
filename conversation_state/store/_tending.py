"""
Tending: names forked, labelled and deleted, and entries erased.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from conversation_state._canonical import load
from conversation_state._identity import new_uuid_number
from conversation_state._persistent import check_text
from conversation_state.codec import bare_message, bare_messages
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store._blobs import Shown, canonical
from conversation_state.store._collecting import drop_blobs, each_of
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
    SHIFT,
    Origin,
    digests_of,
    packed,
    seal,
    state_digest,
    time_of,
    unpacked,
)
from conversation_state.store._saving import check_expecting, is_expected
from conversation_state.store._values import Head, Receipt
from conversation_state.store._writing import add_origin, note_change, relabel
from conversation_state.store.backend import ConflictError, Writing
from conversation_state.store.log import (
    DIGEST_SIZE,
    ENTRIES,
    content_digest,
)

__all__ = ["checkpoint", "delete", "erase", "fork"]


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
            before = [note_change(tx, id, new[0], reason)]

        row = tx.get("changes", before[0])
        blobs, _ = drop_blobs(tx, shown)

    core.forget()
    core.backend.scrub()
    if row is None:
        raise StoreError(core.url, "the erasure just written is not there")

    _, _, content, why, at = row
    digest = content[:DIGEST_SIZE].hex()
    return Receipt(entry_id, why, digest, time_of(at), len(new), blobs)


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
        shown.update(each_of(uses[1]))
        tx.remove("uses", place, place + 1)

    return content
