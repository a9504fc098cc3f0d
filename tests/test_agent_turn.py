"""
A whole turn of an agent, from the question to the saved answer and its bill, with
each provider's protocol, over plain HTTP. With the official clients it is a page of the
documentation.
"""

import json
import urllib.request
from functools import partial
from typing import Any

import pytest

from conversation_state import Aggregator, TokenBudget, open_store, trim
from conversation_state.adapters import (
    anthropic,
    events,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.chunks import concat
from conversation_state.counting import cost
from conversation_state.testing.provider import StrictProvider
from conversation_state.tool_calls import call
from conversation_state.tools import ToolChoice, ToolInfo
from conversation_state.usage import Usage

BUDGET = TokenBudget(context_window=8_000, max_output_tokens=1_000)
MODEL = "model-of-tests"
TOOL = ToolInfo(
    "trains",
    "Trains that leave soon.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)


def trains(city: str) -> list[str]:
    """The tool that the model calls."""
    return [f"{city} 12:30", f"{city} 13:00"]


# What the providers answer: a call of the tool, then a text.


def chat_response(id, message, reason):
    return {
        "id": id,
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "trains", "arguments": '{"city": "Bern"}'},
}
CHAT = [
    chat_response(
        "chat-1",
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
        "tool_calls",
    ),
    chat_response("chat-2", {"role": "assistant", "content": "At 12:30."}, "stop"),
]


def chat_stream(response):
    choice = response["choices"][0]
    shared = {**response, "object": "chat.completion.chunk"}
    calls = [
        {"index": at, **each}
        for at, each in enumerate(choice["message"].get("tool_calls", ()))
    ]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    del shared["usage"]
    return [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {
            **shared,
            "choices": [
                {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
            ],
        },
        {**shared, "choices": [], "usage": response["usage"]},
    ]


def responses_response(id, item):
    return {
        "id": id,
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


RESPONSES = [
    responses_response(
        "resp_1",
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "trains",
            "arguments": '{"city": "Bern"}',
            "status": "completed",
        },
    ),
    responses_response(
        "resp_2",
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "At 12:30.", "annotations": []}
            ],
        },
    ),
]


def responses_stream(response):
    item = response["output"][0]
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    happened = [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [{**each, "sequence_number": at} for at, each in enumerate(happened)]


def anthropic_response(id, block, reason):
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


ANTHROPIC = [
    anthropic_response(
        "msg_1",
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "trains",
            "input": {"city": "Bern"},
        },
        "tool_use",
    ),
    anthropic_response("msg_2", {"type": "text", "text": "At 12:30."}, "end_turn"),
]


def anthropic_stream(response):
    block = response["content"][0]
    if block["type"] == "text":
        start = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        text = json.dumps(block["input"])
        delta = {"type": "input_json_delta", "partial_json": text}

    message = {**response, "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": response["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def gemini_response(id, part):
    return {
        "responseId": id,
        "modelVersion": MODEL,
        "candidates": [
            {
                "content": {"role": "model", "parts": [part]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "totalTokenCount": 15,
        },
    }


GEMINI = [
    gemini_response(
        "g-1", {"functionCall": {"name": "trains", "args": {"city": "Bern"}}}
    ),
    gemini_response("g-2", {"text": "At 12:30."}),
]


def post(server, path, **body):
    request = urllib.request.Request(
        f"{server.base_url}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=60)


def over_http(path, with_model, server, adapter, payload, *, is_streamed):
    """What a provider answers to *payload*, as messages: by `urllib` alone."""
    body = {**payload, **with_model, **({"stream": True} if is_streamed else {})}
    if not is_streamed:  # Gemini says it in the path
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")

    with post(server, path, **body) as response:
        if is_streamed:
            return (concat(adapter.load_chunks(events(response))),)

        return adapter.load(json.load(response))


STREAM = f"/models/{MODEL}:streamGenerateContent?alt=sse"
TURNS: dict[str, tuple[Any, Any, Any, Any]] = {
    "chat": (
        openai_chat,
        CHAT,
        chat_stream,
        partial(over_http, "/chat/completions", {"model": MODEL}),
    ),
    "responses": (
        openai_responses,
        RESPONSES,
        responses_stream,
        partial(over_http, "/responses", {"model": MODEL}),
    ),
    "anthropic": (
        anthropic,
        ANTHROPIC,
        anthropic_stream,
        partial(over_http, "/v1/messages", {"model": MODEL, "max_tokens": 100}),
    ),
    "gemini": (
        gemini,
        GEMINI,
        lambda response: [response],
        partial(over_http, STREAM, {}),
    ),
}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_turn_from_question_to_saved_answer(turn, is_streamed):
    """
    The loop of the front page: ask, run the tools that the model calls, ask again,
    save. The second request has the call, its result and the tools; each response
    is billed once.
    """
    adapter, responses, as_stream, ask = turn
    prepared = [as_stream(each) if is_streamed else each for each in responses]
    with StrictProvider(prepared) as server, open_store("memory:") as store:
        state = Aggregator.new().add_user_prompt("When is the next train to Bern?")
        while True:
            payload = {
                **adapter.dump(trim(state, BUDGET).messages).payload,
                **adapter.dump_tools([TOOL], choice=ToolChoice.ALLOWED).payload,
            }
            state = state.add_response(
                *ask(server, adapter, payload, is_streamed=is_streamed)
            )
            for each in state[-1].tool_calls:
                state = state.add_tool_response(call(trains, each))

            if state[-1].role == "assistant":
                break

        store.save("trip", state)
        saved = store.load("trip")

    roles = [message.role for message in saved]
    assert ["user", "assistant", "tool", "assistant"] == roles
    assert '["Bern 12:30","Bern 13:00"]' == saved[2].text
    assert "At 12:30." == saved[3].text
    assert Usage(20, 10) == saved.total_usage
    assert () == cost(saved).unbilled
    sent = json.dumps(server.requests[1].body)
    for words in ("next train", '"trains"', "Trains that leave soon.", "Bern 13:00"):
        assert words in sent
