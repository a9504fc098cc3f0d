"""bubo's messages: what all adapters promise, and what comes back of what."""

import base64
from contextlib import suppress
from typing import ClassVar

from hypothesis import given

from conversation_state.adapters import bubo, openai_chat
from conversation_state.adapters.bubo import dump, load
from conversation_state.messages import (
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    UnknownPart,
)
from tests.adapters.bubo import (
    CONVERSATIONS,
    MESSAGES,
    RUN,
    UNREADABLE,
    checkpoints,
    notes,
    several,
    user,
)
from tests.adapters.contract import FormatContract
from tests.adapters.helpers import normalise


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
