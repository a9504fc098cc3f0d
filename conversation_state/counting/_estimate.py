"""
Counting tokens: each message once for each counter, an estimate without a vocabulary,
also for the schemas of tools, a counter with an encoding, a function from a text to its
tokens, and one that is scaled to the tokens that a provider reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sized
from math import gcd
from operator import index
from typing import Any, Protocol, TypeAlias

import attrs

from conversation_state._persistent import check_list, final, freeze_map
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.counting._budget import check_tokens
from conversation_state.counting._encoded_media import EncodedMedia, extract_media
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UnknownMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolInfo
from conversation_state.usage import Usage


class TokenCounter(Protocol):
    """
    **Protocol:** anything that counts the tokens of a message.

    Called once for each message (see `count`): must be pure, and the same for
    equal messages. Counts may be estimates; trimming only needs non-negative
    integers. A plain function will do.
    """

    def __call__(self, message: Message, /) -> int:
        """The number of tokens of *message*."""
        ...


# Counter, tokens, counter, tokens, …: pairs would take twice the memory, in every
# message.
Weights: TypeAlias = "tuple[Any, ...]"
_set = object.__setattr__

# A message caches the counts of so many counters; one more evicts the oldest.
_COUNTERS = 4


def count(message: Message, counter: TokenCounter) -> int:
    """
    The count of *counter* for *message*; called once, then cached in the message.

    The cache is shared by all states and conversations that contain the message.
    It has four counters, which are compared by equality: a program that makes a new
    function each time counts each time, and uses no more memory.

    Raises:
        ValueError: If *counter* returns something else than a non-negative integer.
    """
    # The argument is checked after the cache, which has the answer for most calls. The
    # cache is replaced as a whole and without a lock: if two threads count at once, one
    # of the two counts may be lost, and is made again when it is asked for.
    weights: Weights = getattr(message, "_weights", ())
    if weights and weights[0] is counter:
        return weights[1]  # type: ignore[no-any-return]

    # The default calls no counter and returns an integer, so nothing of that is asked.
    if not weights and counter is by_characters:
        tokens = by_characters(message)
        _set(message, "_weights", (counter, tokens))
        return tokens

    for at in range(0, len(weights), 2):
        known = weights[at]
        if known is counter or known == counter:
            if at == 2 * _COUNTERS - 2:
                # It is in use, so the next new one must not evict it.
                _set(message, "_weights", (*weights[at:], *weights[:at]))

            return weights[at + 1]  # type: ignore[no-any-return]

    if not isinstance(message, Message):
        raise TypeError(f"message: expected a Message, got {describe_value(message)}")

    if not callable(counter):
        raise TypeError(f"counter: expected a function, got {describe_value(counter)}")

    result: Any = counter(message)
    try:
        tokens = index(result)
    except TypeError:
        tokens = -1

    if tokens < 0:
        raise ValueError(
            f"{shorten_repr(counter)}: expected a number of tokens, an integer from 0 "
            f"on, got {shorten_repr(result)} for {shorten_repr(message)}"
        )

    # Read again: *counter* may have called `count` with another counter.
    weights = getattr(message, "_weights", ())
    _set(message, "_weights", (counter, tokens, *weights[: 2 * _COUNTERS - 2]))
    return tokens


_CHARACTERS = 4

# Media by URL: their size is unknown.
_BY_URL = 1_000
# Bytes per token, at usual bit rates: speech of 64 kbit/s at 16 tokens a
# second, video of 1 Mbit/s at 300; a page of a PDF has 30 kB and 1,000 tokens.
_BYTES: Mapping[type[Part], int] = {AudioPart: 500, VideoPart: 400, FilePart: 30}
_KINDS: Mapping[str, type[Part]] = {
    "audio": AudioPart,
    "file": FilePart,
    "video": VideoPart,
}


# What OpenAI charges for an image of 1,024 by 1,024 pixels, and for low detail.
_IMAGE, _LOW_DETAIL = 765, 85


def by_characters(message: Message) -> int:
    """
    Code points by four, rounded up: the default estimate.

    Counted are texts, reasoning, refusals, and names and arguments of tool
    calls. What is kept verbatim counts as its JSON text, without media in base64, which
    count as media do: an image that a provider's tool made, for example. Media add
    a flat estimate: an image 765 tokens (85 in low detail); audio, video and
    other files a token for 500, 400 and 30 bytes, files of text one for four
    bytes, and 1,000 tokens if they are given by url.

    Too low for Chinese, Japanese and Korean, by up to four times; a counter
    with the model's own vocabulary does better.

    Source:
        phronomy's `TokenEstimator`, which rounds up for each message too.
    """
    # Most messages are a text, and a long conversation has many of them.
    content: Any = getattr(message, "content", None)
    if (
        content.__class__ is str
        and isinstance(message, Message)
        and not message.tool_calls
    ):
        return -(-len(content) // _CHARACTERS)

    texts, media = _split_content(message)
    characters = 0
    for text in texts:
        characters += len(text)

    tokens = -(-characters // _CHARACTERS)
    return tokens + _estimate_media(media) if media else tokens


# Views and trimmers hold it, and pickles name a function by its module.
by_characters.__module__ = "conversation_state.counting"


def _split_content(message: Message) -> tuple[list[str], list[Part | EncodedMedia]]:
    """The texts of *message* that are counted, and its media, verbatim ones too."""
    media: list[Part | EncodedMedia] = []
    if isinstance(message, UnknownMessage):
        return [_split_raw(message.raw, media)], media

    if not isinstance(message, Message):
        raise TypeError(f"message: expected a Message, got {describe_value(message)}")

    content = message.content  # type: ignore[attr-defined]  # all others have some
    if content.__class__ is str:
        texts = [content]
    else:
        texts = []
        for part in content:
            if isinstance(part, (TextPart, ReasoningPart, RefusalPart)):
                texts.append(part.text)
            elif isinstance(part, UnknownPart):
                texts.append(_split_raw(part.raw, media))
            else:
                media.append(part)

    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            texts += (call.name, call.arguments)

    return texts, media


# Source: Gemini signs parts of all kinds, code that it runs say.
_SIGNATURES = ("thoughtSignature", "thought_signature")


def _without_signatures(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_signatures(value[key])
            for key in value
            if key not in _SIGNATURES
        }

    if isinstance(value, (list, tuple)):
        return [_without_signatures(item) for item in value]

    return value


# A verbatim value without these, and no longer than this, has no media.
_HINTS = ("data:", "base64", "edia", "ime")
_SHORT = 512


def _split_raw(raw: Mapping[str, Any], media: list[Part | EncodedMedia]) -> str:
    """
    The JSON text of *raw* without media, which are added to *media*, and without the
    signatures of thoughts, which are counted nowhere.
    """
    text = format_json(raw)
    if any(f'"{key}"' in text for key in _SIGNATURES):
        raw = _without_signatures(raw)
        text = format_json(raw)

    if len(text) < _SHORT and not any(hint in text for hint in _HINTS):
        return text

    stripped, found = extract_media(raw)
    if not found:
        return text

    media += found
    return format_json(stripped)


def format_json(value: Mapping[str, Any]) -> str:
    """
    The JSON text of a frozen value: keys sorted, so that equal values count the
    same; characters as they are.
    """
    return json.dumps(freeze_map(value, "it"), ensure_ascii=False)


def _estimate_media(media: list[Part | EncodedMedia]) -> int:
    return sum([_estimate_part(part) for part in media])


def _estimate_part(part: Part | EncodedMedia) -> int:
    if isinstance(part, EncodedMedia):
        if part.kind == "image":
            return _LOW_DETAIL if part.detail == "low" else _IMAGE

        return _estimate_bytes(_KINDS[part.kind], part.size, part.media_type)

    if isinstance(part, ImagePart):
        return _LOW_DETAIL if part.detail == "low" else _IMAGE

    if not isinstance(part, (AudioPart, VideoPart, FilePart)) or part.data is None:
        return _BY_URL

    return _estimate_bytes(type(part), len(part.data), part.media_type)


def _estimate_bytes(kind: type[Part], size: int, media_type: str) -> int:
    bytes_a_token = _CHARACTERS if media_type.startswith("text/") else _BYTES[kind]
    return -(-size // bytes_a_token)


def count_tools(
    tool_infos: Iterable[ToolInfo], counter: TokenCounter = by_characters
) -> int:
    """
    The number of tokens of tools' schemas, which are sent with the messages.

    Each tool counts as a system message with its name, description and
    JSON Schema (keys sorted) as compact JSON. Absent fields are left out,
    metadata are not sent, and the order of tools makes no difference.

    An estimate: providers rewrite schemas before the model reads them, each in
    its own way, and document none of it. `calibrated` measures the result.

    >>> count_tools([ToolInfo("clock", "Tells the time.")])
    12
    """
    check_list(tool_infos, "tool_infos", "a list of ToolInfos")
    tokens = 0
    for tool in tool_infos:
        if not isinstance(tool, ToolInfo):
            raise TypeError(
                f"tool_infos: expected ToolInfos, got {describe_value(tool)}"
            )

        tokens += count(SystemMessage(_format_tool(tool)), counter)

    return tokens


def _format_tool(tool: ToolInfo) -> str:
    """
    The text that *tool* is counted as.

    >>> _format_tool(ToolInfo("clock", parameters={}))
    '{"name":"clock","parameters":{"properties":{},"type":"object"}}'
    """
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description

    if tool.schema is not None:
        # Sorted: equal schemas count the same, whichever way they were given.
        fields["parameters"] = freeze_map(tool.schema, "parameters")

    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


# The patterns that split text overflow their stack somewhere behind half a
# million blanks: longer texts are counted in pieces.
_MAX_TEXT = 100_000

_MESSAGE_TOKENS, _NAME_TOKENS = 3, 1


def by_encoding(encode: Callable[[str], Sized]) -> EncodingCounter:
    """
    A counter with a tokenizer's own function from a text to its tokens.

    Counted are texts, reasoning, refusals, names and arguments of calls and
    all else that `by_characters` counts, with its estimates for media; the role;
    the name, and a token for it; and 3 tokens around each message. The tokens that
    a request adds, 3 with which the answer begins and tool schemas (`count_tools`),
    belong into the `overhead` of a budget. A text of more than 100,000 code points
    is counted in pieces of that length, which may add a token for each.

    Counters are equal if their *encode* is, and pickle if it does: give a
    function of a module or a method of a tokenizer that lives as long as the
    program, so that what was counted once stays counted.

    Args:
        encode: Takes a text and returns its tokens, without special ones: the
            ``encode_ordinary`` of a `tiktoken.Encoding`, for example.

    Raises:
        TypeError: If *encode* isn't a function.

    Source:
        3 tokens for a message and 1 for a name are what OpenAI's cookbook
        gives for all chat models since gpt-3.5-turbo-0613. How calls and tools
        are written to the model is not documented.

    >>> from conversation_state.messages import UserMessage
    >>> by_encoding(str.split)(UserMessage("When does it leave?"))
    8
    """
    if not callable(encode):
        raise TypeError(
            "encode: expected a function from a text to tokens, got "
            f"{shorten_repr(encode)}"
        )

    return EncodingCounter(encode)


@attrs.frozen(repr=False)
class EncodingCounter:
    """The counter that `by_encoding` makes."""

    _encode: Callable[[str], Sized]

    def __call__(self, message: Message, /) -> int:
        encode = self._encode
        texts, media = _split_content(message)
        if not isinstance(message, UnknownMessage):
            texts.append(message.role)

        tokens = _MESSAGE_TOKENS
        if message.name:
            texts.append(message.name)
            tokens += _NAME_TOKENS

        for text in texts:
            if len(text) <= _MAX_TEXT:
                tokens += len(encode(text))
            else:
                tokens += _count_pieces(encode, text)

        return tokens + _estimate_media(media) if media else tokens

    def __repr__(self) -> str:
        return f"by_encoding({self._encode!r})"


def _count_pieces(encode: Callable[[str], Sized], text: str) -> int:
    """How many tokens *text* has, in pieces that *encode* can take."""
    starts = range(0, len(text), _MAX_TEXT)
    return sum([len(encode(text[start : start + _MAX_TEXT])) for start in starts])


@final
@attrs.frozen
class Calibrated:
    """
    Another counter, scaled; made by `calibrated`.

    A `TokenCounter`, and a value: equal if counter and scale are; picklable if
    the counter is. Larger counts stay larger, 0 stays 0, and no other count
    becomes 0.

    Attributes:
        counter: The counter that is scaled; still called once for a message.
        charged: The numerator of the scale in lowest terms: reported tokens ...
        counted: ... and its denominator: tokens by *counter*.
    """

    counter: TokenCounter
    charged: int
    counted: int

    def __call__(self, message: Message, /) -> int:
        """The scaled count, rounded up."""
        # In integers, which are exact however large both sums are.
        return -(-count(message, self.counter) * self.charged // self.counted)


def calibrated(
    counter: TokenCounter,
    samples: Iterable[tuple[Iterable[Message], int | Usage]],
    *,
    overhead: int = 0,
) -> Calibrated:
    """
    *counter*, scaled so that its total for all *samples* is what was reported.

    The scale is the ratio of the two sums: long prompts weigh more than short ones,
    and a few samples suffice. Counts are rounded up, so the total of all samples is
    at least what was reported, and less than one token a message more.

    Args:
        counter: The counter to scale.
        samples: Prompts that were sent: their messages, and the tokens that
            the provider reported for them, as a number or a `Usage`.
        overhead: The tokens of each report that were not messages, for example
            tool schemas (see `count_tools`).

    Raises:
        ValueError: If there are no samples, or if one has no reported tokens besides
            the overhead, no counted ones, or something else than a number of tokens.
        TypeError: If a sample is something else than a pair, or has other things than
            messages.

    >>> from conversation_state.counting import by_characters
    >>> from conversation_state.messages import UserMessage
    >>> question = UserMessage("When does the next train leave?")
    >>> better = calibrated(by_characters, [([question], 12)])
    >>> by_characters(question), better(question), better(UserMessage("Thanks!"))
    (8, 12, 3)
    """
    check_tokens("overhead", overhead)
    check_list(samples, "samples", "pairs of messages and their tokens")
    charged = counted = 0
    for number, sample in enumerate(samples):
        try:
            messages, reported = sample
        except (TypeError, ValueError):
            raise TypeError(
                f"sample {number} is {shorten_repr(sample)}; expected a pair of "
                "messages and the prompt tokens reported for them"
            ) from None

        if isinstance(reported, Usage):
            reported = reported.prompt_tokens

        check_tokens(f"the report of sample {number}", reported)
        tokens = sum([count(message, counter) for message in messages])
        if reported <= overhead:
            raise ValueError(
                f"sample {number} reports {reported} prompt tokens, {overhead} of them "
                "overhead, which leaves none for its messages. Leave out prompts "
                "without reported tokens"
            )

        if not tokens:
            raise ValueError(
                f"{shorten_repr(counter)} counts no tokens in sample {number}; leave "
                "it out"
            )

        charged += reported - overhead
        counted += tokens

    if not counted:
        raise ValueError(
            "there are no samples; a counter needs one prompt at least to be scaled"
        )

    # In lowest terms, so that counters of one scale are equal: messages remember
    # their counts by the counter.
    common = gcd(charged, counted)
    return Calibrated(counter, charged // common, counted // common)
