"""
Pydantic AI's constants, the notes on what our model has no field for, times, and the
import of the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from conversation_state.adapters.engine.export import PayloadWriter, merge_kept_keys
from conversation_state.adapters.engine.notes import map_of, own_of
from conversation_state.adapters.engine.reading import DocumentReader, ObjectReader
from conversation_state.errors import MissingExtraError
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

SOURCE = "pydantic_ai"
INTERRUPTED = "interrupted"

_MINUTE = timedelta(minutes=1)

# Parts must have a time; this one stands for an unknown time.
UNKNOWN_TIME = "1970-01-01T00:00:00Z"

# Defaults of keys that may be left out. Null is the default of every key that
# may be null.
_DEFAULTS: Mapping[str, Any] = {
    "audio_seconds": 0.0,
    "citations": None,
    "details": {},
    "force_download": False,
    "outcome": "success",
    "scope": "conversation",
    "state": "complete",
}

URLS = {
    "audio": "audio-url",
    "file": "document-url",
    "image": "image-url",
    "video": "video-url",
}
MEDIA = {kind: url for url, kind in URLS.items()}

# Outcomes of a tool call other than success.
ERRORS = frozenset({"denied", "failed", "interrupted", "retried"})


@cache
def messages_adapter() -> Any:
    """
    Pydantic's adapter that validates and dumps Pydantic AI's messages.

    Raises:
        MissingExtraError: If Pydantic AI is not installed.
    """
    try:
        from pydantic_ai.messages import (  # noqa: PLC0415 - an extra
            ModelMessagesTypeAdapter,
        )
    except ImportError as error:
        what = "messages of Pydantic AI"
        raise MissingExtraError(what, "pydantic-ai") from error

    return ModelMessagesTypeAdapter


def kind_of(raw: Mapping[str, Any], key: str = "part_kind") -> str:
    kind = raw.get(key)
    return kind if isinstance(kind, str) else ""


def is_default(key: str, value: Any) -> bool:
    if value is None:
        return True

    default = _DEFAULTS.get(key)
    return default is not None and default == value and type(default) is type(value)


# Note all keys except the *known* ones, and except defaults unless *whole*.
def keep_keys(
    node: ObjectReader, known: frozenset[str], *, whole: bool = False
) -> None:
    kept = {
        key: value
        for key, value in node.raw.items()
        if key not in known and (whole or not is_default(key, value))
    }
    if kept:
        node.keys |= node.reading.rest(kept, frozenset(), node.path)


def _to_json_text(value: Any) -> str | None:
    """*value* as JSON text, of any size and depth; None if it is not JSON."""
    try:
        text = json.dumps(
            value, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )
        same: bool = json.loads(text) == value
    except (RecursionError, TypeError, ValueError):
        return None

    # JSON changes keys that are not texts to texts, so the text would restore another
    # value.
    return text if same else None


def restore_keys(
    raw: dict[str, Any], notes: Mapping[str, Any], name: str = "keys"
) -> dict[str, Any]:
    return merge_kept_keys(map_of(notes, name), raw)


# *text*, or its value as JSON, if a note says that it was a value.
def restore_value(text: str, notes: Mapping[str, Any]) -> Any:
    if notes.get("value") is not True:
        return text

    # A caller may have changed the text, so it may not be JSON.
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


# The value under *key* as text; a note says if it was not a text.
def read_text(node: ObjectReader, key: str) -> str:
    value = node.raw.get(key)
    if isinstance(value, str):
        return node.text(key)

    node.notes["value"] = True
    return (
        ""
        if value is None
        else read_json_text(node.reading, value, f"{node.path}.{key}")
    )


# *value*, at *path*, as JSON text, mended.
def read_json_text(reading: DocumentReader, value: Any, path: str) -> str:
    text = _to_json_text(value)
    if text is None:
        count = reading.count
        reading.json(value, path)
        if reading.count == count:
            reading.problem(path, "is not JSON")

        return ""

    found: str = reading.json(text, path)
    return found


def take_notes(
    writer: PayloadWriter, value: Part | ToolCall, path: str
) -> Mapping[str, Any]:
    """
    The notes on a part or a call. Its own metadata is listed as lost, because Pydantic
    AI has no field for it.
    """
    notes = writer.notes(value, path)
    if own_of(value.metadata):
        writer.lose(path, "metadata", "supported on messages only by Pydantic AI")

    return notes


def read_time(node: ObjectReader) -> tuple[datetime | None, frozenset[str]]:
    """The time of an object, and the keys that `write_time` restores."""
    value: Any = node.raw.get("timestamp")
    known = frozenset({"timestamp"})
    if value == UNKNOWN_TIME:
        return None, known

    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None, frozenset()

    return (time, known) if time.tzinfo is not None else (None, frozenset())


def write_time(writer: PayloadWriter, time: datetime | None, path: str) -> str:
    if time is None:
        return UNKNOWN_TIME

    offset = time.utcoffset()
    if offset is not None and offset % _MINUTE:
        # Pydantic reads offsets of whole minutes only.
        try:
            time = time.astimezone(UTC)
        except OverflowError:
            writer.lose(path, "timestamp", "is in no year of UTC")
            return UNKNOWN_TIME

    text = time.isoformat()
    return f"{text[:-6]}Z" if time.tzinfo is UTC or text.endswith("+00:00") else text
