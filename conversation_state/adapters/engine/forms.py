"""
What was loaded as it is: notes on ids, names and empty content that a rule of form
would change, though the provider they come from takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from conversation_state._canonical import is_object
from conversation_state.adapters.engine.notes import map_of, notes_of, with_notes
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import FilePart, Part, ReasoningPart, TextPart
from conversation_state.requests import AS_LOADED, Rules, home_rules, rules
from conversation_state.tools import ToolCall


def note_forms(
    messages: Sequence[Message], source: str, *, is_request: bool, is_continued: bool
) -> tuple[Message, ...]:
    """
    *messages*, loaded from *source*, with a note on what a rule of form would change;
    as they are if *source* is "", a format without rules.

    A response is not sent as it came: what is empty in it is left out. So content, and
    who speaks first, are noted of a request only. One that *is_continued* has the
    results of calls that the provider stores.
    """
    if not source:
        return tuple(messages)

    noter = _Noter(source, rules(source), home_rules(source))
    noter.is_request, noter.is_continued = is_request, is_continued
    return tuple(map(noter.note, messages))


def note_calls(message: AssistantMessage, source: str) -> AssistantMessage:
    """*message*, a chunk of a response, with such notes on its calls."""
    # Most chunks have further arguments of a call that was noted when it began, with
    # its id: where a name has a rule, both come together.
    if not source or not any(call.id for call in message.tool_calls):
        return message

    noter = _Noter(source, rules(source), home_rules(source))
    noted: AssistantMessage = noter.note_calls(message)
    return noted


@attrs.define
class _Noter:
    source: str
    rules: Rules
    home: Rules
    is_first: bool = True  # whether only system messages came before
    is_request: bool = False
    is_continued: bool = False  # whether the provider has the messages before
    names: dict[str, str] = attrs.Factory(dict)  # of calls, by their ids

    def note(self, message: Any) -> Message:
        kind = message.__class__
        if kind is UnknownMessage:
            self.is_first = False
            return message  # type: ignore[no-any-return]  # `Any` above

        fields: list[str] = []
        if kind is ToolMessage:
            fields += self._note_result(message)
        else:
            message = self.note_calls(message)
            fields += self._note_content(message) if self.is_request else []
            message = self._note_parts(message) if self.is_request else message
            if message.name:
                fields += self._list_changed("sender_names", message.name, "sender")

        if kind is not SystemMessage:
            self.is_first = False

        noted: Message = self._with_note(message, fields) if fields else message
        return noted

    def _note_content(self, message: Any) -> list[str]:
        fields: list[str] = []
        if message.__class__ is SystemMessage:
            if not self.is_first and self._rules_differ("late_system"):
                fields.append("position")
        elif message.__class__ is AssistantMessage and self.is_first:
            fields += ["first"] * self._rules_differ("starts_with_user")

        is_empty = not (message.content or message.tool_calls)
        if is_empty and self._rules_differ("takes_empty"):
            # Null, and no parts, are refused where a text would not be.
            keys = map_of(notes_of(message.metadata, self.source), "keys")
            is_refused = keys.get("content", "") is None or "parts" in keys
            fields += [] if is_refused else ["content"]

        return fields

    def note_calls(self, message: Any) -> Any:
        calls = message.tool_calls
        if not calls:
            return message

        noted = [self._note_call(call) for call in calls]
        if all(one is other for one, other in zip(noted, calls, strict=True)):
            return message

        return message.replace(tool_calls=noted)

    def _note_call(self, call: ToolCall) -> ToolCall:
        is_again = self.is_request and call.id in self.names
        self.names[call.id] = call.name
        fields = ["again"] if is_again and self.source != "anthropic" else []
        fields += self._list_changed("call_ids", call.id, "id") if call.id else []
        fields += (
            self._list_changed("call_names", call.name, "name") if call.name else []
        )
        # A response is not sent as it came: a stop may have cut it off.
        if self.is_request and self._rules_differ("takes_any_arguments"):
            is_any = call.type == "custom" or is_object(call.arguments)
            fields += [] if is_any else ["arguments"]

        return self._with_note(call, fields) if fields else call

    def _note_result(self, message: ToolMessage) -> list[str]:
        name, call_id = message.tool_name, message.tool_call_id
        fields = ["orphan"] if self.is_continued and call_id not in self.names else []
        is_list = not isinstance(message.content, str)
        fields += ["texts"] * (is_list and self._rules_differ("text_roles"))
        if not name:
            return fields

        # Gemini's results have a name of their own.
        if self.source == "gemini" and self.names.get(call_id, name) != name:
            return [*fields, "tool_name"]

        return [*fields, *self._list_changed("call_names", name, "tool_name")]

    def _note_parts(self, message: Any) -> Any:
        parts = message.content
        if parts.__class__ is str or not self._rules_differ("takes_empty"):
            return message

        noted = [
            self._with_note(part, [field]) if (field := self._find_form(part)) else part
            for part in parts
        ]
        if all(one is other for one, other in zip(noted, parts, strict=True)):
            return message

        return message.replace(content=noted)

    def _find_form(self, part: Part) -> str:
        """What of *part* a rule of form may change; "" if nothing."""
        if isinstance(part, (ReasoningPart, TextPart)):
            return "" if part.text else "text"

        # Servers other than OpenAI's take files that are no PDFs.
        if isinstance(part, FilePart) and self.source == "openai_chat":
            is_pdf = part.media_type in {"", "application/pdf"}
            return "" if is_pdf or part.data is None else "file"

        return ""

    def _rules_differ(self, rule: str) -> bool:
        return bool(getattr(self.rules, rule) != getattr(self.home, rule))

    def _list_changed(self, rule: str, text: str, field: str) -> list[str]:
        """*field* if *rule* would change the *text* that its own provider takes."""
        ours, theirs = getattr(self.rules, rule), getattr(self.home, rule)
        if ours is None or ours.is_valid(text):
            return []

        return [field] if theirs is None or theirs.is_valid(text) else []

    def _with_note(self, value: Any, fields: list[str]) -> Any:
        notes = {**notes_of(value.metadata, self.source), AS_LOADED: fields}
        metadata: Mapping[str, Any] = with_notes(self.source, notes, value.metadata)
        if isinstance(value, Message):
            return value.replace(metadata=metadata)

        return attrs.evolve(value, metadata=metadata)
