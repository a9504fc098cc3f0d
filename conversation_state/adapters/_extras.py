"""
What the formats of other libraries share: they keep whole messages, and have
a place for metadata, as we do.

The map that another library keeps with a message (``extra``, ``meta``) becomes
our metadata and is written from it; only the notes of adapters are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters._notes import RESERVED, map_of, own_of
from conversation_state.adapters._reading import ObjectReader, is_map
from conversation_state.parts import Part

__all__ = [
    "is_plain",
    "note_mended",
    "ordered",
    "read_extra",
    "with_own",
    "write_extra",
]


def read_extra(node: ObjectReader, key: str) -> dict[str, Any]:
    """
    The map under *key*, as metadata of ours.

    A value under the reserved key would be read as notes of adapters, so it is
    kept in a note named *key*; marks of views stay in the metadata. An empty map
    is kept among the keys of *node*.
    """
    given = node.raw.get(key)
    if given is None:
        return {}

    if not is_map(given):
        node.wrong(key, "an object or null")
        return {}

    if not given:
        node.keys[key] = {}
        return {}

    extra: dict[str, Any] = node.reading.json(given, f"{node.path}.{key}")
    if RESERVED in extra:
        theirs = extra.pop(RESERVED)
        marks = own_of({RESERVED: theirs}).get(RESERVED) if is_map(theirs) else None
        if marks:
            extra[RESERVED] = marks
            theirs = {name: theirs[name] for name in theirs if name not in marks}

        if theirs or not marks:
            node.notes[key] = {RESERVED: theirs}

    return extra


def with_own(
    own: Mapping[str, Any], node: ObjectReader, source: str
) -> Mapping[str, Any]:
    """
    The caller's *own* metadata, with the notes of the format *source* on *node*.
    """
    kept = node.metadata(source)
    if not own or not kept:
        return own or kept

    notes = {**own.get(RESERVED, {}), **kept[RESERVED]}
    return {**own, RESERVED: notes}


def write_extra(
    metadata: Mapping[str, Any], notes: Mapping[str, Any], key: str
) -> dict[str, Any]:
    """
    *metadata* as the map that stands under *key*, in sorted order.
    """
    extra = own_of(metadata)
    theirs = thaw(map_of(notes, key))
    marks = extra.get(RESERVED)
    # The reserved key may have two values, which are merged: the one that was there
    # when the map was loaded, and the marks of a view that was made since.
    if isinstance(marks, dict) and isinstance(theirs.get(RESERVED), dict):
        theirs[RESERVED] |= marks

    extra.update(theirs)
    return {name: extra[name] for name in sorted(extra)}


def note_mended(node: ObjectReader, before: int, within: str = "") -> None:
    """
    Note which texts were mended since there were *before* of them: their paths
    relative to the path *within*, or to that of *node*.
    """
    mended = node.reading.mended[before:]
    if mended:
        # The slice also removes the dot behind the path. A path may be listed twice:
        # an object that can't become a message is read again to keep it whole.
        start = len(within or node.path) + 1
        node.notes["mended"] = [path[start:] for path in dict.fromkeys(mended)]


def ordered(raw: dict[str, Any], order: Iterable[str]) -> dict[str, Any]:
    """
    *raw* with its keys in this *order*, and others behind them.
    """
    known = {key: raw[key] for key in order if key in raw}
    return {**known, **raw}


def is_plain(part: Part) -> bool:
    """
    Whether *part* has neither metadata of the caller's nor unknown fields.
    """
    return not own_of(part.metadata) and not part.unknown
