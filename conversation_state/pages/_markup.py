"""HTML from text: the one place where words from outside become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import TypeAlias

from conversation_state._wording import format_count
from conversation_state.rendering import escape_invisible, escape_line

# Elements that have no content and no end tag.
_EMPTY = frozenset({"br", "circle", "input", "link", "meta", "path"})
# What is shown in the place of a character that must not be shown.
_REDACTED = "▪"
_VISIBLE = re.compile(r"[^\s]")


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


def draw_before(count: int) -> Markup:
    """A note that *count* messages are before those shown; nothing for none."""
    if not count:
        return Markup("")

    return element(
        "p", {"class": "cs-rest"}, f"{format_count(count, 'message')} before these"
    )


def draw_too_large(count: int) -> Markup:
    """A note that *count* messages are left out because of the size of the page."""
    rest = format_count(count, "message")
    more = f"{rest} after these, which are not shown: this page is large"
    return element("p", {"class": "cs-rest"}, more)


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
