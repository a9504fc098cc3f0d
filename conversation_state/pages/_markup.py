"""HTML from text: the one place where words from outside become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import TypeAlias

from conversation_state.rendering import escape_invisible, escape_line

# Elements that have no content and no end tag.
_EMPTY = frozenset({"br", "circle", "img", "input", "link", "meta", "path"})
# What is shown in the place of a character that must not be shown.
_REDACTED = "▪"
_VISIBLE = re.compile(r"[^\s]")
# What makes Markdown of a word or a line.
_SIGNS = re.compile(
    r"^[ \t]*(?:#{1,6}|[-*+>])[ \t]+|^[ \t|:-]*--[ \t|:-]*$|[*`~]+|\b__|__\b",
    re.MULTILINE,
)


class Markup(str):
    """Text that is HTML already: escaped, or written by this package."""

    __slots__ = ()


# Plain text is escaped when it becomes part of an element.
Child: TypeAlias = "str | Markup | Iterable[Child] | None"
Attributes: TypeAlias = "Mapping[str, str | int | float | None]"


class Words:
    """
    How the words of a conversation get into a page.

    Every text that comes from a conversation, a label or a name passes one of
    these methods; all other text of a page is this package's own.
    """

    __slots__ = ("is_redacted",)

    def __init__(self, *, redact: bool = False) -> None:
        self.is_redacted = redact

    def text(self, text: str) -> Markup:
        """
        *text* on its own lines; characters that are invisible or change the
        direction of what follows are shown as escapes.
        """
        # Redacted before it is escaped: an entity is one character.
        return Markup(escape(self._hide_words(escape_invisible(text))))

    def line(self, text: str, most: int = 200) -> Markup:
        # Cut first: of a long text no more is read than is shown.
        short = escape_line(self._hide_words(text[:most].strip()))
        return Markup(escape(short + (" …" if len(text) > most else "")))

    def title(self, text: str, most: int = 200) -> str:
        """*text* as a line for an attribute, which is escaped with its element."""
        return escape_line(self._hide_words(text[:most]))

    def excerpt(self, text: str, most: int = 120) -> Markup:
        """The beginning of *text* on one line, without the signs of Markdown."""
        short = " ".join(_SIGNS.sub("", text[: 2 * most]).replace("|", " ").split())
        cut = len(short) > most or len(text) > 2 * most
        return Markup(self.line(short[:most]) + (" …" if cut else ""))

    def code(self, word: str) -> Markup:
        return Markup(f"<code>{self.line(word)}</code>")

    def _hide_words(self, text: str) -> str:
        return _VISIBLE.sub(_REDACTED, text) if self.is_redacted else text


def element(name: str, attributes: Attributes | None, *children: Child) -> Markup:
    """
    One element. Attributes that are None are left out; "" is one without a value.

    >>> element("p", {"title": '"', "hidden": ""}, "a < b", Markup("<br/>"))
    '<p title="&quot;" hidden>a &lt; b<br/></p>'
    """
    start = [name]
    for key, value in (attributes or {}).items():
        if value == "":
            start.append(key)
        elif value is not None:
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            start.append(f'{key}="{escape(shown)}"')

    opening = " ".join(start)
    if name in _EMPTY:
        return Markup(f"<{opening}/>")

    return Markup(f"<{opening}>{join_markup(children)}</{name}>")


def draw_rest(text: str) -> Markup:
    """A note on what is not shown here."""
    return element("p", {"class": "cs-rest"}, text)


def draw_timestamp(time: datetime | None) -> list[Child]:
    """*time* behind a comma, to the minute; all of it where one points at it."""
    if time is None:
        return []

    whole = time.isoformat(" ")
    try:
        shown = f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except OverflowError:  # it is in no year of UTC
        shown = time.isoformat(" ", "minutes")

    return [", ", element("time", {"datetime": whole, "title": whole}, shown)]


def draw_head(columns: Iterable[str]) -> Markup:
    """The head of a table."""
    cells = [element("th", {"scope": "col"}, column) for column in columns]
    return element("thead", None, element("tr", None, cells))


def join_markup(children: Iterable[Child]) -> Markup:
    pieces: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            pieces.append(child)
        elif isinstance(child, str):
            pieces.append(escape(child))
        elif child is not None:
            pieces.append(join_markup(child))

    return Markup("".join(pieces))
