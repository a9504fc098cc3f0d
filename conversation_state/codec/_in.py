"""
Documents in: states, templates, and what each kind of document holds.

Messages and what is in them are in `_messages_in`, tools in `_tools_in`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
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
from conversation_state.codec._tools_in import DOCUMENT, TOOL_INFO
from conversation_state.codec._wire import ENVELOPE, FORMAT, SPREAD, VERSION
from conversation_state.documents import Document
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Placeholder, Template
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = ["READS", "read_document"]


# States


_entry = partial(tuple.__new__, Entry)


def _state(reader: Reader, raw: Any, at: At, shape: Shape) -> Any:
    """
    An aggregator or a turn.
    """
    if not reader.is_object(raw, at):
        return None

    before = reader.problems.count
    given = reader.fields(raw, at, shape)
    ids, messages = given.pop("entry_ids", None), given.pop("messages", None)
    ledger = given.get("ledger")
    if ids is not None and messages is not None and len(ids) != len(messages):
        what = f"{len(ids)} identities for {len(messages)} messages"
        reader.problems.add((at, "entry_ids"), what)

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
        given = {"parent_id": None, **given, "entries": list(map(_entry, pairs))}
        try:
            return shape.make(**given)
        except InvalidUsageError as error:
            reader.problems.add((at, "ledger"), str(error))
        except ValueError as error:
            what = str(error)  # an identity more than once

    _check_once(reader, ids or [], (at, "entry_ids"))
    paid = [entry and entry.id for entry in ledger or ()]
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


def _entry_ids(reader: Reader, raw: Any, at: At) -> Any:
    with suppress(TypeError):  # what `str.isascii` says to anything but texts
        if raw.__class__ is list and all(map(str.isascii, raw)):
            return raw

    return reader.array(raw, at, Reader.text)


def _aggregator(reader: Reader, raw: Any, at: At) -> Any:
    return _state(reader, raw, at, _AGGREGATOR)


def _turn(reader: Reader, raw: Any, at: At) -> Any:
    return _state(reader, raw, at, _TURN)


def _make_ledger_entry(*, id: str, usage: Usage, model: str = "") -> LedgerEntry:
    return LedgerEntry(id, usage, model)


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


_LEDGER_ENTRY = strict(
    _make_ledger_entry,
    *("id", "usage"),
    id=Reader.text,
    usage=read_usage,
    model=Reader.text,
)
_RECORD: dict[str, Read] = {
    "id": Reader.uuid,
    "parent_id": Reader.uuid,
    "entry_ids": _entry_ids,
    "messages": read_messages,
    "ledger": many(one(_LEDGER_ENTRY)),
}
_TURN = strict(_make_turn, *("id", "entry_ids", "messages", "ledger"), **_RECORD)
_AGGREGATOR = strict(
    Aggregator.rebuild,
    *(*_TURN.required, "root_id", "init_len", "init_ledger_len"),
    **_RECORD,
    root_id=Reader.uuid,
    init_len=Reader.integer,
    init_ledger_len=Reader.integer,
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
    made, read = kinds[kind]
    if expect and not (issubclass(made, expect) or issubclass(expect, made)):
        problems.add((None, "kind"), f"expected {expect.__name__}, got {kind!r}")
        return None, reader

    body = {name: value for name, value in data.items() if name not in ENVELOPE}
    if kind in SPREAD:
        value = read(reader, body, None)
    else:
        field = kind if kind in READS else "value"
        alone = strict(dict, field, **{field: read})
        value = reader.fields(body, None, alone).get(field)

    if made is tuple and value is not None:
        value = tuple(value)

    if expect and not problems.count and not isinstance(value, expect):
        what = f"expected {expect.__name__}, got {type(value).__name__}"
        problems.add(None, what)

    return value, reader


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
