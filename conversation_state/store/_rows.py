"""
Rows of the tables, read as what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state.aggregator import Aggregator
from conversation_state.errors import ConversationStateError, StoreError
from conversation_state.store._values import Head
from conversation_state.store.backend import Reading
from conversation_state.store.log import (
    DIGEST_SIZE,
    ENTRIES,
    LEDGER,
    Kind,
    Segment,
    Segments,
    cut,
    digest_of,
)

__all__ = [
    "PAGE",
    "SHIFT",
    "UNREADABLE",
    "Origin",
    "Revision",
    "TableShelf",
    "all_rows",
    "all_unpacked",
    "change_seal",
    "damaged",
    "digest_at",
    "digest_before",
    "digests_of",
    "packed",
    "record_digest",
    "seal",
    "segments_of",
    "state_digest",
    "time_of",
    "unpacked",
]

# Under a branch or a name there is room for 2**32 places or revisions.
SHIFT = 32
_NUMBER = (1 << SHIFT) - 1
# How many rows are asked for at once.
PAGE = 1000

_NUMBER_SIZE = 16

# What comes of reading rows that no store wrote.
UNREADABLE = (
    ConversationStateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class Revision(NamedTuple):
    """
    A row of ``revisions``.
    """

    revision: int
    branch: int
    length: int
    ledger_branch: int
    ledger_length: int
    origin: int
    digest: bytes
    label: str
    saved_at: int

    @property
    def number(self) -> int:
        """
        The number of the save, counted from 1 on for each name.
        """
        return self.revision & _NUMBER

    def head(self, name: str, state_id: UUID) -> Head:
        """
        What users see of it.
        """
        revision, _, length, _, ledger_length, _, digest, label, saved_at = self
        number = revision & _NUMBER
        time = time_of(saved_at)
        return Head(
            name, number, state_id, length, ledger_length, digest.hex(), label, time
        )


def time_of(milliseconds: int) -> datetime:
    """
    The time that is so long after 1970.
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class Origin(NamedTuple):
    """
    A row of ``origins``, without its key: who a state is, and where it was
    forked.
    """

    state: bytes
    parent: bytes | None
    root: bytes
    init_len: int
    init_ledger_len: int

    @classmethod
    def of(cls, state: Aggregator) -> Origin:
        """
        That of a state.
        """
        own = state._origin
        parent = None if own.parent is None else own.parent.to_bytes(_NUMBER_SIZE)
        return cls(
            own.number.to_bytes(_NUMBER_SIZE),
            parent,
            own.root.to_bytes(_NUMBER_SIZE),
            own.init_len,
            own.init_ledger_len,
        )

    @property
    def state_id(self) -> UUID:
        """
        The state's id.
        """
        return UUID(bytes=self.state)

    def first_number(self) -> int:
        """
        The key it has in the table, or the next one that is free.
        """
        return int.from_bytes(self.digest()[:6]) >> 1

    def digest(self) -> bytes:
        """
        Equal for equal origins only.
        """
        forked = self.init_len.to_bytes(8) + self.init_ledger_len.to_bytes(8)
        # A parent has 16 bytes and none has 0, so it comes last.
        said = self.state + self.root + forked + (self.parent or b"")
        return digest_of(said)


def state_digest(entries: bytes, ledger: bytes, origin: bytes) -> bytes:
    """
    The digest of a state, of those of its logs and its origin.
    """
    return digest_of(entries + ledger + origin)


def packed(id: bytes) -> bytes:
    """
    An identity as it is in the tables.

    Those that are made here begin with 24 hexadecimal digits, which are half
    as long in bytes: a fiftieth of a usual message. 0xff begins no UTF-8.
    """
    return _shortened(id[:_LONG]) + id[_LONG:]


def unpacked(id: bytes) -> bytes:
    """
    The identity that was packed as *id*.
    """
    return _lengthened(id[:_SHORT]) + id[_SHORT:]


def all_unpacked(ids: Iterable[bytes]) -> list[bytes]:
    """
    `unpacked` of each, in half the time.
    """
    return [_lengthened(id[:_SHORT]) + id[_SHORT:] for id in ids]


# How long the beginnings are: 24 digits and "-", or 0xff and twelve bytes.
_LONG, _SHORT = 25, 13


# All identities that one process makes begin alike: packing takes a quarter of
# the time if the beginning is remembered, which is half a microsecond.
@lru_cache(maxsize=64)
def _shortened(start: bytes) -> bytes:
    digits = start[:-1]
    if len(start) == _LONG and start.endswith(b"-"):
        try:
            short = bytes.fromhex(digits.decode())
        except ValueError:
            return start

        if short.hex().encode() == digits:
            return b"\xff" + short

    return start


@lru_cache(maxsize=64)
def _lengthened(start: bytes) -> bytes:
    if start[:1] != b"\xff":
        return start

    return start[1:].hex().encode() + b"-"


class TableShelf:
    """
    Tells which rows there are, while a block is open.
    """

    def __init__(self, tx: Reading, kind: Kind) -> None:
        self._tx = tx
        self._table = kind.table

    def starting(self, digest: bytes) -> int | None:
        """
        The branch whose first row has that digest.
        """
        row = self._tx.get("starts", digest)
        return None if row is None else row[1]

    def tip(self, branch: int) -> int:
        """
        The position after the last row of a branch.
        """
        low, high = branch << SHIFT, (branch + 1) << SHIFT
        last = self._tx.scan(
            self._table, low, high, columns=("place",), limit=1, backwards=True
        )
        return last[0][0] - low + 1 if last else 0

    def digest(self, branch: int, position: int) -> bytes | None:
        """
        The digest of a row; None if it is not there.
        """
        place = branch << SHIFT | position
        row = self._tx.get(self._table, place, ("digest",))
        return None if row is None else row[0]


def change_seal(
    number: int, entry: bytes, content: bytes, reason: str, at: int
) -> bytes:
    """
    What ends the content of a row of ``changes``, and tells that it is whole.
    """
    digest = content[:DIGEST_SIZE] if entry else b""
    return seal(number.to_bytes(8), entry, digest, reason.encode(), at.to_bytes(8))


def damaged(store: str, what: str) -> StoreError:
    return StoreError(store, f"{what}; verify() lists what is damaged")


def segments_of(tx: Reading, store: str, branch: int, length: int) -> Segments:
    """
    Where a log stands that ends in a branch. A row is read for each segment.

    Raises:
        StoreError:
            If a branch is missing.
    """
    found = []
    while branch:
        row = tx.get("branches", branch)
        if row is None or not 0 <= row[1] < branch or not 0 <= row[2] < length:
            raise damaged(store, f"branch {branch} is missing or leads nowhere")

        _, parent, start = row
        found.append(Segment(branch, start, length))
        branch, length = parent, start

    if length:
        raise damaged(store, f"{length} rows are said to be in no branch")

    found.reverse()
    return tuple(found)


def digest_at(tx: Reading, kind: Kind, branch: int, length: int) -> bytes | None:
    """
    The digest of a log that ends in a branch; None if its row is not there.
    """
    if not length:
        return kind.start

    return TableShelf(tx, kind).digest(branch, length - 1)


def digest_before(
    tx: Reading, store: str, kind: Kind, segments: Segments, length: int
) -> bytes:
    """
    The digest of the first *length* entries of a log.

    Raises:
        StoreError:
            If its row is missing.
    """
    there = cut(segments, length)
    digest = digest_at(tx, kind, there[-1].branch if there else 0, length)
    if digest is None:
        raise damaged(store, f"the {kind.table} before {length} are missing")

    return digest


def digests_of(tx: Reading, store: str, revision: Revision) -> tuple[bytes, bytes]:
    """
    The digests of both logs of a saved state.

    Raises:
        StoreError:
            If their newest rows are missing.
    """
    told = digest_at(tx, ENTRIES, revision.branch, revision.length)
    paid = digest_at(tx, LEDGER, revision.ledger_branch, revision.ledger_length)
    if told is None or paid is None:
        raise damaged(store, f"the newest rows of revision {revision.number} are gone")

    return told, paid


def all_rows(
    tx: Reading, table: str, columns: tuple[str, ...] | None = None
) -> Iterator[tuple[Any, ...]]:
    """
    All rows of a table, some at a time.
    """
    low: Any = None
    while rows := tx.scan(table, low, None, columns=columns, limit=PAGE):
        yield from rows
        low = rows[-1][0]
        # The least that comes after it: no text holds U+0000.
        low += 1 if low.__class__ is int else "\x01" if low.__class__ is str else b"\0"


def seal(*said: bytes) -> bytes:
    """
    The digest of what nothing else is the digest of.
    """
    sizes = b"".join([len(each).to_bytes(8) for each in said])
    return digest_of(sizes + b"".join(said))


def record_digest(
    key: bytes, value: bytes, branch: int, length: int, messages: bytes
) -> bytes:
    """
    What tells that a record is what was written: a digest of it, and then that
    of the *messages* it needs.
    """
    place = branch.to_bytes(8) + length.to_bytes(8)
    return seal(key, value, place, messages) + messages
