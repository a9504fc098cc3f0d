"""
Values as they are kept in rows, and back: identities, labels, notes, times, and
large content.

Large content is kept once by its digest, apart from the messages that show it. The
body of a message is a JSON object; one whose content is kept elsewhere is an array:
the message with empty *data*, and which part's data is which blob. No message is an
array, so none can be mistaken for a reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from time import time_ns
from typing import Any

import attrs

from conversation_state._canonical import dump, load
from conversation_state._persistent import EMPTY_MAP, JsonMap, freeze_map
from conversation_state.codec import encode_message
from conversation_state.messages import Message, UserMessage
from conversation_state.parts import FilePart, MediaPart


def label_key(number: int, label: str) -> bytes:
    # The number of the name comes first, so that the labels of a name are together.
    return number.to_bytes(8) + label.encode()


# No label holds U+0000 (`check_name`).
def split_labels(labels: bytes) -> tuple[str, ...]:
    return tuple(labels.decode().split("\0")) if labels else ()


def join_labels(labels: Iterable[str]) -> bytes:
    return "\0".join(labels).encode()


def pack_notes(notes: Mapping[str, Any]) -> bytes:
    return dump(notes) if notes else b""


def unpack_notes(notes: bytes) -> JsonMap:
    return freeze_map(load(notes), "notes") if notes else EMPTY_MAP


def time_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def now() -> int:
    """
    Milliseconds since 1970.
    """
    return time_ns() // 1_000_000


# Identities

# How long their beginnings are: 24 digits and "-", or 0xff and twelve bytes.
_LONG, _SHORT = 25, 13


def pack_id(id: bytes) -> bytes:
    """
    An identity as it is in the tables.

    Those that are made here begin with 24 hexadecimal digits, which are half
    as long in bytes: a fiftieth of a usual message. 0xff begins no UTF-8.
    """
    return _shorten_start(id[:_LONG]) + id[_LONG:]


def unpack_id(id: bytes) -> bytes:
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
    return start[1:].hex().encode() + b"-" if start[:1] == b"\xff" else start


# Large content

# From how many bytes on content is kept apart.
LARGE = 4096


def blob_digest(data: bytes) -> bytes:
    # Twice as long as other digests: an attacker who sends images may search for two
    # with one digest.
    return blake2b(data, digest_size=32).digest()


def extract_blobs(message: Message, body: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """
    The body to keep of *message*, whose canonical one is *body*, and its blobs.
    """
    content = getattr(message, "content", "") if len(body) >= LARGE else ""
    blobs: dict[bytes, bytes] = {}
    references: list[tuple[int, str]] = []
    for at, part in enumerate(() if isinstance(content, str) else content):
        if isinstance(part, MediaPart) and part.data and len(part.data) >= LARGE:
            digest = blob_digest(part.data)
            blobs[digest] = part.data
            references.append((at, digest.hex()))

    if not references:
        return body, blobs

    data = load(body)
    for at, _ in references:
        data["parts"][at]["data"] = ""

    return dump([data, references]), blobs


class BlobReader:
    """
    Large content by its digest, read once for all messages that show it.

    Args:
        blob: Gives the content of a digest.
    """

    def __init__(self, blob: Callable[[bytes], bytes]) -> None:
        self._blob = blob
        self._read: dict[str, bytes] = {}
        self._last = "", ""

    def _get_content(self, digest: str) -> bytes:
        found = self._read.get(digest)
        if found is None:
            found = self._read[digest] = self._blob(bytes.fromhex(digest))

        return found

    def _encode_content(self, digest: str) -> str:
        if self._last[0] != digest:
            # The codec decides how bytes are written, so it writes them here, too.
            part = FilePart(data=self._get_content(digest))
            (written,) = load(encode_message(UserMessage([part])))["parts"]
            self._last = digest, written["data"]

        return self._last[1]

    def restore_message(
        self, message: Message, references: list[tuple[int, str]]
    ) -> Message:
        """
        The message that was decoded with placeholders, as it was.
        """
        parts: list[Any] = list(getattr(message, "content", ()))
        for at, digest in references:
            parts[at] = attrs.evolve(parts[at], data=self._get_content(digest))

        return message.replace(content=parts)

    def restore_body(self, body: bytes) -> bytes:
        """
        The canonical body from one that was kept.

        Raises:
            ValueError:
                If it is damaged.
        """
        if not body.startswith(b"["):
            return body

        # Objects keep their order, so this is written as it was.
        return dump(_insert_data(load(body), self._encode_content))


def insert_placeholders(raw: Any) -> Any:
    """
    The plain JSON of a message from that of a body that was kept.
    """
    # One byte, since a part refuses empty data.
    return _insert_data(raw, lambda _: "AA==") if raw.__class__ is list else raw


def _insert_data(raw: Any, encode: Callable[[str], str]) -> Any:
    try:
        data, references = raw
        for at, digest in references:
            data["parts"][at]["data"] = encode(digest)
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("refers to large content in an invalid form") from error

    return data
