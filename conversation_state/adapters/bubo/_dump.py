"""
From our messages to bubo's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters._export import (
    Export,
    Writing,
    map_of,
    notes_of,
    written_over,
)
from conversation_state.adapters._extras import (
    data_url,
    from_data_url,
    lose_each,
    ordered,
    own_of,
    write_extra,
)
from conversation_state.adapters.bubo._words import (
    AUDIO,
    ENVELOPE,
    NIL,
    SOURCE,
    format_of,
    media_type_of,
    written_time,
)
from conversation_state.errors import InvalidMessageError
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

__all__ = ["dump", "envelopes"]

_ORDER = ("type", "content", "refusal", "tool_calls", *ENVELOPE)


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of bubo's: ``{"messages": [...]}``.

    What was loaded from this format is written as it was, as far as bubo can
    read it. `Export.lost` lists what differs from *messages* when the payload
    is loaded again: what bubo has no word for, what is another adapter's own,
    what had to be mended, and where one message had to become two.

    Raises:
        InvalidMessageError:
            If one of them is no message.
    """
    write = Writing(SOURCE)
    raws = [raw for several in envelopes(write, messages) for raw in several]
    return write.export({"messages": raws})


def envelopes(
    write: Writing, messages: Iterable[Message]
) -> list[list[dict[str, Any]]]:
    """
    The messages of bubo's that each of *messages* becomes: none to two.

    Raises:
        InvalidMessageError:
            If one of them is no message.
    """
    found: list[list[dict[str, Any]]] = []
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        if not isinstance(message, Message):
            msg = f"{path} is a {type(message).__name__}; expected a Message"
            raise InvalidMessageError(msg)

        found.append(_message(write, message, path))

    return found


def _message(write: Writing, message: Message, path: str) -> list[dict[str, Any]]:
    notes = write.notes_on(message, path)
    if isinstance(message, UnknownMessage):
        return _verbatim(write, message, path)

    envelope = _envelope(write, message, path, notes)
    first, *rest = [
        {**payload, **envelope} for payload in _payloads(write, message, path, notes)
    ]
    keys = map_of(notes, "keys")
    if first["type"] != "assistant":
        return [written_over(keys, first), *rest]

    if "refusal" in first:
        keys = {key: keys[key] for key in keys if key != "content"}

    return [ordered(written_over(keys, first), _ORDER), *rest]


def _payloads(
    write: Writing, message: Any, path: str, notes: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        return _answer(write, message, path, notes)

    if isinstance(message, ToolMessage):
        return [_result(write, message, path, notes)]

    if isinstance(message, SystemMessage):
        text = _one_text(write, message, path)
        return [{"type": "instructions", "content": text}]

    content = _content(write, message, path)
    return [{"type": "user", "content": None if content == "" else content}]


def _verbatim(
    write: Writing, message: UnknownMessage, path: str
) -> list[dict[str, Any]]:
    raw = write.unknown(message.raw, message.source, path, "type")
    if raw is None:
        return []

    if not isinstance(raw.get("type"), str):
        write.lose(path, "message", "has no payload, which bubo can't read")
        return []

    raw = ordered(raw, ("type",))

    beside = {
        "name": bool(message.name),
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
        "metadata": bool(own_of(message.metadata)),
    }
    lose_each(write, path, beside, "stands beside a message sent verbatim")
    return [raw]


def _envelope(
    write: Writing, message: Message, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for key, given in (("run_id", message.run_id), ("turn_id", message.turn_id)):
        if given == NIL:
            write.lose(path, key, "is nil, which is no id there")
        elif given is not None:
            raw[key] = str(given)

    if message.name:
        raw["sender"] = message.name

    if message.timestamp is not None:
        text, why = written_time(message.timestamp)
        if text:
            raw["timestamp"] = text

        if why:
            write.lose(path, "timestamp", why)

    _put_meta(write, message, path, notes, raw)
    return raw


def _put_meta(
    write: Writing,
    message: Message,
    path: str,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
) -> None:
    meta = write_extra(message.metadata, notes, "meta")
    if meta:
        raw["meta"] = meta

    if "meta" in notes and not map_of(notes, "meta"):
        kept = thaw(notes["meta"])
        if not meta:
            raw["meta"] = kept
        elif kept:
            write.lose(path, "meta", "was no object, and metadata takes its place")


def _one_text(write: Writing, message: SystemMessage | ToolMessage, path: str) -> str:
    """
    The text of *message*, which has no parts there.
    """
    if isinstance(message.content, str):
        return message.content

    for at, part in enumerate(message.content):
        where = f"{path}.parts[{at}]"
        _notes(write, part, where)
        if not isinstance(part, TextPart):
            write.lose(where, part.kind, "is no text, and a text is all there is there")

    if len(message.content) > 1:
        write.lose(path, "parts", "are one text there")

    return message.text


def _notes(write: Writing, value: Part | ToolCall, path: str) -> Mapping[str, Any]:
    """
    The notes on *value*; what bubo has no place for is lost.
    """
    notes = write.notes(value, path)
    beside = {
        "index": value.index is not None,
        "metadata": bool(own_of(value.metadata)),
    }
    lose_each(write, path, beside, "has no place in a message of bubo's")
    return notes


def _result(
    write: Writing, message: ToolMessage, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    text = _one_text(write, message, path)
    made = message.tool_call_id == notes.get("made_id")
    call_id, name = "" if made else message.tool_call_id, message.tool_name
    if not message.is_error:
        return {
            "type": "tool_response",
            "tool_name": name,
            "tool_call_id": call_id,
            "content": text,
        }

    told = {"tool_name": name, "tool_call_id": call_id}
    said = {key: value for key, value in told.items() if value}
    return {"type": "retry", "error": text, **said}


def _answer(
    write: Writing, message: AssistantMessage, path: str, notes: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if message.response is not None:
        write.lose(path, "response", "is kept with a checkpoint there, if at all")

    calls = [
        _call(write, call, f"{path}.tool_calls[{at}]")
        for at, call in enumerate(message.tool_calls)
    ]
    called = [{"type": "tool_call", "tool_calls": calls}]
    if not message.content and (calls or notes.get("type") == "tool_call"):
        return called

    said: dict[str, Any] = {"type": "assistant"}
    refusal = _refusal(message, notes)
    if refusal is not None:
        _notes(write, refusal, f"{path}.parts[0]")
        said["refusal"] = refusal.text
    else:
        content = _content(write, message, path)
        if content != "":
            said["content"] = content

    if not calls:
        return [said]

    write.lose(path, "tool_calls", "are made by a message of their own there")
    return [said, *called]


def _refusal(message: AssistantMessage, notes: Mapping[str, Any]) -> RefusalPart | None:
    """
    The refusal that *message* is, and nothing else.
    """
    if isinstance(message.content, str) or len(message.content) != 1:
        return None

    part = message.content[0]
    alone = isinstance(part, RefusalPart) and bool(part.text)
    listed = notes.get("list") is True
    if listed or not alone or notes_of(part.metadata, SOURCE):
        return None

    return part if isinstance(part, RefusalPart) else None


def _call(write: Writing, call: ToolCall, path: str) -> dict[str, Any]:
    notes = _notes(write, call, path)
    what = {"type": call.type != "function"}
    lose_each(write, path, what, "has no place in a message of bubo's")
    made = call.id == notes.get("made_id")
    raw = {
        "id": "" if made else call.id,
        "name": call.name,
        "arguments": call.arguments,
    }
    return written_over(map_of(notes, "keys"), raw)


def _content(
    write: Writing, message: UserMessage | AssistantMessage, path: str
) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content

    found = [
        _part(write, part, f"{path}.parts[{at}]", message.role)
        for at, part in enumerate(message.content)
    ]
    return [raw for raw in found if raw is not None]


def _part(write: Writing, part: Part, path: str, role: str) -> dict[str, Any] | None:
    notes = _notes(write, part, path)
    raw: dict[str, Any] | None = None
    if isinstance(part, UnknownPart):
        raw = write.unknown(part.raw, part.source, path, "type")
        return raw and _in_order(raw)

    if isinstance(part, TextPart):
        raw = {"type": "text", "text": part.text}
    elif isinstance(part, RefusalPart):
        raw = {"type": "refusal", "refusal": part.text}
    elif isinstance(part, ImagePart) and role == "user":
        raw = _image(write, part, path)
    elif isinstance(part, AudioPart) and role == "user" and part.data is not None:
        raw = _audio(write, part, path, part.data)
    elif isinstance(part, AudioPart) and role == "user":
        write.lose(path, part.kind, "is sent by its content there, and not by url")
    else:
        write.lose(path, part.kind, f"is no part of a message by {role} there")

    return raw and written_over(map_of(notes, "keys"), raw)


def _in_order(raw: dict[str, Any]) -> dict[str, Any]:
    """
    *raw*, a part that was kept as it was, in the order bubo has.
    """
    raw = ordered(raw, ("type",))
    body = raw.get("input_audio")
    if isinstance(body, dict):
        raw["input_audio"] = ordered(body, AUDIO)

    return raw


def _image(write: Writing, part: ImagePart, path: str) -> dict[str, Any]:
    why = "has no place beside an image's url"
    lose_each(write, path, {"detail": bool(part.detail)}, why)
    url, told = part.url or "", ""
    if part.data is not None:
        url, told = data_url(part.data, part.media_type), part.media_type
        if from_data_url(url) is None:
            # A comma, say, would end the head of the url.
            url, told = data_url(part.data, ""), ""

    lose_each(write, path, {"media_type": told != part.media_type}, why)
    return {"type": "image", "image_url": url}


def _audio(write: Writing, part: AudioPart, path: str, data: bytes) -> dict[str, Any]:
    word: Any = notes_of(part.metadata, SOURCE).get("format")
    if not isinstance(word, str) or media_type_of(word) != part.media_type:
        word = format_of(part.media_type)

    if part.media_type not in {media_type_of(word), "audio/mp3"}:
        write.lose(path, "media_type", "is no audio's")

    body = {"data": base64.b64encode(data).decode(), "format": word}
    return {"type": "audio", "input_audio": body}
