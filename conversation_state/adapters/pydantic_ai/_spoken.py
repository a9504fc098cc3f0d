"""
What is inside of parts, from our words to Pydantic AI's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import Writing, map_of, written_over
from conversation_state.adapters._extras import own_of
from conversation_state.adapters.pydantic_ai._content import as_base64
from conversation_state.adapters.pydantic_ai._words import URLS
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import ImagePart, MediaPart, Part, TextPart, UnknownPart

__all__ = [
    "lose_metadata",
    "media",
    "restore",
    "restored",
    "unknown_part",
    "write_answer",
    "write_content",
]

_UNTYPED = "application/octet-stream"


def restore(raw: dict[str, Any], notes: Mapping[str, Any], name: str) -> None:
    """
    Put back into *raw* what was noted under *name* as JSON text.
    """
    for key, text in map_of(notes, name).items():
        if isinstance(text, str):
            raw.setdefault(key, json.loads(text))


def restored(text: str, notes: Mapping[str, Any]) -> Any:
    """
    *text*, or the value it is the JSON of, if a note says that it was one.
    """
    if notes.get("value") is not True:
        return text

    if not text:
        return None

    try:
        return json.loads(text)
    except ValueError:
        return text  # somebody wrote something else since


def lose_metadata(write: Writing, value: Any, path: str) -> None:
    """
    List what a caller put beside a part or a call, for which there is no place.
    """
    if own_of(value.metadata):
        write.lose(path, "metadata", "Pydantic AI has a place for messages' only")


def write_content(write: Writing, message: Message, path: str) -> Any:
    """
    What a user says.
    """
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content

    items = [
        _item(write, part, f"{path}.parts[{at}]") for at, part in enumerate(content)
    ]
    return [item for item in items if item is not None]


def _item(write: Writing, part: Part, path: str) -> Any:
    notes = write.notes(part, path)
    lose_metadata(write, part, path)
    if isinstance(part, TextPart):
        keys = map_of(notes, "keys")
        if not keys:
            return part.text

        item: dict[str, Any] = {"content": part.text}
        written_over(keys, item)
        restore(item, notes, "texts")
        return item

    if isinstance(part, MediaPart):
        return media(write, part, notes, path)

    return unknown_part(write, part, notes, path)


def unknown_part(
    write: Writing, part: Part, notes: Mapping[str, Any], path: str
) -> Any:
    """
    An unknown *part*, as it was; None if it is somebody else's.
    """
    if not isinstance(part, UnknownPart):
        write.lose(path, part.kind, "Pydantic AI has no such content here")
        return None

    keys = ("part_kind", "kind", "type")
    key = next((key for key in keys if key in part.raw), "type")
    raw = write.unknown(part.raw, part.source, path, key)
    text = notes.get("whole")
    return json.loads(text) if raw is not None and isinstance(text, str) else raw


def media(
    write: Writing, part: MediaPart, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """
    Content by its address, or with its bytes.
    """
    item: dict[str, Any]
    if part.url is not None:
        item = {"kind": URLS[part.kind], "url": part.url}
        if part.media_type:
            item["media_type"] = part.media_type
    else:
        family = part.media_type.partition("/")[0]
        if part.kind != (family if family in URLS else "file"):
            write.lose(path, part.kind, "bytes are shown as what their type says")

        if not part.media_type:
            write.lose(path, "media_type", f"bytes need one, and are {_UNTYPED}")

        media_type = part.media_type or _UNTYPED
        data = as_base64(part.data or b"")
        item = {"kind": "binary", "data": data, "media_type": media_type}

    if isinstance(part, ImagePart) and part.detail:
        item["vendor_metadata"] = {"detail": part.detail}

    if getattr(part, "name", ""):
        write.lose(path, "name", "files have none in Pydantic AI")

    written_over(map_of(notes, "keys"), item)
    restore(item, notes, "texts")
    return item


def write_answer(
    write: Writing, message: ToolMessage, notes: Mapping[str, Any], path: str
) -> Any:
    """
    What a tool gave.
    """
    content = message.content
    if isinstance(content, str):
        return restored(content, notes)

    items: list[Any] = []
    for at, part in enumerate(content):
        where = f"{path}.parts[{at}]"
        inside = write.notes(part, where)
        lose_metadata(write, part, where)
        if isinstance(part, TextPart):
            items.append(restored(part.text, inside))
        elif isinstance(part, MediaPart):
            items.append(media(write, part, inside, where))
        else:
            raw = unknown_part(write, part, inside, where)
            items += [raw] if raw is not None else []

    files = notes.get("files")
    if files is None and not any(isinstance(part, MediaPart) for part in content):
        if len(content) > 1:
            write.lose(path, "parts", "a tool's text is one, and they are joined")

        return message.text

    return items[0] if files == "one" and len(items) == 1 else items
