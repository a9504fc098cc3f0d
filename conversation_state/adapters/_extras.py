"""
What the formats of other libraries share: they keep whole messages, and have
a place for metadata, as we do.

Metadata of ours and the map that another library keeps with a message
(``extra``, ``meta``) are the same thing, but for the notes of adapters among
them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters._export import (
    PROVIDERS,
    Writing,
    map_of,
)
from conversation_state.adapters._reading import Place, is_map
from conversation_state.parts import Part

__all__ = [
    "data_url",
    "decoded",
    "from_data_url",
    "is_plain",
    "lose_each",
    "note_mended",
    "ordered",
    "own_of",
    "read_extra",
    "with_own",
    "write_extra",
]

_NOTES = frozenset(PROVIDERS)


def own_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """
    What the caller put into *metadata*: all but the notes of adapters.
    """
    if metadata is EMPTY_MAP:
        return {}

    return {
        name: thaw(metadata[name]) for name in sorted(metadata) if name not in _NOTES
    }


def read_extra(place: Place, key: str) -> dict[str, Any]:
    """
    The map under *key*, as metadata of ours.

    What has the name of an adapter would be taken for its notes, and is kept
    in a note itself, under *key*; so is a map that is empty.
    """
    given = place.raw.get(key)
    if not given:
        if is_map(given):
            place.keys[key] = {}
        elif key in place.raw and given is not None:
            place.wrong(key, "an object")

        return {}

    if not is_map(given):
        place.wrong(key, "an object or null")
        return {}

    extra: dict[str, Any] = place.reading.json(given, f"{place.path}.{key}")
    clashing = {name: extra.pop(name) for name in sorted(_NOTES & extra.keys())}
    if clashing:
        place.notes[key] = clashing

    return extra


def with_own(own: Mapping[str, Any], place: Place, source: str) -> Any:
    """
    Metadata of the caller's *own* and of what was noted about *place*.
    """
    # Any: what takes metadata takes any mapping, and says it is a PMap.
    noted = place.metadata(source)
    return {**own, **noted} if own else noted


def write_extra(
    metadata: Mapping[str, Any], notes: Mapping[str, Any], key: str
) -> dict[str, Any]:
    """
    *metadata* as the map that stands under *key*, in sorted order.
    """
    extra = own_of(metadata)
    kept = map_of(notes, key)
    if not kept:
        return extra

    extra.update(thaw(kept))
    return {name: extra[name] for name in sorted(extra)}


def note_mended(place: Place, before: int) -> None:
    """
    Note which texts at *place* were mended, beside the first *before* ones.
    """
    where = dict.fromkeys(place.reading.mended[before:])
    if where:
        # A message that is the whole document has nothing before the dot.
        place.notes["mended"] = [each[len(place.path) + 1 :] for each in where]


def lose_each(write: Writing, path: str, fields: Mapping[str, bool], why: str) -> None:
    """
    List those of *fields* that say something, as what can't be said.
    """
    for name, says in fields.items():
        if says:
            write.lose(path, name, why)


def ordered(raw: dict[str, Any], order: Iterable[str]) -> dict[str, Any]:
    """
    *raw* with its keys in this *order*, and others behind them.
    """
    known = {key: raw[key] for key in order if key in raw}
    return {**known, **raw}


def is_plain(part: Part) -> bool:
    """
    Whether there is nothing beside what *part* says.
    """
    return not own_of(part.metadata) and not part.unknown


def decoded(text: str) -> bytes:
    """
    What *text*, in base64, is; b"" if it is none.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def data_url(data: bytes, media_type: str) -> str:
    """
    *data* as a url that holds it.

    >>> data_url(b"hi", "text/plain")
    'data:text/plain;base64,aGk='
    """
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def from_data_url(url: str) -> tuple[bytes, str] | None:
    """
    The content and the media type in *url*; None if it holds none, or none
    that `data_url` would write like that.

    >>> from_data_url("data:text/plain;base64,aGk=")
    (b'hi', 'text/plain')
    """
    head, comma, body = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return None

    data, media_type = decoded(body), head[5:-7]
    return (data, media_type) if data and data_url(data, media_type) == url else None
