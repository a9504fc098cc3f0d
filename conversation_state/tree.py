"""
A conversation as user interfaces keep it: messages with alternatives, one of which
is shown.

What lives here: the tree of all messages that some states have, siblings, and the
way to the message that is shown. What does not: a tree of *states* to undo and redo
(`timeline`), and drawings of either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import attrs

from conversation_state._drawing import draw_fragment, draw_outline
from conversation_state._persistent import Log, final
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import format_count, shorten_repr
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.messages import Message
from conversation_state.pickling import Maker
from conversation_state.timeline import Timeline
from conversation_state.usage import Usage

__all__ = ["MessageTree", "Node"]

# Stands for the parent of first messages: no identity is empty.
_ROOT = ""


@final
class Node(NamedTuple):
    """
    One message of a tree.

    Attributes:
        id: The identity of its entry.

        parent: The identity of the entry it stands behind; None for a first message.

        message: The message.

        children: The identities of the entries that stand behind it, in the order
            in which they came.
    """

    id: str
    parent: str | None
    message: Message
    children: tuple[str, ...]


class _Position(NamedTuple):
    """
    Where an entry was first found: in which log, behind how many others, and, for
    that of a message, in which state.
    """

    log: Log[Any]
    position: int
    state: Any = None


class _TreeLedger(NamedTuple):
    """
    The ledger of a whole tree: the union of its states' ledgers, and where each entry
    was found, by identity.
    """

    entries: Log[LedgerEntry]
    places: PMap[str, _Position]

    def with_ledger(
        self, ledger: Log[LedgerEntry], known: Log[LedgerEntry]
    ) -> _TreeLedger:
        # The same with what *ledger* has and this lacks; itself if that is nothing. All
        # that is in *known* is here. Costs what *ledger* has besides that.
        start = _count_known(ledger, self.places, known.common_prefix(ledger))
        if start == len(ledger):
            return self

        new = []
        places: Any = self.places.evolver()  # whose `in` type checkers don't know
        for position, entry in enumerate(ledger.iterate(start), start):
            if entry.id not in places:
                places[entry.id] = _Position(ledger, position)
                new.append(entry)

        if not new:
            return self

        # Where the ledger begins with this one it is taken as it is, so that states
        # that grow from it share it.
        entries = self.entries
        is_longer = entries.common_prefix(ledger) == len(entries)
        if is_longer and entries.is_shared_start_of(ledger):
            return _TreeLedger(ledger, places.persistent())

        return _TreeLedger(entries.extend(new), places.persistent())


@final
@attrs.frozen(init=False, eq=False, repr=False)
class MessageTree:
    """
    The messages of several states of a conversation as a tree: each message once, as
    a child of the message it follows; and the leaf that is shown.

    An edited prompt and a regenerated answer are siblings of what they replace.
    The tree stores nothing but the states: it follows from what they share, and from
    where they diverge.

    A value: every verb returns the next tree and leaves this one unchanged. Equal by
    its messages, their positions, what is shown and the ledger; pickled and encoded
    as its states.

    Made by `MessageTree.of`. Adding a state costs what is new in it, some ten
    microseconds a message.

    Attributes:
        states: The states that the tree is made of, without those that brought
            nothing new.

        joined: The entries that stand behind different ones in different states,
            after a join, by identity: what else they stand behind than in this tree,
            where each stands where it was first found; None for nothing.

        head: The identity of the entry that is shown last; None if no message is.

        shown: The state that is shown, with its own ledger, not that of the whole
            tree: one that was added, or the way to the head.

    >>> asked = Aggregator.new().add_user_prompt("Where to?")
    >>> first = asked.add_assistant_message("To the sea.")
    >>> again = first.before(first.entries[-1].id).add_assistant_message("Uphill.")
    >>> tree = MessageTree.of(first, again)
    >>> position, ids = tree.siblings(tree.head)
    >>> f"{position + 1}/{len(ids)}"
    '2/2'
    >>> tree.switch(ids[0]).present[-1].text
    'To the sea.'
    """

    states: Log[Aggregator]
    # The identities of all entries, in the order in which they came.
    _ids: Log[str]
    _places: PMap[str, _Position]
    _children: PMap[str, tuple[str, ...]]
    joined: PMap[str, tuple[str | None, ...]]
    _ledger: _TreeLedger
    head: str | None
    shown: Aggregator

    def __init__(self) -> None:
        raise TypeError("make trees with MessageTree.of(*states)")

    @classmethod
    def of(cls, *states: Aggregator | Timeline[Aggregator]) -> MessageTree:
        """
        The tree of all messages that *states* have.

        The last message of the last state is shown; of a timeline, that of its
        present state.

        Args:
            *states: States of one conversation, the oldest first, and timelines of
                such states, with all their moments. That of a name's history in a
                store is ``store.message_tree(name)``.

        Raises:
            ValueError:
                If no state is given.

            TypeError:
                If something else is given.
        """
        if not states:
            raise ValueError(
                "a tree is made of at least one state: Aggregator.new(), say"
            )

        start = Aggregator.new()
        ledger = _TreeLedger(Log(), pmap())
        empty = _make_tree(Log(), Log(), pmap(), pmap(), pmap(), ledger, None, start)
        return empty.add(*states)

    def add(self, *states: Aggregator | Timeline[Aggregator]) -> MessageTree:
        """
        This tree with the messages of further states, and the last one's last
        message shown. Itself if that is so already.

        Costs what is new in the states; O(n) for one that has nothing in common
        with those there are.

        Raises:
            TypeError:
                If something else than states and timelines is given.
        """
        tree = self
        for given in states:
            if isinstance(given, Timeline):
                for moment in given.moments:
                    tree = tree._add_state(_check_state(moment.state))

                tree = tree._add_state(given.present)
            else:
                tree = tree._add_state(_check_state(given))

        # On the way to the last one others were shown.
        is_known = tree.states is self.states
        return self._with_head(tree.head, tree.shown) if is_known else tree

    @property
    def present(self) -> Aggregator:
        """
        The state that is shown, to go on from: the one that was added last, or
        the `path` to the head. Its ledger is that of the whole tree.
        """
        return self._with_ledger(self.shown)

    @property
    def leaves(self) -> tuple[str, ...]:
        """
        The identities of the entries that nothing stands behind, in the order in
        which they came. O(n).
        """
        return tuple([each for each in self._ids if each not in self._children])

    @property
    def nodes(self) -> tuple[Node, ...]:
        """
        All messages, in the order in which they came: a parent before its children.
        O(n).
        """
        return tuple([self.node(each) for each in self._ids])

    @property
    def total_usage(self) -> Usage:
        """What the whole tree cost: every usage in its states' ledgers once."""
        return self.present.total_usage

    def node(self, entry_id: str) -> Node:
        """
        One message, and where it stands.

        Raises:
            LookupError:
                If the tree has no such entry.
        """
        place = self._find_place(entry_id)
        parent = _id_before(place.log, place.position)
        message = place.log[place.position].message
        return Node(entry_id, parent, message, self._children.get(entry_id, ()))

    def siblings(self, entry_id: str) -> tuple[int, tuple[str, ...]]:
        """
        The position of an entry among those that stand behind the same one, from 0
        on, and their identities in the order in which they came.

        Raises:
            LookupError:
                If the tree has no such entry.
        """
        place = self._find_place(entry_id)
        ids = self._children[_id_before(place.log, place.position) or _ROOT]
        return ids.index(entry_id), ids

    def switch(self, entry_id: str) -> MessageTree:
        """
        This tree with the way through *entry_id* shown: down to the newest message
        behind it, and the newest behind that. Itself if that way is shown.

        O(messages below); after a join, for each of them O(n).

        Raises:
            LookupError:
                If the tree has no such entry.
        """
        self._find_place(entry_id)  # also for None, which `path` takes
        head: str | None = entry_id
        below: str | None = entry_id
        while below is not None:
            head, children = below, reversed(self._children.get(below, ()))
            # After a join, a message may be shown with another past than the one
            # above it here: that way does not lead through the entry.
            below = next((e for e in children if self._is_on_way(entry_id, e)), None)

        # After a join, the same head may be shown with a past without the entry.
        if head == self.head and (
            not self.joined or any(each.id == entry_id for each in self.shown.entries)
        ):
            return self

        return self._with_head(head, self._find_path(head))

    def path(self, entry_id: str | None) -> Aggregator:
        """
        The state whose last entry is *entry_id*: the conversation as it was then,
        to go on from. With None, the state before the first message.

        Its ledger is that of the whole tree: going back does not bring the money
        back, so whichever way is saved has the whole bill.

        Raises:
            LookupError:
                If the tree has no such entry.
        """
        return self._with_ledger(self._find_path(entry_id))

    # Implementation

    def _find_path(self, entry_id: str | None) -> Aggregator:
        # There is a first state: it is kept even if it has no messages.
        if entry_id is None:
            return self.states[0].rollback(0)

        place = self._find_place(entry_id)
        state: Aggregator = place.state
        return state.rollback(place.position + 1)

    def _with_ledger(self, state: Aggregator) -> Aggregator:
        ledger = self._ledger.entries
        if ledger is state.ledger:
            return state

        # By a join, so that the state keeps its id and where it was forked.
        bill = Aggregator.rebuild(
            id=state.id,
            parent_id=None,
            root_id=None,
            init_len=0,
            init_ledger_len=0,
            entries=Log(),
            ledger=ledger,
        )
        return state.join(bill)

    def _find_place(self, entry_id: str) -> _Position:
        # Asked first, because a list, which has no hash, could not be looked up.
        place = self._places.get(entry_id) if isinstance(entry_id, str) else None
        if place is None:
            shown = shorten_repr(entry_id)
            raise LookupError(
                f"this tree has no entry {shown}; tree.nodes lists those it has"
            )

        return place

    def _is_on_way(self, entry_id: str, below: str) -> bool:
        # O(log n), or O(n) after a join.
        place, position = self._places[below], self._places[entry_id].position
        # Without joins an entry has the same position wherever it stands.
        if position <= place.position and place.log[position].id == entry_id:
            return True

        return any(each.id == entry_id for each in place.log.take(place.position))

    def _with_head(self, head: str | None, shown: Aggregator) -> MessageTree:
        if head == self.head and shown == self.shown:
            return self

        fields = self.states, self._ids, self._places, self._children, self.joined
        return _make_tree(*fields, self._ledger, head, shown)

    def _add_state(self, state: Aggregator) -> MessageTree:
        entries = state.entries
        head = entries[-1].id if len(entries) else None
        start = _count_known(entries, self._places)
        ids, children, joined = self._ids, self._children, self.joined
        places: Any = self._places.evolver()  # whose `in` type checkers don't know
        for position, entry in enumerate(entries.iterate(start), start):
            parent = _id_before(entries, position)
            if entry.id in places:
                found = places[entry.id]
                others = joined.get(entry.id, ())
                first = _id_before(found.log, found.position)
                if parent != first and parent not in others:
                    joined = joined.set(entry.id, (*others, parent))

                continue

            places[entry.id] = _Position(entries, position, state)
            ids = ids.append(entry.id)
            above = parent or _ROOT
            children = children.set(above, (*children.get(above, ()), entry.id))

        ledger = self._ledger.with_ledger(state.ledger, self.shown.ledger)
        is_known = ids is self._ids and joined is self.joined
        if is_known and len(self.states) and ledger is self._ledger:
            return self._with_head(head, state)  # the same in another order

        return _make_tree(
            self.states.append(state),
            *(ids, places.persistent(), children, joined, ledger, head, state),
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, MessageTree):
            return NotImplemented

        return (
            self.head == other.head
            and self.shown == other.shown
            and self._ids == other._ids
            and self._children == other._children
            and self.joined == other.joined
            and self.nodes == other.nodes
            and self._ledger.entries == other._ledger.entries
        )

    def __hash__(self) -> int:
        return hash((self.head, len(self._ids)))

    def __len__(self) -> int:
        return len(self._ids)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._places

    def __str__(self) -> str:
        return draw_outline(self)

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def __repr__(self) -> str:
        messages = format_count(len(self._ids), "message")
        leaves = format_count(len(self.leaves), "leaf", "leaves")
        return f"<MessageTree: {messages}, {leaves}>"

    def __copy__(self) -> MessageTree:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # What is shown may be none of the states: one that brought nothing new.
        return _TREE, (tuple(self.states), self.head, self.shown)


def _id_before(entries: Log[Entry], position: int) -> str | None:
    return entries[position - 1].id if position else None


def _check_state(state: object) -> Aggregator:
    if isinstance(state, Aggregator):
        return state

    expected = "Aggregators and Timelines of them"
    raise TypeError(f"a tree is made of {expected}, got {shorten_repr(state)}")


def _make_tree(*fields: Any) -> MessageTree:
    tree: Any = object.__new__(MessageTree)
    tree.__attrs_init__(*fields)
    return tree  # type: ignore[no-any-return]


def _rebuild_tree(
    states: Iterable[Aggregator], head: str | None, shown: Aggregator
) -> MessageTree:
    return MessageTree.of(*states)._with_head(head, shown)


_TREE = Maker("tree.MessageTree", _rebuild_tree)


def _count_known(items: Log[Any], places: Mapping[str, Any], known: int = 0) -> int:
    # How many of the first *items* stand in *places* behind the same ones; no less than
    # *known*.
    compared: Log[Any] | None = None
    common = 0
    for position in range(len(items) - 1, known - 1, -1):
        place = places.get(items[position].id)
        if place is None or place.position != position:
            continue

        # What has more in common with a log than *items* has parts from *items*
        # where that log does: a copy of which one item differs is compared once.
        if compared is None or place.log.common_prefix(compared) <= common:
            common, compared = place.log.common_prefix(items), place.log

        if common > position:
            return position + 1

    return known
