"""
The drawing of a tree of states: as HTML with a picture beside each row, and as text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Literal, TypeAlias

from conversation_state._wording import format_count
from conversation_state.pages._layout import (
    Fold,
    GraphNode,
    GraphRow,
    fold_runs,
    lay_out,
)
from conversation_state.pages._markup import Child, Markup, Words, element
from conversation_state.rendering import escape_line

# What a piece of a line of text is; "" for what has no kind.
PieceKind: TypeAlias = Literal["", "present", "lanes", "label", "facts", "excerpt"]
# What colours a piece for a terminal.
Painter: TypeAlias = Callable[[str, PieceKind], str]

# The most rows of a drawing: older ones are counted.
MAX_ROWS = 1_500

# The most labels of a state that are drawn, and the most characters of each.
_MAX_LABELS = 8
_LONGEST_LABEL = 60

# The size of a row and the width of a lane, in pixels.
_HEIGHT = 44
_WIDTH = 16
_RADIUS = 4.5
# So many lanes fit beside the text of a row on a small telephone.
_MAX_UNSCALED = 8


def draw_tree(
    nodes: Sequence[GraphNode],
    words: Words,
    *,
    max_rows: int = MAX_ROWS,
    older: int = 0,
    link_older: Callable[[Hashable], str] | None = None,
    complete: Callable[[GraphNode], GraphNode] | None = None,
    now: datetime | None = None,
) -> Markup:
    """
    A list of the states in *nodes*, oldest first, with the newest on top.

    Long runs without forks are folded. At most *max_rows* rows are drawn; what is
    left out is counted, with *older* ones that are not in *nodes*, and is a link to
    what *link_older* returns for the last row that is drawn. What is dear to find out
    of a state, *complete* adds to those that are drawn. Times are shown as what has
    passed until *now*; without it as they are.
    """
    rows, left_out = _select_rows(nodes, max_rows)
    left_out += older
    lanes = 1 + max([_find_widest(row) for row in rows], default=0)
    items: list[Markup] = []
    for row in rows:
        if complete is not None and isinstance(row.node, GraphNode):
            row = row._replace(node=complete(row.node))  # noqa: PLW2901 - a new row

        items.append(_draw_row(row, lanes, words, now))

    if left_out:
        more: Child = f"… and {format_count(left_out, 'older state')}"
        if link_older is not None and rows:
            address = link_older(rows[-1].node.key)
            more = element("a", {"href": address}, more)

        items.append(element("li", {"class": "cs-rest"}, more))

    return element("ol", {"class": "cs-tree", "reversed": ""}, items)


def format_tree(
    nodes: Sequence[GraphNode],
    *,
    max_rows: int = MAX_ROWS,
    width: int = 100,
    older: int = 0,
    paint: Painter | None = None,
) -> Iterator[str]:
    """
    The same as lines of text; the last one counts what is left out.

    Each line has at most *width* characters beside its lanes. With *paint* the pieces
    of a line are what it returns for them and their kinds.
    """
    rows, left_out = _select_rows(nodes, max_rows)
    left_out += older
    day: date | None = None
    for row in rows:
        if len(row.above) > 1 or (row.above and row.above[0] != row.lane):
            yield _join_lanes(row, row.above, is_above=True)

        lanes = _draw_lanes(row)
        pieces = list(_shorten_pieces(_describe_node(row.node, width, day), width))
        if isinstance(row.node, GraphNode) and row.node.saved_at is not None:
            day = row.node.saved_at.date()

        if paint is None:
            yield f"{lanes}  {''.join([text for text, _ in pieces])}".rstrip()
        else:
            is_present = isinstance(row.node, GraphNode) and row.node.is_present
            kind: PieceKind = "present" if is_present else "lanes"
            painted = [paint(text, kind) if kind else text for text, kind in pieces]
            yield f"{paint(lanes, kind)}  {''.join(painted)}"

        if row.below and row.below != (row.lane,):
            yield _join_lanes(row, row.below, is_above=False)

    if left_out:
        yield f"… and {format_count(left_out, 'older state')}"


def _select_rows(
    nodes: Sequence[GraphNode], max_rows: int
) -> tuple[list[GraphRow], int]:
    rows = list(islice(lay_out(fold_runs(nodes)), max_rows))
    states = [len(r.node.nodes) if isinstance(r.node, Fold) else 1 for r in rows]
    return rows, len(nodes) - sum(states)


def _find_widest(row: GraphRow) -> int:
    return max(row.lane, *row.above, *row.below, *row.passing, 0)


# HTML


def _draw_row(row: GraphRow, lanes: int, words: Words, now: datetime | None) -> Markup:
    picture = _draw_picture(row, lanes)
    node = row.node
    if isinstance(node, Fold):
        # The lines go on beside the states of an opened fold.
        lines = element("div", {"class": "cs-lanes"}, picture, _draw_tail(row, lanes))
        return element(
            "li", {"class": "cs-row cs-fold"}, lines, _describe_fold(node, words)
        )

    # Of the live page the shown state is the current one, of others the present.
    here = "page" if node.is_selected else "true" if node.is_present else None
    kind = "cs-row cs-selected" if node.is_selected else "cs-row"
    comparison = None
    if node.comparison:
        # What a screen reader reads out begins with what is seen.
        label = f"compare {node.title}"
        attributes = {"class": "cs-compare", "href": node.comparison}
        comparison = element("a", {**attributes, "aria-label": label}, "compare")

    facts: list[Child] = [node.title]
    if node.role:
        facts += [" · ", words.line(node.role)]

    if node.facts:
        facts += [" · ", node.facts]

    # What is saved is at its newest revision; a timeline may be at any moment.
    present = "you are here" if node.saved_at is None else "newest"
    small = element(
        "small",
        None,
        element("em", {"class": "cs-here"}, present) if node.is_present else None,
        element("em", None, "compared") if node.is_compared else None,
        draw_labels(node.labels, words),
        facts,
    )
    shown = words.excerpt(node.excerpt) if node.excerpt else node.title
    inner = [element("b", {"dir": "auto"}, shown), small]
    time = None if node.saved_at is None else draw_time(node.saved_at, now)
    return element(
        "li",
        {"class": kind, "aria-current": here},
        picture,
        element("a", {"class": "cs-state", "href": node.target}, inner)
        if node.target
        else element("span", {"class": "cs-state"}, inner),
        time,
        comparison,
    )


def _link_state(node: GraphNode) -> Child:
    if not node.target:
        return node.title

    return element("a", {"href": node.target}, node.title)


def draw_time(time: datetime, now: datetime | None = None) -> Markup:
    """*time* in UTC, or how long before *now* it was."""
    whole = f"{time:%Y-%m-%d %H:%M} UTC"
    attributes = {"datetime": time.isoformat(timespec="seconds"), "title": whole}
    shown = f"{time:%Y-%m-%d %H:%M}" if now is None else format_age(now - time)
    return element("time", attributes, shown)


def format_age(age: timedelta) -> str:
    """*age* in the largest unit of which it is one: ``4 min``."""
    seconds = max(int(age.total_seconds()), 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:,} {unit}"

    return "now"


def draw_labels(labels: Sequence[str], words: Words) -> list[Markup]:
    shown = labels[-_MAX_LABELS:]
    drawn = [
        element("span", {"class": "cs-label"}, words.line(each, _LONGEST_LABEL))
        for each in shown
    ]
    if len(labels) > len(shown):
        more = format_count(len(labels) - len(shown), "older label")
        drawn.append(element("i", None, f"and {more}"))

    return drawn


def _describe_excerpt(node: GraphNode, words: Words) -> Markup | None:
    if not node.role:
        return None

    excerpt = words.excerpt(node.excerpt)
    return element("span", {"class": "cs-excerpt"}, f"{node.role}: ", excerpt)


def _describe_fold(fold: Fold, words: Words) -> Markup:
    newest, oldest = fold.nodes[0], fold.nodes[-1]
    summary = f"… {format_count(len(fold.nodes), 'state')}"
    inner = [
        element("li", None, _link_state(node), " ", _describe_excerpt(node, words))
        for node in fold.nodes[:_MAX_FOLDED]
    ]
    left_out = len(fold.nodes) - _MAX_FOLDED - 1
    if left_out >= 0:
        more = f"… {format_count(left_out, 'more state')}, then "
        inner.append(
            element("li", None, more if left_out else None, _link_state(oldest))
        )

    span = f"{oldest.title} to {newest.title}"
    return element(
        "details",
        None,
        element("summary", {"title": span}, summary),
        element("ul", None, inner),
    )


# Of a folded run so many are listed; a page of all would be as long as without.
_MAX_FOLDED = 100


def _draw_picture(row: GraphRow, lanes: int) -> Markup:
    middle = _HEIGHT / 2
    at = _find_centre(row.lane)
    paths = [f"M{_find_centre(lane):g} 0V{_HEIGHT}" for lane in row.passing]
    paths += [_draw_bend(_find_centre(lane), 0, at, middle) for lane in row.above]
    paths += [_draw_bend(at, middle, _find_centre(lane), _HEIGHT) for lane in row.below]
    lines = element("path", {"d": "".join(paths)}) if paths else None
    is_present = isinstance(row.node, GraphNode) and row.node.is_present
    if isinstance(row.node, Fold):
        dots = [
            element("circle", {"cx": at, "cy": middle + move, "r": 1.5})
            for move in (-5, 0, 5)
        ]
    else:
        kind = "cs-here" if is_present else None
        radius = _RADIUS + (1.5 if is_present else 0)
        place = {"cx": at, "cy": middle, "r": radius}
        dots = [element("circle", {"class": kind, **place})]

    return _wrap_picture(lanes, _HEIGHT, lines, dots)


def _draw_tail(row: GraphRow, lanes: int) -> Markup | None:
    """The lines below a row, as long as what is next to them."""
    tails = sorted({*row.passing, *row.below})
    path = "".join([f"M{_find_centre(lane):g} 0V{_HEIGHT}" for lane in tails])
    return _wrap_picture(lanes, None, element("path", {"d": path})) if path else None


def _wrap_picture(lanes: int, height: int | None, *shapes: Child) -> Markup:
    width = lanes * _WIDTH
    # On a narrow page many lanes get narrower, and tails are as high as they must be.
    scaled = lanes > _MAX_UNSCALED or height is None
    attributes = {
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {_HEIGHT}" if scaled else None,
        "preserveAspectRatio": "none" if scaled else None,
        "aria-hidden": "true",
    }
    return element("svg", attributes, *shapes)


def _find_centre(lane: int) -> float:
    return lane * _WIDTH + _WIDTH / 2


def _draw_bend(x: float, y: float, to_x: float, to_y: float) -> str:
    if x == to_x:
        return f"M{x:g} {y:g}V{to_y:g}"

    half = (y + to_y) / 2
    return f"M{x:g} {y:g}C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"


# Text


def _describe_node(
    node: GraphNode | Fold, width: int, day: date | None
) -> Iterator[tuple[str, PieceKind]]:
    """The pieces of a row: words before facts; the date only where it is not *day*."""
    if isinstance(node, Fold):
        yield f"… {format_count(len(node.nodes), 'state')}", "facts"
        return

    yield node.title, "present" if node.is_present else ""
    for label in node.labels:
        yield " ", ""
        yield f"[{escape_line(label)}]", "label"

    if node.is_present:
        yield " ", ""
        yield "← you are here", "present"

    facts = [node.facts] if node.facts else []
    if node.saved_at is not None:
        is_same = node.saved_at.date() == day
        facts.append(f"{node.saved_at:{'%H:%M' if is_same else '%Y-%m-%d %H:%M UTC'}}")

    shown = f"({', '.join(facts)})" if facts else ""
    if node.role:
        yield "  ", ""
        # Cut, so that the facts have room.
        excerpt = " ".join(node.excerpt[:width].split())
        room = max(width - len(shown) - len(node.title) - len(node.role) - 24, 20)
        cut = " …" if len(excerpt) > room else ""
        yield f"{node.role}: {escape_line(excerpt[:room])}{cut}", "excerpt"

    if shown:
        yield "  ", ""
        yield shown, "facts"


def _shorten_pieces(
    pieces: Iterable[tuple[str, PieceKind]], width: int
) -> Iterator[tuple[str, PieceKind]]:
    pieces = list(pieces)
    if sum([len(text) for text, _ in pieces]) <= width:
        yield from pieces
        return

    left = width - 2
    for text, kind in pieces:
        if left > 0:
            yield text[:left], kind

        left -= len(text)

    yield " …", ""


def _draw_lanes(row: GraphRow) -> str:
    signs = [" "] * (_find_widest(row) + 1)
    for lane in row.passing:
        signs[lane] = "│"

    is_present = isinstance(row.node, GraphNode) and row.node.is_present
    is_fold = isinstance(row.node, Fold)
    signs[row.lane] = "┆" if is_fold else "●" if is_present else "○"
    return " ".join(signs).rstrip()


def _join_lanes(row: GraphRow, lanes: Sequence[int], *, is_above: bool) -> str:
    """The line above or below a row, where lines change from or to its lane."""
    touched = {row.lane, *lanes}
    first, last = min(touched), max(touched)
    signs = []
    for lane in range(max(_find_widest(row), last) + 1):
        passes = lane in row.passing
        here, there = lane in lanes, lane == row.lane
        # Above a row, lines come from the top and go down into its own lane.
        up, down = (here, there) if is_above else (there, here)
        left, right = first < lane <= last, first <= lane < last
        lines = 8 * (up or passes) + 4 * (down or passes) + 2 * left + right
        signs.append(_BOX[lines])
        signs.append("─" if right else " ")

    return "".join(signs).rstrip()


# The characters by their lines: right 1, left 2, down 4, up 8.
_BOX = " ╶╴─╷╭╮┬╵╰╯┴│├┤┼"
