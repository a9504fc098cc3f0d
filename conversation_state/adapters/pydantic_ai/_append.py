"""
Histories of Pydantic AI in states: reading a state's history, and appending to
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state.adapters._host import bill_entries
from conversation_state.adapters._notes import map_of, notes_of
from conversation_state.adapters.pydantic_ai._dump import MessageGroups, group_messages
from conversation_state.adapters.pydantic_ai._load import load_after
from conversation_state.adapters.pydantic_ai._notes import SOURCE
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.messages import SystemMessage

_FEW = 20  # one message of Pydantic AI rarely becomes more messages of ours


class HistoryEntry(NamedTuple):
    """
    One message of Pydantic AI's in a history: the identities of its entry and of the
    previous one, and the message as plain JSON.
    """

    id: str
    parent: str | None
    data: Any


def read_history(entries: Log[Entry]) -> list[HistoryEntry]:
    return entries_of_groups(entries, group_messages(Messages(entries)))


def entries_of_groups(entries: Log[Entry], groups: MessageGroups) -> list[HistoryEntry]:
    ids = [entries[start].id for start in groups.starts]
    return list(map(HistoryEntry, ids, [None, *ids], groups.data))


def find_end(entries: Log[Entry], entry: str) -> int | None:
    """
    The number of our messages up to the end of an entry of Pydantic AI's; None
    if the entry is missing. O(messages after it).
    """
    backwards = enumerate(reversed(entries), start=1)
    back = next((back for back, one in backwards if one.id == entry), None)
    if back is None or "more" in _read_notes(entries[-back]):
        return None

    # Only the first messages that follow are converted, because converting all of them
    # would be O(conversation).
    start, last = len(entries) - back, _FEW
    while True:
        messages = Messages(entries[start : start + last])
        following = group_messages(messages).starts[1:]
        if following or start + last >= len(entries):
            return start + following[0] if following else len(entries)

        last *= _FEW


def _read_notes(entry: Entry) -> Mapping[str, Any]:
    return notes_of(entry.message.metadata, SOURCE)


def append_messages(
    state: Aggregator, new: Sequence[HistoryEntry], instructions: str | None
) -> Aggregator:
    """
    *state* with *new* messages and their usage; *instructions* are the newest
    ones in *state*.
    """
    if not new:
        return state

    groups = load_after([one.data for one in new], instructions)
    entries: list[Entry] = []
    for one, group in zip(new, groups, strict=True):
        for at, message in enumerate(group):
            entries.append(Entry(f"{one.id}/{at}" if at else one.id, message))

    return bill_entries(state, state.entries.extend(entries))


def find_instructions(entries: Log[Entry], start: int = 0) -> int | None:
    """
    The position of the newest instructions from *start* on; None if there are
    none. O(messages since).
    """
    for back in range(1, len(entries) - start + 1):
        if instructions_of(entries[-back]) is not None:
            return len(entries) - back

    return None


def instructions_of(entry: Entry) -> str | None:
    notes = _read_notes(entry)
    if "instructions" in notes and isinstance(entry.message, SystemMessage):
        return entry.message.text

    instructions = map_of(notes, "request").get("instructions")
    return instructions if isinstance(instructions, str) else None
