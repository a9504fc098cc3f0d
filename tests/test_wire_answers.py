"""
What the kit answers in a provider's name is what the provider's own package takes:
each whole answer and each event is valid by the package's strict types, which know all
of its keys, and the package's client gathers the whole answer from the events.
"""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, TypeAdapter, ValidationError

from conversation_state.chunks import concat
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import (
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing._wire_answers import (
    Numbers,
    cut_text,
    stream_answer,
    stream_error,
    write_answer,
)
from conversation_state.testing.provider import StrictProvider
from conversation_state.testing.shapes import write_shapes
from conversation_state.testing.strategies import model_answers
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.helpers import PROVIDERS
from tests.later import Later

openai: Any = Later.or_skip("openai", "OpenAI's package is not installed")
anthropic_sdk: Any = Later.or_skip("anthropic", "Anthropic's package is not installed")
genai: Any = Later.or_skip("google.genai", "Google's package is not installed")

TYPES = {
    "openai_chat": lambda: (
        openai.types.chat.ChatCompletion,
        openai.types.chat.ChatCompletionChunk,
    ),
    "openai_responses": lambda: (
        openai.types.responses.Response,
        openai.types.responses.ResponseStreamEvent,
    ),
    "anthropic": lambda: (
        anthropic_sdk.types.Message,
        anthropic_sdk.types.RawMessageStreamEvent,
    ),
    "gemini": lambda: (genai.types.GenerateContentResponse,) * 2,
}
# What servers send and OpenAI's package has no field for: of OpenAI itself in
# responses and in events, and of DeepSeek, vLLM and others in Chat Completions.
UNNAMED = {"store", "annotations", "reasoning_content"}
# Why an answer ended, in each provider's words for OpenAI's older ones.
REASONS: dict[str, dict[str, str]] = {
    "openai_chat": {},
    "openai_responses": {
        "stop": "completed",
        "tool_calls": "completed",
        "length": "max_output_tokens",
    },
    "anthropic": {
        "stop": "end_turn",
        "tool_calls": "tool_use",
        "length": "max_tokens",
        "content_filter": "refusal",
    },
    "gemini": {
        "stop": "STOP",
        "tool_calls": "STOP",
        "length": "MAX_TOKENS",
        "content_filter": "SAFETY",
    },
}
NATIVE = {"openai_chat", "openai_responses"}  # have words of their own for refusals

BODY: dict[str, Any] = {
    "model": "gemini-3-pro",
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be brief.",
    "max_output_tokens": 900,
    "parallel_tool_calls": False,
    "previous_response_id": "resp_0",
    "store": False,
    "stream_options": {"include_usage": True},
    "tool_choice": "required",
    "tools": [{"type": "function", "name": "clock", "parameters": {}, "strict": False}],
}
USAGE = Usage(
    2_000,
    300,
    prompt_tokens_details=PromptTokensDetails(cached_tokens=900, audio_tokens=3),
    completion_tokens_details=CompletionTokensDetails(
        reasoning_tokens=200,
        audio_tokens=2,
        accepted_prediction_tokens=5,
        rejected_prediction_tokens=7,
    ),
    extra={"cache_write_tokens": 400},
)
CALLS = [ToolCall("", "clock", ""), ToolCall("", "find", '{"to": "Bern", "n": 1}')]


def shape_of(message: AssistantMessage) -> Any:
    """What *message* is made of, beside its texts and numbers."""
    meta = message.response or ResponseMeta()
    parts = [(part.kind, bool(getattr(part, "text", ""))) for part in message.parts]
    calls = [bool(call.id) for call in message.tool_calls]
    return (*parts, *calls, meta.finish_reason)


ANSWERS = [
    *{
        shape_of(message): message
        for messages in write_shapes().values()
        for message in messages
        # What our own word says broke off never came as an answer.
        if isinstance(message, AssistantMessage)
        and shape_of(message)[-1] != "interrupted"
    }.values(),
    AssistantMessage(
        [ReasoningPart("Bern is far away.", "c2lnbmVk"), TextPart("I look it up.")],
        tool_calls=CALLS,
        response=ResponseMeta(usage=USAGE),
    ),
    AssistantMessage([ReasoningPart("", "c2lnbmVk"), TextPart("So.")]),
    AssistantMessage([ReasoningPart("No signature"), RefusalPart("I can't do that.")]),
    AssistantMessage("Cut", response=ResponseMeta("length")),
    AssistantMessage("Cut", response=ResponseMeta("content_filter")),
    AssistantMessage(tool_calls=CALLS, response=ResponseMeta("tool_calls")),
]
UNKNOWN: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {
                    "url": "https://example.com",
                    "title": "Bern",
                    "start_index": 0,
                    "end_index": 4,
                },
            }
        ]
    },
    "openai_responses": {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "Bern"},
    },
    "anthropic": {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "Bern"},
    },
    "gemini": {"executableCode": {"language": "PYTHON", "code": "1"}},
}


@cache
def reader(wire: str, at: int) -> Any:
    """Reads a whole answer (0) or an event (1) strictly."""
    return TypeAdapter(TYPES[wire]()[at])


def read(wire: str, at: int, data: Any) -> Any:
    """*data* as the package's own type."""
    try:
        model = reader(wire, at).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        faults = [each for each in error.errors() if each["type"] != "literal_error"]
        pytest.fail(f"{wire} refuses {data}:\n{faults[:3] or error}")

    assert {*find_unnamed(model)} <= UNNAMED, data
    return model


def find_unnamed(value: Any) -> Any:
    """The keys in *value* that its type has no field for."""
    if isinstance(value, BaseModel):
        yield from value.model_extra or {}
        value = [getattr(value, name) for name in type(value).model_fields]

    if isinstance(value, list):
        for each in value:
            yield from find_unnamed(each)


def dump(model: Any) -> Any:
    """What *model* says, as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def gather(wire: str, provider: StrictProvider, events: list[Any]) -> Any:
    """The answer that the package's client makes of *events*."""
    provider.add(events)
    if wire == "gemini":
        options = {"base_url": provider.url(wire)}
        client = genai.Client(api_key="k", http_options=options)
        return [*client.models.generate_content_stream(model="m", contents="Hi.")]

    package = anthropic_sdk.Anthropic if wire == "anthropic" else openai.OpenAI
    question: list[Any] = [{"role": "user", "content": "Hi."}]
    with package(base_url=provider.url(wire), api_key="k", max_retries=0) as client:
        if wire == "openai_chat":
            with client.chat.completions.stream(model="m", messages=question) as stream:
                return stream.until_done().current_completion_snapshot

        if wire == "openai_responses":
            with client.responses.stream(model="m", input="Hi.") as stream:
                return [*stream][-1].response

        with client.messages.stream(
            model="m", messages=question, max_tokens=9
        ) as stream:
            return stream.get_final_message()


def is_within(expected: Any, found: Any) -> bool:
    """Whether *found* has all of *expected*, and maybe more keys."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and is_within(value, found[key])
            for key, value in expected.items()
        )

    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(is_within, expected, found))

    return bool(expected == found)


def said(message: AssistantMessage, *, is_native: bool = True) -> dict[str, Any]:
    """What *message* says; a refusal is a text where it is no kind of its own."""
    texts: dict[str, str] = {}
    for part in message.parts:
        kind = "text" if part.kind == "refusal" and not is_native else part.kind
        if kind != "unknown":
            texts[kind] = texts.get(kind, "") + getattr(part, "text", "")

    calls = [
        (call.name, as_json(call.arguments or "{}")) for call in message.tool_calls
    ]
    return {"calls": calls, **{kind: text for kind, text in texts.items() if text}}


def as_json(text: str) -> Any:
    """The JSON that *text* is, or *text* itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_sayable(wire: str, message: AssistantMessage) -> bool:
    """Whether the arguments of all calls can be said: two wires have objects."""
    return wire in NATIVE or all(
        isinstance(as_json(call.arguments or "{}"), dict) for call in message.tool_calls
    )


def check(wire: str, message: AssistantMessage, body: Any, size: int) -> Any:
    """All that is promised of an answer, whole and streamed."""
    whole = write_answer(wire, message, body, Numbers())
    model = read(wire, 0, whole)
    (loaded,) = PROVIDERS[wire].load(whole)
    meta = message.response or ResponseMeta()

    assert said(message, is_native=wire in NATIVE) == said(loaded)
    assert loaded.response.id == (meta.id or loaded.response.id) != ""
    assert loaded.response.model == (meta.model or body.get("model", "strict"))
    usual = "tool_calls" if message.tool_calls else "stop"
    reason = meta.finish_reason or usual
    assert loaded.response.finish_reason == REASONS[wire].get(reason, reason)
    keeps = wire in {"anthropic", "gemini"}
    keeps |= wire == "openai_responses" and bool(body.get("include"))
    for part in message.parts:
        if isinstance(part, ReasoningPart) and part.signature:
            assert keeps == (part.signature in json.dumps(whole))

    if wire != "gemini":
        expected = [call.id for call in message.tool_calls]
        ids = [call.id for call in loaded.tool_calls]
        assert all(ids)
        assert expected == [id_ if id_ in expected else "" for id_ in ids]

    if meta.usage is not None:
        check_usage(wire, meta.usage, loaded.response.usage)

    events = [*stream_answer(wire, whole, body, lambda text: cut_text(text, size))]
    for event in events:
        read(wire, 1, event)

    streamed = concat(PROVIDERS[wire].load_chunks(events))
    assert said(loaded) == said(streamed)
    assert loaded.response == streamed.response
    if wire == "openai_responses":
        check_places(whole["output"], events)

    return model, events


def check_usage(wire: str, expected: Usage, found: Usage) -> None:
    """The tokens are those of the message, as far as the wire can say them."""
    assert (expected.prompt_tokens, expected.completion_tokens) == (
        found.prompt_tokens,
        found.completion_tokens,
    )
    cached = expected.prompt_tokens_details.cached_tokens
    assert cached == found.prompt_tokens_details.cached_tokens
    if wire != "gemini":
        written = expected.extra.get("cache_write_tokens", 0)
        assert written == found.extra.get("cache_write_tokens", 0)

    if wire != "anthropic":
        thought = expected.completion_tokens_details.reasoning_tokens
        assert thought == found.completion_tokens_details.reasoning_tokens

    if wire == "openai_chat":
        assert expected.completion_tokens_details == found.completion_tokens_details
        assert expected.prompt_tokens_details == found.prompt_tokens_details


def check_places(output: list[Any], events: list[Any]) -> None:
    """Deltas, in their places, add up to what is done, and that is the whole item."""
    texts: dict[Any, str] = {}
    for number, event in enumerate(events):
        assert number == event["sequence_number"]
        if "output_index" not in event:
            continue

        item = output[event["output_index"]]
        kind, _, verb = event["type"].rpartition(".")
        if kind == "response.output_item":
            assert item["id"] == event["item"]["id"]
            assert verb == "added" or item == event["item"]
            continue

        place = item
        assert item["id"] == event["item_id"]
        for key in ("content", "summary"):
            if f"{key}_index" in event:
                place = item[key][event[f"{key}_index"]]

        if "part" in event:
            assert verb == "added" or place == event["part"]
        elif verb == "delta":
            texts[kind, id(place)] = texts.get((kind, id(place)), "") + event["delta"]
        else:
            key = next(key for key in ("text", "refusal", "arguments") if key in event)
            assert place[key] == event[key] == texts.get((kind, id(place)), "")


@pytest.mark.parametrize("wire", PROVIDERS)
class TestAnswers:
    def test_of_shapes(self, wire):
        """Of each shape of the kit, and of answers with all that a message has."""
        unknown = AssistantMessage([UnknownPart(UNKNOWN[wire]), TextPart("Here.")])
        with StrictProvider(remembers=False) as provider:
            for message in [*ANSWERS, unknown]:
                if is_sayable(wire, message):
                    model, events = check(wire, message, BODY, 7)
                    if wire != "gemini":
                        found = dump(gather(wire, provider, events))
                        assert is_within(dump(model), found)

    @given(message=model_answers())
    def test_of_models(self, wire, message):
        """Of whatever `model_answers` draws."""
        if is_sayable(wire, message):
            check(wire, message, {"stream_options": {"include_usage": True}}, 1_000)

    def test_errors(self, wire):
        """What ends a stream that breaks off is an error to the package, too."""
        error = stream_error(wire, 0)
        if wire == "openai_responses":
            assert "error" == read(wire, 1, error).type
            return

        with (
            StrictProvider() as provider,
            pytest.raises(Exception, match=r"(?i)overloaded|server had an error") as e,
        ):
            gather(wire, provider, [error])

        assert type(e.value).__module__.startswith(("openai", "anthropic", "google"))

    def test_order(self, wire):
        """Parts and calls come in the order of their indices, where they have any."""
        call = ToolCall("call_1", "clock", "{}", index=0)
        parts = [TextPart("So.", index=2), ReasoningPart("Hm.", "c2ln", index=1)]
        written = write_answer(
            wire, AssistantMessage(parts, tool_calls=[call]), BODY, Numbers()
        )
        text = json.dumps(written)
        places = [text.index(each) for each in ("clock", "Hm.", "So.")]

        assert (wire == "openai_chat") or places == sorted(places)

    def test_unsayable(self, wire):
        """Arguments that are no object, and parts that no model answers."""
        call = ToolCall("call_1", "clock", "[]")
        if wire not in NATIVE:
            with pytest.raises(ValueError, match="which is no JSON object"):
                write_answer(wire, AssistantMessage(tool_calls=[call]), {}, Numbers())

        image = AssistantMessage([ImagePart(url="https://example.com/a.png")])
        with pytest.raises(TypeError, match="a part of kind image"):
            write_answer(wire, image, {}, Numbers())

    def test_cut(self, wire):
        """
        Of a call within which the limit came, a stream has a part of the JSON and a
        whole response none of it; of Gemini, which sends no part of a call, nothing.
        """
        cut = AssistantMessage(
            "So.",
            tool_calls=[ToolCall("call_1", "find", '{"to": "Be')],
            response=ResponseMeta("length"),
        )
        whole = write_answer(wire, cut, {"model": "m"}, Numbers())
        events = [*stream_answer(wire, whole, {}, cut_text)]
        read(wire, 0, whole)
        for event in events:
            read(wire, 1, event)

        loaded, streamed = (
            [(each.name, each.arguments) for each in message.tool_calls]
            for message in (
                *PROVIDERS[wire].load(whole),
                concat(PROVIDERS[wire].load_chunks(events)),
            )
        )
        expected = [] if wire == "gemini" else [("find", '{"to": "Be')]

        assert expected == streamed
        assert ([("find", "{}")] if wire == "anthropic" else expected) == loaded

    def test_tokens(self, wire):
        """An answer without usage has a token for four characters, of calls, too."""
        call = ToolCall("call_1", "clock", "{}")
        answer = AssistantMessage("12345678", tool_calls=[call])
        whole = write_answer(wire, answer, {"model": "m"}, Numbers())
        (loaded,) = PROVIDERS[wire].load(whole)

        assert (3, 4) == (
            loaded.response.usage.prompt_tokens,
            loaded.response.usage.completion_tokens,
        )


def test_repeats_the_request():
    """A whole response of Responses has what was asked for."""
    whole = write_answer("openai_responses", AssistantMessage("Hi."), BODY, Numbers())
    asked = {*BODY} - {"include", "stream_options"}

    assert {key: BODY[key] for key in asked} == {key: whole[key] for key in asked}
