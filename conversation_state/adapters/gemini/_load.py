"""From Gemini's contents to messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from conversation_state.adapters.engine.notes import notes_of, with_notes
from conversation_state.adapters.engine.reading import (
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters.engine.wire import MessageLoader, make_call_id
from conversation_state.adapters.gemini._calls import read_call, read_returned
from conversation_state.adapters.gemini._parts import (
    SOURCE,
    GeminiObject,
    kind_of,
    read_part,
    simplify_content,
)
from conversation_state.adapters.gemini._response import (
    ResponseChoice,
    is_response,
    read_response,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall

_CONTENT = frozenset({"parts", "role"})
_RESULT = frozenset({"id", "name", "parts", "response"})
_EVENT = frozenset({"candidates", "error"})
_ASKING = (None, "", "function", "user")


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of contents, or a response.

    Of a request only ``systemInstruction`` and ``contents`` are read. What
    functions returned is a message for each; what else stands in the same
    content is another one. If several answers were asked for (``candidateCount``), a
    response gives one message for each, the first with the usage: these are
    alternatives, and no conversation. A prompt that was blocked gives an empty one,
    whose reason to finish is why. A call without an id gets one: of the
    response's id, or unique in time if it has none; in a request, of its place. So does
    its result: that of the first call of that name that has none.

    Raises:
        DecodeError:
            If something is not what the format has in its place.
    """
    expected = "a request, a list of contents, or a response"
    return GeminiLoader().load(payload, expected)


class GeminiLoader(MessageLoader):
    source = SOURCE

    def __init__(self) -> None:
        super().__init__()
        # How much of what was mended is noted with the messages before.
        self._noted = 0

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = GeminiObject(self, payload, "$")
        if "contents" in payload and "candidates" not in payload:
            messages = self.system(node)
            if is_list(payload["contents"]):
                return messages + self.history(payload["contents"], "$.contents")

            node.wrong("contents", "a list of contents")
            return []

        is_answer = payload.get("error") is None and is_response(node.raw)
        if "contents" in payload or not is_answer:
            self.refuse_document(payload, "contents", "candidates", "contents")
            return []

        return [
            message
            for info in read_response(node)
            for message in self.content(info.raw, info.path, info.prefix, info)
        ]

    def system(self, payload: GeminiObject) -> list[Message]:
        key = "systemInstruction"
        instruction = payload.raw.get(key)
        if instruction is None:
            return []

        if isinstance(instruction, str):
            text = payload.text(key)
            return [SystemMessage(text, metadata=self._make_metadata(payload))]

        node, problems = payload.body(key), self.count
        if "role" in node.raw:
            # It has no effect; most send "user".
            node.notes["role"] = self.json(node.raw["role"], f"{node.path}.role")

        node.keep(_CONTENT)
        parts = [read_part(part, "system") for part in _list_parts(node)]
        if self.count > problems or not is_map(instruction):
            return []

        if not all(isinstance(part, TextPart) for part in parts):
            raw = {key: self.json(instruction, node.path)}
            return [self._make_unknown(raw, node.path)]

        content = simplify_content(parts)
        return [SystemMessage(content, metadata=self._make_metadata(node))]

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        messages: list[Message] = []
        for at, raw in enumerate(raws):
            here = f"{path}[{at}]"
            if is_map(raw) and "parts" not in raw and _EVENT & raw.keys():
                what = "is a stream event; use load_chunks()"
                self.problem(here, what)
                continue

            found = self.content(raw, here, f"content_{at}")
            # `dump` would write one content for both.
            if messages and found and _would_join(messages[-1], found[0]):
                notes = {**notes_of(found[0].metadata, SOURCE), "apart": True}
                metadata = with_notes(SOURCE, notes, found[0].metadata)
                found[0] = found[0].replace(metadata=metadata)

            messages += found

        return messages

    def content(
        self, raw: Any, path: str, prefix: str, info: ResponseChoice | None = None
    ) -> list[Message]:
        """
        The messages of one content; none if there was a problem. Ids that are
        made up begin with *prefix*.
        """
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return []

        node = GeminiObject(self, raw, path)
        role = raw.get("role")
        if info and role not in ("model", "", None):
            node.wrong("role", "model")
            return []

        if not (role is None or isinstance(role, str)):
            node.wrong("role", "user, model or function")
            return []

        # What was mended in the metadata of a response is in its own notes.
        problems, self._noted = self.count, len(self.mended)
        messages: list[Message]
        if info or role == "model":
            messages = [self._load_answer(node, prefix, info)]
        elif role in _ASKING:
            messages = self._load_user_content(node, prefix)
        else:
            messages = [self._make_unknown(self.json(raw, path), path)]

        return messages if self.count == problems else []

    def _make_metadata(self, node: GeminiObject, within: str = "") -> Mapping[str, Any]:
        """
        The metadata of a message with what was noted on *node*, and what was mended
        since the message before it: paths relative to *within*, or to the node's.
        """
        if len(self.mended) > self._noted:
            note_mended(node, self._noted, within)
            self._noted = len(self.mended)

        return node.metadata(SOURCE)

    def _make_unknown(self, raw: Any, path: str) -> UnknownMessage:
        metadata = self._make_metadata(GeminiObject(self, {}, path))
        return UnknownMessage(raw, source=SOURCE, metadata=metadata)

    def _load_answer(
        self, node: GeminiObject, prefix: str, info: ResponseChoice | None
    ) -> AssistantMessage:
        node.keep(_CONTENT)
        parts: list[Any] = []
        calls: list[ToolCall] = []
        places: list[int] = []
        for at, inside in enumerate(_list_parts(node)):
            if kind_of(inside.raw) == "functionCall":
                is_named = is_map(body := inside.raw["functionCall"]) and body.get("id")
                made = "" if is_named else make_call_id(prefix, len(calls))
                calls.append(read_call(inside, made, first=not calls))
                places.append(at)
            else:
                parts.append(read_part(inside, "assistant"))

        # Unless the calls come last, parts and calls get their index.
        if places and places[0] < len(parts):
            others = sorted({*range(len(parts) + len(calls))} - {*places})
            parts, calls = [
                [attrs.evolve(one, index=at) for one, at in zip(each, its, strict=True)]
                for each, its in ((parts, others), (calls, places))
            ]

        for call in calls:
            is_made = "made_id" in notes_of(call.metadata, SOURCE)
            # Calls in several contents are all open until a result comes.
            if self.pairing.has_results:
                self.pairing.start_group()

            self.pairing.open_call(call.id, call.name, is_made_up=is_made)

        fields: dict[str, Any] = {}
        if info:
            node.notes.update(info.notes)
            fields["response"] = info.meta

        content = simplify_content(parts)
        # The text "" would be no part beside calls.
        if calls and content == "" and parts:
            content = parts

        metadata = self._make_metadata(node)
        return AssistantMessage(content, tool_calls=calls, metadata=metadata, **fields)

    def _load_user_content(self, node: GeminiObject, prefix: str) -> list[Message]:
        """
        Messages of the user, and results of functions. The first one has the notes on
        the content.
        """
        node.keep(_CONTENT)
        messages: list[Message] = []
        parts: list[Part] = []
        for at, inside in enumerate(_list_parts(node)):
            if kind_of(inside.raw) != "functionResponse":
                parts.append(read_part(inside, "user"))
                continue

            if parts:
                messages.append(self._make_user_message(node, parts, messages))
                parts = []

            before = messages[-1] if messages else None
            made = f"{prefix}_result_{at}"
            messages.append(self._load_result(inside, node, made, before))

        if parts or not messages:
            messages.append(self._make_user_message(node, parts, messages))

        return messages

    def _make_user_message(
        self, node: GeminiObject, parts: list[Part], before: list[Message]
    ) -> Message:
        if before:
            node = GeminiObject(self, {}, node.path)
            node.notes["joined"] = True

        content = simplify_content(parts)
        return UserMessage(content, metadata=self._make_metadata(node))

    def _load_result(
        self, part: GeminiObject, node: GeminiObject, made: str, before: Message | None
    ) -> Message:
        """
        The result in *part*, which stands behind the message *before* in the content
        *node*; *made* is its id if no call has it.
        """
        inside = part.body("functionResponse")
        name = inside.nullable("name")
        call_id = self._resolve_call_id(part, inside, made, name)
        content, is_error = read_returned(inside, part.notes)
        part.keep(frozenset({"functionResponse"}))
        part.keep_within("functionResponse", inside, _RESULT)
        if before is None and node.keys:
            part.notes["content"] = node.keys
        elif before is not None and not isinstance(before, ToolMessage):
            part.notes["joined"] = True

        return ToolMessage(
            content,
            tool_call_id=call_id,
            tool_name=name,
            is_error=is_error,
            metadata=self._make_metadata(part, node.path),
        )

    def _resolve_call_id(
        self, part: GeminiObject, inside: GeminiObject, made: str, name: str
    ) -> str:
        """
        The id of the call that a result answers.

        Where the id is missing, or no call has it: of the calls without
        a result and without an id, the first one of that name; if it
        is missing, the first call of that name, or else the first.
        """
        given = inside.nullable("id")
        if given and self.pairing.close_call(given):
            return given

        # An id that no call has may be the caller's own, for a call without one.
        found = self.pairing.close_next(name, made_up_only=bool(given))
        if given:
            if not found:
                return given

            inside.keys["id"] = given

        part.notes["made_id"] = found or made
        return found or made


def _list_parts(node: GeminiObject) -> list[GeminiObject]:
    return list(node.optional_objects("parts", "a list of parts"))


def _would_join(before: Message, message: Message) -> bool:
    """
    Whether *message*, which follows *before*, would be written in one content
    with it.
    """
    if isinstance(before, AssistantMessage) and isinstance(message, AssistantMessage):
        return bool(message.tool_calls)

    return isinstance(before, ToolMessage) and isinstance(message, ToolMessage)
