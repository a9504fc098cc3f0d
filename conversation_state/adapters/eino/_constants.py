"""
Constants of the format, in the order it writes them, and their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters._extras import is_plain
from conversation_state.adapters._notes import notes_of
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    VideoPart,
)

__all__ = [
    "BESIDE",
    "CALL",
    "HELD",
    "INPUT",
    "LISTS",
    "MEDIA",
    "MEDIUM",
    "MESSAGE",
    "OLD",
    "OUTPUT",
    "PART",
    "REASONING",
    "SOURCE",
    "as_text",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "eino"

REASONING = "reasoning_content"
OLD = "multi_content"
INPUT = "user_input_multi_content"
# What Go calls AssistantGenMultiContent.
OUTPUT = "assistant_output_multi_content"
LISTS: Mapping[str, str] = {
    "assistant": OUTPUT,
    "system": INPUT,
    "tool": INPUT,
    "user": INPUT,
}

# Keys as Go writes them: in the order of the structs' fields.
MESSAGE = (
    "role",
    "content",
    OLD,
    INPUT,
    OUTPUT,
    "name",
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "response_meta",
    REASONING,
    "extra",
)
CALL = ("index", "id", "type", "function", "extra")
PART = (
    "type",
    "text",
    "image",
    "audio",
    "video",
    "file",
    "reasoning",
    "tool_search_result",
    "extra",
)
MEDIUM = ("url", "base64data", "mime_type", "extra", "detail", "name")

# The types of parts that hold media, and the field each is in; in the older
# list the field has the name of the type.
MEDIA: Mapping[str, tuple[str, type[MediaPart]]] = {
    "image_url": ("image", ImagePart),
    "audio_url": ("audio", AudioPart),
    "video_url": ("video", VideoPart),
    "file_url": ("file", FilePart),
}

# What else our parts have a field for: a key next to the content.
BESIDE: Mapping[str, str] = {"file_url": "name", "image_url": "detail"}

# The kinds of media that each list has a field for.
HELD: Mapping[str, frozenset[str]] = {
    INPUT: frozenset({"audio", "file", "image", "video"}),
    OLD: frozenset({"audio", "file", "image", "video"}),
    OUTPUT: frozenset({"audio", "image", "video"}),
}


def as_text(parts: Iterable[Part]) -> tuple[str, str] | None:
    """
    The thoughts and the text that *parts* are if they need no list; else None.
    """
    rest = [*parts]
    thoughts = text = ""
    if rest and isinstance(rest[0], ReasoningPart) and _needs_no_list(rest[0]):
        thoughts = rest.pop(0).text  # type: ignore[attr-defined]  # as just asked

    if rest and isinstance(rest[0], TextPart) and _needs_no_list(rest[0]):
        text = rest.pop(0).text  # type: ignore[attr-defined]  # likewise

    return None if rest else (thoughts, text)


def _needs_no_list(part: Any) -> bool:
    return (
        bool(part.text)
        and not getattr(part, "signature", "")
        and is_plain(part)
        and not notes_of(part.metadata, SOURCE)
    )
