"""
What a store does with the revisions that a name has: going back to one, forking and
annotating it, and deleting all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import JsonMap
from conversation_state.errors import StaleHeadError
from conversation_state.store._labels import add_label, set_columns
from conversation_state.store._load import load_at, load_newest, read_ends
from conversation_state.store._references import note_deletion
from conversation_state.store._save import add_origin, save_within
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import (
    At,
    Head,
    RevisionFields,
    check_notes,
    is_expected,
    label_key,
    pack_notes,
    unpack_notes,
)
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Origin,
    Revision,
    key_range,
    sealed,
)


def label_revision(
    transaction: Transaction,
    text: str,
    label: str,
    at: At,
    expecting: Head | int | None = None,
) -> Head:
    transaction.check_head(text, expecting)
    name = transaction.get_name(text)
    return add_label(transaction, name, transaction.get_revision(name, at), label)


def find_annotated(transaction: Transaction, text: str, at: At) -> Name | Revision:
    name = transaction.get_name(text)
    return name if at is None else transaction.get_revision(name, at)


def annotate(
    transaction: Transaction,
    text: str,
    changes: Mapping[str, Any],
    at: At,
    expecting: Head | int | None,
) -> JsonMap:
    transaction.check_head(text, expecting)
    row = find_annotated(transaction, text, at)
    before = unpack_notes(row.notes)
    left = {key: value for key, value in before.items() if key not in changes}
    merged = check_notes({**left, **changes})
    packed = pack_notes(merged)
    # As bytes, since 1, 1.0 and True are equal.
    if packed == row.notes:
        return merged

    if isinstance(row, Revision):
        set_columns(transaction, row, notes=packed)
    else:
        new = sealed(row._replace(notes=packed))
        transaction.tables.set("names", text, notes=packed, seal=new.seal)

    return merged


def go_back(
    transaction: Transaction, text: str, to: At, expecting: Head | int | None
) -> Head:
    newest = load_newest(transaction, text)
    if not is_expected(newest.head, expecting):
        raise StaleHeadError(transaction.url, text, expecting, newest.head)

    earlier = load_at(transaction, text, to, [newest])
    # Not `Aggregator.rollback` to that state: a name may have had another
    # conversation meanwhile, whose cost stays in the ledger, too.
    state = earlier.state.join(newest.state.rollback(0))
    fields = RevisionFields(parent=earlier.head.revision)
    return save_within(transaction, text, state, newest.head, fields)


def fork_name(
    transaction: Transaction,
    text: str,
    new: str,
    at: At,
    expecting: Head | int | None = None,
) -> Head:
    transaction.check_head(text, expecting)
    tables = transaction.tables
    old = transaction.get_revision(transaction.get_name(text), at)
    existing = transaction.find_name(new)
    if existing is not None:
        newest = transaction.get_revision(existing, None)
        head = transaction.make_head(existing, newest)
        advice = "Give the fork another name"
        advice += "" if new == text else ", or delete that one first"
        raise StaleHeadError(transaction.url, new, 0, head, advice)

    parent = transaction.get_origin(old.origin)
    origin = Origin(
        state=new_uuid_number().to_bytes(16),
        parent=parent.state,
        root=parent.root,
        init_len=old.length,
        init_ledger_len=old.ledger_length,
    )
    name = sealed(Name(new, tables.new_number()))
    revision = Revision.of(
        key=(name.number << SHIFT) + 1,
        parent=0,
        ends=read_ends(transaction, old, parent),
        origin=add_origin(transaction, origin),
        origin_digest=origin.digest(),
        tokens=old.tokens,
    )
    tables.add("names", [name])
    tables.add("revisions", [revision])
    return revision.head(new, origin.state_id)


def delete_name(
    transaction: Transaction, text: str, expecting: Head | int | None = None
) -> None:
    advice = "Look at the head, and pass it as expecting= to delete it"
    transaction.check_head(text, expecting, advice)
    tables = transaction.tables
    number = transaction.get_name(text).number
    # Rows of logs and origins stay: other names may need them, and `collect_garbage`
    # finds those that none does.
    tables.remove("names", text, f"{text}\x01")
    tables.remove("labels", label_key(number, ""), label_key(number + 1, ""))
    tables.remove("timelines", number, number + 1)
    for table in ("revisions", "label_moves", "moments"):
        tables.remove(table, *key_range(number))

    note_deletion(transaction, number)

    transaction.learned[text] = None
