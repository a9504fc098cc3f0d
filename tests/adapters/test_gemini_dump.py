"""
From messages to Gemini's contents.
"""

import json
from typing import Any

import attrs
import pytest

from conversation_state.adapters import Lost
from conversation_state.adapters.gemini import dump, load
from conversation_state.adapters.openai_chat import dump as dump_chat
from conversation_state.adapters.openai_chat import load as load_chat
from conversation_state.errors import InvalidMessageError
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
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from tests.adapters.contract import as_json, bare
from tests.adapters.gemini import (
    PNG,
    PNG_TEXT,
    SKIP,
    asked,
    call,
    one,
    result,
    said,
    several,
)


def contents(*messages):
    """
    The contents that *messages* are, of which nothing is lost.
    """
    export = dump(messages)

    assert () == export.lost
    return export.payload["contents"]


def lost(*messages):
    """
    What is lost of *messages*, and where.
    """
    return [(each.path, each.what) for each in dump(messages).lost]


def parts(*made, calls=()):
    """
    The parts of one answer.
    """
    (content,) = contents(AssistantMessage(made, tool_calls=calls))
    return content["parts"]


class TestDump:
    """
    What was made by hand is said in the format's own words.
    """

    def test_chat(self):
        """
        A conversation is its instruction and its contents.
        """
        export = dump(
            [
                SystemMessage("Be brief."),
                UserMessage("When?"),
                AssistantMessage("Now.", tool_calls=[ToolCall("c1", "f", '{"a": 1}')]),
                ToolMessage("ok", tool_call_id="c1"),
                AssistantMessage("Done."),
            ]
        )

        assert () == export.lost
        assert export.payload == {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                asked({"text": "When?"}),
                said({"text": "Now."}, call(id="c1", args={"a": 1}, signature=SKIP)),
                asked(result(id="c1")),
                said({"text": "Done."}),
            ],
        }

    @pytest.mark.parametrize(
        ("part", "raw"),
        [
            (TextPart("a"), {"text": "a"}),
            (
                ImagePart(data=PNG, media_type="image/png"),
                {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
            ),
            (
                ImagePart(data=PNG),
                {"inlineData": {"mimeType": "image/*", "data": PNG_TEXT}},
            ),
            (
                AudioPart(url="gs://a"),
                {"fileData": {"mimeType": "audio/*", "fileUri": "gs://a"}},
            ),
            (
                VideoPart(url="https://a"),
                {"fileData": {"mimeType": "video/*", "fileUri": "https://a"}},
            ),
            (FilePart(url="gs://a"), {"fileData": {"fileUri": "gs://a"}}),
            (
                ImagePart(url=f"data:image/png;base64,{PNG_TEXT}"),
                {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
            ),
            (ReasoningPart("a"), {"text": "a", "thought": True}),
            (
                ReasoningPart("a", "c2ln"),
                {"text": "a", "thought": True, "thoughtSignature": "c2ln"},
            ),
            (UnknownPart({"toolCall": {}}, source="gemini"), {"toolCall": {}}),
        ],
    )
    def test_parts(self, part, raw):
        """
        Each part has its counterpart.
        """
        assert [raw] == parts(part)

    @pytest.mark.parametrize("message", [UserMessage, AssistantMessage])
    @pytest.mark.parametrize("content", ["", ()])
    def test_empty_messages(self, message, content):
        """
        Contents have a part at least, an empty text.
        """
        (raw,) = contents(message(content))

        assert [{"text": ""}] == raw["parts"]

    def test_nothing_left(self):
        """
        So has one all of whose parts are lost.
        """
        message = UserMessage([UnknownPart({"type": "a"}, source="openai_chat")])

        export = dump([message])

        assert [asked({"text": ""})] == export.payload["contents"]
        assert [("messages[0].parts[0]", "a")] == lost(message)

    def test_results_are_one_content(self):
        """
        Results that follow each other are in one content, others are not.
        """
        made = [ToolMessage(each, tool_call_id=each) for each in "abc"]

        raws = contents(*made[:2], UserMessage("x"), made[2])

        assert [2, 1, 1] == [len(raw["parts"]) for raw in raws]

    def test_calls_after_an_answer(self):
        """
        Calls are in one content with the answer before them, because no question came
        in between.
        """
        messages = [
            AssistantMessage("a"),
            AssistantMessage("b", tool_calls=[ToolCall("c1", "f", "{}")]),
            AssistantMessage(tool_calls=[ToolCall("c2", "f", "{}")]),
            ToolMessage("ok", tool_call_id="c1"),
            ToolMessage("ok", tool_call_id="c2"),
            AssistantMessage("c"),
            AssistantMessage("d"),
        ]

        export = dump(messages)

        assert [
            said(
                {"text": "a"},
                {"text": "b"},
                call(id="c1", signature=SKIP),
                call(id="c2", signature=SKIP),
            ),
            asked(result(id="c1"), result(id="c2")),
            said({"text": "c"}),
            said({"text": "d"}),
        ] == export.payload["contents"]
        assert [
            ("messages[1]", "assistant"),
            ("messages[2]", "assistant"),
        ] == lost(*messages)

    def test_calls_after_answers(self):
        """
        However many answers are before calls, all are one content.
        """
        messages = [
            UserMessage("?"),
            *map(AssistantMessage, "abc"),
            AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
        ]

        parts = [{"text": text} for text in "abc"]

        assert [
            asked({"text": "?"}),
            said(*parts, call(id="c1", signature=SKIP)),
        ] == dump(messages).payload["contents"]
        assert [(f"messages[{at}]", "assistant") for at in (2, 3, 4)] == lost(*messages)

    def test_calls_after_an_answer_and_one_as_loaded(self):
        """
        What Gemini had in a content of its own stays there, and what follows it
        joins it.
        """
        raws = [said({"text": "a"}), said(call(id="c"), mood=1)]
        messages = [*several(raws), AssistantMessage(tool_calls=[ToolCall("d", "f")])]

        both = said(call(id="c"), {"functionCall": {"id": "d", "name": "f"}}, mood=1)
        both["parts"][1]["thoughtSignature"] = SKIP

        assert [raws[0], both] == dump(messages).payload["contents"]
        assert [("messages[2]", "assistant")] == lost(*messages)

    def test_calls_after_an_answer_as_loaded(self):
        """
        What Gemini had in two contents stays there.
        """
        raws = [said({"text": "a"}), said(call(id="c")), said(call(id="d"), mood=1)]

        assert raws == contents(*several(raws))

    def test_calls_after_nothing(self):
        """
        A content without parts is not added to.
        """
        (before,) = several([{"role": "model"}])

        first, second = contents(before, one(said(call(id="c"))))

        assert ({"role": "model"}, said(call(id="c"))) == (first, second)

    def test_names_of_results(self):
        """
        A result has the name of its call, unless it says another.
        """
        calls = [ToolCall("a", "f"), ToolCall("b", "g")]
        results = [
            ToolMessage("", tool_call_id="b"),
            ToolMessage("", tool_call_id="a", tool_name="h"),
            ToolMessage("", tool_call_id="c"),
        ]

        *_, raw = contents(AssistantMessage(tool_calls=calls), *results)

        named = [part["functionResponse"].get("name") for part in raw["parts"]]
        assert ["g", "h", None] == named

    def test_results_of_made_ids(self):
        """
        A result of a call without an id has none, and is told by its place.
        """
        raw = said(call("f"), call("g", signature=""), call("f", signature=""))
        message = one(raw)
        first, second, third = [each.id for each in message.tool_calls]
        results = [
            ToolMessage("3", tool_call_id=third),
            ToolMessage("2", tool_call_id=second),
            ToolMessage("1", tool_call_id=first),
        ]

        export = dump([message, *results])

        assert () == export.lost
        assert export.payload["contents"] == [
            raw,
            asked(result("f", "1"), result("g", "2"), result("f", "3")),
        ]
        assert {"1": first, "2": second, "3": third} == {
            each.text: each.tool_call_id for each in several(export.payload)[1:]
        }

    def test_results_with_ids(self):
        """
        Results with ids stay in their order.
        """
        calls = [ToolCall("a", "f"), ToolCall("b", "f")]
        results = [ToolMessage(each, tool_call_id=each) for each in "ba"]

        *_, raw = contents(AssistantMessage(tool_calls=calls), *results)

        assert ["b", "a"] == [part["functionResponse"]["id"] for part in raw["parts"]]

    def test_another_id(self):
        """
        An id that was given to a call is sent, and its result's, too.
        """
        message = one(said(call()))
        named = attrs.evolve(message.tool_calls[0], id="mine")

        first, second = contents(
            message.replace(tool_calls=[named]), ToolMessage("", tool_call_id="mine")
        )

        assert "mine" == first["parts"][0]["functionCall"]["id"]
        assert "mine" == second["parts"][0]["functionResponse"]["id"]

    def test_in_order(self):
        """
        Parts and calls stand where they were, by their index.
        """
        made = parts(
            TextPart("a", index=0),
            TextPart("b", index=2),
            TextPart("c"),
            TextPart("d", index=5),
            calls=[
                ToolCall("1", "f", index=1),
                ToolCall("2", "f", index=4),
                ToolCall("3", "f"),
                ToolCall("4", "f", index=0),
            ],
        )

        told = [part.get("text") or part["functionCall"]["id"] for part in made]
        assert ["a", "1", "b", "c", "2", "d", "3", "4"] == told

    def test_text_before_calls(self):
        """
        A text alone comes first.
        """
        (raw,) = contents(
            AssistantMessage("a", tool_calls=[ToolCall("1", "f", index=0)])
        )

        assert {"text": "a"} == raw["parts"][0]

    @pytest.mark.parametrize(
        ("message", "response"),
        [
            (ToolMessage("a", tool_call_id="c"), {"output": "a"}),
            (ToolMessage("", tool_call_id="c"), {"output": ""}),
            (ToolMessage('{"a": 1}', tool_call_id="c"), {"output": '{"a": 1}'}),
            (ToolMessage("a", tool_call_id="c", is_error=True), {"error": "a"}),
            (ToolMessage((), tool_call_id="c"), {}),
        ],
    )
    def test_responses(self, message, response):
        """
        A result's text is output, or an error.
        """
        (raw,) = contents(message)

        assert response == raw["parts"][0]["functionResponse"]["response"]

    def test_media_of_a_result(self):
        """
        Media are beside it.
        """
        content = [TextPart("a"), ImagePart(data=PNG, media_type="image/png")]

        (raw,) = contents(ToolMessage(content, tool_call_id="c"))

        body = raw["parts"][0]["functionResponse"]
        assert {"output": "a"} == body["response"]
        assert ["inlineData"] == [key for part in body["parts"] for key in part]

    def test_first_call_only(self):
        """
        Of the calls of one answer, the first one has the word for a signature.
        """
        first, second = parts(calls=[ToolCall("a", "f"), ToolCall("b", "f")])

        assert SKIP == first["thoughtSignature"]
        assert "thoughtSignature" not in second

    def test_no_message(self):
        """
        What is no message is refused.
        """
        given: list[Any] = [UserMessage("a"), "b"]

        with pytest.raises(InvalidMessageError, match=r"messages\[1\] is a str"):
            dump(given)

    def test_no_notes_of_others(self):
        """
        Metadata of the caller's own is no note.
        """
        about = {
            "gemini": {"keys": {"a": 1}},
            "other": {"keys": {"a": 1}},
            "conversation_state": {"gemini": "mine"},
        }

        assert [asked({"text": "a"})] == contents(UserMessage("a", metadata=about))


class TestDataUrls:
    @pytest.mark.parametrize("data", ["+/+/", "-_-_"])
    def test_alphabets(self, data):
        """
        A ``data:`` URL in either alphabet of base64 is sent as data.
        """
        (content,) = contents(
            UserMessage([ImagePart(url=f"data:image/png;base64,{data}")])
        )

        (part,) = content["parts"]
        assert {"mimeType": "image/png", "data": "+/+/"} == part["inlineData"]


class TestLost:
    """
    What the format can't say is listed.
    """

    @pytest.mark.parametrize(
        ("arguments", "args"),
        [
            ("[1]", None),
            ('{"a": 1', None),
            ('{"a": 1, "a": 2}', None),
            ('{"a": NaN}', None),
            ('{"a": 1e999}', None),
            (f'{{"a": {2**64}}}', None),
            (f'{{"a": {"9" * 5000}}}', None),
            ('{"a":' * 200 + "1" + "}" * 200, None),
            ("[" * 100_000, None),
            ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ],
    )
    def test_arguments(self, arguments, args):
        """
        Arguments that are no object are not sent.
        """
        message = AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)])

        export = dump([message])

        (raw,) = export.payload["contents"][0]["parts"]
        assert args == raw["functionCall"].get("args")
        assert [("messages[0].tool_calls[0]", "arguments")] == lost(message)
        assert json.dumps(export.payload, ensure_ascii=False).encode()

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ("[1]", "arguments must be a JSON object"),
            ('{"a": 1', "arguments must be valid JSON"),
            (
                '{"a": 1, "a": 2}',
                "arguments must be a JSON object without duplicate keys",
            ),
        ],
    )
    def test_reasons(self, arguments, why):
        """
        The reason says what the arguments have to be.
        """
        message = AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)])

        assert [why] == [each.why for each in dump([message]).lost]

    @pytest.mark.parametrize(
        ("message", "what"),
        [
            (UserMessage("a", name="ann"), [("", "name")]),
            (AssistantMessage([RefusalPart("a")]), [(".parts[0]", "refusal")]),
            (
                AssistantMessage(tool_calls=[ToolCall("c", "f", "{}", type="custom")]),
                [(".tool_calls[0]", "type")],
            ),
            (
                UserMessage([ImagePart(url="a", detail="low")]),
                [(".parts[0]", "detail")],
            ),
            (UserMessage([FilePart(url="a", name="b")]), [(".parts[0]", "name")]),
            (
                UserMessage([FilePart(url="a", media_type="image/png")]),
                [(".parts[0]", "file")],
            ),
            (
                UserMessage([ImagePart(url="a", media_type="text/plain")]),
                [(".parts[0]", "image")],
            ),
            (
                ToolMessage([TextPart("a"), TextPart("b")], tool_call_id="c"),
                [(".parts[1]", "text")],
            ),
            (
                ToolMessage([ImagePart(url="a"), TextPart("b")], tool_call_id="c"),
                [(".parts[1]", "text")],
            ),
            (ToolMessage((), tool_call_id="c", is_error=True), [("", "is_error")]),
            (UnknownMessage({"role": "a"}, source="openai_chat"), [("", "a")]),
            (UserMessage("a", unknown={"mood": 1}), [("", "mood")]),
        ],
    )
    def test_listed(self, message, what):
        """
        Each with the message, the part or the call it is in.
        """
        assert [(f"messages[0]{path}", name) for path, name in what] == lost(message)

    def test_refusals_become_text(self):
        """
        The text of a refusal is sent.
        """
        export = dump([AssistantMessage([RefusalPart("no")])])

        assert [said({"text": "no"})] == export.payload["contents"]

    def test_system_messages(self):
        """
        All are one instruction, in their order, and said first.
        """
        messages = [
            SystemMessage("a"),
            SystemMessage("b"),
            UserMessage("x"),
            SystemMessage([TextPart("c"), TextPart("d")]),
        ]

        export = dump(messages)

        told = export.payload["systemInstruction"]["parts"]
        assert ["a", "b", "c", "d"] == [part["text"] for part in told]
        assert [("messages[1]", "system"), ("messages[3]", "system")] == lost(*messages)

    def test_a_late_system_message(self):
        """
        The first one is lost, too, if it was said after others.
        """
        assert [("messages[1]", "system")] == lost(UserMessage("a"), SystemMessage("b"))

    @pytest.mark.parametrize(
        ("told", "texts"),
        [("a", ["a", "b"]), ({"parts": [{"text": "a"}]}, ["a", "b"]), ({}, ["b"])],
    )
    def test_more_instructions(self, told, texts):
        """
        What was loaded is added to, however it was written.
        """
        (message,) = several({"systemInstruction": told, "contents": []})

        payload = dump([message, SystemMessage("b")]).payload

        parts = payload["systemInstruction"]["parts"]
        assert texts == [part["text"] for part in parts]

    def test_instructions_of_another_kind(self):
        """
        What was loaded as it was is one of several, too.
        """
        raw: Any = {"systemInstruction": {"parts": [{"inlineData": {}}]}}
        message = UnknownMessage(raw, source="gemini")

        payload = dump([message, SystemMessage("b"), message]).payload

        assert [{"inlineData": {}}, {"text": "b"}] == payload["systemInstruction"][
            "parts"
        ]
        assert [raw] == payload["contents"]


class TestSigned:
    """
    What is signed is sent to whom it is from.
    """

    def test_gemini(self):
        """
        What Gemini signed comes back, byte for byte.
        """
        raw = said({"text": "a", "thought": True, "thoughtSignature": "c+/_-=="})

        assert [raw] == contents(one(raw))

    @pytest.mark.parametrize("other", ["anthropic", "openai_chat", "openai_responses"])
    def test_others(self, other):
        """
        What others signed is not sent; the thought is.
        """
        noted = {"conversation_state": {other: {"signed": True}}}
        part = ReasoningPart("a", "sig", metadata=noted)
        message = AssistantMessage([part])

        export = dump([message])

        assert [said({"text": "a", "thought": True})] == export.payload["contents"]
        assert [("messages[0].parts[0]", "signature")] == lost(message)

    def test_not_to_others(self):
        """
        Nor is what Gemini signed sent to others: not a thought, a text or a
        call.
        """
        message = one(
            said(
                {"text": "hm", "thought": True, "thoughtSignature": "c2ln1"},
                {"text": "a", "thoughtSignature": "c2ln2"},
                call(id="c", signature="c2ln3"),
            )
        )

        export = dump_chat([message])

        assert "c2ln" not in as_json(export.payload)
        assert ["reasoning", "thoughtSignature", "thoughtSignature"] == [
            each.what for each in export.lost
        ]


class TestChanged:
    """
    A note on what has been changed since does nothing.
    """

    def test_text(self):
        """
        A text that has been changed is sent as it is now.
        """
        message = one({"role": "user", "parts": [{"text": "a", "partMetadata": {}}]})

        changed = message.replace(content="b")

        assert [asked({"text": "b"})] == contents(changed)

    @pytest.mark.parametrize("parts", [{}, {"parts": None}, {"parts": []}])
    def test_added_content(self, parts):
        """
        A content that had no parts has what is said now.
        """
        message = one({"role": "model", **parts})

        assert [said({"text": "a"})] == contents(message.replace(content="a"))

    @pytest.mark.parametrize("text", ["short", "[1]", "{}"])
    def test_result(self, text):
        """
        A result that is no object any more is a text like others.
        """
        message = one(asked(result(id="a", response={"a": 1})))

        (raw,) = contents(message.replace(content=text))

        assert asked(result(id="a", output=text)) == raw

    def test_another_object(self):
        """
        One that is another object is that.
        """
        message = one(asked(result(id="a", response={"a": 1})))

        (raw,) = contents(message.replace(content='{"b": 2}'))

        assert asked(result(id="a", response={"b": 2})) == raw

    @pytest.mark.parametrize("response", [{"result": "a"}, {"a": 1}])
    def test_an_error_now(self, response):
        """
        A result that is an error now is told as one.
        """
        message = one(asked(result(id="a", response=response)))

        (raw,) = contents(message.replace(is_error=True))

        told = raw["parts"][0]["functionResponse"]["response"]
        assert {"error": message.content} == told

    def test_no_error_now(self):
        """
        And one that is none any more, as a result.
        """
        message = one(asked(result(id="a", response={"error": {"a": 1}})))

        (raw,) = contents(message.replace(is_error=False))

        assert (
            '{"error":{"a":1}}'
            == raw["parts"][0]["functionResponse"]["response"]["output"]
        )

    def test_data(self):
        """
        Other data is written as usual.
        """
        message = one(
            asked({"inlineData": {"mimeType": "image/png", "data": "aG\nk="}})
        )

        (raw,) = contents(
            message.replace(content=[attrs.evolve(message.parts[0], data=b"x")])
        )

        assert "eA==" == raw["parts"][0]["inlineData"]["data"]

    def test_one_alone(self):
        """
        What was joined with a message that is gone stands alone.
        """
        tool, user = several([asked(result(id="a"), {"text": "b"})])

        assert [asked({"text": "b"})] == contents(user)
        assert 2 == len(contents(AssistantMessage("x"), user))
        assert [asked(result(id="a"))] == contents(tool)

    @pytest.mark.parametrize("role", ["model", 3, "system"])
    def test_role(self, role):
        """
        No note changes the role of a user's message.
        """
        message = UserMessage(
            "a", metadata={"conversation_state": {"gemini": {"role": role}}}
        )

        assert [asked({"text": "a"})] == contents(message)

    def test_a_signed_call_alone(self):
        """
        A call that comes first now has the word for a signature.
        """
        message = one(said(call(id="a"), call(id="b", signature="")))

        (raw,) = contents(message.replace(tool_calls=message.tool_calls[1:]))

        assert SKIP == raw["parts"][0]["thoughtSignature"]


class TestCrossing:
    """
    Conversations go from one provider to another.
    """

    def test_from_chat(self):
        """
        What an assistant called and tools returned comes from Chat Completions.
        """
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "f", "arguments": '{"a": "ü"}'},
        }
        messages = load_chat(
            [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": "hi", "name": "ann"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
            ]
        )

        export = dump(messages)

        assert [
            Lost("messages[1]", "name", "only functions have a name in this format")
        ] == list(export.lost)
        assert export.payload == {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                asked({"text": "hi"}),
                said(
                    {
                        "functionCall": {
                            "id": "call_1",
                            "name": "f",
                            "args": {"a": "ü"},
                        },
                        "thoughtSignature": SKIP,
                    }
                ),
                asked(result(id="call_1")),
            ],
        }

    def test_to_chat(self):
        """
        And goes there, with ids that were made up.
        """
        messages = load(
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    asked({"text": "hi"}),
                    said({"text": "a"}, call(args={"a": 1}, signature="")),
                    asked(result(response={"b": 2})),
                ],
            }
        )

        export = dump_chat(messages)

        assert () == export.lost
        system, user, answer, tool = export.payload["messages"]
        assert ("Be brief.", "hi", "a") == (
            system["content"],
            user["content"],
            answer["content"],
        )
        assert '{"a":1}' == answer["tool_calls"][0]["function"]["arguments"]
        assert answer["tool_calls"][0]["id"] == tool["tool_call_id"]
        assert ("f", '{"b":2}') == (tool["name"], tool["content"])

    def test_there_and_back(self):
        """
        What Chat Completions recorded of a conversation is not lost on the way.
        """
        messages = load_chat(
            [
                {"role": "user", "content": [{"type": "text", "text": "a"}]},
                {"role": "assistant", "content": "b"},
            ]
        )

        assert [UserMessage("a"), AssistantMessage("b")] == [
            bare(message) for message in load(dump(messages).payload)
        ]
