"""
From Chat Completions to messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._openai import content_of
from conversation_state.adapters._reading import (
    ObjectReader,
    as_sent,
    describe_failure,
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters._wire import (
    MESSAGE_CLASSES,
    MessageLoader,
    ResponseChoice,
)
from conversation_state.adapters.openai_chat._blocks import (
    REASONING_KEYS,
    ROLES,
    SOURCE,
    read_content,
)
from conversation_state.adapters.openai_chat._response import read_response
from conversation_state.messages import Message, UnknownMessage
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall

__all__ = ["load"]

_SPOKEN = frozenset({"content", "name", "role"})
_BESIDE = frozenset({"audio", "refusal", *REASONING_KEYS})
_KNOWN = {
    "assistant": _SPOKEN | _BESIDE | {"function_call", "tool_calls"},
    "system": _SPOKEN,
    "tool": _SPOKEN | {"tool_call_id"},
    "user": _SPOKEN,
}


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of messages, or a response.

    Of a request only the messages are read. A response gives its message with
    its `ResponseMeta`. If several answers were requested (``n``), there is one
    message for each choice, and the first has the usage: these are alternatives,
    not a conversation.

    Nothing is lost: what our model can't represent is kept as an unknown part
    or message, or in notes (see this package). Half of a surrogate pair
    becomes U+FFFD, and a note has its path. A call without an id gets one made
    from its position, and so does its result.

    Raises:
        DecodeError:
            If a value is invalid in the format and its dialects; with every
            problem and its path.
    """
    return ChatLoader().load(payload, "a request, a list of messages, or a response")


class ChatLoader(MessageLoader):
    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = ObjectReader(self, payload, "$")
        if "choices" in payload and "messages" in payload:
            self.problem("$", "has both messages and choices; expected one of them")
        elif "messages" in payload:
            if is_list(payload["messages"]):
                return self.history(payload["messages"], "$.messages")

            node.wrong("messages", "a list of messages")
        elif is_list(payload.get("choices")):
            info = [
                self.message(as_sent(info.raw), info.path, info.prefix, info)
                for info in read_response(self, payload)
            ]
            return [message for message in info if message is not None]
        elif payload.get("error") is not None:
            why = describe_failure(payload["error"])
            self.problem("$.error", f"is the provider's error: {why}")
        elif "choices" in payload:
            node.wrong("choices", "a list of choices")
        else:
            self.problem(
                "$",
                "has neither messages nor choices; expected a request, a list of "
                "messages, or a response",
            )

        return []

    def message(
        self, raw: Any, path: str, prefix: str, info: ResponseChoice | None = None
    ) -> Message | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        node = ObjectReader(self, raw, path)
        # Some responses have no role, because only the assistant answers.
        given = raw.get("role", "assistant" if info else None)
        role = ROLES.get(given) if isinstance(given, str) else None
        if role is None or (info and role != "assistant"):
            node.wrong("role", "assistant" if info else ", ".join(ROLES))
            return None

        if given != role:
            node.notes["role"] = given

        problems, mended_before = self.count, len(self.mended)
        node.keep(_KNOWN[role])
        kind = MESSAGE_CLASSES[role]
        content: Any
        content, fields = self._read_fields(node, role, prefix)
        if info:
            fields["response"] = info.meta
            node.notes.update(info.notes)

        if role == "system" and not _is_text(content):
            # Mistral's system messages may contain reasoning, as an example for the
            # model. The message is kept as a whole, so `dump` would write noted keys
            # twice.
            node.notes.clear()
            node.keys.clear()
            content, fields = self.json(raw, path), dict[str, Any](source=SOURCE)
            kind = UnknownMessage

        if self.count > problems:
            return None

        if len(self.mended) > mended_before:
            note_mended(node, mended_before)

        if node.notes or node.keys:
            fields["metadata"] = node.metadata(SOURCE)

        return kind(content, **fields)

    def _read_fields(
        self, node: ObjectReader, role: str, prefix: str
    ) -> tuple[str | list[Part], dict[str, Any]]:
        content = read_content(node, role)
        name = node.optional("name") if "name" in node.raw else ""
        if role == "tool":
            call_id = node.optional("tool_call_id")
            call_id = self.resolve_call(node, call_id, name, prefix)
            _note_empty_content(node, "")
            return content, {"tool_call_id": call_id, "tool_name": name}

        fields: dict[str, Any] = {"name": name} if name else {}
        empty: str | None = ""
        if role == "assistant":
            fields["tool_calls"] = self._read_calls(node, prefix)
            parts = content
            if not node.raw.keys().isdisjoint(_BESIDE):
                content = _add_beside(node, content)

            # The provider sends null as the content of a message with something next to
            # it, and so does `dump`.
            if fields["tool_calls"] or content is not parts:
                empty = None

        _note_empty_content(node, empty)
        return content, fields

    def _read_calls(self, node: ObjectReader, prefix: str) -> list[ToolCall]:
        calls: list[ToolCall] = []
        if "tool_calls" in node.raw:
            calls = self.read_calls(node, prefix, _read_call)

        body = node.inside("function_call")
        if body is not None:
            name, arguments = _read_function(body, "arguments")
            made = body.notes["made_id"] = f"{prefix}_call_{len(calls)}"
            body.notes["under"] = {"function_call": True}
            call = ToolCall(made, name, arguments, metadata=body.metadata(SOURCE))
            self.pairing.open_calls([call], more=bool(calls))
            calls.append(call)
        elif "function_call" in node.raw:
            node.keys["function_call"] = None

        return calls


def _read_call(node: ObjectReader, made: str) -> ToolCall:
    raw, kind = node.raw, "function"
    if raw.get("type") is not None:
        kind = node.text("type")
    elif "type" in raw:
        node.keys["type"] = None
    else:
        node.notes["without"] = ["type"]

    field = "custom" if kind == "custom" else "function"
    body, name, arguments = raw.get(field), "", ""
    if kind not in {"custom", "function"} and _is_opaque(body):
        # The fields of another type of call are the provider's own.
        node.keep(frozenset({"id", "type"}))
    elif is_map(body):
        inside = node.child(field)
        name, arguments = _read_function(
            inside, "input" if kind == "custom" else "arguments"
        )
        if inside.notes:
            node.notes.setdefault("without", []).extend(inside.notes["without"])

        node.keep(frozenset({"id", "type", field}))
        if inside.keys:
            node.keys[field] = inside.keys
    else:
        node.wrong(field, "an object")

    call_id = node.optional("id")
    if not call_id:
        call_id = node.notes["made_id"] = made

    metadata = node.metadata(SOURCE)
    return ToolCall(call_id, name, arguments, type=kind, metadata=metadata)


def _read_function(body: ObjectReader, key: str) -> tuple[str, str]:
    """
    The name and the arguments in *body*; some providers leave out *key* if there
    are no arguments.
    """
    body.keep(frozenset({"name", key}))
    if key not in body.raw:
        body.notes["without"] = [key]

    return body.text("name"), body.optional(key)


def _is_opaque(body: Any) -> bool:
    """
    Whether *body*, of a call of a kind we don't know, is not a function's.
    """
    return (
        not is_map(body)
        or not isinstance(body.get("name"), str)
        or not isinstance(body.get("arguments"), str)
        or not (body["name"] or body["arguments"])
    )


def _note_empty_content(node: ObjectReader, empty: str | None) -> None:
    """
    Note how a message without content was written, unless it was *empty*, which
    `dump` writes.
    """
    if "content" not in node.raw:
        node.notes["without"] = ["content"]
        return

    content = node.raw["content"]
    if (content is None or content == "") and content != empty:
        node.keys["content"] = content


def _is_text(content: str | list[Part]) -> bool:
    return isinstance(content, str) or all(isinstance(p, TextPart) for p in content)


def _add_beside(node: ObjectReader, content: str | list[Part]) -> str | list[Part]:
    """
    The *content* and the values next to it, as parts: reasoning, which is under a
    dialect's key, before it; audio that the model made, and a refusal, behind it.
    """
    thoughts: dict[str, dict[str, bool]] = {}
    for key in REASONING_KEYS:
        text = node.if_text(key)
        if text:
            # Some servers send the same text under both keys.
            thoughts.setdefault(text, {})[key] = True

    before = [
        ReasoningPart(text, metadata=with_notes(SOURCE, {"under": keys}))
        for text, keys in thoughts.items()
    ]
    after: list[Part] = []
    audio = node.raw.get("audio")
    data = audio.get("data") if is_map(audio) else None
    sound = content_of(data, "input_audio") if isinstance(data, str) else None
    if is_map(audio) and sound is not None and sound.data is not None:
        inside = node.child("audio")
        inside.keep(frozenset({"data"}))
        inside.notes["under"] = {"audio": True}
        after.append(AudioPart(data=sound.data, metadata=inside.metadata(SOURCE)))
    elif "audio" in node.raw:
        node.keys["audio"] = node.reading.json(audio, f"{node.path}.audio")

    refusal = node.optional("refusal")
    if refusal:
        # A refusal that is alone needs no note, because `dump` writes it next to the
        # content.
        under = {"under": {"refusal": True}} if content else {}
        after.append(RefusalPart(refusal, metadata=with_notes(SOURCE, under)))

    if not (before or after):
        return content

    if isinstance(content, str):
        content = [TextPart(content)] if content else []
    elif not content or content == [TextPart(getattr(content[0], "text", ""))]:
        # Without this note `dump` would not write one text, or none, as a list.
        node.notes["list"] = True

    return [*before, *content, *after]
