"""
Draws what views of a conversation keep, drop and sum up: a bar for each
message, as wide as it has tokens.

    python examples/draw_view.py TALKS.jsonl [NUMBER] > view.svg

TALKS.jsonl is in OpenAI's chat format, one conversation a line. Nothing of what
was said is in the picture. The budget holds the system messages and half of
the rest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from conversation_state import Aggregator, Message, SystemMessage, TokenBudget, fit
from conversation_state.adapters import openai_chat
from conversation_state.trimming import (
    Step,
    TrimContext,
    clear_tool_results,
    compact,
    trim,
)

WIDTH, BAR, ROW, LEFT, TOP = 960, 26, 64, 12, 34
COLOURS = {
    "system": "#8a63d2",
    "user": "#2f81f7",
    "assistant": "#2da44e",
    "tool": "#d29922",
    "summary": "#cf222e",
    "dropped": "#d8dee4",
}


def summed_up(messages: Sequence[Message]) -> Message:
    """
    What a model would write; its length is what matters here.
    """
    return SystemMessage(f"Summary of {len(messages)} messages. " + "So it went. " * 30)


def older_half(view: TrimContext) -> TrimContext:
    """
    A step that sums up the older messages, between two turns.
    """
    turns = [e.seq for e in view.elements if e.role == "user"]
    middle = next((seq for seq in turns if seq >= len(view.original) * 2 // 3), 0)
    first = next((e.seq for e in view.elements if e.role != "system"), 0)
    return compact(range(first, middle), summed_up)(view) if middle > first else view


def row(y: int, title: str, view: TrimContext, scale: float) -> list[str]:
    """
    One view: where its messages are among all that was said.
    """
    said = view.original.elements
    shown = {element.seq: element for element in view.elements}
    lines = [f'<text x="{LEFT}" y="{y - 8}">{escape(title)}</text>']
    on_top: list[str] = []
    x = float(LEFT)
    for element in said:
        width = element.tokens * scale
        now = shown.get(element.seq)
        title = f"{element.seq}: {element.role}, {element.tokens:,} tokens"
        parts = [(width, "dropped")]
        if now is not None:
            kind = now.role if now.role == element.role else "summary"
            title += "" if now.message == element.message else f", now {now.tokens:,}"
            parts.append((now.tokens * scale, kind))

        for wide, kind in parts:
            # A summary may be wider than the message whose place it takes.
            (on_top if kind == "summary" else lines).append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 1, 0.5):.1f}" '
                f'height="{BAR}" fill="{COLOURS[kind]}"><title>{title}</title></rect>'
            )

        x += width

    return [*lines, *on_top]


def drawn(state: Aggregator) -> str:
    """
    The picture, as SVG.
    """
    whole = trim(state, None, lambda view: view)
    fixed = sum(e.tokens for e in whole.elements if e.role == "system")
    limit = fixed + (whole.total_tokens - fixed) // 2
    budget = TokenBudget(context_window=limit)
    scale = (WIDTH - 2 * LEFT) / max(whole.total_tokens, 1)
    rows: list[tuple[str, tuple[Step, ...]]] = [
        ("fit()", (fit(),)),
        ("clear_tool_results(keep=1), fit()", (clear_tool_results(keep=1), fit())),
        ("compact(the older turns), fit()", (older_half, fit())),
    ]
    titles = f"all that was said: {len(whole)} messages, {whole.total_tokens:,} tokens"
    lines = row(TOP, titles, whole, scale)
    for at, (steps, made) in enumerate(rows, 1):
        view = trim(state, budget, *made)
        title = (
            f"{steps} into {limit:,}: {len(view)} messages, "
            f"{view.total_tokens:,} tokens"
        )
        lines += row(TOP + at * ROW, title, view, scale)

    y = TOP + (len(rows) + 1) * ROW - 24
    x = LEFT
    for name, colour in COLOURS.items():
        lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="{y + 11}">{name}</text>')
        x += 110

    style = "font: 13px system-ui, sans-serif; background: white"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24}" '
    return "\n".join([f'{head}style="{style}">', *lines, "</svg>", ""])


def main(path: str, number: str = "0") -> None:
    """
    Draw the conversation that is *number* lines down in the file at *path*.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    messages = openai_chat.load(json.loads(lines[int(number)])["messages"])
    sys.stdout.write(drawn(Aggregator.new(messages=messages)))


if __name__ == "__main__":
    main(*sys.argv[1:])
