"""
Values of channels and writes as bytes of the saver's serde, in which values of
ours are documents of our codec.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import Send

from conversation_state.adapters.langgraph._keys import pack, unpack
from conversation_state.aggregator import Aggregator, Checkpoint, Turn
from conversation_state.codec import decode, encode
from conversation_state.documents import Document
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = ["TypedBytes", "dump_value", "load_value"]

_OURS = (
    *(Aggregator, Checkpoint, Document, Message, Part, Template, Timeline),
    *(ToolCall, ToolInfo, Turn, Usage),
)
_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
_TYPE = "conversation_state"
_MAX_DEPTH = 32


class TypedBytes(NamedTuple):
    """
    Bytes, and their type.
    """

    type: str
    data: bytes

    def packed(self) -> bytes:
        """
        Both as one.
        """
        return pack(self.type.encode(), self.data)

    @classmethod
    def unpacked(cls, packed: bytes) -> TypedBytes:
        """
        The inverse of `packed`.
        """
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

    # A digest of the documents can't occur in the value by accident.
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
    """
    The value that `dump_value` dumped.
    """
    if typed.type != _TYPE:
        return serde.loads_typed(typed)

    type, data, *documents = unpack(typed.data)
    mark = blake2b(b"".join(documents), digest_size=16).hexdigest()
    bare = serde.loads_typed((type.decode(), data))

    def ours(value: Any) -> Any:
        return decode(documents[value[mark]])

    return _convert_nested(
        bare, ours, is_own=lambda value: _is_placeholder(value, mark)
    )


def _is_placeholder(value: Any, mark: str) -> bool:
    """
    Whether *value* is the placeholder of a value of ours.
    """
    return type(value) is dict and len(value) == 1 and mark in value


def _is_own_value(value: Any) -> bool:
    return isinstance(value, _OURS)


def _convert_nested(
    value: Any,
    change: Callable[[Any], Any],
    is_own: Callable[[Any], bool] = _is_own_value,
    depth: int = 0,
) -> Any:
    """
    *value* with all values of ours inside of it changed.
    """
    kind = type(value)
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
    """
    *value* with its fields converted, if it is a `Send` or a dataclass.
    """
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
        # Lists and maps are always new objects, equal where nothing was ours.
        if new is not old:
            made = copy(value) if made is value else made
            object.__setattr__(made, name, new)

    return made
