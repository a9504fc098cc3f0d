"""
The content of parts, loaded and dumped: texts, media and values.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._extras import read_extra
from conversation_state.adapters._notes import map_of, own_of, with_notes
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters._wire import MEDIA_CLASSES, decode_base64
from conversation_state.adapters.pydantic_ai._constants import (
    MEDIA,
    SOURCE,
    URLS,
    is_default,
    kind_of,
    parse_noted,
    to_json_text,
)
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import ImagePart, MediaPart, Part, TextPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = [
    "dump_content",
    "dump_media",
    "dump_tool_result",
    "dump_unknown",
    "json_text",
    "keep_keys",
    "keep_whole",
    "media_part",
    "read_content",
    "read_metadata",
    "read_text",
    "read_tool_result",
    "restore_keys",
    "restore_texts",
    "restore_value",
    "take_notes",
]


_URL = frozenset({"kind", "media_type", "url"})
_BYTES = frozenset({"data", "kind", "media_type"})
_TEXT = frozenset({"content", "kind"})
_MEDIA = frozenset({"binary", *MEDIA})
_UNTYPED = "application/octet-stream"


def keep_keys(
    node: ObjectReader, known: frozenset[str], *, whole: bool = False
) -> None:
    """
    Note all keys except the *known* ones, and except defaults unless *whole*.

    A value that is too large or too deep for metadata is kept as JSON text.
    """
    texts: dict[str, str] = {}
    for key, value in node.raw.items():
        # JSON has no such key, and `keep` reports it.
        if not isinstance(key, str):
            node.keep(known)
            return

        if key in known or (is_default(key, value) and not whole):
            continue

        # This reader collects the problems of the value as metadata. They are not
        # problems of the document if the value can be kept as JSON text.
        read = DocumentReader()
        kept = read.json(value, f"{node.path}.{key}")
        text = to_json_text(value) if read.problems else None
        if text is not None:
            texts[mended(key)] = mended(text)
        elif read.problems:
            node.reading.json(value, f"{node.path}.{key}")
        else:
            node.keys[mended(key)] = kept
            node.reading.mended += read.mended

    if texts:
        node.notes["texts"] = texts


def keep_whole(node: ObjectReader) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    The whole object at *node*, verbatim, and the notes on it.
    """
    read = DocumentReader()
    read.json(node.raw, node.path)
    text = to_json_text(node.raw) if read.problems else None
    if text is not None:
        kind = mended(kind_of(node.raw) or kind_of(node.raw, "kind"))
        return {"part_kind": kind}, {"whole": mended(text)}

    kept: dict[str, Any] = node.reading.json(node.raw, node.path)
    return kept, {}


def read_metadata(node: ObjectReader) -> tuple[dict[str, Any], bool]:
    """
    The map under ``metadata`` as our metadata; and whether it is valid as such.
    """
    read = DocumentReader()
    read.json(node.raw.get("metadata"), node.path)
    is_ours = not read.problems and is_map(node.raw.get("metadata"))
    return (read_extra(node, "metadata"), True) if is_ours else ({}, False)


def read_content(node: ObjectReader, content: Any) -> str | list[Part]:
    """
    The content of a user's message: a text, or parts.
    """
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

    part = media_part(node)
    if part is None:
        raw, notes = keep_whole(node)
        return UnknownPart(raw, source=SOURCE, metadata=with_notes(SOURCE, notes))

    return part


def media_part(
    node: ObjectReader, *, whole: bool = False, index: int | None = None
) -> MediaPart | None:
    """
    The media at *node*; None if there is no part for them. *whole* notes defaults,
    too.
    """
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


def read_text(node: ObjectReader, key: str) -> str:
    """
    The value under *key* as text; a note says if it was not a text.
    """
    value = node.raw.get(key)
    if isinstance(value, str):
        return node.text(key)

    node.notes["value"] = True
    if value is None:
        return ""

    return json_text(node.reading, value, f"{node.path}.{key}")


def json_text(reading: DocumentReader, value: Any, path: str) -> str:
    """
    *value*, at *path*, as JSON text, mended.
    """
    text = to_json_text(value)
    if text is None:
        count = reading.count
        reading.json(value, path)
        if reading.count == count:
            reading.problem(path, "is not JSON")

        return ""

    found: str = reading.json(text, path)
    return found


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
            part = media_part(ObjectReader(node.reading, item, path), whole=True)

        if part is None:
            text = json_text(node.reading, item, path)
            part = TextPart(text, metadata=with_notes(SOURCE, {"value": True}))

        found.append(part)

    node.notes["files"] = "several" if is_list(content) else "one"
    return found


def restore_keys(
    raw: dict[str, Any], notes: Mapping[str, Any], name: str = "keys"
) -> dict[str, Any]:
    """
    *raw* with the keys that *notes* have under *name*.
    """
    merge_kept_keys(map_of(notes, name), raw)
    restore_texts(raw, notes, "texts" if name == "keys" else f"{name}_texts")
    return raw


def restore_texts(raw: dict[str, Any], notes: Mapping[str, Any], name: str) -> None:
    """
    Restore in *raw* the keys that are noted under *name* as JSON text.
    """
    for key, text in map_of(notes, name).items():
        value = parse_noted(text, raw)
        if value is not raw:
            raw.setdefault(key, value)


def restore_value(text: str, notes: Mapping[str, Any]) -> Any:
    """
    *text*, or its value as JSON, if a note says that it was a value.
    """
    if notes.get("value") is not True:
        return text

    return parse_noted(text, text) if text else None


def take_notes(
    write: PayloadWriter, value: Part | ToolCall, path: str
) -> Mapping[str, Any]:
    """
    The notes on a part or a call. Its own metadata is listed as lost, because Pydantic
    AI has no field for it.
    """
    notes = write.notes(value, path)
    if own_of(value.metadata):
        write.lose(path, "metadata", "supported on messages only by Pydantic AI")

    return notes


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
    notes = take_notes(write, part, path)
    if isinstance(part, TextPart):
        is_bare = not map_of(notes, "keys")
        return part.text if is_bare else restore_keys({"content": part.text}, notes)

    if isinstance(part, MediaPart):
        return dump_media(write, part, notes, path)

    return dump_unknown(write, part, notes, path)


def dump_unknown(
    write: PayloadWriter, part: Part, notes: Mapping[str, Any], path: str
) -> Any:
    """
    An unknown *part*, as it was loaded; None if it is of another format.
    """
    if not isinstance(part, UnknownPart):
        write.lose(path, part.kind, "not supported here by Pydantic AI")
        return None

    keys = ("part_kind", "kind", "type")
    key = next((key for key in keys if key in part.raw), "type")
    raw = write.unknown(part.raw, part.source, path, key)
    return raw if raw is None else parse_noted(notes.get("whole"), raw)


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
        data = _encode_base64(part.data or b"")
        item = {"kind": "binary", "data": data, "media_type": media_type}

    if isinstance(part, ImagePart) and part.detail:
        item["vendor_metadata"] = {"detail": part.detail}

    if getattr(part, "name", ""):
        write.lose(path, "name", "not supported by Pydantic AI")

    return restore_keys(item, notes)


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
        if isinstance(part, TextPart):
            items.append(restore_value(part.text, take_notes(write, part, where)))
        elif (raw := _dump_item(write, part, where)) is not None:
            items.append(raw)

    files = notes.get("files")
    if files is None and not any(isinstance(part, MediaPart) for part in content):
        if len(content) > 1:
            why = "the result of a tool is one text; the parts are joined"
            write.lose(path, "parts", why)

        return message.text

    return items[0] if files == "one" and len(items) == 1 else items
