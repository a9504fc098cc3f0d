"""
Logs as rows: the digests that chain them, the branches that they stand in, and their
identities and large content as they are kept.

A state is two logs, entries and ledger, treated alike. Rows of a branch stand at
consecutive positions; a branch starts at a position of its parent, and what comes
before it is the parent's. Each row carries the digest of all that led to it: equal
digests mean equal pasts, so where two logs part is found without reading them.

All of it is pure: what reads and writes rows is in `_load` and `_save`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter, xor
from typing import Any, NamedTuple
from zlib import crc32

import attrs

from conversation_state._canonical import dump, load
from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.codec import (
    decode_ledger_entries,
    decode_messages,
    encode_ledger_entry,
    encode_message,
)
from conversation_state.messages import Message, find_erasure
from conversation_state.parts import MediaPart

DIGEST_SIZE = 16

# Copying a hash object takes half a microsecond less than creating one.
_new_hash = blake2b(digest_size=DIGEST_SIZE).copy


def digest_of(content_bytes: bytes) -> bytes:
    made = _new_hash()
    made.update(content_bytes)
    return made.digest()


def content_digest(id: bytes, body: bytes) -> bytes:
    # *body* is JSON, in which no byte is 0: so no other pair gives these bytes.
    return digest_of(b"%b\0%b" % (id, body))


def tombstone_digest(id: bytes, body: bytes) -> bytes:
    """The digest of a tombstone: nothing else has it, as the sizes come first."""
    return digest_of(len(id).to_bytes(8) + len(body).to_bytes(8) + id + body)


class LogRow(NamedTuple):
    """
    A row of a log: an entry's identity, as UTF-8, and its content, as canonical JSON.
    """

    id: bytes
    body: bytes
    # The digest of the content, where it can't be computed from the body: the entry was
    # erased. In the tables there is that of the tombstone after it.
    content: bytes | None
    # The digest of everything up to here.
    digest: bytes
    # See `checksum_of`.
    checksum: int


def checksum_of(before: bytes, id: bytes, body: bytes, content: bytes | None) -> int:
    """
    The checksum of a row, as its columns are in the tables, that comes after the digest
    *before*: so no row passes for one at another place, or with another past.

    It takes a quarter of the time of the digests that it finds accidents in place of:
    loading compares this, and `verify` both.
    """
    return crc32(content or b"", crc32(body, crc32(id))) ^ crc32(before)


def checksums_of(
    befores: Iterable[bytes], ids: Iterable[bytes], bodies: Iterable[bytes]
) -> tuple[int, ...]:
    """Those of many rows without erased content."""
    return (*map(xor, map(crc32, bodies, map(crc32, ids)), map(crc32, befores)),)


class DamagedRow(Exception):  # noqa: N818 - what it is of; users see a `StoreError`
    """A row that no store writes; the transaction makes it a `DamageError`."""


# What comes of decoding a row that no store wrote.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def reading_rows() -> Iterator[None]:
    """A block that reads rows: what their values make it raise is damage."""
    try:
        yield
    except UNREADABLE as error:
        what = f"some rows are not what a store writes ({error})"
        raise DamagedRow(what) from error


# `_make` without a call of Python's for each.
_make_entry = partial(tuple.__new__, Entry)


@attrs.frozen(eq=False)
class LogTable:
    """One of the two logs of a state, and the table of its rows."""

    table: str  # the name of the table
    # The digest of the empty log. Each of both has another one, since the table
    # ``starts`` finds the branches of both by the digest of their first row.
    start: bytes
    log_of: Callable[[Aggregator], Log[Any]]  # that log of a state
    # An entry's content as JSON; and the digest of the content that it had before it
    # was erased, or None.
    encode: Callable[[Any], tuple[bytes, bytes | None]]
    # The entries of identities and JSON values.
    decode: Callable[[Iterable[str], Sequence[Any]], list[Any]]

    def content(self, entry: Any) -> bytes:
        """The digest of an entry's content, or of the content before it was erased."""
        body, erased = self.encode(entry)
        return erased or content_digest(entry[0].encode(), body)

    def chain_entry(self, before: bytes, entry: Any) -> bytes:
        """The digest of a log with one entry more than that of the digest *before*."""
        return digest_of(before + self.content(entry))

    def digest(self, log: Log[Any]) -> bytes:
        """The digest of a whole log; what was computed once is remembered in it."""
        return log.fold(self.chain_entry, self.start, key=self.table)


def _encode_entry(entry: Entry) -> tuple[bytes, bytes | None]:
    erasure = find_erasure(entry[1])
    return encode_message(entry[1]), None if erasure is None else erasure.content


ENTRIES = LogTable(
    "entries",
    digest_of(b"conversation_state entries"),
    attrgetter("entries"),
    _encode_entry,
    lambda ids, raw: list(
        map(_make_entry, zip(ids, decode_messages(raw), strict=True))
    ),
)
LEDGER = LogTable(
    "ledger",
    digest_of(b"conversation_state ledger"),
    attrgetter("ledger"),
    lambda entry: (encode_ledger_entry(entry), None),
    decode_ledger_entries,
)


class LogEnd(NamedTuple):
    """
    Where a log ends: in which branch, and how many rows it has, those of the branches
    before that one included; and the digest of all of them.
    """

    branch: int
    length: int
    digest: bytes


class Segment(NamedTuple):
    """Positions of a log whose rows are in one branch."""

    branch: int
    start: int
    stop: int


# Where a log stands: its segments in order, which follow each other from 0 on.
Segments = tuple[Segment, ...]


def cut_segments(segments: Segments, length: int) -> Segments:
    """Where the first *length* entries stand."""
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
    """How many leading rows two logs have in common, as far as segments show."""
    common = 0
    for a, b in zip(ours, theirs, strict=False):
        if a.branch != b.branch:
            break

        # Where these end apart, the next ones start apart.
        common = min(a.stop, b.stop)

    return common


def extend_segments(segments: Segments, branch: int, stop: int) -> Segments:
    """Where a log stands after its newest entries came into *branch*."""
    if not segments:
        return (Segment(branch, 0, stop),)

    last_branch, start, end = segments[-1]
    if last_branch == branch:
        return (*segments[:-1], Segment(branch, start, stop))

    return (*segments, Segment(branch, end, stop))


# Identities that are made here begin with 24 hexadecimal digits, which are half as long
# in bytes: a fiftieth of a usual message. 0xff begins no UTF-8.

_match_digits = re.compile(rb"[0-9a-f]{24}-").match


@lru_cache(256)
def _pack_digits(start: bytes) -> bytes | None:
    # Those of one process begin alike.
    if _match_digits(start) is None:
        return None

    return b"\xff" + bytes.fromhex(start[:24].decode())


def pack_id(id: bytes) -> bytes:
    """An identity as it is in the tables."""
    packed = _pack_digits(id[:25])
    return id if packed is None else packed + id[25:]


def unpack_id(id: bytes) -> bytes:
    return id[1:13].hex().encode() + b"-" + id[13:] if id[:1] == b"\xff" else id


def read_ids(ids: Sequence[bytes]) -> list[str]:
    """Identities as texts, of those that are in the tables."""
    start = ids[0][:13] if ids else b""
    if start[:1] == b"\xff" and ids[-1].startswith(start):
        # Those of one process begin alike, and are read as one text. 0xff is in no
        # UTF-8: so nothing else is replaced, and another beginning is an error here.
        text = b"\0".join(ids).replace(start, b"%b-" % start[1:].hex().encode())
        with suppress(UnicodeDecodeError):
            found = text.decode().split("\0")
            if len(found) == len(ids):
                return found

    return [
        f"{id[1:13].hex()}-{id[13:].decode()}" if id[:1] == b"\xff" else id.decode()
        for id in ids
    ]


# Large content is kept once by its digest, apart from the messages that show it. The
# body of a message is a JSON object; one whose content is kept elsewhere is an array:
# the message with empty *data*, and which part's data is which blob. No message is an
# array, so none can be mistaken for a reference.

# From how many bytes on content is kept apart.
LARGE = 4096


def blob_digest(data: bytes) -> bytes:
    # Twice as long as other digests: an attacker who sends images may search for two
    # with one digest.
    return blake2b(data, digest_size=32).digest()


def extract_blobs(message: Message, body: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The body to keep of *message*, whose canonical one is *body*, and its blobs."""
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
    """Large content by its digest, read once for all messages that show it."""

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        self._read: dict[str, bytes] = {}
        self._last = "", ""

    def _get_content(self, digest: str) -> bytes:
        found = self._read.get(digest)
        if found is None:
            row = self._tables.get("blobs", bytes.fromhex(digest), ("data",))
            if row is None:
                raise DamagedRow(f"the large content {digest} is missing")

            found = self._read[digest] = row[0]

        return found

    def _encode_content(self, digest: str) -> str:
        if self._last[0] != digest:
            # As the codec writes bytes.
            data = b64encode(self._get_content(digest)).decode()
            self._last = digest, data

        return self._last[1]

    def restore_message(
        self, message: Message, references: list[tuple[int, str]]
    ) -> Message:
        """The message that was decoded with placeholders, as it was."""
        parts: list[Any] = list(getattr(message, "content", ()))
        for at, digest in references:
            parts[at] = attrs.evolve(parts[at], data=self._get_content(digest))

        return message.replace(content=parts)

    def restore_body(self, body: bytes) -> bytes:
        """The canonical body from one that was kept."""
        if not body.startswith(b"["):
            return body

        # Objects keep their order, so this is written as it was.
        return dump(_insert_data(load(body), self._encode_content))


def insert_placeholders(raw: Any) -> Any:
    """The plain JSON of a message from that of a body that was kept."""
    # One byte, since a part refuses empty data.
    return _insert_data(raw, lambda _: "AA==") if raw.__class__ is list else raw


def _insert_data(raw: Any, encode: Callable[[str], str]) -> Any:
    data, references = raw
    for at, digest in references:
        data["parts"][at]["data"] = encode(digest)

    return data
