"""
The pure log: which rows turn one saved log into the next, and back.

A state is two logs, entries and ledger, treated alike. Rows of a branch stand
at consecutive positions; a branch starts at a position of its parent, and
what comes before it is the parent's. Each row carries the digest of all that
led to it: equal digests mean equal pasts, so where two logs part is found
without reading them.

What lives here: rows, digests, places, and where a new log
belongs. What does not: names and revisions (`Store`), and whatever
keeps the rows (`backend`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import attrs

from conversation_state._persistent import Log
from conversation_state.aggregator import Entry
from conversation_state.codec import (
    decode_ledger_entries,
    decode_messages,
    encode_ledger_entry,
    encode_message,
)
from conversation_state.messages import find_erasure

__all__ = [
    "DIGEST_SIZE",
    "ENTRIES",
    "LEDGER",
    "Kind",
    "LogDigests",
    "LogRow",
    "LogRows",
    "MissingRows",
    "Segment",
    "begins_with",
    "chain_digest",
    "chain_digests",
    "content_digest",
    "count_shared",
    "cut_segments",
    "digest_of",
    "extend_segments",
    "locate_log",
    "take_newest",
]

DIGEST_SIZE = 16

# Copying a hash object takes half a microsecond less than creating one.
_new_hash = blake2b(digest_size=DIGEST_SIZE).copy


def digest_of(content_bytes: bytes) -> bytes:
    """
    The digest of any bytes.
    """
    made = _new_hash()
    made.update(content_bytes)
    return made.digest()


def content_digest(id: bytes, body: bytes) -> bytes:
    """
    The digest of an entry's content and identity.

    *body* is JSON, in which no byte is 0: so no other pair gives these bytes.
    """
    return digest_of(b"%b\0%b" % (id, body))


def chain_digest(before: bytes, content: bytes) -> bytes:
    """
    The digest of a past that goes on with *content*.
    """
    return digest_of(before + content)


def chain_digests(
    before: bytes, ids: Iterable[bytes], bodies: Iterable[bytes]
) -> list[bytes]:
    """
    The digests of a past that goes on with entries, at each of them.
    """
    made = []
    # `content_digest` and `chain_digest`, written out: a third of all loading.
    for content_bytes in map(b"\0".join, zip(ids, bodies, strict=True)):
        content = _new_hash()
        content.update(content_bytes)
        step = _new_hash()
        step.update(before + content.digest())
        before = step.digest()
        made.append(before)

    return made


class LogRow(NamedTuple):
    """
    A row of a log.

    Attributes:
        id: The entry's identity, as UTF-8.

        body: Its content, as canonical JSON.

        content: The digest of the content, where it can't be computed from
            the body: the entry was erased. Else None. In the tables there is
            that of the tombstone after it.

        digest: The digest of everything up to here.
    """

    id: bytes
    body: bytes
    content: bytes | None
    digest: bytes


# `LogRow._make` without a call of Python's for each.
_make_row = partial(tuple.__new__, LogRow)


def _no_content(_make_entry: Any) -> None:
    return None


# `Entry._make` without a call of Python's for each.
_make_entry = partial(tuple.__new__, Entry)


def _decode_entries(ids: Iterable[str], raw: Sequence[Any]) -> list[Entry]:
    return list(map(_make_entry, zip(ids, decode_messages(raw), strict=True)))


def _entry_body(entry: Entry) -> bytes:
    return encode_message(entry.message)


def _erased_content(entry: Entry) -> bytes | None:
    erasure = find_erasure(entry.message)
    return None if erasure is None else erasure.content


@attrs.frozen
class Kind:
    """
    One of the two logs of a state.

    Attributes:
        table: Where its rows are.

        start: The digest of the empty log.

        body: An entry's content as JSON.

        erased: The digest of the content that an entry had before it was erased; None
            if it was not.

        read: The entries of identities and JSON values.
    """

    table: str
    start: bytes
    body: Callable[[Any], bytes]
    erased: Callable[[Any], bytes | None]
    read: Callable[[Iterable[str], Sequence[Any]], list[Any]]

    def content(self, entry: Any) -> bytes:
        """
        The digest of an entry's content, or of the content before it was erased.
        """
        id: str = entry[0]
        return self.erased(entry) or content_digest(id.encode(), self.body(entry))

    def step(self, before: bytes, entry: Any) -> bytes:
        """
        The digest of a past that goes on with an entry.
        """
        return chain_digest(before, self.content(entry))

    def digest(self, log: Log[Any]) -> bytes:
        """
        The digest of a whole log; what was computed once is remembered in it.
        """
        return log.fold(self.step, self.start, key=self.table)

    def seed_digests(self, log: Log[Any], digests: Sequence[bytes]) -> None:
        """
        Store the digests at each entry in *log*, so that they need not be computed.
        """
        log.remember_fold(digests, key=self.table)

    def rows(self, before: bytes, entries: Iterable[Any]) -> list[LogRow]:
        """
        The rows of entries that come after *before*, one after the other.
        """
        made = []
        for entry in entries:
            id: bytes = entry[0].encode()
            body = self.body(entry)
            content = self.erased(entry)
            # `chain_digest` and `content_digest`, written out: this is half of what
            # a save does in Python.
            before = digest_of(before + (content or digest_of(b"%b\0%b" % (id, body))))
            made.append(_make_row((id, body, content, before)))

        return made


# Each log begins with another digest, since `starts` finds the branches of both by the
# digest of their first row.
ENTRIES = Kind(
    "entries",
    blake2b(b"conversation_state entries", digest_size=DIGEST_SIZE).digest(),
    _entry_body,
    _erased_content,
    _decode_entries,
)
LEDGER = Kind(
    "ledger",
    blake2b(b"conversation_state ledger", digest_size=DIGEST_SIZE).digest(),
    encode_ledger_entry,
    _no_content,
    decode_ledger_entries,
)


def take_newest(log: Log[Any], count: int) -> list[Any]:
    """
    The last *count* entries of a log.
    """
    # Most saves are of one more message, and a log has that one at hand.
    return [log[-1]] if count == 1 else list(log.iterate(len(log) - count))


class Segment(NamedTuple):
    """
    Positions of a log whose rows are in one branch.
    """

    branch: int
    start: int
    stop: int


# Where a log stands: its segments in order, which follow each other from 0 on.
Segments = tuple[Segment, ...]


def cut_segments(segments: Segments, length: int) -> Segments:
    """
    Where the first *length* entries stand.
    """
    kept = [segment for segment in segments if segment.start < length]
    if kept and kept[-1].stop > length:
        kept[-1] = kept[-1]._replace(stop=length)

    return tuple(kept)


def begins_with(segments: Segments, branch: int, length: int) -> bool:
    """
    Whether a log whose entries stand there begins with the *length* entries up to the
    end of those in *branch*.
    """
    return not length or any(
        each.branch == branch and each.start < length <= each.stop for each in segments
    )


def count_shared(ours: Segments, theirs: Segments) -> int:
    """
    How many leading rows two logs have in common, as far as segments show.
    """
    common = 0
    for a, b in zip(ours, theirs, strict=False):
        if a.branch != b.branch or a.start != b.start:
            break

        # Where these end apart, the next ones start apart.
        common = min(a.stop, b.stop)

    return common


def extend_segments(segments: Segments, branch: int, stop: int) -> Segments:
    """
    Where a log stands after its newest entries came into *branch*.
    """
    if not segments:
        return (Segment(branch, 0, stop),)

    last_branch, start, end = segments[-1]
    if last_branch == branch:
        return (*segments[:-1], Segment(branch, start, stop))

    return (*segments, Segment(branch, end, stop))


class LogDigests:
    """
    The digests of a log at any length, computed on demand.

    Args:
        kind: Which of the logs of a state.

        log: The log.

        known: A length whose digest is known, and that digest: nothing before
            it is computed again.
    """

    def __init__(
        self, kind: Kind, log: Log[Any], known: tuple[int, bytes] | None = None
    ) -> None:
        self.kind = kind
        self.log = log
        self._since, self._digest = known or (0, kind.start)
        self._is_known = known is not None
        self._rows: list[LogRow] = []

    def at(self, length: int) -> bytes:
        """
        The digest of the first *length* entries.
        """
        if self._is_known and length >= self._since:
            if length == self._since:
                return self._digest

            self._compute_rows(length)
            return self._rows[length - self._since - 1].digest

        # A fold is kept with the blocks of the log, so that later saves of any state
        # that shares them compute only what is new.
        return self.kind.digest(self.log.take(length))

    def rows(self, start: int) -> list[LogRow]:
        """
        The rows from position *start* on.
        """
        if not self._is_known or start < self._since:
            self._since, self._digest = start, self.at(start)
            self._is_known = True
            self._rows = []

        self._compute_rows(len(self.log))
        return self._rows[start - self._since :]

    def _compute_rows(self, length: int) -> None:
        rows = self._rows
        there = self._since + len(rows)
        if length <= there:
            return

        before = rows[-1].digest if rows else self._digest
        rows += self.kind.rows(before, self.log.take(length).iterate(there))


class LogRows(Protocol):
    """
    **Protocol:** looks up which rows of one kind exist.
    """

    def find_branch(self, digest: bytes) -> int | None:
        """
        The branch whose first row has that digest.
        """
        ...

    def find_end(self, branch: int) -> int:
        """
        The position after the last row of a branch.
        """
        ...

    def digest(self, branch: int, position: int) -> bytes | None:
        """
        The digest of a row; None if it is not there.
        """
        ...


def locate_log(
    past: LogDigests, log_rows: LogRows, segments: Segments = ()
) -> Segments:
    """
    Where the longest beginning of a log stands that is there already.

    O(log n) digests are read for each branch on the way, one if the log goes
    on where the branch does.

    Args:
        past: The log.

        log_rows: Asked which rows there are.

        segments: Where a beginning of it is known to stand.
    """
    length = len(past.log)
    while True:
        at = segments[-1].stop if segments else 0
        if at == length:
            return segments

        if segments:
            branch = segments[-1].branch
            end = _count_common(past, log_rows, branch, at)
            if end > at:
                segments = extend_segments(segments, branch, end)
                continue

        branch_there = log_rows.find_branch(past.at(at + 1))
        if branch_there is None:
            return segments

        segments = extend_segments(segments, branch_there, at + 1)


def _count_common(past: LogDigests, log_rows: LogRows, branch: int, at: int) -> int:
    """
    How far the log and the branch go on together, from *at* on.
    """
    low, high = at, min(log_rows.find_end(branch), len(past.log))
    # Most logs go on where a branch ends: one digest shows that.
    if low < high and log_rows.digest(branch, high - 1) == past.at(high):
        return high

    # A digest covers all rows before it: where two differ, all later ones do, so
    # bisection finds the first.
    while low + 1 < high:
        middle = (low + high) // 2
        if log_rows.digest(branch, middle - 1) == past.at(middle):
            low = middle
        else:
            high = middle

    return low


class MissingRows(NamedTuple):
    """
    What is to be written so that a log is there.

    Attributes:
        segments: Where it stands now, as far as it is there.

        rows: What comes after that.

        extends_branch: Whether the rows go on where the last branch ends; else they
            start a branch of their own.
    """

    segments: Segments
    rows: list[LogRow]
    extends_branch: bool

    @classmethod
    def of(
        cls, past: LogDigests, log_rows: LogRows, segments: Segments = ()
    ) -> MissingRows:
        """
        What is missing of a log.
        """
        found = locate_log(past, log_rows, segments)
        at = found[-1].stop if found else 0
        if at == len(past.log):
            return cls(found, [], extends_branch=True)

        # If another log continues that branch already, its places are taken.
        extends_branch = bool(found) and log_rows.find_end(found[-1].branch) == at
        return cls(found, past.rows(at), extends_branch)
