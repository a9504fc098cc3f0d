"""Fragments for notebooks, and whole pages in one file."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from conversation_state._wording import describe_value, format_count, shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.counting import Cost
from conversation_state.diffing import Diff
from conversation_state.pages._bills import (
    compute_bills,
    draw_bill,
    draw_branch_bills,
    draw_cost,
)
from conversation_state.pages._differences import draw_columns
from conversation_state.pages._graphs import History, graph_history, graph_tree
from conversation_state.pages._layout import GraphNode
from conversation_state.pages._markup import Child, Markup, Words, draw_rest, element
from conversation_state.pages._messages import Drawer
from conversation_state.pages._sections import (
    Section,
    draw_comparisons,
    draw_sections,
    split_history,
    split_tree,
)
from conversation_state.pages._transcripts import check_view, draw_transcript, draw_view
from conversation_state.pages._trees import Painter, draw_tree, format_tree
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.trimming import TrimContext

# The newest messages of a state that a notebook shows, the rows of a tree, and the
# ledger entries whose prices it waits for.
_MAX_MESSAGES = 50
_MAX_ROWS = 200
_MAX_PRICED = 1_000


def draw_fragment(value: object, *, redact: bool = False) -> str:
    """
    *value* as a fragment of HTML, as notebooks show it: with its own styles,
    readable on light and on dark; no scripts or links, and only pictures and sounds
    that are in it.

    All content is escaped. Of a long conversation the newest messages are shown,
    of a large tree the newest states.

    Args:
        value: A state, a timeline, a history, a message tree, a view, a cost or a
            difference.
        redact: Whether words are left out, and only their lengths shown.

    Raises:
        TypeError: If it is something else.
    """
    return _wrap_fragment(_draw_value(_unwrap_timeline(value), Words(redact=redact)))


def draw_difference(
    found: Diff,
    *,
    names: tuple[str, str] = ("a", "b"),
    limit: int = 100,
    redact: bool = False,
) -> str:
    """
    *found* as such a fragment, in two columns: what `Diff.html` returns.

    Args:
        found: The difference.
        names: Names of the two sides.
        limit: The most messages that are shown of each side.
        redact: Whether words are left out, names among them.
    """
    if not isinstance(found, Diff):
        raise TypeError(
            f"found: expected a Diff, which diff() makes, got {describe_value(found)}"
        )

    words = Words(redact=redact)
    return _wrap_fragment(draw_columns(found, words, names=names, limit=limit))


def _wrap_fragment(content: Child) -> str:
    # By these classes a notebook knows that there are no formulas in here.
    return element(
        "div",
        {"class": "cs tex2jax_ignore mathjax_ignore"},
        element("style", None, Markup(_read_asset("page.css"))),
        content,
    )


def draw_outline(
    value: object, *, width: int = 100, paint: Painter | None = None
) -> str:
    """
    The states of *value* as lines of text, newest on top, for a terminal.

    Long runs without forks are folded; at most 200 lines of states.

    Args:
        value: A timeline, a history or a message tree.
        width: The most characters beside the lanes.
        paint: Colours a piece of a line: called with it and what it is ("present",
            "lanes", "label", "facts" or "excerpt"); None for plain text.

    Raises:
        TypeError: If it is something else.
    """
    value = _unwrap_timeline(value)
    if not isinstance(value, (History, MessageTree)):
        raise TypeError(
            f"can't draw the states of {shorten_repr(value)}; expected a Timeline, a "
            "History or a MessageTree"
        )

    nodes, older = _list_states(value)
    return "\n".join(
        format_tree(nodes, max_rows=_MAX_ROWS, width=width, older=older, paint=paint)
    )


def _unwrap_timeline(value: object) -> object:
    return History.of_timeline(value) if isinstance(value, Timeline) else value


def _list_states(value: History | MessageTree) -> tuple[list[GraphNode], int]:
    if isinstance(value, History):
        return graph_history(value), value.older

    nodes = graph_tree(value)
    return nodes, len(value) - len(nodes)


def _draw_value(value: object, words: Words) -> Child:
    if isinstance(value, Aggregator):
        start = max(len(value) - _MAX_MESSAGES, 0)
        rest = f"{format_count(start, 'message')} before these"
        before = draw_rest(rest) if start else None
        transcript = draw_transcript(value.messages[start:], Drawer(words), start + 1)
        return [element("p", None, describe_state(value)), before, transcript]

    if isinstance(value, (History, MessageTree)):
        # Without links: a notebook shows several values on one page.
        nodes, older = _list_states(value)
        nodes = [node._replace(target="") for node in nodes]
        tree = draw_tree(nodes, words, max_rows=_MAX_ROWS, older=older)
        bills = compute_bills(value, max_priced=_MAX_PRICED)
        is_billed = bills.parts[1:] and bills.has_usage
        return [tree, draw_branch_bills(bills, words) if is_billed else None]

    if isinstance(value, TrimContext):
        return draw_view(value, Drawer(words))

    if isinstance(value, Cost):
        return draw_cost(value, words)

    if isinstance(value, Diff):
        return draw_columns(value, words, names=("a", "b"), limit=_MAX_MESSAGES)

    raise TypeError(
        f"can't draw {shorten_repr(value)}; expected an Aggregator, a Timeline, a "
        "History, a MessageTree, a TrimContext, a Cost or a Diff"
    )


def describe_state(state: Aggregator) -> str:
    messages = format_count(len(state), "message")
    tokens = state.total_usage.total_tokens
    return f"{messages}, {format_count(tokens, 'token')} used" if tokens else messages


# Pages


def make_page(
    value: object,
    *,
    title: str = "Conversation",
    view: TrimContext | None = None,
    redact: bool = False,
) -> str:
    """
    *value* as a page in one file, which opens from a disk and asks nothing of any
    other host: for a pull request, or a report of a fault.

    The tree beside the present conversation, with every message of each branch
    once; what the model sees; what differs between the present conversation and the
    ends of other branches, in two columns; and the bill. Every message is in it, up to
    10 MB; what is left out is counted where it would be.

    Args:
        value: A state, a timeline, a history or a message tree; a view or a cost.
        title: The title of the page.
        view: What the model sees of the present conversation: a section of its own.
        redact: Whether words are left out, and only their lengths shown.

    Raises:
        TypeError: If *value* is something else, or *title* is no text.
    """
    if not isinstance(title, str):
        raise TypeError(f"title is {shorten_repr(title)}; expected a str")

    if view is not None:
        check_view(view, "view")

    # Once: the sections, the tree and the bill each read it.
    value = _unwrap_timeline(value)
    words = Words(redact=redact)
    drawer = Drawer(words, has_prices=True)
    sections: list[Section] = []
    present: object = None
    if isinstance(value, History):
        sections, present = split_history(value), value.state
    elif isinstance(value, MessageTree):
        sections, present = split_tree(value), value.present
    elif isinstance(value, Aggregator):
        sections, present = [Section("Conversation", value.messages, 1, {})], value

    # A timeline may be one of other values.
    here = present if isinstance(present, Aggregator) else None
    comparisons, compared = draw_comparisons(value, words)
    content: list[Child] = []
    if view is not None:
        content.append(element("h2", None, "What the model sees"))
        content.append(draw_view(view, drawer))

    content += [
        draw_sections(sections, drawer) if sections else _draw_value(value, words),
        *comparisons,
        *_draw_footer(value, here, words),
    ]
    nav = None
    if isinstance(value, (History, MessageTree)):
        nav = _draw_nav(value, words, compared)

    return write_document(
        words.line(title),
        describe_state(here) if here is not None else "",
        nav,
        element("div", {"id": "content"}, content),
        with_tree=nav is not None,
    )


def _draw_footer(
    value: object, present: Aggregator | None, words: Words
) -> list[Markup]:
    heading = element("h2", None, "Bill")
    if isinstance(value, (History, MessageTree)):
        bills = compute_bills(value)
        return [heading, draw_branch_bills(bills, words)] if bills.has_usage else []

    if present is None or not len(present.ledger):
        return []

    return [heading, draw_bill(present, words)]


def _draw_nav(
    value: History | MessageTree, words: Words, compared: set[int]
) -> Markup | None:
    nodes, older = _list_states(value)
    if not nodes:
        return None

    linked = [
        node._replace(comparison=f"#compare-{node.key}")
        if node.key in compared
        else node
        for node in nodes
    ]
    tree = draw_tree(linked, words, older=older)
    heading = element("h2", None, "States")
    return element("nav", {"aria-label": "States"}, heading, tree)


def write_document(
    title: Markup,
    facts: Child,
    *content: Child,
    with_tree: bool,
    is_live: bool = False,
    home: str = "",
    tools: Child = None,
) -> str:
    """
    A whole page, with a link *home* and *tools* in its header. In a file it has its
    policy; a live page has it in its headers.
    """
    policy = None
    if not is_live:
        attributes = {"http-equiv": "Content-Security-Policy", "content": make_policy()}
        policy = element("meta", attributes)

    # Before the styles: in a file a policy holds only for what comes after it.
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        policy,
        element("meta", viewport),
        element("title", None, title),
        element("style", None, Markup(_read_styles())),
    )
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#content"}, "Skip to the conversation"),
        element(
            "header",
            None,
            element("a", {"class": "cs-crumb", "href": home}, "Conversations")
            if home
            else None,
            element("h1", None, title),
            element("p", None, facts) if facts else None,
            tools,
        ),
        element("main", {"class": "cs cs-with-tree" if with_tree else "cs"}, *content),
        element("script", {"type": "module"}, Markup(_read_asset("page.js"))),
    )
    return f"<!doctype html>\n{element('html', {'lang': 'en'}, head, body)}\n"


def make_policy(*, is_live: bool = False) -> str:
    """
    What a page may do: use the styles and the script of this package, by their
    digests. A live page may ask its own server.
    """
    policy = (
        f"default-src 'none'; style-src '{_compute_digest(_read_styles())}'; "
        f"script-src '{_compute_digest(_read_asset('page.js'))}'; base-uri 'none'; "
        "img-src data:; media-src data:; "
    )
    # Not frame-ancestors, which browsers ignore in a `meta` element.
    if not is_live:
        return f"{policy}form-action 'none'"

    return f"{policy}connect-src 'self'; form-action 'self'; frame-ancestors 'none'"


def _read_styles() -> str:
    return _read_asset("document.css") + _read_asset("page.css")


@cache
def _read_asset(name: str) -> str:
    return (files("conversation_state.pages") / "assets" / name).read_text(
        encoding="utf-8"
    )


@cache
def _compute_digest(text: str) -> str:
    """What a content security policy allows *text* by."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
