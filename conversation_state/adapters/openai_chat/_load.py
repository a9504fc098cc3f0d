"""
From Chat Completions to messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state.adapters._openai import content_of
from conversation_state.adapters._reading import (
    Place,
    Reading,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.openai_chat._blocks import read_content
from conversation_state.adapters.openai_chat._response import Told, read_response
from conversation_state.adapters.openai_chat._words import REASONING_KEYS, SOURCE
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

    Nothing is lost: what our model has no word for is kept as an unknown part
    or message, or in notes (see this package). Half of a surrogate pair
    becomes U+FFFD, and a note says where. A call without an id gets one made
    of its place, and so does its result.

    Raises:
        DecodeError:
            If something is not what the format or a dialect of it has in its
            place; with all that is wrong, each with its path.
    """
    read = _Loading()
    messages: list[Message] = []
    if is_list(payload):
        messages = read.history(payload, "$")
    elif is_map(payload):
        messages = read.document(payload)
    else:
        read.wrong("$", payload, "a request, a list of messages, or a response")

    read.finish()
    return tuple(messages)


class _Found(NamedTuple):
    """
    What a message is to be made of.
    """

    kind: Callable[..., Message]
    content: Any
    fields: dict[str, Any]


class _Loading(Reading):
    """
    One payload while it is read.
    """

    def __init__(self) -> None:
        super().__init__()
        # The latest calls, as far as they have no result: tools by id.
        self.open: dict[str, str] = {}

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """
        The messages of a request or a response.
        """
        place = Place(self, payload, "$")
        if "choices" in payload and "messages" in payload:
            self.problem("$", "has both messages and choices; expected one of them")
        elif "messages" in payload:
            if is_list(payload["messages"]):
                return self.history(payload["messages"], "$.messages")

            place.wrong("messages", "a list of messages")
        elif is_list(payload.get("choices")):
            told = [
                self.message(told.raw, told.path, told.prefix, told)
                for told in read_response(self, payload)
            ]
            return [message for message in told if message is not None]
        elif payload.get("error") is not None:
            self.problem("$.error", f"is why the provider failed: {_failure(payload)}")
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
        self, raw: Any, path: str, prefix: str, told: Told | None = None
    ) -> Message | None:
        """
        One message; None if there was a problem. Ids that are made up begin
        with *prefix*.
        """
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        place = Place(self, raw, path)
        # Some responses leave out who answers, for who else could.
        said = raw.get("role", "assistant" if told else None)
        role = _ROLES.get(said) if isinstance(said, str) else None
        if role is None or (told and role != "assistant"):
            place.wrong("role", "assistant" if told else ", ".join(_ROLES))
            return None

        if said != role:
            place.notes["role"] = said

        problems, harmed = self.count, len(self.mended)
        place.keep(_KNOWN[role])
        content = read_content(place, role)
        if role == "assistant":
            found = self._assistant(place, content, prefix, told)
        elif role == "tool":
            found = self._tool(place, content, prefix)
        elif role == "system":
            found = self._system(place, content)
        else:
            found = self._user(place, content)

        if self.count > problems:
            return None

        if len(self.mended) > harmed:
            where = dict.fromkeys(self.mended[harmed:])
            place.notes["mended"] = [each[len(path) + 1 :] for each in where]

        if place.notes or place.keys:
            found.fields["metadata"] = place.metadata(SOURCE)

        return found.kind(found.content, **found.fields)

    def _user(self, place: Place, content: str | list[Part]) -> _Found:
        _note_silence(place, "")
        return _Found(UserMessage, content, _named(place))

    def _system(self, place: Place, content: str | list[Part]) -> _Found:
        if isinstance(content, str) or all(isinstance(p, TextPart) for p in content):
            _note_silence(place, "")
            return _Found(SystemMessage, content, _named(place))

        # Mistral has thoughts there, an example for the model to follow.
        place.notes.clear()
        place.keys.clear()
        raw = self.json(place.raw, place.path)
        return _Found(UnknownMessage, raw, {"source": SOURCE})

    def _tool(self, place: Place, content: str | list[Part], prefix: str) -> _Found:
        _note_silence(place, "")
        name = place.optional("name")
        fields = {
            "tool_call_id": self._answered(place, prefix, name),
            "tool_name": name,
        }
        return _Found(ToolMessage, content, fields)

    def _answered(self, place: Place, prefix: str, name: str) -> str:
        """
        The id of the call that a result answers.

        Where it does not say: of the calls without a result, the first one of
        the tool that is named, or else the first one.
        """
        given = place.optional("tool_call_id")
        if given:
            self.open.pop(given, None)
            return given

        asked = [call for call, tool in self.open.items() if tool == name]
        made: str = next(iter([*asked, *self.open]), prefix)
        self.open.pop(made, None)
        place.notes["made_id"] = made
        return made

    def _assistant(
        self,
        place: Place,
        content: str | list[Part],
        prefix: str,
        told: Told | None,
    ) -> _Found:
        fields = _named(place)
        fields["tool_calls"] = self._calls(place, prefix)
        before: list[Part] = []
        after: list[Part] = []
        if not place.raw.keys().isdisjoint(_ASIDE):
            before = _thoughts(place)
            after = _afterwards(place, alone=not content)

        if before or after:
            content = _joined(place, before, content, after)

        speaks = before or after or fields["tool_calls"]
        _note_silence(place, None if speaks else "")
        if told:
            fields["response"] = told.meta
            place.notes.update(told.notes)

        return _Found(AssistantMessage, content, fields)

    def _calls(self, place: Place, prefix: str) -> list[ToolCall]:
        raw = place.raw
        calls: list[ToolCall] = []
        given = raw.get("tool_calls")
        if given:
            if is_list(given):
                found = [
                    self._call(
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
            body = Place(self, legacy, f"{place.path}.function_call")
            name, arguments = _function(body, "arguments")
            body.notes["made_id"] = made
            body.notes["under"] = {"function_call": True}
            metadata = body.metadata(SOURCE)
            calls.append(ToolCall(made, name, arguments, metadata=metadata))
        elif legacy is not None:
            place.wrong("function_call", "an object or null")
        elif "function_call" in raw:
            place.keys["function_call"] = None

        if calls:
            self.open = {call.id: call.name for call in calls}

        return calls

    def _call(self, raw: Any, path: str, made: str) -> ToolCall | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        place = Place(self, raw, path)
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
            inside = Place(self, body, f"{path}.{field}")
            name, arguments = _function(
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


def _failure(payload: Mapping[str, Any]) -> str:
    """
    Why there is no response, in the provider's words.
    """
    error = payload["error"]
    said = error.get("message") if is_map(error) else error
    return mended(said) if isinstance(said, str) and said else "it did not say"


def _named(place: Place) -> dict[str, Any]:
    """
    The name of who speaks, as a field.
    """
    name = place.optional("name")
    return {"name": name} if name else {}


def _function(body: Place, key: str) -> tuple[str, str]:
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


def _note_silence(place: Place, silence: str | None) -> None:
    """
    Note how a message has no content, unless it is as `dump` says *silence*.
    """
    if "content" not in place.raw:
        place.notes["without"] = ["content"]
        return

    content = place.raw["content"]
    if (content is None or content == "") and content != silence:
        place.keys["content"] = content


def _thoughts(place: Place) -> list[Part]:
    """
    What stands before the content: reasoning, under the dialect's key.
    """
    thoughts: dict[str, dict[str, bool]] = {}
    for key in REASONING_KEYS:
        text = place.if_text(key)
        if text:
            # Some servers say the same under both keys.
            thoughts.setdefault(text, {})[key] = True

    return [
        ReasoningPart(text, metadata=_under(under)) for text, under in thoughts.items()
    ]


def _afterwards(place: Place, *, alone: bool) -> list[Part]:
    """
    What stands after the content: audio that was made, and a refusal.
    """
    parts: list[Part] = []
    sound = place.raw.get("audio")
    data = sound.get("data") if is_map(sound) else None
    content = content_of(data, "input_audio") if isinstance(data, str) else None
    if is_map(sound) and content is not None and content.data is not None:
        inside = Place(place.reading, sound, f"{place.path}.audio")
        inside.keep(frozenset({"data"}))
        inside.notes["under"] = {"audio": True}
        parts.append(AudioPart(data=content.data, metadata=inside.metadata(SOURCE)))
    elif "audio" in place.raw:
        place.keys["audio"] = place.reading.json(sound, f"{place.path}.audio")

    refusal = place.optional("refusal")
    if refusal and alone:
        parts.append(RefusalPart(refusal))
    elif refusal:
        parts.append(RefusalPart(refusal, metadata=_under({"refusal": True})))

    return parts


def _under(keys: dict[str, bool]) -> Any:
    """
    The metadata of a part that stood under *keys*.
    """
    return {SOURCE: {"under": keys}}


def _joined(
    place: Place, before: list[Part], content: str | list[Part], after: list[Part]
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
