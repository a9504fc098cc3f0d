"""
Examples for contracts: conversations as they happen, mostly short and plain, so that
many are drawn in little time and what breaks a law can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing._drawing import draw_evenly, rarely
from conversation_state.testing.contracts._coverage import NamedExample, cover
from conversation_state.testing.shapes import (
    ACTS,
    SHAPES,
    TurnWriter,
    grow_state,
    write_shapes,
)
from conversation_state.testing.strategies import (
    aggregators,
    broken_transcripts,
    conversations,
    messages,
    states,
    transcripts,
)
from conversation_state.tools import ToolCall
from conversation_state.trimming import TrimContext

_TURNS = 35  # of a long conversation


def _list_shapes() -> Iterator[tuple[Message, ...]]:
    yield ()
    yield from write_shapes().values()
    # Longer than what careless code keeps.
    turns = [SHAPES["answer"].write(TurnWriter(number)) for number in range(_TURNS)]
    yield tuple([message for turn in turns for message in turn])


def _list_states() -> Iterator[NamedExample[Aggregator]]:
    yield NamedExample((), grow_state)
    # A ledger without messages, before what has both.
    yield NamedExample((), _act_after("usage without a key"))
    for shape in _list_shapes():
        yield NamedExample(shape, grow_state)

    called = tuple(SHAPES["call and result"].write(TurnWriter()))
    for name in ACTS:
        yield NamedExample(called, _act_after(name))


def _act_after(name: str) -> Callable[[tuple[Message, ...]], Aggregator]:
    return lambda messages: ACTS[name](TurnWriter(1_000), grow_state(messages))


# Any conversation, valid or not; the simplest first.
CONVERSATIONS: SearchStrategy[tuple[Message, ...]] = cover(
    rarely(
        conversations(max_turns=4).map(tuple),
        st.lists(messages(), max_size=2).map(tuple),
    ),
    lambda: (NamedExample(shape, tuple) for shape in _list_shapes()),
)


def is_ended(conversation: tuple[Message, ...]) -> bool:
    """Whether there are messages, and each call among them has a result."""
    called = [call.id for each in conversation for call in each.tool_calls]
    answered = [
        each.tool_call_id for each in conversation if isinstance(each, ToolMessage)
    ]
    return bool(conversation) and sorted(called) == sorted(answered)


def assume_ended(conversation: tuple[Message, ...]) -> tuple[Message, ...]:
    """*conversation*, which is rejected as an example unless it `is_ended`."""
    if not is_ended(conversation):
        raise UnsatisfiedAssumption

    return conversation


# The same with at least one message, and without pending calls.
ENDED_CONVERSATIONS: SearchStrategy[tuple[Message, ...]] = cover(
    rarely(
        conversations(max_turns=4).map(tuple).filter(is_ended),
        transcripts(min_size=1, max_size=4).filter(is_ended),
    ),
    lambda: (
        NamedExample(shape, assume_ended) for shape in _list_shapes() if is_ended(shape)
    ),
)
STATES: SearchStrategy[Aggregator] = cover(
    # Any state that verbs can make, the odd ones now and then.
    draw_evenly(*[states()] * 5, aggregators()),
    _list_states,
)


def _make_view(
    conversation: tuple[Message, ...], share: int | None, gone: list[int]
) -> TrimContext:
    """A view of *conversation*, partly removed, with a budget of *share* percent."""
    state = Aggregator.new(messages=conversation)
    view = TrimContext.of(state)
    if share is not None:
        window = max(1, view.total_tokens * share // 100)
        view = TrimContext.of(state, TokenBudget(context_window=window))

    return view.remove(gone)


def _list_views() -> Iterator[NamedExample[TrimContext]]:
    for shape in _list_shapes():
        for share in (None, 60):
            yield NamedExample(shape, partial(_make_view, share=share, gone=[]))

    whole = write_shapes()
    for shown, share, gone in (
        ((*whole["answer"], *whole["call and result"]), None, [0, 1]),
        ((*whole["parallel calls"], *whole["answer"]), 30, [2]),
    ):
        yield NamedExample(shown, partial(_make_view, share=share, gone=gone))


# Views of an earlier step, too; some of them are invalid, and some conversations are.
VIEWS: SearchStrategy[TrimContext] = cover(
    st.builds(
        _make_view,
        rarely(
            conversations(max_turns=4).map(tuple),
            draw_evenly(transcripts(max_size=4), broken_transcripts(max_size=3)),
        ),
        st.none() | st.integers(1, 130),
        st.just([]) | st.lists(st.integers(0, 7), max_size=2),
    ),
    _list_views,
)


# Texts that an encoding may refuse or read as a special token, and calls whose
# arguments are not JSON.
_ODD = st.sampled_from(
    [
        UserMessage("What is <|endoftext|>?"),
        AssistantMessage(tool_calls=[ToolCall("call_1", "search", "")]),
    ]
)


def _take_first(conversation: tuple[Message, ...]) -> Message:
    if not conversation:
        raise UnsatisfiedAssumption

    return conversation[0]


# Single messages: those of all shapes, and of any content.
MESSAGES: SearchStrategy[Message] = cover(
    rarely(messages(), _ODD),
    lambda: (
        NamedExample((message,), _take_first)
        for shape in _list_shapes()
        for message in shape
    ),
)
