"""
Timelines in: states that share what they were written to share.

What lives here: moments, and what each state is. What does not: the logs they
are over (`_segments_in`). `_timeline_out` tells how they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import freeze, thaw
from conversation_state.aggregator import Aggregator
from conversation_state.codec._entries_in import (
    ORIGIN,
    SAID,
    as_many,
    entry,
    read_ledger,
)
from conversation_state.codec._messages_in import strict
from conversation_state.codec._problems import At
from conversation_state.codec._reading import Read, Reader, Shape, many, one
from conversation_state.codec._segments_in import Logs, Place, Segment, place_in
from conversation_state.timeline import Moment, Timeline

__all__ = ["timelines"]

# Reads a state that says of what kind it is.
Held: TypeAlias = "Callable[[Reader, dict[str, Any], At], Any]"


# Logs


def _thread(reader: Reader, raw: Any, at: At) -> Segment | None:
    return _segment(reader, raw, at, _THREAD, "messages")


def _ledger(reader: Reader, raw: Any, at: At) -> Segment | None:
    return _segment(reader, raw, at, _LEDGER, "entries")


def _segment(
    reader: Reader, raw: Any, at: At, shape: Shape, name: str
) -> Segment | None:
    if not reader.is_object(raw, at):
        return None

    before = reader.problems.count
    given = reader.fields(raw, at, shape)
    as_many(reader, given, at)
    if given.get(name) == []:
        reader.problems.add((at, name), "is empty")

    if reader.problems.count != before:
        return None

    items = given[name]
    if name == "messages":
        items = list(map(entry, zip(given["entry_ids"], items, strict=True)))

    return Segment(given.get("after"), items)


_THREAD = strict(dict, "entry_ids", "messages", after=place_in, **SAID)
_LEDGER = strict(dict, "entries", after=place_in, entries=read_ledger)


# States


class _Held(NamedTuple):
    """
    A state that is no conversation's.
    """

    value: Any


class _Said(NamedTuple):
    """
    A state over logs.
    """

    origin: int
    thread: Place | None
    ledger: Place | None


def _state(reader: Reader, raw: Any, at: At, held: Held) -> _Held | _Said | None:
    if not reader.is_object(raw, at):
        return None

    before = reader.problems.count
    made: _Held | _Said
    if "kind" in raw:
        made = _Held(held(reader, raw, at))
    elif "json" in raw:
        made = _Held(reader.fields(raw, at, _JSON).get("json"))
    else:
        given = reader.fields(raw, at, _SAID)
        made = _Said(given.get("origin", 0), given.get("thread"), given.get("ledger"))

    return made if reader.problems.count == before else None


def _json(reader: Reader, raw: Any, at: At) -> Any:
    before = reader.problems.count
    reader.has_maps = True
    reader.check_json(raw, at)
    # A copy: nobody who changes *raw* changes the state.
    return thaw(freeze(raw, "it")) if reader.problems.count == before else None


_JSON = strict(dict, json=_json)
_SAID = strict(dict, origin=Reader.integer, thread=place_in, ledger=place_in)


class _States:
    """
    The states of a timeline, while they are made.
    """

    def __init__(self, reader: Reader, given: dict[str, Any], at: At) -> None:
        self._reader = reader
        self._at = (at, "states")
        self._states: list[_Held | _Said | None] = given.get("states") or []
        self._origins = given.get("origins", [])
        self._threads = Logs(reader, given.get("threads", []), (at, "threads"))
        self._ledgers = Logs(reader, given.get("ledgers", []), (at, "ledgers"))

    def check(self) -> None:
        """
        Add what is wrong with them.
        """
        for i, state in enumerate(self._states):
            if isinstance(state, _Said):
                self._check(state, (self._at, i))

        self._threads.check_once("entry_ids")
        self._ledgers.check_once("entries")
        self._ledgers.check_sums()

    def _check(self, state: _Said, at: At) -> None:
        for logs, place, name in (
            (self._threads, state.thread, "thread"),
            (self._ledgers, state.ledger, "ledger"),
        ):
            if place is not None:
                logs.has(place, (at, name))

        origins = self._origins
        if origins is None:
            return

        if not 0 <= state.origin < len(origins):
            what = f"there is no origin {state.origin}, but {len(origins)} of them"
            self._reader.problems.add((at, "origin"), what)
            return

        origin = origins[state.origin] or {}
        for name, field, place in (
            ("thread", "init_len", state.thread),
            ("ledger", "init_ledger_len", state.ledger),
        ):
            length = place[1] if place else 0
            least = origin.get(field) or 0
            if length < least:
                what = f"is of length {length}; its origin was forked at {least}"
                self._reader.problems.add((at, name), what)

    def made(self) -> list[Any]:
        """
        All of them. Only where nothing was wrong.
        """
        self._threads.make()
        return [
            state.value if isinstance(state, _Held) else self._aggregator(state)
            for state in self._states
        ]

    def _aggregator(self, state: Any) -> Aggregator:
        return Aggregator.rebuild_from_logs(
            **{"parent_id": None, **self._origins[state.origin]},
            entries=self._threads.log(state.thread),
            ledger=self._ledgers.log(state.ledger),
        )


_ORIGIN = strict(
    dict,
    *("id", "root_id", "init_len", "init_ledger_len"),
    **{**ORIGIN, "init_len": Reader.count, "init_ledger_len": Reader.count},
)


# Moments


_MOMENT = strict(
    dict,
    "state",
    state=Reader.integer,
    label=Reader.text,
    group=Reader.text,
    parent=Reader.integer,
)


def _check_moments(reader: Reader, given: dict[str, Any], at: At) -> list[int | None]:
    """
    The parent of each moment; adds what is wrong with them.
    """
    first, states = given.get("first", 0) or 0, given.get("states")
    parents = []
    for i, given_moment in enumerate(given.get("moments") or ()):
        where, number = ((at, "moments"), i), first + i
        moment = given_moment or {}
        state, parent = moment.get("state"), moment.get("parent", number - 1)
        if state is not None and states is not None and not 0 <= state < len(states):
            what = f"there is no state {state}, but {len(states)} of them"
            reader.problems.add((where, "state"), what)

        if moment.get("group") == "":
            reader.problems.add((where, "group"), "is empty")

        if not number:
            if "parent" in moment:
                what = "moment 0 is the first; it has none"
                reader.problems.add((where, "parent"), what)

            parent = None
        elif parent is not None and not 0 <= parent < number:
            what = f"is {parent}; moment {number} can have one from 0 to {number - 1}"
            reader.problems.add((where, "parent"), what)

        parents.append(parent)

    return parents


def _redo(reader: Reader, raw: Any, at: At) -> Any:
    return reader.array(raw, at, _step)


def _step(reader: Reader, raw: Any, at: At) -> Any:
    if raw.__class__ is not list or len(raw) != 2:  # noqa: PLR2004 - a pair
        return reader.expected("the numbers of a moment and of a child", raw, at)

    return [reader.integer(each, (at, i)) for i, each in enumerate(raw)]


def _check_steps(
    reader: Reader, given: dict[str, Any], parents: list[int | None], at: At
) -> None:
    """
    Add what is wrong with where `redo` goes.
    """
    before = reader.problems.count
    first, steps = given.get("first", 0), {}
    last = first - 1
    for i, (number, child) in enumerate(given.get("redo", [])):
        where = ((at, "redo"), i)
        if number <= last:
            what = f"moment {number} comes after {last}; expected larger ones"
            reader.problems.add(where, what)
        elif not number + 1 < child < first + len(parents):
            what = f"moment {child} can't be another child of {number}"
            reader.problems.add(where, what)
        elif parents[child - first] != number:
            what = f"moment {child} was committed on {parents[child - first]}"
            reader.problems.add(where, what)

        last = number
        steps[number] = child

    if reader.problems.count == before:
        _check_ways(reader, given, parents, steps, (at, "redo"))


def _check_ways(
    reader: Reader,
    given: dict[str, Any],
    parents: list[int | None],
    steps: dict[int, int],
    at: At,
) -> None:
    """
    Add where `redo` would go nowhere, or elsewhere than the present came from.
    """
    first = given.get("first", 0)
    newest, followed = {}, set()
    for number, parent in enumerate(parents, first):
        if parent is not None and parent >= first:
            newest[parent] = number
            if number == parent + 1:
                followed.add(parent)

    for parent in sorted(newest.keys() - followed - steps.keys()):
        what = f"tells nothing of {parent}, on which {newest[parent]} was committed"
        reader.problems.add(at, what)

    number = given["present"]
    while (parent := parents[number - first]) is not None and parent >= first:
        goes = steps.get(parent, parent + 1)
        if goes != number:
            what = f"goes from {parent} to {goes}, not to the present over {number}"
            reader.problems.add(at, what)

        number = parent


# Timelines


def timelines(held: Held) -> Read:
    """
    Reads timelines; *held* reads those of their states that say what they are.
    """
    shape = strict(
        dict,
        *("present", "moments", "states"),
        limit=Reader.count,
        first=Reader.count,
        present=Reader.count,
        redo=_redo,
        moments=many(one(_MOMENT)),
        states=many(partial(_state, held=held)),
        origins=many(one(_ORIGIN)),
        threads=many(_thread),
        ledgers=many(_ledger),
    )

    def read(reader: Reader, raw: Any, at: At) -> Timeline[Any] | None:
        if not reader.is_object(raw, at):
            return None

        before = reader.problems.count
        given = reader.fields(raw, at, shape)
        states = _States(reader, given, at)
        states.check()
        parents = _check_moments(reader, given, at)
        _check_bounds(reader, given, at)
        if reader.problems.count == before:
            _check_steps(reader, given, parents, at)

        if reader.problems.count != before:
            return None

        made, first = states.made(), given.get("first", 0)
        return Timeline.rebuild(
            moments=[
                Moment(
                    first + i,
                    made[moment["state"]],
                    moment.get("label", ""),
                    moment.get("group"),
                    parents[i],
                )
                for i, moment in enumerate(given["moments"])
            ],
            present=given["present"],
            redo=dict(given.get("redo", ())),
            limit=given.get("limit"),
        )

    return read


def _check_bounds(reader: Reader, given: dict[str, Any], at: At) -> None:
    """
    Add what there are too few moments for, or too many.
    """
    moments, limit = given.get("moments"), given.get("limit")
    if moments is None:
        return

    if limit is not None and not 0 < limit >= len(moments):
        what = f"is {limit}; expected at least the {max(len(moments), 1)} that are kept"
        reader.problems.add((at, "limit"), what)

    if not moments:
        reader.problems.add((at, "moments"), "is empty")
        return

    first, present = given.get("first", 0), given.get("present")
    if first is not None and present is not None:
        last = first + len(moments) - 1
        if not first <= present <= last:
            what = f"is {present}; there are moments {first} to {last}"
            reader.problems.add((at, "present"), what)
