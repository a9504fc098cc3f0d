"""
Anthropic Messages: what all adapters promise, and real traffic.
"""

import base64
import json
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import attrs
import pytest

from conversation_state._persistent import thaw
from conversation_state.adapters import anthropic, openai_chat
from conversation_state.adapters.anthropic import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, ToolMessage
from conversation_state.parts import (
    FilePart,
    ImagePart,
    ReasoningPart,
    UnknownPart,
)
from tests.adapters.anthropic import (
    REQUESTS,
    RESPONSES,
    cost,
    one,
    result,
    several,
    user,
)
from tests.adapters.contract import AdapterContract, as_json, bare


def meaning(arguments):
    """
    *arguments* without what JSON does not tell apart.
    """
    with suppress(ValueError, RecursionError):
        value = json.loads(arguments or "{}")
        if isinstance(value, dict):
            return json.dumps(value)

    return arguments


def in_other_words(part, role):
    """
    *part* as it comes back.
    """
    if isinstance(part, UnknownPart) and part.source == "anthropic":
        raw: Any = thaw(part.raw)
        if role == "tool":
            return one(user(result(content=[raw]))).content[0]

        return one({"role": role, "content": [raw]}).content[0]

    head, _, body = (getattr(part, "url", None) or "").partition(";base64,")
    if isinstance(part, (FilePart, ImagePart)) and body and head.startswith("data:"):
        data = base64.b64decode(body + "==")
        media_type = part.media_type or head[5:]
        part = attrs.evolve(part, url=None, data=data, media_type=media_type)

    if isinstance(part, (FilePart, ImagePart)) and part.data and not part.media_type:
        starts = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg"}
        starts |= {b"GIF8": "image/gif", b"%PDF-": "application/pdf"}
        kinds = [kind for start, kind in starts.items() if part.data.startswith(start)]
        return attrs.evolve(part, media_type=(*kinds, "text/plain")[0])

    return part


class TestContract(AdapterContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = anthropic
    documents: ClassVar = REQUESTS
    responses: ClassVar = RESPONSES

    def said(self, message):
        """
        Arguments are objects, a text beside calls is a part, and bytes are of
        some media type.
        """
        if isinstance(message, AssistantMessage):
            calls = [
                attrs.evolve(call, arguments=meaning(call.arguments))
                for call in message.tool_calls
            ]
            message = message.replace(tool_calls=calls)
            if calls and isinstance(message.content, str):
                message = message.replace(content=message.parts)

        if not isinstance(getattr(message, "content", ""), str):
            content = [in_other_words(part, message.role) for part in message.content]
            message = message.replace(content=content)

        return bare(message)


def lines(path):
    """
    The JSON values of a file, one a line.
    """
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sent(payload):
    """
    All blocks of *payload*, a text as the one it is short for.
    """
    return [
        (message["role"], block)
        for message in payload["messages"]
        for block in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    ]


class TestRecorded:
    """
    Real conversations.
    """

    def exchanges(self, shared_data):
        """
        All that were recorded, but for counts of tokens.
        """
        found = lines(shared_data / "requests" / "anthropic.jsonl")
        return [one for one in found if "content" in one["response"]]

    def test_requests(self, shared_data):
        """
        Requests come back as they were, system messages and all.
        """
        exchanges = lines(shared_data / "requests" / "anthropic.jsonl")
        for exchange in exchanges:
            request = exchange["request"]
            export = dump(load(request))

            said = {
                key: request[key] for key in ("messages", "system") if key in request
            }
            assert () == export.lost
            assert as_json(said) == as_json(export.payload)
            assert as_json(said["messages"]) == as_json(
                dump(load(request["messages"])).payload["messages"]
            )

        assert 58 == len(exchanges)

    def test_arguments(self, shared_data):
        """
        Calls and results keep their ids, and results learn the tool's name.
        """
        for exchange in self.exchanges(shared_data):
            loaded = load(exchange["request"])
            calls = {
                call.id: call
                for message in loaded
                for call in getattr(message, "tool_calls", ())
            }
            blocks = {
                block["id"]: block
                for _, block in sent(exchange["request"])
                if block["type"] == "tool_use"
            }
            assert {at: block["input"] for at, block in blocks.items()} == {
                at: json.loads(call.arguments) for at, call in calls.items()
            }
            assert all(
                calls[message.tool_call_id].name == message.tool_name
                for message in loaded
                if isinstance(message, ToolMessage)
            )

    def test_responses(self, shared_data):
        """
        Responses load with what they cost, and can be sent back.
        """
        for exchange in self.exchanges(shared_data):
            response = exchange["response"]
            (message,) = several(response)
            told = response["usage"]

            export = dump([message])
            assert response["stop_reason"] == message.response.finish_reason
            assert response["model"] == message.response.model
            assert response["id"] == message.metadata["anthropic"]["response"]["id"]
            assert load_usage(response) == load_usage(told) == message.response.usage
            assert message.response.usage.prompt_tokens == (
                told["input_tokens"]
                + told["cache_read_input_tokens"]
                + told["cache_creation_input_tokens"]
            )
            assert told["output_tokens"] == message.response.usage.completion_tokens
            assert () == export.lost
            assert as_json(response["content"]) == as_json(
                export.payload["messages"][0]["content"]
            )

    def test_iterations_add_up(self, shared_data):
        """
        What a response did itself is in its counts; its advisor's is beside.
        """
        seen = 0
        for exchange in self.exchanges(shared_data):
            usage = cost(exchange["response"])
            runs = exchange["response"]["usage"].get("iterations")
            if runs:
                seen += 1
                own = [cost(run) for run in runs if run["type"] == "message"]
                advice = [cost(run) for run in runs if run["type"] != "message"]
                assert usage.prompt_tokens == sum(one.prompt_tokens for one in own)
                assert usage.extra.get("advisor_message_prompt", 0) == (
                    sum(one.prompt_tokens for one in advice)
                )
                assert usage.extra.get("advisor_message_completion", 0) == (
                    sum(one.completion_tokens for one in advice)
                )

        assert 4 == seen

    def test_counts_of_tokens(self, shared_data):
        """
        Counting tokens gives a usage and no message.
        """
        counted = [
            one["response"]
            for one in lines(shared_data / "requests" / "anthropic.jsonl")
            if "content" not in one["response"]
        ]

        assert 4 == len(counted)
        for response in counted:
            assert response["input_tokens"] == cost(response).prompt_tokens
            with pytest.raises(DecodeError, match="neither messages nor content"):
                load(response)


class TestCrossing:
    """
    Conversations of one provider, sent to another.
    """

    def test_from_openai(self, shared_data):
        """
        Agents' conversations are said here without a loss, and by the rules.
        """
        for talk in lines(shared_data / "transcripts" / "airline.jsonl"):
            export = dump(openai_chat.load(talk))
            payload = export.payload

            assert () == export.lost
            assert talk["messages"][0]["content"] == payload["system"]
            assert "user" == payload["messages"][0]["role"]
            self.check_rules(payload)
            self.check_same(talk["messages"][1:], payload)

    def test_and_back(self, shared_data):
        """
        And say the same again when they go home.
        """
        for talk in lines(shared_data / "transcripts" / "airline.jsonl"):
            first = openai_chat.load(talk)
            export = openai_chat.dump(load(dump(first).payload))
            again = openai_chat.load(export.payload)

            assert () == export.lost
            assert [
                (message.role, message.text, getattr(message, "tool_call_id", ""))
                for message in first
            ] == [
                (message.role, message.text, getattr(message, "tool_call_id", ""))
                for message in again
            ]
            assert [
                (call.id, call.name, json.loads(call.arguments))
                for message in first
                for call in getattr(message, "tool_calls", ())
            ] == [
                (call.id, call.name, json.loads(call.arguments))
                for message in again
                for call in getattr(message, "tool_calls", ())
            ]

    def test_to_openai(self, shared_data):
        """
        What only this provider knows is listed; texts and calls are kept.
        """
        exchanges = lines(shared_data / "requests" / "anthropic.jsonl")
        for exchange in exchanges:
            loaded = load(exchange["request"])
            export = openai_chat.dump(loaded)
            again = openai_chat.load(export.payload)

            assert "".join(m.text for m in loaded) == "".join(m.text for m in again)
            assert [
                call.id for m in loaded for call in getattr(m, "tool_calls", ())
            ] == [call.id for m in again for call in getattr(m, "tool_calls", ())]
            listed = {lost.path for lost in export.lost}
            for at, message in enumerate(loaded):
                for number, part in enumerate(getattr(message, "parts", ())):
                    if isinstance(part, (ReasoningPart, UnknownPart)):
                        assert f"messages[{at}].parts[{number}]" in listed

    def test_requests_from_openai(self, shared_data):
        """
        So can what half a dozen other providers recorded be said here; it
        loads, and is the same when it is dumped once more.
        """
        for exchange in lines(shared_data / "requests" / "openai_chat.jsonl"):
            loaded = openai_chat.load(exchange["request"])
            payload = dump(loaded).payload

            self.check_rules(payload)
            assert as_json(payload) == as_json(dump(load(payload)).payload)

    def check_rules(self, payload):
        """
        What the provider asks of every request.
        """
        for before, message in pairwise(payload["messages"]):
            assert before["role"] != message["role"]
            blocks = message["content"]
            kinds = [] if isinstance(blocks, str) else [each["type"] for each in blocks]
            results = kinds.count("tool_result")
            assert ["tool_result"] * results == kinds[:results]
            if results:
                assert {block.get("id") for block in before["content"]} >= {
                    block["tool_use_id"] for block in blocks[:results]
                }

        assert all(
            block["text"].strip()
            for _, block in sent(payload)
            if block["type"] == "text"
        )

    def check_same(self, said, payload):
        """
        Texts, ids, names and arguments, one after the other.
        """
        expected: list[Any] = []
        for message in said:
            if message["role"] == "tool":
                expected.append((message["tool_call_id"], message["content"]))
                continue

            if message["content"]:
                expected.append((message["role"], message["content"]))

            for call in message.get("tool_calls") or ():
                function = call["function"]
                arguments = json.loads(function["arguments"])
                expected.append((call["id"], function["name"], arguments))

        found: list[Any] = []
        for role, block in sent(payload):
            if block["type"] == "text":
                found.append((role, block["text"]))
            elif block["type"] == "tool_use":
                found.append((block["id"], block["name"], block["input"]))
            else:
                found.append((block["tool_use_id"], block["content"]))

        assert expected == found
