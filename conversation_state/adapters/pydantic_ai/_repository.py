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
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord
from pydantic_ai.usage import RunUsage

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
from conversation_state.adapters.pydantic_ai._dump import group_messages
from conversation_state.adapters.pydantic_ai._notes import SOURCE
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import NotSavedError
from conversation_state.messages import UnknownMessage
from conversation_state.store import Head, Store, Window, check_not_mirrored
from conversation_state.store.records import Reader, Writer, reading, write

# The prefix of names of records. A conversation whose id begins with it gets another
# name, which begins with `_ODD`.
_RECORDS = "pydantic_ai:record:"
_ODD = "pydantic_ai:odd:"
# The maximum is lower than that of a name, because the name of the record also has the
# prefix.
_MAX_NAME = 500 - len(_RECORDS)
_MAX_REMEMBERED = 10_000
_GROWTH = 4
_NOWHERE = -1
RECORD_ADAPTER: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


# The name of a conversation in the store: its id, if that is a valid name.
def name_of(conversation_id: str) -> str:
    is_odd = (
        not 0 < len(conversation_id) <= _MAX_NAME
        or "\0" in conversation_id
        or conversation_id.startswith((_RECORDS, _ODD))
    )
    if not is_odd:
        return conversation_id

    data = conversation_id.encode("utf-8", "surrogatepass")
    return f"{_ODD}{blake2b(data, digest_size=16).hexdigest()}"


class _StoredConversation(NamedTuple):
    name: str
    # The newest revisions of its name, and of its record's.
    head: Head | None
    noted: Head | None = None
    # As JSON text, or "".
    record: str = ""
    # Whether the record is of the newest revision.
    is_current: bool = False
    # The revisions at which its other branches ended, by their entries.
    tips: dict[str, int] = {}  # noqa: RUF012 - never changed
    # The position of its newest instructions; -1 if there are none, None if that is not
    # known.
    instructed_at: int | None = None

    def revision(self) -> str | None:
        if self.head is None:
            return None

        if self.is_current:
            return RECORD_ADAPTER.validate_json(self.record).revision

        # Another program saved the state last.
        return f"{self.head.state_id}.{self.head.revision}"


class ConversationUpdate(NamedTuple):
    conversation_id: str
    # The revision that it must have, None for a new one.
    expected: str | None
    # The new entries, and the one that they follow.
    new: Sequence[HistoryEntry]
    parent: str | None
    # Its record as JSON text.
    record: str
    # The newest entries of its other branches.
    branches: Sequence[str]
    # The conversation it is a fork of.
    forked_from: str | None


class ConversationRepository:
    """
    Pydantic AI's conversations in a store: the synchronous methods of `StoreBackend`,
    which are not there because its base has private methods of these names.
    Thread-safe.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        # The names and revisions at which entries were the newest, which are checked
        # when they are used. Thread-safe without a lock, which an interrupt could leave
        # held.
        self._locations: dict[str, tuple[str, int]] = {}

    # Reading

    def record(self, conversation_id: str) -> ConversationRecord | None:
        with reading(self.store) as rows:
            found = self._find_conversation(name_of(conversation_id), rows)

        return self._make_record(found, conversation_id)

    def records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        with reading(self.store) as rows:
            names = [name[len(_RECORDS) :] for name in rows.names(_RECORDS)]
            found = [self._find_conversation(name, rows) for name in names]

        every = [self._make_record(one, one.name) for one in found]
        records = [one for one in every if one and scope in {None, one.scope}]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def _find_conversation(self, name: str, rows: Reader) -> _StoredConversation:
        record = rows.window(f"{_RECORDS}{name}", 1)
        found = _read_record(name, rows.latest(name), record)
        for tip, revision in found.tips.items():
            self._remember_location(tip, name, revision)

        return found

    def _make_record(
        self, found: _StoredConversation, conversation_id: str
    ) -> ConversationRecord | None:
        if found.head is None:
            return None

        if found.record:
            record = RECORD_ADAPTER.validate_json(found.record)
        else:
            usage = _run_usage(self.store.load(found.name))
            record = ConversationRecord(
                conversation_id=conversation_id, head_id=None, usage=usage
            )

        if not found.is_current:
            # Another program continued the conversation: the record gets its
            # messages, and a revision that conflicts with older ones. The deferred
            # requests waited for results at the end of the history.
            newest = self._history_at(found.name, found.head.revision, 1)
            record = replace(
                record,
                deferred_tool_requests=None,
                head_id=newest[-1].id if newest else None,
                revision=found.revision() or "",
                updated_at=found.head.saved_at,
            )

        self._remember_location(record.head_id, found.name, found.head.revision)
        return record

    def _history_at(
        self, name: str, revision: int, limit: int | None
    ) -> list[HistoryEntry]:
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
        with reading(self.store) as rows:
            found = self._find_conversation(name, rows)

        is_known = (
            found.is_current
            and found.instructed_at is not None
            and found.instructed_at < start
        )
        if is_known and found.head is not None and found.head.revision == revision:
            return found.instructed_at

        return find_instructions(entries.take(start))

    def _remember_location(self, entry: str | None, name: str, revision: int) -> None:
        if entry is not None:
            if len(self._locations) >= _MAX_REMEMBERED:
                self._locations = {}

            self._locations[entry] = (name, revision)

    def history(self, entry: str, limit: int | None = None) -> list[HistoryEntry]:
        """
        The history up to an entry, or its last *limit* entries.

        Raises:
            LookupError:
                If no conversation has it.
        """
        where = self._locations.get(entry)
        if where is not None:
            try:
                history = self._history_at(*where, limit)
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

        raise LookupError(
            f"no conversation in {self.store.url} has the entry {shorten_repr(entry)}"
        )

    def _candidate_locations(
        self, entry: str, rows: Reader
    ) -> Iterator[tuple[str, int]]:
        where = self._locations.get(entry)
        if where is not None:
            yield where

        for record in rows.names(_RECORDS):
            found = self._find_conversation(record[len(_RECORDS) :], rows)
            if found.head is not None:
                yield found.name, found.head.revision

            for revision in found.tips.values():
                yield found.name, revision

    # Writing

    def delete(self, conversation_id: str, expected: str | None) -> None:
        def delete_both(rows: Writer) -> None:
            found = self._find_expected(rows, conversation_id, expected)
            rows.delete(found.name)
            if found.noted is not None:
                rows.delete(found.noted.name)

        write(self.store, delete_both)

    def write(self, update: ConversationUpdate) -> None:
        def write_update(rows: Writer) -> None:
            found = self._find_expected(rows, update.conversation_id, update.expected)
            self._write_update(rows, found, update)

        try:
            write(self.store, write_update)
        except LookupError as error:
            raise ConversationConflict(update.conversation_id) from error

    def _find_expected(
        self, rows: Reader, conversation_id: str, expected: str | None
    ) -> _StoredConversation:
        found = self._find_conversation(name_of(conversation_id), rows)
        if found.revision() != expected:
            raise ConversationConflict(conversation_id)

        return found

    def _write_update(
        self, rows: Writer, found: _StoredConversation, update: ConversationUpdate
    ) -> None:
        head, notes = found.head, f"{_RECORDS}{found.name}"
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
        newest = update.new[-1].id if update.new else update.parent
        self._remember_location(newest, found.name, revision)

    # A state that ends with *parent*, and has the ledger of the *old* one.
    def _base_state(
        self, old: Aggregator | None, parent: str | None, rows: Reader
    ) -> Aggregator:
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
) -> _StoredConversation:
    if window is None:
        return _StoredConversation(name, head)

    if head is None:
        return _StoredConversation(name, None, window.head)

    (note,) = window.messages
    raw: Any = note.raw if isinstance(note, UnknownMessage) else {}
    is_current = raw["revision"] == head.revision and raw["state"] == str(head.state_id)
    return _StoredConversation(
        name,
        head,
        window.head,
        raw["record"],
        is_current,
        dict(raw["tips"]),
        raw["instructed_at"],
    )


def _instructions_at(entries: Log[Entry], at: int | None) -> str | None:
    return None if at is None or at == _NOWHERE else instructions_of(entries[at])


def _run_usage(state: Aggregator) -> RunUsage:
    usage: Any = state.total_usage
    return RunUsage(
        requests=len(state.ledger),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.prompt_tokens_details.cached_tokens,
    )
