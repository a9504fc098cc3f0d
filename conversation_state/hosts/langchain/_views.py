"""Views of lists of LangChain's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conversation_state.adapters.langchain import (
    class_names,
    dump_message,
    load_message,
    make_message,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, Message
from conversation_state.trimming import TrimContext

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

# The fields that are sent to a model.
_VIEW_FIELDS = (
    "content",
    "invalid_tool_calls",
    "name",
    "role",
    "status",
    "tool_call_id",
    "tool_calls",
)


def load_for_view(message: Any) -> Message:
    """
    Our message for one that is only viewed, and not saved: if *message* can't be
    kept as a whole, its content and calls.

    Raises:
        DecodeError:
            If it is not a message of LangChain's, or these can't be kept.
    """
    try:
        return load_message(message)
    except DecodeError:
        names = map(class_names().get, type(message).__mro__)
        name = next(filter(None, names), None)
        if name is None:
            raise

        values = vars(message)
        fields = {field: values[field] for field in _VIEW_FIELDS if field in values}
        return load_message(make_message(name, fields))


def shown_messages(
    messages: Sequence[BaseMessage], ours: Sequence[Message], view: TrimContext
) -> list[BaseMessage]:
    """
    LangChain's messages of a *view* of *ours*, which were loaded from *messages*:
    unchanged ones are those objects.
    """
    return [
        messages[element.seq]
        if element.message is ours[element.seq] and not is_only_refusal(element.message)
        else _dump_shown(element.message)
        for element in view.elements
    ]


def _dump_shown(message: Message) -> BaseMessage:
    # LangChain does not send a refusal to Chat Completions, and so an empty message,
    # which is refused.
    if is_only_refusal(message):
        message = message.replace(content=message.refusal)

    dumped: BaseMessage = dump_message(message)
    return dumped


def is_only_refusal(message: Message) -> bool:
    """Whether *message* is a refusal, with no text and no call."""
    return (
        isinstance(message, AssistantMessage)
        and bool(message.refusal)
        and not message.text.strip()
        and not message.tool_calls
    )
