"""AI SDK: what all adapters promise, and what the SDK itself makes of what is sent."""

import json
from typing import Any

import pytest
from hypothesis import given

from conversation_state import Aggregator
from conversation_state.adapters import ai_sdk
from conversation_state.adapters.ai_sdk import dump, load
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import FilePart, ImagePart, ReasoningPart, TextPart
from conversation_state.testing import check_adapter
from conversation_state.testing.strategies import aggregators
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, name
from tests.adapters.helpers import table


class TestMessages:
    """Messages, there and back."""

    def test_contract(self):
        """It keeps the laws of all adapters."""
        check_adapter(ai_sdk)

    def test_mapping(self):
        """A run of answers and results is one message, and a call has its result."""
        call = ToolCall("c1", "tide", '{"at": "Oban"}')
        thought = ReasoningPart("Hm.", "c2ln")
        messages = [
            name(SystemMessage("Be brief."), "s"),
            name(UserMessage([TextPart("When?"), ImagePart(url="https://a/b")]), "u"),
            name(AssistantMessage([thought], tool_calls=[call]), "a"),
            ToolMessage("no", tool_call_id="c1", tool_name="tide", is_error=True),
            AssistantMessage("At six."),
        ]

        export = dump(messages)

        own = {"conversation_state": {"version": 1, "signature": "c2ln"}}
        untyped = {"conversation_state": {"version": 1, "untyped": True}}
        text = {"conversation_state": {"version": 1, "text": '{"at": "Oban"}'}}
        image = {"type": "file", "mediaType": "image/*", "url": "https://a/b"}
        failed: dict[str, Any] = {
            "type": "dynamic-tool",
            "toolName": "tide",
            "toolCallId": "c1",
        }
        failed |= {"state": "output-error", "input": {"at": "Oban"}, "errorText": "no"}
        reasoning = {"type": "reasoning", "id": "r0", "text": "Hm.", "state": "done"}
        assert () == export.lost
        assert export.payload == [
            {"id": "s", "role": "system", "parts": [_text("Be brief.")]},
            {
                "id": "u",
                "role": "user",
                "parts": [_text("When?"), {**image, "providerMetadata": untyped}],
            },
            {
                "id": "a",
                "role": "assistant",
                "parts": [
                    {"type": "step-start"},
                    {**reasoning, "providerMetadata": own},
                    {**failed, "callProviderMetadata": text},
                    {"type": "step-start"},
                    _text("At six."),
                ],
            },
        ]
        assert load(export.payload)[2:] == tuple(messages[2:])

    @table(
        "arguments",
        {
            "empty": "",
            "no JSON": '{"at": ',
            "a text": '"x"',
            "spaces": ' {"a" :1}',
            "a key twice": '{"a": 1, "a": 2}',
            "infinite": '{"a": 1e400}',
            "a large number": '{"a": 99999999999999999999999}',
            "unsafe": '{"a": [{"__proto__": {}}]}',
            "also unsafe": '{"constructor": {"prototype": 1}}',
            "half a pair": '{"a": "\\ud800"}',
            "deep": "[" * 200 + "]" * 200,
            "null": "null",
        },
    )
    def test_exact(self, arguments):
        """Arguments and results come back byte for byte, and browsers take them."""
        call = ToolCall("c1", "f", arguments)
        result = ToolMessage(arguments, tool_call_id="c1", tool_name="f")
        messages = (AssistantMessage(tool_calls=[call]), result)
        payload = dump(messages).payload
        part = payload[0]["parts"][1]

        back = load(json.loads(json.dumps(payload, allow_nan=False)))

        assert (back[0].tool_calls[0].arguments, back[1].text) == (arguments, arguments)
        is_unsafe = "proto" in arguments
        assert not is_unsafe or isinstance(part["input"], str)

    @table(
        "order",
        {
            "as called": ["c1", "c2"],
            "the other way": ["c2", "c1"],
            "twice": ["c1", "c1", "c2"],
            "of no call": ["c9", "c1"],
        },
    )
    def test_results(self, order):
        """Results keep their order, those of no call and those that come late too."""
        calls = [ToolCall(each, "f", "{}") for each in ("c1", "c2")]
        results = [
            ToolMessage(f"{at}", tool_call_id=each, tool_name="f")
            for at, each in enumerate(order)
        ]
        asked = name(AssistantMessage(tool_calls=calls), "a")
        first, *rest = results
        runs = [
            [asked, *results],
            [asked, first, AssistantMessage("Wait."), *rest],
            [asked, UserMessage("Well?"), *results],
            [*results, asked],
        ]

        for messages in runs:
            (back, *others) = load(dump(messages).payload)
            found = [back, *others]

            assert [each.text for each in found] == [each.text for each in messages]
            assert [each.role for each in found] == [each.role for each in messages]

    def test_parts_of_results(self):
        """Media in a result, and in an error, come back."""
        content = [TextPart("See:"), ImagePart(data=b"\x89PNG", media_type="image/png")]
        call = name(AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]), "a")
        for failed in (False, True):
            result = ToolMessage(
                content, tool_call_id="c1", tool_name="f", is_error=failed
            )

            assert (call, result) == load(dump([call, result]).payload)

    def test_runs(self):
        """A run ends before an answer that has another id, or siblings in the tree."""
        call = AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")])
        asked = Aggregator.new([name(UserMessage("When?"), "u"), name(call, "a")])
        ran = asked.add(ToolMessage("6:40", tool_call_id="c1"))
        first = ran.add(AssistantMessage("At six."))
        again = ran.add(name(AssistantMessage("Soon."), "b"))

        assert [each["id"] for each in dump(first).payload] == ["u", "a"]
        assert [each["id"] for each in dump(again).payload] == ["u", "a", "b"]
        tree = MessageTree.of(first, again)
        last = first.entries[-1].id
        payload = dump(tree.switch(last), siblings=True).payload
        own = [each["metadata"]["conversation_state"] for each in payload]
        ids = [[entry.id for entry in first.entries][at] for at in (0, 1, 2, 3)]
        assert own == [
            {"version": 1, "entries": [ids[0]]},
            {"version": 1, "entries": ids[1:3]},
            {"version": 1, "entries": [last], "at": 0, "siblings": [last, "b"]},
        ]
        assert [each["id"] for each in payload] == ["u", "a", last]

    def test_lost(self):
        """What has no place is listed, and for version 6 what is newer."""
        payload = [
            {
                "id": "a",
                "role": "assistant",
                "parts": [
                    {"type": "custom", "kind": "x-y"},
                    {"type": "steering-message", "id": "s", "parts": [_text("Now.")]},
                    _text("Hi"),
                ],
            }
        ]
        messages = load(payload)
        unknown = UnknownMessage({"role": "critic"}, source="eino")

        old = dump([*messages, unknown], version=6)

        assert payload == dump(messages).payload
        assert [(each.path, each.what) for each in old.lost] == [
            ("messages[0].parts[0]", "custom"),
            ("messages[3]", "critic"),
        ]
        assert [each["role"] for each in old.payload] == [
            "assistant",
            "user",
            "assistant",
        ]
        with pytest.raises(ValueError, match="version is 5; expected 6 or 7"):
            dump([], version=5)  # type: ignore[arg-type]

    def test_untrusted_metadata(self):
        """What a client writes under our key reaches only the fields that it is for."""
        forged = {"version": 1, "ui": {"id": "x"}, "openai_chat": {}, "sender": 5}
        wrapped = {"conversation_state": forged}
        part = {**_text("x"), "providerMetadata": wrapped}
        item = {"id": "a", "role": "user", "parts": [part], "metadata": wrapped}

        (message,) = load([item])

        assert message == name(UserMessage("x"), "a")

    @given(aggregators())
    def test_come_back(self, state):
        """What is loaded from a dump is dumped as the same again."""
        payload = dump(state).payload

        assert payload == dump(load(payload)).payload

    def test_file(self):
        """A file keeps its name, and a kind that its media type does not say."""
        parts = [
            FilePart(url="https://a/b", media_type="image/png", name="b"),
            ImagePart(data=b"\x89PNG", media_type="image/png", detail="high"),
        ]

        (back,) = load(dump([UserMessage(parts)]).payload)

        assert list(back.parts) == parts


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text, "state": "done"}
