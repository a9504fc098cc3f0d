"""
Rendering: a conversation as something people read.

What lives here: transcripts as text and as Markdown, what they are written
with, and making visible what a terminal would obey. What does not: what is
read again (`codec`), what two conversations have in common (`diffing`), and
what a single message says of itself (``str``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard

from conversation_state._canonical import load
from conversation_state._persistent import thaw
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.messages._base import size_of
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
    "Block",
    "Quote",
    "as_markdown",
    "blocks_of",
    "head_of",
    "in_code",
    "in_line",
    "in_quotes",
    "render_transcript",
    "visible",
]

# Makes a word of somebody's own safe among ours.
Quote: TypeAlias = "Callable[[str], str]"


def render_transcript(
    messages: Iterable[Message],
    *,
    format: Literal["text", "markdown"] = "text",  # noqa: A002 - what people call it
) -> str:
    """
    *messages* as a transcript for people, oldest first; no newline at the end.

    Shows who speaks, when if that is known, what is said, reasoning, refusals,
    calls with their arguments, results with the call they answer, media by
    kind, type and size, and why a response ended unless it just stopped.

    Nobody can speak for somebody else in it. As ``text`` only heads start a
    line, and what is said is indented; characters that a terminal would obey
    or nobody could see are escaped. As ``markdown`` what is said is quoted, its
    own Markdown works inside of the quote, and HTML, images and definitions of
    links are shown as they were written; arguments and results are code.
    Neither can be read back into messages: `codec` is for that.

    Deterministic, and linear in what was said.

    Args:
        messages: A state, a view's messages, or any other messages.

        format: ``text`` or ``markdown``.

    Raises:
        ValueError:
            If *format* is neither.

        TypeError:
            If *messages* holds something else, or is a message itself.

    >>> from conversation_state.messages import UserMessage
    >>> print(render_transcript([UserMessage("When?"), AssistantMessage("Now.")]))
    user
        When?
    <BLANKLINE>
    assistant
        Now.
    """
    if not isinstance(format, str) or format not in _FORMATS:
        msg = f"format is {format!r:.80}; expected 'text' or 'markdown'"
        raise ValueError(msg)

    if isinstance(messages, Message) or not isinstance(messages, Iterable):
        msg = f"messages is a {type(messages).__name__}; expected messages"
        raise TypeError(msg)

    quote, write = _FORMATS[format]
    names: dict[str, str] = {}
    written = []
    for at, message in enumerate(messages):
        if not isinstance(message, Message):
            msg = f"messages[{at}] is {message!r:.80}; expected a Message"
            raise TypeError(msg)

        written.append(write(head_of(message, names, quote), blocks_of(message, quote)))
        for call in getattr(message, "tool_calls", ()):
            names[call.id] = call.name

    return "\n\n".join(written)


class Block(NamedTuple):
    """
    One thing a message holds.

    Attributes:
        label: What it is, safe to be written; "" for what is said.

        body: What it says; somebody's own words.

        is_code: Whether that is no prose.
    """

    label: str
    body: str
    is_code: bool = False


# What is there


def head_of(message: Message, names: dict[str, str], quote: Quote) -> str:
    """
    Who speaks; *names* are those of the calls made so far, by their ids.
    """
    words = [message.role]
    if isinstance(message, UnknownMessage):
        kind = message.raw.get("role", message.raw.get("type"))
        words += [quote(word) for word in (message.source, kind) if _is_word(word)]

    made = ""
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

    if message.timestamp is not None:
        facts.append(message.timestamp.isoformat(" "))

    return ", ".join(facts)


def _is_word(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def blocks_of(message: Message, quote: Quote) -> Iterator[Block]:
    """
    What a message holds, in its order; text that came in pieces as one text.
    """
    is_result = isinstance(message, ToolMessage)
    said: list[str] = []
    is_first = True
    for part in chain(message.parts, (None,)):
        if isinstance(part, TextPart):
            said.append(part.text)
            continue

        # Text that came in pieces is one text.
        text = "".join(said)
        if text:
            yield Block("" if is_first else "text", text, is_code=is_result)

        if part is not None:
            yield _of_part(part, quote)

        is_first = is_first and not text and part is None
        said = []

    if isinstance(message, UnknownMessage):
        yield Block("", _dumped(message.raw), is_code=True)
    elif isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            yield _of_call(call, quote)

        reason = message.response.finish_reason if message.response else ""
        if reason not in ("", "stop"):
            yield Block(f"finish reason: {quote(reason)}", "")


def _of_part(part: Part, quote: Quote) -> Block:
    if isinstance(part, (ReasoningPart, RefusalPart)):
        return Block(part.kind, part.text)

    if isinstance(part, UnknownPart):
        kind = part.raw.get("type")
        words = [quote(word) for word in (part.source, kind) if _is_word(word)]
        return Block(" ".join([part.kind, *words]), _dumped(part.raw), is_code=True)

    if not isinstance(part, MediaPart):
        return Block(quote(part.kind), "")

    size, name = size_of(part), part.name if isinstance(part, FilePart) else ""
    facts = [
        *[quote(word) for word in (name, part.media_type) if word],
        size if part.url is None else quote(size),
    ]
    if isinstance(part, ImagePart) and part.detail:
        facts.append(f"detail {quote(part.detail)}")

    return Block(f"{part.kind}: {', '.join(facts)}", "")


def _of_call(call: ToolCall, quote: Quote) -> Block:
    known = f" as {quote(call.id)}" if call.id else ""
    kind = f" ({quote(call.type)})" if call.type != "function" else ""
    pretty = _pretty(call.arguments)
    body = call.arguments if pretty is None else pretty
    return Block(f"calls {quote(call.name)}{known}{kind}", body, is_code=True)


# JSON


# Deeper than this, indentation would take more room than what is indented.
_MOST_LEVELS = 20
_LONGEST = 1_000
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{},:]|[^\s"\[\]{},:]++')


def _is_json(text: str) -> bool:
    try:
        load(text)
    except DecodeError:
        return False

    return True


def _pretty(text: str) -> str | None:
    """
    *text* on many lines, if it is JSON; each token as it was written, so that
    nothing about it is hidden: neither a key given twice nor an escape.
    """
    if not _is_json(text):
        return None

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
            if level > _MOST_LEVELS:
                return text.strip()

        before = sign

    return "".join(out)


def _dumped(raw: Any) -> str:
    """
    JSON values as text; of long texts in them only the beginning.
    """
    import json  # noqa: PLC0415 - seldom needed, and slow to import

    text = json.dumps(_shortened(thaw(raw)), ensure_ascii=False)
    return _pretty(text) or text


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {_shortened(key): _shortened(item) for key, item in value.items()}

    if isinstance(value, list):
        return [_shortened(item) for item in value]

    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]} and {len(value) - _LONGEST:,} characters more"

    return value


# Text


# What is obeyed or can't be seen: controls, marks of direction, breaks of lines
# other than "\n", what has no width, tags. Joiners stay: scripts and emoji need
# them. A list and no question to `unicodedata`, which differs between Pythons.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_UNSEEN = re.compile(f"[{_HIDDEN}]")
_UNSEEN_IN_LINE = re.compile(f"[{_HIDDEN}\t\n]")
_ODD = re.compile(f"[{_HIDDEN}\\s\"'(),:;`\\\\]")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def visible(text: str) -> str:
    r"""
    *text* with escapes for characters that a terminal would obey or nobody
    could see, but for tabs and ends of lines.

    >>> print(visible("\x1b[2Jhi\u202e!"))
    \x1b[2Jhi\u202e!
    """
    return _UNSEEN.sub(_escaped, text.replace("\r\n", "\n"))


def in_line(text: str) -> str:
    r"""
    *text* on one line: `visible`, with escapes for tabs and ends of lines, too.

    >>> print(in_line("one\ntwo"))
    one\ntwo
    """
    return _UNSEEN_IN_LINE.sub(_escaped, text)


def in_quotes(word: str) -> str:
    """
    *word* as one word of a line: in quotes, where it could be taken for more.
    """
    if word and not _ODD.search(word):
        return word

    word = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{in_line(word)}"'


def _lines(text: str) -> list[str]:
    return visible(text).rstrip("\n").split("\n")


def _as_text(head: str, blocks: Iterable[Block]) -> str:
    lines = [head]
    for label, body, _ in blocks:
        if label:
            lines.append(f"  {label}:" if body else f"  {label}")

        if body:
            lines += [f"    {line}".rstrip() for line in _lines(body)]

    return "\n".join(lines)


# Markdown


_TICKS = re.compile("`+")
# The start of a tag, a comment or an autolink; of a reference to a character.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_CHARACTER = re.compile(r"&(?=#?\w+;)")
# Where a link may be defined, for the whole document and from inside a quote.
_DEFINITION = re.compile(r"^([ \t>*+\-\d.)]*)\[", re.MULTILINE)


def _fence_of(text: str, least: int) -> str:
    longest = max(map(len, _TICKS.findall(text)), default=0)
    return "`" * max(longest + 1, least)


def in_code(word: str) -> str:
    """
    *word* as code in a line of Markdown.
    """
    word = in_line(word) or '""'
    fence = _fence_of(word, 1)
    room = " " if word[0] in "` " or word[-1] in "` " else ""
    return f"{fence}{room}{word}{room}{fence}"


def _contained(text: str) -> str:
    """
    *text* as Markdown that can do nothing outside of the quote it is in.
    """
    text = _TAG.sub("&lt;", _CHARACTER.sub("&amp;", text)).replace("![", "!\\[")
    return _DEFINITION.sub(r"\1\\[", text) if "]:" in text else text


def as_markdown(head: str, blocks: Iterable[Block]) -> str:
    """
    One turn: *head* as a heading, which must be safe, and what was said.
    """
    pieces = [f"### {head}"]
    for label, body, is_code in blocks:
        if label:
            pieces.append(f"{label}:" if body else label)

        if body and is_code:
            code = "\n".join(_lines(body))
            fence = _fence_of(code, 3)
            language = "json" if _is_json(body) else ""
            pieces.append(f"{fence}{language}\n{code}\n{fence}")
        elif body:
            quoted = _contained("\n".join(_lines(body))).split("\n")
            pieces.append("\n".join(f"> {line}".rstrip(" ") for line in quoted))

    return "\n\n".join(pieces)


_FORMATS: dict[str, tuple[Quote, Callable[[str, Iterable[Block]], str]]] = {
    "text": (in_quotes, _as_text),
    "markdown": (in_code, as_markdown),
}
