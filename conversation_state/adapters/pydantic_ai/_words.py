"""
Pydantic AI's words, and how the SDK is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any

from conversation_state.errors import MissingExtraError

__all__ = [
    "DEFAULTS",
    "ERRORS",
    "FINISHED",
    "INTERRUPTED",
    "MEDIA",
    "NOBODY_SAID",
    "SOURCE",
    "URLS",
    "as_json",
    "as_time",
    "is_default",
    "kind_of",
    "messages_adapter",
    "written_time",
]

SOURCE = "pydantic_ai"
INTERRUPTED = "interrupted"

_MINUTE = timedelta(minutes=1)

# Parts must have a time; this one stands for "nobody said when".
NOBODY_SAID = "1970-01-01T00:00:00Z"

# What a key is when it is left out. None is the default of every key that may
# be null.
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

# What a tool's call can come to but success.
ERRORS = frozenset({"denied", "failed", "interrupted", "retried"})

# Other providers' words for why a response ended, in this one's.
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
    What writes and reads Pydantic AI's messages.

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


def as_json(value: Any) -> str | None:
    """
    *value* as JSON text, which any integers and any depth may be in; None if
    it is no JSON.
    """
    try:
        text = json.dumps(
            value, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )
        same: bool = json.loads(text) == value
    except (RecursionError, TypeError, ValueError):
        return None

    # Keys that are no texts would be made some.
    return text if same else None


def kind_of(raw: Mapping[str, Any], key: str = "part_kind") -> str:
    """
    The text that *raw* has under *key*; "" if there is none.
    """
    kind = raw.get(key)
    return kind if isinstance(kind, str) else ""


def is_default(key: str, value: Any) -> bool:
    """
    Whether *key* may be left out when it has this *value*.
    """
    if value is None:
        return True

    default = DEFAULTS.get(key)
    return default is not None and default == value and type(default) is type(value)


def as_time(value: Any) -> tuple[datetime | None, bool]:
    """
    The moment that *value* tells, and whether that is all it tells.
    """
    if not isinstance(value, str):
        return None, False

    if value == NOBODY_SAID:
        return None, True

    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None, False

    return (time, True) if time.tzinfo is not None else (None, False)


def written_time(time: datetime | None) -> str:
    """
    *time* as Pydantic writes it.
    """
    if time is None:
        return NOBODY_SAID

    offset = time.utcoffset()
    if offset is not None and offset % _MINUTE:
        # Pydantic reads offsets of whole minutes only.
        time = time.astimezone(timezone(offset - offset % _MINUTE))

    text = time.isoformat()
    return f"{text[:-6]}Z" if time.tzinfo is UTC or text.endswith("+00:00") else text
