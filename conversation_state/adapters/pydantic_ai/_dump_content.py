"""
Dumping the content of parts: texts, media and values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import map_of, own_of
from conversation_state.adapters.pydantic_ai._constants import URLS
from conversation_state.adapters.pydantic_ai._load_content import as_base64
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import ImagePart, MediaPart, Part, TextPart, UnknownPart

__all__ = [
    "dump_content",
    "dump_media",
    "dump_tool_result",
    "dump_unknown",
    "lose_metadata",
    "restore_texts",
    "restore_value",
]

_UNTYPED = "application/octet-stream"


def restore_texts(raw: dict[str, Any], notes: Mapping[str, Any], name: str) -> None:
    """
    Restore in *raw* the keys that are noted under *name* as JSON text.
    """
    for key, text in map_of(notes, name).items():
        if isinstance(text, str):
            raw.setdefault(key, json.loads(text))


def restore_value(text: str, notes: Mapping[str, Any]) -> Any:
    """
    *text*, or the value it is the JSON of, if a note says that it was a value.
    """
    if notes.get("value") is not True:
        return text

    if not text:
        return None

    try:
        return json.loads(text)
    except ValueError:
        return text  # the text was changed since


def lose_metadata(write: PayloadWriter, value: Any, path: str) -> None:
    """
    List the metadata of a part or a call as lost: Pydantic AI has no field for it.
    """
    if own_of(value.metadata):
        write.lose(path, "metadata", "supported on messages only by Pydantic AI")


def dump_content(write: PayloadWriter, message: Message, path: str) -> Any:
    """
    The content of a user's message.
    """
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content

    items = [
        _dump_item(write, part, f"{path}.parts[{at}]")
        for at, part in enumerate(content)
    ]
    return [item for item in items if item is not None]


def _dump_item(write: PayloadWriter, part: Part, path: str) -> Any:
    notes = write.notes(part, path)
    lose_metadata(write, part, path)
    if isinstance(part, TextPart):
        keys = map_of(notes, "keys")
        if not keys:
            return part.text

        item: dict[str, Any] = {"content": part.text}
        merge_kept_keys(keys, item)
        restore_texts(item, notes, "texts")
        return item

    if isinstance(part, MediaPart):
        return dump_media(write, part, notes, path)

    return dump_unknown(write, part, notes, path)


def dump_unknown(
    write: PayloadWriter, part: Part, notes: Mapping[str, Any], path: str
) -> Any:
    """
    An unknown *part*, as it was; None if it is of another format.
    """
    if not isinstance(part, UnknownPart):
        write.lose(path, part.kind, "not supported here by Pydantic AI")
        return None

    keys = ("part_kind", "kind", "type")
    key = next((key for key in keys if key in part.raw), "type")
    raw = write.unknown(part.raw, part.source, path, key)
    text = notes.get("whole")
    return json.loads(text) if raw is not None and isinstance(text, str) else raw


def dump_media(
    write: PayloadWriter, part: MediaPart, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """
    Media by their URL, or with their bytes.
    """
    item: dict[str, Any]
    if part.url is not None:
        item = {"kind": URLS[part.kind], "url": part.url}
        if part.media_type:
            item["media_type"] = part.media_type
    else:
        family = part.media_type.partition("/")[0]
        if part.kind != (family if family in URLS else "file"):
            write.lose(path, part.kind, "bytes become content of their media type")

        if not part.media_type:
            write.lose(path, "media_type", f"required for bytes; set to {_UNTYPED}")

        media_type = part.media_type or _UNTYPED
        data = as_base64(part.data or b"")
        item = {"kind": "binary", "data": data, "media_type": media_type}

    if isinstance(part, ImagePart) and part.detail:
        item["vendor_metadata"] = {"detail": part.detail}

    if getattr(part, "name", ""):
        write.lose(path, "name", "not supported by Pydantic AI")

    merge_kept_keys(map_of(notes, "keys"), item)
    restore_texts(item, notes, "texts")
    return item


def dump_tool_result(
    write: PayloadWriter, message: ToolMessage, notes: Mapping[str, Any], path: str
) -> Any:
    """
    The content of a tool's result.
    """
    content = message.content
    if isinstance(content, str):
        return restore_value(content, notes)

    items: list[Any] = []
    for at, part in enumerate(content):
        where = f"{path}.parts[{at}]"
        inside = write.notes(part, where)
        lose_metadata(write, part, where)
        if isinstance(part, TextPart):
            items.append(restore_value(part.text, inside))
        elif isinstance(part, MediaPart):
            items.append(dump_media(write, part, inside, where))
        else:
            raw = dump_unknown(write, part, inside, where)
            items += [raw] if raw is not None else []

    files = notes.get("files")
    if files is None and not any(isinstance(part, MediaPart) for part in content):
        if len(content) > 1:
            write.lose(
                path, "parts", "the result of a tool is one text; the parts are joined"
            )

        return message.text

    return items[0] if files == "one" and len(items) == 1 else items
