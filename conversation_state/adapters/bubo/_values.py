"""
Constants of the format, in the order it writes them, and their values.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

__all__ = [
    "AUDIO",
    "CALL",
    "ENVELOPE",
    "NIL",
    "NO_TIME",
    "SOURCE",
    "format_of",
    "media_type_of",
    "time_of",
    "uuid_of",
    "written_time",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "bubo"

ENVELOPE = ("run_id", "turn_id", "sender", "timestamp", "meta")
CALL = ("id", "name", "arguments")
AUDIO = ("data", "format")

# Go's zero values: bubo omits the fields that have them, so they mean "missing".
NIL = UUID(int=0)
NO_TIME = datetime(1, 1, 1, tzinfo=UTC)

_HEX = "[0-9a-fA-F]"
_UUID = re.compile(rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}|{_HEX}{{32}}")
# All layouts that bubo reads; `fromisoformat` reads others, too. From Python 3.14 on it
# takes the hour 24 for the next day, which Go refuses.
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?!24)\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)


def uuid_of(text: str) -> UUID | None:
    """
    The UUID that *text* is, in one of the forms that Go reads; None if it is
    none.

    >>> uuid_of("urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057")
    UUID('01890a5d-ac96-774b-bcce-b302099a8057')
    """
    if text[:9].lower() == "urn:uuid:":
        text = text[9:]
    elif text.startswith("{") and text.endswith("}"):
        text = text[1:-1]

    return UUID(text) if _UUID.fullmatch(text) else None


def time_of(text: str) -> datetime | None:
    """
    The time that *text* is; in UTC without a zone, None if it is invalid.

    >>> print(time_of("2024-02-29 12:30:05.5Z"))
    2024-02-29 12:30:05.500000+00:00
    """
    if not _TIME.fullmatch(text):
        return None

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None

    return time if time.tzinfo else time.replace(tzinfo=UTC)


def written_time(time: datetime) -> tuple[str, str]:
    """
    *time* as Go writes it, in milliseconds; and why that is not what it was,
    "" if it is. No text at all if Go would take it for none.
    """
    minute = timedelta(minutes=1)
    # Messages' times are aware, with a fixed offset.
    offset = time.utcoffset() or timedelta()
    why = "times have milliseconds only" if time.microsecond % 1_000 else ""
    if offset % minute:
        why = "offsets must be whole minutes"
        try:
            # Towards zero: a zone of a whole day is invalid.
            time = time.astimezone(timezone(int(offset / minute) * minute))
        except OverflowError:
            time = NO_TIME

    if time == NO_TIME:
        return "", "the year 1 means no time in bubo"

    text = time.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" * text.endswith("+00:00"), why


def media_type_of(format: str) -> str:  # noqa: A002 - bubo's word
    """
    The media type of audio in *format*.

    >>> media_type_of("mp3"), media_type_of("wav"), media_type_of("")
    ('audio/mpeg', 'audio/wav', '')
    """
    if format == "mp3":
        return "audio/mpeg"

    return f"audio/{format}" if format else ""


def format_of(media_type: str) -> str:
    """
    The format of audio of *media_type*; "" if that is not audio.

    >>> format_of("audio/mpeg"), format_of("audio/wav"), format_of("video/mp4")
    ('mp3', 'wav', '')
    """
    kind, _, subtype = media_type.partition("/")
    if kind != "audio":
        return ""

    return "mp3" if subtype == "mpeg" else subtype
