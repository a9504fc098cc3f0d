"""
Snapshots of messages: our messages as LangChain's, with the fields that are needed to
compare them and to make new ones.
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

# Types of values that can't be changed, so that snapshots and messages can share them.
_FIXED = frozenset({bool, float, int, str, type(None)})
# All snapshots share these empty values, which are never handed out.
_EMPTY: Mapping[type, Any] = {dict: {}, list: []}


class MessageSnapshot:
    """
    A message of ours as LangChain's: compares with messages, and makes new ones.

    The fields are made when they are first needed, which is never in a thread that
    is only loaded. Each turn compares all messages of a thread, and waits for memory
    for most of that time: so a snapshot keeps only the fields that are compared, and
    shares empty values.

    Attributes:
        kind: The class of the message; None until the fields are made.

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
        # Set last, because another thread takes a snapshot with a class as complete.
        self.kind = type(template)

    def make_fields(self) -> None:
        if self.kind is None:
            self._take_fields(dump_message(self._message))

    @property
    def id(self) -> str | None:
        self.make_fields()
        id: str | None = self.fields["id"]
        return id

    def matches(self, message: Any) -> bool:
        self.make_fields()
        return (
            type(message) is self.kind
            and message.__dict__ == self.fields
            and message.__pydantic_extra__ == self.extra
        )

    def new_message(self) -> BaseMessage:
        if self.kind is None:
            return cast("BaseMessage", dump_message(self._message))

        fields = self.fields.copy()
        for name in self._changeable:
            value = fields[name]
            # Most of these values are empty lists and maps; `deepcopy` of them would
            # take most of the time.
            is_empty = not value and type(value) in _EMPTY
            fields[name] = type(value)() if is_empty else deepcopy(value)

        extra = deepcopy(self.extra) if self.extra else {}
        made = new_message(self.kind, fields, extra, self._fields_set)
        return cast("BaseMessage", made)


@lru_cache(maxsize=256)
def _share_equal(value: Any) -> Any:
    """
    The first one of equal values, so that all snapshots share it.
    """
    return value


# The attributes of messages that are compared.
_get_fields = attrgetter("__dict__")
_get_extra = attrgetter("__pydantic_extra__")


class SnapshotColumns(NamedTuple):
    """
    The attributes of a conversation's snapshots that are compared, each as a list.

    Comparing waits for memory for most of its time, and the lists save reading each
    snapshot. They are never changed, but replaced.

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
        The columns of other *snapshots*; reads only those that are not in this one.
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
        # All messages match in most cases, and comparing whole lists takes half of the
        # time.
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
    *message* as one of ours, and the snapshot of the message that it is dumped as.
    None if that is not equal to *message*, while *serde* would restore an equal one.
    """
    try:
        made = load_message(message)
        back = dump_message(made)
    except (ConversationStateError, TypeError, ValueError):
        # The message can't be converted, so its list is stored as bytes, like any other
        # value.
        return None

    if type(back) is not type(message):
        return None

    if back != message:
        again = serde.loads_typed(serde.dumps_typed(message))
        if type(again) is type(message) and again == message:
            return None

        # *serde* does not restore the message either: LangGraph's drops lone
        # surrogates, which are replaced here.

    return made, MessageSnapshot(made, back)
