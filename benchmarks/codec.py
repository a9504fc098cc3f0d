"""
Messages to bytes and back, beside msgspec's native structs, LangChain's
`messages_to_dict` with `json`, and Pydantic AI's `ModelMessagesTypeAdapter`.

Out 0.2 µs a message of 400 characters and in 0.6 µs, 1.1 of ten thousand: 2.5 to 3.5
times what msgspec takes, and 5 to 8 times, and an eighth of what LangChain and
Pydantic AI take, or less. Recorded exchanges, of which most messages have parts, calls
or metadata: out a fifth of what Pydantic AI takes for the same messages, and in four
fifths of it, from plain data too, but for the Responses format: there as long.
Transcripts with calls in a fifth.

What is left of `from_data` is mostly bare operations. For a recorded message of the
Responses format, which has five maps in its metadata: these frozen, a third, of
which a call of their class alone is a third; texts and integers checked by writing
them once, a twelfth; and the collector, which has ten objects to look at where it has
four of Pydantic AI's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.measure import Row, seconds
from benchmarks.recordings import airline, exchanges
from conversation_state import Aggregator, AssistantMessage, UserMessage, decode, encode
from conversation_state.codec import from_data, to_data

TEXT = "All work and no play makes Jack a dull boy. " * 9 + "Yes."


def _make_msgspec(n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import msgspec

    class Message(msgspec.Struct):
        role: str
        content: str

    messages = [Message("assistant" if i % 2 else "user", TEXT) for i in range(n)]
    wire = msgspec.json.encode(messages)
    decoder = msgspec.json.Decoder(list[Message])
    assert messages == decoder.decode(wire)
    return lambda: msgspec.json.encode(messages), lambda: decoder.decode(wire)


def _make_langchain(n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        messages_from_dict,
        messages_to_dict,
    )

    messages = [AIMessage(TEXT) if i % 2 else HumanMessage(TEXT) for i in range(n)]
    wire = json.dumps(messages_to_dict(messages))
    return (
        lambda: json.dumps(messages_to_dict(messages)),
        lambda: messages_from_dict(json.loads(wire)),
    )


def _pydantic_ai(n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        UserPromptPart,
    )

    messages: list[ModelMessage] = [
        ModelResponse([TextPart(TEXT)])
        if i % 2
        else ModelRequest([UserPromptPart(TEXT)])
        for i in range(n)
    ]
    wire = ModelMessagesTypeAdapter.dump_json(messages)
    return (
        lambda: ModelMessagesTypeAdapter.dump_json(messages),
        lambda: ModelMessagesTypeAdapter.validate_json(wire),
    )


def _measure_recordings() -> Iterator[Row]:
    """All recorded exchanges of a provider as one state, and all transcripts."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from conversation_state.adapters import pydantic_ai

    transcripts = tuple(
        message for conversation in airline() for message in conversation
    )
    recorded = exchanges() | ({"transcripts": transcripts} if transcripts else {})
    for provider, messages in recorded.items():
        state = Aggregator.new(messages=messages)
        wire = encode(state)
        data = to_data(state)
        theirs = pydantic_ai.dump(messages).payload
        their_wire = ModelMessagesTypeAdapter.dump_json(theirs)
        their_data = json.loads(their_wire)
        assert state == decode(wire) == from_data(data)
        for claim, ours, peer in (
            (
                f"encode {provider}",
                partial(encode, state),
                partial(ModelMessagesTypeAdapter.dump_json, theirs),
            ),
            (
                f"decode {provider}",
                partial(decode, wire),
                partial(ModelMessagesTypeAdapter.validate_json, their_wire),
            ),
            (
                f"from_data {provider}",
                partial(from_data, data),
                partial(ModelMessagesTypeAdapter.validate_python, their_data),
            ),
        ):
            n = len(messages)
            took, beside = seconds(ours) * 1e6 / n, seconds(peer) * 1e6 / n
            yield Row(claim, n, took, "Pydantic AI", beside, "µs")


def rows() -> Iterator[Row]:
    """
    A state of 100 and of 10,000 messages, and recorded exchanges; times are for
    one message.
    """
    for n in (100, 10_000):
        messages = [
            AssistantMessage(TEXT) if i % 2 else UserMessage(TEXT) for i in range(n)
        ]
        state = Aggregator.new(messages=messages)
        wire = encode(state)
        assert state == decode(wire)
        each = 1e6 / n
        ours = seconds(partial(encode, state)) * each
        back = seconds(partial(decode, wire)) * each
        for beside, peer in (
            ("msgspec structs", _make_msgspec),
            ("LangChain", _make_langchain),
            ("Pydantic AI", _pydantic_ai),
        ):
            write, read = peer(n)
            yield Row("encode a message", n, ours, beside, seconds(write) * each, "µs")
            yield Row("decode a message", n, back, beside, seconds(read) * each, "µs")

    yield from _measure_recordings()
