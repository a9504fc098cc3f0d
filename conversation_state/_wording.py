"""
Wording that messages, errors and reprs of all layers share.
"""

from __future__ import annotations

__all__ = ["format_count", "shorten_repr", "shorten_text"]


def format_count(count: int, noun: str, plural: str = "") -> str:
    """
    So many of them: ``1 message``, ``2,000 messages``.

    *plural* is given where it is not the noun and an *s*.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def shorten_repr(value: object, limit: int = 60) -> str:
    """
    The repr of *value* for an error's message: at most *limit* characters.
    """
    return shorten_text(repr(value), limit)


def shorten_text(text: str, limit: int) -> str:
    """
    *text*, or its beginning and three dots: at most *limit* characters.
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
