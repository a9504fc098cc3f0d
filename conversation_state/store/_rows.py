"""
Rows of the tables: read some at a time, and errors where they are damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as struct_error
from typing import Any

from conversation_state.errors import ConversationStateError, StoreError
from conversation_state.store.backend import Reading
from conversation_state.store.log import digest_of
from conversation_state.store.schema import SHIFT, Revision, is_sealed

__all__ = [
    "PAGE",
    "UNREADABLE",
    "damage_error",
    "iterate_rows",
    "read_revision",
    "seal",
]

# How many rows are asked for at once.
PAGE = 1000

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


def read_revision(row: tuple[Any, ...], store: str) -> Revision:
    """
    A row of ``revisions``.

    Raises:
        StoreError:
            If it is not what was written.
    """
    try:
        revision = Revision._make(row)
        if is_sealed(revision):
            return revision
    except UNREADABLE:
        pass  # as if the seal did not match

    what = f"the row of revision {row[0] & ((1 << SHIFT) - 1)} is not what was written"
    raise damage_error(store, what)


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
