"""
What a drawing of a difference is made of, as text, Markdown or HTML: its rows, the
excerpts of long texts with the words that differ, and the sentences about it as a
whole.

For `diffing` itself and for `pages`, which draws differences as HTML; the public face
of a difference is `Diff`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import final
from conversation_state._wording import format_count
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.messages import COMMON, Message
from conversation_state.rendering import ContentBlock, Quote

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff, Divergence, Pair

__all__ = [
    "APART",
    "BOTH",
    "CHANGED",
    "SAME",
    "MarkedText",
    "Row",
    "align_rows",
    "collect_call_names",
    "describe_common",
    "describe_ledger",
    "describe_rest",
    "elsewhere_note",
    "find_first_difference",
    "list_differing_fields",
    "mark_differences",
    "pair_blocks",
    "pair_parts",
]

# How the two entries of a row are related.
APART, SAME, BOTH, CHANGED = "apart", "same", "both", "changed"


@final
class Row(NamedTuple):
    """
    An entry of one side, and the entry of the other side beside it.

    Attributes:
        a: An entry of *a*, or None.
        b: An entry of *b*, or None.
        kind: How the two are related: unrelated entries, ``apart``; two entries
            with the ``same`` content; one entry that ``both`` have; or one
            identity with two messages, ``changed``.
        a_elsewhere: The kind of the pair that the entry of *a* makes with one of
            *b* in another row; "" if it makes none.
        b_elsewhere: The same for the entry of *b*.
    """

    a: Entry | None
    b: Entry | None
    kind: str = APART
    a_elsewhere: str = ""
    b_elsewhere: str = ""


def align_rows(
    divergence: Divergence[Entry], same: Sequence[Pair[Entry]]
) -> Iterator[Row]:
    """
    Everything both sides have since they diverged, each entry once per side.

    Keeps both orders. As many pairs as that allows are in one row; the entries
    between two such rows are beside those between them on the other side.

    O(k log k) for k pairs before the first row, and lazy from there on.
    """
    a, b = divergence.rest_a, divergence.rest_b
    pairs = [(pair, BOTH if pair.a == pair.b else CHANGED) for pair in divergence.both]
    pairs += [(pair, SAME) for pair in same]
    kinds: dict[str, str] = {}
    anchors: list[tuple[int, int, str]] = []
    if pairs:
        in_a = {entry.id: at for at, entry in enumerate(a)}
        in_b = {entry.id: at for at, entry in enumerate(b)}
        found = [(in_a[pair.a.id], in_b[pair.b.id], kind) for pair, kind in pairs]
        anchors = _find_longest_increasing(sorted(found))
        for pair, kind in pairs:
            kinds[pair.a.id] = kinds[pair.b.id] = kind

    at_a = at_b = 0
    for to_a, to_b, kind in (*anchors, (len(a), len(b), "")):
        # Items are taken by index, because slicing would make all rows before the first
        # one.
        between_a = map(a.__getitem__, range(at_a, to_a))
        between_b = map(b.__getitem__, range(at_b, to_b))
        for ours, theirs in zip_longest(between_a, between_b):
            a_kind = kinds.get(ours.id, "") if kinds and ours else ""
            b_kind = kinds.get(theirs.id, "") if kinds and theirs else ""
            yield Row(ours, theirs, APART, a_kind, b_kind)

        if kind:
            yield Row(a[to_a], b[to_b], kind)

        at_a, at_b = to_a + 1, to_b + 1


def _find_longest_increasing(
    found: list[tuple[int, int, str]],
) -> list[tuple[int, int, str]]:
    """The longest part of *found*, sorted, whose second numbers increase, too."""
    # `ends` has, for each length, the lowest second number that an increasing
    # subsequence of that length can end with.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, second, _) in enumerate(found):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [at]

    chosen = []
    at = last[-1] if last else -1
    while at >= 0:
        chosen.append(found[at])
        at = before[at]

    return chosen[::-1]


# Excerpts


# A text in pieces, each with whether the other text lacks it.
MarkedText: TypeAlias = "list[tuple[str, bool]]"
# A block, and the one beside it on the other side.
BlockPair: TypeAlias = "tuple[ContentBlock, ContentBlock | None]"

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


class _ExcerptWindow(NamedTuple):
    start: int  # where it begins, which is also how much precedes it
    stop: int  # where it ends
    after: int  # how much follows it
    differs_after: bool  # whether some of that differs from the other side


def _find_window(
    ours: Sequence[Any], theirs: Sequence[Any], most: int
) -> _ExcerptWindow:
    """
    What to show of *ours* beside *theirs*: at most *most* items.

    Begins at the same place on both sides; where nothing after it differs, it
    also ends at the same distance from the end. O(n), by comparing slices.
    """
    longest = max(len(ours), len(theirs))
    if longest <= most:
        return _ExcerptWindow(0, len(ours), 0, differs_after=False)

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

    return _ExcerptWindow(start, stop, len(ours) - stop, differs)


def pair_parts(
    blocks: Iterable[ContentBlock], others: Iterable[ContentBlock], most: int
) -> Iterator[BlockPair]:
    """
    At most *most* of *blocks*, each with the one beside it in *others*; and a block
    without a body for how many are left out.
    """
    ours, theirs = list(blocks), list(others)
    start, stop, after, differs_after = _find_window(ours, theirs, most)
    if start:
        yield _make_note(f"{format_count(start, 'part')} before"), None

    for block, other in zip_longest(ours[start:stop], theirs[start : start + most]):
        if block is not None:
            yield block, other

    if after:
        yield _describe_following(after, "more part", differs=differs_after), None


def pair_blocks(
    blocks: Iterable[ContentBlock], others: Iterable[ContentBlock], longest: int
) -> list[BlockPair]:
    """The same for a document, with a window of each body, too."""
    pairs: list[BlockPair] = []
    for block, other in pair_parts(blocks, others, _MAX_PARTS):
        pairs += _pair_windows(block, other, longest)

    return pairs


def _pair_windows(
    block: ContentBlock, other: ContentBlock | None, longest: int
) -> list[BlockPair]:
    if other is not None and other.label != block.label:
        other = None

    body, beside = block.body, other.body if other is not None else ""
    here, there = _find_window(body, beside, longest), None
    if other is not None:
        window = _find_window(beside, body, longest)
        there = other._replace(body=beside[window.start : window.stop])

    pairs: list[BlockPair] = []
    if here.start:
        before = format_count(here.start, "character")
        pairs.append((_make_note(f"{before} before"), None))

    pairs.append((block._replace(body=body[here.start : here.stop]), there))
    if here.after:
        differs = here.differs_after
        note = _describe_following(here.after, "more character", differs=differs)
        pairs.append((note, None))

    return pairs


def _describe_following(count: int, unit: str, *, differs: bool) -> ContentBlock:
    note = ", which differ, too" if differs else ""
    return _make_note(f"{format_count(count, unit)}{note}")


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


# Sentences


# The most keys with different ledger entries that are listed one by one.
_MAX_KEYS = 5


def describe_common(found: Diff) -> str:
    """What both sides have in common, without a full stop."""
    count = found.entries.common
    common = format_count(count, "message") if count else "no messages"
    if not found:
        differs = "" if found.identical else " but the id or fork point"
        return f"nothing differs{differs}: {common} in common"

    if not found.related:
        return f"{common} in common: the states are not related"

    order = ", the order of what came later differs" if found.entries.reordered else ""
    return f"{common} in common{order}"


def describe_rest(found: Diff, rows: Sequence[Row], limit: int, a: str, b: str) -> str:
    """How many messages there are besides *rows*, at most *limit*; "" if none."""
    if len(rows) < limit:
        return ""

    facts = []
    for name, rest, shown in (
        (a, found.entries.rest_a, [row for row in rows if row.a]),
        (b, found.entries.rest_b, [row for row in rows if row.b]),
    ):
        if more := len(rest) - len(shown):
            facts.append(f"{format_count(more, 'more message')} in {name}")

    return ", ".join(facts)


def describe_ledger(found: Diff, a: str, b: str, quote: Quote) -> list[str]:
    """Which side recorded which usage, a sentence each; *a* and *b* are quoted."""
    ledger = found.ledger
    facts = []
    for name, only in ((a, ledger.only_a), (b, ledger.only_b)):
        if only:
            tokens = sum([entry.usage.total_tokens for entry in only])
            count = format_count(len(only), "ledger entry", "ledger entries")
            facts.append(
                f"only {name} recorded {format_count(tokens, 'token')} ({count})"
            )

    changed = ledger.changed if ledger.both else ()
    for ours, theirs in changed[:_MAX_KEYS]:
        facts.append(
            f"under the key {quote(ours.id)} {a} recorded "
            f"{_describe_entry(ours, theirs, quote)}, {b} "
            f"{_describe_entry(theirs, ours, quote)}"
        )

    if len(changed) > _MAX_KEYS:
        keys = format_count(len(changed) - _MAX_KEYS, "more key")
        facts.append(f"under {keys} {a} and {b} recorded something else")

    if ledger.reordered:
        facts.append("the order of the ledgers differs")

    return facts


def _describe_entry(entry: LedgerEntry, other: LedgerEntry, quote: Quote) -> str:
    model = f" for {quote(entry.model)}" if entry.model else ""
    time = ""
    if other == entry._replace(at=other.at):
        time = f" at {entry.at.isoformat()}" if entry.at else " at an unknown time"

    caveat = f" ({quote(entry.caveat)})" if entry.caveat else ""
    return f"{format_count(entry.usage.total_tokens, 'token')}{model}{time}{caveat}"


def list_differing_fields(a: Message, b: Message) -> str:
    """The names of the fields that differ."""
    if type(a) is not type(b):
        return "role"

    # `_common` holds what few messages have; its fields are read by their own names.
    names = [name for name in attrs.fields_dict(type(a)) if name != "_common"]
    differ = [n for n in (*names, *COMMON) if getattr(a, n) != getattr(b, n)]
    return ", ".join(differ)


def elsewhere_note(kind: str, other: str) -> str:
    """That *other* has an entry, or one with the same content, in another place."""
    return {
        "": "",
        "both": f", elsewhere in {other}, too",
        "changed": f", elsewhere and changed in {other}",
        "same": f", same content elsewhere in {other}",
    }[kind]


def collect_call_names(*entries: Entry) -> dict[str, str]:
    """The names of the calls that *entries* make, by their ids."""
    return {call.id: call.name for each in entries for call in each.message.tool_calls}
