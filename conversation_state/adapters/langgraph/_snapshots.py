"""
Snapshots of messages: LangChain's messages as ours, with what it takes to compare
them, and to make new ones of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state._persistent import Log
from conversation_state.adapters._langchain import (
    dump_message,
    load_message,
    new_message,
)
from conversation_state.errors import ConversationStateError
from conversation_state.messages import Message

__all__ = ["MessageSnapshot", "SnapshotColumns", "convert_message"]

# Values that can't be changed, of most fields.
_FIXED = frozenset({bool, float, int, str, type(None)})
# What all snapshots share for values that are empty, and that are never handed out.
_EMPTY: Mapping[type, Any] = {dict: {}, list: []}


class MessageSnapshot:
    """
    A message of ours as LangChain's: what is compared with, and new objects.

    Made when it is first asked for: a thread that is only loaded needs none. Each
    turn compares all messages of a thread, and most of that time is waiting for
    memory: so only what is compared is kept of a message, and empty values are
    shared.

    Attributes:
        kind: The class of the message; None before it was asked for.

        fields: Its fields.

        extra: Its fields that the class does not declare.
    """

    __slots__ = ("_changeable", "_fields_set", "_message", "extra", "fields", "kind")

    kind: type[BaseMessage] | None
    fields: dict[str, Any]
    extra: dict[str, Any]
    _changeable: tuple[str, ...]
    _fields_set: frozenset[str]

    def __init__(self, message: Message, template: BaseMessage | None = None) -> None:
        self._message = message
        self.kind = None
        if template is not None:
            self._take_fields(template)

    def _take_fields(self, template: BaseMessage) -> None:
        """
        Take the fields of *template*, which no other code may hold or change.
        """
        fields: Any = vars(template)
        changeable = []
        for name, value in fields.items():
            if type(value) not in _FIXED:
                changeable.append(name)
                if not value and type(value) in _EMPTY:
                    fields[name] = _EMPTY[type(value)]

        self.fields = fields
        self.extra = template.__pydantic_extra__ or _EMPTY[dict]
        self._changeable = _share_equal(tuple(changeable))
        self._fields_set = _share_equal(frozenset(template.__pydantic_fields_set__))
        # Last: another thread takes a snapshot that has a class for a whole one.
        self.kind = type(template)

    def make_fields(self) -> None:
        """
        Make all attributes, unless they are there.
        """
        if self.kind is None:
            self._take_fields(dump_message(self._message))

    @property
    def id(self) -> str | None:
        self.make_fields()
        id: str | None = self.fields["id"]
        return id

    def matches(self, message: Any) -> bool:
        """
        Whether *message* is of the same class, and equal.
        """
        self.make_fields()
        return (
            type(message) is self.kind
            and message.__dict__ == self.fields
            and message.__pydantic_extra__ == self.extra
        )

    def new_message(self) -> BaseMessage:
        """
        A new message that is equal.
        """
        if self.kind is None:
            return cast("BaseMessage", dump_message(self._message))

        fields = self.fields.copy()
        for name in self._changeable:
            value = fields[name]
            # Most are empty lists and maps, for which deepcopy would cost most.
            is_empty = not value and type(value) in _EMPTY
            fields[name] = type(value)() if is_empty else deepcopy(value)

        extra = deepcopy(self.extra) if self.extra else {}
        made = new_message(self.kind, fields, extra, self._fields_set)
        return cast("BaseMessage", made)


@lru_cache(maxsize=256)
def _share_equal(value: Any) -> Any:
    """
    The first of equal values.
    """
    return value


# What is compared of messages.
_get_fields = attrgetter("__dict__")
_get_extra = attrgetter("__pydantic_extra__")


class SnapshotColumns(NamedTuple):
    """
    What is compared of the snapshots of a conversation, as a list of each.

    Most of the time of comparing is waiting for memory, and each snapshot is memory
    of its own. Never changed, but replaced.

    Attributes:
        snapshots: The snapshots.

        kinds: The class of each.

        fields: The fields of each.

        extras: The fields of each that its class does not declare.
    """

    snapshots: Log[MessageSnapshot]
    kinds: list[Any]
    fields: list[Any]
    extras: list[Any]

    def move_to(self, snapshots: Log[MessageSnapshot]) -> SnapshotColumns:
        """
        The columns of other *snapshots*; those that both have are not looked at.
        """
        if snapshots is self.snapshots:
            return self

        common = snapshots.common_prefix(self.snapshots)
        new = list(snapshots.iterate(common))
        for each in new:
            each.make_fields()

        return SnapshotColumns(
            snapshots,
            [*self.kinds[:common], *[each.kind for each in new]],
            [*self.fields[:common], *[each.fields for each in new]],
            [*self.extras[:common], *[each.extra for each in new]],
        )

    def count_matching(self, messages: Sequence[BaseMessage]) -> int:
        """
        How many leading *messages* match the snapshots.
        """
        count = min(len(self.kinds), len(messages))
        given = messages[:count]
        # As a whole, which takes half the time: all of them match in most cases.
        if (
            list(map(type, given)) == self.kinds[:count]
            and list(map(_get_fields, given)) == self.fields[:count]
            and list(map(_get_extra, given)) == self.extras[:count]
        ):
            return count

        pairs = enumerate(zip(self.snapshots, given, strict=False))
        return next((at for at, (one, other) in pairs if not one.matches(other)), 0)


def convert_message(
    message: BaseMessage, serde: SerializerProtocol
) -> tuple[Message, MessageSnapshot] | None:
    """
    *message* as one of ours, and the snapshot of what it is dumped as. None if
    that is not equal to *message*, while its bytes in *serde* would be.
    """
    try:
        made = load_message(message)
        back = dump_message(made)
    except (ConversationStateError, TypeError, ValueError):
        # Not convertible: it is stored as bytes, like any other value.
        return None

    if type(back) is not type(message):
        return None

    if back != message:
        again = serde.loads_typed(serde.dumps_typed(message))
        if type(again) is type(message) and again == message:
            return None

        # LangGraph's serde drops lone surrogates, which are replaced here.

    return made, MessageSnapshot(made, back)
