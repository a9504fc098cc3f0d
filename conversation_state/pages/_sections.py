"""
The transcripts of all branches of a tree, with every message in one place: the
present conversation first, then what each other branch has that no section before
it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.diffing import diff
from conversation_state.diffing.drawing import describe_common
from conversation_state.messages import Message
from conversation_state.pages._differences import draw_columns
from conversation_state.pages._graphs import History, HistoryState
from conversation_state.pages._markup import (
    Markup,
    Words,
    draw_before,
    draw_too_large,
    element,
)
from conversation_state.pages._transcripts import (
    MAX_SIZE,
    CallNames,
    ViewBubbles,
)
from conversation_state.tree import MessageTree
from conversation_state.trimming import TrimContext

# The most messages of one section, from its end, and of a page.
_MAX_IN_SECTION = 500
_MAX_IN_PAGE = 5_000
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


def draw_sections(
    sections: Sequence[Section], words: Words, view: TrimContext | None
) -> list[Markup]:
    """
    *sections* for a page; of long ones the newest messages. With a *view*, what
    the model sees of the first section is noted at its messages.
    """
    left = _MAX_IN_PAGE
    size = 0
    drawn: list[Markup] = []
    for section in sections:
        shown = min(len(section.messages), _MAX_IN_SECTION, left)
        # Its heading and its anchors stay: rows of the tree lead to them.
        if size > MAX_SIZE:
            shown = 0

        left -= shown
        drawn.append(_draw_section(section, shown, words, ViewBubbles(view, words)))
        size += len(drawn[-1])
        view = None

    return drawn


def _draw_section(
    section: Section, shown: int, words: Words, overlay: ViewBubbles
) -> Markup:
    # Of all messages: one that is shown may answer a call of one that is not.
    names: CallNames = {}
    bubbles: list[Markup] = []
    left_out = len(section.messages) - shown
    size = too_large = 0
    for number, message in enumerate(section.messages, section.first):
        if number == section.first:
            bubbles += _draw_anchors(section, number - 1)

        if number - section.first >= left_out:
            if size > MAX_SIZE:
                too_large += 1
            else:
                bubbles.append(overlay.draw(number, message, names))
                size += len(bubbles[-1])
        elif number - section.first == left_out - 1:
            bubbles.append(draw_before(left_out))

        bubbles += _draw_anchors(section, number)
        names |= {call.id: call.name for call in message.tool_calls}

    if too_large:
        bubbles.append(draw_too_large(too_large))

    if not section.messages:
        bubbles += _draw_anchors(section, section.first - 1)
        what = words.line(section.other, 2_000) if section.other else "no messages"
        bubbles.append(element("p", {"class": "cs-rest"}, what))

    return element(
        "section",
        None,
        element("h2", None, section.title),
        element("div", {"class": "cs-transcript"}, bubbles),
    )


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
    for tip in [states[history.present], *tips]:
        # No state is walked over twice, however many branches grew from it.
        chain: list[HistoryState] = []
        at: HistoryState | None = tip
        while at is not None and at.number not in drawn:
            chain.append(at)
            at = None if at.parent is None else states.get(at.parent)

        drawn.update([each.number for each in chain])
        if chain:
            sections += _split_chain(chain, at, history)

    return sections


def _split_chain(
    chain: Sequence[HistoryState], past: HistoryState | None, history: History
) -> Iterator[Section]:
    """
    The sections of the states in *chain*, the newest first, which grew from *past*.
    """
    tip, noun = chain[0], history.noun
    title = f"Branch to {noun} {tip.number}"
    if tip.number == history.present:
        title = "The present conversation"

    if past is not None:
        title += f", from {noun} {past.number}"

    if not isinstance(tip.state, Aggregator):
        for each in chain:
            yield _make_section_apart(each, 0, noun)

        return

    entries = tip.state.entries
    start = 0
    if past is not None and isinstance(past.state, Aggregator):
        start = entries.common_prefix(past.state.entries)

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

    messages = [each.message for each in entries.iterate(start)]
    yield Section(title, messages, start + 1, anchors)
    for each, same in apart:
        yield _make_section_apart(each, same, noun)


def _make_section_apart(each: HistoryState, same: int, noun: str) -> Section:
    title, anchor = f"{noun.capitalize()} {each.number}", f"{noun}-{each.number}"
    state = each.state
    if not isinstance(state, Aggregator):
        return Section(title, (), 1, {0: [anchor]}, shorten_repr(state))

    messages = [one.message for one in state.entries.iterate(same)]
    return Section(title, messages, same + 1, {len(state): [anchor]})


def split_tree(tree: MessageTree) -> list[Section]:
    nodes = {node.id: node for node in tree.nodes}
    numbers = {entry_id: number for number, entry_id in enumerate(nodes, 1)}
    depths: dict[str | None, int] = {None: 0}
    for node in nodes.values():
        depths[node.id] = depths[node.parent] + 1

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
        sections.append(
            Section(title, [node.message for node in chain], first, anchors)
        )

    return sections
