"""Promises about heads: of two writers, none loses what it saved."""

from collections.abc import Callable
from typing import Any

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage
from tests.store.promises.case import CONVERSATION, StoreCase, append_turns


class HeadPromises(StoreCase):
    """No save is lost because of another writer."""

    def test_grown_and_not_expected(self, store):
        """A state that grew from the head is refused if another head is expected."""
        old = store.save("chat", CONVERSATION)
        grown = CONVERSATION.add_user_prompt("And then?")
        head = store.save("chat", grown)
        for expecting in (old, 1, 3, 0):
            with pytest.raises(StaleHeadError) as caught:
                store.save("chat", grown.add_user_prompt("?"), expecting=expecting)

            assert (expecting, head) == (caught.value.expected, caught.value.actual)

        assert head == store.latest("chat")
        again = store.save("chat", grown.add_user_prompt("!"), expecting=head)
        assert again == store.latest("chat")

    def test_stale(self, store):
        """
        A save that expects another head fails, reports both heads, and writes nothing.
        """
        first = store.save("chat", CONVERSATION)
        ours, theirs = (
            CONVERSATION.add_user_prompt("ours"),
            CONVERSATION.add_user_prompt("theirs"),
        )
        second = self.other(store).save("chat", theirs)

        for expecting in (None, first, 1, 0):
            with pytest.raises(StaleHeadError) as caught:
                store.save("chat", ours, expecting=expecting)

            assert ("chat", expecting, second) == (
                caught.value.name,
                caught.value.expected,
                caught.value.actual,
            )

        assert theirs == store.load("chat")
        assert 2 == len(store.history("chat"))

    def test_refuses_shorter_states(self, store):
        """
        Without *expecting*, a state must have all messages and ledger entries of the
        head, in order.
        """
        head = store.save("chat", CONVERSATION.add_usage(Usage(1)))
        for state in (
            Aggregator.new(),
            CONVERSATION,
            CONVERSATION.fork(),
            CONVERSATION.add_usage(Usage(1)),
        ):
            with pytest.raises(StaleHeadError):
                store.save("chat", state)

        joined = store.load("chat").join(CONVERSATION.add_user_prompt("late"))
        store.save("chat", joined)
        store.save("chat", Aggregator.new(), expecting=2)

        assert 3 == store.latest("chat").revision
        assert head == store.latest("chat", at=1)

    def test_all_or_none(self, store):
        """Several names are saved at once, and none of them if one is stale."""
        notes = Aggregator.new().add_user_prompt("notes")
        heads = store.save_all(
            {"chat": CONVERSATION, "notes": notes}, expecting={"chat": 0}
        )
        elsewhere = self.other(store)
        more = elsewhere.load("notes").add_user_prompt("more notes")
        elsewhere.save("notes", more)
        late = {"chat": CONVERSATION.add_user_prompt("late"), "notes": notes.fork()}
        for expecting in (heads, {"notes": heads["notes"]}, {}):
            with pytest.raises(StaleHeadError) as caught:
                store.save_all(late, expecting=expecting)

            assert "notes" == caught.value.name

        assert ["chat", "notes"] == [*heads]
        assert (CONVERSATION, more) == (store.load("chat"), store.load("notes"))
        assert 1 == len(store.history("chat"))
        assert () == store.verify()

    def test_all_with_trees_and_notes(self, store):
        """Trees are saved with their branches, and notes with them, or nothing is."""
        asked = Aggregator.new().add_user_prompt("Where to?")
        branches = [
            asked.fork().add_assistant_message(text) for text in ("Sea.", "Hill.")
        ]
        tree = MessageTree.of(*branches)
        tree = tree.switch(branches[0].entries[-1].id)
        states = {"chat": CONVERSATION, "tree": tree}
        noted = {"tree": {"title": "Trip"}}
        with pytest.raises(ValueError, match="notes"):
            store.save_all(states, notes={"tree": {"title": "x" * 20_000}})

        assert () == store.names()
        heads = store.save_all(states, notes=noted)

        assert {"title": "Trip"} == store.notes("tree")
        assert store.load("tree") == tree.present
        assert tree == store.message_tree("tree")
        assert heads == {name: store.latest(name) for name in states}
        with pytest.raises(StaleHeadError):
            store.save_all(states, expecting={"tree": 0}, notes={"chat": {"x": 1}})

        assert {} == store.notes("chat")

    def test_all_of_nothing(self, store):
        """
        Saving no states returns no heads; the head of a name that is not saved is an
        error.
        """
        assert {} == store.save_all({})

        with pytest.raises(ValueError, match="states has no state"):
            store.save_all({"chat": CONVERSATION}, expecting={"notes": 1})

        assert () == store.names()

    def test_deletes_what_was_expected(self, store):
        """A name is not deleted if its head is not the expected one."""
        first = store.save("chat", CONVERSATION)
        head = self.other(store).save("chat", CONVERSATION.add_user_prompt("news"))
        for expecting in (first, 1, 0):
            with pytest.raises(StaleHeadError):
                store.delete("chat", expecting=expecting)

        assert ("chat",) == store.names()

        store.delete("chat", expecting=head)

        assert () == store.names()

    def test_expected_heads(self, store):
        """
        A label, a note and a fork that expect another head change nothing, whichever
        revision they are of; labels and notes make no head another.
        """
        other = self.other(store)
        first = store.save("chat", CONVERSATION)
        head = other.save("chat", CONVERSATION.add_user_prompt("news"))
        acts: list[Callable[[Any], object]] = [
            lambda head: store.label("chat", "kept", at=1, expecting=head),
            lambda head: store.annotate("chat", {"by": "a"}, at=1, expecting=head),
            lambda head: store.annotate("chat", {"by": "a"}, expecting=head),
            lambda head: store.fork("chat", "fork", at=1, expecting=head),
        ]
        for act in acts:
            for expecting in (first, 1, 0, 3):
                with pytest.raises(StaleHeadError) as caught:
                    act(expecting)

                assert ("chat", head) == (caught.value.name, caught.value.actual)

            with pytest.raises(TypeError, match="expected a Head, a revision"):
                act("2")

        assert first == other.latest("chat", at=1)
        assert ({}, {}) == (other.notes("chat"), other.notes("chat", at=1))
        assert ("chat",) == other.names()

        for act, newest in zip(acts, (2, head, 2, head), strict=True):
            act(newest)

        kept = other.latest("chat", at="kept")
        assert (1, {"by": "a"}) == (kept.revision, kept.notes)
        assert {"by": "a"} == other.notes("chat")
        assert len(CONVERSATION) == len(other.load("fork"))
        with pytest.raises(NotSavedError):
            store.label("none", "kept", expecting=0)

    def test_reads_what_is_new(self, store, watched):
        """
        Of a head that another store moved, only the new rows are read: the messages
        that were known are the same objects.
        """
        states = append_turns(CONVERSATION, 50)
        store.save("chat", states[-2])
        before = watched.load("chat")
        store.save("chat", states[-1])
        after = watched.load("chat")

        assert states[-1] == after
        assert before.entries[0] is after.entries[0]

    def test_update_starts(self, store):
        """An update of a name that is not there needs a state to start from."""
        with pytest.raises(NotSavedError):
            store.update("chat", lambda state: state)

        made = store.update(
            "chat", lambda state: state.add_user_prompt("hi"), start=CONVERSATION
        )

        assert ["When is the next train?", "hi"] == [m.text for m in made]
        assert made == store.load("chat")
