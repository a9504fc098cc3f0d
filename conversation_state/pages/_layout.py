"""
Where the states of a tree stand in its drawing: rows and lanes.

Newest on top, one lane a branch, the way to the present state in the first lane.
Pure: what a state is, and how a row looks, is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

# Further branches share the last lane; a page is not wider than this.
MAX_LANES = 24
# Fewer states in a row are shown each.
_SHORTEST_FOLD = 4


class GraphNode(NamedTuple):
    key: Hashable  # what no other node has
    # The keys of the states it grew from, the own past first; those that are in no node
    # are left out of the drawing.
    parents: tuple[Hashable, ...]
    # What it is called: "revision 3". Never from a conversation.
    title: str
    excerpt: str = ""  # the beginning of its newest message
    role: str = ""  # whose message that is; "" without a message
    labels: tuple[str, ...] = ()
    facts: str = ""  # more about it: "12 messages"
    is_present: bool = False  # whether it is the present state
    target: str = ""  # the address of what shows it; "" if nothing does
    is_selected: bool = False  # whether it is the one that is shown
    # The address of its difference to the one that is shown; "" if nothing shows it.
    comparison: str = ""
    is_compared: bool = False  # whether that is shown


class Fold(NamedTuple):
    """States that are shown as one row: a run without forks, joins and labels."""

    key: Hashable  # the newest one's
    parents: tuple[Hashable, ...]  # the oldest one's
    nodes: tuple[GraphNode, ...]  # all of them, the newest first


class GraphRow(NamedTuple):
    node: GraphNode | Fold  # what stands in it
    lane: int  # in which lane, from 0 on
    above: tuple[int, ...]  # the lanes whose lines end here, from the row above
    below: tuple[int, ...]  # the lanes of the lines that begin here, to the row below
    passing: tuple[int, ...]  # the lanes whose lines go through, in order


def fold_runs(nodes: Sequence[GraphNode]) -> list[GraphNode | Fold]:
    """
    *nodes*, oldest first, with a `Fold` for each run of states that have one
    parent and one child, no label, and are not the present one. O(n).

    The first state behind a fork and the last one of a branch stay as they are.
    """
    known = {node.key for node in nodes}
    children = Counter(
        [parent for node in nodes for parent in node.parents if parent in known]
    )
    runs: dict[Hashable, list[GraphNode]] = {}  # by the newest one's key
    inner: set[Hashable] = set()
    for node in nodes:
        parent = node.parents[0] if len(node.parents) == 1 else None
        is_marked = node.is_present or node.is_selected or node.is_compared
        # With more children than one, a state is the first of its branch.
        if (
            parent not in known
            or children[parent] > 1
            or children[node.key] != 1
            or node.labels
            or is_marked
        ):
            continue

        run = runs.pop(parent, [])
        run.append(node)
        runs[node.key] = run

    for run in runs.values():
        if len(run) >= _SHORTEST_FOLD:
            inner.update([node.key for node in run])

    folded: list[GraphNode | Fold] = []
    for node in nodes:
        if node.key not in inner:
            folded.append(node)
        elif node.key in runs:
            run = runs[node.key]
            folded.append(Fold(node.key, run[0].parents, tuple(reversed(run))))

    return folded


def lay_out(nodes: Sequence[GraphNode | Fold]) -> Iterator[GraphRow]:
    """
    The rows of a drawing, newest on top, of *nodes*, oldest first: parents come
    before their children.

    A line stays in its lane until the row of the parent it leads to; two lines
    share a lane only on their way to one parent. So no two cross in a lane, but
    in the last one of `MAX_LANES`. O(lanes) for each row.
    """
    lanes = _Lanes(nodes)
    return map(lanes.place, reversed(nodes))


class _Lanes:
    def __init__(self, nodes: Sequence[GraphNode | Fold]) -> None:
        self._nodes = nodes
        self._known = {node.key for node in nodes}
        self._main = self._find_main()
        # By the key of a parent, the lanes of the lines that lead to it.
        self._waiting: dict[Hashable, list[int]] = {}
        self._free: list[int] = []
        self._next = 1 if self._main else 0
        # How many lines are in each lane of the drawing.
        self._drawn: Counter[int] = Counter()

    def _find_main(self) -> set[Hashable]:
        """The present state and those on the way to it, which stay in lane 0."""
        main: set[Hashable] = set()
        wanted: Hashable | None = None
        for node in reversed(self._nodes):
            is_present = isinstance(node, GraphNode) and node.is_present
            if (not main and is_present) or (main and node.key == wanted):
                main.add(node.key)
                wanted = next(iter(self._list_parents(node)), None)

        return main

    def _list_parents(self, node: GraphNode | Fold) -> list[Hashable]:
        return [each for each in dict.fromkeys(node.parents) if each in self._known]

    def place(self, node: GraphNode | Fold) -> GraphRow:
        above = self._waiting.pop(node.key, [])
        for each in above:
            shown = _clamp_lane(each)
            self._drawn[shown] -= 1
            if not self._drawn[shown]:
                del self._drawn[shown]

        if node.key in self._main:
            lane = 0
        elif above:
            lane = above[-1]
        else:
            lane = self._take_lane()

        for each in above:
            if each != lane:
                self._give_back(each)

        passing = tuple(sorted(self._drawn))
        below = [
            self._begin_line(lane, parent, is_own=number == 0)
            for number, parent in enumerate(self._list_parents(node))
        ]
        if lane not in below:
            self._give_back(lane)

        return GraphRow(
            node, _clamp_lane(lane), _sort_lanes(above), _sort_lanes(below), passing
        )

    def _begin_line(self, lane: int, parent: Hashable, *, is_own: bool) -> int:
        lanes = self._waiting.setdefault(parent, [])
        # Each is to the left of those before it.
        if lanes and (lanes[-1] < lane or not is_own):
            return lanes[-1]

        chosen = lane if is_own else self._take_lane()
        lanes.append(chosen)
        self._drawn[_clamp_lane(chosen)] += 1
        return chosen

    def _take_lane(self) -> int:
        # The leftmost one, so that a drawing is as narrow as it can be.
        if self._free:
            return heappop(self._free)

        self._next += 1
        return self._next - 1

    def _give_back(self, lane: int) -> None:
        # Lane 0 is kept for the way to the present state, also above and below it.
        if lane or not self._main:
            heappush(self._free, lane)


def _clamp_lane(lane: int) -> int:
    return min(lane, MAX_LANES - 1)


def _sort_lanes(lanes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({_clamp_lane(lane) for lane in lanes}))
