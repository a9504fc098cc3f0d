"""
A difference as text, for a terminal and as Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from conversation_state._wording import format_count
from conversation_state.aggregator import Entry
from conversation_state.diffing._divergence import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    Row,
    align_rows,
)
from conversation_state.diffing._excerpts import (
    describe_following,
    find_first_difference,
    find_window,
    pair_blocks,
)
from conversation_state.diffing._summary import (
    HeadingWriter,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    list_differing_fields,
)
from conversation_state.rendering import (
    ContentBlock,
    escape_line,
    format_code_span,
    format_markdown_turn,
    iterate_blocks,
    quote_word,
)

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["format_markdown", "format_text"]

# In a terminal, the most characters of a part that are shown, and how many of
# these come before the first difference.
_WIDTH = 100
_WIDTH_BEFORE = 30
# In a terminal, the most parts of a message.
_MAX_PARTS = 20
# In Markdown, the most characters of a part.
_MAX_BODY = 2_000

_INDENTATION = re.compile("\n *")
_SIGNS = {BOTH: " ", SAME: "="}


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
        # The calls before the last message may name the tool it is of.
        headings = HeadingWriter(found.context[:-1], quote_word)
        last = _format_lines(found.context[-1], headings, "", None)
        lines[-1] += f", the last: {last[0]}"

    rows = list(islice(align_rows(entries, found.same), limit))
    lines += _format_rows(found, rows, a, b)
    rest = describe_rest(found, rows, a, b)
    if rest:
        lines.append(f"... {rest}")

    return "\n".join([*lines, *describe_ledger(found, a, b, quote_word)])


def _format_rows(found: Diff, rows: list[Row], a: str, b: str) -> Iterator[str]:
    ours = HeadingWriter(found.context, quote_word)
    theirs = HeadingWriter(found.context, quote_word)
    # Of neighbouring rows that differ, all of *a* come before all of *b*.
    waiting: list[str] = []
    for row in rows:
        if row.kind != APART:
            yield from waiting
            waiting = []

        if row.a is not None and row.b is not None and row.kind in _SIGNS:
            theirs.note_calls(row.b.message)
            yield from _format_lines(row.a, ours, _SIGNS[row.kind], None)
            continue

        minus, plus = ("!", "!") if row.kind == CHANGED else ("-", "+")
        if row.a is not None:
            note = elsewhere_note(row.a_elsewhere, b)
            yield from _format_lines(row.a, ours, minus, row.b, note)

        if row.b is not None:
            note = elsewhere_note(row.b_elsewhere, a)
            waiting += _format_lines(row.b, theirs, plus, row.a, note)

        if row.kind == CHANGED and row.a is not None and row.b is not None:
            yield from waiting
            fields = list_differing_fields(row.a.message, row.b.message)
            yield f"!   differs in {fields}"
            waiting = []

    yield from waiting


def _format_lines(
    entry: Entry,
    headings: HeadingWriter,
    sign: str,
    beside: Entry | None,
    note: str = "",
) -> list[str]:
    """
    A message, each part on a line of its own; its content only after a colon,
    so that it can't be taken for a heading.
    """
    blocks = list(iterate_blocks(entry.message, quote_word))
    others = list(iterate_blocks(beside.message, quote_word)) if beside else []
    head = f"{headings.write(entry.message)}{note}:"
    lines = [head]
    window = find_window(blocks, others, _MAX_PARTS)
    start, stop = window.start, window.stop
    if start:
        lines.append(f"  {format_count(start, 'part')} before")

    for block, other in zip_longest(
        blocks[start:stop], others[start : start + _MAX_PARTS]
    ):
        if block is None:
            break

        body = _shorten_body(block, other)
        if lines == [head] and not block.label:
            lines = [f"{head} {body}"]
        else:
            lines.append(f"  {block.label}: {body}" if body else f"  {block.label}")

    if window.after:
        lines.append(f"  {describe_following(window, 'more part')}")

    return [f"{sign} {line}" if sign else line for line in lines]


def _shorten_body(block: ContentBlock, other: ContentBlock | None) -> str:
    body = _unindent(block)
    if len(body) <= _WIDTH:
        return escape_line(body)

    start = 0
    if other is not None and other.label == block.label:
        start = find_first_difference(body, _unindent(other)) - _WIDTH_BEFORE
        if not _WIDTH_BEFORE < start < len(body) - _WIDTH_BEFORE:
            start = 0

    end = start + _WIDTH
    more = f"… {len(body) - end:,} more" if end < len(body) else ""
    return f"{'… ' if start else ''}{escape_line(body[start:end])}{more}"


def _unindent(block: ContentBlock) -> str:
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
        headings = HeadingWriter(found.context[:-1], format_code_span)
        last = _format_section(found.context[-1], headings, "the last in common")
        pieces.append(last)

    rows = list(islice(align_rows(entries, found.same), limit))
    pieces += _format_sections(found, rows, a, b)
    rest = describe_rest(found, rows, a, b)
    return "\n\n".join([*pieces, f"... {rest}"] if rest else pieces)


def _format_sections(found: Diff, rows: list[Row], a: str, b: str) -> Iterator[str]:
    ours = HeadingWriter(found.context, format_code_span)
    theirs = HeadingWriter(found.context, format_code_span)
    # As in a terminal: first all of *a*, then all of *b*.
    waiting: list[str] = []
    for row in rows:
        if row.a is None or row.b is None or row.kind == APART:
            if row.a is not None:
                place = _describe_place(a, b, row.a_elsewhere)
                yield _format_section(row.a, ours, place, row.b)

            if row.b is not None:
                place = _describe_place(b, a, row.b_elsewhere)
                waiting.append(_format_section(row.b, theirs, place, row.a))

            continue

        yield from waiting
        waiting = []
        if row.kind != CHANGED:
            place = "in both" if row.kind == BOTH else "same content in both"
            yield _format_section(row.a, ours, place)
            theirs.note_calls(row.b.message)
            continue

        fields = list_differing_fields(row.a.message, row.b.message)
        yield _format_section(row.a, ours, f"changed, in {a}", row.b)
        place = f"changed, in {b}, in its {fields}"
        yield _format_section(row.b, theirs, place, row.a)

    yield from waiting


def _describe_place(here: str, there: str, kind: str) -> str:
    return f"in {here}{elsewhere_note(kind, there)}" if kind else f"only in {here}"


def _format_section(
    entry: Entry, headings: HeadingWriter, place: str, beside: Entry | None = None
) -> str:
    heading = f"{place}: {headings.write(entry.message)}"
    others = (
        iterate_blocks(beside.message, format_code_span) if beside is not None else ()
    )
    pairs = pair_blocks(
        iterate_blocks(entry.message, format_code_span), others, _MAX_BODY
    )
    return format_markdown_turn(heading, [block for block, _ in pairs])
