"""
Examples for contracts: conversations as agents have them, mostly short and plain, so
that many are drawn in little time and what breaks a law can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing._code import USUAL_TIME
from conversation_state.testing._drawing import draw_evenly, rarely
from conversation_state.testing.strategies import (
    aggregators,
    broken_transcripts,
    transcripts,
)
from conversation_state.tools import ToolCall
from conversation_state.trimming import TrimContext
from conversation_state.usage import Usage

_OTHER_ZONE = timezone(timedelta(hours=2))

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
            # Not the usage of a user's reducer, which adds small or round numbers.
            meta = ResponseMeta("stop", Usage(1_013, 87), id=f"response_{number}")
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


def _is_ended(messages: tuple[Message, ...]) -> bool:
    calls = [call for each in messages for call in each.tool_calls]
    return len(calls) == sum(isinstance(each, ToolMessage) for each in messages)


# Unusual content, one kind in each message: what careless functions lose or change.
_UNUSUAL_CALL = (
    '{"count": 1, "id": 9007199254740993, "is_exact": true, "share": 1.0, "unit": null}'
)
_UNUSUAL_DATA = {
    "count": 1,
    "id": 2**53 + 1,  # no float has this value
    "is_new": True,
    "share": 1.0,
    "unit": None,
}
_UNUSUAL = (
    # Changed by strip(), by universal newlines, and by the normal forms of Unicode.
    UserMessage("  Cafe\u0301,\r\n \ufb01nal\0"),
    UserMessage("Where to? " * 500),
    UserMessage(""),
    UserMessage(
        "Where to?",
        name="Ann",
        metadata=_UNUSUAL_DATA,
        timestamp=USUAL_TIME.astimezone(_OTHER_ZONE),
        unknown={"since_v2": True},
    ),
    UserMessage([TextPart("To Bern. "), TextPart("Which train?")]),
    UserMessage([ImagePart(data=b"GIF89a", media_type="image/gif", detail="low")]),
    UserMessage([ImagePart(url="https://example.com/a.png"), TextPart("What is it?")]),
    UserMessage([UnknownPart({"type": "poll", **_UNUSUAL_DATA})]),
    UnknownMessage({"role": "critic", **_UNUSUAL_DATA}),
    AssistantMessage([ReasoningPart("Bern is far.", signature="c2lnbmVk")]),
    AssistantMessage([RefusalPart("I can't say.")]),
    AssistantMessage("Let me see.", tool_calls=[ToolCall("", "clock", "{}")]),
    AssistantMessage(tool_calls=[ToolCall("call_" + "0" * 60, "clock", "{}")]),
    AssistantMessage(tool_calls=[ToolCall("call_0", "count", _UNUSUAL_CALL)]),
    AssistantMessage(tool_calls=[ToolCall("call_0", "search", "trains to Bern")]),
    AssistantMessage(
        tool_calls=[ToolCall("call_b", "search", ""), ToolCall("call_a", "clock", "{}")]
    ),
    ToolMessage("No such city.", tool_call_id="call_b", is_error=True),
    ToolMessage("", tool_call_id="call_a"),
    SystemMessage("Be brief."),
    SystemMessage("Answer in English."),
)
# No provider accepts some of them: results without calls, for example.
UNUSUAL_CONVERSATIONS = st.lists(
    st.sampled_from(_UNUSUAL), min_size=1, max_size=12
).map(tuple)
_PLAIN = _draw_plain(_TURNS)
# Conversations that providers accept; some of them have any kind of content.
CONVERSATIONS = rarely(_PLAIN, transcripts(max_size=4))
# The same with at least one message, and without pending calls at the end.
ENDED_CONVERSATIONS = rarely(
    _draw_plain(_TURNS[:-1]).filter(bool),
    transcripts(min_size=1, max_size=4).filter(_is_ended),
    st.just((UserMessage([TextPart("Which train?"), ImagePart(data=b"GIF89a")]),)),
)


def _make_state(
    messages: tuple[Message, ...],
    usages: list[tuple[Usage, str | None, str, datetime]],
    forked: int,
) -> Aggregator:
    state = Aggregator.new(messages=messages[:forked])
    for usage, key, model, at in usages:
        state = state.add_usage(usage, key=key, model=model, at=at)

    return (state.fork() if forked else state).extend(messages[forked:])


_KEYED_USAGES = st.tuples(
    st.sampled_from([Usage(10, 5), Usage(3)]),
    st.sampled_from([None, "request 1"]),
    st.sampled_from(["", "gpt-5"]),
    st.sampled_from([USUAL_TIME, USUAL_TIME.astimezone(_OTHER_ZONE)]),
)
_STATES = st.builds(
    _make_state,
    draw_evenly(_PLAIN, _PLAIN, UNUSUAL_CONVERSATIONS),
    st.lists(_KEYED_USAGES, max_size=2, unique_by=lambda keyed: keyed[1]),
    st.integers(0, 3),
)
# Any state, the odd ones now and then.
STATES = rarely(_STATES, aggregators())


def _make_view(
    messages: tuple[Message, ...], window: int | None, gone: list[int]
) -> TrimContext:
    budget = None if window is None else TokenBudget(context_window=window)
    state = Aggregator.new(messages=messages)
    return TrimContext.of(state, budget).remove(gone)


# Views of an earlier step, too; some of them are invalid, and some conversations are.
VIEWS = st.builds(
    _make_view,
    rarely(
        _PLAIN,
        transcripts(max_size=4),
        broken_transcripts(max_size=3),
        UNUSUAL_CONVERSATIONS,
    ),
    st.none() | st.integers(1, 60),
    st.just([]) | st.lists(st.integers(0, 7), max_size=2),
)
