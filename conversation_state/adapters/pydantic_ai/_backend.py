"""
A store as Pydantic AI's conversations.

Only here, and in `_capability`, are classes of the SDK bases: these modules
need it when they are imported, and are imported when they are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.usage import RunUsage

from conversation_state._waiting import the_anyio
from conversation_state.adapters.pydantic_ai._dump import as_objects
from conversation_state.adapters.pydantic_ai._grown import New, Told
from conversation_state.adapters.pydantic_ai._kept import (
    Found,
    Kept,
    Made,
    name_of,
)
from conversation_state.adapters.pydantic_ai._load import as_data
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.store import Head, Store, open_store

__all__ = ["StoreBackend"]

T = TypeVar("T")

_RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class StoreBackend(ConversationStore):
    """
    A `ConversationStore` that keeps conversations in a store of ours.

    A conversation is an ordinary state, under its id as name: `load_state`
    gives it, and the store's own verbs, `fork`, `history`, `load(at=...)`,
    work on it. What others add to it there is in the history Pydantic AI loads
    next; its revision is another then, so who saves what was loaded before
    gets a `ConversationConflict`. A state that Pydantic AI never saw is a
    conversation, too.

    A save writes the new messages, however long the conversation is: a row for
    each of our messages and each usage, and six of a fixed size. A fork, a
    branch and a change of usage alone write no messages. What a response cost
    is in the state's ledger once, also after the history was rewritten, if its
    provider gave it an id.

    Each save is a revision that stays restorable. `delete` lets go of the
    names; what no other conversation shares goes with the store's
    `collect_garbage`. `read_entry` looks through all conversations if it was
    not this object that saved or loaded the entry's last; so does `read_records`.

    Safe in threads. Its verbs run in worker threads, and never keep the event
    loop waiting (extra ``anyio``, which Pydantic AI brings).

    Args:
        store: Where conversations are kept; stays open when this is closed.
    """

    def __init__(self, store: Store) -> None:
        if not isinstance(store, Store):
            msg = (
                f"StoreBackend takes an open store, got a {type(store).__name__}; "
                "StoreBackend.from_url opens one"
            )
            raise TypeError(msg)

        self._records = _Records(Kept(store))
        self._closes = False

    @classmethod
    def from_url(cls, url: str, *, remembered: int = 100) -> Self:
        """
        One that opens the store at *url*, and closes it; see `open_store`.

        Raises:
            StoreError:
                If it can't be opened.
        """
        made = cls(open_store(url, remembered=remembered))
        made._closes = True
        return made

    @property
    def store(self) -> Store:
        """
        The store below.
        """
        return self._records.kept.store

    def close(self) -> None:
        """
        Close the store, if it was opened here. Idempotent.
        """
        if self._closes:
            self.store.close()

    async def aclose(self) -> None:
        """
        The async twin of `close`.
        """
        await _in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<StoreBackend on {self.store.url}>"

    @staticmethod
    def name_of(conversation_id: str) -> str:
        """
        The name in the store of a conversation: its id, unless that can be no
        name.
        """
        return name_of(conversation_id)

    async def load_state(
        self, conversation_id: str, *, at: int | str | Head | None = None
    ) -> Aggregator:
        """
        A conversation as a state: its newest one, or the one *at* a revision.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        load = partial(self.store.load, name_of(conversation_id), at=at)
        state: Aggregator = await _in_thread(load)
        return state

    # What Pydantic AI asks of a backend

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """
        What is kept of a conversation beside its history; None if there is
        no such conversation.
        """
        return await _in_thread(partial(self._records.record, conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """
        The conversations saved here, or those of a *scope*, the newest first.
        O(conversations).
        """
        return await _in_thread(partial(self._records.records, scope, limit))

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
            ConversationConflict:
                If the conversation has another revision, or nobody has the
                entry that its history goes on from.

            DecodeError:
                If a message holds what can't be kept.

            ValueError:
                If *new_entries* are no chain that ends with the record's head.
        """
        _check_chain(record, new_entries)
        messages = as_data([entry.message for entry in new_entries])
        ids = [entry.id for entry in new_entries]
        new = [New(*each) for each in zip(ids, messages, strict=True)]
        parent = new_entries[0].parent_id if new_entries else record.head_id
        # Taken now: the caller may go on changing it.
        text = _RECORD.dump_json(record).decode()
        branches = list(record.branches)
        made = Made(parent, new, text, branches, record.forked_from)
        await _in_thread(
            partial(
                self._records.write, record.conversation_id, made, expected_revision
            )
        )

    async def delete_record(
        self, conversation_id: str, *, expected_revision: str
    ) -> None:
        """
        Let go of a conversation's names; of its entries the store's
        `collect_garbage` does.

        Raises:
            ConversationConflict:
                If the conversation has another revision, or is not there.
        """
        delete = partial(self._records.delete, conversation_id, expected_revision)
        await _in_thread(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """
        One entry, by its identity.

        Raises:
            LookupError:
                If no conversation has it.
        """
        told = await _in_thread(partial(self._records.kept.history, entry_id, 1))
        return _entries(told)[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """
        The entries up to the one of that identity, or the last *limit* of
        them: all rows are read at once.

        Raises:
            LookupError:
                If no conversation has it.
        """
        if head_id is None:
            return []

        told = await _in_thread(partial(self._records.kept.history, head_id, limit))
        return _entries(told)


class _Records:
    """
    Records in a store, for threads.

    Not in `StoreBackend` itself, whose base has private names of its own.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def record(self, conversation_id: str) -> ConversationRecord | None:
        found = self.kept.find(name_of(conversation_id))
        return self.of(found, conversation_id)

    def of(self, found: Found, conversation_id: str) -> ConversationRecord | None:
        if found.head is None:
            return None

        kept = self.kept
        for tip, revision in found.tips.items():
            kept.remember(tip, found.name, revision)

        record = None
        if found.record:
            record = _RECORD.validate_json(found.record)
            if not found.is_current:
                record = dataclasses.replace(record, deferred_tool_requests=None)
        else:
            state = kept.store.load(found.name)
            record = ConversationRecord(
                conversation_id=conversation_id,
                head_id=None,
                usage=_run_usage(state),
            )

        if not found.is_current:
            # Somebody else went on: what they said is in it, and who saves
            # what was loaded before is told so.
            record = dataclasses.replace(
                record,
                head_id=kept.newest(found),
                revision=f"{found.head.state_id}.{found.head.revision}",
                updated_at=found.head.saved_at,
            )

        kept.remember(record.head_id, found.name, found.head.revision)
        return record

    def records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        records = []
        for name in self.kept.names():
            record = self.of(self.kept.find(name), name)
            if record is not None and scope in {None, record.scope}:
                records.append(record)

        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def write(self, conversation_id: str, made: Made, expected: str | None) -> None:
        found = self.checked(conversation_id, expected)
        try:
            self.kept.write(found, made)
        except (LookupError, StaleHeadError) as error:
            raise ConversationConflict(conversation_id) from error

    def checked(self, conversation_id: str, expected: str | None) -> Found:
        """
        What there is of a conversation, if it has the revision *expected*.
        """
        found = self.kept.find(name_of(conversation_id))
        record = self.of(found, conversation_id)
        if (None if record is None else record.revision) != expected:
            raise ConversationConflict(conversation_id)

        return found

    def delete(self, conversation_id: str, expected: str) -> None:
        found = self.checked(conversation_id, expected)
        try:
            # The record first: every save of ours replaces it.
            if found.noted is not None:
                notes = found.noted.name
                self.kept.store.delete(notes, expecting=found.noted)

            self.kept.store.delete(found.name, expecting=found.head)
        except (NotSavedError, StaleHeadError) as error:
            raise ConversationConflict(conversation_id) from error


async def _in_thread(function: Callable[[], T]) -> T:
    anyio = the_anyio("a store in async code")
    result: T = await anyio.to_thread.run_sync(function)
    return result


def _entries(told: list[Told]) -> list[ConversationEntry]:
    messages = as_objects([one.data for one in told])
    return [
        ConversationEntry(id=one.id, parent_id=one.parent, message=message)
        for one, message in zip(told, messages, strict=True)
    ]


def _check_chain(
    record: ConversationRecord, entries: Sequence[ConversationEntry]
) -> None:
    if not entries:
        return

    ids = [entry.id for entry in entries]
    parents = [entry.parent_id for entry in entries[1:]]
    if len({*ids}) != len(ids) or parents != ids[:-1] or ids[-1] != record.head_id:
        msg = (
            "new_entries are no chain: each has to follow the one before it, and "
            "the record's head_id has to be the last one's id"
        )
        raise ValueError(msg)


def _run_usage(state: Aggregator) -> RunUsage:
    """
    What a state cost that no run of Pydantic AI accounted for.
    """
    spent: Any = state.total_usage
    return RunUsage(
        requests=len(state.ledger),
        input_tokens=spent.prompt_tokens,
        output_tokens=spent.completion_tokens,
        cache_read_tokens=spent.prompt_tokens_details.cached_tokens,
    )
