"""
From bubo's messages to ours; and the constants of the format, in the order it writes
them, and their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_list,
    is_map,
    note_mended,
    read_extra,
)
from conversation_state.adapters.engine.wire import (
    MessageLoader,
    decode_base64,
    parse_data_url,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import AudioPart, ImagePart, Part, RefusalPart, TextPart
from conversation_state.tools import ToolCall

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "bubo"

ENVELOPE = ("run_id", "turn_id", "sender", "timestamp", "meta")
CALL = ("id", "name", "arguments")

_COMMON = frozenset({*ENVELOPE, "type"})
_RESULT = _COMMON | {"tool_call_id", "tool_name"}
# What each type of message is, and the keys that it may have.
_MESSAGES: Mapping[str, tuple[Callable[..., Message], frozenset[str]]] = {
    "assistant": (AssistantMessage, _COMMON | {"content", "refusal"}),
    "instructions": (SystemMessage, _COMMON | {"content"}),
    "retry": (ToolMessage, _RESULT | {"error"}),
    "tool_call": (AssistantMessage, _COMMON | {"tool_calls"}),
    "tool_response": (ToolMessage, _RESULT | {"content"}),
    "user": (UserMessage, _COMMON | {"content"}),
}
_CALL = frozenset(CALL)
_AUDIO = frozenset({"data", "format"})


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of messages, an object that has one as
    ``messages`` (a checkpoint, say), or one message. A call without an id gets one made
    of its place, and so does its result. Times are cut to microseconds.

    Raises:
        DecodeError: If something is not what bubo would write, or read without
            guessing.
    """
    expected = "a message, a list of messages, or a checkpoint"
    return BuboLoader().load(payload, expected)


class BuboLoader(MessageLoader):
    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        if "messages" in payload and "type" not in payload:
            return self.load_listed(payload)

        message = self.message(payload, "$", "message_0")
        return [] if message is None else [message]

    def load_listed(self, payload: Mapping[str, Any]) -> list[Message]:
        """The messages of an object; none if its list is null, as Go has it."""
        given = payload.get("messages")
        if is_list(given):
            return self.history(given, "$.messages")

        if given is not None:
            self.wrong("$.messages", given, "a list of messages")

        return []

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        # bubo writes a message that was never given a payload as null, or as nothing
        # but its envelope. Refused, it would take the whole checkpoint with it.
        if raw is None:
            return UnknownMessage({}, source=SOURCE)

        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        problems, mended_before = self.count, len(self.mended)
        node = ObjectReader(self, raw, path)
        is_hollow = raw and raw.keys() <= _COMMON - {"type"}
        type_ = "" if is_hollow else node.text("type")
        kind, known = _MESSAGES.get(type_, (UnknownMessage, _COMMON))
        extra: Mapping[str, Any] = {}
        fields: dict[str, Any] = {"source": SOURCE}
        content: Any = None
        if type_ in _MESSAGES:
            node.keep(known)
            extra = self._read_metadata(node)
            fields = self._read_envelope(node)
            content = self._read_payload(node, type_, fields, prefix)
        elif self.count == problems:
            content = self.json(raw, path)

        if self.count > problems:
            return None

        note_mended(node, mended_before)
        return kind(content, **fields, metadata=node.metadata(SOURCE, extra))

    def _read_envelope(self, node: ObjectReader) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": node.nullable("sender")}
        for key in ("run_id", "turn_id"):
            given = node.raw.get(key)
            fields[key] = uuid_of(given)
            if given is not None and fields[key] is None:
                node.wrong(key, "a UUID")

        # "" would be the year 1970 in Go, and means that there is no time.
        time = node.raw.get("timestamp")
        if time is not None and time != "":
            fields["timestamp"] = time_of(time)
            if fields["timestamp"] is None:
                node.wrong("timestamp", "a time, as in 2024-02-29T12:30:05.123Z")

        return fields

    def _read_metadata(self, node: ObjectReader) -> dict[str, Any]:
        """What ``meta`` has, if it is metadata of ours; any other JSON is noted."""
        given = node.raw.get("meta")
        if is_map(given):
            return read_extra(node, "meta")

        if given is not None:
            node.notes["meta"] = self.json(given, f"{node.path}.meta")

        return {}

    def _read_payload(
        self, node: ObjectReader, kind: str, fields: dict[str, Any], prefix: str
    ) -> str | list[Part]:
        """The content of a message of *kind*; what else it has is put into *fields*."""
        if kind == "assistant":
            return self._read_answer(node)

        if kind == "tool_call":
            fields["tool_calls"] = self._read_tool_calls(node, prefix)
            return ""

        if kind == "user":
            # Null is what bubo writes for an empty text; the key is always there.
            if "content" not in node.raw:
                node.wrong("content", "a text, a list of parts or null")

            return self._read_content(node, "user")

        if kind == "instructions":
            return node.text("content")

        # Of a retry Go leaves out what is empty, and a response has all of its keys.
        is_retry = kind == "retry"
        content = node.nullable("error") if is_retry else node.text("content")
        read_text = node.nullable if is_retry else node.text
        name, given = read_text("tool_name"), read_text("tool_call_id")
        call_id = self.resolve_call(node, given, name, prefix)
        fields.update(tool_name=name, tool_call_id=call_id, is_error=is_retry)
        return content

    def _read_answer(self, node: ObjectReader) -> str | list[Part]:
        content: str | list[Part] = self._read_content(node, "assistant")
        # bubo refuses a message that has both keys, even if one of them is null. Such a
        # null is read here.
        refusal = node.nullable("refusal")
        if refusal and node.raw.get("content") is not None:
            what = "has both content and refusal; bubo has one of them"
            self.problem(node.path, what)

        return [RefusalPart(refusal)] if refusal else content

    def _read_tool_calls(self, node: ObjectReader, prefix: str) -> list[ToolCall]:
        if "tool_calls" not in node.raw:
            node.wrong("tool_calls", "a list, or null")

        calls = self.read_calls(node, prefix, _read_call)
        node.keys.pop("tool_calls", None)
        return calls

    def _read_content(self, node: ObjectReader, role: str) -> str | list[Part]:
        given = node.raw.get("content")
        if isinstance(given, str):
            return node.text("content")

        if is_list(given):
            return [
                self._read_part(raw, f"{node.path}.content[{at}]", role)
                for at, raw in enumerate(given)
            ]

        if given is not None:
            node.wrong("content", "a text, a list of parts or null")

        return ""

    def _read_part(self, raw: Any, path: str, role: str) -> Part:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return TextPart("")

        node = ObjectReader(self, raw, path)
        kind = node.text("type")
        part: Part | None = None
        if kind == "text":
            text = node.text("text")
            node.keep(frozenset({"text", "type"}))
            part = TextPart(text, metadata=node.metadata(SOURCE))
        elif kind == "refusal" and role == "assistant":
            text = node.text("refusal")
            node.keep(frozenset({"refusal", "type"}))
            part = RefusalPart(text, metadata=node.metadata(SOURCE))
        elif kind == "image" and role == "user":
            part = self._read_image(node)
        elif kind == "audio" and role == "user":
            part = self._read_audio(node)

        return part or node.as_unknown(SOURCE)

    def _read_image(self, node: ObjectReader) -> Part | None:
        url = node.text("image_url")
        # Valid in bubo, and no `ImagePart`, which has a URL or bytes.
        if not url:
            return None

        node.keep(frozenset({"image_url", "type"}))
        data, media_type = parse_data_url(url) or (None, "")
        return ImagePart(
            url=None if data else url,
            data=data,
            media_type=media_type,
            metadata=node.metadata(SOURCE),
        )

    def _read_audio(self, node: ObjectReader) -> Part | None:
        inside = node.required("input_audio")
        if inside is None:
            return None

        text, word = inside.text("data"), inside.text("format")
        # Go's decoder refuses base64 without its padding.
        data = decode_base64(text, padded=True)
        if text and not data:
            inside.wrong("data", "bytes in base64")

        # As with images: empty data is valid in bubo, and no `AudioPart`.
        if not data:
            return None

        node.keep(frozenset({"input_audio", "type"}))
        node.keep_within("input_audio", inside, _AUDIO)
        media_type, metadata = media_type_of(word), node.metadata(SOURCE)
        return AudioPart(data=data, media_type=media_type, metadata=metadata)


def _read_call(node: ObjectReader, made: str) -> ToolCall:
    node.keep(_CALL)
    call_id, name, arguments = [node.nullable(key) for key in CALL]
    if not call_id:
        call_id = node.notes["made_id"] = made

    return ToolCall(call_id, name, arguments, metadata=node.metadata(SOURCE))


def uuid_of(text: object) -> UUID | None:
    """
    The UUID that *text* is, in one of the forms that Go reads; None if it is
    none.

    >>> uuid_of("urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057")
    UUID('01890a5d-ac96-774b-bcce-b302099a8057')
    """
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None


def time_of(text: object) -> datetime | None:
    """
    The time that *text* is; in UTC without a zone, None if it is invalid.

    >>> print(time_of("2024-02-29 12:30:05.5Z"))
    2024-02-29 12:30:05.500000+00:00
    """
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None

    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time


def media_type_of(format: str) -> str:  # noqa: A002 - bubo's word
    """
    The media type of audio in *format*.

    >>> media_type_of("mp3"), media_type_of("wav"), media_type_of("")
    ('audio/mpeg', 'audio/wav', '')
    """
    if format == "mp3":
        return "audio/mpeg"

    return f"audio/{format}" if format else ""


def format_of(media_type: str) -> str:
    """
    The format of audio of *media_type*; "" if that is not audio.

    >>> format_of("audio/mpeg"), format_of("audio/wav"), format_of("video/mp4")
    ('mp3', 'wav', '')
    """
    kind, _, subtype = media_type.partition("/")
    if kind != "audio":
        return ""

    return "mp3" if subtype == "mpeg" else subtype
