"""
Words of the format that both directions need, and media on the wire.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    VideoPart,
)

__all__ = [
    "MEDIA",
    "NATURAL",
    "REASONING_KEYS",
    "SLOTS",
    "SOURCE",
    "WORDS",
    "Content",
    "block_of",
    "content_of",
    "format_of",
    "media_type_of",
    "text_of",
]

# The name under which notes are kept, and whose word an unknown part is.
SOURCE = "openai_chat"

# Where dialects put what the model thought, beside the content.
REASONING_KEYS = ("reasoning_content", "reasoning")

# The blocks that hold media, and where in them the content is.
MEDIA: dict[str, type[MediaPart]] = {
    "audio_url": AudioPart,
    "document_url": FilePart,
    "file": FilePart,
    "image_url": ImagePart,
    "input_audio": AudioPart,
    "video_url": VideoPart,
}
SLOTS = {"file": "file_data", "input_audio": "data"}

# What else our parts have a field for: words beside the content.
WORDS = {"file": "filename", "image_url": "detail", "input_audio": "format"}

# The block of each kind of part that the format itself has, by role; all else
# is a dialect's.
NATURAL: dict[str, dict[str, str]] = {
    "assistant": {"text": "text", "refusal": "refusal"},
    "system": {"text": "text"},
    "tool": {"text": "text"},
    "user": {
        "audio": "input_audio",
        "file": "file",
        "image": "image_url",
        "text": "text",
    },
}


class Content(NamedTuple):
    """
    What a media block holds: exactly one of *url* and *data*.
    """

    url: str | None
    data: bytes | None
    media_type: str


def _decoded(text: str) -> bytes:
    # Strict but for what encoders differ in: line breaks and padding.
    text = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def block_of(kind: str, content: Content, role: str) -> str:
    """
    The block that the format itself has for *content* of a part of *kind* in
    messages of *role*; "" if it has none.
    """
    block = NATURAL[role].get(kind, "")
    return "" if content.data is None and block in SLOTS else block


def content_of(text: str, kind: str) -> Content | None:
    """
    What *text* in a block of *kind* is: a url, or bytes in base64.

    None if it is neither, which for blocks that take urls is only "".
    """
    head, comma, body = text.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        data = _decoded(body)
        if data:
            return Content(None, data, head[5:-7])

    if kind not in SLOTS or text.startswith(("https://", "http://")):
        return Content(text, None, "") if text else None

    data = _decoded(text)
    return Content(None, data, "") if data else None


def text_of(content: Content, kind: str) -> str:
    """
    *content* as a block of *kind* has it.

    An image's bytes are a ``data:`` url and audio's are bare; a file's are a
    ``data:`` url if anybody knows what they are.
    """
    if content.data is None:
        return content.url or ""

    encoded = base64.b64encode(content.data).decode()
    if kind == "input_audio" or (kind == "file" and not content.media_type):
        return encoded

    return f"data:{content.media_type};base64,{encoded}"


def media_type_of(format: str) -> str:  # noqa: A002 - OpenAI's word
    """
    The media type of audio in *format*.

    >>> media_type_of("mp3"), media_type_of("wav")
    ('audio/mpeg', 'audio/wav')
    """
    return "audio/mpeg" if format == "mp3" else f"audio/{format}"


_FORMATS = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


def format_of(media_type: str) -> str:
    """
    OpenAI's word for audio of *media_type*; "" if that is no audio.

    >>> format_of("audio/mpeg"), format_of("audio/x-wav"), format_of("video/mp4")
    ('mp3', 'wav', '')
    """
    kind, _, subtype = media_type.partition("/")
    return _FORMATS.get(media_type) or (subtype if kind == "audio" else "")
