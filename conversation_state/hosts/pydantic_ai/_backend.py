"""
A store as Pydantic AI's conversation store.

Here and in `_processor` the SDK's classes are bases: these modules need the SDK when
they are imported, and are imported on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from conversation_state._waiting import run_in_anyio_thread
from conversation_state.adapters.pydantic_ai.groups import as_data, as_objects
from conversation_state.aggregator import Aggregator
from conversation_state.hosts._host import StoreHost
from conversation_state.hosts.pydantic_ai._repository import (
    RECORD_ADAPTER,
    ConversationRepository,
    ConversationUpdate,
    HistoryEntry,
    name_of,
)
from conversation_state.store import Head, Store


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
        """
        The name in the store of a conversation: its id, unless that is not a
        valid name.
        """
        return name_of(conversation_id)

    async def load_state(
        self, conversation_id: str, *, at: int | str | Head | None = None
    ) -> Aggregator:
        """
        A conversation as a state: its newest one, or the one *at* a revision.

        Raises:
            NotSavedError:
                If there is no such state.
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
            ConversationConflict:
                If the conversation has another revision, or no conversation
                has the entry that its history continues.

            DecodeError:
                If a message can't be saved as JSON.

            ValueError:
                If *new_entries* are not a chain that ends with the record's head.
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
            ConversationConflict:
                If the conversation has another revision, or is missing.
        """
        delete = partial(self._records.delete, conversation_id, expected_revision)
        await run_in_anyio_thread(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """
        One entry, by its identity.

        Raises:
            LookupError:
                If no conversation has it.
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
            LookupError:
                If no conversation has it.
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
