"""
From Chat Completions to messages.
"""

import json
import re
from textwrap import dedent

import attrs
import pytest

from conversation_state.adapters.openai_chat import dump, load
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
from tests.adapters.kept import without_notes
from tests.adapters.openai_chat import PNG, PNG_URL, answer, call, notes, one, several

URL = "https://a.b/c"
CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
THINKING = {
    "type": "thinking",
    "thinking": [{"type": "text", "text": text} for text in ("h", "", "m")],
    "closed": True,
}
PICTURE = ImagePart(data=PNG, media_type="image/png")
MP3 = AudioPart(data=b"ID3", media_type="audio/mpeg")
WAV = AudioPart(data=b"RIFF", media_type="audio/wav")


def image(url, **fields):
    """
    A block with an image.
    """
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def sound(data, **fields):
    """
    A block with sound.
    """
    return {"type": "input_audio", "input_audio": {"data": data, **fields}}


def file(data, **fields):
    """
    A block with a file.
    """
    return {"type": "file", "file": {"file_data": data, **fields}}


def user(block):
    """
    A user's message of a block.
    """
    return {"role": "user", "content": [block]}


BARE = {"name": "f", "arguments": ""}
PDF = FilePart(data=b"%PDF", media_type="application/pdf", name="a")
# Mistral's example of thoughts can't be in a system message of ours.
SYSTEM = {
    "role": "developer",
    "content": [THINKING, {"type": "text", "text": "a"}],
    "name": None,
}


class TestLoad:
    """
    What our model can represent is in its fields.
    """

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"role": "system", "content": "Be brief."}, SystemMessage("Be brief.")),
            (
                {"role": "user", "content": "hi", "name": "ann"},
                UserMessage("hi", name="ann"),
            ),
            (
                user({"type": "text", "text": "hi"}),
                UserMessage([TextPart("hi")]),
            ),
            (answer(content="hi"), AssistantMessage("hi")),
            (
                answer(content=None, tool_calls=[call()]),
                AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
            ),
            (
                answer(content=None, refusal="I won't."),
                AssistantMessage([RefusalPart("I won't.")]),
            ),
            (
                answer(
                    content=[
                        {"type": "text", "text": "No."},
                        {"type": "refusal", "refusal": "I won't."},
                    ]
                ),
                AssistantMessage([TextPart("No."), RefusalPart("I won't.")]),
            ),
            (
                answer(content=None, tool_calls=[CUSTOM]),
                AssistantMessage(
                    tool_calls=[ToolCall("c1", "run", "ls", type="custom")]
                ),
            ),
            (
                answer(content=None, tool_calls=[call(name="", type="mcp")]),
                AssistantMessage(tool_calls=[ToolCall("c1", "", "{}", type="mcp")]),
            ),
            *[
                (
                    answer(content=None, tool_calls=[call(type=kind, function=BARE)]),
                    AssistantMessage(tool_calls=[ToolCall("c1", "f", "", type=kind)]),
                )
                for kind in ("function", "mcp")
            ],
            (
                {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "12"},
                ToolMessage("12", tool_call_id="c1", tool_name="f"),
            ),
            *[
                (user(block), UserMessage([part]))
                for block, part in [
                    (image(URL, detail="low"), ImagePart(url=URL, detail="low")),
                    (image(PNG_URL), PICTURE),
                    (sound("UklGRg==", format="wav"), WAV),
                    (sound("SUQz", format="mp3"), MP3),
                    (file(f"data:{PDF.media_type};base64,JVBERg==", filename="a"), PDF),
                    (file("JVBERg=="), FilePart(data=b"%PDF")),
                ]
            ],
            *[
                (user(block), UserMessage([UnknownPart(block, source="openai_chat")]))
                for block in [
                    {"type": "hologram", "hologram": {"of": "you"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "file", "file_id": "file-1"},
                    sound("?", format="wav"),
                    image(""),
                    {"type": "refusal", "refusal": "a user's"},
                ]
            ],
            (SYSTEM, UnknownMessage(SYSTEM, source="openai_chat")),
        ],
    )
    def test_usual(self, raw, message):
        """
        What everybody sends needs no notes, and is written as it was; what our model
        can't represent is kept as it is.
        """
        export = dump([message])

        assert message == one(raw)
        assert {"messages": [raw]} == export.payload
        assert () == export.lost

    @pytest.mark.parametrize(
        ("block", "part"),
        [
            ({"type": "image_url", "image_url": PNG_URL}, PICTURE),
            (image("data:image/png,%89"), ImagePart(url="data:image/png,%89")),
            (image(PNG_URL.rstrip("=")), PICTURE),
            ({"type": "video_url", "video_url": {"url": URL}}, VideoPart(url=URL)),
            (
                {"type": "document_url", "document_url": URL, "document_name": "c.pdf"},
                FilePart(url=URL, name="c.pdf"),
            ),
            (file(URL), FilePart(url=URL)),
            ({"type": "input_audio", "input_audio": "SUQz"}, AudioPart(data=b"ID3")),
            (sound("data:;base64,SUQz", format="mpeg"), MP3),
            (sound("data:audio/wav;base64,UklGRg=="), WAV),
        ],
    )
    def test_media_of_dialects(self, block, part):
        """
        Media are bytes where bytes were sent, also in another dialect's block or in
        unusual base64.
        """
        raw = user(block)

        message = one(raw)

        assert part == without_notes(message.parts[0])
        assert ({"messages": [raw]}, ()) == attrs.astuple(
            dump([message]), recurse=False
        )

    @pytest.mark.parametrize(
        ("raw", "reasoning"),
        [
            (answer(content="hi", reasoning_content="hm"), "hm"),
            (answer(content=None, reasoning="hm", tool_calls=[call()]), "hm"),
            (answer(content="hi", reasoning="hm", reasoning_content="hm"), "hm"),
            (answer(content="hi", reasoning="b", reasoning_content="a"), "ab"),
            (answer(content=[THINKING, {"type": "text", "text": "hi"}]), "hm"),
        ],
    )
    def test_reasoning(self, raw, reasoning):
        """
        Reasoning of each dialect is reasoning, and goes back in that dialect.
        """
        message = one(raw)

        assert reasoning == message.reasoning
        assert isinstance(message.parts[0], ReasoningPart)
        assert ({"messages": [raw]}, ()) == attrs.astuple(
            dump([message]), recurse=False
        )

    def test_result_that_knows_its_call(self):
        """
        A result with the id of its call is paired with that, and the call is done.
        """
        raws = [
            answer(content=None, tool_calls=[call(id="a"), call(id="b")]),
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "content": "2"},
        ]

        _, first, second = several(raws)

        assert ("a", "b") == (first.tool_call_id, second.tool_call_id)

    def test_ids_of_two_responses(self):
        """
        Ids that are made up for two responses differ.
        """
        first, second = (
            several(
                {"id": name, "choices": [{"message": answer(tool_calls=[call(id="")])}]}
            )
            for name in ("x", "y")
        )

        assert first[0].tool_calls[0].id != second[0].tool_calls[0].id

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00", "\ufffd")],
    )
    def test_mends_text(self, wrong, right):
        """
        Halves of surrogate pairs are joined or replaced, noted, and listed as
        lost when the message is sent.
        """
        raw = answer(
            content=[{"type": "text", "text": wrong}],
            tool_calls=[call(name=wrong)],
            extra={"a": [wrong]},
        )

        message = one(raw)
        export = dump([message])

        places = ["content[0].text", "extra.a[0]", "tool_calls[0].function.name"]
        assert right == message.text == message.tool_calls[0].name
        assert {"a": (right,)} == notes(message)["keys"]["extra"]
        assert places == sorted(notes(message)["mended"])
        assert places == sorted(lost.what for lost in export.lost)
        assert json.loads(json.dumps(raw).replace(json.dumps(wrong), json.dumps(right)))
        assert right == export.payload["messages"][0]["content"][0]["text"]


ROLES = "expected assistant, developer, function, system, tool, user"

# Messages, and all that is wrong with them.
WRONG = [
    ({"content": "hi"}, f".role: is missing; {ROLES}"),
    ({"role": "critic"}, f".role: is 'critic'; {ROLES}"),
    (
        {"role": "user", "content": 3, "name": [], "x": float("nan")},
        """
    .x: is nan, which can't be kept as JSON
    .content: is 3; expected a text, a list of parts or null
    .name: is a list; expected a text
    """,
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": 3},
                {"type": "image_url", "image_url": {"url": False}},
                {"type": "input_audio"},
                {"type": "file", "file": {"file_data": 1, "filename": 2}},
                {"type": "file", "file": 3},
            ],
        },
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
        answer(tool_calls={"a": 1}, refusal={}, function_call="f"),
        """
    .tool_calls: is an object; expected a list or null
    .function_call: is 'f'; expected an object or null
    .refusal: is an object; expected a text
    """,
    ),
    (
        answer(
            tool_calls=[
                3,
                {"id": 1, "function": {"name": None, "arguments": {}}},
                {"type": "function"},
                {"type": "custom", "custom": []},
                {"type": 3, "function": {}},
                call(extra=float("inf")),
            ]
        ),
        """
    .tool_calls[0]: is 3; expected an object
    .tool_calls[1].function.name: is null; expected a text
    .tool_calls[1].function.arguments: is an object; expected a text
    .tool_calls[1].id: is 1; expected a text
    .tool_calls[2].function: is missing; expected an object
    .tool_calls[3].custom: is a list; expected an object
    .tool_calls[4].type: is 3; expected a text
    .tool_calls[5].extra: is inf, which can't be kept as JSON
    """,
    ),
    (
        {"role": "tool", "tool_call_id": 3, "x": {"y": [10**30, b""]}, 4: 5},
        """
    .x.y[0]: is an integer beyond 64 bits, which can't be kept as JSON
    .x.y[1]: is a Python bytes, which can't be kept as JSON; use model_dump(mode='json')
    : has the key 4; keys of JSON are text
    .tool_call_id: is 3; expected a text
    """,
    ),
]


class TestRefuses:
    """
    A `DecodeError` names everything that is wrong, by its path.
    """

    @pytest.mark.parametrize(("raw", "problems"), WRONG)
    def test_every_problem(self, raw, problems):
        """
        One mistake does not hide the next, and each has what was expected.
        """
        with pytest.raises(DecodeError) as found:
            load({"messages": [raw, {"role": "user", "content": "hi"}, 4]})

        lines = dedent(problems).strip().split("\n")
        assert [
            *[f"$.messages[0]{line}" for line in lines],
            "$.messages[2]: is 4; expected an object",
        ] == [str(problem) for problem in found.value.problems]

    @pytest.mark.parametrize("wrong", [None, 3, "hi", {"role": "user"}])
    def test_messages_that_are_no_list(self, wrong):
        """
        Messages are a list.
        """
        with pytest.raises(DecodeError, match=r"\$\.messages: .* a list of messages"):
            load({"messages": wrong})

    def test_one_message_alone(self):
        """
        A message that is not in a list is an error that says what is expected.
        """
        with pytest.raises(DecodeError, match="neither messages nor choices"):
            load({"role": "user", "content": "hi"})

    def test_keys_that_are_mended_alike(self):
        """
        Two keys that would be one are not made one.
        """
        with pytest.raises(DecodeError, match="two keys"):
            load([{"role": "user", "x": {chr(0xD800): 1, chr(0xFFFD): 2}}])

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
        """
        Values are described in JSON's terms, and what is not JSON by its class.
        """
        with pytest.raises(DecodeError, match=f"is {shown}; expected a text"):
            load([user({"type": "text", "text": value})])

    @pytest.mark.parametrize(
        ("calls", "shown"), [("a" * 40, "a" * 40), ("a" * 41, "a" * 40 + "...")]
    )
    def test_long_texts(self, calls, shown):
        """
        A long text is cut.
        """
        with pytest.raises(DecodeError, match=re.escape(f"is {shown!r}; expected")):
            load([answer(tool_calls=calls)])
