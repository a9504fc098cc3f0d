"""From Gemini's contents to messages."""

import json

import pytest

from conversation_state.adapters import gemini
from conversation_state.adapters.gemini import load
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
from tests.adapters.helpers import table
from tests.adapters.pieces import as_is
from tests.formats.cases import without_notes

dump = as_is(gemini).dump

BRIEF = SystemMessage("Be brief.")
IMAGE = ImagePart(data=PNG, media_type="image/png")


def text(value, **fields):
    """A part with a text."""
    return {"text": value, **fields}


def media(media_type, data=PNG_TEXT, **fields):
    """A part with content by value."""
    return {"inlineData": {"mimeType": media_type, "data": data}, **fields}


def file(**fields):
    """A part with content by its URL."""
    return {"fileData": fields}


def returned(content, call_id="c1", **fields):
    """The message of what the tool f returned."""
    return ToolMessage(content, tool_call_id=call_id, tool_name="f", **fields)


def goes_back(document):
    """Whether *document* comes back as it was, key for key, and nothing is lost."""
    export = dump(load(document))
    return () == export.lost and as_json(document) == as_json(export.payload)


def paths_of(document):
    """The paths of all that is wrong with *document*."""
    with pytest.raises(DecodeError) as refused:
        load(document)

    return [problem.path for problem in refused.value.problems]


class TestLoad:
    """Contents are messages, and go back key for key."""

    @table(
        "contents, messages",
        {
            "a thought before a text": (
                [model(text("hm", thought=True), text("hi"))],
                [AssistantMessage([ReasoningPart("hm"), TextPart("hi")])],
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
        },
    )
    def test_contents(self, contents, messages):
        """Of contents come these messages, which are dumped as they were."""
        assert messages == list(map(without_notes, load(contents)))
        assert goes_back({"contents": contents})

    def test_other_instructions(self):
        """
        An instruction with more than text is kept as it is; null is like a missing one.
        """
        raw = {"systemInstruction": {"parts": [media("image/png")]}}
        document = {**raw, "contents": []}

        assert (UnknownMessage(raw, source="gemini"),) == load(document)
        assert goes_back(document)
        assert () == load({"systemInstruction": None, "contents": []})

    @table(
        "given, written",
        {
            "snake case, as Google's SDKs for Python have it, with nulls": (
                {
                    "system_instruction": {"parts": [text("a")]},
                    "contents": [
                        user({"inline_data": {"mime_type": "a/b", "data": PNG_TEXT}}),
                        user({"file_data": {"file_uri": "gs://a", "mime_type": None}}),
                        model(
                            text("b", thought=True, thought_signature="c2ln"),
                            {
                                "function_call": {"name": "f", "args": {"a_b": 1}},
                                "thought_signature": "c2ln",
                                "text": None,
                            },
                        ),
                        user({"function_response": {"name": "f", "response": None}}),
                        user(text("a", video_metadata={"end_offset": "1s"})),
                    ],
                },
                {
                    "systemInstruction": {"parts": [text("a")]},
                    "contents": [
                        user({"inlineData": {"mimeType": "a/b", "data": PNG_TEXT}}),
                        user({"fileData": {"fileUri": "gs://a"}}),
                        model(
                            text("b", thought=True, thoughtSignature="c2ln"),
                            {**call(args={"a_b": 1}), "text": None},
                        ),
                        user({"functionResponse": {"name": "f", "response": {}}}),
                        user(text("a", videoMetadata={"end_offset": "1s"})),
                    ],
                },
            ),
            "other roles of the user, and none": (
                {
                    "contents": [
                        *[{"role": role, "parts": [text("a")]} for role in ("", None)],
                        {"parts": [text("a")]},
                        {"role": "function", "parts": [result()]},
                    ]
                },
                {"contents": [*[user(text("a"))] * 3, user(result())]},
            ),
            "contents without parts, which the API refuses": (
                {"contents": [{"role": "user"}, model(), {"parts": None}]},
                {"contents": [user(text("")), model(text("")), user(text(""))]},
            ),
            "an instruction that is a text": (
                {"systemInstruction": "a", "contents": []},
                {"systemInstruction": {"parts": [text("a")]}, "contents": []},
            ),
            "base64 in lines, without padding, in both alphabets at once": (
                {
                    "contents": [
                        user(media("image/png", data))
                        for data in ("iVBO\nRw0KGgr//g", "iVBORw0KGgr_/g==")
                    ]
                },
                {
                    "contents": [
                        user(media("image/png", data))
                        for data in (PNG_TEXT, "iVBORw0KGgr__g==")
                    ]
                },
            ),
            "a result without a name or an id": (
                {"contents": [user({"functionResponse": {}})]},
                {"contents": [user({"functionResponse": {"response": {}}})]},
            ),
            "a thought that is only its signature": (
                {"contents": [model({"thought": True, "thoughtSignature": "c2ln"})]},
                {"contents": [model(text("", thought=True, thoughtSignature="c2ln"))]},
            ),
        },
    )
    def test_other_forms(self, given, written):
        """
        What may be written in several ways is dumped in the API's own, and means the
        same.
        """
        loaded = load(given)

        export = dump(loaded)

        assert () == export.lost
        assert as_json(written) == as_json(export.payload)
        assert list(map(without_notes, load(written))) == list(
            map(without_notes, loaded)
        )

    @pytest.mark.parametrize(
        ("instruction", "message"),
        [
            ({"parts": [text("Be brief.")], "role": "user"}, BRIEF),
            (
                {"parts": [text("Be brief.", partMetadata={"a": 1})]},
                SystemMessage([TextPart("Be brief.")]),
            ),
        ],
    )
    def test_system(self, instruction, message):
        """The instruction is the first message."""
        document = {"systemInstruction": instruction, "contents": [user(text("hi"))]}

        assert [message, UserMessage("hi")] == list(map(without_notes, load(document)))
        assert goes_back(document)

    def test_urlsafe_base64(self):
        """Data in the alphabet of Google's SDK is written in it, and not kept twice."""
        raw = user(media("image/png", "iVBORw0KGgr__g=="))
        (part,) = one(raw).parts

        assert PNG == part.data
        assert "iVBOR" not in str(part.metadata)
        assert goes_back({"contents": [raw]})


class TestParts:
    """What our parts have no field for is kept beside them."""

    @pytest.mark.parametrize(
        "raw",
        [
            {"toolCall": {"toolType": "FILE_SEARCH"}, "thoughtSignature": "c2ln"},
            {"thoughtSignature": "c2ln"},
            {"inlineData": {"mimeType": "image/png", "data": "?"}},
            {"fileData": {"mime_type": "image/png", "fileUri": ""}},
            {"text": "a", "fileData": {"fileUri": "b"}},
        ],
        ids=as_json,
    )
    @pytest.mark.parametrize("content", [user, model])
    def test_unknown(self, content, raw):
        """A part of another kind, or of several, is kept as it is."""
        document = [content(text("a"), raw, text("b"))]

        (message,) = load(document)

        assert UnknownPart(raw, source="gemini") == message.parts[1]
        assert goes_back({"contents": document})

    @pytest.mark.parametrize(
        "extra",
        [
            {"videoMetadata": {"fps": 1.5}},
            {"thoughtSignature": "c2ln+/==", "thought_signature": "c2ln"},
            {"partMetadata": None},
        ],
        ids=as_json,
    )
    @pytest.mark.parametrize("raw", [text("a"), media("video/mp4")], ids=as_json)
    def test_extra_keys(self, raw, extra):
        """Further keys of a part are kept with it."""
        document = {"contents": [user({**raw, **extra})]}

        (part,) = several(document)[0].parts

        assert part.kind == ("text" if "text" in raw else "video")
        assert goes_back(document)


class TestPairs:
    """Calls have ids, and results have the id of their call."""

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
            "an unknown id answers the call of that name without one": (
                [
                    model(call("f", id="a"), call("f", signature="")),
                    user(result("f", id="x"), result("f", id="a"), result("f", id="y")),
                ],
                ["a", "content_0_call_1"],
                ["content_0_call_1", "a", "y"],
            ),
            "a result of another name answers the first call": (
                [model(call("f"), call("g", signature="")), user(result("h"))],
                ["content_0_call_0", "content_0_call_1"],
                ["content_0_call_0"],
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

    def test_many_calls(self):
        """Thousands of calls at once find their results."""
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
    """What a function returned is a text, and comes back as the object it was."""

    @pytest.mark.parametrize(
        ("response", "content", "is_error"),
        [
            ({"output": "a"}, "a", False),
            ({"result": "a"}, "a", False),
            ({"error": "a"}, "a", True),
            ({"output": 1}, '{"output":1}', False),
            ({"answer": "a"}, '{"answer":"a"}', False),
            ({"error": {"code": 5}}, '{"error":{"code":5}}', True),
            ({"error": "a", "output": "b"}, '{"error":"a","output":"b"}', False),
        ],
    )
    def test_responses(self, response, content, is_error):
        """A text that stands alone is the text; of all else it is the JSON."""
        raw = user(result(id="c1", response=response))

        assert returned(content, is_error=is_error) == without_notes(one(raw))
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
                [user(result(id="c1"), result(id="c2"), c=1)] * 2,
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
    """Half of a surrogate pair is mended, and its path is listed."""

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ([user(text("a\ud800"))], "parts[0].text"),
            ([user(text("a", keys="\ud800"))], "parts[0].keys"),
            ({"systemInstruction": "\ud800", "contents": []}, "systemInstruction"),
            ([{"role": "critic", "parts": [text("\ud800")]}], "parts[0].text"),
        ],
    )
    def test_paths(self, document, path):
        """The path is listed when the message is dumped."""
        *_, message = load(document)

        export = dump([message])

        assert [path] == [lost.what for lost in export.lost]
        assert "\ufffd" in json.dumps(export.payload, ensure_ascii=False)


class TestRefuses:
    """What the format does not have in its place is refused, with its path."""

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ({}, "$"),
            ({"contents": {}}, "$.contents"),
            ({"contents": [], "candidates": []}, "$"),
            (
                {"contents": [], "system_instruction": {"parts": [3]}},
                "$.systemInstruction.parts[0]",
            ),
            ([3], "$[0]"),
            ([user(3)], "$[0].parts[0]"),
            ([user(text(3))], "$[0].parts[0].text"),
            ([user({"inlineData": {"data": 3}})], "$[0].parts[0].inlineData.data"),
            ([user(media(3))], "$[0].parts[0].inlineData.mimeType"),
            ([model(call(args=[]))], "$[0].parts[0].functionCall.args"),
            ([model(call(name=3))], "$[0].parts[0].functionCall.name"),
            ([user(result(parts=3))], "$[0].parts[0].functionResponse.parts"),
            ([user(result(id=3))], "$[0].parts[0].functionResponse.id"),
            ([{"candidates": []}], "$[0]"),
            ([{"error": {"message": "a"}}], "$[0]"),
            ({"error": {"message": "overloaded"}}, "$.error"),
        ],
    )
    def test_paths(self, document, path):
        """One thing wrong is one problem."""
        assert [path] == paths_of(document)

    def test_all_problems(self):
        """All that is wrong is listed at once."""
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
        """The error says what helps."""
        with pytest.raises(DecodeError, match=words):
            load(document)
