"""
Texts with a form: ids and names, of which providers take some characters only, and only
so many.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from hashlib import sha256

import attrs

from conversation_state._persistent import final

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGEST = 10  # how many digits tell two long texts apart


@final
@attrs.frozen
class TextRule:
    """
    The form that a provider asks of an id or a name.

    Attributes:
        max_length: At most so many characters.
        characters: Which ones, as in a class of a regular expression, without the
            brackets: ``a-zA-Z0-9_-``.
        first: Which ones may come first, likewise; "" for any of *characters*.
        length: Exactly so many characters, as Mistral wants; None for any number
            from 1 to *max_length*.
        default: What stands for an empty text.

    >>> rule = TextRule(12, "a-zA-Z0-9_-")
    >>> rule.is_valid("multi.tool"), rule.fix("multi.tool")
    (False, 'multi_tool')
    """

    max_length: int
    characters: str
    first: str = ""
    length: int | None = None
    default: str = "call"

    # Made when it is first asked for, and kept: each message asks, and importing should
    # compile nothing.
    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What matches a whole valid text."""
        first, most = self.first or self.characters, self.max_length - 1
        count = f"{{0,{most}}}" if self.length is None else f"{{{self.length - 1}}}"
        return re.compile(f"[{first}][{self.characters}]{count}\\Z")

    def __str__(self) -> str:
        """The rule for people, as in *1 to 64 letters, digits, _ and -*."""
        size = f"1 to {self.max_length}" if self.length is None else str(self.length)
        first = f", the first {_describe_class(self.first, 'or')}" if self.first else ""
        return f"{size} {_describe_class(self.characters, 'and')}{first}"

    def is_valid(self, text: str) -> bool:
        """Whether the provider takes *text* as it is."""
        return self.pattern.match(text) is not None

    def fix(self, text: str, seed: str = "") -> str:
        """
        A valid text for *text*: itself if it is valid, else as much of it as is
        readable.

        Deterministic. Other characters are sent as ``_``. What is too long ends in a
        digest of the whole, so that two long texts don't become one.

        Args:
            text: The text.
            seed: What distinguishes this use of *text* from another one, such as an
                ordinal; the result ends in it. "" for the first use.
        """
        if not seed and self.is_valid(text):
            return text

        return _make_valid(self, text, seed)


def _describe_class(characters: str, last: str) -> str:
    """
    The *characters* of a class for people.

    >>> _describe_class("a-zA-Z0-9_-", "and")
    'letters, digits, _ and -'
    """
    words = []
    for group, word in _GROUPS.items():
        if group in characters:
            words.append(word)
            characters = characters.replace(group, "")

    *words, end = [*words, *characters.replace("\\", "")]
    return f"{', '.join(words)} {last} {end}" if words else end


_GROUPS = {"\\s\\S": "characters", "a-zA-Z": "letters", "0-9": "digits"}


# A view is made for each request, and most of its ids were in the one before.
@lru_cache(maxsize=4096)
def _make_valid(rule: TextRule, text: str, seed: str) -> str:
    if rule.length is not None:
        return _write_digest(text, seed, rule.length)

    foreign = re.compile(f"[^{rule.characters}]")
    filler = "" if foreign.match("_") else "_"
    joint = "" if foreign.match("-") else "-"
    readable = foreign.sub(filler, text) or rule.default
    if rule.first and not re.match(f"[{rule.first}]", readable):
        readable = rule.default[:1] + filler + readable

    tail = joint + foreign.sub(filler, seed) if seed else ""
    if len(readable) + len(tail) > rule.max_length:
        tail = joint + _write_digest(text, seed, _DIGEST)
        readable = readable[: rule.max_length - len(tail)]

    return readable + tail


def _write_digest(text: str, seed: str, length: int) -> str:
    data = f"{seed}\n{text}".encode("utf-8", "surrogatepass")
    number, digits = int.from_bytes(sha256(data).digest()), []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])

    return "".join(digits)
