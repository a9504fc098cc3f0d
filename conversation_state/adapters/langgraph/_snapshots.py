"""
Snapshots of LangChain's messages. Callers can change messages that they hold,
so stored ones are compared by content, and returned as new objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state.adapters._langchain import dump_message, load_message
from conversation_state.errors import ConversationStateError
from conversation_state.messages import Message

__all__ = ["MessageSnapshot", "convert_message"]

_FIXED = frozenset({bool, float, int, str, type(None)})
_new = object.__new__
_set = object.__setattr__


class MessageSnapshot:
    """
    The content of a message, from which equal messages are made.

    Takes over its message: no other code may hold that.
    """

    __slots__ = ("_changeable", "_extra", "_fields", "_given", "_kind", "id")

    def __init__(self, message: BaseMessage) -> None:
        fields = message.__dict__
        self._kind = type(message)
        self._changeable = tuple(
            [name for name, value in fields.items() if type(value) not in _FIXED]
        )
        self._fields = fields
        self._extra = message.__pydantic_extra__
        self._given = message.__pydantic_fields_set__
        self.id = message.id

    def matches(self, message: Any) -> bool:
        """
        Whether *message* is of the same class, and equal.
        """
        return (
            type(message) is self._kind
            and message.__dict__ == self._fields
            and message.__pydantic_extra__ == self._extra
        )

    def new_message(self) -> BaseMessage:
        """
        A new message that is equal.
        """
        made = _new(self._kind)
        fields = {**self._fields, **_copy_changeable(self._fields, self._changeable)}
        # As pydantic copies its models: the fields need no second validation.
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_extra__", deepcopy(self._extra))
        _set(made, "__pydantic_fields_set__", set(self._given))
        _set(made, "__pydantic_private__", None)
        return made


def _copy_changeable(
    fields: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    # Most are empty lists and maps, for which deepcopy would cost most.
    return {
        name: deepcopy(value)
        if value or type(value) not in {dict, list}
        else type(value)()
        for name in names
        for value in (fields[name],)
    }


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

    return made, MessageSnapshot(back)
