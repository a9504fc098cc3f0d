"""
Rows: two sides put beside each other, in order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from conversation_state.aggregator import Entry
from conversation_state.diffing._parting import Pair, Parting

__all__ = ["APART", "BOTH", "CHANGED", "SAME", "Row", "rows"]

# What the two of a row are to each other.
APART, SAME, BOTH, CHANGED = "apart", "same", "both", "changed"


class Row(NamedTuple):
    """
    What one side has, and what the other has beside it.

    Attributes:
        a: An entry of *a*, or None.

        b: An entry of *b*, or None.

        kind: What they are to each other: entries of their own, ``apart``; two
            that say the ``same``; one that ``both`` have; or one under whose
            identity both have something, ``changed``.

        a_met: What the entry of *a* is to one of *b* in another place; "" if
            there is none.

        b_met: The same for the entry of *b*.
    """

    a: Entry | None
    b: Entry | None
    kind: str = APART
    a_met: str = ""
    b_met: str = ""


def rows(parting: Parting[Entry], same: Sequence[Pair[Entry]]) -> Iterator[Row]:
    """
    Everything both sides have since they parted, each entry once a side.

    Both orders are kept. As many pairs as that allows stand in one row; what
    is between them stands beside what is between them on the other side.

    O(k log k) for k pairs before the first row, and lazy from there on.
    """
    a, b = parting.rest_a, parting.rest_b
    pairs = [(pair, _kind(pair)) for pair in parting.both]
    pairs += [(pair, SAME) for pair in same]
    met: dict[str, str] = {}
    anchors: list[tuple[int, int, str]] = []
    if pairs:
        in_a = {entry.id: at for at, entry in enumerate(a)}
        in_b = {entry.id: at for at, entry in enumerate(b)}
        found = [(in_a[pair.a.id], in_b[pair.b.id], kind) for pair, kind in pairs]
        anchors = _in_order(sorted(found))
        for pair, kind in pairs:
            met[pair.a.id] = met[pair.b.id] = kind

    at_a = at_b = 0
    for to_a, to_b, kind in (*anchors, (len(a), len(b), "")):
        gap = zip_longest(_between(a, at_a, to_a), _between(b, at_b, to_b))
        for ours, theirs in gap:
            yield Row(ours, theirs, APART, _met(met, ours), _met(met, theirs))

        if kind:
            yield Row(a[to_a], b[to_b], kind)

        at_a, at_b = to_a + 1, to_b + 1


def _kind(pair: Pair[Entry]) -> str:
    return BOTH if pair.a == pair.b else CHANGED


def _between(
    entries: tuple[Entry, ...], start: int, stop: int
) -> Iterator[Entry | None]:
    return map(entries.__getitem__, range(start, stop))


def _met(met: dict[str, str], entry: Entry | None) -> str:
    return met.get(entry.id, "") if met and entry is not None else ""


def _in_order(found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """
    The most of *found*, sorted by the first, that is sorted by the second.
    """
    # The longest increasing subsequence: `ends` has, for each length, the
    # lowest second number that one of that length can end with.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, second, _) in enumerate(found):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [at]

    chosen = []
    at = last[-1] if last else -1
    while at >= 0:
        chosen.append(found[at])
        at = before[at]

    return chosen[::-1]
