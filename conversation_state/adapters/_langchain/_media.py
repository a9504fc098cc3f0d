"""
Images, audio, video and files: the many shapes of their blocks.

LangChain's own (of version 1, and older ones) and those of providers, which
LangChain passes on. The name of a shape is noted, so that the block is written
the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from conversation_state.adapters._wire import (
    data_url,
    decode_base64,
    parse_data_url,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    VideoPart,
)

__all__ = ["STANDARD", "BlockShape", "media_shape", "write_media"]

_KINDS: Mapping[str, type[MediaPart]] = {
    "audio": AudioPart,
    "file": FilePart,
    "image": ImagePart,
    "video": VideoPart,
}

# LangChain's own standard, also the shape of parts that were not loaded from it.
STANDARD = "standard"

# The key in the standard's `extras`, and our field for it.
_EXTRAS = {"file": ("filename", "name"), "image": ("detail", "detail")}


class BlockShape(NamedTuple):
    """
    The content of a block: the kind of part, its fields, and the name of the
    shape.
    """

    kind: type[Part]
    fields: dict[str, Any]
    shape: str


def _get_text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _get_map(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _read_source(raw: Mapping[str, Any], url: str, data: str) -> dict[str, Any] | None:
    """
    The URL, or the data; None if there is neither.
    """
    if _get_text(raw, url):
        return {"url": raw[url]}

    octets = decode_base64(_get_text(raw, data), padded=True)
    return {"data": octets} if octets else None


def _add_fields(fields: dict[str, Any] | None, **more: str) -> dict[str, Any] | None:
    if fields is None:
        return None

    return {**fields, **{name: text for name, text in more.items() if text}}


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
        found = _read_audio(_get_map(block, "input_audio"))
    elif kind in ("image", "document") and "source" in block:
        of, shape = "image" if kind == "image" else "file", "source"
        source = _get_map(block, "source")
        found = _add_fields(
            _read_source(source, "url", "data"),
            media_type=_get_text(source, "media_type"),
        )
    elif kind in _KINDS and "source_type" in block:
        shape = "before 1"
        found = _add_fields(
            _read_source(block, "url", "data"), media_type=_get_text(block, "mime_type")
        )
    elif kind == "file" and "file" in block:
        shape, file = "file", _get_map(block, "file")
        found = _add_fields(
            _read_url(_get_text(file, "file_data")), name=_get_text(file, "filename")
        )
    elif kind in _KINDS:
        found = _read_standard(block, str(kind))

    return None if found is None else BlockShape(_KINDS[str(of)], found, shape)


def _read_image_url(block: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    if _get_text(block, "image_url"):
        return "image", "image_url text", _read_url(block["image_url"])

    inside = _get_map(block, "image_url")
    found = _add_fields(
        _read_url(_get_text(inside, "url")), detail=_get_text(inside, "detail")
    )
    return "image", "image_url", found


def _read_audio(inside: Mapping[str, Any]) -> dict[str, Any] | None:
    octets, kind = (
        decode_base64(_get_text(inside, "data"), padded=True),
        _get_text(inside, "format"),
    )
    return {"data": octets, "media_type": f"audio/{kind}"} if octets and kind else None


def _read_standard(block: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    found = _add_fields(
        _read_source(block, "url", "base64"), media_type=_get_text(block, "mime_type")
    )
    if kind in _EXTRAS:
        theirs, ours = _EXTRAS[kind]
        found = _add_fields(
            found, **{ours: _get_text(_get_map(block, "extras"), theirs)}
        )

    return found


def _encode_data(part: MediaPart) -> str:
    return base64.b64encode(part.data or b"").decode()


def _write_standard(part: MediaPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": part.kind}
    if part.url is not None:
        block["url"] = part.url
    else:
        block["base64"] = _encode_data(part)

    if part.media_type:
        block["mime_type"] = part.media_type

    if part.kind in _EXTRAS:
        theirs, ours = _EXTRAS[part.kind]
        value = getattr(part, ours)
        if value:
            block["extras"] = {theirs: value}

    return block


def _write_version_0(part: MediaPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": part.kind, "source_type": "url"}
    if part.url is not None:
        block["url"] = part.url
    else:
        block |= {"source_type": "base64", "data": _encode_data(part)}

    if part.media_type:
        block["mime_type"] = part.media_type

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


def _write_image_url(part: MediaPart) -> dict[str, Any]:
    inside = {"url": _url_of(part)}
    if getattr(part, "detail", ""):
        inside["detail"] = getattr(part, "detail", "")

    return {"type": "image_url", "image_url": inside}


def _write_audio(part: MediaPart) -> dict[str, Any]:
    kind = part.media_type.removeprefix("audio/")
    return {
        "type": "input_audio",
        "input_audio": {"data": _encode_data(part), "format": kind},
    }


def _write_file(part: MediaPart) -> dict[str, Any]:
    inside = {"file_data": _url_of(part)}
    if getattr(part, "name", ""):
        inside["filename"] = getattr(part, "name", "")

    return {"type": "file", "file": inside}


_WRITERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    STANDARD: _write_standard,
    "before 1": _write_version_0,
    "file": _write_file,
    "image_url": _write_image_url,
    "image_url text": lambda part: {"type": "image_url", "image_url": _url_of(part)},
    "input_audio": _write_audio,
    "source": _write_source,
}


def write_media(part: MediaPart, shape: str) -> dict[str, Any]:
    """
    *part* as a block of *shape*; of the standard one if that is unknown.
    """
    write = _WRITERS.get(shape, _WRITERS[STANDARD])
    return write(part)
