"""
A difference as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from conversation_state.aggregator import Entry
from conversation_state.diffing._markdown import begun
from conversation_state.diffing._rows import APART, BOTH, CHANGED, SAME, Row, rows
from conversation_state.diffing._sentences import (
    Speakers,
    counted,
    differing,
    in_common,
    left,
    met,
    spent,
)
from conversation_state.diffing._words import Pieces, marked
from conversation_state.rendering import Block, blocks_of, in_line, visible

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["as_html"]

# Of one part of a message: what is shown, and how much of that unasked.
_LONGEST = 10_000
_FOLDED = 700

# Colours are see-through, and words have that of the page: good on light and
# on dark. Tables say all that notebooks have other ideas about.
_ALL = "font:14px/1.45 system-ui,sans-serif;max-width:80em;text-align:left"
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
_HEAD = "font-weight:600;opacity:.75;font-size:.9em"
_SAID = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.15em 0"
_CODE = f"{_SAID};font-family:ui-monospace,monospace;font-size:.9em"
_MARKS = {
    "del": f"background:rgba({_RED},.35);text-decoration:none;border-radius:2px",
    "ins": f"background:rgba({_GREEN},.35);text-decoration:none;border-radius:2px",
}
_WORDS = {
    BOTH: "in both",
    SAME: "said in both",
    CHANGED: "changed",
    APART: "",
}


def as_html(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = _word(a), _word(b)
    shown = list(islice(rows(found.entries, found.same), limit))
    more = left(found, shown, a, b)
    pieces = [_common(found)]
    if shown:
        ours, theirs = (Speakers(found.context, _word) for _ in range(2))
        body = "".join([_row(row, ours, theirs, a, b) for row in shown])
        heads = "".join(
            [
                f'<th scope="col" style="{_CELL}width:50%">{name}: '
                f"{counted(found.common + len(rest), 'message')}</th>"
                for name, rest in (
                    (a, found.entries.rest_a),
                    (b, found.entries.rest_b),
                )
            ]
        )
        pieces.append(
            f'<table style="{_TABLE}"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )

    facts = [*([more] if more else []), *spent(found, a, b, _word)]
    pieces += [f"<div>{fact}</div>" for fact in facts]
    # The classes are those by which a notebook is told that nothing in here is
    # a formula.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="{_ALL}">'
        f"{''.join(pieces)}</div>"
    )


def _word(word: str) -> str:
    """
    A word of somebody's own, as code in a line.
    """
    return f"<code>{escape(in_line(word))}</code>"


def _common(found: Diff) -> str:
    told = in_common(found)
    if not found.context:
        return f"<div>{told}</div>"

    speakers = Speakers((), _word)
    last = "".join(
        [
            f'<div style="{_CELL}{_shade(_GREY)}margin:2px">'
            f"{_message(entry, speakers, '')}</div>"
            for entry in found.context
        ]
    )
    before = found.common - len(found.context)
    rest = f"<div>{counted(before, 'message')} before these</div>" if before else ""
    return f"<details><summary>{told}</summary>{rest}{last}</details>"


def _row(row: Row, ours: Speakers, theirs: Speakers, a: str, b: str) -> str:
    word = _WORDS[row.kind]
    if row.a is not None and row.b is not None and row.kind != APART:
        if row.kind == CHANGED:
            word += f", differing in {differing(row.a.message, row.b.message)}"

        one = _message(row.a, ours, word, row.b, "del")
        other = _message(row.b, theirs, word, row.a, "ins")
        if one == other:
            return f'<tr><td colspan="2" style="{_CELL}{_shade(_GREY)}">{one}</td></tr>'

        colour = _AMBER if row.kind == CHANGED else _GREY
        return f"<tr>{_cell(one, colour)}{_cell(other, colour)}</tr>"

    cells = []
    for entry, beside, speakers, kind, there, colour, mark in (
        (row.a, row.b, ours, row.a_met, b, _RED, "del"),
        (row.b, row.a, theirs, row.b_met, a, _GREEN, "ins"),
    ):
        if entry is None:
            cells.append(f'<td style="{_CELL}"></td>')
            continue

        note = met(kind, there).removeprefix(", ")
        said = _message(entry, speakers, note, beside, mark)
        cells.append(_cell(said, _GREY if kind else colour))

    return f"<tr>{''.join(cells)}</tr>"


def _shade(colour: str) -> str:
    return f"background:rgba({colour},.12);"


def _cell(said: str, colour: str) -> str:
    return f'<td style="{_CELL}{_shade(colour)}">{said}</td>'


def _message(
    entry: Entry,
    speakers: Speakers,
    note: str,
    beside: Entry | None = None,
    mark: str = "",
) -> str:
    """
    A message; *note* is safe to be written.
    """
    head = speakers.head(entry.message) + (f" · {note}" if note else "")
    blocks = begun(blocks_of(entry.message, _word), _LONGEST)
    others: list[Block] = []
    if beside is not None and beside.message.role == entry.message.role:
        others = begun(blocks_of(beside.message, _word), _LONGEST)

    said = [f'<div style="{_HEAD}">{head}</div>']
    for block, other in zip_longest(blocks, others):
        if block is not None:
            said.append(_block(block, other, mark))

    return "".join(said)


def _block(block: Block, other: Block | None, mark: str) -> str:
    style = _CODE if block.is_code else _SAID
    label = f'<div style="{_HEAD}">{block.label}</div>' if block.label else ""
    if not block.body:
        return label

    body = visible(block.body)
    pieces: Pieces = [(body, False)]
    if other is not None and other.label == block.label and other.body != block.body:
        theirs = visible(other.body)
        pieces = marked(body, theirs)[0] if mark == "del" else marked(theirs, body)[1]

    said = f'<div dir="auto" style="{style}">{_written(pieces, mark)}</div>'
    if len(body) <= _FOLDED:
        return label + said

    start = escape(in_line(body[: _FOLDED // 10]))
    more = counted(len(body), "character")
    return f"{label}<details><summary>{start} … ({more})</summary>{said}</details>"


def _written(pieces: Iterable[tuple[str, bool]], mark: str) -> str:
    return "".join(
        [
            f'<{mark} style="{_MARKS[mark]}">{escape(text)}</{mark}>'
            if is_marked
            else escape(text)
            for text, is_marked in pieces
        ]
    )
