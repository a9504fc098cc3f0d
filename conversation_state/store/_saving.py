"""
Saving: what is new is written, and nothing of what somebody else saved is lost.

The quick way is for a state that grew from the head as it was seen last: its
new rows and a revision are added, on condition that the head is still that
one. Whenever that can't be, the careful way reads what there is, in the block
that writes.
"""

from __future__ import annotations

from typing import Any

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError, StoreError
from conversation_state.store._core import (
    TRIES,
    Core,
    Known,
    Name,
    checked_name,
    now,
)
from conversation_state.store._erased import erased_content
from conversation_state.store._rows import (
    SHIFT,
    Origin,
    Revision,
    TableShelf,
    digest_at,
    segments_of,
    state_digest,
)
from conversation_state.store._values import Head
from conversation_state.store._writing import (
    add_origin,
    add_rows,
    relabel,
    set_label,
)
from conversation_state.store.backend import ConflictError, Reading, Writing
from conversation_state.store.log import (
    ENTRIES,
    LEDGER,
    Growth,
    Kind,
    Past,
    Placed,
    Segments,
    cut,
    grow,
    newest,
)

__all__ = ["check", "check_expecting", "is_expected", "save"]


def save(
    core: Core, name: str, state: Aggregator, expecting: Head | int | None, label: str
) -> Head:
    """
    What `Store.save` does.
    """
    check(name, state, expecting)
    if label != "":
        checked_name(label, "label")

    seen = core.seen
    known = core.known(name, seen)
    if known is not None and is_expected(known.head, expecting):
        head = _save_quickly(core, known, seen, state, label)
        if head is not None:
            return head

        if expecting is not None:
            # Most likely somebody else was first: so look, in no one's way.
            _check_head(core, name, expecting)

    # Outside of the block, so that nobody waits for it.
    if _nearest(core, seen, state) is None:
        ENTRIES.digest(state.entries)
        LEDGER.digest(state.ledger)

    for _ in range(TRIES):
        try:
            return _save_carefully(core, name, state, expecting, label)
        except ConflictError:
            core.forget(name)

    what = f"{TRIES} times others saved at the same moment; try again"
    raise StoreError(core.url, what)


def check(name: str, state: object, expecting: object) -> None:
    """
    See that this is what may be saved.
    """
    checked_name(name)
    if not isinstance(state, Aggregator):
        msg = f"a store keeps Aggregators, got a {type(state).__name__}"
        raise TypeError(msg)

    if expecting is not None:
        check_expecting(name, expecting)


def check_expecting(name: str, expecting: object) -> None:
    if isinstance(expecting, Head):
        if expecting.name != name:
            msg = f"expecting is a head of {expecting.name!r}; expected one of {name!r}"
            raise ValueError(msg)
    elif isinstance(expecting, bool) or not isinstance(expecting, int):
        msg = f"expecting is {expecting!r}; expected a Head, a revision or None"
        raise TypeError(msg)
    elif expecting < 0:
        msg = f"expecting is {expecting}; expected a revision, or 0 for a new name"
        raise ValueError(msg)


def is_expected(head: Head | None, expecting: Head | int | None) -> bool:
    """
    Whether that head is what was expected, labels aside.
    """
    if expecting is None:
        return True

    if isinstance(expecting, int):
        return expecting == (head.revision if head else 0)

    return (
        head is not None
        and head.revision == expecting.revision
        and head.digest == expecting.digest
        and head.saved_at == expecting.saved_at
    )


def _check_head(core: Core, text: str, expecting: Head | int) -> None:
    with core.reading() as tx:
        name = core.find(tx, text)
        newest = None if name is None else core.newest(tx, name.number)
        head = None
        if name is not None and newest is not None:
            head = core.head(tx, name, newest)

        if not is_expected(head, expecting):
            raise StaleHeadError(core.url, text, expecting, head)


# The quick way


def _save_quickly(
    core: Core, known: Known, seen: int, state: Aggregator, label: str
) -> Head | None:
    """
    Save a state that grew from the head; None if it can't be done this way.
    """
    before, old = known.state, known.revision
    if before._origin != state._origin:
        return None

    told = _growth(ENTRIES, before.entries, state.entries, known.digests[0])
    paid = _growth(LEDGER, before.ledger, state.ledger, known.digests[1])
    if told is None or paid is None or not (told or paid):
        return None

    if (told and not old.branch) or (paid and not old.ledger_branch):
        return None

    if core.erased and not core.erased.keys().isdisjoint(row.id for row in told):
        return None

    digests = (
        told[-1].digest if told else known.digests[0],
        paid[-1].digest if paid else known.digests[1],
    )
    revision = Revision(
        old.revision + 1,
        old.branch,
        len(state.entries),
        old.ledger_branch,
        len(state.ledger),
        old.origin,
        state_digest(*digests, known.origin),
        label,
        now(),
    )
    try:
        with core.backend.writing() as tx:
            tx.add(
                "revisions",
                [revision],
                given=(("revisions", old.revision),),
                lacking=(("changes", seen + 1),),
            )
            for kind, log, branch, length, rows in (
                (ENTRIES, state.entries, old.branch, old.length, told),
                (LEDGER, state.ledger, old.ledger_branch, old.ledger_length, paid),
            ):
                if rows:
                    new = newest(log, len(rows))
                    place = branch << SHIFT | length
                    add_rows(tx, kind, place, new, rows, erased={})

            if label:
                set_label(tx, known.name.number, label, revision.revision)
    except ConflictError:
        return None

    head = revision.head(known.name.text, known.head.state_id)
    entries = (
        grow(known.entries, old.branch, revision.length) if told else known.entries
    )
    ledger = known.ledger
    if paid:
        ledger = grow(ledger, old.ledger_branch, revision.ledger_length)

    core.remember(
        Known(
            known.name, revision, head, state, entries, ledger, digests, known.origin
        ),
        seen,
    )
    return head


def _growth(
    kind: Kind, before: Log[Any], log: Log[Any], digest: bytes
) -> list[Placed] | None:
    """
    The rows that *log* has beyond *before*; None if it did not grow from it.
    """
    length = len(before)
    if log is before:
        return []

    if log.common_prefix(before) != length:
        return None

    return kind.rows(digest, newest(log, len(log) - length))


# The careful way


def _nearest(core: Core, seen: int, state: Aggregator) -> Known | None:
    """
    What is remembered that has most in common with *state*.
    """
    root = state._origin.root
    related = [each for each in core.all_known(seen) if each.state._origin.root == root]
    log = state.entries
    return max(
        related, key=lambda each: log.common_prefix(each.state.entries), default=None
    )


def _save_carefully(
    core: Core,
    text: str,
    state: Aggregator,
    expecting: Head | int | None,
    label: str,
) -> Head:
    with core.writing() as tx:
        seen = core.catch_up(tx)
        name = core.find(tx, text)
        old = None if name is None else core.newest(tx, name.number)
        head = None if name is None or old is None else core.head(tx, name, old)
        if not is_expected(head, expecting):
            raise StaleHeadError(core.url, text, expecting, head)

        near = _nearest(core, seen, state)
        told, told_from = _past(tx, ENTRIES, state, near)
        paid, paid_from = _past(tx, LEDGER, state, near)
        origin = Origin.of(state)
        digests = told.at(len(state.entries)), paid.at(len(state.ledger))
        digest = state_digest(*digests, origin.digest())
        if name is not None and old is not None and head is not None:
            if digest == old.digest:
                if label and label != old.label:
                    return relabel(core, tx, name, old, label)

                return head

            if expecting is None and not _goes_on(tx, old, told, paid):
                raise StaleHeadError(core.url, text, expecting, head)

            if not told_from:
                told_from = _if_there(tx, core, old, told)

        if name is None:
            name = Name(text, tx.new_number())
            tx.add("names", [name.row()])

        at = Growth.of(told, TableShelf(tx, ENTRIES), told_from)
        entries = _write(core, tx, ENTRIES, state.entries, at)
        at = Growth.of(paid, TableShelf(tx, LEDGER), paid_from)
        ledger = _write(core, tx, LEDGER, state.ledger, at)
        revision = Revision(
            (old.revision if old else name.number << SHIFT) + 1,
            entries[-1].branch if entries else 0,
            len(state.entries),
            ledger[-1].branch if ledger else 0,
            len(state.ledger),
            add_origin(tx, origin),
            digest,
            label,
            now(),
        )
        tx.add("revisions", [revision])
        if label:
            set_label(tx, name.number, label, revision.revision)

    head = revision.head(text, origin.state_id)
    if not _says_erased(core, state):
        core.remember(
            Known(
                *(name, revision, head, state, entries, ledger, digests),
                origin.digest(),
            ),
            seen,
        )
    else:
        # What was given may say what was erased; what was saved does not.
        core.forget(text)

    return head


def _says_erased(core: Core, state: Aggregator) -> bool:
    """
    Whether a state still says what was erased.
    """
    if not core.erased:
        return False

    return any(
        id.encode() in core.erased and erased_content(message) is None
        for id, message in state.entries
    )


def _past(
    tx: Reading, kind: Kind, state: Aggregator, near: Known | None
) -> tuple[Past, Segments]:
    """
    The digests of a log, and where a beginning of it stands that it shares
    with what is remembered.
    """
    log: Log[Any] = state.entries if kind is ENTRIES else state.ledger
    if near is not None:
        other: Log[Any] = near.state.entries
        segments = near.entries
        if kind is LEDGER:
            other, segments = near.state.ledger, near.ledger

        common = log.common_prefix(other)
        segments = cut(segments, common)
        if segments:
            # Rows never change their place, so what is there is what was.
            digest = digest_at(tx, kind, segments[-1].branch, common)
            if digest is not None:
                return Past(kind, log, (common, digest)), segments

    return Past(kind, log), ()


def _goes_on(tx: Reading, old: Revision, told: Past, paid: Past) -> bool:
    """
    Whether both logs begin with all that the head has.
    """
    for past, branch, length in (
        (told, old.branch, old.length),
        (paid, old.ledger_branch, old.ledger_length),
    ):
        if len(past.log) < length:
            return False

        if digest_at(tx, past.kind, branch, length) != past.at(length):
            return False

    return True


def _if_there(tx: Reading, core: Core, old: Revision, told: Past) -> Segments:
    """
    Where the head's entries stand, if the log begins with them.
    """
    branch, length = old.branch, old.length
    if 0 < length <= len(told.log):
        digest = digest_at(tx, ENTRIES, branch, length)
        if digest == told.at(length):
            return segments_of(tx, core.url, branch, length)

    return ()


def _write(
    core: Core, tx: Writing, kind: Kind, log: Log[Any], growth: Growth
) -> Segments:
    """
    Write what is missing; where the log stands then.
    """
    segments, rows, goes_on = growth
    if not rows:
        return segments

    start = segments[-1].stop if segments else 0
    branch = segments[-1].branch if segments else 0
    if not goes_on:
        parent, branch = branch, tx.new_number()
        tx.add("branches", [(branch, parent, start)])
        tx.add("starts", [(rows[0].digest, branch)])

    new = newest(log, len(rows))
    add_rows(tx, kind, branch << SHIFT | start, new, rows, erased=core.erased)
    return grow(segments, branch, len(log))
