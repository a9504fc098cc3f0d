"""
Which branch of a tree of states recorded which usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.counting import Cost, CostLine, cost
from conversation_state.errors import MissingExtraError
from conversation_state.pages._graphs import History
from conversation_state.tree import MessageTree

__all__ = ["BranchBill", "BranchBills", "compute_bills"]


class BranchBill(NamedTuple):
    """
    What one branch cost, or what several have in common.
    """

    title: str  # what it is called; never from a conversation
    labels: tuple[str, ...]  # the labels of its newest state
    is_present: bool  # whether the present state is in it
    cost: Cost


class BranchBills(NamedTuple):
    # What several branches have in common, if that is anything; then each branch, the
    # present one first, then the newest.
    parts: tuple[BranchBill, ...]
    total: Cost  # the cost of all of them together
    has_prices: bool  # whether amounts were asked for

    @property
    def has_usage(self) -> bool:
        return bool(self.total.lines or self.total.unbilled)


# The number of a revision or a moment, or the identity of a message; None for what is
# before the first message.
_Key: TypeAlias = "int | str | None"
# The key of what is in several branches.
_SHARED = -1


class _TreeShape(NamedTuple):
    # For each state, the tip of the branch that it is in, or `_SHARED`.
    tips: Mapping[_Key, _Key]
    present: _Key  # the present state
    titles: Mapping[_Key, str]  # what the branch to each state is called, oldest first
    labels: Mapping[_Key, tuple[str, ...]]  # the labels of states


class _TreeState(NamedTuple):
    # What it has in the tree: the number of a revision or a moment, or the identity of
    # its last message.
    key: _Key
    state: Aggregator
    # A state before it that shares most of it; None for the first state.
    past: Aggregator | None


class _Union(NamedTuple):
    """
    What all states of a tree have, each identity once: what `cost` takes.
    """

    # The ledger entries; of two with one identity the first, as in a join.
    ledger: list[LedgerEntry]
    entries: list[Entry]  # the messages with a response
    # By the identity of a ledger entry, the key of the first state that has it.
    ledger_keys: dict[str, _Key]
    entry_keys: dict[str, _Key]  # the same for messages


def compute_bills(
    value: History | MessageTree, *, max_priced: int | None = None
) -> BranchBills:
    """
    What each branch of *value* cost: each usage once, at the branch of the first
    state that has it, or as shared if several branches grew from that state.

    So what was rolled back stays with the branch that was abandoned, although the
    ledger of the present one has it, too. The parts add up to the cost of the union
    of all states. O(states + what is new in each).

    Args:
        value: The history or the tree.

        max_priced: Of more ledger entries the tokens are given alone; a price takes
            a tenth of a millisecond. None is not a limit.
    """
    if isinstance(value, History):
        parents: dict[_Key, _Key] = {each.number: each.parent for each in value.states}
        titles = {key: f"Branch to {value.noun} {key}" for key in parents}
        labels: dict[_Key, tuple[str, ...]] = {
            each.number: each.labels for each in value.states
        }
        shape = _TreeShape(_find_tips(parents), value.present, titles, labels)
        return _split_bills(_list_history_states(value), shape, max_priced)

    parents = {node.id: node.parent for node in value.nodes}
    titles = {
        key: f"Branch to message {number}" for number, key in enumerate(parents, 1)
    }
    shape = _TreeShape(_find_tips(parents), value.head, titles, {})
    return _split_bills(_list_tree_states(value), shape, max_priced)


def _find_tips(parents: Mapping[_Key, _Key]) -> dict[_Key, _Key]:
    """
    For each state, the tip of the branch that it is in, or `_SHARED`; under None
    that of what is before the first ones. Parents come before their children.
    """
    # From the newest on: when a state's turn comes, all its children have marked it.
    tips: dict[_Key, _Key] = {}
    for key in reversed([*parents]):
        tip = tips.setdefault(key, key)
        parent = parents[key] if parents[key] in parents else None
        tips[parent] = _SHARED if parent in tips else tip

    tips.setdefault(None, None)
    return tips


def _list_history_states(history: History) -> Iterator[_TreeState]:
    known: dict[int | None, Aggregator] = {}
    for each in history.states:
        if isinstance(each.state, Aggregator):
            known[each.number] = each.state
            yield _TreeState(each.number, each.state, known.get(each.parent))


def _list_tree_states(tree: MessageTree) -> Iterator[_TreeState]:
    past = None
    for state in tree.states:
        yield _TreeState(state.entries[-1].id if len(state) else None, state, past)
        past = state


def _collect_usage(states: Iterable[_TreeState]) -> _Union:
    union = _Union([], [], {}, {})
    for key, state, past in states:
        # What the past has is known already; a state alone is read from its start.
        start = 0 if past is None else state.ledger.common_prefix(past.ledger)
        for line in state.ledger.iterate(start):
            if line.id not in union.ledger_keys:
                union.ledger_keys[line.id] = key
                union.ledger.append(line)

        start = 0 if past is None else state.entries.common_prefix(past.entries)
        for entry in state.entries.iterate(start):
            has_response = getattr(entry.message, "response", None) is not None
            if has_response and entry.id not in union.entry_keys:
                union.entry_keys[entry.id] = key
                union.entries.append(entry)

    return union


def _split_bills(
    states: Iterable[_TreeState], shape: _TreeShape, max_priced: int | None
) -> BranchBills:
    union = _collect_usage(states)
    total, has_prices = _price_union(union, max_priced)
    tips, titles = shape.tips, shape.titles
    lines: dict[_Key, list[CostLine]] = {}
    for line in total.lines:
        tip = tips[union.ledger_keys[line.entry.id]]
        lines.setdefault(tip, []).append(line)

    unbilled: dict[_Key, list[Any]] = {}
    for entry in total.unbilled:
        tip = tips[union.entry_keys[entry.id]]
        unbilled.setdefault(tip, []).append(entry)

    here = tips.get(shape.present)
    keys = [key for key in reversed([*titles]) if tips[key] == key]
    # What was billed before the first message of a tree that has none.
    keys += [None] if not keys else []
    keys.sort(key=lambda key: key != here)
    if _SHARED in lines or _SHARED in unbilled:
        keys.insert(0, _SHARED)

    parts = [
        BranchBill(
            titles.get(key, "In several branches"),
            shape.labels.get(key, ()),
            key == here,
            Cost(tuple(lines.get(key, ())), tuple(unbilled.get(key, ()))),
        )
        for key in keys
    ]
    return BranchBills(tuple(parts), total, has_prices)


def _price_union(union: _Union, max_priced: int | None) -> tuple[Cost, bool]:
    """
    The cost of the union, and whether it has prices.
    """
    if max_priced is None or len(union.ledger) <= max_priced:
        try:
            return cost(union), True
        except MissingExtraError:
            pass

    lines = [CostLine(entry, None) for entry in union.ledger]
    return Cost(tuple(lines)), False
