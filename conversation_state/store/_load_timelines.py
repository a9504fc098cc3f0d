"""
Loading timelines: the moments of a name, and what was saved under it since.

What lives here: the rows of a timeline, checked, and the timeline they are. What does
not: saving (`_timelines`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from conversation_state._persistent.maps import pmap
from conversation_state.aggregator import Aggregator
from conversation_state.store._load import read_state
from conversation_state.store._memory import RememberedHead, RememberedTimeline
from conversation_state.store._read_rows import (
    damage_error,
    iterate_rows,
    read_revision,
)
from conversation_state.store._transaction import Transaction
from conversation_state.store.schema import (
    SHIFT,
    MomentRow,
    Name,
    Revision,
    TimelineRow,
    is_sealed,
)
from conversation_state.timeline import Moment, Timeline

__all__ = [
    "States",
    "iterate_moments",
    "load_timeline",
    "read_revisions",
    "read_timeline_row",
]

States: TypeAlias = "Timeline[Aggregator]"


def load_timeline(transaction: Transaction, text: str) -> States:
    """
    What `Store.load_timeline` does.
    """
    transaction.catch_up()
    name = transaction.get_name(text)
    newest = transaction.get_revision(name, None)
    row = read_timeline_row(transaction, name)
    remembered = transaction.recall_timeline(text)
    is_newest = row is not None and row.revision == newest.number
    if remembered is not None and remembered.row == row and is_newest:
        return remembered.timeline

    moments = list(iterate_moments(transaction, name, row))
    revisions = read_revisions(transaction, name)
    states = _read_states(transaction, name, moments, revisions)
    timeline: States | None = None
    if row is not None:
        timeline = Timeline.rebuild(
            moments=[
                Moment(
                    each.number,
                    states[each.number],
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
        if is_newest:
            found = pmap({each.number: each for each in moments})
            transaction.remember_timeline(
                text, RememberedTimeline(row, timeline, found)
            )
            return timeline

    last = 0 if row is None else row.revision
    later = [each for number, each in revisions.items() if number > last]
    places = _find_places(row, moments, revisions)
    return _add_later(transaction, name, timeline, later, places)


def _find_places(
    row: TimelineRow | None, moments: list[MomentRow], revisions: Mapping[int, Revision]
) -> dict[int, int]:
    """
    The numbers of the moments whose states the revisions are, by revision: of what a
    moment was saved as, and of what was saved where the present went back to it.
    """
    places = {each.revision: each.number for each in moments}
    by_digest = {revisions[each.revision].digest: each.number for each in moments}
    for number, each in revisions.items():
        if row is None or number > row.revision or number in places:
            continue

        past = revisions.get(each.parent)
        if past is not None and past.digest == each.digest and past.number in places:
            places[number] = places[past.number]
        elif each.digest in by_digest:
            places[number] = by_digest[each.digest]

    if row is not None:
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
            # If the parent is a forgotten moment, or there is none, the oldest moment
            # is the parent.
            oldest = timeline.moments[0].number
            on = max(places.get(revision.parent, oldest), oldest)
            timeline = timeline.commit(state, on=on)

        places[revision.number] = timeline.moment.number

    if timeline is None:
        raise damage_error(transaction.url, f"{name.name!r} has no revisions")

    return timeline


def _read_states(
    transaction: Transaction,
    name: Name,
    moments: list[MomentRow],
    revisions: Mapping[int, Revision],
) -> dict[int, Aggregator]:
    """
    The state of each moment, by its number.
    """
    found: dict[int, RememberedHead] = {}
    children: dict[int, int] = {}
    states: dict[int, Aggregator] = {}
    last: RememberedHead | None = None
    # The moments are read backwards, because a state's log is the beginning of the logs
    # of later moments, which are read by then.
    for row in reversed(moments):
        child = children.get(row.number)
        near = [found[child]] if child is not None else []
        if last is not None and (not near or near[0] is not last):
            near.append(last)

        last = read_state(transaction, name, revisions[row.revision], near)
        found[row.number] = last
        states[row.number] = last.state
        if row.parent:
            children[row.parent - 1] = row.number

    return states


def read_timeline_row(transaction: Transaction, name: Name) -> TimelineRow | None:
    found = transaction.tables.get("timelines", name.number)
    if found is None:
        return None

    row = TimelineRow._make(found)
    if not is_sealed(row):
        what = f"the timeline of {name.name!r} is not what was written"
        raise damage_error(transaction.url, what)

    return row


def iterate_moments(
    transaction: Transaction, name: Name, row: TimelineRow | None
) -> Iterator[MomentRow]:
    """
    The moments of a timeline, in order.

    Raises:
        StoreError:
            If one is missing or not what was written.
    """
    if row is None:
        low, high = name.number << SHIFT, (name.number + 1) << SHIFT
        if transaction.tables.scan("moments", low, high, limit=1):
            what = f"{name.name!r} has moments, and no timeline"
            raise damage_error(transaction.url, what)

        return

    expected = name.number << SHIFT | row.oldest
    low, high = name.number << SHIFT, (name.number + 1) << SHIFT
    for each in map(
        MomentRow._make, iterate_rows(transaction.tables, "moments", low=low, high=high)
    ):
        if each.moment != expected or not is_sealed(each):
            break

        expected += 1
        yield each

    if expected != (name.number << SHIFT | row.oldest) + row.length:
        what = f"a moment of the timeline of {name.name!r} is missing or damaged"
        raise damage_error(transaction.url, what)


def read_revisions(transaction: Transaction, name: Name) -> dict[int, Revision]:
    """
    All revisions of a name, by their numbers.
    """
    low, high = name.number << SHIFT, (name.number + 1) << SHIFT
    rows = iterate_rows(transaction.tables, "revisions", low=low, high=high)
    revisions = [read_revision(row, transaction.url) for row in rows]
    return {each.number: each for each in revisions}
