"""A stream is the response: what is dumped again, and what is lost, is the same."""

import json
import re
from importlib import import_module
from typing import Any

import attrs
import pytest

from conversation_state import concat
from conversation_state.adapters import gemini, openai_chat, openai_responses
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.requests import AS_IS

CALL = {"id": "A", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def write_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """
    The events of a response in Chat with this *message*, each key in one of its own.
    """
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    for key in ("reasoning_content", "reasoning", "content", "refusal"):
        text = message.get(key)
        if text is not None:
            deltas += [{key: ""}, *[{key: piece} for piece in text]]

    for at, call in enumerate(message.get("tool_calls", ())):
        deltas.append({"tool_calls": [{"index": at, **call}]})

    return [{"id": "c", "choices": [{"index": 0, "delta": each}]} for each in deltas]


@pytest.mark.parametrize("calls", [[], [CALL]], ids=["no calls", "calls"])
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "refusal"])
@pytest.mark.parametrize("text", ["", "hm"])
@pytest.mark.parametrize("content", ["", "hi"])
def test_empty_texts(content, text, key, calls):
    """A text that came empty is sent back empty, as DeepSeek asks."""
    message = {"role": "assistant", "content": content, key: text}
    if calls:
        message["tool_calls"] = calls

    (whole,) = openai_chat.load({"id": "c", "choices": [{"message": message}]})
    streamed = concat(openai_chat.load_chunks(write_events(message)))

    expected = openai_chat.dump([whole], rules=AS_IS)
    assert expected == openai_chat.dump([streamed], rules=AS_IS)
    assert openai_chat.dump([whole]) == openai_chat.dump([streamed])
    assert text == expected.payload["messages"][0][key]


STREAMS: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"choices": [{"delta": {"tool_calls": [each]}}]}
        for each in (
            {"index": 0, **CALL},
            {"index": 1, **CALL, "id": "B"},
            {"index": 0, "function": {"arguments": " "}},
        )
    ],
    "anthropic": [
        {"type": f"content_block_{kind}", "index": at, **more}
        for kind, at, more in (
            ("start", 0, {"content_block": {"type": "text", "text": ""}}),
            ("start", 1, {"content_block": {"type": "text", "text": "b"}}),
            ("delta", 0, {"delta": {"type": "text_delta", "text": "a"}}),
            ("stop", 0, {}),
            ("stop", 1, {}),
        )
    ],
    "openai_responses": [
        {"type": f"response.output_{kind}", "output_index": at, **more}
        for kind, at, more in (
            ("item.added", 0, {"item": {"type": "message", "role": "assistant"}}),
            ("item.added", 1, {"item": {"type": "message", "role": "assistant"}}),
            ("text.delta", 0, {"content_index": 0, "delta": "a"}),
            ("text.delta", 1, {"content_index": 0, "delta": "b"}),
            ("text.delta", 0, {"content_index": 1, "delta": "c"}),
        )
    ],
}


@pytest.mark.parametrize("write", [str, float])
@pytest.mark.parametrize("name", STREAMS)
def test_written_numbers(name, write):
    """The number of a call, a block or an item may be a text or a float."""
    adapter: Any = import_module(f"conversation_state.adapters.{name}")
    written = re.sub(
        r'("(?:\w+_)?index": )(\d)',
        lambda found: found[1] + json.dumps(write(int(found[2]))),
        json.dumps(STREAMS[name]),
    )

    expected = concat(adapter.load_chunks(STREAMS[name]))
    assert expected == concat(adapter.load_chunks(json.loads(written)))
    assert len(expected.parts) + len(expected.tool_calls) > 1


ODD = ["0", "x", "", True, -1, 0.0, 0.5, [0], {}]


@pytest.mark.parametrize("index", ODD, ids=lambda one: repr(one)[:9])
def test_odd_choice(index):
    """Nothing of the only answer is dropped, whatever its index is."""
    deltas = [{"content": piece} for piece in ("pa", "id", "")]
    chat = [{"choices": [{"index": index, "delta": each}]} for each in deltas]
    google = [
        {"candidates": [{"index": index, "content": {"parts": [{"text": piece}]}}]}
        for piece in ("pa", "id")
    ]

    assert "paid" == concat(openai_chat.load_chunks(chat)).text
    assert "paid" == concat(gemini.load_chunks(google)).text


@pytest.mark.parametrize("arguments", [{}, {"a": [1.0, None, "é"]}], ids=repr)
def test_arguments_as_an_object(arguments):
    """
    Arguments that came as an object are read as their JSON text, and sent as text.
    """
    function = {"name": "f", "arguments": arguments}
    call = {"id": "A", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    item = {"type": "function_call", "call_id": "A", **function}

    loaded = [
        *openai_chat.load({"id": "c", "choices": [{"message": message}]}),
        concat(openai_chat.load_chunks(write_events(message))),
        *openai_responses.load({"id": "r", "output": [item]}),
    ]

    for answer in loaded:
        (read,) = answer.tool_calls
        assert arguments == json.loads(read.arguments)
        (sent,) = openai_chat.dump([answer]).payload["messages"][0]["tool_calls"]
        assert read.arguments == sent["function"]["arguments"]


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {"role": "tool", "tool_call_id": "A"},
        {"role": "function", "name": "f"},
    ],
    ids=repr,
)
def test_messages_of_other_formats(raw):
    """
    A message without the content that its role needs is refused, not loaded empty.
    """
    with pytest.raises(DecodeError) as caught:
        openai_chat.load([{"role": "assistant", "content": None}, raw])

    assert ["$[1].content"] == [problem.path for problem in caught.value.problems]


def test_done_texts():
    """
    Where the end of a text or a call differs from its pieces, the end is sent back.
    """
    call = {
        "type": "function_call",
        "id": "fc",
        "call_id": "c",
        "name": "f",
        "arguments": '{"a":2}',
    }
    block = {"type": "output_text", "text": "true", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [block]}
    whole = {"id": "r", "status": "completed", "output": [call, message]}
    item, delta = "response.output_item", "delta"
    places: list[dict[str, Any]] = [
        {"output_index": 0, "item_id": "fc"},
        {"output_index": 1, "item_id": "m", "content_index": 0},
    ]
    stem = "response.function_call_arguments"
    events = [
        {"type": f"{item}.added", **places[0], "item": {**call, "arguments": ""}},
        {"type": f"{stem}.delta", **places[0], delta: '{"a":1}'},
        {"type": f"{item}.done", **places[0], "item": call},
        {"type": f"{item}.added", **places[1], "item": {**message, "content": []}},
        {"type": "response.output_text.delta", **places[1], delta: "false"},
        {"type": f"{item}.done", **places[1], "item": message},
        {"type": "response.completed", "response": whole},
    ]

    streamed = concat(openai_responses.load_chunks(events))

    expected = openai_responses.dump(openai_responses.load(whole))
    assert expected == openai_responses.dump([streamed])


def write_numbered(adapter: Any, numbers: list[Any], text: str) -> list[Any]:
    """The events of answers with *numbers*, each a letter of *text*, and their end."""
    events: list[Any] = []
    for letter in text:
        for number in numbers:
            piece = f"{letter}{number}" if len(numbers) > 1 else letter
            if adapter is openai_chat:
                choice = {"index": number, "delta": {"content": piece}}
                events.append({"id": "r", "choices": [choice]})
            else:
                content = {"role": "model", "parts": [{"text": piece}]}
                candidate = {"index": number, "content": content}
                events.append({"responseId": "r", "candidates": [candidate]})

    return events


@pytest.mark.parametrize("number", [0, 1, 3, 1.0, "1", "x"], ids=repr)
@pytest.mark.parametrize("adapter", [openai_chat, gemini], ids=["chat", "gemini"])
def test_only_answer_has_any_number(adapter, number):
    """The only answer of a stream is that of the response, whatever its number."""
    events = write_numbered(adapter, [number], "hello")
    if adapter is openai_chat:
        events.append({"choices": [{"index": number, "finish_reason": "stop"}]})
        choice = {"index": number, "message": {"content": "hello"}}
        whole = {"id": "r", "choices": [{**choice, "finish_reason": "stop"}]}
    else:
        events.append({"candidates": [{"index": number, "finishReason": "stop"}]})
        content = {"role": "model", "parts": [{"text": "hello"}]}
        candidate = {"index": number, "content": content, "finishReason": "stop"}
        whole = {"responseId": "r", "candidates": [candidate]}

    (expected,) = adapter.load(whole)

    assert expected == concat(adapter.load_chunks(events))
    assert ("hello", "stop") == (expected.text, expected.response.finish_reason)


@pytest.mark.parametrize(
    ("numbers", "choice", "expected"),
    [
        ([0, 1], 0, "a0b0"),
        ([1, 0], 0, "a0b0"),
        ([2, 1, 0], 1, "a1b1"),
        ([3, 1], 0, "a3b3"),  # the first that comes
        ([0, 1], 2, ""),
        ([1], 2, ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("adapter", [openai_chat, gemini], ids=["chat", "gemini"])
def test_one_of_several_answers(adapter, numbers, choice, expected):
    """Of several answers that come mixed, one is read, in whatever order they come."""
    events = write_numbered(adapter, numbers, "ab")

    assert expected == concat(adapter.load_chunks(events, choice=choice)).text


@pytest.mark.parametrize("adapter", [openai_chat, gemini], ids=["chat", "gemini"])
def test_held_answer_is_checked(adapter):
    """
    What is wrong in an answer with another number is raised, after what could be read;
    and a client may change the events that it has passed.
    """
    one, broken = write_numbered(adapter, [1], "ab")
    holder = broken["choices" if adapter is openai_chat else "candidates"][0]
    holder.update({"delta": 5, "content": 5})

    def events():
        yield one
        one["choices" if adapter is openai_chat else "candidates"][0].clear()
        yield broken

    chunks: list[Any] = []
    with pytest.raises(DecodeError, match=r"\$\[1\]\.c\w+\[0\]"):
        chunks.extend(adapter.load_chunks(events()))

    assert "a" == concat(chunks).text


def test_held_answer_failed():
    """An error of the provider in such an answer is raised, with the answer before."""
    events = write_numbered(openai_chat, [1], "hi")
    events[-1]["choices"][0]["error"] = {"message": "overloaded"}
    chunks: list[Any] = []
    with pytest.raises(ProviderStreamError, match="overloaded"):
        chunks.extend(openai_chat.load_chunks(events))

    assert "hi" == concat(chunks).text


@pytest.mark.parametrize("content", ["hi", None], ids=repr)
@pytest.mark.parametrize("real", [[], [CALL]], ids=["alone", "before a call"])
@pytest.mark.parametrize(
    "empty",
    [
        {"function_call": {}},
        {"function_call": {"name": "", "arguments": ""}},
        {"function_call": {"name": None, "arguments": None}},
        {"tool_calls": [{}]},
        {"tool_calls": [{"index": 0, "function": {}}, {"type": None}]},
        {"tool_calls": [{"id": "", "type": "function", "function": {"name": ""}}]},
    ],
    ids=str,
)
def test_empty_call(empty, real, content):
    """
    A call without id, name and arguments is no call: what stands beside it is read,
    whole and streamed, and a request with it is the same when it is loaded and dumped.
    """
    message = {"role": "assistant", "content": content, **empty}
    if real:
        message["tool_calls"] = [*message.get("tool_calls", ()), *real]

    (whole,) = openai_chat.load({"id": "c", "choices": [{"message": message}]})
    deltas = [{"content": content, **empty}, {"tool_calls": real}]
    events = [{"id": "c", "choices": [{"delta": delta}]} for delta in deltas]
    streamed = concat(openai_chat.load_chunks(events))
    asked = openai_chat.load([message])

    assert [call["id"] for call in real] == [call.id for call in whole.tool_calls]
    assert whole.tool_calls == tuple(
        attrs.evolve(call, index=None) for call in streamed.tool_calls
    )
    assert (content or "") == whole.text == streamed.text
    assert [message] == openai_chat.dump(asked, rules=AS_IS).payload["messages"]
    for messages in ([whole], [streamed], asked) if content or real else ():
        (sent,) = openai_chat.dump(messages).payload["messages"]
        assert real == sent.get("tool_calls", [])
        assert "function_call" not in sent


def test_empty_piece_of_a_call():
    """A piece that says nothing, before a call or within, changes nothing."""
    name = {"index": 0, "id": "A", "function": {"name": "f", "arguments": ""}}
    pieces = [
        [{"index": 0, "function": {"name": "", "arguments": ""}}],
        [name],
        [{"index": 0}],
        [{"index": 0, "function": {"arguments": "{}"}}],
    ]
    events = [{"choices": [{"delta": {"tool_calls": piece}}]} for piece in pieces]
    (call,) = concat(openai_chat.load_chunks(events)).tool_calls

    assert ("A", "f", "{}") == (call.id, call.name, call.arguments)
