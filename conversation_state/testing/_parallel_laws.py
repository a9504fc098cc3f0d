"""
Laws of cells and of branches that run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

from conversation_state.aggregator import Aggregator
from conversation_state.parallel import fan_out

__all__ = ["fan_out_is_a_fold", "histories_are_linear"]


def histories_are_linear(
    first: object, changes: Iterable[tuple[Any, Any]], last: object
) -> None:
    """
    What a watcher of a cell was told leads from the *first* value to the
    *last*, each change beginning with the very value the one before ended with.
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
