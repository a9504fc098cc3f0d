"""
Documents in: states, templates, and what each kind of document holds.

Messages and what is in them are in `_messages_in`, tools in `_tools_in`,
timelines in `_timeline_in`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
from conversation_state.codec._entries_in import (
    ORIGIN,
    SAID,
    as_many,
    entry,
    read_ledger,
)
from conversation_state.codec._messages_in import (
    read_message,
    read_messages,
    read_part,
    read_tool_call,
    read_usage,
    strict,
)
from conversation_state.codec._problems import At, shown
from conversation_state.codec._reading import Read, Reader, Shape, many, one
from conversation_state.codec._timeline_in import timelines
from conversation_state.codec._tools_in import DOCUMENT, TOOL_INFO
from conversation_state.codec._wire import ENVELOPE, FORMAT, SPREAD, VERSION
from conversation_state.documents import Document
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = ["READS", "read_document"]


# States


def _state(reader: Reader, raw: Any, at: At, shape: Shape) -> Any:
    """
    An aggregator or a turn.
    """
    if not reader.is_object(raw, at):
        return None

    before = reader.problems.count
    given = reader.fields(raw, at, shape)
    as_many(reader, given, at)
    ids, messages = given.pop("entry_ids", None), given.pop("messages", None)
    ledger = given.get("ledger")
    for name, items in (("init_len", messages), ("init_ledger_len", ledger)):
        length = given.get(name)
        if items is None or length is None:
            continue

        if not 0 <= length <= len(items):
            what = f"is {length}; there are {len(items)} to fork from"
            reader.problems.add((at, name), what)

    what = ""
    if reader.problems.count == before:
        pairs = zip(ids or (), messages or (), strict=True)
        given = {"parent_id": None, **given, "entries": list(map(entry, pairs))}
        try:
            return shape.make(**given)
        except InvalidUsageError as error:
            reader.problems.add((at, "ledger"), str(error))
        except ValueError as error:
            what = str(error)  # an identity more than once

    _check_once(reader, ids or [], (at, "entry_ids"))
    paid = [each and each.id for each in ledger or ()]
    _check_once(reader, paid, (at, "ledger"), "id")
    if reader.problems.count == before:
        reader.problems.add(at, what)

    return None


def _check_once(reader: Reader, ids: list[Any], at: At, field: str = "") -> None:
    """
    Add each of *ids* that was there before.
    """
    first: dict[str, int] = {}
    for i, id in enumerate(ids):
        if id is not None and first.setdefault(id, i) != i:
            where = ((at, i), field) if field else (at, i)
            reader.problems.add(where, f"the same as at {first[id]}")


def _aggregator(reader: Reader, raw: Any, at: At) -> Any:
    return _state(reader, raw, at, _AGGREGATOR)


def _turn(reader: Reader, raw: Any, at: At) -> Any:
    return _state(reader, raw, at, _TURN)


def _make_turn(
    *, entries: list[Entry], ledger: list[LedgerEntry], **given: Any
) -> Turn:
    turn = Turn.rebuild(entries=entries, ledger=ledger, **given)
    # What does not add up is found here, and not where somebody joins it.
    _ = turn.usage
    for items in (entries, ledger):
        if len({item.id for item in items}) != len(items):
            msg = "an identity is there more than once"
            raise ValueError(msg)

    return turn


_TURN = strict(
    _make_turn,
    *("id", "entry_ids", "messages", "ledger"),
    id=Reader.uuid,
    parent_id=Reader.uuid,
    **SAID,
    ledger=read_ledger,
)
_AGGREGATOR = strict(
    Aggregator.rebuild,
    *(*_TURN.required, "root_id", "init_len", "init_ledger_len"),
    **ORIGIN,
    **SAID,
    ledger=read_ledger,
)
_CHECKPOINT = strict(Checkpoint, "state", state=_aggregator, label=Reader.text)


# Templates


def _item(reader: Reader, raw: Any, at: At) -> Any:
    """
    What stands in a template: a message, or a place for others.
    """
    is_place = raw.__class__ is dict and "placeholder" in raw
    return reader.object(raw, at, _PLACEHOLDER if is_place else _ITEM)


def _make_template(items: Iterable[Any], syntax: str = "fstring") -> Template:
    return Template(*items, syntax=syntax)


_ITEM = strict(lambda message: message, "message", message=read_message)
_PLACEHOLDER = strict(
    lambda placeholder, optional=False: Placeholder(placeholder, optional),
    "placeholder",
    placeholder=Reader.text,
    optional=Reader.truth,
)
_TEMPLATE = strict(_make_template, "items", items=many(_item), syntax=Reader.text)


# Timelines


def _held(reader: Reader, raw: dict[str, Any], at: At) -> Any:
    """
    A state that is no conversation's: what a document has without an envelope.
    """
    kinds = reader.kinds or READS
    what = _wrong_kind(kinds, raw["kind"])
    if what:
        reader.problems.add((at, "kind"), what)
    elif raw["kind"] == "timeline":
        reader.problems.add((at, "kind"), "a timeline can't be a state of one")
    else:
        return _read(reader, kinds, raw, at)

    return None


# Documents


# What each kind of document holds, and how to read it.
READS: dict[str, tuple[type, Read]] = {
    "aggregator": (Aggregator, _aggregator),
    "checkpoint": (Checkpoint, one(_CHECKPOINT)),
    "document": (Document, one(DOCUMENT)),
    "message": (Message, read_message),
    "messages": (tuple, read_messages),
    "part": (Part, read_part),
    "template": (Template, one(_TEMPLATE)),
    "timeline": (Timeline, timelines(_held)),
    "tool_call": (ToolCall, read_tool_call),
    "tool_info": (ToolInfo, one(TOOL_INFO)),
    "turn": (Turn, _turn),
    "usage": (Usage, read_usage),
}


def read_document(
    data: Any, kinds: Mapping[str, tuple[type, Read]], expect: type | None
) -> tuple[Any, Reader]:
    """
    The value of a document, and the reader it was read with.

    The value is one only if the reader found no problems.
    """
    reader = Reader()
    problems = reader.problems
    if not reader.is_object(data, None):
        return None, reader

    for name, wrong in (
        ("format", _wrong_format),
        ("version", _wrong_version),
        ("kind", partial(_wrong_kind, kinds)),
    ):
        what = wrong(data[name]) if name in data else "missing"
        if what:
            problems.add((None, name), what)

    if problems.count:
        return None, reader

    kind = data["kind"]
    made, _ = kinds[kind]
    if expect and not (issubclass(made, expect) or issubclass(expect, made)):
        problems.add((None, "kind"), f"expected {expect.__name__}, got {kind!r}")
        return None, reader

    reader.kinds = kinds
    value = _read(reader, kinds, data, None)
    if expect and not problems.count and not isinstance(value, expect):
        what = f"expected {expect.__name__}, got {type(value).__name__}"
        problems.add(None, what)

    return value, reader


def _read(
    reader: Reader, kinds: Mapping[str, tuple[type, Read]], data: Any, at: At
) -> Any:
    """
    What *data* has beside its kind and its envelope, if it has one.
    """
    kind = data["kind"]
    made, read = kinds[kind]
    known = ENVELOPE if at is None else {"kind"}
    body = {name: value for name, value in data.items() if name not in known}
    if kind in SPREAD:
        value = read(reader, body, at)
    else:
        field = kind if kind in READS else "value"
        alone = strict(dict, field, **{field: read})
        value = reader.fields(body, at, alone).get(field)

    return tuple(value) if made is tuple and value is not None else value


def _wrong_format(given: Any) -> str:
    return "" if given == FORMAT else f"expected {FORMAT!r}, got {shown(given)}"


def _wrong_version(given: Any) -> str:
    if given.__class__ is not int or given < 1:
        return f"expected an integer from 1 on, got {shown(given)}"

    if given > VERSION:
        return (
            f"written by a newer version of conversation_state (format {shown(given)}, "
            f"and this one reads up to {VERSION}); upgrade it to read this"
        )

    return ""


def _wrong_kind(kinds: Mapping[str, Any], given: Any) -> str:
    if given.__class__ is str and given in kinds:
        return ""

    return f"{shown(given)} is no kind known here: {', '.join(sorted(kinds))}"
