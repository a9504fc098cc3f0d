"""The content of parts, loaded and dumped: texts, media and values."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.adapters.engine.export import PayloadWriter
from conversation_state.adapters.engine.notes import map_of, with_notes
from conversation_state.adapters.engine.reading import ObjectReader, is_list, is_map
from conversation_state.adapters.engine.wire import MEDIA_CLASSES, decode_base64
from conversation_state.adapters.pydantic_ai._notes import (
    MEDIA,
    SOURCE,
    URLS,
    dump_unknown,
    keep_keys,
    kind_of,
    read_json_text,
    read_text,
    restore_keys,
    restore_value,
    take_notes,
)
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import ImagePart, MediaPart, Part, TextPart

_URL = frozenset({"kind", "media_type", "url"})
_BYTES = frozenset({"data", "kind", "media_type"})
_TEXT = frozenset({"content", "kind"})
_MEDIA = frozenset({"binary", *MEDIA})
_UNTYPED = "application/octet-stream"


def read_content(node: ObjectReader, content: Any) -> str | list[Part]:
    if isinstance(content, str):
        return node.text("content")

    found: list[Part] = []
    for at, item in enumerate(content):
        path = f"{node.path}.content[{at}]"
        if isinstance(item, str):
            found.append(TextPart(node.reading.json(item, path)))
        elif is_map(item):
            found.append(_load_item(ObjectReader(node.reading, item, path)))
        else:
            node.reading.wrong(path, item, "a text or an object")

    return found


def _load_item(node: ObjectReader) -> Part:
    kind, content = kind_of(node.raw, "kind"), node.raw.get("content")
    if kind in {"text-content", "structured-content"} and isinstance(content, str):
        # Structured content may have the value null, which `keep_keys` would drop as a
        # default.
        keep_keys(node, _TEXT, whole=kind == "structured-content")
        # Without a noted kind, the part would be dumped as a bare text.
        node.keys["kind"] = kind
        return TextPart(node.text("content"), metadata=node.metadata(SOURCE))

    return read_media(node) or node.as_unknown(SOURCE)


# The media at *node*; None if there is no part for them. *whole* notes defaults, too.
def read_media(
    node: ObjectReader, *, whole: bool = False, index: int | None = None
) -> MediaPart | None:
    raw = node.raw
    fields: dict[str, Any] = {"index": index}
    kind, media_type = kind_of(raw, "kind"), raw.get("media_type")
    if isinstance(media_type, str):
        fields["media_type"] = node.text("media_type")
    elif media_type is not None:
        return None

    url, data = raw.get("url"), raw.get("data")
    if kind in MEDIA and isinstance(url, str) and url:
        own = MEDIA[kind]
        known = _URL
        fields["url"] = node.text("url")
    elif kind == "binary" and isinstance(data, str) and isinstance(media_type, str):
        family = media_type.partition("/")[0]
        own = family if family in MEDIA_CLASSES else "file"
        known = _BYTES
        # Base64 that Pydantic would write differently is kept unchanged by the caller.
        fields["data"] = decode_base64(data, urlsafe=True)
        if not data or _encode_base64(fields["data"]) != data:
            return None

    else:
        return None

    vendor = raw.get("vendor_metadata")
    if own == "image" and is_map(vendor) and [*vendor] == ["detail"]:
        detail = vendor["detail"]
        if isinstance(detail, str) and detail:
            fields["detail"] = node.reading.json(detail, f"{node.path}.detail")
            known |= {"vendor_metadata"}

    if media_type is None:
        known -= {"media_type"}

    keep_keys(node, known, whole=whole)
    return MEDIA_CLASSES[own](metadata=node.metadata(SOURCE), **fields)


def _encode_base64(data: bytes) -> str:
    # Pydantic writes bytes in the URL-safe alphabet.
    return base64.urlsafe_b64encode(data).decode()


def read_tool_result(node: ObjectReader) -> str | list[Part]:
    """
    The content of a tool's result: a text, the JSON text of a value, or parts if
    it has media.
    """
    content = node.raw.get("content")
    items: Sequence[Any] = content if is_list(content) else [content]
    if not any(is_map(item) and kind_of(item, "kind") in _MEDIA for item in items):
        return read_text(node, "content")

    found: list[Part] = []
    for at, item in enumerate(items):
        path = f"{node.path}.content[{at}]"
        part: Part | None = None
        if isinstance(item, str):
            part = TextPart(node.reading.json(item, path))
        elif is_map(item) and kind_of(item, "kind") in _MEDIA:
            # Defaults are noted, too, because Pydantic AI identifies files in results
            # by a digest of all keys.
            part = read_media(ObjectReader(node.reading, item, path), whole=True)

        if part is None:
            text = read_json_text(node.reading, item, path)
            part = TextPart(text, metadata=with_notes(SOURCE, {"value": True}))

        found.append(part)

    node.notes["files"] = "several" if is_list(content) else "one"
    return found


def dump_content(writer: PayloadWriter, message: Message, path: str) -> Any:
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content

    items = [
        _dump_item(writer, part, f"{path}.parts[{at}]")
        for at, part in enumerate(content)
    ]
    return [item for item in items if item is not None]


def _dump_item(writer: PayloadWriter, part: Part, path: str) -> Any:
    notes = take_notes(writer, part, path)
    if isinstance(part, TextPart):
        is_bare = not map_of(notes, "keys")
        return part.text if is_bare else restore_keys({"content": part.text}, notes)

    if isinstance(part, MediaPart):
        return dump_media(writer, part, notes, path)

    return dump_unknown(writer, part, path)


def dump_media(
    writer: PayloadWriter, part: MediaPart, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    item: dict[str, Any]
    if part.url is not None:
        item = {"kind": URLS[part.kind], "url": part.url}
        if part.media_type:
            item["media_type"] = part.media_type
    else:
        family = part.media_type.partition("/")[0]
        if part.kind != (family if family in URLS else "file"):
            writer.lose(path, part.kind, "bytes become content of their media type")

        if not part.media_type:
            writer.lose(path, "media_type", f"required for bytes; set to {_UNTYPED}")

        media_type = part.media_type or _UNTYPED
        data = _encode_base64(part.data or b"")
        item = {"kind": "binary", "data": data, "media_type": media_type}

    if isinstance(part, ImagePart) and part.detail:
        item["vendor_metadata"] = {"detail": part.detail}

    if getattr(part, "name", ""):
        writer.lose(path, "name", "not supported by Pydantic AI")

    return restore_keys(item, notes)


def dump_tool_result(
    writer: PayloadWriter, message: ToolMessage, notes: Mapping[str, Any], path: str
) -> Any:
    content = message.content
    if isinstance(content, str):
        return restore_value(content, notes)

    items: list[Any] = []
    for at, part in enumerate(content):
        where = f"{path}.parts[{at}]"
        if isinstance(part, TextPart):
            items.append(restore_value(part.text, take_notes(writer, part, where)))
        elif (raw := _dump_item(writer, part, where)) is not None:
            items.append(raw)

    files = notes.get("files")
    if files is None and not any(isinstance(part, MediaPart) for part in content):
        if len(content) > 1:
            why = "the result of a tool is one text; the parts are joined"
            writer.lose(path, "parts", why)

        return message.text

    return items[0] if files == "one" and len(items) == 1 else items
