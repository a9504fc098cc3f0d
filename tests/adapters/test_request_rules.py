"""
Rules of a request that only its wire has: items, blocks and markers.

What all wires share is in ``tests/test_requests.py``.
"""

import json
from contextlib import suppress
from typing import Any, Required, get_args, get_origin, get_type_hints

import attrs
import pytest

from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.aggregator import Aggregator
from conversation_state.chunks import concat
from conversation_state.counting import TokenBudget
from conversation_state.errors import BudgetExceededError, DecodeError
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing.provider import Memory, judge
from conversation_state.tools import ToolCall
from conversation_state.trimming import keep_last, trim
from tests.adapters.helpers import as_is

ASK = UserMessage("q")
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": []}
SPOKEN = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}


def response(*output, **fields):
    return {"id": "resp_1", "object": "response", "output": [*output], **fields}


def made_result(call):
    return ToolMessage("", tool_call_id=call.id)


def listed(export):
    return [(lost.path, lost.what) for lost in export.lost]


class TestSigners:
    """Thinking goes back to the model that signed it."""

    @pytest.mark.parametrize(
        ("signer", "named", "is_sent"),
        [
            ("glm-5", {}, True),
            ("glm-5", {"host": "anthropic"}, False),
            ("glm-5", {"model": "claude-opus-5"}, False),
            ("glm-5", {"model": "glm-5"}, True),
            ("claude-opus-5-20260901", {"host": "vertex"}, True),
            ("claude-opus-5-20260901", {"model": "claude-opus-5"}, True),
            ("claude-opus-5", {"model": "us.anthropic.claude-opus-5-v1:0"}, True),
            ("claude-opus-5", {"host": "bedrock", "model": "claude-haiku-5"}, False),
            ("claude-opus-5-1-20260901", {"model": "claude-opus-5"}, False),
            ("claude-opus-5-1-20260901", {"model": "claude-opus-5-1@20260901"}, True),
            ("claude-sonnet-4-20250514", {"model": "claude-sonnet-4-0"}, True),
            ("claude-3-5-sonnet-20241022", {"model": "claude-3-5-sonnet-latest"}, True),
            ("claude-opus-4-5-20251101", {"model": "anthropic/claude-opus-4.5"}, True),
            (
                "claude-opus-5",
                {"host": "bedrock", "model": "arn:aws:x"},
                True,
            ),
        ],
    )
    def test_of_another_model(self, signer, named, is_sent):
        """
        Where the model is named, that of another is left out, and where the host is,
        that of no Claude. Who did not sign it refuses it for good.
        """
        text = {"type": "text", "text": "a"}
        answer = {"role": "assistant", "model": signer, "content": [SIGNED, text]}
        chat = [ASK, *anthropic.load({"type": "message", **answer}), ASK]
        memory = Memory()
        if is_sent:
            memory.remember("anthropic", answer)

        export = anthropic.dump(chat, rules=anthropic.rules(**named))

        assert is_sent == (SIGNED in export.payload["messages"][1]["content"])
        lost = [] if is_sent else [("messages[1].parts[0]", "reasoning")]
        assert lost == listed(export)
        assert () == judge("anthropic", export.payload, memory=memory)

    @pytest.mark.parametrize(
        ("signer", "named", "is_sent"),
        [
            ("kimi-k2.6", {}, True),
            ("kimi-k2.6", {"model": "deepseek-v4-pro"}, True),
            ("kimi-k2.6", {"host": "bedrock"}, False),
            ("", {"model": "claude-opus-5"}, False),
            ("claude-opus-5", {}, False),
        ],
    )
    def test_without_a_signature(self, signer, named, is_sent):
        """Other servers sign nothing, and want it back so; Claude refuses that."""
        content = [{**SIGNED, "signature": ""}, {"type": "text", "text": "a"}]
        answer = {"role": "assistant", "model": signer, "content": content}
        chat = [ASK, *anthropic.load({"type": "message", **answer}), ASK]
        export = anthropic.dump(chat, rules=anthropic.rules(**named))
        model = named.get("model") or signer or "claude-opus-5"
        asked = {**export.payload, "model": model, "max_tokens": 9}

        assert is_sent == (content[0] in asked["messages"][1]["content"])
        assert is_sent == (export.lost == ())
        assert () == judge("anthropic", asked)


class TestHosts:
    """Hosts that check keys get what they know, whole."""

    def test_what_is_known(self):
        """
        A picture goes with its address and detail, and without other keys; the input of
        a custom call is an argument, as it was written.
        """
        picture = {"url": "https://e.x/a.png", "detail": "low"}
        called = {"type": "custom", "custom": {"name": "f", "input": "né\n"}}
        chat = openai_chat.load(
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {**picture, "x": 1}, "y": 2}
                    ],
                },
                {"role": "assistant", "tool_calls": [{"id": "abcdefghi", **called}]},
                {"role": "tool", "tool_call_id": "abcdefghi", "content": "4"},
            ]
        )

        export = openai_chat.dump(chat, rules=openai_chat.rules(host="groq"))
        asked, answer, _ = export.payload["messages"]

        assert [{"type": "image_url", "image_url": picture}] == asked["content"]
        assert [
            {
                "id": "abcdefghi",
                "type": "function",
                "function": {"name": "f", "arguments": '{"input": "né\\n"}'},
            }
        ] == answer["tool_calls"]
        assert ["y", "x", "type"] == [each.what for each in export.lost]

    @pytest.mark.parametrize("more", [{}, {"refusal": 5}])
    def test_a_refusal_without_a_text(self, more):
        """An invalid refusal is lost where the host has no refusals."""
        odd = UnknownPart({"type": "refusal", **more}, source="openai_chat")
        rules = openai_chat.rules(host="groq")
        export = openai_chat.dump([UserMessage([TextPart("q"), odd])], rules=rules)

        assert "q" == export.payload["messages"][0]["content"]
        assert [("messages[0]", "refusal")] == listed(export)


@pytest.mark.parametrize(
    ("named", "empty"),
    [
        ({"host": "deepseek"}, ""),
        ({"model": "deepseek-v4-pro"}, ""),
        ({"model": "mimo-v2.5-pro"}, ""),
        ({"host": "openrouter", "model": "moonshotai/kimi-k2.6"}, " "),
        ({"host": "groq", "model": "moonshotai/kimi-k2-instruct"}, None),
    ],
)
def test_reasoning_of_another_model(named, empty):
    """Some want it of each answer, also where a conversation comes to them."""
    told = {"role": "assistant", "content": "a", "reasoning_content": "hm"}
    other = {"role": "assistant", "content": "a", "reasoning": "hm"}
    call = AssistantMessage(tool_calls=[ToolCall("c", "f", "{}")])
    chat = [ASK, call, ToolMessage("r", tool_call_id="c"), *openai_chat.load([told])]
    chat += [ASK, *openai_chat.load([other]), ASK]
    export = openai_chat.dump(chat, rules=openai_chat.rules(**named))
    payload = {"model": "deepseek-v4-pro", **export.payload, **named}
    level = payload.pop("host", "deepseek")
    sent = [message.get("reasoning_content") for message in payload["messages"]]

    assert empty == sent[1]
    assert empty is None or (sent[3], sent[5]) == ("hm", "hm")
    assert judge("openai_chat", payload, level=level) == ()


A = {"functionCall": {"name": "f", "args": {}, "id": "a"}}
B = {"functionCall": {"name": "f", "args": {}, "id": "b"}}
DONE = (ToolMessage("r", tool_call_id="a"), ToolMessage("r", tool_call_id="b"))


class TestSignedCalls:
    """A Gemini 3 refuses the first call of a step without a signature."""

    def answer(self, *parts, model):
        content = {"role": "model", "parts": [*parts]}
        raw = {"candidates": [{"content": content}], "modelVersion": model}
        return gemini.load(raw)

    @pytest.mark.parametrize(
        ("model", "is_added"),
        [("models/gemini-3.5-flash", True), ("gemini-2.5-pro", False)],
    )
    def test_of_an_older_model(self, model, is_added):
        """The first call of an older model gets a placeholder for a Gemini 3 only."""
        chat = [ASK, *self.answer(A, B, model="gemini-2.5-pro"), *DONE]
        rules = gemini.rules(model=model)
        payload = gemini.dump(chat, rules=rules).payload
        called = payload["contents"][1]["parts"]
        bare = gemini.dump(chat).payload["contents"][1]["parts"]

        assert is_added == ("thoughtSignature" in called[0])
        assert B == called[1]
        assert [A, B] == bare
        assert judge("gemini", {**payload, "model": model.rpartition("/")[2]}) == ()

    def test_of_one_that_was_split(self):
        """Calls of one answer that were stored as two are two steps."""
        signed = {**A, "thoughtSignature": "s"}
        model = "gemini-3-pro"
        chat = [ASK, *self.answer(signed, model=model)]
        chat += [*self.answer(B, model=model), *DONE]
        payload = {**gemini.dump(chat).payload, "model": model}

        assert signed == payload["contents"][1]["parts"][0]
        assert judge("gemini", payload) == ()

    def test_in_chat_completions(self):
        """Google's own endpoint has it under a key that others ignore."""
        calls = [ToolCall(key, "f", "{}") for key in "ab"]
        chat = [ASK, AssistantMessage(tool_calls=calls), *DONE]
        rules = openai_chat.rules(model="gemini-3-pro")
        first, second = openai_chat.dump(chat, rules=rules).payload["messages"][1][
            "tool_calls"
        ]

        assert {"google"} == set(first["extra_content"])
        assert "extra_content" not in second


class TestStoredItems:
    """Responses: items are sent by their ids where the provider has them, once."""

    def test_reasoning_that_was_not_stored(self):
        """Reasoning without a signature goes if it was not stored, and ids with it."""
        raw = response(THOUGHT, SPOKEN, store=False)
        memory = Memory()
        memory.remember("openai_responses", raw, store=False)
        export = openai_responses.dump([ASK, *openai_responses.load(raw), ASK])

        assert {"role": "assistant", "content": "a"} == export.payload["input"][1]
        assert [
            ("messages[1].parts[0]", "reasoning"),
            ("messages[1].parts[1]", "id"),
        ] == listed(export)
        assert judge("openai_responses", export.payload, memory=memory) == ()

    def test_an_item_that_was_not_stored(self):
        """An item that was not stored is sent by its content, without its id."""
        loaded = openai_responses.load(response(SPOKEN, store=False))
        export = openai_responses.dump([ASK, *loaded, ASK])

        assert {"role": "assistant", "content": "a"} == export.payload["input"][1]
        assert [("messages[1].parts[0]", "id")] == listed(export)

    def test_a_stream_says_so_too(self):
        """A stream whose response was not stored sends the same items as the whole."""
        raw = response(THOUGHT, SPOKEN, store=False, status="completed")
        events = [
            {"type": "response.output_item.added", "output_index": at, "item": item}
            for at, item in enumerate(raw["output"])
        ]
        events.append({"type": "response.completed", "response": raw})
        message = concat(openai_responses.load_chunks(events))

        assert (
            openai_responses.dump([ASK, *openai_responses.load(raw), ASK]).payload
            == openai_responses.dump([ASK, message, ASK]).payload
        )

    def test_a_stream_that_was_left(self):
        """Items of a stream that the program stopped reading are sent without ids."""
        call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
        call = {**call, "arguments": "{}", "status": "completed"}
        events = [
            {"type": "response.created", "response": response(store=False)},
            {"type": "response.output_item.done", "output_index": 0, "item": call},
        ]
        left = [*openai_responses.load_chunks(events)][:-1]
        sent = openai_responses.dump([ASK, concat(left), ASK]).payload["input"]

        assert "c" == sent[1]["call_id"]
        assert "id" not in sent[1]

    def test_the_status_of_a_thought(self):
        """A response has it, and a request may not."""
        raw = response({**THOUGHT, "status": "completed"}, SPOKEN)
        loaded = openai_responses.load(raw)
        export = openai_responses.dump([ASK, *loaded, ASK])

        assert [THOUGHT, SPOKEN] == export.payload["input"][1:3]
        kept = as_is(openai_responses).dump(loaded).payload["input"]
        assert raw["output"] == kept

    def test_stored_items_keep_their_ids(self):
        """What was stored goes back key for key."""
        raw = response(THOUGHT, SPOKEN)
        export = openai_responses.dump([ASK, *openai_responses.load(raw), ASK])

        assert [THOUGHT, SPOKEN] == export.payload["input"][1:3]
        assert export.lost == ()

    def test_an_item_twice(self):
        """Of two items with one id the second is sent without, and reasoning once."""
        message = openai_responses.load(response(THOUGHT, SPOKEN))
        export = openai_responses.dump([ASK, *message, ASK, *message, ASK])
        ids = [item["id"] for item in export.payload["input"] if "id" in item]

        assert ["rs_1", "msg_1"] == ids
        assert {"role": "assistant", "content": "a"} == export.payload["input"][4]
        assert [
            ("messages[3].parts[0]", "reasoning"),
            ("messages[3].parts[1]", "id"),
        ] == listed(export)
        assert judge("openai_responses", export.payload) == ()

    def test_an_item_without_its_reasoning(self):
        """An item whose reasoning was taken away is sent without its id."""
        raw = response(THOUGHT, SPOKEN)
        memory = Memory()
        memory.remember("openai_responses", raw)
        (message,) = openai_responses.load(raw)
        bare = message.replace(content=message.content[1:])  # type: ignore[attr-defined]
        export = openai_responses.dump([ASK, bare, ASK])

        assert [("messages[1].parts[0]", "id")] == listed(export)
        assert judge("openai_responses", export.payload, memory=memory) == ()

    @pytest.mark.parametrize(
        ("thought", "host", "model", "is_sent"),
        [
            ({"encrypted_content": "E"}, "openai", "gpt-5", True),
            ({"encrypted_content": "E"}, "openai", "grok-4", False),
            ({"encrypted_content": "E"}, "azure", "of-a-deployment", True),
            (
                {"content": [{"type": "reasoning_text", "text": "hm"}]},
                "azure",
                "",
                False,
            ),
            ({"encrypted_content": "E", "id": "thinking_0"}, "openai", "", False),
        ],
    )
    def test_reasoning_of_another_server(self, thought, host, model, is_sent):
        """OpenAI takes its own reasoning only."""
        raw = response({**THOUGHT, **thought}, SPOKEN, model=model)
        chat = [ASK, *openai_responses.load(raw), ASK]
        export = openai_responses.dump(chat, rules=openai_responses.rules(host=host))
        sent = [{**THOUGHT, **thought}, SPOKEN]

        assert is_sent == (sent == export.payload["input"][1:3])
        assert is_sent == (export.lost == ())
        assert judge("openai_responses", export.payload) == ()
        assert sent == openai_responses.dump(chat).payload["input"][1:3]

    @pytest.mark.parametrize(
        ("model", "is_sent"),
        [("gpt-5.2", True), ("openai/gpt-4.1-mini", False), ("ft:gpt-4o:a", False)],
    )
    def test_reasoning_for_a_model_without(self, model, is_sent):
        """A model that does not reason gets none of one that does, with no host too."""
        chat = [ASK, *openai_responses.load(response(THOUGHT, SPOKEN)), ASK]
        export = openai_responses.dump(chat, rules=openai_responses.rules(model=model))
        asked = {**export.payload, "model": model.rpartition("/")[2]}

        assert is_sent == (export.lost == ())
        assert is_sent == ([THOUGHT, SPOKEN] == asked["input"][1:3])
        assert is_sent or {"role": "assistant", "content": "a"} == asked["input"][1]
        assert judge("openai_responses", asked) == ()

    @pytest.mark.parametrize("host", ["azure", "openai"])
    def test_parts_of_a_user_in_an_answer(self, host):
        """Other servers take them; OpenAI has one role for each kind of part."""
        image = "data:image/png;base64,iVBORw0KGgo="
        blocks = [{"type": "input_text", "text": "a"}]
        blocks += [{"type": "input_image", "image_url": image}]
        chat = [ASK, *openai_responses.load([{"role": "assistant", "content": blocks}])]
        named = openai_responses.rules(host=host)
        export = openai_responses.dump([*chat, ASK], rules=named)

        assert blocks == openai_responses.dump(chat).payload["input"][1]["content"]
        assert [("messages[1].parts[1]", "input_image")] == listed(export)
        assert judge("openai_responses", export.payload) == ()

        images = [{"type": "image_url", "image_url": {"url": image}}]
        chat = [ASK, *openai_chat.load([{"role": "assistant", "content": images}]), ASK]
        chats = openai_chat.dump(chat, rules=openai_chat.rules(host=host))

        assert images == openai_chat.dump(chat).payload["messages"][1]["content"]
        assert ("messages[1].parts[0]", "image") in listed(chats)
        assert judge("openai_chat", chats.payload) == ()

    def test_ids_of_another_server(self):
        """Items whose ids OpenAI did not make are sent to it without them."""
        asked = {"type": "message", "role": "user", "content": "q", "id": "019f629b-43"}
        called = {"type": "function_call", "call_id": "c1", "name": "f"}
        called |= {"arguments": "{}", "id": "toolu_1"}
        done = {"type": "function_call_output", "call_id": "c1", "output": "r"}
        custom = {"type": "custom_tool_call", "call_id": "c2", "name": "f"}
        custom |= {"input": "x", "id": "fc_1"}
        ran = {"type": "custom_tool_call_output", "call_id": "c2", "output": "r"}
        spoken = {**SPOKEN, "id": "chatcmpl-1"}
        items = [asked, called, done, custom, ran, spoken, asked]
        chat = openai_responses.load(items)
        rules = openai_responses.rules(host="openai")
        export = openai_responses.dump(chat, rules=rules)

        assert not any("id" in item for item in export.payload["input"])
        assert ["id"] * 5 == [lost.what for lost in export.lost]
        assert judge("openai_responses", export.payload) == ()

    def test_ids_that_say_nothing(self):
        """
        Items that the Agents SDK makes of other formats share one id; reasoning stays,
        as DeepSeek wants it back.
        """
        items = [{**THOUGHT, "id": "__fake_id__"}, {**SPOKEN, "id": "__fake_id__"}] * 2
        chat = openai_responses.load([{"role": "user", "content": "q"}, *items])
        named = openai_responses.rules(host="openai")

        assert items == openai_responses.dump(chat).payload["input"][1:]
        spoken = [{"role": "assistant", "content": "a"}] * 2
        assert spoken == openai_responses.dump(chat, rules=named).payload["input"][1:]

    def test_an_answer_of_several_texts(self):
        """Texts that were made elsewhere are items of a type that the SDK has."""
        answer = AssistantMessage([TextPart("a"), TextPart("b")])
        export = openai_responses.dump([ASK, answer, ASK])

        assert [
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
        ] == export.payload["input"][1:3]


class TestEnds:
    """What may stand at the end of a request."""

    @pytest.mark.parametrize(
        ("content", "sent"),
        [
            ("a \n", "a"),
            ([{"type": "text", "text": " a "}], [{"type": "text", "text": " a"}]),
            (
                [{"type": "text", "text": "a "}, {"type": "text", "text": " "}],
                [{"type": "text", "text": "a"}],
            ),
        ],
    )
    def test_white_space(self, content, sent):
        """That of an answer at the end goes to no host of Anthropic."""
        chat = anthropic.load(
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": content},
            ]
        )
        export = anthropic.dump(chat)
        followed = anthropic.dump([*chat, ASK]).payload["messages"]

        assert sent == export.payload["messages"][1]["content"]
        assert {"text"} == {lost.what for lost in export.lost}
        assert judge("anthropic", export.payload, level="api") == ()
        assert content == followed[1]["content"]

    @pytest.mark.parametrize(
        ("adapter", "wire", "rules", "level"),
        [
            (openai_chat, "openai_chat", {"host": "mistral"}, "mistral"),
            (gemini, "gemini", {"host": "vertex"}, "vertex"),
            (anthropic, "anthropic", {"host": "bedrock"}, "bedrock"),
            (anthropic, "anthropic", {"model": "claude-opus-5"}, "api"),
        ],
    )
    def test_an_answer(self, adapter, wire, rules, level):
        """A user's message goes behind it where it is refused."""
        chat = [ASK, AssistantMessage("a ")]
        export = adapter.dump(chat, rules=adapter.rules(**rules))

        assert [("messages[1]", "user")] == listed(export)
        assert judge(wire, {**export.payload, **rules}, level=level) == ()

    def test_an_answer_that_goes_on(self):
        """Nothing goes behind what Mistral, or Claude after a pause, continues."""
        begun = {"role": "assistant", "content": "a", "prefix": True}
        rules = openai_chat.rules(host="mistral")
        chat = [ASK, *openai_chat.load([begun])]

        assert begun == openai_chat.dump(chat, rules=rules).payload["messages"][-1]

        use: dict[str, Any] = {"type": "server_tool_use", "id": "srvtoolu_1"}
        use |= {"name": "web_search", "input": {"query": "q"}}
        answer = {"type": "message", "role": "assistant", "content": [use]}
        paused = anthropic.load({**answer, "stop_reason": "pause_turn"})
        rules = anthropic.rules(model="claude-opus-5")
        payload = anthropic.dump([ASK, *paused], rules=rules).payload

        assert [use] == payload["messages"][-1]["content"]
        assert judge("anthropic", {**payload, "model": "claude-opus-5"}) == ()

    @pytest.mark.parametrize("host", ["deepseek", "perplexity", "vllm", "openai"])
    def test_a_developer(self, host):
        """A message of a developer's is the system's where there is no such role."""
        chat = openai_chat.load([{"role": "developer", "content": "s"}])
        rules = openai_chat.rules(host=host)
        [sent, user] = openai_chat.dump([*chat, ASK], rules=rules).payload["messages"]

        assert ("developer" if host == "openai" else "system") == sent["role"]
        level = "api" if host == "openai" else host
        assert judge("openai_chat", {"messages": [sent, user]}, level=level) == ()


class TestThinking:
    """Anthropic: no answer ends with thinking."""

    def test_thinking_at_the_end_goes(self):
        """Thinking that nothing follows in its answer is left out and listed."""
        (message,) = anthropic.load(
            [{"role": "assistant", "content": [{"type": "text", "text": "a"}, SIGNED]}]
        )
        export = anthropic.dump([ASK, message, ASK])

        assert [{"type": "text", "text": "a"}] == export.payload["messages"][1][
            "content"
        ]
        assert [("messages[1].parts[1]", "reasoning")] == listed(export)

    def test_turns_join_where_an_answer_was(self):
        """Users around an answer of which only thinking is left are one turn."""
        (thought,) = anthropic.load([{"role": "assistant", "content": [SIGNED]}])
        audio = AudioPart(data=b"a", media_type="audio/wav")
        message = thought.replace(content=[*thought.content, audio])  # type: ignore[attr-defined]
        export = anthropic.dump([ASK, message, UserMessage("again")])

        assert ["user"] == [each["role"] for each in export.payload["messages"]]
        assert ("messages[1].parts[0]", "reasoning") in listed(export)
        assert judge("anthropic", export.payload) == ()

    def test_thinking_before_a_text_stays(self):
        """Thinking stays, byte for byte, where the text it led to follows."""
        content = [SIGNED, {"type": "text", "text": "a"}]
        loaded = anthropic.load([{"role": "assistant", "content": content}])
        export = anthropic.dump([ASK, *loaded, ASK])

        assert content == export.payload["messages"][1]["content"]
        assert export.lost == ()


class TestMarkers:
    """Anthropic: four cache markers in a request."""

    def marked(self, role, count):
        content = {"type": "text", "text": "t", **MARK}
        return [
            each
            for _ in range(count)
            for each in anthropic.load([{"role": role, "content": [content]}])
        ]

    @pytest.mark.parametrize(("system", "kept"), [(0, 4), (1, 3), (3, 1), (6, 1)])
    def test_the_newest_stay(self, system, kept):
        """The newest markers stay, those of the system counted; others are listed."""
        mark = {"type": "text", "text": "s", **MARK}
        loaded = anthropic.load({"system": [mark] * (system or 1), "messages": []})
        top = loaded if system else ()
        export = anthropic.dump([*top, *self.marked("user", 6)])
        blocks = [
            block
            for message in export.payload["messages"]
            for block in message["content"]
        ]

        assert [False] * (6 - kept) + [True] * kept == [
            "cache_control" in block for block in blocks
        ]
        assert system + 6 - 4 == len(export.lost)
        assert judge("anthropic", export.payload) == ()

    def test_one_is_left_to_the_tools(self):
        """A marker of the caller's own tools counts, so one less stands in messages."""
        rules = attrs.evolve(anthropic.RULES, max_markers=3)
        export = anthropic.dump(self.marked("user", 4), rules=rules)
        tools = [{"name": "f", "input_schema": {"type": "object"}, **MARK}]

        assert [("messages[0].parts[0]", "cache_control")] == listed(export)
        assert judge("anthropic", {**export.payload, "tools": tools}) == ()

    def test_within_results(self):
        """What a result has inside counts, and no other block is looked into."""
        texts = [{"type": "text", "text": "t", **MARK}] * 5
        result = {"type": "tool_result", "tool_use_id": "c1", "content": texts}
        other = {"type": "of_another_day", "content": ["a"]}
        calling = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
        turns = [
            {"role": "assistant", "content": [calling, other]},
            {"role": "user", "content": [result]},
        ]
        export = anthropic.dump([ASK, *anthropic.load(turns)])
        sent = export.payload["messages"]

        assert other in sent[1]["content"]
        assert [False] + [True] * 4 == [
            "cache_control" in each for each in sent[2]["content"][0]["content"]
        ]

    def test_within_documents(self):
        """What a document or a found page has inside counts, in a result, too."""
        text = {"type": "text", "text": "t", **MARK}
        page = {"type": "search_result", "source": "u", "title": "t", "content": [text]}
        source = {"type": "content", "content": [text]}
        document = {"type": "document", "source": source}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": [page]}
        calling = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
        turns = [
            {"role": "assistant", "content": [calling]},
            {"role": "user", "content": [result, document, page, text, text, text]},
        ]
        assert ["too_many_markers"] == [
            refusal.rule.name
            for refusal in judge(
                "anthropic",
                {"messages": [{"role": "user", "content": [document, page] * 3}]},
                level="api",
            )
        ]
        export = anthropic.dump([ASK, *anthropic.load(turns)])
        sent = export.payload["messages"][2]["content"]

        assert [0, 0, 1, 1, 1, 1] == [
            str(block).count("cache_control") for block in sent
        ]
        assert len(export.lost) == 2
        assert judge("anthropic", export.payload) == ()

    def test_on_thinking(self):
        """Thinking has none."""
        content = [{**SIGNED, **MARK}, {"type": "text", "text": "a"}]
        raw = [{"role": "assistant", "content": content}]
        export = anthropic.dump([ASK, *anthropic.load(raw), ASK])

        assert SIGNED == export.payload["messages"][1]["content"][0]
        assert [("messages[1].parts[0]", "cache_control")] == listed(export)
        assert judge("anthropic", export.payload) == ()

    def test_of_an_hour(self):
        """Behind one of five minutes, one of an hour is of five minutes, too."""
        hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
        marks: list[Any] = [hour, {}, hour, MARK, hour]
        content = [{"type": "text", "text": "t", **mark} for mark in marks]
        loaded = anthropic.load([{"role": "user", "content": content}])
        export = anthropic.dump(loaded)
        content[4] |= MARK

        assert content == export.payload["messages"][0]["content"]
        assert [("messages[0].parts[4]", "ttl")] == listed(export)
        assert judge("anthropic", export.payload) == ()

    def test_of_an_hour_in_a_result(self):
        """What a result has inside comes before its own marker."""
        hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
        text = {"type": "text", "text": "t", **hour}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text]}
        turns = [
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [result | MARK]},
        ]
        export = anthropic.dump([ASK, *anthropic.load(turns)])

        assert turns == export.payload["messages"][1:]
        assert judge("anthropic", export.payload) == ()

    @pytest.mark.parametrize("host", ["", "openrouter"])
    def test_of_chat_completions(self, host):
        """Hosts of Chat Completions that have markers take four as well."""
        block = {"type": "text", "text": "t", **MARK}
        sent = [
            {"role": "system", "content": [block]},
            *({"role": "user", "content": [block]} for _ in range(5)),
        ]
        rules = openai_chat.rules(host=host) if host else None
        export = openai_chat.dump(openai_chat.load(sent), rules)

        assert [1, 0, 0, 1, 1, 1] == [
            str(each).count("cache_control") for each in export.payload["messages"]
        ]
        assert [(f"messages[{at}]", "cache_control") for at in (1, 2)] == listed(export)

    def test_four_are_not_touched(self):
        """Four markers are sent as they came."""
        export = anthropic.dump(self.marked("user", 4))

        assert export.lost == ()
        assert 4 == str(export.payload).count("cache_control")


def test_one_marker():
    """A rule of one marker leaves the newest one."""
    text = {"type": "text", "text": "x", **MARK}
    asked = {"role": "user", "content": [text, text]}
    messages = anthropic.load({"system": [text, text], "messages": [asked]})
    rules = attrs.evolve(anthropic.RULES, max_markers=1)
    payload = anthropic.dump(messages, rules).payload

    assert 1 == str(payload).count("cache_control")
    assert text == payload["messages"][0]["content"][1]


@pytest.mark.parametrize("host", ["azure", "openai"])
def test_no_marker(host):
    """OpenAI refuses the markers of others."""
    text = {"type": "text", "text": "x"}
    chat = [{"role": role, "content": [text | MARK]} for role in ("system", "user")]
    export = openai_chat.dump(openai_chat.load(chat), openai_chat.rules(host=host))

    assert [[text], [text]] == [each["content"] for each in export.payload["messages"]]
    assert ["cache_control"] * 2 == [each.what for each in export.lost]


def test_a_marker_of_an_odd_block():
    """A block whose type is no text keeps its marker."""
    raw = {"type": ["x"], **MARK}
    part = UnknownPart(raw, source="openai_chat")
    payload = openai_chat.dump([UserMessage([TextPart("q"), part])]).payload

    assert raw == payload["messages"][0]["content"][1]


@pytest.mark.parametrize(
    ("name", "adapter"),
    [
        ("anthropic", anthropic),
        ("gemini", gemini),
        ("openai_chat", openai_chat),
        ("openai_responses", openai_responses),
    ],
)
class TestNothingLeft:
    """A message of which nothing can be sent is left out and listed, on each wire."""

    def test_at_all(self, name, adapter):
        """A message is made up where neither of two can be sent."""
        other = UnknownMessage({"a": 1}, source="bubo")
        export = adapter.dump([other, ToolMessage("late", tool_call_id="c1")])

        assert judge(name, export.payload) == ()
        assert "(no message)" in str(export.payload)
        assert {"messages[0]", "messages[1]"} == {lost.path for lost in export.lost}

    def test_each_wire(self, name, adapter):
        """Answers of thinking, and texts of nothing, never are an empty message."""
        messages = [
            SystemMessage(""),
            ASK,
            AssistantMessage([ReasoningPart("hm", "foreign")]),
            AssistantMessage([TextPart("")]),
            UserMessage(""),
        ]
        export = adapter.dump(messages)

        assert judge(name, export.payload) == ()
        assert {"messages[0]", "messages[3]", "messages[4]"} <= {
            lost.path for lost in export.lost
        }


ASKED_ITEM = {"role": "user", "content": "q"}


class TestOlderCalls:
    """Chat Completions: calls from before they had ids."""

    @pytest.mark.parametrize(
        "given", [{}, {"tool_call_id": None}, {"tool_call_id": ""}]
    )
    def test_a_result_of_the_newer_form(self, given):
        """A result that lacks an id is sent as such a call's; or written as it came."""
        called = {"name": "f", "arguments": "{}"}
        history = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "function_call": called},
            {"role": "tool", "content": "12", **given},
        ]
        loaded = openai_chat.load(history)

        request = openai_chat.dump(loaded).payload

        sent = {"role": "function", "content": "12", "name": "f"}
        assert [*history[:2], sent] == request["messages"]
        assert () == judge("openai_chat", request, level="api")
        assert history == as_is(openai_chat).dump(loaded).payload["messages"]


CUT = '{"a": "cu'


def with_arguments(text, **meta):
    """A question, and an answer with a call that is answered."""
    call = AssistantMessage(tool_calls=[ToolCall("c", "f", text)], **meta)
    return [ASK, call, ToolMessage("r", tool_call_id="c")]


def arguments_in(export):
    """The arguments of the one call of a request."""
    if "input" in export.payload:
        return export.payload["input"][1]["arguments"]

    return export.payload["messages"][1]["tool_calls"][0]["function"]["arguments"]


class TestArguments:
    """Servers parse the arguments of earlier calls, which a stop may have cut off."""

    @pytest.mark.parametrize("adapter", [openai_chat, openai_responses])
    @pytest.mark.parametrize("text", [CUT, "[1]", "null", '{"a": NaN}', '{"a": 1} {}'])
    def test_broken(self, adapter, text):
        """What is no JSON object goes within one, and is listed."""
        export = adapter.dump(with_arguments(text))

        assert {"INVALID_JSON": text} == json.loads(arguments_in(export))
        assert ("messages[1].tool_calls[0]", "arguments") in listed(export)
        assert () == judge(adapter.__name__.rpartition(".")[2], export.payload)

    def test_broken_where_they_are_an_object(self):
        """Anthropic and Gemini get the same object, from a view and without one."""
        view = trim(Aggregator.new(with_arguments(CUT)), None)
        for messages in (with_arguments(CUT), view.messages):
            sent = anthropic.dump(messages).payload["messages"]
            [part] = gemini.dump(messages).payload["contents"][1]["parts"]

            assert {"INVALID_JSON": CUT} == sent[1]["content"][0]["input"]
            assert {"INVALID_JSON": CUT} == part["functionCall"]["args"]
            assert CUT == anthropic.load(sent)[1].tool_calls[0].arguments
            assert () == anthropic.dump(messages).lost

    @pytest.mark.parametrize("adapter", [openai_chat, openai_responses])
    def test_where_any_text_is_taken(self, adapter):
        """OpenAI itself reads what its model wrote."""
        export = adapter.dump(with_arguments(CUT), adapter.rules(host="openai"))

        assert CUT == arguments_in(export)
        assert [] == listed(export)

    @pytest.mark.parametrize("adapter", [openai_chat, openai_responses])
    @pytest.mark.parametrize("text", ["", " "])
    def test_none(self, adapter, text):
        """No arguments are an object that is empty; nothing is lost."""
        export = adapter.dump(with_arguments(text))

        assert "{}" == arguments_in(export)
        assert [] == listed(export)

    @pytest.mark.parametrize("text", ['{"a": 1}', '{ "a":"\\ud800","a":2}'])
    def test_valid(self, text):
        """A JSON object is sent as it was written."""
        assert text == arguments_in(openai_chat.dump(with_arguments(text)))

    def test_a_request_keeps_its_form(self):
        """What another program sent is sent again, unless a host is named."""
        request = openai_chat.dump(with_arguments(CUT), openai_chat.rules(host="azure"))
        again = openai_chat.load(request.payload)
        named = openai_chat.dump(again, openai_chat.rules(host="vllm"))

        assert request.payload == openai_chat.dump(again).payload
        assert {"INVALID_JSON": CUT} == json.loads(arguments_in(named))

    @pytest.mark.parametrize("given", [{"arguments": None}, {}, {"arguments": CUT}])
    def test_an_answer_does_not(self, given):
        """Those of an answer are an object, also where they were null or missing."""
        call = {"id": "c", "type": "function", "function": {"name": "f", **given}}
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        loaded = openai_chat.load({"choices": [{"message": answer}]})
        export = openai_chat.dump([ASK, *loaded, ToolMessage("r", tool_call_id="c")])

        assert isinstance(json.loads(arguments_in(export)), dict)
        assert () == judge("openai_chat", export.payload)

    def test_in_a_view(self):
        """A view has them so for programs that make the request themselves."""
        state = Aggregator.new(with_arguments(CUT))
        view = trim(state, None)
        (call,) = view.messages[1].tool_calls

        assert {"INVALID_JSON": CUT} == json.loads(call.arguments)
        assert () == view.problems()
        assert call.arguments == arguments_in(openai_chat.dump(view.messages))
        assert {"INVALID_JSON": CUT} == (
            anthropic.dump(view.messages).payload["messages"][1]["content"][0]["input"]
        )
        assert CUT == state[1].tool_calls[0].arguments

    @pytest.mark.parametrize(
        ("given", "end"), [('{"a": x', '{"a": 1}'), ('{"a": 1}', '{"a": ')]
    )
    def test_the_end_of_a_stream(self, given, end):
        """Of a stream whose end has other arguments, it is these that are judged."""
        begun = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
        item = {**begun, "arguments": end, "status": "completed"}
        place = {"output_index": 0, "item_id": "fc_1"}
        kind = "response.function_call_arguments"
        events: list[Any] = [
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**begun, "arguments": "", "status": "in_progress"},
            },
            {"type": f"{kind}.delta", "delta": given, **place},
            {"type": f"{kind}.done", "arguments": end, **place},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response(item)},
        ]
        answer = concat(openai_responses.load_chunks(events))
        messages = [ASK, answer, ToolMessage("r", tool_call_id="c")]
        sent = arguments_in(openai_responses.dump(messages))

        assert end == (sent if end.endswith("}") else json.loads(sent)["INVALID_JSON"])

    def test_custom_tools(self):
        """What a custom tool is given is any text."""
        call = ToolCall("c", "f", CUT, type="custom")
        answer = AssistantMessage(tool_calls=[call])
        result = ToolMessage("r", tool_call_id="c")
        export = openai_chat.dump([ASK, answer, result])

        calls = export.payload["messages"][1]["tool_calls"]
        assert {"name": "f", "input": CUT} == calls[0]["custom"]

        export = gemini.dump([ASK, answer, result])
        [part] = export.payload["contents"][1]["parts"]

        assert {"INVALID_JSON": CUT} == part["functionCall"]["args"]
        assert ["type", "arguments"] == [lost.what for lost in export.lost]


class TestNulls:
    @pytest.mark.parametrize("key", ["function_call", "tool_calls"])
    def test_calls(self, key):
        """``message.model_dump()`` of OpenAI's client has nulls that are refused."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
        messages += [{"role": "assistant", "content": "a", key: None}, messages[0]]
        sent = openai_chat.dump(openai_chat.load(messages)).payload["messages"]

        assert {"role": "assistant", "content": "a"} == sent[1]

    def test_what_other_servers_say_beside_calls(self):
        """
        An empty list is refused by xAI, and the index of a call by OpenAI; other
        servers' answers have both.
        """
        body = {"name": "f", "arguments": "{}"}
        call = {"index": 0, "id": "c", "type": "function", "function": body}
        message = {"role": "assistant", "content": [], "tool_calls": [call]}
        answers = openai_chat.load({"choices": [{"index": 0, "message": message}]})
        export = openai_chat.dump([ASK, *answers])
        del call["index"]

        assert [{**message, "content": None}] == export.payload["messages"][1:]
        assert () == export.lost


def test_an_id_of_two_alternatives():
    """A call's id that two answers to one request have is two in another request."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": "call_0", "type": "function", "function": function}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choices = [{"index": at, "message": message} for at in (0, 1)]
    first, second = openai_chat.load({"id": "r1", "choices": choices})
    result = ToolMessage("1", tool_call_id="call_0")

    chat = [ASK, first, result, ASK, second, result]
    sent = openai_chat.dump(chat).payload["messages"]

    called = [each["tool_calls"][0]["id"] for each in (sent[1], sent[4])]
    assert called == [each["tool_call_id"] for each in (sent[2], sent[5])]
    assert 2 == len({*called})


WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("adapter", "part", "is_sent"),
    [
        (anthropic, ImagePart(data=b"\x89PNG" * 900_000, media_type="image/png"), True),
        (
            anthropic,
            ImagePart(data=b"\x89PNG" * 999_999, media_type="image/png"),
            False,
        ),
        (anthropic, FilePart(data=b"{}", media_type="application/json"), True),
        (anthropic, FilePart(data=b"\xff", media_type="application/json"), False),
        (gemini, FilePart(data=b"{}", media_type="application/json"), True),
        (gemini, FilePart(data=b"PK", media_type=WORD), False),
    ],
)
def test_media_that_are_refused(adapter, part, is_sent):
    """Too large an image, or a format that is not read, would stay in each request."""
    export = adapter.dump([UserMessage([TextPart("q"), part])])
    wire = adapter.__name__.rpartition(".")[2]

    kinds = [lost.what for lost in export.lost]
    assert is_sent == (part.kind not in kinds)
    assert () == judge(wire, export.payload, level="api")


def test_documents_that_are_cited():
    """Where one of them is, Anthropic wants all others to be, and in results, too."""
    source = {"type": "text", "media_type": "text/plain", "data": "a"}
    cited = {"type": "document", "source": source, "citations": {"enabled": True}}
    found = {"type": "search_result", "source": "s", "title": "t", "content": []}
    asked = anthropic.load([{"role": "user", "content": [cited, found, found]}])
    file = FilePart(data=b"a", media_type="text/plain")
    calls = [ToolCall("c", "f", "{}")]
    result = ToolMessage([file], tool_call_id="c")
    export = anthropic.dump([*asked, AssistantMessage(tool_calls=calls), result])
    first, _, last = [each["content"] for each in export.payload["messages"]]

    assert [cited, found, found] == first
    assert [cited] == last[0]["content"]
    assert [("messages[2]", "citations")] == listed(export)
    assert () == judge("anthropic", export.payload)


def drawn(side):
    """The beginnings of images of so many pixels: PNG, JPEG, GIF, WebP."""
    large, small = side.to_bytes(4), side.to_bytes(2)
    thumbnail = b"\xff\xe1\x10\x00" + bytes(4094)
    return {
        "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + large + bytes(9),
        "jpeg": b"\xff\xd8" + thumbnail + b"\xff\xc0\0\x11\x08\0\1" + small + b"..",
        "gif": b"GIF89a" + small[::-1] + bytes(9),
        "webp": b"RIFF....WEBPVP8 " + bytes(10) + small[::-1] + bytes(9),
    }


@pytest.mark.parametrize("kind", drawn(0))
@pytest.mark.parametrize(
    ("sides", "left_out"),
    [
        ([8_000, 8_001], [1]),
        ([2_500] * 20, []),
        ([2_000] * 25, []),
        ([2_500] * 25, range(5)),
        ([100, 2_500] + [100] * 23, [1]),
        ([100] * 24 + [2_500], range(5)),
    ],
)
def test_large_images(kind, sides, left_out):
    """
    Where Claude refuses images for their size, among many, fewest are left out, and
    not the newest.
    """
    images = [ImagePart(data=drawn(side)[kind], media_type="") for side in sides]
    calls = [ToolCall("c", "f", "{}")]
    chat = [
        UserMessage(images[:-1]),
        AssistantMessage(tool_calls=calls),
        ToolMessage(images[-1:], tool_call_id="c"),
    ]
    export = anthropic.dump(chat)
    first, _, last = [each["content"] for each in export.payload["messages"]]

    sent = [block["type"] for block in [*first, *last[0]["content"]]]
    assert [at for at, each in enumerate(sent) if each == "text"] == [*left_out]
    assert ["image"] * len(left_out) == [each.what for each in export.lost]
    assert () == judge("anthropic", export.payload)


@pytest.mark.parametrize(
    ("media_type", "named"),
    [("application/pdf", "file.pdf"), ("", "file.pdf")],
)
def test_a_file_without_a_name(media_type, named):
    """OpenAI wants the name of each file whose bytes it gets, so one is made."""
    chat = [UserMessage([FilePart(data=b"%PDF-", media_type=media_type)])]
    [asked] = openai_chat.dump(chat).payload["messages"]
    export = openai_responses.dump(chat)

    assert named == asked["content"][0]["file"]["filename"]
    assert named == export.payload["input"][0]["content"][0]["filename"]
    assert judge("openai_chat", {"messages": [asked]}) == ()
    assert judge("openai_responses", export.payload) == ()
    [kept] = as_is(openai_chat).dump(chat).payload["messages"]
    assert "filename" not in kept["content"][0]["file"]


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        (FilePart(data=b"a,b", media_type="text/csv", name="t"), "t:\na,b"),
        (FilePart(data=b"{}", media_type="application/json", name="t"), "t:\n{}"),
        (FilePart(data=b"PK", media_type=WORD, name="t"), None),
        (FilePart(data=b"\xff", media_type="text/plain", name="t"), None),
    ],
)
def test_a_file_that_is_no_pdf(file, sent):
    """
    OpenAI's Chat Completions take PDFs only: texts are sent as such. What came so, from
    another server, goes home so, and not where the host is named.
    """
    export = openai_chat.dump([UserMessage([TextPart("q"), file])])
    raw = as_is(openai_chat).dump([UserMessage([TextPart("q"), file])]).payload
    loaded = openai_chat.load(raw)
    named = openai_chat.dump(loaded, openai_chat.rules(host="azure"))

    texts = [{"type": "text", "text": text} for text in ("q", sent) if text]
    for each in (export, named):
        assert texts == each.payload["messages"][0]["content"]
        assert [("messages[0].parts[1]", "file")] == listed(each)
    assert () == judge("openai_chat", export.payload)
    assert raw == openai_chat.dump(loaded).payload
    assert () != judge("openai_chat", raw)


def test_a_sound_that_is_not_taken():
    """OpenAI takes WAV and MP3; other servers take more."""
    parts = [
        AudioPart(data=b"x", media_type=f"audio/{kind}")
        for kind in ("wav", "mpeg", "ogg")
    ]
    for host, count in (("", 3), ("openai", 2)):
        export = openai_chat.dump(
            [UserMessage([TextPart("q"), *parts])], openai_chat.rules(host=host)
        )

        assert 1 + count == len(export.payload["messages"][0]["content"])
        assert [("messages[0].parts[3]", "audio")][: 3 - count] == listed(export)


@pytest.mark.parametrize("adapter", [anthropic, gemini, openai_chat, openai_responses])
class TestUrls:
    """Media at addresses that the provider can't fetch."""

    @pytest.mark.parametrize(
        ("url", "is_sent"),
        [
            ("https://example.com/a.png", True),
            ("HTTPS://example.com/a.png", True),
            ("/uploads/a.png", False),
            ("a.png", False),
            ("blob:https://example.com/1", False),
            ("file:///a.png", False),
            ("sediment://file_1", False),
        ],
    )
    def test_of_another_format(self, adapter, url, is_sent):
        """A path, and what one program alone knows, is lost; the text is sent."""
        name = adapter.__name__.rpartition(".")[2]
        export = adapter.dump([UserMessage([ImagePart(url=url), TextPart("q")])])

        assert [("messages[0].parts[0]", "image")][is_sent:] == listed(export)
        assert (url in str(export.payload)) == is_sent
        if is_sent and url.islower():
            assert judge(name, export.payload) == ()

    @pytest.mark.parametrize("url", ["gs://b/a.png", "data:;base64,a"])
    def test_where_it_is_not_fetched(self, adapter, url):
        """
        A URL of cloud storage is sent to the providers that can fetch it; data without
        a media type is not sent.
        """
        name = adapter.__name__.rpartition(".")[2]
        image = ImagePart(url=url, media_type="image/png" * (url[:2] == "gs"))
        export = adapter.dump([UserMessage([image, TextPart("q")])])

        assert () == judge(name, export.payload)
        if adapter in (anthropic, openai_responses):
            assert [("messages[0].parts[0]", "image")] == listed(export)
        elif url[:2] == "gs":
            assert url in str(export.payload)

    @pytest.mark.parametrize(
        "url",
        [
            "data:image/tiff,abc",
            "data:image/x-png;base64,",
            "data:IMAGE/PNG;base64,!!!",
            "data:image/jpeg;base64,iVBORw0KGgo=AAAA*",
        ],
    )
    def test_broken_data(self, adapter, url):
        """Data that is in no base64 is left out, or sent as it is; never an error."""
        export = adapter.dump([UserMessage([ImagePart(url=url), TextPart("q")])])

        assert (url in str(export.payload)) or listed(export)

    def test_of_its_own(self, adapter):
        """What came so in this format, from a server that can, goes home so."""
        blocks = {
            gemini: {"fileData": {"fileUri": "/a", "mimeType": "image/png"}},
            anthropic: {"type": "image", "source": {"type": "url", "url": "/a"}},
            openai_chat: {"type": "image_url", "image_url": {"url": "/a"}},
            openai_responses: {"type": "input_image", "image_url": "/a"},
        }
        key = "parts" if adapter is gemini else "content"
        sent = [{"role": "user", key: [blocks[adapter]]}]

        assert [sent] == [*adapter.dump(adapter.load(sent)).payload.values()]


OWN_CALLS: dict[str, Any] = {
    "computer_call": {"type": "computer_screenshot", "image_url": "https://e.x/a"},
    "local_shell_call": "out",
    "shell_call": [{"stdout": "out", "stderr": "", "outcome": {"type": "timeout"}}],
    "apply_patch_call": "out",
}


@pytest.mark.parametrize("kind", OWN_CALLS)
class TestOwnCalls:
    """The provider's own calls that the caller runs, and their results."""

    @pytest.fixture
    def items(self, kind):
        """A call behind a thought, its result, and an answer."""
        call = {"type": kind, "id": "x_1", "call_id": "c", "status": "completed"}
        result = {"type": f"{kind}_output", "call_id": "c", "output": OWN_CALLS[kind]}
        thought = {"type": "reasoning", "id": "rs_1", "summary": []}
        text = {"type": "output_text", "text": "done", "annotations": []}
        answer: dict[str, Any] = {"type": "message", "role": "assistant"}
        answer |= {"id": "msg_1", "status": "completed", "content": [text]}
        return [ASKED_ITEM, thought, call, result, answer, ASKED_ITEM]

    @pytest.mark.parametrize("left_out", range(1, 5))
    def test_half(self, items, left_out, kind):
        """One without the other is lost, with the thought that led to it."""
        (thought, call, result), half = items[1:4], items.pop(left_out)
        export = openai_responses.dump(openai_responses.load(items))
        sent = export.payload["input"]

        if half in (call, result):
            assert [kind if half is result else f"{kind}_output"] == [
                lost.what
                for lost in export.lost
                if lost.what not in {"reasoning", "id"}
            ]
            assert not {kind, f"{kind}_output"} & {item.get("type") for item in sent}
        else:
            assert items == sent

        assert (thought in sent) == (half not in (result, thought))
        assert () == judge("openai_responses", export.payload, level="api")

    def test_views(self, items):
        """No view has one without the other."""
        state = Aggregator.new(openai_responses.load(items))
        for limit in range(1, 200):
            with suppress(BudgetExceededError):
                view = trim(state, TokenBudget(context_window=limit))
                payload = openai_responses.dump(view.messages).payload

                assert () == judge("openai_responses", payload, level="api")

    def test_unstored(self, items, kind):
        """
        Where nothing is stored, both halves are sent if the call needs no id, else
        neither is, nor the thought that led to them.
        """
        items[1]["encrypted_content"] = "E"
        response = {"object": "response", "store": False, "output": items[1:3]}
        both = [ASK, *openai_responses.load(response)]
        export = openai_responses.dump([*both, *openai_responses.load(items[3:4])])
        is_sent = kind in {"apply_patch_call", "shell_call"}
        sent = [item.get("type") for item in export.payload["input"][1:]]

        assert (["reasoning", kind, f"{kind}_output"] if is_sent else []) == sent
        assert (kind in {lost.what for lost in export.lost}) == (not is_sent)
        assert () == judge("openai_responses", export.payload, level="api")

    def test_late(self, items):
        """A result that came late is sent directly behind its call."""
        late = [*items[:3], ASKED_ITEM, items[3], ASKED_ITEM]
        export = openai_responses.dump(openai_responses.load(late))

        assert [*items[:4], ASKED_ITEM, ASKED_ITEM] == export.payload["input"]
        assert [("messages[3]", "position")] == listed(export)
        assert () == judge("openai_responses", export.payload)

    def test_twice(self, items, kind):
        """Of a call that was added twice, no second result is sent without it."""
        export = openai_responses.dump(openai_responses.load([*items, *items[1:]]))
        kinds = [item.get("type") for item in export.payload["input"]]

        assert kinds.count(f"{kind}_output") == kinds.count(kind)
        assert () == judge("openai_responses", export.payload, level="api")

    def test_continued(self, items):
        """Where the provider has what came before, the result goes home alone."""
        request = {"previous_response_id": "resp_1", "input": items[3:]}

        assert (
            items[3:]
            == openai_responses.dump(openai_responses.load(request)).payload["input"]
        )


def test_result_of_a_local_shell():
    """It is matched with its call by ``id``, as the SDK types it."""
    call = {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "action": {}}
    result = {"type": "local_shell_call_output", "id": "ls_1", "output": "out"}
    items = [ASKED_ITEM, {**call, "status": "completed"}, result, ASKED_ITEM]
    payload = openai_responses.dump(openai_responses.load(items)).payload
    alone = openai_responses.dump(openai_responses.load([ASKED_ITEM, result]))

    assert items == payload["input"]
    assert () == judge("openai_responses", payload, level="api")
    assert [ASKED_ITEM] == alone.payload["input"]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (
            {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"},
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "execution": "client"},
            {"type": "tool_search_output", "call_id": "c", "tools": []},
        ),
    ],
)
def test_what_the_caller_did_not_answer(call, result):
    """A request for an approval, or for tools, goes with its answer or not at all."""
    answered = [ASKED_ITEM, call, result, ASKED_ITEM]
    both = openai_responses.dump(openai_responses.load(answered))
    half = openai_responses.dump(openai_responses.load([*answered[:2], ASKED_ITEM]))

    assert answered == both.payload["input"]
    assert [ASKED_ITEM, ASKED_ITEM] == half.payload["input"]
    assert [call["type"]] == [lost.what for lost in half.lost]
    assert () == judge("openai_responses", half.payload, level="api")


def test_what_the_provider_did_not_finish():
    """A search that a broken stream began is left out, and no picture that came."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    image = {"type": "image_generation_call", "id": "ig_1", "status": "generating"}
    events: list[Any] = [{"type": "response.created", "response": response()}]
    for at, item in enumerate([THOUGHT, search]):
        events += [{"type": "response.output_item.added", "output_index": at}]
        events[-1]["item"] = item

    begun = concat(openai_responses.load_chunks(events))
    drawn = openai_responses.load(response({**image, "result": "aGk="}))
    export = openai_responses.dump([ASK, begun, ASK, *drawn, ASK])

    assert [ASKED_ITEM, ASKED_ITEM, {**image, "result": "aGk="}, ASKED_ITEM] == (
        export.payload["input"]
    )
    assert ["reasoning", "web_search_call"] == sorted(each.what for each in export.lost)


def test_approval_of_what_was_not_stored():
    """An approval goes with its request, which is known by its id alone."""
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f"}
    approved = {"approval_request_id": "mcpr_1", "approve": True}
    items = [{"type": "mcp_approval_response", **approved}]
    for store in (True, False):
        response = {"object": "response", "store": store, "output": [asked]}
        history = [ASK, *openai_responses.load(response), *openai_responses.load(items)]
        sent = openai_responses.dump(history).payload["input"]

        assert ([asked, *items] if store else []) == sent[1:]


def test_items_that_were_not_stored():
    """Those whose id is optional in the SDK's types are sent without it."""
    params = pytest.importorskip("openai.types.responses.response_input_item_param")
    shared = {"id": "x_1", "call_id": "c", "name": "f", "arguments": "{}"}
    for each in get_args(params.ResponseInputItemParam):
        hints = get_type_hints(each, include_extras=True)
        kind = get_args(get_type_hints(each)["type"])[0]
        # Others have rules of their own, or no type, or the other half with them.
        is_other = kind in {"message", "reasoning"} or not isinstance(kind, str)
        is_half = is_other or kind.startswith(("mcp_approval", "tool_search"))
        if is_half or kind.removesuffix("_output") in OWN_CALLS:
            continue

        raw = {"type": kind, **shared, "input": ""}
        answer = openai_responses.load(response(raw, store=False))
        export = openai_responses.dump([ASK, *answer, ASK])
        del raw["id"]
        is_sent = get_origin(hints["id"]) is not Required

        assert (raw in export.payload["input"]) == is_sent
        assert (kind in {lost.what for lost in export.lost}) == (not is_sent)


SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SAID = {"type": "text", "text": "a"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


class TestServerTools:
    """Anthropic: calls of tools that the provider runs, and their results."""

    @pytest.mark.parametrize(
        ("content", "sent"),
        [
            ([SAID, SEARCH, FOUND], [SAID, SEARCH, FOUND]),
            ([SAID, SEARCH], [SAID]),
            ([FOUND, SAID], [SAID]),
            ([SAID, FOUND, SEARCH], [SAID]),
            ([SIGNED, SEARCH], None),
        ],
    )
    def test_half(self, content, sent):
        """
        In an answer that is not the newest, one without the other is lost, and what
        would end it then.
        """
        raw = {"type": "message", "role": "assistant", "content": content}
        raw["model"] = "claude-opus-5"
        export = anthropic.dump([ASK, *anthropic.load(raw), ASK])
        answers = [
            message["content"]
            for message in export.payload["messages"]
            if message["role"] == "assistant"
        ]

        assert ([] if sent is None else [sent]) == answers
        assert len(content) - len(sent or ()) == len(export.lost)
        assert judge("anthropic", export.payload) == ()

    def test_goes_on(self):
        """The newest answer is continued so, and one with a call of the caller's."""
        paused = anthropic.load({"type": "message", "content": [SAID, SEARCH]})
        called = anthropic.load({"type": "message", "content": [SEARCH, USE]})
        result = ToolMessage("r", tool_call_id="toolu_1")
        newest = anthropic.dump([ASK, *paused])
        mixed = anthropic.dump([ASK, *called, result])

        assert [SAID, SEARCH] == newest.payload["messages"][1]["content"]
        assert [SEARCH, USE] == mixed.payload["messages"][1]["content"]

    @pytest.mark.parametrize("is_stream", [False, True])
    def test_goes_on_after_results(self, is_stream):
        """
        Code that calls the caller's tools waits in a container, which a request names
        while it does; its result is in a later answer, and goes home there.
        """
        code = {**SEARCH, "name": "code_execution"}
        caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
        use: dict[str, Any] = {**USE, "caller": caller}
        raw = {"type": "message", "role": "assistant", "content": [code, use]}
        box = {"container": {"id": "container_1", "expires_at": "2026-12-01"}}
        called = anthropic.load({**raw, **box})
        if is_stream:
            events: list[Any] = [{"type": "message_start", "message": {"content": []}}]
            for at, block in enumerate(raw["content"]):
                begun = {"type": "content_block_start", "content_block": block}
                events += [{**begun, "index": at}]

            ended = {"delta": {"stop_reason": "tool_use", **box}, "usage": {}}
            events += [{"type": "message_delta", **ended}]
            called = (concat(anthropic.load_chunks(events)),)

        result = ToolMessage("r", tool_call_id=use["id"])
        done = {**FOUND, "type": "code_execution_tool_result"}
        waiting = anthropic.dump([ASK, *called, result]).payload
        more = [*called, result, *anthropic.load({**raw, "content": [done, SAID]})]
        ended_at = anthropic.dump([ASK, *more, ASK])

        assert "container_1" == waiting["container"]
        assert [done, SAID] == ended_at.payload["messages"][3]["content"]
        assert "container" not in ended_at.payload
        assert () == ended_at.lost
        for payload in (waiting, ended_at.payload):
            assert () == judge("anthropic", payload)
            assert payload == anthropic.dump(anthropic.load(payload)).payload

    @pytest.mark.parametrize("more", [[ASK], [AssistantMessage("a"), ASK]])
    def test_does_not_go_on(self, more):
        """
        Code that waits takes no words beside a result, and none is continued behind
        another answer: its calls stay, as the model's own.
        """
        code = {**SEARCH, "name": "code_execution"}
        caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
        content = [SAID, code, {**USE, "caller": caller}]
        called = anthropic.load({"type": "message", "content": content})
        result = ToolMessage("r", tool_call_id=str(USE["id"]))
        export = anthropic.dump([ASK, *called, result, *more])

        assert [SAID, USE] == export.payload["messages"][1]["content"]
        assert ["server_tool_use"] == [lost.what for lost in export.lost]
        assert () == judge("anthropic", export.payload)

    @pytest.mark.parametrize(
        ("named", "is_sent"),
        [({}, True), ({"model": "glm-5"}, True), ({"host": "anthropic"}, False)],
    )
    def test_of_another_provider(self, named, is_sent):
        """Claude refuses what another provider ran, which takes it back."""
        other = {**SEARCH, "id": "call_1"}
        content = [other, {**FOUND, "tool_use_id": "call_1"}, SAID]
        raw = {"type": "message", "role": "assistant", "content": content}
        chat = [ASK, *anthropic.load({**raw, "model": "glm-5"}), ASK]
        export = anthropic.dump(chat, anthropic.rules(**named))

        sent = content if is_sent else [SAID]
        assert sent == export.payload["messages"][1]["content"]
        assert len(content) - len(sent) == len(export.lost)
        assert is_sent == bool(judge("anthropic", export.payload))


class TestParallelResults:
    """Results of one answer that came in several messages are sent in one."""

    @pytest.mark.parametrize("host", ["", "anthropic", "bedrock"])
    def test_of_anthropic(self, host):
        """
        What came behind them in a message of its own keeps that, unless a host is
        named: Bedrock refuses two messages of one role in a row.
        """
        calls = [{**USE, "id": f"t{at}"} for at in range(3)]
        turns = [
            [{"type": "tool_result", "tool_use_id": call["id"], "content": "r"}]
            for call in calls
        ]
        sent = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": calls},
            *({"role": "user", "content": turn} for turn in [*turns, [SAID]]),
        ]
        rules = anthropic.rules(host=host) if host else None
        export = anthropic.dump(anthropic.load(sent), rules)
        results, *said = export.payload["messages"][2:]
        told = [block for turn in turns for block in turn]

        assert ([*told, SAID] if host else told) == results["content"]
        assert ([] if host else sent[-1:]) == said
        assert () == export.lost
        level = "bedrock" if host == "bedrock" else "api"
        assert () == judge("anthropic", export.payload, level=level)

    @pytest.mark.parametrize("host", ["", "gemini", "vertex"])
    def test_of_gemini(self, host):
        """A key that only one of the contents had is listed as lost."""
        calls = [{"functionCall": {"name": name, "args": {}}} for name in "ab"]
        results = [{"functionResponse": {"name": n, "response": {}}} for n in "ab"]
        sent: list[Any] = [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": calls},
            {"role": "user", "parts": results[:1]},
            {"role": "user", "parts": results[1:], "labels": {"a": "b"}},
        ]
        rules = gemini.rules(host=host) if host else None
        export = gemini.dump(gemini.load(sent), rules)

        assert {"role": "user", "parts": results} == export.payload["contents"][2]
        assert [("messages[3]", "labels")] == listed(export)
        assert () == judge("gemini", export.payload)


class TestEmptyContents:
    """What is empty in Gemini's format."""

    @pytest.mark.parametrize("role", ["model", "user"])
    @pytest.mark.parametrize("empty", [{}, {"parts": []}])
    def test_no_parts(self, role, empty):
        """A content without parts, which all its hosts refuse, is left out."""
        asked = {"role": "user", "parts": [{"text": "q"}]}
        loaded = gemini.load([asked, {"role": role, **empty}, asked])
        view = trim(Aggregator.new(loaded), TokenBudget(context_window=1000))
        export = gemini.dump(loaded)

        assert [("messages[1]", "content")] == listed(export)
        assert [asked, asked] == export.payload["contents"]
        assert [asked, asked] == gemini.dump(view.messages).payload["contents"]

    @pytest.mark.parametrize(
        "empty", [{}, {"text": None}, {"functionCall": None}, {"thoughtSignature": "A"}]
    )
    def test_a_part_without_data(self, empty):
        """What an SDK made of a part that it does not know is not sent back."""
        content = {"role": "model", "parts": [{"text": "hi"}, empty]}
        [answer] = gemini.load({"candidates": [{"content": content}]})
        export = gemini.dump([ASK, answer, ASK])

        assert [("messages[1].parts[1]", "part")] == listed(export)
        assert [{"text": "hi"}] == export.payload["contents"][1]["parts"]
        assert () == judge("gemini", export.payload)
        sent = {"contents": [{"parts": [{"text": "q"}]}, content]}
        assert judge("gemini", sent, level="api") != ()

    def test_a_signature_at_the_end_of_an_answer(self):
        """The empty part of a stream that has it is no block for another provider."""
        pieces = [{"text": "hi"}, {"text": "", "thoughtSignature": "AAAA"}]
        chunks = gemini.load_chunks(
            {"candidates": [{"content": {"role": "model", "parts": [piece]}}]}
            for piece in pieces
        )
        answer = concat([*chunks])
        again = openai_chat.dump([ASK, answer, ASK])

        assert {"role": "assistant", "content": "hi"} == again.payload["messages"][1]
        assert [("messages[1].parts[1]", "thoughtSignature")] == listed(again)
        assert pieces == gemini.dump([ASK, answer]).payload["contents"][1]["parts"]


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_signature(empty):
    """It is as none for Gemini, on its own wire and behind Chat Completions."""
    signed = {"thoughtSignature": empty}
    parts = [{"text": "hi", **signed}, {"functionCall": {"name": "f"}, **signed}]
    response = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
    [answer] = gemini.load(response)
    request = gemini.dump([ASK, answer]).payload
    [said, called] = request["contents"][1]["parts"]

    assert {"text": "hi"} == said
    assert called["thoughtSignature"]  # what Google says to send instead
    assert [signed, signed] == [
        {"thoughtSignature": part["thoughtSignature"]}
        for part in as_is(gemini).dump([answer]).payload["contents"][0]["parts"]
    ]

    extra = {"extra_content": {"google": {"thought_signature": empty}}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [{"role": "assistant", "content": None, "tool_calls": [call | extra]}]
    loaded = openai_chat.load(history)

    assert [call] == openai_chat.dump(loaded).payload["messages"][0]["tool_calls"]
    assert history == as_is(openai_chat).dump(loaded).payload["messages"]


CHAT_CALL: dict[str, Any] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": None, "arguments": "{}"},
}
ITEM = {"type": "function_call", "call_id": "c", "name": None, "arguments": "{}"}
BLOCK: dict[str, Any] = {"type": "tool_use", "id": "c", "name": None, "input": {}}
ANSWER = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
TURN = {"type": "message", "role": "assistant", "content": [BLOCK]}
CANDIDATE: dict[str, Any] = {
    "candidates": [{"content": {"parts": [{"functionCall": {}}]}}]
}
# A response, and a stream, of each wire.
NAMELESS: dict[str, tuple[Any, dict[str, Any], list[dict[str, Any]]]] = {
    "openai_chat": (
        openai_chat,
        {"choices": [{"message": ANSWER}]},
        [{"choices": [{"delta": {"tool_calls": [{"index": 0, **CHAT_CALL}]}}]}],
    ),
    "openai_responses": (
        openai_responses,
        response(ITEM),
        [
            {"type": f"response.output_item.{what}", "output_index": 0, "item": ITEM}
            for what in ("added", "done")
        ],
    ),
    "anthropic": (
        anthropic,
        TURN,
        [
            {"type": "message_start", "message": {**TURN, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": BLOCK},
            {"type": "content_block_stop", "index": 0},
        ],
    ),
    "gemini": (gemini, CANDIDATE, [CANDIDATE]),
}


class TestCallWithoutName:
    """
    Some servers give a call whose name is null, or has none: the answer was paid for.
    """

    @pytest.mark.parametrize("is_stream", [False, True])
    @pytest.mark.parametrize("name", NAMELESS)
    def test_is_loaded(self, name, is_stream):
        """The next request has a made-up name, which is listed, and is accepted."""
        adapter, whole, events = NAMELESS[name]
        [answer] = adapter.load(whole)
        if is_stream:
            answer = concat([*adapter.load_chunks(events)])

        [call] = answer.tool_calls
        result = ToolMessage("There is no such tool.", tool_call_id=call.id)
        export = adapter.dump([ASK, answer, result])

        assert "" == call.name
        assert [("messages[1].tool_calls[0]", "name")] == listed(export)
        assert '"tool"' in json.dumps(export.payload)
        assert () == judge(name, export.payload)

    @pytest.mark.parametrize(
        ("adapter", "answer"),
        [
            (openai_responses, response({**ITEM, "name": "f", "arguments": None})),
            (anthropic, {**TURN, "content": [{**BLOCK, "name": "f", "input": None}]}),
        ],
    )
    def test_nor_arguments(self, adapter, answer):
        """A call without arguments may have null in their place."""
        [loaded] = adapter.load(answer)
        [call] = loaded.tool_calls
        export = adapter.dump([ASK, loaded, ToolMessage("r", tool_call_id="c")])

        assert ("f", "") == (call.name, call.arguments)
        assert () == export.lost

    @pytest.mark.parametrize(
        ("adapter", "written"),
        [(openai_chat, ANSWER), (openai_responses, ITEM), (anthropic, TURN)],
    )
    def test_is_refused_in_a_request(self, adapter, written):
        """An invalid part of a written request is reported."""
        with pytest.raises(DecodeError, match="name: is null; expected a text"):
            adapter.load([written])


CALLED = {"name": "f", "arguments": "{}"}


class TestNamedHosts:
    """What came in a format is made right for the host that is named."""

    @pytest.mark.parametrize("host", ["", "openai"])
    def test_empty_values(self, host):
        """
        An empty list of calls, and null or an empty list as content, are accepted by
        their senders, and OpenAI refuses them: they are written so that all take them.
        """
        calls = [{"type": "function", "id": id, "function": CALLED} for id in "cd"]
        sent: list[Any] = [
            {"role": "system", "content": []},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a", "tool_calls": []},
            {"role": "user", "content": []},
            {"role": "assistant", "tool_calls": []},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": calls, "audio": None},
            {"role": "tool", "tool_call_id": "c", "content": None},
            {"role": "tool", "tool_call_id": "d", "content": []},
        ]
        rules = openai_chat.rules(host=host) if host else None
        export = openai_chat.dump(openai_chat.load(sent), rules=rules)

        assert 2 < len(judge("openai_chat", {"messages": sent}, level="api"))
        assert judge("openai_chat", export.payload, level="api") == ()
        assert export.lost == ()
        assert len(sent) == len(export.payload["messages"])
        assert export.payload["messages"][6]["content"] is None

    def test_an_empty_list_of_calls_in_a_response(self):
        """Of a response it is not sent at all, whole or streamed."""
        said = {"role": "assistant", "content": "a"}
        choice = {"message": {**said, "tool_calls": []}, "finish_reason": "stop"}
        answers = openai_chat.load({"choices": [choice]})

        assert said == openai_chat.dump([ASK, *answers]).payload["messages"][1]

    def test_neighbouring_turns_of_a_model(self):
        """Calls behind an answer go home so; for a host both are one turn."""
        contents: list[Any] = [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"text": "a"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "f", "args": {}}}],
                "labels": {"a": "b"},
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "response": {}}}],
            },
        ]
        contents[2]["parts"][0]["thoughtSignature"] = "AAAA"
        loaded = gemini.load({"contents": contents})
        named = gemini.dump(loaded, rules=gemini.rules(host="vertex"))

        assert contents == gemini.dump(loaded).payload["contents"]
        assert 2 == len(named.payload["contents"][1]["parts"])
        assert [("messages[2]", "assistant"), ("messages[2]", "labels")] == listed(
            named
        )
        assert judge("gemini", named.payload, level="vertex") == ()

    @pytest.mark.parametrize(
        "beside",
        [{"text": "Well?"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
    )
    def test_a_result_beside_other_parts(self, beside):
        """What stands beside it goes home so; for a host it is a content of its own."""
        result = {"functionResponse": {"name": "f", "response": {}}}
        call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "AAAA"}
        contents: list[Any] = [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result, beside]},
        ]
        loaded = gemini.load({"contents": contents})
        named = gemini.dump(loaded, rules=gemini.rules(host="vertex"))

        assert contents == gemini.dump(loaded).payload["contents"]
        assert [[result], [beside]] == [
            each["parts"] for each in named.payload["contents"][2:]
        ]
        assert () == named.lost
        assert judge("gemini", {"contents": contents}, level="vertex") != ()
        assert judge("gemini", named.payload, level="vertex") == ()

    @pytest.mark.parametrize(
        ("host", "is_text"),
        [
            ("", True),
            ("deepseek", True),
            ("groq", True),
            ("openrouter", True),
            ("openai", False),
        ],
    )
    def test_texts_of_a_result(self, host, is_text):
        """
        What MCP returned as texts is one text for all hosts but OpenAI, which others
        refuse or do not read as a list, and goes home as it came.
        """
        call, texts = ToolCall("c", "f", "{}"), [TextPart("a"), TextPart("b")]
        result = ToolMessage(texts, tool_call_id="c")
        rules = openai_chat.rules(host=host)
        export = openai_chat.dump([ASK, AssistantMessage(tool_calls=[call]), result])
        named = openai_chat.dump(
            [ASK, AssistantMessage(tool_calls=[call]), result], rules
        )
        given = {**export.payload["messages"][2], "content": [{"type": "text"}]}
        given["content"][0]["text"] = "a"
        chat = [*export.payload["messages"][:2], given]
        again = openai_chat.dump(openai_chat.load(chat)).payload["messages"]

        assert ("a\nb" == named.payload["messages"][2]["content"]) == is_text
        assert [("messages[2]", "text")] * is_text == listed(named)
        level = "deepseek" if is_text else "api"
        assert () == judge("openai_chat", named.payload, level=level)
        assert chat == again
        assert () != judge("openai_chat", {"messages": again}, level="deepseek")

        given["content"][0] |= MARK
        marked = openai_chat.dump(openai_chat.load(chat), rules)
        is_strict = host in {"deepseek", "groq"}
        assert ("a" == marked.payload["messages"][2]["content"]) == is_strict

    def test_calls_without_ids(self):
        """Vertex AI refuses ids of calls: results stand in the order of the calls."""
        calls = [ToolCall("call_1", "f", "{}"), ToolCall("call_2", "f", "{}")]
        results = [
            ToolMessage(each, tool_call_id=each) for each in ("call_2", "call_1")
        ]
        chat = [ASK, AssistantMessage(tool_calls=calls), *results]
        export = gemini.dump(chat, rules=gemini.rules(host="vertex"))

        assert ["call_1", "call_2"] == [
            part["functionResponse"]["response"]["output"]
            for part in export.payload["contents"][-1]["parts"]
        ]
        assert [(f"messages[1].tool_calls[{at}]", "id") for at in (0, 1)] == listed(
            export
        )
        assert () == judge("gemini", export.payload, level="vertex")

    @pytest.mark.parametrize("host", ["anthropic", "bedrock", "vertex"])
    def test_media_by_url(self, host):
        """Bedrock and Vertex AI fetch nothing for Claude."""
        parts = [ImagePart(url="https://e.x/a"), FilePart(url="https://e.x/b")]
        chat = [UserMessage([TextPart("q"), *parts])]
        export = anthropic.dump(chat, rules=anthropic.rules(host=host))
        is_taken = host == "anthropic"
        level = "api" if is_taken else host

        assert is_taken == ("https://e.x" in str(export.payload))
        assert (0 if is_taken else 2) == len(export.lost)
        assert () == judge("anthropic", export.payload, level=level)

    @pytest.mark.parametrize("host", ["bedrock", "vertex"])
    def test_a_system_message_that_adds_a_tool(self, host):
        """Anthropic takes it between other messages, and no other host."""
        tool = {"type": "tool_reference", "name": "f"}
        adding = {
            "role": "system",
            "content": [{"type": "tool_addition", "tool": tool}],
        }
        sent = [
            {"role": "user", "content": "q"},
            adding,
            {"role": "assistant", "content": "a"},
        ]
        loaded = anthropic.load(sent)
        named = anthropic.dump(loaded, anthropic.rules(host=host))

        assert sent == anthropic.dump(loaded).payload["messages"]
        assert ("messages[1]", "system") in listed(named)
        assert () == judge("anthropic", named.payload, level=host)

    @pytest.mark.parametrize(
        ("before", "behind", "place"),
        [
            ([], ["assistant", "user"], None),
            ([], ["user"], 1),
            (["user"], [], 1),
            (["user", "assistant"], ["user"], 3),
            (["user", "assistant"], ["user", "assistant"], 3),
            (["user"], ["user", "assistant"], 1),
        ],
    )
    def test_a_change_of_tools_stands_behind_a_user(self, before, behind, place):
        """
        In other places it is refused, also as the first message of a view.

        Source: https://github.com/LeenHawk/gproxy/issues/209
        """
        change = {"type": "tool_addition", "tool": {"type": "tool_reference"}}
        adding = {"role": "system", "content": [change]}
        said = [{"role": role, "content": "x"} for role in (*before, "system", *behind)]
        said[len(before)] = adding
        loaded = anthropic.load(said)
        export = anthropic.dump(loaded, anthropic.rules(host="anthropic"))
        sent = export.payload["messages"]

        assert place == (sent.index(adding) if adding in sent else None)
        assert bool(export.lost) == (place != len(before) or behind[1:] != [])
        assert () == judge("anthropic", export.payload, level="api")

    @pytest.mark.parametrize("host", ["", "anthropic"])
    @pytest.mark.parametrize(
        ("model", "is_taken"),
        [
            ("claude-3-7-sonnet-latest", False),
            ("claude-fable-5-1", True),
            ("claude-opus-4-20250514", False),
            ("claude-opus-4-7", False),
            ("claude-opus-4-8", True),
            ("claude-opus-5", True),
            ("claude-sonnet-4-6", False),
            ("claude-sonnet-5", False),
            ("claude-sonnet-5-5", True),
        ],
    )
    def test_a_late_system_message_of_a_model(self, model, is_taken, host):
        """
        A system message behind others is refused by older models.

        Source: https://github.com/anthropics/claude-code/issues/61412
        """
        turns = [("user", "q"), ("assistant", "a"), ("user", "r"), ("system", "s")]
        sent = [{"role": role, "content": text} for role, text in turns]
        rules = anthropic.rules(host=host, model=model)
        payload = anthropic.dump(anthropic.load(sent), rules).payload

        assert {"messages": sent} == payload or not is_taken
        assert {"messages": sent[:-1], "system": "s"} == payload or is_taken
        assert () == judge("anthropic", {"model": model, **payload}, level="api")

    @pytest.mark.parametrize("host", ["anthropic", "bedrock", "vertex"])
    @pytest.mark.parametrize("model", ["claude-fable-5-1", "claude-sonnet-4-6"])
    def test_a_late_system_message_that_was_made(self, model, host):
        """On top it would change what the thinking in front of it is bound to."""
        chat = [UserMessage("q"), SystemMessage("s")]
        rules = anthropic.rules(host=host, model=model)
        body = {"model": model, **anthropic.dump(chat, rules).payload}
        level = "api" if host == "anthropic" else host

        assert ("system" in body) == (model == "claude-sonnet-4-6")
        assert () == judge("anthropic", body, level=level)

    def test_thinking_that_is_bound_to_what_is_before_it(self):
        """
        A conversation that grows is sent as it was; a view of it is refused.

        Source: https://github.com/anomalyco/opencode/issues/48637
        """
        model = "claude-opus-5-5"
        rules = anthropic.rules(host="anthropic", model=model)
        memory = Memory()
        chat: list[Any] = [SystemMessage("Be brief."), ASK]
        body = {}
        for turn in range(4):
            for calls in (2, 0):
                body = {"model": model, **anthropic.dump(chat, rules).payload}
                assert () == judge("anthropic", body, level="api", memory=memory)

                signature = f"sig_{turn}_{calls}"
                use = {"type": "tool_use", "name": "f", "input": {"a": turn}}
                content = [
                    {"type": "thinking", "thinking": "", "signature": signature},
                    {"type": "text", "text": "Well."},
                    *({**use, "id": f"call_{turn}_{at}"} for at in range(calls)),
                ]
                answer = {"role": "assistant", "model": model, "content": content}
                memory.remember("anthropic", answer, body=body)
                [message] = anthropic.load(answer)
                chat += [message, *map(made_result, message.tool_calls)]

            chat += [ASK, SystemMessage("Now in French.")]

        view = anthropic.dump(trim(chat, None, keep_last(4)).messages, rules)
        seen = {"model": model, **view.payload}
        behavior = {"prefix_mismatch_behavior": "drop_block"}
        dropping = {**seen, "thinking": {"type": "adaptive", "block_binding": behavior}}
        older = {**seen, "model": "claude-opus-5"}
        refusals = judge("anthropic", seen, level="api", memory=memory)

        assert {"thinking_bound"} == {each.rule.name for each in refusals}
        assert () == judge("anthropic", dropping, level="api", memory=memory)
        assert () == judge("anthropic", older, level="api", memory=memory)

    @pytest.mark.parametrize("host", ["", "azure", "openai"])
    def test_a_result_whose_call_is_stored(self, host):
        """
        A request that goes on with a stored response has results without calls, and so
        has a view of it; one for elsewhere has not.
        """
        output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
        loaded = openai_responses.load(
            {"previous_response_id": "resp_1", "input": [output]}
        )
        rules = openai_responses.rules(host=host)
        view = trim(loaded, None, rules=rules)

        assert [output] == openai_responses.dump(loaded, rules).payload["input"]
        assert loaded == view.messages
        assert () == view.problems()
        assert ["(no message)"] == [each.text for each in trim(loaded, None)]
