"""
What the live page shows of a store: its names, and of one name the tree of
revisions, a state, what the model sees of it, a difference and the bill.

Pure but for reading the store; requests and their safety are in `server`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from json import dumps
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from conversation_state import adapters
from conversation_state._wording import format_count, read_title, shorten_repr
from conversation_state.adapters import Export
from conversation_state.adapters.sessions import trim_sent, without_unsent
from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget
from conversation_state.diffing import diff
from conversation_state.errors import BudgetExceededError, NotSavedError, StoreError
from conversation_state.messages import Message
from conversation_state.pages._bills import compute_bills, draw_branch_bills
from conversation_state.pages._differences import draw_columns
from conversation_state.pages._graphs import (
    graph_history,
    graph_tree,
    list_revisions,
    read_history,
)
from conversation_state.pages._index import draw_notes, find_last_words
from conversation_state.pages._layout import GraphNode
from conversation_state.pages._markup import (
    Attributes,
    Child,
    Markup,
    Words,
    draw_rest,
    element,
)
from conversation_state.pages._messages import Drawer, Siblings
from conversation_state.pages._requests import (
    TRIMMERS,
    PageQuery,
    draw_acts,
    draw_choice,
    draw_field,
    draw_form,
    draw_slider,
    draw_tools,
    encode_fields,
    link_to,
    name_tab,
    stay_at,
)
from conversation_state.pages._search import draw_found
from conversation_state.pages._sections import list_siblings
from conversation_state.pages._transcripts import draw_transcript, draw_view
from conversation_state.pages._trees import draw_time, draw_tree
from conversation_state.store import Head, Store
from conversation_state.trimming import TrimContext


class NamePage(NamedTuple):
    """The pieces of the page of one name."""

    title: Markup
    facts: Child
    tools: Markup
    content: list[Child]


# The messages of a state that are shown at once, and the losses of a request.
_MAX_MESSAGES = 200
_MAX_LOST = 50
# The messages of each side of a difference.
_MAX_COMPARED = 100
# The newest revisions that are drawn, and those whose words are read.
_MAX_REVISIONS = 10_000
_MAX_EXCERPTS = 100
# Longer words that are searched are not repeated in the addresses of all revisions.
_MAX_REPEATED = 50


def draw_name(
    store: Store,
    query: PageQuery,
    words: Words,
    *,
    may_write: bool,
    has_prices: bool = False,
    problem: Child = None,
    typed: Mapping[str, str] = MappingProxyType({}),
) -> NamePage:
    """
    The page of one name: its revisions, or its messages, beside what is shown.

    Reads the revisions in one query, and of the state the newest messages; the
    whole state only for a view, a search, a difference, older messages or the bill.
    With a *problem*, what was *typed* into the forms of the page that it is of.
    """
    newest = store.latest(query.name)
    head = newest if query.at is None else store.latest(query.name, at=query.at)
    is_timeline = store._is_timeline(query.name)

    def link_acts(number: int) -> str:
        return f"{stay_at(query, at=head.revision, upto=number)}#m-{number}"

    def link_copy(number: int) -> str:
        asked = PageQuery(query.name, head.revision, upto=number, node=query.node)
        return link_to(asked).replace("/name/", "/message/", 1)

    # A timeline is written by the program that holds it.
    has_acts = may_write and not is_timeline and not query.node
    drawer = Drawer(
        words,
        is_raw=bool(query.raw),
        has_prices=has_prices,
        has_anchors=True,
        link_acts=link_acts if has_acts and name_tab(query) == "Conversation" else None,
        link_copy=link_copy,
    )
    nav, shown = _draw_tree(store, query, head, newest, drawer)
    alert = None if problem is None else _draw_problem(problem)
    acts = None
    if may_write and not query.node:
        can_restore = not is_timeline
        acts = draw_acts(query, head, newest, typed, words, can_restore=can_restore)

    attributes: Attributes = {
        "id": "content",
        "data-newest": f"{newest.revision} {newest.digest}",
        "data-name": quote(query.name),
    }
    content = element("div", attributes, alert, shown)
    foot = element(
        "footer",
        {"class": "cs-foot"},
        acts,
        element(
            "span",
            {"class": "cs-saved"},
            f"Revision {head.revision:,} · saved ",
            draw_time(head.saved_at),
            " UTC",
            draw_notes(head.notes, words),
        ),
    )
    title = read_title(store.notes(query.name))
    name = words.line(query.name)
    facts: list[Child] = [name, " · "] if title else []
    facts.append(f"{format_count(head.length, 'message')}")
    tools = draw_tools(query, head, newest)
    return NamePage(
        words.line(title) if title else name,
        facts,
        tools,
        [nav, element("div", None, content, foot)],
    )


def _draw_tree(
    store: Store, query: PageQuery, head: Head, newest: Head, drawer: Drawer
) -> tuple[Markup, list[Child]]:
    """The revisions or the messages, whichever is asked for, and what is shown."""
    if _is_messages(store, query):
        try:
            return _draw_messages(store, query, drawer)
        except NotSavedError:
            raise
        except StoreError:  # damaged: some revisions may be intact
            if query.tree or query.node:
                raise

    nav = _draw_revisions(store, query, head, newest, drawer.words)
    try:
        return nav, _draw_shown(store, query, head, drawer)
    except NotSavedError:
        raise
    except StoreError as error:  # damaged: other revisions may be intact
        return nav, [_draw_problem(str(error))]


def _is_messages(store: Store, query: PageQuery) -> bool:
    is_plain = name_tab(query) == "Conversation" and query.at is None
    if not (is_plain or query.search):
        return False

    if query.tree:
        return query.tree == "messages"

    if query.at is None and query.before is None:
        return store._is_message_tree(query.name)

    return store._is_timeline(query.name)


def _draw_problem(problem: Child) -> Markup:
    return element("p", {"role": "alert", "class": "cs-problem"}, problem)


def _draw_revisions(
    store: Store, query: PageQuery, head: Head, newest: Head, words: Words
) -> Markup:
    history = list_revisions(store, newest, before=query.before, limit=_MAX_REVISIONS)
    # Without the name, which is in the path of the page, and with numbers last: there
    # may be thousands of revisions.
    near = query._replace(until=None, upto=None, node="")
    if len(query.search) > _MAX_REPEATED:
        near = near._replace(search="")

    shown = f"?{encode_fields(near._replace(at=None))}&at=".replace("?&", "?")
    compared = f"?{encode_fields(near._replace(at=head.revision, beside=None))}&beside="
    nodes = [
        node._replace(
            target=f"{shown}{node.key}",
            is_selected=node.key == head.revision,
            is_compared=node.key == query.beside,
            comparison=f"{compared}{node.key}" if node.key != head.revision else "",
        )
        for node in graph_history(history)
    ]
    newer = None
    if query.before is not None:
        address = stay_at(query, before=None)
        newer = element("p", None, element("a", {"href": address}, "Newest revisions"))

    left = iter(range(_MAX_EXCERPTS))

    def complete(node: GraphNode) -> GraphNode:
        if next(left, None) is None:
            return node

        number: Any = node.key
        role, excerpt = find_last_words(store, query.name, number)
        return node._replace(role=role, excerpt=excerpt)

    tree = draw_tree(
        nodes,
        words,
        older=history.older,
        link_older=lambda last: stay_at(query, before=last),
        complete=complete,
        now=datetime.now(UTC),
    )
    return _draw_nav(query, "Revisions", [newer, tree])


def _draw_nav(query: PageQuery, what: str, content: Child) -> Markup:
    other = "messages" if what == "Revisions" else "revisions"
    address = stay_at(PageQuery(query.name, tree=other))
    switch = element("a", {"href": address, "class": "cs-switch"}, f"as {other}")
    return element(
        "nav", {"aria-label": what}, element("h2", None, what, " ", switch), content
    )


def _draw_messages(
    store: Store, query: PageQuery, drawer: Drawer
) -> tuple[Markup, list[Child]]:
    """The messages of all branches, and the branch of one of them."""
    tree = store.message_tree(query.name)
    if query.node:
        tree = tree.switch(query.node)

    base = PageQuery(query.name, tree="messages", raw=query.raw)

    def link(entry_id: str) -> str:
        return link_to(base, node=entry_id)

    nodes = [
        node._replace(
            target=stay_at(base, node=str(node.key)), is_selected=node.key == query.node
        )
        for node in graph_tree(tree)
    ]
    older = len(tree) - len(nodes)
    drawn = draw_tree(nodes, drawer.words, older=older)
    nav = _draw_nav(query, "Messages", drawn)
    if query.search:
        return nav, draw_found(tree, query, drawer)

    state = tree.present
    beside = list_siblings(tree, link)
    siblings = {
        number: beside[entry.id]
        for number, entry in enumerate(state.entries, 1)
        if entry.id in beside
    }
    return nav, _draw_window(state.messages, query, drawer, siblings)


def _draw_shown(
    store: Store, query: PageQuery, head: Head, drawer: Drawer
) -> list[Child]:
    words = drawer.words
    if query.beside is not None:
        return _draw_difference(store, query, head, words)

    if query.search:
        return draw_found(store.message_tree(query.name), query, drawer)

    if query.format:
        return _draw_export(store.load(query.name, at=head), query, words)

    if query.limit is not None:
        return _draw_overlay(store, query, head, drawer)

    if query.bill:
        return _draw_bills(store, query, words)

    return _draw_conversation(store, query, head, drawer)


def _draw_conversation(
    store: Store, query: PageQuery, head: Head, drawer: Drawer
) -> list[Child]:
    if query.until is not None:
        state = store.load(query.name, at=head)
        return _draw_window(state.messages, query, drawer, {})

    window = store.load(query.name, at=head, last=_MAX_MESSAGES)
    return [
        _draw_older(query, window.start),
        draw_transcript(window.messages, drawer, window.start + 1),
    ]


def _draw_window(
    messages: Sequence[Message],
    query: PageQuery,
    drawer: Drawer,
    siblings: Mapping[int, Siblings],
) -> list[Child]:
    """So many of *messages* as fit on a page, with links to those before and after."""
    stop = min(query.until or len(messages), len(messages))
    start = max(stop - _MAX_MESSAGES, 0)
    after = None
    if stop < len(messages):
        until = min(stop + _MAX_MESSAGES, len(messages))
        address = link_to(query, until=until)
        text = f"Show the {format_count(until - stop, 'message')} after these"
        after = element(
            "p", {"class": "cs-rest"}, element("a", {"href": address}, text)
        )

    return [
        _draw_older(query, start),
        draw_transcript(messages[start:stop], drawer, start + 1, siblings),
        after,
    ]


def _draw_older(query: PageQuery, count: int) -> Child:
    if not count:
        return None

    address = link_to(query, until=count)
    text = f"Show the {min(count, _MAX_MESSAGES):,} before these"
    link = element("a", {"href": address}, text)
    return element(
        "p",
        {"class": "cs-rest"},
        f"{format_count(count, 'message')} before these. ",
        link,
    )


def _draw_bills(store: Store, query: PageQuery, words: Words) -> list[Child]:
    """What each branch of a name cost: all its states are read."""
    history = read_history(store, query.name, limit=_MAX_REVISIONS)
    bills = compute_bills(history)
    if not bills.has_usage:
        return [draw_rest("no usage is recorded")]

    older = None
    if history.older:
        count = format_count(history.older, "older revision")
        older = draw_rest(f"Branches of {count} are not in it.")

    title = "Bill" if len(bills.parts) == 1 else "Bill by branch"
    return [element("h2", None, title), draw_branch_bills(bills, words), older]


def _draw_overlay(
    store: Store, query: PageQuery, head: Head, drawer: Drawer
) -> list[Child]:
    heading = element("h2", None, "What the model sees")
    limit = draw_field("limit", "Budget in tokens", query.limit, kind="number")
    trimmers = draw_choice("trimmer", "by", TRIMMERS, query.trimmer)
    form = draw_form(query, "Show", limit, draw_slider(query.limit), trimmers)
    try:
        view = _trim_revision(store, query, head.revision)
    except BudgetExceededError as error:
        needed = format_count(error.needed_tokens, "token")
        problem = f"No valid view fits: the smallest needs {needed}."
        return [heading, form, element("p", {"role": "alert"}, problem)]

    previous = None
    if head.parent is not None:
        with suppress(BudgetExceededError):
            previous = _trim_revision(store, query, head.parent)

    return [heading, form, draw_view(view, drawer, previous=previous)]


def _trim_revision(store: Store, query: PageQuery, revision: int) -> TrimContext:
    state = store.load(query.name, at=revision)
    budget = TokenBudget(context_window=query.limit)
    return trim_sent(state, budget, *TRIMMERS[query.trimmer])


def _draw_difference(
    store: Store, query: PageQuery, head: Head, words: Words
) -> list[Child]:
    beside = store.latest(query.name, at=query.beside)
    a = store.load(query.name, at=beside)
    b = store.load(query.name, at=head)
    titles = f"revision {beside.revision}", f"revision {head.revision}"
    field = draw_field("beside", "with revision", beside.revision, kind="number")
    return [
        element("h2", None, f"From {titles[0]} to {titles[1]}"),
        draw_form(query, "Compare", field),
        draw_columns(diff(a, b), words, names=titles, limit=_MAX_COMPARED),
    ]


def dump_state(state: Aggregator, format: str) -> Export:  # noqa: A002 - its name
    if format not in adapters.PROVIDERS:
        expected = ", ".join(adapters.PROVIDERS)
        raise ValueError(
            f"unknown format {shorten_repr(format)}; valid ones are {expected}"
        )

    adapter = import_module(f"conversation_state.adapters.{format}")
    export: Export = adapter.dump(without_unsent(state))
    return export


def _draw_export(state: Aggregator, query: PageQuery, words: Words) -> list[Child]:
    export = dump_state(state, query.format)
    lost = [element("li", None, words.line(str(each))) for each in export.lost]
    try:
        text = dumps(_shorten_data(export.payload), ensure_ascii=False, indent=2)
    except RecursionError:
        text = "It is nested too deeply to be shown here. Download it."

    shown = words.text(text[:_MAX_JSON])
    address = link_to(query).replace("/name/", "/export/", 1)
    return [
        element("h2", None, f"As {query.format}"),
        draw_form(
            query,
            "Show",
            draw_choice("format", "format", adapters.PROVIDERS, query.format),
        ),
        element("p", None, "Lost:") if lost else element("p", None, "Nothing is lost."),
        element("ul", None, lost[:_MAX_LOST]) if lost else None,
        element("p", None, element("a", {"href": address, "download": ""}, "Download")),
        element("pre", {"class": "cs-code", "tabindex": 0}, shown),
    ]


# The most characters of an export that are shown, and of media in it; the file has
# all.
_MAX_JSON = 100_000
_MAX_DATA = 200


def _shorten_data(value: Any) -> Any:
    """*value* with the beginning of long data in base64, and its length."""
    if isinstance(value, dict):
        return {key: _shorten_data(item) for key, item in value.items()}

    if isinstance(value, list):
        return [_shorten_data(item) for item in value]

    if isinstance(value, str) and len(value) > _MAX_DATA and " " not in value[:1_000]:
        left_out = format_count(len(value) - 80, "character")
        return f"{value[:80]} … and {left_out} more"

    return value
