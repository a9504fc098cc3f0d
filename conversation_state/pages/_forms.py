"""
Requests to the live page of a store: their addresses, and the forms that send them.

What a page shows is in `_live`; how requests are checked is in `server`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from conversation_state.adapters import PROVIDERS
from conversation_state.pages._markup import Child, Markup, element
from conversation_state.store import Head
from conversation_state.trimming import (
    Step,
    clear_tool_results,
    fit,
    repair,
    shorten_tool_results,
)

__all__ = [
    "TRIMMERS",
    "PageQuery",
    "draw_acts",
    "draw_controls",
    "draw_search_form",
    "encode_fields",
    "link_to",
    "quote_name",
    "unquote_name",
]

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
    formats = _draw_choice("format", "Format", PROVIDERS, query.format)
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
