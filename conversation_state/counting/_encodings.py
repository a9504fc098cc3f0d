"""
Counting with an encoding: a function from a text to its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import attrs

from conversation_state.counting._estimate import (
    OPENAI_IMAGE,
    estimate_media,
    split_content,
)
from conversation_state.messages import Message, UnknownMessage

__all__ = ["MAX_TEXT", "EncodingCounter", "by_encoding", "count_text"]

# The patterns that split text overflow their stack somewhere behind half a
# million blanks: longer texts are counted in pieces.
MAX_TEXT = 100_000

_MESSAGE_TOKENS, _NAME_TOKENS = 3, 1


def by_encoding(encode: Callable[[str], Sized]) -> EncodingCounter:
    """
    A counter with a vocabulary of your own.

    A message is its texts, reasoning, refusals, names and arguments of calls
    and what else `by_characters` counts, with its estimates for media; its
    role; its name and a token for that; and 3 tokens around it. What a request
    adds on its own, 3 tokens for the answer to begin with and tool schemas
    (`count_tools`), belongs into the `overhead` of a budget. A text of more
    than 100,000 code points is counted in pieces of that length, which may add
    a token for each.

    Counters are equal if their *encode* is, and pickle if it does: give a
    function of a module or a method of a tokenizer that lives as long as the
    program, so that what was counted once stays counted.

    Args:
        encode: Takes a text and returns its tokens, without special ones: the
            ``encode_ordinary`` of a `tiktoken.Encoding`, for example.

    Raises:
        TypeError:
            If *encode* isn't a function.

    Source:
        3 tokens for a message and 1 for a name are what OpenAI's cookbook
        gives for all chat models since gpt-3.5-turbo-0613. How calls and tools
        are written to the model is not documented.

    >>> from conversation_state.messages import UserMessage
    >>> by_encoding(str.split)(UserMessage("When does it leave?"))
    8
    """
    if not callable(encode):
        msg = f"encode: expected a function from a text to tokens, got {encode!r:.80}"
        raise TypeError(msg)

    return EncodingCounter(encode)


@attrs.frozen(repr=False)
class EncodingCounter:
    """
    The counter that `by_encoding` and `by_tiktoken` make.
    """

    _encode: Callable[[str], Sized]

    def __call__(self, message: Message, /) -> int:
        encode = self._encode
        texts, media = split_content(message)
        if not isinstance(message, UnknownMessage):
            texts.append(message.role)

        tokens = _MESSAGE_TOKENS
        if message.name:
            texts.append(message.name)
            tokens += _NAME_TOKENS

        for text in texts:
            if len(text) <= MAX_TEXT:
                tokens += len(encode(text))
            else:
                tokens += count_text(encode, text)

        return tokens + estimate_media(media, OPENAI_IMAGE) if media else tokens

    def __repr__(self) -> str:
        maker: Any = getattr(self._encode, "counter_repr", None)
        return maker() if maker else f"by_encoding({self._encode!r})"


def count_text(encode: Callable[[str], Sized], text: str) -> int:
    """
    How many tokens *text* has, in pieces that *encode* can take.
    """
    starts = range(0, len(text), MAX_TEXT)
    return sum([len(encode(text[start : start + MAX_TEXT])) for start in starts])
