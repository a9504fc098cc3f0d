"""
From messages to Chat Completions.
"""

from typing import Any

import attrs
import pytest

from conversation_state.adapters import Lost
from conversation_state.adapters.openai_chat import dump, load
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from tests.adapters.contract import as_json
from tests.adapters.openai_chat import PNG_URL, answer, call, one

# What messages have beside their content, and how contents can be left out.
ROLES: list[tuple[str, dict[str, Any]]] = [
    ("system", {}),
    ("developer", {}),
    ("user", {"name": ""}),
    ("assistant", {"name": None}),
    ("assistant", {"tool_calls": None}),
    ("assistant", {"tool_calls": [], "prefix": False}),
    ("assistant", {"tool_calls": [call()]}),
    ("assistant", {"function_call": None}),
    ("assistant", {"function_call": {"name": "f", "arguments": ""}}),
    ("assistant", {"refusal": None, "annotations": []}),
    ("assistant", {"refusal": ""}),
    ("assistant", {"refusal": "no"}),
    ("assistant", {"reasoning": "hm"}),
    ("assistant", {"reasoning": None, "reasoning_content": ""}),
    ("assistant", {"reasoning": {"summary": "hm"}}),
    ("assistant", {"audio": {"id": "audio_1"}}),
    ("assistant", {"audio": None}),
    ("tool", {"tool_call_id": "c1"}),
    ("tool", {"tool_call_id": "c1", "name": None}),
    ("function", {"name": "f"}),
]

CONTENTS: list[dict[str, Any]] = [
    {},
    {"content": None},
    {"content": ""},
    {"content": []},
    {"content": "hi"},
    {"content": [{"type": "text", "text": "hi"}]},
]


class TestWrittenAsItWas:
    """
    The form of an absent value is remembered, and forgotten when there is a value.
    """

    @pytest.mark.parametrize(
        "raw",
        [
            *[
                {"role": role, **fields, **content}
                for role, fields in ROLES
                for content in CONTENTS
            ],
            *[
                answer(content=None, tool_calls=[raw])
                for raw in [
                    call(id=None),
                    call(id=""),
                    call(index=0, extra_content={"google": {"thought": True}}),
                    call(type=None),
                    call(function={"name": "f", "arguments": ' {"a" :\n1.0}\t'}),
                    {"id": "a", "function": {"name": "f"}},
                    {"function": {"name": "f", "arguments": None}},
                    call(function={"name": "f", "arguments": '{"a" :', "strict": True}),
                    {"type": "custom", "custom": {"name": "run"}},
                    {"id": "a", "type": "mcp", "server": "s", "function": 3},
                    {"id": "a", "type": "builtin", "function": {"name": ""}},
                    call(type="builtin_function"),
                ]
            ],
            answer(content=[{"type": "refusal", "refusal": "no"}]),
            answer(content=[{"type": "refusal", "refusal": ""}]),
            answer(content=[{"type": "refusal", "refusal": "no"}], refusal="no"),
            answer(content=[{"type": "image_url", "image_url": {"url": PNG_URL}}]),
            answer(content=[{"type": "thinking", "thinking": "hm", "signature": "s"}]),
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [{"type": "image_url", "image_url": {"url": PNG_URL}}],
            },
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
        ],
        ids=as_json,
    )
    def test_key_for_key(self, raw):
        """
        Missing, null and "" are distinguished, and nothing is added.
        """
        export = dump(load([raw]))

        assert as_json([raw]) == as_json(export.payload["messages"])
        assert () == export.lost

    @pytest.mark.parametrize(
        ("raw", "changes", "changed"),
        [
            (answer(), {"content": "hi"}, {"content": "hi"}),
            (
                answer(content="", tool_calls=[call()]),
                {"content": "hi"},
                {"content": "hi"},
            ),
            (
                answer(content="hi", tool_calls=[]),
                {"tool_calls": [ToolCall("c1", "f", "{}")]},
                {"tool_calls": [call()]},
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
        """
        A note on what has been changed since does nothing.
        """
        message = one(raw).replace(**changes)

        assert [{**raw, **changed}] == dump([message]).payload["messages"]

    def test_changed_parts(self):
        """
        The same of parts and calls: remembered text never comes back.
        """
        raw = answer(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "image_url", "image_url": {"url": PNG_URL.rstrip("=")}},
            ],
            tool_calls=[{"function": {"name": "f"}}],
        )
        message = one(raw)
        thought, image = message.parts

        changed = message.replace(
            content=[
                attrs.evolve(thought, text="aha!"),
                attrs.evolve(image, data=b"GIF89a", media_type="image/gif"),
            ],
            tool_calls=[attrs.evolve(message.tool_calls[0], id="c1", arguments="{}")],
        )

        (sent,) = dump([changed]).payload["messages"]
        assert [{"type": "text", "text": "aha!"}] == sent["content"][0]["thinking"]
        assert (
            "data:image/gif;base64,R0lGODlh" == sent["content"][1]["image_url"]["url"]
        )
        assert [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}] == sent[
            "tool_calls"
        ]

    def test_plain_medium_with_more(self):
        """
        A medium that was a plain text is an object where it has more keys.
        """
        raw = {"role": "user", "content": [{"type": "image_url", "image_url": PNG_URL}]}
        message = one(raw)
        image = attrs.evolve(message.parts[0], detail="low")

        (sent,) = dump([message.replace(content=[image])]).payload["messages"]

        assert {"url": PNG_URL, "detail": "low"} == sent["content"][0]["image_url"]

    def test_type_of_audio(self):
        """
        A format that was in the data alone is written where it is another by now.
        """
        body = {"data": "data:audio/wav;base64,UklGRg=="}
        block = {"type": "input_audio", "input_audio": body}
        message = one({"role": "user", "content": [block]})
        sound = attrs.evolve(message.parts[0], media_type="audio/mpeg")

        (sent,) = dump([message.replace(content=[sound])]).payload["messages"]

        assert "mp3" == sent["content"][0]["input_audio"]["format"]

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
        """
        Each media type has a format of the provider's.
        """
        sound = AudioPart(data=b"ID3", media_type=media_type)

        (sent,) = dump([UserMessage([sound])]).payload["messages"]

        assert {"data": "SUQz", "format": expected} == sent["content"][0]["input_audio"]

    @pytest.mark.parametrize("role", ["user", "assistant", "function", "x", 3])
    def test_forged_role(self, role):
        """
        No note makes a message one of another role.
        """
        forged = {"conversation_state": {"openai_chat": {"role": role}}}
        message = SystemMessage("hi", metadata=forged)

        assert [{"role": "system", "content": "hi"}] == dump([message]).payload[
            "messages"
        ]

    def test_forged_notes(self):
        """
        Notes of the wrong types are ignored.
        """
        for forged in (
            {"conversation_state": 3},
            {"conversation_state": {"openai_chat": 3}},
            {"conversation_state": {"openai_chat": {"keys": 3, "under": "x"}}},
        ):
            part = TextPart("hi", metadata=forged)
            asked = ToolCall("c1", "f", metadata=forged)
            message = AssistantMessage([part], tool_calls=[asked], metadata=forged)

            assert as_json(
                [
                    answer(
                        content=[{"type": "text", "text": "hi"}],
                        tool_calls=[call(function={"name": "f", "arguments": ""})],
                    )
                ]
            ) == as_json(dump([message]).payload["messages"])


class TestDump:
    """
    What the format can't represent is listed.
    """

    @pytest.mark.parametrize(
        ("message", "lost"),
        [
            (
                AssistantMessage([ReasoningPart("hm", "signed"), TextPart("hi")]),
                [("messages[0].parts[0]", "reasoning")],
            ),
            (
                ToolMessage("12", tool_call_id="c1", name="ann"),
                [("messages[0]", "name")],
            ),
            (
                ToolMessage([ImagePart(url="https://a.b/c")], tool_call_id="c1"),
                [("messages[0].parts[0]", "image")],
            ),
            (
                UserMessage([FilePart(url="https://a.b/c")]),
                [("messages[0].parts[0]", "file")],
            ),
            (
                UserMessage([AudioPart(data=b"x", media_type="video/mp4")]),
                [("messages[0].parts[0]", "media_type")],
            ),
            (
                UserMessage([ImagePart(data=b"x", media_type="a,b")]),
                [("messages[0].parts[0]", "media_type")],
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

    def test_no_parts_left(self):
        """
        Nor is one sent where none of the parts can be.
        """
        message = one({"role": "user", "content": []})

        film = VideoPart(url="https://a.b/c")
        (sent,) = dump([message.replace(content=[film])]).payload["messages"]

        assert "" == sent["content"]

    def test_reasoning_has_one_place(self):
        """
        Reasoning that came later is sent with the rest, and listed.
        """
        message = one(answer(content="hi", reasoning_content="hm"))
        thought, text = message.parts

        export = dump([message.replace(content=[text, thought])])

        assert [("messages[0].parts[1]", "reasoning")] == [
            (lost.path, lost.what) for lost in export.lost
        ]
        assert "hm" == export.payload["messages"][0]["reasoning_content"]

    def test_reasoning_of_two(self):
        """
        What came as one text under a key is one there, and listed if it is two.
        """
        message = one(answer(content="hi", reasoning="hm"))
        thought, text = message.parts

        export = dump([message.replace(content=[thought, thought, text])])

        assert [("messages[0].parts[1]", "reasoning")] == [
            (lost.path, lost.what) for lost in export.lost
        ]
        assert [answer(content="hi", reasoning="hmhm")] == export.payload["messages"]

    def test_audio_goes_back_by_its_id(self):
        """
        Audio the provider made is bytes here, and an id to the provider.
        """
        sound = {"id": "audio_1", "data": "SUQz", "expires_at": 9, "transcript": "hi"}
        message = one(answer(content=None, audio=sound))

        assert b"ID3" == message.parts[0].data
        assert [answer(content=None, audio={"id": "audio_1"})] == dump(
            [message]
        ).payload["messages"]


class TestExport:
    """
    What all adapters give back.
    """

    def test_is_a_value(self):
        """
        Equal by content; losses read as sentences.
        """
        lost = Lost("messages[0]", "is_error", "has no place")

        assert "messages[0]: is_error: has no place" == str(lost)
        assert dump([UserMessage("hi")]) == dump([UserMessage("hi")])
        assert dump([UserMessage("hi")]) != dump([UserMessage("ho")])
