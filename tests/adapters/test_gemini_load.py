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
from tests.adapters.contract import as_json, bare
from tests.adapters.gemini import (
    PNG,
    PNG_TEXT,
    SKIP,
    asked,
    call,
    notes,
    one,
    result,
    said,
    several,
)


def media(media_type, data=PNG_TEXT, **fields):
    """
    A part with content by value.
    """
    return {"inlineData": {"mimeType": media_type, "data": data}, **fields}


def goes_back(document):
    """
    Whether *document* comes back as it was, key for key, and nothing is lost.
    """
    export = dump(load(document))
    return () == export.lost and as_json(document) == as_json(export.payload)


class TestLoad:
    """
    What our model has a word for is said in it.
    """

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (asked({"text": "hi"}), UserMessage("hi")),
            (asked({"text": ""}), UserMessage("")),
            (
                asked({"text": "a"}, {"text": "b"}),
                UserMessage([TextPart("a"), TextPart("b")]),
            ),
            (said({"text": "hi"}), AssistantMessage("hi")),
            (
                said({"text": "hm", "thought": True}, {"text": "hi"}),
                AssistantMessage([ReasoningPart("hm"), TextPart("hi")]),
            ),
            (
                asked(media("image/png")),
                UserMessage([ImagePart(data=PNG, media_type="image/png")]),
            ),
            (
                asked(media("AUDIO/wav")),
                UserMessage([AudioPart(data=PNG, media_type="AUDIO/wav")]),
            ),
            (
                asked(media("video/mp4")),
                UserMessage([VideoPart(data=PNG, media_type="video/mp4")]),
            ),
            (
                asked(media("application/pdf")),
                UserMessage([FilePart(data=PNG, media_type="application/pdf")]),
            ),
            (asked(media("image/*")), UserMessage([ImagePart(data=PNG)])),
            (
                asked({"fileData": {"fileUri": "gs://a"}}),
                UserMessage([FilePart(url="gs://a")]),
            ),
            (
                said(call(id="c1", args={"b": 1, "a": "ä"})),
                AssistantMessage(
                    tool_calls=[ToolCall("c1", "f", '{"b":1,"a":"ä"}')],
                ),
            ),
            (
                said(call(args=None, id="c1")),
                AssistantMessage(tool_calls=[ToolCall("c1", "f", "")]),
            ),
            (
                asked(result(id="c1")),
                ToolMessage("ok", tool_call_id="c1", tool_name="f"),
            ),
            (
                asked(result(id="c1", response={"error": "no"})),
                ToolMessage("no", tool_call_id="c1", tool_name="f", is_error=True),
            ),
        ],
    )
    def test_words(self, raw, message):
        """
        Each word has its counterpart, and comes back.
        """
        found = one(raw)

        assert message == bare(found)
        assert goes_back({"contents": [raw]})

    @pytest.mark.parametrize("role", ["user", "function", "", None])
    def test_who_asks(self, role):
        """
        The user asks, whatever is said of that, or nothing.
        """
        raw = {"parts": [{"text": "hi"}]}

        assert UserMessage("hi") == bare(one({**raw, "role": role}))
        assert UserMessage("hi") == bare(one(raw))
        assert goes_back({"contents": [{**raw, "role": role}, raw]})

    @pytest.mark.parametrize("key", ["systemInstruction", "system_instruction"])
    @pytest.mark.parametrize(
        "told",
        [
            "Be brief.",
            {"parts": [{"text": "Be brief."}]},
            {"parts": [{"text": "Be brief."}], "role": "user"},
            {"parts": [{"text": "Be brief.", "partMetadata": {"a": 1}}]},
        ],
    )
    def test_system(self, key, told):
        """
        The instruction comes first, as a message.
        """
        document = {key: told, "contents": [asked({"text": "hi"})]}

        system, user = load(document)

        assert "Be brief." == system.text
        assert isinstance(system, SystemMessage)
        assert UserMessage("hi") == user
        assert goes_back(document)

    def test_other_instruction(self):
        """
        An instruction with more than text is kept as it is.
        """
        document = {
            "systemInstruction": {"parts": [media("image/png")]},
            "contents": [],
        }

        (message,) = load(document)

        assert isinstance(message, UnknownMessage)
        assert "gemini" == message.source
        assert goes_back(document)

    def test_no_instruction(self):
        """
        Null is no instruction.
        """
        assert () == load({"systemInstruction": None, "contents": []})

    def test_adjacent(self):
        """
        Contents of one role stay apart.
        """
        document = {
            "contents": [
                asked({"text": "a"}),
                asked({"text": "b"}),
                said({"text": "c"}),
                said({"text": "d"}),
            ]
        }

        assert ["a", "b", "c", "d"] == [message.text for message in load(document)]
        assert goes_back(document)

    @pytest.mark.parametrize("role", ["user", "model"])
    @pytest.mark.parametrize("parts", [{}, {"parts": None}, {"parts": []}])
    def test_empty_contents(self, role, parts):
        """
        Contents without parts are told apart, and from those with an empty one.
        """
        raw = {"role": role, **parts}

        assert "" == one(raw).content
        assert goes_back({"contents": [raw]})

    def test_no_event(self):
        """
        A content is one, whatever else it says.
        """
        raw = asked({"text": "a"}, error="b", candidates=[])

        assert "a" == one(raw).text
        assert goes_back({"contents": [raw]})

    def test_unknown_role(self):
        """
        Who speaks in another role is kept as he is.
        """
        raw = {"role": "system", "parts": [{"text": "hi"}]}

        assert UnknownMessage(raw, source="gemini") == one(raw)
        assert goes_back({"contents": [raw]})

    def test_a_list(self):
        """
        The contents alone will do.
        """
        assert (UserMessage("hi"),) == load([asked({"text": "hi"})])


class TestParts:
    """
    What is said in no word of ours is kept beside those.
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
    )
    @pytest.mark.parametrize("content", [asked, said])
    def test_unknown(self, content, raw):
        """
        A part of another kind, or of several, is kept as it is.
        """
        document = [content({"text": "a"}, raw, {"text": "b"})]

        (message,) = load(document)

        assert UnknownPart(raw, source="gemini") == message.parts[1]
        assert goes_back({"contents": document})

    def test_an_empty_text_beside(self):
        """
        An empty text beside something else says nothing.
        """
        raw = {"text": "", **media("image/png")}

        assert (
            ImagePart(data=PNG, media_type="image/png")
            == bare(one(asked(raw))).parts[0]
        )
        assert goes_back({"contents": [asked(raw)]})

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
    )
    @pytest.mark.parametrize("raw", [{"text": "a"}, media("video/mp4")])
    def test_beside(self, raw, extra):
        """
        What stands beside a part is kept with it.
        """
        (message,) = several([asked({**raw, **extra})])

        (key,) = extra
        assert key in notes(message.parts[0])["keys"]
        assert goes_back({"contents": [asked({**raw, **extra})]})

    @pytest.mark.parametrize(
        "text",
        [
            "iVBORw0KGgr__g==",
            "iVBORw0KGgr//g",
            "iVBO\nRw0KGgr//g==",
            "iVBORw0KGgr_/g==",
        ],
    )
    def test_base64(self, text):
        """
        Base64 of either alphabet is read, and written as it came.
        """
        raw = asked(media("image/png", text))

        assert PNG == one(raw).parts[0].data
        assert goes_back({"contents": [raw]})

    def test_base64_of_either_alphabet_is_noted_shortly(self):
        """
        How content was written takes no second copy of it.
        """
        (part,) = one(asked(media("image/png", "iVBORw0KGgr__g=="))).parts

        assert {"base64": "urlsafe"} == notes(part)

    def test_names(self):
        """
        A file's name is a field, and goes back.
        """
        raw = asked(media("a/b"))
        raw["parts"][0]["inlineData"]["displayName"] = "a.pdf"

        assert "a.pdf" == one(raw).parts[0].name
        assert goes_back({"contents": [raw]})

    def test_signature_of_a_thought(self):
        """
        A thought's signature is a field, and whose it is, is noted.
        """
        raw = said({"text": "hm", "thought": True, "thoughtSignature": "c2ln+_"})

        (part,) = one(raw).parts

        assert ("hm", "c2ln+_") == (part.text, part.signature)
        assert {"signed": True} == notes(part)
        assert goes_back({"contents": [raw]})

    def test_thought_without_text(self):
        """
        A thought may be nothing but its signature.
        """
        raw = said({"thought": True, "thoughtSignature": "c2ln"})

        assert ReasoningPart("", "c2ln") == bare(one(raw)).parts[0]
        assert goes_back({"contents": [raw]})

    def test_no_thoughts_of_users(self):
        """
        A user's thought is a text like others.
        """
        raw = asked({"text": "hm", "thought": True})

        assert "hm" == one(raw).text
        assert goes_back({"contents": [raw]})

    def test_places(self):
        """
        Parts and calls have their place if the calls are not the last.
        """
        raw = said(call(id="c1"), {"text": "a"}, call(id="c2", signature=""))

        message = one(raw)

        assert [1] == [part.index for part in message.parts]
        assert [0, 2] == [each.index for each in message.tool_calls]
        assert goes_back({"contents": [raw]})

    def test_no_places(self):
        """
        Else they have none.
        """
        message = one(said({"text": "a"}, call(id="c1")))

        assert "a" == message.content
        assert message.tool_calls[0].index is None

    def test_an_empty_text_before_a_call(self):
        """
        It stays.
        """
        raw = said({"text": ""}, call())

        assert (TextPart(""),) == one(raw).content
        assert goes_back({"contents": [raw]})

    def test_snake_case(self):
        """
        The other spelling is taken, and written back.
        """
        document = {
            "system_instruction": {"parts": [{"text": "a"}]},
            "contents": [
                asked({"inline_data": {"mime_type": "image/png", "data": PNG_TEXT}}),
                asked({"file_data": {"mime_type": "image/png", "file_uri": "gs://a"}}),
                said(
                    {"text": "b", "thought": True, "thought_signature": "c2ln"},
                    {
                        "function_call": {"name": "f", "args": {"a": 1}},
                        "thought_signature": "c2ln",
                    },
                ),
                asked({"function_response": {"name": "f", "response": {"output": ""}}}),
            ],
        }

        system, by_value, by_url, answer, tool = several(document)

        assert "a" == system.text
        assert ImagePart(data=PNG, media_type="image/png") == bare(by_value).parts[0]
        assert ImagePart(url="gs://a", media_type="image/png") == bare(by_url).parts[0]
        assert ReasoningPart("b", "c2ln") == bare(answer).parts[0]
        assert '{"a":1}' == answer.tool_calls[0].arguments
        assert answer.tool_calls[0].id == tool.tool_call_id
        assert goes_back(document)

    def test_spellings_mixed(self):
        """
        Each key is spelt as it was.
        """
        raw = {"inlineData": {"mime_type": "image/png", "data": PNG_TEXT}}

        assert goes_back({"contents": [asked(raw)]})

    def test_nulls(self):
        """
        What a SDK says by null is nothing, and comes back.
        """
        raw = {
            "text": "a",
            "inline_data": None,
            "function_call": None,
            "thought": None,
            "thought_signature": None,
        }

        assert "a" == one(said(raw)).text
        assert goes_back({"contents": [said(raw)]})


class TestCalls:
    """
    Calls have ids, and results have the id of their call.
    """

    def test_arguments(self):
        """
        Arguments are the text of the object, in its order.
        """
        args = {"z": [1, 2.5, None, True], "a": {"ü": "\n"}}

        (found,) = one(said(call(args=args))).tool_calls

        assert '{"z":[1,2.5,null,true],"a":{"ü":"\\n"}}' == found.arguments

    def test_made_ids(self):
        """
        A call without an id has one made of its place, and none again.
        """
        document = {"contents": [asked({"text": "a"}), said(call(), call("g"))]}

        _, message = several(document)

        ids = [each.id for each in message.tool_calls]
        assert ["content_1_call_0", "content_1_call_1"] == ids
        assert goes_back(document)

    def test_pairs_by_name_and_order(self):
        """
        Results without ids answer the calls of their name, in order.
        """
        document = {
            "contents": [
                said(call("f"), call("g", signature=""), call("f", signature="")),
                asked(result("f", "1"), result("f", "2"), result("g", "3")),
            ]
        }

        message, *results = several(document)

        ids = [each.id for each in message.tool_calls]
        assert [ids[0], ids[2], ids[1]] == [each.tool_call_id for each in results]
        assert ["1", "2", "3"] == [each.text for each in results]
        assert goes_back(document)

    def test_pairs_across_contents(self):
        """
        Calls in several contents are open together.
        """
        document = {
            "contents": [
                said(call("f")),
                said(call("g")),
                asked(result("f", "1")),
                asked(result("g", "2")),
            ]
        }

        first, second, *results = several(document)

        ids = [first.tool_calls[0].id, second.tool_calls[0].id]
        assert ids == [each.tool_call_id for each in results]
        assert goes_back(document)

    def test_answers_the_latest(self):
        """
        A call that got no result gets none of a later one.
        """
        document = [
            said(call("f"), call("f")),
            asked(result("f", "1")),
            said(call("f")),
            asked(result("f", "2")),
        ]

        *_, last, tool = several(document)

        assert last.tool_calls[0].id == tool.tool_call_id

    def test_pairs_by_id(self):
        """
        An id says more than a name.
        """
        document = [
            said(call("f", id="a"), call("f", id="b")),
            asked(result("f", "1", id="b"), result("f", "2", id="a")),
        ]

        _, *results = several(document)

        assert ["b", "a"] == [each.tool_call_id for each in results]

    def test_an_id_only_the_result_has(self):
        """
        An id that no call has is of the call of that name without one.
        """
        document = {
            "contents": [
                said(call("f", id="a"), call("f", signature="")),
                asked(result("f", id="x"), result("f", id="a"), result("f", id="y")),
            ]
        }

        message, first, second, third = several(document)

        assert message.tool_calls[1].id == first.tool_call_id
        assert ["a", "y"] == [second.tool_call_id, third.tool_call_id]
        assert goes_back(document)

    def test_an_id_only_the_call_has(self):
        """
        A result without an id answers a call with one.
        """
        document = {"contents": [said(call("f", id="a")), asked(result("f"))]}

        _, tool = several(document)

        assert "a" == tool.tool_call_id
        assert goes_back(document)

    def test_another_name(self):
        """
        A result of no call's name answers the first one.
        """
        message, tool = several([said(call("f"), call("g")), asked(result("h"))])

        assert message.tool_calls[0].id == tool.tool_call_id

    @pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}])
    @pytest.mark.parametrize("role", [{}, {"role": "user"}])
    def test_results_without_names(self, name, role):
        """
        A result that does not say its name is sent back without.
        """
        raw = {"functionResponse": {**name, "response": {"output": "a"}}}
        document = {"contents": [said(call("f")), {**role, "parts": [raw, raw]}]}

        message, tool, _ = several(document)

        assert (message.tool_calls[0].id, "") == (tool.tool_call_id, tool.tool_name)
        assert goes_back(document)

    def test_no_call(self):
        """
        A result of no call has an id of its own.
        """
        first, second = several([asked(result(), result())])

        assert "content_0_result_0" == first.tool_call_id
        assert "content_0_result_1" == second.tool_call_id

    def test_answered_by_id(self):
        """
        A call that was answered by its id is not answered by its name.
        """
        document = [
            said(call("f", id="a"), call("f", id="b")),
            asked(result("f", id="a"), result("f")),
        ]

        _, *results = several(document)

        assert ["a", "b"] == [each.tool_call_id for each in results]

    def test_once_more(self):
        """
        A call may be answered again by its id.
        """
        document = {
            "contents": [
                said(call("f", id="a"), call("f", signature="")),
                asked(result("f", id="a"), result("f", id="a")),
            ]
        }

        _, *results = several(document)

        assert ["a", "a"] == [each.tool_call_id for each in results]
        assert goes_back(document)

    def test_placeholder(self):
        """
        The word for a missing signature is not a signature.
        """
        raw = said(call(id="a", signature=SKIP), call(id="b", signature=""))

        message = one(raw)

        assert [{}, {}] == [notes(each) for each in message.tool_calls]
        assert goes_back({"contents": [raw]})

    def test_unsigned(self):
        """
        Calls that were unsigned stay so.
        """
        raw = said(call(id="a", signature=""), call(id="b", signature=SKIP))

        assert goes_back({"contents": [raw]})

    def test_many_calls(self):
        """
        Thousands of calls at once find their results.
        """
        count = 5_000
        document = [
            said(*[call(f"f{at % 2}") for at in range(count)]),
            asked(*[result(f"f{at % 2}", str(at)) for at in range(count)]),
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
        ("response", "text", "is_error"),
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
    def test_responses(self, response, text, is_error):
        """
        A text that stands alone is the text; of all else it is the JSON.
        """
        raw = asked(result(id="a", response=response))

        message = one(raw)

        assert (text, is_error) == (message.content, message.is_error)
        assert goes_back({"contents": [raw]})

    @pytest.mark.parametrize("body", [{}, {"response": None}, {"response": {}}])
    def test_nothing(self, body):
        """
        Nothing is nothing, in each of its forms.
        """
        raw = asked({"functionResponse": {"name": "f", "id": "a", **body}})

        assert () == one(raw).content
        assert goes_back({"contents": [raw]})

    def test_media(self):
        """
        Media that a function returned are parts beside its text.
        """
        parts = [
            media("image/png"),
            {"fileData": {"fileUri": "gs://a", "mimeType": "video/mp4"}},
            {"text": "a"},
        ]
        raw = asked(result(id="a", parts=parts))

        message = bare(one(raw))

        assert message.parts == (
            TextPart("ok"),
            ImagePart(data=PNG, media_type="image/png"),
            VideoPart(url="gs://a", media_type="video/mp4"),
            UnknownPart({"text": "a"}, source="gemini"),
        )
        assert goes_back({"contents": [raw]})

    def test_among_others(self):
        """
        Results and what a user says in one content are messages of their own.
        """
        raw = asked(
            {"text": "a"}, result(id="a"), {"text": "b"}, result(id="b"), keys=1
        )

        before, first, between, second = several([raw])

        assert ["a", "b"] == [before.text, between.text]
        assert ["a", "b"] == [first.tool_call_id, second.tool_call_id]
        assert goes_back({"contents": [raw, raw]})

    def test_first_of_a_content(self):
        """
        What is said of the content is kept with the first result in it.
        """
        raw = {"role": "function", "parts": [result(id="a"), result(id="b")], "c": 1}

        assert {"role": "function", "content": {"c": 1}} == notes(several([raw])[0])
        assert goes_back({"contents": [raw, raw]})

    def test_apart(self):
        """
        Results in contents of their own stay there.
        """
        document = {
            "contents": [
                asked(result(id="a"), result(id="b")),
                asked(result(id="c")),
            ]
        }

        assert [{}, {}, {"apart": True}] == [notes(each) for each in load(document)]
        assert goes_back(document)

    def test_beside(self):
        """
        What stands beside a result is kept.
        """
        raw = {**result(id="a", scheduling="SILENT"), "thoughtSignature": "c2ln"}

        assert goes_back({"contents": [asked(raw)]})


class TestMends:
    """
    Half of a surrogate pair is mended, and where is told.
    """

    @pytest.mark.parametrize(
        ("document", "where"),
        [
            ([asked({"text": "a\ud800"})], "parts[0].text"),
            ([said({"text": "\udfff", "thought": True})], "parts[0].text"),
            (
                [said({"text": "a"}, call(args={"a": "\ud800"}))],
                "parts[1].functionCall.args.a",
            ),
            (
                [asked({"text": "a"}, result(id="a", output="\ud800"))],
                "parts[1].functionResponse.response.output",
            ),
            ([asked({"text": "a", "keys": "\ud800"})], "parts[0].keys"),
        ],
    )
    def test_where(self, document, where):
        """
        The path is noted, and listed when the message is sent.
        """
        *_, message = several(document)

        export = dump([message])

        assert (where,) == notes(message)["mended"]
        assert [where] == [lost.what for lost in export.lost]
        assert "\ufffd" in json.dumps(export.payload, ensure_ascii=False)

    @pytest.mark.parametrize("told", ["\ud800", {"parts": [{"text": "\ud800"}]}])
    def test_instruction(self, told):
        """
        In an instruction, too.
        """
        (message,) = several({"systemInstruction": told, "contents": []})

        assert "\ufffd" == message.text
        assert 1 == len(dump([message]).lost)

    def test_pairs(self):
        """
        Both halves are joined, which harms nothing.
        """
        message = one(asked({"text": "\ud83d\ude00"}))

        assert UserMessage("😀") == bare(message)


class TestRefuses:
    """
    What the format does not have in its place is told, with its path.
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
            ([asked(3)], "$[0].parts[0]"),
            ([{"role": "user", "parts": {}}], "$[0].parts"),
            ([asked({"text": 3})], "$[0].parts[0].text"),
            ([asked({"inlineData": "a"})], "$[0].parts[0].inlineData"),
            ([asked({"inlineData": {"data": 3}})], "$[0].parts[0].inlineData.data"),
            ([asked(media(3))], "$[0].parts[0].inlineData.mimeType"),
            ([asked({"fileData": {"fileUri": 3}})], "$[0].parts[0].fileData.fileUri"),
            ([said({"functionCall": 3})], "$[0].parts[0].functionCall"),
            ([said(call(args=[]))], "$[0].parts[0].functionCall.args"),
            ([said(call(name=3))], "$[0].parts[0].functionCall.name"),
            ([said(call(args={"a": 2**64}))], "$[0].parts[0].functionCall.args.a"),
            ([asked(result(response="a"))], "$[0].parts[0].functionResponse.response"),
            ([asked(result(parts=3))], "$[0].parts[0].functionResponse.parts"),
            ([asked(result(parts=[3]))], "$[0].parts[0].functionResponse.parts[0]"),
            ([asked(result(id=3))], "$[0].parts[0].functionResponse.id"),
            ([{"candidates": []}], "$[0]"),
            ([{"error": {"message": "a"}}], "$[0]"),
            ({"error": {"message": "overloaded"}}, "$.error"),
        ],
    )
    def test_where(self, document, path):
        """
        One thing wrong is one problem.
        """
        with pytest.raises(DecodeError) as refused:
            load(document)

        assert [path] == [problem.path for problem in refused.value.problems]

    def test_the_words_of_the_provider(self):
        """
        Why there is no response is told.
        """
        with pytest.raises(DecodeError, match="overloaded"):
            load({"error": {"code": 503, "message": "overloaded"}})

    def test_an_event(self):
        """
        An event of a stream says who takes it.
        """
        with pytest.raises(DecodeError, match="load_chunks"):
            load([{"candidates": [{"content": said({"text": "a"})}]}])

    def test_all_of_it(self):
        """
        All that is wrong is told at once.
        """
        with pytest.raises(DecodeError) as refused:
            load([asked({"text": 3}), said(call(args=3), 3), asked(result(parts=[3]))])

        assert 4 == len(refused.value.problems)
