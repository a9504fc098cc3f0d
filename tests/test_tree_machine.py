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
    compared with plain dicts, whose keys are the identities on the way to a message.
    """

    states = Bundle[Grown]("states")

    def __init__(self):
        super().__init__()
        self._tree: MessageTree
        self._nodes: dict[tuple[str, ...], str] = {}  # their ids
        self._shown: tuple[str, ...] = ()
        # What was shown last behind a message, or behind none.
        self._shown_last: dict[tuple[str, ...], str] = {}
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
        for length, each in enumerate(added.ids, 1):
            count = len(self._list_copies(each))
            name = f"{each}~{count + 1}" if count else each
            self._nodes.setdefault(added.ids[:length], name)

        self._show_way(added.ids)
        assert self._tree.add(added.state) is self._tree, "adding again adds"
        # The identity of a message that stands behind several means one of them.
        if len({way[-1] for way in self._nodes}) == len(self._nodes):
            self._unjoined.append(added.state)
            paths_lead_to_states(*self._unjoined)

    @rule(data=st.data())
    def switch(self, data):
        """Another message is shown, and behind it what was shown last."""
        if not self._nodes:
            return

        node_id = data.draw(st.sampled_from(sorted(self._nodes.values())))
        (way,) = [way for way, each in self._nodes.items() if each == node_id]
        if node_id == way[-1]:
            # Of several, that one which is shown already.
            shown = [
                copy for copy in self._list_copies(way[-1]) if self._is_shown(copy)
            ]
            (way,) = shown or [way]

        while way in self._shown_last:
            way += (self._shown_last[way],)

        before, self._tree = self._tree, self._tree.switch(node_id)
        assert (self._tree is before) == (way == self._shown), "a new tree"
        self._show_way(way)

    def _list_copies(self, entry_id):
        return [way for way in self._nodes if way[-1] == entry_id]

    def _is_shown(self, way):
        return self._shown[: len(way)] == way

    def _show_way(self, way):
        self._shown = way
        for length, each in enumerate(way):
            self._shown_last[way[:length]] = each

        assert [each.id for each in self._tree.present.entries] == [*way]
        assert self._tree.head == self._nodes.get(way), "another message is shown last"
        self._check_tree(self._tree)

    def _check_tree(self, tree):
        message_trees_add_up(tree)
        found = {node.id: node.parent for node in tree.nodes}
        for limit in (0, 1, 3, len(tree) + 1):
            assert tree.nodes[max(len(tree) - limit, 0) :] == tree.list_newest(limit)

        parents = {each: self._nodes.get(way[:-1]) for way, each in self._nodes.items()}
        assert found == parents, "messages stand behind others"
        assert list(found) == list(parents), "in another order"
        joined = {
            entry_id: tuple([parents[self._nodes[way]] for way in rest])
            for entry_id in {way[-1] for way in self._nodes}
            for _, *rest in [self._list_copies(entry_id)]
            if rest
        }
        assert dict(tree.joined) == joined, "others are joined"
        copy = pickle.loads(pickle.dumps(tree))
        assert copy == tree, "a copy is another tree"
        assert hash(copy) == hash(tree), "a copy has another hash"

    def teardown(self):
        """Trees that were kept are what they were."""
        for tree, before in self._kept:
            assert pickle.loads(before) == tree, "a kept tree changed"


TestTrees = MessageTreeMachine.TestCase
