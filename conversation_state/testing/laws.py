"""
What is true of every value of this library, as plain functions that assert it.

For Hypothesis and for anyone who makes values of their own: a store that
loads states, an executor that ships turns. A law returns nothing, or raises
an `AssertionError` that says what should have been equal.

What lives here: laws of usages, messages, chunks, states, comparisons, views,
timelines, message trees, cells and branches. What does not: examples to hold them
against (`strategies`), and laws over many steps (`machines`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

from conversation_state.aggregator import Aggregator
from conversation_state.parallel import fan_out
from conversation_state.testing._diff_laws import (
    diffs_are_complete,
    diffs_are_mirrored,
    joins_bring_the_difference,
    nothing_differs_from_itself,
)
from conversation_state.testing._state_laws import (
    checkpoints_merge_what_was_added,
    checkpoints_restore,
    forks_inherit,
    forks_inherit_up_to,
    forks_of_forks_join_the_root,
    join_counts_usage_once,
    join_is_associative,
    join_is_idempotent,
    join_keeps_both_orders,
    parents_join_their_forks,
    siblings_join_in_call_order,
    states_add_up,
    turns_bring_what_was_added,
    unchanged,
)
from conversation_state.testing._timeline_laws import (
    goto_changes_no_moments,
    message_trees_add_up,
    nothing_committed_is_lost,
    paths_lead_to_states,
    redo_then_undo_is_the_identity,
    timelines_add_up,
    timelines_unchanged,
    undo_then_redo_is_the_identity,
)
from conversation_state.testing._value_laws import (
    accumulators_concat,
    adding_is_a_commutative_monoid,
    concat_is_associative,
    concat_of_one_is_itself,
    copies_are_equal,
    equal_values_hash_alike,
    larger_is_a_semilattice,
    replacing_nothing_changes_nothing,
)
from conversation_state.trimming import COMPACTED, TrimContext

__all__ = [
    "accumulators_concat",
    "adding_is_a_commutative_monoid",
    "checkpoints_merge_what_was_added",
    "checkpoints_restore",
    "concat_is_associative",
    "concat_of_one_is_itself",
    "copies_are_equal",
    "diffs_are_complete",
    "diffs_are_mirrored",
    "equal_values_hash_alike",
    "fan_out_is_a_fold",
    "forks_inherit",
    "forks_inherit_up_to",
    "forks_of_forks_join_the_root",
    "goto_changes_no_moments",
    "histories_are_linear",
    "join_counts_usage_once",
    "join_is_associative",
    "join_is_idempotent",
    "join_keeps_both_orders",
    "joins_bring_the_difference",
    "larger_is_a_semilattice",
    "message_trees_add_up",
    "nothing_committed_is_lost",
    "nothing_differs_from_itself",
    "parents_join_their_forks",
    "paths_lead_to_states",
    "redo_then_undo_is_the_identity",
    "replacing_nothing_changes_nothing",
    "siblings_join_in_call_order",
    "states_add_up",
    "timelines_add_up",
    "timelines_unchanged",
    "turns_bring_what_was_added",
    "unchanged",
    "undo_then_redo_is_the_identity",
    "views_add_up",
    "views_fit",
]


# Views


def views_add_up(view: TrimContext) -> None:
    """
    The numbers of a view match its elements, and every message of the conversation is
    shown or dropped; it is both only if a summary replaces it.
    """
    elements, dropped = list(view.elements), list(view.dropped)
    shown, gone = [one.seq for one in elements], [one.seq for one in dropped]
    tokens = [view.counter(one.message) for one in elements]

    assert [one.message for one in elements] == list(view.messages), "other messages"
    assert len(elements) == len(view), "another size"
    assert [one.tokens for one in elements] == tokens, "elements weighed otherwise"
    assert view.total_tokens == sum(tokens), "another total"
    assert shown == sorted(shown), "out of order"
    assert gone == sorted({*gone}), "dropped twice, or out of order"
    assert len(gone) == len(view.dropped), "another number of dropped ones"
    assert {*shown, *gone} == {*range(len(view.original))}, "not all accounted for"
    both = {one.seq for one in dropped if one.reason == COMPACTED}
    assert {*shown} & {*gone} <= both, "shown and dropped"


def views_fit(before: TrimContext, view: TrimContext) -> None:
    """
    What `fit` gives holds the budget, is valid, ends with the newest message
    of the view *before*, and keeps the order of what that shows.
    """
    if view.budget is not None:
        assert view.total_tokens <= view.budget.effective_input_limit, "over budget"

    assert view.problems() == (), f"not valid: {view.problems()}"
    assert [*view.messages][-1:] == [*before.messages][-1:], "lost the newest"
    rest = iter(before.elements)
    assert all(one in rest for one in view.elements), "out of order"


# Cells and branches


def histories_are_linear(
    first: object, changes: Iterable[tuple[Any, Any]], last: object
) -> None:
    """
    The changes that a watcher of a cell gets lead from the *first* value to the *last*;
    each change begins with the value that the change before ended with.
    """
    now = first
    for number, (old, new) in enumerate(changes):
        assert old is now, f"change {number} began with {old!r}, not with {now!r}"
        assert new is not old, f"change {number} changed nothing: {new!r}"
        now = new

    assert now is last, f"the changes led to {now!r}, not to {last!r}"


def fan_out_is_a_fold(
    state: Aggregator,
    steps: Sequence[Callable[[Aggregator], Aggregator]],
    *,
    executor: Executor | None = None,
) -> None:
    """
    Steps that run at once give what they give one after the other: the same
    messages in the same order, and the same bill, under the state's own id.

    Steps must be repeatable, since they are run twice.
    """
    once = fan_out(state, steps, executor=executor)
    folded = state.join(*[step(state.fork()) for step in steps])
    total = once.state.total_usage

    assert once.failures == (), f"steps failed: {once.failures}"
    assert list(once.state) == list(folded), "other messages, or in another order"
    assert total == folded.total_usage, f"billed {total}, not {folded.total_usage}"
    assert once.state.id == state.id, "the state got another id"
    assert once.state.init_len == state.init_len, "the state got another fork point"
    assert list(once.state)[: len(state)] == list(state), "the past changed"
