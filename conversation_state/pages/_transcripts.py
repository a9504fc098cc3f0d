"""
Conversations as people read them: a bubble for each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conversation_state._wording import format_count
from conversation_state.messages import Message, find_erasure
from conversation_state.pages._markup import Markup, Words, element, join_markup
from conversation_state.rendering import ContentBlock, format_heading, iterate_blocks

__all__ = ["CallNames", "draw_block", "draw_message", "draw_transcript"]

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
            rest = format_count(first + len(messages) - number, "message")
            more = f"{rest} after these, which are not shown: this page is large"
            items.append(element("p", {"class": "cs-rest"}, more))
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
    """
    One message; *names* has the names of the calls before it, and then its own.
    """
    heading = Markup(format_heading(message, names, words.code))
    erased = " cs-erased" if find_erasure(message) is not None else ""
    return element(
        "article",
        {"class": f"cs-message cs-{message.role}{erased}{kind}"},
        element("h3", None, heading, element("small", None, f"#{number:,}"), note),
        [draw_block(block, words) for block in _take_blocks(message, words)],
    )


def _take_blocks(message: Message, words: Words) -> Iterable[ContentBlock]:
    for number, block in enumerate(iterate_blocks(message, words.code)):
        if number == _MAX_PARTS:
            yield ContentBlock("more parts, which are not shown", "")
            return

        yield block


def draw_block(block: ContentBlock, words: Words) -> Markup:
    """
    One piece of a message: what it is, and its content, folded if it is long.
    """
    label = Markup(block.label)
    if not block.body:
        return element("p", {"class": "cs-part"}, label)

    body = words.text(block.body[:_MAX_BODY])
    shown = element(
        "div",
        {"class": "cs-code" if block.is_code else "cs-prose", "dir": "auto"},
        body,
    )
    left_out = len(block.body) - _MAX_BODY
    more = (
        element(
            "p", {"class": "cs-part"}, f"… {format_count(left_out, 'more character')}"
        )
        if left_out > 0
        else None
    )
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
