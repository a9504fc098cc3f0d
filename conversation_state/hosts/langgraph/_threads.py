"""
Threads: the keys of their records, how these are packed, and the names under which
the store has their conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

from conversation_state.hosts._host import encode_text, quote_name
from conversation_state.store.records import LogEnd, Reader, Record, Writer, after

# All records of this host begin with this, then with their kind: the threads, and
# what they contain.
_HOST = b"lg."
THREADS = _HOST + b"t"
_CONTENTS = _HOST + b"d"

# The end of a part; a byte of 0 inside of a part is followed by 255.
_END = b"\0\1"
# The index of a database server limits the length of a key.
_MAX_PART = 200
_DIGEST_SIZE = 16
_NUMBER_SIZE = 4
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# Cached, because all keys of a turn repeat its names and ids.
@lru_cache(maxsize=256)
def _encode_part(text: str) -> bytes:
    """
    *text* as a part of a key: no part is a prefix of another, and parts sort as
    their texts do, up to 200 bytes.
    """
    data = encode_text(text)
    if len(data) > _MAX_PART:
        digest = blake2b(data, digest_size=_DIGEST_SIZE).digest()
        data = data[: _MAX_PART - _DIGEST_SIZE] + b"\xff" + digest

    return data.replace(b"\0", b"\0\xff") + _END


# An id as a part of a key: half as long if it is a UUID, and not sorted.
@lru_cache(maxsize=256)
def _encode_id(text: str) -> bytes:
    if _UUID.fullmatch(text):
        return b"\1" + bytes.fromhex(text.replace("-", ""))

    return b"\2" + _encode_part(text)


# The key of the record that has the id and the number of a thread.
def thread_key(thread: str) -> bytes:
    return THREADS + _encode_part(thread)


# The prefix of the keys of all that a thread contains, by its number: checkpoints in
# their order, values of channels by the checkpoint that set them, and writes.
def contents_of(number: int) -> bytes:
    return _CONTENTS + number.to_bytes(_NUMBER_SIZE)


# The prefix of the keys of all checkpoints, of one namespace or of all.
def checkpoints_of(namespace: str | None) -> bytes:
    return b"c" if namespace is None else b"c" + _encode_part(namespace)


def checkpoint_key(namespace: str, id: str) -> bytes:
    return checkpoints_of(namespace) + _encode_part(id)


# The part of a checkpoint's key that stands for its id, and sorts as ids do.
def id_part_of(key: bytes) -> bytes:
    # The end mark can't occur inside of a part.
    return key.split(_END, 1)[1]


def value_key(namespace: str, channel: str, id: str) -> bytes:
    return b"v" + _encode_part(namespace) + _encode_part(channel) + _encode_id(id)


def writes_of(namespace: str, id: str) -> bytes:
    return b"w" + _encode_part(namespace) + _encode_id(id)


def task_key(namespace: str, id: str, task: str) -> bytes:
    return writes_of(namespace, id) + _encode_id(task)


# The bit of a length's byte that means another byte follows.
_MORE = 0x80


# *parts*, each with its length before it.
def pack(*parts: bytes) -> bytes:
    packed = bytearray()
    for part in parts:
        size = len(part)
        while size >= _MORE:
            packed.append(size % _MORE | _MORE)
            size >>= 7

        packed.append(size)
        packed += part

    return bytes(packed)


def unpack(packed: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(packed):
        size = shift = 0
        while True:
            byte = packed[at]
            at += 1
            size |= (byte % _MORE) << shift
            shift += 7
            if byte < _MORE:
                break

        yield packed[at : at + size]
        at += size


# Names in the store: the texts between slashes have no slash in them.


def names_of(thread: str) -> str:
    return f"langgraph/{quote_name(thread)}/"


def name_of(thread: str, channel: str, namespace: str) -> str:
    inner = f"{quote_name(namespace)}/" if namespace else ""
    return f"{names_of(thread)}{inner}{quote_name(channel)}"


class Thread:
    """
    The records of a thread.

    Attributes:
        id: Its id.
        prefix: The beginning of the keys of its records; None if there is no such
            thread.
    """

    def __init__(self, rows: Reader, id: str) -> None:
        self.rows = rows
        self.id = id
        record = rows.get(thread_key(id))
        self.prefix = None if record is None else _read_prefix(record.value)

    def get(self, key: bytes) -> Record | None:
        return None if self.prefix is None else self.rows.get(self.prefix + key)

    # The last key that begins with *prefix*, and its record; or None.
    def last(self, prefix: bytes) -> tuple[bytes, Record] | None:
        if self.prefix is None:
            return None

        low = self.prefix + prefix
        found = self.rows.scan(low, after(low), limit=1, backwards=True)
        return (self._own_key(found[0].key), found[0]) if found else None

    def keys(self, prefix: bytes) -> list[bytes]:
        if self.prefix is None:
            return []

        low = self.prefix + prefix
        return [self._own_key(key) for key in self.rows.keys(low, after(low))]

    def records(self, prefix: bytes) -> list[Record]:
        if self.prefix is None:
            return []

        low = self.prefix + prefix
        return self.rows.scan(low, after(low))

    def _own_key(self, key: bytes) -> bytes:
        return key[len(contents_of(0)) :]


# Cached, because each read of a thread needs it.
@lru_cache(maxsize=64)
def _read_prefix(value: bytes) -> bytes:
    _, number = unpack(value)
    return _CONTENTS + number


class WritableThread(Thread):
    rows: Writer

    def __init__(self, rows: Writer, id: str) -> None:
        super().__init__(rows, id)

    def put(self, key: bytes, value: bytes, hold: LogEnd | None = None) -> None:
        self.rows.put(self._made_prefix() + key, value, hold)

    # Write a record under a key that is free.
    def add(self, key: bytes, value: bytes, hold: LogEnd | None = None) -> None:
        self.rows.add(self._made_prefix() + key, value, hold)

    def remove(self, key: bytes) -> None:
        whole = self._made_prefix() + key
        self.rows.remove(whole, whole + b"\0")

    def _made_prefix(self) -> bytes:
        # The first record creates the thread, so that there is no thread without one.
        if self.prefix is None:
            self.prefix = contents_of(self.rows.new_number())
            number = self.prefix[len(_CONTENTS) :]
            packed = pack(encode_text(self.id), number)
            self.rows.put(thread_key(self.id), packed)

        return self.prefix

    # Its messages are not written again: both records hold them.
    def copy_to(self, other: WritableThread) -> None:
        for record in self.records(b""):
            other.add(self._own_key(record.key), record.value, record.hold)

    def delete(self) -> None:
        if self.prefix is not None:
            key = thread_key(self.id)
            self.rows.remove(key, key + b"\0")
            self.rows.remove(self.prefix, after(self.prefix))
            self.prefix = None
