"""
Conversations as people read them, a bubble for each message; and what the model sees
of them: the budget as a bar, every message as a bar beside the others, and the
transcript with what is dropped, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from conversation_state._wording import describe_value, format_count, shorten_repr
from conversation_state.messages import Message, find_erasure
from conversation_state.pages._markup import (
    Markup,
    Words,
    draw_before,
    draw_too_large,
    element,
    join_markup,
)
from conversation_state.rendering import ContentBlock, format_heading, iterate_blocks
from conversation_state.trimming import Element, TrimContext

# The names of the calls made so far, by their ids.
CallNames = dict[str, str]

# The most characters of a part, how many are shown without unfolding it, and the
# most parts of a message.
_MAX_BODY = 10_000
_MAX_UNFOLDED = 1_500
_MAX_PARTS = 100
# After so many characters of markup no further message is shown: content may be made
# so that each of its characters takes six.
MAX_SIZE = 4_000_000


def draw_transcript(messages: Sequence[Message], words: Words, first: int) -> Markup:
    names: CallNames = {}
    items: list[Markup] = []
    size = 0
    for number, message in enumerate(messages, first):
        if size > MAX_SIZE:
            items.append(draw_too_large(first + len(messages) - number))
            break

        items.append(draw_message(message, words, names, number=number))
        size += len(items[-1])

    return element("div", {"class": "cs-transcript"}, items)


def draw_message(
    message: Message,
    words: Words,
    names: CallNames,
    *,
    number: int,
    note: Markup | None = None,
    kind: str = "",
) -> Markup:
    """One message; *names* has the names of the calls before it, and then its own."""
    heading = Markup(format_heading(message, names, words.code))
    erased = " cs-erased" if find_erasure(message) is not None else ""
    blocks = list(islice(iterate_blocks(message, words.code), _MAX_PARTS + 1))
    if len(blocks) > _MAX_PARTS:
        blocks[-1] = ContentBlock("more parts, which are not shown", "")

    return element(
        "article",
        {"class": f"cs-message cs-{message.role}{erased}{kind}"},
        element("h3", None, heading, element("small", None, f"#{number:,}"), note),
        [_draw_block(block, words) for block in blocks],
    )


def _draw_block(block: ContentBlock, words: Words) -> Markup:
    """One piece of a message: what it is, and its content, folded if it is long."""
    label = Markup(block.label)
    if not block.body:
        return element("p", {"class": "cs-part"}, label)

    body = words.text(block.body[:_MAX_BODY])
    shown = element(
        "div",
        {"class": "cs-code" if block.is_code else "cs-prose", "dir": "auto"},
        body,
    )
    more = None
    left_out = len(block.body) - _MAX_BODY
    if left_out > 0:
        rest = f"… {format_count(left_out, 'more character')}"
        more = element("p", {"class": "cs-part"}, rest)

    is_aside = block.label.startswith(("reasoning", "calls "))
    if len(block.body) <= _MAX_UNFOLDED and not block.label.startswith("reasoning"):
        head = element("p", {"class": "cs-part"}, label) if label else None
        return join_markup([head, shown, more])

    length = format_count(len(block.body), "character")
    summary: list[Markup | str] = [label, " "] if label else []
    if not is_aside:
        summary += [words.line(block.body, 80), " "]

    return element(
        "details",
        None,
        element("summary", None, summary, element("small", None, f"({length})")),
        shown,
        more,
    )


# What the model sees


# The most messages, from the end, that have a bar and a bubble of their own.
MAX_BARS = 1_000
MAX_SHOWN = 200

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
    view: TrimContext, words: Words, *, previous: TrimContext | None = None
) -> Markup:
    """
    *view* as a section of a page: its figures, its bars and its transcript. What the
    view of the turn before, *previous*, shows at its start, too, a provider that cached
    it need not process again.
    """
    start = max(len(view.original) - MAX_SHOWN, 0)
    seen = list(_survey_messages(view, start))
    bubbles = [draw_before(start)]
    names: CallNames = {}
    # The position of the last message that both views begin with.
    shared = 0 if previous is None else view.shared_prefix(previous).messages
    last = view.elements[shared - 1].seq if shared else None
    for reason, group in groupby(seen, lambda each: each.reason):
        messages = list(group)
        if reason:
            bubbles.append(_draw_dropped(messages, reason, words, names))
            continue

        for each in messages:
            bubbles.append(_draw_kept(each, words, names))
            if each.seq == last:
                text = "up to here as in the view before"
                bubbles.append(element("p", {"class": "cs-rest cs-cached"}, text))

    return element(
        "section",
        {"class": "cs-view", "aria-label": "What the model sees"},
        draw_figures(view, words, previous),
        draw_bars(view),
        element("div", {"class": "cs-transcript"}, bubbles),
    )


def _survey_messages(view: TrimContext, start: int) -> Iterator[_SeenMessage]:
    reasons = {each.seq: each.reason for each in view.dropped}
    shown: dict[int, list[Element]] = {}
    for each in view.elements:
        shown.setdefault(each.seq, []).append(each)

    originals = view.original.elements
    for seq in range(start, len(originals)):
        original = originals[seq]
        here = tuple(shown.get(seq, ()))
        reason = "" if here else reasons.get(seq, "not shown")
        yield _SeenMessage(seq, original.message, original.tokens, here, reason)


class ViewBubbles:
    def __init__(self, view: TrimContext | None, words: Words) -> None:
        seen = () if view is None else _survey_messages(view, 0)
        self._seen = {each.seq: each for each in seen}
        self._words = words

    def draw(self, number: int, message: Message, names: CallNames) -> Markup:
        seen = self._seen.get(number - 1)
        # The page may show another state than the view is of.
        if seen is None or not (seen.message is message or seen.message == message):
            return draw_message(message, self._words, names, number=number)

        if seen.shown:
            return _draw_kept(seen, self._words, names)

        note = element("mark", None, "not sent: ", self._words.line(seen.reason))
        kind = " cs-gone"
        return draw_message(
            message, self._words, names, number=number, note=note, kind=kind
        )


def draw_figures(
    view: TrimContext, words: Words, previous: TrimContext | None = None
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
        element("li", None, words.line(str(each.error), 500))
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


def _draw_kept(each: _SeenMessage, words: Words, names: CallNames) -> Markup:
    if not each.is_changed:
        return draw_message(each.message, words, names, number=each.seq + 1)

    note = element("mark", None, "in other words")
    bubbles = [
        draw_message(
            shown.message,
            words,
            names,
            number=each.seq + 1,
            note=note,
            kind=" cs-changed",
        )
        for shown in each.shown
    ]
    original = element(
        "details",
        {"class": "cs-original"},
        element("summary", None, "as it is in the conversation"),
        draw_message(each.message, words, names, number=each.seq + 1),
    )
    return join_markup([bubbles, original])


def _draw_dropped(
    group: Sequence[_SeenMessage], reason: str, words: Words, names: CallNames
) -> Markup:
    bubbles = [
        draw_message(each.message, words, names, number=each.seq + 1, kind=" cs-gone")
        for each in group
    ]
    tokens = format_count(sum([each.tokens for each in group]), "token")
    which = f"{format_count(len(group), 'message')} dropped ({tokens}): "
    # The reason may name a call of the conversation.
    return element(
        "details",
        {"class": "cs-dropped"},
        element("summary", None, which, words.line(reason)),
        bubbles,
    )


# The bars


def draw_bars(view: TrimContext) -> Markup:
    """
    One bar for each message, as wide as it has tokens: full if the model sees it,
    hollow if it does not, low if it sees other words. SVG, without any words of the
    conversation.

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
            "role": "img",
            "aria-label": label,
        },
        element("title", None, label),
        _draw_shapes(view, 2),
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


def _draw_shapes(view: TrimContext, top: float) -> list[Markup]:
    scale = (_WIDTH - 2 * _LEFT) / max(view.original.total_tokens, 1)
    start = max(len(view.original) - MAX_BARS, 0)
    seen = list(_survey_messages(view, start))
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
        shapes += _draw_run(run, tokens, x, top, scale)
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
