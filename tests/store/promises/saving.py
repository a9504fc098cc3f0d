"""Promises about states: what is saved is loaded, and only what is new written."""

from collections import Counter

import pytest

from conversation_state.codec import decode, encode
from conversation_state.errors import StaleHeadError
from conversation_state.messages import UserMessage
from conversation_state.store import Store
from conversation_state.usage import Usage
from tests.store.promises.case import (
    CONVERSATION,
    RecordingBackend,
    StoreCase,
)


class SavingPromises(StoreCase):
    """What is saved is loaded, and only what is new is written."""

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
        """A store gives the very state it saved last, while that is the head."""
        store.save("chat", CONVERSATION)

        assert CONVERSATION is store.load("chat")

    @pytest.mark.parametrize("length", [10, 1_000])
    def test_writes_what_is_new(self, watched, calls, length):
        """One more message is two rows, for a conversation of any length."""
        state = CONVERSATION.extend([UserMessage("again")] * length)
        watched.save("chat", state)
        calls.clear()

        watched.save("chat", state.add_user_prompt("and?"))

        added = Counter({call.table: call.rows for call in calls if call.rows})
        assert {"entries": 1, "revisions": 1} == added
        assert 4 >= len(calls)

    def test_same_state_writes_nothing(self, watched, calls):
        """Saving the very state that is the head gives the head again."""
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
        far = RecordingBackend(self.other(store)._cache.backend, calls.append)
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

    @pytest.mark.parametrize(
        ("saved", "equal"), [("1", "1.0"), ("true", "1"), ("0.0", "-0.0")]
    )
    def test_equal_past(self, store, saved, equal):
        """
        What continues an equal past is saved by a store that loads as by one that
        remembers, though its bytes differ; another value there is refused by both.
        """
        note = {"at": [98765]}
        state = CONVERSATION.add(UserMessage("in", metadata=note)).add_usage(Usage(1))
        data = encode(state)
        first, same, other = [
            decode(data.replace(b"98765", each.encode()))
            for each in (saved, equal, "7")
        ]
        far = Store(self.other(store)._cache.backend, remembered=0)
        for name, saving in (("here", store), ("far", far)):
            store.save(name, first)

            grown = same.add_user_prompt("more").add_usage(Usage(2))
            head = saving.save(name, grown)
            assert head == saving.save(name, grown)
            assert grown == self.other(store).load(name)
            for refused in (other.add_user_prompt("a").add_user_prompt("b"), same):
                with pytest.raises(StaleHeadError):
                    saving.save(name, refused)

        assert () == store.verify()

    def test_fork_writes_no_messages(self, watched, calls):
        """A fork costs three rows, and is a new state with the same past."""
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
