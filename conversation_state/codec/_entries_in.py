"""
Entries in: identities, and what was spent under them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.codec._messages_in import read_messages, read_usage, strict
from conversation_state.codec._problems import At
from conversation_state.codec._reading import Read, Reader, many, one
from conversation_state.usage import Usage

__all__ = ["LEDGER_ENTRY", "ORIGIN", "SAID", "as_many", "entry", "read_ledger"]

entry = partial(tuple.__new__, Entry)


def _entry_ids(reader: Reader, raw: Any, at: At) -> Any:
    with suppress(TypeError):  # what `str.isascii` says to anything but texts
        if raw.__class__ is list and all(map(str.isascii, raw)):
            return raw

    return reader.array(raw, at, Reader.text)


def as_many(reader: Reader, given: dict[str, Any], at: At) -> None:
    """
    See to it that there is an identity for each message that is *given*.
    """
    ids, messages = given.get("entry_ids"), given.get("messages")
    if ids is not None and messages is not None and len(ids) != len(messages):
        what = f"{len(ids)} identities for {len(messages)} messages"
        reader.problems.add((at, "entry_ids"), what)


def _make_ledger_entry(*, id: str, usage: Usage, model: str = "") -> LedgerEntry:
    return LedgerEntry(id, usage, model)


LEDGER_ENTRY = strict(
    _make_ledger_entry,
    *("id", "usage"),
    id=Reader.text,
    usage=read_usage,
    model=Reader.text,
)
read_ledger = many(one(LEDGER_ENTRY))

# What was said.
SAID: dict[str, Read] = {"entry_ids": _entry_ids, "messages": read_messages}

# Who a state is, and where it was forked.
ORIGIN: dict[str, Read] = {
    "id": Reader.uuid,
    "parent_id": Reader.uuid,
    "root_id": Reader.uuid,
    "init_len": Reader.integer,
    "init_ledger_len": Reader.integer,
}
