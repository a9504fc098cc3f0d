"""A difference as text, for a terminal and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from conversation_state._wording import format_count
from conversation_state.aggregator import Entry
from conversation_state.diffing.drawing import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    Row,
    align_rows,
    collect_call_names,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    find_first_difference,
    list_differing_fields,
    pair_blocks,
    pair_parts,
)
from conversation_state.rendering import (
    ContentBlock,
    Quote,
    escape_line,
    format_code_span,
    format_heading,
    format_markdown_turn,
    iterate_blocks,
    quote_word,
)

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

# In a terminal, the most characters of a part that are shown, and how many of
# these come before the first difference.
_WIDTH = 100
_WIDTH_BEFORE = 30
# In a terminal, the most parts of a message.
_MAX_PARTS = 20
# In Markdown, the most characters of a part.
_MAX_BODY = 2_000

_INDENTATION = re.compile("\n *")
_SIGNS = {BOTH: " ", SAME: "=", CHANGED: "!"}


class ShownMessage(NamedTuple):
    """
    A message of one side, ``a`` or ``b``, or "" where one is shown for both.

    *kind* and *elsewhere* are those of its row, and *beside* is what that has on
    the other side. Of the second of two ``changed`` ones, *fields* differ.
    """

    side: str
    kind: str
    heading: str
    entry: Entry
    beside: Entry | None = None
    elsewhere: str = ""
    fields: str = ""


def order_messages(
    found: Diff, rows: Iterable[Row], quote: Quote
) -> Iterator[ShownMessage]:
    """
    The messages of *rows*, one below the other: of neighbouring rows that
    differ, all of *a* come before all of *b*.
    """
    ours = collect_call_names(*found.context)
    theirs = dict(ours)
    waiting: list[ShownMessage] = []
    for a, b, kind, a_elsewhere, b_elsewhere in rows:
        if kind != APART:
            yield from waiting
            waiting = []

        if a and b and kind not in (APART, CHANGED):
            yield ShownMessage("", kind, format_heading(a.message, ours, quote), a)
            # The same calls have other ids there, which results on that side refer to.
            theirs |= collect_call_names(b)
            continue

        if a:
            heading = format_heading(a.message, ours, quote)
            yield ShownMessage("a", kind, heading, a, b, a_elsewhere)

        if b:
            heading = format_heading(b.message, theirs, quote)
            if a and kind == CHANGED:
                fields = list_differing_fields(a.message, b.message)
                yield ShownMessage("b", kind, heading, b, a, fields=fields)
            else:
                waiting.append(ShownMessage("b", kind, heading, b, a, b_elsewhere))

    yield from waiting


# For a terminal


def format_text(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = quote_word(a), quote_word(b)
    entries = found.entries
    lines = [
        f"--- {a}, {format_count(entries.common + len(entries.rest_a), 'message')}",
        f"+++ {b}, {format_count(entries.common + len(entries.rest_b), 'message')}",
        describe_common(found),
    ]
    if found and found.context:
        last = _format_lines(_make_last(found, quote_word), "")
        lines[-1] += f", the last: {last[0]}"

    rows = list(islice(align_rows(entries, found.same), limit))
    for shown in order_messages(found, rows, quote_word):
        sign = _SIGNS.get(shown.kind) or ("-" if shown.side == "a" else "+")
        there = b if shown.side == "a" else a
        note = elsewhere_note(shown.elsewhere, there)
        lines += [f"{sign} {line}" for line in _format_lines(shown, note)]

        if shown.fields:
            lines.append(f"!   differs in {shown.fields}")

    rest = describe_rest(found, rows, limit, a, b)
    if rest:
        lines.append(f"... {rest}")

    return "\n".join([*lines, *describe_ledger(found, a, b, quote_word)])


def _make_last(found: Diff, quote: Quote) -> ShownMessage:
    # The calls before it may name the tool it is of.
    *before, last = found.context
    return ShownMessage(
        "", BOTH, format_heading(last.message, collect_call_names(*before), quote), last
    )


def _format_lines(shown: ShownMessage, note: str) -> list[str]:
    """
    A message, each part on a line of its own; its content only after a colon,
    so that it can't be taken for a heading.
    """
    beside = shown.beside
    blocks = iterate_blocks(shown.entry.message, quote_word)
    others = iterate_blocks(beside.message, quote_word) if beside else ()
    head = f"{shown.heading}{note}:"
    lines = [head]
    for block, other in pair_parts(blocks, others, _MAX_PARTS):
        body = _shorten_body(block, other)
        if lines == [head] and not block.label:
            lines = [f"{head} {body}"]
        else:
            lines.append(f"  {block.label}: {body}" if body else f"  {block.label}")

    return lines


def _shorten_body(block: ContentBlock, other: ContentBlock | None) -> str:
    body = _unindent_body(block)
    if len(body) <= _WIDTH:
        return escape_line(body)

    start = 0
    if other is not None and other.label == block.label:
        start = find_first_difference(body, _unindent_body(other)) - _WIDTH_BEFORE
        if not _WIDTH_BEFORE < start < len(body) - _WIDTH_BEFORE:
            start = 0

    end = start + _WIDTH
    more = f"… {len(body) - end:,} more" if end < len(body) else ""
    return f"{'… ' if start else ''}{escape_line(body[start:end])}{more}"


def _unindent_body(block: ContentBlock) -> str:
    # The arguments of a call are indented JSON.
    is_indented = block.label and block.is_code
    return _INDENTATION.sub(" ", block.body) if is_indented else block.body


# As Markdown


def format_markdown(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = format_code_span(a), format_code_span(b)
    entries = found.entries
    facts = [describe_common(found)]
    for name, only in ((a, entries.only_a), (b, entries.only_b)):
        if only:
            facts.append(f"only in {name}: {format_count(len(only), 'message')}")

    if found.same:
        facts.append(
            f"same content on both sides: {format_count(len(found.same), 'message')}"
        )

    facts += describe_ledger(found, a, b, format_code_span)
    pieces = ["\n".join([f"- {fact}" for fact in facts])]
    if found and found.context:
        last = _make_last(found, format_code_span)
        pieces.append(_format_section(last, "the last in common"))

    rows = list(islice(align_rows(entries, found.same), limit))
    for shown in order_messages(found, rows, format_code_span):
        here, there = (b, a) if shown.side == "b" else (a, b)
        if shown.kind == APART:
            note = elsewhere_note(shown.elsewhere, there)
            place = f"in {here}{note}" if note else f"only in {here}"
        else:
            place = _PLACES[shown.kind].format(here)
            place += f", in its {shown.fields}" if shown.fields else ""

        pieces.append(_format_section(shown, place))

    rest = describe_rest(found, rows, limit, a, b)
    return "\n\n".join([*pieces, f"... {rest}"] if rest else pieces)


_PLACES = {BOTH: "in both", SAME: "same content in both", CHANGED: "changed, in {}"}


def _format_section(shown: ShownMessage, place: str) -> str:
    ours = iterate_blocks(shown.entry.message, format_code_span)
    theirs = (
        iterate_blocks(shown.beside.message, format_code_span) if shown.beside else ()
    )
    pairs = pair_blocks(ours, theirs, _MAX_BODY)
    heading = f"{place}: {shown.heading}"
    return format_markdown_turn(heading, [block for block, _ in pairs])
