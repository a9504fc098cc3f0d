"""
Reads the segments of a timeline's logs, which share what they have in common.

A segment continues a *place*, an earlier segment and a length; a state is a place.
Everything here is linear in the items of the segments, however often a segment is
continued, and nothing is recursive: a document may have a million segments, each
of which continues the one before.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from conversation_state._canonical import JsonPath
from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.codec._reader import CodecReader
from conversation_state.errors import InvalidUsageError

# The number of a segment, and the length of a log that ends in it.
Place: TypeAlias = "tuple[int, int]"

_id_of = itemgetter(0)
_EMPTY_LOG: Log[Any] = Log()
_NIL = UUID(int=0)


def read_pair(
    reader: CodecReader, raw: Any, path: JsonPath, what: str
) -> tuple[int, int] | None:
    """
    Two integers, a `Place` for example; *what* they are is for errors.
    """
    if raw.__class__ is not list or len(raw) != 2:  # noqa: PLR2004 - a pair
        reader.add_mismatch(what, raw, path)
        return None

    first, second = [reader.integer(each, (path, i)) for i, each in enumerate(raw)]
    return first, second


class DecodedSegment(NamedTuple):
    """
    The items of a log beyond the place it continues.

    Attributes:
        after: The place; None for the beginning.

        items: Entries or ledger entries; at least one.
    """

    after: Place | None
    items: list[Any]


class SegmentedLogs:
    """
    All logs of one kind in a timeline, while they are read.
    """

    def __init__(
        self,
        reader: CodecReader,
        segments: list[DecodedSegment | None] | None,
        path: JsonPath,
    ) -> None:
        self._reader = reader
        self._at = path
        self._are_readable = segments is not None
        # The start and end of each; None if it is invalid.
        self._spans: list[tuple[int, int] | None] = []
        self._requested: list[set[int]] = []
        self._built: list[dict[int, Log[Any]]] = []
        for number, segment in enumerate(segments or ()):
            self._requested.append(set())
            self._spans.append(self._find_span(number, segment))

        # Further checks need all of them.
        spans = [span for span in self._spans if span]
        self._segments = [each for each in segments or () if each]
        if len(spans) < len(self._spans):
            self._segments = []

        self._starts = [start for start, _ in spans]

    def _find_span(
        self, number: int, segment: DecodedSegment | None
    ) -> tuple[int, int] | None:
        if segment is None:
            return None

        start = 0
        if segment.after is not None:
            start = segment.after[1]
            if not self.check_place(segment.after, ((self._at, number), "after")):
                return None

        return start, start + len(segment.items)

    def check_place(self, place: Place, path: JsonPath) -> bool:
        """
        Whether *place* is in an earlier segment; adds a problem if it can't be.
        """
        number, length = place
        if not self._are_readable:
            return False

        if not 0 <= number < len(self._spans):
            last = len(self._spans) - 1
            there = f"those before it are 0 to {last}" if last >= 0 else "it is first"
            self._reader.problems.add(path, f"unknown segment {number}; {there}")
            return False

        span = self._spans[number]
        if span is None:
            return False

        start, end = span
        if not start < length <= end:
            what = f"segment {number} has lengths {start + 1} to {end}, not {length}"
            self._reader.problems.add(path, what)
            return False

        self._requested[number].add(length)
        return True

    def check_unique_ids(self, field: str) -> None:
        """
        Add each repeated identity of a log as a problem; *field* names their field.
        """
        ids = [list(map(_id_of, each.items)) for each in self._segments]
        if len({*chain.from_iterable(ids)}) < sum(map(len, ids)):
            self._check_unique_along_paths(ids, field)

    def _check_unique_along_paths(self, ids: list[list[str]], field: str) -> None:
        """
        The same where some are in several logs, which is valid, or twice in one.

        Walks each segment once, and from each place into the segments that
        continue it, with the identities seen on the way.
        """
        onward: list[list[tuple[int, int]]] = [[] for _ in ids]
        roots = []
        for number, segment in enumerate(self._segments):
            if segment.after is None:
                roots.append(number)
            else:
                onward[segment.after[0]].append((segment.after[1], number))

        for branches in onward:
            branches.sort(reverse=True)  # the first is taken from the end

        seen: dict[str, tuple[int, int]] = {}
        walked = [0] * len(ids)
        way = []
        for root in roots:
            way.append(root)
            while way:
                number = way[-1]
                position, branches = walked[number], onward[number]
                if branches and branches[-1][0] == self._starts[number] + position:
                    way.append(branches.pop()[1])
                elif position < len(ids[number]):
                    self._add_repeated_id(
                        ids[number][position], (number, position), seen, field
                    )
                    walked[number] += 1
                else:
                    way.pop()
                    for i, id in enumerate(ids[number]):
                        if seen.get(id) == (number, i):
                            del seen[id]

    def _add_repeated_id(
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
        path: JsonPath = (((self._at, number), field), i)
        what = f"the same as at {first[1]} of segment {first[0]}"
        self._reader.problems.add((path, "id") if ledger else path, what)

    def check_totals(self) -> None:
        """
        Add each ledger whose total overflows as a problem.
        """
        for start, segment, requested in zip(
            self._starts, self._segments, self._requested, strict=False
        ):
            requested.add(start + len(segment.items))

        self.build()
        failed: set[int] = set()
        for number, segment in enumerate(self._segments):
            # A ledger that continues one that overflows does so, too, and is not
            # reported again.
            if segment.after and segment.after[0] in failed:
                failed.add(number)
                continue

            try:
                _check_total(self._built[number][max(self._built[number])])
            except InvalidUsageError as error:
                failed.add(number)
                self._reader.problems.add(((self._at, number), "entries"), str(error))

    def build(self) -> None:
        """
        Build the logs that end at the places that `check_place` has accepted.
        """
        self._built = []
        for start, segment, requested in zip(
            self._starts, self._segments, self._requested, strict=False
        ):
            log, made = self.log(segment.after), {}
            for length in sorted(requested):
                log = log.extend(segment.items[len(log) - start : length - start])
                made[length] = log

            self._built.append(made)

    def log(self, place: Place | None) -> Log[Any]:
        return _EMPTY_LOG if place is None else self._built[place[0]][place[1]]


def _check_total(ledger: Log[LedgerEntry]) -> None:
    # The log remembers its total, so the states that are built over it later need
    # not sum it up once more.
    Aggregator.rebuild_from_logs(
        id=_NIL,
        parent_id=None,
        root_id=None,
        init_len=0,
        init_ledger_len=0,
        entries=_EMPTY_LOG,
        ledger=ledger,
    )
