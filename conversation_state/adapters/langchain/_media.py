"""
Images, audio, video and files: the many shapes of their blocks.

The shapes are LangChain's own (of version 1, and older ones) and those of providers,
which LangChain passes on. A note keeps the name of the shape, so that the block is
written the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from conversation_state.adapters.engine.notes import map_of, without_empty
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    data_url,
    decode_base64,
    encode_base64,
    parse_data_url,
)
from conversation_state.adapters.langchain._values import text_or_empty
from conversation_state.parts import MediaPart, Part

# The name of LangChain's standard shape, which is also that of parts that were not
# loaded from LangChain.
STANDARD = "standard"

# The key in the standard's `extras`, and our field for it.
_EXTRAS = {"file": ("filename", "name"), "image": ("detail", "detail")}


class BlockShape(NamedTuple):
    kind: type[Part]
    fields: dict[str, Any]
    shape: str


def _get_text(raw: Mapping[str, Any], key: str) -> str:
    return text_or_empty(raw.get(key))


def _read_source(raw: Mapping[str, Any], url: str, data: str) -> dict[str, Any] | None:
    if _get_text(raw, url):
        return {"url": raw[url]}

    octets = decode_base64(_get_text(raw, data), padded=True)
    return {"data": octets} if octets else None


def _read_typed_source(block: Mapping[str, Any], data: str) -> dict[str, Any] | None:
    found = _read_source(block, "url", data)
    return _add_fields(found, media_type=_get_text(block, "mime_type"))


def _add_fields(fields: dict[str, Any] | None, **more: str) -> dict[str, Any] | None:
    return None if fields is None else {**fields, **without_empty(more)}


def _read_url(url: str) -> dict[str, Any] | None:
    inline = parse_data_url(url)
    if inline is not None:
        return {"data": inline[0], "media_type": inline[1]}

    return {"url": url} if url else None


def media_shape(block: Mapping[str, Any]) -> BlockShape | None:
    """
    The shape of *block*; None if it has neither a URL nor data, such as a file
    at its provider.
    """
    kind = block.get("type")
    found: dict[str, Any] | None = None
    shape, of = STANDARD, kind
    if kind == "image_url":
        of, shape, found = _read_image_url(block)
    elif kind == "input_audio":
        of, shape = "audio", "input_audio"
        found = _read_audio(map_of(block, "input_audio"))
    # Blocks of Anthropic, older ones of LangChain and standard ones have the same
    # types. The keys "source" and "source_type" distinguish them.
    elif kind in ("image", "document") and "source" in block:
        of, shape = "image" if kind == "image" else "file", "source"
        source = map_of(block, "source")
        media_type = _get_text(source, "media_type")
        found = _add_fields(_read_source(source, "url", "data"), media_type=media_type)
    elif kind in MEDIA_CLASSES and "source_type" in block:
        shape = "before 1"
        found = _read_typed_source(block, "data")
    elif kind == "file" and "file" in block:
        shape, file = "file", map_of(block, "file")
        content = _read_url(_get_text(file, "file_data"))
        found = _add_fields(content, name=_get_text(file, "filename"))
    elif kind in MEDIA_CLASSES:
        found = _read_typed_source(block, "base64")
        theirs, ours = _EXTRAS.get(str(kind), ("", ""))
        if ours:
            more = {ours: _get_text(map_of(block, "extras"), theirs)}
            found = _add_fields(found, **more)

    return None if found is None else BlockShape(MEDIA_CLASSES[str(of)], found, shape)


def _read_image_url(block: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    if _get_text(block, "image_url"):
        return "image", "image_url text", _read_url(block["image_url"])

    inside = map_of(block, "image_url")
    content = _read_url(_get_text(inside, "url"))
    found = _add_fields(content, detail=_get_text(inside, "detail"))
    return "image", "image_url", found


def _read_audio(inside: Mapping[str, Any]) -> dict[str, Any] | None:
    octets = decode_base64(_get_text(inside, "data"), padded=True)
    kind = _get_text(inside, "format")
    return {"data": octets, "media_type": f"audio/{kind}"} if octets and kind else None


def _encode_data(part: MediaPart) -> str:
    return encode_base64(part.data or b"")


def _write_typed_source(part: MediaPart, data: str) -> dict[str, Any]:
    content = {"url": part.url} if part.url else {data: _encode_data(part)}
    return content | without_empty({"mime_type": part.media_type})


def _write_standard(part: MediaPart) -> dict[str, Any]:
    block = {"type": part.kind, **_write_typed_source(part, "base64")}
    theirs, ours = _EXTRAS.get(part.kind, ("", ""))
    if ours and getattr(part, ours):
        block["extras"] = {theirs: getattr(part, ours)}

    return block


def _write_source(part: MediaPart) -> dict[str, Any]:
    source: dict[str, Any] = {"type": "url", "url": part.url}
    if part.url is None:
        source = {"type": "base64", "data": _encode_data(part)}
        if part.media_type:
            source["media_type"] = part.media_type

    return {"type": "image" if part.kind == "image" else "document", "source": source}


def _url_of(part: MediaPart) -> str:
    return part.url or data_url(part.data or b"", part.media_type)


_WRITERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    STANDARD: _write_standard,
    "before 1": lambda part: {
        "type": part.kind,
        "source_type": "url" if part.url else "base64",
        **_write_typed_source(part, "data"),
    },
    "file": lambda part: {
        "type": "file",
        "file": without_empty(
            {"file_data": _url_of(part), "filename": getattr(part, "name", "")}
        ),
    },
    "image_url": lambda part: {
        "type": "image_url",
        "image_url": without_empty(
            {"url": _url_of(part), "detail": getattr(part, "detail", "")}
        ),
    },
    "image_url text": lambda part: {"type": "image_url", "image_url": _url_of(part)},
    "input_audio": lambda part: {
        "type": "input_audio",
        "input_audio": {
            "data": _encode_data(part),
            "format": part.media_type.removeprefix("audio/"),
        },
    },
    "source": _write_source,
}


# *part* as a block of *shape*; of the standard shape if *shape* is unknown.
def write_media(part: MediaPart, shape: str) -> dict[str, Any]:
    writer = _WRITERS.get(shape, _WRITERS[STANDARD])
    return writer(part)
