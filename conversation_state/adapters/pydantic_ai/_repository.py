"""
Conversations of Pydantic AI in a store: the names they have, finding entries,
and writing.

A conversation is a state under its own name. Pydantic AI's record of it is the
newest message under a second name; both are saved in one transaction. If
another program continued the state since, the record is updated from the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.adapters._host import replace_entries
from conversation_state.adapters.pydantic_ai._append import (
    HistoryEntry,
    append_messages,
    entries_of_groups,
    find_end,
    find_instructions,
    instructions_of,
    read_history,
)
from conversation_state.adapters.pydantic_ai._constants import SOURCE
from conversation_state.adapters.pydantic_ai._dump import group_messages
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import NotSavedError
from conversation_state.messages import UnknownMessage
from conversation_state.store import Head, Store, Window, check_not_mirrored
from conversation_state.store.records import Reader, Writer, reading

__all__ = [
    "RECORDS",
    "ConversationRepository",
    "ConversationUpdate",
    "StoredConversation",
    "name_of",
]

# The prefix of names of records. A conversation whose id begins with it gets another
# name, which begins with `_ODD`.
RECORDS = "pydantic_ai:record:"
_ODD = "pydantic_ai:odd:"
# The maximum is lower than that of a name, because the name of the record also has the
# prefix.
_MAX_NAME = 500 - len(RECORDS)
_MAX_REMEMBERED = 10_000
_GROWTH = 4
_NOWHERE = -1


def name_of(conversation_id: str) -> str:
    """
    The name of a conversation in the store: its id, if that is a valid name.
    """
    is_odd = (
        not 0 < len(conversation_id) <= _MAX_NAME
        or "\0" in conversation_id
        or conversation_id.startswith((RECORDS, _ODD))
    )
    if not is_odd:
        return conversation_id

    data = conversation_id.encode("utf-8", "surrogatepass")
    return f"{_ODD}{blake2b(data, digest_size=16).hexdigest()}"


class StoredConversation(NamedTuple):
    """
    A conversation in a store.

    Attributes:
        name: Its name.

        head: Its newest revision, or None.

        noted: The newest revision of its record's name, or None.

        record: The record as JSON text, or "".

        is_current: Whether the record is of the newest revision.

        tips: The revisions at which its other branches ended, by their entries.

        instructed_at: The position of its newest instructions; -1 if there are
            none, None if that is not known.
    """

    name: str
    head: Head | None
    noted: Head | None = None
    record: str = ""
    is_current: bool = False
    tips: dict[str, int] = {}  # noqa: RUF012 - never changed
    instructed_at: int | None = None


class ConversationUpdate(NamedTuple):
    """
    The update of a conversation that a write saves.

    Attributes:
        parent: The entry that the new ones follow.

        new: The new entries.

        record: Its record as JSON text.

        branches: The newest entries of its other branches.

        forked_from: The conversation it is a fork of, if it is one.
    """

    parent: str | None
    new: Sequence[HistoryEntry]
    record: str
    branches: Sequence[str]
    forked_from: str | None = None

    @property
    def newest(self) -> str | None:
        """
        The newest entry of its history.
        """
        return self.new[-1].id if self.new else self.parent


_Locations: TypeAlias = dict[str, tuple[str, int]]


class ConversationRepository:
    """
    Pydantic AI's conversations in a store. Synchronous and thread-safe.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        # The last known locations of entries, in a newer and an older dict; the older
        # one is dropped as a whole. A location is checked when it is used. Thread-safe
        # without a lock, which an interrupt could leave held.
        self._locations: tuple[_Locations, _Locations] = ({}, {})

    def find(self, name: str, rows: Reader | None = None) -> StoredConversation:
        """
        The conversation under a name: as of the moment of *rows*, or as of now.
        """
        if rows is None:
            with reading(self.store) as rows_now:
                return self.find(name, rows_now)

        record = rows.window(f"{RECORDS}{name}", 1)
        found = _read_record(name, rows.latest(name), record)
        for tip, revision in found.tips.items():
            self.remember(tip, name, revision)

        return found

    def find_all(self) -> list[StoredConversation]:
        """
        All conversations that have a record.
        """
        with reading(self.store) as rows:
            names = [name[len(RECORDS) :] for name in rows.names(RECORDS)]
            return [self.find(name, rows) for name in names]

    def history_at(
        self, name: str, revision: int, limit: int | None
    ) -> list[HistoryEntry]:
        """
        The history at a revision, or its last *limit* entries.
        """
        if limit is None:
            return read_history(self.store.load(name, at=revision).entries)

        # The window is larger than *limit*, because a request is as many messages of
        # ours as it has parts.
        last = _GROWTH * (limit + 2)
        while True:
            window = self.store.load(name, at=revision, last=last)
            groups = group_messages(window.messages)
            if groups.lacks_instructions and window.start:
                # The instructions are before the window.
                before = self.store.load(name, at=revision).entries
                position = self._instructed_before(name, revision, window.start, before)
                instructions = _instructions_at(before, position)
                groups = group_messages(window.messages, instructions)

            history = entries_of_groups(window.entries, groups)
            # The first entry may be the rest of a request that begins before the
            # window, so it is not returned.
            if window.start == 0 or len(history) > limit + 1:
                return history[max(len(history) - limit, 0) :]

            last *= _GROWTH

    def _instructed_before(
        self, name: str, revision: int, start: int, entries: Log[Entry]
    ) -> int | None:
        """
        The position of the newest instructions before *start* at a revision.
        """
        found = self.find(name)
        is_known = (
            found.is_current
            and found.instructed_at is not None
            and found.instructed_at < start
        )
        if is_known and found.head is not None and found.head.revision == revision:
            return found.instructed_at

        return find_instructions(entries.take(start))

    def remember(self, entry: str | None, name: str, revision: int) -> None:
        """
        Remember the revision at which an entry is the newest.
        """
        if entry is None:
            return

        newer, _ = self._locations
        newer[entry] = (name, revision)
        if len(newer) > _MAX_REMEMBERED // 2:
            self._locations = ({}, newer)

    def _last_location(self, entry: str) -> tuple[str, int] | None:
        newer, older = self._locations
        return newer.get(entry) or older.get(entry)

    def history(self, entry: str, limit: int | None = None) -> list[HistoryEntry]:
        """
        The history up to an entry, or its last *limit* entries.

        Raises:
            LookupError:
                If no conversation has it.
        """
        where = self._last_location(entry)
        if where is not None:
            try:
                history = self.history_at(*where, limit)
            except NotSavedError:
                history = []

            # The name may have been deleted and saved again since, with other entries.
            if history and history[-1].id == entry:
                return history

            if limit == 0:
                return []

        with reading(self.store) as rows:
            state, cut = self._find_entry(entry, rows)

        history = read_history(state.entries.take(cut))
        return history if limit is None else history[max(len(history) - limit, 0) :]

    def _find_entry(self, entry: str, rows: Reader) -> tuple[Aggregator, int]:
        """
        A state that has an entry, and the number of its messages up to the end of
        that.

        Raises:
            LookupError:
                If no conversation has it.
        """
        for name, revision in self._candidate_locations(entry, rows):
            with suppress(NotSavedError):
                state = rows.load(name, revision)
                cut = find_end(state.entries, entry)
                if cut is not None:
                    return state, cut

        msg = f"no conversation in {self.store.url} has the entry {shorten_repr(entry)}"
        raise LookupError(msg)

    def _candidate_locations(
        self, entry: str, rows: Reader
    ) -> Iterator[tuple[str, int]]:
        where = self._last_location(entry)
        if where is not None:
            yield where

        for record in rows.names(RECORDS):
            found = self.find(record[len(RECORDS) :], rows)
            if found.head is not None:
                yield found.name, found.head.revision

            for revision in found.tips.values():
                yield found.name, revision

    # Writing

    def write(
        self, rows: Writer, found: StoredConversation, update: ConversationUpdate
    ) -> None:
        """
        Save an *update* of a conversation that was *found* in *rows*, and its record.

        Raises:
            LookupError:
                If no conversation has the entry that the new ones follow.
        """
        head, notes = found.head, f"{RECORDS}{found.name}"
        old = past = rows.recall(found.name)
        if old is None and update.forked_from is not None:
            past = rows.recall(name_of(update.forked_from))

        base = self._base_state(past, update.parent, rows)
        if past is not old and base is past:
            base = base.fork()

        # The record has the position of the instructions in the newest revision only.
        position = found.instructed_at if base is old and found.is_current else None
        if position is None:
            position = find_instructions(base.entries)

        state = append_messages(
            base, update.new, _instructions_at(base.entries, position)
        )
        newer = find_instructions(state.entries, len(base))
        position = newer if newer is not None else position
        # This is the number that the save below gets, because no other transaction can
        # write meanwhile.
        revision = 0 if head is None else head.revision
        if state is not old:
            revision += 1

        tips = {tip: found.tips[tip] for tip in update.branches if tip in found.tips}
        if head is not None:
            # A branch without a revision ends at the head that this write replaces.
            for tip in update.branches:
                tips.setdefault(tip, head.revision)

        note = UnknownMessage(
            {
                "record": update.record,
                "revision": revision,
                "state": str(state.id),
                "tips": tips,
                "instructed_at": _NOWHERE if position is None else position,
            },
            source=SOURCE,
        )
        if state is not old:
            check_not_mirrored(self.store.url, found.name)
            rows.save(found.name, state)

        rows.save(notes, (rows.recall(notes) or Aggregator.new()).add(note))
        self.remember(update.newest, found.name, revision)

    def _base_state(
        self, old: Aggregator | None, parent: str | None, rows: Reader
    ) -> Aggregator:
        """
        A state that ends with *parent*, and has the ledger of the *old* one.
        """
        if old is not None:
            cut = 0 if parent is None else find_end(old.entries, parent)
            if cut is not None:
                return old if cut == len(old) else old.fork(at=cut)

        if parent is None:
            return Aggregator.new()

        other, cut = self._find_entry(parent, rows)
        if old is None:
            return other.fork(at=cut)

        # A rewritten history does not undo the cost of the old one.
        entries = other.entries.take(cut)
        return replace_entries(old.fork(at=entries.common_prefix(old.entries)), entries)


def _read_record(
    name: str, head: Head | None, window: Window | None
) -> StoredConversation:
    if window is None:
        return StoredConversation(name, head)

    if head is None:
        return StoredConversation(name, None, window.head)

    (note,) = window.messages
    raw: Any = note.raw if isinstance(note, UnknownMessage) else {}
    is_current = raw["revision"] == head.revision and raw["state"] == str(head.state_id)
    return StoredConversation(
        name,
        head,
        window.head,
        raw["record"],
        is_current,
        dict(raw["tips"]),
        raw["instructed_at"],
    )


def _instructions_at(entries: Log[Entry], at: int | None) -> str | None:
    """
    The instructions *at* a position, or None.
    """
    return None if at is None or at == _NOWHERE else instructions_of(entries[at])
