"""
Writes timelines: each message, each ledger entry and each state once.

States of one conversation are long and differ little, so a timeline is written
as the *segments* of their logs: a segment continues a place in an earlier one, and
a state is the place where its log ends. What lives here: which segment continues
which place. What does not: how an entry is written (`_encode_messages`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from conversation_state._persistent import Log, freeze, thaw
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.codec._encode_messages import (
    Object,
    write_ledger_entry,
    write_message,
    write_origin,
)
from conversation_state.messages import Message
from conversation_state.timeline import Timeline

E = TypeVar("E", Entry, LedgerEntry)

# Writes a value as its kind and body; None if it can't be written.
WriteWithKind: TypeAlias = "Callable[[Any], Object | None]"

# The number of a segment, and a length: the first so many items of a log.
Place: TypeAlias = "tuple[int, int]"

# Equal states of these types are written once.
_ATOMS = (str, int, bool, type(None))
_PLAIN = (*_ATOMS, float, dict, list)


class _Segment(Generic[E]):
    __slots__ = ("after", "items", "start")

    def __init__(self, after: Place | None, items: list[E]) -> None:
        self.after = after
        self.start = after[1] if after else 0  # the length of the log it continues
        self.items: list[E] = items


class _LogSegmenter(Generic[E]):
    """
    Splits logs into segments: an item that several logs have in the same
    position, after the same others, is in one segment.
    """

    def __init__(self) -> None:
        self.all: list[_Segment[E]] = []
        # The segment that continues a place with an item of that identity.
        self._branches: dict[tuple[Place | None, str], int] = {}

    def place(
        self, log: Log[E], near: list[tuple[Log[E], Place | None]]
    ) -> Place | None:
        """
        The place where *log* ends; None if it is empty.

        O(items beyond the prefix that it shares with one of the logs in *near*).
        """
        position = 0
        segment: int | None = None
        for other, place in near:
            common = log.common_prefix(other)
            if common > position and place is not None:
                position, segment = common, place[0]

        if segment is not None:
            segment = self._find_segment(segment, position)

        for item in log.iterate(position):
            found = self._find_next(segment, position, item)
            if found is None:
                return self._add_items(segment, position, list(log.iterate(position)))

            position, segment = position + 1, found

        return None if segment is None else (segment, position)

    def _find_segment(self, segment: int, length: int) -> int:
        """
        Of *segment* and those it continues, the one with item number *length*.
        """
        while True:
            here = self.all[segment]
            if here.after is None or length > here.start:
                return segment

            segment = here.after[0]

    def _find_next(self, segment: int | None, position: int, item: E) -> int | None:
        """
        The segment that has *item* after the first *position* items.
        """
        # Items are compared whole: one may have been erased in some of the states, and
        # has the same identity in all of them.
        if segment is not None:
            here = self.all[segment]
            own = position - here.start
            if own < len(here.items) and here.items[own] == item:
                return segment

        found = self._branches.get((_place_at(segment, position), item.id))
        same = found is not None and self.all[found].items[0] == item
        return found if same else None

    def _add_items(self, segment: int | None, position: int, items: list[E]) -> Place:
        if segment is not None:
            here = self.all[segment]
            if position == here.start + len(here.items):
                here.items += items
                return segment, position + len(items)

        after, number = _place_at(segment, position), len(self.all)
        self._branches[after, items[0].id] = number
        self.all.append(_Segment(after, items))
        return number, position + len(items)


def _place_at(segment: int | None, position: int) -> Place | None:
    return None if segment is None else (segment, position)


class _PlacedState(NamedTuple):
    number: int
    state: Aggregator
    thread: Place | None
    ledger: Place | None


class _StateWriter:
    def __init__(self, write_with_kind: WriteWithKind) -> None:
        self.written: list[Object] = []
        self.origins: list[Object] = []
        self.threads: _LogSegmenter[Entry] = _LogSegmenter()
        self.ledgers: _LogSegmenter[LedgerEntry] = _LogSegmenter()
        self._write_with_kind = write_with_kind
        self._origins: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[Any, int] = {}
        self._placed: dict[int, _PlacedState] = {}
        self._last: _PlacedState | None = None
        # The last state of each conversation, by the conversation's root.
        self._last_of: dict[int, _PlacedState] = {}

    def number(self, state: Any, parent: Any) -> int:
        """
        The number of *state*, which was committed on *parent*.

        Raises:
            TypeError, ValueError:
                If it can't be written.
        """
        if type(state) is Aggregator:
            if id(state) not in self._placed:
                self._placed[id(state)] = self._place_at(state, parent)

            return self._placed[id(state)].number

        # By identity, so that one object is written once.
        key = (type(state), state) if type(state) in _ATOMS else id(state)
        return self._add_state(key, lambda: self._write_other(state))

    def _add_state(self, key: Any, write: Callable[[], Object]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.written)
            self.written.append(write())

        return self._numbers[key]

    def _place_at(self, state: Aggregator, parent: Any) -> _PlacedState:
        # Most states grew from their parent's; where a limit has removed the parent,
        # from the state before. Several conversations may alternate.
        root = state._origin.root
        found = (self._placed.get(id(parent)), self._last, self._last_of.get(root))
        near = {each.number: each for each in found if each is not None}.values()
        thread = self.threads.place(
            state.entries, [(each.state.entries, each.thread) for each in near]
        )
        ledger = self.ledgers.place(
            state.ledger, [(each.state.ledger, each.ledger) for each in near]
        )
        origin = self._add_origin(state)

        fields = ("origin", origin or None), ("thread", thread), ("ledger", ledger)
        data = {name: value for name, value in fields if value is not None}
        number = self._add_state((origin, thread, ledger), lambda: data)
        placed = _PlacedState(number, state, thread, ledger)
        self._last = self._last_of[root] = placed
        return placed

    def _add_origin(self, state: Aggregator) -> int:
        key = state._origin[:-1]  # without the total of the ledger
        if key not in self._origins:
            self._origins[key] = len(self.origins)
            self.origins.append(write_origin(state))

        return self._origins[key]

    def _write_other(self, state: Any) -> Object:
        if type(state) is Timeline:
            raise TypeError("a timeline can't be a state of a timeline")

        if _is_json_state(state):
            _check_types(state)
            # Freezing refuses values that JSON can't represent, and sorts keys, so that
            # equal states have equal bytes.
            return {"json": thaw(freeze(state, "it"))}

        data = self._write_with_kind(state)
        if data is None:
            raise TypeError("Codec().register(cls, kind) gives a codec that can")

        if type(state) is list:  # of messages, which would be read as a tuple
            data["list"] = True

        return data


def _is_json_state(state: Any) -> bool:
    if type(state) is list:
        return not any(isinstance(item, Message) for item in state)

    return type(state) in _PLAIN


def _check_types(state: Any) -> None:
    """
    Check that reading the JSON of *state* would return values of the same types.

    Raises:
        TypeError:
            If it holds something that JSON has no type for.
    """
    seen: set[int] = set()  # it may contain itself, which is reported later
    left = [state]
    while left:
        value = left.pop()
        if type(value) not in _PLAIN:
            raise TypeError(
                f"it holds {shorten_repr(value)}; expected a dict, list, str, int, "
                "float, bool or None"
            )

        if type(value) not in (dict, list) or id(value) in seen:
            continue

        seen.add(id(value))
        left += value.values() if type(value) is dict else value
        for key in value if type(value) is dict else ():
            if type(key) is not str:
                raise TypeError(
                    f"it has the key {shorten_repr(key)}; keys of JSON are text"
                )


def _write_after(segment: _Segment[Any]) -> Object:
    return {} if segment.after is None else {"after": segment.after}


def _write_thread(segment: _Segment[Entry]) -> Object:
    return {
        **_write_after(segment),
        "entry_ids": [entry[0] for entry in segment.items],
        "messages": [write_message(entry[1]) for entry in segment.items],
    }


def _write_ledger(segment: _Segment[LedgerEntry]) -> Object:
    return {
        **_write_after(segment),
        "entries": [write_ledger_entry(each) for each in segment.items],
    }


def write_timeline(timeline: Timeline[Any], write_with_kind: WriteWithKind) -> Object:
    """
    A timeline; *write_with_kind* writes those of its states that are neither
    aggregators nor plain JSON.

    Raises:
        TypeError:
            If a state is, or holds, what is of no type that can be written; says
            which moment's.

        ValueError:
            If a state of a type that can be written holds a value that JSON
            can't represent: NaN, half of a surrogate pair, a list that holds
            itself.
    """
    states = _StateWriter(write_with_kind)
    moments = _write_moments(timeline, states)
    data: Object = {}
    if timeline.limit is not None:
        data["limit"] = timeline.limit

    if timeline.moments[0].number:
        data["first"] = timeline.moments[0].number

    data["present"] = timeline.moment.number
    if timeline._redo_targets:
        data["redo"] = sorted(timeline._redo_targets.items())

    data |= {"moments": moments, "states": states.written}
    for name, written in (
        ("origins", states.origins),
        ("threads", [_write_thread(each) for each in states.threads.all]),
        ("ledgers", [_write_ledger(each) for each in states.ledgers.all]),
    ):
        if written:
            data[name] = written

    return data


def _write_moments(timeline: Timeline[Any], states: _StateWriter) -> list[Object]:
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
            called = f" ({shorten_repr(moment.label)})" if moment.label else ""
            msg = (
                f"can't encode moment {number}{called} of a timeline, "
                f"{shorten_repr(moment.state)}: {error}"
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
