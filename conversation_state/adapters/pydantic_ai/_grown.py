"""
Histories of Pydantic AI in states: what a state tells, and what it is when
there is more to tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state.adapters._export import map_of, notes_of
from conversation_state.adapters.pydantic_ai._dump import Groups, grouped
from conversation_state.adapters.pydantic_ai._load import load_after
from conversation_state.adapters.pydantic_ai._words import SOURCE
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import AssistantMessage, SystemMessage

__all__ = [
    "New",
    "Told",
    "all_told",
    "end_of",
    "grown",
    "instructed_at",
    "instructions_of",
    "told_in",
]

_FEW = 20  # messages that one of Pydantic AI's rarely has more of


class Told(NamedTuple):
    """
    One message of Pydantic AI's in a history.

    Attributes:
        id: Its entry's identity.

        parent: The identity of the one before, None if there is none.

        data: The message as plain JSON.
    """

    id: str
    parent: str | None
    data: Any


class New(NamedTuple):
    """
    One message that is to be added.
    """

    id: str
    data: Any


def all_told(entries: Log[Entry]) -> list[Told]:
    return told_in(entries, grouped(Messages(entries)))


def told_in(entries: Log[Entry], groups: Groups) -> list[Told]:
    told: list[Told] = []
    parent = None
    for start, data in zip(groups.starts, groups.data, strict=True):
        told.append(Told(entries[start].id, parent, data))
        parent = told[-1].id

    return told


def end_of(entries: Log[Entry], entry: str) -> int | None:
    """
    How many messages there are up to the end of an entry of Pydantic AI's;
    None if it is not there. O(messages after it).
    """
    backwards = enumerate(reversed(entries), start=1)
    back = next((back for back, one in backwards if one.id == entry), None)
    if back is None or "more" in _notes(entries[-back]):
        return None

    start, last = len(entries) - back, _FEW
    while True:
        messages = Messages(entries[start : start + last])
        following = grouped(messages).starts[1:]
        if following or start + last >= len(entries):
            return start + following[0] if following else len(entries)

        last *= _FEW


def _notes(entry: Entry) -> Mapping[str, Any]:
    return notes_of(entry.message.metadata, SOURCE)


def grown(
    state: Aggregator, new: Sequence[New], instructions: str | None
) -> Aggregator:
    """
    A state with *new* messages, and with what they cost, where the newest
    *instructions* were these.
    """
    if not new:
        return state

    groups = load_after([one.data for one in new], instructions)
    entries: list[Entry] = []
    for one, group in zip(new, groups, strict=True):
        for at, message in enumerate(group):
            entries.append(Entry(f"{one.id}/{at}" if at else one.id, message))

    said = Aggregator.rebuild_from_logs(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=state.init_len,
        init_ledger_len=state.init_ledger_len,
        entries=state.entries.extend(entries),
        ledger=state.ledger,
    )
    for one, (message, *_others) in zip(new, groups, strict=True):
        if isinstance(message, AssistantMessage):
            said = _paid(said, one, message)

    return said


def _paid(state: Aggregator, new: New, message: AssistantMessage) -> Aggregator:
    """
    A state with what a response cost in its ledger, once.

    A response is known by the id its provider gave it, and when: so it is paid
    once, also where a history was rewritten and it was stored again.
    """
    meta = message.response
    if meta is None or meta.usage is None:
        return state

    given = new.data.get("provider_response_id")
    own = f"{SOURCE}:{new.id}"
    key = own
    if given:
        said = [new.data.get("provider_name"), given, new.data.get("timestamp")]
        key = f"{SOURCE}:{json.dumps(said)}"

    try:
        return state.add_usage(meta.usage, key=key, model=meta.model)
    except InvalidUsageError:
        # Some servers give every response one id.
        return state.add_usage(meta.usage, key=own, model=meta.model)


def instructed_at(entries: Log[Entry], start: int = 0) -> int | None:
    """
    Where the newest instructions are said; None if they are not, or before
    *start*. O(messages since).
    """
    for back in range(1, len(entries) - start + 1):
        if instructions_of(entries[-back]) is not None:
            return len(entries) - back

    return None


def instructions_of(entry: Entry) -> str | None:
    """
    The instructions that an entry says, if it says any.
    """
    notes = _notes(entry)
    if "instructions" in notes and isinstance(entry.message, SystemMessage):
        return entry.message.text

    told = map_of(notes, "request").get("instructions")
    return told if isinstance(told, str) else None
