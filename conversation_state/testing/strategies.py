"""
Hypothesis strategies: examples of every value this library has.

Each is a function with keyword-only options that gives a strategy, and says
how its examples shrink. Between them they make every value that can be
constructed, so what holds for their examples holds for what users bring:
text beyond the BMP, clocks of odd zones, parts from the future.

What lives here: values up to the state. What does not: what is true of them
(`laws`), and growing states step by step beside a model (`machines`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache, wraps
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state._identity import new_entry_id
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
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
from conversation_state.tools import ToolCall
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)

__all__ = [
    "aggregators",
    "assistant_messages",
    "audio_parts",
    "broken_transcripts",
    "checkpoints",
    "completion_tokens_details",
    "entries",
    "envelopes",
    "file_parts",
    "image_parts",
    "is_accepted",
    "json_values",
    "ledger_entries",
    "log_probs",
    "media_parts",
    "messages",
    "metadata",
    "parts",
    "prompt_tokens_details",
    "reasoning_parts",
    "refusal_parts",
    "response_metas",
    "system_messages",
    "text_parts",
    "texts",
    "timestamps",
    "tool_calls",
    "tool_messages",
    "transcripts",
    "turns",
    "unknown_fields",
    "unknown_messages",
    "unknown_parts",
    "usages",
    "user_messages",
    "uuids",
    "video_parts",
]

P = ParamSpec("P")
T = TypeVar("T")
Fields: TypeAlias = dict[str, Any]

# A thousand million of them add up to no more than 2**63 - 1.
MAX_COUNT = 2**32

_ROLES = ("system", "user", "assistant", "tool")


def _once(make: Callable[P, T]) -> Callable[P, T]:
    """
    *make*, which gives the same strategy for the same arguments: a strategy
    for messages is made of hundreds.
    """
    kept: Any = cache(make)

    @wraps(make)
    def once(*args: P.args, **options: P.kwargs) -> T:
        strategy: T = kept(*args, **options)
        return strategy

    return once


def _seldom(usual: SearchStrategy[T], rare: SearchStrategy[T]) -> SearchStrategy[T]:
    """
    *rare* about every fourth time, shrinking to *usual*.
    """
    return st.sampled_from([usual, usual, usual, rare]).flatmap(lambda chosen: chosen)


# Values without a home of their own


@_once
def texts(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[str]:
    """
    Any text that UTF-8 can carry: empty, NUL, beyond the BMP; no surrogates.

    Shrinks to shorter texts, and to zeros: "", "0", "00".
    """
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=max_size)


@_once
def uuids() -> SearchStrategy[UUID]:
    """
    UUIDs of any version, the nil one included.

    Shrink to those with more zeros.
    """
    return st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))


@_once
def timestamps() -> SearchStrategy[datetime]:
    """
    Aware datetimes of any year; offsets go down to the microsecond, as
    Python's do.

    Shrink to 2000-01-01 00:00 UTC.
    """
    day = timedelta(days=1) - timedelta(microseconds=1)
    odd = st.timedeltas(-day, day)
    hours = st.integers(-12, 14).map(lambda n: timedelta(hours=n))
    minutes = st.integers(-56, 56).map(lambda n: timedelta(minutes=15 * n))
    zones = st.one_of(hours, minutes, odd).map(timezone)
    return st.datetimes(timezones=zones)


@_once
def json_values(*, max_leaves: int = 6) -> SearchStrategy[Any]:
    """
    Whatever JSON can hold, as plain dicts, lists and scalars: integers of 64
    bits with sign or without, finite floats, nesting.

    Shrinks to scalars, and these to null.
    """
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        # Seldom drawn otherwise, and where readers of JSON differ.
        st.sampled_from([2**53 + 1, -(2**63), 2**64 - 1]),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(max_size=8),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(texts(max_size=6), inner, max_size=3),
        ),
        max_leaves=max_leaves,
    )


@_once
def metadata(*, max_size: int = 3) -> SearchStrategy[Fields]:
    """
    What a caller may give as *metadata*: plain dicts of JSON values.

    Shrinks to {}.
    """
    return st.dictionaries(texts(max_size=6), json_values(), max_size=max_size)


# What the fields of messages, parts, calls and responses are called, and what
# the wire adds; one text, for a set would take forty lines.
_NAMES = (
    " arguments content data detail finish_reason format id index is_error kind "
    "logprobs media_type metadata model name parts raw response role run_id "
    "signature source text timestamp tool_call_id tool_calls tool_name turn_id "
    "type unknown url usage version "
)


@_once
def unknown_fields(*, max_size: int = 2) -> SearchStrategy[Fields]:
    """
    Fields that a newer version may write: names that no field of ours has.

    Shrinks to {}.
    """
    names = st.one_of(
        st.sampled_from(["since_v2", "new", "Content"]),
        texts(max_size=6).filter(lambda name: f" {name} " not in _NAMES),
    )
    return st.dictionaries(names, json_values(max_leaves=3), max_size=max_size)


# Usage


def _counts(max_count: int) -> SearchStrategy[int]:
    return st.integers(0, max_count)


@_once
def prompt_tokens_details(
    *, max_count: int = MAX_COUNT
) -> SearchStrategy[PromptTokensDetails]:
    """
    Breakdowns of a prompt's tokens.

    Shrink to zeros.
    """
    counts = _counts(max_count)
    return st.builds(PromptTokensDetails, audio_tokens=counts, cached_tokens=counts)


@_once
def completion_tokens_details(
    *, max_count: int = MAX_COUNT
) -> SearchStrategy[CompletionTokensDetails]:
    """
    Breakdowns of a completion's tokens.

    Shrink to zeros.
    """
    counts = _counts(max_count)
    return st.builds(
        CompletionTokensDetails,
        accepted_prediction_tokens=counts,
        audio_tokens=counts,
        reasoning_tokens=counts,
        rejected_prediction_tokens=counts,
    )


@_once
def usages(*, max_count: int = MAX_COUNT) -> SearchStrategy[Usage]:
    """
    Usages, with totals that are no sums and categories of a provider's own.

    Args:
        max_count: The largest count; by default so small that a thousand
            million usages can be added.

    Shrink to zeros, totals to the sum, and no categories.
    """
    counts = _counts(max_count)
    names = st.sampled_from(["cache_write_tokens", "tool_use_prompt_tokens"])
    return st.builds(
        Usage,
        _counts(max_count // 2),
        _counts(max_count // 2),
        st.none() | counts,
        _seldom(
            st.just(PromptTokensDetails()), prompt_tokens_details(max_count=max_count)
        ),
        _seldom(
            st.just(CompletionTokensDetails()),
            completion_tokens_details(max_count=max_count),
        ),
        _seldom(
            st.just({}), st.dictionaries(names | texts(max_size=6), counts, max_size=3)
        ),
    )


# Parts


@_once
def _positions() -> SearchStrategy[int | None]:
    return st.none() | st.integers(0, 40) | st.just(2**63 - 1)


@_once
def _part_fields() -> SearchStrategy[Fields]:
    """
    What all parts may have; mostly nothing.
    """
    fields = st.fixed_dictionaries(
        {},
        optional={
            "metadata": metadata(),
            "index": _positions(),
            "unknown": unknown_fields(),
        },
    )
    return _seldom(st.just({}), fields)


class _Recipe(Generic[T]):
    """
    A class, and where its arguments come from.
    """

    # No attrs class: Hypothesis would show what is in it, which fills pages,
    # and warn that it did.
    __slots__ = ("fields", "kind")

    def __init__(
        self, kind: Callable[..., T], fields: tuple[SearchStrategy[Fields], ...]
    ) -> None:
        self.kind = kind
        self.fields = fields

    def __repr__(self) -> str:
        return self.kind.__name__


@st.composite
def _values(draw: DrawFn, recipe: _Recipe[T]) -> T:
    drawn = [draw(some) for some in recipe.fields]
    return recipe.kind(**{name: some[name] for some in drawn for name in some})


def _made(
    kind: Callable[..., T], *fields: SearchStrategy[Fields], **own: SearchStrategy[Any]
) -> SearchStrategy[T]:
    """
    What *kind* makes of all *fields* and its *own*.
    """
    return _values(_Recipe(kind, (st.fixed_dictionaries(own), *fields)))


@_once
def text_parts() -> SearchStrategy[TextPart]:
    """
    Text parts.

    Shrink to an empty text and nothing beside it.
    """
    return _made(TextPart, _part_fields(), text=texts())


def _media(
    kind: Callable[..., T], media_type: str, **own: SearchStrategy[Any]
) -> SearchStrategy[T]:
    urls = st.one_of(
        st.just("https://example.com/a"),
        st.just("data:text/plain;base64,aGk="),
        texts(min_size=1),
    )
    content = st.one_of(
        st.fixed_dictionaries({"url": urls}),
        st.fixed_dictionaries({"data": st.binary(min_size=1, max_size=64)}),
    )
    types = st.one_of(st.just(""), st.just(media_type), texts(max_size=8))
    return _made(kind, content, _part_fields(), media_type=types, **own)


@_once
def image_parts() -> SearchStrategy[ImagePart]:
    """
    Images, by url or by data.

    Shrink to a short url.
    """
    details = st.sampled_from(["", "low", "high", "auto"]) | texts(max_size=6)
    return _media(ImagePart, "image/png", detail=details)


@_once
def audio_parts() -> SearchStrategy[AudioPart]:
    """
    Sound, by url or by data.

    Shrinks to a short url.
    """
    return _media(AudioPart, "audio/wav")


@_once
def video_parts() -> SearchStrategy[VideoPart]:
    """
    Video, by url or by data.

    Shrinks to a short url.
    """
    return _media(VideoPart, "video/mp4")


@_once
def file_parts() -> SearchStrategy[FilePart]:
    """
    Files, by url or by data, with a name or without.

    Shrink to a short url.
    """
    return _media(FilePart, "application/pdf", name=texts(max_size=12))


@_once
def media_parts() -> SearchStrategy[MediaPart]:
    """
    Images, sound, video and files.

    Shrink to images.
    """
    return st.one_of(image_parts(), audio_parts(), video_parts(), file_parts())


@_once
def reasoning_parts() -> SearchStrategy[ReasoningPart]:
    """
    Reasoning, signed or not.

    Shrinks to an empty text without a signature.
    """
    signatures = texts(max_size=12)
    return _made(ReasoningPart, _part_fields(), text=texts(), signature=signatures)


@_once
def refusal_parts() -> SearchStrategy[RefusalPart]:
    """
    Refusals.

    Shrink to an empty text.
    """
    return _made(RefusalPart, _part_fields(), text=texts())


def _foreign(key: str, known: Iterable[str]) -> SearchStrategy[Fields]:
    """
    JSON objects of somebody else's, and whose they are; those of nobody are of
    no *known* kind.
    """
    taken = frozenset(known)
    words: SearchStrategy[Any] = st.one_of(
        st.sampled_from(["hologram", "unknown", "Text", ""]),
        texts(max_size=8),
        json_values(max_leaves=2),
    )

    def raws(words: SearchStrategy[Any]) -> SearchStrategy[Fields]:
        rest = metadata().map(lambda rest: {k: rest[k] for k in rest if k != key})
        return _made(Fields, rest, st.fixed_dictionaries({}, optional={key: words}))

    newer = words.filter(lambda word: not isinstance(word, str) or word not in taken)
    sources = st.sampled_from(["openai", "anthropic"]) | texts(min_size=1, max_size=8)
    return st.one_of(
        st.fixed_dictionaries({"raw": raws(newer), "source": st.just("")}),
        st.fixed_dictionaries(
            {"raw": raws(st.sampled_from(sorted(taken)) | words), "source": sources}
        ),
    )


@_once
def unknown_parts() -> SearchStrategy[UnknownPart]:
    """
    Parts that this version has no word for: a newer one's (no source), or a
    provider's, which may go by a name that we use for something else.

    Shrink to an empty object without a source.
    """
    return _made(UnknownPart, _foreign("type", KINDS), _part_fields())


@_once
def parts(*, role: str = "assistant") -> SearchStrategy[Part]:
    """
    Parts of every kind that a message of *role* may hold; an assistant's may
    hold any.

    Shrink to text parts.
    """
    if role == "system":
        return text_parts()

    kinds: list[SearchStrategy[Part]] = [text_parts(), media_parts(), unknown_parts()]
    if role == "assistant":
        kinds += [reasoning_parts(), refusal_parts()]

    return st.one_of(kinds)


# Messages


@_once
def tool_calls(
    *, ids: SearchStrategy[str] | None = None, names: SearchStrategy[str] | None = None
) -> SearchStrategy[ToolCall]:
    """
    Calls, whose arguments are JSON or whatever else the model wrote.

    Args:
        ids: Where ids come from; by default any text, "" included.

        names: Where names come from; likewise.

    Shrink to empty texts.
    """
    arguments = (
        st.sampled_from(["", "{}", '{"city": "Bern"}', '{"city": "Be']) | texts()
    )
    fields = st.fixed_dictionaries(
        {},
        optional={
            "index": _positions(),
            "type": st.just("custom") | texts(max_size=8),
            "metadata": metadata(),
            "unknown": unknown_fields(),
        },
    )
    return _made(
        ToolCall,
        _seldom(st.just({}), fields),
        id=texts(max_size=12) if ids is None else ids,
        name=texts(max_size=12) if names is None else names,
        arguments=arguments,
    )


@_once
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


@_once
def response_metas() -> SearchStrategy[ResponseMeta]:
    """
    What a provider told about a response.

    Shrink to nothing told.
    """
    reasons = st.sampled_from(["", "stop", "tool_calls", "interrupted"])
    return st.builds(
        ResponseMeta,
        reasons | texts(max_size=8),
        st.none() | usages(),
        _seldom(st.none(), st.lists(log_probs(), max_size=2)),
        st.just("") | texts(max_size=8),
        unknown=_seldom(st.just({}), unknown_fields()),
    )


@_once
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
    return _seldom(st.just({}), fields)


@_once
def _contents(role: str) -> SearchStrategy[str | Sequence[Part]]:
    listed: SearchStrategy[str | Sequence[Part]] = st.lists(
        parts(role=role), max_size=3
    )
    return _seldom(texts(), listed)


@_once
def system_messages() -> SearchStrategy[SystemMessage]:
    """
    What the model is told to be.

    Shrinks to an empty text and nothing beside it.
    """
    return _made(SystemMessage, _common_fields(), content=_contents("system"))


@_once
def user_messages() -> SearchStrategy[UserMessage]:
    """
    What users say: texts, and parts of every kind a user may send.

    Shrinks to an empty text and nothing beside it.
    """
    return _made(UserMessage, _common_fields(), content=_contents("user"))


@_once
def assistant_messages(
    *, calls: SearchStrategy[Sequence[ToolCall]] | None = None
) -> SearchStrategy[AssistantMessage]:
    """
    What models say: texts, parts of every kind, calls, and what the provider
    told about the response.

    Args:
        calls: Where the calls of a message come from; by default up to three
            of any kind, whose ids may be empty or the same.

    Shrinks to an empty text without calls.
    """
    if calls is None:
        calls = _seldom(st.just([]), st.lists(tool_calls(), max_size=3))

    return _made(
        AssistantMessage,
        _common_fields(),
        content=_contents("assistant"),
        tool_calls=calls,
        response=_seldom(st.none(), response_metas()),
    )


@_once
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
    return _made(
        ToolMessage,
        _common_fields(),
        content=_contents("tool"),
        tool_call_id=texts(min_size=1, max_size=12) if call_ids is None else call_ids,
        tool_name=texts(max_size=12),
        is_error=st.booleans(),
    )


@_once
def unknown_messages() -> SearchStrategy[UnknownMessage]:
    """
    Messages that this version has no word for: a newer one's (no source), or
    a provider's, whose role may be one of ours.

    Shrink to an empty object without a source.
    """
    return _made(UnknownMessage, _foreign("role", _ROLES), _common_fields())


@_once
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


@_once
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


# Conversations


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
def _transcripts(
    draw: DrawFn, min_size: int, max_size: int, speakers: _Speakers
) -> tuple[Message, ...]:
    said: list[Message] = []
    seen: set[str] = set()
    size = draw(st.integers(min_size, max_size))
    said += draw(st.lists(speakers.systems, max_size=min(2, size)))
    while len(said) < size:
        kind = draw(st.sampled_from(["user", "assistant", "calls"]))
        if kind == "user":
            said.append(draw(speakers.users))
        elif kind == "assistant":
            said.append(draw(speakers.answers))
        else:
            made: list[ToolCall] = []
            for call in draw(speakers.calls):
                name = call.id
                while not name or name in seen:
                    name = f"{name}{len(seen)}"

                seen.add(name)
                made.append(attrs.evolve(call, id=name))

            said.append(draw(speakers.answers).replace(tool_calls=made))
            # At the very end, an agent may have been stopped before its tools
            # were done; and where there is no more room, it was.
            answered = draw(st.permutations(made))
            if len(said) + len(made) >= size and draw(st.booleans()):
                least = max(0, min_size - len(said))
                answered = answered[: draw(st.integers(least, len(made)))]

            for call in answered[: size - len(said)]:
                result = draw(speakers.results)
                said.append(result.replace(tool_call_id=call.id, tool_name=call.name))

            if len(answered) < len(made):
                break

    return tuple(said)


def _is_result(message: Message) -> bool:
    return isinstance(message, ToolMessage)


@_once
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
    return _transcripts(min_size, max_size, speakers)


def _position_of(draw: DrawFn, said: list[Message], kind: type[Message]) -> int:
    return draw(
        st.sampled_from([at for at, one in enumerate(said) if isinstance(one, kind)])
    )


def _orphan(draw: DrawFn, said: list[Message]) -> None:
    """
    A result whose call is gone, or was never there.
    """
    at = _position_of(draw, said, ToolMessage)
    result = said[at]
    said[at] = result.replace(tool_call_id=f"{result.tool_call_id}, not made")  # type: ignore[attr-defined]


def _dangle(draw: DrawFn, said: list[Message]) -> None:
    """
    A call in the middle without a result.
    """
    del said[_position_of(draw, said, ToolMessage)]
    said.append(UserMessage("go on"))


def _duplicate(draw: DrawFn, said: list[Message]) -> None:
    """
    A result given twice, at once or later.
    """
    at = _position_of(draw, said, ToolMessage)
    said.insert(draw(st.integers(at + 1, len(said))), said[at])


def _separate(draw: DrawFn, said: list[Message]) -> None:
    """
    Something said between a call and its result.
    """
    at = _position_of(draw, said, ToolMessage)
    said.insert(at, UserMessage("are you done?"))


def _delay(draw: DrawFn, said: list[Message]) -> None:
    """
    A result that comes after something else was said.
    """
    late = said.pop(_position_of(draw, said, ToolMessage))
    said += [UserMessage("are you done?"), late]


def _repeat(draw: DrawFn, said: list[Message]) -> None:
    """
    Two calls with one id: in one message, or in two that are both answered.
    """
    at = _position_of(draw, said, ToolMessage)
    result = said[at]
    call = ToolCall(result.tool_call_id, "again")  # type: ignore[attr-defined]
    if draw(st.booleans()):
        said += [AssistantMessage(tool_calls=[call]), result]
    else:
        for n in range(at, -1, -1):
            caller = said[n]
            if isinstance(caller, AssistantMessage):
                said[n] = caller.replace(tool_calls=[*caller.tool_calls, call])
                break


def _command(draw: DrawFn, said: list[Message]) -> None:
    """
    A system message after somebody spoke.
    """
    said.append(UserMessage("hi"))
    said.insert(draw(st.integers(0, len(said))), SystemMessage("be brief"))
    said.append(SystemMessage("be brief"))


_BREAKS = (_orphan, _dangle, _duplicate, _separate, _delay, _repeat, _command)


@st.composite
def _broken_transcripts(
    draw: DrawFn, whole: SearchStrategy[tuple[Message, ...]]
) -> tuple[Message, ...]:
    said = list(draw(whole))
    call = ToolCall("call", "clock", "{}")
    said += [
        AssistantMessage(tool_calls=[call]),
        ToolMessage("12:30", tool_call_id="call"),
    ]
    if draw(st.booleans()):
        said.append(AssistantMessage("It is half past twelve."))

    for harm in draw(st.lists(st.sampled_from(_BREAKS), min_size=1, max_size=3)):
        if any(map(_is_result, said)):
            harm(draw, said)

    return tuple(said)


@_once
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
    return _broken_transcripts(_ended(max_size)).filter(
        lambda said: not is_accepted(said)
    )


@_once
def _ended(max_size: int) -> SearchStrategy[tuple[Message, ...]]:
    """
    Transcripts without open calls, which something can be added to.
    """

    def answered(said: tuple[Message, ...]) -> tuple[Message, ...]:
        done = {one.tool_call_id for one in said if isinstance(one, ToolMessage)}
        open_calls = [
            call
            for one in said
            if isinstance(one, AssistantMessage)
            for call in one.tool_calls
            if call.id not in done
        ]
        return (*said, *[ToolMessage("", tool_call_id=call.id) for call in open_calls])

    return transcripts(max_size=max_size).map(answered)


# States


@_once
def entries() -> SearchStrategy[Entry]:
    """
    Entries, as a state holds them; their identities are new ones.

    Shrink as their messages do.
    """
    return st.builds(Entry, st.builds(new_entry_id), messages())


@_once
def ledger_entries() -> SearchStrategy[LedgerEntry]:
    """
    Ledger entries, keyed or with new identities.

    Shrink to nothing spent on no model.
    """
    ids = st.builds(new_entry_id) | texts(min_size=1, max_size=8)
    return st.builds(LedgerEntry, ids, usages(), texts(max_size=6))


def _shipped(value: T) -> T:
    """
    A copy of *value* that shares nothing with it.
    """
    copy: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
    return copy


# Few keys and few usages, so that branches meet under one key, sometimes with
# different usages.
_KEYS = ("request 1", "request 2", "request 3")
_PAID = (Usage(10, 5), Usage(1))


@attrs.frozen
class _Steps:
    """
    What states are grown with.
    """

    messages: SearchStrategy[Message]
    usages: SearchStrategy[Usage]
    models: SearchStrategy[str]


@st.composite
def _aggregators(draw: DrawFn, max_steps: int, steps: _Steps) -> Aggregator:
    states = [Aggregator.new(id=draw(st.none() | uuids()))]
    for _ in range(draw(st.integers(0, max_steps))):
        state = states[draw(st.integers(-len(states), -1))]
        step = draw(
            st.sampled_from(
                ["add", "usage", "key", "fork", "at", "join", "many", "ship"]
            )
        )
        if step == "add":
            state = state.add(draw(steps.messages))
        elif step == "usage":
            state = state.add_usage(draw(steps.usages), model=draw(steps.models))
        elif step == "key":
            key, usage = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_PAID))
            if key not in [entry.id for entry in state.ledger]:
                state = state.add_usage(usage, key=key)
        elif step == "fork":
            state = state.fork()
        elif step == "at":
            state = state.fork(at=draw(st.integers(0, len(state))))
        elif step == "join":
            state = state.join(draw(st.sampled_from(states)))
        elif step == "many":
            # Past the borders of the log's blocks, at the price of one draw.
            state = state.extend([draw(steps.messages)] * draw(st.integers(1, 70)))
        else:
            state = _shipped(state)

        states.append(state)

    return states[-1]


@_once
def aggregators(*, max_steps: int = 6) -> SearchStrategy[Aggregator]:
    """
    States with a past: roots, forks and forks of forks, from the end or from
    earlier on; joined with their relatives; usage with keys and without; some
    longer than a block of the log, some unpickled.

    Args:
        max_steps: The most verbs it took to get there.

    Shrink to fewer steps, and to a root without messages. Identities are new
    ones each time, and do not shrink.
    """
    usual: SearchStrategy[Message] = texts().map(UserMessage)
    steps = _Steps(_seldom(usual, messages()), usages(), texts(max_size=6))
    return _aggregators(max_steps, steps)


@_once
def turns(*, max_steps: int = 6) -> SearchStrategy[Turn]:
    """
    What was added to a state since its fork; some shipped, and so without it.

    Shrink to empty turns of roots.
    """

    def turn(state: Aggregator, shipped: bool) -> Turn:  # noqa: FBT001 - drawn
        return _shipped(state.turn) if shipped else state.turn

    return st.builds(turn, aggregators(max_steps=max_steps), st.booleans())


@_once
def checkpoints(*, max_steps: int = 6) -> SearchStrategy[Checkpoint]:
    """
    States somebody kept, under any label.

    Shrink to an empty root without a label.
    """
    return st.builds(Checkpoint, aggregators(max_steps=max_steps), texts(max_size=8))
