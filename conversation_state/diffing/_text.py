"""
A difference for a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from conversation_state.aggregator import Entry
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
from conversation_state.diffing._words import first_difference
from conversation_state.rendering import Block, blocks_of, in_line, in_quotes

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["as_text"]

# Of one part of a message: as much as is shown, and of that as much as may
# stand before the first difference.
_WIDTH = 100
_BEFORE = 30
# A call with more parts than this is told by their number.
_MOST_PARTS = 20

_INDENTED = re.compile("\n *")
_SIGNS = {BOTH: " ", SAME: "="}


def as_text(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = in_quotes(a), in_quotes(b)
    common = found.common
    lines = [
        f"--- {a}, {counted(common + len(found.entries.rest_a), 'message')}",
        f"+++ {b}, {counted(common + len(found.entries.rest_b), 'message')}",
        in_common(found),
    ]
    if found and found.context:
        # The calls before it may name what it answers.
        speakers = Speakers(found.context[:-1], in_quotes)
        last = _lines(found.context[-1], speakers, "", None)
        lines[-1] += f", the last: {last[0]}"

    shown = list(islice(rows(found.entries, found.same), limit))
    lines += _written(found, shown, a, b)
    more = left(found, shown, a, b)
    if more:
        lines.append(f"... {more}")

    return "\n".join([*lines, *spent(found, a, b, in_quotes)])


def _written(found: Diff, shown: list[Row], a: str, b: str) -> Iterator[str]:
    ours, theirs = (Speakers(found.context, in_quotes) for _ in range(2))
    waiting: list[str] = []
    for row in shown:
        if row.kind != APART:
            yield from waiting
            waiting = []

        if row.a is not None and row.b is not None and row.kind in _SIGNS:
            theirs.head(row.b.message)
            yield from _lines(row.a, ours, _SIGNS[row.kind], None)
            continue

        # Of what stands beside each other, the one side comes first.
        minus, plus = ("!", "!") if row.kind == CHANGED else ("-", "+")
        if row.a is not None:
            yield from _lines(row.a, ours, minus, row.b, met(row.a_met, b))

        if row.b is not None:
            waiting += _lines(row.b, theirs, plus, row.a, met(row.b_met, a))

        if row.kind == CHANGED and row.a is not None and row.b is not None:
            yield from waiting
            yield f"!   differs in {differing(row.a.message, row.b.message)}"
            waiting = []

    yield from waiting


def _lines(
    entry: Entry, speakers: Speakers, sign: str, beside: Entry | None, note: str = ""
) -> list[str]:
    """
    A message, each part on a line; somebody's own words only after a colon.
    """
    blocks = list(blocks_of(entry.message, in_quotes))
    others = list(blocks_of(beside.message, in_quotes)) if beside else []
    head = f"{speakers.head(entry.message)}{note}:"
    lines = [head]
    for block, other in islice(zip_longest(blocks, others), _MOST_PARTS):
        if block is None:
            break

        body = _shortened(block, other)
        if lines == [head] and not block.label:
            lines = [f"{head} {body}"]
        else:
            lines.append(f"  {block.label}: {body}" if body else f"  {block.label}")

    if len(blocks) > _MOST_PARTS:
        lines.append(f"  {counted(len(blocks) - _MOST_PARTS, 'more part')}")

    return [f"{sign} {line}" if sign else line for line in lines]


def _shortened(block: Block, other: Block | None) -> str:
    body = _bare(block)
    if len(body) <= _WIDTH:
        return in_line(body)

    start = 0
    if other is not None and other.label == block.label:
        start = first_difference(body, _bare(other)) - _BEFORE
        start = start if start > _BEFORE and start + _BEFORE < len(body) else 0

    end = start + _WIDTH
    more = f"… {len(body) - end:,} more" if end < len(body) else ""
    return f"{'… ' if start else ''}{in_line(body[start:end])}{more}"


def _bare(block: Block) -> str:
    """
    What a block says, without the indentation that a call is shown with.
    """
    return (
        _INDENTED.sub(" ", block.body) if block.label and block.is_code else block.body
    )
