"""
What the stream helpers of the official SDKs give, dumped to JSON: the events of
the provider, changed a little, and events derived from them.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from conversation_state.adapters import anthropic, openai_chat, openai_responses
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from tests import recorded
from tests.adapters import anthropic as said
from tests.adapters import openai_responses as responses
from tests.adapters.stream_contract import events_of
from tests.processes import count_calls

# No JSON: what is derived is not even looked at.
SNAPSHOT = object()


def anthropic_helper(events: Iterable[Any]) -> Iterator[Any]:
    """*events* as ``client.messages.stream()`` gives them."""
    derived = {
        "citations_delta": ("citation", "citation"),
        "input_json_delta": ("input_json", "partial_json"),
        "signature_delta": ("signature", "signature"),
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
    }
    for event in events:
        kind = event["type"]
        if kind == "content_block_stop":
            yield {**event, "content_block": {"type": "text", "text": SNAPSHOT}}
        elif kind == "message_stop":
            yield {**event, "message": {"content": SNAPSHOT}}
        elif kind != "ping":
            yield event

        delta = event.get("delta") or {}
        if delta.get("type") in derived:
            name, key = derived[delta["type"]]
            snapshot = {} if name == "signature" else {"snapshot": SNAPSHOT}
            yield {"type": name, key: delta[key], **snapshot}


def chat_helper(events: Iterable[Any]) -> Iterator[Any]:
    """*events* as ``client.chat.completions.stream()`` gives them."""
    for event in events:
        if event == "[DONE]":
            continue

        yield {"type": "chunk", "chunk": event, "snapshot": SNAPSHOT}
        for choice in event["choices"]:
            delta = choice["delta"]
            if delta.get("content"):
                piece = {"delta": delta["content"], "snapshot": SNAPSHOT}
                yield {"type": "content.delta", "parsed": None, **piece}

            for call in delta.get("tool_calls") or ():
                yield {
                    "type": "tool_calls.function.arguments.delta",
                    "name": "f",
                    "index": call["index"],
                    "arguments": SNAPSHOT,
                    "parsed_arguments": SNAPSHOT,
                    "arguments_delta": call["function"].get("arguments"),
                }

            if choice.get("finish_reason"):
                yield {"type": "content.done", "content": SNAPSHOT, "parsed": None}


def responses_helper(events: Iterable[Any]) -> Iterator[Any]:
    """*events* as ``client.responses.stream()`` gives them."""
    for event in events:
        kind = event["type"]
        if kind in {
            "response.function_call_arguments.delta",
            "response.output_text.delta",
        }:
            yield {**event, "snapshot": SNAPSHOT}
        elif kind == "response.output_text.done":
            yield {**event, "parsed": SNAPSHOT}
        elif kind == "response.completed":
            output = [with_parsed(item) for item in event["response"]["output"]]
            yield {**event, "response": {**event["response"], "output": output}}
        else:
            yield event


def with_parsed(item: Any) -> Any:
    """An *item* of a response as ``client.responses.parse()`` gives it."""
    if item["type"] == "function_call":
        return {**item, "parsed_arguments": SNAPSHOT}

    if item["type"] != "message":
        return item

    blocks = [{**block, "parsed": SNAPSHOT} for block in item["content"]]
    return {**item, "content": blocks}


ANTHROPIC: list[Any] = [
    said.start(),
    said.begin({"type": "thinking", "thinking": "", "signature": ""}),
    said.delta("thinking", thinking="Hm."),
    said.delta("signature", signature="c2ln"),
    said.stop(),
    said.begin(said.text(""), 1),
    said.more("Half ", 1),
    said.more("past.", 1),
    said.delta("citations", 1, citation={"type": "char_location", "cited_text": "12"}),
    said.stop(1),
    said.begin(said.call("c1"), 2),
    said.given('{"a":', 2),
    said.given(" 1}", 2),
    said.stop(2),
    said.last("tool_use"),
    said.END,
]


def chat_event(reason: str | None = None, **delta: Any) -> Any:
    """A chunk of Chat Completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt"}
    return {**fields, "choices": [choice]}


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
CHAT: list[Any] = [
    chat_event(role="assistant", content=""),
    chat_event(content="Half "),
    chat_event(content="past."),
    chat_event(tool_calls=[{"index": 0, **CALL}]),
    chat_event(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
    chat_event(tool_calls=[{"index": 0, "function": {"arguments": " 1}"}}]),
    chat_event("tool_calls"),
    {**chat_event(), "choices": [], "usage": {"prompt_tokens": 9}},
]

SPOKEN = responses.message("Half past.")
CALLED = responses.call(id="fc_1", arguments='{"a": 1}')
RESPONSES: list[Any] = [
    responses.added(responses.message()),
    responses.piece("Half "),
    responses.piece("past."),
    responses.event("output_text.done", text="Half past.", output_index=0),
    responses.done(SPOKEN),
    responses.added({**CALLED, "arguments": ""}, 1),
    responses.asked('{"a":', 1),
    responses.asked(" 1}", 1),
    responses.done(CALLED, 1),
    responses.end(SPOKEN, CALLED),
]

HELPERS: dict[str, tuple[Any, Callable[[Iterable[Any]], Iterator[Any]], list[Any]]] = {
    "anthropic": (anthropic, anthropic_helper, ANTHROPIC),
    "openai_chat": (openai_chat, chat_helper, CHAT),
    "openai_responses": (openai_responses, responses_helper, RESPONSES),
}
named = pytest.mark.parametrize("name", HELPERS)


def repeated(name: str, size: int) -> list[Any]:
    """What a helper gives of a stream with *size* pieces of a text."""
    _, helper, events = HELPERS[name]
    at = 6 if name == "anthropic" else 1
    return list(helper([*events[:at], *(events[at] for _ in range(size))]))


class TestHelpers:
    @named
    def test_same_message(self, name):
        """
        A helper's events make the message that the provider's own make, with
        nothing beside it.
        """
        adapter, helper, events = HELPERS[name]
        plain = concat(adapter.load_chunks(events))

        assert "Half past." == plain.text
        assert ('{"a": 1}',) == tuple(call.arguments for call in plain.tool_calls)
        assert plain == concat(adapter.load_chunks(helper(events)))

    @named
    def test_recorded(self, name):
        """The same of every recorded stream."""
        adapter, helper, _ = HELPERS[name]
        for path in recorded.streams(name):
            events = [each for each in events_of(path) if each != "[DONE]"]
            if any("error" in each for each in events):
                continue

            assert concat(adapter.load_chunks(events)) == concat(
                adapter.load_chunks(helper(events))
            )

    @named
    def test_linear(self, name):
        """Reading takes as long for each piece, however long the text is by then."""
        adapter, *_ = HELPERS[name]
        small, large = (
            count_calls(partial(list, adapter.load_chunks(repeated(name, size))))
            for size in (200, 400)
        )

        assert large < 2.1 * small

    @pytest.mark.parametrize(
        ("name", "event"),
        [
            ("anthropic", {"type": "text", "text": "Hi", "snapshot": "Hi"}),
            ("anthropic", {"type": "thinking", "thinking": "Hi", "snapshot": "Hi"}),
            ("openai_chat", {"type": "content.delta", "delta": "a", "snapshot": "a"}),
            ("openai_chat", {"type": "content.done", "content": "Hi"}),
        ],
    )
    def test_derived_events_alone(self, name, event):
        """
        Without the events they are derived from there would be no text: that
        is an error.
        """
        adapter, *_ = HELPERS[name]

        with pytest.raises(DecodeError, match="derived from another event"):
            list(adapter.load_chunks([event]))


class TestParsed:
    def test_openai_chat(self):
        """What ``client.chat.completions.parse()`` adds is not sent back."""
        reply = {"role": "assistant", "content": "{}"}
        function = {"name": "f", "arguments": "{}"}
        call = {"id": "c1", "type": "function", "function": function}
        parsed = {**function, "parsed_arguments": SNAPSHOT}
        calls = [{**call, "function": parsed}]
        message = {**reply, "tool_calls": calls, "parsed": SNAPSHOT}
        response = {"choices": [{"index": 0, "message": message}]}

        assert {"messages": [{**reply, "tool_calls": [call]}]} == (
            openai_chat.dump(openai_chat.load(response)).payload
        )

    def test_openai_responses(self):
        """What ``client.responses.parse()`` adds is not sent back."""
        items = [SPOKEN, CALLED]
        response = {"output": [with_parsed(item) for item in items]}

        assert {"input": items} == (
            openai_responses.dump(openai_responses.load(response)).payload
        )

    def test_anthropic(self):
        """What ``client.messages.parse()`` adds is not sent back."""
        block = {"type": "text", "text": "{}"}
        content = [{**block, "parsed_output": SNAPSHOT}]
        response = {"role": "assistant", "content": content}

        assert {"messages": [{"role": "assistant", "content": [block]}]} == (
            anthropic.dump(anthropic.load(response)).payload
        )

    @pytest.mark.parametrize("is_set", [False, True])
    def test_keywords_of_python(self, is_set):
        """
        Keys that are words of Python are sent back as the provider spells them, and
        only if it sent them.
        """
        calls: list[Any] = [
            {"type": kind, "call_id": kind, "name": "f", key: "{}"}
            for kind, key in (
                ("function_call", "arguments"),
                ("custom_tool_call", "input"),
            )
        ]
        sent = [{**call, **({"async": True} if is_set else {})} for call in calls]
        spelt = [{**call, "async_": True if is_set else None} for call in calls]
        events = [
            {"type": f"response.output_item.{verb}", "output_index": at, "item": item}
            for at, item in enumerate(spelt)
            for verb in ("added", "done")
        ]
        whole = {"output": spelt}
        end = {"type": "response.completed", "response": whole}

        for messages in (
            openai_responses.load(whole),
            [concat(openai_responses.load_chunks(events))],
            [concat(openai_responses.load_chunks([end]))],
        ):
            assert {"input": sent} == openai_responses.dump(messages).payload

    def test_fallbacks_of_anthropic(self):
        """The model that declined is named under the provider's own key."""
        block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
        again = {**block, "from_": block["from"]}
        spelt = {key: again[key] for key in again if key != "from"}
        expected = {"messages": [{"role": "assistant", "content": [block]}]}

        for raw in (again, spelt):
            start = {"type": "content_block_start", "index": 0, "content_block": raw}
            events = [start, {"type": "content_block_stop", "index": 0}]
            whole = {"role": "assistant", "content": [raw]}

            assert expected == anthropic.dump(anthropic.load(whole)).payload
            assert expected == (
                anthropic.dump([concat(anthropic.load_chunks(events))]).payload
            )

    def test_own_keys(self):
        """A key of that name in an item of another kind is kept."""
        item = {"type": "custom_thing", "parsed": 1, "content": [{"parsed_output": 2}]}
        messages = openai_responses.load({"output": [item]})

        assert {"input": [item]} == openai_responses.dump(messages).payload
