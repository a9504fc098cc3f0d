"""
Timelines and message trees: moments, where `redo` leads, and their states.

Each state is written once, as what it adds to earlier ones: states of one conversation
are long and differ little. A *place* is the number of an earlier state and a length:
the first so many entries of it. Reading is linear in what is written, whatever
continues what, and nothing is recursive: each of a million states may continue the one
before. A tree is written as a timeline of its states.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

from conversation_state._canonical import JsonPath
from conversation_state._persistent import EMPTY_MAP, Log, freeze, freeze_map, thaw
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.codec._fast import Object
from conversation_state.codec._reader import (
    CodecReader,
    array_reader,
    object_reader,
    strict_shape,
)
from conversation_state.codec._states import (
    CONTENT_FIELDS,
    EMPTY_LOG,
    ORIGIN,
    ORIGIN_FIELDS,
    check_unique,
    make_logs,
    make_state,
    write_contents,
    write_origin,
)
from conversation_state.messages import Message
from conversation_state.timeline import Moment, Timeline
from conversation_state.tree import MessageTree

# Writes a value as its kind and body; None if it can't be written.
WriteWithKind: TypeAlias = "Callable[[Any], Object | None]"


# Reading states


def _read_states(reader: CodecReader, raw: Any, path: JsonPath) -> list[Any] | None:
    if not reader.is_array(raw, path):
        return None

    states = _StatesReader(reader)
    for i, each in enumerate(raw):
        states.read(each, (path, i))

    # An identity may be in several logs, where branches were joined, but not twice in
    # one. Nearly always all differ, whichever state continues which.
    for added in states.added.values():
        ids = [each for _, some, _, _ in added for each in some]
        if len({*ids}) < len(ids):
            for start, some, where, field in added:
                check_unique(reader, start, some, where, field)

    return states.made


class _StatesReader:
    """Reads the states of a timeline, each of which may continue earlier ones."""

    def __init__(self, reader: CodecReader) -> None:
        self.made: list[Any] = []
        # What `check_unique` takes, for each log of each state.
        self.added: dict[str, list[tuple[Log[Any], list[str], JsonPath, str]]] = {
            name: [] for name in _STARTS
        }
        self._reader = reader
        # The id and the fork point of each state, by its number.
        self._origins: dict[int | None, dict[str, Any]] = {}

    def read(self, raw: Any, path: JsonPath) -> None:
        reader, before = self._reader, self._reader.problems.count
        state = None
        if not reader.is_object(raw, path):
            pass
        elif "kind" in raw:
            state = _read_other_state(reader, raw, path)
        elif "json" in raw:
            state = reader.read_fields(raw, path, _JSON).get("json")
        else:
            state = self._read_conversation(raw, path)

        self.made.append(state if reader.problems.count == before else None)

    def _read_conversation(
        self, raw: dict[str, Any], path: JsonPath
    ) -> Aggregator | None:
        reader, before = self._reader, self._reader.problems.count
        number, past = len(self.made), None
        is_first = "id" in raw or not number
        shape = _FIRST_STATE if is_first else _LATER_STATE
        given = origin = reader.read_fields(raw, path, shape)
        if not is_first:
            continued = given.pop("origin", number - 1)
            past = self._find_earlier(continued, (path, "origin"))
            origin = self._origins.get(continued, {})

        starts = []
        for name, get_log in _STARTS.items():
            log = EMPTY_LOG if past is None else get_log(past)
            if name in given:
                log = self._find_start(given.pop(name), (path, name), get_log)

            starts.append(log)

        whole, bill = starts
        content = ids, _, entries = [given.pop(name, []) for name in CONTENT_FIELDS]
        logs = make_logs(reader, origin, path, (whole, bill), content)
        if logs is None or reader.problems.count != before or "id" not in origin:
            return None

        self._origins[number] = origin
        self.added["after"].append((whole, ids, (path, "entry_ids"), ""))
        if entries:
            bill_ids = [entry.id for entry in entries]
            self.added["ledger_after"].append((bill, bill_ids, (path, "ledger"), "id"))

        made: Aggregator | None = make_state(
            reader, Aggregator.rebuild, origin, path, logs
        )
        return made

    def _find_start(
        self,
        place: list[int | None] | None,
        path: JsonPath,
        get_log: Callable[[Aggregator], Log[Any]],
    ) -> Log[Any]:
        number, length = place or (None, None)
        state = self._find_earlier(number, (path, 0))
        if state is None or length is None:
            return EMPTY_LOG

        log = get_log(state)
        if not 0 <= length <= len(log):
            what = f"is {length}; state {number} has {len(log)}"
            self._reader.problems.add((path, 1), what)

        return log.take(length)

    def _find_earlier(self, number: int | None, path: JsonPath) -> Aggregator | None:
        """
        The state with that number; None if it is invalid, and a problem if it can't be.
        """
        if number is None:
            return None

        made = self.made
        if not 0 <= number < len(made):
            there = (
                f"those before it are 0 to {len(made) - 1}" if made else "it is first"
            )
            self._reader.problems.add(path, f"unknown state {number}; {there}")
            return None

        state = made[number]
        if state is None or isinstance(state, Aggregator):
            return state

        what = f"state {number} is no state of a conversation"
        self._reader.problems.add(path, what)
        return None


def _read_place(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if raw.__class__ is not list or len(raw) != 2:  # noqa: PLR2004 - a pair
        return reader.add_mismatch("the number of a state and a length", raw, path)

    return reader.read_array(raw, path, CodecReader.integer)


def _read_other_state(reader: CodecReader, raw: dict[str, Any], path: JsonPath) -> Any:
    """A state that has a kind; messages may be marked as a list."""
    if raw["kind"] == "timeline":
        what = "a timeline can't be a state of a timeline"
        return reader.problems.add((path, "kind"), what)

    if raw["kind"] != "messages" or "list" not in raw:
        return reader.read_body(raw, path)

    is_list = reader.boolean(raw["list"], (path, "list"))
    value = reader.read_body({key: raw[key] for key in raw if key != "list"}, path)
    return [*value] if is_list is True and value is not None else value


def _read_json_state(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    before = reader.problems.count
    reader.has_foreign_json = True
    reader.check_json(raw, path)
    # A copy, so that the state does not change with *raw*.
    return thaw(freeze(raw, "it")) if reader.problems.count == before else None


_JSON = strict_shape(dict, json=_read_json_state)
# What a state continues, and the log of the earlier state that is meant.
_STARTS: dict[str, Callable[[Aggregator], Log[Any]]] = {
    "after": attrgetter("entries"),
    "ledger_after": attrgetter("ledger"),
}
_STATE_FIELDS = {**CONTENT_FIELDS, **dict.fromkeys(_STARTS, _read_place)}
_FIRST_STATE = strict_shape(dict, *ORIGIN, **ORIGIN_FIELDS, **_STATE_FIELDS)
_LATER_STATE = strict_shape(dict, origin=CodecReader.integer, **_STATE_FIELDS)


# Reading timelines


def read_timeline(
    reader: CodecReader, raw: Any, path: JsonPath
) -> Timeline[Any] | None:
    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    given = reader.read_fields(raw, path, _TIMELINE)
    parents = _check_moments(reader, given, path)
    if reader.problems.count != before:
        return None

    redo = _read_redo(reader, given, parents, (path, "redo"))
    if reader.problems.count != before:
        return None

    first, states = given.get("first", 0), given["states"]
    moments = [
        Moment(
            first + i,
            states[moment["state"]],
            moment.get("label", ""),
            moment.get("group"),
            parents[i],
            moment.get("note", EMPTY_MAP),
        )
        for i, moment in enumerate(given["moments"])
    ]
    timeline = Timeline.rebuild(
        moments=moments, present=first, redo=redo, limit=given.get("limit")
    )
    # So that `redo` leads back to the present, whatever was written.
    return timeline.goto(given["present"])


def read_message_tree(
    reader: CodecReader, raw: Any, path: JsonPath
) -> MessageTree | None:
    flips: list[int] = []
    if isinstance(raw, dict) and "visited" in raw:
        raw = {**raw}
        flips = _COUNTS(reader, raw.pop("visited"), (path, "visited")) or []
        if len(flips) % 2:
            reader.problems.add((path, "visited"), "an odd number; expected pairs")

    timeline = read_timeline(reader, raw, path)
    if timeline is None or reader.problems.count:
        return None

    for number, moment in enumerate(timeline.moments):
        if not isinstance(moment.state, Aggregator):
            where = ((path, "moments"), number)
            reader.problems.add(where, "its state is no state of a conversation")

    if reader.problems.count:
        return None

    states = [moment.state for moment in timeline.moments]
    visited = zip(flips[::2], flips[1::2], strict=True)
    return MessageTree.rebuild(states, shown=timeline.present, visited=visited)


def _check_moments(
    reader: CodecReader, given: dict[str, Any], path: JsonPath
) -> list[int | None]:
    """The parent of each moment; adds problems of moments, and of their number."""
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

    # There may be more moments than *limit*: a commit forgets no moment that the
    # present still needs.
    if given.get("limit") == 0:
        reader.problems.add((path, "limit"), "is 0; expected at least 1")

    present, last = given.get("present"), first + len(parents) - 1
    if given.get("moments") == []:
        reader.problems.add((path, "moments"), "is empty")
    elif parents and present is not None and not first <= present <= last:
        what = f"is {present}; there are moments {first} to {last}"
        reader.problems.add((path, "present"), what)

    return parents


def _read_redo(
    reader: CodecReader,
    given: dict[str, Any],
    parents: list[int | None],
    path: JsonPath,
) -> dict[int, int]:
    """
    Where `redo` goes from each moment that the next one was not committed on: to the
    child that is given, or else to the first.
    """
    first = given.get("first", 0)
    kept = {
        number: parent
        for number, parent in enumerate(parents, first)
        if parent is not None and parent >= first
    }
    targets = {}
    for i, child in enumerate(given.get("redo", ())):
        if child not in kept:
            what = f"moment {child} was committed on no moment that is kept"
            reader.problems.add((path, i), what)
        else:
            targets[kept[child]] = child

    for number, parent in kept.items():
        if kept.get(parent + 1) != parent:
            targets.setdefault(parent, number)

    return {parent: child for parent, child in targets.items() if child != parent + 1}


def _read_note(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    before = reader.problems.count
    if reader.json_map(raw, path) is not None:
        reader.check_json(raw, path)

    return freeze_map(raw, "it") if reader.problems.count == before else None


_COUNTS = array_reader(CodecReader.count)
_MOMENT = strict_shape(
    dict,
    "state",
    state=CodecReader.integer,
    label=CodecReader.text,
    group=CodecReader.text,
    parent=CodecReader.integer,
    note=_read_note,
)
_TIMELINE = strict_shape(
    dict,
    *("present", "moments", "states"),
    limit=CodecReader.count,
    first=CodecReader.count,
    present=CodecReader.count,
    redo=_COUNTS,
    moments=array_reader(object_reader(_MOMENT)),
    states=_read_states,
)


# Writing states

# The number of a state, and one of its logs.
_Numbered: TypeAlias = "tuple[int, Log[Any]]"

# Equal states of these types are written once.
_ATOMS = (str, int, bool, type(None))
_PLAIN = (*_ATOMS, float, dict, list)


class _StateWriter:
    """Writes each state once, as what it adds to earlier ones."""

    def __init__(self, write_with_kind: WriteWithKind) -> None:
        self.written: list[Object] = []
        self._write_with_kind = write_with_kind
        # By the identity of the object, and by what is equal.
        self._numbers: dict[Any, int] = {}
        # The newest state of each id and fork point, with its number.
        self._newest: dict[tuple[Any, ...], tuple[int, Aggregator]] = {}
        # The state that wrote each entry last, and each ledger entry, by identity.
        self._writers: dict[str, dict[str, _Numbered]] = {name: {} for name in _STARTS}

    def number(self, state: Any, parent: Any) -> int:
        """
        The number of *state*, which was committed on *parent*.

        Raises:
            TypeError, ValueError: If it can't be written.
        """
        known = self._numbers.get(id(state))
        if known is not None:
            return known

        key: Any = state if type(state) is Aggregator else id(state)
        key = (type(state), state) if type(state) in _ATOMS else key
        number = self._numbers.setdefault(key, len(self.written))
        if number == len(self.written):
            self.written.append(
                self._write_conversation(number, state, parent)
                if type(state) is Aggregator
                else self._write_other(state)
            )

        self._numbers[id(state)] = number
        return number

    def _write_conversation(
        self, number: int, state: Aggregator, parent: Any
    ) -> Object:
        origin = state._origin[:-1]  # without the total of the ledger
        past, like = self._newest.get(origin, (number, None))
        self._newest[origin] = number, state
        data: Object = {}
        if like is None:
            data = write_origin(state)
        elif past != number - 1:
            data["origin"] = past

        # Most states grew from their parent's; where a limit has removed the parent,
        # from the newest of that conversation.
        near, near_state = past, like
        if type(parent) is Aggregator:
            near, near_state = self._numbers[id(parent)], parent

        added = []
        for name, writers in self._writers.items():
            get_log = _STARTS[name]
            log = get_log(state)
            known = EMPTY_LOG if near_state is None else get_log(near_state)
            start, items = _split_log(log, (near, known), writers)
            length = len(log) - len(items)
            usual = 0 if like is None else len(get_log(like))
            if length != usual or (length and start != past):
                data[name] = start, length

            added.append(items)
            for item in items:
                writers[item.id] = number, log

        return write_contents(data, *added)

    def _write_other(self, state: Any) -> Object:
        if type(state) is Timeline:
            raise TypeError("a timeline can't be a state of a timeline")

        if _is_json_state(state):
            # Freezing refuses values that JSON can't represent, and sorts keys, so that
            # equal states have equal bytes.
            written = thaw(freeze(state, "it"))
            _check_types(state)
            return {"json": written}

        data = self._write_with_kind(state)
        if data is None:
            raise TypeError("Codec().register(cls, kind) gives a codec that can")

        if type(state) is list:  # of messages, which would be read as a tuple
            data["list"] = True

        return data


def _split_log(
    log: Log[Any], near: _Numbered, writers: dict[str, _Numbered]
) -> tuple[int, list[Any]]:
    """
    The state whose log has most in common with *log*, of *near* and of what wrote the
    last item that is known; and the items of *log* beyond that. O(those).

    Items are compared whole: one may have been erased in some of the states, and has
    the same identity in all of them.
    """
    start, other = near
    if log is other:
        return start, []

    common = log.common_prefix(other)
    items = list(log.iterate(common))
    for item in reversed(items):
        if item.id in writers:
            further, other = writers[item.id]
            more = log.common_prefix(other) - common
            return (further, items[more:]) if more > 0 else (start, items)

    return start, items


def _is_json_state(state: Any) -> bool:
    if type(state) is list:
        return not any(isinstance(item, Message) for item in state)

    return type(state) in _PLAIN


def _check_types(value: Any) -> None:
    """
    Check that reading the JSON of *value*, which can be frozen, would return values of
    the same types.

    Raises:
        TypeError: If it holds something that JSON has no type for.
    """
    if type(value) not in _PLAIN:
        raise TypeError(
            f"it holds {shorten_repr(value)}; expected a dict, list, str, int, "
            "float, bool or None"
        )

    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                shown = shorten_repr(key)
                raise TypeError(f"it has the key {shown}; keys of JSON are text")

    if type(value) in (dict, list):
        for item in value.values() if type(value) is dict else value:
            _check_types(item)


# Writing timelines


def write_timeline(timeline: Timeline[Any], write_with_kind: WriteWithKind) -> Object:
    """
    A timeline; *write_with_kind* writes those of its states that are neither
    aggregators nor plain JSON.

    Raises:
        TypeError: If a state is of no type that can be written; says which moment's.
        ValueError: If a state of a type that can be written holds a value that JSON
            can't represent: NaN, half of a surrogate pair, a list that holds itself.
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
        data["redo"] = sorted(timeline._redo_targets.values())

    return {**data, "moments": moments, "states": states.written}


def write_message_tree(tree: MessageTree, write_with_kind: WriteWithKind) -> Object:
    """Its states as a timeline, the one that is shown as the present and the last."""
    first, *others = tree.states
    timeline = Timeline.begin(first)
    for state in others:
        timeline = timeline.commit(state)

    # A state equal to the present one needs no moment of its own.
    if tree.shown != timeline.present:
        timeline = timeline.commit(tree.shown)

    data = write_timeline(timeline, write_with_kind)
    visited = [rank for pair in tree.list_visited() for rank in pair]
    return {**data, "visited": visited} if visited else data


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

        if moment.note:
            data["note"] = moment.note

        written.append(data)

    return written
