"""
A store as Pydantic AI's conversation store.

A conversation is a state under its own name. Pydantic AI's record of it is a record
of the store; both are saved in one transaction. If another program continued the
state since, the record is updated from the state.

Here and in `_processor` the SDK's classes are bases: these modules need the SDK when
they are imported, and are imported on first use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.usage import RunUsage

from conversation_state._persistent import Log
from conversation_state._waiting import run_in_anyio_thread
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.pydantic_ai import load_usage
from conversation_state.adapters.pydantic_ai.groups import (
    SOURCE,
    MessageGroups,
    as_data,
    as_objects,
    group_messages,
    load_after,
)
from conversation_state.aggregator import Aggregator, Entry, Messages, response_key
from conversation_state.errors import NotSavedError
from conversation_state.hosts._host import StoreHost, bill_entries, replace_entries
from conversation_state.messages import SystemMessage
from conversation_state.store import Head, Store, check_not_mirrored
from conversation_state.store.records import Reader, Writer, after, reading, write

# The beginning of the keys of records, and of the name of a conversation whose id is
# not a valid name.
_RECORDS = b"pydantic_ai."
_ODD = "pydantic_ai:odd:"
_MAX_NAME = 500
_MAX_REMEMBERED = 10_000
_GROWTH = 4
_FEW = 20  # one message of Pydantic AI rarely becomes more messages of ours
T = TypeVar("T")
RECORD_ADAPTER: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


# The name of a conversation in the store: its id, if that is a valid name.
def name_of(conversation_id: str) -> str:
    is_odd = (
        not 0 < len(conversation_id) <= _MAX_NAME
        or "\0" in conversation_id
        or conversation_id.startswith(_ODD)
    )
    return f"{_ODD}{_digest_text(conversation_id).hex()}" if is_odd else conversation_id


def _digest_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _record_key(name: str) -> bytes:
    return _RECORDS + _digest_text(name)


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
    if back is None:
        return None

    # Another program may have removed the first message of a request.
    start, last = len(entries) - back, _FEW
    before = _read_notes(entries[start - 1]) if start else {}
    if "more" in _read_notes(entries[start]) and before.keys() & {"more", "request"}:
        return None

    # Only the first messages that follow are converted, because converting all of them
    # would be O(conversation).
    while True:
        messages = Messages(entries[start : start + last])
        following = group_messages(messages).starts[1:]
        if following or start + last >= len(entries):
            break

        last *= _FEW

    end = start + following[0] if following else len(entries)
    # What follows an erased message of a request is a message of its own.
    while end < len(entries) and entries[end].id.startswith(f"{entry}/"):
        end += 1

    return end


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

    state = bill_entries(state, state.entries.extend(entries))
    for one, group in zip(new, groups, strict=True):
        # Answers that a fallback model rejected were paid, too. By the end of the key,
        # `cost` knows that it accounts for no answer of the conversation.
        for number, attempt in enumerate(one.data.get("failed_attempts") or ()):
            usage = load_usage(attempt["usage"]) if attempt["usage"] else None
            if usage is not None:
                answer = response_key(*map(partial(Entry, one.id), group))
                key = f"{answer}/{number}/{attempt['timestamp']}#rejected"
                state = state.add_usage(usage, key=key, model=attempt["model_name"])

    return state


def find_instructions(entries: Log[Entry], start: int = 0) -> int | None:
    """The newest instructions' position from *start* on, or None. O(messages since)."""
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


class _StoredConversation(NamedTuple):
    name: str
    # The newest revision of its name.
    head: Head | None
    # Pydantic AI's record of it as JSON text, or "".
    record: str = ""
    # Whether the record is of the newest revision.
    is_current: bool = False
    # The revisions at which its other branches ended, by their entries.
    tips: dict[str, int] = {}  # noqa: RUF012 - never changed

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
        # Of conversations that were written: a length, the last entry there, and the
        # position of the newest instructions before.
        self._instructed: dict[str, tuple[int, str, int | None]] = {}

    # Reading

    def record(self, conversation_id: str) -> ConversationRecord | None:
        with reading(self.store) as rows:
            found = self._find_conversation(name_of(conversation_id), rows)

        return self._make_record(found, conversation_id)

    def records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        with reading(self.store) as rows:
            found = list(self._find_saved(rows))

        every = [self._make_record(one, one.name) for one in found]
        records = [one for one in every if one and scope in {None, one.scope}]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def _find_conversation(self, name: str, rows: Reader) -> _StoredConversation:
        record = rows.get(_record_key(name))
        raw = {"name": name} if record is None else json.loads(record.value)
        return self._read_record(raw, rows)

    # All conversations that were saved here.
    def _find_saved(self, rows: Reader) -> Iterator[_StoredConversation]:
        for record in rows.scan(_RECORDS, after(_RECORDS)):
            yield self._read_record(json.loads(record.value), rows)

    def _read_record(self, raw: dict[str, Any], rows: Reader) -> _StoredConversation:
        name = raw["name"]
        head = rows.latest(name)
        if head is None or "record" not in raw:
            return _StoredConversation(name, head)

        for tip, revision in raw["tips"].items():
            self._remember_location(tip, name, revision)

        saved = raw["revision"], raw["state"]
        is_current = saved == (head.revision, str(head.state_id))
        return _StoredConversation(name, head, raw["record"], is_current, raw["tips"])

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
            with reading(self.store) as rows:
                head = rows.latest(name)
                is_newest = head is not None and head.revision == revision
                # The newest state stays in memory, where the next save finds it.
                found = rows.state(name) if is_newest else None
                state = rows.load(name, revision) if found is None else found

            return read_history(state.entries)

        # The window is larger than *limit*, because a request is as many messages of
        # ours as it has parts.
        last = _GROWTH * (limit + 2)
        while True:
            window = self.store.load(name, at=revision, last=last)
            groups = group_messages(window.messages)
            if groups.lacks_instructions and window.start:
                # The instructions are before the window.
                before = self.store.load(name, at=revision).entries.take(window.start)
                instructions = _instructions_at(before, find_instructions(before))
                groups = group_messages(window.messages, instructions)

            history = entries_of_groups(window.entries, groups)
            # The first entry may be the rest of a request that begins before the
            # window, so it is not returned.
            if window.start == 0 or len(history) > limit + 1:
                return history[max(len(history) - limit, 0) :]

            last *= _GROWTH

    def _remember_location(self, entry: str | None, name: str, revision: int) -> None:
        if entry is not None:
            _remember_value(self._locations, entry, (name, revision))

    def history(self, entry: str, limit: int | None = None) -> list[HistoryEntry]:
        """
        The history up to an entry, or its last *limit* entries.

        Raises:
            LookupError: If no conversation has it.
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
            LookupError: If no conversation has it.
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

        for found in self._find_saved(rows):
            if found.head is not None:
                yield found.name, found.head.revision

            for revision in found.tips.values():
                yield found.name, revision

    # Writing

    def delete(self, conversation_id: str, expected: str | None) -> None:
        def delete_both(rows: Writer) -> None:
            found = self._find_expected(rows, conversation_id, expected)
            rows.delete(found.name)
            key = _record_key(found.name)
            rows.remove(key, key + b"\0")

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
        head = found.head
        old = past = rows.recall(found.name)
        if old is None and update.forked_from is not None:
            past = rows.recall(name_of(update.forked_from))

        base = self._base_state(past, update.parent, rows)
        if past is not old and base is past:
            base = base.fork()

        instructions = self._newest_instructions(found.name, base.entries)
        state = append_messages(base, update.new, instructions)
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

        if state is not old:
            check_not_mirrored(self.store.url, found.name)
            rows.save(found.name, state)

        note = {
            "name": found.name,
            "record": update.record,
            "revision": revision,
            "state": str(state.id),
            "tips": tips,
        }
        rows.put(_record_key(found.name), json.dumps(note).encode())
        newest = update.new[-1].id if update.new else update.parent
        self._remember_location(newest, found.name, revision)

    def _newest_instructions(self, name: str, entries: Log[Entry]) -> str | None:
        # Only messages since the last save are looked at, if its last one is there.
        length, last, position = self._instructed.get(name, (0, "", None))
        if not 0 < length <= len(entries) or entries[length - 1].id != last:
            length, position = 0, None

        newer = find_instructions(entries, length)
        position = position if newer is None else newer
        if len(entries):
            _remember_value(
                self._instructed, name, (len(entries), entries[-1].id, position)
            )

        return _instructions_at(entries, position)

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


def _remember_value(known: dict[str, T], key: str, value: T) -> None:
    if len(known) >= _MAX_REMEMBERED:
        known.clear()

    known[key] = value


def _instructions_at(entries: Log[Entry], at: int | None) -> str | None:
    return None if at is None else instructions_of(entries[at])


def _run_usage(state: Aggregator) -> RunUsage:
    usage: Any = state.total_usage
    return RunUsage(
        requests=len(state.ledger),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.prompt_tokens_details.cached_tokens,
    )


class StoreBackend(StoreHost, ConversationStore):
    """
    A `ConversationStore` that keeps conversations in a store of ours.

    A conversation is an ordinary state, and its id is the name: `load_state`
    returns it, and the store's own methods (`fork`, `history`, `load(at=...)`)
    work on it. Messages that other programs add to the state are in the history
    that Pydantic AI loads next. They change its revision, so that saving an
    older history raises `ConversationConflict`. A state that Pydantic AI never
    saw is a conversation, too.

    A save writes the new messages, however long the conversation is: a row for
    each of our messages and each usage, and a few of a fixed size. A fork, a
    branch and a change of usage alone write no messages. The usage of a response
    is in the state's ledger once, also after the history was rewritten, if the
    response has a provider's id.

    Each save is a revision that stays restorable. `delete` deletes the names;
    `collect_garbage` of the store collects messages that no other conversation
    shares. `read_records` reads the records of all conversations. `read_entry`
    searches all conversations if this object did not save or load the entry's
    conversation last.

    Thread-safe. Its methods run in worker threads, and never block the event
    loop.

    Args:
        store: The store; stays open when this is closed.
    """

    def __init__(self, store: Store) -> None:
        self._set_store(store)
        self._records = ConversationRepository(store)

    async def aclose(self) -> None:
        """The async twin of `close`."""
        await run_in_anyio_thread(self.close)

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<StoreBackend on {self.store.url}>"

    @staticmethod
    def name_of(conversation_id: str) -> str:
        """The name of a conversation in the store: its id, if that is a valid name."""
        return name_of(conversation_id)

    async def load_state(
        self, conversation_id: str, *, at: int | str | Head | None = None
    ) -> Aggregator:
        """
        A conversation as a state: its newest one, or the one *at* a revision.

        Raises:
            NotSavedError: If there is no such state.
        """
        load = partial(self.store.load, name_of(conversation_id), at=at)
        state: Aggregator = await run_in_anyio_thread(load)
        return state

    # The methods of Pydantic AI's `ConversationStore`

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """
        The record of a conversation, without its history; None if the
        conversation is unknown.
        """
        return await run_in_anyio_thread(partial(self._records.record, conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """
        The conversations saved here, or those of a *scope*, the newest first.
        O(conversations).
        """
        return await run_in_anyio_thread(partial(self._records.records, scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """
        Save a record and the entries its history adds, both or neither.

        Raises:
            ConversationConflict: If the conversation has another revision, or no
                conversation has the entry that its history continues.
            DecodeError: If a message can't be saved as JSON.
            ValueError: If *new_entries* are not a chain that ends with the record's
                head.
        """
        _check_chain(record, new_entries)
        messages = as_data([entry.message for entry in new_entries])
        new = [
            HistoryEntry(entry.id, entry.parent_id, message)
            for entry, message in zip(new_entries, messages, strict=True)
        ]
        update = ConversationUpdate(
            record.conversation_id,
            expected_revision,
            new,
            new_entries[0].parent_id if new_entries else record.head_id,
            # Serialised before the thread runs, because the caller may change the
            # record meanwhile.
            RECORD_ADAPTER.dump_json(record).decode(),
            list(record.branches),
            record.forked_from,
        )
        await run_in_anyio_thread(partial(self._records.write, update))

    async def delete_record(
        self, conversation_id: str, *, expected_revision: str
    ) -> None:
        """
        Delete a conversation's names; `collect_garbage` of the store collects
        its entries.

        Raises:
            ConversationConflict: If the conversation has another revision, or is
                missing.
        """
        delete = partial(self._records.delete, conversation_id, expected_revision)
        await run_in_anyio_thread(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """
        One entry, by its identity.

        Raises:
            LookupError: If no conversation has it.
        """
        read = partial(self._records.history, entry_id, 1)
        return _make_entries(await run_in_anyio_thread(read))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """
        The entries up to the one of that identity, or the last *limit* of
        them. Reads all rows at once.

        Raises:
            LookupError: If no conversation has it.
        """
        if head_id is None:
            return []

        read = partial(self._records.history, head_id, limit)
        return _make_entries(await run_in_anyio_thread(read))


def _make_entries(history: list[HistoryEntry]) -> list[ConversationEntry]:
    messages = as_objects([one.data for one in history])
    return [
        ConversationEntry(id=one.id, parent_id=one.parent, message=message)
        for one, message in zip(history, messages, strict=True)
    ]


def _check_chain(
    record: ConversationRecord, entries: Sequence[ConversationEntry]
) -> None:
    if not entries:
        return

    ids = [entry.id for entry in entries]
    parents = [entry.parent_id for entry in entries[1:]]
    if len({*ids}) != len(ids) or parents != ids[:-1] or ids[-1] != record.head_id:
        raise ValueError(
            "new_entries: expected a chain, in which each entry's parent_id is the "
            "id before it, and the last id is the record's head_id"
        )
