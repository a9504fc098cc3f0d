"""
Where the states of a tree stand in its drawing: rows and lanes.

Newest on top, one lane a branch, the way to the present state in the first lane.
Pure: what a state is, and how a row looks, is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
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
    saved_at: datetime | None = None  # when it was saved
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

    A line stays in its lane until the row of the parent it leads to, or until it meets
    another line to that parent. Lines that end sooner are nearer to the first lane, so
    that those within others do not cross them. No two are in one lane, but in the last
    one of `MAX_LANES`. O(nodes · lanes).
    """
    return _Lanes(nodes).place_all()


class _Line:
    """A line of the drawing: the rows it is in, and then its lane."""

    __slots__ = ("end", "lane", "start")

    def __init__(self, start: int, lane: int = -1) -> None:
        self.start = self.end = start
        self.lane = lane


class _PlacedNode(NamedTuple):
    node: GraphNode | Fold
    own: _Line
    above: list[_Line]
    below: list[_Line]


class _Lanes:
    def __init__(self, nodes: Sequence[GraphNode | Fold]) -> None:
        self._nodes = nodes
        self._known = {node.key for node in nodes}
        self._main_keys = self._find_main()
        self._main = _Line(0, 0)
        # By the key of a parent, the lines that lead to it: the one to the present
        # state has a lane of its own.
        self._waiting: dict[Hashable, list[_Line]] = {}
        self._lines: list[_Line] = []

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

    def place_all(self) -> Iterator[GraphRow]:
        placed = [
            self._place_node(number, node)
            for number, node in enumerate(reversed(self._nodes))
        ]
        self._choose_lanes()
        open_lines: set[_Line] = set()
        counts: Counter[int] = Counter()  # how many of them are in each lane
        for each in placed:
            for line in each.above:
                open_lines.remove(line)
                counts[line.lane] -= 1
                if not counts[line.lane]:
                    del counts[line.lane]

            passing = tuple(sorted(counts))
            for line in each.below:
                if line not in open_lines:
                    open_lines.add(line)
                    counts[line.lane] += 1

            above, below = _list_lanes(each.above), _list_lanes(each.below)
            yield GraphRow(each.node, each.own.lane, above, below, passing)

    def _place_node(self, row: int, node: GraphNode | Fold) -> _PlacedNode:
        above = self._waiting.pop(node.key, [])
        for each in above:
            each.end = row

        if node.key in self._main_keys:
            own = self._main
        else:
            own = above[-1] if above else self._add_line(row)

        below = [
            self._lead_to(parent, own if number == 0 else None, row)
            for number, parent in enumerate(self._list_parents(node))
        ]
        own.end = row
        return _PlacedNode(node, own, above, below)

    def _lead_to(self, parent: Hashable, own: _Line | None, row: int) -> _Line:
        lines = self._waiting.setdefault(parent, [])
        # Only the line of the present state stays apart from those that lead there.
        if lines and own is not self._main:
            return lines[-1]

        line = own or self._add_line(row)
        lines.append(line)
        return line

    def _add_line(self, row: int) -> _Line:
        line = _Line(row)
        self._lines.append(line)
        return line

    def _choose_lanes(self) -> None:
        first = 1 if self._main_keys else 0
        # By lane, the rows in which it is taken, in order.
        taken: list[list[tuple[int, int]]] = [[] for _ in range(MAX_LANES - 1 - first)]
        for line in sorted(self._lines, key=lambda one: (one.end, one.start)):
            line.lane = MAX_LANES - 1
            for lane, rows in enumerate(taken):
                # Those before end sooner, so that only the last ones can overlap.
                if not rows or rows[-1][1] < line.start:
                    rows.append((line.start, line.end))
                    line.lane = first + lane
                    break


def _list_lanes(lines: Iterable[_Line]) -> tuple[int, ...]:
    return tuple(sorted({line.lane for line in lines}))
