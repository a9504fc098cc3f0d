"""
Threads: the keys of their records, how these are packed, the names under which the
store has their conversations, and the layers that copies of threads share.

A thread is a list of layers. It writes to the first one, which is its own; a
record in one layer hides those of the same key in later layers. A copy has a
new first layer over those of the original, which gets a new one, too: so the
records of both are stored once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

from conversation_state.store.records import Hold, Reader, Record, Writer, after

# All records of this host begin with this, then with their kind: threads, how
# many threads share a layer, and the contents of layers.
_HOST = b"lg."
THREADS = _HOST + b"t"
COPIES = _HOST + b"n"
_LAYERS = _HOST + b"d"

# The end of a part; a byte of 0 inside of a part is followed by 255.
_END = b"\0\1"
# The index of a database server limits the length of a key.
_MAX_PART = 200
_DIGEST_SIZE = 16
_LAYER_SIZE = 4
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


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


# The key of the record that lists the layers of a thread.
def thread_key(thread: str) -> bytes:
    return THREADS + _encode_part(thread)


def copies_key(layer: int) -> bytes:
    return COPIES + layer.to_bytes(_LAYER_SIZE)


def layer_key(layer: int) -> bytes:
    return _LAYERS + layer.to_bytes(_LAYER_SIZE)


# In a layer: checkpoints in their order, values of channels by the checkpoint
# that set them, and writes.


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

_UNSAFE = re.compile("[%/\0-\x1f\x7f\ud800-\udfff]")
_MAX_QUOTED = 120


# Cached, because each turn saves under the names of its thread.
@lru_cache(maxsize=256)
def _quote_name(text: str) -> str:
    quoted = _UNSAFE.sub(
        lambda found: "".join([f"%{byte:02X}" for byte in encode_text(found[0])]), text
    )
    if len(quoted) <= _MAX_QUOTED:
        return quoted

    digest = blake2b(encode_text(text), digest_size=_DIGEST_SIZE).hexdigest()
    return f"{quoted[: _MAX_QUOTED - len(digest) - 1]}~{digest}"


def names_of(thread: str) -> str:
    return f"langgraph/{_quote_name(thread)}/"


def name_of(thread: str, channel: str, namespace: str) -> str:
    inner = f"{_quote_name(namespace)}/" if namespace else ""
    return f"{names_of(thread)}{inner}{_quote_name(channel)}"


# The numbers of the layers in a thread's record.
@lru_cache(maxsize=64)
def _unpack_layers(value: bytes) -> tuple[int, ...]:
    _, layers = unpack(value)
    at = range(0, len(layers), _LAYER_SIZE)
    return tuple([int.from_bytes(layers[i : i + _LAYER_SIZE]) for i in at])


class Thread:
    """
    The records of a thread, as of one moment.

    Attributes:
        id: Its id.

        layers: The numbers of its layers; none if there is no such thread.
    """

    def __init__(self, rows: Reader, id: str) -> None:
        self.rows = rows
        self.id = id
        self.layers: tuple[int, ...] = ()
        record = rows.get(thread_key(id))
        if record is not None:
            self.layers = _unpack_layers(record.value)

    def get(self, key: bytes) -> Record | None:
        for layer in self.layers:
            record = self.rows.get(layer_key(layer) + key)
            if record is not None:
                return record

        return None

    # The last key that begins with *prefix*, and its record; or None.
    def last(self, prefix: bytes) -> tuple[bytes, Record] | None:
        last: tuple[bytes, Record] | None = None
        for layer in self.layers:
            start = layer_key(layer)
            low = start + prefix
            found = self.rows.scan(low, after(low), limit=1, backwards=True)
            for record in found:
                key = record.key[len(start) :]
                if last is None or key > last[0]:
                    last = key, record

        return last

    def keys(self, prefix: bytes) -> set[bytes]:
        found: set[bytes] = set()
        for layer in self.layers:
            start = layer_key(layer)
            keys = self.rows.keys(start + prefix, after(start + prefix))
            found.update([key[len(start) :] for key in keys])

        return found

    def records(self, prefix: bytes) -> list[Record]:
        found: dict[bytes, Record] = {}
        # The first layer is read last: its records replace those it hides.
        for layer in reversed(self.layers):
            start = layer_key(layer)
            low = start + prefix
            for record in self.rows.scan(low, after(low)):
                found[record.key[len(start) :]] = record

        return [found[key] for key in sorted(found)]


class WritableThread(Thread):
    rows: Writer

    def __init__(self, rows: Writer, id: str) -> None:
        super().__init__(rows, id)

    def put(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        self.rows.put(self._own_prefix() + key, value, hold)

    # Write a record under a key that is free.
    def add(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        self.rows.add(self._own_prefix() + key, value, hold)

    # Remove a record from a thread that has one layer.
    def remove(self, key: bytes) -> None:
        whole = self._own_prefix() + key
        self.rows.remove(whole, whole + b"\0")

    def _own_prefix(self) -> bytes:
        # The first record creates the thread, so that there is no thread without one.
        if not self.layers:
            self._set_layers((self.rows.new_number(),))

        return layer_key(self.layers[0])

    def _set_layers(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        packed = b"".join([layer.to_bytes(_LAYER_SIZE) for layer in layers])
        self.rows.put(thread_key(self.id), pack(encode_text(self.id), packed))

    # A copy of this thread that shares its records. Writes a row for each layer.
    def copy(self, id: str) -> WritableThread:
        rows = self.rows
        shared = self.layers
        own = layer_key(shared[0])
        if len(shared) > 1 and not rows.keys(own, after(own), limit=1):
            # Nothing was written since the last copy. The empty layer is not shared,
            # because each read looks into all layers.
            shared = shared[1:]
        else:
            self._set_layers((rows.new_number(), *shared))

        for layer in shared:
            self._add_references(layer, 1)

        made = WritableThread(rows, id)
        made._set_layers((rows.new_number(), *shared))
        return made

    # Replace all layers by one of its own, with the records to *keep*.
    def flatten(self, keep: list[Record]) -> None:
        shared = self.layers
        new = self.rows.new_number()
        for record in keep:
            key = record.key[len(layer_key(0)) :]
            self.rows.add(layer_key(new) + key, record.value, record.hold)

        self._set_layers((new,))
        self._release_layers(shared)

    def delete(self) -> None:
        key = thread_key(self.id)
        self.rows.remove(key, key + b"\0")
        self._release_layers(self.layers)
        self.layers = ()

    def _release_layers(self, layers: tuple[int, ...]) -> None:
        for layer in layers:
            if not self._add_references(layer, -1):
                low = layer_key(layer)
                self.rows.remove(low, after(low))

    # Count *more* threads that have a layer; returns how many have it now.
    def _add_references(self, layer: int, more: int) -> int:
        key = copies_key(layer)
        record = self.rows.get(key)
        # Most layers belong to one thread, which needs no record.
        count = (1 if record is None else int.from_bytes(record.value)) + more
        if count > 1:
            self.rows.put(key, count.to_bytes(_LAYER_SIZE))
        elif record is not None:
            self.rows.remove(key, key + b"\0")

        return count
