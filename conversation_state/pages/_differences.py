"""The difference between two states, in two columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from conversation_state._wording import format_count
from conversation_state.aggregator import Entry
from conversation_state.diffing import Diff
from conversation_state.diffing.drawing import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    MarkedText,
    Row,
    align_rows,
    collect_call_names,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    list_differing_fields,
    mark_differences,
    pair_blocks,
)
from conversation_state.pages._markup import Child, Markup, Words, element, join_markup
from conversation_state.rendering import (
    ContentBlock,
    escape_invisible,
    format_heading,
    iterate_blocks,
)

# The names of the calls made so far, by their ids.
CallNames = dict[str, str]

# The most characters of a part, how many are shown without unfolding it, and how many
# stand for it until then.
_MAX_BODY = 10_000
_MAX_UNFOLDED = 700
_EXCERPT = 70

_NOTES = {BOTH: "in both", SAME: "same content in both", CHANGED: "changed", APART: ""}


class _Side(NamedTuple):
    name: Markup  # what it is called, as code
    column: str  # the class of its cells
    mark: str  # the element of the words that the other side lacks
    calls: CallNames  # the names of the calls made so far, by their ids


def draw_columns(
    found: Diff, words: Words, *, names: tuple[str, str], limit: int
) -> list[Markup]:
    """
    *found* in two columns: *a* on the left, *b* on the right.

    What both have in common is folded, and so are long texts, of which at most 10,000
    characters are included, around the first difference; where two neighbouring
    messages differ a little, the words are marked.
    At most *limit* messages of each side are shown.
    """
    calls = collect_call_names(*found.context)
    a = _Side(words.code(names[0]), "cs-a", "del", calls)
    b = _Side(words.code(names[1]), "cs-b", "ins", dict(calls))
    rows = list(islice(align_rows(found.entries, found.same), limit))
    pieces = [_draw_common(found, words)]
    if rows:
        pieces.append(_draw_table(found, rows, a, b, words))

    rest = describe_rest(found, rows, limit, a.name, b.name)
    facts = [rest] if rest else []
    facts += describe_ledger(found, a.name, b.name, words.code)
    # Names in them went through `Words`, and so did keys and models.
    return pieces + [element("div", None, Markup(fact)) for fact in facts]


def _draw_common(found: Diff, words: Words) -> Markup:
    summary = describe_common(found)
    if not found.context:
        return element("div", None, summary)

    calls: CallNames = {}
    before = found.entries.common - len(found.context)
    rest = f"{format_count(before, 'message')} before these" if before else ""
    return element(
        "details",
        None,
        element("summary", None, summary),
        element("div", {"class": "cs-rest"}, rest) if rest else None,
        [
            element("div", {"class": "cs-both"}, _draw_message(each, calls, words))
            for each in found.context
        ],
    )


def _draw_table(
    found: Diff, rows: Iterable[Row], a: _Side, b: _Side, words: Words
) -> Markup:
    common = found.entries.common
    heads = [
        element(
            "th",
            None,
            side.name,
            f": {format_count(common + len(rest), 'message')}",
        )
        for side, rest in ((a, found.entries.rest_a), (b, found.entries.rest_b))
    ]
    return element(
        "table",
        {"class": "cs-diff"},
        element("thead", None, element("tr", None, heads)),
        element("tbody", None, [_draw_row(row, a, b, words) for row in rows]),
    )


def _draw_row(row: Row, a: _Side, b: _Side, words: Words) -> Markup:
    if row.a is not None and row.b is not None and row.kind != APART:
        note = _NOTES[row.kind]
        if row.kind == CHANGED:
            fields = list_differing_fields(row.a.message, row.b.message)
            note += f", differing in {fields}"

        # By their words: redacted, different messages of one length look alike.
        plain = Words()
        is_one = _draw_message(row.a, dict(a.calls), plain) == _draw_message(
            row.b, dict(b.calls), plain
        )
        one = _draw_message(row.a, a.calls, words, note, row.b, mark=a.mark)
        other = _draw_message(row.b, b.calls, words, note, row.a, mark=b.mark)
        if is_one:
            both = element("td", {"class": "cs-both", "colspan": 2}, one)
            return element("tr", None, both)

        kind = "cs-differing" if row.kind == CHANGED else "cs-both"
        return element(
            "tr", None, [element("td", {"class": kind}, each) for each in (one, other)]
        )

    return element(
        "tr",
        None,
        _draw_cell((row.a, row.b), row.a_elsewhere, a, b, words),
        _draw_cell((row.b, row.a), row.b_elsewhere, b, a, words),
    )


def _draw_cell(
    entries: tuple[Entry | None, Entry | None],
    kind: str,
    side: _Side,
    there: _Side,
    words: Words,
) -> Markup:
    """
    The first of two *entries* that are beside each other; *kind* is that of the pair
    which it makes elsewhere.
    """
    entry, beside = entries
    if entry is None:
        return element("td", None)

    note = Markup(elsewhere_note(kind, there.name).removeprefix(", "))
    message = _draw_message(entry, side.calls, words, note, beside, mark=side.mark)
    return element("td", {"class": "cs-both" if kind else side.column}, message)


def _draw_message(
    entry: Entry,
    calls: CallNames,
    words: Words,
    note: str | Markup = "",
    beside: Entry | None = None,
    *,
    mark: str = "",
) -> Markup:
    heading: list[Child] = [Markup(format_heading(entry.message, calls, words.code))]
    heading += [" · ", note] if note else []
    others: Iterable[ContentBlock] = ()
    if beside is not None and beside.message.role == entry.message.role:
        others = iterate_blocks(beside.message, words.code)

    pairs = pair_blocks(iterate_blocks(entry.message, words.code), others, _MAX_BODY)
    return join_markup(
        [
            element("div", {"class": "cs-heading"}, heading),
            [_draw_block(block, other, mark, words) for block, other in pairs],
        ]
    )


def _draw_block(
    block: ContentBlock, other: ContentBlock | None, mark: str, words: Words
) -> Markup:
    label = None
    if block.label:
        label = element("div", {"class": "cs-heading"}, Markup(block.label))

    if not block.body:
        return join_markup([label])

    body = escape_invisible(block.body)
    pieces: MarkedText = [(body, False)]
    if other is not None and other.label == block.label and other.body != block.body:
        theirs = escape_invisible(other.body)
        # In one order for both columns: from the other side other words may match.
        if mark == "del":
            pieces, _ = mark_differences(body, theirs)
        else:
            _, pieces = mark_differences(theirs, body)

    content = element(
        "div",
        {"class": "cs-code" if block.is_code else "cs-prose", "dir": "auto"},
        [
            element(mark, None, words.text(piece)) if is_marked else words.text(piece)
            for piece, is_marked in pieces
        ],
    )
    if len(body) <= _MAX_UNFOLDED:
        return join_markup([label, content])

    length = format_count(len(body), "character")
    summary = element("summary", None, words.line(body, _EXCERPT), f" ({length})")
    return join_markup([label, element("details", None, summary, content)])
