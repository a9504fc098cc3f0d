"""
Promises about states: what is saved is loaded, and only what is new written.
"""

from collections import Counter

import pytest

from conversation_state.messages import UserMessage
from conversation_state.parts import ImagePart
from conversation_state.store import Store
from conversation_state.testing.stores import RecordingBackend
from conversation_state.usage import Usage
from tests.store.promises.case import (
    CONVERSATION,
    LARGE,
    StoreCase,
    append_turns,
)


class SavingPromises(StoreCase):
    """
    What is saved is loaded, and only what is new is written.
    """

    def test_every_state_is_restorable(self, store):
        """
        Saved after every message, each state comes back by its number.
        """
        states = append_turns(CONVERSATION, 70)
        heads = [store.save("chat", state) for state in states]
        other = self.other(store)

        assert list(range(1, 71)) == [head.revision for head in heads]
        for head, state in zip(heads, states, strict=True):
            assert state == other.load("chat", at=head.revision)
            assert (len(state), len(state.ledger)) == (head.length, head.ledger_length)
            assert state.id == head.state_id

    def test_identities_come_back(self, store):
        """
        A loaded state joins the saved one without adding anything.
        """
        fork = (
            CONVERSATION.fork()
            .add_assistant_message("At noon.")
            .add_usage(Usage(1), key="a")
        )
        store.save("chat", fork)
        loaded = self.other(store).load("chat")

        assert fork is fork.join(loaded)
        assert (fork.parent_id, fork.root_id) == (loaded.parent_id, loaded.root_id)
        assert (fork.init_len, fork.usage) == (loaded.init_len, loaded.usage)

    @pytest.mark.parametrize(
        "key",
        ["a" * 24 + "-1", "A" * 24 + "-1", "ab " * 8 + "-1", "\0", "é", "0" * 24 + "-"],
    )
    def test_any_key_comes_back(self, store, key):
        """
        Keys that users chose are kept as they are, also those that look like generated
        identities.
        """
        usages = CONVERSATION.add_usage(Usage(1), key=key)
        store.save("chat", usages)

        assert [key] == [entry.id for entry in self.other(store).load("chat").ledger]
        assert () == store.verify()

    def test_loaded_here_is_the_same_object(self, store):
        """
        A store gives the very state it saved last, while that is the head.
        """
        store.save("chat", CONVERSATION)

        assert CONVERSATION is store.load("chat")

    @pytest.mark.parametrize("length", [10, 1_000])
    def test_writes_what_is_new(self, watched, calls, length):
        """
        One more message is two rows, for a conversation of any length.
        """
        state = CONVERSATION.extend([UserMessage("again")] * length)
        watched.save("chat", state)
        calls.clear()

        watched.save("chat", state.add_user_prompt("and?"))

        added = Counter({call.table: call.rows for call in calls if call.rows})
        assert {"entries": 1, "revisions": 1} == added
        assert 4 >= len(calls)

    def test_same_state_writes_nothing(self, watched, calls):
        """
        Saving the very state that is the head gives the head again.
        """
        head = watched.save("chat", CONVERSATION)
        calls.clear()

        assert head == watched.save("chat", CONVERSATION)
        assert head == self.other(watched).save("chat", CONVERSATION)
        assert [] == [call for call in calls if call.verb in {"add", "set"}]
        assert 1 == len(watched.history("chat"))

    def test_shared_past_is_written_once(self, store, watched, calls):
        """
        A fork under another name writes only its own messages, whether or not
        a store remembers its past.
        """
        state = CONVERSATION.extend([UserMessage("again")] * 100).add_usage(Usage(1))
        watched.save("chat", state)
        far = RecordingBackend(self.other(store)._core.backend, calls.append)
        for name, saving in (("here", watched), ("far", Store(far, remembered=0))):
            calls.clear()
            fork = state.fork().add_user_prompt(name)
            saving.save(name, fork)

            added = [
                call.rows for call in calls if call == ("add", "entries", call.rows)
            ]
            usages = [call for call in calls if call[:2] == ("add", "ledger")]
            assert ([1], []) == (added, usages), name
            assert fork == self.other(watched).load(name)

    def test_fork_writes_no_messages(self, watched, calls):
        """
        A fork costs three rows, and is a new state with the same past.
        """
        watched.save("chat", CONVERSATION.extend([UserMessage("again")] * 100))
        calls.clear()
        head = watched.fork("chat", "fork")
        fork = watched.load("fork")

        assert 3 == sum(call.rows for call in calls)
        assert "entries" not in {call.table for call in calls if call.rows}
        assert head.state_id == fork.id
        assert (watched.load("chat").id, 101) == (fork.parent_id, fork.init_len)
        assert watched.load("chat").messages == fork.messages
        assert () == watched.verify()

    def test_going_back_and_on(self, store):
        """
        A name that goes back to an earlier state and on from there keeps both
        futures.
        """
        states = append_turns(CONVERSATION, 40)
        for state in states:
            store.save("chat", state)

        back = states[10]
        head = store.save("chat", back, expecting=store.latest("chat"))
        on = append_turns(back, 40)
        for state in on:
            store.save("chat", state)

        other = self.other(store)
        assert on[-1] == other.load("chat")
        assert states[-1] == other.load("chat", at=40)
        assert back == other.load("chat", at=head)
        assert states[-1].join(on[-1]) == other.load("chat", at=40).join(
            other.load("chat")
        )
        assert () == store.verify()

    def test_verify_names_the_entry(self, store):
        """
        Each change that was made without the store is found, and nothing else is
        reported.
        """
        shown = UserMessage([ImagePart(data=LARGE)])
        state = append_turns(CONVERSATION, 10)[-1].add(shown)
        store.save("chat", state)
        backend = store._core.backend
        with backend.reading() as rows:
            entries = rows.scan("entries", None, None)
            (blob,) = rows.scan("blobs", None, None, columns=("digest",))

        def find(change):
            with backend.writing() as rows:
                change(rows)

            return {(damage.where, damage.id) for damage in store.verify()}

        place, _, body, *_ = entries[3]
        changed = body.replace(b"sa", b"pa")

        assert {("entries", state.entries[3].id)} == find(
            lambda rows: rows.set("entries", place, body=changed)
        )
        assert set() == find(lambda rows: rows.set("entries", place, body=body))
        assert {("blobs", blob[0].hex()), ("entries", state.entries[-1].id)} == find(
            lambda rows: rows.set("blobs", blob[0], data=b"other")
        )
        assert set() == find(lambda rows: rows.set("blobs", blob[0], data=LARGE))
        assert ["entries"] == [
            where
            for where, _ in find(lambda rows: rows.remove("entries", place, place + 1))
        ]
