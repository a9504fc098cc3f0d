"""
The transcripts of all branches of a tree, with every message in one place: the
present conversation first, then what each other branch has that no section before
it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.diffing import diff
from conversation_state.diffing.drawing import describe_common
from conversation_state.messages import Message
from conversation_state.pages._differences import draw_columns
from conversation_state.pages._graphs import History, HistoryState
from conversation_state.pages._markup import Markup, Words, draw_rest, element
from conversation_state.pages._messages import Calls, Drawer, Siblings
from conversation_state.pages._transcripts import MAX_SIZE, describe_too_large
from conversation_state.tree import MessageTree

# Older messages of a section are folded, so many in a block.
_IN_BLOCK = 500
# The states that are compared with the present one, and the messages of each side.
_MAX_COMPARED = 20
_MAX_IN_COLUMN = 50


class Section(NamedTuple):
    title: str  # what it is
    messages: Sequence[Message]
    first: int  # the number of the first one in its conversation
    # By the number of a message, the fragments that end with it; those of `first` - 1
    # come before all of them.
    anchors: dict[int, list[str]]
    other: str = ""  # what is shown if the state is not a conversation
    # By the number of a message, its alternatives.
    siblings: Mapping[int, Siblings] = MappingProxyType({})


def draw_sections(sections: Sequence[Section], drawer: Drawer) -> list[Markup]:
    """*sections* for a page, with every message while there is room."""
    left = MAX_SIZE
    drawn: list[Markup] = []
    for section in sections:
        drawn.append(_draw_section(section, drawer, left))
        left -= len(drawn[-1])

    return drawn


def _draw_section(section: Section, drawer: Drawer, left: int) -> Markup:
    numbered = list(enumerate(section.messages, section.first))
    calls = Calls(numbered)
    # The newest ones first: an older one is left out where there is no more room.
    drawn: list[Markup] = []
    left_out = 0
    for number, message in reversed(numbered):
        anchors = _draw_anchors(section, number)
        if left < 0:
            # Its heading and its anchors stay: rows of the tree lead to them.
            drawn.append(Markup("".join(anchors)))
            left_out += 1
            continue

        beside = section.siblings.get(number)
        bubble = drawer.draw(message, calls, number, siblings=beside)
        left -= len(bubble)
        drawn.append(Markup("".join([bubble, *anchors])))

    bubbles = list(_fold_older(drawn[::-1], section.first))
    if left_out:
        bubbles.insert(0, draw_rest(describe_too_large(left_out)))

    if not section.messages:
        what = drawer.words.line(section.other, 2_000) if section.other else ""
        bubbles.append(draw_rest(what or "no messages"))

    return element(
        "section",
        None,
        element("h2", None, section.title),
        element(
            "div",
            {"class": "cs-transcript"},
            _draw_anchors(section, section.first - 1),
            bubbles,
        ),
    )


def _fold_older(drawn: Sequence[Markup], first: int) -> Iterator[Markup]:
    """*drawn* with all but the newest messages in blocks that can be unfolded."""
    older = max(len(drawn) - _IN_BLOCK, 0)
    for start in range(0, older, _IN_BLOCK):
        stop = min(start + _IN_BLOCK, older)
        title = f"Messages {first + start:,} to {first + stop - 1:,}"
        summary = element("summary", None, title)
        yield element("details", {"class": "cs-block"}, summary, drawn[start:stop])

    yield from drawn[older:]


def _draw_anchors(section: Section, number: int) -> list[Markup]:
    return [
        element("span", {"class": "cs-anchor", "id": each})
        for each in section.anchors.get(number, ())
    ]


def draw_comparisons(history: object, words: Words) -> tuple[list[Markup], set[int]]:
    """
    What differs between the present state and the last ones of the other branches,
    each folded, with the numbers of these states: the newest ones, and labelled
    ones if there is room. Nothing for anything else than a history.
    """
    if not isinstance(history, History) or not isinstance(history.state, Aggregator):
        return [], set()

    grown_from = {each.parent for each in history.states}
    tips = [each for each in history.states if each.number not in grown_from]
    labelled = [each for each in history.states if each.labels]
    chosen = {each.number: each for each in [*reversed(tips), *reversed(labelled)]}
    chosen.pop(history.present, None)
    drawn: list[Markup] = []
    numbers: set[int] = set()
    size = 0
    here = f"{history.noun} {history.present}"
    for each in [*chosen.values()][:_MAX_COMPARED]:
        if not isinstance(each.state, Aggregator) or size > MAX_SIZE:
            continue

        there = f"{history.noun} {each.number}"
        found = diff(each.state, history.state)
        columns = draw_columns(found, words, names=(there, here), limit=_MAX_IN_COLUMN)
        only = f"{len(found.only_a):,} only in {there}"
        only += f", {len(found.only_b):,} only in {here}"
        facts = f"{there} and {here}: {describe_common(found)}, {only}"
        summary = element("summary", None, facts)
        anchor = f"compare-{each.number}"
        drawn.append(element("details", {"id": anchor}, summary, columns))
        numbers.add(each.number)
        size += len(drawn[-1])

    heading = [element("h2", None, "Differences")] if drawn else []
    return heading + drawn, numbers


def split_history(history: History) -> list[Section]:
    """The sections of a history. O(states + messages of all branches)."""
    states = {each.number: each for each in history.states}
    grown_from = {each.parent for each in history.states}
    tips = [each for each in reversed(history.states) if each.number not in grown_from]
    sections: list[Section] = []
    drawn: set[int] = set()
    # By its identity: each entry that a section has.
    shown: set[str] = set()
    for tip in [states[history.present], *tips]:
        # No state is walked over twice, however many branches grew from it.
        chain: list[HistoryState] = []
        at: HistoryState | None = tip
        while at is not None and at.number not in drawn:
            chain.append(at)
            at = None if at.parent is None else states.get(at.parent)

        drawn.update([each.number for each in chain])
        if chain:
            sections += _split_chain(chain, at, history, shown)

    return sections


def _split_chain(
    chain: Sequence[HistoryState],
    past: HistoryState | None,
    history: History,
    shown: set[str],
) -> Iterator[Section]:
    """
    The sections of the states in *chain*, the newest first, which grew from *past*,
    without the first entries that are in *shown*; then theirs are, too.
    """
    tip, noun = chain[0], history.noun
    if not isinstance(tip.state, Aggregator):
        for each in chain:
            yield _make_section_apart(each, 0, noun, shown)

        return

    entries = tip.state.entries
    start = 0
    if past is not None and isinstance(past.state, Aggregator):
        start = entries.common_prefix(past.state.entries)

    # A branch may begin as another one, which it did not grow from.
    start = _skip_shown(entries, start, shown)
    anchors: dict[int, list[str]] = {}
    apart: list[tuple[HistoryState, int]] = []
    for each in chain:
        same = 0
        if isinstance(each.state, Aggregator):
            same = entries.common_prefix(each.state.entries)
            # One that ends before the section is at its start.
            if same == len(each.state):
                ends = anchors.setdefault(max(same, start), [])
                ends.append(f"{noun}-{each.number}")
                continue

        apart.append((each, same))

    own = [*entries.iterate(start)]
    shown.update([entry.id for entry in own])
    title = f"Branch to {noun} {tip.number}"
    if tip.number == history.present:
        title = "The present conversation"

    if past is not None or start:
        before = f"message {start:,}" if past is None else f"{noun} {past.number}"
        title += f", from {before}"

    yield Section(title, [entry.message for entry in own], start + 1, anchors)
    for each, same in apart:
        yield _make_section_apart(each, same, noun, shown)


def _skip_shown(entries: Log[Entry], start: int, shown: set[str]) -> int:
    for entry in entries.iterate(start):
        if entry.id not in shown:
            break

        start += 1

    return start


def _make_section_apart(
    each: HistoryState, same: int, noun: str, shown: set[str]
) -> Section:
    title, anchor = f"{noun.capitalize()} {each.number}", f"{noun}-{each.number}"
    state = each.state
    if not isinstance(state, Aggregator):
        return Section(title, (), 1, {0: [anchor]}, shorten_repr(state))

    start = _skip_shown(state.entries, same, shown)
    own = [*state.entries.iterate(start)]
    shown.update([entry.id for entry in own])
    messages = [entry.message for entry in own]
    return Section(title, messages, start + 1, {len(state): [anchor]})


def split_tree(tree: MessageTree) -> list[Section]:
    nodes = {node.id: node for node in tree.nodes}
    numbers = {entry_id: number for number, entry_id in enumerate(nodes, 1)}
    depths: dict[str | None, int] = {None: 0}
    for node in nodes.values():
        depths[node.id] = depths[node.parent] + 1

    beside = list_siblings(tree, lambda entry_id: f"#message-{numbers[entry_id]}")
    sections: list[Section] = []
    drawn: set[str] = set()
    head = [tree.head] if tree.head is not None else []
    for leaf in dict.fromkeys([*head, *reversed(tree.leaves)]):
        chain = []
        at: str | None = leaf
        while at is not None and at not in drawn:
            chain.append(nodes[at])
            at = nodes[at].parent

        chain.reverse()
        drawn.update([node.id for node in chain])
        first = depths[at] + 1
        title = f"Branch to message {numbers[leaf]}"
        if leaf == tree.head:
            title = "The present conversation"

        if at is not None:
            title += f", from message {numbers[at]}"

        anchors = {
            depth: [f"message-{numbers[node.id]}"]
            for depth, node in enumerate(chain, first)
        }
        siblings = {
            depth: beside[node.id]
            for depth, node in enumerate(chain, first)
            if node.id in beside
        }
        shown = [node.message for node in chain]
        sections.append(Section(title, shown, first, anchors, siblings=siblings))

    return sections


def list_siblings(tree: MessageTree, link: Callable[[str], str]) -> dict[str, Siblings]:
    """
    The alternatives of each message of *tree* that has any, by its identity; *link*
    gives the address of a message. O(messages).
    """
    children: dict[str | None, list[str]] = {}
    for node in tree.nodes:
        children.setdefault(node.parent, []).append(node.id)

    found: dict[str, Siblings] = {}
    for ids in children.values():
        if len(ids) > 1:
            addresses = ["", *map(link, ids), ""]
            for at, entry_id in enumerate(ids, 1):
                sides = addresses[at - 1], addresses[at + 1]
                found[entry_id] = Siblings(at, len(ids), *sides)

    return found
