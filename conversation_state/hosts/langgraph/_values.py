"""
Values of ours in graphs: a state as a key of a graph's state, and any of them in the
values of channels and writes, which are bytes of the saver's serde.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Self
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import EmptyChannelError
from langgraph.types import Send

from conversation_state._wording import describe_value
from conversation_state.adapters.langchain import load_message
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    Turn,
    response_key,
)
from conversation_state.codec import decode, encode
from conversation_state.documents import Document
from conversation_state.hosts._host import encode_text, replace_entries
from conversation_state.hosts.langgraph._threads import pack, unpack
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

_OURS = (
    *(Aggregator, Checkpoint, Document, Message, Part, Template, Timeline),
    *(ToolCall, ToolInfo, Turn, Usage),
)
_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
_TYPE = "conversation_state"
_MAX_DEPTH = 32


def add_to_state(state: Aggregator, update: Any) -> Aggregator:
    """
    *state* with the *update* that a node returned: the reducer of `StateChannel`.

    Args:
        state: The state so far.
        update: A state that continues it, which is joined; a `Turn`; a message
            of ours or of LangChain's; a `Usage`; None; or a list of these, in
            order.

    Raises:
        TypeError: If *update* is anything else.
    """
    match update:
        case None:
            return state
        case Aggregator() | Turn():
            return state.join(update)
        case Message():
            return _add_message(state, update)
        case Usage():
            step = _current_step.get()
            key = step and step.make_id(step.salt, encode(update))
            return state.add_usage(update, key=key)
        case RemoveMessage():
            raise TypeError(
                "update: messages can't be removed from a state; return a fork of "
                "an earlier state with Overwrite, or trim the model's view"
            )
        case BaseMessage():
            # As LangGraph's `add_messages`: the id is saved with what a node wrote.
            update.id = update.id or str(uuid4())
            return _add_message(state, load_message(update), is_saved=True)
        case str() | bytes() | dict():
            pass
        case Iterable():
            for each in update:
                state = add_to_state(state, each)

            return state

    raise TypeError(
        "update: expected messages of ours or of LangChain's, a Usage, an Aggregator "
        f"that continues the state, or a list of these; got {describe_value(update)}"
    )


class _StepIdentities(NamedTuple):
    """
    What the identities of a step's additions are made of. LangGraph adds one update
    more than once: the edges behind a node see a copy of the state, which may come back
    with what was sent to another node, so the copy needs the same identities.
    """

    base: Aggregator
    salt: bytes
    numbers: Counter[bytes]  # how often the step added each content

    def make_id(self, *content: bytes) -> str:
        digest = blake2b(pack(*content), digest_size=16).digest()
        self.numbers[digest] += 1
        packed = digest + b"%d" % self.numbers[digest]
        return blake2b(packed, digest_size=16).hexdigest()


# A variable, because LangGraph calls the reducer with a state and an update only.
_current_step: ContextVar[_StepIdentities | None] = ContextVar(
    "_current_step", default=None
)


def _add_message(
    state: Aggregator, message: Message, *, is_saved: bool = False
) -> Aggregator:
    step = _current_step.get()
    if step is None:
        return state.add_response(message)

    base, salt = step.base, step.salt
    # A salt is lost with the program. A message whose id *is_saved* gets its identity
    # back in a thread that goes on after an interrupt.
    if is_saved:
        last = [encode_text(entry.id) for entry in base.entries[-1:]]
        salt = pack(base.root_id.bytes, *last)

    id = step.make_id(salt, encode(message))
    # The usage is of this entry, as everywhere, if its response has no id.
    grown = state.add_response(message, key=None if response_key(message) else id)
    added = replace_entries(base, base.entries.append(Entry(id, message)))
    return replace_entries(grown, state.join(added).entries)


class StateChannel(BinaryOperatorAggregate[Aggregator]):
    """
    Holds an `Aggregator`, to which nodes add: ``conversation:
    Annotated[Aggregator, StateChannel]``.

    Updates of parallel nodes are joined in LangGraph's order, each entry once.
    Empty until the first update; `Overwrite` replaces the state.
    """

    __slots__ = ("_empty", "_salt")

    def __init__(self, typ: Any = Aggregator, operator: Any = add_to_state) -> None:
        super().__init__(typ, operator)
        self._empty = Aggregator.new()
        self._salt = uuid4().bytes

    def copy(self) -> Self:
        """A copy, to which nodes add what they add to this one."""
        copied = super().copy()
        copied._empty = self._empty
        copied._salt = self._salt
        return copied

    def update(self, values: Sequence[Any]) -> bool:
        """Add *values*; True if there were any."""
        if not values:
            return False

        try:
            base = self.get()
        except EmptyChannelError:
            # A state that comes first is the value itself, so that it keeps its id.
            base = self._empty
            self.value = values[0] if isinstance(values[0], Aggregator) else base

        token = _current_step.set(_StepIdentities(base, self._salt, Counter()))
        try:
            return super().update(values)
        finally:
            _current_step.reset(token)
            # What the next step adds is new, whatever it says.
            self._salt = uuid4().bytes


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
