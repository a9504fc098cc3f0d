"""
The revisions of names: forked, labelled, annotated, gone back to and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import JsonMap
from conversation_state.errors import StaleHeadError
from conversation_state.store._append import Extras
from conversation_state.store._load import load_at, load_newest
from conversation_state.store._read_rows import read_digests
from conversation_state.store._save import save
from conversation_state.store._transaction import (
    Core,
    Transaction,
)
from conversation_state.store._values import At, Head, check_notes, is_expected
from conversation_state.store._write_rows import (
    add_label,
    add_origin,
    remove_label,
    set_notes,
)
from conversation_state.store.backend import ConflictError
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Origin,
    Revision,
    label_key,
    make_sealed,
    now,
    pack_notes,
    state_digest,
    unpack_notes,
)

__all__ = [
    "annotate",
    "delete",
    "fork",
    "label",
    "read_notes",
    "rollback",
    "unlabel",
]


def fork(transaction: Transaction, text: str, new: str, at: At) -> Head:
    """
    What `Store.fork` does.
    """
    tx = transaction.tables
    old = transaction.get_revision(transaction.get_name(text), at)
    existing = transaction.find_name(new)
    if existing is not None:
        newest = transaction.get_revision(existing, None)
        head = transaction.make_head(existing, newest)
        advice = "Give the fork another name, or delete that one first"
        raise StaleHeadError(transaction.url, new, 0, head, advice)

    parent = transaction.get_origin(old.origin)
    origin = Origin(
        new_uuid_number().to_bytes(16),
        parent.state,
        parent.root,
        old.length,
        old.ledger_length,
    )
    digests = read_digests(tx, transaction.url, old, parent)
    name = make_sealed(Name, new, tx.new_number(), b"")
    revision = old.resealed(
        revision=(name.number << SHIFT) + 1,
        parent=0,
        origin=add_origin(tx, origin),
        digest=state_digest(*digests, origin.digest()),
        labels=b"",
        notes=b"",
        saved_at=now(),
    )
    tx.add("names", [name])
    tx.add("revisions", [revision])
    return revision.head(new, origin.state_id)


def rollback(
    core: Core, text: str, to: int | str | Head, expecting: Head | int | None
) -> Head:
    """
    What `Store.rollback` does.
    """

    def go_back() -> Head:
        with core.read() as transaction:
            newest = load_newest(transaction, text)

        if not is_expected(newest.head, expecting):
            raise StaleHeadError(core.url, text, expecting, newest.head)

        with core.read() as transaction:
            earlier = load_at(transaction, text, to)

        # Not `Aggregator.rollback` to that state: a name may have had another
        # conversation meanwhile, whose cost stays in the ledger, too.
        ledger = newest.state.rollback(0)
        try:
            extras = Extras(parent=earlier.head.revision)
            return save(core, text, earlier.state.join(ledger), newest.head, extras)
        except StaleHeadError as error:
            if expecting is not None:
                raise

            raise ConflictError from error

    return core.retry(go_back, name=text)


def label(transaction: Transaction, text: str, label_text: str, at: At) -> Head:
    """
    What `Store.label` does.
    """
    name = transaction.get_name(text)
    revision = transaction.get_revision(name, at)
    return add_label(transaction, name, revision, label_text)


def unlabel(transaction: Transaction, text: str, label_text: str) -> Head:
    """
    What `Store.unlabel` does.
    """
    name = transaction.get_name(text)
    revision = transaction.get_revision(name, label_text)
    return remove_label(transaction, name, revision, label_text)


def annotate(
    transaction: Transaction, text: str, changes: Mapping[str, Any], at: At
) -> JsonMap:
    """
    What `Store.annotate` does.
    """
    with transaction.report_damage():
        name, row, before = _find_notes(transaction, text, at)

    left = {key: value for key, value in before.items() if key not in changes}
    notes = check_notes({**left, **changes})
    packed = pack_notes(notes)
    if notes == before and packed == pack_notes(before):
        return notes

    if isinstance(row, Revision):
        set_notes(transaction.tables, row, packed)
    else:
        new = make_sealed(Name, name.name, name.number, packed)
        transaction.tables.set("names", name.name, notes=new.notes, seal=new.seal)

    return notes


def read_notes(transaction: Transaction, text: str, at: At) -> JsonMap:
    """
    What `Store.notes` does.
    """
    return _find_notes(transaction, text, at)[-1]


def _find_notes(
    transaction: Transaction, text: str, at: At
) -> tuple[Name, Name | Revision, JsonMap]:
    """
    A name, the row with the notes on it or on one of its revisions, and the notes.
    """
    name = transaction.get_name(text)
    row = name if at is None else transaction.get_revision(name, at)
    return name, row, unpack_notes(row.notes)


def delete(transaction: Transaction, text: str, expecting: Head | int | None) -> None:
    """
    What `Store.delete` does.
    """
    tx = transaction.tables
    name = transaction.get_name(text)
    number = name.number
    if expecting is not None:
        newest = transaction.get_revision(name, None)
        head = transaction.make_head(name, newest)
        if not is_expected(head, expecting):
            advice = "Look at the head, and pass it as expecting= to delete it"
            raise StaleHeadError(transaction.url, text, expecting, head, advice)

    tx.remove("names", text, f"{text}\x01")
    tx.remove("revisions", number << SHIFT, (number + 1) << SHIFT)
    tx.remove("labels", label_key(number, ""), label_key(number + 1, ""))
    tx.remove("timelines", number, number + 1)
    tx.remove("moments", number << SHIFT, (number + 1) << SHIFT)
    transaction.forget(text)
