"""
Timelines: an undo tree of states under a name, saved moment by moment.

The state of each moment is a revision of the name, which grew from that of the moment
before it; a row next to it has the moment's label, group and place in the tree. So
erasing and collecting garbage reach a timeline as they reach any history, and the
head is the present state. A name is a timeline from its first save on, and nothing
but `save_timeline` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from conversation_state._persistent.maps import pmap
from conversation_state._wording import describe_type
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError
from conversation_state.store._load import read_state, read_states
from conversation_state.store._log import ENTRIES, LEDGER, DamagedRow, reading_rows
from conversation_state.store._save import check_kind, has_erased_content, save_within
from conversation_state.store._transaction import (
    CachedBackend,
    StoredTimeline,
    Transaction,
)
from conversation_state.store._values import (
    Head,
    RevisionFields,
    pack_notes,
    unpack_notes,
)
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
    sealed,
    state_digest,
)
from conversation_state.timeline import Moment, Timeline

States: TypeAlias = "Timeline[Aggregator]"

# What fits into a row.
_MAX_MOMENTS = (1 << 63) - 1


# Of a name that was not saved yet.
_NOTHING = StoredTimeline(TimelineRow(0, 0, 0, 0, 0, 0, saves=0), pmap(), None)


def save_timeline(
    cache: CachedBackend, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    limit = timeline.limit or 0
    if limit > _MAX_MOMENTS:
        raise ValueError(
            f"limit is {limit:,}; a store keeps timelines of a limit up to "
            f"{_MAX_MOMENTS:,}, or of None for all moments"
        )

    return cache.write(_save_within, text, timeline, expecting)


def _save_within(
    transaction: Transaction, text: str, timeline: States, expecting: Head | int | None
) -> Head:
    transaction.catch_up()
    name, newest, head = transaction.find_head(text, expecting)
    stored = _NOTHING
    if name is not None and newest is not None:
        check_kind(transaction, name, is_timeline=True)
        stored, _ = _read_stored(transaction, name, newest)

    changed = _list_changed(timeline, stored)
    if expecting is None and not _holds_all(timeline, stored, changed):
        advice = (
            "The timeline lacks or replaces a moment that is saved: load that with "
            "load_timeline() and commit to it; or pass the head as expecting= to "
            "replace it"
        )
        raise StaleHeadError(transaction.url, text, None, head, advice)

    moved = _list_moved(timeline, stored)
    is_new = bool(changed or moved) or not _is_at(timeline, stored.row)
    head, revisions = _save_states(
        transaction, text, timeline, stored, changed, head, is_new=is_new
    )
    saved = _write_rows(
        transaction, head, timeline, stored, changed, revisions, moved=moved
    )
    remembered = transaction.recall(text)
    erased = transaction.cache.erased
    if remembered and not _has_erased_moment(erased, timeline, stored.timeline):
        # The timeline is remembered in the form in which any other store loads it.
        plain = timeline.with_filter(None).close_group()
        saved = saved._replace(timeline=plain)
        transaction.learned[text] = remembered._replace(timeline=saved)

    return head


def _has_erased_moment(
    erased: Mapping[bytes, str], timeline: States, known: States | None
) -> bool:
    """Whether a moment not *known* to be without it has content that was erased."""
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


def _find_revision(
    number: int | None, stored: StoredTimeline, revisions: Mapping[int, int]
) -> int:
    """The number of the revision that a moment is; -1 for none."""
    if number is None or (number not in revisions and number not in stored.moments):
        return -1

    return revisions.get(number) or stored.moments[number][0].revision


def _save_states(  # noqa: PLR0917 - what was found, and what to write
    transaction: Transaction,
    text: str,
    timeline: States,
    stored: StoredTimeline,
    changed: Mapping[int, bytes],
    head: Head | None,
    *,
    is_new: bool,
) -> tuple[Head, dict[int, int]]:
    """
    Save the states that are not there; the head, and their revisions by moment. The
    head is another one where anything *is_new*, so that a stale save is refused.
    """
    before = head
    first, present = timeline.moments[0].number, timeline.moment
    revisions: dict[int, int] = {}
    # Moments with equal states share a revision.
    made: dict[bytes, int] = {}

    def save_moment(moment: Moment[Aggregator], parent: int | None) -> Head:
        fields = RevisionFields(parent=_find_revision(parent, stored, revisions))
        expecting = 0 if head is None else head
        return save_within(
            transaction, text, moment.state, expecting, fields, is_timeline=True
        )

    for number, digest in changed.items():
        if number in stored.moments and digest == stored.moments[number][1]:
            continue  # only its label

        if digest not in made:
            moment = timeline.moments[number - first]
            head = save_moment(moment, moment.parent)
            made[digest] = head.revision

        revisions[number] = made[digest]

    if head is None or (
        is_new
        and (
            head == before
            or _find_revision(present.number, stored, revisions) != head.revision
        )
    ):
        head = save_moment(present, present.number)

    return head, revisions


def _write_rows(  # noqa: PLR0917 - what was found, and what to write
    transaction: Transaction,
    head: Head,
    timeline: States,
    stored: StoredTimeline,
    changed: Mapping[int, bytes],
    revisions: Mapping[int, int],
    *,
    moved: set[int],
) -> StoredTimeline:
    """Write the rows of the moments that changed, and where the timeline is."""
    tables, old, moments = transaction.tables, stored.row, stored.moments
    low = transaction.get_name(head.name).number << SHIFT
    first, length = timeline.moments[0].number, len(timeline.moments)
    for number in sorted({*changed, *moved}):
        before, digest = moments.get(number, (None, b""))
        revision = _find_revision(number, stored, revisions)
        redo = timeline._redo_targets.get(number)
        row = _make_row(low, timeline.moments[number - first], revision, redo)
        _put_row(tables, "moments", before, row)
        moments = moments.set(number, (row, changed.get(number, digest)))

    # Those that were forgotten, or that are not in this timeline.
    end, old_end = first + length, old.oldest + old.length
    for gone in (range(old.oldest, min(first, old_end)), range(end, old_end)):
        if gone:
            tables.remove("moments", low + gone.start, low + gone.stop)
            for number in gone:
                moments = moments.discard(number)

    new = TimelineRow(
        timeline=low >> SHIFT,
        oldest=first,
        length=length,
        present=timeline.moment.number,
        max_moments=timeline.limit or 0,
        revision=head.revision,
        saves=old.saves,
        seal=old.seal,
    )
    if new != old or changed or moved:
        new = sealed(new._replace(saves=old.saves + 1))
        _put_row(tables, "timelines", old if old.saves else None, new)

    return StoredTimeline(new, moments, timeline)


def _is_at(timeline: States, row: TimelineRow) -> bool:
    """Whether a timeline has the moments, and the present one, that a row says."""
    first, length = timeline.moments[0].number, len(timeline.moments)
    place = first, length, timeline.moment.number, timeline.limit or 0
    return place == (row.oldest, row.length, row.present, row.max_moments)


def _put_row(tables: Writing, table: str, old: Any, row: Any) -> None:
    if old is None:
        tables.add(table, [row])
    elif old != row:
        columns = row._asdict()
        tables.set(table, columns.pop(row._fields[0]), **columns)


def _list_moved(timeline: States, stored: StoredTimeline) -> set[int]:
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
    row = MomentRow(
        moment=low + moment.number,
        revision=revision,
        parent=0 if moment.parent is None else moment.parent + 1,
        redo=0 if redo is None else redo + 1,
        label=moment.label.encode(),
        step_group=(moment.group or "").encode(),
        note=pack_notes(moment.note),
    )
    return sealed(row)


def _read_stored(
    transaction: Transaction, name: Name, newest: Revision
) -> tuple[StoredTimeline, dict[int, Revision]]:
    """
    What is there of a timeline, as it is remembered if that is still the same; else as
    it is read, with the revisions of the name by number.
    """
    values = transaction.tables.get("timelines", name.number)
    row = None if values is None else TimelineRow._make(values)
    if row is None or not is_sealed(row) or row.revision != newest.number:
        what = f"the row of the timeline of {name.name!r} is missing or damaged"
        raise DamagedRow(what)

    remembered = transaction.recall(name.name)
    known = None if remembered is None else remembered.timeline
    if known is not None and known.row == row:
        return known, {}

    revisions = {each.number: each for each in transaction.iterate_revisions(name)}
    low, high = key_range(name.number)
    rows = transaction.iterate_rows("moments", low=low, high=high)
    moments = list(map(MomentRow._make, rows))
    expected = list(range(low + row.oldest, low + row.oldest + row.length))
    if (
        [each.moment for each in moments] != expected
        or not all(map(is_sealed, moments))
        or not revisions.keys() >= {each.revision for each in moments}
        or not 0 <= row.present - row.oldest < row.length
    ):
        what = f"a moment of the timeline of {name.name!r} is missing or damaged"
        raise DamagedRow(what)

    digests = {m.number: (m, revisions[m.revision].digest) for m in moments}
    return StoredTimeline(row, pmap(digests), None), revisions


def _list_changed(timeline: States, stored: StoredTimeline) -> dict[int, bytes]:
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
        row, before = stored.moments.get(moment.number, (None, b""))
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


def _compute_digest(state: object) -> bytes:
    if not isinstance(state, Aggregator):
        raise TypeError(
            f"timeline: a state is {describe_type(state)}; a store keeps timelines "
            "of Aggregators"
        )

    entries, ledger = ENTRIES.digest(state.entries), LEDGER.digest(state.ledger)
    return state_digest(entries, ledger, Origin.of(state).digest())


def _holds_all(
    timeline: States, stored: StoredTimeline, changed: Mapping[int, bytes]
) -> bool:
    """Whether a timeline has every saved moment but those it has forgotten."""
    end = timeline.moments[0].number + len(timeline.moments)
    return end >= stored.row.oldest + stored.row.length and not any(
        number in stored.moments for number in changed
    )


# Loading


def load_timeline(transaction: Transaction, text: str) -> States:
    transaction.catch_up()
    name = transaction.get_name(text)
    newest = transaction.get_revision(name, None)
    if not name.is_timeline:
        return _load_history(transaction, name)

    stored, revisions = _read_stored(transaction, name, newest)
    if stored.timeline is not None:
        return stored.timeline

    row = stored.row
    moments = [moment for _, (moment, _) in sorted(stored.moments.items())]
    # Backwards, because a state's log is the beginning of the logs of later moments,
    # which are read by then.
    states = read_states(
        transaction,
        name,
        [(m.number, m.parent - 1, revisions[m.revision]) for m in moments[::-1]],
    )
    with reading_rows():
        timeline = Timeline.rebuild(
            moments=[
                Moment(
                    each.number,
                    states[each.number].state,
                    each.label.decode(),
                    each.step_group.decode() or None,
                    each.parent - 1 if each.parent else None,
                    unpack_notes(each.note),
                )
                for each in moments
            ],
            present=row.present,
            redo={each.number: each.redo - 1 for each in moments if each.redo},
            limit=row.max_moments or None,
        )

    # After an undo the head is another revision than its moment's.
    head = read_state(transaction, name, newest, [states[row.present]])
    stored = stored._replace(timeline=timeline)
    transaction.learned[text] = head._replace(timeline=stored)
    return timeline


def _load_history(transaction: Transaction, name: Name) -> States:
    """A history as a timeline: each revision a moment, on the one it grew from."""
    revisions = list(transaction.iterate_revisions(name))
    states = read_states(
        transaction,
        name,
        [(each.number, each.parent, each) for each in revisions[::-1]],
    )
    first, *later = revisions
    timeline = Timeline.begin(states[first.number].state)
    moments = {first.number: timeline.moment.number}
    for each in later:
        state, on = states[each.number].state, moments.get(each.parent, 0)
        timeline = timeline.commit(state, on=on)
        moments[each.number] = timeline.moment.number

    return timeline
