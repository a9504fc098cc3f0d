"""
States, turns and checkpoints, and the entries they hold: how they are read and
written.

A document has an envelope with its kind. `store` keeps single messages and ledger
entries in rows, whose kind is known, so it writes them without one: the same JSON text
as in a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from conversation_state._canonical import JsonPath, dump, is_loadable
from conversation_state._persistent import Log
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import format_count
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
from conversation_state.codec._fast import (
    UNUSUAL_ERRORS,
    Object,
    UnusualValueError,
    write_time,
    write_usage,
)
from conversation_state.codec._fast import read_usage as read_fast_usage
from conversation_state.codec._format import (
    ENVELOPE,
    FORMAT,
    VERSION,
    parse_time,
    parse_uuid,
)
from conversation_state.codec._messages import read_messages, read_usage, write_message
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    object_reader,
    strict_shape,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import Message

EMPTY_LOG: Log[Any] = Log()
_make_entry = partial(tuple.__new__, Entry)


# Single messages and ledger entries


def encode_ledger_entry(entry: LedgerEntry) -> bytes:
    """
    *entry* without its identity, as JSON text. Deterministic.
    """
    data = write_ledger_entry(entry)
    del data["id"]
    return dump(data)


def decode_messages(raw: Sequence[Any]) -> list[Message]:
    """
    The messages that the JSON values in *raw*, as a parser made them, represent.

    Raises:
        DecodeError: If one of them is invalid; each path starts with the position in
            *raw*.
    """
    return _read_all(read_messages, raw)


def decode_ledger_entries(ids: Iterable[str], raw: Sequence[Any]) -> list[LedgerEntry]:
    """
    The ledger entries with these *ids* that the JSON values in *raw*, as a
    parser made them, represent.

    Raises:
        DecodeError: As `decode_messages` does.
    """
    entries = _read_all(_read_without_ids, raw)
    return [LedgerEntry(id, *rest) for id, rest in zip(ids, entries, strict=True)]


def _read_all(read: Read, raw: Sequence[Any]) -> list[Any]:
    reader = CodecReader(is_plain=True)
    values: list[Any] | None = read(reader, raw, None)
    if reader.problems.count or values is None:
        raise reader.problems.error()

    return values


_LEDGER_FIELDS: dict[str, Read] = {
    "usage": read_usage,
    "model": CodecReader.text,
    "at": CodecReader.time,
    "caveat": CodecReader.text,
}
_read_without_ids = array_reader(
    object_reader(
        strict_shape(
            lambda usage, model="", at=None, caveat="": (usage, model, at, caveat),
            "usage",
            **_LEDGER_FIELDS,
        )
    )
)


# In a document


LEDGER_ENTRY = strict_shape(
    lambda id, usage, model="", at=None, caveat="": LedgerEntry(
        id, usage, model, at, caveat
    ),
    *("id", "usage"),
    id=CodecReader.text,
    **_LEDGER_FIELDS,
)


def _read_ledger_entry(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    try:
        return _read_usual_ledger_entry(reader, raw)
    except UNUSUAL_ERRORS:
        return reader.read_object(raw, path, LEDGER_ENTRY)


def _read_usual_ledger_entry(reader: CodecReader, raw: Any) -> LedgerEntry:
    if raw.__class__ is not dict or not reader.is_plain:
        raise UnusualValueError

    id, model, time = raw["id"], raw.get("model", ""), raw.get("at")
    at = parse_time(time) if time.__class__ is str else None
    # A default value that is written out, as in another program's JSON, makes more
    # fields than these, and is left to the slow pass.
    fields = 2 + bool(model) + (at is not None)
    caveat = raw["caveat"] if len(raw) > fields else ""
    if not id.__class__ is model.__class__ is caveat.__class__ is str or (
        len(raw) != fields + bool(caveat)
    ):
        raise UnusualValueError

    return LedgerEntry(id, read_fast_usage(raw["usage"]), model, at, caveat)


def write_ledger_entry(entry: LedgerEntry) -> Object:
    data: Object = {"id": entry.id, "usage": write_usage(entry.usage)}
    if entry.model:
        data["model"] = entry.model

    if entry.at is not None:
        data["at"] = write_time(entry.at)

    if entry.caveat:
        data["caveat"] = entry.caveat

    return data


def _read_entry_ids(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    if reader.is_plain and raw.__class__ is list and {str}.issuperset(map(type, raw)):
        return raw

    return reader.read_array(raw, path, CodecReader.text)


# Identities are beside the messages and not in them, so that a message is written in
# the same way everywhere.
CONTENT_FIELDS: dict[str, Read] = {
    "entry_ids": _read_entry_ids,
    "messages": read_messages,
    "ledger": array_reader(_read_ledger_entry),
}
# What identifies a state, and where it was forked.
ORIGIN_FIELDS: dict[str, Read] = {
    "id": CodecReader.uuid,
    "parent_id": CodecReader.uuid,
    "root_id": CodecReader.uuid,
    "init_len": CodecReader.integer,
    "init_ledger_len": CodecReader.integer,
}
ORIGIN = ("id", "root_id", "init_len", "init_ledger_len")
_AGGREGATOR = strict_shape(
    Aggregator.rebuild, *(*ORIGIN, *CONTENT_FIELDS), **ORIGIN_FIELDS, **CONTENT_FIELDS
)
_TURN = strict_shape(
    Turn.rebuild,
    *("id", *CONTENT_FIELDS),
    id=CodecReader.uuid,
    parent_id=CodecReader.uuid,
    **CONTENT_FIELDS,
)


def _read_whole(reader: CodecReader, raw: Any, path: JsonPath, shape: Shape) -> Any:
    """A state or a turn, which begins with nothing."""
    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    given = {**dict.fromkeys(CONTENT_FIELDS), **reader.read_fields(raw, path, shape)}
    content = given.pop("entry_ids"), given.pop("messages"), given.pop("ledger")
    logs = make_logs(reader, given, path, (EMPTY_LOG, EMPTY_LOG), content)
    is_valid = reader.problems.count == before
    ids, _, ledger = content
    check_unique(reader, EMPTY_LOG, ids or [], (path, "entry_ids"))
    ledger_ids = [each and each.id for each in ledger or []]
    check_unique(reader, EMPTY_LOG, ledger_ids, (path, "ledger"), "id")
    if logs is None or not is_valid:
        return None

    return make_state(reader, shape.make, given, path, logs)


def make_logs(
    reader: CodecReader,
    origin: dict[str, Any],
    path: JsonPath,
    starts: tuple[Log[Any], Log[Any]],
    content: Sequence[Any],
) -> tuple[Log[Entry], Log[LedgerEntry]] | None:
    """
    The logs that begin with *starts* and go on with *content*: identities, messages
    and ledger entries, None where they are invalid. None if they make no state.
    """
    before = reader.problems.count
    ids, messages, ledger = content
    if messages is not None and ids is not None and len(ids) != len(messages):
        identities = format_count(len(ids), "identity", "identities")
        what = f"{identities} for {format_count(len(messages), 'message')}"
        reader.problems.add((path, "entry_ids"), what)

    for name, start, items in (
        ("init_len", starts[0], messages),
        ("init_ledger_len", starts[1], ledger),
    ):
        length = origin.get(name)
        if items is None or length is None:
            continue

        most = len(start) + len(items)
        if not 0 <= length <= most:
            what = f"is {length}; expected 0 to {most}, the entries there are"
            reader.problems.add((path, name), what)

    if ids is None or messages is None or ledger is None:
        return None

    if reader.problems.count != before:
        return None

    entries = list(map(_make_entry, zip(ids, messages, strict=True)))
    return starts[0].extend(entries), starts[1].extend(ledger) if ledger else starts[1]


def make_state(
    reader: CodecReader,
    make: Callable[..., Any],
    origin: dict[str, Any],
    path: JsonPath,
    logs: tuple[Log[Entry], Log[LedgerEntry]],
) -> Any:
    """What *make* makes; None, and a problem, if the ledger's total is too large."""
    origin.setdefault("parent_id", None)
    try:
        return make(**origin, entries=logs[0], ledger=logs[1])
    except InvalidUsageError as error:
        return reader.problems.add((path, "ledger"), str(error))


def check_unique(
    reader: CodecReader,
    start: Log[Any],
    ids: list[Any],
    path: JsonPath,
    field: str = "",
) -> None:
    """Add each identity in *ids* that is there before, or in *start*, as a problem."""
    # Nearly always, and in a tenth of the time of looking at each.
    if not start and len({*ids}) == len(ids):
        return

    known = start.fold(_add_position, _NO_POSITIONS, key=_add_position)
    first: dict[str, int] = {}
    for i, id in enumerate(ids):
        at = len(start) + i
        found = known.get(id, first.setdefault(id, at))
        if id is not None and found != at:
            where = ((path, i), field) if field else (path, i)
            reader.problems.add(where, f"the same as at {found}")


_NO_POSITIONS: PMap[str, int] = pmap()


def _add_position(positions: PMap[str, int], entry: Any) -> PMap[str, int]:
    return positions.set(entry[0], len(positions))


read_aggregator = partial(_read_whole, shape=_AGGREGATOR)
read_turn = partial(_read_whole, shape=_TURN)
read_checkpoint = object_reader(
    strict_shape(Checkpoint, "state", state=read_aggregator, label=CodecReader.text)
)
_USUAL_FIELDS = len(ENVELOPE) + len(_AGGREGATOR.required)
# So many messages are written to be checked, and read while they are in the
# processor's cache.
_CHUNK = 64


def read_usual_state(reader: CodecReader, data: Any, *, is_parsed: bool) -> Aggregator:
    """
    The state that a document is of, if it is written as the codec writes it; else
    what `UNUSUAL_ERRORS` are raised. Raw values that no parser made are checked.

    For a state of a few messages the general way takes half as long again.
    """
    ids, raw, entries = data["entry_ids"], data["messages"], data["ledger"]
    length, ledger_length = data["init_len"], data["init_ledger_len"]
    version, parent_id = data["version"], data.get("parent_id")
    if (
        data["kind"] != "aggregator"
        or data["format"] != FORMAT
        or version.__class__ is not int  # true equals 1
        or version != VERSION
        or not ids.__class__ is raw.__class__ is entries.__class__ is list
        or not length.__class__ is ledger_length.__class__ is int
        # There are no unknown fields, which would be problems.
        or len(data) != _USUAL_FIELDS + (parent_id is not None)
        or not {str}.issuperset(map(type, ids))
        or not (is_parsed or is_loadable({**data, "messages": None}))
    ):
        raise UnusualValueError

    messages: list[Any] = []
    for start in range(0, len(raw), _CHUNK):
        chunk = raw[start : start + _CHUNK]
        if not is_parsed and not is_loadable(chunk):
            raise UnusualValueError

        messages += read_messages(reader, chunk, None) or ()

    ledger = [_read_usual_ledger_entry(reader, entry) for entry in entries]
    if (
        reader.problems.count
        # This also finds more or fewer identities than messages.
        or len({*ids}) != len(messages)
        or len({*map(itemgetter(0), ledger)}) != len(ledger)
    ):
        raise UnusualValueError

    return Aggregator.rebuild(
        id=parse_uuid(data["id"]),
        parent_id=None if parent_id is None else parse_uuid(parent_id),
        root_id=parse_uuid(data["root_id"]),
        init_len=length,
        init_ledger_len=ledger_length,
        entries=EMPTY_LOG.extend(map(_make_entry, zip(ids, messages, strict=True))),
        ledger=EMPTY_LOG.extend(ledger),
    )


# Writing


def write_origin(state: Aggregator) -> Object:
    """The identity of a state, and where it was forked."""
    data: Object = {"id": state.id}
    if state.parent_id is not None:
        data["parent_id"] = state.parent_id

    data["root_id"] = state.root_id
    data["init_len"] = state.init_len
    data["init_ledger_len"] = state.init_ledger_len
    return data


def write_contents(
    data: Object, entries: Sequence[Entry], ledger: Sequence[LedgerEntry]
) -> Object:
    """*data* with entries and ledger entries, if there are any."""
    if entries:
        data["entry_ids"] = [entry[0] for entry in entries]
        data["messages"] = [write_message(entry[1]) for entry in entries]

    if ledger:
        data["ledger"] = [write_ledger_entry(entry) for entry in ledger]

    return data


_NOTHING: Object = {"entry_ids": [], "messages": [], "ledger": []}


def write_aggregator(state: Aggregator) -> Object:
    data = {**write_origin(state), **_NOTHING}
    return write_contents(data, state.entries, state.ledger)


def write_turn(turn: Turn) -> Object:
    parent = {} if turn.parent_id is None else {"parent_id": turn.parent_id}
    data = {"id": turn.id, **parent, **_NOTHING}
    return write_contents(data, turn.entries, turn.ledger)


def write_checkpoint(checkpoint: Checkpoint) -> Object:
    return {"label": checkpoint.label, "state": write_aggregator(checkpoint.state)}
