"""
A difference as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice
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
    MarkedText,
    mark_differences,
    pair_blocks,
)
from conversation_state.diffing._summary import (
    CallNames,
    collect_call_names,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    list_differing_fields,
    write_heading,
)
from conversation_state.rendering import (
    ContentBlock,
    escape_invisible,
    escape_line,
    iterate_blocks,
)

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["format_html"]

# The most characters of a part, and how many are shown without unfolding it.
_MAX_BODY = 10_000
_MAX_UNFOLDED = 700

# Backgrounds are translucent and text has the page's colour, which is readable
# on light and on dark pages. Tables set whatever notebooks have styles for.
_ROOT = "font:14px/1.45 system-ui,sans-serif;max-width:80em;text-align:left"
_TABLE = (
    "border-collapse:separate;border-spacing:2px;table-layout:fixed;width:100%;"
    "border:0;margin:.5em 0;font-size:inherit"
)
_CELL = (
    "vertical-align:top;text-align:left;white-space:normal;border:0;"
    "border-radius:4px;padding:.4em .7em;"
)
_GREY, _AMBER = "127,127,127", "200,150,0"
_RED, _GREEN = "225,60,60", "40,160,70"
_HEADING = "font-weight:600;opacity:.75;font-size:.9em"
_PROSE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.15em 0"
_CODE = f"{_PROSE};font-family:ui-monospace,monospace;font-size:.9em"
_MARKS = {
    "del": f"background:rgba({_RED},.35);text-decoration:none;border-radius:2px",
    "ins": f"background:rgba({_GREEN},.35);text-decoration:none;border-radius:2px",
}
_NOTES = {
    BOTH: "in both",
    SAME: "same content in both",
    CHANGED: "changed",
    APART: "",
}


def format_html(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = _format_code(a), _format_code(b)
    entries = found.entries
    rows = list(islice(align_rows(entries, found.same), limit))
    pieces = [_format_common(found)]
    if rows:
        ours = collect_call_names(*found.context)
        theirs = dict(ours)
        body = "".join([_format_row(row, ours, theirs, a, b) for row in rows])
        heads = "".join(
            [
                f'<th scope="col" style="{_CELL}width:50%">{name}: '
                f"{format_count(entries.common + len(rest), 'message')}</th>"
                for name, rest in ((a, entries.rest_a), (b, entries.rest_b))
            ]
        )
        pieces.append(
            f'<table style="{_TABLE}"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )

    rest = describe_rest(found, rows, limit, a, b)
    facts = [*([rest] if rest else []), *describe_ledger(found, a, b, _format_code)]
    pieces += [f"<div>{fact}</div>" for fact in facts]
    # By these classes a notebook knows that there are no formulas in here.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="{_ROOT}">'
        f"{''.join(pieces)}</div>"
    )


def _format_code(word: str) -> str:
    """
    A word from outside, as code in a line.
    """
    return f"<code>{escape(escape_line(word))}</code>"


def _format_common(found: Diff) -> str:
    summary = describe_common(found)
    if not found.context:
        return f"<div>{summary}</div>"

    names: CallNames = {}
    last = "".join(
        [
            f'<div style="{_CELL}{_format_background(_GREY)}margin:2px">'
            f"{_format_message(entry, names, '')}</div>"
            for entry in found.context
        ]
    )
    before = found.entries.common - len(found.context)
    rest = (
        f"<div>{format_count(before, 'message')} before these</div>" if before else ""
    )
    return f"<details><summary>{summary}</summary>{rest}{last}</details>"


def _format_row(row: Row, ours: CallNames, theirs: CallNames, a: str, b: str) -> str:
    note = _NOTES[row.kind]
    if row.a is not None and row.b is not None and row.kind != APART:
        if row.kind == CHANGED:
            fields = list_differing_fields(row.a.message, row.b.message)
            note += f", differing in {fields}"

        one = _format_message(row.a, ours, note, row.b, mark="del")
        other = _format_message(row.b, theirs, note, row.a, mark="ins")
        if one == other:
            style = f"{_CELL}{_format_background(_GREY)}"
            return f'<tr><td colspan="2" style="{style}">{one}</td></tr>'

        colour = _AMBER if row.kind == CHANGED else _GREY
        return f"<tr>{_format_cell(one, colour)}{_format_cell(other, colour)}</tr>"

    cells = []
    for entry, beside, names, kind, there, colour, mark in (
        (row.a, row.b, ours, row.a_elsewhere, b, _RED, "del"),
        (row.b, row.a, theirs, row.b_elsewhere, a, _GREEN, "ins"),
    ):
        if entry is None:
            cells.append(f'<td style="{_CELL}"></td>')
            continue

        note = elsewhere_note(kind, there).removeprefix(", ")
        message = _format_message(entry, names, note, beside, mark=mark)
        cells.append(_format_cell(message, _GREY if kind else colour))

    return f"<tr>{''.join(cells)}</tr>"


def _format_background(colour: str) -> str:
    return f"background:rgba({colour},.12);"


def _format_cell(content: str, colour: str) -> str:
    return f'<td style="{_CELL}{_format_background(colour)}">{content}</td>'


def _format_message(
    entry: Entry,
    names: CallNames,
    note: str,
    beside: Entry | None = None,
    *,
    mark: str = "",
) -> str:
    """
    A message; *note* is HTML.
    """
    heading = write_heading(entry, names, _format_code) + (f" · {note}" if note else "")
    others: Iterable[ContentBlock] = ()
    if beside is not None and beside.message.role == entry.message.role:
        others = iterate_blocks(beside.message, _format_code)

    pieces = [f'<div style="{_HEADING}">{heading}</div>']
    pairs = pair_blocks(iterate_blocks(entry.message, _format_code), others, _MAX_BODY)
    pieces += [_format_block(block, other, mark) for block, other in pairs]
    return "".join(pieces)


def _format_block(block: ContentBlock, other: ContentBlock | None, mark: str) -> str:
    style = _CODE if block.is_code else _PROSE
    label = f'<div style="{_HEADING}">{block.label}</div>' if block.label else ""
    if not block.body:
        return label

    body = escape_invisible(block.body)
    pieces: MarkedText = [(body, False)]
    if other is not None and other.label == block.label and other.body != block.body:
        theirs = escape_invisible(other.body)
        if mark == "del":
            pieces, _ = mark_differences(body, theirs)
        else:
            _, pieces = mark_differences(theirs, body)

    text = "".join(
        [
            f'<{mark} style="{_MARKS[mark]}">{escape(piece)}</{mark}>'
            if is_marked
            else escape(piece)
            for piece, is_marked in pieces
        ]
    )
    content = f'<div dir="auto" style="{style}">{text}</div>'
    if len(body) <= _MAX_UNFOLDED:
        return label + content

    start = escape(escape_line(body[: _MAX_UNFOLDED // 10]))
    length = format_count(len(body), "character")
    summary = f"<summary>{start} … ({length})</summary>"
    return f"{label}<details>{summary}{content}</details>"
