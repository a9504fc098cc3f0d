"""
What both of OpenAI's formats say in the same way: media in base64, how likely
tokens were, and counts of tokens.

What lives here: what `openai_chat` and `openai_responses` share. What does
not: which block or key these stand in.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters._counting import is_count
from conversation_state.adapters._reading import (
    Place,
    Reading,
    is_list,
    is_map,
    mended,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import LogProb
from conversation_state.parts import MediaPart
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)

__all__ = [
    "SLOTS",
    "Content",
    "category_of",
    "content_of",
    "counts_of",
    "heard",
    "is_odd",
    "read_logprob",
    "text_of",
    "usage_of",
    "written_format",
    "written_text",
]

# Where the content is in the blocks that hold no url.
SLOTS = {"file": "file_data", "input_audio": "data"}


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


def heard(content: Content, word: str, notes: dict[str, Any]) -> Content:
    """
    *content* of the media type that *word*, a format, is.
    """
    if not word:
        if content.media_type:
            notes["without"] = ["format"]

        return content

    media_type = media_type_of(word)
    if format_of(media_type) != word:
        notes["format"] = word

    return content._replace(media_type=media_type)


def written_text(
    part: MediaPart, kind: str, notes: Mapping[str, Any]
) -> tuple[str, str]:
    """
    The content of *part* as a text, and the media type that this text says.
    """
    noted: Any = notes.get("text")
    found = content_of(noted, kind) if isinstance(noted, str) else None
    content = Content(part.url, part.data, part.media_type)
    # The format of audio is told beside it.
    compared = slice(2) if kind == "input_audio" else slice(3)
    if found is not None and found[compared] == content[compared]:
        return noted, found.media_type

    # A comma would end the head of a data: url.
    if "," in part.media_type:
        content = content._replace(media_type="")

    said = kind != "input_audio" and content.data is not None
    return text_of(content, kind), content.media_type if said else ""


def written_format(part: MediaPart, notes: Mapping[str, Any]) -> str:
    """
    The word for the format of *part*, audio: the one noted, if it still holds.
    """
    word: Any = notes.get("format")
    if isinstance(word, str) and media_type_of(word) == part.media_type:
        return word

    return format_of(part.media_type)


_LEAST_LOGPROB = frozenset({"bytes", "logprob", "token"})
_LOGPROB = _LEAST_LOGPROB | {"top_logprobs"}
_NOTHING = LogProb("", 0.0)


def is_odd(raw: Any) -> bool:
    """
    Whether there is more in *raw* than a `LogProb` holds.
    """
    if not is_map(raw) or raw.keys() <= _LEAST_LOGPROB:
        return False

    if not raw.keys() <= _LOGPROB:
        return True

    likeliest = raw["top_logprobs"]
    return is_list(likeliest) and any(
        is_map(one) and not one.keys() <= _LEAST_LOGPROB for one in likeliest
    )


def read_logprob(read: Reading, raw: Any, path: str, *, top: bool = True) -> LogProb:
    """
    How likely the token in *raw* was; of nothing, if there was a problem.
    """
    if not is_map(raw):
        read.wrong(path, raw, "an object")
        return _NOTHING

    place = Place(read, raw, path)
    token = place.text("token")
    chance = _number(raw.get("logprob"))
    if chance is None:
        place.wrong("logprob", "a finite number")
        return _NOTHING

    spelt, octets = raw.get("bytes"), None
    if is_list(spelt) and all(_is_octet(octet) for octet in spelt):
        octets = bytes(spelt)
    elif spelt is not None:
        place.wrong("bytes", "a list of integers from 0 to 255, or null")

    likeliest = raw.get("top_logprobs") if top else None
    if likeliest is not None and not is_list(likeliest):
        place.wrong("top_logprobs", "a list")
        likeliest = None

    others = [
        read_logprob(read, other, f"{path}.top_logprobs[{at}]", top=False)
        for at, other in enumerate(likeliest or ())
    ]
    return LogProb(token, chance, octets, tuple(others))


def _is_octet(value: Any) -> bool:
    return value.__class__ is int and value in range(256)


def _number(value: Any) -> float | None:
    # Integers may be too large for a float, which isfinite would make of them.
    if value.__class__ is int and abs(value) < 2**64:
        return float(value)

    return value if isinstance(value, float) and isfinite(value) else None


# What others call ``cache_write_tokens``.
_CACHE_WRITES = frozenset({"cache_creation_tokens", "cache_write_tokens"})


def counts_of(
    read: Reading, block: Mapping[Any, Any], known: tuple[str, ...], path: str
) -> tuple[dict[str, int], dict[str, int], dict[str, Any]]:
    """
    What *block* counts under *known* names and under others, and what in it
    is no count.
    """
    counts: dict[str, int] = {}
    others: dict[str, int] = {}
    left: dict[str, Any] = {}
    for key, value in block.items():
        if key in known:
            if is_count(value):
                counts[key] = value
            elif value is not None:
                read.wrong(f"{path}.{key}", value, "an integer from 0 to 2**63 - 1")
        elif isinstance(key, str) and mended(key) == key and is_count(value):
            others[key] = value
        else:
            left[key] = value

    return counts, others, left


def category_of(name: str, whose: str) -> str:
    """
    What to call a count that is in a breakdown of *whose* tokens.

    >>> category_of("text_tokens", "prompt")
    'prompt_text_tokens'
    >>> category_of("cache_creation_tokens", "prompt")
    'cache_write_tokens'
    """
    return "cache_write_tokens" if name in _CACHE_WRITES else f"{whose}_{name}"


def usage_of(
    read: Reading,
    counts: tuple[int, int, int | None],
    details: Iterable[Mapping[str, int]],
    extra: Mapping[str, int],
    path: str,
) -> Usage | None:
    """
    The usage of *counts* (prompt, completion, total) and the *details* of the
    first two; None if they come to more than a count can be.
    """
    within, written = details
    try:
        return Usage(
            *counts,
            PromptTokensDetails(**within),
            CompletionTokensDetails(**written),
            extra,
        )
    except InvalidUsageError as found:
        # Each count is one; only their sum can be too large.
        read.problem(path, str(found))
        return None
