"""
Markdown as HTML: emphasis, code, lists, quotes, headings and tables.

Links, pictures and HTML stay source, so that an address is seen before anybody goes
there and nothing is loaded. Every word of the source is on the page, in its order: a
text of which a word would be lost is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from conversation_state.pages._markup import Markup, Words, element
from conversation_state.rendering import escape_invisible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# What Markdown begins with: without any of these a text is as it is.
_SIGNS = re.compile(r"[*_`#|~>]|^ {0,3}(?:[-+]|\d+[.)])\s|^(?: {4}|\t)", re.MULTILINE)
_LETTERS = re.compile(r"[^\W_]+")
# Below the heading of a message, whatever level its author chose.
_HEADINGS: dict[str, str] = dict.fromkeys(["h1", "h2", "h3", "h5", "h6"], "h4")


def draw_markdown(text: str, words: Words) -> Markup | None:
    """
    *text* as HTML; None if it has no Markdown, or would lose a word. O(n) for usual
    texts; at most 20 levels deep.
    """
    if not _SIGNS.search(text):
        return None

    source = escape_invisible(text)
    shown: list[str] = []
    drawn = "".join(_draw_tokens(_make_parser().parse(source), words, shown))
    # A table, for example, drops the cells that have no column.
    if "".join(_LETTERS.findall(source)) != "".join(_LETTERS.findall(" ".join(shown))):
        return None

    return Markup(drawn)


# Rules that remove words, or make links.
_DISABLED = ["html_block", "html_inline", "reference", "entity", "link", "image"]
_DISABLED += ["autolink"]


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow, and not every page has any

    options = {"html": False, "breaks": True, "maxNesting": 20}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    return parser.disable(_DISABLED)


def _draw_tokens(tokens: list[Token], words: Words, shown: list[str]) -> Iterator[str]:
    """*tokens* as HTML; what can be read of them is added to *shown*."""

    def text(content: str) -> Markup:
        shown.append(content)
        return words.text(content)

    for token in tokens:
        if token.children is not None:
            yield from _draw_tokens(token.children, words, shown)
        elif token.type in ("fence", "code_block"):
            yield element("p", {"class": "cs-part"}, text(token.info.strip()))
            code = text(token.content)
            yield element("pre", {"class": "cs-code", "tabindex": 0}, code)
        elif token.type == "code_inline":
            yield element("code", None, text(token.content))
        elif token.nesting and not token.hidden:
            tag = _HEADINGS.get(token.tag, token.tag)
            yield f"<{tag}>" if token.nesting > 0 else f"</{tag}>"
            # Numbers are text, so that they are those of the source.
            if token.type == "list_item_open" and token.info:
                number = text(f"{token.info}{token.markup}")
                yield element("span", {"class": "cs-item"}, number, " ")
        elif token.content:
            yield text(token.content)
        elif token.type in _ALONE:
            yield _ALONE[token.type]


_ALONE = {"softbreak": "<br/>", "hardbreak": "<br/>", "hr": "<hr/>"}
