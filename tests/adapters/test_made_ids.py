"""The ids of calls that came without one."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversation_state import Aggregator, ToolMessage, concat
from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.messages import AssistantMessage, Message
from conversation_state.testing.provider import judge

# How a server leaves an id out.
ABSENT: list[dict[str, Any]] = [{}, {"id": None}, {"id": ""}]
VALID = re.compile("[a-zA-Z0-9_-]{1,40}")

# Response ids: none, plain ones, and ones that are too long or hold other characters.
RESPONSE_IDS = ["", "r1", "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012", "a/b:c é" * 9]


def of_chat(ids: list[dict[str, Any]], name: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{**one, "type": "function", "function": function} for one in ids]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {**({"id": name} if name else {}), "choices": [choice]}


def stream_chat(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = {key: whole[key] for key in whole if key != "choices"}
    for at, call in enumerate(whole["choices"][0]["message"]["tool_calls"]):
        head = {**call, "function": {"name": "f", "arguments": ""}}
        tail = {"function": {"arguments": "{}"}}
        for piece in (head, tail):
            delta = {"tool_calls": [{"index": at, **piece}]}
            yield {**about, "choices": [{"index": 0, "delta": delta}]}


def of_responses(ids: list[dict[str, Any]], name: str) -> dict[str, Any]:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    output = [
        {**call, **{f"call_{key}": value for key, value in one.items()}} for one in ids
    ]
    return {**({"id": name} if name else {}), "status": "completed", "output": output}


def stream_responses(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**whole, "output": []}}
    for at, item in enumerate(whole["output"]):
        added = {**item, "arguments": ""}
        place = {"output_index": at}
        yield {"type": "response.output_item.added", **place, "item": added}
        stem = "response.function_call_arguments"
        yield {"type": f"{stem}.delta", **place, "delta": "{}"}
        yield {"type": f"{stem}.done", **place, "arguments": "{}"}
        yield {"type": "response.output_item.done", **place, "item": item}

    yield {"type": "response.completed", "response": whole}


def of_anthropic(ids: list[dict[str, Any]], name: str) -> dict[str, Any]:
    content = [{"type": "tool_use", **one, "name": "f", "input": {}} for one in ids]
    about = {"id": name} if name else {}
    return {**about, "role": "assistant", "content": content, "stop_reason": "tool_use"}


def stream_anthropic(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**whole, "content": []}}
    for at, block in enumerate(whole["content"]):
        yield {"type": "content_block_start", "index": at, "content_block": block}
        yield {"type": "content_block_stop", "index": at}

    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    yield {"type": "message_stop"}


def of_gemini(ids: list[dict[str, Any]], name: str) -> dict[str, Any]:
    parts = [{"functionCall": {**one, "name": "f", "args": {}}} for one in ids]
    about = {"responseId": name} if name else {}
    return {**about, "candidates": [{"content": {"role": "model", "parts": parts}}]}


def stream_gemini(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in whole["candidates"][0]["content"]["parts"]:
        yield {**whole, "candidates": [{"content": {"parts": [part]}}]}


FORMATS: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "anthropic": (anthropic, of_anthropic, stream_anthropic),
    "chat": (openai_chat, of_chat, stream_chat),
    "gemini": (gemini, of_gemini, stream_gemini),
    "responses": (openai_responses, of_responses, stream_responses),
}


def load_whole(name: str, ids: list[dict[str, Any]], response: str) -> Any:
    adapter, make, _ = FORMATS[name]
    return adapter.load(make(ids, response))[0]


def load_stream(name: str, ids: list[dict[str, Any]], response: str) -> Any:
    adapter, make, stream = FORMATS[name]
    return concat(adapter.load_chunks(stream(make(ids, response))))


LOADERS = {"streamed": load_stream, "whole": load_whole}

pytestmark = pytest.mark.parametrize("name", FORMATS)


def ids_of(message: Any) -> list[str]:
    return [call.id for call in message.tool_calls]


def converse(answers: list[AssistantMessage]) -> tuple[Message, ...]:
    """A conversation in which each call of *answers* has its result."""
    state = Aggregator.new()
    for answer in answers:
        state = state.add_user_prompt("q").add_response(answer)
        for call_id in ids_of(answer):
            result = ToolMessage("r", tool_call_id=call_id, tool_name="f")
            state = state.add_tool_response(result)

    return tuple(state)


@pytest.mark.parametrize("how", LOADERS)
@pytest.mark.parametrize("absent", ABSENT, ids=str)
class TestAbsent:
    """An id that is missing, null or ""."""

    def test_unique_in_time(self, name, how, absent):
        """Without a response's id two responses never have the same ids."""
        answers = [LOADERS[how](name, [absent, absent], "") for _ in range(3)]

        found = [call_id for answer in answers for call_id in ids_of(answer)]
        assert 6 == len({*found})
        assert all(map(VALID.fullmatch, found))

    @pytest.mark.parametrize("response", RESPONSE_IDS)
    def test_valid(self, name, how, absent, response):
        """
        Whatever the response's id is, all providers take the ids that are made of it.
        """
        found = ids_of(LOADERS[how](name, [absent] * 11, response))

        assert 11 == len({*found})
        assert all(map(VALID.fullmatch, found))

    @pytest.mark.parametrize("target", FORMATS)
    def test_sent_with_call_and_result(self, name, how, absent, target):
        """What is sent has the same ids at calls and results, each once."""
        answers = [LOADERS[how](name, [absent, absent], r) for r in ("", "x", "y")]

        export = FORMATS[target][0].dump(converse(answers))

        called, answered = sent_ids(target, export.payload)
        assert called == answered
        # Gemini has no ids for its own calls, and pairs them by name and order.
        is_home = name == target == "gemini"
        assert (1 if is_home else 6) == len({*called})
        assert (set() if not is_home else {None}) == {*called} & {None, ""}

    @pytest.mark.parametrize("target", FORMATS)
    @pytest.mark.parametrize("response", RESPONSE_IDS)
    def test_judged(self, name, how, absent, response, target):
        """
        A judge that shares no code with the adapters accepts what is sent; but for
        Mistral's nine characters, which are a rule of that host.
        """
        responses = [response and f"{response}{at}" for at in range(2)]
        answers = [LOADERS[how](name, [absent, absent], one) for one in responses]
        adapter = FORMATS[target][0]
        wire = adapter.__name__.rpartition(".")[2]

        payload = adapter.dump(converse(answers)).payload

        assert () == judge(wire, payload)


def sent_ids(target: str, payload: Any) -> tuple[list[Any], list[Any]]:
    """The ids of the calls and of the results in *payload*."""
    if target == "chat":
        sent = payload["messages"]
        return (
            [c["id"] for m in sent for c in m.get("tool_calls", ())],
            [m["tool_call_id"] for m in sent if m["role"] == "tool"],
        )

    if target == "responses":
        items = payload["input"]
        return tuple(  # type: ignore[return-value]
            [item["call_id"] for item in items if item.get("type") == kind]
            for kind in ("function_call", "function_call_output")
        )

    if target == "anthropic":
        blocks = [
            block
            for message in payload["messages"]
            if not isinstance(message["content"], str)
            for block in message["content"]
        ]
        return tuple(  # type: ignore[return-value]
            [block[key] for block in blocks if key in block]
            for key in ("id", "tool_use_id")
        )

    parts = [part for content in payload["contents"] for part in content["parts"]]
    return tuple(  # type: ignore[return-value]
        [part[key].get("id") for part in parts if key in part]
        for key in ("functionCall", "functionResponse")
    )


@pytest.mark.parametrize("absent", ABSENT, ids=str)
def test_stream_and_whole(name, absent):
    """A stream makes up the ids that the whole response gets, if that has an id."""
    ids = [absent, {"id": "given"}, absent]

    whole, streamed = (LOADERS[how](name, ids, "r1") for how in ("whole", "streamed"))

    assert ids_of(whole) == ids_of(streamed)
    assert [call.metadata for call in whole.tool_calls] == [
        call.metadata for call in streamed.tool_calls
    ]


@pytest.mark.parametrize("absent", ABSENT, ids=str)
def test_history(name, absent):
    """
    In a history ids are made of the place, so that loading it again gives the same.
    """
    adapter, make, _ = FORMATS[name]
    payload = adapter.dump(adapter.load(make([absent, absent], "r"))).payload
    for listed in payload.values():
        if isinstance(listed, list):
            strip_ids(listed)

    first, second = adapter.load(payload), adapter.load(payload)

    assert first == second
    assert 2 == len({*ids_of(first[-1])})


def strip_ids(value: Any) -> None:
    for one in value if isinstance(value, list) else value.values():
        if isinstance(one, dict | list):
            strip_ids(one)

    if isinstance(value, dict):
        value.pop("id", None)
        value.pop("call_id", None)
