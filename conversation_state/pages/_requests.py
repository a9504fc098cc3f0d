"""What can be asked of the live page: the addresses, and the forms that send them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from conversation_state import adapters
from conversation_state.pages._markup import (
    Attributes,
    Child,
    Markup,
    Words,
    element,
    join_markup,
)
from conversation_state.store import Head
from conversation_state.trimming import (
    Step,
    clear_tool_results,
    fit,
    repair,
    shorten_tool_results,
)

# The trimmers that can be chosen.
TRIMMERS: Mapping[str, tuple[Step, ...]] = {
    "fit": (repair(), fit()),
    "shorten tool results": (repair(), shorten_tool_results(500), fit()),
    "clear tool results": (repair(), clear_tool_results(keep=3), fit()),
}


# The budget of a first look at what the model sees.
_FIRST_LIMIT = 8_000
# The end of the slider, unless the budget is larger.
_MAX_SLIDER = 16_000


class PageQuery(NamedTuple):
    name: str
    at: int | None = None  # the revision; None for the newest
    # The revision it is compared with; None for no comparison.
    beside: int | None = None
    limit: int | None = None  # the budget of the view, in tokens; None for no view
    trimmer: str = "fit"  # the trimmer of the view, a key of `TRIMMERS`
    search: str = ""  # what is searched for in the words; "" for nothing
    format: str = ""  # the provider's format it is shown in; "" for none
    bill: int | None = None  # 1 if the bill is shown
    # The revision whose older ones are in the tree; None for the newest.
    before: int | None = None
    until: int | None = None  # the last message that is shown; None for the newest
    upto: int | None = None  # the message that the acts are about; None for the state
    raw: int | None = None  # 1 if texts are shown as they are, not as Markdown
    # "messages" or "revisions": what the tree is of; "" for what suits the name.
    tree: str = ""
    node: str = ""  # the message whose branch is shown, by its identity


def link_to(query: PageQuery, **changes: Any) -> str:
    changed = query._replace(**changes)
    asked = encode_fields(changed)
    return f"/name/{quote_name(changed.name)}" + (f"?{asked}" if asked else "")


def stay_at(query: PageQuery, **changes: Any) -> str:
    """The address of another page of the name that is shown, whatever its length."""
    return f"?{encode_fields(query._replace(**changes))}"


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


def name_tab(query: PageQuery) -> str:
    if query.beside is not None:
        return "Compare"

    if query.format:
        return "Request"

    if query.limit is not None:
        return "Model sees"

    return "Bill" if query.bill else "Conversation"


def draw_tools(query: PageQuery, head: Head, newest: Head) -> Markup:
    """The tabs of a name, and its search."""
    base = PageQuery(query.name, query.at, trimmer=query.trimmer, before=query.before)
    other = head.parent or (newest.revision if head.revision < newest.revision else 0)
    limit = query.limit or _FIRST_LIMIT
    pages = {
        "Conversation": base._replace(tree=query.tree),
        "Model sees": base._replace(limit=limit),
        "Compare": base._replace(beside=other) if other else None,
        "Request": base._replace(format=query.format or adapters.PROVIDERS[0]),
        "Bill": base._replace(bill=1),
    }
    shown = "" if query.search else name_tab(query)
    tabs = [
        element(
            "a",
            {"href": stay_at(page), "aria-current": "page" if tab == shown else None},
            tab,
        )
        for tab, page in pages.items()
        if page is not None
    ]
    if shown == "Conversation":
        label = "As Markdown" if query.raw else "Raw"
        address = stay_at(query, raw=None if query.raw else 1)
        tabs.append(element("a", {"href": address, "class": "cs-raw"}, label))

    hidden = _draw_hidden(at=query.at) if query.at else None
    address = link_to(PageQuery(query.name))
    search = draw_search_form(address, "search", "Words", query.search, hidden)
    return join_markup(
        [element("nav", {"class": "cs-tabs", "aria-label": "Views"}, tabs), search]
    )


def draw_form(query: PageQuery, title: str, *fields: Child) -> Markup:
    """A form that shows the same revision otherwise."""
    hidden = _draw_hidden(at=query.at) if query.at else None
    button = element("button", None, title)
    action = link_to(PageQuery(query.name))
    return element(
        "div",
        {"class": "controls"},
        element("form", {"action": action}, hidden, fields, button),
    )


def draw_choice(name: str, label: str, options: Iterable[str], chosen: str) -> Markup:
    drawn = [
        element("option", {"selected": "" if each == chosen else None}, each)
        for each in options
    ]
    return element("label", None, f"{label} ", element("select", {"name": name}, drawn))


def draw_search_form(
    action: str,
    field: str,
    label: str,
    value: str,
    hidden: Child = None,
    *,
    id: str | None = "search",
) -> Markup:
    return element(
        "form",
        {"action": action, "role": "search"},
        hidden,
        draw_field(field, label, value, kind="search", id=id),
        element("button", None, "Search"),
    )


def draw_acts(
    query: PageQuery,
    head: Head,
    newest: Head,
    typed: Mapping[str, str],
    words: Words,
    *,
    can_restore: bool,
) -> Markup:
    """The forms that change a name, with what was *typed* into one that was refused."""
    hidden = _draw_hidden(
        name=quote(query.name),
        at=head.revision,
        seen=newest.revision,
        digest=newest.digest,
    )
    acts: list[Markup] = []
    forms = [("/fork", "Fork…", "Fork from here", "new", "as")]
    if query.upto is not None:
        hidden += _draw_hidden(upto=query.upto)
        if can_restore:
            title = f"Restore to message {query.upto:,}"
            acts.append(_draw_act("/restore", hidden, title))
    else:
        if can_restore and head.revision != newest.revision:
            acts.append(_draw_act("/restore", hidden, "Restore this revision"))

        forms.append(("/label", "Label…", "Label it", "label", "as"))
        forms.append(("/note", "Note…", "Note", "note", "on it"))

    for act, title, button, field, label in forms:
        value = typed.get(field)
        shown = None if value is None else words.title(value, 500)
        form = _draw_act(act, hidden, button, draw_field(field, label, shown))
        attributes = {"class": "cs-act", "open": "" if value is not None else None}
        acts.append(
            element("details", attributes, element("summary", None, title), form)
        )

    return element("div", {"class": "controls acts"}, acts)


def _draw_act(action: str, hidden: Child, title: str, field: Child = None) -> Markup:
    button = element("button", None, title)
    return element(
        "form", {"action": action, "method": "post"}, hidden, field, " ", button
    )


def draw_field(
    name: str,
    label: str,
    value: str | int | None,
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
            "placeholder": label if kind == "search" else None,
        },
    )
    return element("label", None, label, " ", field)


def draw_slider(limit: int | None) -> Markup:
    """What moves the budget with a pointer or arrows, beside its field; for scripts."""
    most = max(_MAX_SLIDER, 2 * (limit or 0))
    attributes: Attributes = {
        "type": "range",
        "min": 1,
        "max": most,
        "value": limit,
        "class": "cs-slider",
        "aria-label": "budget in tokens",
        "hidden": "",
    }
    return element("input", attributes)


# Names are quoted in forms, which change the ends of lines.
def _draw_hidden(**values: str | int) -> list[Markup]:
    return [
        element("input", {"type": "hidden", "name": key, "value": value})
        for key, value in values.items()
    ]
