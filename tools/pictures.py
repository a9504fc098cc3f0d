"""
Draws the pictures of the documentation that show boxes and arrows.

    python -m tools.pictures

What stands in the boxes comes from running the library; `tests/test_site.py` holds
the files to what is drawn now. `docs/draw_architecture.py` draws the layers, and
`tests/pictures.py` what views keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from conversation_state import Aggregator, Usage, concat, open_store
from conversation_state.adapters import openai_chat

__all__ = ["PICTURES", "draw_fork_and_join", "draw_revisions", "draw_streamed_answer"]

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINE, PADDING, CHARACTER = 18, 12, 7.25  # the height of a line; the width of "x"
# The background is drawn, so that each is readable wherever it is shown.
STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1f2328 }
text.title { font-weight: bold }
text.note { fill: #59636e }
rect { fill: #eef2f7; stroke: #8c98a7 }
rect.page { fill: #fff; stroke: none }
rect.result { fill: #d6e8ff; stroke: #2f6fd0 }
rect.faded { fill: #fff; stroke-dasharray: 4 3 }
path { fill: none; stroke: #6b7787; stroke-width: 1.5 }
path.tip { fill: #6b7787; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
text.note { fill: #9da7b3 }
rect { fill: #1c2530; stroke: #6b7787 }
rect.page { fill: #131416 }
rect.result { fill: #143055; stroke: #4a90e2 }
rect.faded { fill: #131416 }
path { stroke: #9da7b3 }
path.tip { fill: #9da7b3 }
}
"""


class Box(NamedTuple):
    """
    A box with a title and lines of text.

    Attributes:
        kind: How it is drawn: "", "result" or "faded".
    """

    left: float
    top: float
    title: str
    lines: Sequence[str]
    kind: str = ""

    @property
    def width(self) -> float:
        """As wide as its longest line."""
        longest = max(len(line) for line in (self.title, *self.lines))
        return longest * CHARACTER + 2 * PADDING

    @property
    def height(self) -> float:
        """As high as its lines."""
        return LINE * (1 + len(self.lines)) + PADDING

    def draw(self) -> str:
        """The box as SVG."""
        kind = f' class="{self.kind}"' if self.kind else ""
        frame = (
            f'<rect{kind} x="{self.left:g}" y="{self.top:g}" width="{self.width:.0f}" '
            f'height="{self.height:g}" rx="6"/>'
        )
        parts = [frame]
        for row, line in enumerate((self.title, *self.lines)):
            style = "note" if row else "title"
            parts.append(
                f'<text class="{style}" x="{self.left + PADDING:g}" '
                f'y="{self.top + LINE * (row + 1):g}">{escape(line)}</text>'
            )

        return "\n".join(parts)


def draw_arrow(start: Box, end: Box) -> str:
    """An arrow from the right side of one box to the left side of another."""
    x, y = start.left + start.width, start.top + start.height / 2
    to_x, to_y = end.left - 7, end.top + end.height / 2
    middle = (x + to_x) / 2
    return (
        f'<path d="M{x:.0f} {y:.0f}C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} '
        f'{to_x:.0f} {to_y:.0f}"/>\n'
        f'<path class="tip" d="M{to_x:.0f} {to_y - 4:.0f}l7 4l-7 4z"/>'
    )


def draw_picture(
    label: str, boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]
) -> str:
    """An SVG of boxes, and of arrows between those with these positions."""
    width = max(box.left + box.width for box in boxes) + PADDING
    height = max(box.top + box.height for box in boxes) + PADDING
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            f'aria-label="{escape(label)}">'
        ),
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
        *(draw_arrow(boxes[start], boxes[end]) for start, end in arrows),
        *(box.draw() for box in boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def describe_usage(usage: Usage) -> str:
    """Tokens of the prompt and of the completion."""
    return f"{usage.prompt_tokens} + {usage.completion_tokens} tokens"


def describe_state(state: Aggregator, *, since: int = 0) -> list[str]:
    """The messages of a state from *since* on, and its ledger."""
    lines = [f"{message.role}: {message.text}" for message in state[since:]]
    return [*lines, *(f"usage: {describe_usage(each.usage)}" for each in state.ledger)]


def draw_fork_and_join() -> str:
    """Two forks of one state, and their join with one bill."""
    past = Aggregator.new().add_user_prompt("Where to, in May?")
    sea = past.fork().add_assistant_message("To the sea.").add_usage(Usage(20, 5))
    hills = past.fork().add_assistant_message("The hills.").add_usage(Usage(20, 6))
    both = past.join(sea, hills)
    boxes = [
        Box(12, 84, "past", describe_state(past)),
        Box(220, 12, "sea = past.fork() …", describe_state(sea, since=1)),
        Box(220, 128, "hills = past.fork() …", describe_state(hills, since=1)),
        Box(
            450,
            48,
            "past.join(sea, hills)",
            [*describe_state(both), f"total: {describe_usage(both.total_usage)}"],
            "result",
        ),
    ]
    label = "Two forks of a state, and their join: every message and every bill once"
    return draw_picture(label, boxes, [(0, 1), (0, 2), (1, 3), (2, 3)])


def draw_revisions() -> str:
    """The revisions of a name after a rollback: a tree, with a label."""
    with open_store("memory:") as store:
        state = Aggregator.new().add_user_prompt("When is the next train?")
        store.save("travel", state)
        state = state.add_assistant_message("At noon.")
        store.save("travel", state, label="before booking")
        store.save("travel", state.add_user_prompt("Book it, twice."))
        store.rollback("travel", "before booking")
        state = store.load("travel").add_user_prompt("Book it.")
        store.save("travel", state)
        heads = sorted(store.history("travel"), key=lambda head: head.revision)
        texts = {
            head.revision: store.load("travel", at=head.revision)[-1] for head in heads
        }

    column, row, newest = {0: -1}, {0: 0}, heads[-1].revision
    boxes = []
    for head in heads:
        parent = head.parent or 0
        column[head.revision] = column[parent] + 1
        taken = sum(each == column[head.revision] for each in column.values())
        row[head.revision] = max(row[parent], taken - 1)
        message = texts[head.revision]
        lines = [f"{message.role}:", message.text]
        lines += [f"label: {label}" for label in head.labels]
        ended = all(each.parent != head.revision for each in heads)
        kind = "result" if head.revision == newest else "faded" if ended else ""
        title = f"revision {head.revision}"
        if kind:
            title += ", newest" if kind == "result" else ", abandoned"
        boxes.append(
            Box(
                12 + 216 * column[head.revision],
                12 + 106 * row[head.revision],
                title,
                lines,
                kind,
            )
        )

    arrows = [
        (head.parent - 1, head.revision - 1)
        for head in heads
        if head.parent is not None
    ]
    return draw_picture("The revisions of a name after a rollback", boxes, arrows)


def draw_streamed_answer() -> str:
    """The way of a streamed answer: from the provider's events to the ledger."""
    events = [
        {"id": "r-1", "choices": [{"delta": {"content": "At "}}]},
        {
            "id": "r-1",
            "choices": [{"delta": {"content": "noon."}, "finish_reason": "stop"}],
        },
        {
            "id": "r-1",
            "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5},
        },
    ]
    chunks = list(openai_chat.load_chunks(events))
    answer = concat(chunks)
    state = Aggregator.new().add_response(answer)
    pieces = [
        describe_usage(chunk.response.usage)
        if chunk.response is not None and chunk.response.usage
        else repr(chunk.text)
        for chunk in chunks
    ]
    boxes = [
        Box(12, 66, "provider", [f"{len(events)} events"]),
        Box(150, 48, "load_chunks()", pieces),
        Box(328, 66, "Stream", ["pulled once"]),
        Box(480, 12, "a user interface", ["shows each piece"]),
        Box(480, 90, "concat()", [repr(answer.text)]),
        Box(660, 72, "state.add_response()", describe_state(state), "result"),
    ]
    label = "A streamed answer: events, chunks, a stream with two readers, a message"
    return draw_picture(label, boxes, [(0, 1), (1, 2), (2, 3), (2, 4), (4, 5)])


PICTURES: Mapping[Path, Callable[[], str]] = {
    DOCS / "fork-and-join.svg": draw_fork_and_join,
    DOCS / "revisions.svg": draw_revisions,
    DOCS / "streamed-answer.svg": draw_streamed_answer,
}


if __name__ == "__main__":
    for path, draw in PICTURES.items():
        path.write_text(draw(), encoding="utf-8")
