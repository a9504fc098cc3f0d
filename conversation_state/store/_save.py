"""
Saving: what is new is written, and nothing that others saved is lost.

The fast path is for a state that grew from the head as it was seen last: its new rows
and a revision are added, on condition that the head is still that one, and nothing is
read. Otherwise the tables are read first, in the transaction that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError
from conversation_state.store._load import read_segments
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    Kind,
    LogRow,
    Segments,
    begins_with,
    cut_segments,
    extend_segments,
    take_newest,
)
from conversation_state.store._transaction import (
    PAGE,
    Core,
    RememberedHead,
    Transaction,
)
from conversation_state.store._values import (
    NO_EXTRAS,
    Extras,
    Head,
    check_name,
    check_notes,
    check_state,
    is_expected,
    now,
)
from conversation_state.store._write_rows import (
    LogDigests,
    add_label,
    add_origin,
    add_rows,
    has_erased_content,
    point_label,
    set_columns,
    write_log,
)
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Origin,
    Revision,
    is_sealed,
    make_sealed,
    state_digest,
)

_OTHER_ROOT = (
    "That is another conversation, with another root, as two programs begin that "
    "both found nothing under the name. To keep both, join yours into it: "
    "store.update(name, lambda saved: saved.join(state)); to begin a name, "
    "store.update(name, function, start=Aggregator.new()) never meets this. Or save "
    "yours under another name; or pass the head as expecting= to replace it"
)


def save(
    core: Core,
    name: str,
    state: Aggregator,
    expecting: Head | int | None,
    extras: Extras = NO_EXTRAS,
) -> Head:
    check_state(name, state, expecting)
    if extras.label != "":
        check_name(extras.label, "label")

    old = core.recall(name, core.changes)
    is_near = old is not None and old.state._origin.root == state._origin.root
    if not is_near and _find_nearest(core.recall_all(core.changes), state) is None:
        # Outside of the transaction, so that no other writer waits for it.
        ENTRIES.digest(state.entries)
        LEDGER.digest(state.ledger)

    return core.write(save_within, name, state, expecting, extras)


def save_all(
    core: Core, states: Mapping[str, Aggregator], expecting: Mapping[str, Head | int]
) -> dict[str, Head]:
    for name in expecting:
        if name not in states:
            raise ValueError(
                f"expecting has {shorten_repr(name)}, but states has no state of that "
                "name"
            )

    for name, state in states.items():
        check_state(name, state, expecting.get(name))

    def save_each(transaction: Transaction) -> dict[str, Head]:
        # All such saves take the names in the same order, so that one of two waits for
        # the other instead of a deadlock.
        return {
            name: save_within(transaction, name, states[name], expecting.get(name))
            for name in sorted(states)
        }

    heads = core.write(save_each) if states else {}
    return {name: heads[name] for name in states}


def save_within(
    transaction: Transaction,
    name: str,
    state: Aggregator,
    expecting: Head | int | None,
    extras: Extras = NO_EXTRAS,
) -> Head:
    # Not caught up before: `_write_append` is a conflict where rows changed meanwhile.
    old = transaction.recall(name)
    if old is not None and is_expected(old.head, expecting):
        new = _make_append(transaction.core, old, state, extras)
        if new is not None:
            _write_append(transaction, old, new, extras.label)
            transaction.remember(new.head)
            return new.head.head

    return _save_checked(transaction, name, state, expecting, extras)


# A head that continues another


class _Append(NamedTuple):
    """
    A head that continues another one, and the rows that are added where the branches
    of its logs end: of which log, from which place on, of which entries.
    """

    head: RememberedHead
    added: list[tuple[Kind, int, Sequence[Any], list[LogRow]]]


def _make_append(
    core: Core, old: RememberedHead, state: Aggregator, extras: Extras
) -> _Append | None:
    """
    The head that *state* makes of the old one from which it grew, and what to write
    for it; None if it did not, or if that can't be done without reading.
    """
    before, row = old.state, old.revision
    # Where the note of an erasure is damaged, the slow path raises.
    if before._origin != state._origin or core.is_erasure_lost:
        return None

    added: list[tuple[Kind, int, Sequence[Any], list[LogRow]]] = []
    ends: list[tuple[int, Segments, bytes]] = []
    places = old.entries, old.ledger
    for (kind, branch, length), segments, digest in zip(
        row.log_ends, places, old.digests, strict=True
    ):
        end = length, segments, digest
        log, known = kind.log_of(state), kind.log_of(before)
        if log is not known:
            # The empty log has no branch that could be continued.
            if not length or log.common_prefix(known) != length:
                return None

            entries = take_newest(log, len(log) - length)
            rows = kind.rows(digest, entries)
            # The slow path writes tombstones in place of what was erased.
            if core.erased and not core.erased.keys().isdisjoint(r.id for r in rows):
                return None

            if rows:
                added.append((kind, branch << SHIFT | length, entries, rows))
                stop = length + len(rows)
                end = stop, extend_segments(segments, branch, stop), rows[-1].digest

        ends.append(end)

    # The state is the head itself: the slow path adds a label or notes to the head's
    # revision, and makes no new one.
    if not added:
        return None

    (length, segments, digest), (ledger_length, ledger_segments, ledger_digest) = ends
    digests = digest, ledger_digest
    revision = make_sealed(
        Revision,
        row.revision + 1,
        row.number if extras.parent < 0 else extras.parent,
        row.branch,
        length,
        row.ledger_branch,
        ledger_length,
        row.origin,
        now(),
        state_digest(*digests, old.origin),
        *extras.columns(),
    )
    head = revision.head(old.name.name, old.head.state_id)
    places = segments, ledger_segments
    remembered = RememberedHead(
        old.name, revision, head, state, *places, digests, old.origin
    )
    return _Append(remembered, added)


def _write_append(
    transaction: Transaction, old: RememberedHead, new: _Append, label: str
) -> None:
    """
    Write a revision that continues *old*.

    Raises:
        ConflictError:
            If that is no longer the head, or there were other changes of existing rows
            than those that are known.
    """
    tx, revision = transaction.tables, new.head.revision
    tx.add(
        "revisions",
        [revision],
        if_exists=(("revisions", old.revision.revision),),
        if_absent=(("changes", transaction.changes + 1),),
    )
    # If another name has continued the same branch since, these places are taken: the
    # insert is a `ConflictError`, and the slow path begins a branch.
    for added in new.added:
        add_rows(transaction, *added)

    if label:
        point_label(transaction, label, revision.revision)


# Any other state


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
        raise transaction.damage_error(what)

    name, old, head = transaction.find_head(text, expecting)
    nearest = _find_nearest(core.recall_all(transaction.changes), state)
    entries, entries_from = _find_common_start(transaction, ENTRIES, state, nearest)
    ledger, ledger_from = _find_common_start(transaction, LEDGER, state, nearest)
    origin = Origin.of(state)
    digests = entries.at(len(state.entries)), ledger.at(len(state.ledger))
    digest = state_digest(*digests, origin.digest())
    if name is not None and old is not None and head is not None:
        if digest == old.digest:
            return _add_extras(transaction, name, old, head, extras)

        if expecting is None and not _holds_all(transaction, old, (entries, ledger)):
            root = transaction.get_origin(old.origin).root
            advice = () if root == origin.root else (_OTHER_ROOT,)
            raise StaleHeadError(core.url, text, None, head, *advice)

        entries_from = entries_from or _find_head_start(transaction, old, entries)

    if name is None:
        name = make_sealed(Name, text, tx.new_number(), b"")
        tx.add("names", [name])

    segments = write_log(transaction, entries, entries_from)
    ledger_segments = write_log(transaction, ledger, ledger_from)
    number = add_origin(transaction, origin)
    parent = extras.parent
    revision = make_sealed(
        Revision,
        (old.revision if old else name.number << SHIFT) + 1,
        parent if parent >= 0 else _find_parent(transaction, old, segments, number),
        segments[-1].branch if segments else 0,
        len(state.entries),
        ledger_segments[-1].branch if ledger_segments else 0,
        len(state.ledger),
        number,
        now(),
        digest,
        *extras.columns(),
    )
    tx.add("revisions", [revision])
    if extras.label:
        point_label(transaction, extras.label, revision.revision)

    head = revision.head(text, origin.state_id)
    if has_erased_content(core.erased, state):
        # The state still has content that was erased, but what was saved does not, so
        # the state is not remembered.
        transaction.forget(text)
    else:
        places = segments, ledger_segments
        transaction.remember(
            RememberedHead(
                name, revision, head, state, *places, digests, origin.digest()
            )
        )

    return head


def _add_extras(
    transaction: Transaction, name: Name, old: Revision, head: Head, extras: Extras
) -> Head:
    # The head that was saved already, with what it is given besides.
    changed = extras.changes(old.notes)
    if changed:
        old = set_columns(transaction.tables, old, **changed)
        head = transaction.make_head(name, old)
        # Together with the notes that were there they may exceed the limit, which is
        # an error of the caller and no damage.
        transaction.reports_damage = False
        check_notes(head.notes)

    return add_label(transaction, name, old, extras.label) if extras.label else head


def _find_nearest(
    remembered: Iterable[RememberedHead], state: Aggregator
) -> RememberedHead | None:
    # The one that has most in common with the state.
    root = state._origin.root
    related = [head for head in remembered if head.state._origin.root == root]
    log = state.entries
    return max(
        related, key=lambda head: log.common_prefix(head.state.entries), default=None
    )


def _find_common_start(
    transaction: Transaction,
    kind: Kind,
    state: Aggregator,
    nearest: RememberedHead | None,
) -> tuple[LogDigests, Segments]:
    """
    The digests of a log, and where a beginning of it stands that it shares
    with what is remembered.
    """
    log = kind.log_of(state)
    if nearest is not None:
        common = log.common_prefix(kind.log_of(nearest.state))
        segments = cut_segments(nearest.segments_of(kind), common)
        if segments:
            # Rows never change their place, so what is there is what was.
            digest = transaction.find_digest(kind, segments[-1].branch, common)
            if digest is not None:
                return LogDigests(kind, log, (common, digest)), segments

    return LogDigests(kind, log), ()


def _holds_all(
    transaction: Transaction, old: Revision, logs: tuple[LogDigests, LogDigests]
) -> bool:
    return all(
        length <= len(past.log)
        and transaction.find_digest(kind, branch, length) == past.at(length)
        for past, (kind, branch, length) in zip(logs, old.log_ends, strict=True)
    )


def _find_head_start(
    transaction: Transaction, old: Revision, entries: LogDigests
) -> Segments:
    """
    Where the head's entries stand, if the log begins with them: in the head's own
    branches, because `_find_parent` compares branches, and after a collection the same
    rows may stand in two of them. That also takes fewer reads than to find each branch
    by its first row.
    """
    if 0 < old.length <= len(entries.log):
        digest = transaction.find_digest(ENTRIES, old.branch, old.length)
        if digest == entries.at(old.length):
            return read_segments(transaction, old.branch, old.length)

    return ()


def _find_parent(
    transaction: Transaction, old: Revision | None, entries: Segments, origin: int
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
    scan = transaction.tables.scan
    rows = scan("revisions", low, old.revision, limit=PAGE, backwards=True)
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
