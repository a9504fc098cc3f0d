"""
One message as HTML: who says it, the facts of its response, and its content.

A call and its result are one card, which stands where the result does; the card of a
failed call is open.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import NamedTuple, TypeAlias

from conversation_state._wording import format_count, format_dollars
from conversation_state.counting import price
from conversation_state.errors import ConversationStateError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    find_erasure,
    is_interrupted,
    read_tier,
)
from conversation_state.pages._imports import (
    describe_origin,
    describe_unknown,
    is_hidden,
    replace_marks,
)
from conversation_state.pages._markdown import draw_markdown
from conversation_state.pages._markup import (
    Attributes,
    Child,
    Markup,
    Words,
    draw_rest,
    draw_timestamp,
    element,
    join_markup,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    UnknownPart,
    VideoPart,
)
from conversation_state.rendering import (
    ContentBlock,
    format_heading,
    indent_json,
    iterate_blocks,
)
from conversation_state.tools import ToolCall

# The most characters of a part; how many, and how many lines, are shown without
# unfolding it; and the most parts of a message.
_MAX_BODY = 10_000
_MAX_UNFOLDED = 1_500
_MAX_LINES = 60
_MAX_PARTS = 100
# Pictures and sounds that every browser shows, and the most bytes of one.
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = frozenset({"audio/mpeg", "audio/wav", "audio/ogg", "audio/mp4", "audio/webm"})
_MAX_MEDIA = 2_000_000
# What the label of a part begins with that is not drawn from a block alone.
_LABELS_APART = (
    *[f"{kind.kind}: " for kind in (AudioPart, FilePart, ImagePart, VideoPart)],
    UnknownPart.kind,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
# The most characters of arguments that stand for them in a closed card.
_MAX_ARGUMENTS = 90

Numbered: TypeAlias = "Iterable[tuple[int, Message]]"


class Calls:
    """
    Which result answers which call, in messages that are shown together.

    Compatible servers use an id again: a result means the latest call before it.
    """

    def __init__(self, numbered: Numbered = ()) -> None:
        # By the number of the result, and by that of the message and the call in it.
        self._asked: dict[int, ToolCall] = {}
        self.answered: set[tuple[int, int]] = set()
        waiting: dict[str, tuple[int, int, ToolCall]] = {}
        for number, message in numbered:
            if isinstance(message, ToolMessage):
                found = waiting.get(message.tool_call_id)
                if found is not None:
                    self._asked[number] = found[2]
                    self.answered.add(found[:2])

            for at, call in enumerate(message.tool_calls):
                waiting[call.id] = number, at, call

    def find(self, number: int) -> ToolCall | None:
        """The call that the result *number* answers, if it is shown."""
        return self._asked.get(number)


class Siblings(NamedTuple):
    """Alternatives to a message, as a reader goes through them."""

    position: int  # from 1 on
    total: int
    previous: str = ""  # the address of what shows it; "" for the first one
    next: str = ""


class Drawer:
    """
    How the messages of a page are drawn.

    Args:
        words: How words become markup.
        is_raw: Whether texts are shown as they are, not as Markdown.
        has_prices: Whether amounts are shown; the first takes as long as the
            prices take to load.
        has_anchors: Whether each message has an address on its page: its number, which
            only one conversation of a page may have.
        link_acts: The address of the page whose acts are about a message, by its
            number; None if there are no forms.
        link_copy: The address of a message as Markdown, likewise.
    """

    def __init__(
        self,
        words: Words,
        *,
        is_raw: bool = False,
        has_prices: bool = False,
        has_anchors: bool = False,
        link_acts: Callable[[int], str] | None = None,
        link_copy: Callable[[int], str] | None = None,
    ) -> None:
        self.words = words
        self._is_raw = is_raw
        self._has_prices = has_prices
        self.has_anchors = has_anchors
        self._link_acts = link_acts
        self._link_copy = link_copy

    def draw(
        self,
        message: Message,
        calls: Calls,
        number: int,
        *,
        note: Markup | None = None,
        kind: str = "",
        siblings: Siblings | None = None,
        is_copy: bool = False,
    ) -> Markup:
        """
        One message, the *number*-th of its conversation; of one that is shown several
        times the others are copies, which have no address.
        """
        words = self.words
        erased = " cs-erased" if find_erasure(message) is not None else ""
        attributes = {
            "class": f"cs-message cs-{message.role}{erased}{kind}",
            "id": f"m-{number}" if self.has_anchors and not is_copy else None,
        }
        origin = describe_origin(message)
        mark = element("em", None, origin) if origin else None
        more = [_draw_siblings(siblings) if siblings else None, mark, note]
        if isinstance(message, ToolMessage):
            card = self._draw_result(message, calls.find(number), number)
            return element("article", attributes, more if any(more) else None, card)

        heading = Markup(format_heading(message, {}, words.code, has_time=False))
        by = element(
            "div",
            {"class": "cs-by"},
            element("h3", None, heading, draw_timestamp(message.timestamp)),
            more,
            self._draw_facts(message),
            self._draw_number(number),
        )
        # The calls, which end the blocks but for the finish reason, are cards.
        blocks = list(islice(self._iterate_blocks(message), _MAX_PARTS + 1))
        if len(blocks) > _MAX_PARTS:
            blocks[-1] = ContentBlock("more parts, which are not shown", "")

        body = self._draw_body(message, blocks)
        cards = [
            self._draw_card(call, [], element("span", None, "no result here"))
            for at, call in enumerate(message.tool_calls[:_MAX_PARTS])
            if (number, at) not in calls.answered
        ]
        return element("article", attributes, by, body, cards)

    def _iterate_blocks(self, message: Message) -> Iterator[ContentBlock]:
        for block in iterate_blocks(message, self.words.code):
            body = block.body if self._is_raw else replace_marks(block.body, message)
            yield block._replace(body=body)

    def _draw_body(
        self, message: Message, blocks: Sequence[ContentBlock]
    ) -> Markup | None:
        parts = _iterate_apart(message)
        drawn = [
            self._draw_block(block, parts)
            for block in blocks
            if not block.label.startswith("calls ")
        ]
        if not drawn:
            return None if message.tool_calls else draw_rest("empty")

        if is_hidden(message):
            text = message.text if message.text.strip() else "content"
            text = self.words.excerpt(text, 80)
            drawn = [element("details", None, element("summary", None, text), drawn)]

        return element("div", {"class": "cs-body"}, drawn)

    def _draw_number(self, number: int) -> Markup:
        shown = f"#{number:,}"
        if not self.has_anchors:
            return element("small", None, shown)

        attributes = {"class": "cs-number", "href": f"#m-{number}"}
        acts: list[Child] = []
        if self._link_copy is not None:
            title = f"Copy message {number:,} as Markdown"
            acts.append(_draw_act("cs-copy", self._link_copy(number), title, "copy"))

        if self._link_acts is not None:
            title = f"Go on from message {number:,}"
            acts.append(_draw_act(None, self._link_acts(number), title, "↳"))

        small = {"class": "cs-acts"}
        return element("small", small, acts, element("a", attributes, shown))

    def _draw_facts(self, message: Message) -> Markup | None:
        response = message.response if isinstance(message, AssistantMessage) else None
        if response is None:
            return None

        facts: list[Child] = []
        if response.model:
            facts.append(self.words.line(response.model, 60))

        if response.usage is not None:
            tokens = format_count(response.usage.total_tokens, "token")
            facts.append(tokens)
            amount = self._find_price(message)
            if amount is not None:
                facts.append(element("span", {"title": amount[1]}, amount[0]))

        pieces = [piece for fact in facts for piece in (" · ", fact)][1:]
        return element("small", {"class": "cs-facts"}, pieces) if pieces else None

    def _find_price(self, message: Message) -> tuple[str, str] | None:
        response = message.response if isinstance(message, AssistantMessage) else None
        if not self._has_prices or response is None or response.usage is None:
            return None

        # What has no known price has a bill of tokens alone.
        if read_tier(message):
            return None

        try:
            amount = price(response.usage, response.model, when=message.timestamp)
        except (ConversationStateError, LookupError, ValueError):
            return None

        least = "at least " if is_interrupted(message) else ""
        return f"{least}{round_dollars(amount)}", f"{least}{format_dollars(amount)}"

    # Calls and results

    def _draw_result(
        self, message: ToolMessage, call: ToolCall | None, number: int
    ) -> Markup:
        result = "".join([block.body for block in iterate_blocks(message, str)])
        size = format_count(len(result), "character")
        kind, state = ("cs-bad", "failed") if message.is_error else ("cs-ok", "ok")
        facts: list[Child] = [element("b", {"class": kind}, state), f" · {size} "]
        facts.append(self._draw_number(number))
        parts = _iterate_apart(message)
        blocks = [
            self._draw_block(block, parts, has_fold=False)
            for block in islice(self._iterate_blocks(message), _MAX_PARTS)
        ]
        name = message.tool_name or (call.name if call else "")
        other = call.name if call is not None and call.name != name else ""
        return self._draw_card(
            call or ToolCall(message.tool_call_id, name, ""),
            blocks,
            facts,
            name=name,
            other=other,
            is_open=message.is_error,
        )

    def _draw_card(
        self,
        call: ToolCall,
        result: Sequence[Markup],
        facts: Child,
        *,
        name: str = "",
        other: str = "",
        is_open: bool = False,
    ) -> Markup:
        """A call: its arguments on a line; opened, all of them and the *result*."""
        words = self.words
        title = [element("code", None, words.line(name or call.name or "result"))]
        if call.type != "function":
            title.append(Markup(f" ({words.line(call.type)})"))

        if other:
            title.append(Markup(f" for a call of {words.code(other)}"))

        pieces: list[Child] = []
        if call.arguments:
            pieces.append(element("p", {"class": "cs-part"}, "arguments"))
            pieces.append(self._draw_code(indent_json(call.arguments)))

        if result:
            pieces += [element("p", {"class": "cs-part"}, "result"), *result]

        return element(
            "details",
            {"class": "cs-tool", "open": "" if is_open else None},
            element(
                "summary",
                {"title": words.title(f"call {call.id}") if call.id else None},
                title,
                " ",
                element(
                    "span",
                    {"class": "cs-arguments"},
                    words.line(shorten_arguments(call.arguments), _MAX_ARGUMENTS),
                ),
                element("small", None, facts),
            ),
            pieces,
        )

    # Content

    def _draw_code(self, text: str) -> Markup:
        attributes: Attributes = {"class": "cs-code", "dir": "auto", "tabindex": 0}
        body = element("div", attributes, self.words.text(text[:_MAX_BODY]))
        return join_markup([body, _describe_left_out(text)])

    def _draw_block(
        self, block: ContentBlock, parts: Iterator[Part], *, has_fold: bool = True
    ) -> Markup:
        """
        One piece of a message: what it is, and its content, folded if it is long; of a
        part with media, and of an unknown one, the next one of *parts*.
        """
        label = Markup(block.label)
        part = next(parts, None) if block.label.startswith(_LABELS_APART) else None
        if isinstance(part, UnknownPart) and (text := describe_unknown(part.raw)):
            said = self._draw_block(ContentBlock("", text), parts, has_fold=has_fold)
            code = self._draw_code(indent_json(block.body))
            fold = element("details", None, element("summary", None, label), code)
            return join_markup([said, fold])

        if not block.body:
            caption = element("p", {"class": "cs-part"}, label)
            return join_markup([self._draw_media(part) if part else None, caption])

        shown = None
        is_aside = block.label.startswith("reasoning")
        if block.is_code:
            shown = self._draw_code(indent_json(block.body))
        else:
            text = block.body[:_MAX_BODY]
            if not self._is_raw:
                shown = draw_markdown(text, self.words)

            attributes: Attributes = {"class": "cs-prose", "dir": "auto"}
            if shown is None:
                attributes = {"class": "cs-prose cs-plain", "dir": "auto"}
                shown = self.words.text(text)

            body = element("div", attributes, shown)
            shown = join_markup([body, _describe_left_out(block.body)])

        lines = block.body.count("\n", 0, _MAX_BODY)
        is_short = len(block.body) <= _MAX_UNFOLDED and lines <= _MAX_LINES
        if not has_fold or (is_short and not is_aside):
            head = element("p", {"class": "cs-part"}, label) if label else None
            return join_markup([head, shown])

        length = format_count(len(block.body), "character")
        summary: list[Child] = [label, " "] if label else []
        if not is_aside:
            summary += [self.words.excerpt(block.body, 80), " "]

        return element(
            "details",
            None,
            element("summary", None, summary, element("small", None, f"({length})")),
            shown,
        )

    def _draw_media(self, part: Part) -> Markup | None:
        """A picture or a sound, if it is here: nothing is loaded from elsewhere."""
        allowed = _PICTURES if isinstance(part, ImagePart) else _SOUNDS
        if self.words.is_redacted or not isinstance(part, (ImagePart, AudioPart)):
            return None

        kind, content = part.media_type.lower(), ""
        if part.data is not None and len(part.data) <= _MAX_MEDIA:
            content = b64encode(part.data).decode()
        elif part.url is not None and len(part.url) <= 2 * _MAX_MEDIA:
            start, _, content = part.url.partition(";base64,")
            kind = start.removeprefix("data:").lower()

        if kind not in allowed or not _BASE64.fullmatch(content):
            return None

        source = f"data:{kind};base64,{content}"
        if isinstance(part, AudioPart):
            return element("audio", {"src": source, "controls": ""})

        # Its style enlarges the one that has the focus.
        alt = self.words.title(f"{part.kind}, {kind}")
        return element("img", {"src": source, "alt": alt, "tabindex": 0})


def _draw_act(kind: str | None, address: str, title: str, sign: str) -> Markup:
    attributes = {"class": kind, "href": address, "title": title, "aria-label": title}
    return join_markup([element("a", attributes, sign), " "])


def _iterate_apart(message: Message) -> Iterator[Part]:
    content = getattr(message, "content", ())
    if find_erasure(message) is None and not isinstance(content, str):
        kinds = (MediaPart, UnknownPart)
        yield from [part for part in content if isinstance(part, kinds)]


def _describe_left_out(body: str) -> Markup | None:
    left_out = len(body) - _MAX_BODY
    if left_out <= 0:
        return None

    return draw_rest(f"… {format_count(left_out, 'more character')}")


def _draw_siblings(found: Siblings) -> Markup:
    def step(address: str, sign: str, title: str) -> Markup:
        if not address:
            return element("span", {"class": "cs-off", "aria-hidden": "true"}, sign)

        return element("a", {"href": address, "aria-label": title}, sign)

    return element(
        "span",
        {"class": "cs-siblings"},
        step(found.previous, "‹", "Previous alternative"),
        f" {found.position}/{found.total} ",
        step(found.next, "›", "Next alternative"),
    )


def shorten_arguments(arguments: str) -> str:
    """*arguments* on a line: ``to=Bern, after=12:00``; as they are if no object."""
    try:
        found = json.loads(arguments) if len(arguments) <= _MAX_BODY else None
    except (ValueError, RecursionError):
        found = None

    if not isinstance(found, dict):
        return " ".join(arguments[: 2 * _MAX_ARGUMENTS].split())

    pairs = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in islice(found.items(), 20)
    ]
    return " ".join(", ".join(pairs).split())


def round_dollars(amount: Decimal) -> str:
    """US dollars as people read them: cents, or two digits of less than one."""
    if amount >= Decimal("0.01") or not amount:
        return f"${amount:,.2f}"

    return f"${amount:.{1 - amount.adjusted()}f}"
