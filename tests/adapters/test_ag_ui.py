"""
AG-UI: what all adapters promise, and what its own packages make of what is sent.

The models of ``ag-ui-protocol`` check each event and message. What the reducer of
``@ag-ui/client`` makes of the events of our own conversations is in
``tests/wires/ag_ui.jsonl``; with Node, and the package under ``tests/wires`` or where
`CONVERSATION_STATE_WIRES` says, it is also run on all that is recorded or drawn here.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, Timeline
from conversation_state.adapters import ag_ui
from conversation_state.adapters.ag_ui import dump, dump_chunks, load, load_chunks
from conversation_state.aggregator import LedgerEntry
from conversation_state.chunks import concat
from conversation_state.errors import (
    DecodeError,
    ProviderStreamError,
    StreamClosedError,
)
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing import check_adapter
from conversation_state.testing.strategies import aggregators, json_values
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, name
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests import recorded
from tests.adapters.contract import problem_paths
from tests.adapters.helpers import WIRES, ask_node, table
from tests.adapters.stream_contract import events_of
from tests.profiles import fewer

FIXTURES = WIRES / "ag_ui.jsonl"
PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")


def chunks_in(path: Path) -> list[Any]:
    """The chunks of a recorded stream; of one that failed, those before."""
    adapter = import_module(f"conversation_state.adapters.{path.parent.name}")
    chunks: list[Any] = []
    try:
        for chunk in adapter.load_chunks(events_of(path)):
            chunks.append(chunk)  # noqa: PERF402 - kept if the next one fails
    except ProviderStreamError:
        pass

    return chunks


def run_of(chunks: list[Any]) -> list[dict[str, Any]]:
    """The events of a run with one response."""
    response = dump_chunks(chunks, message_id="m1")
    return [*ag_ui.wrap_run(response, thread_id="t", run_id="r")]


OVERLOADED = ProviderStreamError("overloaded", {})
# Answers that no recorded stream has.
THOUGHT, AGAIN = ReasoningPart("Hm.", "s1", index=0), ReasoningPart("So", index=1)
MADE: dict[str, list[Any]] = {
    "nothing": [AssistantMessage("")],
    "a sender": [AssistantMessage("Hi", name="bob"), AssistantMessage(" there")],
    "thoughts alone": [AssistantMessage([THOUGHT])],
    "two thoughts": [AssistantMessage([THOUGHT]), AssistantMessage([AGAIN])],
    "signed twice": [
        AssistantMessage([THOUGHT]),
        AssistantMessage([ReasoningPart("", "s2", index=0)]),
    ],
    "thoughts behind": [AssistantMessage([TextPart("a"), THOUGHT, AGAIN])],
    "words behind a call": [
        AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}", index=0)]),
        AssistantMessage([TextPart("a", index=1)]),
        AssistantMessage(tool_calls=[ToolCall("", "f", "{}", index=2)]),
    ],
    **{
        f"a call that was cut off{where}": [
            AssistantMessage(tool_calls=[ToolCall("c", "f", text, index=0)]),
            AssistantMessage("", response=ResponseMeta("interrupted")),
        ]
        for where, text in {
            "": '{"amount": 5}',
            " within its arguments": '{"amount": 5, "to',
            " before its arguments": "",
        }.items()
    },
}


def recorded_runs(*, own: bool) -> dict[str, tuple[list[dict[str, Any]], Any]]:
    """The events of each recorded stream, and the messages that they should make."""
    found: dict[str, tuple[list[dict[str, Any]], Any]] = {}
    for path in [each for one in PROVIDERS for each in recorded.streams(one)]:
        if own is path.is_relative_to(recorded.OWN):
            chunks = chunks_in(path)
            made = dump([name(concat(chunks), "m1")]).payload
            found[f"{path.parent.name}/{path.stem}"] = run_of(chunks), made

    for key, chunks in MADE.items() if own else ():
        made = dump([name(concat(chunks), "m1")]).payload
        found[key] = run_of(chunks), made

    return found


def reduce_all(runs: list[dict[str, Any]]) -> list[Any]:
    """What the client's own checks and reducer make of *runs*; skips without them."""
    return ask_node("ag_ui.mjs", "@ag-ui/client", runs)


def models() -> tuple[Any, Any]:
    """The checks of an event and of a list of messages, by the protocol's models."""
    core: Any = pytest.importorskip("ag_ui.core", reason="needs ag-ui-protocol")
    pydantic = pytest.importorskip("pydantic")
    event, listed = map(
        pydantic.TypeAdapter, (core.Event, list.__class_getitem__(core.Message))
    )
    return event.validate_python, listed.validate_python


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """*document* as a JSON Patch changes it: RFC 6902, what we write of it."""
    document = {"": json.loads(json.dumps(document))}
    for each in operations:
        *parents, last = each["path"].split("/")
        spot: Any = document
        for key in parents:
            spot = spot[_place(spot, key)]

        at = _place(spot, last)
        if each["op"] == "remove":
            del spot[at]
        elif each["op"] == "add" and isinstance(spot, list):
            spot.insert(at, each["value"])
        else:
            spot[at] = each["value"]

    return document[""]


def _place(spot: Any, key: str) -> Any:
    if isinstance(spot, list):
        return int(key)

    return key.replace("~1", "/").replace("~0", "~")


PNG = {"value": "iVBORw=="}


class TestMessages:
    """Snapshots, there and back."""

    def test_contract(self):
        """It keeps the laws of all adapters."""
        check_adapter(ag_ui, settings=fewer())

    @given(aggregators())
    def test_valid(self, state):
        """The models of the protocol take what any state is dumped as."""
        _, check_messages = models()
        plain = [each for each in state.messages if each.role != "unknown"]

        event = ag_ui.snapshot(Aggregator.new(plain))

        assert event["messages"] == check_and_write(check_messages, event["messages"])

    def test_mapping(self):
        """Each role has its fields, and thoughts come before answers."""
        call = ToolCall("c1", "tide", '{"at": "Oban"}')
        photo = ImagePart(url="https://a/b.png", detail="low")
        messages = [
            name(SystemMessage("Be brief."), "s"),
            name(UserMessage([TextPart("When?"), photo], name="ann"), "u"),
            name(
                AssistantMessage([ReasoningPart("Hm.", "c2ln")], tool_calls=[call]), "a"
            ),
            ToolMessage("6:40", tool_call_id="c1", tool_name="tide"),
            ToolMessage("gone", tool_call_id="c2", is_error=True),
        ]
        own = {"version": 1}
        source = {"type": "url", "value": "https://a/b.png"}
        kept = {"conversation_state": {**own, "detail": "low"}}
        image = {"type": "image", "source": source, "metadata": kept}
        function = {"name": "tide", "arguments": '{"at": "Oban"}'}
        sent: list[dict[str, Any]] = [
            {"id": "s", "role": "system", "content": "Be brief."},
            {"id": "u", "role": "user", "name": "ann"},
            {"id": "a:r0", "role": "reasoning", "content": "Hm."},
            {"id": "a", "role": "assistant"},
            {"id": "message_3", "role": "tool", "content": "6:40", "toolCallId": "c1"},
            {"id": "message_4", "role": "tool", "content": "gone", "toolCallId": "c2"},
        ]
        sent[1]["content"] = [{"type": "text", "text": "When?"}, image]
        sent[2]["encryptedValue"] = "c2ln"
        sent[3]["toolCalls"] = [{"id": "c1", "type": "function", "function": function}]
        sent[4]["metadata"] = {"conversation_state": {**own, "tool_name": "tide"}}
        sent[5]["metadata"] = {"conversation_state": {**own, "is_error": True}}
        sent[5]["error"] = "gone"

        export = dump(messages)

        assert (sent, ()) == (export.payload, export.lost)
        back: list[Any] = [*load(sent)]
        ids = ("s", "u", "a", "message_3", "message_4")
        assert back == [*map(name, messages, ids)]

    @table(
        "given_item",
        {
            "developer": {"role": "developer", "content": "Be kind."},
            "activity": {"role": "activity", "activityType": "plan", "content": {}},
            "null content": {"role": "assistant", "content": None, "toolCalls": []},
            "an error": {
                "role": "tool",
                "toolCallId": "c",
                "content": "",
                "error": "no",
            },
            "thoughts alone": {"role": "reasoning", "content": "Hm."},
            "at a provider": {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "file", "value": "f"}}
                ],
            },
            "bytes without a type": {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "data"} | PNG}],
            },
            "bytes as others write them": {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {
                            "type": "data",
                            "mimeType": "image/png",
                            "value": "iVBO\nRw==",
                        },
                    }
                ],
            },
            "other keys": {
                "role": "user",
                "content": "x",
                "metadata": {"a": 1},
                "b": [1],
            },
        },
    )
    def test_dumped_as_loaded(self, given_item):
        """What another server sent comes back key for key."""
        payload = [
            {"id": "x", **given_item},
            {"id": "y", "role": "user", "content": ""},
        ]

        assert payload == dump(load(payload)).payload

    def test_names_of_tools(self):
        """A result of another server has the name of the tool that was called."""
        function = {"name": "tide", "arguments": "{}"}
        call = {"id": "c1", "type": "function", "function": function}
        payload = [
            {"id": "a", "role": "assistant", "toolCalls": [call]},
            {"id": "b", "role": "tool", "content": "6:40", "toolCallId": "c1"},
        ]
        messages: Any = load(payload)

        assert messages[1].tool_name == "tide"
        assert payload == dump(messages).payload

    @pytest.mark.parametrize(
        "role", ["assistant", "developer", "reasoning", "system", "tool", "user"]
    )
    def test_made_by_hand(self, role):
        """An unknown message of a known role is not sent."""
        export = dump([UnknownMessage({"role": role}, source="ag_ui")])

        assert ([], ["unknown"]) == (export.payload, [one.what for one in export.lost])
        raw = {"type": "text", "text": role}
        export = dump([UserMessage([UnknownPart(raw, source="ag_ui")])])
        assert [("messages[0].parts[0]", "unknown")] == [
            (each.path, each.what) for each in export.lost
        ]

    def test_ids_stay(self):
        """A message has one id, whatever its entry is; siblings are named by theirs."""
        state = Aggregator.new([name(UserMessage("a"), "u1")])
        first = state.add(name(AssistantMessage("b"), "a1"))
        tree = MessageTree.of(first, state.add(name(AssistantMessage("c"), "a2")))

        messages = ag_ui.snapshot(tree)["messages"]

        assert [each["id"] for each in messages] == ["u1", "a2"]
        siblings = messages[1]["metadata"]["conversation_state"]["siblings"]
        assert siblings == ["a1", "a2"]
        assert [tree.find(each) for each in siblings] == [
            *tree.siblings(tree.head or "")[1]
        ]
        assert dump(tree.path(tree.find("a1")), tree=tree).payload[1]["id"] == "a1"
        assert "metadata" not in dump(first).payload[1]

    @table(
        "part",
        {
            "bytes": FilePart(data=b"%PDF-", media_type="application/pdf", name="f"),
            "a link": FilePart(url="https://a/b", name="f"),
        },
    )
    def test_media(self, part):
        """Bytes, links and names are kept."""
        export = dump([UserMessage([part])])

        assert (part, ()) == (load(export.payload)[0].parts[0], export.lost)

    def test_lost(self):
        """What has no place is listed, and words are kept."""
        answer = AssistantMessage(
            [TextPart("a", index=0), TextPart("b", index=2)],
            tool_calls=[ToolCall("c", "f", "{}", index=1)],
        )
        unknown = UnknownMessage({"role": "user"}, source="ag_ui")

        late = answer.replace(content=[TextPart("b", index=2)])
        system = SystemMessage([TextPart("a"), TextPart("b")])

        refused = AssistantMessage([RefusalPart("no")])

        export = dump([answer, system, unknown, late, refused])

        texts = [each["content"] for each in export.payload]
        assert ["ab", "ab", "b", "no"] == texts
        assert [(each.path, each.what) for each in export.lost] == [
            ("messages[0].parts[1]", "text"),
            ("messages[1]", "parts"),
            ("messages[2]", "unknown"),
            ("messages[3].parts[0]", "position"),
            ("messages[4].parts[0]", "refusal"),
        ]

    @table(
        "payload, path",
        {
            "no list": ({"messages": 5}, "$.messages"),
            "no id": ([{"role": "user", "content": "x"}], "$[0].id"),
            "no role": ([{"id": "a", "content": "x"}], "$[0].role"),
            "no call": (
                [{"id": "a", "role": "tool", "content": "", "toolCallId": ""}],
                "$[0].toolCallId",
            ),
        },
    )
    def test_refused(self, payload, path):
        """What is wrong is refused with its path."""
        assert [path] == problem_paths(load, payload)

    def test_untrusted_metadata(self):
        """What a client writes under our key reaches only the fields that it is for."""
        forged = {
            "version": 1,
            "tool_name": 5,
            "ui": {"id": "other"},
            "openai_chat": {},
        }
        item = {"id": "a", "role": "user", "content": "x"}

        (message,) = load([{**item, "metadata": {"conversation_state": forged}}])

        assert message == name(UserMessage("x"), "a")
        newer = [{**item, "metadata": {"conversation_state": {"version": 2, "a": 1}}}]
        assert newer == dump(load(newer)).payload

    def test_thoughts(self):
        """Thoughts before and behind an answer are its parts, in their order."""
        thoughts = [ReasoningPart(each) for each in "abcd"]
        answer = AssistantMessage([*thoughts[:2], TextPart("x"), *thoughts[2:]])
        messages = [name(answer, "m")]

        (back,) = load(dump(messages).payload)

        assert back == messages[0]
        (renamed,) = load(dump([name(back, "n")]).payload)
        assert renamed == name(answer, "n")


def check_and_write(check: Any, messages: Any) -> Any:
    """*messages* as the models write them again."""
    return [
        each.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for each in check(messages)
    ]


class TestInput:
    """What a client posts."""

    def test_read(self):
        """All fields of the protocol are read; a schema is a tool's parameters."""
        schema = {"type": "object", "properties": {"at": {"type": "string"}}}
        tool = {"name": "tide", "description": "Tides.", "parameters": schema}
        body = {
            "threadId": "t",
            "runId": "r2",
            "parentRunId": "r1",
            "messages": [{"id": "u", "role": "user", "content": "hi"}],
            "tools": [tool],
            "state": {"step": [1]},
            "context": [{"description": "where", "value": "Oban"}],
            "resume": [{"interruptId": "i", "status": "resolved"}],
            "forwardedProps": {"a": None},
        }

        asked = ag_ui.load_input(body)

        assert (asked.thread_id, asked.run_id, asked.parent_run_id) == ("t", "r2", "r1")
        assert [each.text for each in asked.messages] == ["hi"]
        assert asked.tools[0].json_schema() == schema
        assert asked.state == {"step": [1]}
        assert (asked.context, asked.resume) == (
            tuple(body["context"]),
            tuple(body["resume"]),
        )
        assert asked.forwarded_props == {"a": None}

    def test_paths(self):
        """All that is no JSON is refused at once, each with its path."""
        wrong = {"x": float("nan")}
        body = {
            **dict.fromkeys(("threadId", "runId"), "a"),
            **dict.fromkeys(("forwardedProps", "state"), wrong),
            **{key: [wrong] for key in ("context", "resume")},
            "messages": [],
            "tools": [{"name": "f", "description": "", "parameters": wrong}],
        }

        assert problem_paths(ag_ui.load_input, body) == [
            "$.tools[0].parameters.x",
            "$.state.x",
            "$.context[0].x",
            "$.resume[0].x",
            "$.forwardedProps.x",
        ]
        assert ["$"] == problem_paths(ag_ui.load_input, 5)

    @given(json_values())
    def test_refused(self, body):
        """Whatever else is posted is a `DecodeError` with paths."""
        with pytest.raises(DecodeError, match=r"\$"):
            ag_ui.load_input(body)

        with pytest.raises(DecodeError, match=r"\$"):
            ag_ui.load_input({"threadId": "t", "messages": [], "tools": [{"name": ""}]})


def ag_event(kind: str, of_id: str, **more: str) -> dict[str, str]:
    """An event of a text, or of a call, and its result."""
    field = "toolCallId" if kind[:4] == "TOOL" else "messageId"
    return {"type": kind, field: of_id, **more}


def asked(*items: Any, **more: Any) -> Any:
    """What a client posts with these messages, by their ids and words."""
    body: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [], **more}
    for ui_id, content in items:
        item = {"id": ui_id, "role": "user", "content": content}
        if ui_id[0] == "a":
            item |= {"role": "assistant"}
        elif ui_id[0] == "r":
            item |= {"role": "tool", "toolCallId": ui_id.replace("r", "c")[:2]}

        body["messages"].append(item)

    return ag_ui.load_input(body)


class TestResume:
    """The state that a run begins with."""

    calls = ToolCall("c1", "where", "{}"), ToolCall("c2", "tide", "{}")
    start = Aggregator.new(
        [
            name(UserMessage("When?"), "u1"),
            name(AssistantMessage("Hm.", tool_calls=calls), "a1"),
            name(ToolMessage("6:40", tool_call_id="c2", tool_name="tide"), "r2"),
        ]
    )
    later = start.extend(
        [
            name(ToolMessage("Oban", tool_call_id="c1", tool_name="where"), "r1"),
            name(AssistantMessage("At 6:40."), "a2"),
            name(UserMessage("Thanks."), "u2"),
        ]
    )

    @table(
        "state, items, texts",
        {
            "a result, behind those that the client lacks": (
                start,
                [("u1", "When?"), ("a1", "Hm."), ("r1", "Oban")],
                ["When?", "Hm.", "6:40", "Oban"],
            ),
            "a result, and what the user said then": (
                start,
                [("u1", "When?"), ("a1", "Hm."), ("r1", "Oban"), ("u3", "Well?")],
                ["When?", "Hm.", "6:40", "Oban", "Well?"],
            ),
            "results that the model has not answered": (
                later,
                [("u1", "When?"), ("a1", "Hm."), ("r1", "Oban")],
                ["When?", "Hm.", "6:40", "Oban"],
            ),
            "a message behind what the client has cut": (
                later,
                [("u1", "When?"), ("a1", "Forged."), ("r2", "6:40"), ("u3", "Well?")],
                ["When?", "Hm.", "6:40", "Oban", "Well?"],
            ),
            "the same again": (later, [("u1", "When?")], ["When?"]),
            "other words under an old id": (later, [("u1", "Where?")], ["Where?"]),
            "a message alone": (start, [("u3", "Hi")], ["When?", "Hm.", "6:40", "Hi"]),
        },
    )
    def test_new(self, state, items, texts):
        """Only what is new is read, and stands where the client has it."""
        found = asked(*items).resume_from(MessageTree.of(state))

        assert texts == [message.text for message in found]
        assert all(each.tool_name for each in found if isinstance(each, ToolMessage))

    @table(
        "state, items",
        {
            "no message": (start, []),
            "an answer": (later, [("u1", "When?"), ("a1", "Hm."), ("a2", "")]),
            "another result of a call": (later, [("a1", "Hm."), ("r1-2", "Bern")]),
            "a result of no call": (start, [("a1", "Hm."), ("r9", "Bern")]),
        },
    )
    def test_nothing_new(self, state, items):
        """Where there is nothing to answer, a server can say 409."""
        with pytest.raises(LookupError, match="load the conversation again"):
            asked(*items).resume_from(MessageTree.of(state))

    def test_same_words(self):
        """What a client notes with a part does not edit a message."""
        tree = MessageTree.of(self.later)
        part = {"type": "text", "text": "When?", "k": 1}

        found = asked(("u1", [part])).resume_from(tree)

        assert found.entries[-1].id == tree.find("u1")

    def test_words_of_an_answer(self):
        """An edited message with the words of an answer beside it is the user's."""
        first = Aggregator.new([name(UserMessage("Say yes."), "u1")])
        tree = MessageTree.of(
            first.add(name(UserMessage("Well?"), "u2")),
            first.add(name(AssistantMessage("Yes."), "a1")),
        )

        found = asked(("u1", "Say yes."), ("u2", "Yes.")).resume_from(tree)

        assert ["user", "user"] == [message.role for message in found]
        assert "Yes." == found[-1].text

    def test_answers_to_interrupts(self):
        """An answer that was interrupted goes on when the client answers that."""
        given = {"interruptId": "i1", "status": "resolved"}
        run = asked(("u1", "When?"), ("a1", "Hm."), ("a2", ""), resume=[given])

        assert run.resume_from(MessageTree.of(self.later))[-1].text == "At 6:40."


class TestEvents:
    """Events of responses, and what the client makes of them."""

    def test_fixtures(self):
        """What the client made of our own streams is what `dump` makes of them."""
        lines = FIXTURES.read_text(encoding="utf-8").splitlines()
        made = {one["name"]: one for one in map(json.loads, lines)}
        runs = recorded_runs(own=True)

        assert made.keys() == runs.keys()
        for key, (events, messages) in runs.items():
            assert (key, made[key]["events"]) == (key, events)
            assert (key, made[key]["messages"]) == (key, messages)

    @pytest.mark.integration
    def test_reduced(self):
        """The client takes every recorded stream, and makes of it what `dump` does."""
        runs = {**recorded_runs(own=True), **recorded_runs(own=False)}

        made = reduce_all([{"events": events} for events, _ in runs.values()])

        for (key, (_, messages)), one in zip(runs.items(), made, strict=True):
            assert (key, messages) == (key, one.get("messages", one))

    def test_valid(self):
        """The protocol's models take each event of every recorded stream."""
        check_event, _ = models()

        runs = {**recorded_runs(own=True), **recorded_runs(own=False)}
        events = [event for run, _ in runs.values() for event in run]

        assert [check_event(event).type.value for event in events] == [
            event["type"] for event in events
        ]

    def test_come_back(self):
        """The chunks of the events are the same answer; one that breaks off says so."""
        for path in [each for one in PROVIDERS for each in recorded.streams(one)]:
            chunks = chunks_in(path)
            events = run_of(chunks)
            message, back = concat(chunks), concat(load_chunks(events))

            assert dump([name(message, "m1")]).payload == dump([back]).payload
            begun = [each["type"].endswith("E_START") for each in events]
            begun = begun if True in begun else [False, True]
            broken: Any = concat(load_chunks(events[: begun.index(True) + 1]))
            assert broken.response.finish_reason == "interrupted"

        named: Any = concat(load_chunks(run_of(MADE["a sender"])))
        assert (named.name, named.text) == ("bob", "Hi there")

    def test_order(self):
        """Thoughts, text and calls follow each other, each closed before the next."""
        calls = [ToolCall("c1", "f", "{", index=0), ToolCall("", "", "}", index=0)]
        chunks = [
            AssistantMessage([ReasoningPart("Hm", index=0)]),
            AssistantMessage([ReasoningPart("", "sig", index=0)]),
            AssistantMessage("Hi"),
            *[AssistantMessage(tool_calls=[call]) for call in calls],
            AssistantMessage([ReasoningPart("So", index=9)]),
        ]
        kinds = [
            *("RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START"),
            *("REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
            *("REASONING_ENCRYPTED_VALUE", "REASONING_END"),
            *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
            *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS"),
            *("REASONING_START", "REASONING_MESSAGE_START"),
            *("REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END"),
            *("TOOL_CALL_END", "RUN_FINISHED"),
        ]

        events = run_of(chunks)

        assert [event["type"] for event in events] == kinds
        ids = [each["id"] for each in dump([name(concat(chunks), "m1")]).payload]
        assert ids == ["m1:r0", "m1", "m1:r1"]

    def test_same_id_twice(self):
        """A second call with the id of an open one gets another, as a run would end."""
        calls = [ToolCall("c", "f", "{}", index=at) for at in (0, 1)]
        events = run_of([AssistantMessage(tool_calls=[call]) for call in calls])

        begun = [one["toolCallId"] for one in events if one["type"].endswith("L_START")]
        assert begun == ["c", "m1_call_1"]

    def test_goes_on_behind_a_result(self):
        """Of answers that another server gives one id, only the first has it."""
        call = ToolCall("c1", "tide", "{}")
        result = ToolMessage("6:40", tool_call_id="c1", tool_name="tide")
        events = [
            *dump_chunks([AssistantMessage(tool_calls=[call])], message_id="a"),
            ag_ui.dump_result(result, message_id="t"),
            *dump_chunks([AssistantMessage("At 6:40.")], message_id="a"),
        ]

        chunks = [*load_chunks(events)]
        at = [chunk.role for chunk in chunks].index("tool")
        halves = concat(chunks[:at]), chunks[at], concat(chunks[at + 1 :])

        shown = ag_ui.snapshot(Aggregator.new(halves))["messages"]
        assert ["a", "t"] == [each["id"] for each in shown][:2]
        assert (True, "At 6:40.") == (shown[2]["id"] != "a", shown[2]["content"])

    def test_awaited(self):
        """Chunks and events that are waited for give the same."""
        chunks = [AssistantMessage("Hi"), AssistantMessage(" there")]

        async def wait(given_items: Any) -> AsyncIterator[Any]:
            for each in given_items:
                yield each

        async def collect() -> tuple[list[Any], Any]:
            response = ag_ui.adump_chunks(wait(chunks), message_id="m1")
            run = ag_ui.awrap_run(response, thread_id="t", run_id="r")
            events = [event async for event in run]
            return events, [one async for one in ag_ui.aload_chunks(wait(events))]

        events, back = asyncio.run(collect())

        assert events == run_of(chunks)
        assert concat(back).text == "Hi there"

    @table(
        "error, message",
        {
            "ours": (OVERLOADED, str(OVERLOADED)),
            "another's": (ValueError("the password is x"), "the run failed"),
        },
    )
    def test_failed(self, error, message):
        """What is open is closed, no secret is told, and the error raised."""

        def fail() -> Any:
            yield AssistantMessage("Hi")
            raise error

        events: list[Any] = []
        run = ag_ui.wrap_run(
            dump_chunks(fail(), message_id="m"), thread_id="t", run_id="r", usage=[{}]
        )
        with pytest.raises(type(error)):
            events += iter(lambda: next(run), None)

        assert [each["type"] for each in events[-2:]] == [
            "TEXT_MESSAGE_END",
            "RUN_ERROR",
        ]
        assert events[-1]["message"] == message
        with pytest.raises(ProviderStreamError, match=message):
            list(load_chunks(events))

    @table(
        "reason, error, ends",
        {
            "stopped": ("", StreamClosedError("stopped"), ["RUN_ERROR"]),
            "failed": ("", OVERLOADED, ["RUN_ERROR"]),
            "interrupted": ("interrupted", None, ["RUN_ERROR"]),
            "failed when it was ended": (
                "tool_calls",
                OVERLOADED,
                ["TOOL_CALL_END", "RUN_ERROR"],
            ),
            "whole": ("tool_calls", None, ["TOOL_CALL_END", "RUN_FINISHED"]),
        },
    )
    def test_cut_off(self, reason, error, ends):
        """A call that was cut off has no end, at which a client would run it."""

        def answer() -> Any:
            yield AssistantMessage(tool_calls=[ToolCall("c", "f", "{}", index=0)])
            yield AssistantMessage("", response=ResponseMeta(reason))
            if error is not None:
                raise error

        async def aanswer() -> AsyncIterator[Any]:
            for each in answer():
                yield each

        async def collect() -> None:
            response = ag_ui.adump_chunks(aanswer(), message_id="m")
            async for event in ag_ui.awrap_run(response, thread_id="t", run_id="r"):
                awaited.append(event)  # noqa: PERF401 - kept if the next one fails

        run = ag_ui.wrap_run(
            dump_chunks(answer(), message_id="m"), thread_id="t", run_id="r"
        )
        events: list[Any] = []
        awaited: list[Any] = []
        with pytest.raises(type(error)) if error else nullcontext():
            events += iter(partial(next, run, None), None)

        with pytest.raises(type(error)) if error else nullcontext():
            asyncio.run(collect())

        kinds = ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", *ends]
        assert kinds == [each["type"] for each in events]
        assert events == awaited

    def test_whole_turn(self):
        """Results stand between the responses they belong to, flagged as failed."""
        call = AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")])
        result = ToolMessage("no", tool_call_id="c1", tool_name="f", is_error=True)
        events = [
            *dump_chunks([call], message_id="m1"),
            ag_ui.dump_result(result, message_id="m2"),
            *dump_chunks([AssistantMessage("Sorry.")], message_id="m3"),
        ]

        first, last, failed, *rest = load_chunks(events)

        assert concat([first, last]).tool_calls[0].id == "c1"
        found = [each for each in (failed, *rest) if isinstance(each, ToolMessage)]
        (back,) = found
        assert (back.text, back.tool_name, back.is_error) == ("no", "f", True)
        assert dump([back]).payload[0]["id"] == "m2"
        assert rest[-2].text == "Sorry."

    def test_open_at_once(self):
        """What comes while a text or call is open stands behind it, none in pieces."""
        events = [
            ag_event("TEXT_MESSAGE_START", "m"),
            ag_event("TEXT_MESSAGE_START", "n"),
            ag_event("TEXT_MESSAGE_CONTENT", "n", delta="c"),
            ag_event("TEXT_MESSAGE_CONTENT", "m", delta="a"),
            ag_event("TEXT_MESSAGE_END", "n"),
            ag_event("TOOL_CALL_START", "c1", toolCallName="f"),
            ag_event("TOOL_CALL_END", "c1"),
            ag_event("TOOL_CALL_START", "c2", toolCallName="g"),
            {**ag_event("TOOL_CALL_RESULT", "c1", content="1"), "messageId": "r1"},
            ag_event("TOOL_CALL_ARGS", "c2", delta="{}"),
            ag_event("TEXT_MESSAGE_CONTENT", "m", delta="b"),
            ag_event("TEXT_MESSAGE_END", "m"),
            ag_event("TOOL_CALL_END", "c2"),
            {**ag_event("TOOL_CALL_RESULT", "c2", content="2"), "messageId": "r2"},
        ]

        made: list[Any] = [*load_chunks(events)]
        *chunks, first, second = made

        whole: Any = concat(chunks)
        assert [part.text for part in whole.parts] == ["ab", "c"]
        assert [(each.id, each.arguments) for each in whole.tool_calls] == [
            ("c1", ""),
            ("c2", "{}"),
        ]
        assert [(each.tool_name, each.text) for each in (first, second)] == [
            ("f", "1"),
            ("g", "2"),
        ]
        cut: list[Any] = [*load_chunks(events[:9])]
        *_, last, late = cut
        assert (last.response.finish_reason, late.text) == ("interrupted", "1")

    @table(
        "event, path",
        {
            "no event": (5, "$[0]"),
            "not started": (
                {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "x"},
                "$[0].messageId",
            ),
            "no id": ({"type": "TOOL_CALL_START"}, "$[0].toolCallId"),
        },
    )
    def test_refused(self, event, path):
        """An event that is wrong is refused with its path."""
        assert [path] == problem_paths(lambda one: [*load_chunks([one])], event)


class TestStates:
    """Snapshots and patches of an agent's state, and its bill."""

    @given(json_values(), json_values(), st.data())
    def test_patch(self, old, new, data):
        """A patch makes the new state of the old, and none is needed for the same."""
        mixed = data.draw(
            st.sampled_from([new, [old, new, old], {"a": old, "~/": new}])
        )
        for before, after in ((old, mixed), (mixed, [old, *[mixed]]), ([old], mixed)):
            event = ag_ui.patch(before, after)
            made = apply(before, event["delta"])
            assert json.dumps(made, sort_keys=True) == json.dumps(after, sort_keys=True)

        assert ag_ui.patch(mixed, mixed)["delta"] == []

    @table(
        "old, new, delta",
        {
            "true is not 1": ([1], [True], [("replace", "/0", True)]),
            "in the middle": ([1, 2, 3], [1, 3], [("remove", "/1", None)]),
            "from behind": (
                [1, 2, 3, 4],
                [1],
                [
                    ("remove", "/3", None),
                    ("remove", "/2", None),
                    ("remove", "/1", None),
                ],
            ),
            "unsafe": (
                {"a": {"__proto__": 1}},
                {"a": {"__proto__": 2}},
                [("replace", "/a", {"__proto__": 2})],
            ),
        },
    )
    def test_small(self, old, new, delta):
        """Only what is different is sent, in an order that can be applied."""
        found = ag_ui.patch(old, new)["delta"]

        assert [(one["op"], one["path"], one.get("value")) for one in found] == delta

    @table("wrap", {"lists": lambda one: [one], "objects": lambda one: {"a": one}})
    def test_patch_of_deep_states(self, wrap):
        """A state that is nested too deep to be compared is replaced as a whole."""
        old, new = 1, 2
        for _ in range(sys.getrecursionlimit()):
            old, new = wrap(old), wrap(new)

        (change,) = ag_ui.patch(old, new)["delta"]

        assert ("replace", "") == (change["op"], change["path"])
        assert change["value"] is new

    @pytest.mark.integration
    def test_applied_by_the_client(self):
        """The client's own library applies patches, also where keys are unsafe."""
        states: list[Any] = [
            {"a": [1, 2], "~/": None},
            {"a": [2], "__proto__": {"x": 1}},
            {"a": [2, {"constructor": {"prototype": 1}}]},
            [3],
        ]
        pairs = [(one, two) for one in states for two in states]
        start = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}

        made = reduce_all(
            [{"state": a, "events": [start, ag_ui.patch(a, b)]} for a, b in pairs]
        )

        assert [one.get("state", one) for one in made] == [new for _, new in pairs]

    def test_undo(self):
        """A snapshot after undo has what is shown, and no more."""
        state = Aggregator.new([UserMessage("a")])
        timeline = Timeline.begin(state).commit(state.add(AssistantMessage("b")))

        shown = ag_ui.snapshot(timeline.undo().present)["messages"]

        assert [each["content"] for each in shown] == ["a"]

    def test_usage(self):
        """Each model has a row, whose parts are parts of its totals."""
        usage = Usage(
            9,
            4,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=3),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=2),
        )
        ledger = [LedgerEntry("1", usage, "a"), LedgerEntry("2", usage, "")]

        first, second = ag_ui.dump_usage(ledger)

        parts = {"reasoningTokens": 2, "cachedInputTokens": 3}
        counts = {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13, **parts}
        assert (first, second) == ({"model": "a", **counts}, counts)
        (end,) = [*ag_ui.wrap_run([], thread_id="t", run_id="r", usage=[first])][1:]
        assert end["usage"] == [first]

    def test_big_counts(self):
        """A count that a browser can't represent is left out."""
        assert ag_ui.dump_usage([LedgerEntry("1", Usage(2**53), "")]) == [
            {"outputTokens": 0}
        ]
