"""
Keys of records, and how what is in them is put together; and the names of the
store that conversations have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from uuid import UUID

__all__ = [
    "COPIES",
    "THREADS",
    "checkpoint_key",
    "checkpoints_of",
    "copies_key",
    "id_in",
    "layer_key",
    "name_of",
    "names_of",
    "pack",
    "thread_key",
    "unpack",
    "value_key",
    "write_key",
    "writes_of",
]

# All records of ours begin with this, and then say what they are: threads, how
# many have a layer in common, and what is in a layer.
_HOST = b"lg."
THREADS = _HOST + b"t"
COPIES = _HOST + b"n"
_LAYERS = _HOST + b"d"

# A part ends so; a byte of 0 in it has another one after it.
_END = b"\0\1"
# No server's index takes keys of any length.
_LONGEST = 200
_DIGEST_SIZE = 16
_LAYER_SIZE = 4


def _part(text: str) -> bytes:
    """
    *text* as a part of a key: none begins another, and they are in its order,
    as far as the first 200 bytes tell it.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > _LONGEST:
        digest = blake2b(data, digest_size=_DIGEST_SIZE).digest()
        data = data[: _LONGEST - _DIGEST_SIZE] + b"\xff" + digest

    return data.replace(b"\0", b"\0\xff") + _END


def _id(text: str) -> bytes:
    """
    An id as a part of a key: half as long if it is a UUID, and in no order.
    """
    try:
        uuid = UUID(text)
    except ValueError:
        return b"\2" + _part(text)

    return b"\1" + uuid.bytes if str(uuid) == text else b"\2" + _part(text)


def thread_key(thread: str) -> bytes:
    """
    Where it is told which layers a thread is of.
    """
    return THREADS + _part(thread)


def copies_key(layer: int) -> bytes:
    """
    Where it is told how many threads have a layer, if it is not one.
    """
    return COPIES + layer.to_bytes(_LAYER_SIZE)


def layer_key(layer: int) -> bytes:
    """
    What all keys in a layer begin with.
    """
    return _LAYERS + layer.to_bytes(_LAYER_SIZE)


# In a layer: checkpoints in their order, values of channels by the checkpoint
# that brought them, and writes.


def checkpoints_of(namespace: str | None) -> bytes:
    """
    What the keys of all checkpoints begin with, of one namespace or of all.
    """
    return b"c" if namespace is None else b"c" + _part(namespace)


def checkpoint_key(namespace: str, id: str) -> bytes:
    """
    The key of a checkpoint.
    """
    return checkpoints_of(namespace) + _part(id)


def id_in(key: bytes) -> bytes:
    """
    What tells the id in the key of a checkpoint, and has its order.
    """
    # The end of a part is nowhere in one.
    return key.split(_END, 1)[1]


def value_key(namespace: str, channel: str, id: str) -> bytes:
    """
    The key of the value that a channel got in the checkpoint *id*.
    """
    return b"v" + _part(namespace) + _part(channel) + _id(id)


def writes_of(namespace: str, id: str) -> bytes:
    """
    What the keys of all writes after a checkpoint begin with.
    """
    return b"w" + _part(namespace) + _id(id)


def write_key(namespace: str, id: str, task: str, index: int) -> bytes:
    """
    The key of a write. Some have an *index* below 0.
    """
    return writes_of(namespace, id) + _id(task) + (index + 2**31).to_bytes(4)


# The bit of a length's byte that says there is more of it.
_MORE = 0x80


def pack(*parts: bytes) -> bytes:
    """
    *parts*, each with its length before it.
    """
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
    """
    The parts that `pack` was given.
    """
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


# Names in the store: what stands between the slashes has none in it.

_UNSAID = re.compile("[%/\0-\x1f\x7f\ud800-\udfff]")
_ROOM = 120


def _said(text: str) -> str:
    quoted = _UNSAID.sub(
        lambda found: "".join(
            [f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass")]
        ),
        text,
    )
    if len(quoted) <= _ROOM:
        return quoted

    data = text.encode("utf-8", "surrogatepass")
    digest = blake2b(data, digest_size=_DIGEST_SIZE).hexdigest()
    return f"{quoted[: _ROOM - len(digest) - 1]}~{digest}"


def names_of(thread: str) -> str:
    """
    What the names of all conversations of a thread begin with.
    """
    return f"langgraph/{_said(thread)}/"


def name_of(thread: str, channel: str, namespace: str) -> str:
    """
    The name that what was said in a channel of a thread is saved under.
    """
    inner = f"{_said(namespace)}/" if namespace else ""
    return f"{names_of(thread)}{inner}{_said(channel)}"
