"""
Chunks: messages in pieces.
"""

from __future__ import annotations

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
from conversation_state.testing.strategies._messages import response_metas
from conversation_state.testing.strategies._parts import parts, text_parts
from conversation_state.testing.strategies._values import (
    Fields,
    metadata,
    once,
    rarely,
    texts,
    timestamps,
    usages,
)
from conversation_state.tools import ToolCall

__all__ = ["chunks"]


@once
def _split_texts(role: str) -> SearchStrategy[Part]:
    """
    Parts that often continue each other.
    """
    index = st.sampled_from([None, None, 0, 1])
    sound = st.builds(
        AudioPart,
        data=st.binary(min_size=1, max_size=4),
        media_type=st.sampled_from(["", "audio/wav", "audio/mpeg"]),
        index=index,
    )
    text = st.builds(TextPart, texts(max_size=4), index=index, metadata=_build_notes())
    return text if role == "system" else st.one_of(text, sound, parts(role=role))


@once
def _build_notes() -> SearchStrategy[Fields]:
    """
    Metadata under few keys, so that it meets.
    """
    value = st.one_of(st.none(), st.integers(0, 2), texts(max_size=2))
    value = st.one_of(value, st.lists(value, max_size=2))
    value = st.one_of(value, st.dictionaries(st.sampled_from("ab"), value, max_size=2))
    met = st.dictionaries(st.sampled_from("ab"), value, max_size=2)
    return rarely(st.just({}), met | metadata())


@once
def _call_pieces() -> SearchStrategy[ToolCall]:
    """
    Calls in pieces, with few ids and indexes and one name.
    """
    return st.builds(
        ToolCall,
        id=st.sampled_from(["", "", "a", "b"]),
        name=st.sampled_from(["", "", "search"]),
        arguments=st.sampled_from(["", '{"q', '": 1}']) | texts(max_size=4),
        index=st.sampled_from([0, 0, 1, None]),
        metadata=_build_notes(),
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
    content = rarely(texts(max_size=6), st.lists(pieces, max_size=3))
    chunks: list[Message] = []
    for _ in range(draw(st.integers(1, max_size))):
        fields: dict[str, Any] = {"content": draw(content)}
        if draw(st.integers(0, 4)) == 0:
            fields["name"] = name
            fields["metadata"] = draw(_build_notes())
            fields["timestamp"] = draw(st.none() | timestamps())

        if role == "assistant":
            fields["tool_calls"] = draw(
                rarely(st.just([]), st.lists(_call_pieces(), max_size=3))
            )
            fields["response"] = draw(rarely(st.none(), _build_metadata()))
        elif role == "tool":
            fields["tool_call_id"] = "call"
            fields["tool_name"] = draw(st.sampled_from(["", "search"]))
            fields["is_error"] = draw(st.booleans())

        chunks.append(kinds[role](**fields))

    return tuple(chunks)


@once
def _build_metadata() -> SearchStrategy[Any]:
    """
    The metadata of a chunk; counts are small enough to be added.
    """
    small = st.none() | usages(max_count=2**40)
    return st.builds(
        lambda meta, usage: attrs.evolve(meta, usage=usage), response_metas(), small
    )


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
