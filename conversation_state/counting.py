"""
Counting: how many tokens a message fills, and how many there is room for.

Counts here are *estimates*, made before a model is asked; what a provider
counted afterwards is `usage`. What lives here: counters, and the budget that
is left of a model's window. What does not: choosing what fits (`trimming`).
"""

from __future__ import annotations

from operator import index
from typing import Any, Protocol

import attrs

from conversation_state._persistent import thaw
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
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

__all__ = ["TokenBudget", "TokenCounter", "by_characters", "count"]


class TokenCounter(Protocol):
    """
    **Protocol:** anything that can say how many tokens a message fills.

    Called once in a message's life (see `count`): must be pure, and the same
    for equal messages. Counts may be estimates; trimming only relies on them
    being non-negative integers.
    """

    def __call__(self, message: Message, /) -> int:
        """
        How many tokens *message* fills.
        """
        ...


# How many counters a message remembers; more, and the oldest goes.
_COUNTERS = 4


def count(message: Message, counter: TokenCounter) -> int:
    """
    What *counter* says of *message*; asked once, then remembered with it.

    Remembered for the last four counters, wherever the message is met: in
    forks, in later states, in other conversations.

    Raises:
        ValueError:
            If *counter* gives something else than a non-negative integer.
    """
    try:
        weights = message._weights
    except AttributeError:
        weights = ()
    else:
        for known, tokens in weights:
            if known is counter or known == counter:
                return tokens

    given: Any = counter(message)
    try:
        tokens = index(given)
    except TypeError:
        tokens = -1

    if tokens < 0:
        msg = (
            f"{counter!r} gave {given!r} for {message!r:.80}; expected a count of "
            "tokens, an integer from 0 on"
        )
        raise ValueError(msg)

    kept = ((counter, tokens), *weights[: _COUNTERS - 1])
    object.__setattr__(message, "_weights", kept)
    return tokens


_CHARACTERS = 4

# An image is what OpenAI charges for 1,024 by 1,024 pixels, or for low detail.
_IMAGE, _IMAGE_LOW = 765, 85
# Media by url, whose size nobody knows here.
_BY_URL = 1_000
# Bytes to a token, at usual bit rates: speech of 64 kbit/s at 16 tokens a
# second, video of 1 Mbit/s at 300; a page of a PDF has 30 kB and 1,000 tokens.
_BYTES = {AudioPart: 500, VideoPart: 400, FilePart: 30}


def by_characters(message: Message) -> int:
    """
    Code points by four, rounded up: the default estimate.

    Counted are texts, reasoning, refusals, and names and arguments of tool
    calls. What this version has no word for counts as its JSON text. Media add
    a flat estimate: an image 765 tokens (85 in low detail); audio, video and
    other files a token for 500, 400 and 30 bytes, files of text one for four
    bytes, and 1,000 tokens if they are given by url.

    Too low for Chinese, Japanese and Korean, by up to four times; a counter
    with the model's own vocabulary does better.

    Source:
        phronomy's `TokenEstimator`, which rounds up for each message too.
    """
    if isinstance(message, UnknownMessage):
        return -(-_json_length(message.raw) // _CHARACTERS)

    content = message.content  # type: ignore[attr-defined]  # all others have some
    characters, tokens = 0, 0
    if content.__class__ is str:
        characters = len(content)
    else:
        for part in content:
            if isinstance(part, (TextPart, ReasoningPart, RefusalPart)):
                characters += len(part.text)
            elif isinstance(part, UnknownPart):
                characters += _json_length(part.raw)
            else:
                tokens += _media(part)

    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            characters += len(call.name) + len(call.arguments)

    return tokens - (-characters // _CHARACTERS)


def _json_length(raw: Any) -> int:
    import json  # noqa: PLC0415 - seldom needed, and slow to import

    return len(json.dumps(thaw(raw), ensure_ascii=False))


def _media(part: Part) -> int:
    if isinstance(part, ImagePart):
        return _IMAGE_LOW if part.detail == "low" else _IMAGE

    if not isinstance(part, (AudioPart, VideoPart, FilePart)) or part.data is None:
        return _BY_URL

    bytes_a_token = _BYTES[type(part)]
    if part.media_type.startswith("text/"):
        bytes_a_token = _CHARACTERS

    return -(-len(part.data) // bytes_a_token)


def _tokens(name: str, given: Any) -> int:
    if given.__class__ is not int or given < 0:
        msg = f"{name} is {given!r}; expected a number of tokens, 0 or more"
        raise ValueError(msg)

    return given


def _given(context_window: int | None) -> int:
    if context_window is None:
        msg = "a budget needs context_window, the model's window in tokens"
        raise ValueError(msg)

    return context_window


@attrs.frozen(kw_only=True)
class TokenBudget:
    """
    How many tokens of a model's window are left for history.

    Attributes:
        context_window: All the model can read and write at once, in tokens.

        max_output_tokens: What is kept free for its answer.

        overhead: What is sent beside the messages, tool schemas say.

    Raises:
        ValueError:
            If *context_window* is left out, or a number is negative or no
            integer.

    >>> budget = TokenBudget(context_window=8_000, max_output_tokens=1_000)
    >>> budget.effective_input_limit, budget.available(6_500)
    (7000, 500)
    """

    context_window: int = attrs.field(default=None, converter=_given)
    max_output_tokens: int = 0
    overhead: int = 0

    def __attrs_post_init__(self) -> None:
        _tokens("context_window", self.context_window)
        _tokens("max_output_tokens", self.max_output_tokens)
        _tokens("overhead", self.overhead)

    @property
    def effective_input_limit(self) -> int:
        """
        What messages may fill, in tokens; 0 if the rest fills the window.
        """
        return max(self.context_window - self.max_output_tokens - self.overhead, 0)

    def available(self, used: int = 0) -> int:
        """
        What is left of that when *used* tokens are spent on something else.
        """
        return max(self.effective_input_limit - _tokens("used", used), 0)
