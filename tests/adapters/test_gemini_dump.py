"""From messages to Gemini's contents."""

import json
from typing import Any

import attrs
import pytest

from conversation_state.adapters import anthropic, gemini
from conversation_state.adapters.gemini import load
from conversation_state.adapters.openai_chat import dump as dump_chat
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
from conversation_state.tools import ToolCall
from tests.adapters.contract import as_json
from tests.adapters.gemini import (
    PNG,
    PNG_TEXT,
    SKIP,
    call,
    model,
    one,
    result,
    several,
    user,
)
from tests.adapters.helpers import table
from tests.adapters.pieces import as_is

dump = as_is(gemini).dump

IMAGE = ImagePart(data=PNG)
INLINE = {"inlineData": {"mimeType": "image/*", "data": PNG_TEXT}}


def text(value, **fields):
    """A part with a text."""
    return {"text": value, **fields}


def instruct(instruction):
    """The message of a request with this system instruction."""
    return load({"systemInstruction": instruction, "contents": []})


def contents(*messages):
    """The contents that *messages* are, of which nothing is lost."""
    export = dump(messages)

    assert () == export.lost
    return export.payload["contents"]


def lost(*messages):
    """What is lost of *messages*, and where."""
    return [f"{each.path}: {each.what}" for each in dump(messages).lost]


def answers(texts):
    """An assistant's message for each of *texts*."""
    return [AssistantMessage(each) for each in texts]


def signed_by(provider):
    """The metadata of what *provider* signed."""
    return {"conversation_state": {provider: {"signed": True}}}


def parts(*made, calls=()):
    """The parts of one answer."""
    (content,) = contents(AssistantMessage(made, tool_calls=calls))
    return content["parts"]


def calls(*ids):
    """An assistant's message that calls the tool f, once under each of *ids*."""
    return AssistantMessage(tool_calls=[ToolCall(each, "f", "{}") for each in ids])


def results(*ids):
    """The results of the calls *ids*."""
    return [ToolMessage("ok", tool_call_id=each) for each in ids]


class TestDump:
    """Messages become contents."""

    @table(
        "messages, contents, losses",
        {
            "contents have a part at least": (
                [UserMessage([UnknownPart({"type": "a"}, source="openai_chat")])],
                [user(text(""))],
                ["messages[0].parts[0]: a"],
            ),
            "calls are in one content with the answers before them": (
                [*answers("ab"), calls("c1"), *results("c1"), *answers("cd")],
                [
                    model(text("a"), text("b"), call(id="c1", signature=SKIP)),
                    user(result(id="c1")),
                    model(text("c")),
                    model(text("d")),
                ],
                ["messages[1]: assistant", "messages[2]: assistant"],
            ),
            "calls join what Gemini had in a content of its own": (
                [*load([model(text("a")), model(call(id="c"), mood=1)]), calls("d")],
                [
                    model(text("a")),
                    model(call(id="c"), call(id="d", signature=SKIP), mood=1),
                ],
                ["messages[2]: assistant"],
            ),
            "what Gemini had in several contents stays there": (
                load([model(text("a")), model(call(id="c")), model(call(id="d"), m=1)]),
                [model(text("a")), model(call(id="c")), model(call(id="d"), m=1)],
                [],
            ),
            "a result has the name of its call, unless it has another": (
                [calls("a"), ToolMessage("ok", tool_call_id="a", tool_name="h")],
                [model(call(id="a", signature=SKIP)), user(result("h", id="a"))],
                [],
            ),
            "a result of no call has no name": (
                results("a"),
                [user({"functionResponse": {"response": {"output": "ok"}, "id": "a"}})],
                [],
            ),
            "notes of others, and metadata of the caller's, are not sent": (
                [
                    UserMessage(
                        "a",
                        metadata={
                            "gemini": {"keys": {"a": 1}},
                            "other": {"keys": {"a": 1}},
                            "conversation_state": {"gemini": "mine"},
                        },
                    )
                ],
                [user(text("a"))],
                [],
            ),
            "a thought of another provider is not sent": (
                [
                    AssistantMessage([ReasoningPart("a", "sig", metadata=signed_by(x))])
                    for x in ("anthropic", "openai_chat", "openai_responses")
                ],
                [model(text(""))] * 3,
                [f"messages[{at}].parts[0]: reasoning" for at in range(3)],
            ),
        },
    )
    def test_contents(self, messages, contents, losses):
        """Messages become these contents, and this is lost of them."""
        assert contents == dump(messages).payload["contents"]
        assert losses == lost(*messages)

    @table(
        "part, raw",
        {
            "a data URL": (
                ImagePart(url=f"data:image/png;base64,{PNG_TEXT}"),
                {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
            ),
            "sound by URL": (
                AudioPart(url="gs://a"),
                {"fileData": {"mimeType": "audio/*", "fileUri": "gs://a"}},
            ),
            "a file needs no media type": (
                FilePart(url="gs://a"),
                {"fileData": {"fileUri": "gs://a"}},
            ),
            "a thought": (ReasoningPart("a"), text("a", thought=True)),
            "a signed thought": (
                ReasoningPart("a", "c2ln"),
                text("a", thought=True, thoughtSignature="c2ln"),
            ),
        },
    )
    def test_parts(self, part, raw):
        """Each part has its counterpart."""
        assert [raw] == parts(part)

    def test_results_of_made_ids(self):
        """
        A result of a call without an id has none, and is identified by its position.
        """
        raw = model(call("f"), call("g", signature=""), call("f", signature=""))
        message = one(raw)
        ids = [each.id for each in message.tool_calls]
        messages = [
            ToolMessage(content, tool_call_id=ids[int(content)]) for content in "210"
        ]

        export = dump([message, *messages])

        assert () == export.lost
        assert export.payload["contents"] == [
            raw,
            user(result("f", "0"), result("g", "1"), result("f", "2")),
        ]
        assert ids == [each.tool_call_id for each in several(export.payload)[1:]]

    def test_another_id(self):
        """An id that was given to a call is sent, and its result's, too."""
        message = one(model(call()))
        named = attrs.evolve(message.tool_calls[0], id="mine")

        assert [
            model({**call(), "functionCall": {"name": "f", "args": {}, "id": "mine"}}),
            user(result(id="mine")),
        ] == contents(message.replace(tool_calls=[named]), *results("mine"))

    @pytest.mark.parametrize(
        ("content", "fields", "response"),
        [
            ("a", {}, {"output": "a"}),
            ("a", {"is_error": True}, {"error": "a"}),
            ((), {}, {}),
        ],
    )
    def test_responses(self, content, fields, response):
        """A result's text is output, or an error."""
        (raw,) = contents(ToolMessage(content, tool_call_id="c", **fields))

        assert response == raw["parts"][0]["functionResponse"]["response"]


class TestLost:
    """What the format can't represent is listed."""

    @pytest.mark.parametrize(
        ("arguments", "args"),
        [
            ('{"a": NaN}', None),
            (f'{{"a": {"9" * 5000}}}', None),
            ("[" * 100_000, None),
            ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ],
    )
    def test_arguments(self, arguments, args):
        """Arguments that are not an object are not sent."""
        message = AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)])

        export = dump([message])

        (raw,) = export.payload["contents"][0]["parts"]
        assert args == raw["functionCall"].get("args")
        assert ["messages[0].tool_calls[0]: arguments"] == lost(message)
        assert json.dumps(export.payload, ensure_ascii=False).encode()

    @table(
        "message, losses",
        {
            "the detail of an image": (
                UserMessage([ImagePart(url="a", detail="low")]),
                [".parts[0]: detail"],
            ),
            "the name of a file by URL": (
                UserMessage([FilePart(url="a", name="b")]),
                [".parts[0]: name"],
            ),
            "that an image is a file": (
                UserMessage([FilePart(url="a", media_type="image/png")]),
                [".parts[0]: file"],
            ),
            "that a file is an image": (
                UserMessage([ImagePart(url="a", media_type="text/plain")]),
                [".parts[0]: image"],
            ),
            "a second text of a result": (
                ToolMessage([TextPart("a"), TextPart("b")], tool_call_id="c"),
                [".parts[1]: text"],
            ),
            "the failure of a result without content": (
                ToolMessage((), tool_call_id="c", is_error=True),
                [": is_error"],
            ),
        },
    )
    def test_listed(self, message, losses):
        """Each loss has the path of the message, the part or the call it is in."""
        assert [f"messages[0]{each}" for each in losses] == lost(message)


class TestSystem:
    """All system messages are one instruction."""

    @table(
        "messages, texts, losses",
        {
            "in their order": (
                [
                    SystemMessage("a"),
                    SystemMessage("b"),
                    UserMessage("x"),
                    SystemMessage([TextPart("c"), TextPart("d")]),
                ],
                ["a", "b", "c", "d"],
                ["messages[1]: system", "messages[3]: system"],
            ),
            "the position of a late one is lost": (
                [UserMessage("x"), SystemMessage("b")],
                ["b"],
                ["messages[1]: system"],
            ),
            "one is added to a loaded text": (
                [*instruct("a"), SystemMessage("b")],
                ["a", "b"],
                ["messages[1]: system"],
            ),
            "further keys of one are added, or lost": (
                [
                    *instruct({"parts": [text("a")], "x": 1}),
                    *instruct({"parts": [text("b")], "x": 1}),
                    *instruct({"parts": [text("c")], "x": 2}),
                ],
                ["a", "b", "c"],
                ["messages[1]: system", "messages[2]: system", "messages[2]: x"],
            ),
        },
    )
    def test_order(self, messages, texts, losses):
        """The texts of the instruction, and what is lost."""
        parts = dump(messages).payload["systemInstruction"]["parts"]

        assert texts == [part["text"] for part in parts]
        assert losses == lost(*messages)

    def test_instructions_of_another_kind(self):
        """What was kept as it was is one of several, too."""
        raw: Any = {"systemInstruction": {"parts": [{"inlineData": {}}]}}
        message = UnknownMessage(raw, source="gemini")

        payload = dump([message, SystemMessage("b"), message]).payload

        assert {"parts": [{"inlineData": {}}, text("b")]} == payload[
            "systemInstruction"
        ]
        assert [raw] == payload["contents"]


def test_signatures_are_not_sent_to_others():
    """What Gemini signed, a thought, a text or a call, is not sent to others."""
    message = one(
        model(
            text("hm", thought=True, thoughtSignature="c2ln1"),
            text("a", thoughtSignature="c2ln2"),
            call(id="c", signature="c2ln3"),
        )
    )

    export = dump_chat([message])

    assert "c2ln" not in as_json([export.payload, anthropic.dump([message]).payload])
    assert ["reasoning", "thoughtSignature", "thoughtSignature"] == [
        each.what for each in export.lost
    ]
    assert () == dump_chat(load([model(call(id="c", signature=SKIP))])).lost


class TestChanged:
    """A note on what has been changed since has no effect."""

    @table(
        "raw, changes, changed",
        {
            "a text": (
                user(text("a", partMetadata={})),
                {"content": "b"},
                user(text("b")),
            ),
            "a result that is no object": (
                user(result(id="a", response={"a": 1})),
                {"content": "short"},
                user(result(id="a", output="short")),
            ),
            "a result that is an empty object": (
                user(result(id="a", response={"a": 1})),
                {"content": "{}"},
                user(result(id="a", output="{}")),
            ),
            "a text that is an error now": (
                user(result(id="a", response={"result": "a"})),
                {"is_error": True},
                user(result(id="a", response={"error": "a"})),
            ),
            "an object that is an error now": (
                user(result(id="a", response={"a": 1})),
                {"is_error": True},
                user(result(id="a", response={"error": '{"a":1}'})),
            ),
        },
    )
    def test_as_it_is_now(self, raw, changes, changed):
        """What was changed is sent as it is now."""
        assert [changed] == contents(one(raw).replace(**changes))

    def test_a_signed_call_alone(self):
        """A loaded call that comes first now gets the placeholder of a signature."""
        message = one(model(call(id="a"), call(id="b", signature="")))

        assert [model(call(id="b", signature=SKIP))] == contents(
            message.replace(tool_calls=message.tool_calls[1:])
        )

    def test_one_alone(self):
        """What was joined with a message that is gone stands alone."""
        tool, after = several([user(result(id="a"), text("b"))])

        assert [user(text("b"))] == contents(after)
        assert [model(text("x")), user(text("b"))] == contents(
            AssistantMessage("x"), after
        )
        assert [user(result(id="a"))] == contents(tool)
