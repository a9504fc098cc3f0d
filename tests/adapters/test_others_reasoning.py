"""Reasoning of other providers."""

import json
from typing import Any

import pytest

from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.messages import AssistantMessage

ADAPTERS: list[Any] = [anthropic, gemini, openai_chat, openai_responses]
each_format = pytest.mark.parametrize(
    "adapter", ADAPTERS, ids=lambda one: one.__name__.rpartition(".")[2]
)


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
