"""
Messages, and what they are made of besides parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.messages import (
    AssistantMessage,
    Envelope,
    LogProb,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.testing.strategies._parts import (
    build_class,
    foreign_fields,
    parts,
    tool_calls,
)
from conversation_state.testing.strategies._values import (
    ROLES,
    Fields,
    metadata,
    once,
    rarely,
    texts,
    timestamps,
    unknown_fields,
    usages,
    uuids,
)
from conversation_state.tools import ToolCall

__all__ = [
    "assistant_messages",
    "envelopes",
    "log_probs",
    "messages",
    "response_metas",
    "system_messages",
    "tool_messages",
    "unknown_messages",
    "user_messages",
]


@once
def log_probs(*, max_top: int = 2) -> SearchStrategy[LogProb]:
    """
    Log probabilities of tokens, with up to *max_top* likelier ones.

    Shrink to the empty token at 0.
    """
    tops = st.lists(log_probs(max_top=0), max_size=max_top) if max_top else st.just([])
    return st.builds(
        LogProb,
        texts(max_size=6),
        st.floats(-9999, 0) | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.binary(max_size=4),
        tops,
    )


@once
def response_metas() -> SearchStrategy[ResponseMeta]:
    """
    What a provider reports about a response.

    Shrink to nothing reported.
    """
    reasons = st.sampled_from(["", "stop", "tool_calls", "interrupted"])
    return st.builds(
        ResponseMeta,
        reasons | texts(max_size=8),
        st.none() | usages(),
        rarely(st.none(), st.lists(log_probs(), max_size=2)),
        st.just("") | texts(max_size=8),
        st.just("") | texts(max_size=8),
        unknown=rarely(st.just({}), unknown_fields()),
    )


@once
def _common_fields() -> SearchStrategy[Fields]:
    """
    What all messages may have; mostly nothing.
    """
    fields = st.fixed_dictionaries(
        {},
        optional={
            "name": texts(max_size=8),
            "run_id": st.none() | uuids(),
            "turn_id": st.none() | uuids(),
            "timestamp": st.none() | timestamps(),
            "metadata": metadata(),
            "unknown": unknown_fields(),
        },
    )
    return rarely(st.just({}), fields)


@once
def _message_contents(role: str) -> SearchStrategy[str | Sequence[Part]]:
    listed: SearchStrategy[str | Sequence[Part]] = st.lists(
        parts(role=role), max_size=3
    )
    return rarely(texts(), listed)


@once
def system_messages() -> SearchStrategy[SystemMessage]:
    """
    Instructions for the model.

    Shrinks to an empty text and nothing else.
    """
    return build_class(
        SystemMessage, _common_fields(), content=_message_contents("system")
    )


@once
def user_messages() -> SearchStrategy[UserMessage]:
    """
    Messages of users: texts, and parts of every kind a user may send.

    Shrinks to an empty text and nothing else.
    """
    return build_class(UserMessage, _common_fields(), content=_message_contents("user"))


@once
def assistant_messages(
    *, calls: SearchStrategy[Sequence[ToolCall]] | None = None
) -> SearchStrategy[AssistantMessage]:
    """
    What models say: texts, parts of every kind, calls, and what the provider
    reports about the response.

    Args:
        calls: Where the calls of a message come from; by default up to three
            of any kind, whose ids may be empty or the same.

    Shrinks to an empty text without calls.
    """
    if calls is None:
        calls = rarely(st.just([]), st.lists(tool_calls(), max_size=3))

    return build_class(
        AssistantMessage,
        _common_fields(),
        content=_message_contents("assistant"),
        tool_calls=calls,
        response=rarely(st.none(), response_metas()),
    )


@once
def tool_messages(
    *, call_ids: SearchStrategy[str] | None = None
) -> SearchStrategy[ToolMessage]:
    """
    What tools answered, and how they failed.

    Args:
        call_ids: Where the ids of the calls come from; by default any text
            but the empty one.

    Shrinks to an empty text in answer to "0".
    """
    return build_class(
        ToolMessage,
        _common_fields(),
        content=_message_contents("tool"),
        tool_call_id=texts(min_size=1, max_size=12) if call_ids is None else call_ids,
        tool_name=texts(max_size=12),
        is_error=st.booleans(),
    )


@once
def unknown_messages() -> SearchStrategy[UnknownMessage]:
    """
    Messages of kinds that this version doesn't know: a newer one's (no source), or
    a provider's, whose role may be one of ours.

    Shrink to an empty object without a source.
    """
    return build_class(UnknownMessage, foreign_fields("role", ROLES), _common_fields())


@once
def messages() -> SearchStrategy[Message]:
    """
    Messages of all five kinds.

    Shrink to a user's empty text.
    """
    return st.one_of(
        user_messages(),
        system_messages(),
        assistant_messages(),
        tool_messages(),
        unknown_messages(),
    )


@once
def envelopes() -> SearchStrategy[Envelope]:
    """
    What the messages of one turn share.

    Shrink to fewer and emptier fields; ids that are not drawn are new ones.
    """
    fields: SearchStrategy[Fields] = st.fixed_dictionaries(
        {},
        optional={
            "name": texts(max_size=8),
            "run_id": uuids(),
            "turn_id": uuids(),
            "timestamp": timestamps(),
            "metadata": metadata(),
        },
    )
    return fields.map(lambda given: Envelope.new(**given))
