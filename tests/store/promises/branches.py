"""Promises about the history of a name, which is a tree."""

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage
from tests.store.promises.case import CONVERSATION, StoreCase, append_turns


def list_parents(store):
    """The revision that each revision grew from, the oldest first."""
    return [head.parent for head in reversed(store.history("chat"))]


class BranchPromises(StoreCase):
    """Each revision has the number of the one it grew from."""

    def test_rollback_begins_a_branch(self, reopen):
        """
        The revisions before a rollback are a branch: they can be listed and restored,
        also by a store that is opened later.
        """
        states = append_turns(CONVERSATION, 4)
        store = reopen(None)
        for state in states:
            store.save("chat", state)

        assert 2 == store.rollback("chat", 2).parent

        store.update("chat", lambda state: state.add_user_prompt("another way"))
        store = reopen(store)

        assert [None, 1, 2, 3, 2, 5] == list_parents(store)

        again = store.rollback("chat", 4)

        assert (7, 4) == (again.revision, again.parent)
        assert states[3].entries == store.load("chat").entries
        assert "another way" == store.load("chat", at=6)[-1].text
        assert () == store.verify()

    def test_replaced_heads(self, store):
        """
        A state that replaces the head grows from the revision with the most messages
        that it begins with, the newest of several; from none if there is no such
        revision.
        """
        first, second, third = append_turns(CONVERSATION, 3)
        for state in (first, second, third):
            store.save("chat", state)

        far = self.other(store, remembered=0)
        store.save("chat", second.add_user_prompt("instead"), expecting=3)
        far.save("chat", first.add_user_prompt("or this"), expecting=4)
        far.save("chat", Aggregator.new().add_user_prompt("Hi!"), expecting=5)
        store.save("chat", third.add_user_prompt("at last"), expecting=6)

        assert [None, 1, 2, 2, 1, None, 3] == list_parents(store)

    def test_replaced_by_a_fork_of_nothing(self, store):
        """
        A state grows from a revision without messages only if it is of the same
        conversation.
        """
        empty = Aggregator.new()
        store.save("chat", empty)
        store.save("chat", empty.add_user_prompt("one"))
        store.save("chat", empty.add_user_prompt("two"), expecting=2)
        store.save("chat", Aggregator.new().add_user_prompt("three"), expecting=3)

        assert [None, 1, 1, None] == list_parents(store)

    def test_message_tree(self, store):
        """
        The tree of a name has the messages of all branches, each once and in order, the
        messages of the head shown, and the whole ledger.
        """
        states = append_turns(CONVERSATION, 3)
        for state in states:
            store.save("chat", state)

        store.rollback("chat", 2)
        store.update("chat", lambda state: state.add_user_prompt("another way"))
        store.save("chat", CONVERSATION.add_user_prompt("again"), expecting=5)
        store.rollback("chat", 3)
        tree = store.message_tree("chat")
        every = [store.load("chat", at=at) for at in range(1, 8)]

        assert MessageTree.of(*every) == tree
        assert tree == self.other(store, remembered=0).message_tree("chat")
        assert states[2].entries == tree.present.entries
        assert ["said 0", "again"] == [
            tree.node(each).message.text
            for each in tree.siblings(states[0].entries[1].id)[1]
        ]
        assert 2 == len(tree.siblings(states[2].entries[3].id)[1])
        assert states[2].total_usage == tree.total_usage
        with pytest.raises(NotSavedError):
            store.message_tree("nothing")

    def test_message_tree_has_the_whole_bill(self, store):
        """
        The tree also has the ledger entries of a revision whose ledger, but not its
        messages, was replaced.
        """
        with_usage = CONVERSATION.add_usage(Usage(7), key="first")
        store.save("chat", with_usage)
        store.save("chat", CONVERSATION.add_usage(Usage(5), key="second"), expecting=1)
        tree = store.message_tree("chat")

        assert {"first", "second"} == {entry.id for entry in tree.present.ledger}

    def test_rollback_of_a_rollback(self, store):
        """
        A rollback grows from the revision that was requested, not from another one with
        the same messages.
        """
        usage = CONVERSATION.add_usage(Usage(7), key="first usage")
        store.save("chat", CONVERSATION, label="first")
        store.save("chat", usage.add_user_prompt("more"))
        store.rollback("chat", "first")
        store.save("chat", store.load("chat").add_user_prompt("on"))
        store.rollback("chat", 1)

        assert [None, 1, 1, 3, 1] == list_parents(store)
