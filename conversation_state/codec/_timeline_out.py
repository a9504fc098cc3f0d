"""
Timelines out: each message, each ledger entry and each state once.

States of one conversation are long and differ little, so a timeline is written
as the *segments* their logs are made of: a segment goes on from a place in one
before it, and a state is the place where its log ends. What lives here: who
goes on from where. What does not: how an entry is written (`_messages_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from conversation_state._persistent import Log, freeze, thaw
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.codec._messages_out import (
    Object,
    ledger_out,
    message_out,
    origin_out,
)
from conversation_state.messages import Message
from conversation_state.timeline import Timeline

__all__ = ["timeline_out"]

E = TypeVar("E", Entry, LedgerEntry)

# Gives a value as its kind and what that has; None if nobody can write it.
WithKind: TypeAlias = "Callable[[Any], Object | None]"

# The number of a segment, and a length: all it goes on from, and so much of it.
Place: TypeAlias = "tuple[int, int]"

# Of the texts, numbers and truths that are states, equal ones are one.
_ATOMS = (str, int, bool, type(None))
_PLAIN = (*_ATOMS, float, dict, list)


class _Segment(Generic[E]):
    __slots__ = ("after", "items", "start")

    after: Place | None
    # The length of what it goes on from.
    start: int
    items: list[E]

    def __init__(self, after: Place | None, items: list[E]) -> None:
        self.after = after
        self.start = after[1] if after else 0
        self.items = items


class _Segments(Generic[E]):
    """
    Logs, while they are taken apart: an item that several have in the same
    place, after the same others, is in one segment.
    """

    def __init__(self) -> None:
        self.all: list[_Segment[E]] = []
        # The segment that goes on from a place with the item of an identity.
        self._parting: dict[tuple[Place | None, str], int] = {}

    def place(
        self, log: Log[E], near: list[tuple[Log[E], Place | None]]
    ) -> Place | None:
        """
        Where *log* ends; None if it is empty.

        O(what it has beyond the logs it is *near*).
        """
        at = 0
        segment: int | None = None
        for other, place in near:
            common = log.common_prefix(other)
            if common > at and place is not None:
                at, segment = common, place[0]

        if segment is not None:
            segment = self._reaching(segment, at)

        for item in log.iterate(at):
            found = self._further(segment, at, item)
            if found is None:
                return self._add(segment, at, list(log.iterate(at)))

            at, segment = at + 1, found

        return None if segment is None else (segment, at)

    def _reaching(self, segment: int, length: int) -> int:
        """
        Of *segment* and those it goes on from, the one item *length* is in.
        """
        while True:
            here = self.all[segment]
            if here.after is None or length > here.start:
                return segment

            segment = here.after[0]

    def _further(self, segment: int | None, at: int, item: E) -> int | None:
        """
        The segment that has *item* after the first *at* items.
        """
        if segment is not None:
            here = self.all[segment]
            own = at - here.start
            if own < len(here.items) and here.items[own] == item:
                return segment

        found = self._parting.get((_place(segment, at), item.id))
        same = found is not None and self.all[found].items[0] == item
        return found if same else None

    def _add(self, segment: int | None, at: int, items: list[E]) -> Place:
        if segment is not None:
            here = self.all[segment]
            if at == here.start + len(here.items):
                here.items += items
                return segment, at + len(items)

        after, number = _place(segment, at), len(self.all)
        self._parting[after, items[0].id] = number
        self.all.append(_Segment(after, items))
        return number, at + len(items)


def _place(segment: int | None, at: int) -> Place | None:
    return None if segment is None else (segment, at)


class _Placed(NamedTuple):
    """
    A state that was taken apart.
    """

    number: int
    state: Aggregator
    thread: Place | None
    ledger: Place | None


class _States:
    """
    The states of a timeline, while they are written.
    """

    def __init__(self, with_kind: WithKind) -> None:
        self.written: list[Object] = []
        self.origins: list[Object] = []
        self.threads: _Segments[Entry] = _Segments()
        self.ledgers: _Segments[LedgerEntry] = _Segments()
        self._with_kind = with_kind
        self._origins: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[Any, int] = {}
        self._placed: dict[int, _Placed] = {}
        self._last: _Placed | None = None
        # Of each conversation, by its root.
        self._last_of: dict[int, _Placed] = {}

    def number(self, state: Any, parent: Any) -> int:
        """
        The number of *state*, which was committed on *parent*.

        Raises:
            TypeError, ValueError:
                If it can't be written.
        """
        if type(state) is Aggregator:
            if id(state) not in self._placed:
                self._placed[id(state)] = self._place(state, parent)

            return self._placed[id(state)].number

        # By identity: what was kept once is written once.
        key = (type(state), state) if type(state) in _ATOMS else id(state)
        return self._number(key, lambda: self._held(state))

    def _number(self, key: Any, write: Callable[[], Object]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.written)
            self.written.append(write())

        return self._numbers[key]

    def _place(self, state: Aggregator, parent: Any) -> _Placed:
        # What follows a moment grew from its state, most of the time; and what
        # has lost that to a limit, from what the one before it grew from.
        # Several conversations may take turns.
        root = state._origin.root
        found = (self._placed.get(id(parent)), self._last, self._last_of.get(root))
        near = {each.number: each for each in found if each is not None}.values()
        thread = self.threads.place(
            state.entries, [(each.state.entries, each.thread) for each in near]
        )
        ledger = self.ledgers.place(
            state.ledger, [(each.state.ledger, each.ledger) for each in near]
        )
        origin = self._origin(state)

        def written() -> Object:
            data: Object = {}
            if origin:
                data["origin"] = origin

            if thread is not None:
                data["thread"] = thread

            if ledger is not None:
                data["ledger"] = ledger

            return data

        number = self._number((origin, thread, ledger), written)
        placed = _Placed(number, state, thread, ledger)
        self._last = self._last_of[root] = placed
        return placed

    def _origin(self, state: Aggregator) -> int:
        key = state._origin[:-1]  # all but a sum of what is in the ledger
        if key not in self._origins:
            self._origins[key] = len(self.origins)
            self.origins.append(origin_out(state))

        return self._origins[key]

    def _held(self, state: Any) -> Object:
        """
        A state that is no conversation's.
        """
        if type(state) is Timeline:
            msg = "a timeline can't be a state of one"
            raise TypeError(msg)

        if _is_plain(state):
            plain = thaw(freeze(state, "it"))
            if _is_json(state):
                return {"json": plain}

            msg = "it holds what is no dict, list, str, int, float, bool or None"
            raise TypeError(msg)

        data = self._with_kind(state)
        if data is None:
            msg = "Codec().register(cls, kind) gives a codec that can"
            raise TypeError(msg)

        return data


def _is_plain(state: Any) -> bool:
    if type(state) is list:
        return not any(isinstance(item, Message) for item in state)

    return type(state) in _PLAIN


def _is_json(value: Any) -> bool:
    """
    Whether *value*, which can be frozen, is read from JSON as it is.
    """
    if type(value) is dict:
        return all(type(key) is str and _is_json(value[key]) for key in value)

    if type(value) is list:
        return all(map(_is_json, value))

    return type(value) in _PLAIN


def _after(segment: _Segment[Any]) -> Object:
    return {} if segment.after is None else {"after": segment.after}


def _thread_out(segment: _Segment[Entry]) -> Object:
    return {
        **_after(segment),
        "entry_ids": [entry[0] for entry in segment.items],
        "messages": [message_out(entry[1]) for entry in segment.items],
    }


def _ledger_out(segment: _Segment[LedgerEntry]) -> Object:
    return {**_after(segment), "entries": [ledger_out(each) for each in segment.items]}


def timeline_out(timeline: Timeline[Any], with_kind: WithKind) -> Object:
    """
    A timeline; *with_kind* writes those of its states that are no
    conversation's and no plain JSON.

    Raises:
        TypeError:
            If a state is of no kind that can be written; says which.

        ValueError:
            If a state holds what JSON has no word for.
    """
    states = _States(with_kind)
    moments = _moments_out(timeline, states)
    data: Object = {}
    if timeline.limit is not None:
        data["limit"] = timeline.limit

    if timeline.moments[0].number:
        data["first"] = timeline.moments[0].number

    data["present"] = timeline.moment.number
    if timeline._chosen:
        data["redo"] = sorted(timeline._chosen.items())

    data |= {"moments": moments, "states": states.written}
    for name, written in (
        ("origins", states.origins),
        ("threads", [_thread_out(each) for each in states.threads.all]),
        ("ledgers", [_ledger_out(each) for each in states.ledgers.all]),
    ):
        if written:
            data[name] = written

    return data


def _moments_out(timeline: Timeline[Any], states: _States) -> list[Object]:
    kept, written = timeline.moments, []
    first = kept[0].number
    for moment in kept:
        number, parent = moment.number, moment.parent
        before = None
        if parent is not None and parent >= first:
            before = kept[parent - first].state

        try:
            data: Object = {"state": states.number(moment.state, before)}
        except (TypeError, ValueError) as error:
            called = f" ({moment.label!r:.60})" if moment.label else ""
            msg = (
                f"can't encode moment {number}{called} of a timeline, "
                f"{moment.state!r:.80}: {error}"
            )
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(msg) from error

        if moment.label:
            data["label"] = moment.label

        if moment.group is not None:
            data["group"] = moment.group

        if number and parent != number - 1:
            data["parent"] = parent

        written.append(data)

    return written
