"""
Single messages and ledger entries, and the fields that all records of them have.

A document has an envelope with its kind. `store` keeps single messages in rows,
whose kind is known, so it writes them without one: the same JSON text as in a
document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from conversation_state._canonical import JsonPath, dump, is_loadable
from conversation_state._wording import format_count
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.codec._decode_messages import (
    read_messages,
    read_usage,
    strict_shape,
)
from conversation_state.codec._encode_messages import write_ledger_entry, write_message
from conversation_state.codec._fast import DOUBTS, Doubt
from conversation_state.codec._fast import read_usage as read_fast_usage
from conversation_state.codec._format import parse_time
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    array_reader,
    object_reader,
)
from conversation_state.messages import Message

# One at a time


def encode_message(message: Message) -> bytes:
    """
    *message* as JSON text. Deterministic; about a microsecond.

    Raises:
        TypeError:
            If it is of no class of this library.
    """
    return dump(write_message(message))


def encode_ledger_entry(entry: LedgerEntry) -> bytes:
    """
    Usage, model and time of *entry*, without its identity, as JSON text.
    Deterministic.
    """
    data = write_ledger_entry(entry)
    del data["id"]
    return dump(data)


def decode_messages(raw: Sequence[Any]) -> list[Message]:
    """
    The messages that the JSON values in *raw*, as a parser made them, represent.

    Raises:
        DecodeError:
            If one of them is invalid; each path starts with the position in
            *raw*.
    """
    return _read_all(read_messages, raw)


def decode_ledger_entries(ids: Iterable[str], raw: Sequence[Any]) -> list[LedgerEntry]:
    """
    The ledger entries with these *ids* that the JSON values in *raw*, as a
    parser made them, represent.

    Raises:
        DecodeError:
            As `decode_messages` does.
    """
    entries = _read_all(_read_without_ids, raw)
    return [LedgerEntry(id, *rest) for id, rest in zip(ids, entries, strict=True)]


def _read_all(read: Read, raw: Sequence[Any]) -> list[Any]:
    reader = CodecReader(is_parsed=True)
    values: list[Any] | None = read(reader, raw, None)
    if reader.problems.count or values is None:
        raise reader.problems.error()

    return values


_LEDGER_FIELDS: dict[str, Read] = {
    "usage": read_usage,
    "model": CodecReader.text,
    "at": CodecReader.time,
}
_read_without_ids = array_reader(
    object_reader(
        strict_shape(
            lambda usage, model="", at=None: (usage, model, at),
            "usage",
            **_LEDGER_FIELDS,
        )
    )
)


# In a document

make_entry = partial(tuple.__new__, Entry)


def _read_entry_ids(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    # One call that checks type and content of each: ASCII has no half characters.
    with suppress(TypeError):  # what `str.isascii` raises for anything but a str
        if raw.__class__ is list and all(map(str.isascii, raw)):
            return raw

    return reader.read_array(raw, path, CodecReader.text)


def check_same_length(
    reader: CodecReader, fields: dict[str, Any], path: JsonPath
) -> None:
    """
    Add a problem unless *fields* has as many identities as messages.
    """
    ids, messages = fields.get("entry_ids"), fields.get("messages")
    if ids is not None and messages is not None and len(ids) != len(messages):
        identities = format_count(len(ids), "identity", "identities")
        what = f"{identities} for {format_count(len(messages), 'message')}"
        reader.problems.add((path, "entry_ids"), what)


LEDGER_ENTRY = strict_shape(
    lambda id, usage, model="", at=None: LedgerEntry(id, usage, model, at),
    *("id", "usage"),
    id=CodecReader.text,
    **_LEDGER_FIELDS,
)


def _read_ledger_entry(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    try:
        return _read_usual_ledger_entry(reader, raw)
    except DOUBTS:
        return reader.read_object(raw, path, LEDGER_ENTRY)


def _read_usual_ledger_entry(reader: CodecReader, raw: Any) -> LedgerEntry:
    if raw.__class__ is not dict or not (reader.is_parsed or is_loadable(raw)):
        raise Doubt

    id, model, time = raw["id"], raw.get("model", ""), raw.get("at")
    at = parse_time(time) if time.__class__ is str else None
    # A default value that is written out, as in another program's JSON, makes more
    # fields than these, and is left to the slow pass.
    if not id.__class__ is model.__class__ is str or (
        len(raw) != 2 + bool(model) + (at is not None)
    ):
        raise Doubt

    return LedgerEntry(id, read_fast_usage(raw["usage"]), model, at)


read_ledger = array_reader(_read_ledger_entry)


MESSAGE_FIELDS: dict[str, Read] = {
    "entry_ids": _read_entry_ids,
    "messages": read_messages,
}

# What identifies a state, and where it was forked.
ORIGIN_FIELDS: dict[str, Read] = {
    "id": CodecReader.uuid,
    "parent_id": CodecReader.uuid,
    "root_id": CodecReader.uuid,
    "init_len": CodecReader.integer,
    "init_ledger_len": CodecReader.integer,
}
