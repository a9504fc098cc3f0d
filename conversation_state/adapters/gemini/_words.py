"""
Words of the format that both directions need: keys in two spellings, media,
base64, and objects as JSON text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from conversation_state._canonical import dump as dump_json
from conversation_state.adapters._export import list_of
from conversation_state.adapters._reading import Place, Reading, is_map, mended
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
    "Spelt",
    "decoded",
    "encoded",
    "encoding_of",
    "is_said",
    "media_of",
    "mime_of",
    "object_of",
    "said_of",
    "snake",
    "spelt",
    "text_of",
]

# The name under which notes are kept, and whose word an unknown part is.
SOURCE = "gemini"

# What Google has for calls that no Gemini made, whose thoughts it would miss.
SKIP_SIGNATURE = "skip_thought_signature_validator"

# The keys under which SDKs put what a tool said if that is no object: Google's
# own word first, then those of its SDK and of others.
WRAPPERS = ("output", "result", "return_value", "content")

_CAPITAL = re.compile("[A-Z]")


def snake(key: str) -> str:
    """
    *key* as Google's SDKs for Python spell it.

    >>> snake("inlineData")
    'inline_data'
    """
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


# Each key that our model has a field for, in its other spelling.
_OTHER = {
    key: snake(key)
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
    Whether *raw* says anything under *key*, in either spelling.
    """
    return raw.get(key) is not None or raw.get(_OTHER.get(key, key)) is not None


def said_of(failure: Mapping[str, Any]) -> str:
    """
    Why there is no response, or no more of it, in the provider's words.
    """
    error = failure.get("error")
    said = error.get("message") if is_map(error) else error
    return mended(said) if isinstance(said, str) and said else "it did not say why"


class Spelt(Place):
    """
    One JSON object while it is read, whose keys are in camel case or, as
    Google's SDKs for Python have them, in snake case; which, is noted.
    """

    __slots__ = ()

    def key(self, name: str) -> str:
        """
        How *name* is spelt here.
        """
        other = _OTHER.get(name, name)
        if name in self.raw or other not in self.raw:
            return name

        listed = self.notes.setdefault("snake", [])
        if other not in listed:
            listed.append(other)

        return other

    def inside(self, key: str) -> Spelt:
        """
        The object under *key*, which is noted together with this one; an empty
        one if there is none.
        """
        value = self.raw.get(key)
        if not is_map(value):
            if value is not None:
                self.wrong(key, "an object")

            value = {}

        place = Spelt(self.reading, value, f"{self.path}.{key}")
        place.notes = self.notes
        return place


def spelt(notes: Mapping[str, Any], name: str) -> str:
    """
    The key *name* as it was spelt, by the *notes*.
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
    The media type of *part*; where nobody said more, at least what it is.
    """
    return part.media_type or ("" if isinstance(part, FilePart) else f"{part.kind}/*")


def decoded(text: str) -> bytes:
    """
    The bytes that *text* is in base64, of either alphabet, with line breaks
    and without padding if need be; b"" if it is none.
    """
    text = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""


def encoded(data: bytes, alphabet: object = "") -> str:
    """
    *data* in base64.
    """
    if alphabet == "urlsafe":
        return base64.urlsafe_b64encode(data).decode()

    return base64.b64encode(data).decode()


def encoding_of(text: str, data: bytes) -> dict[str, str]:
    """
    What to note lest *data* come back as another *text*.
    """
    if text == encoded(data):
        return {}

    return {"base64": "urlsafe"} if text == encoded(data, "urlsafe") else {"text": text}


# Objects, of which our model has the text


class _TwiceError(ValueError):
    """
    A key is there twice.
    """


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError

    return found


def text_of(value: Any) -> str:
    """
    A JSON value, which was read before, as text.
    """
    return dump_json(value).decode()


def object_of(text: str) -> tuple[dict[str, Any] | None, str]:
    """
    The JSON object that *text* is, None if it is none, and what does not come
    through.
    """
    try:
        value = json.loads(text, object_pairs_hook=_pairs)
    except _TwiceError:
        return None, "has a key twice, of which an object has one"
    except (RecursionError, ValueError):
        return None, "is no JSON, and an object is sent here"

    if not isinstance(value, dict):
        return None, "is no JSON object, and nothing else is sent here"

    read = Reading()
    whole = read.json(value, "$")
    if read.problems:
        return None, f"has something no JSON can keep: {read.problems[0]}"

    if read.mended:
        return whole, "held half of a surrogate pair, in whose place U+FFFD is sent"

    return whole, ""
