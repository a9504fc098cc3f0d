"""
Conversations as people read them, one message below the other; and what the model sees
of them: the budget as a bar, every message as a bar beside the others, and the
transcript with what is dropped, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from conversation_state._wording import (
    describe_value,
    format_count,
    number_messages,
    shorten_repr,
)
from conversation_state.messages import Message
from conversation_state.pages._markup import (
    Attributes,
    Markup,
    Words,
    draw_rest,
    element,
    join_markup,
)
from conversation_state.pages._messages import Calls, Drawer, Siblings
from conversation_state.trimming import Element, TrimContext

# So many characters of markup a page or a fragment has at most; what does not fit is
# counted.
MAX_SIZE = 10_000_000


def draw_transcript(
    messages: Sequence[Message],
    drawer: Drawer,
    first: int,
    siblings: Mapping[int, Siblings] | None = None,
) -> Markup:
    """
    *messages*, numbered from *first* on; the newest ones, if all are too large for a
    page.
    """
    numbered = list(enumerate(messages, first))
    calls = Calls(numbered)
    items: list[Markup] = []
    size = 0
    for number, message in reversed(numbered):
        if size > MAX_SIZE:
            items.append(draw_rest(describe_too_large(number - first + 1)))
            break

        beside = (siblings or {}).get(number)
        items.append(drawer.draw(message, calls, number, siblings=beside))
        size += len(items[-1])

    return element("div", {"class": "cs-transcript"}, items[::-1])


def describe_too_large(count: int) -> str:
    messages = format_count(count, "message")
    return f"{messages} before these, which are not shown: this page is large"


# What the model sees


# The most messages, from the end, that have a bar of their own; and the most of a run
# of dropped ones that can be unfolded.
MAX_BARS = 1_000
_MAX_DROPPED = 200

# The picture, in units of its own.
_WIDTH, _BAR, _LEFT, _ROW = 960, 26, 12, 64
_THINNEST = 2.0
# Readable on white and on black; what is dropped is hollow, and so readable
# without any colour.
_COLOURS = {
    "system": "#8250df",
    "user": "#1f6feb",
    "assistant": "#238636",
    "tool": "#b7791f",
}
_OTHER_COLOUR = "#cf222e"


class _SeenMessage(NamedTuple):
    seq: int  # its position
    message: Message
    tokens: int  # how many tokens it fills
    shown: tuple[Element, ...]  # what the view shows in its place
    reason: str  # why it shows nothing; "" if it shows something

    @property
    def is_changed(self) -> bool:
        return any(each.message != self.message for each in self.shown)


def draw_view(
    view: TrimContext, drawer: Drawer, *, previous: TrimContext | None = None
) -> Markup:
    """
    *view* as a section of a page: its figures, its bars, and all that the model sees,
    in order, with what is dropped folded between. What the view of the turn before,
    *previous*, shows at its start, too, a provider that cached it need not process
    again.
    """
    names = [*_COLOURS, "dropped"]
    items = [element("li", {"class": f"cs-of-{name}"}, name) for name in names]
    return element(
        "section",
        {"class": "cs-view", "aria-label": "What the model sees"},
        _draw_figures(view, drawer.words, previous),
        _draw_bars(view, is_linked=drawer.has_anchors),
        element("ul", {"class": "cs-legend"}, items),
        element("div", {"class": "cs-transcript"}, _draw_seen(view, drawer, previous)),
    )


def _draw_seen(
    view: TrimContext, drawer: Drawer, previous: TrimContext | None
) -> Iterator[Markup]:
    seen = list(_order_as_seen(view))
    calls = Calls((each.seq + 1, each.message) for each in seen if each.shown)
    # The position of the last message that both views begin with.
    shared = 0 if previous is None else view.shared_prefix(previous).messages
    last = view.elements[shared - 1].seq if shared else None
    size = 0
    for reason, group in groupby(seen, lambda each: each.reason):
        run = list(group)
        if reason:
            drawn = _draw_dropped(run, reason, drawer)
            size += len(drawn)
            yield drawn
            continue

        for each in run:
            if size > MAX_SIZE:
                left = format_count(len(view.original) - each.seq, "message")
                text = f"{left} after these, which are not shown: this page is large"
                yield draw_rest(text)
                return

            drawn = _draw_kept(each, calls, drawer)
            size += len(drawn)
            yield drawn
            if each.seq == last:
                text = "up to here as in the view before"
                yield element("p", {"class": "cs-rest cs-cached"}, text)


def _order_as_seen(view: TrimContext) -> Iterator[_SeenMessage]:
    """
    What the view shows, in its order, and the dropped messages where they were: a late
    result stands at its call, for example.
    """
    surveyed = list(_survey_messages(view))
    dropped = (each for each in surveyed if not each.shown)
    pending = next(dropped, None)
    for seq in dict.fromkeys([each.seq for each in view.elements]):
        while pending is not None and pending.seq < seq:
            yield pending
            pending = next(dropped, None)

        yield surveyed[seq]

    while pending is not None:
        yield pending
        pending = next(dropped, None)


def _survey_messages(view: TrimContext) -> Iterator[_SeenMessage]:
    """Each message of the conversation, and what the view shows in its place."""
    reasons = {each.seq: each.reason for each in view.dropped}
    shown: dict[int, list[Element]] = {}
    for each in view.elements:
        shown.setdefault(each.seq, []).append(each)

    for seq, original in enumerate(view.original.elements):
        here = tuple(shown.get(seq, ()))
        reason = "" if here else reasons.get(seq, "not shown")
        yield _SeenMessage(seq, original.message, original.tokens, here, reason)


def _draw_figures(
    view: TrimContext, words: Words, previous: TrimContext | None
) -> Markup:
    """How much of the conversation a view has, its budget, and what failed."""
    facts = [describe_view(view)]
    if previous is not None:
        shared = view.shared_prefix(previous)
        facts.append(
            f"the first {format_count(shared.messages, 'message')} "
            f"({format_count(shared.tokens, 'token')}) as in the view before"
        )

    budget = None
    if view.budget is not None:
        limit = view.budget.effective_input_limit
        value = min(view.total_tokens, limit)
        attributes = {"min": 0, "max": limit, "value": value}
        budget = element(
            "meter",
            {**attributes, "aria-label": "tokens of the budget"},
            f"{view.total_tokens:,} of {limit:,} tokens",
        )

    failures = [
        element("li", None, words.line(number_messages(str(each.error)), 500))
        for each in view.failures[:20]
    ]
    return element(
        "div",
        {"class": "cs-figures"},
        element("p", None, "; ".join(facts), "."),
        budget,
        element("ul", {"class": "cs-failures"}, failures) if failures else None,
    )


def describe_view(view: TrimContext) -> str:
    messages = format_count(len(view.original), "message")
    limit = ""
    if view.budget is not None:
        limit = f" of {view.budget.effective_input_limit:,}"

    kept = f"{len(view):,} of {messages}"
    return f"The model sees {kept}, {view.total_tokens:,}{limit} tokens"


def _draw_kept(each: _SeenMessage, calls: Calls, drawer: Drawer) -> Markup:
    number = each.seq + 1
    if not each.is_changed:
        return drawer.draw(each.message, calls, number)

    note = element("mark", None, "in other words")
    bubbles = [
        drawer.draw(
            shown.message, calls, number, note=note, kind=" cs-changed", is_copy=at > 0
        )
        for at, shown in enumerate(each.shown)
    ]
    original = element(
        "details",
        {"class": "cs-original"},
        element("summary", None, "as it is in the conversation"),
        drawer.draw(each.message, calls, number, is_copy=True),
    )
    return join_markup([bubbles, original])


def _draw_dropped(run: Sequence[_SeenMessage], reason: str, drawer: Drawer) -> Markup:
    left_out = len(run) - _MAX_DROPPED
    shown = run[-_MAX_DROPPED:]
    calls = Calls((each.seq + 1, each.message) for each in shown)
    inner = [
        drawer.draw(each.message, calls, each.seq + 1, kind=" cs-gone")
        for each in shown
    ]
    if left_out > 0:
        messages = format_count(left_out, "message")
        inner.insert(0, draw_rest(f"{messages} before these, dropped, too"))

    tokens = format_count(sum([each.tokens for each in run]), "token")
    which = f"{format_count(len(run), 'message')} dropped ({tokens}): "
    # The reason may name a call of the conversation.
    return element(
        "details",
        {"class": "cs-dropped"},
        element("summary", None, which, drawer.words.line(number_messages(reason))),
        inner,
    )


# The bars


def _draw_bars(view: TrimContext, *, is_linked: bool) -> Markup:
    """
    One bar for each message, as wide as it has tokens: full if the model sees it,
    hollow if it does not, low if it sees other words; where messages have addresses, a
    link to its own. SVG, without any words of the conversation.

    Only the newest messages have a bar of their own; the others share the first.
    """
    label = describe_view(view)
    return element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "cs-bars",
            "viewBox": f"0 0 {_WIDTH} {_BAR + 4}",
            "preserveAspectRatio": "none",
            "role": "group" if is_linked else "img",
            "aria-label": label,
        },
        element("title", None, label),
        _draw_shapes(view, 2, is_linked=is_linked),
    )


def check_view(view: object, what: str) -> None:
    if not isinstance(view, TrimContext):
        raise TypeError(f"{what}: expected a TrimContext, got {describe_value(view)}")


def draw_views(views: Mapping[str, TrimContext]) -> str:
    """
    The bars of several views of one conversation below each other, each with its
    title: a picture to compare them by. SVG, complete in itself, without any words
    of the conversation.

    Args:
        views: The views, by title.
    """
    if not isinstance(views, Mapping):
        raise TypeError(f"views: expected views by title, got {describe_value(views)}")

    shapes: list[Markup] = []
    top = 30.0
    for title, view in views.items():
        check_view(view, f"views[{shorten_repr(title)}]")
        text = f"{title}: {describe_view(view)}"
        shapes.append(element("text", {"x": _LEFT, "y": top - 8}, text))
        shapes += _draw_shapes(view, top)
        top += _ROW

    for number, (role, colour) in enumerate({**_COLOURS, "not sent": ""}.items()):
        x = _LEFT + number * 120.0
        shapes.append(_draw_bar(x, 18, colour, role, top=top - 28, height=12))
        shapes.append(element("text", {"x": x + 24, "y": top - 4}, role))

    picture = element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_WIDTH} {top + 8:g}",
            "font-family": "system-ui, sans-serif",
            "font-size": 13,
        },
        element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"}),
        shapes,
    )
    return f"{picture}\n"


def _draw_shapes(
    view: TrimContext, top: float, *, is_linked: bool = False
) -> list[Markup]:
    scale = (_WIDTH - 2 * _LEFT) / max(view.original.total_tokens, 1)
    start = max(len(view.original) - MAX_BARS, 0)
    seen = list(_survey_messages(view))[start:]
    x = float(_LEFT)
    shapes: list[Markup] = []
    if start:
        tokens = view.original.total_tokens - sum([one.tokens for one in seen])
        title = format_count(start, "older message")
        width = tokens * scale
        bar = _draw_bar(x, width, "#888888", title, top=top, height=_BAR / 2)
        shapes.append(bar)
        x += width

    def group(each: _SeenMessage) -> object:
        # Bars that would be thinner than their outlines share one.
        is_thin = each.tokens * scale < _THINNEST and not each.is_changed
        return (each.message.role, bool(each.shown)) if is_thin else each.seq

    for _, neighbours in groupby(seen, group):
        run = list(neighbours)
        tokens = sum([each.tokens for each in run])
        bars = list(_draw_run(run, tokens, x, top, scale))
        if is_linked:
            # For a pointer: a thousand stops of the Tab key are of no use to anybody.
            number = run[0].seq + 1
            attributes: Attributes = {
                "href": f"#m-{number}",
                "tabindex": -1,
                "aria-label": f"message {number:,}",
            }
            bars = [element("a", attributes, bars)]

        shapes += bars
        x += tokens * scale

    return shapes


def _draw_run(
    run: Sequence[_SeenMessage], tokens: int, x: float, top: float, scale: float
) -> Iterator[Markup]:
    """The bars of one message, or the one bar of several thin ones that are alike."""
    first, last = run[0], run[-1]
    role = first.message.role
    colour = _COLOURS.get(role, _OTHER_COLOUR) if first.shown else ""
    which = (
        f"{first.seq + 1}" if first is last else f"{first.seq + 1} to {last.seq + 1}"
    )
    title = f"{which}: {role}, {tokens:,} tokens"
    width = tokens * scale
    if first is last and not first.shown:
        title += f", {first.reason.split(':')[0]}"

    if not first.is_changed:
        yield _draw_bar(x, width, colour, title, top=top)
        return

    now = sum([shown.tokens for shown in first.shown])
    title += f", now {now:,}"
    colour = _COLOURS.get(first.shown[0].role, _OTHER_COLOUR)
    yield _draw_bar(x, width, "", title, top=top)
    narrow = min(now * scale, width)
    yield _draw_bar(x, narrow, colour, title, top=top, height=_BAR / 2)


def _draw_bar(
    x: float, width: float, colour: str, title: str, *, top: float, height: float = _BAR
) -> Markup:
    """
    One bar from *x* on; hollow without a *colour*. Low ones stand on the same line.
    """
    attributes: dict[str, str | float | None] = {
        "x": round(x, 1),
        "y": round(top + _BAR - height, 1),
        "width": round(max(width - 1, 0.5), 1),
        "height": round(height, 1),
        "fill": colour or "none",
        "stroke": None if colour else "#888888",
    }
    return element("rect", attributes, element("title", None, title))
