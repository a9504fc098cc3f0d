"""
What several states cost together.
"""

from __future__ import annotations

from conversation_state._persistent import Log
from conversation_state._wording import describe_value
from conversation_state.aggregator._entries import NOTHING, LedgerEntry, Union
from conversation_state.aggregator._state import Aggregator, Checkpoint
from conversation_state.aggregator._turn import Turn
from conversation_state.usage import Usage

__all__ = ["ledger_union", "total_usage"]


def ledger_union(*states: Aggregator | Turn | Checkpoint) -> Log[LedgerEntry]:
    """
    The ledger entries of all *states*, each identity once, in order.

    For branches that were not joined: the tips of a timeline, say. Costs what
    the states recorded since they parted. Where two hold different usages
    under one identity, that of the first state stands, as in `join`.

    Raises:
        TypeError:
            If something else is given.
    """
    if not states:
        return Log()

    first, *others = map(_get_ledger, states)
    union = Union(first)
    for ledger in others:
        union.add(ledger)

    return union.log


def total_usage(*states: Aggregator | Turn | Checkpoint) -> Usage:
    """
    What all *states* cost together: the sum over their `ledger_union`.

    O(ledger entries).

    Raises:
        TypeError:
            If something else is given.

        InvalidUsageError:
            If the total is over 2**63 - 1.

    >>> start = Aggregator.new().add_usage(Usage(100))
    >>> first, second = start.add_usage(Usage(5)), start.add_usage(Usage(7))
    >>> total_usage(first, second).total_tokens
    112
    """
    return sum([entry.usage for entry in ledger_union(*states)], NOTHING)


def _get_ledger(state: Aggregator | Turn | Checkpoint) -> Log[LedgerEntry]:
    if isinstance(state, Checkpoint):
        state = state.state

    if not isinstance(state, (Aggregator, Turn)):
        msg = f"expected Aggregators, Turns or Checkpoints, got {describe_value(state)}"
        raise TypeError(msg)

    return state.ledger
