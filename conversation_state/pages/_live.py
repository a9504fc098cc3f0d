"""
What the live page shows of a store: its names, and of one name the tree of
revisions, a state, what the model sees of it, a difference and the bill.

Pure but for reading the store; requests and their safety are in `server`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import islice
from json import dumps
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from conversation_state import adapters
from conversation_state._persistent import thaw
from conversation_state._wording import format_count
from conversation_state.adapters import Export
from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget
from conversation_state.diffing import diff
from conversation_state.errors import BudgetExceededError
from conversation_state.pages._bills import compute_bills, draw_branch_bills
from conversation_state.pages._differences import draw_columns
from conversation_state.pages._graphs import graph_history, list_revisions, read_history
from conversation_state.pages._markup import (
    Child,
    Markup,
    Words,
    draw_before,
    draw_head,
    element,
)
from conversation_state.pages._transcripts import draw_transcript, draw_view
from conversation_state.pages._trees import draw_tree
from conversation_state.store import Head, NamedHead, Store
from conversation_state.trimming import (
    Step,
    TrimContext,
    clear_tool_results,
    fit,
    repair,
    shorten_tool_results,
    trim,
)

# The trimmers that can be chosen.
TRIMMERS: Mapping[str, tuple[Step, ...]] = {
    "fit": (repair(), fit()),
    "shorten tool results": (repair(), shorten_tool_results(500), fit()),
    "clear tool results": (repair(), clear_tool_results(keep=3), fit()),
}


class PageQuery(NamedTuple):
    name: str
    at: int | None = None  # the revision; None for the newest
    # The revision it is compared with; None for no comparison.
    beside: int | None = None
    limit: int | None = None  # the budget of the view, in tokens; None for no view
    trimmer: str = "fit"  # the trimmer of the view, a key of `TRIMMERS`
    search: str = ""  # what is searched for in the words; "" for nothing
    format: str = ""  # the provider's format it is shown in; "" for none
    bill: int | None = None  # 1 if the bill is shown of a large history, too
    # The revision whose older ones are in the tree; None for the newest.
    before: int | None = None


# The newest messages of a state, the names on one page, the messages found.
_MAX_MESSAGES = 200
_MAX_NAMES = 100
_MAX_FOUND = 50
# The messages of each side of a difference.
_MAX_COMPARED = 100
# The newest revisions that are drawn. Of more messages or revisions than the second
# not all are read for the bill alone.
_MAX_REVISIONS = 10_000
_MAX_BILLED = 2_000
# Longer words that are searched are not repeated in the addresses of all revisions.
_MAX_REPEATED = 50


def draw_names(store: Store, words: Words, *, prefix: str, after: str) -> Markup:
    # One more shows whether there are further names.
    found = store.heads(prefix=prefix, after=after, limit=_MAX_NAMES + 1)
    rows = [_draw_head(each, words) for each in found[:_MAX_NAMES]]
    more = None
    if len(found) > _MAX_NAMES:
        query = urlencode({"prefix": prefix, "after": found[_MAX_NAMES - 1].name})
        more = element("p", None, element("a", {"href": f"/?{query}"}, "More names"))

    table = element(
        "table",
        {"class": "cs-bill"},
        draw_head(("Name", "Revision", "Messages", "Saved (UTC)")),
        element("tbody", None, rows),
    )
    return element(
        "div",
        {"id": "content"},
        draw_search_form("/", "prefix", "Names that begin with", prefix),
        table if rows else element("p", {"class": "cs-rest"}, "no names"),
        more,
    )


def _draw_head(found: NamedHead, words: Words) -> Markup:
    head = found.head
    name = element("a", {"href": link_to(PageQuery(head.name))}, words.line(head.name))
    return element(
        "tr",
        None,
        element("th", {"scope": "row"}, name, _draw_notes(found.notes, words)),
        element("td", None, f"{head.revision:,}"),
        element("td", None, f"{head.length:,}"),
        element("td", None, f"{head.saved_at:%Y-%m-%d %H:%M}"),
    )


def draw_name(
    store: Store, query: PageQuery, words: Words, *, may_write: bool
) -> list[Child]:
    """
    The page of one name: its revisions beside the one that is shown.

    Reads the revisions in one query, and of the state the newest messages; the
    whole state only for a view, a search, a difference or the bill.
    """
    newest = store.latest(query.name)
    head = newest if query.at is None else store.latest(query.name, at=query.at)
    history = list_revisions(store, newest, before=query.before, limit=_MAX_REVISIONS)
    # Without the name, which is in the path of the page, and with numbers last: there
    # may be thousands of revisions.
    near = query if len(query.search) <= _MAX_REPEATED else query._replace(search="")
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
        address = link_to(query, before=None)
        newer = element("p", None, element("a", {"href": address}, "Newest revisions"))

    nav = element(
        "nav",
        {"aria-label": "Revisions"},
        element("h2", None, "Revisions"),
        newer,
        draw_tree(
            nodes,
            words,
            older=history.older,
            link_older=lambda last: link_to(query, before=last),
        ),
    )
    content = element(
        "div",
        {
            "id": "content",
            "data-revision": newest.revision,
            "data-name": quote(query.name),
        },
        draw_controls(query, head, newest),
        draw_acts(query, head, newest) if may_write else None,
        _draw_shown(store, query, head, words),
        _draw_bills(store, query, newest, words),
    )
    return [nav, content]


def _draw_shown(
    store: Store, query: PageQuery, head: Head, words: Words
) -> list[Child]:
    if query.beside is not None:
        return _draw_difference(store, query, head, words)

    if query.search:
        return _draw_found(store.load(query.name, at=head), query, words)

    if query.format:
        return _draw_export(store.load(query.name, at=head), query, words)

    if query.limit is not None:
        return _draw_overlay(store, query, head, words)

    window = store.load(query.name, at=head, last=_MAX_MESSAGES)
    return [
        element("h2", None, f"Revision {head.revision}"),
        _draw_notes(head.notes, words),
        draw_before(window.start),
        draw_transcript(window.messages, words, window.start + 1),
    ]


def _draw_bills(
    store: Store, query: PageQuery, head: Head, words: Words
) -> list[Child]:
    """
    What each branch of a name cost. Of large ones only if it is asked for, because
    all states are read.
    """
    is_large = head.length > _MAX_BILLED or head.revision > _MAX_BILLED
    if is_large and not query.bill:
        if not head.ledger_length:
            return []

        link = element("a", {"href": link_to(query, bill=1)}, "Show the bill")
        return [element("p", None, link)]

    history = read_history(store, query.name, limit=_MAX_REVISIONS)
    bills = compute_bills(history)
    if not bills.has_usage:
        return []

    older = ""
    if history.older:
        count = format_count(history.older, "older revision")
        older = f"Branches of {count} are not in it."

    return [
        element("h2", None, "Bill" if len(bills.parts) == 1 else "Bill by branch"),
        draw_branch_bills(bills, words),
        element("p", {"class": "cs-rest"}, older) if older else None,
    ]


def _draw_overlay(
    store: Store, query: PageQuery, head: Head, words: Words
) -> list[Child]:
    heading = element("h2", None, "What the model sees")
    try:
        view = _trim_revision(store, query, head.revision)
    except BudgetExceededError as error:
        needed = format_count(error.needed_tokens, "token")
        problem = f"No valid view fits: the smallest needs {needed}."
        return [heading, element("p", {"role": "alert"}, problem)]

    previous = None
    if head.parent is not None:
        with suppress(BudgetExceededError):
            previous = _trim_revision(store, query, head.parent)

    return [heading, draw_view(view, words, previous=previous)]


def _trim_revision(store: Store, query: PageQuery, revision: int) -> TrimContext:
    state = store.load(query.name, at=revision)
    budget = TokenBudget(context_window=query.limit)
    return trim(state, budget, *TRIMMERS[query.trimmer])


def _draw_difference(
    store: Store, query: PageQuery, head: Head, words: Words
) -> list[Child]:
    beside = store.latest(query.name, at=query.beside)
    a = store.load(query.name, at=beside)
    b = store.load(query.name, at=head)
    titles = f"revision {beside.revision}", f"revision {head.revision}"
    alone = element("a", {"href": link_to(query, beside=None)}, f"Show {titles[1]}")
    return [
        element("h2", None, f"From {titles[0]} to {titles[1]}"),
        element("p", None, alone),
        draw_columns(diff(a, b), words, names=titles, limit=_MAX_COMPARED),
    ]


def dump_state(state: Aggregator, format: str) -> Export:  # noqa: A002 - its name
    if format not in adapters.PROVIDERS:
        expected = ", ".join(adapters.PROVIDERS)
        raise ValueError(f"unknown format; valid ones are {expected}")

    adapter = import_module(f"conversation_state.adapters.{format}")
    export: Export = adapter.dump(state)
    return export


def _draw_export(state: Aggregator, query: PageQuery, words: Words) -> list[Child]:
    export = dump_state(state, query.format)
    lost = [element("li", None, words.line(str(each))) for each in export.lost]
    text = dumps(export.payload, ensure_ascii=False, indent=2)
    shown = words.text(text[:_MAX_JSON])
    address = link_to(query).replace("/name/", "/export/", 1)
    return [
        element("h2", None, f"As {query.format}"),
        element("p", None, "Lost:") if lost else element("p", None, "Nothing is lost."),
        element("ul", None, lost[:_MAX_FOUND]) if lost else None,
        element("p", None, element("a", {"href": address, "download": ""}, "Download")),
        element("pre", {"class": "cs-code", "tabindex": 0}, shown),
    ]


# The most characters of an export that are shown; the file has all.
_MAX_JSON = 100_000


def _draw_notes(notes: Mapping[str, Any], words: Words) -> Markup | None:
    if not notes:
        return None

    shown = [
        f"{key}: {value if isinstance(value, str) else dumps(thaw(value))}"
        for key, value in notes.items()
    ]
    return element("small", None, words.line("; ".join(shown), 80))


def _draw_found(state: Aggregator, query: PageQuery, words: Words) -> list[Child]:
    wanted = query.search.casefold()
    # Lazily: a common word is in the newest messages, and the search ends there.
    found = islice(
        (
            (number, message)
            for number, message in reversed(list(enumerate(state.messages, 1)))
            if wanted in message.text.casefold()
        ),
        _MAX_FOUND + 1,
    )
    hits = list(found)
    count = format_count(min(len(hits), _MAX_FOUND), "message")
    most = "the newest " if len(hits) > _MAX_FOUND else ""
    return [
        element("h2", None, f"Found in {most}{count}"),
        [
            draw_transcript([message], words, number)
            for number, message in reversed(hits[:_MAX_FOUND])
        ],
    ]


# Requests: their addresses, and the forms that send them


def link_to(query: PageQuery, **changes: Any) -> str:
    changed = query._replace(**changes)
    asked = encode_fields(changed)
    return f"/name/{quote_name(changed.name)}" + (f"?{asked}" if asked else "")


def encode_fields(query: PageQuery) -> str:
    # A trimmer alone shows no view; what is not asked for makes no address longer.
    asked = query._asdict()
    del asked["name"]
    if asked["limit"] is None:
        del asked["trimmer"]

    return urlencode(
        {key: value for key, value in asked.items() if value not in {None, ""}}
    )


def quote_name(name: str) -> str:
    """
    *name* as one segment of a path that no browser or server changes: neither dots
    nor slashes nor percent signs are in it.
    """
    return quote(name, safe="").replace(".", "%2E").replace("%", "=")


def unquote_name(segment: str) -> str:
    return unquote(segment.replace("=", "%"))


def draw_controls(query: PageQuery, head: Head, newest: Head) -> Markup:
    hidden = _draw_hidden(at=head.revision)
    address = link_to(PageQuery(query.name))

    def draw_form(title: str, *fields: Child) -> Markup:
        button = element("button", None, title)
        return element("form", {"action": address}, hidden, *fields, button)

    trimmers = _draw_choice("trimmer", "Trimmer", TRIMMERS, query.trimmer)
    formats = _draw_choice("format", "Format", adapters.PROVIDERS, query.format)
    # Not with itself, which shows nothing: the newest one with the one before it.
    other = query.beside or newest.revision
    if query.beside is None and head.revision == newest.revision:
        other = newest.parent or 1

    limit = _draw_field("limit", "Budget in tokens", query.limit, kind="number")
    beside = _draw_field("beside", "Compare with revision", other, kind="number")
    return element(
        "div",
        {"class": "controls"},
        draw_form("What the model sees", limit, trimmers),
        draw_form("Compare", beside),
        draw_form("Show as request", formats),
        draw_search_form(address, "search", "Words", query.search, hidden),
    )


def _draw_choice(name: str, label: str, options: Iterable[str], chosen: str) -> Markup:
    drawn = [
        element("option", {"selected": "" if each == chosen else None}, each)
        for each in options
    ]
    return element("label", None, f"{label} ", element("select", {"name": name}, drawn))


def draw_search_form(
    action: str, field: str, label: str, value: str, hidden: Child = None
) -> Markup:
    return element(
        "form",
        {"action": action, "role": "search"},
        hidden,
        _draw_field(field, label, value, kind="search", id="search"),
        element("button", None, "Search"),
    )


def draw_acts(query: PageQuery, head: Head, newest: Head) -> Markup:
    hidden = _draw_hidden(
        name=quote(query.name),
        at=head.revision,
        seen=newest.revision,
        digest=newest.digest,
    )
    acts: list[Markup] = []
    if head.revision != newest.revision:
        acts.append(_draw_act("/restore", hidden, "Restore this revision"))

    acts.append(_draw_act("/fork", hidden, "Fork from here", _draw_field("new", "as")))
    acts.append(_draw_act("/label", hidden, "Label it", _draw_field("label", "as")))
    acts.append(_draw_act("/note", hidden, "Note", _draw_field("note", "on it")))
    return element("div", {"class": "controls acts"}, acts)


def _draw_act(action: str, hidden: Child, title: str, field: Child = None) -> Markup:
    button = element("button", None, title)
    return element(
        "form", {"action": action, "method": "post"}, hidden, button, " ", field
    )


def _draw_field(
    name: str,
    label: str,
    value: str | int | None = None,
    *,
    kind: str = "text",
    id: str | None = None,
) -> Markup:
    field = element(
        "input",
        {
            "name": name,
            "type": kind,
            "id": id,
            "value": value or None,
            "min": 1 if kind == "number" else None,
            # An empty note removes the present one.
            "required": None if kind == "search" or name == "note" else "",
            "maxlength": None if kind == "number" else 500,
        },
    )
    return element("label", None, label, " ", field)


# Names are quoted in forms, which change the ends of lines.
def _draw_hidden(**values: str | int) -> list[Markup]:
    return [
        element("input", {"type": "hidden", "name": key, "value": value})
        for key, value in values.items()
    ]
