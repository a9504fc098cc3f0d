"""Parts, tool calls, messages, and what messages are made of besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

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
from conversation_state.parts import (
    KINDS,
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing._drawing import (
    Fields,
    build_class,
    few,
    once,
    optional,
    rarely,
)
from conversation_state.testing.strategies._values import (
    FLOATS,
    json_values,
    metadata,
    texts,
    timestamps,
    unknown_fields,
    usages,
    uuids,
)
from conversation_state.tools import ToolCall


@once
def _part_positions() -> SearchStrategy[int | None]:
    return st.none() | st.integers(0, 40) | st.just(2**63 - 1)


@once
def _part_fields() -> SearchStrategy[Fields]:
    return optional(
        metadata=metadata(), index=_part_positions(), unknown=unknown_fields()
    )


@once
def text_parts() -> SearchStrategy[TextPart]:
    """Text parts; shrink to an empty text and nothing else."""
    return build_class(TextPart, _part_fields(), text=texts())


M = TypeVar("M", bound=MediaPart)


@once
def _media_parts(
    kind: type[M], media_type: str, **own: SearchStrategy[Any]
) -> SearchStrategy[M]:
    urls = st.one_of(
        st.just("https://example.com/a"),
        st.just("data:text/plain;base64,aGk="),
        texts(min_size=1),
    )
    content = st.one_of(
        st.fixed_dictionaries({"url": urls}),
        st.fixed_dictionaries({"data": st.binary(min_size=1)}),
    )
    types = st.one_of(st.just(""), st.just(media_type), texts())
    return build_class(kind, content, _part_fields(), media_type=types, **own)


_DETAILS = st.sampled_from(["", "low", "high", "auto"]) | texts()
MEDIA: dict[type[MediaPart], SearchStrategy[MediaPart]] = {
    ImagePart: _media_parts(ImagePart, "image/png", detail=_DETAILS),
    AudioPart: _media_parts(AudioPart, "audio/wav"),
    VideoPart: _media_parts(VideoPart, "video/mp4"),
    FilePart: _media_parts(FilePart, "application/pdf", name=texts()),
}


@once
def media_parts() -> SearchStrategy[MediaPart]:
    """
    Images, sound, video and files, by url or by data; shrink to images with a short
    url. Those of one kind are found by type: ``st.from_type(ImagePart)``.
    """
    return st.one_of(*MEDIA.values())


@once
def reasoning_parts() -> SearchStrategy[ReasoningPart]:
    """Reasoning, signed or not; shrinks to an empty text without a signature."""
    signatures = texts()
    return build_class(
        ReasoningPart, _part_fields(), text=texts(), signature=signatures
    )


@once
def refusal_parts() -> SearchStrategy[RefusalPart]:
    """Refusals; shrink to an empty text."""
    return build_class(RefusalPart, _part_fields(), text=texts())


def foreign_fields(key: str, known: Iterable[str]) -> SearchStrategy[Fields]:
    """
    JSON objects of foreign formats, and their format; those without one are of
    no *known* kind.
    """
    taken = frozenset(known)
    words: SearchStrategy[Any] = st.one_of(
        st.sampled_from(["unknown", "Text", ""]), texts(), json_values()
    )

    def raws(words: SearchStrategy[Any]) -> SearchStrategy[Fields]:
        rest = metadata().map(lambda rest: {k: rest[k] for k in rest if k != key})
        return build_class(
            Fields, rest, st.fixed_dictionaries({}, optional={key: words})
        )

    newer = words.filter(lambda word: not isinstance(word, str) or word not in taken)
    sources = st.sampled_from(["openai", "anthropic"]) | texts(min_size=1)
    return st.one_of(
        st.fixed_dictionaries({"raw": raws(newer), "source": st.just("")}),
        st.fixed_dictionaries(
            {"raw": raws(st.sampled_from(sorted(taken)) | words), "source": sources}
        ),
    )


@once
def unknown_parts() -> SearchStrategy[UnknownPart]:
    """
    Parts of kinds that this version doesn't know: a newer one's (no source), or a
    provider's, which may go by a name that we use for something else; shrink to an
    empty object without a source.
    """
    return build_class(UnknownPart, foreign_fields("type", KINDS), _part_fields())


@once
def parts(*, role: str = "assistant") -> SearchStrategy[Part]:
    """
    Parts of every kind that a message of *role* may hold; an assistant's may hold any;
    shrink to text parts.
    """
    if role == "system":
        return text_parts()

    kinds: list[SearchStrategy[Part]] = [text_parts(), media_parts(), unknown_parts()]
    if role == "assistant":
        kinds += [reasoning_parts(), refusal_parts()]

    return st.one_of(kinds)


@once
def tool_calls() -> SearchStrategy[ToolCall]:
    """Calls, whose arguments are JSON or any other text; shrink to empty texts."""
    arguments = (
        st.sampled_from(["", "{}", '{"city": "Bern"}', '{"city": "Be']) | texts()
    )
    fields = optional(
        index=_part_positions(),
        type=st.just("custom") | texts(),
        metadata=metadata(),
        unknown=unknown_fields(),
    )
    return build_class(ToolCall, fields, id=texts(), name=texts(), arguments=arguments)


@once
def log_probs() -> SearchStrategy[LogProb]:
    """
    Log probabilities of tokens, with up to three likelier ones; shrink to the empty
    token at 0.
    """

    def build(tops: SearchStrategy[list[LogProb]]) -> SearchStrategy[LogProb]:
        return st.builds(LogProb, texts(), FLOATS, st.none() | st.binary(), tops)

    return build(few(build(st.just([]))))


@once
def response_metas() -> SearchStrategy[ResponseMeta]:
    """What a provider reports about a response; shrink to nothing reported."""
    reasons = st.sampled_from(["", "stop", "tool_calls", "interrupted"])
    return st.builds(
        ResponseMeta,
        reasons | texts(),
        st.none() | usages(),
        rarely(st.none(), few(log_probs())),
        texts(),
        texts(),
        unknown=rarely(st.just({}), unknown_fields()),
    )


@once
def _common_fields() -> SearchStrategy[Fields]:
    return optional(
        name=texts(),
        run_id=uuids(),
        turn_id=uuids(),
        timestamp=timestamps(),
        metadata=metadata(),
        unknown=unknown_fields(),
    )


@once
def _message_contents(role: str) -> SearchStrategy[str | Sequence[Part]]:
    listed: SearchStrategy[str | Sequence[Part]] = few(parts(role=role))
    return rarely(texts(), listed)


@once
def system_messages() -> SearchStrategy[SystemMessage]:
    """Instructions for the model; shrinks to an empty text and nothing else."""
    return build_class(
        SystemMessage, _common_fields(), content=_message_contents("system")
    )


@once
def user_messages() -> SearchStrategy[UserMessage]:
    """
    Messages of users: texts, and parts of every kind a user may send; shrinks to an
    empty text and nothing else.
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
        calls = rarely(st.just([]), few(tool_calls()))

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
        tool_call_id=texts(min_size=1) if call_ids is None else call_ids,
        tool_name=texts(),
        is_error=st.booleans(),
    )


@once
def unknown_messages() -> SearchStrategy[UnknownMessage]:
    """
    Messages of kinds that this version doesn't know: a newer one's (no source), or a
    provider's, whose role may be one of ours; shrink to an empty object without a
    source.
    """
    kinds = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)
    foreign = foreign_fields("role", [kind.role for kind in kinds])
    return build_class(UnknownMessage, foreign, _common_fields())


@once
def messages() -> SearchStrategy[Message]:
    """Messages of all five kinds; shrink to a user's empty text."""
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
    What the messages of one turn share; shrink to fewer and emptier fields; ids that
    are not drawn are new ones.
    """
    fields: SearchStrategy[Fields] = st.fixed_dictionaries(
        {},
        optional={
            "name": texts(),
            "run_id": uuids(),
            "turn_id": uuids(),
            "timestamp": timestamps(),
            "metadata": metadata(),
        },
    )
    return fields.map(lambda given: Envelope.new(**given))
