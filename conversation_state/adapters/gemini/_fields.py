"""
What both directions need: keys in two cases, media,
base64, and objects as JSON text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from conversation_state._canonical import dump as dump_json
from conversation_state.adapters._notes import list_of
from conversation_state.adapters._reading import DocumentReader, ObjectReader, is_map
from conversation_state.adapters._wire.calls import (
    DuplicateKeyError,
    parse_arguments,
)
from conversation_state.adapters._wire.media import encode_base64
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    VideoPart,
)

__all__ = [
    "SKIP_SIGNATURE",
    "SOURCE",
    "WRAPPERS",
    "CasedObject",
    "cased_key",
    "encoded",
    "encoding_of",
    "is_said",
    "media_of",
    "mime_of",
    "object_of",
    "snake_case",
    "text_of",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "gemini"

# What Google has for calls that no Gemini made, whose thoughts it would miss.
SKIP_SIGNATURE = "skip_thought_signature_validator"

# The keys under which SDKs put a result that is not an object: Google's
# own key first, then those of its SDK and of others.
WRAPPERS = ("output", "result", "return_value", "content")

_CAPITAL = re.compile("[A-Z]")


def snake_case(key: str) -> str:
    """
    *key* as Google's SDKs for Python write it.

    >>> snake_case("inlineData")
    'inline_data'
    """
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


# Each key that our model has a field for, in its other spelling.
_OTHER = {
    key: snake_case(key)
    for key in (
        "citationMetadata",
        "displayName",
        "fileData",
        "fileUri",
        "finishReason",
        "functionCall",
        "functionResponse",
        "inlineData",
        "logprobsResult",
        "mimeType",
        "modelVersion",
        "promptFeedback",
        "systemInstruction",
        "thoughtSignature",
        "usageMetadata",
    )
}


def is_said(raw: Mapping[str, Any], key: str) -> bool:
    """
    Whether *raw* has a value under *key*, in either case.
    """
    return raw.get(key) is not None or raw.get(_OTHER.get(key, key)) is not None


class CasedObject(ObjectReader):
    """
    One JSON object while it is read, whose keys are in camel case or, as
    Google's SDKs for Python have them, in snake case; which, is noted.
    """

    __slots__ = ()

    def key(self, name: str) -> str:
        """
        The case in which *name* stands here.
        """
        other = _OTHER.get(name, name)
        if name in self.raw or other not in self.raw:
            return name

        listed = self.notes.setdefault("snake", [])
        if other not in listed:
            listed.append(other)

        return other

    def inside(self, key: str) -> CasedObject:
        """
        The object under *key*, which is noted together with this one; an empty
        one if the key is missing.
        """
        value = self.raw.get(key)
        if not is_map(value):
            if value is not None:
                self.wrong(key, "an object")

            value = {}

        place = CasedObject(self.reading, value, f"{self.path}.{key}")
        place.notes = self.notes
        return place


def cased_key(notes: Mapping[str, Any], name: str) -> str:
    """
    The key *name* in the case that *notes* have.
    """
    return _OTHER[name] if _OTHER[name] in list_of(notes, "snake") else name


# Media


_KINDS: dict[str, type[MediaPart]] = {
    "audio": AudioPart,
    "image": ImagePart,
    "video": VideoPart,
}


def media_of(media_type: str) -> type[MediaPart]:
    """
    What content of *media_type* is: a file, unless it can be seen or heard.
    """
    return _KINDS.get(media_type.partition("/")[0].lower(), FilePart)


def mime_of(part: MediaPart) -> str:
    """
    The media type of *part*; without one, its kind with any subtype.
    """
    return part.media_type or ("" if isinstance(part, FilePart) else f"{part.kind}/*")


def encoded(data: bytes, alphabet: object = "") -> str:
    """
    *data* in base64.
    """
    if alphabet == "urlsafe":
        return base64.urlsafe_b64encode(data).decode()

    return encode_base64(data)


def encoding_of(text: str, data: bytes) -> dict[str, str]:
    """
    What to note so that *data* is dumped as the same *text*.
    """
    if text == encoded(data):
        return {}

    return {"base64": "urlsafe"} if text == encoded(data, "urlsafe") else {"text": text}


# Objects, of which our model has the text


def text_of(value: Any) -> str:
    """
    A JSON value, which was read before, as text.
    """
    return dump_json(value).decode()


def object_of(text: str) -> tuple[dict[str, Any] | None, str]:
    """
    The JSON object in *text*, None if it is not one, and what does not come
    through.
    """
    try:
        value = parse_arguments(text)
    except DuplicateKeyError:
        return None, "arguments must be a JSON object without duplicate keys"
    except ValueError:
        return None, "arguments must be valid JSON"

    if not isinstance(value, dict):
        return None, "arguments must be a JSON object"

    read = DocumentReader()
    whole = read.json(value, "$")
    if read.problems:
        return None, f"arguments can't be represented as JSON: {read.problems[0]}"

    if read.mended:
        return whole, "contained an unpaired surrogate; U+FFFD is sent instead"

    return whole, ""
