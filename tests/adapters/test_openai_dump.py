"""From messages to Chat Completions and Responses."""

from typing import Any

import attrs
import pytest

from conversation_state.adapters import Lost, openai_chat, openai_responses
from conversation_state.codec import decode, encode
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
from tests.adapters import openai_chat as chat
from tests.adapters.contract import as_json
from tests.adapters.openai_chat import PNG_URL
from tests.adapters.openai_chat import answer as chat_answer
from tests.adapters.openai_formats import FORMATS
from tests.adapters.openai_responses import (
    answer,
    call,
    message,
    result,
    text,
    thought,
)
from tests.adapters.pieces import as_is

openai_chat, openai_responses = as_is(openai_chat), as_is(openai_responses)

CHAT, RESPONSES = FORMATS["chat"], FORMATS["responses"]
URL = "https://a.b/c"


def forge(notes, name="openai_responses"):
    return {"conversation_state": {name: notes}}


def items(*messages):
    """The items of *messages*."""
    return openai_responses.dump(messages).payload["input"]


def losses(*messages, form=RESPONSES):
    """What of *messages* is lost, and where."""
    return [(lost.path, lost.what) for lost in as_is(form.adapter).dump(messages).lost]


def bare_text(one):
    """A block of text and nothing else."""
    return {"type": "output_text", "text": one}


# What messages have beside their content, and how contents can be left out.
ROLES: list[tuple[str, dict[str, Any]]] = [
    ("developer", {}),
    ("user", {"name": ""}),
    ("assistant", {"name": None}),
    ("assistant", {"tool_calls": []}),
    ("assistant", {"tool_calls": [chat.call()]}),
    ("assistant", {"function_call": {"name": "f", "arguments": ""}}),
    ("assistant", {"refusal": None, "annotations": []}),
    ("assistant", {"refusal": "no"}),
    ("assistant", {"reasoning": "hm"}),
    ("assistant", {"reasoning": None, "reasoning_content": ""}),
    ("assistant", {"reasoning": {"summary": "hm"}}),
    ("assistant", {"audio": {"id": "audio_1"}}),
    ("tool", {"tool_call_id": "c1", "name": None}),
    ("function", {"name": "f"}),
]
CONTENTS: list[dict[str, Any]] = [
    {},
    {"content": None},
    {"content": ""},
    {"content": []},
    {"content": "hi"},
]
CHAT_CALLS = [
    chat.call(index=0, extra_content={"google": {"thought": True}}),
    chat.call(function={"name": "f", "arguments": ' {"a" :\n1.0}\t'}),
    chat.call(function={"name": "f"}),
    chat.call(function={"name": "f", "arguments": None}),
    chat.call(function={"name": "f", "arguments": '{"a" :', "strict": True}),
    {"id": "a", "type": "custom", "custom": {"name": "run"}},
    {"id": "a", "type": "mcp", "server": "s", "function": 3},
    {"id": "a", "type": "builtin", "function": {"name": ""}},
    chat.call(type="builtin_function"),
]
PICTURE = {"type": "image_url", "image_url": {"url": PNG_URL}}
CHAT_MESSAGES = [
    *[
        {"role": role, **fields, **content}
        for role, fields in ROLES
        for content in CONTENTS
        if chat.has_content({"role": role, **content})
    ],
    *[chat_answer(content=None, tool_calls=[raw]) for raw in CHAT_CALLS],
    chat_answer(content=[{"type": "text", "text": "hi"}]),
    chat_answer(content=[{"type": "refusal", "refusal": "no"}]),
    chat_answer(content=[{"type": "refusal", "refusal": "no"}], refusal="no"),
    chat_answer(content=[PICTURE]),
    chat_answer(content=[{"type": "thinking", "thinking": "hm", "signature": "s"}]),
    {"role": "tool", "tool_call_id": "c1", "content": [PICTURE]},
    {
        "role": "user",
        "content": [
            {
                "type": "image_url",
                "image_url": {"url": PNG_URL, "detail": None, "size": 2.0},
                "cache_control": {"type": "ephemeral"},
            }
        ],
    },
]

# What items have beside their content, and how contents can be written.
ITEMS: list[dict[str, Any]] = [
    {"role": "user"},
    {"role": "developer"},
    {"role": "assistant"},
    {"role": "assistant", "phase": None},
    {"role": "assistant", "id": "msg_1", "status": "completed", "type": "message"},
    {"role": "user", "id": "msg_1", "type": "message", "status": "completed"},
]
ITEM_CONTENTS: list[Any] = [
    "",
    "hi",
    [{"type": "input_text", "text": "hi"}],
    [{"type": "output_text", "text": ""}, {"type": "output_text", "text": ""}],
    [text("hi", logprobs=[{"token": "hi", "logprob": 0}]), text("ho")],
]
OUTPUTS: list[Any] = [
    *[[{**about, "content": content}] for about in ITEMS for content in ITEM_CONTENTS],
    *[[{**ITEMS[2], "content": content}, call()] for content in ITEM_CONTENTS],
    [message({"type": "hologram"}), message("b")],
    [message({"type": "input_image", "image_url": PNG_URL})],
    [message({"type": "refusal", "refusal": ""}), thought("a"), call()],
    [call(id="fc_1", status=None, namespace="n"), result(name=None)],
    [{"role": "user", "content": []}, result([]), result(""), result(name="")],
]


class TestWrittenAsItWas:
    """
    The form of an absent value is remembered, and forgotten when there is a value.
    """

    @pytest.mark.parametrize(
        ("form", "raws"),
        [
            *[(CHAT, [raw]) for raw in CHAT_MESSAGES],
            *[(RESPONSES, raws) for raws in OUTPUTS],
        ],
        ids=lambda value: as_json(value) if isinstance(value, list) else value.name,
    )
    def test_key_for_key(self, form, raws):
        """Missing, null and "" are distinguished, and nothing is added."""
        export = as_is(form.adapter).dump(form.adapter.load(raws))

        assert as_json(raws) == as_json(export.payload[form.key])
        assert () == export.lost

    @pytest.mark.parametrize(
        ("form", "raws", "usual"),
        [
            *[
                (
                    CHAT,
                    [chat_answer(content=None, tool_calls=[chat.call(**given)])],
                    [
                        chat_answer(
                            content=None,
                            tool_calls=[chat.call(id="message_0_call_0")],
                        )
                    ],
                )
                for given in ({"id": None}, {"id": ""})
            ],
            *[
                (RESPONSES, [call(**given)], [call(call_id="item_0_call")])
                for given in ({"call_id": None}, {"call_id": ""})
            ],
            (
                CHAT,
                [chat_answer(content=[{"type": "text", "text": "a"}], reasoning="b")],
                [chat_answer(content="a", reasoning="b")],
            ),
            (
                RESPONSES,
                [call(), message(), call("g", call_id="c2")],
                [call(), message(bare_text("")), call("g", call_id="c2")],
            ),
        ],
    )
    def test_usual_form(self, form, raws, usual):
        """
        A single text in a list next to reasoning is a text, and a message without
        blocks gets an empty one.
        """
        export = as_is(form.adapter).dump(form.adapter.load(raws))

        assert as_json(usual) == as_json(export.payload[form.key])
        assert () == export.lost

    @pytest.mark.parametrize(
        ("raw", "changes", "changed"),
        [
            (
                chat_answer(content="", tool_calls=[chat.call()]),
                {"content": "hi"},
                {"content": "hi"},
            ),
            (
                chat_answer(content="hi", tool_calls=[]),
                {"tool_calls": [ToolCall("c1", "f", "{}")]},
                {"tool_calls": [chat.call()]},
            ),
            (
                {"role": "user", "content": "hi", "name": None},
                {"name": "ann"},
                {"name": "ann"},
            ),
            (
                {"role": "tool", "content": "hi"},
                {"tool_call_id": "c2"},
                {"tool_call_id": "c2"},
            ),
        ],
    )
    def test_changes_win_over_notes(self, raw, changes, changed):
        """A note on what has been changed since does nothing."""
        (loaded,) = openai_chat.load([raw])

        assert [{**raw, **changed}] == openai_chat.dump(
            [loaded.replace(**changes)]
        ).payload["messages"]

    def test_changed_parts(self):
        """The same of parts and calls: remembered text never comes back."""
        raw = chat_answer(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                PICTURE,
            ],
            tool_calls=[{"function": {"name": "f"}}],
        )
        loaded: Any = openai_chat.load([raw])[0]
        hm, image = loaded.parts

        changed = loaded.replace(
            content=[
                attrs.evolve(hm, text="aha!"),
                attrs.evolve(image, data=b"GIF89a", media_type="image/gif"),
            ],
            tool_calls=[attrs.evolve(loaded.tool_calls[0], id="c1", arguments="{}")],
        )

        (sent,) = openai_chat.dump([changed]).payload["messages"]
        assert [{"type": "text", "text": "aha!"}] == sent["content"][0]["thinking"]
        assert (
            "data:image/gif;base64,R0lGODlh" == sent["content"][1]["image_url"]["url"]
        )
        assert [chat.call()] == sent["tool_calls"]

    def test_changed_items(self):
        """The same in Responses."""
        plain = {"role": "assistant", "content": "a", "phase": "final_answer"}
        loaded: Any = openai_responses.load([message("hi"), call(call_id=None), plain])[
            0
        ]
        first, last = loaded.parts

        changed = loaded.replace(
            content=[attrs.evolve(first, text="ho"), attrs.evolve(last, text="b")],
            tool_calls=[attrs.evolve(loaded.tool_calls[0], id="c9", arguments="[]")],
        )

        assert [
            message("ho"),
            call(call_id="c9", arguments="[]"),
            {**plain, "content": "b"},
        ] == items(changed)

    def test_parts_that_were_added(self):
        """
        Are messages of their own before and behind others, and no text gets another's
        name.
        """
        made = answer(message("b"), call())
        more = made.replace(
            content=[TextPart("a"), *made.content, TextPart("c"), TextPart("d")]
        )

        assert [
            {"role": "assistant", "content": [bare_text("a")]},
            message("b"),
            {"role": "assistant", "content": [*map(bare_text, "cd")]},
            call(),
        ] == items(more)

    def test_parts_that_were_taken_away(self):
        """What is left of an item is still sent."""
        made = answer(message("a", "b"), call())

        assert [message("b")] == items(made.replace(content=made.content[1:]))[:1]
        assert [{"role": "assistant", "content": [text("a")]}] == items(
            made.replace(content=made.content[:1])
        )[:1]

    def test_audio(self):
        """
        A plain text is an object where it has more keys by now, and a format that was
        in the data alone is written.
        """
        blocks = [
            {"type": "image_url", "image_url": PNG_URL},
            {
                "type": "input_audio",
                "input_audio": {"data": "data:audio/wav;base64,UklGRg=="},
            },
        ]
        loaded: Any = openai_chat.load([{"role": "user", "content": blocks}])[0]
        image, sound = loaded.parts
        changed = [
            attrs.evolve(image, detail="low"),
            attrs.evolve(sound, media_type="audio/mpeg"),
        ]

        (sent,) = openai_chat.dump([loaded.replace(content=changed)]).payload[
            "messages"
        ]

        assert {"url": PNG_URL, "detail": "low"} == sent["content"][0]["image_url"]
        assert "mp3" == sent["content"][1]["input_audio"]["format"]

    @pytest.mark.parametrize(
        ("media_type", "expected"),
        [
            ("audio/mp3", "mp3"),
            ("audio/mpeg", "mp3"),
            ("audio/vnd.wave", "wav"),
            ("audio/wave", "wav"),
            ("audio/x-wav", "wav"),
            ("audio/flac", "flac"),
        ],
    )
    def test_formats_of_audio(self, media_type, expected):
        """Each media type has a format of the provider's."""
        sound = AudioPart(data=b"ID3", media_type=media_type)

        (sent,) = openai_chat.dump([UserMessage([sound])]).payload["messages"]

        assert {"data": "SUQz", "format": expected} == sent["content"][0]["input_audio"]

    @pytest.mark.parametrize("role", ["user", "assistant", "function", "x", 3])
    def test_forged_role(self, role):
        """No note makes a message one of another role."""
        forged: Any = forge({"role": role}, "openai_chat")
        export = openai_chat.dump([SystemMessage("hi", metadata=forged)])

        assert [{"role": "system", "content": "hi"}] == export.payload["messages"]

    @pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
    def test_forged_notes(self, form):
        """Notes of the wrong types are ignored."""

        def dump(metadata):
            parts = [
                ReasoningPart("hm", "s", metadata=metadata),
                TextPart("hi", metadata=metadata),
            ]
            asked = ToolCall("c1", "f", "{}", metadata=metadata)
            made = AssistantMessage(parts, tool_calls=[asked], metadata=metadata)
            image = UserMessage([ImagePart(url=URL, metadata=metadata)])
            return as_is(form.adapter).dump([made, image])

        for forged in (
            {"conversation_state": 3},
            forge(3, form.name),
            forge(
                {"keys": 3, "item": 3, "block": 3, "key": "x", "list": "x"}, form.name
            ),
            forge({"more": 1, "plain": 1, "without": 3, "head": []}, form.name),
        ):
            assert dump({}).payload == dump(forged).payload


class TestOrder:
    """Text and calls of Responses keep their order."""

    @pytest.mark.parametrize(
        ("places", "expected"),
        [
            ([4, 0, 2, 9], "bfag"),
            ([0, 1, 2, 2], "abfg"),
            ([None, None, None, None], "abfg"),
            ([None, 0, 1, None], "abfg"),
            ([1, None, 0, 2], "fabg"),
            ([3, 5, 4, None], "afbg"),
            ([3, 5, None, 4], "abfg"),
        ],
    )
    def test_places(self, places, expected):
        """
        Parts and calls stand where they stood in the response. If the user added a part
        without a place, parts keep their order, and calls with a place go before the
        parts behind them.
        """
        first, second, third, last = places
        made = AssistantMessage(
            [TextPart("a", index=first), TextPart("b", index=second)],
            tool_calls=[
                ToolCall("c1", "f", index=third),
                ToolCall("c2", "g", index=last),
            ],
        )

        assert expected == "".join(
            each.get("name") or "".join(block["text"] for block in each["content"])
            for each in items(made)
        )

    def test_an_answer_in_parts(self):
        """Texts are one message, and parted by what stands between."""
        made = AssistantMessage(
            [
                TextPart("a"),
                TextPart("b"),
                UnknownPart({"type": "web_search_call"}, source="openai_responses"),
                TextPart("c"),
            ],
            tool_calls=[ToolCall("c1", "f", "{}")],
        )

        assert [
            {"role": "assistant", "content": [*map(bare_text, "ab")]},
            {"type": "web_search_call"},
            {"role": "assistant", "content": [bare_text("c")]},
            call(),
        ] == items(made)


OWN: Any = forge({"item": {"id": "rs_1"}})


class TestThoughts:
    """A signature is sent only to the provider that signed."""

    def test_own(self):
        """
        What this provider signed is sent back, byte for byte; what it keeps needs no
        signature.
        """
        for raw in (thought("Hm.", encrypted_content="gA+/=\u2028"), thought()):
            assert [raw, call()] == items(answer(raw, call()))

    @pytest.mark.parametrize(
        "metadata",
        [{}, {"conversation_state": {**OWN["conversation_state"], "anthropic": {}}}],
    )
    def test_signed(self, metadata):
        """
        A part without a note about its provider is taken to be this provider's, and so
        is one with notes of several.
        """
        made = ReasoningPart("Hm.", "s", metadata=metadata)
        sent = items(AssistantMessage([made, TextPart("hi")]))[0]

        assert [{"type": "summary_text", "text": "Hm."}] == sent["summary"]
        assert "s" == sent["encrypted_content"]

    @pytest.mark.parametrize(
        ("signature", "metadata"),
        [
            ("s", {"conversation_state": {"anthropic": {"signed": True}}}),
            ("s", {"conversation_state": {"openai_chat": 3}}),
            ("", {}),
        ],
    )
    def test_foreign(self, signature, metadata):
        """
        What another provider signed is lost, and so is what was never signed and has no
        id.
        """
        hm = ReasoningPart("Hm.", signature, metadata=metadata)
        made = AssistantMessage([hm, TextPart("hi")])

        assert ("messages[0].parts[0]", "reasoning") in losses(made)
        assert [{"role": "assistant", "content": [bare_text("hi")]}] == items(made)

    def test_without_its_end(self):
        """So is what is left where the signed part was taken away."""
        made = answer(thought("a", "b", encrypted_content="s"), call())
        left = made.replace(content=made.content[:1])

        assert [("messages[0].parts[0]", "reasoning")] == losses(left)
        assert [call()] == items(left)

    def test_nothing_after_it(self):
        """A thought that nothing follows is refused, and lost."""
        made = answer(message("a"), thought("Hm."), thought("Hm?", "Hm!"))

        assert [
            (f"messages[0].parts[{at}]", "reasoning") for at in (1, 2, 3)
        ] == losses(made, UserMessage("hi"))
        assert [message("a"), {"role": "user", "content": "hi"}] == items(
            made, UserMessage("hi")
        )

    @pytest.mark.parametrize(
        ("after", "is_sent"),
        [
            (AssistantMessage("a"), True),
            (
                UnknownMessage({"type": "item_reference"}, source="openai_responses"),
                True,
            ),
            (UserMessage("a"), False),
            (UnknownMessage({"type": "item_reference"}, source="gemini"), False),
            (UnknownMessage({"role": "critic"}, source="openai_responses"), False),
        ],
    )
    def test_something_after_it(self, after, is_sent):
        """What it led to may be in the next message, but not in one of another role."""
        # Decoded: its texts are equal to constants, and not the same.
        messages = decode(encode((answer(thought("Hm.")), after)))
        written = openai_responses.dump(messages)

        assert is_sent is (thought("Hm.") in written.payload["input"])
        assert is_sent is ("reasoning" not in {lost.what for lost in written.lost})


class TestDump:
    """What a format can't represent is listed."""

    @pytest.mark.parametrize(
        ("form", "made", "path", "what"),
        [
            (
                CHAT,
                AssistantMessage([ReasoningPart("hm", "signed"), TextPart("hi")]),
                *(".parts[0]", "reasoning"),
            ),
            (CHAT, ToolMessage("12", tool_call_id="c1", name="ann"), "", "name"),
            (
                CHAT,
                ToolMessage([ImagePart(url=URL)], tool_call_id="c1"),
                *(".parts[0]", "image"),
            ),
            (CHAT, UserMessage([FilePart(url=URL)]), ".parts[0]", "file"),
            (
                CHAT,
                UserMessage([AudioPart(data=b"x", media_type="video/mp4")]),
                *(".parts[0]", "media_type"),
            ),
            (
                CHAT,
                UserMessage([ImagePart(data=b"x", media_type="a,b")]),
                *(".parts[0]", "media_type"),
            ),
            (RESPONSES, UserMessage("hi", name="ann"), "", "name"),
            (
                RESPONSES,
                ToolMessage("no", tool_call_id="c1", tool_name="f"),
                *("", "tool_name"),
            ),
            (
                RESPONSES,
                UserMessage([AudioPart(data=b"x", media_type="audio/wav")]),
                *(".parts[0]", "audio"),
            ),
            (
                RESPONSES,
                UserMessage([FilePart(url=URL, media_type="text/plain")]),
                *(".parts[0]", "media_type"),
            ),
            (
                RESPONSES,
                AssistantMessage([ImagePart(data=b"x"), TextPart("see")]),
                *(".parts[0]", "image"),
            ),
            (
                RESPONSES,
                AssistantMessage(tool_calls=[ToolCall("c1", "f", type="mcp")]),
                *(".tool_calls[0]", "type"),
            ),
        ],
    )
    def test_lost(self, form, made, path, what):
        """Each loss has its place and its name; the rest of the message is sent."""
        assert [(f"messages[0]{path}", what)] == losses(made, form=form)
        assert as_json(as_is(form.adapter).dump([made]).payload)

    def test_leaves_a_message_behind(self):
        """The role of a message is still there where all its content is lost."""
        video = VideoPart(url=URL)

        assert [
            {"role": "user", "content": ""},
            {"role": "assistant", "content": ""},
            result(""),
        ] == items(
            UserMessage([video]),
            AssistantMessage([video]),
            ToolMessage([video], tool_call_id="c1"),
        )

    @pytest.mark.parametrize(("order", "sent"), [("th", "hm"), ("tth", "hmhm")])
    def test_reasoning_has_one_place(self, order, sent):
        """
        Reasoning of Chat Completions is one text before the content: what came later
        is sent with the rest, and listed.
        """
        hm, hi = openai_chat.load([chat_answer(content="hi", reasoning="hm")])[0].parts
        content = [hi, hm] if order == "th" else [hm, hm, hi]

        export = openai_chat.dump([AssistantMessage(content)])

        assert [chat_answer(content="hi", reasoning=sent)] == export.payload["messages"]
        assert [("messages[0].parts[1]", "reasoning")] == [
            (lost.path, lost.what) for lost in export.lost
        ]

    def test_audio_goes_back_by_its_id(self):
        """Audio the provider made is bytes here, and an id to the provider."""
        sound = {"id": "audio_1", "data": "SUQz", "expires_at": 9, "transcript": "hi"}
        loaded: Any = openai_chat.load([chat_answer(content=None, audio=sound)])
        expected = [chat_answer(content=None, audio={"id": "audio_1"})]

        assert [b"ID3"] == [part.data for part in loaded[0].parts]
        assert expected == openai_chat.dump(loaded).payload["messages"]

    def test_instructions(self):
        """Only a text in front is the instructions; there may be none."""
        brief, calm = SystemMessage("Be brief."), SystemMessage("Be calm.")
        parts = SystemMessage([TextPart("Be brief.")])
        item = {"role": "system", "content": "Be calm."}
        dump = openai_responses.dump

        assert {"instructions": "Be brief.", "input": [item]} == dump(
            [brief, calm]
        ).payload
        assert {"instructions": "", "input": []} == dump([SystemMessage("")]).payload
        assert "instructions" not in dump([UserMessage("hi"), brief]).payload
        assert "instructions" not in dump([parts]).payload

    def test_results(self):
        """
        A result's name, and whether it is that of a custom tool, is known by its call.
        """
        asked = AssistantMessage(tool_calls=[ToolCall("c1", "f", "ls", type="custom")])
        written = ToolMessage("12", tool_call_id="c1", tool_name="f")

        assert result(type="custom_tool_call_output") == items(asked, written)[1]
        assert [] == losses(asked, written)
        assert [("messages[1]", "tool_name")] == losses(
            asked, written.replace(tool_name="g")
        )
        assert [("messages[0]", "tool_name")] == losses(written, asked)

    def test_export_is_a_value(self):
        """Equal by content; losses read as sentences."""
        lost = Lost("messages[0]", "is_error", "has no place")
        dump = openai_chat.dump

        assert "messages[0]: is_error: has no place" == str(lost)
        assert dump([UserMessage("hi")]) == dump([UserMessage("hi")])
        assert dump([UserMessage("hi")]) != dump([UserMessage("ho")])


def test_result_of_a_legacy_call():
    """A call in the format before ``tool_calls`` has no id: its result has the name."""
    body = {"name": "f", "arguments": "{}"}
    raw = chat_answer(content=None, function_call=body)
    (answer,) = CHAT.adapter.load({"id": "r", "choices": [{"message": raw}]})
    result = ToolMessage("1", tool_call_id=answer.tool_calls[0].id)

    sent = CHAT.adapter.dump([answer, result]).payload["messages"]

    assert [raw, {"role": "function", "name": "f", "content": "1"}] == sent
