"""
LangChain's messages as they were: they can be changed by whoever holds them,
so what was stored is told by what they said, and what is given is a new one.
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

__all__ = ["Template", "converted"]

_FIXED = frozenset({bool, float, int, str, type(None)})
_new = object.__new__
_set = object.__setattr__


class Template:
    """
    What a message said, and as many messages as one likes that say it.

    Made of a message that nobody else holds.
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

    def is_of(self, message: Any) -> bool:
        """
        Whether *message* is what it was made of, or equal to that.
        """
        return (
            type(message) is self._kind
            and message.__dict__ == self._fields
            and message.__pydantic_extra__ == self._extra
        )

    def message(self) -> BaseMessage:
        """
        A new message, that nobody else holds.
        """
        made = _new(self._kind)
        fields = {**self._fields, **_copied(self._fields, self._changeable)}
        # As pydantic copies its models: no field has to be validated again.
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_extra__", deepcopy(self._extra))
        _set(made, "__pydantic_fields_set__", set(self._given))
        _set(made, "__pydantic_private__", None)
        return made


def _copied(fields: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    # Most of them are empty lists and maps, which cost nothing to make.
    return {
        name: deepcopy(value)
        if value or type(value) not in {dict, list}
        else type(value)()
        for name in names
        for value in (fields[name],)
    }


def converted(
    message: BaseMessage, serde: SerializerProtocol
) -> tuple[Message, Template] | None:
    """
    *message* as one of ours, and what it is when it comes back: equal. None if
    it would not be, and would be as bytes.
    """
    try:
        made = load_message(message)
        back = dump_message(made)
    except (ConversationStateError, TypeError, ValueError):
        # It can't be said; so it is kept as whatever else is in a channel.
        return None

    if type(back) is not type(message):
        return None

    if back != message:
        again = serde.loads_typed(serde.dumps_typed(message))
        if type(again) is type(message) and again == message:
            return None

        # LangGraph leaves out halves of characters, which are mended here.

    return made, Template(back)
