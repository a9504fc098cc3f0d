"""
What is inside of parts: texts, media and values, from Pydantic AI's words to
ours.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.adapters._extras import read_extra
from conversation_state.adapters._reading import (
    Place,
    Reading,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.pydantic_ai._words import (
    MEDIA,
    SOURCE,
    as_json,
    is_default,
    kind_of,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    TextPart,
    UnknownPart,
    VideoPart,
)

__all__ = [
    "as_base64",
    "json_text",
    "keep",
    "media_part",
    "read_answer",
    "read_content",
    "read_own",
    "text_of",
    "whole",
]

_KINDS: Mapping[str, type[MediaPart]] = {
    "audio": AudioPart,
    "file": FilePart,
    "image": ImagePart,
    "video": VideoPart,
}
_URL = frozenset({"kind", "media_type", "url"})
_BYTES = frozenset({"data", "kind", "media_type"})
_TEXT = frozenset({"content", "kind"})


def keep(place: Place, known: frozenset[str], *, whole: bool = False) -> None:
    """
    Keep all but the *known* keys, and those that may be left out unless
    *whole* says that they may not.

    What is too large or too deep to be kept as it is, is kept as JSON text.
    """
    texts: dict[str, str] = {}
    for key, value in place.raw.items():
        if not isinstance(key, str):
            place.keep(known)
            return

        if key in known or (is_default(key, value) and not whole):
            continue

        read = Reading()
        kept = read.json(value, f"{place.path}.{key}")
        text = as_json(value) if read.problems else None
        if text is not None:
            texts[key] = mended(text)
        elif read.problems:
            place.reading.json(value, f"{place.path}.{key}")
        else:
            place.keys[key] = kept
            place.reading.mended += read.mended

    if texts:
        place.notes["texts"] = texts


def whole(place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    All that *place* is, verbatim, and the metadata that goes with it.
    """
    read = Reading()
    read.json(place.raw, place.path)
    text = as_json(place.raw) if read.problems else None
    if text is not None:
        kind = mended(kind_of(place.raw) or kind_of(place.raw, "kind"))
        return {"part_kind": kind}, {SOURCE: {"whole": mended(text)}}

    kept: dict[str, Any] = place.reading.json(place.raw, place.path)
    return kept, {}


def read_own(place: Place) -> tuple[dict[str, Any], bool]:
    """
    The map under ``metadata`` as metadata of ours; and whether it is that.
    """
    read = Reading()
    read.json(place.raw.get("metadata"), place.path)
    is_ours = not read.problems and is_map(place.raw.get("metadata"))
    return (read_extra(place, "metadata"), True) if is_ours else ({}, False)


def read_content(place: Place, content: Any) -> str | list[Part]:
    """
    What a user says: a text, or parts.
    """
    if isinstance(content, str):
        return place.text("content")

    found: list[Part] = []
    for at, item in enumerate(content):
        path = f"{place.path}.content[{at}]"
        if isinstance(item, str):
            found.append(TextPart(place.reading.json(item, path)))
        elif is_map(item):
            found.append(_item(Place(place.reading, item, path)))
        else:
            place.reading.wrong(path, item, "a text or an object")

    return found


def _item(place: Place) -> Part:
    kind, content = kind_of(place.raw, "kind"), place.raw.get("content")
    if kind in {"text-content", "structured-content"} and isinstance(content, str):
        keep(place, _TEXT)
        # Else it would be written as the bare text that it does not come from.
        place.keys["kind"] = kind
        return TextPart(place.text("content"), metadata=place.metadata(SOURCE))

    part = media_part(place)
    if part is None:
        raw, noted = whole(place)
        return UnknownPart(raw, source=SOURCE, metadata=noted)

    return part


def media_part(
    place: Place, *, whole: bool = False, index: int | None = None
) -> MediaPart | None:
    """
    The media that *place* shows; None if it shows none that we can. *whole*
    keeps what could be left out, too.
    """
    raw = place.raw
    fields: dict[str, Any] = {"index": index}
    kind, media_type = kind_of(raw, "kind"), raw.get("media_type")
    if isinstance(media_type, str):
        fields["media_type"] = place.text("media_type")
    elif media_type is not None:
        return None

    url, data = raw.get("url"), raw.get("data")
    if kind in MEDIA and isinstance(url, str) and url:
        own = MEDIA[kind]
        known = _URL
        fields["url"] = place.text("url")
    elif kind == "binary" and isinstance(data, str) and isinstance(media_type, str):
        family = media_type.partition("/")[0]
        own = family if family in _KINDS else "file"
        known = _BYTES
        found = _from_base64(data)
        if not found or as_base64(found) != data:
            return None

        fields["data"] = found
    else:
        return None

    vendor = raw.get("vendor_metadata")
    if own == "image" and is_map(vendor) and [*vendor] == ["detail"]:
        detail = vendor["detail"]
        if isinstance(detail, str) and detail:
            fields["detail"] = place.reading.json(detail, f"{place.path}.detail")
            known |= {"vendor_metadata"}

    if media_type is None:
        known -= {"media_type"}

    keep(place, known, whole=whole)
    return _KINDS[own](metadata=place.metadata(SOURCE), **fields)


def as_base64(data: bytes) -> str:
    """
    *data* as Pydantic writes bytes.
    """
    return base64.urlsafe_b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def text_of(place: Place, key: str) -> str:
    """
    What is under *key* as text, of which a note says that it was none.
    """
    value = place.raw.get(key)
    if isinstance(value, str):
        return place.text(key)

    place.notes["value"] = True
    return (
        "" if value is None else json_text(place.reading, value, f"{place.path}.{key}")
    )


def json_text(reading: Reading, value: Any, path: str) -> str:
    """
    *value*, at *path*, as JSON text, mended.
    """
    text = as_json(value)
    if text is None:
        count = reading.count
        reading.json(value, path)
        if reading.count == count:
            reading.problem(path, "is no JSON")

        return ""

    found: str = reading.json(text, path)
    return found


def read_answer(place: Place) -> str | list[Part]:
    """
    What a tool gave: a text, the JSON text of a value, or parts if it has
    media.
    """
    content = place.raw.get("content")
    items: Sequence[Any] = content if is_list(content) else [content]
    if not any(is_map(item) and kind_of(item, "kind") in _MEDIA for item in items):
        return text_of(place, "content")

    found: list[Part] = []
    for at, item in enumerate(items):
        path = f"{place.path}.content[{at}]"
        part: Part | None = None
        if isinstance(item, str):
            part = TextPart(place.reading.json(item, path))
        elif is_map(item) and kind_of(item, "kind") in _MEDIA:
            # Pydantic AI knows files in what tools gave by digests of all keys.
            part = media_part(Place(place.reading, item, path), whole=True)

        if part is None:
            text = json_text(place.reading, item, path)
            part = TextPart(text, metadata={SOURCE: {"value": True}})

        found.append(part)

    place.notes["files"] = "several" if is_list(content) else "one"
    return found


_MEDIA = frozenset({"binary", *MEDIA})
