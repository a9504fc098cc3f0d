"""
Timelines: an undo tree of states under a name, saved moment by moment.

The state of each moment is a revision of the name, which grew from that of the moment
before it; a row next to it has the moment's label, group and place in the tree. So
erasing and collecting garbage reach a timeline as they reach any history, and the
head is the present state.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import describe_type
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError
from conversation_state.store._load import read_state, read_states
from conversation_state.store._log import ENTRIES, LEDGER
from conversation_state.store._save import save_within
from conversation_state.store._transaction import (
    Core,
    RememberedHead,
    RememberedTimeline,
    Transaction,
)
from conversation_state.store._values import Extras, Head
from conversation_state.store._write_rows import has_erased_content, put_row
from conversation_state.store.backend import Writing
from conversation_state.store.schema import (
    SHIFT,
    MomentRow,
    Name,
    Origin,
    Revision,
    TimelineRow,
    is_sealed,
    key_range,
    make_sealed,
    state_digest,
)
from conversation_state.timeline import Moment, Timeline

States: TypeAlias = "Timeline[Aggregator]"

# What fits into a row.
_MAX_MOMENTS = (1 << 63) - 1

# In place of the row of a name without a timeline; that of a real one has been saved
# at least once.
_NO_TIMELINE = TimelineRow(0, 0, 0, 0, 0, 0, 0, b"")
_NO_MOMENT: tuple[MomentRow | None, bytes] = None, b""


class _Stored(NamedTuple):
    """
    What is there under a name: the rows of a timeline and its moments.

    Attributes:
        row: The timeline's row; `_NO_TIMELINE` if the name has no timeline.

        moments: The row of each moment and the digest of its state, by number.

        others: The revisions that other verbs saved since the timeline was saved last,
            by the digests of their states.

        timeline: The timeline that these rows are, if it is remembered.
    """

    row: TimelineRow
    moments: PMap[int, tuple[MomentRow, bytes]]
    others: Mapping[bytes, int]
    timeline: States | None


def save_timeline(
    core: Core, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    limit = timeline.limit or 0
    if limit > _MAX_MOMENTS:
        raise ValueError(
            f"limit is {limit:,}; a store keeps timelines of a limit up to "
            f"{_MAX_MOMENTS:,}, or of None for all moments"
        )

    return core.write(_save_within, text, timeline, expecting)


def _save_within(
    transaction: Transaction, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    transaction.catch_up()
    name, newest, head = transaction.find_head(text, expecting)
    stored = _Stored(_NO_TIMELINE, pmap(), {}, None)
    if name is not None and newest is not None:
        stored = _find_stored(transaction, name, newest)

    # A state of another type is an error of the caller, and no damage.
    transaction.reports_damage = False
    changed = _list_changed(timeline, stored)
    transaction.reports_damage = True
    if expecting is None and not _holds_all(timeline, stored, changed):
        advice = (
            "The timeline lacks or replaces a moment that is saved: load that with "
            "load_timeline() and commit to it; or pass the head as expecting= to "
            "replace it"
        )
        raise StaleHeadError(transaction.url, text, None, head, advice)

    head, found = _write_moments(transaction, text, timeline, stored, changed, head)
    remembered = transaction.recall(text)
    erased = transaction.core.erased
    if remembered and not _has_erased_moment(erased, timeline, stored.timeline):
        # The timeline is remembered in the form in which any other store loads it.
        plain = timeline.with_filter(None).close_group()
        found = found._replace(timeline=plain)
        transaction.remember(remembered._replace(timeline=found))

    return head


def _has_erased_moment(
    erased: Mapping[bytes, str], timeline: States, known: States | None
) -> bool:
    """
    Whether a moment that is not *known*, to be without it, has content that was
    erased.
    """
    if not erased:
        return False

    clean = {id(each.state) for each in (known.moments if known else ())}
    states = [each.state for each in timeline.moments]
    # The part that two logs share is looked at only once.
    return any(
        has_erased_content(erased, state, state.entries.common_prefix(before.entries))
        for before, state in pairwise([Aggregator.new(), *states])
        if id(state) not in clean
    )


def _write_moments(  # noqa: PLR0917 - what was found, and what to write
    transaction: Transaction,
    text: str,
    timeline: States,
    stored: _Stored,
    changed: Mapping[int, bytes],
    head: Head | None,
) -> tuple[Head, RememberedTimeline]:
    """Write the moments that *changed* and where the timeline is; the head."""
    tx = transaction.tables
    first, present = timeline.moments[0].number, timeline.moment
    revisions: dict[int, int] = {}
    # Moments with equal states share a revision, also one that another verb saved.
    made: dict[bytes, int] = dict(stored.others)

    def find_revision(number: int | None) -> int:
        if number in revisions:
            return revisions[number]

        found = None if number is None else stored.moments.get(number)
        return -1 if found is None else found[0].revision

    for number, digest in changed.items():
        if digest == stored.moments.get(number, _NO_MOMENT)[1]:
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
            before, old_digest = moments.get(number, _NO_MOMENT)
            put_row(tx, "moments", before, row)
            moments = moments.set(number, (row, changed.get(number, old_digest)))

    moments = _drop_moments(tx, timeline, stored.row, moments, low)
    old = stored.row
    fields = (
        *(low >> SHIFT, first, len(timeline.moments), present.number),
        *(timeline.limit or 0, head.revision),
    )
    new = make_sealed(TimelineRow, *fields, old.saves + 1)
    if not changed and not moved and old[: len(fields)] == fields:
        new = old

    put_row(tx, "timelines", old if old.saves else None, new)
    return head, RememberedTimeline(new, timeline, moments)


def _drop_moments(
    tx: Writing,
    timeline: States,
    old: TimelineRow,
    moments: PMap[int, tuple[MomentRow, bytes]],
    low: int,
) -> PMap[int, tuple[MomentRow, bytes]]:
    """Remove the moments that were forgotten, or that are not in this timeline."""
    first = timeline.moments[0].number
    end, old_end = first + len(timeline.moments), old.oldest + old.length
    for gone in (range(old.oldest, min(first, old_end)), range(end, old_end)):
        if gone:
            tx.remove("moments", low + gone.start, low + gone.stop)
            for number in gone:
                moments = moments.discard(number)

    return moments


def _list_moved(timeline: States, stored: _Stored) -> set[int]:
    """The moments that there are, and from which redo goes elsewhere than it did."""
    redo = timeline._redo_targets
    if stored.timeline is not None and stored.timeline._redo_targets is redo:
        return set()

    before = {k: row.redo - 1 for k, (row, _) in stored.moments.items() if row.redo}
    moved = {k for k in {*redo, *before} if redo.get(k) != before.get(k)}
    first = timeline.moments[0].number
    return moved & {*range(first, first + len(timeline.moments))}


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
    row, known = _recall_timeline(transaction, name, newest)
    if known is not None:
        return _Stored(row, known.moments, {}, known.timeline)

    moments = _read_moments(transaction, name, row)
    revisions = {each.number: each for each in transaction.iterate_revisions(name)}
    return _Stored(
        row,
        _with_digests(moments, revisions),
        {each.digest: k for k, each in revisions.items() if k > row.revision},
        None,
    )


def _list_changed(timeline: States, stored: _Stored) -> dict[int, bytes]:
    """The moments to write, by number, each with the digest of its state."""
    changed: dict[int, bytes] = {}
    known = stored.timeline
    # What two logs share is the same in both.
    same = 0
    if known is not None and known._base == timeline._base:
        same = timeline._base + timeline._log.shared_prefix(known._log)

    first = timeline.moments[0].number
    oldest = known.moments[0].number if known else first
    for moment in timeline.moments[max(same - first, 0) :]:
        row, before = stored.moments.get(moment.number, _NO_MOMENT)
        # A digest takes time, and what two logs share is known block by block.
        if row and known and known.moments[moment.number - oldest] is moment:
            continue

        digest = _compute_digest(moment.state)
        redo = row.redo - 1 if row and row.redo else None
        if (
            row is None
            or digest != before
            or row != _make_row(row.moment - moment.number, moment, row.revision, redo)
        ):
            changed[moment.number] = digest

    return changed


def _with_digests(
    moments: list[MomentRow], revisions: Mapping[int, Revision]
) -> PMap[int, tuple[MomentRow, bytes]]:
    return pmap({m.number: (m, revisions[m.revision].digest) for m in moments})


def _compute_digest(state: object) -> bytes:
    if not isinstance(state, Aggregator):
        raise TypeError(
            f"timeline: a state is {describe_type(state)}; a store keeps timelines "
            "of Aggregators"
        )

    entries, ledger = ENTRIES.digest(state.entries), LEDGER.digest(state.ledger)
    return state_digest(entries, ledger, Origin.of(state).digest())


def _holds_all(timeline: States, stored: _Stored, changed: Mapping[int, bytes]) -> bool:
    """
    Whether a timeline has every moment and revision that is saved, but for those
    that it has forgotten.
    """
    row, first = stored.row, timeline.moments[0].number
    end = row.oldest + row.length
    if first + len(timeline.moments) < end:
        return False

    if any(number in stored.moments for number in changed):
        return False

    # A revision that was not saved as part of a timeline is loaded as the moment with
    # the next number.
    digests = {*changed.values(), *[digest for _, digest in stored.moments.values()]}
    return all(
        digest in digests or end + revision - row.revision - 1 < first
        for digest, revision in stored.others.items()
    )


# Loading


def load_timeline(transaction: Transaction, text: str) -> States:
    transaction.catch_up()
    name = transaction.get_name(text)
    newest = transaction.get_revision(name, None)
    row, known = _recall_timeline(transaction, name, newest)
    if known is not None:
        return known.timeline

    moments = _read_moments(transaction, name, row)
    revisions = {each.number: each for each in transaction.iterate_revisions(name)}
    timeline: States | None = None
    if moments:
        # Backwards, because a state's log is the beginning of the logs of later
        # moments, which are read by then.
        states = read_states(
            transaction,
            name,
            [(m.number, m.parent - 1, revisions[m.revision]) for m in moments[::-1]],
        )
        timeline = Timeline.rebuild(
            moments=[
                Moment(
                    each.number,
                    states[each.number].state,
                    each.label.decode(),
                    each.step_group.decode() or None,
                    each.parent - 1 if each.parent else None,
                )
                for each in moments
            ],
            present=row.present,
            redo={each.number: each.redo - 1 for each in moments if each.redo},
            limit=row.max_moments or None,
        )
        if row.revision == newest.number:
            known = RememberedTimeline(row, timeline, _with_digests(moments, revisions))
            # After an undo the head is another revision than its moment's.
            head = read_state(transaction, name, newest, [states[row.present]])
            transaction.remember(head._replace(timeline=known))
            return timeline

    later = [each for number, each in revisions.items() if number > row.revision]
    places = _find_places(row, moments, revisions)
    return _add_later(transaction, name, timeline, later, places)


def _find_places(
    row: TimelineRow, moments: list[MomentRow], revisions: Mapping[int, Revision]
) -> dict[int, int]:
    """
    The numbers of the moments whose states the revisions are, by revision: of what a
    moment was saved as, and of what was saved where the present went back to it.
    """
    places = {each.revision: each.number for each in moments}
    by_digest = {revisions[each.revision].digest: each.number for each in moments}
    for number, each in revisions.items():
        if number > row.revision or number in places:
            continue

        past = revisions.get(each.parent)
        if past is not None and past.digest == each.digest and past.number in places:
            places[number] = places[past.number]
        elif each.digest in by_digest:
            places[number] = by_digest[each.digest]

    if moments:
        places[row.revision] = row.present

    return places


def _add_later(
    transaction: Transaction,
    name: Name,
    timeline: States | None,
    later: list[Revision],
    places: dict[int, int],
) -> States:
    """
    A timeline with what was saved under its name by other verbs: each on the moment
    whose state it grew from.
    """
    near: RememberedHead | None = None
    for revision in later:
        near = read_state(transaction, name, revision, () if near is None else (near,))
        state = near.state
        if timeline is None:
            timeline = Timeline.begin(state)
        else:
            # If the parent is a forgotten moment, or is missing, the oldest moment
            # is the parent.
            oldest = timeline.moments[0].number
            on = max(places.get(revision.parent, oldest), oldest)
            timeline = timeline.commit(state, on=on)

        places[revision.number] = timeline.moment.number

    if timeline is None:
        raise transaction.damage_error(f"{name.name!r} has no revisions")

    return timeline


def _recall_timeline(
    transaction: Transaction, name: Name, newest: Revision
) -> tuple[TimelineRow, RememberedTimeline | None]:
    """
    The row of a timeline, and what is remembered of it if nothing was saved since.
    """
    found = transaction.tables.get("timelines", name.number)
    row = _NO_TIMELINE if found is None else TimelineRow._make(found)
    if found is not None and not is_sealed(row):
        what = f"the timeline of {name.name!r} is not what was written"
        raise transaction.damage_error(what)

    remembered = transaction.recall(name.name)
    known = None if remembered is None else remembered.timeline
    is_same = known is not None and known.row == row and row.revision == newest.number
    return row, known if is_same else None


def _read_moments(
    transaction: Transaction, name: Name, row: TimelineRow
) -> list[MomentRow]:
    low, high = key_range(name.number)
    rows = transaction.iterate_rows("moments", low=low, high=high)
    moments = list(map(MomentRow._make, rows))
    expected = list(range(low + row.oldest, low + row.oldest + row.length))
    if [each.moment for each in moments] != expected or not all(
        map(is_sealed, moments)
    ):
        there = "a moment" if row.saves else "the row"
        what = f"{there} of the timeline of {name.name!r} is missing or damaged"
        raise transaction.damage_error(what)

    return moments
