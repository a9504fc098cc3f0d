"""
Copies of values, and what two results have in common; for all contracts.
"""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

from conversation_state.aggregator import Aggregator
from conversation_state.codec import decode, encode
from conversation_state.messages import Message

__all__ = ["compare_content", "compare_messages", "decoded", "unpickled"]

T = TypeVar("T")


def decoded(value: T) -> T:
    """
    What *value* is after it was encoded and decoded.
    """
    copy: T = decode(encode(value))
    return copy


def unpickled(value: T) -> T:
    """
    A copy of *value* that shares nothing with it.
    """
    copy: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
    return copy


def compare_messages(messages: Any) -> list[Message]:
    """
    *messages* without what differs between two runs: times, and ids of turns.
    """
    return [
        each.replace(timestamp=None, run_id=None, turn_id=None) for each in messages
    ]


def compare_content(state: Aggregator, before: Aggregator) -> tuple[Any, ...]:
    """
    *state*, made of *before*, without what differs between two runs: new identities,
    times, and ids of turns.
    """
    known = {entry.id for entry in before.entries}
    recorded = {entry.id for entry in before.ledger}
    return (
        [entry.id if entry.id in known else None for entry in state.entries],
        compare_messages(state),
        [
            (entry.id if entry.id in recorded else None, entry.usage, entry.model)
            for entry in state.ledger
        ],
    )
