"""From our messages to bubo's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters.bubo._load import SOURCE, format_of, media_type_of
from conversation_state.adapters.engine.export import (
    Export,
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import (
    map_of,
    notes_of,
    own_of,
    write_extra,
)
from conversation_state.adapters.engine.wire import (
    data_url,
    encode_base64,
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
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    Part,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of bubo's: ``{"messages": [...]}``.

    What was loaded from this format is written as it was, as far as bubo can
    read it. `Export.lost` lists what differs from *messages* when the payload
    is loaded again: what bubo can't represent, what is specific to another format,
    what had to be mended, and where one message had to become two.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    writer = PayloadWriter(SOURCE)
    raws = [raw for several in write_envelopes(writer, messages) for raw in several]
    return writer.export({"messages": raws})


def write_envelopes(
    writer: PayloadWriter, messages: Iterable[Message]
) -> list[list[dict[str, Any]]]:
    """
    The messages of bubo's that each of *messages* becomes: none to two.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    return [_write_message(writer, *one) for one in writer.each(messages)]


def _write_message(
    writer: PayloadWriter, message: Message, path: str
) -> list[dict[str, Any]]:
    notes = writer.notes_on(message, path)
    if isinstance(message, UnknownMessage):
        return _write_verbatim(writer, message, path)

    envelope = _write_envelope(writer, message, path, notes)
    first, *rest = [
        {**payload, **envelope} for payload in _write_payloads(writer, message, path)
    ]
    # The keys are of the message that was loaded. Calls that had to be split from it
    # are a message that bubo did not write.
    return [merge_kept_keys(map_of(notes, "keys"), first), *rest]


def _write_payloads(
    writer: PayloadWriter, message: Any, path: str
) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        return _write_answer(writer, message, path)

    if isinstance(message, ToolMessage):
        return [_write_tool_response(writer, message, path)]

    if isinstance(message, SystemMessage):
        text = _one_text(writer, message, path)
        return [{"type": "instructions", "content": text}]

    # bubo writes an empty text as null, and an empty list of parts as one.
    content = _write_parts(writer, message, path)
    return [{"type": "user", "content": None if content == "" else content}]


def _write_verbatim(
    writer: PayloadWriter, message: UnknownMessage, path: str
) -> list[dict[str, Any]]:
    raw = writer.unknown(message.raw, message.source, path)
    if raw is None:
        return []

    if not isinstance(raw.get("type"), str):
        writer.lose(path, "message", "bubo rejects messages without a type")
        return []

    beside = {
        "name": bool(message.name),
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
        "metadata": bool(own_of(message.metadata)),
    }
    writer.lose_each(path, beside, "the message is sent verbatim, without this field")
    return [raw]


def _write_envelope(
    writer: PayloadWriter, message: Message, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for key, given in (("run_id", message.run_id), ("turn_id", message.turn_id)):
        if given is not None:
            raw[key] = str(given)

    if message.name:
        raw["sender"] = message.name

    if message.timestamp is not None:
        raw["timestamp"], why = _write_time(message.timestamp)
        if why:
            writer.lose(path, "timestamp", why)

    return raw | _write_meta(writer, message, path, notes)


def _write_time(time: datetime) -> tuple[str, str]:
    """*time* as Go writes it, in milliseconds; and why it differs, "" if not."""
    why = "times have milliseconds only" if time.microsecond % 1_000 else ""
    # Messages' times are aware, with a fixed offset.
    offset, minute = time.utcoffset() or timedelta(), timedelta(minutes=1)
    if offset % minute:
        why = "offsets must be whole minutes"
        # Towards zero: a zone of a whole day is invalid.
        time = time.replace(tzinfo=timezone(int(offset / minute) * minute))

    text = time.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" * text.endswith("+00:00"), why


def _write_meta(
    writer: PayloadWriter, message: Message, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    meta = write_extra(message.metadata, notes, "meta")
    # What is noted as a map is the reserved key, which `write_extra` has put back.
    is_other = "meta" in notes and not map_of(notes, "meta")
    if is_other and not meta:
        return {"meta": thaw(notes["meta"])}

    if is_other and notes["meta"]:
        why = "wasn't an object, and is replaced by the metadata"
        writer.lose(path, "meta", why)

    return {"meta": meta} if meta else {}


def _one_text(
    writer: PayloadWriter, message: SystemMessage | ToolMessage, path: str
) -> str:
    if isinstance(message.content, str):
        return message.content

    for at, part in enumerate(message.content):
        where = f"{path}.parts[{at}]"
        _read_value_notes(writer, part, where)
        if not isinstance(part, TextPart):
            writer.lose(where, part.kind, "this message can only contain text")

    if len(message.content) > 1:
        writer.lose(path, "parts", "the parts are joined to one text")

    return message.text


def _read_value_notes(
    writer: PayloadWriter, value: Part | ToolCall, path: str
) -> Mapping[str, Any]:
    notes = writer.notes(value, path)
    own = bool(own_of(value.metadata))
    beside = {"index": value.index is not None, "metadata": own}
    writer.lose_each(path, beside, "bubo messages have no field for it")
    return notes


def _write_tool_response(
    writer: PayloadWriter, message: ToolMessage, path: str
) -> dict[str, Any]:
    text = _one_text(writer, message, path)
    notes = notes_of(message.metadata, SOURCE)
    made = message.tool_call_id == notes.get("made_id")
    call_id, name = "" if made else message.tool_call_id, message.tool_name
    if not message.is_error:
        return {
            "type": "tool_response",
            "tool_name": name,
            "tool_call_id": call_id,
            "content": text,
        }

    ids = {"tool_name": name, "tool_call_id": call_id}
    named = {key: value for key, value in ids.items() if value}
    # Without an error, even an empty one, bubo can't read a retry.
    return {"type": "retry", "error": text, **named}


def _write_answer(
    writer: PayloadWriter, message: AssistantMessage, path: str
) -> list[dict[str, Any]]:
    if message.response is not None:
        writer.lose(path, "response", "bubo messages have no response data")

    calls = [
        _write_call_block(writer, call, f"{path}.tool_calls[{at}]")
        for at, call in enumerate(message.tool_calls)
    ]
    called = [{"type": "tool_call", "tool_calls": calls}]
    if calls and not message.content:
        return called

    answer: dict[str, Any] = {"type": "assistant"}
    content = _write_parts(writer, message, path)
    # A refusal that is alone has a key of its own; bubo has no empty ones.
    only = content[0] if isinstance(content, list) and len(content) == 1 else {}
    if only.keys() == {"refusal", "type"} and only["refusal"]:
        answer = {**only, **answer}
    elif content != "":
        answer["content"] = content

    if not calls:
        return [answer]

    why = "calls are a separate message in bubo; this message was split"
    writer.lose(path, "tool_calls", why)
    return [answer, *called]


def _write_call_block(
    writer: PayloadWriter, call: ToolCall, path: str
) -> dict[str, Any]:
    notes = _read_value_notes(writer, call, path)
    what = {"type": call.type != "function"}
    writer.lose_each(path, what, "bubo messages have no field for it")
    call_id = "" if call.id == notes.get("made_id") else call.id
    raw = {"id": call_id, "name": call.name, "arguments": call.arguments}
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_parts(
    writer: PayloadWriter, message: UserMessage | AssistantMessage, path: str
) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content

    return [
        raw
        for at, part in enumerate(message.content)
        if (raw := _write_part(writer, part, f"{path}.parts[{at}]", message.role))
        is not None
    ]


def _write_part(
    writer: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    notes = _read_value_notes(writer, part, path)
    raw: dict[str, Any] | None = None
    if isinstance(part, UnknownPart):
        return writer.unknown(part.raw, part.source, path)  # type: ignore[no-any-return]

    if isinstance(part, TextPart):
        raw = {"type": "text", "text": part.text}
    elif isinstance(part, RefusalPart):
        raw = {"type": "refusal", "refusal": part.text}
    elif isinstance(part, ImagePart) and role == "user":
        raw = _write_image(writer, part, path)
    elif isinstance(part, AudioPart) and role == "user" and part.data is not None:
        raw = _write_audio(writer, part, path, part.data)
    elif isinstance(part, AudioPart) and role == "user":
        writer.lose(path, part.kind, "bubo accepts audio by content only, not by URL")
    else:
        writer.lose(path, part.kind, cannot_contain(role, part.kind))

    return raw and merge_kept_keys(map_of(notes, "keys"), raw)


def _write_image(writer: PayloadWriter, part: ImagePart, path: str) -> dict[str, Any]:
    why = "images have no field for it"
    writer.lose_each(path, {"detail": bool(part.detail)}, why)
    url, media_type = part.url or "", ""
    if part.data is not None:
        url, media_type = data_url(part.data, part.media_type), part.media_type
        if parse_data_url(url) is None:
            # A comma, for example, would end the head of the URL.
            url, media_type = data_url(part.data, ""), ""

    writer.lose_each(path, {"media_type": media_type != part.media_type}, why)
    return {"type": "image", "image_url": url}


def _write_audio(
    writer: PayloadWriter, part: AudioPart, path: str, data: bytes
) -> dict[str, Any]:
    word = format_of(part.media_type)
    if part.media_type not in {media_type_of(word), "audio/mp3"}:
        writer.lose(path, "media_type", "isn't a media type of audio")

    return {
        "type": "audio",
        "input_audio": {"data": encode_base64(data), "format": word},
    }
