"""
What is true of usages, messages and chunks; part of `laws`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

from conversation_state._wording import describe_type
from conversation_state.chunks import Accumulator, concat
from conversation_state.errors import ConcatError
from conversation_state.messages import Message
from conversation_state.testing._comparison import is_same
from conversation_state.usage import Usage

__all__ = [
    "accumulators_concat",
    "adding_is_a_commutative_monoid",
    "concat_is_associative",
    "concat_of_one_is_itself",
    "copies_are_equal",
    "equal_values_hash_alike",
    "larger_is_a_semilattice",
    "replacing_nothing_changes_nothing",
]


class Counts(Protocol):
    """
    **Protocol:** what usages and their breakdowns have in common.
    """

    def __add__(self, other: Self | None, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...


C = TypeVar("C", bound=Counts)


# Usage


def adding_is_a_commutative_monoid(a: C, b: C, c: C) -> None:
    """
    Usages may be added in any order and any grouping; none at all, and one
    that counts nothing, add nothing.
    """
    nothing = type(a)()

    assert a + b == b + a, f"{a} + {b} depends on the order"
    assert (a + b) + c == a + (b + c), f"{a} + {b} + {c} depends on the grouping"
    assert a + nothing == a, f"{a} + nothing is {a + nothing}"
    assert nothing + a == a, f"nothing + {a} is {nothing + a}"
    # Responses without a usage have None: sums take it as it comes.
    assert a + None == a, f"{a} + None is {a + None}"
    assert sum([a, b, c], nothing) == a + b + c, "the sum is another"


def larger_is_a_semilattice(a: C, b: C, c: C) -> None:
    """
    Running totals may be combined in any order and grouping, and repeatedly.

    A later running total stands, unless only one of the two reports a total
    that is less than its prompt and completion together.
    """
    nothing = type(a)()

    assert a | a == a, f"{a} | itself is {a | a}"
    assert a | b == b | a, f"{a} | {b} depends on the order"
    assert (a | b) | c == a | (b | c), f"{a} | {b} | {c} depends on the grouping"
    assert a | nothing == a, f"{a} | nothing is {a | nothing}"
    if _is_total_short_or_missing(a) == _is_total_short_or_missing(a + b):
        assert a | (a + b) == a + b, f"{a + b} is not the larger of itself and {a}"


def _is_total_short_or_missing(counts: object) -> bool:
    return isinstance(counts, Usage) and (
        not counts.total_tokens
        or counts.total_tokens < counts.prompt_tokens + counts.completion_tokens
    )


# All values


def equal_values_hash_alike(a: object, b: object) -> None:
    """
    Equality goes both ways, and equal values have equal hashes.
    """
    assert a == a, f"{a!r} is not equal to itself"  # noqa: PLR0124 - on purpose
    assert (a == b) == (b == a), f"{a!r} and {b!r} disagree about being equal"
    assert (a == b) != (a != b), f"{a!r} and {b!r} are equal and are not"
    assert hash(a) == hash(a), f"the hash of {a!r} changes"
    if a == b:
        assert hash(a) == hash(b), f"{a!r} and {b!r} are equal, their hashes aren't"


def copies_are_equal(value: object) -> None:
    """
    A copy is equal and has the same hash: pickled under any protocol, shallow,
    and deep.
    """
    copies = [copy.copy(value), copy.deepcopy(value)]
    copies += [
        pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for one in copies:
        assert type(one) is type(value), f"a copy of {value!r} is a {type(one)}"
        assert is_same(one, value), f"a copy of {value!r} is {one!r}"
        assert hash(one) == hash(value), f"a copy of {value!r} has another hash"


def replacing_nothing_changes_nothing(message: Message) -> None:
    """
    ``message.replace()`` is equal to the message, and shown the same.
    """
    same = message.replace()

    assert type(same) is type(message), f"{message!r} became {describe_type(same)}"
    assert same == message, f"{message!r} became {same!r}"
    assert str(same) == str(message), f"{message!s} became {same!s}"


# Chunks


def concat_of_one_is_itself(message: Message) -> None:
    """
    A message that is not in pieces is its own concatenation, and so is the result of
    joining one that is. Pieces that contradict each other are refused.
    """
    try:
        whole = concat([message])
    except ConcatError as error:
        numbers = [each.index for each in message.tool_calls if each.index is not None]
        if len({*numbers}) == len(numbers):
            wrong = f"{message!r} is refused, though it is whole: {error}"
            raise AssertionError(wrong) from error

        return

    calls, joined = message.tool_calls, whole.tool_calls

    assert concat([whole]) == whole, f"concatenating {whole!r} changes it"
    # If parts or calls were merged, the result is another message.
    if len(calls) == len(joined) and len(message.parts) == len(whole.parts):
        assert whole == message, f"concatenating {message!r} gives {whole!r}"


def concat_is_associative(chunks: Sequence[Message], at: int) -> None:
    """
    The order of joins does not matter: the chunks before *at* may be joined first, or
    those from there on.
    """
    whole = concat(chunks)
    before, after = chunks[:at], chunks[at:]

    if before:
        first = concat([concat(before), *after])
        assert first == whole, f"joining the first {at} gives {first!r}, not {whole!r}"

    if after:
        last = concat([*before, concat(after)])
        assert last == whole, f"joining from {at} on gives {last!r}, not {whole!r}"


def accumulators_concat(chunks: Sequence[Message]) -> None:
    """
    The message of an accumulator is equal to `concat` of its chunks after every chunk,
    and stays so.
    """
    moments = [Accumulator()]
    for chunk in chunks:
        moments.append(moments[-1].add(chunk))

    for count in (*range(1, len(moments), 2), *range(1, len(moments))):
        got, expected = moments[count].message, concat(chunks[:count])
        assert got == expected, f"after {count}: {got!r}, not {expected!r}"
