"""
Examples for contracts: conversations as agents have them, mostly short and plain, so
that many are drawn in little time and what breaks a law can be read; and copies of
examples, and what two results have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.codec import decode, encode
from conversation_state.counting import TokenBudget
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, TextPart
from conversation_state.testing._code import USUAL_TIME
from conversation_state.testing._value_laws import unpickled
from conversation_state.testing.strategies import (
    aggregators,
    broken_transcripts,
    transcripts,
)
from conversation_state.tools import ToolCall
from conversation_state.trimming import TrimContext
from conversation_state.usage import Usage

__all__ = [
    "CONVERSATIONS",
    "ENDED_CONVERSATIONS",
    "STATES",
    "VIEWS",
    "compare_content",
    "compare_messages",
    "decoded",
    "draw_mostly",
    "unpickled",
]

T = TypeVar("T")

# What may come next; the simplest first.
_TURNS = ("user", "assistant", "empty", "response", "call", "calls", "pending")


def _list_messages(turns: list[str], systems: int) -> Iterator[Message]:
    yield from [SystemMessage("Be brief.")] * systems
    last = len(turns) - 1
    for number, turn in enumerate(turns):
        calls = [
            ToolCall(f"call_{number}", "clock", "{}"),
            ToolCall(f"call_{number}_b", "search", '{"query": "trains to Bern"}'),
        ]
        if turn == "user":
            yield UserMessage(f"Question {number}")
        elif turn == "assistant":
            yield AssistantMessage(f"Answer {number}")
        elif turn == "empty":
            yield AssistantMessage("")
        elif turn == "response":
            meta = ResponseMeta("stop", Usage(10, 5), id=f"response_{number}")
            yield AssistantMessage("At noon.", response=meta)
        elif turn == "calls":
            yield AssistantMessage("Let me see.", tool_calls=calls)
            for call in calls:
                yield ToolMessage("12:30, or a little later", tool_call_id=call.id)
        else:
            yield AssistantMessage(tool_calls=calls[:1])
            # A pending call stands only at the end, where an agent is about to run it.
            if turn == "call" or number < last:
                yield ToolMessage("12:30", tool_call_id=calls[0].id)


def _draw_plain(turns: tuple[str, ...]) -> SearchStrategy[tuple[Message, ...]]:
    return st.builds(
        lambda chosen, systems: tuple(_list_messages(chosen, systems)),
        st.lists(st.sampled_from(turns), max_size=6),
        st.integers(0, 1),
    )


def draw_mostly(
    usual: SearchStrategy[T], *rare: SearchStrategy[T]
) -> SearchStrategy[T]:
    """
    *usual* for most examples, those of *rare* for every eighth.
    """
    # The usual one first: Hypothesis shrinks towards it, to examples that can be read.
    return st.sampled_from([usual] * 7 * len(rare) + [*rare]).flatmap(lambda it: it)


def _is_ended(messages: tuple[Message, ...]) -> bool:
    """
    Whether all calls have results.
    """
    calls = [call for each in messages for call in each.tool_calls]
    return len(calls) == sum(isinstance(each, ToolMessage) for each in messages)


_PLAIN = _draw_plain(_TURNS)
# Conversations that providers accept; some of them have any kind of content.
CONVERSATIONS = draw_mostly(_PLAIN, transcripts(max_size=4))
# The same with at least one message, and without pending calls at the end.
ENDED_CONVERSATIONS = draw_mostly(
    _draw_plain(_TURNS[:-1]).filter(bool),
    transcripts(min_size=1, max_size=4).filter(_is_ended),
    st.just((UserMessage([TextPart("Which train?"), ImagePart(data=b"GIF89a")]),)),
)


def _make_state(
    messages: tuple[Message, ...], usages: list[tuple[Usage, str | None]], forked: int
) -> Aggregator:
    state = Aggregator.new(messages=messages[:forked])
    for usage, key in usages:
        state = state.add_usage(usage, key=key, at=USUAL_TIME)

    return (state.fork() if forked else state).extend(messages[forked:])


_KEYED_USAGES = st.tuples(
    st.sampled_from([Usage(10, 5), Usage(3)]), st.sampled_from([None, "request 1"])
)
_STATES = st.builds(
    _make_state,
    _PLAIN,
    st.lists(_KEYED_USAGES, max_size=2, unique_by=lambda keyed: keyed[1]),
    st.integers(0, 3),
)
# Any state, the odd ones now and then.
STATES = draw_mostly(_STATES, aggregators())


def _make_view(
    messages: tuple[Message, ...], window: int | None, gone: list[int]
) -> TrimContext:
    budget = None if window is None else TokenBudget(context_window=window)
    state = Aggregator.new(messages=messages)
    return TrimContext.of(state, budget).remove(gone)


# Views of an earlier step, too; some of them are invalid, and some conversations are.
VIEWS = st.builds(
    _make_view,
    draw_mostly(_PLAIN, transcripts(max_size=4), broken_transcripts(max_size=3)),
    st.none() | st.integers(1, 60),
    st.just([]) | st.lists(st.integers(0, 7), max_size=2),
)


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
