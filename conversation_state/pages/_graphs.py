"""Which states a value has, and what each grew from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from conversation_state._drawing import draw_fragment, draw_outline
from conversation_state._persistent import final
from conversation_state._wording import format_count, shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message
from conversation_state.pages._imports import describe_unknown, replace_marks
from conversation_state.pages._layout import GraphNode
from conversation_state.parts import UnknownPart
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

if TYPE_CHECKING:
    from datetime import datetime

    from conversation_state.store import Head, Store

# How much of a message is looked at for its excerpt, in characters.
_EXCERPT = 200
# The messages of a tree that are drawn.
_MAX_MESSAGES = 5_000


@final
class HistoryState(NamedTuple):
    """
    One state of a history.

    Attributes:
        number: Its number: of a moment, or of a revision.
        parent: The number of the state it grew from; None if it grew from none.
        state: The state; None if it is not loaded.
        labels: Its labels.
        length: How many messages it has; None if it is not a conversation.
        saved_at: When it was saved; None if it was not.
    """

    number: int
    parent: int | None
    state: Any
    labels: tuple[str, ...] = ()
    length: int | None = None
    saved_at: datetime | None = None


@final
class History(NamedTuple):
    """
    The states of a timeline, or of a name in a store, and what each grew from.

    Made by `read_history`. Notebooks draw it; ``str()`` is its tree as text.

    Attributes:
        states: The states, oldest first.
        present: The number of the present one.
        noun: What a state is called: "moment" or "revision".
        older: How many older states there are, which are not in it.
    """

    states: tuple[HistoryState, ...]
    present: int
    noun: Literal["moment", "revision"]
    older: int = 0

    @classmethod
    def of_timeline(cls, timeline: Timeline[Any]) -> History:
        """The moments of a timeline."""
        states = [
            HistoryState(
                moment.number,
                moment.parent,
                moment.state,
                (moment.label,) if moment.label else (),
                len(moment.state) if isinstance(moment.state, Aggregator) else None,
            )
            for moment in timeline.moments
        ]
        return cls(tuple(states), timeline.moment.number, "moment")

    @property
    def state(self) -> Any:
        """The present state."""
        return next(each.state for each in self.states if each.number == self.present)

    def __str__(self) -> str:
        return draw_outline(self)

    def _repr_html_(self) -> str:
        return draw_fragment(self)


def read_history(store: Store, name: str, *, limit: int = 1_000) -> History:
    """
    The newest revisions of *name* with their states, at most *limit*.

    Each is read once, and shares with the others what they have in common.

    Raises:
        NotSavedError: If nothing is saved as *name*.
    """
    heads = store.history(name, limit=limit)
    states = store._load_each(name, heads)
    found = [_make_revision(head, states[head.revision]) for head in heads]
    present = heads[0].revision if heads else 0
    return History(tuple(reversed(found)), present, "revision", _count_older(found))


def list_revisions(
    store: Store, newest: Head, *, before: int | None, limit: int
) -> History:
    """
    The newest revisions of the name whose head is *newest*, or the newest *before*
    one, without their states, in one query.
    """
    heads = list(store.history(newest.name, before=before, limit=limit))
    states = [_make_revision(head, None) for head in reversed(heads)]
    older = _count_older(states[::-1])
    return History(tuple(states), newest.revision, "revision", older)


def _count_older(newest_first: Sequence[HistoryState]) -> int:
    # Revisions are numbered from 1 on, without gaps.
    return newest_first[-1].number - 1 if newest_first else 0


def _make_revision(head: Head, state: Aggregator | None) -> HistoryState:
    about = head.labels, head.length, head.saved_at
    return HistoryState(head.revision, head.parent, state, *about)


def graph_history(history: History) -> list[GraphNode]:
    """
    The states of a history, oldest first. O(states + messages).

    A state with all of its own past, and messages of other states that are not in it,
    was joined with them. One without its own past that has messages of another state
    went back to that one, which its facts say.
    """
    known: dict[int | None, Aggregator] = {}
    # By the identity of an entry: the state that it is the last of.
    ending: dict[str, int] = {}
    nodes = []
    for each in history.states:
        parents: tuple[Hashable, ...] = () if each.parent is None else (each.parent,)
        state, back = each.state, ""
        if isinstance(state, Aggregator):
            past = known.get(each.parent)
            found = [] if past is None else _find_others(state, past, known, ending)
            if past is not None and found and _holds_past(state, past):
                parents = (*parents, *found)
            elif found:
                back = f", returns to {history.noun} {found[0]}"

            known[each.number] = state
            # The first that ends there: later ones went back to it, or are forks of it.
            if len(state):
                ending.setdefault(state.entries[-1].id, each.number)

        node = _make_node(each, parents, history)
        nodes.append(node._replace(facts=f"{node.facts}{back}"))

    return nodes


def _make_node(
    each: HistoryState, parents: tuple[Hashable, ...], history: History
) -> GraphNode:
    state = each.state
    role, excerpt = "", ""
    if isinstance(state, Aggregator):
        role, excerpt = excerpt_newest(state.messages)
    elif state is not None:
        role, excerpt = type(state).__name__, shorten_repr(state)

    return GraphNode(
        key=each.number,
        parents=parents,
        title=f"{history.noun} {each.number}",
        excerpt=excerpt,
        role=role,
        labels=each.labels,
        facts="" if each.length is None else format_count(each.length, "message"),
        saved_at=each.saved_at,
        is_present=each.number == history.present,
        target=f"#{history.noun}-{each.number}",
    )


def _find_others(
    state: Aggregator,
    past: Aggregator,
    known: Mapping[int | None, Aggregator],
    ending: Mapping[str, int],
) -> list[int]:
    """The states that the messages of *state* come from that are not in its *past*."""
    start = state.entries.common_prefix(past.entries)
    others: list[int] = []
    # What a found state has is not asked for again: its own past is in it.
    covered: set[str] = set()
    for position in range(len(state.entries) - 1, start - 1, -1):
        entry_id = state.entries[position].id
        found = ending.get(entry_id)
        if found is None or entry_id in covered:
            continue

        other = known[found]
        both = other.entries.common_prefix(past.entries)
        if both < len(other) == state.entries.common_prefix(other.entries):
            # All that is left is of that state, as after an undo.
            others.append(found)
            break

        covered |= {one.id for one in other.entries.iterate(both)}
        if both < len(other.entries):
            others.append(found)

    return others


def _holds_past(state: Aggregator, past: Aggregator) -> bool:
    start = state.entries.common_prefix(past.entries)
    if start == len(past):
        return True

    # The newest one first: what goes back behind any goes back behind that, and a long
    # past need not be read.
    newest = past.entries[-1].id
    if all(one.id != newest for one in state.entries.iterate(start)):
        return False

    missing = {entry.id for entry in past.entries.iterate(start)}
    return missing <= {one.id for one in state.entries.iterate(start)}


def graph_tree(tree: MessageTree) -> list[GraphNode]:
    """The newest messages of a tree, 5,000 at most, oldest first."""
    messages, joined = tree.list_newest(_MAX_MESSAGES), tree.joined
    nodes = []
    # Counted: `MessageTree.siblings` lists all siblings of an entry, and a prompt may
    # have thousands of answers.
    shown = Counter([node.parent for node in messages])
    known: dict[str | None, int] = {node.id: len(node.children) for node in messages}
    seen: Counter[str | None] = Counter()
    for number, node in enumerate(messages, len(tree) - len(messages) + 1):
        role, excerpt = excerpt_message(node.message)
        above = node.parent
        if above not in known:
            known[above] = len(tree.siblings(node.id)[1])

        seen[above] += 1
        count = known[above]
        # Those that are not shown came before.
        position = count - shown[above] + seen[above]
        nodes.append(
            GraphNode(
                key=node.id,
                parents=(
                    *([] if above is None else [above]),
                    *[each for each in joined.get(node.id, ()) if each],
                ),
                title=f"message {number}",
                excerpt=excerpt,
                role=role,
                facts=f"{position}/{count}" if count > 1 else "",
                is_present=node.id == tree.head,
                target=f"#message-{number}",
            )
        )

    return nodes


def excerpt_newest(messages: Sequence[Message]) -> tuple[str, str]:
    """The role and the first words of the newest message, if there is one."""
    return excerpt_message(messages[-1]) if len(messages) else ("", "")


def excerpt_message(message: Message) -> tuple[str, str]:
    text = replace_marks(message.text, message)[:_EXCERPT]
    if not text.strip() and message.tool_calls:
        names: Iterable[str] = [call.name for call in message.tool_calls]
        text = f"calls {', '.join(names)}"
    elif not text.strip():
        raws = [part.raw for part in message.parts if isinstance(part, UnknownPart)]
        texts = filter(None, map(describe_unknown, raws))
        text = next(texts, "")[:_EXCERPT]

    return message.role, text
