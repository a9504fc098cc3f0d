"""bubo's messages: what all adapters promise, and what comes back of what."""

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import given

from conversation_state.adapters import bubo, openai_chat
from conversation_state.adapters.bubo import dump, load
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
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from tests.adapters.bubo import (
    CONVERSATIONS,
    MESSAGES,
    RUN,
    UNREADABLE,
    checkpoints,
    notes,
    one,
    several,
    user,
)
from tests.adapters.contract import FormatContract, problem_paths
from tests.adapters.kept import normalise

RUN_ID = UUID(RUN)


def written(*messages):
    """*messages* as bubo has them."""
    return dump(messages).payload["messages"]


def lost(*messages):
    """The paths and names of what bubo can't represent in *messages*."""
    return [(one.path, one.what) for one in dump(messages).lost]


def as_it_comes_back(part):
    """*part* as it comes back: data: urls as bytes, audio of the usual type."""
    head, _, body = (getattr(part, "url", "") or "").partition(";base64,")
    if isinstance(part, ImagePart) and body and head.startswith("data:"):
        with suppress(ValueError):
            data = base64.b64decode(body, validate=True)
            return ImagePart(data=data, media_type=head[5:])

    if isinstance(part, AudioPart) and part.media_type == "audio/mp3":
        return AudioPart(data=part.data, media_type="audio/mpeg")

    return part


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = bubo
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES | checkpoints()

    def normalise(self, message):
        """
        More than other providers get: times, runs and metadata are written here, too.
        """
        message = normalise(message, "bubo")
        if isinstance(getattr(message, "content", ""), str):
            return message

        return message.replace(content=[as_it_comes_back(p) for p in message.content])


class TestWire:
    def test_as_go(self):
        """A conversation, as Go writes it."""
        common: Any = {
            "run_id": RUN_ID,
            "turn_id": RUN_ID,
            "name": "ann",
            "timestamp": datetime(
                2024, 2, 29, 1, 2, 3, 45_000, timezone(timedelta(hours=1))
            ),
            "metadata": {"b": [1], "a": None},
        }
        tail = (
            f',"run_id":"{RUN}","turn_id":"{RUN}","sender":"ann",'
            '"timestamp":"2024-02-29T01:02:03.045+01:00","meta":{"a":null,"b":[1]}}'
        )
        expected = [
            '{"type":"instructions","content":"Be brief."' + tail,
            (
                '{"type":"user","content":[{"type":"text","text":""},'
                '{"type":"image","image_url":"http://a"},'
                '{"type":"audio","input_audio":{"data":"aGk=","format":"mp3"}}]}'
            ),
            '{"type":"user","content":null}',
            '{"type":"assistant"}',
            '{"type":"assistant","content":"ü"' + tail,
            '{"type":"assistant","refusal":"no"}',
            (
                '{"type":"assistant","content":[{"type":"text","text":"a"},'
                '{"type":"refusal","refusal":"b"}]}'
            ),
            (
                '{"type":"tool_call","tool_calls":'
                '[{"id":"c1","name":"f","arguments":"{}"}]}'
            ),
            '{"type":"tool_response","tool_name":"","tool_call_id":"c1","content":""}',
            '{"type":"retry","error":"x","tool_name":"f","tool_call_id":"c1"}',
        ]

        assert list(map(json.loads, expected)) == written(
            SystemMessage("Be brief.", **common),
            UserMessage(
                [
                    TextPart(""),
                    ImagePart(url="http://a"),
                    AudioPart(data=b"hi", media_type="audio/mpeg"),
                ]
            ),
            UserMessage(""),
            AssistantMessage(),
            AssistantMessage("ü", **common),
            AssistantMessage([RefusalPart("no")]),
            AssistantMessage([TextPart("a"), RefusalPart("b")]),
            AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")]),
            ToolMessage("", tool_call_id="c1"),
            ToolMessage("x", tool_call_id="c1", tool_name="f", is_error=True),
        )

    def test_content_of_assistants(self):
        """
        An assistant without content has none; an empty list, and white space, come back
        as they were.
        """
        contents: list[Any] = [[], "  "]
        for content in contents:
            raw = {"type": "assistant", "content": content}
            assert [raw] == written(one(raw))

        for nothing in ({}, {"content": None}, {"content": ""}, {"refusal": None}):
            assert AssistantMessage() == one({"type": "assistant", **nothing})

        assert [{"type": "assistant"}] == written(AssistantMessage())

    def test_refusals(self):
        """
        A refusal alone stands beside the content, unless it is empty, or has more keys.
        """
        part = {"type": "refusal", "refusal": "no"}
        beside = {"type": "assistant", "refusal": "no"}
        marked = {"type": "assistant", "content": [{**part, "newer": 1}]}

        for raw in (beside, {"type": "assistant", "content": [part]}):
            assert (RefusalPart("no"),) == one(raw).content
            assert [beside] == written(one(raw))

        assert [marked] == written(one(marked))
        assert [] == written(AssistantMessage([RefusalPart("")]))[0]["content"][1:]

    @given(UNREADABLE)
    def test_what_bubo_cannot_read(self, raw):
        """What bubo writes and can't read is loaded, and written so that it can."""
        (message,) = load([raw])

        export = dump([message])

        if raw is None or "type" not in raw:
            assert UnknownMessage(raw or {}, source="bubo") == message
            assert [] == export.payload["messages"]
            assert ["message"] == [each.what for each in export.lost]
        else:
            envelope = {key: raw[key] for key in raw if key != "tool_calls"}
            readable = {"type": "assistant"} if "tool_calls" in raw else {"error": ""}
            assert [{**envelope, **readable}] == export.payload["messages"]
            assert () == export.lost
            assert export == dump(load(export.payload))

    def test_calls(self):
        """
        Calls are a message of their own; calls and results without ids are paired.
        """
        raws = [
            {
                "type": "tool_call",
                "tool_calls": [
                    {"id": "", "name": "f", "arguments": ""},
                    {"id": "", "name": "g", "arguments": ""},
                ],
            },
            {
                "type": "tool_response",
                "tool_name": "g",
                "tool_call_id": "",
                "content": "1",
            },
            {"type": "retry", "error": "2"},
        ]

        called, first, second = several(raws)

        f, g = called.tool_calls
        assert f.id != g.id
        assert (g.id, f.id) == (first.tool_call_id, second.tool_call_id)
        assert second.is_error
        assert raws == written(called, first, second)

    def test_last_event_of_a_stream(self):
        """The response in it is a message, and the checkpoint is one."""
        event = {
            "type": "response",
            "run_id": RUN,
            "checkpoint": {"id": RUN, "messages": [user()], "init_len": 1},
            "response": {"type": "assistant", "content": "hello"},
        }

        assert (AssistantMessage("hello"),) == load(event["response"])
        assert 1 == bubo.load_checkpoint(event["checkpoint"]).state.init_len

    def test_text_and_calls(self):
        """
        An assistant's text and calls in one message become two, of one envelope, which
        is listed.
        """
        message = AssistantMessage(
            "Let me see.",
            tool_calls=[ToolCall("c1", "f")],
            name="ann",
            metadata={"a": 1},
        )
        texts, called = written(message)

        assert ("Let me see.", "ann", {"a": 1}) == (
            texts["content"],
            texts["sender"],
            texts["meta"],
        )
        assert ("tool_call", "ann", {"a": 1}) == (
            called["type"],
            called["sender"],
            called["meta"],
        )
        assert [("messages[0]", "tool_calls")] == lost(message)

    def test_unknown(self):
        """
        Types, parts and keys of a newer bubo are kept, and written back; what
        is another's is not.
        """
        raws = [
            {"type": "thought", "text": "hm", "run_id": RUN},
            user([{"type": "video", "url": "x"}], newer={"a": 1}),
            {
                "type": "tool_call",
                "tool_calls": [{"id": "c", "name": "f", "arguments": "", "x": 1}],
            },
            user([{"type": "text", "text": "", "y": None}]),
        ]
        messages = several(raws)

        assert UnknownMessage(raws[0], source="bubo") == messages[0]
        assert UnknownPart(raws[1]["content"][0], source="bubo") == messages[1].parts[0]
        assert {"keys": {"newer": {"a": 1}}} == notes(messages[1])
        assert raws == written(*messages)
        assert [
            ("messages[0]", "a"),
            ("messages[1].parts[0]", "b"),
            ("messages[2]", "unknown"),
        ] == lost(
            UnknownMessage({"role": "a"} | {"type": "a"}, source="else"),
            UserMessage([UnknownPart({"type": "b"}, source="else")]),
            UnknownMessage({}, source="else"),
        )
        assert "newer" in [each.what for each in openai_chat.dump(messages).lost]

    def test_edited_meta(self):
        """Metadata of ours take the place of a meta that was not an object."""
        message = one(user(meta=5))
        edited = message.replace(metadata={**message.metadata, "a": 1})

        assert {"a": 1} == written(edited)[0]["meta"]
        assert [("messages[0]", "meta")] == lost(edited)
        assert {"a": 1} == dict(one(user(meta={"a": 1})).metadata)


NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


def east(seconds):
    """A zone whose time is ahead of UTC."""
    return timezone(timedelta(seconds=seconds))


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("2024-02-29T12:30:05.123Z", "2024-02-29T12:30:05.123000+00:00"),
            ("2024-02-29T12:30:05.123+01:00", "2024-02-29T12:30:05.123000+01:00"),
            ("2024-02-29T12:30:05.123456789-0330", "2024-02-29T12:30:05.123456-03:30"),
            ("2024-02-29T12:30:05,5Z", "2024-02-29T12:30:05.500000+00:00"),
            ("2024-02-29 12:30", "2024-02-29T12:30:00+00:00"),
            ("2024-02-29", "2024-02-29T00:00:00+00:00"),
        ],
    )
    def test_read(self, text, expected):
        """Times are read in all of bubo's layouts, without a zone as UTC."""
        assert expected == one(user(timestamp=text)).timestamp.isoformat()
        # In Go an empty time is the year 1970.
        assert one(user(timestamp="")).timestamp is None

    @pytest.mark.parametrize(
        "bad",
        [
            *(5, "now", "2024-02-30", "2024-02-29T25:00:00Z", "0000-01-01", []),
        ],
    )
    def test_refused(self, bad):
        """What is not a time is refused."""
        with pytest.raises(DecodeError, match=r"\$\.timestamp: .*expected a time"):
            load(user(timestamp=bad))

    @pytest.mark.parametrize(
        ("time", "text", "why"),
        [
            (NOON.replace(microsecond=6_000), "2024-01-02T12:00:00.006Z", ""),
            (NOON.replace(microsecond=6_789), "2024-01-02T12:00:00.006Z", "milli"),
            (NOON.replace(tzinfo=east(90)), "2024-01-02T12:00:00.000+00:01", "minutes"),
            (
                NOON.replace(tzinfo=east(30 - 24 * 3_600)),
                *("2024-01-02T12:00:00.000-23:59", "minutes"),
            ),
            (datetime(1, 1, 1, tzinfo=east(30)), "0001-01-01T00:00:00.000Z", "minutes"),
            (datetime(999, 1, 1, tzinfo=UTC), "0999-01-01T00:00:00.000Z", ""),
        ],
    )
    def test_written(self, time, text, why):
        """
        Times are written in milliseconds, with their offset in minutes; the rest is
        lost.
        """
        export = dump([UserMessage("hi", timestamp=time)])

        assert text == export.payload["messages"][0].get("timestamp")
        assert bool(why) == bool(export.lost)
        assert all(why in each.why and each.what == "timestamp" for each in export.lost)


class TestLost:
    @pytest.mark.parametrize(
        ("message", "path", "what"),
        [
            *[
                (UserMessage([part]), ".parts[0]", "media_type")
                for part in (
                    AudioPart(data=b"a", media_type="text/plain"),
                    ImagePart(data=b"a", media_type="a,b"),
                )
            ],
            (SystemMessage([TextPart("a"), TextPart("b")]), "", "parts"),
            (UserMessage([TextPart("a", metadata={"a": 1})]), ".parts[0]", "metadata"),
            (UserMessage([ImagePart(url="a", detail="low")]), ".parts[0]", "detail"),
            (AssistantMessage([ReasoningPart("a")]), ".parts[0]", "reasoning"),
            (AssistantMessage([ImagePart(url="a")]), ".parts[0]", "image"),
            (ToolMessage([ImagePart(url="a")], tool_call_id="c"), ".parts[0]", "image"),
            (UnknownMessage({"type": "x"}, source="bubo", name="a"), "", "name"),
        ],
    )
    def test_listed(self, message, path, what):
        """What bubo can't represent is listed, and nothing else is."""
        assert [(f"messages[0]{path}", what)] == lost(message)

    @pytest.mark.parametrize(
        "url",
        [
            "data:image/png;base64,iVBORx==",
            "data:a,b",
            "data:;base64,a",
            "data:x;base64,",
        ],
    )
    def test_urls_of_unusual_data(self, url):
        """A url whose content we would write otherwise stays the url it is."""
        raw = user([{"type": "image", "image_url": url}])

        assert (ImagePart(url=url),) == one(raw).content
        assert [raw] == written(one(raw))

    def test_mended(self):
        """Half of a surrogate pair is U+FFFD, and listed with its place."""
        message = one(user("\ud800", sender="\udfff", meta={"a": "\ud800"}))

        assert ("\ufffd", "\ufffd", "\ufffd") == (
            message.text,
            message.name,
            message.metadata["a"],
        )
        assert [("messages[0]", each) for each in ("meta.a", "sender", "content")] == (
            lost(message)
        )
        odd = one({"type": "x", "a": "\ud800"})
        assert ("\ufffd", [("messages[0]", "a")]) == (odd.raw["a"], lost(odd))


RESULT = {"type": "tool_response", "tool_name": "f", "tool_call_id": "c", "content": ""}


def sound(content):
    """A user's message in JSON, with sound."""
    return user([{"type": "audio", "input_audio": content}])


def answer(content):
    """An assistant's message in JSON."""
    return {"type": "assistant", "content": content}


class TestRefuses:
    @pytest.mark.parametrize(
        ("raw", "path"),
        [
            ({}, ".type"),
            ({"type": "user"}, ".content"),
            (user([5]), ".content[0]"),
            (user([{"type": "text"}]), ".content[0].text"),
            (sound({"data": "?", "format": ""}), ".content[0].input_audio.data"),
            ({"type": "assistant", "content": "a", "refusal": "b"}, ""),
            ({"type": "tool_call"}, ".tool_calls"),
            ({"type": "tool_call", "tool_calls": [{"id": 5}]}, ".tool_calls[0].id"),
            *[
                ({key: RESULT[key] for key in RESULT if key != missing}, f".{missing}")
                for missing in ("tool_name", "tool_call_id", "content")
            ],
            ({"type": "retry", "error": {}}, ".error"),
            (user(run_id=""), ".run_id"),
            (user(run_id=5), ".run_id"),
            (user(turn_id="0189-0a5dac96774b"), ".turn_id"),
            (user(sender=5), ".sender"),
        ],
    )
    def test_one(self, raw, path):
        """What bubo guesses at, or would not read, is refused, with its path."""
        assert [f"$[0]{path}"] == problem_paths(load, [raw])

    @pytest.mark.parametrize(
        "text",
        [RUN, RUN.upper(), RUN.replace("-", ""), f"{{{RUN}}}", f"urn:uuid:{RUN}"],
    )
    def test_forms_of_uuids(self, text):
        """UUIDs are read in all forms that Go reads."""
        assert RUN_ID == one(user(run_id=text)).run_id
