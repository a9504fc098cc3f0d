"""Gemini: what all adapters promise, and real traffic."""

import base64
import json
import re
from typing import ClassVar

import attrs
import pytest

from conversation_state.adapters import gemini
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.gemini import dump, load
from conversation_state.messages import AssistantMessage, ToolMessage
from conversation_state.parts import FilePart, MediaPart, TextPart
from conversation_state.tools import ToolCall
from tests.adapters.contract import FormatContract, as_json, bare
from tests.adapters.gemini import (
    REQUESTS,
    RESPONSES,
    call,
    model,
    response,
    result,
    several,
    usage_of,
    user,
)
from tests.adapters.helpers import as_is, lines
from tests.recorded import is_large


def as_it_comes_back(part):
    """*part* as it comes back: data: urls as bytes, and without default types."""
    head, found, body = (part.url or "").partition(";base64,")
    if found and head.startswith("data:"):
        kind = type(part)
        name = {"name": part.name} if isinstance(part, FilePart) else {}
        media_type = part.media_type or head[5:]
        part = kind(data=base64.b64decode(body), media_type=media_type, **name)

    return part


def as_loaded(call):
    """
    *call* as it comes back: its arguments without white space, and an id that
    was made up as good as none.
    """
    arguments = call.arguments
    if arguments:
        value = json.loads(arguments)
        arguments = json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    made = "made_id" in notes_of(call.metadata, "gemini")
    return attrs.evolve(call, arguments=arguments, id="" if made else call.id)


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = gemini
    documents: ClassVar = REQUESTS
    responses: ClassVar = RESPONSES

    def normalise(self, message):
        """One plain text is not a list, and no parts are not text."""
        if isinstance(message, AssistantMessage):
            calls = [as_loaded(call) for call in message.tool_calls]
            message = message.replace(tool_calls=calls)

        if not isinstance(getattr(message, "content", ""), str):
            content = [
                as_it_comes_back(part) if isinstance(part, MediaPart) else part
                for part in message.content
            ]
            message = message.replace(content=content)

        return bare(as_one_text(message))


def as_one_text(message):
    """
    *message* with a text instead of a list of nothing but one, and of nothing
    at all unless a tool returned it.
    """
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return message

    if not content:
        silent = isinstance(message, ToolMessage)
        return message if silent else message.replace(content="")

    (first, *others) = content
    calls = getattr(message, "tool_calls", ())
    if isinstance(first, TextPart) and not others and (first.text or not calls):
        return message.replace(content=first.text)

    return message


def sent(request):
    """The part of a *request* that carries the conversation."""
    keys = ("systemInstruction", "contents")
    return {key: request[key] for key in keys if key in request}


class TestRecorded:
    """Real conversations."""

    def test_requests(self, recordings):
        """What was sent comes back as it was, key for key."""
        exchanges = lines(recordings / "requests" / "gemini.jsonl")

        for exchange in exchanges:
            export = dump(load(exchange["request"]))
            assert () == export.lost
            assert as_json(sent(exchange["request"])) == as_json(export.payload)

        assert (42 if is_large(recordings) else 3) == len(exchanges)

    def test_responses(self, recordings):
        """Responses load with what they cost, and can be sent back."""
        for exchange in lines(recordings / "requests" / "gemini.jsonl"):
            response = exchange["response"]
            (message,) = several(response)

            export = as_is(gemini).dump([message])

            (candidate,) = response["candidates"]
            content = {"role": "model", "parts": [{"text": ""}], **candidate["content"]}
            assert () == export.lost
            assert as_json([content]) == as_json(export.payload["contents"])
            assert candidate["finishReason"] == message.response.finish_reason
            assert response["modelVersion"] == message.response.model
            assert usage_of(response) == message.response.usage

    def test_pairs(self, recordings):
        """Every call is answered by its result, also where neither has an id."""
        pairs = 0
        for exchange in lines(recordings / "requests" / "gemini.jsonl"):
            messages = load(exchange["request"])

            asked = [call.id for m in messages for call in getattr(m, "tool_calls", ())]
            answered = [m for m in messages if isinstance(m, ToolMessage)]
            assert asked == [message.tool_call_id for message in answered]
            pairs += len(asked)

        assert (19 if is_large(recordings) else 1) == pairs


def test_many_calls():
    """Thousands of calls at once find their results."""
    count = 5_000
    document = [
        model(*[call(f"f{at % 2}") for at in range(count)]),
        user(*[result(f"f{at % 2}", str(at)) for at in range(count)]),
    ]

    message, *results = several(document)

    assert [each.id for each in message.tool_calls] == [
        each.tool_call_id for each in results
    ]


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"a": NaN}', None),
        (f'{{"a": {"9" * 5000}}}', None),
        ("[" * 100_000, None),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ],
)
def test_arguments(arguments, args):
    """Arguments that are not an object are not sent."""
    message = AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)])

    export = as_is(gemini).dump([message])

    (raw,) = export.payload["contents"][0]["parts"]
    assert args == raw["functionCall"].get("args")
    assert [("messages[0].tool_calls[0]", "arguments")] == [
        (lost.path, lost.what) for lost in export.lost
    ]
    assert json.dumps(export.payload, ensure_ascii=False).encode()


def test_ids_of_calls():
    """
    Ids that are made up begin with the response's, and are unique if it has none.
    """
    payload = response(call(), call())

    assert ["r1_call_0", "r1_call_1"] == [
        each.id for each in several(payload)[0].tool_calls
    ]
    del payload["responseId"]
    ids = [several(payload)[0].tool_calls[0].id for _ in range(2)]
    assert 2 == len({*ids})
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,40}", each) for each in ids)
