"""
Records: their keys, the packing of their contents, the names under which the store
has conversations, and the values of channels and writes as bytes of the saver's
serde, in which values of ours are documents of our codec.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import Send

from conversation_state.aggregator import Aggregator, Checkpoint, Turn
from conversation_state.codec import decode, encode
from conversation_state.documents import Document
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = [
    "COPIES",
    "THREADS",
    "TypedBytes",
    "checkpoint_key",
    "checkpoints_of",
    "copies_key",
    "decode_text",
    "dump_value",
    "encode_text",
    "id_part_of",
    "layer_key",
    "load_value",
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


_OURS = (
    *(Aggregator, Checkpoint, Document, Message, Part, Template, Timeline),
    *(ToolCall, ToolInfo, Turn, Usage),
)
_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
_TYPE = "conversation_state"
_MAX_DEPTH = 32


class TypedBytes(NamedTuple):
    type: str
    data: bytes

    def packed(self) -> bytes:
        return pack(self.type.encode(), self.data)

    @classmethod
    def unpacked(cls, packed: bytes) -> TypedBytes:
        type, data = unpack(packed)
        return cls(type.decode(), data)


def dump_value(serde: SerializerProtocol, value: Any) -> TypedBytes:
    """
    *value* as bytes. Values of ours may be anywhere in lists, tuples, maps and
    dataclasses, and in what LangGraph hands on: `Send`, `Overwrite`, `Command`
    and the values of interrupts.
    """
    documents: list[bytes] = []
    if not _is_plain(value):
        _convert_nested(value, lambda ours: documents.append(encode(ours)))

    if not documents:
        return TypedBytes(*serde.dumps_typed(value))

    # A digest of the documents can't occur in the value by accident. Both walks meet
    # the values of ours in the same order, so their numbers are right.
    mark = blake2b(b"".join(documents), digest_size=16).hexdigest()
    count = iter(range(len(documents)))
    bare = _convert_nested(value, lambda _: {mark: next(count)})
    type, data = serde.dumps_typed(bare)
    return TypedBytes(_TYPE, pack(type.encode(), data, *documents))


def _is_plain(value: Any, depth: int = 2) -> bool:
    """
    Whether *value* can't have values of ours inside: most are texts, numbers,
    messages of LangChain's, or lists and maps of these.
    """
    kind = type(value)
    if kind in _PLAIN or issubclass(kind, BaseMessage):
        return True

    if kind is dict:
        value, kind = value.values(), list

    return kind is list and (
        not value or (depth > 0 and all(_is_plain(each, depth - 1) for each in value))
    )


def load_value(serde: SerializerProtocol, typed: TypedBytes) -> Any:
    if typed.type != _TYPE:
        return serde.loads_typed(typed)

    kind, data, *documents = unpack(typed.data)
    mark = blake2b(b"".join(documents), digest_size=16).hexdigest()
    bare = serde.loads_typed((kind.decode(), data))
    return _convert_nested(
        bare,
        lambda value: decode(documents[value[mark]]),
        lambda value: type(value) is dict and len(value) == 1 and mark in value,
    )


def _convert_nested(
    value: Any,
    change: Callable[[Any], Any],
    is_own: Callable[[Any], bool] = lambda value: isinstance(value, _OURS),
    depth: int = 0,
) -> Any:
    kind = type(value)
    # A value that contains itself would recurse without end. The serde refuses it.
    if kind in _PLAIN or depth > _MAX_DEPTH:
        return value

    if is_own(value):
        return change(value)

    def convert(inner: Any) -> Any:
        return _convert_nested(inner, change, is_own, depth + 1)

    if isinstance(value, dict):
        return {key: convert(inner) for key, inner in value.items()}

    make = getattr(kind, "_make", kind)  # of a named tuple
    if kind in {list, deque} or isinstance(value, tuple):
        return make([convert(inner) for inner in value])

    return _convert_fields(value, convert)


def _convert_fields(value: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(value, Send):
        names = ["arg"]
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if hasattr(value, field.name)]
    else:
        return value

    made = value
    for name in names:
        old = getattr(value, name)
        new = convert(old)
        # `convert` returns new lists and maps even if they contain no value of ours;
        # the copy is equal to *value* then.
        if new is not old:
            made = copy(value) if made is value else made
            object.__setattr__(made, name, new)

    return made
