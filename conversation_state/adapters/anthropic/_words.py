"""
Words of the format that both directions need, and media on the wire.
"""

from __future__ import annotations

import base64
import binascii

from conversation_state.parts import FilePart, MediaPart

__all__ = [
    "PDF",
    "PLAIN_TEXT",
    "SOURCE",
    "decoded",
    "encoded",
    "in_url",
    "is_textual",
    "natural_source",
    "sniffed",
]

# The name under which notes are kept, and whose word an unknown part is.
SOURCE = "anthropic"

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"


def decoded(text: str) -> bytes:
    """
    The bytes of *text* in base64; none if it is no base64.
    """
    # Strict but for what encoders differ in: line breaks and padding.
    text = "".join(text.split())
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def encoded(data: bytes) -> str:
    """
    *data* in base64.
    """
    return base64.b64encode(data).decode()


def in_url(url: str) -> tuple[str, bytes]:
    """
    The media type and the bytes that *url* holds by itself; no bytes if it
    only tells where they are.

    >>> in_url("data:image/gif;base64,R0lG")
    ('image/gif', b'GIF')
    """
    head, comma, body = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return head[5:-7], decoded(body)

    return "", b""


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
    The kind of source that `dump` writes for *part*; "" if there is none.
    """
    if part.data is None:
        return "url"

    if not isinstance(part, FilePart):
        return "base64" if part.media_type or sniffed(part.data) else ""

    if (part.media_type or sniffed(part.data)) == PDF:
        return "base64"

    return "text" if is_textual(part) else ""
