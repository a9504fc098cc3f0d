"""
What is true of every message tree; part of `laws`.
"""

from __future__ import annotations

from conversation_state.aggregator import Aggregator, ledger_union
from conversation_state.tree import MessageTree

__all__ = ["message_trees_add_up", "paths_lead_to_states"]


def message_trees_add_up(tree: MessageTree) -> None:
    """
    Every message stands behind its parent, among its siblings, once; each path ends
    with its message and has the whole ledger; switching goes there.
    """
    nodes = {node.id: node for node in tree.nodes}
    seen: set[str | None] = {None}
    for node in tree.nodes:
        assert node.parent in seen, "a parent came later"
        seen.add(node.id)
        position, ids = tree.siblings(node.id)
        assert ids[position] == node.id, "another position"
        assert len({*ids}) == len(ids), "a sibling twice"
        if node.parent is not None:
            assert nodes[node.parent].children == ids, "other siblings"

        path = tree.path(node.id)
        assert path.entries[-1].id == node.id, "a path leads elsewhere"
        assert path[-1] == node.message, "another message"
        assert {*ledger_union(*tree.states)} == {*path.ledger}, "another bill"
        switched = tree.switch(node.id)
        shown = [entry.id for entry in switched.present.entries]
        assert node.id in shown or switched is tree, "it is not shown"
        assert switched.head == shown[-1], "the head is not last"

    assert len(nodes) == len(tree) == len(tree.nodes), "a message twice"
    leaves = [each for each in nodes if not nodes[each].children]
    assert leaves == list(tree.leaves), "other leaves"
    assert (tree.head is None) == (len(tree.present) == 0), "a head without messages"


def paths_lead_to_states(*states: Aggregator) -> None:
    """
    Of states made by ``add``, ``fork``, ``rollback`` and ``before``, the path of each
    one's last entry has that state's messages, and no entry stands behind several.
    """
    tree = MessageTree.of(*states)
    message_trees_add_up(tree)
    assert not tree.joined, "an entry stands behind several"
    for state in states:
        last = state.entries[-1].id if len(state) else None
        assert tree.path(last).entries == state.entries, f"not the path of {state!r}"
        assert tree.add(state).present.entries == state.entries, "it is not shown"

    assert tree.present.entries == states[-1].entries, "the last state is not shown"
