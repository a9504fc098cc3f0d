"""
Values of channels and writes as bytes: those of the saver's serde, in which
values of ours are documents of our codec.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state.adapters.langgraph._keys import pack, unpack
from conversation_state.aggregator import Aggregator, Checkpoint, Turn
from conversation_state.codec import decode, encode
from conversation_state.messages import Message
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = ["Typed", "dump", "load"]

_OURS = (Aggregator, Checkpoint, Message, ToolCall, Turn, Usage)
_TYPE = "conversation_state"
_DEEPEST = 32


class Typed(NamedTuple):
    """
    Bytes, and what kind of bytes they are.
    """

    type: str
    data: bytes

    def packed(self) -> bytes:
        """
        Both as one.
        """
        return pack(self.type.encode(), self.data)

    @classmethod
    def unpacked(cls, packed: bytes) -> Typed:
        """
        What `packed` gave.
        """
        type, data = unpack(packed)
        return cls(type.decode(), data)


def dump(serde: SerializerProtocol, value: Any) -> Typed:
    """
    *value* as bytes. Values of ours may be anywhere in lists, tuples and maps.
    """
    documents: list[bytes] = []
    _walk(value, lambda ours: documents.append(encode(ours)))
    if not documents:
        return Typed(*serde.dumps_typed(value))

    # Nobody writes the digest of what stands beside it by accident.
    mark = blake2b(b"".join(documents), digest_size=16).hexdigest()
    count = iter(range(len(documents)))
    bare = _walk(value, lambda _: {mark: next(count)})
    type, data = serde.dumps_typed(bare)
    return Typed(_TYPE, pack(type.encode(), data, *documents))


def load(serde: SerializerProtocol, typed: Typed) -> Any:
    """
    What was given to `dump`.
    """
    if typed.type != _TYPE:
        return serde.loads_typed(typed)

    type, data, *documents = unpack(typed.data)
    mark = blake2b(b"".join(documents), digest_size=16).hexdigest()
    bare = serde.loads_typed((type.decode(), data))

    def ours(value: Any) -> Any:
        return decode(documents[value[mark]])

    return _walk(bare, ours, is_ours=lambda value: type_is_mark(value, mark))


def type_is_mark(value: Any, mark: str) -> bool:
    """
    Whether *value* stands for one of ours.
    """
    return type(value) is dict and len(value) == 1 and mark in value


def _is_ours(value: Any) -> bool:
    return isinstance(value, _OURS)


def _walk(
    value: Any,
    change: Callable[[Any], Any],
    is_ours: Callable[[Any], bool] = _is_ours,
    depth: int = 0,
) -> Any:
    """
    *value* with what is ours changed, wherever it is.
    """
    if is_ours(value):
        return change(value)

    if depth < _DEEPEST:
        if type(value) is dict:
            return {k: _walk(v, change, is_ours, depth + 1) for k, v in value.items()}

        if type(value) in {list, tuple}:
            return type(value)([_walk(v, change, is_ours, depth + 1) for v in value])

    return value
