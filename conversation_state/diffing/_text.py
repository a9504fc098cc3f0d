"""
A difference as text, for a terminal and as Markdown.
"""

from __future__ import annotations

import re
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from conversation_state._wording import format_count
from conversation_state.diffing._divergence import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    align_rows,
)
from conversation_state.diffing._excerpts import (
    describe_following,
    find_first_difference,
    find_window,
    pair_blocks,
)
from conversation_state.diffing._summary import (
    ShownMessage,
    collect_call_names,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    order_messages,
    write_heading,
)
from conversation_state.rendering import (
    ContentBlock,
    Quote,
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
_SIGNS = {BOTH: " ", SAME: "=", CHANGED: "!"}


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
        "", BOTH, write_heading(last, collect_call_names(*before), quote), last
    )


def _format_lines(shown: ShownMessage, note: str) -> list[str]:
    """
    A message, each part on a line of its own; its content only after a colon,
    so that it can't be taken for a heading.
    """
    beside = shown.beside
    blocks = list(iterate_blocks(shown.entry.message, quote_word))
    others = list(iterate_blocks(beside.message, quote_word)) if beside else []
    head = f"{shown.heading}{note}:"
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
