"""
Pydantic AI's constants, the formats of JSON texts and times, and the import of
the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any

from conversation_state.adapters._export import PayloadWriter
from conversation_state.errors import MissingExtraError

__all__ = [
    "DEFAULTS",
    "ERRORS",
    "FINISHED",
    "INTERRUPTED",
    "MEDIA",
    "SOURCE",
    "UNKNOWN_TIME",
    "URLS",
    "is_default",
    "kind_of",
    "messages_adapter",
    "parse_noted",
    "parse_time",
    "to_json_text",
    "write_time",
]

SOURCE = "pydantic_ai"
INTERRUPTED = "interrupted"

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

# Parts must have a time; this one stands for an unknown time.
UNKNOWN_TIME = "1970-01-01T00:00:00Z"

# Defaults of keys that may be left out. Null is the default of every key that
# may be null.
DEFAULTS: Mapping[str, Any] = {
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

# The finish reasons of Pydantic AI, by those of providers.
FINISHED = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "STOP": "stop",
    "completed": "stop",
    "content_filter": "content_filter",
    "end_turn": "stop",
    "error": "error",
    "function_call": "tool_call",
    "length": "length",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "refusal": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_call": "tool_call",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}


@cache
def messages_adapter() -> Any:
    """
    Pydantic's adapter that validates and dumps Pydantic AI's messages.

    Raises:
        MissingExtraError:
            If Pydantic AI is not installed.
    """
    try:
        from pydantic_ai.messages import (  # noqa: PLC0415 - an extra
            ModelMessagesTypeAdapter,
        )
    except ImportError as error:
        what = "messages of Pydantic AI"
        raise MissingExtraError(what, "pydantic-ai") from error

    return ModelMessagesTypeAdapter


def to_json_text(value: Any) -> str | None:
    """
    *value* as JSON text, with integers of any size and nesting of any depth;
    None if it is not JSON.
    """
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


def parse_noted(text: Any, otherwise: Any) -> Any:
    """
    The value of *text*, which is JSON according to a note; *otherwise* if it is not,
    because a caller has changed the text or the note.
    """
    try:
        return json.loads(text) if isinstance(text, str) else otherwise
    except ValueError:
        return otherwise


def kind_of(raw: Mapping[str, Any], key: str = "part_kind") -> str:
    """
    The text under *key* in *raw*, or "".
    """
    kind = raw.get(key)
    return kind if isinstance(kind, str) else ""


def is_default(key: str, value: Any) -> bool:
    """
    Whether *value* is the default of *key*, which may be left out then.
    """
    if value is None:
        return True

    default = DEFAULTS.get(key)
    return default is not None and default == value and type(default) is type(value)


def parse_time(value: Any) -> tuple[datetime | None, bool]:
    """
    *value* parsed as a time, and whether `write_time` restores *value* from it.
    """
    if not isinstance(value, str):
        return None, False

    if value == UNKNOWN_TIME:
        return None, True

    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None, False

    return (time, True) if time.tzinfo is not None else (None, False)


def write_time(write: PayloadWriter, time: datetime | None, path: str) -> str:
    """
    *time* as Pydantic writes it.
    """
    if time is None:
        return UNKNOWN_TIME

    offset = time.utcoffset()
    if offset is not None and offset % _MINUTE:
        # Pydantic reads offsets of whole minutes only.
        whole = offset - offset % _MINUTE
        try:
            # An offset between -24:00 and -23:59 is rounded up to -23:59, because
            # `timezone` refuses a whole day.
            time = time.astimezone(timezone(max(whole, _MINUTE - _DAY)))
        except OverflowError:
            write.lose(path, "timestamp", "offsets must be whole minutes in year 1")
            return UNKNOWN_TIME

    text = time.isoformat()
    return f"{text[:-6]}Z" if time.tzinfo is UTC or text.endswith("+00:00") else text
