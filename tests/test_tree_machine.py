"""Message trees, compared step by step with plain dicts."""

import pickle
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state import Aggregator, Usage, UserMessage
from conversation_state.testing.laws import message_trees_add_up, paths_lead_to_states
from conversation_state.tree import MessageTree


class Grown(NamedTuple):
    """A state, and the identities of its entries in a plain tuple."""

    state: Aggregator
    ids: tuple[str, ...]


class MessageTreeMachine(RuleBasedStateMachine):
    """
    States grown, forked, rolled back and joined, and put into a tree that is
    compared with plain dicts.
    """

    states = Bundle[Grown]("states")

    def __init__(self):
        super().__init__()
        self._tree: MessageTree
        self._parents: dict[str, str | None] = {}
        self._others: dict[str, list[str | None]] = {}
        self._unjoined: list[Aggregator] = []
        self._kept: list[tuple[MessageTree, bytes]] = []

    @initialize(target=states)
    def begin(self):
        state = Aggregator.new()
        self._tree = MessageTree.of(state)
        return Grown(state, ())

    @rule(target=states, before=states, text=st.text("ab", max_size=2))
    def grow(self, before, text):
        state = before.state.add(UserMessage(text))
        return Grown(state, (*before.ids, state.entries[-1].id))

    @rule(target=states, before=states, tokens=st.integers(0, 3))
    def add_usage(self, before, tokens):
        return Grown(before.state.add_usage(Usage(tokens)), before.ids)

    @rule(target=states, before=states, data=st.data())
    def go_back(self, before, data):
        length = data.draw(st.integers(0, len(before.ids)))
        if data.draw(st.booleans()):
            return Grown(before.state.fork(at=length), before.ids[:length])

        return Grown(before.state.rollback(length), before.ids[:length])

    @rule(target=states, first=states, second=states)
    def join(self, first, second):
        """Both, in an order in which entries may stand behind others than before."""
        state = first.state.join(second.state)
        new = [each for each in second.ids if each not in first.ids]
        return Grown(state, (*first.ids, *new))

    @rule(added=states)
    def add(self, added):
        before, self._tree = self._tree, self._tree.add(added.state)
        # Compared as bytes: if a part that two trees share is changed in place, the
        # trees stay equal.
        self._kept.append((before, pickle.dumps(before)))
        for above, each in zip((None, *added.ids), added.ids, strict=False):
            first = self._parents.setdefault(each, above)
            others = self._others.setdefault(each, [])
            if above != first and above not in others:
                others.append(above)

        assert [each.id for each in self._tree.present.entries] == [*added.ids]
        assert self._tree.add(added.state) is self._tree, "adding again adds"
        # An entry that follows different entries in several states has one path, which
        # differs from that of some states.
        if not any(self._others.values()):
            self._unjoined.append(added.state)
            paths_lead_to_states(*self._unjoined)

        self._check_tree(self._tree)

    @rule(data=st.data())
    def switch(self, data):
        """Another message is shown: the newest behind it."""
        if not self._parents:
            return

        entry_id = data.draw(st.sampled_from(sorted(self._parents)))
        leaf = entry_id
        while below := [e for e, above in self._parents.items() if above == leaf]:
            leaf = below[-1]

        switched = self._tree.switch(entry_id)
        is_shown = entry_id in {each.id for each in self._tree.present.entries}
        if not any(self._others.values()):
            assert switched.head == leaf, "another leaf is shown"

        is_same = is_shown and self._tree.head == switched.head
        assert (switched is self._tree) == is_same, "a new tree"
        self._tree = switched
        self._check_tree(switched)

    def _check_tree(self, tree):
        message_trees_add_up(tree)
        found = {node.id: node.parent for node in tree.nodes}
        for limit in (0, 1, 3, len(tree) + 1):
            assert tree.nodes[max(len(tree) - limit, 0) :] == tree.list_newest(limit)

        assert found == self._parents, "messages stand behind others"
        assert list(found) == list(self._parents), "in another order"
        others = {each: (*above,) for each, above in self._others.items() if above}
        assert dict(tree.joined) == others, "others are joined"
        copy = pickle.loads(pickle.dumps(tree))
        assert copy == tree, "a copy is another tree"
        assert hash(copy) == hash(tree), "a copy has another hash"

    def teardown(self):
        """Trees that were kept are what they were."""
        for tree, before in self._kept:
            assert pickle.loads(before) == tree, "a kept tree changed"


TestTrees = MessageTreeMachine.TestCase
