"""The strict provider as a server: official clients, scripts, faults."""

import json
import re
import threading
import time
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.testing.provider import (
    CallTools,
    ErrorReply,
    Gate,
    Hangup,
    ReceivedRequest,
    Reply,
    Silence,
    StrictProvider,
)
from conversation_state.testing.pytest_plugin import strict_provider  # noqa: F401
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.later import Later

anthropic: Any = Later("anthropic")
genai: Any = Later("google.genai")
genai_errors: Any = Later("google.genai.errors")

PATIENCE_S = 60

CALL = ToolCall("call00001", "get_weather", '{"city": "Paris"}')
ANSWER = AssistantMessage(
    [ReasoningPart("The user wants the weather.", "c2lnbmF0dXJl"), TextPart("Wait.")],
    tool_calls=[CALL],
    response=ResponseMeta(usage=Usage(20, 7), id="answer-1"),
)
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}


@contextmanager
def chat(provider):
    """OpenAI's client, asking Chat Completions."""
    url = provider.url("openai_chat")
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:

        def ask(messages, **more):
            return client.chat.completions.create(
                model="gpt-4o", messages=messages, **more
            )

        yield ask


@contextmanager
def responses(provider):
    """OpenAI's client, asking Responses."""
    url = provider.url("openai_responses")
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:

        def ask(items, **more):
            return client.responses.create(model="gpt-5", input=items, **more)

        yield ask


@contextmanager
def messages_api(provider):
    """Anthropic's client."""
    url = provider.url("anthropic")
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:

        def ask(messages, **more):
            return client.messages.create(
                model="claude-opus-4-8", max_tokens=100, messages=messages, **more
            )

        yield ask


@contextmanager
def gemini(provider):
    """Google's client."""
    client = genai.Client(
        api_key="k", http_options={"base_url": provider.url("gemini")}
    )
    try:
        yield client.models
    finally:
        client.close()


def user(text="What is the weather?"):
    """A user's message, of three wires."""
    return {"role": "user", "content": text}


class TestWhole:
    def test_chat(self):
        """OpenAI's client reads a whole answer: text, reasoning, call, usage, id."""
        with StrictProvider([ANSWER]) as provider, chat(provider) as ask:
            answer = ask([user()])

        message = answer.choices[0].message
        assert "Wait." == message.content
        assert "The user wants the weather." == message.reasoning_content
        assert ("call00001", "get_weather", '{"city": "Paris"}') == (
            message.tool_calls[0].id,
            message.tool_calls[0].function.name,
            message.tool_calls[0].function.arguments,
        )
        assert "tool_calls" == answer.choices[0].finish_reason
        assert (20, 7, 27) == (
            answer.usage.prompt_tokens,
            answer.usage.completion_tokens,
            answer.usage.total_tokens,
        )
        assert ("answer-1", "gpt-4o") == (answer.id, answer.model)

    def test_responses(self):
        """OpenAI's client reads a whole response: reasoning, text, call, usage, id."""
        with StrictProvider([ANSWER]) as provider, responses(provider) as ask:
            answer = ask([user()])

        kinds = [item.type for item in answer.output]
        assert ["reasoning", "message", "function_call"] == kinds
        assert "Wait." == answer.output_text
        assert "call00001" == answer.output[2].call_id
        assert ("answer-1", 20, 7) == (
            answer.id,
            answer.usage.input_tokens,
            answer.usage.output_tokens,
        )

    def test_anthropic(self):
        """Anthropic's client reads a whole answer: thinking, text, call, usage, id."""
        with StrictProvider([ANSWER]) as provider, messages_api(provider) as ask:
            answer = ask([user()])

        thinking, text, call = answer.content
        assert ("The user wants the weather.", "c2lnbmF0dXJl") == (
            thinking.thinking,
            thinking.signature,
        )
        assert "Wait." == text.text
        assert ("call00001", {"city": "Paris"}) == (call.id, call.input)
        assert ("tool_use", 20, 7) == (
            answer.stop_reason,
            answer.usage.input_tokens,
            answer.usage.output_tokens,
        )

    def test_gemini(self):
        """Google's client reads a whole answer: thought, text, call, usage, id."""
        with StrictProvider([ANSWER]) as provider, gemini(provider) as models:
            answer = models.generate_content(model="gemini-2.5-pro", contents="Hi.")

        thought, text, call = answer.candidates[0].content.parts
        assert (True, "The user wants the weather.") == (thought.thought, thought.text)
        assert (b"signature", "Wait.") == (text.thought_signature, text.text)
        assert ("call00001", {"city": "Paris"}) == (
            call.function_call.id,
            call.function_call.args,
        )
        assert (20, 7) == (
            answer.usage_metadata.prompt_token_count,
            answer.usage_metadata.candidates_token_count,
        )
        assert "answer-1" == answer.response_id

    def test_signature_of_gemini(self):
        """Google's client reads a call whose signature the provider makes up."""
        call = AssistantMessage(tool_calls=[ToolCall("c1", "get_weather", "{}")])
        with StrictProvider([call]) as provider, gemini(provider) as models:
            answer = models.generate_content(model="gemini-3.8-flash", contents="Hi.")

        assert answer.candidates[0].content.parts[0].thought_signature


class TestStreamed:
    def test_chat(self):
        """The events of OpenAI's client say what the whole answer says."""
        with StrictProvider([ANSWER]) as provider, chat(provider) as ask:
            events = list(
                ask([user()], stream=True, stream_options={"include_usage": True})
            )

        deltas = [event.choices[0].delta for event in events if event.choices]
        calls = [delta.tool_calls[0] for delta in deltas if delta.tool_calls]
        assert "Wait." == "".join(delta.content or "" for delta in deltas)
        assert "call00001" == calls[0].id
        assert '{"city": "Paris"}' == "".join(call.function.arguments for call in calls)
        assert 27 == events[-1].usage.total_tokens

    def test_responses(self):
        """The last event of a streamed response has what the events before it said."""
        with StrictProvider([ANSWER]) as provider, responses(provider) as ask:
            events = list(ask([user()], stream=True))

        deltas = [each.delta for each in events if each.type.endswith("text.delta")]
        assert "The user wants the weather.Wait." == "".join(deltas)
        assert "response.completed" == events[-1].type
        assert "Wait." == events[-1].response.output_text
        assert list(range(len(events))) == [each.sequence_number for each in events]

    def test_anthropic(self):
        """Anthropic's client gathers the whole answer from its events."""
        content: list[Any]
        with (
            StrictProvider([ANSWER]) as provider,
            anthropic.Anthropic(base_url=provider.url("anthropic"), api_key="k") as one,
            one.messages.stream(
                model="claude-opus-4-8", max_tokens=9, messages=[user()]
            ) as stream,
        ):
            answer = stream.get_final_message()

        content = [*answer.content]
        thinking, text, call = content
        assert "c2lnbmF0dXJl" == thinking.signature
        assert "Wait." == text.text
        assert {"city": "Paris"} == call.input
        assert 7 == answer.usage.output_tokens

    def test_gemini(self):
        """The events of Google's client say what the whole answer says."""
        with StrictProvider([ANSWER]) as provider, gemini(provider) as models:
            events = list(
                models.generate_content_stream(model="gemini-2.5-pro", contents="Hi.")
            )

        parts = [part for event in events for part in event.candidates[0].content.parts]
        assert "The user wants the weather." == "".join(
            part.text for part in parts if part.thought
        )
        assert {"city": "Paris"} == parts[-1].function_call.args
        assert 7 == events[-1].usage_metadata.candidates_token_count

    def test_events_of_responses(self):
        """Each item and each part is added, filled and done."""
        body = {"model": "m", "input": "Hi.", "stream": True}
        with StrictProvider([AssistantMessage("Hi.")]) as provider:
            url = f"{provider.base_url}/v1/responses"
            stream = httpx.post(url, json=body, timeout=PATIENCE_S).text

        assert re.findall(r"(?m)^event: response\.(.*)$", stream) == [
            *("created", "in_progress", "output_item.added", "content_part.added"),
            *("output_text.delta", "output_text.done", "content_part.done"),
            *("output_item.done", "completed"),
        ]

    def test_refusal_in_parts(self):
        """Several parts are the one refusal that Chat Completions has."""
        answer = AssistantMessage([RefusalPart("No."), RefusalPart(" Never.")])
        with StrictProvider([answer]) as provider, chat(provider) as ask:
            message = ask([user()]).choices[0].message

        assert "No. Never." == message.refusal


class TestRefusals:
    def test_chat(self):
        """A refusal is OpenAI's own error, and the script keeps its answer."""
        orphan = {"role": "tool", "tool_call_id": "call00001", "content": "Rain."}
        with StrictProvider([ANSWER]) as provider, chat(provider) as ask:
            with pytest.raises(openai.BadRequestError) as caught:
                ask([user(), orphan])

            answer = ask([user()])

        assert "messages.[1].role" == caught.value.param
        assert "invalid_request_error" == caught.value.type
        assert "must be a response to a preceeding message" in str(caught.value)
        assert "answer-1" == answer.id
        assert "result_without_call" == provider.refusals[0].rule.name

    def test_responses(self):
        """An item that was never stored is not found."""
        lost = {"type": "reasoning", "id": "rs_1", "summary": []}
        said = {"role": "assistant", "content": "Rain."}
        with (
            StrictProvider() as provider,
            responses(provider) as ask,
            pytest.raises(openai.NotFoundError) as caught,
        ):
            ask([user(), lost, said, user()])

        assert "Item with id 'rs_1' not found" in str(caught.value)

    def test_anthropic(self):
        """A refusal is Anthropic's own error."""
        with (
            StrictProvider() as provider,
            messages_api(provider) as ask,
            pytest.raises(anthropic.BadRequestError) as caught,
        ):
            ask([user("")])

        assert "messages: text content blocks must be non-empty" in str(caught.value)
        assert "invalid_request_error" == caught.value.response.json()["error"]["type"]

    def test_gemini(self):
        """A refusal is Google's own error, in a stream, too."""
        call = {"functionCall": {"name": "f", "args": {}}}
        contents = [{"role": "model", "parts": [call]}]
        with StrictProvider() as provider, gemini(provider) as models:
            with pytest.raises(genai_errors.ClientError) as whole:
                models.generate_content(model="gemini-2.5-pro", contents=contents)

            with pytest.raises(genai_errors.ClientError) as streamed:
                list(
                    models.generate_content_stream(
                        model="gemini-2.5-pro", contents=contents
                    )
                )

        assert "INVALID_ARGUMENT" == whole.value.status == streamed.value.status
        assert "function call turn comes immediately after" in str(whole.value)

    def test_model(self):
        """Over HTTP a request has to say its model."""
        with StrictProvider() as provider:
            answer = httpx.post(
                provider.url("openai_chat") + "/chat/completions",
                json={"messages": [user()]},
            )

        assert 400 == answer.status_code
        assert (
            "Missing required parameter: 'model'."
            == (answer.json()["error"]["message"])
        )


class TestMemory:
    def test_thinking(self):
        """
        Thinking with its signature is taken back as it was given, and not changed.
        """
        with StrictProvider([ANSWER]) as provider, messages_api(provider) as ask:
            given = ask([user()]).model_dump(mode="json", exclude_none=True)["content"]
            result = {"type": "tool_result", "tool_use_id": "call00001"}
            after = {"role": "user", "content": [{**result, "content": "Rain."}]}
            ask([user(), {"role": "assistant", "content": given}, after])
            given[0]["thinking"] = "Something else."
            with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
                ask([user(), {"role": "assistant", "content": given}, after])

    @pytest.mark.parametrize("store", [True, False])
    def test_stored_items(self, store):
        """Items can be sent by their ids if they were stored, and only then."""
        answer = AssistantMessage([ReasoningPart("Hm."), TextPart("Rain.")])
        with StrictProvider([answer]) as provider, responses(provider) as ask:
            first = ask([user()], store=store)
            items = [item.model_dump(exclude_none=True) for item in first.output]
            if store:
                ask([user(), *items, user()])
                with pytest.raises(openai.BadRequestError, match="its required 'reas"):
                    ask([user(), *items[1:], user()])
                return

            with pytest.raises(openai.NotFoundError, match="not persisted"):
                ask([user(), *items, user()])

    def test_reasoning_content(self):
        """DeepSeek wants the reasoning back that came with calls."""
        call = {"name": CALL.name, "arguments": CALL.arguments}
        said = {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [{"id": CALL.id, "type": "function", "function": call}],
        }
        result = {"role": "tool", "tool_call_id": CALL.id, "content": "Rain."}
        provider = StrictProvider([ANSWER], level="deepseek")
        with provider, chat(provider) as ask:
            ask([user()])
            ask([user(), {**said, "reasoning_content": ""}, result])
            with pytest.raises(openai.BadRequestError, match="must be passed back"):
                ask([user(), said, result])


def received(provider, **more):
    """How many bytes of an answer arrive before it breaks off."""
    url = provider.url("openai_chat") + "/chat/completions"
    body = {"model": "m", "messages": [user()], **more}
    count = 0
    with httpx.stream("POST", url, json=body) as response:
        try:
            for piece in response.iter_raw():
                count += len(piece)
        except httpx.RemoteProtocolError:
            return count

    return None


CITY: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
CITY["required"] = ["city"]


def turn_of_chat(provider, stream):
    """A question with two tools, and their results, with OpenAI's client."""
    url = provider.url("openai_chat")
    messages: list[Any] = [user()]
    functions = [{"name": name, "parameters": CITY} for name in ("trains", "weather")]
    tools = [{"type": "function", "function": each} for each in functions]
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:

        def ask():
            asked: Any = {"model": "gpt-4o", "messages": messages, "tools": tools}
            if not stream:
                return client.chat.completions.create(**asked)

            with client.chat.completions.stream(**asked) as events:
                return events.get_final_completion()

        message: Any = ask().choices[0].message
        messages.append(message.to_dict())
        calls = [
            (each.function.name, each.function.arguments) for each in message.tool_calls
        ]
        messages.extend(
            {"role": "tool", "tool_call_id": each.id, "content": "1"}
            for each in message.tool_calls
        )

        return calls, ask().choices[0].message.content


def turn_of_responses(provider, stream):
    """A question with two tools, and their results, with OpenAI's client."""
    url = provider.url("openai_responses")
    items: list[Any] = [user()]
    tools = [
        {"type": "function", "name": name, "parameters": CITY, "strict": False}
        for name in ("trains", "weather")
    ]
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:

        def ask():
            asked: Any = {"model": "gpt-5", "input": items, "tools": tools}
            if not stream:
                return client.responses.create(**asked)

            with client.responses.stream(**asked) as events:
                return events.get_final_response()

        output: Any = ask().output
        items.extend(each.to_dict() for each in output)
        for each in output:
            result = {"type": "function_call_output", "output": "1"}
            items.append({**result, "call_id": each.call_id})

        calls = [(each.name, each.arguments) for each in output]
        return calls, ask().output_text


def turn_of_messages(provider, stream):
    """A question with two tools, and their results, with Anthropic's client."""
    url = provider.url("anthropic")
    messages: list[Any] = [user()]
    tools = [{"name": name, "input_schema": CITY} for name in ("trains", "weather")]
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:

        def ask():
            asked: Any = {"model": "claude-opus-4-8", "max_tokens": 9, "tools": tools}
            if not stream:
                return client.messages.create(**asked, messages=messages)

            with client.messages.stream(**asked, messages=messages) as events:
                return events.get_final_message()

        blocks = ask().content
        messages.append(
            {"role": "assistant", "content": [each.to_dict() for each in blocks]}
        )
        results = [
            {"type": "tool_result", "tool_use_id": each.id, "content": "1"}
            for each in blocks
        ]
        messages.append({"role": "user", "content": results})
        calls = [(each.name, json.dumps(each.input)) for each in blocks]
        return calls, ask().content[0].text


def turn_of_gemini(provider, stream):
    """A question with two tools, and their results, with Google's client."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "When?"}]}]
    functions = [
        {"name": name, "parameters_json_schema": CITY} for name in ("trains", "weather")
    ]
    config = {"tools": [{"function_declarations": functions}]}
    with gemini(provider) as models:

        def ask():
            asked: Any = {
                "model": "gemini-3-pro",
                "contents": contents,
                "config": config,
            }
            if not stream:
                return models.generate_content(**asked).candidates[0].content.parts

            return [
                part
                for event in models.generate_content_stream(**asked)
                for part in event.candidates[0].content.parts
            ]

        parts: Any = ask()
        calls = [each.function_call for each in parts]
        contents.append({"role": "model", "parts": parts})
        results = [
            {"function_response": {"name": each.name, "response": {"result": 1}}}
            for each in calls
        ]
        contents.append({"role": "user", "parts": results})
        calls = [(each.name, json.dumps(each.args)) for each in calls]
        return calls, "".join(each.text for each in ask())


def ask_wire(provider, path, body):
    """The answer to a request, as JSON."""
    url = f"{provider.base_url}{path}"
    return httpx.post(url, json={"model": "m", **body}, timeout=PATIENCE_S).json()


TURNS = [turn_of_chat, turn_of_responses, turn_of_messages, turn_of_gemini]


class TestCallTools:
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("turn", TURNS)
    def test_turn(self, turn, stream):
        """
        The client of each vendor gets the calls of a question, in one answer, and then
        the text; so does a second question, of a second provider.
        """
        default = CallTools("weather", 'trains({"city": "Bern"})', "other", answer="At")
        expected = [("weather", '{"city": "city"}'), ("trains", '{"city": "Bern"}')]
        for _ in range(2):
            with StrictProvider(default=default) as provider:
                assert (expected, "At") == turn(provider, stream)
                assert () == provider.refusals

    def test_in_a_script(self):
        """
        In a script it serves one question, however often that is asked, with the text
        for its results; then comes the next answer, and at last the default.
        """
        tool = {"type": "function", "function": {"name": "trains", "parameters": CITY}}
        messages: list[Any] = [user()]
        with StrictProvider(["So."]) as provider, chat(provider) as ask:
            provider.add(CallTools("trains", answer="High."), "Low.")
            provider.default = CallTools("trains")
            found = [ask(messages).choices[0].message.content]
            ask(messages, tools=[tool])
            message = ask(messages, tools=[tool]).choices[0].message
            (call,) = message.tool_calls
            result = {"role": "tool", "tool_call_id": call.id, "content": "1"}
            messages += [message.to_dict(), result]
            found += [ask(messages).choices[0].message.content for _ in range(3)]
            found += [ask([user()]).choices[0].message.content]

        assert ["So.", "High.", "Low.", "OK.", "OK."] == found

    def test_ids(self):
        """A conversation goes on with a provider that was started again."""
        tool = {"type": "function", "function": {"name": "trains", "parameters": CITY}}
        messages: list[Any] = []
        message: Any = None
        for _ in range(2):
            with StrictProvider(default=CallTools("trains")) as provider:
                messages.append(user())
                with chat(provider) as ask:
                    message = ask(messages, tools=[tool]).choices[0].message
                    (call,) = message.tool_calls
                    messages.append(message.to_dict())
                    result = {"role": "tool", "tool_call_id": call.id, "content": "1"}
                    messages.append(result)
                    message = ask(messages, tools=[tool]).choices[0].message
                    messages.append(message.to_dict())

            assert "OK." == message.content

    @pytest.mark.parametrize(
        ("path", "body", "count"),
        [
            ("/v1/chat/completions", {"tool_choice": "none"}, 0),
            ("/v1/chat/completions", {"parallel_tool_calls": False}, 1),
            ("/v1/chat/completions", {"parallel_tool_calls": True}, 2),
            ("/v1/chat/completions", {"tool_choice": "required"}, 2),
            ("/v1/messages", {"tool_choice": {"type": "none"}}, 0),
            ("/v1/messages", {"tool_choice": {"type": "any"}}, 2),
            (
                "/v1/messages",
                {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
                1,
            ),
        ],
    )
    def test_choice(self, path, body, count):
        """A request that forbids calls, or several at once, gets none, or one."""
        chat_tool = {"function": {"name": "trains", "parameters": CITY}}
        tool: Any = {"name": "trains", "input_schema": CITY}
        if "chat" in path:
            tool = {"type": "function", **chat_tool}

        body = {"messages": [user()], "tools": [tool], "max_tokens": 9, **body}
        with StrictProvider(default=CallTools("trains", "trains")) as provider:
            answer = ask_wire(provider, path, body)

        if "chat" in path:
            calls = answer["choices"][0]["message"].get("tool_calls", ())
        else:
            calls = [each for each in answer["content"] if each["type"] == "tool_use"]

        assert count == len(calls)

    @pytest.mark.parametrize("key", ["toolConfig", "tool_config"])
    def test_gemini_choice(self, key):
        """Google's two spellings of a request forbid calls."""
        mode = {"functionCallingConfig": {"mode": "NONE"}}
        body = {
            "contents": {"parts": [{"text": "Hi."}]},
            "tools": {"function_declarations": [{"name": "now"}]},
        }
        with StrictProvider(default=CallTools("now")) as provider:
            path = "/v1beta/models/gemini-2.5-pro:generateContent"
            called = ask_wire(provider, path, body)
            told = ask_wire(provider, path, {**body, key: mode})

        (part,) = called["candidates"][0]["content"]["parts"]
        assert {"functionCall": {"name": "now", "args": {}}} == part
        assert "OK." == told["candidates"][0]["content"]["parts"][0]["text"]

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            (
                "/v1/responses",
                {"input": "Hi.", "tools": [{"type": "function", "name": "now"}]},
            ),
            (
                "/v1/responses",
                {
                    "input": [user(), {"role": "developer", "content": "Be brief."}],
                    "tools": [
                        {"type": "web_search"},
                        {"type": "function", "name": "now"},
                    ],
                },
            ),
        ],
    )
    def test_question(self, path, body):
        """A text is a question; instructions after it change nothing."""
        with StrictProvider(default=CallTools("now")) as provider:
            answer = ask_wire(provider, path, body)

        assert ["now"] == [each.get("name") for each in answer["output"]]

    def test_text_after_results(self):
        """A message with results gets the answer, whatever else it has."""
        called = {"type": "tool_use", "id": "c1", "name": "now", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "12:00"}
        more = {"type": "text", "text": "Be brief."}
        messages: list[Any] = [
            user(),
            {"role": "assistant", "content": [called]},
            {"role": "user", "content": [result, more]},
        ]
        body: Any = {"messages": messages, "max_tokens": 9}
        body["tools"] = [{"name": "now", "input_schema": {"type": "object"}}]
        with StrictProvider(default=CallTools("now")) as provider:
            answer = ask_wire(provider, "/v1/messages", body)

        assert ["text"] == [each["type"] for each in answer["content"]]

    SCHEMAS: tuple[Any, ...] = (
        {},
        {"at": {"type": "string", "minLength": 9}},
        {"at": {"type": "string", "maxLength": 1}},
        {"at": {"type": "string", "format": "date-time"}},
        {"at": {"type": "string", "format": "uuid"}},
        {"at": {"type": "string", "format": "duration", "pattern": "^PT[0-9]+H$"}},
        {"at": {"enum": ["b", "a"]}},
        {"at": {"const": 7}},
        {"at": {"type": "integer", "minimum": 5}},
        {"at": {"type": "integer", "maximum": -5, "minimum": -9}},
        {"at": {"type": "number", "exclusiveMinimum": 3}},
        {"at": {"type": "boolean"}},
        {"at": {"type": "null"}},
        {"at": {"type": ["null", "integer"]}},
        {"at": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
        {"at": {"oneOf": [{"type": "array", "items": {"type": "integer"}}]}},
        {"at": {"allOf": [{"$ref": "#/$defs/Place"}], "description": "Where."}},
        {"at": {"$ref": "#/$defs/Node"}},
        {"at": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/Place"}}},
        {"at": {"type": "object"}, "to": {}},
    )

    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_arguments(self, schema):
        """The arguments that are made of a schema are valid by it."""
        place: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
        node: Any = {"next": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}
        node = {"type": "object", "properties": node, "required": ["next"]}
        schema = {"properties": schema, "required": [*schema], "type": "object"}
        schema["$defs"] = {"Place": {**place, "required": ["name"]}, "Node": node}
        tool = {"type": "function", "function": {"name": "go", "parameters": schema}}
        body = {"messages": [user()], "tools": [tool]}
        with StrictProvider(default=CallTools("go")) as provider:
            answer = ask_wire(provider, "/v1/chat/completions", body)

        (call,) = answer["choices"][0]["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        checker = Draft202012Validator.FORMAT_CHECKER
        Draft202012Validator(schema, format_checker=checker).validate(arguments)
        assert set(schema["required"]) == {*arguments}

    def test_optional(self):
        """An argument that may be null is another value."""
        numbers = [{"type": "null"}, {"type": "integer"}]
        schema = {"at": {"anyOf": numbers}, "to": {"type": ["null", "string"]}}
        schema = {"type": "object", "properties": schema, "required": [*schema]}
        tool = {"type": "function", "function": {"name": "go", "parameters": schema}}
        body = {"messages": [user()], "tools": [tool]}
        with StrictProvider(default=CallTools("go")) as provider:
            answer = ask_wire(provider, "/v1/chat/completions", body)

        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert '{"at": 1, "to": "to"}' == call["function"]["arguments"]

    def test_delay(self):
        """Calls and answers are as slow as they are asked to be."""
        tool = {"type": "function", "function": {"name": "now"}}
        question: Any = {"messages": [user()], "tools": [tool]}
        default = CallTools("now", delay=0.5)
        replies: list[Any] = [
            default(ReceivedRequest("openai_chat", "/", body, {}))
            for body in (question, {**question, "tools": []})
        ]

        assert [0.5, 0.5] == [each.delay for each in replies]
        assert ["now"] == [each.name for each in replies[0].answer.tool_calls]
        assert "OK." == replies[1].answer

    @pytest.mark.parametrize(
        "call",
        ["", "(", "now(", "now)", "now(1)", "now({)", "now([])", "a b", "{}", ["now"]],
    )
    def test_invalid(self, call):
        """A call of another form is refused, with the form that is expected."""
        with pytest.raises(ValueError, match=r"expected NAME, or NAME\(\{\.\.\.\}\)"):
            CallTools(call)


class TestFaults:
    def test_failure(self):
        """A failure has its status, its error and its header."""
        failures = [ErrorReply(429, retry_after=2), ErrorReply(500), ErrorReply(529)]
        with StrictProvider(failures) as provider:
            with chat(provider) as ask:
                with pytest.raises(openai.RateLimitError) as limited:
                    ask([user()])

                with pytest.raises(openai.InternalServerError):
                    ask([user()])

            with messages_api(provider) as ask:  # noqa: SIM117 - one after the other
                with pytest.raises(anthropic.APIStatusError) as overloaded:
                    ask([user()])

        assert "2" == limited.value.response.headers["retry-after"]
        assert 529 == overloaded.value.status_code
        assert "overloaded_error" == overloaded.value.response.json()["error"]["type"]

    @pytest.mark.parametrize(
        ("status", "kinds"),
        [
            (401, ("invalid_request_error", "authentication_error", "UNAUTHENTICATED")),
            (403, ("request_forbidden", "permission_error", "PERMISSION_DENIED")),
            (
                408,
                ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
            ),
            (404, ("invalid_request_error", "not_found_error", "NOT_FOUND")),
            (413, ("invalid_request_error", "request_too_large", "INVALID_ARGUMENT")),
            (
                422,
                ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
            ),
            (429, ("requests", "rate_limit_error", "RESOURCE_EXHAUSTED")),
            (500, ("server_error", "api_error", "INTERNAL")),
            (502, ("cf_bad_gateway", "api_error", "UNAVAILABLE")),
            (503, ("service_unavailable_error", "api_error", "UNAVAILABLE")),
            (529, ("server_error", "overloaded_error", "UNAVAILABLE")),
            (599, ("server_error", "api_error", "UNAVAILABLE")),
        ],
    )
    def test_kinds(self, status, kinds):
        """The error of a status is JSON in the words of each vendor."""
        chat_body = {"model": "m", "messages": [user()]}
        requests = {
            "/v1/chat/completions": chat_body,
            "/v1/messages": {**chat_body, "max_tokens": 9},
            "/v1beta/models/m:generateContent": {
                "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]
            },
        }
        with StrictProvider([ErrorReply(status)] * 3) as provider:
            responses = [
                httpx.post(provider.base_url + path, json=body, timeout=PATIENCE_S)
                for path, body in requests.items()
            ]

        assert [status] * 3 == [each.status_code for each in responses]
        assert {"application/json"} == {
            each.headers["Content-Type"] for each in responses
        }
        errors = [each.json()["error"] for each in responses]
        assert kinds == (errors[0]["type"], errors[1]["type"], errors[2]["status"])

    @pytest.mark.parametrize(
        ("status", "words", "code"),
        [
            (401, "Incorrect API key provided", "invalid_api_key"),
            (404, "does not exist or you do not have access", "model_not_found"),
            (408, "Request Timeout", None),
            (429, "Rate limit reached for requests", "rate_limit_exceeded"),
            (500, "The server had an error while processing", None),
            (520, "server_error", None),
            (499, "invalid_request_error", None),
        ],
    )
    def test_words(self, status, words, code):
        """
        Each status has its own words and code, or HTTP's, or those of its class,
        unless the script has others.
        """
        script = [ErrorReply(status), ErrorReply(status, message="No.")]
        with StrictProvider(script) as provider, chat(provider) as ask:
            with pytest.raises(openai.APIStatusError, match=words) as caught:
                ask([user()])

            with pytest.raises(openai.APIStatusError, match="No"):
                ask([user()])

        assert code == caught.value.code

    def test_retry(self):
        """A client that tries again gets the next answer of the script."""
        script = [ErrorReply(429, retry_after=0.01), Hangup(), "Rain."]
        with StrictProvider(script) as provider:
            url = provider.url("openai_chat")
            with openai.OpenAI(base_url=url, api_key="k", max_retries=2) as client:
                answer = client.chat.completions.create(model="m", messages=[user()])

        assert "Rain." == answer.choices[0].message.content
        assert 3 == len(provider.requests)

    def test_silence(self):
        """Where nothing comes, the client gives up, and the server does not wait."""
        with (
            StrictProvider([Silence()]) as provider,
            chat(provider) as ask,
            pytest.raises(openai.APITimeoutError),
        ):
            ask([user()], timeout=0.2)

    def test_cut(self):
        """A body ends at the byte that the script says."""
        with StrictProvider([Reply("Rain.", cut_at=30)]) as provider:
            assert 30 == received(provider)

        assert provider.requests[0].is_cancelled

    def test_cut_stream(self):
        """A stream ends in the middle of an event, at the byte that the script says."""
        with StrictProvider([Reply("Rain.", cut_at=200)]) as provider:
            assert 200 == received(provider, stream=True)

    def test_break(self):
        """A stream breaks off after so many events."""
        with StrictProvider([Reply("Rain.", break_after=1)]) as provider:  # noqa: SIM117 - one after the other
            with chat(provider) as ask:
                stream = ask([user()], stream=True)
                next(stream)
                with pytest.raises(openai.APIConnectionError):
                    next(stream)

    def test_gate(self):
        """
        Events come when the test releases them, and the server sees who goes away.
        """
        gate = Gate()
        with StrictProvider([Reply("It rains in Paris.", gate=gate)]) as provider:
            with chat(provider) as ask:
                gate.release(2)
                stream = ask([user()], stream=True)
                pieces = [next(stream), next(stream)]
                assert gate.wait_sent(2, PATIENCE_S)
                stream.close()

            assert gate.cancelled.wait(PATIENCE_S)

        assert 2 == gate.sent
        assert "It rains in " == pieces[1].choices[0].delta.content
        assert provider.requests[0].is_cancelled

    def test_delay(self):
        """A slow answer takes its time before each event."""
        reply = Reply("Rain.", delay=0.02)
        with StrictProvider([reply]) as provider, chat(provider) as ask:
            begin = time.monotonic()
            events = list(ask([user()], stream=True))

        assert 3 == len(events)
        assert time.monotonic() - begin >= 0.06


class TestScript:
    def test_kinds(self):
        """
        Texts, JSON, events, and functions of the request are answers; then the default.
        """
        raw = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Raw."},
                    "finish_reason": "stop",
                }
            ],
        }
        delta = {"index": 0, "delta": {"content": "Event."}, "finish_reason": None}
        event = {**raw, "object": "chat.completion.chunk", "choices": [delta]}

        def echo(request):
            return f"You said {request.body['messages'][-1]['content']}"

        script = ["Text.", raw, raw, [event], echo]
        provider = StrictProvider(script, default="Later.")
        with provider, chat(provider) as ask:

            def said(text="", **more):
                return ask([user(text)], **more).choices[0].message.content

            def streamed():
                return "".join(
                    event.choices[0].delta.content or ""
                    for event in ask([user()], stream=True)
                )

            texts = [said(), said(), streamed(), streamed(), said("hi"), said()]

        expected = ["Text.", "Raw.", "Raw.", "Event.", "You said hi", "Later."]
        assert expected == texts

    def test_add(self, strict_provider):  # noqa: F811 - the fixture
        """The fixture is a running provider, whose script a test makes longer."""
        strict_provider.add("One.", "Two.")
        with messages_api(strict_provider) as ask:
            answers = [ask([user()]).content[0].text for _ in range(2)]

        assert ["One.", "Two."] == answers
        assert ["anthropic"] * 2 == [each.wire for each in strict_provider.requests]
        assert "application/json" == strict_provider.requests[0].headers["content-type"]

    def test_wrong_answer(self):
        """
        What is no answer is raised where the block ends, and the client has a 500.
        """

        def one(provider):
            with chat(provider) as ask, pytest.raises(openai.InternalServerError):
                ask([user()])

        answers: Any
        for answers in [1], [["One.", "Two."]], [[AssistantMessage("One.")]]:
            with pytest.raises(TypeError, match="expected a text"):  # noqa: SIM117 - one after the other
                with StrictProvider(answers) as provider:
                    one(provider)

        with pytest.raises(ZeroDivisionError):  # noqa: SIM117 - one after the other
            with StrictProvider([lambda request: 1 / 0]) as provider:
                one(provider)

    def test_unknown_names(self):
        """
        Unknown levels, rules and wires are errors at once; so is an address too early.
        """
        with pytest.raises(ValueError, match="unknown level"):
            StrictProvider(level="azur")

        with pytest.raises(ValueError, match="unknown rule"):
            StrictProvider(without=["x"])

        status: Any = "429"
        with pytest.raises(TypeError, match="'status' must be"):
            ErrorReply(status)

        with pytest.raises(RuntimeError, match="does not run"):
            StrictProvider().url("openai_chat")

        with StrictProvider() as provider, pytest.raises(ValueError, match="unknown w"):
            provider.url("soap")

    def test_paths(self):
        """Paths of hosts lead to their wires, and other paths are not found."""
        body = {"messages": [user()], "max_tokens": 9}
        with StrictProvider() as provider:

            def post(path):
                return httpx.post(provider.base_url + path, json=body).json()

            chat_answer = httpx.post(
                provider.base_url + "/openai/deployments/x/chat/completions?api=1",
                json={**body, "model": "m"},
            )
            claude = post(
                "/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict"
            )
            missing = httpx.get(provider.base_url + "/v1/models")

        assert "chat.completion" == chat_answer.json()["object"]
        assert ("message", "c") == (claude["type"], claude["model"])
        assert 404 == missing.status_code

    def test_threads(self):
        """Requests at the same time each get an answer with an id of its own."""
        ids = []
        with StrictProvider() as provider:

            def ask():
                answer = httpx.post(
                    provider.url("openai_chat") + "/chat/completions",
                    json={"model": "m", "messages": [user()]},
                )
                ids.append(answer.json()["id"])

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()

            for thread in threads:
                thread.join()

        assert 8 == len(set(ids)) == len(provider.requests)

    def test_json_body(self):
        """What is no JSON object is refused in the wire's form."""
        with StrictProvider() as provider:
            answers = [
                httpx.post(provider.base_url + "/v1/messages", content=content)
                for content in (b"{", json.dumps([1]).encode(), b"[" * 100_000)
            ]

        assert [400, 400, 400] == [answer.status_code for answer in answers]
        assert "invalid_request_error" == answers[0].json()["error"]["type"]
