"""
From Gemini's contents to messages.
"""

import json

import pytest

from conversation_state.adapters.gemini import dump, load
from conversation_state.errors import DecodeError
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
    VideoPart,
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
from tests.adapters.golden import without_notes
from tests.adapters.helpers import table

BRIEF = SystemMessage("Be brief.")
IMAGE = ImagePart(data=PNG, media_type="image/png")


def text(value, **fields):
    """
    A part with a text.
    """
    return {"text": value, **fields}


def media(media_type, data=PNG_TEXT, **fields):
    """
    A part with content by value.
    """
    return {"inlineData": {"mimeType": media_type, "data": data}, **fields}


def file(**fields):
    """
    A part with content by its URL.
    """
    return {"fileData": fields}


def returned(content, call_id="c1", **fields):
    """
    The message of what the tool f returned.
    """
    return ToolMessage(content, tool_call_id=call_id, tool_name="f", **fields)


def goes_back(document):
    """
    Whether *document* comes back as it was, key for key, and nothing is lost.
    """
    export = dump(load(document))
    return () == export.lost and as_json(document) == as_json(export.payload)


def paths_of(document):
    """
    The paths of all that is wrong with *document*.
    """
    with pytest.raises(DecodeError) as refused:
        load(document)

    return [problem.path for problem in refused.value.problems]


class TestLoad:
    """
    Contents are messages, and go back key for key.
    """

    @table(
        "contents, messages",
        {
            "a text by the user": ([user(text("hi"))], [UserMessage("hi")]),
            "an empty text is a text": ([user(text(""))], [UserMessage("")]),
            "two texts are two parts": (
                [user(text("a"), text("b"))],
                [UserMessage([TextPart("a"), TextPart("b")])],
            ),
            "a text by the model": ([model(text("hi"))], [AssistantMessage("hi")]),
            "a thought before a text": (
                [model(text("hm", thought=True), text("hi"))],
                [AssistantMessage([ReasoningPart("hm"), TextPart("hi")])],
            ),
            "a thought that is only its signature": (
                [model({"thought": True, "thoughtSignature": "c2ln"})],
                [AssistantMessage([ReasoningPart("", "c2ln")])],
            ),
            "the signature of a thought is a field": (
                [model(text("hm", thought=True, thoughtSignature="c2ln+_"))],
                [AssistantMessage([ReasoningPart("hm", "c2ln+_")])],
            ),
            "a user's thought is a text": (
                [user(text("hm", thought=True))],
                [UserMessage([TextPart("hm")])],
            ),
            "an image by value": ([user(media("image/png"))], [UserMessage([IMAGE])]),
            "media types are case-insensitive": (
                [user(media("AUDIO/wav"))],
                [UserMessage([AudioPart(data=PNG, media_type="AUDIO/wav")])],
            ),
            "a video": (
                [user(media("video/mp4"))],
                [UserMessage([VideoPart(data=PNG, media_type="video/mp4")])],
            ),
            "other media are files": (
                [user(media("application/pdf"))],
                [UserMessage([FilePart(data=PNG, media_type="application/pdf")])],
            ),
            "a wildcard is no media type": (
                [user(media("image/*"))],
                [UserMessage([ImagePart(data=PNG)])],
            ),
            "a URL without a media type is a file": (
                [user(file(fileUri="gs://a"))],
                [UserMessage([FilePart(url="gs://a")])],
            ),
            "a file has a name": (
                [user(file(fileUri="gs://a", displayName="a.pdf"))],
                [UserMessage([FilePart(url="gs://a", name="a.pdf")])],
            ),
            "an empty text beside media is nothing": (
                [user(text("", **media("image/png")))],
                [UserMessage([IMAGE])],
            ),
            "arguments are the text of the object, in its order": (
                [model(call(id="c1", args={"z": [1, 2.5, None, True], "a": "ä\n"}))],
                [
                    AssistantMessage(
                        tool_calls=[
                            ToolCall("c1", "f", '{"z":[1,2.5,null,true],"a":"ä\\n"}')
                        ]
                    )
                ],
            ),
            "arguments may be null": (
                [model(call(args=None, id="c1"))],
                [AssistantMessage(tool_calls=[ToolCall("c1", "f", "")])],
            ),
            "texts and calls have no position if the calls come last": (
                [model(text("a"), call(id="c1", args={}))],
                [AssistantMessage("a", tool_calls=[ToolCall("c1", "f", "{}")])],
            ),
            "else they have one": (
                [model(call(id="c1"), text("a"), call(id="c2", signature=""))],
                [
                    AssistantMessage(
                        [TextPart("a", index=1)],
                        tool_calls=[
                            ToolCall("c1", "f", "{}", index=0),
                            ToolCall("c2", "f", "{}", index=2),
                        ],
                    )
                ],
            ),
            "an empty text before a call stays": (
                [model(text(""), call(id="c1"))],
                [
                    AssistantMessage(
                        [TextPart("")], tool_calls=[ToolCall("c1", "f", "{}")]
                    )
                ],
            ),
            "calls that were unsigned stay so": (
                [model(call(id="a", signature=""), call(id="b", signature=SKIP))],
                [
                    AssistantMessage(
                        tool_calls=[ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")]
                    )
                ],
            ),
            "the placeholder of a signature is none": (
                [model(call(id="a", signature=SKIP), call(id="b", signature=""))],
                [
                    AssistantMessage(
                        tool_calls=[ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")]
                    )
                ],
            ),
            "a null is nothing": (
                [
                    model(
                        text("a", inline_data=None, function_call=None, thought=None)
                    ),
                    model(text("b", thought_signature=None)),
                ],
                [AssistantMessage([TextPart("a")]), AssistantMessage([TextPart("b")])],
            ),
            "contents of one role stay apart": (
                [user(text("a")), user(text("b")), model(text("c")), model(text("d"))],
                [*map(UserMessage, "ab"), *map(AssistantMessage, "cd")],
            ),
            "a content with the keys of an event is a content": (
                [user(text("a"), error="b", candidates=[])],
                [UserMessage("a")],
            ),
            "a content of another role is kept": (
                [{"role": "system", "parts": [text("hi")]}],
                [
                    UnknownMessage(
                        {"role": "system", "parts": [text("hi")]}, source="gemini"
                    )
                ],
            ),
            "each key is spelt as it was": (
                [user({"inlineData": {"mime_type": "image/png", "data": PNG_TEXT}})],
                [UserMessage([IMAGE])],
            ),
        },
    )
    def test_contents(self, contents, messages):
        """
        Of contents come these messages, which are dumped as they were.
        """
        assert messages == list(map(without_notes, load(contents)))
        assert goes_back({"contents": contents})

    @pytest.mark.parametrize("role", ["user", "function", "", None])
    def test_roles_of_the_user(self, role):
        """
        Contents are the user's under these roles, and without one.
        """
        raw = {"parts": [text("hi")]}

        assert [UserMessage("hi"), UserMessage("hi")] == list(
            map(without_notes, load([{**raw, "role": role}, raw]))
        )
        assert goes_back({"contents": [{**raw, "role": role}, raw]})

    @pytest.mark.parametrize("key", ["systemInstruction", "system_instruction"])
    @pytest.mark.parametrize(
        ("instruction", "message"),
        [
            ("Be brief.", BRIEF),
            ({"parts": [text("Be brief.")]}, BRIEF),
            ({"parts": [text("Be brief.")], "role": "user"}, BRIEF),
            (
                {"parts": [text("Be brief.", partMetadata={"a": 1})]},
                SystemMessage([TextPart("Be brief.")]),
            ),
        ],
    )
    def test_system(self, key, instruction, message):
        """
        The instruction is the first message.
        """
        document = {key: instruction, "contents": [user(text("hi"))]}

        assert [message, UserMessage("hi")] == list(map(without_notes, load(document)))
        assert goes_back(document)

    def test_other_instructions(self):
        """
        An instruction with more than text is kept as it is, and null is none.
        """
        raw = {"systemInstruction": {"parts": [media("image/png")]}}
        document = {**raw, "contents": []}

        assert (UnknownMessage(raw, source="gemini"),) == load(document)
        assert goes_back(document)
        assert () == load({"systemInstruction": None, "contents": []})

    @pytest.mark.parametrize("role", ["user", "model"])
    @pytest.mark.parametrize("parts", [{}, {"parts": None}, {"parts": []}])
    def test_empty_contents(self, role, parts):
        """
        Missing, null and empty parts are distinguished, and differ from an empty
        text.
        """
        raw = {"role": role, **parts}

        assert "" == one(raw).content
        assert goes_back({"contents": [raw]})


class TestParts:
    """
    What our parts have no field for is kept beside them.
    """

    @pytest.mark.parametrize(
        "raw",
        [
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"toolCall": {"toolType": "FILE_SEARCH"}, "thoughtSignature": "c2ln"},
            {"toolResponse": {"tool_type": "FILE_SEARCH", "response": {"a": [1]}}},
            {"hologram": {}},
            {},
            {"thoughtSignature": "c2ln"},
            {"inlineData": {"mimeType": "image/png"}},
            {"inlineData": {"mimeType": "image/png", "data": "?"}},
            {"fileData": {"mime_type": "image/png", "fileUri": ""}},
            {"text": "a", "fileData": {"fileUri": "b"}},
        ],
        ids=as_json,
    )
    @pytest.mark.parametrize("content", [user, model])
    def test_unknown(self, content, raw):
        """
        A part of another kind, or of several, is kept as it is.
        """
        document = [content(text("a"), raw, text("b"))]

        (message,) = load(document)

        assert UnknownPart(raw, source="gemini") == message.parts[1]
        assert goes_back({"contents": document})

    @pytest.mark.parametrize(
        "extra",
        [
            {"videoMetadata": {"fps": 1.5}},
            {"mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
            {"thoughtSignature": "c2ln+/=="},
            {"thought_signature": "c2ln"},
            {"partMetadata": None},
            {"thought": False},
        ],
        ids=as_json,
    )
    @pytest.mark.parametrize("raw", [text("a"), media("video/mp4")], ids=as_json)
    def test_extra_keys(self, raw, extra):
        """
        Further keys of a part are kept with it.
        """
        document = {"contents": [user({**raw, **extra})]}

        (part,) = several(document)[0].parts

        assert part.kind == ("text" if "text" in raw else "video")
        assert goes_back(document)

    @pytest.mark.parametrize(
        "data",
        [
            "iVBORw0KGgr__g==",
            "iVBORw0KGgr//g",
            "iVBO\nRw0KGgr//g==",
            "iVBORw0KGgr_/g==",
        ],
    )
    def test_base64(self, data):
        """
        Base64 of either alphabet is read, and written as it came.
        """
        raw = user(media("image/png", data))

        assert PNG == one(raw).parts[0].data
        assert goes_back({"contents": [raw]})

    def test_base64_is_not_kept_twice(self):
        """
        How content was encoded takes no second copy of it.
        """
        (part,) = one(user(media("image/png", "iVBORw0KGgr__g=="))).parts

        assert "iVBOR" not in str(part.metadata)

    def test_snake_case(self):
        """
        Keys in snake case are read, and written back.
        """
        document = {
            "system_instruction": {"parts": [text("a")]},
            "contents": [
                user({"inline_data": {"mime_type": "image/png", "data": PNG_TEXT}}),
                user({"file_data": {"mime_type": "image/png", "file_uri": "gs://a"}}),
                model(
                    text("b", thought=True, thought_signature="c2ln"),
                    {
                        "function_call": {"name": "f", "args": {"a": 1}},
                        "thought_signature": "c2ln",
                    },
                ),
                user({"function_response": {"name": "f", "response": {"output": ""}}}),
            ],
        }

        assert [
            SystemMessage("a"),
            UserMessage([IMAGE]),
            UserMessage([ImagePart(url="gs://a", media_type="image/png")]),
            AssistantMessage(
                [ReasoningPart("b", "c2ln")],
                tool_calls=[ToolCall("content_2_call_0", "f", '{"a":1}')],
            ),
            returned("", "content_2_call_0"),
        ] == list(map(without_notes, load(document)))
        assert goes_back(document)


class TestPairs:
    """
    Calls have ids, and results have the id of their call.
    """

    @table(
        "contents, calls, results",
        {
            "a call without an id gets one made of its position": (
                [user(text("a")), model(call(), call("g"))],
                ["content_1_call_0", "content_1_call_1"],
                [],
            ),
            "a result of no call gets one, too": (
                [user(result(), result())],
                [],
                ["content_0_result_0", "content_0_result_1"],
            ),
            "results without ids answer the calls of their name, in order": (
                [
                    model(call("f"), call("g", signature=""), call("f", signature="")),
                    user(result("f", "1"), result("f", "2"), result("g", "3")),
                ],
                ["content_0_call_0", "content_0_call_1", "content_0_call_2"],
                ["content_0_call_0", "content_0_call_2", "content_0_call_1"],
            ),
            "calls of several contents are open together": (
                [
                    model(call("f")),
                    model(call("g")),
                    user(result("f", "1")),
                    user(result("g", "2")),
                ],
                ["content_0_call_0", "content_1_call_0"],
                ["content_0_call_0", "content_1_call_0"],
            ),
            "an unanswered call gets no result of a later one": (
                [
                    model(call("f"), call("f", signature="")),
                    user(result("f", "1")),
                    model(call("f")),
                    user(result("f", "2")),
                ],
                ["content_0_call_0", "content_0_call_1", "content_2_call_0"],
                ["content_0_call_0", "content_2_call_0"],
            ),
            "an id is stronger than a name": (
                [
                    model(call("f", id="a"), call("f", id="b", signature="")),
                    user(result("f", "1", id="b"), result("f", "2", id="a")),
                ],
                ["a", "b"],
                ["b", "a"],
            ),
            "an unknown id answers the call of that name without one": (
                [
                    model(call("f", id="a"), call("f", signature="")),
                    user(result("f", id="x"), result("f", id="a"), result("f", id="y")),
                ],
                ["a", "content_0_call_1"],
                ["content_0_call_1", "a", "y"],
            ),
            "a result without an id answers a call with one": (
                [model(call("f", id="a")), user(result("f"))],
                ["a"],
                ["a"],
            ),
            "a result of another name answers the first call": (
                [model(call("f"), call("g", signature="")), user(result("h"))],
                ["content_0_call_0", "content_0_call_1"],
                ["content_0_call_0"],
            ),
            "a call that was answered by its id is not answered by its name": (
                [
                    model(call("f", id="a"), call("f", id="b", signature="")),
                    user(result("f", id="a"), result("f")),
                ],
                ["a", "b"],
                ["a", "b"],
            ),
            "a call may be answered again by its id": (
                [
                    model(call("f", id="a"), call("f", signature="")),
                    user(result("f", id="a"), result("f", id="a")),
                ],
                ["a", "content_0_call_1"],
                ["a", "a"],
            ),
        },
    )
    def test_ids(self, contents, calls, results):
        """
        These are the ids of the calls and the results, which are not sent back
        unless they were there.
        """
        messages = several(contents)

        assert calls == [
            each.id for one in messages for each in getattr(one, "tool_calls", ())
        ]
        assert results == [one.tool_call_id for one in messages if one.role == "tool"]
        assert goes_back({"contents": contents})

    @pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}])
    @pytest.mark.parametrize("role", [{}, {"role": "user"}])
    def test_results_without_names(self, name, role):
        """
        A result without a name is sent back without.
        """
        raw = {"functionResponse": {**name, "response": {"output": "a"}}}
        document = {"contents": [model(call("f")), {**role, "parts": [raw, raw]}]}

        _, tool, _ = several(document)

        assert ("content_0_call_0", "") == (tool.tool_call_id, tool.tool_name)
        assert goes_back(document)

    def test_many_calls(self):
        """
        Thousands of calls at once find their results.
        """
        count = 5_000
        document = [
            model(*[call(f"f{at % 2}") for at in range(count)]),
            user(*[result(f"f{at % 2}", str(at)) for at in range(count)]),
        ]

        message, *results = several(document)

        assert [each.id for each in message.tool_calls] == [
            each.tool_call_id for each in results
        ]


class TestResults:
    """
    What a function returned is a text, and comes back as the object it was.
    """

    @pytest.mark.parametrize(
        ("response", "content", "is_error"),
        [
            ({"output": "a"}, "a", False),
            ({"result": "a"}, "a", False),
            ({"return_value": "a"}, "a", False),
            ({"content": "a"}, "a", False),
            ({"error": "a"}, "a", True),
            ({"output": 1}, '{"output":1}', False),
            ({"answer": "a"}, '{"answer":"a"}', False),
            ({"output": "a", "b": 1}, '{"output":"a","b":1}', False),
            ({"error": {"code": 5}}, '{"error":{"code":5}}', True),
            ({"error": None, "a": 1}, '{"error":null,"a":1}', False),
            ({"error": "a", "output": "b"}, '{"error":"a","output":"b"}', False),
        ],
    )
    def test_responses(self, response, content, is_error):
        """
        A text that stands alone is the text; of all else it is the JSON.
        """
        raw = user(result(id="c1", response=response))

        assert returned(content, is_error=is_error) == without_notes(one(raw))
        assert goes_back({"contents": [raw]})

    def test_no_notes(self):
        """
        A usual result needs no notes.
        """
        assert returned("ok") == one(user(result(id="c1")))

    @pytest.mark.parametrize("body", [{}, {"response": None}, {"response": {}}])
    def test_nothing(self, body):
        """
        Missing, null and empty responses have no content, and stay what they were.
        """
        raw = user({"functionResponse": {"name": "f", "id": "c1", **body}})

        assert returned(()) == without_notes(one(raw))
        assert goes_back({"contents": [raw]})

    @table(
        "contents, messages",
        {
            "media are parts beside the text": (
                [
                    user(
                        result(
                            id="c1",
                            parts=[
                                media("image/png"),
                                file(fileUri="gs://a", mimeType="video/mp4"),
                                text("a"),
                            ],
                        )
                    )
                ],
                [
                    returned(
                        [
                            TextPart("ok"),
                            IMAGE,
                            VideoPart(url="gs://a", media_type="video/mp4"),
                            UnknownPart({"text": "a"}, source="gemini"),
                        ]
                    )
                ],
            ),
            "results and texts in one content are messages of their own": (
                [user(text("a"), result(id="c1"), text("b"), result(id="c2"), keys=1)]
                * 2,
                [
                    UserMessage("a"),
                    returned("ok"),
                    UserMessage("b"),
                    returned("ok", "c2"),
                ]
                * 2,
            ),
            "keys of a content of results come back once": (
                [user(result(id="c1"), result(id="c2"), role="function", c=1)] * 2,
                [returned("ok"), returned("ok", "c2")] * 2,
            ),
            "results in contents of their own stay there": (
                [user(result(id="c1"), result(id="c2")), user(result(id="c3"))],
                [returned("ok"), returned("ok", "c2"), returned("ok", "c3")],
            ),
            "further keys of a result are kept": (
                [
                    user(
                        {
                            **result(id="c1", scheduling="SILENT"),
                            "thoughtSignature": "c2ln",
                        }
                    )
                ],
                [returned("ok")],
            ),
        },
    )
    def test_contents(self, contents, messages):
        """
        Of contents with results come these messages, which are dumped as they were.
        """
        assert messages == list(map(without_notes, load(contents)))
        assert goes_back({"contents": contents})


class TestMends:
    """
    Half of a surrogate pair is mended, and its path is listed.
    """

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ([user(text("a\ud800"))], "parts[0].text"),
            ([model(text("\udfff", thought=True))], "parts[0].text"),
            (
                [model(text("a"), call(args={"a": "\ud800"}))],
                "parts[1].functionCall.args.a",
            ),
            (
                [user(text("a"), result(id="a", output="\ud800"))],
                "parts[1].functionResponse.response.output",
            ),
            ([user(text("a", keys="\ud800"))], "parts[0].keys"),
            ({"systemInstruction": "\ud800", "contents": []}, "systemInstruction"),
            (
                {"systemInstruction": {"parts": [text("\ud800")]}, "contents": []},
                "parts[0].text",
            ),
            (
                {
                    "systemInstruction": {"parts": [{"hologram": "\ud800"}]},
                    "contents": [],
                },
                "parts[0].hologram",
            ),
            ([{"role": "critic", "parts": [text("\ud800")]}], "parts[0].text"),
        ],
    )
    def test_paths(self, document, path):
        """
        The path is listed when the message is dumped.
        """
        *_, message = load(document)

        export = dump([message])

        assert [path] == [lost.what for lost in export.lost]
        assert "\ufffd" in json.dumps(export.payload, ensure_ascii=False)

    def test_pairs(self):
        """
        Both halves are joined.
        """
        message = one(user(text("\ud83d\ude00")))

        assert UserMessage("😀") == without_notes(message)


class TestRefuses:
    """
    What the format does not have in its place is refused, with its path.
    """

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ({}, "$"),
            ({"contents": {}}, "$.contents"),
            ({"contents": [], "candidates": []}, "$"),
            ({"contents": [], "systemInstruction": 3}, "$.systemInstruction"),
            (
                {"contents": [], "system_instruction": {"parts": [3]}},
                "$.system_instruction.parts[0]",
            ),
            ([3], "$[0]"),
            ([{"role": 3}], "$[0].role"),
            ([user(3)], "$[0].parts[0]"),
            ([{"role": "user", "parts": {}}], "$[0].parts"),
            ([user(text(3))], "$[0].parts[0].text"),
            ([user({"inlineData": "a"})], "$[0].parts[0].inlineData"),
            ([user({"inlineData": {"data": 3}})], "$[0].parts[0].inlineData.data"),
            ([user(media(3))], "$[0].parts[0].inlineData.mimeType"),
            ([user(file(fileUri=3))], "$[0].parts[0].fileData.fileUri"),
            ([model({"functionCall": 3})], "$[0].parts[0].functionCall"),
            ([model(call(args=[]))], "$[0].parts[0].functionCall.args"),
            ([model(call(name=3))], "$[0].parts[0].functionCall.name"),
            ([model(call(args={"a": 2**64}))], "$[0].parts[0].functionCall.args.a"),
            ([user(result(response="a"))], "$[0].parts[0].functionResponse.response"),
            ([user(result(parts=3))], "$[0].parts[0].functionResponse.parts"),
            ([user(result(parts=[3]))], "$[0].parts[0].functionResponse.parts[0]"),
            ([user(result(id=3))], "$[0].parts[0].functionResponse.id"),
            ([{"candidates": []}], "$[0]"),
            ([{"error": {"message": "a"}}], "$[0]"),
            ({"error": {"message": "overloaded"}}, "$.error"),
        ],
    )
    def test_paths(self, document, path):
        """
        One thing wrong is one problem.
        """
        assert [path] == paths_of(document)

    def test_all_problems(self):
        """
        All that is wrong is listed at once.
        """
        assert [
            "$[0].parts[0].text",
            "$[1].parts[1]",
            "$[1].parts[0].functionCall.args",
            "$[2].parts[0].functionResponse.parts[0]",
        ] == paths_of([user(text(3)), model(call(args=3), 3), user(result(parts=[3]))])

    @table(
        "document, words",
        {
            "an error of the provider has its reason": (
                {"error": {"code": 503, "message": "overloaded"}},
                "overloaded",
            ),
            "an event of a stream says what reads it": (
                [{"candidates": [{"content": model(text("a"))}]}],
                "load_chunks",
            ),
        },
    )
    def test_words(self, document, words):
        """
        The error says what helps.
        """
        with pytest.raises(DecodeError, match=words):
            load(document)
