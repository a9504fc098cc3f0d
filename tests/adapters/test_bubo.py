"""
bubo's messages: what all adapters promise, and what comes back of what.
"""

import base64
import copy
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import bubo, openai_chat
from conversation_state.adapters._notes import notes_of
from conversation_state.adapters.bubo import dump, load
from conversation_state.adapters.bubo._load import uuid_of
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
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
from tests.adapters.bubo import (
    CONVERSATIONS,
    MESSAGES,
    PNG,
    RUN,
    UNREADABLE,
    checkpoints,
    notes,
    one,
    several,
    user,
)
from tests.adapters.contract import FormatContract, as_json, bare, problem_paths
from tests.adapters.kept import as_go, lines, normalise

RUN_ID = UUID(RUN)


def keys_of(value):
    """
    All keys of *value*, as deep as it goes, in their order.
    """
    if isinstance(value, dict):
        return [(key, keys_of(item)) for key, item in value.items()]

    return [keys_of(item) for item in value] if isinstance(value, list) else None


def written(*messages):
    """
    *messages* as bubo has them.
    """
    return dump(messages).payload["messages"]


def lost(*messages):
    """
    The paths and names of what bubo can't represent in *messages*.
    """
    return [(one.path, one.what) for one in dump(messages).lost]


def halves(message):
    """
    The halves of *message*: an assistant's text, and its calls.
    """
    if isinstance(message, AssistantMessage) and message.text and message.tool_calls:
        calls = message.replace(content="")
        return [message.replace(tool_calls=()), calls]

    return [message]


def as_it_comes_back(part):
    """
    *part* as it comes back: data: urls as bytes, audio of the usual type.
    """
    head, _, body = (getattr(part, "url", "") or "").partition(";base64,")
    if isinstance(part, ImagePart) and body and head.startswith("data:"):
        with suppress(ValueError):
            data = base64.b64decode(body, validate=True)
            return ImagePart(data=data, media_type=head[5:])

    if isinstance(part, AudioPart) and part.media_type == "audio/mp3":
        return AudioPart(data=part.data, media_type="audio/mpeg")

    return part


class TestContract(FormatContract):
    """
    What all adapters promise.
    """

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
    @given(CONVERSATIONS)
    def test_order_of_keys(self, document):
        """
        Keys come in the order bubo has them, but for the caller's own in
        ``meta``, which are sorted.
        """
        for message in document["messages"]:
            message.pop("meta", None)

        export = dump(load(document))

        assert keys_of(document) == keys_of(export.payload)

    def test_bytes(self):
        """
        A conversation, byte for byte as Go writes it.
        """
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
        assert [
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
        ] == [
            as_go(raw)
            for raw in written(
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
        ]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, UserMessage("")),
            ("  ", UserMessage("  ")),
            ([], UserMessage([])),
            ([{"type": "text", "text": "a"}], UserMessage([TextPart("a")])),
        ],
    )
    def test_content_of_users(self, content, message):
        """
        Text, parts, or null: distinguished, white space and all.
        """
        raw = user(content)

        assert message == one(raw)
        assert [raw] == written(message)

    def test_content_of_assistants(self):
        """
        An assistant without content has none; null, and an empty list, come back as
        they were.
        """
        assert AssistantMessage() == one({"type": "assistant"})
        assert AssistantMessage([]) == one({"type": "assistant", "content": []})
        contents: tuple[Any, ...] = (None, [], "", "  ")
        for content in contents:
            raw = {"type": "assistant", "content": content}
            assert [raw] == written(one(raw))

        noted = one({"type": "assistant", "content": None})
        assert [{"type": "assistant", "refusal": "no"}] == written(
            noted.replace(content=[RefusalPart("no")])
        )

    def test_refusals(self):
        """
        A refusal alone stands beside the content, unless it stood in a list,
        or is empty.
        """
        beside = {"type": "assistant", "refusal": "no"}
        listed = {
            "type": "assistant",
            "content": [{"type": "refusal", "refusal": "no"}],
        }

        assert (RefusalPart("no"),) == one(beside).content == one(listed).content
        assert [beside] == written(one(beside))
        assert [listed] == written(one(listed))
        assert [] == written(AssistantMessage([RefusalPart("")]))[0]["content"][1:]

    def test_null_refusal(self):
        """
        A refusal that is null is none.
        """
        raw = {"type": "assistant", "content": "hi", "refusal": None}

        assert AssistantMessage("hi") == one(raw)

    @given(UNREADABLE)
    def test_what_bubo_cannot_read(self, raw):
        """
        What bubo writes and can't read is loaded, and written so that it can.
        """
        (message,) = load([raw])

        export = dump([message])

        if raw is None or "type" not in raw:
            assert UnknownMessage(raw or {}, source="bubo") == message
            assert [] == export.payload["messages"]
            assert ["message"] == [each.what for each in export.lost]
        else:
            key, value = ("tool_calls", []) if "tool_calls" in raw else ("error", "")
            assert [{**raw, key: value}] == export.payload["messages"]
            assert () == export.lost
            assert export == dump(load(export.payload))

    def test_calls(self):
        """
        Calls are a message of their own, even if there are none; calls and
        results without ids are paired.
        """
        raws = [
            {"type": "tool_call", "tool_calls": []},
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

        none, called, first, second = several(raws)

        f, g = called.tool_calls
        assert () == none.tool_calls
        assert f.id != g.id
        assert (g.id, f.id) == (first.tool_call_id, second.tool_call_id)
        assert second.is_error
        assert raws == written(none, called, first, second)
        assert [{"type": "assistant", "content": "hi"}] == written(
            none.replace(content="hi")
        )

    def test_last_event_of_a_stream(self):
        """
        The response in it is a message, and the checkpoint is one.
        """
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
        """
        Metadata of ours take the place of a meta that was not an object.
        """
        message = one(user(meta=5))
        edited = message.replace(metadata={**message.metadata, "a": 1})

        assert {"a": 1} == written(edited)[0]["meta"]
        assert [("messages[0]", "meta")] == lost(edited)
        assert {"a": 1} == dict(one(user(meta={"a": 1})).metadata)

    def test_notes_of_others(self):
        """
        Notes of other adapters are not metadata to bubo.
        """
        loaded = openai_chat.load([{"role": "user", "content": "hi", "prefix": 1}])

        assert [user()] == written(*loaded)
        assert [("messages[0]", "prefix")] == lost(*loaded)


NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


def east(seconds):
    """
    A zone whose time is ahead of UTC.
    """
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
        """
        Times are read in all of bubo's layouts, without a zone as UTC.
        """
        assert expected == one(user(timestamp=text)).timestamp.isoformat()

    @pytest.mark.parametrize("nothing", ["", None])
    def test_unset(self, nothing):
        """
        An empty time is none, and not the year 1970.
        """
        assert UserMessage("hi") == one(user(timestamp=nothing))

    @pytest.mark.parametrize(
        "bad",
        [
            *(5, "now", "2024-02-30", "2024-02-29T25:00:00Z", "2024-02-29T12:30.5Z"),
            *("0000-01-01", "٢٠٢٤-02-29", "2024-02-29Z", "2024-02-29T24:00:00Z"),
            *([], {}),
        ],
    )
    def test_refused(self, bad):
        """
        What is not a time is refused.
        """
        with pytest.raises(DecodeError, match=r"\$\.timestamp: .*expected a time"):
            load(user(timestamp=bad))

    @pytest.mark.parametrize(
        ("time", "text", "why"),
        [
            (NOON.replace(microsecond=6_000), "2024-01-02T12:00:00.006Z", ""),
            (NOON.replace(microsecond=6_789), "2024-01-02T12:00:00.006Z", "milli"),
            (NOON.replace(tzinfo=east(90)), "2024-01-02T11:59:30.000+00:01", "minutes"),
            (NOON.replace(tzinfo=east(-30)), "2024-01-02T12:00:30.000Z", "minutes"),
            (
                NOON.replace(tzinfo=east(30 - 24 * 3_600)),
                *("2024-01-02T12:00:30.000-23:59", "minutes"),
            ),
            (datetime(1, 1, 1, tzinfo=UTC), None, "no time"),
            (datetime(1, 1, 1, tzinfo=east(30)), None, "no time"),
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
            (UserMessage("", run_id=UUID(int=0)), "", "run_id"),
            (UserMessage("", turn_id=UUID(int=0)), "", "turn_id"),
            (AssistantMessage(response=ResponseMeta()), "", "response"),
            (SystemMessage([TextPart("a"), TextPart("b")]), "", "parts"),
            (SystemMessage([TextPart("a", index=0)]), ".parts[0]", "index"),
            (UserMessage([TextPart("a", metadata={"a": 1})]), ".parts[0]", "metadata"),
            (UserMessage([TextPart("a", unknown={"a": 1})]), ".parts[0]", "a"),
            (UserMessage([FilePart(url="a")]), ".parts[0]", "file"),
            (UserMessage([VideoPart(url="a")]), ".parts[0]", "video"),
            (UserMessage([AudioPart(url="a")]), ".parts[0]", "audio"),
            (UserMessage([ImagePart(url="a", detail="low")]), ".parts[0]", "detail"),
            *[
                (UserMessage([part]), ".parts[0]", "media_type")
                for part in (
                    AudioPart(data=b"a", media_type="text/plain"),
                    ImagePart(url="a", media_type="image/png"),
                    ImagePart(data=b"a", media_type="a,b"),
                )
            ],
            (AssistantMessage([ReasoningPart("a")]), ".parts[0]", "reasoning"),
            (AssistantMessage([ImagePart(url="a")]), ".parts[0]", "image"),
            *[
                (AssistantMessage(tool_calls=[call]), ".tool_calls[0]", what)
                for what, call in {
                    "type": ToolCall("c", "f", type="custom"),
                    "index": ToolCall("c", "f", index=0),
                    "metadata": ToolCall("c", "f", metadata={"a": 1}),
                }.items()
            ],
            (ToolMessage([ImagePart(url="a")], tool_call_id="c"), ".parts[0]", "image"),
            (UnknownMessage({"type": "x"}, source="bubo", name="a"), "", "name"),
        ],
    )
    def test_listed(self, message, path, what):
        """
        What bubo can't represent is listed, and nothing else is.
        """
        assert [(f"messages[0]{path}", what)] == lost(message)

    def test_image_data(self):
        """
        Bytes of an image are in its url, and come back as bytes.
        """
        part = ImagePart(data=PNG, media_type="image/png")
        (raw,) = written(UserMessage([part]))

        assert "data:image/png;base64,iVBORw0KGgo=" == raw["content"][0]["image_url"]
        assert (part,) == one(raw).content

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
        """
        A url whose content we would write otherwise stays the url it is.
        """
        raw = user([{"type": "image", "image_url": url}])

        assert (ImagePart(url=url),) == one(raw).content
        assert [raw] == written(one(raw))

    def test_mended(self):
        """
        Half of a surrogate pair is U+FFFD, and listed with its place.
        """
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
    """
    A user's message in JSON, with sound.
    """
    return user([{"type": "audio", "input_audio": content}])


def answer(content):
    """
    An assistant's message in JSON.
    """
    return {"type": "assistant", "content": content}


class TestRefuses:
    @pytest.mark.parametrize(
        ("raw", "path"),
        [
            ({}, ".type"),
            ({"content": "hi"}, ".type"),
            ({"type": 5}, ".type"),
            ({"type": "instructions"}, ".content"),
            ({"type": "instructions", "content": None}, ".content"),
            ({"type": "user"}, ".content"),
            (user(42), ".content"),
            (user(content=True), ".content"),
            (user({"a": 1}), ".content"),
            (user([5]), ".content[0]"),
            (user([{"text": "a"}]), ".content[0].type"),
            (user([{"type": "text"}]), ".content[0].text"),
            (user([{"type": "image"}]), ".content[0].image_url"),
            (user([{"type": "audio"}]), ".content[0].input_audio"),
            (sound({"data": ""}), ".content[0].input_audio.format"),
            (sound({"data": "?", "format": ""}), ".content[0].input_audio.data"),
            (answer([{"type": "refusal"}]), ".content[0].refusal"),
            ({"type": "assistant", "content": "a", "refusal": "b"}, ""),
            ({"type": "assistant", "refusal": 5}, ".refusal"),
            ({"type": "tool_call"}, ".tool_calls"),
            ({"type": "tool_call", "tool_calls": {}}, ".tool_calls"),
            ({"type": "tool_call", "tool_calls": [5]}, ".tool_calls[0]"),
            ({"type": "tool_call", "tool_calls": [{"id": 5}]}, ".tool_calls[0].id"),
            *[
                ({key: RESULT[key] for key in RESULT if key != missing}, f".{missing}")
                for missing in ("tool_name", "tool_call_id", "content")
            ],
            ({"type": "retry", "error": {}}, ".error"),
            (user(run_id=""), ".run_id"),
            (user(run_id=5), ".run_id"),
            (user(turn_id="0189-0a5dac96774bbcceb302099a8057"), ".turn_id"),
            (user(sender=5), ".sender"),
        ],
    )
    def test_one(self, raw, path):
        """
        What bubo guesses at, or would not read, is refused, with its path.
        """
        assert [f"$[0]{path}"] == problem_paths(load, [raw])

    @pytest.mark.parametrize(
        "text",
        [RUN, RUN.upper(), RUN.replace("-", ""), f"{{{RUN}}}", f"urn:uuid:{RUN}"],
    )
    def test_forms_of_uuids(self, text):
        """
        UUIDs are read in all forms that Go reads; the nil one is none.
        """
        assert RUN_ID == one(user(run_id=text)).run_id
        assert one(user(run_id=str(UUID(int=0)))).run_id is None

    @pytest.mark.parametrize("text", [f"{{{RUN}", f"{RUN}}}", f"{{{RUN}-", "{}", ""])
    def test_no_uuids(self, text):
        """
        A text that is none in these forms is refused.
        """
        with pytest.raises(DecodeError):
            load([user(run_id=f"x{text}"), user(run_id=text or "x")])

        assert uuid_of(text) is None

    @pytest.mark.parametrize("word", ["mpeg", "mp3", "flac"])
    def test_formats_of_audio(self, word):
        """
        The name of a format goes back, unless the sound has another by now.
        """
        block = {"type": "audio", "input_audio": {"data": "aGk=", "format": word}}
        message = one(user([block]))
        (sound,) = message.content
        changed = attrs.evolve(sound, media_type="audio/wave")

        assert [user([block])] == written(message)
        (raw,) = written(message.replace(content=[changed]))
        assert "wave" == raw["content"][0]["input_audio"]["format"]

    @pytest.mark.parametrize("key", ["tool_call_id", "tool_name", "error"])
    def test_retries(self, key):
        """
        All that a retry has is read, and nothing of it is kept beside.
        """
        raw = {"type": "retry", "tool_call_id": "c1", "tool_name": "f", "error": "x"}
        message = one(raw)

        assert [raw] == written(message)
        assert key not in notes_of(message.metadata, "bubo").get("keys", {})

    def test_all_of_it(self):
        """
        All problems are reported at once.
        """
        assert [
            "$.messages[0].content",
            "$.messages[2]",
            "$.messages[3].sender",
            "$.messages[3].run_id",
        ] == problem_paths(
            load, {"messages": [user(5), None, 7, user(sender=1, run_id="x")]}
        )


class TestCrossing:
    def test_recorded(self, recordings):
        """
        Real conversations cross over and back: texts, roles, ids, names and arguments;
        an assistant's text and calls are two messages.
        """
        for chat in lines(recordings / "transcripts" / "airline.jsonl"):
            loaded = openai_chat.load(chat)
            back = load(copy.deepcopy(dump(loaded).payload))

            split = [half for message in loaded for half in halves(message)]
            assert [bare(message) for message in split] == [
                bare(message) for message in back
            ]
            assert {"tool_calls"} >= {each.what for each in dump(loaded).lost}

    @given(st.lists(MESSAGES, max_size=4))
    def test_to_openai(self, raws):
        """
        Messages of bubo can be sent to OpenAI, their metadata apart.
        """
        export = openai_chat.dump(load(raws))

        assert len(raws) == len(export.payload["messages"])
        assert as_json(export.payload)
