"""
Where two texts differ: the first place, and word by word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Pieces", "first_difference", "marked"]

# A text in pieces, each with whether the other text lacks it.
Pieces: TypeAlias = "list[tuple[str, bool]]"

# With the space before it, which is everywhere and so says nothing.
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
# What takes time is words that match, and they do so in many places where they
# repeat: cubic in the worst case, and whoever speaks may look for it.
_LONGEST = 20_000
_MOST_WORDS = 300
_MOST_MATCHES = 2_000
# Less in common than this, and marks would be noise.
_LEAST_ALIKE = 0.4


def first_difference(a: str, b: str) -> int:
    """
    The first position where two texts differ; that of an end, if one begins
    with the other. O(n), at the speed of comparing texts.
    """
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1

    return low


def marked(a: str, b: str) -> tuple[Pieces, Pieces]:
    """
    Both texts in pieces, marked where they differ; unmarked if that is nearly
    everywhere, or the texts are too long to tell.

    Bounded: what two texts begin and end with is left alone, and of what is
    between at most some hundred words are compared one by one.
    """
    if a == b or max(len(a), len(b)) > _LONGEST:
        return [(a, False)], [(b, False)]

    ours, theirs = _WORD.findall(a), _WORD.findall(b)
    least = min(len(ours), len(theirs))
    start = _alike(ours, theirs, least)
    end = _alike(ours[::-1], theirs[::-1], least - start)
    middle = ours[start : len(ours) - end], theirs[start : len(theirs) - end]
    blocks = _blocks(*middle)
    alike = sum([len("".join(middle[0][at : at + size])) for at, _, size in blocks])
    alike += len("".join(ours[:start])) + len("".join(ours[len(ours) - end :]))
    if alike < _LEAST_ALIKE * max(len(a), len(b)):
        return [(a, False)], [(b, False)]

    blocks = [
        (0, 0, start),
        *[(at + start, there + start, size) for at, there, size in blocks],
        (len(ours) - end, len(theirs) - end, end),
    ]
    return (
        _pieces(ours, [(at, size) for at, _, size in blocks]),
        _pieces(theirs, [(at, size) for _, at, size in blocks]),
    )


def _alike(ours: Sequence[str], theirs: Sequence[str], most: int) -> int:
    count = 0
    while count < most and ours[count] == theirs[count]:
        count += 1

    return count


def _blocks(ours: list[str], theirs: list[str]) -> list[tuple[int, int, int]]:
    """
    The runs of words that both have, in order; none if there are too many.
    """
    if not ours or not theirs or max(len(ours), len(theirs)) > _MOST_WORDS:
        return []

    here, there = Counter(ours), Counter(theirs)
    if sum([here[word] * there[word] for word in here]) > _MOST_MATCHES:
        return []

    from difflib import SequenceMatcher  # noqa: PLC0415 - only pages need it

    found = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [tuple(block) for block in found.get_matching_blocks() if block.size]  # type: ignore[misc]  # of three


def _pieces(words: list[str], common: list[tuple[int, int]]) -> Pieces:
    pieces: Pieces = []
    done = 0
    for at, size in (*common, (len(words), 0)):
        for start, stop, is_marked in ((done, at, True), (at, at + size, False)):
            if start < stop:
                pieces.append(("".join(words[start:stop]), is_marked))

        done = max(done, at + size)

    return pieces
