"""
Segments in: logs that share what they were written to share.

A segment goes on from a *place*, a segment before it and a length, and so do
states. Everything here costs what the segments hold, however often they are
gone on from, and nothing calls itself: a document may have a million segments,
each on top of the one before.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import Log
from conversation_state.aggregator._entries import Ledger
from conversation_state.codec._problems import At
from conversation_state.codec._reading import Reader
from conversation_state.errors import InvalidUsageError

__all__ = ["Logs", "Place", "Segment", "place_in"]

# The number of a segment, and a length: all it goes on from, and so much of it.
Place: TypeAlias = "tuple[int, int]"

_id_of = itemgetter(0)
_NOTHING: Log[Any] = Log()


def place_in(reader: Reader, raw: Any, at: At) -> Place | None:
    """
    A place, wherever it is.
    """
    if raw.__class__ is not list or len(raw) != 2:  # noqa: PLR2004 - a pair
        reader.expected("the number of a segment and a length", raw, at)
        return None

    number, length = [reader.integer(each, (at, i)) for i, each in enumerate(raw)]
    return None if number is None or length is None else (number, length)


class Segment(NamedTuple):
    """
    What a log has beyond the place it goes on from.

    Attributes:
        after: The place; None for the beginning.

        items: Entries, or what was spent; at least one.
    """

    after: Place | None
    items: list[Any]


class Logs:
    """
    All logs of one kind in a timeline, while they are read.
    """

    def __init__(
        self, reader: Reader, segments: list[Segment | None] | None, at: At
    ) -> None:
        self._reader = reader
        self._at = at
        self._are_known = segments is not None
        # Where each begins and ends; None if that can't be told.
        self._spans: list[tuple[int, int] | None] = []
        self._wanted: list[set[int]] = []
        self._made: list[dict[int, Log[Any]]] = []
        for number, segment in enumerate(segments or ()):
            self._wanted.append(set())
            self._spans.append(self._span(number, segment))

        # Nothing is looked into further unless all of it can be told.
        spans = [span for span in self._spans if span]
        self._whole = [each for each in segments or () if each]
        if len(spans) < len(self._spans):
            self._whole = []

        self._starts = [start for start, _ in spans]

    def _span(self, number: int, segment: Segment | None) -> tuple[int, int] | None:
        if segment is None:
            return None

        start = 0
        if segment.after is not None:
            start = segment.after[1]
            if not self.has(segment.after, ((self._at, number), "after")):
                return None

        return start, start + len(segment.items)

    def has(self, place: Place, at: At) -> bool:
        """
        Whether there is such a *place* in what came before; adds it to the
        problems if there can't be.
        """
        number, length = place
        if not self._are_known:
            return False

        if not 0 <= number < len(self._spans):
            last = len(self._spans) - 1
            there = f"those before it are 0 to {last}" if last >= 0 else "it is first"
            self._reader.problems.add(at, f"there is no segment {number}; {there}")
            return False

        span = self._spans[number]
        if span is None:
            return False

        start, end = span
        if not start < length <= end:
            what = f"segment {number} has lengths {start + 1} to {end}, not {length}"
            self._reader.problems.add(at, what)
            return False

        self._wanted[number].add(length)
        return True

    def check_once(self, field: str) -> None:
        """
        Add each identity that is in one log more than once; *field* is where
        they are.
        """
        ids = [list(map(_id_of, each.items)) for each in self._whole]
        if len({*chain.from_iterable(ids)}) < sum(map(len, ids)):
            self._check_paths(ids, field)

    def _check_paths(self, ids: list[list[str]], field: str) -> None:
        """
        The same, where some are in several logs, which is fine, or twice in
        one.

        Walks down every segment once, and from each place into those that go
        on from there, with what was seen on the way.
        """
        onward: list[list[tuple[int, int]]] = [[] for _ in ids]
        roots = []
        for number, segment in enumerate(self._whole):
            if segment.after is None:
                roots.append(number)
            else:
                onward[segment.after[0]].append((segment.after[1], number))

        for parting in onward:
            parting.sort(reverse=True)  # the first is taken from the end

        seen: dict[str, tuple[int, int]] = {}
        walked = [0] * len(ids)
        way = []
        for root in roots:
            way.append(root)
            while way:
                number = way[-1]
                at, parting = walked[number], onward[number]
                if parting and parting[-1][0] == self._starts[number] + at:
                    way.append(parting.pop()[1])
                elif at < len(ids[number]):
                    self._see(ids[number][at], (number, at), seen, field)
                    walked[number] += 1
                else:
                    way.pop()
                    for i, id in enumerate(ids[number]):
                        if seen.get(id) == (number, i):
                            del seen[id]

    def _see(
        self,
        id: str,
        place: tuple[int, int],
        seen: dict[str, tuple[int, int]],
        field: str,
    ) -> None:
        first = seen.setdefault(id, place)
        if first == place:
            return

        ledger = field == "entries"
        number, i = place
        at: At = (((self._at, number), field), i)
        what = f"the same as at {first[1]} of segment {first[0]}"
        self._reader.problems.add((at, "id") if ledger else at, what)

    def check_sums(self) -> None:
        """
        Add each ledger that adds up to more than can be counted.
        """
        for start, segment, wanted in zip(
            self._starts, self._whole, self._wanted, strict=False
        ):
            wanted.add(start + len(segment.items))

        self.make()
        failed: set[int] = set()
        for number, segment in enumerate(self._whole):
            if segment.after and segment.after[0] in failed:
                failed.add(number)
                continue

            try:
                Ledger.of(self._made[number][max(self._made[number])])
            except InvalidUsageError as error:
                failed.add(number)
                self._reader.problems.add(((self._at, number), "entries"), str(error))

    def make(self) -> None:
        """
        Make what was asked for with `has`.
        """
        self._made = []
        for start, segment, wanted in zip(
            self._starts, self._whole, self._wanted, strict=False
        ):
            log, made = self.log(segment.after), {}
            for length in sorted(wanted):
                log = log.extend(segment.items[len(log) - start : length - start])
                made[length] = log

            self._made.append(made)

    def log(self, place: Place | None) -> Log[Any]:
        """
        The log that ends at *place*.
        """
        return _NOTHING if place is None else self._made[place[0]][place[1]]
