"""
Notes: what a format has and our model has no field for, kept in metadata.

All notes of all formats are under one reserved key, ``conversation_state``, by
the name of the format: ``{"conversation_state": {"gemini": {...}}}``. Every
other key of metadata is the caller's, and no adapter reads it. A note is of a
message, part or call:

keys
    Keys of the original whose values no field of ours holds: a provider's own
    ones, and known ones that are null or empty. They are written back to this
    provider, unless a field of the message has a value for them by now.

without
    Keys that were missing where the adapter would write them.

made_id
    The id that was made up for a call, or for its result, that had none. It is sent
    with both, in formats that need it; else, as in Gemini's, with neither.

mended
    The paths of texts that had half of a surrogate pair. UTF-8 can't encode it, so
    U+FFFD stands there now, and the adapter lists it as lost.

response
    What a response has that `ResponseMeta` has no field for. Never sent.

anything else
    How the original differed from what the adapter would write, which no other
    provider needs. Each adapter documents its own notes. A note on content that was
    changed since has no effect.

Metadata is part of a message and travels with it, so a note is as trusted as
the message: who can write it can write any key of that message, part or call
in a request, and nothing outside of them. A note of the wrong type is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw

# The marks of a view (see `trimming`) are under this key too, by other names.
RESERVED = "conversation_state"

# All formats, by their names: each is a module beside the engine.
FORMATS = tuple(
    sorted(
        {module.name for module in iter_modules([str(Path(__file__).parents[1])])}
        - {"engine"}
    )
)


@attrs.frozen
class Format:
    """
    What the module of a format says of itself, as its ``FORMAT``.

    Attributes:
        name: That of the module, under which its notes are.
        kept: The names of its notes that hold keys of the provider's own: ``keys``, and
            those of the item or message around a part, if there are more. They are
            listed as lost in other formats. What is in any other note is not.
        is_both_ways: Whether it is both read and written, as plain JSON.
    """

    name: str
    kept: tuple[str, ...] = ("keys",)
    is_both_ways: bool = True


@cache
def find_format(name: str) -> Format:
    """The format of this *name*, one of `FORMATS`; imports its module."""
    made: Format = import_module(f"conversation_state.adapters.{name}").FORMAT
    return made


def with_notes(
    source: str, notes: Mapping[str, Any], metadata: Mapping[str, Any] = EMPTY_MAP
) -> Mapping[str, Any]:
    """*metadata* with the *notes* of the format *source*, if there are any."""
    if not notes:
        return metadata

    return {**metadata, RESERVED: {**map_of(metadata, RESERVED), source: notes}}


def without_empty(notes: Mapping[str, Any]) -> dict[str, Any]:
    """*notes* without those that are empty, which no format keeps."""
    return {name: note for name, note in notes.items() if note}


def notes_of(metadata: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """The notes of the format *source* in *metadata*; often none."""
    if metadata is EMPTY_MAP:
        return EMPTY_MAP

    return map_of(map_of(metadata, RESERVED), source)


def formats_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The formats with notes in *metadata*, in alphabetical order."""
    kept = map_of(metadata, RESERVED)
    return () if kept is EMPTY_MAP else tuple(name for name in FORMATS if name in kept)


def other_keys_of(
    metadata: Mapping[str, Any], source: str
) -> Iterator[tuple[str, str, Any]]:
    """
    What formats other than *source* keep for themselves in *metadata*: the
    format, the key and its value.
    """
    kept = map_of(metadata, RESERVED)
    # Most metadata has notes of *source* alone; this saves a lookup for each other
    # format.
    if kept is EMPTY_MAP or (len(kept) == 1 and source in kept):
        return

    for other in FORMATS:
        if other != source and other in kept:
            notes = map_of(kept, other)
            for name in find_format(other).kept:
                keys = map_of(notes, name)
                for key in sorted(keys):
                    # Every item of a message has this type, so nothing is lost
                    # without it.
                    if key != "type" or keys[key] != "message":
                        yield other, key, keys[key]


def own_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """
    *metadata* without notes, as plain JSON: the caller's keys, and marks of views.
    """
    if metadata is EMPTY_MAP:
        return {}

    own = {name: thaw(metadata[name]) for name in sorted(metadata)}
    kept = own.get(RESERVED)
    if isinstance(kept, dict):
        marks = {name: kept[name] for name in kept if name not in FORMATS}
        own.pop(RESERVED)
        # No format keeps an empty map, so an empty one is the caller's.
        if marks or not kept:
            own[RESERVED] = marks

    return own


def has_own(metadata: Mapping[str, Any]) -> bool:
    """Whether there is more in *metadata* than notes."""
    if metadata is EMPTY_MAP:
        return False

    kept = metadata.get(RESERVED)
    if len(metadata) > 1 or not isinstance(kept, Mapping):
        return True

    return any(name not in FORMATS for name in kept)


def map_of(notes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The map that *notes* have under *name*; empty if missing or invalid."""
    found = notes.get(name)
    return found if isinstance(found, Mapping) else EMPTY_MAP


def list_of(notes: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """The list that *notes* have under *name*; empty if missing or invalid."""
    found = notes.get(name)
    return found if isinstance(found, tuple) else ()


def signer_of(metadata: Mapping[str, Any], source: str) -> str:
    """
    The format whose provider signed the part with this *metadata*; "" if that is
    *source*, or if the part has no notes, because a user made it.
    """
    formats = formats_of(metadata)
    return "" if source in formats or not formats else formats[0]


def write_extra(
    metadata: Mapping[str, Any], notes: Mapping[str, Any], key: str
) -> dict[str, Any]:
    """*metadata* as the map that stands under *key*, in sorted order."""
    extra = own_of(metadata)
    theirs = thaw(map_of(notes, key))
    marks = extra.get(RESERVED)
    # The reserved key may have two values, which are merged: the one that was there
    # when the map was loaded, and the marks of a view that was made since.
    if isinstance(marks, dict) and isinstance(theirs.get(RESERVED), dict):
        theirs[RESERVED] |= marks

    extra.update(theirs)
    return {name: extra[name] for name in sorted(extra)}
