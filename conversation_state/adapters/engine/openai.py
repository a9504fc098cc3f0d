"""What formats that go back to OpenAI's share: media in base64, log probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters.engine.wire import (
    data_url,
    decode_base64,
    encode_base64,
    split_data_url,
)
from conversation_state.messages import LogProb
from conversation_state.parts import MediaPart

# Breakdowns of a usage block: the kind of tokens that each one is of, and the counts
# in it that have a field in our model.
PROMPT_DETAILS = ("prompt", ("audio_tokens", "cached_tokens"))
COMPLETION_DETAILS = (
    "completion",
    (
        "accepted_prediction_tokens",
        "audio_tokens",
        "reasoning_tokens",
        "rejected_prediction_tokens",
    ),
)

# The key with the content, in the kinds of blocks that hold bytes instead of a url.
SLOTS = {"file": "file_data", "input_audio": "data"}


class Content(NamedTuple):
    """What a media block holds: exactly one of *url* and *data*."""

    url: str | None
    data: bytes | None
    media_type: str


def content_of(text: str, kind: str) -> Content | None:
    """
    What *text* in a block of *kind* is: a url, or bytes in base64.

    None if it is neither; in a block that takes urls, only "" is neither.
    """
    found = split_data_url(text)
    if found:
        return Content(None, *found)

    # Dialects take a url where OpenAI has bytes (OpenRouter's `file_data`).
    if kind not in SLOTS or text.startswith(("https://", "http://")):
        return Content(text, None, "") if text else None

    data = decode_base64(text)
    return Content(None, data, "") if data else None


def write_content(part: MediaPart, kind: str) -> tuple[str, str]:
    """
    The content of *part* as a block of *kind* has it, and the media type that this text
    states.

    An image's bytes are a ``data:`` url and audio's are bare; a file's are a
    ``data:`` url if their media type is known.
    """
    if part.data is None:
        return part.url or "", ""

    # A comma in the media type would end the head of the data: url too early.
    media_type = "" if "," in part.media_type else part.media_type
    if kind == "input_audio" or (kind == "file" and not media_type):
        return encode_base64(part.data), ""

    return data_url(part.data, media_type), media_type


def name_file(media_type: str) -> str:
    """
    A name for a file of *media_type* that has none: OpenAI refuses its bytes without.

    Source:
        https://github.com/laravel/ai/issues/321, https://github.com/openai/
        openai-agents-python/pull/1513; the name needs no extension
        (strands-agents/harness-sdk#3576).
    """
    return "file.pdf" if media_type == "application/pdf" else "file"


_LEAST_LOGPROB = frozenset({"bytes", "logprob", "token"})
_LOGPROB = _LEAST_LOGPROB | {"top_logprobs"}
_NOTHING = LogProb("", 0.0)


def is_odd(raw: Any) -> bool:
    """Whether *raw* has more than a `LogProb` holds."""
    if not is_map(raw) or raw.keys() <= _LEAST_LOGPROB:
        return False

    if not raw.keys() <= _LOGPROB:
        return True

    likeliest = raw["top_logprobs"]
    return is_list(likeliest) and any(
        is_map(one) and not one.keys() <= _LEAST_LOGPROB for one in likeliest
    )


def read_logprob_list(
    reader: DocumentReader, raws: Sequence[Any], path: str, *, top: bool = True
) -> tuple[LogProb, ...]:
    """
    The log probabilities in the list *raws*; with *top*, each has those of the
    tokens that were likely in its place.
    """
    found = [
        _read_logprob(reader, raw, f"{path}[{at}]", top=top)
        for at, raw in enumerate(raws)
    ]
    return tuple(found)


def _read_logprob(reader: DocumentReader, raw: Any, path: str, *, top: bool) -> LogProb:
    if not is_map(raw):
        reader.wrong(path, raw, "an object")
        return _NOTHING

    node = ObjectReader(reader, raw, path)
    token = node.text("token")
    chance = _read_finite(raw.get("logprob"))
    if chance is None:
        node.wrong("logprob", "a finite number")
        return _NOTHING

    listed, octets = raw.get("bytes"), None
    if is_list(listed) and all(is_octet(octet) for octet in listed):
        octets = bytes(listed)
    elif listed is not None:
        node.wrong("bytes", "a list of integers from 0 to 255, or null")

    likeliest = raw.get("top_logprobs") if top else None
    if likeliest is not None and not is_list(likeliest):
        node.wrong("top_logprobs", "a list")
        likeliest = None

    path = f"{path}.top_logprobs"
    others = read_logprob_list(reader, likeliest or (), path, top=False)
    return LogProb(token, chance, octets, others)


def is_octet(value: Any) -> bool:
    """Whether *value* is an integer that fits into a byte."""
    return value.__class__ is int and value in range(256)


def _read_finite(value: Any) -> float | None:
    # `isfinite` converts an integer to a float, and raises if it is too large for one.
    if value.__class__ is int and abs(value) < 2**64:
        return float(value)

    return value if isinstance(value, float) and isfinite(value) else None
