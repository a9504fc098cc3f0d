"""
Conversations a provider accepts, and conversations it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing.strategies._messages import (
    assistant_messages,
    system_messages,
    tool_messages,
    user_messages,
)
from conversation_state.testing.strategies._parts import tool_calls
from conversation_state.testing.strategies._values import once
from conversation_state.tools import ToolCall

__all__ = ["broken_transcripts", "is_accepted", "transcripts"]


def is_accepted(conversation: Iterable[Message]) -> bool:
    """
    Whether a provider accepts *conversation*, as far as its order goes.

    True if system messages come first, no two calls have one id, and the
    results that directly follow a message answer its calls: each at most once,
    and all of them unless nothing comes after. What `transcripts` gives, and
    `broken_transcripts` does not; says nothing about contents.
    """
    seen: set[str] = set()
    open_calls: set[str] = set()
    started = False
    for message in conversation:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                return False

            open_calls.remove(message.tool_call_id)
        elif open_calls or (started and isinstance(message, SystemMessage)):
            return False

        started = started or not isinstance(message, SystemMessage)
        if isinstance(message, AssistantMessage):
            open_calls = {call.id for call in message.tool_calls}
            new = len(message.tool_calls) == len(open_calls) and "" not in open_calls
            if not new or open_calls & seen:
                return False

            seen |= open_calls

    return True


@attrs.frozen
class _Speakers:
    """
    What transcripts are drawn from.
    """

    systems: SearchStrategy[SystemMessage]
    users: SearchStrategy[UserMessage]
    answers: SearchStrategy[AssistantMessage]
    calls: SearchStrategy[list[ToolCall]]
    results: SearchStrategy[ToolMessage]


@st.composite
def _build_transcript(
    draw: DrawFn, min_size: int, max_size: int, speakers: _Speakers
) -> tuple[Message, ...]:
    transcript: list[Message] = []
    seen: set[str] = set()
    size = draw(st.integers(min_size, max_size))
    transcript += draw(st.lists(speakers.systems, max_size=min(2, size)))
    while len(transcript) < size:
        kind = draw(st.sampled_from(["user", "assistant", "calls"]))
        if kind == "user":
            transcript.append(draw(speakers.users))
        elif kind == "assistant":
            transcript.append(draw(speakers.answers))
        else:
            made: list[ToolCall] = []
            for call in draw(speakers.calls):
                name = call.id
                while not name or name in seen:
                    name = f"{name}{len(seen)}"

                seen.add(name)
                made.append(attrs.evolve(call, id=name))

            transcript.append(draw(speakers.answers).replace(tool_calls=made))
            # At the very end, an agent may have been stopped before its tools were
            # done. If there is no room for the results, it always was.
            answered = draw(st.permutations(made))
            if len(transcript) + len(made) >= size and draw(st.booleans()):
                least = max(0, min_size - len(transcript))
                answered = answered[: draw(st.integers(least, len(made)))]

            for call in answered[: size - len(transcript)]:
                result = draw(speakers.results)
                transcript.append(
                    result.replace(tool_call_id=call.id, tool_name=call.name)
                )

            if len(answered) < len(made):
                break

    return tuple(transcript)


@once
def transcripts(
    *, min_size: int = 0, max_size: int = 8
) -> SearchStrategy[tuple[Message, ...]]:
    """
    Conversations a provider accepts: system messages first, every call
    answered directly after it, parallel calls in any order. Only at the very
    end may calls be unanswered, some or all: an agent is about to run them.

    Args:
        min_size: The fewest messages.

        max_size: The most.

    Shrink to fewer messages, and these to a user's empty text.
    """
    speakers = _Speakers(
        system_messages(),
        user_messages(),
        assistant_messages(calls=st.just([])),
        st.lists(tool_calls(), min_size=1, max_size=3),
        tool_messages(call_ids=st.just("0")),
    )
    return _build_transcript(min_size, max_size, speakers)


def _draw_result(draw: DrawFn, messages: list[Message]) -> int:
    places = [at for at, one in enumerate(messages) if isinstance(one, ToolMessage)]
    return draw(st.sampled_from(places))


def _orphan_result(draw: DrawFn, messages: list[Message]) -> None:
    """
    A result whose call is gone, or was never there.
    """
    at = _draw_result(draw, messages)
    result = messages[at]
    messages[at] = result.replace(tool_call_id=f"{result.tool_call_id}, not made")  # type: ignore[attr-defined]


def _remove_result(draw: DrawFn, messages: list[Message]) -> None:
    """
    A call in the middle without a result.
    """
    del messages[_draw_result(draw, messages)]
    messages.append(UserMessage("go on"))


def _duplicate_result(draw: DrawFn, messages: list[Message]) -> None:
    """
    A result given twice, at once or later.
    """
    at = _draw_result(draw, messages)
    messages.insert(draw(st.integers(at + 1, len(messages))), messages[at])


def _insert_before_result(draw: DrawFn, messages: list[Message]) -> None:
    """
    A message between a call and its result.
    """
    at = _draw_result(draw, messages)
    messages.insert(at, UserMessage("are you done?"))


def _delay_result(draw: DrawFn, messages: list[Message]) -> None:
    """
    A result that comes after another message.
    """
    late = messages.pop(_draw_result(draw, messages))
    messages += [UserMessage("are you done?"), late]


def _repeat_call_id(draw: DrawFn, messages: list[Message]) -> None:
    """
    Two calls with one id: in one message, or in two that are both answered.
    """
    at = _draw_result(draw, messages)
    result = messages[at]
    call = ToolCall(result.tool_call_id, "again")  # type: ignore[attr-defined]
    if draw(st.booleans()):
        messages += [AssistantMessage(tool_calls=[call]), result]
    else:
        for n in range(at, -1, -1):
            caller = messages[n]
            if isinstance(caller, AssistantMessage):
                messages[n] = caller.replace(tool_calls=[*caller.tool_calls, call])
                break


def _add_late_system_message(draw: DrawFn, messages: list[Message]) -> None:
    """
    A system message after other messages.
    """
    messages.append(UserMessage("hi"))
    messages.insert(draw(st.integers(0, len(messages))), SystemMessage("be brief"))
    messages.append(SystemMessage("be brief"))


_BREAKS = (
    _orphan_result,
    _remove_result,
    _duplicate_result,
    _insert_before_result,
    _delay_result,
    _repeat_call_id,
    _add_late_system_message,
)


@st.composite
def _broken_transcripts(
    draw: DrawFn, whole: SearchStrategy[tuple[Message, ...]]
) -> tuple[Message, ...]:
    messages = list(draw(whole))
    call = ToolCall("call", "clock", "{}")
    messages += [
        AssistantMessage(tool_calls=[call]),
        ToolMessage("12:30", tool_call_id="call"),
    ]
    if draw(st.booleans()):
        messages.append(AssistantMessage("It is half past twelve."))

    for harm in draw(st.lists(st.sampled_from(_BREAKS), min_size=1, max_size=3)):
        # An earlier harm may have removed the only result.
        if any(isinstance(message, ToolMessage) for message in messages):
            harm(draw, messages)

    return tuple(messages)


@once
def broken_transcripts(*, max_size: int = 6) -> SearchStrategy[tuple[Message, ...]]:
    """
    Conversations that a provider refuses, as crashes, cancelled tools and
    clumsy trimming leave them: results without a call, twice, too late or
    apart from it, calls without a result in the middle, one id for two calls,
    system messages in the middle; up to three of these.

    Args:
        max_size: The most messages before the harm is done, which adds some.

    Shrink to a call, its result, and one harm.
    """
    # With several harms, one may undo another.
    return _broken_transcripts(_end_conversation(max_size)).filter(
        lambda messages: not is_accepted(messages)
    )


@once
def _end_conversation(max_size: int) -> SearchStrategy[tuple[Message, ...]]:
    """
    Transcripts without open calls, which something can be added to.
    """

    def answered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        done = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
        open_calls = [
            call
            for one in messages
            if isinstance(one, AssistantMessage)
            for call in one.tool_calls
            if call.id not in done
        ]
        return (
            *messages,
            *[ToolMessage("", tool_call_id=call.id) for call in open_calls],
        )

    return transcripts(max_size=max_size).map(answered)
