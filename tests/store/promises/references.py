"""Promises about references: each gives the state it was made of, or an error."""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.messages import ERASED
from conversation_state.store import StateRef, Store
from conversation_state.store.backend import DamageError
from conversation_state.store.backends.memory import MemoryBackend
from tests.store.promises.case import (
    CONVERSATION,
    StoreCase,
    append_turns,
    read_rows,
)


def set_clock(monkeypatch, ahead):
    """Let the clock of stores stand still, so much ahead of the real one."""
    now = int((datetime.now(UTC) + ahead).timestamp() * 1e9)
    monkeypatch.setattr("conversation_state.store._values.time_ns", lambda: now)


class ReferencePromises(StoreCase):
    """A reference gives the state it was made of, or an error; never another."""

    def test_resolves_to_what_load_gives(self, store):
        """
        Any store over the same rows gives the state of the head, from memory or not,
        also of a fork, after a rollback, through its text, and by the async twins.
        """
        states = append_turns(CONVERSATION, 40)
        heads = [store.save("chat", state) for state in states[::13]]
        heads.append(store.fork("chat", "fork", at=2))
        heads.append(store.rollback("chat", to=1))
        for head in heads:
            ref = StateRef.parse(str(pickle.loads(pickle.dumps(store.ref(head)))))
            expected = store.load(head.name, at=head)

            assert expected == store.resolve(ref)
            assert expected == self.other(store, remembered=0).resolve(ref)
            assert (head.revision, head.digest) == (ref.revision, ref.digest)
            assert ref == asyncio.run(store.aref(head))
            assert expected == asyncio.run(store.aresolve(ref))

        assert len(heads) == len({store.ref(head) for head in heads})

    def test_remembered_states_are_not_read(self, watched, calls):
        """The newest state is the same object, and only its revision's row is read."""
        ref = watched.ref(watched.save("chat", CONVERSATION))
        calls.clear()

        assert CONVERSATION is watched.resolve(ref)
        assert {"revisions", "changes"} == {call.table for call in calls if call.table}

    def test_garbage_collection_keeps_it(self, store, reopen):
        """A revision that was replaced long ago is not garbage while its name is."""
        state = CONVERSATION.add_user_prompt("first")
        ref = store.ref(head := store.save("chat", state))
        another = Aggregator.new().add_user_prompt("another")
        store.save("chat", another, expecting=head)
        store.save("gone", Aggregator.new().add_user_prompt("gone"))
        store.delete("gone")
        assert store.collect_garbage().entries

        assert state == reopen(store).resolve(ref)

    def test_delete_wins(self, store):
        """
        A reference into a deleted name is an error, before and after the collection of
        garbage, and if the same or another conversation has the name since.
        """
        ref = store.ref(head := store.save("chat", CONVERSATION))
        store.delete("chat")
        others = [None, CONVERSATION, CONVERSATION.add_user_prompt("another")]
        for state in others:
            if state is not None:
                store.save("chat", state)

            store.collect_garbage()
            for each in (store, self.other(store, remembered=0)):
                with pytest.raises(NotSavedError, match="name was deleted") as caught:
                    each.resolve(ref)

                assert ("state", str(ref)) == (caught.value.what, caught.value.asked)

        store.delete("chat")
        with pytest.raises(NotSavedError, match="no name 'chat'"):
            store.ref(head)

    def test_erase_wins(self, store):
        """A message that was erased is a tombstone, and the reference still holds."""
        other = self.other(store)
        ref = store.ref(head := store.save("chat", CONVERSATION))
        assert CONVERSATION == other.resolve(ref)
        store.erase(CONVERSATION.entries[0].id, reason="asked for")

        for each in (store, other):
            (stone,) = each.resolve(ref).messages
            assert "asked for" == stone.metadata[ERASED]["reason"]
            assert each.load("chat", at=head) == each.resolve(ref)

    def test_of_another_store(self, store):
        """A reference of another store is an error, whether its numbers are there."""
        elsewhere = Store(MemoryBackend())
        for _ in range(9):
            number = elsewhere.save("chat", Aggregator.new().add_user_prompt("Hi."))
            ref = elsewhere.ref(number)
            with pytest.raises(NotSavedError, match="of another store"):
                store.resolve(ref)

            ours = store.ref(store.save("chat", CONVERSATION))
            same = StateRef(ours.name_key, ours.revision, ref.digest)
            with pytest.raises(NotSavedError, match="another state has this number"):
                store.resolve(same)

            elsewhere.delete("chat")

    def test_of_another_conversation(self, store):
        """A head that the name does not have has no reference."""
        head = Store(MemoryBackend()).save("chat", CONVERSATION)
        store.save("chat", Aggregator.new().add_user_prompt("another"))
        with pytest.raises(NotSavedError, match="no revision"):
            store.ref(head)

    def test_changed_by_one(self, store):
        """A reference with any part changed is an error, and no other state."""
        store.save("before", CONVERSATION)
        states = append_turns(CONVERSATION, 3)
        heads = [store.save("chat", state) for state in states]
        ref = store.ref(heads[1])
        flipped = f"{int(ref.digest, 16) ^ 1:032x}"
        for key in (-1, 0, 1):
            for revision in (-1, 0, 1):
                for digest in (ref.digest, flipped):
                    parts = ref.name_key + key, ref.revision + revision, digest
                    if parts == (ref.name_key, ref.revision, ref.digest):
                        continue

                    with pytest.raises(NotSavedError):
                        store.resolve(StateRef(*parts))

    def test_lease_says_until_when(self, store, reopen):
        """
        A reference says until when its lease lasts, also as text; asking again renews
        it and never shortens it, and a lease of no time writes nothing.
        """
        head = store.save("chat", CONVERSATION)
        before = read_rows(store._cache.backend)

        assert store.ref(head, keep=timedelta(0)).until is None
        assert before == read_rows(store._cache.backend)

        asked = datetime.now(UTC)
        for days in (2, 1, 3):
            ref = store.ref(head, keep=timedelta(days=days))
            text = str(ref)
            lasts = ref.until - asked - timedelta(days=max(days, 2))

            assert timedelta(0) <= lasts < timedelta(minutes=5)
            assert len(text) <= 80
            assert ref.until == StateRef.parse(text).until
            assert ref == StateRef(ref.name_key, ref.revision, ref.digest)

        store = reopen(store)
        assert ref.until == store.ref(head, keep=timedelta(0)).until
        assert timedelta(days=29) < store.ref(head).until - asked
        assert () == store.verify()

    def test_collection_ends_leases(self, store, monkeypatch):
        """
        Garbage collection removes leases that have ended, and no others; the states
        stay while their name is there, and a reference that lost its lease gets a new
        one.
        """
        states = append_turns(CONVERSATION, 2)
        heads = [store.save("chat", state) for state in states]
        short = store.ref(heads[0], keep=timedelta(seconds=1))
        store.ref(heads[1], keep=timedelta(days=2))
        set_clock(monkeypatch, timedelta(days=1))

        assert store.ref(heads[0], keep=timedelta(0)).until is None

        store.collect_garbage()

        assert 1 == len(read_rows(store._cache.backend)["records"])
        assert states[0] == store.resolve(short)
        assert store.ref(heads[0], keep=timedelta(0)).until is None
        assert short.until < store.ref(heads[0]).until

        set_clock(monkeypatch, timedelta(days=3))
        store.collect_garbage()
        assert 1 == len(read_rows(store._cache.backend)["records"])
        assert states == [store.load("chat", at=head) for head in heads]

    def test_renewed_while_garbage_is_collected(self, store, monkeypatch):
        """A lease that is renewed between its being found and removed stays."""
        head = store.save("chat", CONVERSATION)
        store.ref(head, keep=timedelta(seconds=1))
        set_clock(monkeypatch, timedelta(days=1))
        backend = store._cache.backend
        begin, other = backend.writing, self.other(store)

        def renew_first():
            monkeypatch.setattr(backend, "writing", begin)
            other.ref(head)
            return begin()

        monkeypatch.setattr(backend, "writing", renew_first)
        store.collect_garbage()

        assert begin == backend.writing
        assert store.ref(head, keep=timedelta(0)).until is not None

    def test_what_became_of_it(self, store, monkeypatch):
        """
        While the lease lasts, the error says when the name was deleted; later that the
        lease has ended; and of a state that never was there, that it was not.
        """
        head = store.save("chat", CONVERSATION)
        ref, free = store.ref(head), store.ref(head, keep=timedelta(0))
        free = StateRef(free.name_key, free.revision, free.digest)
        store.delete("chat")
        ((_, lease, *_),) = read_rows(store._cache.backend)["records"]

        assert b"chat" not in lease

        store.save("chat", CONVERSATION)
        store.collect_garbage()
        for each in (ref, free):
            with pytest.raises(NotSavedError, match=r"was deleted on 20\d\d-\d\d-"):
                self.other(store, remembered=0).resolve(each)

        never = StateRef(ref.name_key + 999, 1, ref.digest, ref.until)
        flipped = f"{int(ref.digest, 16) ^ 1:032x}"
        for each in (never, StateRef(ref.name_key, 1, flipped, ref.until)):
            with pytest.raises(NotSavedError, match="lease has not ended and the name"):
                store.resolve(each)

        set_clock(monkeypatch, timedelta(days=31))
        store.collect_garbage()

        assert not read_rows(store._cache.backend)["records"]
        with pytest.raises(NotSavedError, match=r"its lease\s+ended on .* to renew it"):
            store.resolve(ref)

        with pytest.raises(NotSavedError, match="deleted, or the reference is of ano"):
            store.resolve(free)

    def test_damaged_leases(self, store):
        """A damaged lease is found by verify, and keeps no name from being deleted."""
        head = store.save("chat", CONVERSATION)
        store.ref(head)
        ((key, value, *_),) = read_rows(store._cache.backend)["records"]
        for other in (value[:8], b"x" + value[1:]):
            with store._cache.backend.writing() as block:
                block.set("records", key, value=other)

            assert ["records"] == [damage.where for damage in store.verify()]
            for ask in (partial(store.ref, head), store.collect_garbage):
                with pytest.raises(DamageError, match="verify"):
                    ask()

        store.delete("chat")

        assert () == store.verify()

    def test_invalid_leases(self, store):
        """A time that is none, or is less than none or too long, is an error."""
        head = store.save("chat", CONVERSATION)
        with pytest.raises(TypeError, match="expected a timedelta, got an int"):
            store.ref(head, keep=30)

        for keep in (timedelta(seconds=-1), timedelta(days=36_501)):
            with pytest.raises(ValueError, match="36,500 days"):
                store.ref(head, keep=keep)

        invalid: list[Any] = [datetime(2026, 1, 1), datetime.now(UTC), 5]  # noqa: DTZ001
        for until in invalid:
            with pytest.raises(ValueError, match="expected a time in UTC, to the sec"):
                StateRef(1, 1, "0f" * 16, until)

        longest = store.ref(head, keep=timedelta(days=36_500))
        assert longest.until == StateRef.parse(str(longest)).until

    def test_damage_is_an_error(self, store):
        """A state whose rows were changed is not given, and `verify` is named."""
        ref = store.ref(store.save("chat", CONVERSATION))
        with store._cache.backend.writing() as block:
            ((place, *_),) = block.scan("entries", None, None)
            block.set("entries", place, digest=bytes(16))

        with pytest.raises(DamageError, match="verify"):
            self.other(store, remembered=0).resolve(ref)

    def test_what_is_no_reference(self, store):
        """Other values are type errors that say what to do."""
        head = store.save("chat", CONVERSATION)
        with pytest.raises(TypeError, match=r"StateRef\.parse takes its text"):
            store.resolve(str(store.ref(head)))

        with pytest.raises(TypeError, match="expected a StateRef, got a Head"):
            store.resolve(head)

        with pytest.raises(TypeError, match=r"expected a Head, got .*; save and"):
            store.ref("chat")
