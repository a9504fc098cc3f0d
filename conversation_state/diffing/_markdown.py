"""
A difference as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from conversation_state.aggregator import Entry
from conversation_state.diffing._rows import APART, BOTH, CHANGED, Row, rows
from conversation_state.diffing._sentences import (
    Speakers,
    counted,
    differing,
    in_common,
    left,
    met,
    spent,
)
from conversation_state.rendering import Block, blocks_of, in_code
from conversation_state.rendering import as_markdown as turn

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["as_markdown", "begun"]

# Of one part of a message, and of its parts.
_LONGEST = 2_000
_MOST_PARTS = 100


def as_markdown(found: Diff, a: str, b: str, limit: int) -> str:
    a, b = in_code(a), in_code(b)
    told = [in_common(found)]
    for name, only in ((a, found.only_a), (b, found.only_b)):
        told += [f"only in {name}: {counted(len(only), 'message')}"] if only else []

    if found.same:
        told.append(f"said on both sides: {counted(len(found.same), 'message')}")

    told += spent(found, a, b, in_code)
    pieces = ["\n".join([f"- {sentence}" for sentence in told])]
    if found and found.context:
        speakers = Speakers(found.context[:-1], in_code)
        pieces.append(_turn(found.context[-1], speakers, "the last in common"))

    shown = list(islice(rows(found.entries, found.same), limit))
    pieces += _written(found, shown, a, b)
    more = left(found, shown, a, b)
    return "\n\n".join([*pieces, f"... {more}"] if more else pieces)


def _written(found: Diff, shown: list[Row], a: str, b: str) -> Iterator[str]:
    ours, theirs = (Speakers(found.context, in_code) for _ in range(2))
    waiting: list[str] = []
    for row in shown:
        if row.a is None or row.b is None or row.kind == APART:
            # Of what stands beside each other, the one side comes first.
            if row.a is not None:
                yield _turn(row.a, ours, _place(a, b, row.a_met))

            if row.b is not None:
                waiting.append(_turn(row.b, theirs, _place(b, a, row.b_met)))

            continue

        yield from waiting
        waiting = []
        if row.kind != CHANGED:
            yield _turn(row.a, ours, "in both" if row.kind == BOTH else "said in both")
            theirs.head(row.b.message)
            continue

        fields = differing(row.a.message, row.b.message)
        yield _turn(row.a, ours, f"changed, in {a}")
        yield _turn(row.b, theirs, f"changed, in {b}, in its {fields}")

    yield from waiting


def _place(here: str, there: str, is_met: str) -> str:
    return f"in {here}{met(is_met, there)}" if is_met else f"only in {here}"


def _turn(entry: Entry, speakers: Speakers, told: str) -> str:
    head = f"{told}: {speakers.head(entry.message)}"
    return turn(head, begun(blocks_of(entry.message, in_code), _LONGEST))


def begun(blocks: Iterable[Block], longest: int) -> list[Block]:
    """
    *blocks*, of bodies longer than that the beginning, and of many the first.
    """
    shown = []
    every = list(blocks)
    for block in every[:_MOST_PARTS]:
        more = len(block.body) - longest
        shown.append(block._replace(body=block.body[:longest]))
        if more > 0:
            shown.append(Block(f"... {counted(more, 'more character')}", ""))

    if len(every) > _MOST_PARTS:
        parts = counted(len(every) - _MOST_PARTS, "more part")
        shown.append(Block(f"... {parts}", ""))

    return shown
