"""
Labels: each points to one revision of its name, and every move of one is a row.
"""

from __future__ import annotations

from typing import Any

from conversation_state.store._log import DamagedRow
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import (
    Head,
    LabelMove,
    join_labels,
    label_key,
    now,
    split_labels,
    time_of,
)
from conversation_state.store.schema import (
    SHIFT,
    Label,
    LabelMoveRow,
    Name,
    Revision,
    check_seal,
    key_range,
    sealed,
)

_NUMBER = (1 << SHIFT) - 1


def point_label(transaction: Transaction, label: str, revision: int) -> None:
    """Make *label* point to a revision whose row has it, and no longer to another."""
    tables = transaction.tables
    key = label_key(revision >> SHIFT, label)
    row = tables.get("labels", key)
    before = 0 if row is None else row[1]
    if not isinstance(before, int):
        raise DamagedRow(f"the label {label!r} is not what was written")

    _note_move(transaction, revision >> SHIFT, label, before, revision)
    if row is None:
        tables.add("labels", [Label(key, revision)])
        return

    old = tables.get("revisions", before)
    if old is not None and before != revision:
        drop_label(transaction, check_seal(Revision._make(old)), label)

    tables.set("labels", key, revision=revision)


def add_label(
    transaction: Transaction, name: Name, revision: Revision, label: str
) -> Head:
    """Make *label* point to an existing revision, besides its other labels."""
    labels = split_labels(revision.labels)
    if label not in labels:
        packed = join_labels([*labels, label])
        revision = set_columns(transaction, revision, labels=packed)
        point_label(transaction, label, revision.revision)

    return transaction.make_head(name, revision)


def remove_label(transaction: Transaction, name: Name, label: str) -> Head:
    """Make *label* point to nothing; the revision that it pointed to."""
    revision = transaction.get_revision(name, label)
    key = label_key(name.number, label)
    transaction.tables.remove("labels", key, key + b"\0")
    _note_move(transaction, name.number, label, revision.revision, 0)
    return transaction.make_head(name, drop_label(transaction, revision, label))


def drop_label(transaction: Transaction, revision: Revision, label: str) -> Revision:
    left = [each for each in split_labels(revision.labels) if each != label]
    return set_columns(transaction, revision, labels=join_labels(left))


def set_columns(
    transaction: Transaction, revision: Revision, **values: Any
) -> Revision:
    """Change columns of an existing revision."""
    new = sealed(revision._replace(**values))
    if new != revision:
        transaction.tables.set("revisions", new.revision, **values, seal=new.seal)

    return new


def _note_move(
    transaction: Transaction, number: int, label: str, before: int, after: int
) -> None:
    tables, (low, high) = transaction.tables, key_range(number)
    scan = tables.scan
    last = scan("label_moves", low, high, columns=("move",), limit=1, backwards=True)
    move = LabelMoveRow(
        move=(last[0][0] if last else low) + 1,
        label=label.encode(),
        before=before & _NUMBER,
        after=after & _NUMBER,
        moved_at=now(),
    )
    tables.add("label_moves", [sealed(move)])


def list_moves(
    transaction: Transaction, name: Name, label: str
) -> tuple[LabelMove, ...]:
    """The moves of a label, or of all, the newest first."""
    low, high = key_range(name.number)
    found = []
    for values in transaction.iterate_rows("label_moves", low=low, high=high):
        row = check_seal(LabelMoveRow._make(values))
        moved = row.label.decode()
        if label in {"", moved}:
            before, after = row.before or None, row.after or None
            at = time_of(row.moved_at)
            found.append(LabelMove(name.name, moved, before, after, at))

    return tuple(reversed(found))
