"""
A conversation as user interfaces keep it: messages with alternatives, one of which
is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Never, TypeVar

import attrs

from conversation_state._drawing import draw_fragment, draw_outline
from conversation_state._persistent import Log, check_text, final
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import add_missing_names, format_count, shorten_repr
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
from conversation_state.pickling import Maker
from conversation_state.timeline import Timeline
from conversation_state.usage import Usage

__all__ = ["MessageTree", "Node", "name", "ui_id_of"]

M = TypeVar("M", bound=Message)

# The number of what first messages stand behind, and what stands for no child.
_ROOT, _NONE = 0, -1
# Between an entry's identity and the number of its place, where it has several.
_COPY = "~"


def name(message: M, ui_id: str) -> M:
    """
    *message* with the id that interfaces know it by, as a note in its metadata.

    An entry's identity is new with every piece of an answer that streams in; this id
    stays: a client's own for what the user sent, and for an answer one that is made
    when it begins. `MessageTree` takes two entries with one id behind one parent for
    one message, the newer of which stands; a piece of an answer never for the whole.

    Raises:
        ValueError: If *ui_id* is no text, or empty.
        TypeError: If *message* is something else.

    >>> from conversation_state import UserMessage
    >>> named = name(UserMessage("Hi!"), "m1")
    >>> tree = MessageTree.of(Aggregator.new([named]))
    >>> tree.find("m1") == tree.head
    True
    """
    if not isinstance(message, Message):
        raise TypeError(f"name takes a Message, got {shorten_repr(message)}")

    if not isinstance(ui_id, str) or not ui_id:
        raise ValueError(f"ui_id is {shorten_repr(ui_id)}; expected a text")

    notes = message.metadata.get(_NOTES)
    kept = notes if isinstance(notes, Mapping) else {}
    named = {**kept, "ui": {"id": check_text(ui_id, "ui_id")}}
    return message.replace(metadata={**message.metadata, _NOTES: named})


def ui_id_of(entry: Entry) -> str:
    """The id that interfaces know an entry by: that of `name`, or else its own."""
    if not isinstance(entry, Entry):
        raise TypeError(f"ui_id_of takes an Entry, got {shorten_repr(entry)}")

    return _read_name(entry.message) or entry.id


def _find_answer(entries: Log[Entry], at: int) -> int:
    """
    The position of the first message of the answer that the one at a position belongs
    to, or would; *at* itself if the message before it is no assistant's and no tool's.
    Messages of unknown roles don't part an answer.
    """
    first = at
    while at and not _is_question(entries[at - 1]):
        at -= 1
        if _is_answer(entries[at]):
            first = at

    return first


def _is_answer(entry: Entry) -> bool:
    return entry.message.role in {"assistant", "tool"}


def _is_unknown(entry: Entry) -> bool:
    return isinstance(entry.message, UnknownMessage)


def _is_question(entry: Entry) -> bool:
    return not (_is_answer(entry) or _is_unknown(entry))


def _has_all(whole: Entry, entry: Entry) -> bool:
    # Whether *entry* is *whole* itself or a piece of that answer: a state that was
    # extended while the answer streamed in has the piece.
    if whole.id == entry.id:
        return True

    ours, theirs = whole.message, entry.message
    if not (
        isinstance(ours, AssistantMessage) and isinstance(theirs, AssistantMessage)
    ):
        return False

    if _has_ended(theirs):
        return False

    calls = [*zip(ours.tool_calls, theirs.tool_calls, strict=False)]
    is_piece = (
        ours.text.startswith(theirs.text)
        and ours.reasoning.startswith(theirs.reasoning)
        and len(calls) == len(theirs.tool_calls)
        and all(
            call.id == piece.id and call.arguments.startswith(piece.arguments)
            for call, piece in calls
        )
    )
    # Of two with equal content, the newer may be the one that has its usage.
    return is_piece and (
        _has_ended(ours) or _read_content(ours) != _read_content(theirs)
    )


def _has_ended(message: AssistantMessage) -> bool:
    return message.response is not None and bool(message.response.finish_reason)


def _read_content(message: AssistantMessage) -> tuple[str, str, tuple[str, ...]]:
    arguments = tuple([call.arguments for call in message.tool_calls])
    return message.text, message.reasoning, arguments


# The key in metadata under which this library keeps notes.
_NOTES = "conversation_state"


def _read_name(message: Message) -> str:
    notes = message.metadata.get(_NOTES)
    ui = notes.get("ui") if isinstance(notes, Mapping) else None
    named = ui.get("id") if isinstance(ui, Mapping) else None
    return named if isinstance(named, str) else ""


@final
class Node(NamedTuple):
    """
    One message of a tree.

    Attributes:
        id: The identity of its entry. An entry that stands behind different ones in
            different states has a node for each: from the second on, its identity,
            ``~`` and a number.
        parent: The id of the node it stands behind; None for a first message.
        message: The message.
        children: The ids of the nodes that stand behind it, in the order in which
            they came.
        entry: Its entry, with the identity alone.
    """

    id: str
    parent: str | None
    message: Message
    children: tuple[str, ...]
    entry: Entry


class _Place(NamedTuple):
    # A node: its id and entry, the number of its parent and those of its children, how
    # many messages stand before it, and a state that has all of these.
    id: str
    entry: Entry
    parent: int
    children: Log[int]
    position: int
    state: Aggregator


class _Recorded(NamedTuple):
    # Where a ledger entry was first found: in which log, behind how many others.
    log: Log[Any]
    position: int


class _TreeLedger(NamedTuple):
    """
    The ledger of a whole tree: the union of its states' ledgers, and where each entry
    was found, by identity.
    """

    entries: Log[LedgerEntry]
    places: PMap[str, _Recorded]

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
                places[entry.id] = _Recorded(ledger, position)
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


class _Followed(NamedTuple):
    # A timeline whose moments a tree has; how many states and which ledger the tree had
    # before each moment, and the number of the node that the moment ends with.
    timeline: Timeline[Aggregator]
    moments: PMap[int, tuple[int, _TreeLedger, int]]
    # How many moments end with a node.
    ends: PMap[int, int]


@final
@attrs.frozen(init=False, eq=False, repr=False)
class MessageTree:
    """
    The messages of several states of a conversation as a tree: each message once, as
    a child of the message it follows; and the leaf that is shown.

    An edited prompt and a regenerated answer are siblings of what they replace. The
    tree stores nothing but the states and which child was shown last: it follows from
    what the states share, and from where they diverge.

    An entry that stands behind different ones, after a join or where a message before
    it was replaced, has a node behind each. An identity alone means the one that is
    shown, or else the first; with ``~1``, ``~2`` and so on it means just that one.

    A value: every verb returns the next tree and leaves this one unchanged. Equal by
    its messages, their positions, what is shown and was shown last, and the ledger;
    pickled and encoded as its states.

    Made by `MessageTree.of`. Adding a state costs what is new in it, some twenty
    microseconds a message.

    Attributes:
        states: The states that the tree is made of, without those that brought
            nothing new when they were added.
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
    # All nodes by number, a parent's less than its children's; the root is no message.
    _places: PMap[int, _Place]
    # By id; and of entries that have several nodes, all of these.
    _numbers: PMap[str, int]
    _copies: PMap[str, tuple[int, ...]]
    # By the id that interfaces know a message by, where that is not its entry's; the
    # newest last.
    _named: PMap[str, tuple[int, ...]]
    # The child that was shown last, if it is not the newest.
    _visited: PMap[int, int]
    _next: int
    _ledger: _TreeLedger
    _head: int
    shown: Aggregator
    _followed: _Followed | None

    def __init__(self, *_: Never, **__: Never) -> None:
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
            ValueError: If no state is given.
            TypeError: If something else is given.
        """
        if not states:
            raise ValueError(
                "a tree is made of at least one state: Aggregator.new(), say"
            )

        if len(states) == 1 and isinstance(states[0], Timeline):
            return _EMPTY.follow(states[0])

        return _EMPTY.add(*states)

    @classmethod
    def rebuild(
        cls,
        states: Iterable[Aggregator],
        *,
        shown: Aggregator,
        visited: Iterable[tuple[int, int]] = (),
    ) -> MessageTree:
        """
        A tree from all its fields, for decoders.

        Args:
            states: The states it is made of, in order.
            shown: The state that is shown.
            visited: Of nodes whose child that was shown last is not the newest, their
                place among `nodes`, and that of the child; others are left out.
        """
        tree = cls.of(*states, shown)
        order = tree._order_numbers()
        numbers = dict(enumerate(order, 1))
        fits = {}
        for rank, other in visited:
            above, on = numbers.get(rank, _ROOT), numbers.get(other, _NONE)
            if on in tree._places[above].children[:-1]:
                fits[above] = on

        # The way to the head is shown, whatever was written.
        top = tree._replace_fields(_visited=pmap(fits), _head=_ROOT)
        return top._show_way(tree._head, shown)

    def add(self, *states: Aggregator | Timeline[Aggregator]) -> MessageTree:
        """
        This tree with the messages of further states, and the last one's last
        message shown. Itself if that is so already.

        Costs what is new in the states; O(n) for one that has nothing in common
        with those there are.

        Raises:
            TypeError: If something else than states and timelines is given.
        """
        growth = _Growth(self)
        shown: Aggregator | None = None
        number = _ROOT
        for given in states:
            if isinstance(given, Timeline):
                for moment in given.moments:
                    growth.add(_check_state(moment.state), is_shown=True)

                shown = given.present
            else:
                shown = _check_state(given)

            number = growth.add(shown, is_shown=True)

        tree = growth.finish()
        return tree._show_way(number, shown)

    def follow(self, timeline: Timeline[Aggregator]) -> MessageTree:
        """
        The tree of *timeline*, made of the tree of an earlier value of it: with what
        was committed since, without what was amended away, and its present state
        shown. Itself if nothing changed.

        For interfaces that draw each value of a timeline: costs what changed in it,
        however long the conversation is. A tree that is not of a timeline alone is
        extended by the whole of it.

        Raises:
            TypeError: If *timeline* is something else.

        >>> asked = Aggregator.new().add_user_prompt("Where to?")
        >>> chat = Timeline.begin(asked).commit(asked.add_assistant_message("To"))
        >>> tree = MessageTree.of(chat)
        >>> chat = chat.amend(1, asked.add_assistant_message("To the sea."))
        >>> [node.message.text for node in tree.follow(chat).nodes]
        ['Where to?', 'To the sea.']
        """
        if not isinstance(timeline, Timeline):
            raise TypeError(
                f"follow takes a Timeline of states, got {shorten_repr(timeline)}"
            )

        followed = self._followed
        if followed is not None and followed.timeline is timeline:
            return self

        moments: Any = (followed.moments if followed else pmap()).evolver()
        ends: Any = (followed.ends if followed else pmap()).evolver()
        growth = _Growth(self)
        first = timeline.moments[0].number
        gone: dict[int, int] = {}
        if followed:
            old = followed.timeline
            first = timeline.first_change(old)
            changed = old.moments[_find_moment(old, first) :]
            gone = {each.number: moments[each.number][2] for each in changed}
            if gone:
                growth.begin_at(*moments[changed[0].number][:2])

            left = [growth.remove_end(number, ends) for number in gone.values()]
            for number in gone:
                moments.remove(number)

            if growth.has_replaced(left, [each.state for each in changed]):
                return _EMPTY.follow(timeline)

        for moment in timeline.moments[_find_moment(timeline, first) :]:
            before = len(growth.states), growth.ledger
            number = growth.add(_check_state(moment.state), is_shown=followed is None)
            moments[moment.number] = (*before, number)
            count = ends[number] if number in ends else 0  # noqa: SIM401 - it has no `get`
            ends[number] = count + 1

        growth.restore_shown(
            {end: moments[each][2] for each, end in gone.items() if each in moments}
        )
        tree = growth.finish()
        present = timeline.moment
        kept = _Followed(timeline, moments.persistent(), ends.persistent())
        *_, number = kept.moments[present.number]
        return tree._replace_fields(_followed=kept)._show_way(number, present.state)

    # What there is

    @property
    def head(self) -> str | None:
        """The id of the node that is shown last; None if no message is."""
        return self._places[self._head].id if self._head else None

    @property
    def moment(self) -> int:
        """
        The number of the newest moment that ends with the head, in the timeline that
        the tree follows. O(moments).

        Raises:
            LookupError: If the tree follows no timeline, or no moment of it ends there.
        """
        moments = self._followed.moments if self._followed else {}
        ends = [k for k, (*_, number) in moments.items() if number == self._head]
        if not ends:
            raise LookupError("no moment ends with the head; see MessageTree.follow")

        return max(ends)

    @property
    def joined(self) -> Mapping[str, tuple[str | None, ...]]:
        """
        The entries that stand behind different ones in different states, by identity:
        the ids of what else they stand behind than where the first of their nodes
        does; None for nothing. O(such entries).
        """
        return {
            entry_id: tuple([self._id_of(self._places[each].parent) for each in rest])
            for entry_id, (_, *rest) in self._copies.items()
        }

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
        The ids of the nodes that nothing stands behind, in the order in which they
        came. O(n).
        """
        places = self._places
        return tuple(
            [
                places[each].id
                for each in self._order_numbers()
                if not places[each].children
            ]
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """
        All messages, in the order in which they came: a parent before its children.
        O(n log n).
        """
        return tuple([self._make_node(each) for each in self._order_numbers()])

    def list_newest(self, limit: int) -> tuple[Node, ...]:
        """At most *limit* of the messages that came last, as in `nodes`. O(limit)."""
        numbers = range(self._next - 1, _ROOT, -1)
        newest = islice((each for each in numbers if each in self._places), limit)
        return tuple([self._make_node(each) for each in [*newest][::-1]])

    @property
    def total_usage(self) -> Usage:
        """What the whole tree cost: every usage in its states' ledgers once."""
        return self.present.total_usage

    def node(self, entry_id: str) -> Node:
        """
        One message, and where it stands.

        Raises:
            LookupError: If the tree has no such entry.
        """
        return self._make_node(self._find_number(entry_id))

    def find(self, ui_id: str) -> str:
        """
        The id of the node of the message that interfaces know by *ui_id* (`name`), or
        whose entry has that identity. O(1).

        Raises:
            LookupError: If the tree has no such message.
        """
        named = self._named.get(ui_id) if isinstance(ui_id, str) else None
        return self._places[named[-1] if named else self._find_number(ui_id)].id

    def siblings(self, entry_id: str) -> tuple[int, tuple[str, ...]]:
        """
        The position of an entry among those that stand behind the same one, from 0
        on, and their ids in the order in which they came.

        Raises:
            LookupError: If the tree has no such entry.
        """
        number = self._find_number(entry_id)
        ids = self._list_siblings(number)
        return ids.index(self._places[number].id), ids

    def pagers(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """
        Of the messages shown that have siblings, what `siblings` returns, with UI ids:
        for ``‹ 2/3 ›``, by the UI id of the message. O(messages shown).

        >>> from conversation_state import UserMessage
        >>> asked = Aggregator.new().add(name(UserMessage("In May?"), "u1"))
        >>> again = Aggregator.new().add(name(UserMessage("In June?"), "u2"))
        >>> MessageTree.of(asked, again).pagers()
        {'u2': (1, ('u1', 'u2'))}
        """
        found = {}
        for number in self._list_way():
            place = self._places[number]
            children = self._places[place.parent].children
            if len(children) > 1:
                names = [ui_id_of(self._places[each].entry) for each in children]
                found[ui_id_of(place.entry)] = children.index(number), tuple(names)

        return found

    def question(self, entry_id: str) -> str | None:
        """
        The id of the message that an answer is to: the next one above *entry_id* that
        is no assistant's and no tool's, or *entry_id* itself; None for nothing. Those
        of unknown roles within an answer are passed over.

        Raises:
            LookupError: If the tree has no such entry.
        """
        number = found = self._find_number(entry_id)
        while number and not _is_question(self._places[number].entry):
            is_answer = _is_answer(self._places[number].entry)
            number = self._places[number].parent
            found = number if is_answer else found

        return self._id_of(found)

    def news(self, before: MessageTree | None) -> tuple[str | None, tuple[Entry, ...]]:
        """
        What an interface that shows *before*, an earlier or later value of this tree or
        None for nothing, has to draw: the UI id of the last message that is as it was
        there, None if none is, and the entries that are shown from there on.

        A message has changed if it has other siblings, too. Answers in a row, with
        their results, are one message, whose id is that of the first of them; those of
        unknown roles, which interfaces are not shown, don't part it. Costs what is new
        while both trees have the same nodes, else O(n).
        """
        entries, start = self.shown.entries, 0
        if before is not None:
            there = before.shown.entries
            start = self._count_same(before)
            both = (entries, there)
            if any(start < len(log) and not _is_question(log[start]) for log in both):
                start = _find_answer(entries, start)

        last = start - 1
        while last >= 0 and _is_unknown(entries[last]):
            last -= 1

        if last >= 0 and _is_answer(entries[last]):
            last = _find_answer(entries, last)

        after = ui_id_of(entries[last]) if last >= 0 else None
        return after, tuple(entries.iterate(start))

    def _count_same(self, other: MessageTree) -> int:
        # How many of the first messages shown are shown there with the same siblings.
        same = self.shown.entries.common_prefix(other.shown.entries)
        if len(self) != len(other):
            ways = self._list_way()[:same], other._list_way()
            for position, (number, there) in enumerate(zip(*ways, strict=False)):
                if self._list_siblings(number) != other._list_siblings(there):
                    return position

        return same

    def switch(self, entry_id: str) -> MessageTree:
        """
        This tree with the way through *entry_id* shown: down to the message behind it
        that was shown last, or else to the newest, and so on. Itself if that way is
        shown. O(messages below).

        Raises:
            LookupError: If the tree has no such entry.
        """
        number = self._find_number(entry_id)
        while children := self._places[number].children:
            number = self._visited.get(number, children[-1])

        if number == self._head:
            return self

        return self._show_way(number, self._path_to(number))

    def path(self, entry_id: str | None) -> Aggregator:
        """
        The state whose last entry is *entry_id*: the conversation as it was then,
        to go on from. With None, the state before the first message.

        Its ledger is that of the whole tree: going back does not bring the money
        back, so whichever way is saved has the whole bill.

        Raises:
            LookupError: If the tree has no such entry.
        """
        number = _ROOT if entry_id is None else self._find_number(entry_id)
        return self._with_ledger(self._path_to(number))

    # Implementation

    def _find_number(self, entry_id: str) -> int:
        # Asked first, because a list, which has no hash, could not be looked up.
        number = self._numbers.get(entry_id) if isinstance(entry_id, str) else None
        if number is None:
            shown = shorten_repr(entry_id)
            raise LookupError(
                f"this tree has no entry {shown}; tree.nodes lists those it has"
            )

        for copy in self._copies.get(entry_id, ()):
            place = self._places[copy]
            if self.shown.entries.common_prefix(place.state.entries) > place.position:
                return copy

        return number

    def _order_numbers(self) -> list[int]:
        return sorted(self._places)[1:]

    def _id_of(self, number: int) -> str | None:
        return self._places[number].id if number else None

    def _list_siblings(self, number: int) -> tuple[str, ...]:
        numbers = self._places[self._places[number].parent].children
        return tuple([self._places[each].id for each in numbers])

    def _list_way(self) -> list[int]:
        # The nodes from the first one to the head. The state that is shown may have an
        # older entry of one.
        way = []
        number = self._head
        while number:
            way.append(number)
            number = self._places[number].parent

        return way[::-1]

    def _make_node(self, number: int) -> Node:
        id, entry, parent, children, _, _ = self._places[number]
        ids = tuple([self._places[each].id for each in children])
        return Node(id, self._id_of(parent), entry.message, ids, entry)

    def _path_to(self, number: int) -> Aggregator:
        if number == self._head:
            return self.shown

        if not number:
            # There is a first state: it is kept even if it has no messages.
            return self.states[0].rollback(0)

        place = self._places[number]
        return place.state.rollback(place.position + 1)

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

    def _show_way(self, number: int, shown: Aggregator | None) -> MessageTree:
        # This tree with the way to a node shown, which *shown* is.
        if number == self._head and shown == self.shown:
            return self

        # All that is above what both ways have in common was shown before.
        places, visited = self._places, self._visited
        here, there = number, self._head
        while here != there:
            if places[here].position < places[there].position:
                there = places[there].parent
                continue

            parent = places[here].parent
            if here == places[parent].children[-1]:
                visited = visited.discard(parent)
            else:
                visited = visited.set(parent, here)

            here = parent

        return self._replace_fields(_head=number, shown=shown, _visited=visited)

    def _replace_fields(self, **changes: Any) -> MessageTree:
        fields = {name: getattr(self, name) for name in _FIELDS}
        return _make_tree(**{**fields, **changes})

    def _compare_by(self) -> tuple[Any, ...]:
        # What equal trees have in common; numbers are not, because some are not used.
        order = [_ROOT, *self._order_numbers()]
        ranks = {number: rank for rank, number in enumerate(order)}
        return (
            ranks[self._head],
            [
                (place.entry, ranks[place.parent])
                for place in (self._places[each] for each in order[1:])
            ],
            {ranks[above]: ranks[on] for above, on in self._visited.items()},
        )

    # A tree as a value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, MessageTree):
            return NotImplemented

        return (
            self.shown == other.shown
            and self._ledger.entries == other._ledger.entries
            and self._compare_by() == other._compare_by()
        )

    def __hash__(self) -> int:
        return hash((self.head, len(self)))

    def __len__(self) -> int:
        return len(self._places) - 1

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._numbers

    def __str__(self) -> str:
        return draw_outline(self)

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def __repr__(self) -> str:
        messages = format_count(len(self), "message")
        leaves = format_count(len(self.leaves), "leaf", "leaves")
        return f"<MessageTree: {messages}, {leaves}>"

    def __copy__(self) -> MessageTree:
        return self

    def list_visited(self) -> tuple[tuple[int, int], ...]:
        """What `rebuild` takes as *visited*. O(n log n)."""
        return tuple(sorted(self._compare_by()[2].items()))

    def __reduce__(self) -> tuple[Any, ...]:
        # What is shown may be none of the states: one that brought nothing new.
        return _TREE, (tuple(self.states), self.shown, self.list_visited())


_FIELDS = tuple([field.name for field in attrs.fields(MessageTree)])


class _Growth:
    # A tree while states are added to it.

    def __init__(self, tree: MessageTree) -> None:
        self.tree = tree
        self.states = tree.states
        self.ledger = tree._ledger
        self.next = tree._next
        # Whose `in` and `[]` type checkers don't know.
        self.places: Any = tree._places.evolver()
        self.numbers: Any = tree._numbers.evolver()
        self.copies: Any = tree._copies.evolver()
        self.named: Any = tree._named.evolver()
        self.visited = tree._visited
        self.head = tree._head
        self.newest = tree.shown
        # The nodes that were taken away; and the child that was shown last, of those
        # that lost one.
        self.gone: dict[int, _Place] = {}
        self.shown_last: dict[int, int] = {}

    def add(self, state: Aggregator, *, is_shown: bool) -> int:
        """
        Add the messages and the ledger of a state; the number of its last node. Where
        it is not *is_shown*, the child that was shown before stays so.
        """
        entries = state.entries
        count, number = self._find_known(entries)
        is_new = not len(self.states)
        is_replaced = False
        for position, entry in enumerate(entries.iterate(count), count):
            child = self._find_child(number, entry)
            if child == _NONE:
                child = self._add_place(number, entry, position, state)
                is_new = True
                self._note_child(number, is_shown=is_shown)
            elif not _has_all(self.places[child].entry, entry):
                self._replace_entry(child, entry)
                is_new = is_replaced = True

            if is_replaced:
                self.places[child] = self.places[child]._replace(state=state)

            number = child

        ledger = self.ledger.with_ledger(state.ledger, self.newest.ledger)
        if is_new or ledger is not self.ledger:
            self.states = self.states.append(state)
            self.ledger = ledger

        self.newest = state
        return number

    def _find_known(self, entries: Log[Entry]) -> tuple[int, int]:
        # How many of the first *entries* are here behind the same ones, and the number
        # of the last of these.
        compared: Log[Any] | None = None
        common = 0
        for position in range(len(entries) - 1, -1, -1):
            entry_id = entries[position].id
            if entry_id not in self.numbers:
                continue

            several = entry_id in self.copies
            for number in (
                self.copies[entry_id] if several else (self.numbers[entry_id],)
            ):
                place = self.places[number]
                if place.position != position:
                    continue

                # What has more in common with a log than *entries* has parts from
                # them where that log does: a copy of which one entry differs is
                # compared once.
                log = place.state.entries
                if compared is None or log.common_prefix(compared) <= common:
                    common, compared = log.common_prefix(entries), log

                if common > position:
                    return position + 1, number

        return 0, _ROOT

    def _find_child(self, parent: int, entry: Entry) -> int:
        numbers: tuple[int, ...] = ()
        if entry.id in self.copies:
            numbers = self.copies[entry.id]
        elif entry.id in self.numbers:
            numbers = (self.numbers[entry.id],)

        for number in numbers:
            if self.places[number].parent == parent:
                return number

        # Most names are new; one that is not may be that of a child.
        named = _read_name(entry.message)
        if named in self.named:
            for child in self.places[parent].children:
                if named == _read_name(self.places[child].entry.message):
                    return child  # type: ignore[no-any-return]  # a number

        return _NONE

    def _add_place(
        self, parent: int, entry: Entry, position: int, state: Aggregator
    ) -> int:
        number = self.next
        self.next += 1
        above = self.places[parent]
        self.places[parent] = above._replace(children=above.children.append(number))
        id = self._register_entry(number, entry)
        self.places[number] = _Place(id, entry, parent, _NO_CHILDREN, position, state)
        return number

    def _note_child(self, parent: int, *, is_shown: bool) -> None:
        if is_shown:
            self.visited = self.visited.discard(parent)
            return

        children = self.places[parent].children
        if parent not in self.visited and len(children) > 1:
            # The child that was shown is not the newest any more.
            self.visited = self.visited.set(parent, children[-2])

    def _register_entry(self, number: int, entry: Entry) -> str:
        id = entry.id
        if id in self.numbers:
            known = self.copies[id] if id in self.copies else (self.numbers[id],)
            self.copies[id] = (*known, number)
            self.numbers[f"{id}{_COPY}1"] = known[0]
            count = len(known) + 1
            while f"{entry.id}{_COPY}{count}" in self.numbers:
                count += 1

            id = f"{entry.id}{_COPY}{count}"

        self.numbers[id] = number
        if named := _read_name(entry.message):
            known = self.named[named] if named in self.named else ()  # noqa: SIM401
            self.named[named] = (*known, number)

        return id

    def _unregister_entry(self, number: int) -> None:
        place = self.places[number]
        named = _read_name(place.entry.message)
        if named in self.named:
            self.named[named] = tuple([n for n in self.named[named] if n != number])
            if not self.named[named]:
                self.named.remove(named)

        entry_id = place.entry.id
        if entry_id in self.copies:
            # There were two or more; the identity alone means one that is left.
            oldest, *rest = [each for each in self.copies[entry_id] if each != number]
            first = f"{entry_id}{_COPY}1"
            if rest:
                self.copies[entry_id] = (oldest, *rest)
                self.numbers[first] = oldest
            else:
                self.copies.remove(entry_id)
                self.numbers.remove(first)

            self.numbers[entry_id] = oldest

        # One that is left of several is found by the identity alone, too.
        for id in {place.id, entry_id}:
            if id in self.numbers and self.numbers[id] == number:
                self.numbers.remove(id)

    def _replace_entry(self, number: int, entry: Entry) -> None:
        # The newer entry of a message stands.
        self._unregister_entry(number)
        id = self._register_entry(number, entry)
        self.places[number] = self.places[number]._replace(id=id, entry=entry)

    def begin_at(self, count: int, ledger: _TreeLedger) -> None:
        """Take away all states but the first *count*, with their *ledger*."""
        self.states = self.states.take(count)
        self.ledger = ledger
        # The ledger of what was shown may not be in it.
        self.newest = _START

    def remove_end(self, number: int, ends: Any) -> int:
        """
        One moment less ends with a node: take that away, and those above that led to
        it, if no other does; the number of the first that stays.
        """
        ends[number] -= 1
        if not ends[number]:
            ends.remove(number)

        while number and number not in ends:
            place = self.places[number]
            if place.children:
                break

            self._unregister_entry(number)
            self.places.remove(number)
            self.gone[number] = place
            parent = place.parent
            above = self.places[parent]
            last = self.visited.get(parent, above.children[-1])
            self.shown_last.setdefault(parent, last)
            self.visited = self.visited.discard(parent)
            left = above.children.take(len(above.children) - 1)
            if above.children[-1] != number:
                left = Log([each for each in above.children if each != number])

            self.places[parent] = above._replace(children=left)
            if self.head == number:
                self.head = parent

            number = parent

        return number

    def has_replaced(self, numbers: Iterable[int], states: Iterable[Any]) -> bool:
        """
        Whether one of the nodes has the entry of one of *states*, which are gone, in
        the place of an older one.
        """
        there = [self.places[each].state for each in numbers if each in self.places]
        found = set(map(id, there)) & set(map(id, states))
        return bool(found) and not found.issubset(map(id, self.states))

    def restore_shown(self, ends: Mapping[int, int]) -> None:
        """
        Show last what was before nodes were taken away, or what took its place.
        *ends*: the nodes that moments ended with, and those they end with now.
        """
        became: dict[int, int] = {}
        for before, now in ends.items():
            old, new = before, now
            while old in self.gone and old not in became:
                place = self.gone[old]
                while self.places[new].position > place.position:
                    new = self.places[new].parent

                became[old] = new
                old = place.parent

        for parent, child in self.shown_last.items():
            above, shown = became.get(parent, parent), became.get(child, child)
            # What was there all the time has shown another one.
            is_new = above >= self.tree._next
            if above not in self.places or (above != parent and not is_new):
                continue

            self.visited = self.visited.discard(above)
            is_there = shown in self.places and self.places[shown].parent == above
            if is_there and shown != self.places[above].children[-1]:
                self.visited = self.visited.set(above, shown)

    def finish(self) -> MessageTree:
        tree = self.tree
        if (
            self.states is tree.states
            and self.ledger is tree._ledger
            and self.visited is tree._visited
            and not self.places.is_dirty()
        ):
            return tree

        return _make_tree(
            states=self.states,
            _places=self.places.persistent(),
            _numbers=self.numbers.persistent(),
            _copies=self.copies.persistent(),
            _named=self.named.persistent(),
            _visited=self.visited,
            _next=self.next,
            _ledger=self.ledger,
            _head=self.head,
            shown=tree.shown,
            _followed=None,
        )


def _find_moment(timeline: Timeline[Any], number: int) -> int:
    # The place among its moments of the one with *number*.
    return max(number - timeline.moments[0].number, 0)


def _check_state(state: object) -> Aggregator:
    if isinstance(state, Aggregator):
        return state

    expected = "Aggregators and Timelines of them"
    raise TypeError(
        f"a tree is made of {expected}, got {shorten_repr(state)}; "
        "Aggregator.new(messages) makes one of messages"
    )


def _make_tree(**fields: Any) -> MessageTree:
    tree: Any = object.__new__(MessageTree)
    tree.__attrs_init__(*[fields[name] for name in _FIELDS])
    return tree  # type: ignore[no-any-return]


_TREE = Maker(
    "tree.MessageTree",
    lambda states, shown, visited: MessageTree.rebuild(
        states, shown=shown, visited=visited
    ),
)
_START = Aggregator.new()
_NO_CHILDREN: Log[int] = Log()
# The root has no message.
_NO_PLACE = _Place("", Entry("", _START), _NONE, _NO_CHILDREN, -1, _START)  # type: ignore[arg-type]
_EMPTY = _make_tree(
    states=Log(),
    _places=pmap({_ROOT: _NO_PLACE}),
    _numbers=pmap(),
    _copies=pmap(),
    _named=pmap(),
    _visited=pmap(),
    _next=_ROOT + 1,
    _ledger=_TreeLedger(Log(), pmap()),
    _head=_ROOT,
    shown=_START,
    _followed=None,
)


def _count_known(items: Log[Any], places: Mapping[str, Any], known: int) -> int:
    # How many of the first *items* stand in *places* behind the same ones; no less than
    # *known*.
    compared: Log[Any] | None = None
    common = 0
    for position in reversed(range(known, len(items))):
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


add_missing_names(
    MessageTree,
    "a MessageTree has",
    {
        **dict.fromkeys(("current", "messages", "state"), "present"),
        "branches": "leaves",
    },
)
