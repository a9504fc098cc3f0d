"""
Comparing results of user's functions: the errors of a difference, and what two runs of
one function have in common.
"""

from __future__ import annotations

from typing import Any, TypeVar

from conversation_state._wording import shorten_text
from conversation_state.aggregator import Aggregator
from conversation_state.codec import decode, encode
from conversation_state.messages import Message
from conversation_state.testing._code import format_code
from conversation_state.testing._equality import is_same
from conversation_state.testing._value_laws import unpickled

__all__ = [
    "assert_same",
    "assert_same_later",
    "compare_content",
    "compare_messages",
    "decoded",
    "is_same",
    "unpickled",
]

T = TypeVar("T")
_SHOWN = 300  # characters of a value in an error
_ESCAPED = str.maketrans({"{": "{{", "}": "}}"})


def assert_same(expected: object, found: object, what: str = "{} became {}") -> None:
    """
    Raise an AssertionError unless *found* is the same as *expected*; its text is *what*
    with both of them.
    """
    # Not an assert statement: texts are long, and formatted for a broken law only.
    if not is_same(expected, found):
        raise AssertionError(what.format(_shorten_code(expected), _shorten_code(found)))


def assert_same_later(example: object, first: object, later: object) -> None:
    """
    Raise an AssertionError unless the *first* result for *example* is the same as a
    *later* one.
    """
    start = f"for {_shorten_code(example)} "
    assert_same(first, later, start.translate(_ESCAPED) + "first {}, later {}")


def _shorten_code(value: object) -> str:
    # The repr of a message leaves its metadata out.
    return shorten_text(format_code(value), _SHOWN)


def decoded(value: T) -> T:
    """
    What *value* is after it was encoded and decoded.
    """
    copy: T = decode(encode(value))
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
