"""
Rows of the tables, read as what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state.aggregator import Aggregator
from conversation_state.errors import ConversationStateError, StoreError
from conversation_state.store._values import Head
from conversation_state.store.backend import Reading
from conversation_state.store.log import DIGEST_SIZE, digest_of

__all__ = [
    "MOST_ALIKE",
    "PAGE",
    "SHIFT",
    "UNREADABLE",
    "Origin",
    "Revision",
    "damage_error",
    "iterate_rows",
    "join_labels",
    "pack_id",
    "read_revision",
    "record_digest",
    "seal",
    "seal_change",
    "split_labels",
    "state_digest",
    "time_of",
    "unpack_id",
    "unpack_ids",
]

# Under a branch or a name there is room for 2**32 places or revisions.
SHIFT = 32
_NUMBER = (1 << SHIFT) - 1
# How many rows are asked for at once.
PAGE = 1000

_NUMBER_SIZE = 16
# More origins than this never have one number.
MOST_ALIKE = 1000

# What comes of reading rows that no store wrote.
UNREADABLE = (
    ConversationStateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct_error,
)

# Eight integers of 64 bits, those of a revision and the length of its digest, and
# then that.
_pack_revision = Struct(">8q16s").pack


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
    labels: bytes
    saved_at: int
    seal: bytes

    @classmethod
    def sealed(cls, *values: Any) -> Revision:
        """
        The row of *values*, which are all but its seal.
        """
        return tuple.__new__(cls, (*values, _revision_seal(values)))

    def resealed(self, **values: Any) -> Revision:
        """
        The row with other *values*, and the seal of that.
        """
        return Revision.sealed(*self._replace(**values)[:-1])

    def is_sealed(self) -> bool:
        """
        Whether it is as it was written.
        """
        return self.seal == _revision_seal(self[:-1])

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
        revision, _, length, _, ledger_length, _, digest, labels, saved_at, _ = self
        given = split_labels(labels) if labels else ()
        number, time = revision & _NUMBER, time_of(saved_at)
        return Head(
            name, number, state_id, length, ledger_length, digest.hex(), given, time
        )


def read_revision(row: tuple[Any, ...], store: str) -> Revision:
    """
    A row of ``revisions``.

    Raises:
        StoreError:
            If it is not what was written.
    """
    try:
        revision = Revision._make(row)
        if revision.is_sealed():
            return revision
    except UNREADABLE:
        pass  # as if the seal did not match

    what = f"the row of revision {row[0] & _NUMBER} is not what was written"
    raise damage_error(store, what)


def _revision_seal(values: tuple[Any, ...]) -> bytes:
    """
    The digest of a revision's row. The key is in it, which holds the numbers of
    the name and of the save: no row passes for another.

    Half as long as others, for there is one for each save. It finds accidents;
    what the state is, `state_digest` tells.
    """
    digest: bytes = values[6]
    pack_id = _pack_revision(*values[:6], values[8], len(digest), digest)
    return digest_of(pack_id + values[7])[:_SEAL_SIZE]


_SEAL_SIZE = 8


def split_labels(labels: bytes) -> tuple[str, ...]:
    """
    The labels in a revision's row.
    """
    return tuple(labels.decode().split("\0")) if labels else ()


def join_labels(labels: Iterable[str]) -> bytes:
    """
    The other way round.
    """
    return "\0".join(labels).encode()


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

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Origin:
        """
        That of a row of the table.

        Raises:
            ValueError:
                If it is not what was written: then its key is another, or an
                identity has another length.
        """
        origin = cls._make(row[1:])
        ids = [origin.state, origin.root]
        if origin.parent is not None:
            ids.append(origin.parent)

        first = origin.first_number()
        if {len(id) for id in ids} != {_NUMBER_SIZE} or not (
            first <= row[0] < first + MOST_ALIKE
        ):
            msg = "tells another state than it was kept for"
            raise ValueError(msg)

        return origin

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


def pack_id(id: bytes) -> bytes:
    """
    An identity as it is in the tables.

    Those that are made here begin with 24 hexadecimal digits, which are half
    as long in bytes: a fiftieth of a usual message. 0xff begins no UTF-8.
    """
    return _shorten_start(id[:_LONG]) + id[_LONG:]


def unpack_id(id: bytes) -> bytes:
    """
    The identity that `pack_id` made *id* of.
    """
    return _restore_start(id[:_SHORT]) + id[_SHORT:]


def unpack_ids(ids: Iterable[bytes]) -> list[bytes]:
    """
    `unpack_id` of each, in half the time.
    """
    return [_restore_start(id[:_SHORT]) + id[_SHORT:] for id in ids]


# How long the beginnings are: 24 digits and "-", or 0xff and twelve bytes.
_LONG, _SHORT = 25, 13


# All identities that one process makes begin alike: packing takes a quarter of
# the time if the beginning is remembered, which is half a microsecond.
@lru_cache(maxsize=64)
def _shorten_start(start: bytes) -> bytes:
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
def _restore_start(start: bytes) -> bytes:
    """
    The beginning of an identity that was shortened to *start*.
    """
    if start[:1] != b"\xff":
        return start

    return start[1:].hex().encode() + b"-"


def seal_change(
    number: int, entry: bytes, content: bytes, reason: str, at: int
) -> bytes:
    """
    What ends the content of a row of ``changes``, and tells that it is whole.
    """
    digest = content[:DIGEST_SIZE] if entry else b""
    return seal(number.to_bytes(8), entry, digest, reason.encode(), at.to_bytes(8))


def damage_error(store: str, what: str) -> StoreError:
    return StoreError(store, f"{what}; verify() lists what is damaged")


def iterate_rows(
    tx: Reading,
    table: str,
    columns: tuple[str, ...] | None = None,
    *,
    low: Any = None,
    high: Any = None,
) -> Iterator[tuple[Any, ...]]:
    """
    The rows of a table from key *low* on and before *high*, some at a time.

    Ends on any file, for it demands that keys grow: in a damaged one what comes
    after a key may be before it.

    Raises:
        ValueError:
            If a key is not greater than the one before it.
    """
    last = None
    while rows := tx.scan(table, low, high, columns=columns, limit=PAGE):
        for row in rows:
            key = row[0]
            if last is not None and not last < key:
                msg = f"the keys of the table {table} are out of order at {key!r:.80}"
                raise ValueError(msg)

            last = key
            yield row

        if len(rows) < PAGE:
            return

        low = _find_next_key(last)


def _find_next_key(key: Any) -> Any:
    """
    The least key that comes after *key*. No text holds U+0000.
    """
    return key + (
        1 if key.__class__ is int else "\x01" if key.__class__ is str else b"\0"
    )


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
