"""
Images, audio, video and files: the many shapes of their blocks.

LangChain's own (of version 1, and those before) and those of providers, which
LangChain hands through. A shape is a name for how a block looked, so that it
is written like that again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from conversation_state.adapters._extras import data_url, decoded, from_data_url
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    VideoPart,
)

__all__ = ["OWN", "Shape", "media_shape", "write_media"]

_KINDS: Mapping[str, type[MediaPart]] = {
    "audio": AudioPart,
    "file": FilePart,
    "image": ImagePart,
    "video": VideoPart,
}

# The shape of what comes from elsewhere: LangChain's own standard.
OWN = "standard"

# What the standard keeps in `extras`, and what we call it.
_EXTRAS = {"file": ("filename", "name"), "image": ("detail", "detail")}


class Shape(NamedTuple):
    """
    What a block says: the kind of part, its fields, and how it was said.
    """

    kind: type[Part]
    fields: dict[str, Any]
    shape: str


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _map(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _content(raw: Mapping[str, Any], url: str, data: str) -> dict[str, Any] | None:
    """
    Where the content is, or the content itself; None if there is neither.
    """
    if _text(raw, url):
        return {"url": raw[url]}

    octets = decoded(_text(raw, data))
    return {"data": octets} if octets else None


def _with(fields: dict[str, Any] | None, **more: str) -> dict[str, Any] | None:
    if fields is None:
        return None

    return {**fields, **{name: text for name, text in more.items() if text}}


def _of_url(url: str) -> dict[str, Any] | None:
    inline = from_data_url(url)
    if inline is not None:
        return {"data": inline[0], "media_type": inline[1]}

    return {"url": url} if url else None


def media_shape(block: Mapping[str, Any]) -> Shape | None:
    """
    What *block* shows; None if it shows nothing that we can look at: a file
    that only its provider has, say.
    """
    kind = block.get("type")
    found: dict[str, Any] | None = None
    shape, of = OWN, kind
    if kind == "image_url":
        of, shape, found = _image_url(block)
    elif kind == "input_audio":
        of, shape = "audio", "input_audio"
        found = _sound(_map(block, "input_audio"))
    elif kind in ("image", "document") and "source" in block:
        of, shape = "image" if kind == "image" else "file", "source"
        source = _map(block, "source")
        found = _with(
            _content(source, "url", "data"), media_type=_text(source, "media_type")
        )
    elif kind in _KINDS and "source_type" in block:
        shape = "before 1"
        found = _with(
            _content(block, "url", "data"), media_type=_text(block, "mime_type")
        )
    elif kind == "file" and "file" in block:
        shape, file = "file", _map(block, "file")
        found = _with(_of_url(_text(file, "file_data")), name=_text(file, "filename"))
    elif kind in _KINDS:
        found = _standard(block, str(kind))

    return None if found is None else Shape(_KINDS[str(of)], found, shape)


def _image_url(block: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    if _text(block, "image_url"):
        return "image", "image_url text", _of_url(block["image_url"])

    inside = _map(block, "image_url")
    found = _with(_of_url(_text(inside, "url")), detail=_text(inside, "detail"))
    return "image", "image_url", found


def _sound(inside: Mapping[str, Any]) -> dict[str, Any] | None:
    octets, kind = decoded(_text(inside, "data")), _text(inside, "format")
    return {"data": octets, "media_type": f"audio/{kind}"} if octets and kind else None


def _standard(block: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    found = _with(
        _content(block, "url", "base64"), media_type=_text(block, "mime_type")
    )
    if kind in _EXTRAS:
        theirs, ours = _EXTRAS[kind]
        found = _with(found, **{ours: _text(_map(block, "extras"), theirs)})

    return found


def _encoded(part: MediaPart) -> str:
    return base64.b64encode(part.data or b"").decode()


def _write_standard(part: MediaPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": part.kind}
    if part.url is not None:
        block["url"] = part.url
    else:
        block["base64"] = _encoded(part)

    if part.media_type:
        block["mime_type"] = part.media_type

    if part.kind in _EXTRAS:
        theirs, ours = _EXTRAS[part.kind]
        word = getattr(part, ours)
        if word:
            block["extras"] = {theirs: word}

    return block


def _write_before(part: MediaPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": part.kind, "source_type": "url"}
    if part.url is not None:
        block["url"] = part.url
    else:
        block |= {"source_type": "base64", "data": _encoded(part)}

    if part.media_type:
        block["mime_type"] = part.media_type

    return block


def _write_source(part: MediaPart) -> dict[str, Any]:
    source: dict[str, Any] = {"type": "url", "url": part.url}
    if part.url is None:
        source = {"type": "base64", "data": _encoded(part)}
        if part.media_type:
            source["media_type"] = part.media_type

    return {"type": "image" if part.kind == "image" else "document", "source": source}


def _url(part: MediaPart) -> str:
    return part.url or data_url(part.data or b"", part.media_type)


def _write_image_url(part: MediaPart) -> dict[str, Any]:
    inside = {"url": _url(part)}
    if getattr(part, "detail", ""):
        inside["detail"] = getattr(part, "detail", "")

    return {"type": "image_url", "image_url": inside}


def _write_sound(part: MediaPart) -> dict[str, Any]:
    kind = part.media_type.removeprefix("audio/")
    return {
        "type": "input_audio",
        "input_audio": {"data": _encoded(part), "format": kind},
    }


def _write_file(part: MediaPart) -> dict[str, Any]:
    inside = {"file_data": _url(part)}
    if getattr(part, "name", ""):
        inside["filename"] = getattr(part, "name", "")

    return {"type": "file", "file": inside}


_WRITERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    OWN: _write_standard,
    "before 1": _write_before,
    "file": _write_file,
    "image_url": _write_image_url,
    "image_url text": lambda part: {"type": "image_url", "image_url": _url(part)},
    "input_audio": _write_sound,
    "source": _write_source,
}


def write_media(part: MediaPart, shape: str) -> dict[str, Any]:
    """
    *part* as a block of this *shape*; of the standard one if that is none.
    """
    write = _WRITERS.get(shape, _WRITERS[OWN])
    return write(part)
