"""
Constants of the format, and media types.
"""

from __future__ import annotations

from conversation_state.parts import FilePart, MediaPart

__all__ = [
    "PDF",
    "PLAIN_TEXT",
    "SOURCE",
    "is_textual",
    "natural_source",
    "sniffed",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "anthropic"

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"


def sniffed(data: bytes) -> str:
    """
    The media type of *data*, by its first bytes; "" if it is none of those
    that the provider takes.

    >>> sniffed(b"GIF89a"), sniffed(b"%PDF-1.7"), sniffed(b"hello")
    ('image/gif', 'application/pdf', '')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"

    for start, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", PDF),
    ):
        if data.startswith(start):
            return media_type

    return ""


def is_textual(part: FilePart) -> bool:
    """
    Whether *part* is text, by its media type and by its bytes.
    """
    if part.media_type and not part.media_type.startswith("text/"):
        return False

    try:
        (part.data or b"\xff").decode()
    except UnicodeDecodeError:
        return False

    return True


def natural_source(part: MediaPart) -> str:
    """
    The kind of source that `dump` writes for *part*; "" if missing.
    """
    if part.data is None:
        return "url"

    if not isinstance(part, FilePart):
        return "base64" if part.media_type or sniffed(part.data) else ""

    if (part.media_type or sniffed(part.data)) == PDF:
        return "base64"

    return "text" if is_textual(part) else ""
