"""
Keys of records, the packing of their contents, and the names under which the
store has conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

__all__ = [
    "COPIES",
    "THREADS",
    "checkpoint_key",
    "checkpoints_of",
    "copies_key",
    "decode_text",
    "encode_text",
    "id_part_of",
    "layer_key",
    "name_of",
    "names_of",
    "pack",
    "task_key",
    "thread_key",
    "unpack",
    "value_key",
    "writes_of",
]

# All records of this host begin with this, then with their kind: threads, how
# many threads share a layer, and the contents of layers.
_HOST = b"lg."
THREADS = _HOST + b"t"
COPIES = _HOST + b"n"
_LAYERS = _HOST + b"d"

# The end of a part; a byte of 0 inside of a part is followed by 255.
_END = b"\0\1"
# A server's index takes keys of limited length only.
_MAX_PART = 200
_DIGEST_SIZE = 16
_LAYER_SIZE = 4
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def encode_text(text: str) -> bytes:
    """
    *text* as UTF-8, surrogates included.
    """
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """
    The text that `encode_text` encoded.
    """
    return data.decode("utf-8", "surrogatepass")


# The names and ids of one turn come again in each of its keys.
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


@lru_cache(maxsize=256)
def _encode_id(text: str) -> bytes:
    """
    An id as a part of a key: half as long if it is a UUID, and not sorted.
    """
    if _UUID.fullmatch(text):
        return b"\1" + bytes.fromhex(text.replace("-", ""))

    return b"\2" + _encode_part(text)


def thread_key(thread: str) -> bytes:
    """
    The key of the record that lists the layers of a thread.
    """
    return THREADS + _encode_part(thread)


def copies_key(layer: int) -> bytes:
    """
    The key of the record that counts the threads of a layer, if it is not one.
    """
    return COPIES + layer.to_bytes(_LAYER_SIZE)


def layer_key(layer: int) -> bytes:
    """
    The prefix of all keys in a layer.
    """
    return _LAYERS + layer.to_bytes(_LAYER_SIZE)


# In a layer: checkpoints in their order, values of channels by the checkpoint
# that set them, and writes.


def checkpoints_of(namespace: str | None) -> bytes:
    """
    The prefix of the keys of all checkpoints, of one namespace or of all.
    """
    return b"c" if namespace is None else b"c" + _encode_part(namespace)


def checkpoint_key(namespace: str, id: str) -> bytes:
    """
    The key of a checkpoint.
    """
    return checkpoints_of(namespace) + _encode_part(id)


def id_part_of(key: bytes) -> bytes:
    """
    The part of a checkpoint's key that stands for its id, and sorts as ids do.
    """
    # The end mark can't occur inside of a part.
    return key.split(_END, 1)[1]


def value_key(namespace: str, channel: str, id: str) -> bytes:
    """
    The key of the value to which checkpoint *id* set a channel.
    """
    return b"v" + _encode_part(namespace) + _encode_part(channel) + _encode_id(id)


def writes_of(namespace: str, id: str) -> bytes:
    """
    The prefix of the keys of all writes after a checkpoint.
    """
    return b"w" + _encode_part(namespace) + _encode_id(id)


def task_key(namespace: str, id: str, task: str) -> bytes:
    """
    The key of the writes of a task after a checkpoint.
    """
    return writes_of(namespace, id) + _encode_id(task)


# The bit of a length's byte that means another byte follows.
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
    The parts that `pack` put together.
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


# Names in the store: the texts between slashes have no slash in them.

_UNSAFE = re.compile("[%/\0-\x1f\x7f\ud800-\udfff]")
_MAX_QUOTED = 120


# Each turn saves under the names of its thread.
@lru_cache(maxsize=256)
def _quote_name(text: str) -> str:
    quoted = _UNSAFE.sub(
        lambda found: "".join([f"%{byte:02X}" for byte in encode_text(found[0])]),
        text,
    )
    if len(quoted) <= _MAX_QUOTED:
        return quoted

    digest = blake2b(encode_text(text), digest_size=_DIGEST_SIZE).hexdigest()
    return f"{quoted[: _MAX_QUOTED - len(digest) - 1]}~{digest}"


def names_of(thread: str) -> str:
    """
    The prefix of the names of all conversations of a thread.
    """
    return f"langgraph/{_quote_name(thread)}/"


def name_of(thread: str, channel: str, namespace: str) -> str:
    """
    The name under which the conversation in a channel of a thread is saved.
    """
    inner = f"{_quote_name(namespace)}/" if namespace else ""
    return f"{names_of(thread)}{inner}{_quote_name(channel)}"
