"""The first page of a store: its conversations, those saved last first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from json import dumps
from typing import Any
from urllib.parse import urlencode

from conversation_state._persistent import thaw
from conversation_state._wording import format_count, read_title
from conversation_state.errors import StoreError
from conversation_state.pages._graphs import excerpt_newest
from conversation_state.pages._markup import Child, Markup, Words, draw_rest, element
from conversation_state.pages._requests import PageQuery, draw_search_form, link_to
from conversation_state.pages._trees import draw_time
from conversation_state.store import Head, NamedHead, Store

# The names on one page, and the names that are sorted by time.
_MAX_NAMES = 100
MAX_SORTED = 10_000


def draw_names(store: Store, words: Words, *, prefix: str, after: str) -> Markup:
    """
    The conversations of a store, those saved last first; of more than 10,000 by name.
    """
    found: Sequence[NamedHead] = store.heads(prefix=prefix, limit=MAX_SORTED + 1)
    start = 0
    if len(found) > MAX_SORTED:
        found = store.heads(prefix=prefix, after=after, limit=_MAX_NAMES + 1)
        following = found[_MAX_NAMES - 1].name if len(found) > _MAX_NAMES else ""
    else:
        found = sorted(found, key=lambda each: each.head.saved_at, reverse=True)
        start = min(int(after), len(found)) if re.fullmatch("[0-9]{1,6}", after) else 0
        is_more = len(found) > start + _MAX_NAMES
        following = str(start + _MAX_NAMES) if is_more else ""

    now = datetime.now(UTC)
    shown = found[start : start + _MAX_NAMES]
    rows = [_draw_head(store, each, words, now) for each in shown]
    more = None
    if following:
        query = urlencode({"prefix": prefix, "after": following})
        more = element("p", None, element("a", {"href": f"/?{query}"}, "More names"))

    count = f"{len(found):,}{'' if len(found) <= MAX_SORTED else ' or more'}"
    forms = element(
        "div",
        {"class": "controls"},
        draw_search_form("/", "prefix", "Names that begin with", prefix),
        draw_search_form("/", "search", "Words in all conversations", "", id=None),
    )
    return element(
        "div",
        {"id": "content", "class": "cs-index"},
        forms,
        element("ul", {"class": "cs-names", "aria-label": f"{count} names"}, rows)
        if rows
        else draw_rest("no names"),
        more,
    )


def _draw_head(store: Store, found: NamedHead, words: Words, now: datetime) -> Markup:
    head = found.head
    title = read_title(found.notes)
    role, excerpt = find_last_words(store, head.name, head)
    facts: list[Child] = [f"{format_count(head.length, 'message')}"]
    if head.revision > 1:
        facts.append(f" · revision {head.revision:,}")

    last = [f"{role}: ", words.excerpt(excerpt, 160)] if role else None
    inner = [
        element("b", None, words.line(title or head.name)),
        " ",
        element("small", None, words.line(head.name), " · ") if title else None,
        element("small", None, facts),
        draw_notes(
            {key: value for key, value in found.notes.items() if key != "title"}, words
        ),
        element("span", {"class": "cs-excerpt", "dir": "auto"}, last) if last else None,
    ]
    link = element("a", {"href": link_to(PageQuery(head.name))}, inner)
    return element("li", None, link, draw_time(head.saved_at, now))


def find_last_words(store: Store, name: str, at: Head | int) -> tuple[str, str]:
    """The role and the first words of the newest message of a revision."""
    # A damaged state is no reason not to list it: others are reached by the list.
    with suppress(StoreError):
        return excerpt_newest(store.load(name, at=at, last=1).messages)

    return "", ""


def draw_notes(notes: Mapping[str, Any], words: Words) -> Markup | None:
    if not notes:
        return None

    shown = [
        f"{key}: {value if isinstance(value, str) else dumps(thaw(value))}"
        for key, value in notes.items()
    ]
    return element("small", None, words.line("; ".join(shown), 80))
