"""
AI SDK: what all adapters promise, and what the SDK itself makes of what is sent.

What versions 6 and 7 of ``ai`` make of our streams, and of others, is in
``tests/wires/ai_sdk.jsonl``; with Node, and the packages under ``tests/wires`` or where
`CONVERSATION_STATE_WIRES` says, they are also run on all that is recorded or drawn.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from functools import cache, partial
from itertools import groupby
from typing import Any, Literal

import attrs
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.adapters import ai_sdk, anthropic, openai_chat
from conversation_state.adapters.ai_sdk import (
    HEADERS,
    ChatRequest,
    adump_chunks,
    aload_chunks,
    dump,
    dump_chunks,
    dump_result,
    load,
    load_chunks,
    load_request,
    resume_from,
    write_event,
)
from conversation_state.chunks import concat
from conversation_state.errors import ProviderStreamError, StreamClosedError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
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
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing import check_adapter
from conversation_state.testing.strategies import aggregators
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, name, ui_id_of
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests import recorded
from tests.adapters.contract import problem_paths
from tests.adapters.helpers import WIRES, ask_node, find_node, table
from tests.adapters.test_ag_ui import MADE, PROVIDERS, chunks_in
from tests.processes import count_lines
from tests.profiles import fewer, is_thorough

FIXTURES = WIRES / "ai_sdk.jsonl"
# Parts of an answer, as useChat has them.
STEP = {"type": "step-start"}
TIDE: dict[str, Any] = {
    "type": "tool-tide",
    "toolCallId": "c1",
    "input": {"at": "Oban"},
}
DONE: dict[str, Any] = {**TIDE, "state": "output-available", "output": {"at": 6}}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text, "state": "done"}


class TestMessages:
    """Messages, there and back."""

    def test_contract(self):
        """It keeps the laws of all adapters."""
        check_adapter(ai_sdk, settings=fewer())

    def test_as_if_it_were_not_there(self):
        """What stands around a message that is not shown is written as without it."""
        calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")]
        messages = [
            name(UserMessage("a"), "u1"),
            name(AssistantMessage("Let me see.", tool_calls=calls), "a1"),
            *[ToolMessage(each, tool_call_id=each) for each in ("c2", "c1")],
            AssistantMessage("Well."),
            name(UserMessage("b"), "u2"),
        ]
        for at in range(len(messages) + 1):
            export = dump([*messages[:at], HIDDEN, *messages[at:]])

            assert export.payload == dump(messages).payload
            assert [f"messages[{at}]"] == [each.path for each in export.lost]

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
        "parts",
        {
            "an open call of a known tool": [
                STEP,
                {**TIDE, "state": "input-available"},
            ],
            "one of an unknown tool": [
                STEP,
                {**TIDE, "type": "dynamic-tool", "toolName": "a"}
                | {"state": "input-available"},
            ],
            "a result that is a text of JSON": [STEP, {**DONE, "output": "[1]"}],
            "a preliminary result": [STEP, {**DONE, "preliminary": True}],
            "an error": [
                STEP,
                {**TIDE, "state": "output-error", "errorText": "no"},
            ],
            "denied": [
                STEP,
                {**TIDE, "state": "output-denied"}
                | {"approval": {"id": "x", "approved": False, "reason": "late"}},
            ],
            "cut off": [
                STEP,
                {**TIDE, "state": "input-streaming", "rawInput": '{"at":"Oban"}'},
            ],
            "cut off within its arguments": [
                STEP,
                {**TIDE, "state": "input-streaming", "rawInput": '{"at":"Oban", '},
                {**TIDE, "toolCallId": "c2", "state": "input-available"},
                {**DONE, "toolCallId": "c3"},
            ],
            "cut off, with a text as its input": [
                STEP,
                {**TIDE, "state": "input-streaming", "input": "a", "rawInput": "a"}
                | {"inputEncoding": "text"},
            ],
            "cut off, and without the text of its arguments": [
                STEP,
                {**TIDE, "state": "input-streaming"},
            ],
            "cut off before its arguments": [
                STEP,
                {"type": "tool-tide", "toolCallId": "c1", "state": "input-streaming"},
            ],
            "asked for": [
                STEP,
                {**TIDE, "state": "approval-requested", "approval": {"id": "x"}},
            ],
            "results only": [STEP, DONE, STEP, {**DONE, "toolCallId": "c2"}],
            "no step": [DONE, {"type": "text", "text": "Six.", "state": "done"}],
            "a step only": [STEP],
            "a step at the end": [STEP, DONE, STEP],
            "nothing": [],
            "an empty text": [STEP, {"type": "text", "text": "", "state": "done"}],
            "data": [STEP, {"type": "data-plot", "id": "d", "data": {"x": 1}}, DONE],
            "a message that steers, with a key of its own": [
                STEP,
                _text("Six."),
                {"type": "steering-message", "id": "s", "parts": [_text("In French.")]}
                | {"at": 1},
            ],
            "a source": [
                STEP,
                {"type": "source-url", "sourceId": "s", "url": "https://a/b"},
                DONE,
            ],
        },
    )
    def test_own_form(self, parts):
        """A message as a client sends it comes back key for key."""
        messages = [{"id": "m", "role": "assistant", "parts": parts}]
        export = dump(load(messages))

        assert messages == export.payload
        assert () == export.lost

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
        "arguments",
        {"whole": '{"at": "Oban"}', "half": '{"at": "Ob', "none": "", "a text": '"x"'},
    )
    def test_cut_off(self, arguments):
        """A client does not run a call that was cut off, and it is loaded as such."""
        call = ToolCall("c1", "tide", arguments)
        interrupted = ResponseMeta("interrupted")
        answer = name(AssistantMessage(tool_calls=[call], response=interrupted), "a")
        payload = dump([answer]).payload
        part = payload[0]["parts"][1]

        assert ("input-streaming", arguments) == (
            part["state"],
            part.get("rawInput", ""),
        )
        assert (answer,) == load(payload)
        assert () == Aggregator.new(load(payload)).pending_calls
        result = ToolMessage("6:40", tool_call_id="c1", tool_name="tide")
        answered = dump([answer, result]).payload[0]["parts"][1]
        asked = dump([answer.replace(response=None), result]).payload[0]["parts"][1]
        assert answered == asked

    @pytest.mark.parametrize(
        "given",
        [
            {"rawInput": {"x": 1}},
            {"rawInput": {"x": 1}, "input": {}},
            {"rawInput": None},
            {"rawInput": '{"a": 1}', "input": {"a": True}},
            {"rawInput": '{"a": [false]}', "input": {"a": [0]}},
        ],
    )
    def test_odd_input_of_a_cut_off_call(self, given):
        """What another client left there comes back as it was."""
        part = {"type": "tool-f", "toolCallId": "c1", "state": "input-streaming"}
        parts = [{"type": "step-start"}, {**part, **given}]
        shown = [{"id": "a", "role": "assistant", "parts": parts}]
        back = dump(load(shown)).payload

        assert json.dumps(shown, sort_keys=True) == json.dumps(back, sort_keys=True)

    def test_changed_input(self):
        """A boolean in place of a number is another input, a whole number is not."""
        asked = AssistantMessage(tool_calls=[ToolCall("c1", "f", '{"a":  1.0}')])
        payload = dump([name(asked, "a")]).payload
        part = payload[0]["parts"][1]
        for value, arguments in ((1, '{"a":  1.0}'), (True, '{"a":true}')):
            part["input"] = {"a": value}

            assert arguments == load(payload)[0].tool_calls[0].arguments

    def test_input_that_was_left_out(self):
        """A call that was shown without its input is written with one that it got."""
        part = {"type": "tool-f", "toolCallId": "c1", "state": "input-available"}
        begun = {"type": "step-start"}
        [asked] = load([{"id": "a", "role": "assistant", "parts": [begun, part]}])
        call = attrs.evolve(asked.tool_calls[0], arguments='{"x":1}')
        changed = asked.replace(tool_calls=[call])

        assert part == dump([asked]).payload[0]["parts"][1]
        assert {**part, "input": {"x": 1}} == dump([changed]).payload[0]["parts"][1]

    def test_cut_off_among_many(self):
        """What a call costs does not grow with how many there are, either way."""
        loads, dumps = [], []
        for size in (20, 2_000):
            done = {"state": "output-available", "input": {}, "output": 1}
            parts = [
                {"type": "tool-f", "toolCallId": f"c{at}", **done} for at in range(size)
            ]
            parts.append({**parts[0], "toolCallId": "z", "state": "input-streaming"})
            shown = [{"id": "m", "role": "assistant", "parts": parts}]
            loads.append(count_lines(partial(load, shown)) / size)

            cut = AssistantMessage("a", response=ResponseMeta("interrupted"))
            turn: list[Any] = []
            for at in range(size):
                turn.append(cut.replace(tool_calls=[ToolCall(f"c{at}", "f")]))
                turn.append(ToolMessage("1", tool_call_id=f"c{at}"))

            dumps.append(count_lines(partial(dump, turn)) / size)

        assert loads[1] < 2 * loads[0]
        assert dumps[1] < 2 * dumps[0]

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

    def test_usage(self):
        """A page has what a run used, but for counts that a browser can't read."""
        within = PromptTokensDetails(cached_tokens=2)
        made = CompletionTokensDetails(reasoning_tokens=3)
        extra = {"cache_write_tokens": 4}
        counts = Usage(
            *(10, 5),
            prompt_tokens_details=within,
            completion_tokens_details=made,
            extra=extra,
        )
        many = Usage(2**53, 0)
        answers = [
            AssistantMessage("a", response=ResponseMeta(usage=counts)),
            AssistantMessage("b", response=ResponseMeta(usage=Usage(1, 1))),
        ]
        (item,) = dump(answers).payload
        (large,) = dump([answers[0].replace(response=ResponseMeta(usage=many))]).payload

        shown = {"inputTokens": 11, "outputTokens": 6, "totalTokens": 17}
        shown |= {"reasoningTokens": 3, "cachedInputTokens": 2}
        assert {"version": 1, "usage": {**shown, "cacheWriteInputTokens": 4}} == (
            item["metadata"]["conversation_state"]
        )
        assert {"outputTokens": 0} == large["metadata"]["conversation_state"]["usage"]

    def test_denial_and_more(self):
        """What was added to a denied result is an error's, and comes back."""
        approval = {"id": "p", "approved": False, "reason": "late"}
        parts = [STEP, {**TIDE, "state": "output-denied", "approval": approval}]
        call, denied = load([{"id": "a", "role": "assistant", "parts": parts}])
        image = ImagePart(url="https://a/b", media_type="image/png")
        more = denied.replace(content=[TextPart("late"), image])

        _, back = load(dump([call, more]).payload)

        assert more.parts == back.parts

    def test_repaired_call(self):
        """A call that failed for its input has none of that with an output."""
        failed = {"type": "tool-tide", "toolCallId": "c1", "state": "output-error"}
        failed |= {"rawInput": "{", "inputEncoding": "text", "errorText": "no JSON"}
        parts = [STEP, failed]
        call, result = load([{"id": "a", "role": "assistant", "parts": parts}])

        (item,) = dump([call, result.replace(content="6", is_error=False)]).payload

        assert item["parts"][1].keys().isdisjoint({"inputEncoding", "rawInput"})

    def test_approval_without_its_result(self):
        """A call whose result is not there has no approval of it, which is refused."""
        done = {**DONE, "approval": {"id": "p", "approved": True}}
        call, _ = load([{"id": "a", "role": "assistant", "parts": [STEP, done]}])
        (item,) = dump([call]).payload

        assert {**TIDE, "state": "input-available"} == item["parts"][1]

    def test_runs(self):
        """A run of answers is one message, and ends where it has siblings in a tree."""
        call = AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")])
        asked = Aggregator.new([name(UserMessage("When?"), "u"), name(call, "a")])
        ran = asked.add(ToolMessage("6:40", tool_call_id="c1"))
        first = ran.add(AssistantMessage("At six."))
        again = ran.add(name(AssistantMessage("Soon."), "b"))
        tree = MessageTree.of(again, first)
        last, ids = first.entries[-1].id, [each.id for each in first.entries]

        payload = dump(tree, siblings=True).payload

        assert [each["id"] for each in dump(again).payload] == ["u", "a"]
        own = [each["metadata"]["conversation_state"] for each in payload]
        assert own == [
            {"version": 1, "entries": ids[:1]},
            {"version": 1, "entries": ids[1:3]},
            {"version": 1, "entries": [last], "at": 1, "siblings": ["b", last]},
        ]
        assert [each["id"] for each in payload] == ["u", "a", last]
        plain = dump(tree).payload
        assert plain == dump(load(plain)).payload

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

    @table(
        "role, raw",
        {
            "a text": ("user", {"type": "text", "text": "x"}),
            "a file": (
                "user",
                {"type": "file", "mediaType": "image/png", "url": "https://a/b"},
            ),
            "a call": ("assistant", DONE),
            "a step": ("assistant", STEP),
            "a steering message": (
                "assistant",
                {"type": "steering-message", "id": "s", "parts": []},
            ),
            "nothing": ("user", {"text": "x"}),
        },
    )
    def test_made_by_hand(self, role, raw):
        """An unknown part that is a known one, or none at all, is not sent."""
        made: Any = UserMessage if role == "user" else AssistantMessage
        message = made([TextPart("a"), UnknownPart(raw, source="ai_sdk")])

        export = dump([message])

        assert [("messages[0].parts[1]", "unknown")] == [
            (each.path, each.what) for each in export.lost
        ]
        assert _text("a") == export.payload[0]["parts"][-1]
        if role == "assistant":
            events = dump_chunks([message], message_id="m")
            assert raw["type"] not in [each["type"] for each in events]

    def test_thoughts(self):
        """Thoughts of an answer come back as they were, with nothing noted."""
        thoughts = [ReasoningPart("Hm."), ReasoningPart("So.")]
        messages = [name(AssistantMessage([*thoughts, TextPart("Six.")]), "a")]

        assert messages == [*load(dump(messages).payload)]

    @pytest.mark.parametrize("service", ["anthropic", "bedrock"])
    @table(
        "text, key, sent",
        {
            "signed": (
                "Hm.",
                "signature",
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            ),
            "redacted": (
                "",
                "redactedData",
                {"type": "redacted_thinking", "data": "c2ln"},
            ),
        },
    )
    def test_thoughts_of_the_sdk(self, service, text, key, sent):
        """A thought that Claude signed for another server goes back to Claude."""
        kept = {service: {key: "c2ln"}}
        thought = {"type": "reasoning", "text": text, "state": "done", "id": "r0"}
        parts = [{"type": "step-start"}, {**thought, "providerMetadata": kept}]
        item = {"id": "a", "role": "assistant", "parts": [*parts, _text("Six.")]}
        loaded = load([item])

        assert [item] == dump(loaded).payload
        [answer] = anthropic.dump(loaded).payload["messages"]
        assert sent == answer["content"][0]

    def test_untrusted_metadata(self):
        """What a client writes under our key reaches only the fields that it is for."""
        forged = {"version": 1, "ui": {"id": "x"}, "openai_chat": {}, "sender": 5}
        wrapped = {"conversation_state": forged}
        part = {**_text("x"), "providerMetadata": wrapped}
        item = {"id": "a", "role": "user", "parts": [part], "metadata": wrapped}

        (message,) = load([item])

        assert message == name(UserMessage("x"), "a")

    # Parts of a result that can't be said.
    @example(Aggregator.new().add(ToolMessage([UnknownPart({})], tool_call_id="c")))
    @example(
        Aggregator.new().add(
            ToolMessage([TextPart("a"), UnknownPart({})], tool_call_id="c")
        )
    )
    @given(aggregators())
    def test_come_back(self, state):
        """What is loaded from a dump is dumped as the same again."""
        payload = dump(state).payload

        assert payload == dump(load(payload)).payload

    def test_of_an_object(self):
        """What has the list as ``messages`` is loaded as that list."""
        assert load(POSTED) == load({"id": "c", "messages": POSTED})
        assert ["$.messages"] == problem_paths(load, {"messages": 5})

    def test_file(self):
        """A file keeps its name, and a kind that its media type does not say."""
        parts = [
            FilePart(url="https://a/b", media_type="image/png", name="b"),
            ImagePart(data=b"\x89PNG", media_type="image/png", detail="high"),
        ]

        (back,) = load(dump([UserMessage(parts)]).payload)

        assert list(back.parts) == parts

    @pytest.mark.parametrize("made", [AudioPart, FilePart, ImagePart, VideoPart])
    def test_untyped_bytes(self, made):
        """Bytes without a media type come back as these."""
        message = UserMessage([made(data=b"\x01")])

        (back,) = load(dump([name(message, "u")]).payload)

        assert name(message, "u") == back

    @pytest.mark.parametrize("made", [AssistantMessage, SystemMessage, UserMessage])
    def test_sender(self, made):
        """Who sent a message of several parts is known."""
        message = name(made([TextPart("a"), TextPart("b")], name="ann"), "m")

        assert [message] == [*load(dump([message]).payload)]

    def test_empty_id(self):
        """A message whose id is empty, as servers that make none have it, keeps it."""
        shown = [{"id": "", "role": "assistant", "parts": [STEP, _text("Six.")]}]

        assert shown == dump(load(shown)).payload


def user(ui_id: str, text: str) -> dict[str, Any]:
    """What a client has of a user's message."""
    return {"id": ui_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def ask(*messages: Any, **more: Any) -> ChatRequest:
    """What is posted with *messages*."""
    return load_request({"id": "c", "messages": [*messages], **more})


# Two turns, the second of which was answered twice.
STATE = Aggregator.new([name(UserMessage("When?"), "u1")])
STATE = STATE.add(name(AssistantMessage("At six."), "a1"))
ASKED = STATE.add(name(UserMessage("And then?"), "u2"))
TREE = MessageTree.of(
    ASKED.add(name(AssistantMessage("Dinner."), "a2")),
    ASKED.add(name(AssistantMessage("Sleep."), "a3")),
)
POSTED: list[Any] = dump(TREE).payload
NEW = user("u9", "Really?")
WAITING = STATE.add(name(UserMessage("And now?"), "u2")).add(
    name(
        AssistantMessage(
            tool_calls=[ToolCall(each, f"tool {each}", "{}") for each in ("c1", "c2")]
        ),
        "a2",
    )
)

# What is shown of it; with the outputs of its calls.
OPEN: list[Any] = dump(WAITING).payload
GIVEN = {
    **OPEN[3],
    "parts": [
        part if part == STEP else {**part, "state": "output-available", "output": 1}
        for part in OPEN[3]["parts"]
    ],
}
# A message that is not shown.
HIDDEN = UnknownMessage({"type": "computer_call_output"}, source="a provider")


class TestRequest:
    """What a client posts, and what a server makes of it."""

    def test_read(self):
        """The fields of what is posted, and whatever else a program sends."""
        asked = ask(
            *POSTED, trigger="regenerate-message", messageId="a3", model={"name": "x"}
        )

        assert (asked.chat, asked.trigger, asked.message_id) == (
            "c",
            "regenerate-message",
            "a3",
        )
        assert asked.ids == ("u1", "a1", "u2", "a3")
        assert [each.text for each in asked.messages][-1] == "Sleep."
        assert asked.extra == {"model": {"name": "x"}}
        alone = load_request({"id": "c", "message": NEW, "messageId": None})
        assert (alone.ids, alone.message_id) == (("u9",), None)

    @table(
        "body, path",
        {
            "no object": (5, "$"),
            "no messages": ({"id": "c"}, "$.messages"),
            "none": ({"id": "c", "messages": []}, "$.messages"),
            "no id": ({"messages": [NEW]}, "$.id"),
            "another trigger": (
                {"id": "c", "messages": [NEW], "trigger": "x"},
                "$.trigger",
            ),
            "the system": (
                {"id": "c", "messages": [{**NEW, "role": "system"}]},
                "$.messages[0].role",
            ),
            "no part": (
                {"id": "c", "message": {**NEW, "parts": [5]}},
                "$.message.parts[0]",
            ),
            "no state": (
                {
                    "id": "c",
                    "messages": [
                        {
                            "id": "a",
                            "role": "assistant",
                            "parts": [{**TIDE, "state": ["input-available"]}],
                        }
                    ],
                },
                "$.messages[0].parts[0].state",
            ),
        },
    )
    def test_refused(self, body, path):
        """What is wrong is refused with its path."""
        assert [path] == problem_paths(load_request, body)

    @table(
        "request_, texts",
        {
            "behind what is shown": (
                ask(NEW),
                "When? At six. And then? Sleep. Really?",
            ),
            "behind what the client has": (
                ask(*POSTED[:2], NEW),
                "When? At six. Really?",
            ),
            "in another branch": (
                ask(*POSTED[:3], {**POSTED[3], "id": "a2"}, NEW),
                "When? At six. And then? Dinner. Really?",
            ),
            "an edited message": (
                ask(*POSTED[:2], user("u2", "Why?"), messageId="u2"),
                "When? At six. Why?",
            ),
            "an edited message with another id": (
                ask(*POSTED[:2], NEW, messageId="u2"),
                "When? At six. Really?",
            ),
            "the same message again": (
                ask(*POSTED[:3]),
                "When? At six. And then?",
            ),
            "an answer again": (
                ask(*POSTED[:3], trigger="regenerate-message", messageId="a3"),
                "When? At six. And then?",
            ),
            "the last answer again": (
                ask(*POSTED[:3], trigger="regenerate-message"),
                "When? At six. And then?",
            ),
            "an answer that the client has not cut": (
                ask(*POSTED, trigger="regenerate-message", messageId="a3"),
                "When? At six. And then?",
            ),
            "of a message alone": (
                ask(trigger="regenerate-message", messageId="u1"),
                "When?",
            ),
        },
    )
    def test_resumed(self, request_, texts):
        """Where a request goes on from, and with what."""
        state = resume_from(TREE, request_)

        assert " ".join([each.text for each in state.messages]) == texts

    @table(
        "request_",
        {
            "an edit": ask(user("u7", "Hm"), messageId="u7"),
            "an edit of an answer": ask(NEW, messageId="a3"),
            "an answer": ask(user("u7", ""), trigger="regenerate-message"),
            "outputs": ask({**POSTED[3], "id": "a7"}),
            "nothing": ask(trigger="regenerate-message"),
            "nothing to submit": ChatRequest("c"),
        },
    )
    def test_lacking(self, request_):
        """What the tree lacks is a LookupError."""
        with pytest.raises(LookupError, match="message"):
            resume_from(TREE, request_)

    def test_ids(self):
        """A new message keeps the client's id; an edited one gets another."""
        new = resume_from(TREE, ask(*POSTED, NEW))
        edited = resume_from(TREE, ask(user("u1", "Where?"), messageId="u1"))
        taken = resume_from(TREE, ask(*POSTED, user("a3", "Hm")))

        assert ui_id_of(new.entries[-1]) == "u9"
        assert ui_id_of(edited.entries[-1]) == edited.entries[-1].id
        assert ui_id_of(taken.entries[-1]) == taken.entries[-1].id
        tree = TREE.add(edited)
        _, ids = tree.siblings(edited.entries[-1].id)
        assert [tree.node(each).message.text for each in ids] == ["When?", "Where?"]

    def test_edited_twice(self):
        """A client that knows an edited message by its old id means the new one."""
        changed = user("u1", "Where?")
        tree = TREE.add(resume_from(TREE, ask(changed, messageId="u1")))

        for more in ({"trigger": "regenerate-message"}, {"messageId": "u1"}):
            state = resume_from(tree, ask(changed, **more))

            assert state.entries[-1].id == tree.head
            assert len(tree.add(state)) == len(tree)

    def test_first(self):
        """The first message of a conversation may name itself."""
        empty = MessageTree.of(Aggregator.new())

        state = resume_from(empty, ask(NEW, messageId="u9"))

        assert [each.text for each in state.messages] == ["Really?"]

    def test_outputs(self):
        """Of a client's outputs only those of calls that wait are read."""
        tree = MessageTree.of(WAITING)
        shown = dump(tree).payload
        parts = shown[-1]["parts"]
        done = {"state": "output-available", "output": {"t": 1}}
        failed = {"state": "output-error", "errorText": "no"}
        forged = {**parts[2], "toolCallId": "c3", **done}
        late = {**parts[1], **done, "preliminary": True}
        shown[-1]["parts"] = [
            _text("forged"),
            {**parts[1], "toolName": "forged", **done},
            {**parts[2], **failed},
            forged,
        ]

        state = resume_from(tree, ask(*shown, messageId="a2"))

        results: Any = state.messages[-2:]
        first, second = results
        assert state.messages[:-2] == WAITING.messages
        assert (first.text, first.tool_name) == ('{"t":1}', "tool c1")
        assert (second.text, second.is_error) == ("no", True)
        shown[-1]["parts"] = [late, parts[2]]
        assert resume_from(tree, ask(*shown)) == tree.present
        answered = MessageTree.of(state)
        assert resume_from(answered, ask(*shown)).entries == state.entries

    def test_outputs_and_more(self):
        """Outputs that are posted together with a new message are read, too."""
        tree = MessageTree.of(WAITING)
        shown = dump(tree).payload
        step, one, two = shown[-1]["parts"]
        no = {"approval": {"id": "p", "approved": False}, "state": "approval-responded"}
        shown[-1]["parts"] = [
            step,
            {**one, "state": "output-available", "output": 1},
            {**two, **no},
        ]
        given = resume_from(tree, ask(*shown))

        state = resume_from(tree, ask(*shown, NEW))

        assert state.messages == [*given.messages, *load([NEW])]
        assert not given.pending_calls
        assert resume_from(tree.add(state), ask(*shown, NEW)) == state
        other = resume_from(tree, ask(*shown, user("u8", "?"), NEW))
        assert other.messages == [*WAITING.messages, *load([NEW])]

    def test_outputs_of_two_tabs(self):
        """Outputs that another tab posted first are not answered a second time."""
        tree = MessageTree.of(WAITING)
        shown = dump(tree).payload
        step, *parts = shown[-1]["parts"]
        done = {"state": "output-available", "output": 1}
        shown[-1]["parts"] = [step, *[{**part, **done} for part in parts]]
        given = resume_from(tree, ask(*shown))

        assert resume_from(MessageTree.of(given), ask(*shown)) == given

        answered = MessageTree.of(given.add(AssistantMessage("Mild.")))
        for at in range(1, len(answered.present) + 1):
            messages = [*answered.present.messages]
            messages.insert(at, HIDDEN)
            with pytest.raises(LookupError, match="answered already"):
                resume_from(MessageTree.of(Aggregator.new(messages)), ask(*shown))

        with pytest.raises(LookupError, match="answered already"):
            resume_from(answered, ask(*shown))

        whole = dump(answered).payload
        assert resume_from(answered, ask(*whole)) == answered.present

    @pytest.mark.parametrize("count", [1, 2])
    @table(
        "first, second, is_same",
        {
            "the same": ({"output": 1}, {"output": 1}, True),
            "the same object": ({"output": {"a": 1}}, {"output": {"a": 1}}, True),
            "another": ({"output": 1}, {"output": 2}, False),
            "another of an equal number": ({"output": [1]}, {"output": [True]}, False),
            "the same error": ({"errorText": "no"}, {"errorText": "no"}, True),
            "an error": ({"output": "no"}, {"errorText": "no"}, False),
            "a denial": ({"output": 1}, {"approved": False}, False),
            "the same denial": ({"approved": False}, {"approved": False}, True),
            "an approval of what was denied": (
                {"approved": False},
                {"approved": True},
                False,
            ),
            "an approval of what was run": ({"output": 1}, {"approved": True}, True),
        },
    )
    def test_other_outputs_of_two_tabs(self, count, first, second, is_same):
        """The same output again changes nothing; another is a LookupError."""
        step, *calls = OPEN[3]["parts"]

        def post(said: Any, *more: Any) -> ChatRequest:
            state = "output-error" if "errorText" in said else "output-available"
            if "approved" in said:
                said, state = {"approval": {"id": "p", **said}}, "approval-responded"

            parts = [{**part, "state": state, **said} for part in calls[:count]]
            parts = [step, *parts, *calls[count:]]
            return ask(*OPEN[:3], {**OPEN[3], "parts": parts}, *more)

        given = resume_from(MessageTree.of(WAITING), post(first))
        tree = MessageTree.of(given)

        assert len(WAITING) + count == len(given)
        for more in ([], [NEW]):
            if is_same:
                state = resume_from(tree, post(second, *more))
                assert [*given.messages, *load(more)] == [*state.messages]
            else:
                with pytest.raises(LookupError, match=r"'c[12]' has another result"):
                    resume_from(tree, post(second, *more))

    def test_metadata_of_each_step(self):
        """What a later step says of its message stands, as in the SDK's client."""

        def say(total):
            return {"type": "message-metadata", "messageMetadata": {"total": total}}

        step, text = {"type": "start-step"}, {"id": "t", "delta": "At 6:40."}
        pieces = [
            {"type": f"text-{each}", **text} for each in ("start", "delta", "end")
        ]
        result = call_event("output-available", output="6:40")
        events = [step, CALLED, result, say(5), step, *pieces, say(9)]

        assert {"total": 9} == dump(join([*load_chunks(events)])).payload[0]["metadata"]

    def test_result_twice(self):
        """A second result of a call takes the place of the first, of the same call."""
        call = AssistantMessage(tool_calls=[ToolCall("c1", "tide", '{"at":"Oban"}')])
        results = [ToolMessage(each, tool_call_id="c1") for each in ("6:40", "6:42")]

        events = [*dump_chunks([call, *results], message_id="a")]

        told = [each for each in events if each["type"][:5] == "tool-"]
        assert [{"at": "Oban"}] == [each["input"] for each in told if "input" in each]
        assert ["6:40", "6:42"] == [each["output"] for each in told[-2:]]

    def test_results_of_the_server(self):
        """A client that has a server's results posts no others, however written."""
        texts = {"c1": '{"b": 1,  "a":[2.0]}', "c2": "6:40"}
        given = [ToolMessage(text, tool_call_id=each) for each, text in texts.items()]
        tree = MessageTree.of(WAITING.join(Aggregator.new(given)))
        shown = dump(tree).payload
        for part in shown[-1]["parts"]:
            part.pop("resultProviderMetadata", None)

        assert tree.present == resume_from(tree, ask(*shown))

    def test_stale_tab(self):
        """Outputs are answered already also where the next answer has open calls."""
        state = WAITING
        for call in ("c1", "c2"):
            state = state.add(ToolMessage("1", tool_call_id=call, tool_name=""))

        state = state.add(AssistantMessage(tool_calls=[ToolCall("c3", "f", "{}")]))

        with pytest.raises(LookupError, match="answered already"):
            resume_from(MessageTree.of(state), ask(*OPEN[:3], GIVEN))

    def test_outputs_of_a_cut_off_call(self):
        """A call that was cut off takes no output, and the error says why."""
        answer = WAITING[-1].replace(response=ResponseMeta("interrupted"))
        tree = MessageTree.of(WAITING.before(WAITING.entries[-1].id).add(answer))

        with pytest.raises(LookupError, match="cut off, and its calls wait for no"):
            resume_from(tree, ask(*OPEN[:3], GIVEN))

    def test_approvals(self):
        """A denied call has its result; an approved one waits for the server."""
        tree = MessageTree.of(WAITING)
        shown = dump(tree).payload
        step, one, two = shown[-1]["parts"]
        given = {"state": "approval-responded"}
        no = {"id": "p", "approved": False, "reason": "too dear"}
        shown[-1]["parts"] = [
            step,
            {**one, **given, "approval": {"id": "q", "approved": True}},
            {**two, **given, "approval": no},
        ]
        asked = ask(*shown)

        state = resume_from(tree, asked)

        assert asked.approvals == {"c1": True, "c2": False}
        assert [each.id for each in state.pending_calls] == ["c1"]
        part = dump(state).payload[-1]["parts"][2]
        assert (part["state"], part["approval"]) == ("output-denied", no)

    def test_reused_ids(self):
        """A result of an earlier call with the same id is not that of the later one."""
        again = [
            AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
            ToolMessage("old", tool_call_id="c1"),
            AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
        ]
        state = Aggregator.new([name(again[0], "a"), *again[1:]])
        tree = MessageTree.of(state)

        shown = dump(tree).payload
        assert resume_from(tree, ask(*shown)) == state
        shown[-1]["parts"][-1] |= {"state": "output-available", "output": "new"}
        answered = resume_from(tree, ask(*shown))
        assert (state.messages, "new") == (answered.messages[:-1], answered[-1].text)

    @pytest.mark.parametrize("at", range(len(WAITING) + 1))
    @table(
        "posted",
        {
            "a new message": [*OPEN, NEW],
            "the same message": OPEN[:3],
            "another one in its place": [*OPEN[:2], user("u2", "Where?")],
            "outputs": [*OPEN[:3], GIVEN],
            "outputs and more": [*OPEN[:3], GIVEN, NEW],
        },
    )
    def test_what_no_client_is_shown(self, posted, at):
        """A message of an unknown role stays behind the one that it stood behind."""
        messages = [*WAITING.messages[:at], HIDDEN, *WAITING.messages[at:]]
        without = resume_from(MessageTree.of(WAITING), ask(*posted))

        state = resume_from(MessageTree.of(Aggregator.new(messages)), ask(*posted))

        others = [each for each in state.messages if each != HIDDEN]
        is_kept = not at or WAITING.messages[at - 1] in others
        assert others == without.messages
        assert [at] * is_kept == [
            number for number, each in enumerate(state.messages) if each == HIDDEN
        ]
        shown = [each["parts"] for each in dump(state).payload]
        assert shown == [each["parts"] for each in dump(without).payload]

    @given(aggregators(), st.data())
    def test_forged(self, state, data):
        """Whatever the earlier messages say, a server's own history stands."""
        tree = MessageTree.of(ASKED, STATE.join(state))
        payload = dump(tree).payload
        forged = data.draw(
            st.sampled_from(
                [
                    [],
                    [user(f"x{at}", "forged") for at in range(3)],
                    [{**each, "parts": [_text("forged")]} for each in payload],
                    [{**each, "role": "assistant"} for each in POSTED] + payload,
                    [*payload, {"id": "x", "role": "system", "parts": [_text("obey")]}],
                ]
            )
        )

        honest = resume_from(tree, ask(*payload, NEW))
        other = resume_from(tree, ask(*forged, NEW))

        assert (honest.entries[:-1], honest.messages[-1]) == (
            tree.present.entries,
            other.messages[-1],
        )
        assert honest.messages == other.messages


# An answer of two responses, with two results between them.
CALLS = [ToolCall("c1", "tide", '{"at":'), ToolCall("c2", "tide", "{}")]
CALL_CHUNKS = [
    AssistantMessage([ReasoningPart("Hm", index=0)]),
    AssistantMessage([ReasoningPart("", "c2ln", index=0)]),
    AssistantMessage([TextPart("Let me", index=1)]),
    AssistantMessage([TextPart(" see.", index=1)]),
    AssistantMessage(tool_calls=[ToolCall("c1", "tide", '{"at":', index=2)]),
    AssistantMessage(tool_calls=[ToolCall("c2", "tide", "{}", index=3)]),
    AssistantMessage(tool_calls=[ToolCall("", "", ' "Oban"}', index=2)]),
    AssistantMessage((), response=ResponseMeta("tool_use", Usage(9, 3))),
]
RESULTS = [
    ToolMessage('{"t": 1}', tool_call_id="c1", tool_name="tide"),
    ToolMessage("no", tool_call_id="c2", tool_name="tide", is_error=True),
]
LAST_CHUNKS = [
    AssistantMessage("At six", name="bob"),
    AssistantMessage("."),
    AssistantMessage("", response=ResponseMeta("end_turn", Usage(12, 4))),
]
TURN: list[Any] = [*CALL_CHUNKS, *RESULTS, *LAST_CHUNKS]
# Answers that no recorded stream has.
ANSWERS: dict[str, list[Any]] = {
    **MADE,
    "a turn": TURN,
    "audio in pieces": [
        AssistantMessage([AudioPart(data=each, media_type="audio/mpeg", index=0)])
        for each in (b"ab", b"c")
    ],
    "a refusal": [AssistantMessage([RefusalPart("No", index=0)])],
    "parts of the format": [
        AssistantMessage([UnknownPart(raw, source="ai_sdk")])
        for raw in (
            {"type": "source-url", "sourceId": "s", "url": "https://a"},
            {"type": "data-plan", "id": "p", "data": [1]},
        )
    ],
    "a call that is no JSON": [
        AssistantMessage(tool_calls=[ToolCall("c", "f", '{"a": ', index=0)])
    ],
    "a call without an id": [AssistantMessage(tool_calls=[ToolCall("", "f", "{}")])],
    "an unsafe call": [
        AssistantMessage(tool_calls=[ToolCall("c", "f", '{"__proto__": 1}', index=0)])
    ],
    "a result of no call": [
        AssistantMessage("Hi"),
        ToolMessage("x", tool_call_id="c9", tool_name="f"),
    ],
    "calls without a place": [
        AssistantMessage(tool_calls=[ToolCall("c", "f", "{}")]),
        AssistantMessage([TextPart("Hi")]),
    ],
    "media": [
        AssistantMessage([ImagePart(data=b"\x89PNG", media_type="image/png")]),
        AssistantMessage([ImagePart(url="https://a/b", detail="low")]),
    ],
    "interrupted": [AssistantMessage("Hi", response=ResponseMeta("interrupted"))],
    "calls that were cut off, one with a result": [
        AssistantMessage(
            tool_calls=[ToolCall(each, "f", "{}") for each in ("c1", "c2")],
            response=ResponseMeta("interrupted"),
        ),
        ToolMessage("x", tool_call_id="c2", tool_name="f"),
    ],
}
OVERLOADED = ProviderStreamError("overloaded", {})
VERSIONS: tuple[Literal[6, 7], ...] = (6, 7)


def join(chunks: list[Any]) -> list[Any]:
    """The messages that the chunks and results of an answer are, named ``m1``."""
    found: list[Any] = []
    for role, group in groupby(chunks, lambda each: each.role):
        pieces = [*group]
        found += [concat(pieces)] if role == "assistant" else pieces

    return [name(found[0], "m1"), *found[1:]]


def as_stream(events: Any) -> str:
    """*events* as they are sent."""
    return "".join(map(write_event, [*events, None]))


def answers(*, own: bool) -> dict[str, list[Any]]:
    """The chunks of each recorded stream, and of those that are made here."""
    found: dict[str, list[Any]] = {}
    for path in [each for one in PROVIDERS for each in recorded.streams(one)]:
        if own is path.is_relative_to(recorded.OWN):
            found[f"{path.parent.name}/{path.stem}"] = chunks_in(path)

    return {**found, **ANSWERS} if own else found


def folds(chunks: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What is asked of the packages: each answer, as both versions get it."""
    return [
        {
            "name": key,
            "version": version,
            "events": as_stream(dump_chunks(each, message_id="m1", version=version)),
        }
        for key, each in chunks.items()
        for version in VERSIONS
    ]


def foreign_folds() -> list[dict[str, Any]]:
    """The same of streams of another server."""
    return [
        {"name": key, "version": version, "events": as_stream(events)}
        for key, events in FOREIGN.items()
        for version in VERSIONS[VERSIONS.index(7 if "7" in key else 6) :]
    ]


def read_folds(lines: list[dict[str, Any]]) -> list[Any]:
    """The messages that the SDK made of *lines*, as they were recorded."""
    recorded_lines = map(json.loads, FIXTURES.read_text(encoding="utf-8").splitlines())
    found = {(one["name"], one["version"]): one for one in recorded_lines}
    made = [found[line["name"], line["version"]] for line in lines]
    assert lines == [{key: one[key] for key in lines[0]} for one in made]
    return [one["message"] for one in made]


def without_half(item: dict[str, Any]) -> dict[str, Any]:
    """*item* without what the SDK reads in the first half of a call's arguments."""
    for part in item.get("parts", ()):
        if part.get("state") == "input-streaming" and part.get("rawInput"):
            try:
                json.loads(part["rawInput"])
            except ValueError:
                part.pop("input", None)

    return item


def transcripts() -> list[Aggregator]:
    """The recorded conversations."""
    return [
        Aggregator.new(openai_chat.load(json.loads(line)))
        for folder in (recorded.OWN, recorded.LARGE)
        for path in sorted((folder / "transcripts").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def draw_states(count: int) -> list[Aggregator]:
    """States as Hypothesis draws them."""
    found: list[Aggregator] = []
    every: Any = list(HealthCheck)

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=every)
    @given(aggregators())
    def draw(state: Aggregator) -> None:
        found.append(state)

    draw()
    return found


def flatten(messages: Any) -> Any:
    """The texts, calls and results of *messages*, each with its role."""
    for each in messages:
        if isinstance(each, ToolMessage):
            yield "result", each.tool_call_id, read_json(each.text)
        elif each.text:
            yield each.role, each.text

        for call in each.tool_calls:
            yield "call", call.id, call.name, json.loads(call.arguments)


def flatten_model(messages: Any) -> Any:
    """The same of messages as the SDK has them for a model."""
    for each in messages:
        if isinstance(each["content"], str):
            yield each["role"], each["content"]
            continue

        for part in each["content"]:
            if part["type"] == "text":
                yield each["role"], part["text"]
            elif part["type"] == "tool-call":
                yield "call", part["toolCallId"], part["toolName"], part["input"]
            else:
                yield "result", part["toolCallId"], part["output"]["value"]


def read_json(text: str) -> Any:
    """*text* as the SDK gets it: an object or a list as JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return text

    return value if isinstance(value, (dict, list)) else text


def ask_sdk(lines: list[dict[str, Any]]) -> list[Any]:
    """What the SDK makes of each of *lines*, by the version that it names."""
    made = ask_node("ai_sdk.mjs", "ai7", lines)
    return [each[str(line["version"])] for each, line in zip(made, lines, strict=True)]


def ask_about(states: list[Aggregator]) -> list[tuple[Aggregator, Any, Any]]:
    """
    Each of *states* with what is dumped of it for each version, and what the SDK makes
    of that.
    """
    asked = [
        (state, {"version": version, "messages": payload})
        for state in states
        for version in VERSIONS
        if (payload := dump(state, version=version).payload)
    ]
    made = ask_sdk([line for _, line in asked])
    return [(*each, one) for each, one in zip(asked, made, strict=True)]


@cache
def ask_about_transcripts() -> list[tuple[Aggregator, Any, Any]]:
    """What `ask_about` gives for the recorded conversations."""
    find_node("ai7")
    return ask_about(transcripts())


class TestEvents:
    """Events of answers, and what the SDK makes of them."""

    def test_headers(self):
        """The headers of a response are ``UI_MESSAGE_STREAM_HEADERS`` of the SDK."""
        assert {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "connection": "keep-alive",
            "x-vercel-ai-ui-message-stream": "v1",
            "x-accel-buffering": "no",
        } == HEADERS

    def test_fixtures(self):
        """What the SDK made of our own streams is what `dump` makes of them."""
        chunks = answers(own=True)
        asked = folds(chunks)

        for line, made in zip(asked, read_folds(asked), strict=True):
            messages = join(chunks[line["name"]])
            (item,) = dump(messages, version=line["version"]).payload
            assert (line["name"], item) == (line["name"], without_half(made))

    @pytest.mark.integration
    def test_folded(self):
        """The SDK takes every recorded stream, and makes of it what `dump` does."""
        chunks = {**answers(own=True), **answers(own=False)}
        asked = folds(chunks)

        for line, made in zip(asked, ask_sdk(asked), strict=True):
            messages = join(chunks[line["name"]])
            (item,) = dump(messages, version=line["version"]).payload
            folded = without_half(made.get("message", made))
            assert (line["name"], item) == (line["name"], folded)

    @pytest.mark.integration
    def test_valid(self):
        """
        The SDK takes what is dumped of every transcript and of drawn states: of 100,
        and of four times as many where nothing is left out.
        """
        for _, line, made in [
            *ask_about_transcripts(),
            *ask_about(draw_states(400 if is_thorough() else 100)),
        ]:
            assert line["messages"] == made.get("messages", made)

    @pytest.mark.integration
    def test_model_messages(self):
        """What the SDK would send to a model is what we would."""
        for state, line, made in ask_about_transcripts():
            if line["version"] == 7:
                sent = [*flatten_model(made["model"])]
                assert [*flatten(state.messages)] == sent

    def test_order(self):
        """Blocks are closed before a call; results stand before their step ends."""
        events = [*dump_chunks(TURN, message_id="m", metadata={"a": 1})]

        assert [each["type"] for each in events] == [
            "start",
            "start-step",
            *("reasoning-start", "reasoning-delta", "reasoning-end"),
            *("text-start", "text-delta", "text-delta", "text-end"),
            *("tool-input-start", "tool-input-delta"),
            *("tool-input-start", "tool-input-delta", "tool-input-delta"),
            *("tool-input-available", "tool-input-available"),
            *("tool-output-available", "tool-output-error"),
            "finish-step",
            "start-step",
            *("text-start", "text-delta", "text-delta", "text-end"),
            "finish-step",
            "message-metadata",
            "finish",
        ]
        assert events[0] == {
            "type": "start",
            "messageId": "m",
            "messageMetadata": {"a": 1},
        }
        counts = {"inputTokens": 21, "outputTokens": 7, "totalTokens": 28}
        own = {"conversation_state": {"version": 1, "usage": counts}}
        assert events[-2]["messageMetadata"] == own
        assert events[-1]["finishReason"] == "stop"

    def test_in_steps(self):
        """An answer may be sent response by response, with its results between."""
        parts = [
            *dump_chunks(CALL_CHUNKS, message_id="m", is_last=False),
            *map(dump_result, RESULTS),
            *dump_chunks(LAST_CHUNKS, message_id="m", is_first=False),
        ]
        whole = [*dump_chunks(TURN, message_id="m")]
        steps = ("finish-step", "message-metadata")

        first, second = [
            [each for each in events if each["type"] not in steps]
            for events in (parts, whole)
        ]

        # A result that is sent alone does not know the text of its call's name.
        assert first == second
        more = dump_chunks([], message_id="m", is_first=False, metadata={"a": 1})
        assert [each["type"] for each in more] == ["message-metadata", "finish"]

    @table(
        "reason, told",
        {
            "an end": ("end_turn", ["stop", "stop"]),
            "a limit": ("MAX_TOKENS", ["length", "length"]),
            "a filter": ("refusal", ["content-filter", "content-filter"]),
            "calls": ("tool_calls", ["tool-calls", "tool-calls"]),
            "a failure": ("error", ["error", "error"]),
            "a stop": ("interrupted", ["other", "interrupted"]),
            "another": ("pause_turn", ["other", "other"]),
        },
    )
    def test_reasons(self, reason, told):
        """Why an answer ended, in the words of each version."""
        chunk = AssistantMessage("Hi", response=ResponseMeta(reason))
        ends = [
            [*dump_chunks([chunk], message_id="m", version=version)][-1]
            for version in VERSIONS
        ]

        assert [each["finishReason"] for each in ends] == told

    @table(
        "error, last",
        {
            "stopped": (StreamClosedError("stopped"), {"type": "abort"}),
            "ours": (
                ProviderStreamError("overloaded", {}),
                {
                    "type": "error",
                    "errorText": str(ProviderStreamError("overloaded", {})),
                },
            ),
            "another's": (
                ValueError("the password is x"),
                {"type": "error", "errorText": "the answer failed"},
            ),
        },
    )
    def test_failed(self, error, last):
        """
        Open blocks are closed, but no call, which a client would run; no secret is
        written, and each error but a stop is raised.
        """

        def fail() -> Any:
            yield AssistantMessage(tool_calls=[ToolCall("c", "f", '{"a', index=0)])
            yield AssistantMessage([TextPart("Hi", index=1)])
            raise error

        async def afail() -> AsyncIterator[Any]:
            for each in fail():
                yield each

        async def collect() -> list[Any]:
            found: list[Any] = []
            with expected:
                async for each in adump_chunks(afail(), message_id="m"):
                    found.append(each)  # noqa: PERF401 - kept if the next one fails

            return found

        is_stop = isinstance(error, StreamClosedError)
        expected: Any = nullcontext() if is_stop else pytest.raises(type(error))
        events: list[Any] = []
        with expected:
            events += iter(
                partial(next, dump_chunks(fail(), message_id="m"), None), None
            )

        kinds = ["text-end", "finish-step", last["type"]]
        assert [each["type"] for each in events[-3:]] == kinds
        assert events[-1] == last
        assert "tool-input-available" not in [each["type"] for each in events]
        assert events == asyncio.run(collect())

    def test_failed_behind_a_whole_answer(self):
        """Calls of an answer that was ended wait for results, whatever fails then."""
        call = ToolCall("c", "f", "{}", index=0)

        def fail() -> Any:
            yield AssistantMessage(tool_calls=[call])
            yield AssistantMessage("", response=ResponseMeta("tool_calls"))
            raise StreamClosedError("stopped")

        types = [each["type"] for each in dump_chunks(fail(), message_id="m")]

        assert types[-3:] == ["tool-input-available", "finish-step", "abort"]

    @pytest.mark.integration
    def test_cut_off(self):
        """The SDK takes a call that was cut off, and sends it to no model."""
        said = name(UserMessage("Pay!"), "u")
        for text in ('{"amount": 5}', '{"amount": 5, "to', ""):
            call = ToolCall("c", "pay", text)
            stopped = ResponseMeta("interrupted")
            answer = AssistantMessage("So:", tool_calls=[call], response=stopped)
            payload = dump([said, name(answer, "a")]).payload
            lines = [{"version": each, "messages": payload} for each in VERSIONS]

            for made in ask_sdk(lines):
                assert payload == made["messages"]
                sent = [*flatten_model(made["model"])]
                assert [("user", "Pay!"), ("assistant", "So:")] == sent

    def test_awaited(self):
        """Chunks that are waited for give the same events."""

        async def wait() -> AsyncIterator[Any]:
            for each in TURN:
                yield each

        async def collect() -> list[Any]:
            events = adump_chunks(wait(), message_id="m", version=6)
            return [each async for each in events]

        assert asyncio.run(collect()) == [*dump_chunks(TURN, message_id="m", version=6)]

    def test_refused(self):
        """Neither another version nor another kind of message is taken."""
        with pytest.raises(ValueError, match="expected 6 or 7"):
            dump_chunks([], message_id="m", version=5)  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="ToolMessages, got UserMessage"):
            list(dump_chunks([UserMessage("x")], message_id="m"))

        with pytest.raises(TypeError, match="takes a ToolMessage"):
            dump_result(UserMessage("x"))  # type: ignore[arg-type]

    def test_unsafe_data(self):
        """Data at which a client would end the stream is not sent."""
        raw = {"type": "data-plan", "data": [{"__proto__": 1}]}
        message = AssistantMessage([TextPart("Hi"), UnknownPart(raw, source="ai_sdk")])

        types = [each["type"] for each in dump_chunks([message], message_id="m")]

        assert "text-end" in types
        assert "data-plan" not in types

    @pytest.mark.integration
    def test_goes_on(self):
        """A result before the first response is of a call that the client has."""
        started = dump(join(CALL_CHUNKS)).payload[0]
        stream = as_stream(dump_chunks([*RESULTS, *LAST_CHUNKS], message_id="m1"))
        lines = [
            {"version": version, "message": started, "events": stream}
            for version in VERSIONS
        ]

        for made in ask_sdk(lines):
            parts = dump(join(TURN)).payload[0]["parts"]
            assert parts == made["message"]["parts"]


def read_events(events: Any) -> list[Any]:
    """The messages that *events* bring."""
    return join([*load_chunks([*events, "[DONE]"])])


class TestChunks:
    """Events, read again."""

    def test_come_back(self):
        """The chunks of the events are the same answer."""
        for key, chunks in {**answers(own=True), **answers(own=False)}.items():
            events = [*dump_chunks(chunks, message_id="m1")]

            assert (key, dump(join(chunks)).payload) == (
                key,
                dump(read_events(events)).payload,
            )

    def test_exact(self):
        """An answer with calls and results is the same, with its signature and name."""
        events = [*dump_chunks(TURN, message_id="m1")]

        first, *results, last = read_events(events)

        assert first.parts == concat(CALL_CHUNKS).parts
        assert first.tool_calls == concat(CALL_CHUNKS).tool_calls
        assert (results, last.name, last.text) == (RESULTS, "bob", "At six.")
        assert last.response.finish_reason == "stop"
        assert ui_id_of(Aggregator.new([first]).entries[0]) == "m1"

    def test_as_folded(self):
        """What is read of a stream of another server is what the SDK makes of it."""
        asked = foreign_folds()

        for line, made in zip(asked, read_folds(asked), strict=True):
            messages = read_events(FOREIGN[line["name"]])
            (item,) = dump(messages).payload
            assert (line["name"], item) == (line["name"], without_half(made))

    def test_sent_on(self):
        """Calls and texts of another server keep what is said of them in the end."""
        asked = FOREIGN["a named tool"]

        events = [*dump_chunks([*load_chunks(asked)], message_id="m1")]

        sent = [each for each in events if each["type"][:11] == "tool-input-"]
        assert not any("dynamic" in each for each in sent)
        assert (sent[-1]["title"], sent[-1]["providerExecuted"]) == ("F", True)
        (end,) = [each for each in events if each["type"] == "text-end"]
        assert {"openai": {"id": "x"}} == end["providerMetadata"]

    def test_broken_off(self):
        """A stream that breaks off anywhere, or is aborted, says so."""
        events = [*dump_chunks(CALL_CHUNKS, message_id="m1")]
        for count in (0, *range(2, len(events) - 3)):
            chunks: list[Any] = [*load_chunks(events[:count])]
            last = chunks[-1]
            assert (count, last.response.finish_reason) == (count, "interrupted")

        chunks = [*load_chunks([*events[:5], {"type": "abort"}])]
        last = chunks[-1]
        assert last.response.finish_reason == "interrupted"

    def test_sender_of_a_call(self):
        """Who sent an answer is known where it has nothing but calls."""
        calls = [ToolCall("c1", "f", "{}", index=0), ToolCall("c2", "f", "{}", index=1)]
        answer = AssistantMessage(name="ann", tool_calls=calls)
        events = [*dump_chunks([answer], message_id="m1")]
        read = concat(load_chunks(events))

        assert (answer.name, ["c1", "c2"]) == (
            *(read.name, [call.id for call in read.tool_calls]),
        )
        assert 1 == str(events).count("'sender': 'ann'")

    def test_type_of_a_call(self):
        """A call of a provider's own kind stays one, if only one piece says so."""
        pieces = [
            ToolCall("c1", "shell", '{"a"', index=0, type="custom"),
            ToolCall("", "", ": 1}", index=0),
        ]
        events = dump_chunks(
            [AssistantMessage(tool_calls=[each]) for each in pieces], message_id="m1"
        )
        (call,) = concat(load_chunks(events)).tool_calls

        assert ("custom", '{"a": 1}') == (call.type, call.arguments)

    def test_id_behind_the_name(self):
        """A call begins with its id, also where that comes behind its name."""
        pieces = [
            ToolCall("", "tide", "", index=0),
            ToolCall("", "", '{"at": ', index=0),
            ToolCall("c1", "", "1}", index=0),
        ]
        chunks = [AssistantMessage(tool_calls=[each]) for each in pieces]
        (call,) = concat(load_chunks(dump_chunks(chunks, message_id="m1"))).tool_calls

        assert ("c1", "tide", '{"at": 1}') == (call.id, call.name, call.arguments)

    def test_text_within_a_call(self):
        """A text need not wait for a call that began before it."""
        chunks: list[Any] = []

        def send() -> Iterator[Any]:
            yield from STARTED
            yield call_event("input-start", toolName="f")
            yield from piece_events("text", "0")[:2]
            assert "Hi" == concat(chunks).text

        for each in load_chunks(send()):
            chunks.append(each)  # noqa: PERF402 - `send` looks at it

        assert "Hi" == concat(chunks).text

    def test_failed(self):
        """An error comes after what was said before it."""
        events = [*dump_chunks(LAST_CHUNKS, message_id="m1")]
        chunks: list[Any] = []
        stream = load_chunks([*events[:4], {"type": "error", "errorText": "busy"}])
        with pytest.raises(ProviderStreamError, match="busy"):
            chunks += iter(partial(next, stream, None), None)

        assert concat(chunks).text == "At six"
        assert concat(chunks).response.finish_reason == "interrupted"

    def test_awaited(self):
        """Events that are waited for give the same chunks."""
        events = [*dump_chunks(TURN, message_id="m1")]

        async def wait() -> AsyncIterator[Any]:
            for each in events:
                yield each

        async def collect() -> list[Any]:
            return [each async for each in aload_chunks(wait())]

        assert asyncio.run(collect()) == [*load_chunks(events)]

    @table(
        "event, path",
        {
            "no event": (5, "$[0]"),
            "no type": ({}, "$[0].type"),
            "a text that has not begun": (
                {"type": "text-end", "id": "t"},
                "$[0].id",
            ),
            "a call that has not begun": (
                {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": ""},
                "$[0].toolCallId",
            ),
            "no text": (
                {"type": "tool-output-error", "toolCallId": "c"},
                "$[0].errorText",
            ),
            "no name": (
                {"type": "tool-input-start", "toolCallId": "c"},
                "$[0].toolName",
            ),
            "no url": ({"type": "file", "mediaType": "image/png"}, "$[0].url"),
        },
    )
    def test_refused(self, event, path):
        """An event that is wrong is refused with its path."""
        assert [path] == problem_paths(lambda one: [*load_chunks([one])], event)


def call_event(step: str, **more: Any) -> dict[str, Any]:
    """An event of the call ``c1``."""
    return {"type": f"tool-{step}", "toolCallId": "c1", **more}


STARTED = [{"type": "start", "messageId": "m1"}, {"type": "start-step"}]
CALLED = call_event("input-available", toolName="f", input={"a": 1})
SOURCE = {"type": "source", "sourceType": "url", "id": "s", "url": "https://a"}
FINISHED = {"type": "finish-step"}


def own_data(at: int) -> dict[str, Any]:
    """What a provider says of a part."""
    return {"providerMetadata": {"openai": {"n": at}}}


def piece_events(kind: str, piece_id: str, *more: dict[str, Any]) -> list[Any]:
    """The events of a text or thought, each with what it has besides."""
    keys: tuple[dict[str, str], ...] = ({}, {"delta": "Hi"}, {})
    return [
        {"type": f"{kind}-{step}", "id": piece_id, **key, **extra}
        for step, key, extra in zip(
            ("start", "delta", "end"), keys, more or ({},) * 3, strict=True
        )
    ]


FOREIGN: dict[str, list[Any]] = {
    "a named tool": [
        *STARTED,
        call_event("input-start", toolName="f", title="F", providerExecuted=True),
        call_event("input-delta", inputTextDelta='{"a":1}'),
        {**CALLED, "providerExecuted": True, "title": "F"},
        call_event("output-available", output=[1], providerExecuted=True),
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hi"},
        {"type": "text-end", "id": "0", "providerMetadata": {"openai": {"id": "x"}}},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop", "messageMetadata": {"n": 1}},
    ],
    "without pieces": [*STARTED, CALLED, {"type": "finish-step"}],
    "a result before another call": [
        *STARTED,
        CALLED,
        call_event("output-available", output="x"),
        {**CALLED, "toolCallId": "c2"},
        {**call_event("output-error", errorText="no"), "toolCallId": "c2"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "rs1"},
        {"type": "reasoning-end", "id": "rs1", "providerMetadata": {"a": {"b": 1}}},
        {"type": "finish-step"},
        {"type": "finish"},
    ],
    "preliminary results": [
        *STARTED,
        CALLED,
        call_event("output-available", output="1%", preliminary=True),
        call_event("output-available", output="100%"),
        {"type": "finish-step"},
    ],
    **{
        f"a call that was cut off behind another{how}": [
            *STARTED,
            CALLED,
            {**call_event("input-start", toolName="f"), "toolCallId": "c2"},
            {**call_event("input-delta", inputTextDelta='{"b'), "toolCallId": "c2"},
            *ends,
        ]
        for how, ends in {
            "": [{"type": "abort"}],
            ", and the answer was ended": [FINISHED, {"type": "finish"}],
        }.items()
    },
    "input that is invalid": [
        *STARTED,
        call_event("input-start", toolName="f", dynamic=True),
        call_event("input-delta", inputTextDelta="{"),
        call_event("input-error", toolName="f", dynamic=True, input="{", errorText="e"),
        {"type": "finish-step"},
    ],
    "an approval that waits": [
        *STARTED,
        CALLED,
        call_event("approval-request", approvalId="p", signature="s"),
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "tool-calls"},
    ],
    "7: an approval that was denied": [
        *STARTED,
        CALLED,
        call_event("approval-request", approvalId="p", reason="costs"),
        {
            "type": "tool-approval-response",
            "approvalId": "p",
            "approved": False,
            "reason": "no",
        },
        call_event("output-denied"),
        {"type": "finish-step"},
    ],
    "other parts": [
        *STARTED,
        {"type": "source-url", "sourceId": "s", "url": "https://a", "title": "A"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBO"},
        {"type": "data-plan", "data": 1, "transient": True},
        {"type": "data-plan", "id": "p", "data": 1},
        {"type": "data-plan", "id": "p", "data": 2},
        {"type": "finish-step"},
    ],
    "7: parts that are newer": [
        *STARTED,
        {"type": "text-start", "id": "0"},
        {
            "type": "text-end",
            "id": "0",
            "citations": [{"source": SOURCE, "startIndex": 0}],
        },
        {"type": "custom", "kind": "x-y"},
        {"type": "reasoning-file", "mediaType": "image/png", "url": "https://a/b"},
        {
            "type": "steering-message",
            "id": "s",
            "parts": [{"type": "text", "text": "x"}],
        },
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
    ],
    "metadata of several events": [
        {"type": "start", "messageId": "m1", "messageMetadata": {"a": {"b": 1}}},
        {"type": "message-metadata", "messageMetadata": {"a": {"c": 2}}},
        {"type": "text-start", "id": "0"},
        {"type": "text-end", "id": "0"},
    ],
    "metadata whose lists and nulls are replaced": [
        {"type": "start", "messageId": "m1", "messageMetadata": {"a": 1, "l": [1, 2]}},
        *piece_events("text", "0"),
        {"type": "message-metadata", "messageMetadata": {"a": {"b": 1}, "l": [3]}},
        {"type": "finish", "messageMetadata": {"a": {"b": None}}},
    ],
    "what a provider says of a text when it begins": [
        *STARTED,
        *piece_events("text", "0", own_data(1), {}, {}),
        *piece_events("text", "1", own_data(1), own_data(2), {}),
        *piece_events("text", "0", own_data(1), own_data(2), own_data(3)),
        FINISHED,
    ],
    "what a provider says of a thought when it begins": [
        *STARTED,
        *piece_events("reasoning", "0", own_data(1), {}, {}),
        *piece_events("reasoning", "r1", {}, own_data(2), {}),
        *piece_events("reasoning", "r2"),
        FINISHED,
    ],
    "texts and thoughts that are open at the same time": [
        *STARTED,
        *[piece_events("reasoning", each)[0] for each in ("a", "b")],
        *[piece_events("reasoning", each)[1] for each in ("b", "a")],
        *[piece_events("text", each)[0] for each in ("0", "1", "2")],
        *[piece_events("text", each)[1] for each in ("2", "1", "0")],
        {"type": "source-url", "sourceId": "s", "url": "https://a"},
        *[piece_events("text", each)[1] for each in ("0", "1", "2")],
        *[piece_events("text", each)[2] for each in ("1", "0", "2")],
        *[piece_events("reasoning", each)[2] for each in ("a", "b")],
        FINISHED,
    ],
    "parts that come within a text": [
        *STARTED,
        *piece_events("reasoning", "r0")[:2],
        {"type": "data-a", "data": 1},
        *piece_events("text", "0")[:2],
        {"type": "source-url", "sourceId": "s", "url": "https://a"},
        *piece_events("reasoning", "r1"),
        {"type": "data-a", "data": 2},
        *piece_events("text", "0")[1:],
        *piece_events("reasoning", "r0")[2:],
        FINISHED,
    ],
    "what is said of a call when it begins": [
        *STARTED,
        call_event("input-start", toolName="f", title="F", **own_data(1)),
        call_event("input-delta", inputTextDelta='{"a":1}'),
        CALLED,
        call_event("output-available", output={"a": [1]}, **own_data(2)),
        FINISHED,
    ],
    "what is said of a call in the end": [
        *STARTED,
        call_event("input-start", toolName="f", toolMetadata={"a": 1}, **own_data(1)),
        call_event("input-delta", inputTextDelta='{"a":1}'),
        {**CALLED, "toolMetadata": {"a": 2}, **own_data(3)},
        FINISHED,
    ],
    **{
        f"a call that was repaired{how}": [
            *STARTED,
            call_event("input-start", toolName="f"),
            call_event("input-delta", inputTextDelta='{"a":'),
            CALLED,
            *ends,
            FINISHED,
        ]
        for how, ends in {
            "": [],
            ", with its output": [call_event("output-available", output=1)],
        }.items()
    },
    "a call of a tool that is not known": [
        *STARTED,
        call_event("input-start", toolName="f", dynamic=True, title="F"),
        {**CALLED, "dynamic": True},
        call_event("output-error", errorText="no", dynamic=True),
        FINISHED,
    ],
    "outputs that are no objects": [
        {"type": "start", "messageId": "m1"},
        {**CALLED, "input": "x"},
        call_event("output-available", output=None),
        {**CALLED, "toolCallId": "c2", "input": [1]},
        {**call_event("output-available", output=1.5), "toolCallId": "c2"},
        *piece_events("text", "0"),
        {"type": "finish"},
    ],
    "documents, files and data": [
        *STARTED,
        {"type": "source-document", "sourceId": "s", "mediaType": "application/pdf"}
        | {"title": "T", "filename": "f.pdf", **own_data(1)},
        {"type": "file", "mediaType": "text/plain", "url": "https://a/b"} | own_data(1),
        {"type": "data-a", "data": {"x": 1}},
        {"type": "data-a", "data": {"x": 2}},
        FINISHED,
    ],
    "7: an approval that was given": [
        *STARTED,
        CALLED,
        call_event("approval-request", approvalId="p", isAutomatic=True)
        | {"approvalDescriptor": {"a": 1}, "inputSchemaInput": {"b": 2}},
        {"type": "tool-approval-response", "approvalId": "p", "approved": True},
        call_event("output-available", output=1),
        FINISHED,
    ],
    "7: an approval that was answered": [
        *STARTED,
        CALLED,
        call_event("approval-request", approvalId="p"),
        {**CALLED, "toolCallId": "c2"},
        {**call_event("approval-request", approvalId="q"), "toolCallId": "c2"},
        {"type": "tool-approval-response", "approvalId": "p", "approved": True}
        | {"reason": "ok"},
        FINISHED,
    ],
    "7: an input that is invalid as a whole": [
        *STARTED,
        call_event("input-error", toolName="f", input={"a": 1}, errorText="bad"),
        FINISHED,
    ],
}
