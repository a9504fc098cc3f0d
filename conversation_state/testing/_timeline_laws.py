"""
What is true of every timeline and every message tree; part of `laws`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from conversation_state.aggregator import Aggregator
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

S = TypeVar("S")


def timelines_add_up(timeline: Timeline[Any]) -> None:
    """
    The moments are numbered in the order of their commits, parents come before
    their children, and all that a timeline returns of its tree is of the same
    tree.
    """
    kept = list(timeline.moments)
    numbers = [moment.number for moment in kept]
    first = numbers[0]

    assert numbers == list(range(first, first + len(kept))), "numbers have gaps"
    for moment in kept:
        parent = moment.parent
        assert (parent is None) == (moment.number == 0), "another first moment"
        assert parent is None or 0 <= parent < moment.number, "a parent came later"

    present = timeline.moment
    assert present is kept[present.number - first], "the present is not kept"
    assert timeline.present is present.state, "the present state is another"
    # A commit that stays does not push the present out; only the next commit does.
    # There is no filter, because one may refuse a state that is equal to the present.
    if timeline.limit is not None and len(kept) > timeline.limit:
        later = timeline.with_filter(None).commit(present.state, "on")
        assert len(later.moments) <= timeline.limit, "kept too many"

    path = timeline.path
    assert path[-1] is present, "the path leads elsewhere"
    top = path[0].parent
    # If the limit has forgotten the moments above, a path begins below them.
    assert top is None or top < first, "the path begins too late"
    for above, below in pairwise(path):
        assert below.parent == above.number, "the path leaves the tree"
        assert timeline.goto(above).redo().moment is below, "redo goes elsewhere"

    parents = {moment.parent for moment in kept}
    tips = [moment for moment in kept if moment.number not in parents]
    assert tips == list(timeline.tips), "the tips are others"
    ahead = [moment for moment in kept if moment.parent == present.number]
    assert ahead == list(timeline.children()), "the children are others"
    assert timeline.can_redo == bool(ahead), "redo does not say where it goes"
    assert timeline.can_undo == (len(path) > 1), "undo does not say where it goes"


def undo_then_redo_is_the_identity(timeline: Timeline[Any]) -> None:
    """
    Redo after undo returns to the same moment; undoing nothing changes nothing.
    """
    undone = timeline.undo()
    if not timeline.can_undo:
        assert undone is timeline, "undid what is not there"
        return

    assert undone.moment.number == timeline.moment.parent, "undid something else"
    assert undone.redo() == timeline, f"{undone!r} redoes something else"


def redo_then_undo_is_the_identity(timeline: Timeline[Any]) -> None:
    """
    Undo after redo returns to the same moment; redoing nothing changes nothing.
    """
    redone = timeline.redo()
    if not timeline.can_redo:
        assert redone is timeline, "redid what is not there"
        return

    assert redone.moment in timeline.children(), "redid something else"
    assert redone.undo() == timeline, f"{redone!r} undoes something else"


def nothing_committed_is_lost(timeline: Timeline[S], states: Iterable[S]) -> None:
    """
    Without a limit, a commit on any moment keeps all moments, in their places.
    """
    assert timeline.limit is None, "a limit is for losing something"
    before = list(timeline.moments)
    for state in states:
        timeline = timeline.undo().commit(state, "new")
        kept = list(timeline.moments)

        assert kept[:-1] == before, "something is lost"
        assert kept[-1].state is state, "something else was committed"
        assert timeline.goto(before[0]).present is before[0].state, "can't go back"
        before = kept


def goto_changes_no_moments(timeline: Timeline[Any], number: int) -> None:
    """
    Going to any moment changes no moments, and going back from there restores the
    present and its path.
    """
    there = timeline.goto(number)
    back = there.goto(timeline.moment)

    assert there.moment.number == number, "went elsewhere"
    assert there.moments == timeline.moments, "going changes what is kept"
    assert back.moments == timeline.moments, "going changes what is kept"
    assert back.present is timeline.present, "came back to something else"
    assert back.path == timeline.path, "came back another way"
    assert back.goto(number) == there, "going again goes elsewhere"


@contextmanager
def timelines_unchanged(*timelines: Timeline[Any]) -> Generator[None, None, None]:
    """
    A context in which *timelines* do not change.
    """
    before = [_comparable_state(timeline) for timeline in timelines]
    yield
    for timeline, expected in zip(timelines, before, strict=True):
        assert _comparable_state(timeline) == expected, f"{timeline!r} was changed"


def _comparable_state(timeline: Timeline[Any]) -> tuple[Any, ...]:
    ways = [timeline.goto(moment).redo().moment.number for moment in timeline.moments]
    # Compared field by field: a moment that was changed in place is equal to itself.
    moments = [
        (each.number, each.state, each.label, each.group, each.parent)
        for each in timeline.moments
    ]
    return moments, timeline.moment.number, ways, timeline.limit


def message_trees_add_up(tree: MessageTree) -> None:
    """
    Every message is listed once, after its parent and among its siblings; each path
    ends with its message and has the whole ledger; switching shows the message.
    """
    nodes = {node.id: node for node in tree.nodes}
    recorded = [entry for state in tree.states for entry in state.ledger]
    seen: set[str | None] = {None}
    for node in tree.nodes:
        assert node.parent in seen, "a parent came later"
        seen.add(node.id)
        position, ids = tree.siblings(node.id)
        assert ids[position] == node.id, "another position"
        assert len({*ids}) == len(ids), "a sibling twice"
        if node.parent is not None:
            assert nodes[node.parent].children == ids, "other siblings"

        path = tree.path(node.id)
        assert path.entries[-1].id == node.id, "a path leads elsewhere"
        assert path[-1] == node.message, "another message"
        # Where two states recorded different usages under one key, each keeps its own.
        keys = {entry.id for entry in path.ledger}
        assert {entry.id for entry in recorded} == keys, "another bill"
        assert {*recorded}.issuperset(path.ledger), "usage that no state recorded"
        switched = tree.switch(node.id)
        shown = [entry.id for entry in switched.present.entries]
        assert node.id in shown, "it is not shown"
        assert switched.head == shown[-1], "the head is not last"

    assert len(nodes) == len(tree) == len(tree.nodes), "a message twice"
    leaves = [each for each in nodes if not nodes[each].children]
    assert leaves == list(tree.leaves), "other leaves"
    assert (tree.head is None) == (len(tree.present) == 0), "a head without messages"


def paths_lead_to_states(*states: Aggregator) -> None:
    """
    Of states made by ``add``, ``fork``, ``rollback`` and ``before``, the path of each
    one's last entry has that state's messages, and no entry stands behind several.
    """
    tree = MessageTree.of(*states)
    message_trees_add_up(tree)
    assert not tree.joined, "an entry stands behind several"
    for state in states:
        last = state.entries[-1].id if len(state) else None
        assert tree.path(last).entries == state.entries, f"not the path of {state!r}"
        assert tree.add(state).present.entries == state.entries, "it is not shown"

    assert tree.present.entries == states[-1].entries, "the last state is not shown"
