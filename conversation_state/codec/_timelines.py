"""
Timelines and message trees: how they are read and written.

What lives here: moments, where `redo` leads, and the messages of a tree, which is
written as a timeline of its states. What does not: the states (`_timeline_states`).
"""

from __future__ import annotations

from typing import Any

from conversation_state._canonical import JsonPath
from conversation_state._persistent import EMPTY_MAP, freeze_map
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.codec._fast import Object
from conversation_state.codec._reader import (
    CodecReader,
    array_reader,
    object_reader,
    strict_shape,
)
from conversation_state.codec._timeline_states import (
    StateWriter,
    WriteWithKind,
    read_states,
)
from conversation_state.timeline import Moment, Timeline
from conversation_state.tree import MessageTree

# Reading


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
    timeline = read_timeline(reader, raw, path)
    if timeline is None or reader.problems.count:
        return None

    for number, moment in enumerate(timeline.moments):
        if not isinstance(moment.state, Aggregator):
            where = ((path, "moments"), number)
            reader.problems.add(where, "its state is no state of a conversation")

    return None if reader.problems.count else MessageTree.of(timeline)


def _check_moments(
    reader: CodecReader, given: dict[str, Any], path: JsonPath
) -> list[int | None]:
    """
    The parent of each moment; adds the problems of moments, and of fields that say
    how many there are.
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
    redo=array_reader(CodecReader.count),
    moments=array_reader(object_reader(_MOMENT)),
    states=read_states,
)


# Writing


def write_timeline(timeline: Timeline[Any], write_with_kind: WriteWithKind) -> Object:
    """
    A timeline; *write_with_kind* writes those of its states that are neither
    aggregators nor plain JSON.

    Raises:
        TypeError:
            If a state is of no type that can be written; says which moment's.

        ValueError:
            If a state of a type that can be written holds a value that JSON
            can't represent: NaN, half of a surrogate pair, a list that holds
            itself.
    """
    states = StateWriter(write_with_kind)
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

    return write_timeline(timeline, write_with_kind)


def _write_moments(timeline: Timeline[Any], states: StateWriter) -> list[Object]:
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
