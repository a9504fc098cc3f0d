"""Media without a media type, and reasoning of other providers."""

import json
from typing import Any

import pytest

from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import AudioPart, FilePart, ImagePart, TextPart, VideoPart

ADAPTERS: list[Any] = [anthropic, gemini, openai_chat, openai_responses]
each_format = pytest.mark.parametrize(
    "adapter", ADAPTERS, ids=lambda one: one.__name__.rpartition(".")[2]
)
KNOWN = [
    (ImagePart(data=b"\x89PNG\r\n\x1a\n.."), "image/png"),
    (ImagePart(data=b"\xff\xd8\xff\xe0.."), "image/jpeg"),
    (ImagePart(data=b"GIF89a.."), "image/gif"),
    (ImagePart(data=b"RIFF....WEBPVP8 "), "image/webp"),
    (FilePart(data=b"%PDF-1.7 .."), "application/pdf"),
]
UNKNOWN = [
    ImagePart(data=b"nothing known"),
    ImagePart(data=b"%PDF-1.7 .."),
    AudioPart(data=b"nothing known"),
    VideoPart(data=b"nothing known"),
]


@each_format
class TestMediaTypes:
    @pytest.mark.parametrize(("part", "media_type"), KNOWN)
    def test_known(self, adapter, part, media_type):
        """The first bytes say which type it is."""
        export = adapter.dump([UserMessage([part])])

        assert media_type in json.dumps(export.payload)
        assert () == export.lost

    @pytest.mark.parametrize("part", UNKNOWN)
    def test_unknown(self, adapter, part):
        """Without a type no provider reads it, so it is lost and listed."""
        export = adapter.dump([UserMessage([TextPart("see"), part])])

        sent = json.dumps(export.payload)
        assert "data:;" not in sent
        assert "/*" not in sent
        assert "bm90aGluZyBrbm93bg" not in sent
        assert [("messages[0].parts[1]", part.kind)] == [
            (lost.path, lost.what) for lost in export.lost
        ]


def test_audio():
    """OpenAI wants the name of the format, and Gemini the type."""
    part = AudioPart(data=b"RIFF....WAVEfmt ")

    (block,) = openai_chat.dump([UserMessage([part])]).payload["messages"][0]["content"]
    (raw,) = gemini.dump([UserMessage([part])]).payload["contents"][0]["parts"]

    assert "wav" == block["input_audio"]["format"]
    assert "audio/wav" == raw["inlineData"]["mimeType"]


SECRET = "what the model thought"
TEXT = {"type": "text", "text": "hi"}
THOUGHTS: dict[str, Any] = {
    "anthropic": (
        anthropic,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": SECRET, "signature": "c2ln"},
                TEXT,
            ],
        },
    ),
    "anthropic, unsigned": (
        anthropic,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": SECRET, "signature": ""},
                TEXT,
            ],
        },
    ),
    **{
        f"chat, {key}": (
            openai_chat,
            {
                "choices": [
                    {"message": {"role": "assistant", "content": "hi", key: SECRET}}
                ]
            },
        )
        for key in ("reasoning", "reasoning_content")
    },
    "gemini": (
        gemini,
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": SECRET, "thought": True, "thoughtSignature": "s"},
                            {"text": "hi"},
                        ],
                    }
                }
            ]
        },
    ),
    "responses": (
        openai_responses,
        {
            "output": [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": SECRET}],
                    "encrypted_content": "ZW5j",
                },
                {"type": "message", "id": "m", "role": "assistant", "content": "hi"},
            ]
        },
    ),
}


@each_format
@pytest.mark.parametrize(("source", "response"), THOUGHTS.values(), ids=THOUGHTS)
def test_reasoning_stays(adapter, source, response):
    """Reasoning is sent to no provider but its own, and listed as lost elsewhere."""
    messages = source.load(response)

    export = adapter.dump(messages)

    assert isinstance(messages[0], AssistantMessage)
    if adapter is not source:
        assert SECRET not in json.dumps(export.payload)
        assert "reasoning" in {lost.what for lost in export.lost}
    else:
        assert SECRET in json.dumps(export.payload) or "unsigned" in str(export.lost)
