"""
Media in base64, inside of what is kept verbatim: found by their form, because the
format that they are in is unknown here.

A provider counts an image that its own tool made as an image. As JSON text it would be
a hundred times as many tokens.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from conversation_state.parts import sniff_media_type

# Shorter texts are no media, unless something next to them says so.
_LONG = 512
_BASE64 = re.compile(r"[A-Za-z0-9+/_\r\n-]+={0,2}\s*")
# Keys of media types next to the data. Names of formats (``"format": "wav"``) stand
# below keys that say what the data are.
_TYPE_KEYS = ("media_type", "mimeType", "mime_type", "mediaType", "content_type")
# What is sent as text, and what is encrypted, is no media, however long it is.
_TEXT_KEYS = frozenset(
    {"arguments", "code", "partial_json", "query", "refusal", "text", "thinking"}
)
_SEALED = re.compile("encrypted|signature|redacted", re.IGNORECASE)
_KINDS = {
    "audio": "audio",
    "image": "image",
    "picture": "image",
    "screenshot": "image",
    "video": "video",
}


class EncodedMedia(NamedTuple):
    """
    Bytes in base64 that a verbatim value holds.

    Attributes:
        kind: ``image``, ``audio``, ``video`` or ``file``.
        size: The number of bytes.
        media_type: "" if unknown.
        detail: That of an image, "" if it has none.
    """

    kind: str
    size: int
    media_type: str
    detail: str


def extract_media(raw: Any) -> tuple[Any, list[EncodedMedia]]:
    """
    *raw*, plain JSON, with "" in place of media in base64; and these.

    Media are ``data:`` URLs, base64 next to a media type, and long base64 under any
    key but those of texts and of what is encrypted.
    """
    found: list[EncodedMedia] = []
    return _strip_media(raw, "", {}, "", found), found


def _strip_media(
    value: Any, key: str, holder: Mapping[str, Any], hints: str, found: list[Any]
) -> Any:
    if isinstance(value, str):
        media = _read_media(value, key, holder, hints)
        if media is None:
            return value

        found.append(media)
        return ""

    if isinstance(value, Mapping):
        kind = value.get("type")
        inside = f"{hints} {kind} {key}" if isinstance(kind, str) else f"{hints} {key}"
        return {
            name: _strip_media(value[name], name, value, inside, found)
            for name in value
        }

    if isinstance(value, (list, tuple)):
        return [_strip_media(item, key, holder, hints, found) for item in value]

    return value


def _read_media(
    text: str, key: str, holder: Mapping[str, Any], hints: str
) -> EncodedMedia | None:
    if key in _TEXT_KEYS or _SEALED.search(f"{hints} {key}"):
        return None

    media_type, body = _declared_type(holder), text
    if text.startswith("data:"):
        head, comma, body = text.partition(",")
        if not comma or not head.endswith(";base64"):
            return None

        media_type = head[5:].partition(";")[0] or media_type
    elif len(text) < (2 if media_type and key == "data" else _LONG):
        return None

    if not _BASE64.fullmatch(body):
        return None

    media_type = media_type or sniff_base64(body)
    detail = holder.get("detail")
    size = len(body.rstrip("=\r\n")) * 3 // 4
    kind = media_type.partition("/")[0]
    if kind not in {"audio", "image", "video"}:
        kind = "file" if media_type else _guess_kind(f"{hints} {key}")

    return EncodedMedia(
        kind, size, media_type, detail if isinstance(detail, str) else ""
    )


def _declared_type(holder: Mapping[str, Any]) -> str:
    for key in _TYPE_KEYS:
        value = holder.get(key)
        if isinstance(value, str) and "/" in value:
            return value.lower()

    return ""


def _guess_kind(hints: str) -> str:
    return next((_KINDS[word] for word in _KINDS if word in hints), "file")


def sniff_base64(text: str) -> str:
    """The media type of what *text* begins with, in base64; "" if unknown."""
    head = text[:24].translate({45: "+", 95: "/"})
    # Not all that has the alphabet of base64 is base64.
    try:
        return sniff_media_type(base64.b64decode(head[: len(head) // 4 * 4]))
    except ValueError:
        return ""
