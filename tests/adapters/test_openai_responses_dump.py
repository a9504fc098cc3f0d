"""
From messages to Responses.
"""

from typing import Any

import attrs
import pytest

from conversation_state.adapters.openai_responses import dump, load
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
from tests.adapters.openai_chat import PNG_URL
from tests.adapters.openai_responses import (
    answer,
    call,
    message,
    one,
    result,
    text,
    thought,
)


def forge(notes):
    return {"conversation_state": {"openai_responses": notes}}


OWN: Any = forge({"item": {"id": "rs_1"}})
FOREIGN: Any = {"conversation_state": {"anthropic": {"signed": True}}}
BOTH: Any = {"conversation_state": {**OWN["conversation_state"], "anthropic": {}}}


def items(*messages):
    """
    The items of *messages*.
    """
    return dump(messages).payload["input"]


def losses(*messages):
    """
    What of *messages* is lost, and where.
    """
    return [(lost.path, lost.what) for lost in dump(messages).lost]


# What items have beside their content, and how contents can be written.
ITEMS: list[dict[str, Any]] = [
    {"role": "user"},
    {"role": "system"},
    {"role": "developer"},
    {"role": "assistant"},
    {"role": "assistant", "type": "message"},
    {"role": "assistant", "phase": None},
    {"role": "assistant", "id": "msg_1", "status": "completed", "type": "message"},
    {"role": "user", "id": "msg_1", "type": "message", "status": "completed"},
]

CONTENTS: list[Any] = [
    "",
    "hi",
    [],
    [{"type": "input_text", "text": "hi"}],
    [{"type": "output_text", "text": "hi"}],
    [{"type": "output_text", "text": ""}, {"type": "output_text", "text": ""}],
    [text("hi", logprobs=[{"token": "hi", "logprob": 0}]), text("ho")],
]


class TestWrittenAsItWas:
    """
    The form of an absent value is remembered, and forgotten when there is a value.
    """

    @pytest.mark.parametrize(
        "raws",
        [
            *[
                [{**about, "content": content}]
                for about in ITEMS
                for content in CONTENTS
            ],
            *[
                [{**about, "content": content}, call()]
                for about in ITEMS[3:5]
                for content in CONTENTS
            ],
            [call(), message(), call(call_id="c2"), message("a")],
            [message({"type": "hologram"}), message(phase="commentary"), message("b")],
            [{"role": "assistant", "content": [{"type": "hologram"}]}],
            [message({"type": "input_image", "image_url": PNG_URL})],
            [message({"type": "refusal", "refusal": ""}), thought("a"), call()],
            [call(id="fc_1", status=None, namespace="n"), result(name=None)],
            [result([]), result(""), result(id=None, status="completed", name="")],
        ],
        ids=as_json,
    )
    def test_key_for_key(self, raws):
        """
        Missing, null and "" are distinguished, and nothing is added.
        """
        export = dump(load(raws))

        assert as_json(raws) == as_json(export.payload["input"])
        assert () == export.lost

    def test_changes_win_over_notes(self):
        """
        A note on what has been changed since does nothing.
        """
        raws = [
            message({"type": "input_image", "image_url": PNG_URL.rstrip("=")}, "hi"),
            call(call_id=None),
            {"role": "assistant", "content": "a", "phase": "final_answer"},
        ]
        loaded: Any = load(raws)[0]
        image, first, plain = loaded.parts

        changed = loaded.replace(
            content=[
                attrs.evolve(image, data=b"GIF89a", media_type="image/gif"),
                attrs.evolve(first, text="ho"),
                attrs.evolve(plain, text="b"),
            ],
            tool_calls=[attrs.evolve(loaded.tool_calls[0], id="c9", arguments="[]")],
        )

        block, *_ = items(changed)[0]["content"]
        assert "data:image/gif;base64,R0lGODlh" == block["image_url"]
        assert "ho" == items(changed)[0]["content"][1]["text"]
        assert call(call_id="c9", arguments="[]") == items(changed)[1]
        assert {**raws[2], "content": "b"} == items(changed)[2]

    def test_parts_that_were_added(self):
        """
        Are messages of their own before and behind others, and no text gets another's
        name.
        """
        made = answer(message("b"), call())
        more = made.replace(
            content=[TextPart("a"), *made.content, TextPart("c"), TextPart("d")]
        )

        first, second, third, last = items(more)
        assert {"role": "assistant", "content": [bare_text("a")]} == first
        assert message("b") == second
        assert {"role": "assistant", "content": [*map(bare_text, "cd")]} == third
        assert call() == last

    def test_parts_that_were_taken_away(self):
        """
        What is left of an item is still sent.
        """
        made = answer(message("a", "b"), call())

        assert [message("b")] == items(made.replace(content=made.content[1:]))[:1]
        assert [{"role": "assistant", "content": [text("a")]}] == items(
            made.replace(content=made.content[:1])
        )[:1]

    def test_forged_notes(self):
        """
        Notes of the wrong types are ignored.
        """
        for forged in (
            {"conversation_state": 3},
            forge(3),
            forge({"keys": 3, "item": 3, "block": 3, "under": 3}),
            forge({"more": 1, "plain": 1, "without": 3, "text": []}),
        ):
            part = TextPart("hi", metadata=forged)
            hm = ReasoningPart("hm", "s", metadata=forged)
            image = ImagePart(url="https://a.b/c", metadata=forged)
            asked = ToolCall("c1", "f", "{}", metadata=forged)

            written = items(
                SystemMessage("a", metadata=forged),
                UserMessage([image], metadata=forged),
                AssistantMessage([hm, part], tool_calls=[asked], metadata=forged),
            )

            assert "hi" == written[-2]["content"][0]["text"]
            assert call() == written[-1]


def bare_text(one):
    """
    A block of text and nothing else.
    """
    return {"type": "output_text", "text": one}


class TestOrder:
    """
    Text and calls keep their order.
    """

    def test_places(self):
        """
        Parts and calls stand where they stood in the response, wherever they
        are in the message.
        """
        made = AssistantMessage(
            [TextPart("c", index=4), TextPart("a", index=0)],
            tool_calls=[ToolCall("c2", "g", index=9), ToolCall("c1", "f", index=2)],
        )

        written = [
            each.get("name") or each["content"][0]["text"] for each in items(made)
        ]
        assert ["a", "f", "c", "g"] == written

    @pytest.mark.parametrize(
        ("places", "expected"),
        [
            ([None, None, None, None], ["a", "b", "f", "g"]),
            ([None, 0, 1, None], ["ab", "f", "g"]),
            ([1, None, 0, 2], ["f", "ab", "g"]),
            ([3, 5, 4, None], ["a", "f", "b", "g"]),
            ([3, 5, None, 4], ["ab", "f", "g"]),
        ],
    )
    def test_some_places(self, places, expected):
        """
        If the user added a part without a place, parts keep their order, and calls with
        a place go before the parts behind them.
        """
        first, second, third, last = places
        made = AssistantMessage(
            [TextPart("a", index=first), TextPart("b", index=second)],
            tool_calls=[
                ToolCall("c1", "f", index=third),
                ToolCall("c2", "g", index=last),
            ],
        )

        written = [
            each.get("name") or "".join(block["text"] for block in each["content"])
            for each in items(made)
        ]
        assert "".join(expected) == "".join(written)
        assert [each["name"] for each in items(made) if "name" in each] == ["f", "g"]


class TestThoughts:
    """
    A signature is sent only to the provider that signed.
    """

    def test_own(self):
        """
        What this provider signed is sent back, byte for byte.
        """
        raw = thought("Hm.", encrypted_content="gAAAA+/=\u2028")

        assert [raw, call()] == items(answer(raw, call()))

    def test_made_by_hand(self):
        """
        A part without a note about its provider is taken to be this provider's.
        """
        made = AssistantMessage([ReasoningPart("Hm.", "s"), TextPart("hi")])

        assert {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "s",
        } == items(made)[0]

    def test_by_its_id(self):
        """
        What is with the provider needs no signature.
        """
        assert [thought(), call()] == items(answer(thought(), call()))

    @pytest.mark.parametrize(
        "metadata",
        [
            FOREIGN,
            {"conversation_state": {"gemini": {}}},
            {"conversation_state": {"openai_chat": 3}},
        ],
    )
    def test_foreign(self, metadata):
        """
        What another provider signed is lost, the thought with it.
        """
        hm = ReasoningPart("Hm.", "s", metadata=metadata)
        made = AssistantMessage([hm, TextPart("hi")])

        assert ("messages[0].parts[0]", "reasoning") in losses(made)
        assert [{"role": "assistant", "content": [bare_text("hi")]}] == items(made)

    def test_noted_by_both(self):
        """
        A part with a note of its own is signed.
        """
        hm = ReasoningPart("Hm.", "s", metadata=BOTH)

        assert (
            "s" == items(AssistantMessage([hm, TextPart("a")]))[0]["encrypted_content"]
        )

    def test_unsigned(self):
        """
        What was never signed, and has no id, is refused by the provider.
        """
        made = AssistantMessage([ReasoningPart("Hm."), TextPart("hi")])

        assert [("messages[0].parts[0]", "reasoning")] == losses(made)
        assert 1 == len(items(made))

    def test_without_its_end(self):
        """
        So is what is left where the signed part was taken away.
        """
        made = answer(thought("a", "b", encrypted_content="s"), call())
        left = made.replace(content=made.content[:1])

        assert [("messages[0].parts[0]", "reasoning")] == losses(left)
        assert [call()] == items(left)

    def test_nothing_after_it(self):
        """
        A thought that nothing follows is refused, and lost.
        """
        made = answer(message("a"), thought("Hm."), thought("Hm?", "Hm!"))

        assert [
            ("messages[0].parts[1]", "reasoning"),
            ("messages[0].parts[2]", "reasoning"),
            ("messages[0].parts[3]", "reasoning"),
        ] == sorted(losses(made, UserMessage("hi")))
        assert [message("a"), {"role": "user", "content": "hi"}] == items(
            made, UserMessage("hi")
        )

    @pytest.mark.parametrize(
        "after",
        [
            AssistantMessage("a"),
            UnknownMessage({"type": "item_reference"}, source="openai_responses"),
        ],
    )
    def test_something_after_it(self, after):
        """
        What it led to may be in the next message.
        """
        assert [thought("Hm.")] == items(answer(thought("Hm.")), after)[:1]

    @pytest.mark.parametrize(
        "after",
        [
            UserMessage("a"),
            ToolMessage("a", tool_call_id="c1"),
            UnknownMessage({"type": "item_reference"}, source="gemini"),
            UnknownMessage({"role": "critic"}, source="openai_responses"),
        ],
    )
    def test_another_role_after_it(self, after):
        """
        But not in a message of another role.
        """
        written = dump([answer(thought("Hm.")), after])

        assert "reasoning" in {lost.what for lost in written.lost}
        assert thought("Hm.") not in written.payload["input"]


class TestDump:
    """
    What the format can't represent is listed.
    """

    @pytest.mark.parametrize(
        ("message", "lost"),
        [
            (UserMessage("hi", name="ann"), [("messages[0]", "name")]),
            (SystemMessage("hi", name="ann"), [("messages[0]", "name")]),
            (AssistantMessage("hi", name="ann"), [("messages[0]", "name")]),
            (
                ToolMessage("no", tool_call_id="c1", tool_name="f"),
                [("messages[0]", "tool_name")],
            ),
            (
                ToolMessage([AudioPart(data=b"x")], tool_call_id="c1"),
                [("messages[0].parts[0]", "audio")],
            ),
            (
                UserMessage([AudioPart(data=b"x", media_type="audio/wav")]),
                [("messages[0].parts[0]", "audio")],
            ),
            (
                UserMessage([FilePart(url="https://a.b/c", media_type="text/plain")]),
                [("messages[0].parts[0]", "media_type")],
            ),
            (
                AssistantMessage([ImagePart(data=b"x"), TextPart("see")]),
                [("messages[0].parts[0]", "image")],
            ),
            (
                AssistantMessage(tool_calls=[ToolCall("c1", "f", type="mcp")]),
                [("messages[0].tool_calls[0]", "type")],
            ),
        ],
    )
    def test_lost(self, message, lost):
        """
        Each loss has its place and its name; the rest of the message is sent.
        """
        export = dump([message])

        assert lost == [(one.path, one.what) for one in export.lost]
        assert all(one.why for one in export.lost)
        assert as_json(export.payload)

    def test_leaves_a_message_behind(self):
        """
        The role of a message is still there where all its content is lost.
        """
        video = VideoPart(url="https://a.b/c")

        assert [
            {"role": "user", "content": ""},
            {"role": "assistant", "content": ""},
            result(""),
        ] == items(
            UserMessage([video]),
            AssistantMessage([video]),
            ToolMessage([video], tool_call_id="c1"),
        )

    def test_instructions(self):
        """
        Only a text in front is the instructions; there may be none.
        """
        brief, calm = SystemMessage("Be brief."), SystemMessage("Be calm.")
        parts = SystemMessage([TextPart("Be brief.")])
        item = {"role": "system", "content": "Be calm."}

        assert {"instructions": "Be brief.", "input": [item]} == dump(
            [brief, calm]
        ).payload
        assert {"input": []} == dump([]).payload
        assert {"instructions": "", "input": []} == dump([SystemMessage("")]).payload
        assert "instructions" not in dump([UserMessage("hi"), brief]).payload
        assert "instructions" not in dump([parts]).payload

    def test_names_of_tools(self):
        """
        A result's name is known by its call.
        """
        asked = AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")])
        written = ToolMessage("12", tool_call_id="c1", tool_name="f")

        assert [] == losses(asked, written)
        assert [("messages[1]", "tool_name")] == losses(
            asked, written.replace(tool_name="g")
        )
        assert [("messages[0]", "tool_name")] == losses(written, asked)

    def test_results_of_custom_tools(self):
        """
        Are recognised by their call, too.
        """
        asked = AssistantMessage(
            tool_calls=[ToolCall("c1", "run", "ls", type="custom")]
        )
        written = ToolMessage("12", tool_call_id="c1")

        assert [
            {"type": "custom_tool_call", "call_id": "c1", "name": "run", "input": "ls"},
            result(type="custom_tool_call_output"),
        ] == items(asked, written)

    def test_an_answer_in_parts(self):
        """
        Texts are one message, and parted by what stands between.
        """
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


class TestAudio:
    def test_other_media_type(self):
        """
        A media type that is none of audio has no place, and is listed.
        """
        body = {"data": "UklGRg==", "format": "wav"}
        block = {"type": "input_audio", "input_audio": body}
        loaded = one({"role": "user", "content": [block]})
        sound = attrs.evolve(loaded.parts[0], media_type="video/mp4")

        export = dump([loaded.replace(content=[sound])])

        assert [("messages[0].parts[0]", "media_type")] == [
            (lost.path, lost.what) for lost in export.lost
        ]
