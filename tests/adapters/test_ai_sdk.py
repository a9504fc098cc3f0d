"""AI SDK: what all adapters promise, and what the SDK itself makes of what is sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.adapters import ai_sdk
from conversation_state.adapters.ai_sdk import (
    ChatRequest,
    dump,
    load,
    load_request,
    resume_from,
)
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
from conversation_state.tree import MessageTree, name, ui_id_of
from tests.adapters.contract import problem_paths
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
        more = ran.add(name(AssistantMessage("Soon."), "a:2"))
        assert [each["id"] for each in dump(more).payload] == ["u", "a"]
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

        assert resume_from(tree, ask(*dump(tree).payload)) == state

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
