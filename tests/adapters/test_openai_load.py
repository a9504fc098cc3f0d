"""From Chat Completions and Responses to messages."""

import json
import re
from textwrap import dedent

import pytest

from conversation_state.adapters import openai_chat, openai_responses
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
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses
from tests.adapters.contract import as_json, bare, problem_paths
from tests.adapters.kept import without_notes
from tests.adapters.openai_chat import PNG, PNG_URL, answer
from tests.adapters.openai_formats import FORMATS
from tests.adapters.openai_responses import message, notes, result, text, thought
from tests.adapters.pieces import as_is

openai_chat, openai_responses = as_is(openai_chat), as_is(openai_responses)

CHAT, RESPONSES = FORMATS["chat"], FORMATS["responses"]
URL = "https://a.b/c"
PICTURE = ImagePart(data=PNG, media_type="image/png")
PDF_URL = "data:application/pdf;base64,JVBERg=="
PDF = FilePart(data=b"%PDF", media_type="application/pdf", name="a.pdf")
MP3 = AudioPart(data=b"ID3", media_type="audio/mpeg")


def user(*content):
    """A user's message of blocks."""
    return {"role": "user", "content": list(content)}


def load_one(form, raws):
    """The message of *raws*, which are written as they were, and nothing is lost."""
    (loaded,) = form.adapter.load(raws)
    export = as_is(form.adapter).dump([loaded])

    assert as_json({form.key: raws}) == as_json(export.payload)
    assert () == export.lost
    return loaded


def chat_image(url, **fields):
    """A block of Chat Completions with an image."""
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def sound(data, **fields):
    """A block with sound."""
    return {"type": "input_audio", "input_audio": {"data": data, **fields}}


def chat_file(data, **fields):
    """A block of Chat Completions with a file."""
    return {"type": "file", "file": {"file_data": data, **fields}}


def image(url, **fields):
    """A block of Responses with an image."""
    return {"type": "input_image", "image_url": url, **fields}


def file(**fields):
    """A block of Responses with a file."""
    return {"type": "input_file", **fields}


CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
CUSTOM_ITEM = {
    "type": "custom_tool_call",
    "call_id": "c1",
    "name": "run",
    "input": "ls",
}
RUN = ToolCall("c1", "run", "ls", type="custom")
THINKING = {
    "type": "thinking",
    "thinking": [{"type": "text", "text": text} for text in ("h", "", "m")],
    "closed": True,
}
# Mistral's example of thoughts can't be in a system message of ours.
SYSTEM = {
    "role": "developer",
    "content": [THINKING, {"type": "text", "text": "a"}],
    "name": None,
}
SYSTEM_ITEM = {"role": "developer", "content": [{"type": "input_text", "text": "a"}]}
SYSTEM_ITEM["content"].append({"type": "input_file"})  # type: ignore[attr-defined]

USUAL = [
    (CHAT, {"role": "system", "content": "Be brief."}, SystemMessage("Be brief.")),
    (
        CHAT,
        {"role": "user", "content": "hi", "name": "ann"},
        UserMessage("hi", name="ann"),
    ),
    (CHAT, user({"type": "text", "text": "hi"}), UserMessage([TextPart("hi")])),
    (
        CHAT,
        answer(content=None, tool_calls=[chat.call()]),
        AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
    ),
    (
        CHAT,
        answer(content=None, refusal="I won't."),
        AssistantMessage([RefusalPart("I won't.")]),
    ),
    (
        CHAT,
        answer(
            content=[
                {"type": "text", "text": "No."},
                {"type": "refusal", "refusal": "I won't."},
            ]
        ),
        AssistantMessage([TextPart("No."), RefusalPart("I won't.")]),
    ),
    (
        CHAT,
        answer(content=None, tool_calls=[CUSTOM]),
        AssistantMessage(tool_calls=[RUN]),
    ),
    (
        CHAT,
        answer(content=None, tool_calls=[chat.call(name="", type="mcp")]),
        AssistantMessage(tool_calls=[ToolCall("c1", "", "{}", type="mcp")]),
    ),
    (
        CHAT,
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "12"},
        ToolMessage("12", tool_call_id="c1", tool_name="f"),
    ),
    (CHAT, SYSTEM, UnknownMessage(SYSTEM, source="openai_chat")),
    (RESPONSES, {"role": "user", "content": "hi"}, UserMessage("hi")),
    (
        RESPONSES,
        user({"type": "input_text", "text": "hi"}),
        UserMessage([TextPart("hi")]),
    ),
    (RESPONSES, {"role": "assistant", "content": "hi"}, AssistantMessage("hi")),
    (
        RESPONSES,
        responses.call(),
        AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}", index=0)]),
    ),
    (
        RESPONSES,
        CUSTOM_ITEM,
        AssistantMessage(
            tool_calls=[ToolCall("c1", "run", "ls", index=0, type="custom")]
        ),
    ),
    (RESPONSES, result(), ToolMessage("12", tool_call_id="c1")),
    (
        RESPONSES,
        result([image(PNG_URL)]),
        ToolMessage([PICTURE], tool_call_id="c1"),
    ),
    (RESPONSES, SYSTEM_ITEM, UnknownMessage(SYSTEM_ITEM, source="openai_responses")),
]

MEDIA = [
    (CHAT, chat_image(URL, detail="low"), ImagePart(url=URL, detail="low")),
    (CHAT, chat_image(PNG_URL), PICTURE),
    (
        CHAT,
        sound("UklGRg==", format="wav"),
        AudioPart(data=b"RIFF", media_type="audio/wav"),
    ),
    (CHAT, sound("SUQz", format="mp3"), MP3),
    (CHAT, chat_file(PDF_URL, filename="a.pdf"), PDF),
    (CHAT, chat_file("JVBERg=="), FilePart(data=b"%PDF")),
    (RESPONSES, image(URL, detail="low"), ImagePart(url=URL, detail="low")),
    (RESPONSES, image(PNG_URL), PICTURE),
    (RESPONSES, file(file_data=PDF_URL, filename="a.pdf"), PDF),
    (RESPONSES, file(file_url=URL), FilePart(url=URL)),
    *[
        (CHAT, block, UnknownPart(block, source="openai_chat"))
        for block in [
            {"type": "hologram", "hologram": {"of": "you"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            sound("?", format="wav"),
            {"type": "refusal", "refusal": "a user's"},
        ]
    ],
    *[
        (RESPONSES, block, UnknownPart(block, source="openai_responses"))
        for block in [
            {"type": "hologram", "of": "you"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            file(file_data=URL),
            file(file_data="JVBERg==", file_url=URL),
            sound("SUQz", format="mp3"),
            {"type": "refusal", "refusal": "a user's"},
        ]
    ],
]


class TestLoad:
    """What our model can represent is in its fields."""

    @pytest.mark.parametrize(("form", "raw", "expected"), USUAL)
    def test_usual(self, form, raw, expected):
        """
        What everybody sends needs no notes, and is written as it was; what our model
        can't represent is kept as it is.
        """
        assert expected == load_one(form, [raw])
        assert {form.key: [raw]} == as_is(form.adapter).dump([expected]).payload

    @pytest.mark.parametrize(("form", "block", "part"), MEDIA)
    def test_media(self, form, block, part):
        """
        Media are bytes where bytes were sent, without notes; what can't be read is
        kept as it is.
        """
        assert UserMessage([part]) == load_one(form, [user(block)])
        assert [user(block)] == as_is(form.adapter).dump([UserMessage([part])]).payload[
            form.key
        ]

    @pytest.mark.parametrize(
        ("form", "block", "part"),
        [
            (CHAT, {"type": "image_url", "image_url": PNG_URL}, PICTURE),
            (
                CHAT,
                chat_image("data:image/png,%89"),
                ImagePart(url="data:image/png,%89"),
            ),
            (
                CHAT,
                {"type": "video_url", "video_url": {"url": URL}},
                VideoPart(url=URL),
            ),
            (
                CHAT,
                {"type": "document_url", "document_url": URL, "document_name": "c.pdf"},
                FilePart(url=URL, name="c.pdf"),
            ),
            (CHAT, chat_file(URL), FilePart(url=URL)),
            (
                CHAT,
                {"type": "input_audio", "input_audio": "SUQz"},
                AudioPart(data=b"ID3"),
            ),
            (CHAT, sound("data:;base64,SUQz", format="mp3"), MP3),
            (
                CHAT,
                {"type": "input_audio", "input_audio": "data:audio/mpeg;base64,SUQz"},
                MP3,
            ),
            (RESPONSES, image(PNG_URL, file_id=None), PICTURE),
            (RESPONSES, {"type": "output_text", "text": "hi"}, TextPart("hi")),
        ],
    )
    def test_unusual_blocks(self, form, block, part):
        """
        So are those in a dialect's block, and texts of another role; they are written
        as they were.
        """
        (found,) = load_one(form, [user(block)]).parts

        assert part == without_notes(found)

    @pytest.mark.parametrize(
        ("form", "block", "usual"),
        [
            (CHAT, chat_image(PNG_URL.rstrip("=")), chat_image(PNG_URL)),
            (CHAT, sound("SU\nQz", format="mpeg"), sound("SUQz", format="mp3")),
            (CHAT, sound("UklGRg==", format="x-wav"), sound("UklGRg==", format="wav")),
            (RESPONSES, file(file_data="JVBE\nRg=="), file(file_data="JVBERg==")),
        ],
    )
    def test_base64(self, form, block, usual):
        """
        Bytes in unusual base64, and in a format with an unusual name, are written as
        usual.
        """
        export = as_is(form.adapter).dump(form.adapter.load([user(block)]))

        assert {form.key: [user(usual)]} == export.payload
        assert () == export.lost

    @pytest.mark.parametrize(
        ("raw", "reasoning"),
        [
            (answer(content="hi", reasoning_content="hm"), "hm"),
            (answer(content=None, reasoning="hm", tool_calls=[chat.call()]), "hm"),
            (answer(content="hi", reasoning="hm", reasoning_content="hm"), "hm"),
            (answer(content="hi", reasoning="b", reasoning_content="a"), "ab"),
            (answer(content=[THINKING, {"type": "text", "text": "hi"}]), "hm"),
        ],
    )
    def test_reasoning_of_dialects(self, raw, reasoning):
        """Reasoning of each dialect is reasoning, and goes back in that dialect."""
        found = load_one(CHAT, [raw])

        assert reasoning == found.reasoning
        assert isinstance(found.parts[0], ReasoningPart)

    def test_call_without_type(self):
        """A call without a type is a function's, and says so when it is sent."""
        call = chat.call()
        raws = [answer(content=None, tool_calls=[{**call, "type": None}])]
        export = openai_chat.dump(openai_chat.load(raws))

        assert [answer(content=None, tool_calls=[call])] == export.payload["messages"]

    def test_instructions(self):
        """Are a system message in front, and no item; an input may be a text."""
        payload = {"instructions": "Be brief.", "input": []}

        assert (SystemMessage("Be brief."),) == openai_responses.load(payload)
        assert payload == openai_responses.dump(openai_responses.load(payload)).payload
        assert (UserMessage("hi"),) == openai_responses.load(
            {"input": "hi", "instructions": None}
        )

    @pytest.mark.parametrize("role", ["system", "developer"])
    def test_system_items(self, role):
        """A system message that is an item stays one, under its own role."""
        found = load_one(RESPONSES, [{"role": role, "content": "Be brief."}])

        assert SystemMessage("Be brief.") == bare(found)

    @pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00", "\ufffd")],
    )
    def test_mends_text(self, form, wrong, right):
        """
        Halves of surrogate pairs are joined or replaced, noted, and listed as
        lost when the message is sent.
        """
        raws = [
            answer(
                content=[{"type": "text", "text": wrong}],
                tool_calls=[chat.call(name=wrong)],
                extra={"a": [wrong]},
            )
        ]
        expected = ["content[0].text", "extra.a[0]", "tool_calls[0].function.name"]
        if form is RESPONSES:
            raws = [message(wrong, extra={"a": [wrong]}), responses.call(name=wrong)]
            expected = ["[0].content[0].text", "[0].extra.a[0]", "[1].name"]

        (found,) = form.adapter.load(raws)
        export = as_is(form.adapter).dump([found])

        assert right == found.text == found.tool_calls[0].name
        assert expected == sorted(lost.what for lost in export.lost)
        assert json.dumps(right) in json.dumps(export.payload)

    def test_mends_instructions(self):
        """Each message of Responses notes its own texts."""
        payload = {"instructions": "\ud800", "input": [user(), thought("\ud800")]}
        system, _, answered = openai_responses.load(payload)

        assert ["instructions"] == list(notes(system)["mended"])
        assert ["input[1].summary[0].text"] == list(notes(answered)["mended"])

    def test_results_of_unnamed_calls(self):
        """
        A result with the id of its call is paired with that, and the call is done.
        """
        raws = [
            answer(content=None, tool_calls=[chat.call(id="a"), chat.call(id="b")]),
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "content": "2"},
        ]

        _, first, second = chat.several(raws)

        assert ("a", "b") == (first.tool_call_id, second.tool_call_id)

    def test_names_of_results(self):
        """A result has the name of the tool that was called, or its own."""
        others = [result(), result(call_id="c2"), result(call_id="c3", name="g")]
        raws = [responses.call(), *others]

        _, *results = responses.several(raws)

        assert ["f", "", "g"] == [each.tool_name for each in results]
        assert {"input": raws} == openai_responses.dump(responses.several(raws)).payload

    def test_custom_results(self):
        """The result of a custom tool stays one, also without its call."""
        raw = result(type="custom_tool_call_output")

        for raws in ([raw], [CUSTOM_ITEM, raw], [responses.call(), raw]):
            loaded = openai_responses.load(raws)
            assert ToolMessage("12", tool_call_id="c1") == bare(loaded[-1]).replace(
                tool_name=""
            )
            assert {"input": raws} == openai_responses.dump(loaded).payload

    def test_calls_without_ids(self):
        """Get one, each another, which is sent."""
        raws = [responses.call(call_id=""), responses.call(call_id=None)]

        (found,) = RESPONSES.adapter.load(raws)
        export = RESPONSES.adapter.dump([found])

        ids = [each.id for each in found.tool_calls]
        assert 2 == len({*ids} - {""})
        assert ids == [each["call_id"] for each in export.payload["input"]]

    @pytest.mark.parametrize("arguments", [' {"a" :\n1.0}\t', '{"a', "", "é\u2028"])
    def test_arguments(self, arguments):
        """Arguments are the text the model wrote, valid or not."""
        found = load_one(RESPONSES, [responses.call(arguments=arguments)])

        assert arguments == found.tool_calls[0].arguments


class TestItems:
    """The items of Responses that an answer is made of."""

    def test_message(self):
        """
        A message's texts and refusals are parts; the item is noted once, with
        its last part.
        """
        cited = [{"type": "url_citation", "url": "https://a.b", "start_index": 0}]
        refused = {"type": "refusal", "refusal": "no"}
        raw = message(text("hi", annotations=cited), refused, phase="final_answer")

        first, last = load_one(RESPONSES, [raw]).parts

        assert TextPart("hi", index=0) == without_notes(first)
        assert RefusalPart("no", index=1) == without_notes(last)
        assert cited == [dict(each) for each in notes(first)["keys"]["annotations"]]
        assert "final_answer" == notes(last)["item"]["phase"]
        assert "item" not in notes(first)

    def test_thought(self):
        """Each text of a thought is a part; the last one is signed."""
        content = [{"type": "reasoning_text", "text": "x"}]
        raw = thought("Hm.", "Aha!", content=content, encrypted_content="gA+/=")
        found = load_one(RESPONSES, [{**raw, "status": None}, responses.call()])

        assert ["Hm.", "Aha!", "x"] == [part.text for part in found.parts]
        assert ["", "", "gA+/="] == [part.signature for part in found.parts]
        assert [0, 1, 2, 3] == [
            each.index for each in (*found.parts, *found.tool_calls)
        ]

    @pytest.mark.parametrize(
        "raw",
        [
            thought(encrypted_content="x"),
            thought(content=[], encrypted_content=""),
            thought("", ""),
            {"type": "reasoning", "encrypted_content": "x"},
            thought(content=[{"type": "summary_text", "text": "a"}]),
            thought(summary=None, content=[{"type": "reasoning_text", "text": "a"}]),
            thought(summary=[{"type": "summary_text", "text": "a", "x": 1}]),
            thought(
                summary=[{"type": "summary_text", "text": "a"}, {"type": "hidden"}],
                encrypted_content="x",
            ),
        ],
        ids=as_json,
    )
    def test_thoughts_as_they_were(self, raw):
        """
        Missing, null and "" are distinguished in a thought, too, and its signature is
        in one of its parts.
        """
        found = load_one(RESPONSES, [raw, responses.call()])

        thoughts = [part for part in found.parts if isinstance(part, ReasoningPart)]
        signed = [part.signature for part in thoughts if part.signature]
        given = raw.get("encrypted_content")
        assert thoughts
        assert ([given] if given else []) == signed

    @pytest.mark.parametrize(
        "raw",
        [
            thought(summary=[{"type": "hidden"}]),
            thought(summary="a"),
            thought("a", encrypted_content={"a": 1}),
        ],
        ids=as_json,
    )
    def test_thoughts_of_another_kind(self, raw):
        """A thought that is not text is kept as it is."""
        found = load_one(RESPONSES, [raw, responses.call()])

        assert "unknown" == found.parts[0].kind

    @pytest.mark.parametrize(
        "raw",
        [
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA+/="},
            {"type": "hologram", "of": "you"},
        ],
        ids=lambda raw: raw["type"],
    )
    def test_built_in(self, raw):
        """What a provider's own tools did is kept in its place."""
        raws = [thought("Hm."), raw, message("hi"), responses.call(id="fc_1")]

        found = load_one(RESPONSES, raws)

        assert UnknownPart(raw, source="openai_responses", index=1) == found.parts[1]

    @pytest.mark.parametrize(
        "raw",
        [
            {"type": "computer_call_output", "call_id": "c2", "output": {}},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "function_call_output", "call_id": None, "output": "12"},
            {"type": "message", "role": "critic", "content": "bad"},
        ],
        ids=as_json,
    )
    def test_of_the_caller(self, raw):
        """
        So is an item of the caller's that our model can't represent: it separates the
        model's messages before and after it.
        """
        raws = [message("a"), raw, message("b")]

        before, loaded, after = responses.several(raws)

        assert UnknownMessage(raw, source="openai_responses") == loaded
        assert ("a", "b") == (before.text, after.text)
        assert {"input": raws} == openai_responses.dump([before, loaded, after]).payload

    @pytest.mark.parametrize(
        ("raws", "expected"),
        [
            (
                [thought("a"), responses.call(), responses.call("g"), result()],
                [("assistant", ["reasoning", "f", "g"]), ("tool", ["text"])],
            ),
            (
                [{"role": "assistant", "content": ""}, responses.call()],
                [("assistant", ["text", "f"])],
            ),
            (
                [{"role": "assistant", "content": one} for one in "ab"],
                [("assistant", ["text"]), ("assistant", ["text"])],
            ),
            (
                [message("a", phase="commentary"), message("b", phase="final_answer")],
                [("assistant", ["text", "text"])],
            ),
            (
                [message("a", phase="final_answer"), thought("b"), message("c")],
                [("assistant", ["text"]), ("assistant", ["reasoning", "text"])],
            ),
            (
                [message("a"), {"type": "web_search_call"}, message("b")],
                [("assistant", ["text", "unknown", "text"])],
            ),
            (
                [message("a"), {"role": "user", "content": "b"}, message("c")],
                [("assistant", ["text"]), ("user", ["text"]), ("assistant", ["text"])],
            ),
            (
                [
                    {"id": "rs_1"},
                    responses.call(),
                    {"type": "item_reference", "id": "x"},
                ],
                [("unknown", []), ("assistant", ["unknown", "f"])],
            ),
        ],
    )
    def test_from_one_response(self, raws, expected):
        """
        Items of the model with no other role in between are one message, except for
        messages that follow messages; in any case they come back in order.
        """
        loaded = responses.several(raws)

        assert expected == [
            (
                each.role,
                [part.kind for part in each.parts]
                + [call.name for call in each.tool_calls],
            )
            for each in loaded
        ]
        assert {"input": raws} == openai_responses.dump(loaded).payload


ROLES = "expected assistant, developer, function, system, tool, user"

# Messages and items, and all that is wrong with them.
WRONG = [
    (CHAT, {"content": "hi"}, f".role: is missing; {ROLES}"),
    (
        CHAT,
        {"role": "user", "content": 3, "name": [], "x": float("nan")},
        """
    .x: is nan, which can't be kept as JSON
    .content: is 3; expected a text, a list of parts or null
    .name: is a list; expected a text
    """,
    ),
    (
        CHAT,
        user(
            {"type": "image_url", "image_url": 3},
            {"type": "image_url", "image_url": {"url": False}},
            {"type": "input_audio"},
            chat_file(1, filename=2),
            {"type": "file", "file": 3},
        ),
        """
    .content[0].image_url: is 3; expected an object or a text
    .content[1].image_url.url: is false; expected a text
    .content[2].input_audio: is missing; expected an object or a text
    .content[3].file.file_data: is 1; expected a text
    .content[3].file.filename: is 2; expected a text
    .content[4].file: is 3; expected an object or a text
    """,
    ),
    (
        CHAT,
        answer(tool_calls={"a": 1}, refusal={}, function_call="f"),
        """
    .tool_calls: is an object; expected a list or null
    .function_call: is 'f'; expected an object or null
    .refusal: is an object; expected a text
    """,
    ),
    (
        CHAT,
        answer(
            tool_calls=[
                3,
                {"id": 1, "function": {"name": None, "arguments": []}},
                {"type": "custom", "custom": []},
                {"type": 3, "function": {}},
                chat.call(extra=float("inf")),
            ]
        ),
        """
    .tool_calls[0]: is 3; expected an object
    .tool_calls[1].function.name: is null; expected a text
    .tool_calls[1].function.arguments: is a list; expected a text
    .tool_calls[1].id: is 1; expected a text
    .tool_calls[2].custom: is a list; expected an object
    .tool_calls[3].type: is 3; expected a text
    .tool_calls[4].extra: is inf, which can't be kept as JSON
    """,
    ),
    (
        CHAT,
        {
            "role": "tool",
            "content": "",
            "tool_call_id": 3,
            "x": {"y": [10**30, b""]},
            4: 5,
        },
        """
    .x.y[0]: is an integer beyond 64 bits, which can't be kept as JSON
    .x.y[1]: is a Python bytes, which can't be kept as JSON; use model_dump(mode='json')
    : has the key 4; keys of JSON are text
    .tool_call_id: is 3; expected a text
    """,
    ),
    (
        RESPONSES,
        {"type": "", "content": "hi"},
        ".type: is ''; expected the type of an item",
    ),
    (
        RESPONSES,
        {"type": "message", "content": "hi"},
        ".role: is missing; expected assistant, developer, system, user",
    ),
    (
        RESPONSES,
        message({"type": "refusal"}, 3, {"type": "output_text", "text": 3}),
        """
    .content[1]: is 3; expected an object
    .content[0].refusal: is missing; expected a text
    .content[2].text: is 3; expected a text
    """,
    ),
    (
        RESPONSES,
        {"role": "assistant", "content": {}},
        ".content: is an object; expected a text or a list of parts",
    ),
    (
        RESPONSES,
        {"type": "function_call", "call_id": 1, "name": None, "arguments": []},
        """
    .name: is null; expected a text
    .arguments: is a list; expected a text
    .call_id: is 1; expected a text
    """,
    ),
    (RESPONSES, result(3), ".output: is 3; expected a text or a list of parts"),
]


class TestRefuses:
    """A `DecodeError` names everything that is wrong, by its path."""

    @pytest.mark.parametrize(("form", "raw", "problems"), WRONG)
    def test_every_problem(self, form, raw, problems):
        """One mistake does not hide the next, and each has what was expected."""
        with pytest.raises(DecodeError) as found:
            form.adapter.load({form.key: [raw, {"role": "user", "content": "hi"}, 4]})

        lines = dedent(problems).strip().split("\n")
        assert [
            *[f"$.{form.key}[0]{line}" for line in lines],
            f"$.{form.key}[2]: is 4; expected an object",
        ] == [str(problem) for problem in found.value.problems]

    @pytest.mark.parametrize(
        ("form", "payload", "path"),
        [
            (CHAT, {"messages": None}, "$.messages"),
            (CHAT, {"messages": {"role": "user"}}, "$.messages"),
            (CHAT, {"role": "user", "content": "hi"}, "$"),
            (RESPONSES, {"input": None}, "$.input"),
            (RESPONSES, {"instructions": ["a"], "input": []}, "$.instructions"),
            (RESPONSES, {"instructions": "a"}, "$"),
            (RESPONSES, {"input": [], "output": []}, "$"),
            (RESPONSES, {"role": "user", "content": "hi"}, "$"),
        ],
    )
    def test_what_is_no_request(self, form, payload, path):
        """A request has a list of messages or items, and instructions are a text."""
        assert [path] == problem_paths(form.adapter.load, payload)

    def test_keys_that_are_mended_alike(self):
        """Two keys that would be one are not made one."""
        with pytest.raises(DecodeError, match="two keys"):
            openai_chat.load([{"role": "user", "x": {chr(0xD800): 1, chr(0xFFFD): 2}}])

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            *[(None, "null"), (True, "true"), (False, "false"), (5, "5"), (0.5, "0.5")],
            *[(sign * 2**64, "an integer beyond 64 bits") for sign in (1, -1)],
            (2**64 - 1, "18446744073709551615"),
            *[({"a": 1}, "an object"), ([1], "a list"), ((1,), "a list")],
            ({1}, "a Python set"),
        ],
    )
    def test_in_terms_of_json(self, value, shown):
        """Values are described in JSON's terms, and what is not JSON by its class."""
        with pytest.raises(DecodeError, match=f"is {shown}; expected a text"):
            openai_chat.load([user({"type": "text", "text": value})])

    @pytest.mark.parametrize(
        ("calls", "shown"), [("a" * 40, "a" * 40), ("a" * 41, "a" * 40 + "...")]
    )
    def test_long_texts(self, calls, shown):
        """A long text is cut."""
        with pytest.raises(DecodeError, match=re.escape(f"is {shown!r}; expected")):
            openai_chat.load([answer(tool_calls=calls)])
