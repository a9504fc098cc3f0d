"""
From Chat Completions to messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._openai import content_of
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
    is_list,
    is_map,
    without_parsed,
)
from conversation_state.adapters._wire.calls import CallPairing
from conversation_state.adapters.openai_chat._blocks import read_content
from conversation_state.adapters.openai_chat._constants import REASONING_KEYS, SOURCE
from conversation_state.adapters.openai_chat._response import ChoiceInfo, read_response
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall

__all__ = ["load"]

_ROLES = {
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "system": "system",
    "tool": "tool",
    "user": "user",
}
_SPOKEN = frozenset({"content", "name", "role"})
_ASIDE = frozenset({"audio", "refusal", *REASONING_KEYS})
_KNOWN = {
    "assistant": _SPOKEN | _ASIDE | {"function_call", "tool_calls"},
    "system": _SPOKEN,
    "tool": _SPOKEN | {"tool_call_id"},
    "user": _SPOKEN,
}


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of messages, or a response.

    Of a request only the messages are read. A response gives its message with
    its `ResponseMeta`; if several were asked for (``n``), one for each choice,
    the first with the usage: these are alternatives, and no conversation.

    Nothing is lost: what our model can't represent is kept as an unknown part
    or message, or in notes (see this package). Half of a surrogate pair
    becomes U+FFFD, and a note has its path. A call without an id gets one made
    of its place, and so does its result.

    Raises:
        DecodeError:
            If something is not what the format or a dialect of it has in its
            place; with all that is wrong, each with its path.
    """
    read = ChatLoader()
    messages: list[Message] = []
    if is_list(payload):
        messages = read.history(payload, "$")
    elif is_map(payload):
        messages = read.document(payload)
    else:
        read.wrong("$", payload, "a request, a list of messages, or a response")

    read.finish()
    return tuple(messages)


class _ChatDraft(NamedTuple):
    """
    What a message is to be made of.
    """

    kind: Callable[..., Message]
    content: Any
    fields: dict[str, Any]


class ChatLoader(DocumentReader):
    """
    One payload while it is read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pairing = CallPairing()

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """
        The messages of a request or a response.
        """
        place = ObjectReader(self, payload, "$")
        if "choices" in payload and "messages" in payload:
            self.problem("$", "has both messages and choices; expected one of them")
        elif "messages" in payload:
            if is_list(payload["messages"]):
                return self.history(payload["messages"], "$.messages")

            place.wrong("messages", "a list of messages")
        elif is_list(payload.get("choices")):
            info = [
                self.message(without_parsed(info.raw), info.path, info.prefix, info)
                for info in read_response(self, payload)
            ]
            return [message for message in info if message is not None]
        elif payload.get("error") is not None:
            why = describe_failure(payload["error"])
            self.problem("$.error", f"is the provider's error: {why}")
        elif "choices" in payload:
            place.wrong("choices", "a list of choices")
        else:
            self.problem(
                "$",
                "has neither messages nor choices; expected a request, a list of "
                "messages, or a response",
            )

        return []

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """
        The messages of a list.
        """
        found = [
            self.message(raw, f"{path}[{at}]", f"message_{at}")
            for at, raw in enumerate(raws)
        ]
        return [message for message in found if message is not None]

    def message(
        self, raw: Any, path: str, prefix: str, info: ChoiceInfo | None = None
    ) -> Message | None:
        """
        One message; None if there was a problem. Ids that are made up begin
        with *prefix*.
        """
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        place = ObjectReader(self, raw, path)
        # Some responses leave out who answers, for who else could.
        given_role = raw.get("role", "assistant" if info else None)
        role = _ROLES.get(given_role) if isinstance(given_role, str) else None
        if role is None or (info and role != "assistant"):
            place.wrong("role", "assistant" if info else ", ".join(_ROLES))
            return None

        if given_role != role:
            place.notes["role"] = given_role

        problems, harmed = self.count, len(self.mended)
        place.keep(_KNOWN[role])
        content = read_content(place, role)
        if role == "assistant":
            found = self._read_assistant(place, content, prefix, info)
        elif role == "tool":
            found = self._read_result(place, content, prefix)
        elif role == "system":
            found = self._read_system(place, content)
        else:
            found = self._read_user(place, content)

        if self.count > problems:
            return None

        if len(self.mended) > harmed:
            where = dict.fromkeys(self.mended[harmed:])
            place.notes["mended"] = [each[len(path) + 1 :] for each in where]

        if place.notes or place.keys:
            found.fields["metadata"] = place.metadata(SOURCE)

        return found.kind(found.content, **found.fields)

    def _read_user(self, place: ObjectReader, content: str | list[Part]) -> _ChatDraft:
        _note_empty_content(place, "")
        return _ChatDraft(UserMessage, content, _read_name(place))

    def _read_system(
        self, place: ObjectReader, content: str | list[Part]
    ) -> _ChatDraft:
        if isinstance(content, str) or all(isinstance(p, TextPart) for p in content):
            _note_empty_content(place, "")
            return _ChatDraft(SystemMessage, content, _read_name(place))

        # Mistral has thoughts there, an example for the model to follow.
        place.notes.clear()
        place.keys.clear()
        raw = self.json(place.raw, place.path)
        return _ChatDraft(UnknownMessage, raw, {"source": SOURCE})

    def _read_result(
        self, place: ObjectReader, content: str | list[Part], prefix: str
    ) -> _ChatDraft:
        _note_empty_content(place, "")
        name = place.optional("name")
        fields = {
            "tool_call_id": self._resolve_call_id(place, prefix, name),
            "tool_name": name,
        }
        return _ChatDraft(ToolMessage, content, fields)

    def _resolve_call_id(self, place: ObjectReader, prefix: str, name: str) -> str:
        """
        The id of the call that a result answers.

        If that is missing: of the calls without a result, the first one of
        the tool that is named, or else the first one.
        """
        given = place.optional("tool_call_id")
        call_id = self.pairing.resolve(given, name, prefix)
        if not given:
            place.notes["made_id"] = call_id

        return call_id

    def _read_assistant(
        self,
        place: ObjectReader,
        content: str | list[Part],
        prefix: str,
        info: ChoiceInfo | None,
    ) -> _ChatDraft:
        fields = _read_name(place)
        fields["tool_calls"] = self._read_calls(place, prefix)
        before: list[Part] = []
        after: list[Part] = []
        if not place.raw.keys().isdisjoint(_ASIDE):
            before = _read_reasoning(place)
            after = _read_after_content(place, alone=not content)

        if before or after:
            content = _join_content(place, before, content, after)

        speaks = before or after or fields["tool_calls"]
        _note_empty_content(place, None if speaks else "")
        if info:
            fields["response"] = info.meta
            place.notes.update(info.notes)

        return _ChatDraft(AssistantMessage, content, fields)

    def _read_calls(self, place: ObjectReader, prefix: str) -> list[ToolCall]:
        raw = place.raw
        calls: list[ToolCall] = []
        given = raw.get("tool_calls")
        if given:
            if is_list(given):
                found = [
                    self._read_call(
                        one, f"{place.path}.tool_calls[{at}]", f"{prefix}_call_{at}"
                    )
                    for at, one in enumerate(given)
                ]
                calls = [call for call in found if call is not None]
            else:
                place.wrong("tool_calls", "a list or null")
        elif "tool_calls" in raw:
            place.keys["tool_calls"] = given
            if given is not None and not is_list(given):
                place.wrong("tool_calls", "a list or null")

        legacy = raw.get("function_call")
        if is_map(legacy):
            made = f"{prefix}_call_{len(calls)}"
            body = ObjectReader(self, legacy, f"{place.path}.function_call")
            name, arguments = _read_function(body, "arguments")
            body.notes["made_id"] = made
            body.notes["under"] = {"function_call": True}
            metadata = body.metadata(SOURCE)
            calls.append(ToolCall(made, name, arguments, metadata=metadata))
        elif legacy is not None:
            place.wrong("function_call", "an object or null")
        elif "function_call" in raw:
            place.keys["function_call"] = None

        if calls:
            self.pairing.open_calls(calls)

        return calls

    def _read_call(self, raw: Any, path: str, made: str) -> ToolCall | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        place = ObjectReader(self, raw, path)
        kind = "function"
        if raw.get("type") is not None:
            kind = place.text("type")
        elif "type" in raw:
            place.keys["type"] = None
        else:
            place.notes["without"] = ["type"]

        field = "custom" if kind == "custom" else "function"
        body, name, arguments = raw.get(field), "", ""
        if kind not in {"custom", "function"} and _is_opaque(body):
            # Another kind of call, whose fields are a provider's own.
            place.keep(frozenset({"id", "type"}))
        elif is_map(body):
            inside = ObjectReader(self, body, f"{path}.{field}")
            name, arguments = _read_function(
                inside, "input" if kind == "custom" else "arguments"
            )
            if inside.notes:
                place.notes.setdefault("without", []).extend(inside.notes["without"])

            place.keep(frozenset({"id", "type", field}))
            if inside.keys:
                place.keys[field] = inside.keys
        else:
            place.wrong(field, "an object")

        call_id = place.optional("id")
        if not call_id:
            call_id = place.notes["made_id"] = made

        metadata = place.metadata(SOURCE)
        return ToolCall(call_id, name, arguments, type=kind, metadata=metadata)


def _read_name(place: ObjectReader) -> dict[str, Any]:
    """
    The name of who speaks, as a field.
    """
    name = place.optional("name")
    return {"name": name} if name else {}


def _read_function(body: ObjectReader, key: str) -> tuple[str, str]:
    """
    What *body* calls, and with what; some leave out *key* where that is
    nothing.
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


def _note_empty_content(place: ObjectReader, empty: str | None) -> None:
    """
    Note how a message has no content, unless `dump` writes it so: as *empty*.
    """
    if "content" not in place.raw:
        place.notes["without"] = ["content"]
        return

    content = place.raw["content"]
    if (content is None or content == "") and content != empty:
        place.keys["content"] = content


def _read_reasoning(place: ObjectReader) -> list[Part]:
    """
    What stands before the content: reasoning, under the dialect's key.
    """
    thoughts: dict[str, dict[str, bool]] = {}
    for key in REASONING_KEYS:
        text = place.if_text(key)
        if text:
            # Some servers send the same text under both keys.
            thoughts.setdefault(text, {})[key] = True

    return [
        ReasoningPart(text, metadata=_note_keys(under))
        for text, under in thoughts.items()
    ]


def _read_after_content(place: ObjectReader, *, alone: bool) -> list[Part]:
    """
    What stands after the content: audio that was made, and a refusal.
    """
    parts: list[Part] = []
    audio = place.raw.get("audio")
    data = audio.get("data") if is_map(audio) else None
    content = content_of(data, "input_audio") if isinstance(data, str) else None
    if is_map(audio) and content is not None and content.data is not None:
        inside = ObjectReader(place.reading, audio, f"{place.path}.audio")
        inside.keep(frozenset({"data"}))
        inside.notes["under"] = {"audio": True}
        parts.append(AudioPart(data=content.data, metadata=inside.metadata(SOURCE)))
    elif "audio" in place.raw:
        place.keys["audio"] = place.reading.json(audio, f"{place.path}.audio")

    refusal = place.optional("refusal")
    if refusal and alone:
        parts.append(RefusalPart(refusal))
    elif refusal:
        parts.append(RefusalPart(refusal, metadata=_note_keys({"refusal": True})))

    return parts


def _note_keys(keys: dict[str, bool]) -> Any:
    """
    The metadata of a part that stood under *keys*.
    """
    return with_notes(SOURCE, {"under": keys})


def _join_content(
    place: ObjectReader,
    before: list[Part],
    content: str | list[Part],
    after: list[Part],
) -> list[Part]:
    """
    The content and what stands beside it, as parts.
    """
    if isinstance(content, str):
        content = [TextPart(content)] if content else []
    elif not content or _is_plain_text(content):
        # One text, or none, would be no list again.
        place.notes["list"] = True

    return [*before, *content, *after]


def _is_plain_text(parts: list[Part]) -> bool:
    return len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].metadata
