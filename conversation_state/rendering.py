"""Rendering: conversations for people to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from conversation_state._canonical import load
from conversation_state._persistent import thaw
from conversation_state._wording import (
    INVISIBLE_CHARACTERS,
    describe_type,
    escape_invisible,
    escape_line,
    find_kind,
    format_count,
    format_media_size,
    shorten_repr,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    find_erasure,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall

__all__ = [
    "ContentBlock",
    "Quote",
    "escape_invisible",
    "escape_line",
    "format_code_span",
    "format_heading",
    "format_markdown_turn",
    "indent_json",
    "iterate_blocks",
    "quote_word",
    "render_transcript",
]

# Escapes a word for use in a heading or a label.
Quote: TypeAlias = "Callable[[str], str]"


def render_transcript(
    messages: Iterable[Message],
    *,
    format: Literal["text", "markdown"] = "text",  # noqa: A002 - the usual name
) -> str:
    """
    *messages* as a transcript for people, oldest first; no newline at the end.

    Shows each message's role, name and time if known, its text, reasoning,
    refusals, calls with their arguments, results with the call they answer,
    media by kind, type and size, the finish reason unless it is ``stop``, and
    the reason of an erasure.

    Content can't imitate another message. As ``text`` only headings start a
    line, and content is indented; characters that are invisible, or that a
    terminal would interpret, are escaped. As ``markdown`` content is quoted, its
    own Markdown works inside of the quote, and HTML, images and link
    definitions are shown as source; arguments and results are code.
    Neither can be read back into messages: `codec` is for that.

    Deterministic, and linear in the size of the content.

    Args:
        messages: A state, a view's messages, or any other messages.
        format: ``text`` or ``markdown``.

    Raises:
        ValueError: If *format* is neither.
        TypeError: If *messages* holds something else, or is a message itself.

    >>> from conversation_state.messages import UserMessage
    >>> print(render_transcript([UserMessage("When?"), AssistantMessage("Now.")]))
    user
        When?
    <BLANKLINE>
    assistant
        Now.
    """
    # A list as the format is not hashable: looking it up would be a TypeError.
    if not isinstance(format, str) or format not in _FORMATS:
        raise ValueError(
            f"format is {shorten_repr(format)}; expected 'text' or 'markdown'"
        )

    if not isinstance(messages, Iterable):
        raise TypeError(f"messages is {describe_type(messages)}; expected messages")

    quote, write = _FORMATS[format]
    names: dict[str, str] = {}
    written = []
    for at, message in enumerate(messages):
        if not isinstance(message, Message):
            raise TypeError(
                f"messages[{at}] is {shorten_repr(message)}; expected a Message"
            )

        written.append(
            write(format_heading(message, names, quote), iterate_blocks(message, quote))
        )

    return "\n\n".join(written)


class ContentBlock(NamedTuple):
    """
    One piece of a message's content.

    Attributes:
        label: Its label, already quoted; "" for plain text.
        body: Its content, as in the message.
        is_code: Whether that is code or JSON rather than prose.
    """

    label: str
    body: str
    is_code: bool = False


# Headings and blocks


def format_heading(
    message: Message, names: dict[str, str], quote: Quote, *, has_time: bool = True
) -> str:
    """
    The role, name, call and, unless *has_time* is false, time of a message; *names* has
    the names of the calls made so far, by their ids, and then its own, too.
    """
    words = [message.role]
    if isinstance(message, UnknownMessage):
        kind = message.raw.get("role", message.raw.get("type"))
        words += [
            quote(word)
            for word in (message.source, kind)
            if isinstance(word, str) and word
        ]

    made = ""
    # A result says of which tool it is, and that may be wrong: if the call with its
    # id was made to another tool, the heading says both.
    if isinstance(message, ToolMessage):
        made = names.get(message.tool_call_id, "")
        words += [quote(name) for name in [message.tool_name or made] if name]

    if message.name:
        words.append(f"({quote(message.name)})")

    facts = [" ".join(words)]
    if isinstance(message, ToolMessage):
        other = made not in ("", message.tool_name or made)
        of_other = f", a call of {quote(made)}" if other else ""
        facts.append(f"for {quote(message.tool_call_id)}{of_other}")
        facts += ["failed"] if message.is_error else []

    if has_time and message.timestamp is not None:
        facts.append(message.timestamp.isoformat(" "))

    # Compatible servers use an id again: a result means the latest call before it.
    names.update([(call.id, call.name) for call in message.tool_calls])
    return ", ".join(facts)


def iterate_blocks(message: Message, quote: Quote) -> Iterator[ContentBlock]:
    """
    The content of a message, in order; neighbouring text parts as one text. Of
    an erased message, the reason of the erasure and the calls.
    """
    erasure = find_erasure(message)
    is_result = isinstance(message, ToolMessage)
    content = getattr(message, "content", ())
    if erasure is not None:
        yield ContentBlock("erased", erasure.reason)
    elif not isinstance(content, str):
        yield from _iterate_parts(content, quote, is_result=is_result)
    elif content:
        yield ContentBlock("", content, is_code=is_result)

    if isinstance(message, UnknownMessage) and erasure is None:
        yield ContentBlock("", _dump_shortened(message.raw), is_code=True)

    for call in message.tool_calls:
        yield _make_call_block(call, quote)

    if isinstance(message, AssistantMessage) and message.response and erasure is None:
        reason = message.response.finish_reason
        if reason not in ("", "stop"):
            yield ContentBlock(f"finish reason: {quote(reason)}", "")


def _iterate_parts(
    parts: Iterable[Part], quote: Quote, *, is_result: bool
) -> Iterator[ContentBlock]:
    # Some providers split a sentence at each citation: only together it can be read.
    # A text behind another part has a label, else it would read as that part's body.
    is_first = True
    for is_text, run in groupby(parts, lambda part: isinstance(part, TextPart)):
        if not is_text:
            yield from [_make_part_block(part, quote) for part in run]
            is_first = False
        elif text := "".join([part.text for part in run]):  # type: ignore[attr-defined]
            yield ContentBlock("" if is_first else "text", text, is_code=is_result)
            is_first = False


def _make_part_block(part: Part, quote: Quote) -> ContentBlock:
    if isinstance(part, (ReasoningPart, RefusalPart)):
        return ContentBlock(part.kind, part.text)

    if isinstance(part, UnknownPart):
        words = [quote(word) for word in (part.source, find_kind(part.raw)) if word]
        return ContentBlock(
            " ".join([part.kind, *words]), _dump_shortened(part.raw), is_code=True
        )

    if not isinstance(part, MediaPart):
        return ContentBlock(quote(part.kind), "")

    name = part.name if isinstance(part, FilePart) else ""
    facts = [quote(word) for word in (name, part.media_type) if word]
    # The size of a part with a url is that url, which its author chose.
    size = format_media_size(part.data, part.url)
    facts.append(size if part.url is None else quote(size))
    if isinstance(part, ImagePart) and part.detail:
        facts.append(f"detail {quote(part.detail)}")

    return ContentBlock(f"{part.kind}: {', '.join(facts)}", "")


def _make_call_block(call: ToolCall, quote: Quote) -> ContentBlock:
    known = f" as {quote(call.id)}" if call.id else ""
    kind = f" ({quote(call.type)})" if call.type != "function" else ""
    label = f"calls {quote(call.name)}{known}{kind}"
    return ContentBlock(label, indent_json(call.arguments), is_code=True)


# JSON


# Deeper than this, indentation would take more room than the content.
_MAX_LEVELS = 20
# Longer than this, it would take longer than all else.
_MAX_INDENTED = 100_000
# Parts of an unknown kind may contain media in base64, under any key.
_MAX_TEXT = 1_000
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{},:]|[^\s"\[\]{},:]++')


def _is_json(text: str) -> bool:
    try:
        load(text)
    except DecodeError:
        return False

    return True


def indent_json(text: str) -> str:
    """
    *text* on several lines, if it is JSON, else as it is. O(n).

    Tokens are unchanged, so that duplicate keys and escapes stay visible. Of more than
    100,000 characters, or more than 20 levels, nothing is changed.
    """
    if len(text) > _MAX_INDENTED or not _is_json(text):
        return text

    out: list[str] = []
    level, before = 0, ""
    for sign in _TOKEN.findall(text):
        if sign in "]}":
            level -= 1
            if before not in ("[", "{"):
                out.append("\n" + "  " * level)
        elif before in ("[", "{", ","):
            out.append("\n" + "  " * level)

        out.append(": " if sign == ":" else sign)
        if sign in "[{":
            level += 1
            if level > _MAX_LEVELS:
                return text.strip()

        before = sign

    return "".join(out)


def _dump_shortened(raw: Any) -> str:
    import json  # noqa: PLC0415 - rarely needed, and slow to import

    text = json.dumps(_shorten_texts(thaw(raw)), ensure_ascii=False)
    return indent_json(text)


def _shorten_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _shorten_texts(key): _shorten_texts(item) for key, item in value.items()
        }

    if isinstance(value, list):
        return [_shorten_texts(item) for item in value]

    if isinstance(value, str) and len(value) > _MAX_TEXT:
        more = format_count(len(value) - _MAX_TEXT, "character")
        return f"{value[:_MAX_TEXT]} and {more} more"

    return value


# Text


# What separates the facts of a heading must not come from a name.
_NEEDS_QUOTES = re.compile(f"[{INVISIBLE_CHARACTERS}\\s\"'(),:;`\\\\]")


def quote_word(word: str) -> str:
    """*word* as one word of a line: in quotes, if it could be read as several."""
    if word and not _NEEDS_QUOTES.search(word):
        return word

    word = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape_line(word)}"'


def _split_lines(text: str) -> list[str]:
    return escape_invisible(text).rstrip("\n").split("\n")


def _format_text_turn(heading: str, blocks: Iterable[ContentBlock]) -> str:
    lines = [heading]
    for label, body, _ in blocks:
        if label:
            lines.append(f"  {label}:" if body else f"  {label}")

        if body:
            lines += [f"    {line}".rstrip() for line in _split_lines(body)]

    return "\n".join(lines)


# Markdown


_TICKS = re.compile("`+")
# The start of a tag, a comment or an autolink; of a reference to a character.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_CHARACTER = re.compile(r"&(?=#?\w+;)")
# A link definition has effect for the whole document, even inside a quote.
_DEFINITION = re.compile(r"^([ \t>*+\-\d.)]*)\[", re.MULTILINE)


def _make_fence(text: str, least: int) -> str:
    longest = max(map(len, _TICKS.findall(text)), default=0)
    return "`" * max(longest + 1, least)


def format_code_span(word: str) -> str:
    """*word* as code in a line of Markdown."""
    word = escape_line(word) or '""'
    fence = _make_fence(word, 1)
    # CommonMark removes one space from both ends, and ticks must not touch the fence.
    room = " " if word[0] in "` " or word[-1] in "` " else ""
    return f"{fence}{room}{word}{room}{fence}"


def _escape_markdown(text: str) -> str:
    """*text* as Markdown without effect outside of the quote it is in."""
    # A viewer loads an image as soon as it is shown: its url may carry data away.
    text = _TAG.sub("&lt;", _CHARACTER.sub("&amp;", text)).replace("![", "!\\[")
    return _DEFINITION.sub(r"\1\\[", text) if "]:" in text else text


def format_markdown_turn(heading: str, blocks: Iterable[ContentBlock]) -> str:
    """One message: *heading*, which must be quoted already, and its content."""
    pieces = [f"### {heading}"]
    for label, body, is_code in blocks:
        if label:
            pieces.append(f"{label}:" if body else label)

        if body and is_code:
            code = "\n".join(_split_lines(body))
            fence = _make_fence(code, 3)
            language = "json" if _is_json(body) else ""
            pieces.append(f"{fence}{language}\n{code}\n{fence}")
        elif body:
            quoted = _escape_markdown("\n".join(_split_lines(body))).split("\n")
            pieces.append("\n".join(f"> {line}" if line else ">" for line in quoted))

    return "\n\n".join(pieces)


_FORMATS: dict[str, tuple[Quote, Callable[[str, Iterable[ContentBlock]], str]]] = {
    "text": (quote_word, _format_text_turn),
    "markdown": (format_code_span, format_markdown_turn),
}
