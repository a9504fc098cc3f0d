"""
Conversations a provider accepts, conversations it refuses, and messages in chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from conversation_state.parts import AudioPart, Part, TextPart
from conversation_state.testing._drawing import (
    Fields,
    draw_evenly,
    few,
    few_fields,
    once,
    optional,
    rarely,
)
from conversation_state.testing.strategies._messages import (
    assistant_messages,
    parts,
    response_metas,
    system_messages,
    text_parts,
    tool_calls,
    tool_messages,
    user_messages,
)
from conversation_state.testing.strategies._values import metadata, texts, timestamps
from conversation_state.tools import ToolCall


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


_NO_CALLS: SearchStrategy[list[ToolCall]] = st.just([])
_ANY_ID = st.just("0")


@st.composite
def _build_transcript(
    draw: DrawFn, min_size: int, max_size: int
) -> tuple[Message, ...]:
    transcript: list[Message] = []
    seen: set[str] = set()
    answers = assistant_messages(calls=_NO_CALLS)
    size = draw(st.integers(min_size, max_size))
    transcript += draw(st.lists(system_messages(), max_size=min(2, size)))
    while len(transcript) < size:
        kind = draw(st.sampled_from(["user", "assistant", "calls"]))
        if kind == "user":
            transcript.append(draw(user_messages()))
        elif kind == "assistant":
            transcript.append(draw(answers))
        else:
            made: list[ToolCall] = []
            for call in draw(few(tool_calls(), min_size=1)):
                name = call.id
                while not name or name in seen:
                    name = f"{name}{len(seen)}"

                seen.add(name)
                made.append(attrs.evolve(call, id=name))

            transcript.append(draw(answers).replace(tool_calls=made))
            # At the very end, an agent may have been stopped before its tools were
            # done. If there is no room for the results, it always was.
            answered = draw(st.permutations(made))
            if len(transcript) + len(made) >= size and draw(st.booleans()):
                least = max(0, min_size - len(transcript))
                answered = answered[: draw(st.integers(least, len(made)))]

            for call in answered[: size - len(transcript)]:
                result = draw(tool_messages(call_ids=_ANY_ID))
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
    return _build_transcript(min_size, max_size)


_HARMS = (
    "a result of no call", "no result", "a result twice",
    "a result apart from its call", "a result too late", "an id twice in a message",
    "an id in two messages", "late instructions",
)  # fmt: skip


def _harm_transcript(draw: DrawFn, messages: list[Message], harm: str) -> None:
    results = [at for at, one in enumerate(messages) if isinstance(one, ToolMessage)]
    at = draw(st.sampled_from(results))
    result: Any = messages[at]
    call = ToolCall(result.tool_call_id, "again")
    if harm == "a result of no call":
        messages[at] = result.replace(tool_call_id=f"{call.id}, not made")
    elif harm == "no result":
        del messages[at]
        messages.append(UserMessage("go on"))
    elif harm == "a result twice":
        messages.insert(draw(st.integers(at + 1, len(messages))), result)
    elif harm == "a result apart from its call":
        messages.insert(at, UserMessage("are you done?"))
    elif harm == "a result too late":
        messages += [UserMessage("are you done?"), messages.pop(at)]
    elif harm == "an id twice in a message":
        callers = [one for one in messages[:at] if isinstance(one, AssistantMessage)]
        for caller in callers[-1:]:
            calls = [*caller.tool_calls, call]
            messages[messages.index(caller)] = caller.replace(tool_calls=calls)
    elif harm == "an id in two messages":
        messages += [AssistantMessage(tool_calls=[call]), result]
    else:
        messages.append(UserMessage("hi"))
        messages.insert(draw(st.integers(0, len(messages))), SystemMessage("be brief"))
        messages.append(SystemMessage("be brief"))


@st.composite
def _break_transcript(
    draw: DrawFn, whole: SearchStrategy[tuple[Message, ...]]
) -> tuple[Message, ...]:
    messages = list(draw(whole))
    # Without open calls at the end, so that something can be added.
    while not is_accepted([*messages, UserMessage("")]):
        messages.pop()

    call = ToolCall("call", "clock", "{}")
    messages += [
        AssistantMessage(tool_calls=[call]),
        ToolMessage("12:30", tool_call_id="call"),
    ]
    if draw(st.booleans()):
        messages.append(AssistantMessage("It is half past twelve."))

    for harm in draw(few(st.sampled_from(_HARMS), min_size=1)):
        # An earlier harm may have removed the only result.
        if any(isinstance(message, ToolMessage) for message in messages):
            _harm_transcript(draw, messages, harm)

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
    return _break_transcript(transcripts(max_size=max_size)).filter(
        lambda messages: not is_accepted(messages)
    )


@once
def _split_texts(role: str) -> SearchStrategy[Part]:
    """Parts that often continue each other."""
    index = st.sampled_from([None, None, 0, 1])
    sound = st.builds(
        AudioPart,
        data=st.binary(min_size=1),
        media_type=st.sampled_from(["", "audio/wav", "audio/mpeg"]),
        index=index,
    )
    text = st.builds(
        TextPart, texts(), index=index, metadata=rarely(st.just({}), _build_notes())
    )
    return text if role == "system" else draw_evenly(text, sound, parts(role=role))


@once
def _build_notes() -> SearchStrategy[Fields]:
    """Metadata under few keys, so that it meets."""
    value = st.one_of(st.none(), st.integers(0, 2), texts())
    value = st.one_of(value, few(value))
    value = st.one_of(value, few_fields(st.sampled_from("ab"), value))
    met = few_fields(st.sampled_from("ab"), value)
    return met | metadata()


@once
def _call_pieces() -> SearchStrategy[ToolCall]:
    """Calls in pieces, with few ids and indexes and one name."""
    return st.builds(
        ToolCall,
        id=st.sampled_from(["", "", "a", "b"]),
        name=st.sampled_from(["", "", "search"]),
        arguments=st.sampled_from(["", '{"q', '": 1}']) | texts(),
        index=st.sampled_from([0, 1, None]),
        metadata=rarely(st.just({}), _build_notes()),
    )


@st.composite
def _build_chunks(draw: DrawFn, role: str, max_size: int) -> tuple[Message, ...]:
    name = draw(st.sampled_from(["", "ann"]))
    kinds: dict[str, Any] = {
        "assistant": AssistantMessage,
        "system": SystemMessage,
        "tool": ToolMessage,
        "user": UserMessage,
    }
    # Only one chunk of a tool result may hold media of one kind.
    pieces = text_parts() if role == "tool" else _split_texts(role)
    content = texts() | few(pieces)
    chunks: list[Message] = []
    for _ in range(draw(st.integers(1, max_size))):
        fields: dict[str, Any] = {"content": draw(content)}
        fields |= draw(
            optional(
                name=st.just(name), metadata=_build_notes(), timestamp=timestamps()
            )
        )
        if role == "assistant":
            fields["tool_calls"] = draw(rarely(st.just([]), few(_call_pieces())))
            fields["response"] = draw(rarely(st.none(), response_metas()))
        elif role == "tool":
            fields["tool_call_id"] = "call"
            fields["tool_name"] = draw(st.sampled_from(["", "search"]))
            fields["is_error"] = draw(st.booleans())

        chunks.append(kinds[role](**fields))

    return tuple(chunks)


@once
def chunks(
    *, role: str = "assistant", max_size: int = 6
) -> SearchStrategy[tuple[Message, ...]]:
    """
    The chunks of one message of *role*, at least one: `concat` takes them.

    Pieces meet in all ways: the same index and another one, with an id and
    without, adjacent and apart.

    Shrink to one empty message.
    """
    return _build_chunks(role, max_size)
