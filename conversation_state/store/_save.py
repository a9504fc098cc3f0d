"""
Saving: what is new is written, and nothing that others saved is lost.

The fast path (`_append`) is for a state that grew from the head as it was seen last.
Otherwise the tables are read first, in the transaction that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError
from conversation_state.messages import find_erasure
from conversation_state.store._append import make_append, write_append
from conversation_state.store._memory import RememberedHead
from conversation_state.store._packing import now
from conversation_state.store._read_rows import (
    PAGE,
    TableLogRows,
    damage_error,
    find_digest,
    read_segments,
)
from conversation_state.store._transaction import Core, Transaction
from conversation_state.store._values import (
    NO_EXTRAS,
    Extras,
    Head,
    check_name,
    check_notes,
    check_state,
    is_expected,
)
from conversation_state.store._write_rows import (
    add_label,
    add_origin,
    add_rows,
    point_label,
    set_columns,
)
from conversation_state.store.backend import ConflictError, Reading
from conversation_state.store.log import (
    ENTRIES,
    LEDGER,
    Kind,
    LogDigests,
    MissingRows,
    Segments,
    begins_with,
    cut_segments,
    extend_segments,
    take_newest,
)
from conversation_state.store.schema import (
    SHIFT,
    Branch,
    Name,
    Origin,
    Revision,
    Start,
    is_sealed,
    make_sealed,
    state_digest,
)

__all__ = ["has_erased_content", "save", "save_all", "save_within"]


def save(
    core: Core,
    name: str,
    state: Aggregator,
    expecting: Head | int | None,
    extras: Extras = NO_EXTRAS,
) -> Head:
    """
    What `Store.save` does.
    """
    check_state(name, state, expecting)
    if extras.label != "":
        check_name(extras.label, "label")

    # The number is read once, before anything is recalled, so that an erasure that
    # comes later makes the fast path a conflict.
    changes = core.changes
    old = core.recall(name, changes)
    if old is not None and is_expected(old.head, expecting):
        new = make_append(core, old, state, extras)
        if new is not None:
            try:
                # The bare block: a transaction would take another two microseconds.
                with core.backend.writing() as tx:
                    write_append(core.url, tx, old, new, changes)
            except ConflictError:
                pass
            else:
                core.remember(new.head, changes)
                return new.head.head

        if expecting is not None:
            # Another save was probably first: look without blocking writers.
            _check_head(core, name, expecting)

    # Outside of the transaction, so that no other writer waits for it.
    if _find_nearest(core.recall_all(changes), state) is None:
        ENTRIES.digest(state.entries)
        LEDGER.digest(state.ledger)

    def save_and_check(transaction: Transaction) -> Head:
        with transaction.report_damage():
            head = _save_checked(transaction, name, state, expecting, extras)

        if extras.notes:
            # Together with the notes that were there they may exceed the limit, which
            # is an error of the caller and not damage.
            check_notes(head.notes)

        return head

    return core.write(save_and_check, name=name, reports_damage=False)


def save_all(
    core: Core, states: Mapping[str, Aggregator], expecting: Mapping[str, Head | int]
) -> dict[str, Head]:
    """
    What `Store.save_all` does.
    """
    for name in expecting:
        if name not in states:
            msg = (
                f"expecting has {shorten_repr(name)}, but states has no state of that "
                "name"
            )
            raise ValueError(msg)

    for name, state in states.items():
        check_state(name, state, expecting.get(name))

    def save_each(transaction: Transaction) -> dict[str, Head]:
        # All such saves take the names in the same order, so that one of two waits for
        # the other instead of a deadlock.
        return {
            name: save_within(transaction, name, states[name], expecting.get(name))
            for name in sorted(states)
        }

    heads = core.write(save_each, reports_damage=False) if states else {}
    return {name: heads[name] for name in states}


def save_within(
    transaction: Transaction,
    name: str,
    state: Aggregator,
    expecting: Head | int | None,
    extras: Extras = NO_EXTRAS,
) -> Head:
    """
    Save a state together with whatever else the transaction does.
    """
    with transaction.report_damage():
        # Not caught up before: `write_append` is a conflict where rows changed
        # meanwhile.
        old = transaction.recall(name)
        if old is not None and is_expected(old.head, expecting):
            new = make_append(transaction.core, old, state, extras)
            if new is not None:
                tables, changes = transaction.tables, transaction.changes
                write_append(transaction.url, tables, old, new, changes)
                transaction.remember(new.head)
                return new.head.head

        return _save_checked(transaction, name, state, expecting, extras)


def _check_head(core: Core, text: str, expecting: Head | int) -> None:
    with core.read() as transaction:
        _, _, head = _find_head(transaction, text)
        if not is_expected(head, expecting):
            raise StaleHeadError(core.url, text, expecting, head)


def _find_head(
    transaction: Transaction, text: str
) -> tuple[Name | None, Revision | None, Head | None]:
    name = transaction.find_name(text)
    newest = None if name is None else transaction.find_newest(name.number)
    if name is None or newest is None:
        return name, newest, None

    return name, newest, transaction.make_head(name, newest)


def _find_nearest(
    remembered: Iterable[RememberedHead], state: Aggregator
) -> RememberedHead | None:
    """
    The remembered head that has most in common with *state*.
    """
    root = state._origin.root
    related = [head for head in remembered if head.state._origin.root == root]
    log = state.entries
    return max(
        related, key=lambda head: log.common_prefix(head.state.entries), default=None
    )


def _save_checked(
    transaction: Transaction,
    text: str,
    state: Aggregator,
    expecting: Head | int | None,
    extras: Extras,
) -> Head:
    transaction.catch_up()
    core, tx = transaction.core, transaction.tables
    if core.is_erasure_lost:
        what = "nothing was saved: the note of an erasure is damaged or missing"
        raise damage_error(core.url, what)

    name, old, head = _find_head(transaction, text)
    if not is_expected(head, expecting):
        raise StaleHeadError(core.url, text, expecting, head)

    nearest = _find_nearest(transaction.recall_all(), state)
    entry_digests, entries_from = _find_common_start(tx, ENTRIES, state, nearest)
    ledger_digests, ledger_from = _find_common_start(tx, LEDGER, state, nearest)
    origin = Origin.of(state)
    digests = (
        entry_digests.at(len(state.entries)),
        ledger_digests.at(len(state.ledger)),
    )
    digest = state_digest(*digests, origin.digest())
    if name is not None and old is not None and head is not None:
        if digest == old.digest:
            return _add_extras(transaction, name, old, head, extras)

        if expecting is None and not _holds_all(tx, old, entry_digests, ledger_digests):
            is_related = transaction.get_origin(old.origin).root == origin.root
            raise _make_stale_error(core.url, text, head, is_related=is_related)

        # The head's own branches, which `_find_parent` compares: after a collection the
        # same rows may stand in two. It also takes fewer reads than to find each branch
        # by its first row.
        if not entries_from:
            entries_from = _find_head_entries(tx, core.url, old, entry_digests)

    if name is None:
        name = make_sealed(Name, text, tx.new_number(), b"")
        tx.add("names", [name])

    missing = MissingRows.of(entry_digests, TableLogRows(tx, ENTRIES), entries_from)
    entries = _write_missing(transaction, ENTRIES, state.entries, missing)
    missing = MissingRows.of(ledger_digests, TableLogRows(tx, LEDGER), ledger_from)
    ledger = _write_missing(transaction, LEDGER, state.ledger, missing)
    number = add_origin(tx, origin)
    revision = make_sealed(
        Revision,
        (old.revision if old else name.number << SHIFT) + 1,
        _find_parent(tx, old, entries, number) if extras.parent < 0 else extras.parent,
        entries[-1].branch if entries else 0,
        len(state.entries),
        ledger[-1].branch if ledger else 0,
        len(state.ledger),
        number,
        now(),
        digest,
        *extras.columns(),
    )
    tx.add("revisions", [revision])
    if extras.label:
        point_label(tx, core.url, extras.label, revision.revision)

    head = revision.head(text, origin.state_id)
    if has_erased_content(core, state):
        # The state still has content that was erased, but what was saved does not, so
        # the state is not remembered.
        transaction.forget(text)
    else:
        transaction.remember(
            RememberedHead(
                *(name, revision, head, state, entries, ledger, digests),
                origin.digest(),
            )
        )

    return head


def _add_extras(
    transaction: Transaction, name: Name, old: Revision, head: Head, extras: Extras
) -> Head:
    """
    The head that was saved already, with what it is given besides.
    """
    changed = extras.changes(old.notes)
    if changed:
        old = set_columns(transaction.tables, old, **changed)
        head = transaction.make_head(name, old)

    if extras.label:
        return add_label(transaction, name, old, extras.label)

    return head


def _find_parent(
    tx: Reading, old: Revision | None, entries: Segments, origin: int
) -> int:
    """
    The number of the revision that a state grew from, whose entries stand there: the
    head if it begins with that, else the newest one with most in common; 0 if no
    revision has any.
    """
    if old is None:
        return 0

    if begins_with(entries, old.branch, old.length):
        return old.number

    low = old.revision >> SHIFT << SHIFT
    # The scan is limited, so that a save does not cost more with each one before it.
    rows = tx.scan("revisions", low, old.revision, limit=PAGE, backwards=True)
    best, most = 0, -1
    for row in map(Revision._make, rows):
        if (
            row.length > most
            # All logs share the empty beginning, so the origin decides whether it is
            # the same conversation.
            and (row.length or row.origin == origin)
            and begins_with(entries, row.branch, row.length)
            and is_sealed(row)
        ):
            best, most = row.number, row.length

    return best


def _make_stale_error(
    url: str, text: str, head: Head, *, is_related: bool
) -> StaleHeadError:
    """
    The error where a state does not hold all that the head does.
    """
    if is_related:
        return StaleHeadError(url, text, None, head)

    advice = (
        "That is another conversation, with another root: save yours under another "
        "name; or pass the head as expecting= to replace it"
    )
    return StaleHeadError(url, text, None, head, advice)


def has_erased_content(core: Core, state: Aggregator, start: int = 0) -> bool:
    """
    Whether a state, from the message at *start* on, still has content that was erased.
    """
    if not core.erased:
        return False

    return any(
        id.encode() in core.erased and find_erasure(message) is None
        for id, message in state.entries.iterate(start)
    )


def _find_common_start(
    tx: Reading, kind: Kind, state: Aggregator, nearest: RememberedHead | None
) -> tuple[LogDigests, Segments]:
    """
    The digests of a log, and where a beginning of it stands that it shares
    with what is remembered.
    """
    log: Log[Any] = state.entries if kind is ENTRIES else state.ledger
    if nearest is not None:
        other: Log[Any] = nearest.state.entries
        segments = nearest.entries
        if kind is LEDGER:
            other, segments = nearest.state.ledger, nearest.ledger

        common = log.common_prefix(other)
        segments = cut_segments(segments, common)
        if segments:
            # Rows never change their place, so what is there is what was.
            digest = find_digest(tx, kind, segments[-1].branch, common)
            if digest is not None:
                return LogDigests(kind, log, (common, digest)), segments

    return LogDigests(kind, log), ()


def _holds_all(
    tx: Reading, old: Revision, entry_digests: LogDigests, ledger_digests: LogDigests
) -> bool:
    """
    Whether both logs begin with all that the head has.
    """
    for past, branch, length in (
        (entry_digests, old.branch, old.length),
        (ledger_digests, old.ledger_branch, old.ledger_length),
    ):
        if len(past.log) < length:
            return False

        if find_digest(tx, past.kind, branch, length) != past.at(length):
            return False

    return True


def _find_head_entries(
    tx: Reading, url: str, old: Revision, entry_digests: LogDigests
) -> Segments:
    """
    Where the head's entries stand, if the log begins with them.
    """
    branch, length = old.branch, old.length
    if 0 < length <= len(entry_digests.log):
        digest = find_digest(tx, ENTRIES, branch, length)
        if digest == entry_digests.at(length):
            return read_segments(tx, url, branch, length)

    return ()


def _write_missing(
    transaction: Transaction, kind: Kind, log: Log[Any], missing: MissingRows
) -> Segments:
    """
    Write what is missing; where the log stands then.
    """
    tx = transaction.tables
    segments, rows, extends_branch = missing
    if not rows:
        return segments

    start = segments[-1].stop if segments else 0
    branch = segments[-1].branch if segments else 0
    if not extends_branch:
        parent, branch = branch, tx.new_number()
        tx.add("branches", [Branch(branch, parent, start)])
        tx.add("starts", [Start(rows[0].digest, branch)])

    new = take_newest(log, len(rows))
    add_rows(
        tx, kind, branch << SHIFT | start, new, rows, erased=transaction.core.erased
    )
    return extend_segments(segments, branch, len(log))
