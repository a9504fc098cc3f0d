"""
Where two texts differ, and what is shown of long ones: the beginning, or what
is around the first difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from conversation_state._wording import format_count
from conversation_state.rendering import ContentBlock

__all__ = [
    "ExcerptWindow",
    "MarkedText",
    "describe_following",
    "find_first_difference",
    "find_window",
    "mark_differences",
    "pair_blocks",
]

# A text in pieces, each with whether the other text lacks it.
MarkedText: TypeAlias = "list[tuple[str, bool]]"

# The most parts of a message in a document.
_MAX_PARTS = 100
# This share of what is shown, in parts of it, comes before the first difference.
_SHARE_BEFORE = 4

# A word with the space before it, since a match of spaces alone means nothing.
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
# Comparing words is cubic where many of them repeat, and a message may be made
# so that they do. Beyond these limits nothing is compared.
_MAX_MARKED_LENGTH = 20_000
_MAX_WORDS = 300
_MAX_MATCHES = 2_000
# With a smaller share in common, marks would be everywhere.
_MIN_COMMON = 0.4


class ExcerptWindow(NamedTuple):
    start: int  # where it begins, which is also how much precedes it
    stop: int  # where it ends
    after: int  # how much follows it
    differs_after: bool  # whether some of that differs from the other side


def find_window(ours: Sequence[Any], theirs: Sequence[Any], most: int) -> ExcerptWindow:
    """
    What to show of *ours* beside *theirs*: at most *most* items.

    Begins at the same place on both sides; where nothing after it differs, it
    also ends at the same distance from the end. O(n), by comparing slices.
    """
    longest = max(len(ours), len(theirs))
    if longest <= most:
        return ExcerptWindow(0, len(ours), 0, differs_after=False)

    start = 0
    at = find_first_difference(ours, theirs) if theirs else 0
    if at + most // _SHARE_BEFORE > most and at < longest:
        start = at - most // _SHARE_BEFORE

    stop, differs = min(start + most, len(ours)), False
    if theirs and at < longest:
        # Not back over the first difference: "aab" and "ab" end alike before it, too.
        least = min(len(ours), len(theirs)) - at
        ending = find_first_difference(ours[::-1][:least], theirs[::-1][:least])
        after = max(longest - start - most, 0)
        if after <= ending:
            stop = len(ours) - after
        else:
            differs = stop < len(ours) - ending

    return ExcerptWindow(start, stop, len(ours) - stop, differs)


def pair_blocks(
    blocks: Iterable[ContentBlock], others: Iterable[ContentBlock], longest: int
) -> list[tuple[ContentBlock, ContentBlock | None]]:
    """
    What is shown of *blocks*, each with the one beside it in *others*: a window
    of the parts and of each body, and a block for how much each leaves out.
    """
    ours, theirs = list(blocks), list(others)
    parts = find_window(ours, theirs, _MAX_PARTS)
    pairs: list[tuple[ContentBlock, ContentBlock | None]] = []
    if parts.start:
        pairs.append((_make_note(f"{format_count(parts.start, 'part')} before"), None))

    shown = zip_longest(
        ours[parts.start : parts.stop], theirs[parts.start : parts.start + _MAX_PARTS]
    )
    for block, other in shown:
        if block is not None:
            pairs += _pair_windows(block, other, longest)

    if parts.after:
        pairs.append((_make_note(describe_following(parts, "more part")), None))

    return pairs


def _pair_windows(
    block: ContentBlock, other: ContentBlock | None, longest: int
) -> list[tuple[ContentBlock, ContentBlock | None]]:
    if other is not None and other.label != block.label:
        other = None

    body, beside = block.body, other.body if other is not None else ""
    here, there = find_window(body, beside, longest), None
    if other is not None:
        window = find_window(beside, body, longest)
        there = other._replace(body=beside[window.start : window.stop])

    pairs: list[tuple[ContentBlock, ContentBlock | None]] = []
    if here.start:
        before = format_count(here.start, "character")
        pairs.append((_make_note(f"{before} before"), None))

    pairs.append((block._replace(body=body[here.start : here.stop]), there))
    if here.after:
        pairs.append((_make_note(describe_following(here, "more character")), None))

    return pairs


def describe_following(window: ExcerptWindow, unit: str) -> str:
    """
    How many units follow a window, and whether they differ from the other side.
    """
    rest = format_count(window.after, unit)
    return f"{rest}, which differ, too" if window.differs_after else rest


def _make_note(text: str) -> ContentBlock:
    return ContentBlock(f"... {text}", "")


def find_first_difference(a: Sequence[Any], b: Sequence[Any]) -> int:
    """
    The first position where two texts, or other sequences, differ; the length
    of the shorter one if the other begins with it. O(n), by comparing slices.
    """
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1

    return low


def mark_differences(a: str, b: str) -> tuple[MarkedText, MarkedText]:
    """
    Both texts in pieces, marked where they differ; unmarked if that is nearly
    everywhere, or the texts are too long to compare.

    Bounded: a common start and end are skipped, and between them at most
    `_MAX_WORDS` words are compared one by one.
    """
    if a == b or max(len(a), len(b)) > _MAX_MARKED_LENGTH:
        return [(a, False)], [(b, False)]

    ours, theirs = _WORD.findall(a), _WORD.findall(b)
    least = min(len(ours), len(theirs))
    start = find_first_difference(ours, theirs)
    ending = find_first_difference(ours[::-1], theirs[::-1])
    # What repeats may be counted at both ends: "a a" begins and ends as "a" does.
    ending = min(ending, least - start)
    middle = ours[start : len(ours) - ending], theirs[start : len(theirs) - ending]
    runs = _find_common_runs(*middle)
    common = sum([len("".join(middle[0][at : at + size])) for at, _, size in runs])
    common += len("".join(ours[:start])) + len("".join(ours[len(ours) - ending :]))
    if common < _MIN_COMMON * max(len(a), len(b)):
        return [(a, False)], [(b, False)]

    runs = [
        (0, 0, start),
        *[(at + start, there + start, size) for at, there, size in runs],
        (len(ours) - ending, len(theirs) - ending, ending),
    ]
    return (
        _join_pieces(ours, [(at, size) for at, _, size in runs]),
        _join_pieces(theirs, [(at, size) for _, at, size in runs]),
    )


def _find_common_runs(ours: list[str], theirs: list[str]) -> list[tuple[int, int, int]]:
    if not ours or not theirs or max(len(ours), len(theirs)) > _MAX_WORDS:
        return []

    here, there = Counter(ours), Counter(theirs)
    if sum([here[word] * there[word] for word in here]) > _MAX_MATCHES:
        return []

    from difflib import SequenceMatcher  # noqa: PLC0415 - only HTML needs it

    # By default a word that is frequent among two hundred or more is ignored.
    found = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [tuple(block) for block in found.get_matching_blocks() if block.size]  # type: ignore[misc]  # of three


def _join_pieces(words: list[str], common: list[tuple[int, int]]) -> MarkedText:
    pieces: MarkedText = []
    done = 0
    for at, size in (*common, (len(words), 0)):
        for start, stop, is_marked in ((done, at, True), (at, at + size, False)):
            if start < stop:
                pieces.append(("".join(words[start:stop]), is_marked))

        done = max(done, at + size)

    return pieces
