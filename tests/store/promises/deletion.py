"""Promises about deleting, collecting and erasing; and about large content."""

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage, ToolMessage, UserMessage
from conversation_state.parts import ImagePart, TextPart
from conversation_state.store import ERASED, Store
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.store.promises.case import (
    CONVERSATION,
    LARGE,
    RecordingBackend,
    StoreCase,
    append_turns,
    read_rows,
)


class DeletionPromises(StoreCase):
    """Deleted content is gone, and all other content stays."""

    def test_delete_and_collect(self, store):
        """Content that no name needs is collected; all other content stays."""
        states = append_turns(CONVERSATION, 30)
        store.save("chat", states[-1])
        store.save("fork", states[10].fork().add_user_prompt("mine"))
        other = self.other(store)
        kept = other.load("fork")
        store.delete("chat")

        assert ("fork",) == store.names()

        collected = store.collect_garbage()

        assert (19, 19) == (collected.entries, collected.ledger_entries)
        assert 0 < collected.size
        assert kept == other.load("fork") == self.other(store).load("fork")
        assert () == store.verify()
        assert 0 == store.collect_garbage().entries

    def test_nothing_is_left(self, store):
        """
        After every name was deleted and garbage was collected, the only row left is the
        record of the collection.
        """
        shown = UserMessage([ImagePart(data=LARGE)])
        state = append_turns(CONVERSATION.add(shown), 5)[-1]
        store.save("chat", state, label="kept")
        store.save("fork", state.fork(at=3).add(shown), label="kept, too")
        store.fork("chat", "third")
        for name in store.names():
            store.delete(name)

        store.collect_garbage()
        left = {name for name, rows in read_rows(store._cache.backend).items() if rows}

        assert {"changes"} == left

    @pytest.mark.parametrize("names", [3, 60])
    def test_collects_in_few_calls(self, watched, calls, names):
        """A collection makes few calls while others wait, for any amount of garbage."""
        for i in range(names):
            state = Aggregator.new(messages=[UserMessage(f"{i}")])
            watched.save(f"chat {i}", state.add_usage(Usage(i)))
            watched.delete(f"chat {i}")

        calls.clear()
        collected = watched.collect_garbage()
        found = [call.verb for call in calls if call.table == "revisions"]
        waiting = [call.table for call in calls].index("revisions", 1)

        assert ["scan", "scan_each"] == found
        assert (names, names) == (collected.entries, collected.ledger_entries)
        assert 26 > len(calls[waiting:])

    def test_places_that_came_free(self, store):
        """
        A store that remembers collected rows does not take them for new rows in their
        places.
        """
        states = append_turns(CONVERSATION, 30)
        other = self.other(store)
        other.save("chat", states[-1])
        store.save("short", states[10])
        store.delete("chat")
        store.collect_garbage()
        new = append_turns(states[10], 40)
        store.save("short", new[-1])

        assert new[-1] == other.load("short")
        other.save("chat", states[-1].add_user_prompt("and?"))
        assert states[-1] == self.other(store).load("chat")[: len(states[-1])] or (
            states[-1].messages == self.other(store).load("chat").messages[:-1]
        )
        assert () == store.verify()

    def test_erase(self, store):
        """
        Every state that had the entry has a tombstone in its place, in any store; ids
        of calls and digests stay.
        """
        call = AssistantMessage(
            "secret", tool_calls=[ToolCall("c1", "clock", '{"secret": 1}')], name="ann"
        )
        state = CONVERSATION.add(call).add_tool_response(
            ToolMessage("12", tool_call_id="c1")
        )
        head = store.save("chat", state)
        # Another order, and so another branch, with the same entry.
        apart = Aggregator.new().add_user_prompt("first").join(state)
        store.save("apart", apart)
        other = self.other(store)
        assert state == other.load("chat")

        receipt = store.erase(state.entries[1].id, reason="asked for")

        assert (2, "asked for") == (receipt.rows, receipt.reason)
        for name, at in (("chat", 1), ("apart", 2)):
            stone = other.load(name)[at]
            assert isinstance(stone, AssistantMessage)
            assert ("", "", "c1", "") == (
                stone.text,
                stone.name,
                stone.tool_calls[0].id,
                stone.tool_calls[0].arguments,
            )
            assert receipt.content == stone.metadata[ERASED]["content"]

        assert state.messages[2] == other.load("chat")[2]
        assert head == store.latest("chat")
        assert () == store.verify()
        again = store.erase(state.entries[1].id, reason="once more")
        assert (0, "asked for", receipt.erased_at) == (
            again.rows,
            again.reason,
            again.erased_at,
        )

    def test_erase_a_tombstone(self, store):
        """
        An entry that was saved as a tombstone, from another store, is erased already:
        the receipt has its reason, and a state with the content can't bring it back.
        """
        state = CONVERSATION.add_user_prompt("secret")
        elsewhere = Store(MemoryBackend())
        elsewhere.save("chat", state)
        first = elsewhere.erase(state.entries[1].id, reason="asked for")
        stone = elsewhere.load("chat")
        store.save("chat", stone)
        receipt = store.erase(state.entries[1].id, reason="here, too")

        assert (0, 0, "asked for") == (receipt.rows, receipt.blobs, receipt.reason)
        assert first.content == receipt.content
        assert receipt == store.erase(state.entries[1].id, reason="once more")
        assert stone == self.other(store).load("chat")

        apart = Aggregator.new().add_user_prompt("apart").join(state)
        self.other(store).save("apart", apart)

        assert "" == store.load("apart")[2].text
        assert () == store.verify()

    def test_erase_beside_a_tombstone(self, store):
        """
        If one state has the content and another has a tombstone, the content is erased,
        for the reason that is given.
        """
        state = CONVERSATION.add_user_prompt("secret")
        elsewhere = Store(MemoryBackend())
        elsewhere.save("chat", state)
        elsewhere.erase(state.entries[1].id, reason="asked for")
        stone = Aggregator.new().add_user_prompt("apart").join(elsewhere.load("chat"))
        store.save("apart", stone)
        store.save("chat", state)
        receipt = store.erase(state.entries[1].id, reason="here, too")

        assert (1, "here, too") == (receipt.rows, receipt.reason)
        assert "" == store.load("chat")[1].text
        assert stone == store.load("apart")
        assert () == store.verify()

    def test_goes_on_after_erasing(self, store, calls):
        """
        A state that was loaded after an erasure is continued with one new row, and so
        is one that was loaded before.
        """
        state = CONVERSATION.extend([UserMessage("again")] * 100)
        store.save("chat", state)
        store.erase(state.entries[50].id, reason="asked for")
        loaded = self.other(store, remembered=0).load("chat")
        for mine in (loaded.add_user_prompt("and?"), state.add_user_prompt("or?")):
            calls.clear()
            other = Store(
                RecordingBackend(self.other(store)._cache.backend, calls.append)
            )
            other.save("chat", mine, expecting=other.latest("chat"))

            added = [call.rows for call in calls if call[:2] == ("add", "entries")]
            assert [1] == added

        assert () == store.verify()
        assert "" == store.load("chat")[50].text

    def test_erased_elsewhere_stays_erased(self, store):
        """
        Erased content does not come back with a head that was saved here and has not
        changed since.
        """
        store.save("chat", CONVERSATION)
        other = self.other(store)
        mine = Aggregator.new().add_user_prompt("mine")
        other.save("mine", mine)
        store.erase(CONVERSATION.entries[0].id, reason="asked for")
        other.save("mine", mine.join(CONVERSATION))

        for reading in (store, other, self.other(store)):
            assert ["mine", ""] == [m.text for m in reading.load("mine")]

        # Now the other store remembers this head as well.
        other.save("new", Aggregator.new().add_user_prompt("new"))
        other.save("new", other.load("new").join(CONVERSATION))

        assert ["new", ""] == [m.text for m in other.load("new")]
        assert () == store.verify()

    def test_large_content_is_kept_once(self, watched, calls):
        """
        An image in many messages is stored once, and is collected with the last of
        them.
        """
        shown = UserMessage(
            [TextPart("look"), ImagePart(data=LARGE), ImagePart(data=b"x")]
        )
        state = Aggregator.new(messages=[shown, shown])
        watched.save("chat", state)
        watched.save("other", Aggregator.new(messages=[shown]))

        assert 1 == sum(call.rows for call in calls if call.table == "blobs")
        assert state == self.other(watched).load("chat")

        watched.delete("other")
        assert 0 == watched.collect_garbage().blobs
        assert 0 == watched.erase(state.entries[0].id, reason="asked").blobs
        assert () == watched.verify()
        assert 1 == watched.erase(state.entries[1].id, reason="asked").blobs
        assert () == watched.verify()

    def test_text_like_a_reference(self, store):
        """A text that looks like a reference to large content is loaded as a text."""
        state = Aggregator.new(
            messages=[
                UserMessage('[{"role": "user"}, [[0, "00"]]]'),
                UserMessage("", metadata={"blobs": [[0, "00" * 32]], "data": ""}),
                UserMessage([ImagePart(data=LARGE)], metadata={"x": [[0, "00" * 32]]}),
                UserMessage(
                    "", metadata={ERASED: {"content": "0" * 32, "reason": "x"}}
                ),
                UserMessage(
                    "no", metadata={ERASED: {"content": "1" * 32, "reason": "x"}}
                ),
                UserMessage("", metadata={ERASED: {"content": 7, "reason": [1]}}),
            ]
        )
        store.save("chat", state)

        assert state == self.other(store).load("chat")
        assert () == store.verify()

    def test_large_content_of_a_first_message(self, store):
        """
        An image in the first message of what was deleted is collected at once, not
        by the next collection.
        """
        shown = UserMessage([ImagePart(data=LARGE)])
        store.save("kept", CONVERSATION)
        store.save("chat", Aggregator.new(messages=[shown]).add_user_prompt("more"))
        store.delete("chat")
        collected = store.collect_garbage()

        assert (2, 1) == (collected.entries, collected.blobs)
        assert 0 == store.collect_garbage().blobs
        assert () == store.verify()
