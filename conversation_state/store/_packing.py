"""
Keys, identities and other values as they are in the tables, and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from time import time_ns
from typing import Any

from conversation_state._canonical import dump, load
from conversation_state._persistent import EMPTY_MAP, JsonMap, freeze_map

__all__ = [
    "join_labels",
    "label_key",
    "now",
    "pack_id",
    "pack_notes",
    "split_labels",
    "time_of",
    "unpack_id",
    "unpack_ids",
    "unpack_notes",
]


def label_key(number: int, label: str) -> bytes:
    """
    The key of a label: the number of a name, so that they are together, and it.
    """
    return number.to_bytes(8) + label.encode()


def split_labels(labels: bytes) -> tuple[str, ...]:
    """
    The labels in a revision's row.
    """
    # No label holds U+0000 (`check_name`).
    return tuple(labels.decode().split("\0")) if labels else ()


def join_labels(labels: Iterable[str]) -> bytes:
    """
    The other way round.
    """
    return "\0".join(labels).encode()


def pack_notes(notes: Mapping[str, Any]) -> bytes:
    """
    Notes as they are in the tables.
    """
    return dump(notes) if notes else b""


def unpack_notes(notes: bytes) -> JsonMap:
    """
    The other way round.
    """
    return freeze_map(load(notes), "notes") if notes else EMPTY_MAP


def time_of(milliseconds: int) -> datetime:
    """
    The time that is so long after 1970.
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def now() -> int:
    """
    Milliseconds since 1970.
    """
    return time_ns() // 1_000_000


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


def unpack_ids(ids: Sequence[bytes]) -> list[bytes]:
    """
    `unpack_id` of each, in a third of the time where most begin alike.
    """
    short = ids[0][:_SHORT] if ids else b""
    # Identities that begin with a shorter one go on right after it, and not after
    # `_SHORT` bytes.
    if len(short) < _SHORT:
        return list(map(unpack_id, ids))

    start = _restore_start(short)
    return [
        start + id[_SHORT:] if id.startswith(short) else unpack_id(id) for id in ids
    ]


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

        # `fromhex` also accepts capitals and spaces, which would be lost in packing.
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
