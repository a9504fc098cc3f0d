"""
Many chunks to one message, beside a bare ``"".join``, LangChain (its bulk
merge, and a fold with ``+``) and Pydantic AI's parts manager.

Ready chunks of text take at most ten times a join of their texts, a tenth of
LangChain's bulk merge, a twentieth of Pydantic AI's parts manager and, of
10,000, a two-hundredth of the fold; from a provider's events to the message it
is at most half of either. Pieces of a tool call are no different, whether they
are JSON or not.

From events, both peers run their own adapters for OpenAI; "deltas only" is
Pydantic AI's parts manager without its adapter, which reads nothing else of an
event. Events of OpenAI and Anthropic take one to four times as long as that, and
those of Gemini, each with the usage so far, up to ten times.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache, partial, reduce
from typing import Any

from benchmarks.measure import Row, seconds
from conversation_state import AssistantMessage, Message, ToolCall
from conversation_state.adapters import anthropic, gemini, openai_responses
from conversation_state.adapters.openai_chat import load_chunks
from conversation_state.chunks import Accumulator, concat

# The fold is quadratic, and so is a bulk merge of arguments, which is parsed
# again and again: they are left out where they would take minutes.
MAX_FOLDED = 10_000
MAX_CALLED = 1_000

Event = dict[str, Any]


def _make_texts(n: int) -> list[str]:
    return [f"word{i % 100} " for i in range(n)]


def _make_arguments(n: int, *, valid: bool) -> list[str]:
    inner = [f"word{i % 100} " for i in range(n - 2)]
    return ['{"q": "', *inner, '"}'] if valid else ["{", *inner, '"']


def _make_event(delta: Event) -> Event:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_752_169_304,
        "model": "gpt-4o",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "choices": [
            {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        ],
        "usage": None,
    }


def _events_of(provider: Any, texts: Sequence[str]) -> list[Event]:
    """What the *provider* sends for *texts*."""
    if provider is anthropic:
        block = {"type": "text", "text": ""}
        start = {"type": "content_block_start", "index": 0, "content_block": block}
        kind = {"type": "content_block_delta", "index": 0}
        return [
            start,
            *[{**kind, "delta": {"type": "text_delta", "text": x}} for x in texts],
        ]

    if provider is openai_responses:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        kind = {"type": "response.output_text.delta", **where, "logprobs": []}
        return [
            {**kind, "delta": text, "sequence_number": at}
            for at, text in enumerate(texts)
        ]

    return [
        {
            "candidates": [
                {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": 5,
                "candidatesTokenCount": at,
                "totalTokenCount": at + 5,
            },
            "modelVersion": "gemini-2.5-flash",
            "responseId": "response_1",
        }
        for at, text in enumerate(texts)
    ]


def _make_call_delta(at: int, arguments: str) -> Event:
    piece: Event = {"index": 0, "function": {"arguments": arguments}}
    if not at:
        piece |= {"id": "call_1", "type": "function"}
        piece["function"]["name"] = "search"

    return {"tool_calls": [piece]}


def _langchain_chunk(delta: Event) -> Any:
    from langchain_core.messages import AIMessageChunk

    pieces: list[Any] = [
        {
            "name": raw["function"].get("name"),
            "args": raw["function"]["arguments"],
            "id": raw.get("id"),
            "index": raw["index"],
            "type": "tool_call_chunk",
        }
        for raw in delta.get("tool_calls", ())
    ]
    return AIMessageChunk(content=delta.get("content", ""), tool_call_chunks=pieces)


def _merge_langchain(chunks: Sequence[Any]) -> Any:
    from langchain_core.messages.ai import add_ai_message_chunks

    return add_ai_message_chunks(*chunks)


@cache
def _langchain_model() -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(api_key="none")


def _langchain_from(events: Sequence[Event]) -> Any:
    from langchain_core.messages import AIMessageChunk

    convert = _langchain_model()._convert_chunk_to_generation_chunk
    made = [convert(event, AIMessageChunk, {}) for event in events]
    return _merge_langchain([each.message for each in made])


def _pydantic_ai(deltas: Sequence[Event]) -> Any:
    from pydantic_ai._parts_manager import ModelResponsePartsManager
    from pydantic_ai.models import ModelRequestParameters

    manager = ModelResponsePartsManager(ModelRequestParameters())
    for delta in deltas:
        for raw in delta.get("tool_calls", ()):
            manager.handle_tool_call_delta(
                vendor_part_id=raw["index"],
                tool_name=raw["function"].get("name"),
                args=raw["function"]["arguments"],
                tool_call_id=raw.get("id"),
            )

        if "content" in delta:
            for _ in manager.handle_text_delta(
                vendor_part_id="content", content=delta["content"]
            ):
                pass

    return manager.get_parts()


async def _pydantic_ai_reads(events: Sequence[Event]) -> Any:
    from openai._models import construct_type
    from openai.types.chat import ChatCompletionChunk
    from pydantic_ai._utils import PeekableAsyncStream
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIStreamedResponse
    from pydantic_ai.profiles.openai import openai_model_profile

    async def source() -> AsyncIterator[Any]:
        for event in events:
            yield construct_type(value=event, type_=ChatCompletionChunk)

    # What it is given in earnest has the SDK's own types.
    profile: Any = openai_model_profile("gpt-4o")
    events_read: Any = source()
    response = OpenAIStreamedResponse(
        model_request_parameters=ModelRequestParameters(),
        _model_name="gpt-4o",
        _model_profile=profile,
        _response=PeekableAsyncStream(events_read),
        _provider_name="openai",
        _model_id_namespace="openai",
        _provider_url="",
    )
    async for _ in response:
        pass

    return response.get()


def _pydantic_ai_from(events: Sequence[Event]) -> Any:
    return asyncio.run(_pydantic_ai_reads(events))


def _pydantic_ai_parts_from(events: Sequence[Event]) -> Any:
    return _pydantic_ai([event["choices"][0]["delta"] for event in events])


def _accumulate(chunks: Sequence[Message]) -> Message:
    accumulator = Accumulator()
    for chunk in chunks:
        accumulator = accumulator.add(chunk)

    return accumulator.message


def _compare_peers(
    claim: str, n: int, ours: Callable[[], Any], peers: dict[str, Callable[[], Any]]
) -> Iterator[Row]:
    took = seconds(ours, for_s=0.2) * 1e6
    for name, peer in peers.items():
        yield Row(claim, n, took, name, seconds(peer, least=1) * 1e6, "µs")


def _of_text(n: int) -> Iterator[Row]:
    texts = _make_texts(n)
    deltas = [{"content": text} for text in texts]
    events = [_make_event(delta) for delta in deltas]
    chunks = [AssistantMessage(text) for text in texts]
    theirs = [_langchain_chunk(delta) for delta in deltas]
    whole = "".join(texts)
    assert whole == concat(chunks).text
    assert whole == _accumulate(chunks).text
    assert whole == concat(load_chunks(events)).text
    assert whole == _merge_langchain(theirs).text
    assert whole == _langchain_from(events).text
    assert whole == _pydantic_ai(deltas)[0].content

    peers: dict[str, Callable[[], Any]] = {
        '"".join': partial("".join, texts),
        "LangChain, bulk": partial(_merge_langchain, theirs),
        "Pydantic AI": partial(_pydantic_ai, deltas),
    }
    if n <= MAX_FOLDED:
        peers["LangChain, +"] = partial(reduce, operator.add, theirs)

    yield from _compare_peers("concat, text", n, partial(concat, chunks), peers)
    yield Row(
        "Accumulator, text", n, seconds(partial(_accumulate, chunks)) * 1e6, unit="µs"
    )
    yield from _compare_peers(
        "events to message, text",
        n,
        lambda: concat(load_chunks(events)),
        {
            "LangChain, bulk": partial(_langchain_from, events),
            "Pydantic AI": partial(_pydantic_ai_from, events),
            "Pydantic AI, deltas only": partial(_pydantic_ai_parts_from, events),
        },
    )


def _of_providers(n: int) -> Iterator[Row]:
    texts = _make_texts(n)
    deltas = [_make_event({"content": text}) for text in texts]
    peers: dict[str, Callable[[], Any]] = {
        "Pydantic AI, deltas only": partial(_pydantic_ai_parts_from, deltas)
    }
    for provider in (anthropic, gemini, openai_responses):
        events = _events_of(provider, texts)
        assert "".join(texts) == _load_and_merge(provider, events).text

        name = provider.__name__.rpartition(".")[2]
        claim = f"events to message, text, {name}"
        yield from _compare_peers(
            claim, n, partial(_load_and_merge, provider, events), peers
        )


def _load_and_merge(provider: Any, events: Sequence[Event]) -> Message:
    message: Message = concat(provider.load_chunks(events))
    return message


def _of_calls(n: int, *, valid: bool) -> Iterator[Row]:
    texts = _make_arguments(n, valid=valid)
    deltas = [_make_call_delta(at, text) for at, text in enumerate(texts)]
    events = [_make_event(delta) for delta in deltas]
    chunks = [
        AssistantMessage(
            tool_calls=[
                ToolCall("" if at else "call_1", "" if at else "search", text, index=0)
            ]
        )
        for at, text in enumerate(texts)
    ]
    whole = "".join(texts)
    assert whole == concat(chunks).tool_calls[0].arguments
    assert whole == _accumulate(chunks).tool_calls[0].arguments
    assert whole == concat(load_chunks(events)).tool_calls[0].arguments

    peers: dict[str, Callable[[], Any]] = {
        '"".join': partial("".join, texts),
        "Pydantic AI": partial(_pydantic_ai, deltas),
    }
    from_events: dict[str, Callable[[], Any]] = {
        "Pydantic AI": partial(_pydantic_ai_from, events),
        "Pydantic AI, deltas only": partial(_pydantic_ai_parts_from, events),
    }
    if n <= (MAX_CALLED if valid else 100):
        theirs = [_langchain_chunk(delta) for delta in deltas]
        peers["LangChain, bulk"] = partial(_merge_langchain, theirs)
        peers["LangChain, +"] = partial(reduce, operator.add, theirs)
        from_events["LangChain, bulk"] = partial(_langchain_from, events)

    kind = "a call" if valid else "a call, no JSON"
    yield from _compare_peers(f"concat, {kind}", n, partial(concat, chunks), peers)
    took = seconds(partial(_accumulate, chunks)) * 1e6
    yield Row(f"Accumulator, {kind}", n, took, unit="µs")
    yield from _compare_peers(
        f"events to message, {kind}",
        n,
        lambda: concat(load_chunks(events)),
        from_events,
    )


def rows() -> Iterator[Row]:
    """Text and tool calls in 100, 1,000 and 10,000 pieces."""
    for n in (100, 1_000, 10_000):
        yield from _of_text(n)
        yield from _of_providers(n)
        yield from _of_calls(n, valid=True)
        yield from _of_calls(n, valid=False)
