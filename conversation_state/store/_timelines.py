"""
Timelines: an undo tree of states under a name, saved moment by moment.

The state of each moment is a revision of the name, which grew from that of the moment
before it; a row next to it has the moment's label, group and place in the tree. So
erasing and collecting garbage reach a timeline as they reach any history, and the
head is the present state.

What lives here: saving timelines. What does not: loading them (`_load_timelines`),
saving one state (`_save`), and timelines themselves (`conversation_state.timeline`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import describe_type
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError
from conversation_state.store._load_timelines import (
    States,
    iterate_moments,
    read_revisions,
    read_timeline_row,
)
from conversation_state.store._memory import RememberedTimeline
from conversation_state.store._save import has_erased_content, save_within
from conversation_state.store._transaction import Core, Transaction
from conversation_state.store._values import Extras, Head, is_expected
from conversation_state.store.backend import Writing
from conversation_state.store.log import ENTRIES, LEDGER
from conversation_state.store.schema import (
    SHIFT,
    MomentRow,
    Name,
    Origin,
    Revision,
    TimelineRow,
    make_sealed,
    state_digest,
)
from conversation_state.timeline import Moment

__all__ = ["save_timeline"]


class _Stored(NamedTuple):
    """
    What is there under a name.

    Attributes:
        row: The timeline's row, or None.

        moments: Its moments' rows, by number.

        digests: The digest of each moment's state, by number.

        others: The revisions that no save of a timeline made, since the last one, by
            the digests of their states.

        timeline: The timeline that these rows are, if it is remembered.
    """

    row: TimelineRow | None
    moments: PMap[int, MomentRow]
    digests: Mapping[int, bytes]
    others: Mapping[bytes, int]
    timeline: States | None


# Saving


def save_timeline(
    core: Core, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    """
    What `Store.save_timeline` does.
    """
    limit = timeline.limit or 0
    if limit > _MAX_MOMENTS:
        msg = (
            f"limit is {limit:,}; a store keeps timelines of a limit up to "
            f"{_MAX_MOMENTS:,}, or of None for all moments"
        )
        raise ValueError(msg)

    return core.write(
        lambda transaction: _save_within(transaction, text, timeline, expecting),
        name=text,
        reports_damage=False,
    )


# What fits into a row.
_MAX_MOMENTS = (1 << 63) - 1


def _save_within(
    transaction: Transaction, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    with transaction.report_damage():
        transaction.catch_up()
        name = transaction.find_name(text)
        newest = None if name is None else transaction.find_newest(name.number)
        head = None
        stored = _Stored(None, pmap(), {}, {}, None)
        if name is not None and newest is not None:
            head = transaction.make_head(name, newest)
            stored = _find_stored(transaction, name, newest)

    if not is_expected(head, expecting):
        raise StaleHeadError(transaction.url, text, expecting, head)

    changed = _list_changed(timeline, stored)
    if expecting is None and not _holds_all(timeline, stored, changed):
        advice = (
            "The timeline lacks or replaces a moment that is saved: load that with "
            "load_timeline() and commit to it; or pass the head as expecting= to "
            "replace it"
        )
        raise StaleHeadError(transaction.url, text, None, head, advice)

    head, found = _write_moments(transaction, text, timeline, stored, changed, head)
    if not _has_erased_moment(transaction.core, timeline, stored.timeline):
        # The timeline is remembered in the form in which any other store loads it.
        plain = timeline.with_filter(None).close_group()
        transaction.remember_timeline(text, found._replace(timeline=plain))

    return head


def _has_erased_moment(core: Core, timeline: States, known: States | None) -> bool:
    """
    Whether a moment that is not *known*, to be without it, has content that was
    erased.
    """
    if not core.erased:
        return False

    clean = () if known is None else known.moments
    passed = {id(each.state) for each in clean}
    before: Aggregator | None = None
    for each in timeline.moments:
        state = each.state
        if id(state) not in passed:
            # The part that two logs share is looked at only once.
            common = (
                0 if before is None else state.entries.common_prefix(before.entries)
            )
            if has_erased_content(core, state, common):
                return True

        before = state

    return False


def _write_moments(  # noqa: PLR0917 - what was found, and what to write
    transaction: Transaction,
    text: str,
    timeline: States,
    stored: _Stored,
    changed: Mapping[int, bytes | None],
    head: Head | None,
) -> tuple[Head, RememberedTimeline]:
    """
    Write the moments that *changed* and where the timeline is; the head.
    """
    first, present = timeline.moments[0].number, timeline.moment
    revisions: dict[int, int] = {}
    # Moments with equal states share a revision, also one that another verb saved.
    made: dict[bytes, int] = dict(stored.others)

    def find_revision(number: int | None) -> int:
        if number in revisions:
            return revisions[number]

        row = None if number is None else stored.moments.get(number)
        return -1 if row is None else row.revision

    for number, digest in changed.items():
        if digest is None:
            continue  # only its label

        moment = timeline.moments[number - first]
        if digest not in made:
            extras = Extras(parent=find_revision(moment.parent))
            head = save_within(transaction, text, moment.state, head or 0, extras)
            made[digest] = head.revision

        revisions[number] = made[digest]

    if head is None or find_revision(present.number) != head.revision:
        extras = Extras(parent=find_revision(present.number))
        head = save_within(transaction, text, present.state, head or 0, extras)

    low = transaction.get_name(text).number << SHIFT
    moved = _list_moved(timeline, stored)
    moments = stored.moments
    for number in sorted({*changed, *moved}):
        if number >= first:
            moment = timeline.moments[number - first]
            redo = timeline._redo_targets.get(number)
            row = _make_row(low, moment, find_revision(number), redo)
            _put_row(transaction.tables, "moments", moments.get(number), row)
            moments = moments.set(number, row)

    moments = _drop_moments(transaction, timeline, stored, moments, low)
    old = stored.row
    fields = (
        *(low >> SHIFT, first, len(timeline.moments), present.number),
        *(timeline.limit or 0, head.revision),
    )
    if old is not None and not changed and not moved and old[: len(fields)] == fields:
        return head, RememberedTimeline(old, timeline, moments)

    new = make_sealed(TimelineRow, *fields, 1 if old is None else old.saves + 1)
    _put_row(transaction.tables, "timelines", old, new)
    return head, RememberedTimeline(new, timeline, moments)


def _list_moved(timeline: States, stored: _Stored) -> set[int]:
    """
    The moments that there are, and from which redo goes elsewhere than it did.
    """
    redo = timeline._redo_targets
    if stored.timeline is not None and stored.timeline._redo_targets is redo:
        return set()

    before = {k: row.redo - 1 for k, row in stored.moments.items() if row.redo}
    moved = {k for k in {*redo, *before} if redo.get(k) != before.get(k)}
    first = timeline.moments[0].number
    return moved & {*range(first, first + len(timeline.moments))}


def _put_row(tx: Writing, table: str, old: Any, row: Any) -> None:
    if old is None:
        tx.add(table, [row])
    elif old != row:
        values = row._asdict()
        del values[row._fields[0]]
        tx.set(table, row[0], **values)


def _drop_moments(
    transaction: Transaction,
    timeline: States,
    stored: _Stored,
    moments: PMap[int, MomentRow],
    low: int,
) -> PMap[int, MomentRow]:
    """
    Remove the moments that were forgotten, or that are not in this timeline.
    """
    row = stored.row
    if row is None:
        return moments

    first = timeline.moments[0].number
    end = first + len(timeline.moments)
    there = range(row.oldest, row.oldest + row.length)
    for gone in (range(there.start, min(first, there.stop)), range(end, there.stop)):
        if gone:
            transaction.tables.remove("moments", low + gone.start, low + gone.stop)
            for number in gone:
                moments = moments.discard(number)

    return moments


def _make_row(
    low: int, moment: Moment[Aggregator], revision: int, redo: int | None
) -> MomentRow:
    return make_sealed(
        MomentRow,
        low + moment.number,
        revision,
        0 if moment.parent is None else moment.parent + 1,
        0 if redo is None else redo + 1,
        moment.label.encode(),
        (moment.group or "").encode(),
    )


def _find_stored(transaction: Transaction, name: Name, newest: Revision) -> _Stored:
    row = read_timeline_row(transaction, name)
    remembered = transaction.recall_timeline(name.name)
    is_newest = row is not None and row.revision == newest.number
    if remembered is not None and remembered.row == row and is_newest:
        return _Stored(row, remembered.moments, {}, {}, remembered.timeline)

    moments = pmap(
        {each.number: each for each in iterate_moments(transaction, name, row)}
    )
    revisions = read_revisions(transaction, name)
    last = 0 if row is None else row.revision
    return _Stored(
        row,
        moments,
        {k: revisions[each.revision].digest for k, each in moments.items()},
        {each.digest: k for k, each in revisions.items() if k > last},
        None,
    )


def _list_changed(timeline: States, stored: _Stored) -> dict[int, bytes | None]:
    """
    The moments to write, by number, each with the digest of its state; None in place
    of that if the state is what is saved.
    """
    changed: dict[int, bytes | None] = {}
    known = stored.timeline
    # What two logs share is the same in both.
    same = 0
    if known is not None and known._base == timeline._base:
        same = timeline._base + timeline._log.shared_prefix(known._log)

    first = timeline.moments[0].number
    for moment in timeline.moments[max(same - first, 0) :]:
        number = moment.number
        row = stored.moments.get(number)
        old = None
        if known is not None and row is not None:
            old = known.moments[number - known.moments[0].number]
            if old is moment:
                continue

        digest = None
        if old is None or old.state is not moment.state:
            digest = _compute_digest(moment.state)
            before = stored.digests.get(number)
            # The digests of what is remembered are not in `stored`; they are kept with
            # the logs.
            if old is not None:
                before = _compute_digest(old.state)

            if digest == before:
                digest = None

        if row is None or digest is not None or not _is_like(row, moment):
            changed[number] = digest

    return changed


def _is_like(row: MomentRow, moment: Moment[Aggregator]) -> bool:
    made = _make_row(0, moment, 0, None)
    return (row.parent, row.label, row.step_group) == (
        *(made.parent, made.label, made.step_group),
    )


def _compute_digest(state: object) -> bytes:
    if not isinstance(state, Aggregator):
        msg = (
            f"timeline: a state is {describe_type(state)}; a store keeps timelines "
            "of Aggregators"
        )
        raise TypeError(msg)

    entries, ledger = ENTRIES.digest(state.entries), LEDGER.digest(state.ledger)
    return state_digest(entries, ledger, Origin.of(state).digest())


def _holds_all(
    timeline: States, stored: _Stored, changed: Mapping[int, bytes | None]
) -> bool:
    """
    Whether a timeline has every moment and revision that is saved, but for those
    that it has forgotten.
    """
    row, first = stored.row, timeline.moments[0].number
    if row is not None:
        end = row.oldest + row.length
        if first + len(timeline.moments) < end:
            return False

        if any(number in stored.moments for number in changed):
            return False

    # A revision that was not saved as part of a timeline is loaded as the moment with
    # the next number.
    next_number = 0 if row is None else row.oldest + row.length
    last = 0 if row is None else row.revision
    digests = {*changed.values(), *stored.digests.values()}
    return all(
        digest in digests or next_number + revision - last - 1 < first
        for digest, revision in stored.others.items()
    )
