"""The messages with some words: of one name, in all its branches, or of all names."""

from __future__ import annotations

from time import monotonic

from conversation_state._wording import format_count
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.messages import Message
from conversation_state.pages._imports import replace_marks
from conversation_state.pages._index import MAX_SORTED
from conversation_state.pages._markup import Child, Markup, Words, draw_rest, element
from conversation_state.pages._messages import Drawer
from conversation_state.pages._requests import PageQuery, draw_search_form, link_to
from conversation_state.rendering import iterate_blocks
from conversation_state.store import Store
from conversation_state.tree import MessageTree

# The most messages that are found, and how long a search goes on, in seconds.
_MAX_FOUND = 50
_MAX_SEARCH_S = 2.0


def draw_found(tree: MessageTree, query: PageQuery, drawer: Drawer) -> list[Child]:
    """
    The messages of all branches that contain some words: in texts, reasoning, calls
    and results. Newest first, for two seconds at most.
    """
    depths: dict[str | None, int] = {None: 0}
    nodes = tree.nodes
    for node in nodes:
        depths[node.id] = depths[node.parent] + 1

    ends = monotonic() + _MAX_SEARCH_S
    found: list[Markup] = []
    rest = None
    for left, node in zip(range(len(nodes), 0, -1), reversed(nodes), strict=True):
        if len(found) == _MAX_FOUND or monotonic() > ends:
            rest = f"{format_count(left, 'older message')} not searched"
            break

        excerpt = _find_words(node.message, query.search)
        if excerpt is not None:
            number = depths[node.id]
            base = PageQuery(query.name, tree="messages", node=node.id)
            address = f"{link_to(base, until=number)}#m-{number}"
            found.append(
                _draw_hit(node.message, number, address, excerpt, drawer.words)
            )

    count = format_count(len(found), "message")
    return [
        element("h2", None, f"Found in {count}"),
        element("ul", {"class": "cs-found"}, found),
        draw_rest(rest) if rest else None,
    ]


# How much of a message is shown around the words that were found.
_AROUND = 80


def _find_words(message: Message, wanted: str) -> tuple[str, str, str] | None:
    """
    The first place of *message* with *wanted*, whatever the case: what is before it,
    itself, and what is after it. None if it is not found.
    """
    lowered = wanted.casefold()
    for block in iterate_blocks(message, str):
        for text in (replace_marks(block.body, message), block.label):
            # Folding may change lengths ("ß"), so that positions move; a search of the
            # text as it is finds the place in most cases.
            if lowered not in text.casefold():
                continue

            at = text.lower().find(wanted.lower())
            if at < 0:
                return text[: 2 * _AROUND], "", ""

            end = at + len(wanted)
            return text[max(at - _AROUND, 0) : at], text[at:end], text[end:][:_AROUND]

    return None


def _draw_hit(
    message: Message,
    number: int,
    address: str,
    excerpt: tuple[str, str, str],
    words: Words,
) -> Markup:
    before, hit, after = excerpt
    shown: list[Child] = [
        words.line(before, 2 * _AROUND) if before else None,
        element("mark", None, words.line(hit, 500)) if hit else None,
        words.line(after, _AROUND) if after else None,
    ]
    spaced = [part for piece in shown if piece for part in (piece, " ")]
    title = element("small", None, f"{message.role} #{number:,}")
    link = element("a", {"href": address}, title, " ", spaced)
    return element("li", {"dir": "auto"}, link)


def draw_all_found(store: Store, words: Words, search: str) -> Markup:
    """
    The messages of all names that contain some words: of each name the newest state,
    those saved last first, for two seconds at most.
    """
    found_heads = store.heads(limit=MAX_SORTED)
    heads = sorted(found_heads, key=lambda each: each.head.saved_at, reverse=True)
    ends = monotonic() + _MAX_SEARCH_S
    drawn: list[Markup] = []
    # A damaged conversation is no reason not to search the others.
    unread: list[Markup] = []
    rest = None
    hits = 0
    for at, named in enumerate(heads):
        if monotonic() > ends or hits >= _MAX_FOUND:
            rest = f"{format_count(len(heads) - at, 'older name')} not searched"
            break

        name = named.head.name
        try:
            state = store.load(name, at=named.head)
        except NotSavedError:  # it was deleted meanwhile
            continue
        except StoreError as error:
            unread.append(element("li", None, words.line(f"{name}: {error}", 500)))
            continue

        found: list[Markup] = []
        for number, message in reversed(list(enumerate(state.messages, 1))):
            excerpt = _find_words(message, search)
            if excerpt is not None and hits < _MAX_FOUND:
                address = f"{link_to(PageQuery(name, until=number))}#m-{number}"
                found.append(_draw_hit(message, number, address, excerpt, words))
                hits += 1

        if found:
            link = element("a", {"href": link_to(PageQuery(name))}, words.line(name))
            drawn.append(element("h2", None, link))
            drawn.append(element("ul", {"class": "cs-found"}, found))

    return element(
        "div",
        {"id": "content", "class": "cs-index"},
        draw_search_form("/", "search", "Words in all conversations", search),
        element("p", None, f"Found in {format_count(hits, 'message')}"),
        drawn,
        draw_rest(f"{format_count(len(unread), 'name')} not searched:")
        if unread
        else None,
        element("ul", None, unread[:_MAX_FOUND]) if unread else None,
        draw_rest(rest) if rest else None,
    )
