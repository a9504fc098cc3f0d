"""
Reads timelines, whose states share what they have in common.

What lives here: moments, and what each state is. What does not: the logs they
are over (`_decode_segments`). `_encode_timeline` says how they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from conversation_state._canonical import JsonPath
from conversation_state._persistent import freeze, thaw
from conversation_state.aggregator import Aggregator
from conversation_state.codec._decode_messages import strict_shape
from conversation_state.codec._decode_segments import (
    DecodedSegment,
    Place,
    SegmentedLogs,
    read_pair,
)
from conversation_state.codec._entries import (
    MESSAGE_FIELDS,
    ORIGIN_FIELDS,
    check_same_length,
    make_entry,
    read_ledger,
)
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    object_reader,
)
from conversation_state.timeline import Moment, Timeline

# Reads a state that has a kind.
ReadOther: TypeAlias = "Callable[[CodecReader, dict[str, Any], JsonPath], Any]"


# Logs

# The end of a log that a segment continues, or of a state's.
_read_place = partial(read_pair, what="the number of a segment and a length")


def _read_segment(
    reader: CodecReader, raw: Any, path: JsonPath, shape: Shape, name: str
) -> DecodedSegment | None:
    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    given = reader.read_fields(raw, path, shape)
    check_same_length(reader, given, path)
    if given.get(name) == []:
        reader.problems.add((path, name), "is empty")

    if reader.problems.count != before:
        return None

    items = given[name]
    if name == "messages":
        items = list(map(make_entry, zip(given["entry_ids"], items, strict=True)))

    return DecodedSegment(given.get("after"), items)


_THREAD = strict_shape(
    dict, "entry_ids", "messages", after=_read_place, **MESSAGE_FIELDS
)
_LEDGER = strict_shape(dict, "entries", after=_read_place, entries=read_ledger)


# States


class _OtherState(NamedTuple):
    value: Any


class _LogState(NamedTuple):
    origin: int
    thread: Place | None
    ledger: Place | None


def _read_timeline_state(
    reader: CodecReader, raw: Any, path: JsonPath, read_other: ReadOther
) -> _OtherState | _LogState | None:
    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    made: _OtherState | _LogState
    if "kind" in raw:
        made = _OtherState(_read_other_state(reader, raw, path, read_other))
    elif "json" in raw:
        made = _OtherState(reader.read_fields(raw, path, _JSON).get("json"))
    else:
        given = reader.read_fields(raw, path, _LOG_STATE)
        made = _LogState(
            given.get("origin", 0), given.get("thread"), given.get("ledger")
        )

    return made if reader.problems.count == before else None


def _read_other_state(
    reader: CodecReader, raw: dict[str, Any], path: JsonPath, read_other: ReadOther
) -> Any:
    """
    A state that has a kind; messages may be marked as a list.
    """
    if raw["kind"] != "messages" or "list" not in raw:
        return read_other(reader, raw, path)

    is_list = reader.boolean(raw["list"], (path, "list"))
    value = read_other(reader, {key: raw[key] for key in raw if key != "list"}, path)
    return [*value] if is_list is True and value is not None else value


def _read_json_state(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    before = reader.problems.count
    reader.has_foreign_json = True
    reader.check_json(raw, path)
    # A copy, so that the state does not change with *raw*.
    return thaw(freeze(raw, "it")) if reader.problems.count == before else None


_JSON = strict_shape(dict, json=_read_json_state)
_LOG_STATE = strict_shape(
    dict, origin=CodecReader.integer, thread=_read_place, ledger=_read_place
)


class _StateReader:
    def __init__(
        self, reader: CodecReader, given: dict[str, Any], path: JsonPath
    ) -> None:
        self._reader = reader
        self._at = (path, "states")
        self._states: list[_OtherState | _LogState | None] = given.get("states") or []
        self._origins = given.get("origins", [])
        self._threads = SegmentedLogs(
            reader, given.get("threads", []), (path, "threads")
        )
        self._ledgers = SegmentedLogs(
            reader, given.get("ledgers", []), (path, "ledgers")
        )

    def check(self) -> None:
        for i, state in enumerate(self._states):
            if isinstance(state, _LogState):
                self._check_log_state(state, (self._at, i))

        self._threads.check_unique_ids("entry_ids")
        self._ledgers.check_unique_ids("entries")
        self._ledgers.check_totals()

    def _check_log_state(self, state: _LogState, path: JsonPath) -> None:
        for logs, place, name in (
            (self._threads, state.thread, "thread"),
            (self._ledgers, state.ledger, "ledger"),
        ):
            if place is not None:
                logs.check_place(place, (path, name))

        origins = self._origins
        if origins is None:
            return

        if not 0 <= state.origin < len(origins):
            what = f"unknown origin {state.origin}; there are {len(origins)}"
            self._reader.problems.add((path, "origin"), what)
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
                self._reader.problems.add((path, name), what)

    def made(self) -> list[Any]:
        """
        All states. Valid only if there were no problems.
        """
        self._threads.build()
        return [
            state.value
            if isinstance(state, _OtherState)
            else self._make_aggregator(state)
            for state in self._states
        ]

    def _make_aggregator(self, state: Any) -> Aggregator:
        return Aggregator.rebuild_from_logs(
            **{"parent_id": None, **self._origins[state.origin]},
            entries=self._threads.log(state.thread),
            ledger=self._ledgers.log(state.ledger),
        )


_ORIGIN = strict_shape(
    dict,
    *("id", "root_id", "init_len", "init_ledger_len"),
    **{
        **ORIGIN_FIELDS,
        "init_len": CodecReader.count,
        "init_ledger_len": CodecReader.count,
    },
)


# Moments


_MOMENT = strict_shape(
    dict,
    "state",
    state=CodecReader.integer,
    label=CodecReader.text,
    group=CodecReader.text,
    parent=CodecReader.integer,
)


def _check_moments(
    reader: CodecReader, given: dict[str, Any], path: JsonPath
) -> list[int | None]:
    """
    The parent of each moment; adds the problems of moments.
    """
    # Invalid values are None here, and are problems already.
    first, states = given.get("first", 0) or 0, given.get("states")
    parents = []
    for i, given_moment in enumerate(given.get("moments") or ()):
        where, number = ((path, "moments"), i), first + i
        moment = given_moment or {}
        state, parent = moment.get("state"), moment.get("parent", number - 1)
        if state is not None and states is not None and not 0 <= state < len(states):
            what = f"unknown state {state}; there are {len(states)}"
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


def _check_redo(
    reader: CodecReader,
    given: dict[str, Any],
    parents: list[int | None],
    path: JsonPath,
) -> None:
    before = reader.problems.count
    first, steps = given.get("first", 0), {}
    last = first - 1
    for i, (number, child) in enumerate(given.get("redo", [])):
        where = ((path, "redo"), i)
        if number <= last:
            what = f"moment {number} comes after {last}; expected larger ones"
            reader.problems.add(where, what)
        # The next moment needs no entry, because `redo` leads there without one.
        elif not number + 1 < child < first + len(parents):
            what = f"moment {child} can't be another child of {number}"
            reader.problems.add(where, what)
        elif parents[child - first] != number:
            what = f"moment {child} was committed on {parents[child - first]}"
            reader.problems.add(where, what)

        last = number
        steps[number] = child

    if reader.problems.count == before:
        _check_redo_paths(reader, given, parents, steps, (path, "redo"))


def _check_redo_paths(
    reader: CodecReader,
    given: dict[str, Any],
    parents: list[int | None],
    steps: dict[int, int],
    path: JsonPath,
) -> None:
    """
    Add each moment whose `redo` has no target, or leads away from the present.
    """
    first = given.get("first", 0)
    newest, followed = {}, set()
    for number, parent in enumerate(parents, first):
        if parent is not None and parent >= first:
            newest[parent] = number
            if number == parent + 1:
                followed.add(parent)

    for parent in sorted(newest.keys() - followed - steps.keys()):
        what = f"has no entry for {parent}, on which {newest[parent]} was committed"
        reader.problems.add(path, what)

    number = given["present"]
    while (parent := parents[number - first]) is not None and parent >= first:
        goes = steps.get(parent, parent + 1)
        if goes != number:
            what = f"goes from {parent} to {goes}, not to the present over {number}"
            reader.problems.add(path, what)

        number = parent


# Timelines


def timeline_reader(read_other: ReadOther) -> Read:
    """
    Reads timelines; *read_other* reads those of their states that have a kind.
    """
    shape = strict_shape(
        dict,
        *("present", "moments", "states"),
        limit=CodecReader.count,
        first=CodecReader.count,
        present=CodecReader.count,
        redo=array_reader(
            partial(read_pair, what="the numbers of a moment and of a child")
        ),
        moments=array_reader(object_reader(_MOMENT)),
        states=array_reader(partial(_read_timeline_state, read_other=read_other)),
        origins=array_reader(object_reader(_ORIGIN)),
        threads=array_reader(partial(_read_segment, shape=_THREAD, name="messages")),
        ledgers=array_reader(partial(_read_segment, shape=_LEDGER, name="entries")),
    )

    def read(reader: CodecReader, raw: Any, path: JsonPath) -> Timeline[Any] | None:
        if not reader.is_object(raw, path):
            return None

        before = reader.problems.count
        given = reader.read_fields(raw, path, shape)
        states = _StateReader(reader, given, path)
        states.check()
        parents = _check_moments(reader, given, path)
        _check_bounds(reader, given, path)
        if reader.problems.count == before:
            _check_redo(reader, given, parents, path)

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


def _check_bounds(reader: CodecReader, given: dict[str, Any], path: JsonPath) -> None:
    moments, limit = given.get("moments"), given.get("limit")
    if moments is None:
        return

    # There may be more moments than *limit*: a commit forgets no moment that the
    # present still needs.
    if limit is not None and limit < 1:
        reader.problems.add((path, "limit"), f"is {limit}; expected at least 1")

    if not moments:
        reader.problems.add((path, "moments"), "is empty")
        return

    first, present = given.get("first", 0), given.get("present")
    if first is not None and present is not None:
        last = first + len(moments) - 1
        if not first <= present <= last:
            what = f"is {present}; there are moments {first} to {last}"
            reader.problems.add((path, "present"), what)
