"""
From Responses to messages.
"""

import json
from textwrap import dedent

import pytest

from conversation_state.adapters.openai_responses import dump, load
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
)
from conversation_state.tools import ToolCall
from tests.adapters.contract import as_json, bare, problem_paths
from tests.adapters.kept import without_notes
from tests.adapters.openai_chat import PNG, PNG_URL
from tests.adapters.openai_responses import (
    call,
    message,
    notes,
    one,
    result,
    several,
    text,
    thought,
)


def user(*content):
    """
    A user's message in JSON.
    """
    return {"role": "user", "content": list(content)}


def kinds(messages):
    """
    What messages there are, and what is in them, in order.
    """
    return [
        (
            message.role,
            [part.kind for part in message.parts]
            + [call.name for call in getattr(message, "tool_calls", ())],
        )
        for message in messages
    ]


URL = "https://a.b/c"
CUSTOM = {"type": "custom_tool_call", "call_id": "c1"}
PICTURE = ImagePart(data=PNG, media_type="image/png")
MP3 = AudioPart(data=b"ID3", media_type="audio/mpeg")


def image(url, **fields):
    """
    A block with an image.
    """
    return {"type": "input_image", "image_url": url, **fields}


def sound(data, **fields):
    """
    A block with sound.
    """
    return {"type": "input_audio", "input_audio": {"data": data, **fields}}


def file(**fields):
    """
    A block with a file.
    """
    return {"type": "input_file", **fields}


class TestLoad:
    """
    What our model can represent is in its fields.
    """

    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            ({"role": "user", "content": "hi"}, UserMessage("hi")),
            (user({"type": "input_text", "text": "hi"}), UserMessage([TextPart("hi")])),
            ({"role": "assistant", "content": "hi"}, AssistantMessage("hi")),
            ({"role": "assistant", "content": ""}, AssistantMessage("")),
            (call(), AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}", index=0)])),
            (
                {**CUSTOM, "name": "run", "input": "ls"},
                AssistantMessage(
                    tool_calls=[ToolCall("c1", "run", "ls", index=0, type="custom")]
                ),
            ),
            (result(), ToolMessage("12", tool_call_id="c1")),
            (
                result([{"type": "input_text", "text": "12"}]),
                ToolMessage([TextPart("12")], tool_call_id="c1"),
            ),
        ],
    )
    def test_usual(self, raw, expected):
        """
        What everybody sends needs no notes, and is written as it was.
        """
        assert expected == one(raw)
        assert ({"input": [raw]}, ()) == (
            dump([expected]).payload,
            dump([expected]).lost,
        )

    def test_instructions(self):
        """
        Are a system message in front, and no item.
        """
        payload = {"instructions": "Be brief.", "input": []}

        assert (SystemMessage("Be brief."),) == load(payload)
        assert payload == dump(load(payload)).payload

    @pytest.mark.parametrize("role", ["system", "developer"])
    def test_system_items(self, role):
        """
        A system message that is an item stays one, under its own role.
        """
        raws = [{"role": role, "content": "Be brief."}]

        found = load(raws)

        assert (SystemMessage("Be brief."),) == tuple(map(bare, found))
        assert {"input": raws} == dump(found).payload

    def test_bare_text(self):
        """
        An input that is a text is a user's message.
        """
        assert (UserMessage("hi"),) == load({"input": "hi", "instructions": None})

    @pytest.mark.parametrize(
        ("block", "part"),
        [
            (image(URL, detail="low"), ImagePart(url=URL, detail="low")),
            (image(PNG_URL), PICTURE),
            (
                file(
                    file_data="data:application/pdf;base64,JVBERg==", filename="a.pdf"
                ),
                FilePart(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
            ),
            (file(file_url=URL), FilePart(url=URL)),
        ],
    )
    def test_media(self, block, part):
        """
        Media are bytes where bytes were sent, without notes.
        """
        assert UserMessage([part]) == one(user(block))
        assert {"input": [user(block)]} == dump([UserMessage([part])]).payload

    @pytest.mark.parametrize(
        ("block", "part"),
        [
            (image(PNG_URL.rstrip("="), file_id=None), PICTURE),
            (file(file_data="JVBE\nRg=="), FilePart(data=b"%PDF")),
            (sound("data:;base64,SUQz", format="mpeg"), MP3),
            (sound("SUQz", format="mp3"), MP3),
            (sound("SUQz", rate=8), AudioPart(data=b"ID3")),
            ({"type": "output_text", "text": "hi"}, TextPart("hi")),
        ],
    )
    def test_unusual_blocks(self, block, part):
        """
        So are media in unusual base64, and texts of another role; they are written as
        they were.
        """
        found = one(user(block))

        assert part == without_notes(found.parts[0])
        assert {"input": [user(block)]} == dump([found]).payload

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "hologram", "of": "you"},
            file(file_id="file-1"),
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            image(""),
            file(file_data="?"),
            file(file_data=URL),
            file(file_data="JVBERg==", file_url=URL),
            sound(URL),
            {"type": "input_audio"},
            {"type": "refusal", "refusal": "a user's"},
            {"type": "computer_screenshot", "image_url": URL},
        ],
    )
    def test_unknown_blocks(self, block):
        """
        What our model can't represent is kept as it is.
        """
        found = one(user(block))

        assert UserMessage([UnknownPart(block, source="openai_responses")]) == found
        assert {"input": [user(block)]} == dump([found]).payload

    def test_media_of_tools(self):
        """
        A tool's result may hold images and files.
        """
        raw = result([image(PNG_URL)])

        assert [PICTURE] == list(one(raw).parts)

    def test_message(self):
        """
        A message's texts and refusals are parts; the item is noted once, with
        its last part.
        """
        cited = [{"type": "url_citation", "url": "https://a.b", "start_index": 0}]
        raw = message(
            text("hi", annotations=cited),
            {"type": "refusal", "refusal": "no"},
            phase="final_answer",
        )

        first, last = one(raw).parts

        assert (TextPart("hi", index=0), RefusalPart("no", index=1)) == (
            type(first)(first.text, index=first.index),
            type(last)(last.text, index=last.index),
        )
        assert cited == [dict(each) for each in notes(first)["keys"]["annotations"]]
        assert notes(first)["more"]
        assert {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "phase": "final_answer",
        } == dict(notes(last)["item"])
        assert {"input": [raw]} == dump([one(raw)]).payload

    def test_thought(self):
        """
        Each text of a thought is a part; the last one is signed.
        """
        raw = thought(
            "Hm.",
            "Aha!",
            content=[{"type": "reasoning_text", "text": "x"}],
            encrypted_content="gAAAA+/=",
            status=None,
        )
        raws = [raw, call()]

        found = one_of(raws)

        assert ["Hm.", "Aha!", "x"] == [part.text for part in found.parts]
        assert ["", "", "gAAAA+/="] == [part.signature for part in found.parts]
        assert [0, 1, 2, 3] == [
            each.index for each in (*found.parts, *found.tool_calls)
        ]
        assert {"input": raws} == dump([found]).payload

    @pytest.mark.parametrize(
        "raw",
        [
            thought(encrypted_content="x"),
            thought(encrypted_content=None, content=None),
            thought(content=[], encrypted_content=""),
            thought(""),
            thought("", ""),
            thought(summary=None),
            {"type": "reasoning", "encrypted_content": "x"},
            {"type": "reasoning", "id": "rs_1", "content": []},
            thought(content=[{"type": "summary_text", "text": "a"}]),
            thought(summary=None, content=[{"type": "reasoning_text", "text": "a"}]),
            thought("a", summary=[{"type": "summary_text", "text": "a", "x": 1}]),
            thought(summary=[{"type": "odd", "text": "a"}], encrypted_content="x"),
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
        found = one_of([raw, call()])

        thoughts = [part for part in found.parts if isinstance(part, ReasoningPart)]
        signed = [part.signature for part in thoughts if part.signature]
        given = raw.get("encrypted_content")
        assert thoughts
        assert ([given] if given else []) == signed
        assert {"input": [raw, call()]} == dump([found]).payload

    @pytest.mark.parametrize(
        "raw",
        [
            thought(summary=[{"type": "hidden"}]),
            thought(summary=["a"]),
            thought(summary="a"),
            thought("a", encrypted_content={"a": 1}),
        ],
        ids=as_json,
    )
    def test_thoughts_of_another_kind(self, raw):
        """
        A thought that is not text is kept as it is.
        """
        found = one_of([raw, call()])

        assert "unknown" == found.parts[0].kind
        assert {"input": [raw, call()]} == dump([found]).payload

    @pytest.mark.parametrize(
        "raw",
        [
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
            {"type": "file_search_call", "id": "fs_1", "queries": [], "results": None},
            {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": []},
            {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo="},
            {"type": "computer_call", "id": "cu_1", "call_id": "c2", "action": {}},
            {"type": "mcp_call", "id": "mcp_1", "arguments": "{}", "output": "12"},
            {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []},
            {"type": "mcp_approval_request", "id": "mcpr_1", "arguments": "{}"},
            {"type": "local_shell_call", "call_id": "c2", "action": {"command": []}},
            {"type": "shell_call", "call_id": "c2", "action": {"commands": []}},
            {"type": "apply_patch_call", "call_id": "c2", "operation": {}},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA+/="},
            {"type": "hologram", "of": "you"},
        ],
        ids=lambda raw: raw["type"],
    )
    def test_built_in(self, raw):
        """
        What a provider's own tools did is kept in its place.
        """
        raws = [thought("Hm."), raw, message("hi"), {**call(), "id": "fc_1"}]

        found = one_of(raws)

        assert UnknownPart(raw, source="openai_responses", index=1) == found.parts[1]
        assert {"input": raws} == dump([found]).payload

    @pytest.mark.parametrize(
        "raw",
        [
            {"type": "computer_call_output", "call_id": "c2", "output": {}},
            {"type": "local_shell_call_output", "id": "c2", "output": "{}"},
            {"type": "shell_call_output", "call_id": "c2", "output": []},
            {"type": "apply_patch_call_output", "call_id": "c2", "status": "failed"},
            {"type": "mcp_approval_response", "approve": True},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "function_call_output", "call_id": None, "output": "12"},
            {"type": "message", "role": "critic", "content": "bad"},
            {"role": "system", "content": [image(PNG_URL)]},
        ],
        ids=as_json,
    )
    def test_of_the_caller(self, raw):
        """
        So is an item of the caller's that our model can't represent: it separates the
        model's messages before and after it.
        """
        raws = [message("a"), raw, message("b")]

        before, loaded, after = several(raws)

        assert UnknownMessage(raw, source="openai_responses") == loaded
        assert ("a", "b") == (before.text, after.text)
        assert {"input": raws} == dump([before, loaded, after]).payload

    def test_system_message_of_more_than_text(self):
        """
        Is kept whole, and repeats nothing.
        """
        raw = {
            "role": "developer",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_file"}],
        }

        assert UnknownMessage(raw, source="openai_responses") == one(raw)

    def test_names_of_results(self):
        """
        A result has the name of the tool that was called, or its own.
        """
        raws = [call(), result(), result(call_id="c2"), result(call_id="c3", name="g")]

        _, *results = several(raws)

        assert ["f", "", "g"] == [each.tool_name for each in results]
        assert {"input": raws} == dump(load(raws)).payload

    def test_custom_results(self):
        """
        The result of a custom tool stays one, also without its call.
        """
        raw = result(type="custom_tool_call_output")

        asked = {**CUSTOM, "name": "f", "input": ""}

        assert ToolMessage("12", tool_call_id="c1") == bare(one(raw))
        for raws in ([raw], [asked, raw], [asked, result()], [call(), raw]):
            assert {"input": raws} == dump(load(raws)).payload

    def test_calls_without_ids(self):
        """
        Get one, each another; it is not sent back.
        """
        raws = [call(call_id=""), call(call_id=None), {**call("g")}]
        del raws[2]["call_id"]

        found = one_of(raws)

        assert 3 == len({each.id for each in found.tool_calls} - {""})
        assert {"input": raws} == dump([found]).payload

    @pytest.mark.parametrize("arguments", [' {"a" :\n1.0}\t', '{"a', "", "é\u2028"])
    def test_arguments(self, arguments):
        """
        Arguments are the text the model wrote, valid or not.
        """
        found = one(call(arguments=arguments))

        assert arguments == found.tool_calls[0].arguments
        assert arguments == dump([found]).payload["input"][0]["arguments"]

    def test_mends_the_type_of_a_thought(self):
        """
        Of a block that is kept as it is, also its type is mended.
        """
        block = {"type": "raw\ud800", "text": "Hm."}
        raws = [{"type": "reasoning", "summary": [], "content": [block]}, call()]
        export = dump(load(raws))

        assert "raw\ufffd" == export.payload["input"][0]["content"][0]["type"]
        assert ["[0].content[0].type"] == [lost.what for lost in export.lost]

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00", "\ufffd")],
    )
    def test_mends_text(self, wrong, right):
        """
        Halves of surrogate pairs are joined or replaced, noted, and listed as
        lost when the message is sent.
        """
        raws = [
            {"role": "user", "content": wrong},
            message(wrong, extra={"a": [wrong]}),
            call(name=wrong),
        ]
        payload = {"instructions": wrong, "input": raws}

        system, asked, loaded = several(payload)
        export = dump([system, asked, loaded])

        places = ["input[1].content[0].text", "input[1].extra.a[0]", "input[2].name"]
        assert right == system.text == asked.text == loaded.text
        assert ["instructions"] == list(notes(system)["mended"])
        assert ["input[0].content"] == list(notes(asked)["mended"])
        assert places == sorted(notes(loaded)["mended"])
        assert sorted(["instructions", "input[0].content", *places]) == sorted(
            lost.what for lost in export.lost
        )
        assert right == export.payload["instructions"]


def one_of(raws):
    """
    The one message that *raws*, items, are.
    """
    (found,) = load(raws)
    return found


class TestAnswers:
    """
    Which items are one answer.
    """

    @pytest.mark.parametrize(
        ("raws", "expected"),
        [
            (
                [thought("a"), call(), call("g", call_id="c2"), result()],
                [("assistant", ["reasoning", "f", "g"]), ("tool", ["text"])],
            ),
            (
                [{"role": "assistant", "content": "a"}, call()],
                [("assistant", ["text", "f"])],
            ),
            (
                [{"role": "assistant", "content": ""}, call()],
                [("assistant", ["text", "f"])],
            ),
            (
                [call(), {"role": "assistant", "content": "a"}],
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
                [{"id": "rs_1"}, call(), {"type": "item_reference", "id": "fc_1"}],
                [("unknown", []), ("assistant", ["unknown", "f"])],
            ),
        ],
    )
    def test_from_one_response(self, raws, expected):
        """
        Items of the model with no other role in between are one message, except for
        messages that follow messages; in any case they come back in order.
        """
        assert expected == kinds(load(raws))
        assert {"input": raws} == dump(load(raws)).payload


# Items, and all that is wrong with them.
WRONG = [
    ({"content": "hi"}, ".type: is missing; expected the type of an item"),
    ({"type": "", "content": "hi"}, ".type: is ''; expected the type of an item"),
    (
        {"type": "message", "content": "hi"},
        ".role: is missing; expected assistant, developer, system, user",
    ),
    ({"type": 3, "role": "user"}, ".type: is 3; expected the type of an item"),
    (
        {"role": "user", "content": None, "x": float("nan")},
        """
    .content: is null; expected a text or a list of parts
    .x: is nan, which can't be kept as JSON
    """,
    ),
    (
        message({"type": "refusal"}, 3, {"type": "output_text", "text": 3}),
        """
    .content[1]: is 3; expected an object
    .content[0].refusal: is missing; expected a text
    .content[2].text: is 3; expected a text
    """,
    ),
    (
        {"role": "assistant", "content": {}},
        ".content: is an object; expected a text or a list of parts",
    ),
    (
        {"type": "function_call", "call_id": 1, "name": None, "arguments": {}},
        """
    .name: is null; expected a text
    .arguments: is an object; expected a text
    .call_id: is 1; expected a text
    """,
    ),
    (
        {"type": "custom_tool_call", "name": "f", "x": b""},
        """
    .input: is missing; expected a text
    .x: is a Python bytes, which can't be kept as JSON; use model_dump(mode='json')
    """,
    ),
    (result(3), ".output: is 3; expected a text or a list of parts"),
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
            load({"input": [raw, {"role": "user", "content": "hi"}, 4]})

        lines = dedent(problems).strip().split("\n")
        assert [
            *[f"$.input[0]{line}" for line in lines],
            "$.input[2]: is 4; expected an object",
        ] == [str(problem) for problem in found.value.problems]

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"input": 3}, "$.input"),
            ({"input": None}, "$.input"),
            ({"instructions": 3, "input": []}, "$.instructions"),
            ({"instructions": ["a"], "input": []}, "$.instructions"),
            ({"instructions": "a"}, "$"),
            ({"input": [], "output": []}, "$"),
            ({"role": "user", "content": "hi"}, "$"),
            ({"input": "a", "error": {}}, None),
        ],
    )
    def test_what_is_no_request(self, payload, path):
        """
        A request has an input, and instructions are a text.
        """
        if path is None:
            assert (UserMessage("a"),) == load(payload)
            return

        assert [path] == problem_paths(load, payload)

    @pytest.mark.parametrize("kind", ["web_search_call", "shell_call_output"])
    def test_too_deep(self, kind):
        """
        Items that are kept as they are may not be very deep.
        """
        deep = json.loads('{"a":[' * 400 + "]}" * 400)

        with pytest.raises(DecodeError, match="nested more than 90 levels deep"):
            load([{"type": kind, "deep": deep}])


class TestKinds:
    def test_thought_and_text(self):
        """
        The thoughts and the text of a message.
        """
        found = one_of([thought("Hm. ", "Aha!"), message("hi")])

        assert ("Hm. Aha!", "hi") == (found.reasoning, found.text)
        assert [ReasoningPart, ReasoningPart, TextPart] == list(map(type, found.parts))
