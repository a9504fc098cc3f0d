"""
What the rules say of one message by itself: its ids, its names, and whether it is
empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conversation_state._canonical import is_object
from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import shorten_repr
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.requests._rules import Rules, came_as_is
from conversation_state.tools import ToolCall

# The key of the object that broken arguments are sent within. Source: Anthropic's guide
# to fine-grained tool streaming; Pydantic AI sends it to each provider.
INVALID_JSON = "INVALID_JSON"


def is_well_formed(message: Any, rules: Rules) -> bool:
    """
    Whether *message* by itself is as *rules* ask: the quick question, without reasons.

    May say no where `find_form_flaws` finds nothing: of what was loaded as it is.
    """
    kind = message.__class__
    if kind is ToolMessage:
        name = message.tool_name
        return not name or rules.call_names.is_valid(name)

    if kind is UnknownMessage:
        return True

    if message.tool_calls:
        is_id = rules.call_ids.pattern.match
        is_name = rules.call_names.pattern.match
        for call in message.tool_calls:
            if not (
                is_id(call.id)
                and is_name(call.name)
                and has_valid_arguments(call, rules)
            ):
                return False
    else:
        content = message.content
        if content.__class__ is not str:
            if is_empty(message, rules):
                return False
        elif not content or content.isspace():
            return False

    senders = rules.sender_names
    return senders is None or not message.name or senders.is_valid(message.name)


def has_valid_arguments(call: ToolCall, rules: Rules) -> bool:
    """
    Whether the arguments of *call* are as *rules* ask: none, or a JSON object.
    O(their length).
    """
    arguments = call.arguments
    return (
        rules.takes_any_arguments
        or not arguments
        or is_object(arguments)
        or call.type == "custom"
        or arguments.isspace()
        or came_as_is(rules, call.metadata, "arguments")
    )


def find_form_flaws(message: Message, rules: Rules) -> Iterator[tuple[str, str]]:
    """
    What of *message* by itself is refused: a kind, and a sentence without subject.
    """
    if isinstance(message, UnknownMessage):
        return

    for call in message.tool_calls:
        if not (
            rules.call_ids.is_valid(call.id)
            or (call.id and came_as_is(rules, call.metadata, "id"))
        ):
            what = f"has the call id {shorten_repr(call.id)}; ids are {rules.call_ids}"
            yield "invalid call id", what

        if not (
            rules.call_names.is_valid(call.name)
            or came_as_is(rules, call.metadata, "name")
        ):
            what = f"calls the tool {shorten_repr(call.name)}; names are "
            yield "invalid name", f"{what}{rules.call_names}"

        if not has_valid_arguments(call, rules):
            what = f"calls {call.name} with arguments that are no JSON object"
            yield "invalid arguments", what

    if isinstance(message, ToolMessage):
        name = message.tool_name
        if name and not (
            rules.call_names.is_valid(name)
            or came_as_is(rules, message.metadata, "tool_name")
        ):
            what = f"is a result of the tool {shorten_repr(name)}; names are "
            yield "invalid name", f"{what}{rules.call_names}"

        return

    senders = rules.sender_names
    if (
        senders is not None
        and message.name
        and not senders.is_valid(message.name)
        and not came_as_is(rules, message.metadata, "sender")
    ):
        what = f"has the name {shorten_repr(message.name)}; names are {senders}"
        yield "invalid name", what

    if is_empty(message, rules) and not came_as_is(rules, message.metadata, "content"):
        yield "empty message", "is empty"


def is_empty(message: Message, rules: Rules) -> bool:
    """Whether *message* has nothing but empty texts, or nothing at all."""
    if rules.takes_empty or message.tool_calls:
        return False

    if isinstance(message, (ToolMessage, UnknownMessage)):
        return False

    return has_no_content(message, rules)


def has_no_content(message: Message, rules: Rules) -> bool:
    """Whether the parts of *message* are empty texts, or there are none."""
    for part in message.parts:
        if not isinstance(part, TextPart):
            return False

        text = part.text if rules.takes_blank else part.text.strip()
        # What a format noted on an empty text is sent with it, a signature for one.
        if text or part.metadata is not EMPTY_MAP:
            return False

    return True


def is_thinking_only(message: Message) -> bool:
    """Whether *message* is an answer that has thinking, and nothing that it led to."""
    if not isinstance(message, AssistantMessage) or message.tool_calls:
        return False

    has_thinking = False
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            has_thinking = True
        elif not (isinstance(part, TextPart) and not part.text.strip()):
            return False

    return has_thinking
