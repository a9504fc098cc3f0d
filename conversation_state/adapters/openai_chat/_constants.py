"""
Constants of the format.
"""

from __future__ import annotations

from conversation_state.adapters._openai import SLOTS, Content
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
    "ROLES",
    "SOURCE",
    "WORDS",
    "block_of",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "openai_chat"

# The roles of the format, and ours.
ROLES = {
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "system": "system",
    "tool": "tool",
    "user": "user",
}

# Where dialects put what the model thought, beside the content.
REASONING_KEYS = ("reasoning_content", "reasoning")

# The blocks that hold media; `SLOTS` has the key of their content.
MEDIA: dict[str, type[MediaPart]] = {
    "audio_url": AudioPart,
    "document_url": FilePart,
    "file": FilePart,
    "image_url": ImagePart,
    "input_audio": AudioPart,
    "video_url": VideoPart,
}

# What else our parts have a field for: keys beside the content.
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


def block_of(kind: str, content: Content, role: str) -> str:
    """
    The block that the format itself has for *content* of a part of *kind* in
    messages of *role*; "" if it has none.
    """
    block = NATURAL[role].get(kind, "")
    return "" if content.data is None and block in SLOTS else block
