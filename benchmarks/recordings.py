"""
The recorded conversations that some benchmarks read. They are not part of the
repository.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from conversation_state import Message
from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.errors import DecodeError

__all__ = ["PATH", "airline", "exchanges", "payloads"]

_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
_DATA = Path(os.environ.get("CONVERSATION_STATE_DATA") or _BESIDE)
PATH = _DATA / "transcripts" / "airline.jsonl"


def payloads() -> list[list[dict[str, Any]]]:
    """
    The messages of each conversation in OpenAI's format. Empty if the recordings
    are missing, which the command reports at its end.
    """
    if not PATH.is_file():
        return []

    lines = PATH.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["messages"] for line in lines]


def airline() -> list[tuple[Message, ...]]:
    """The same conversations as messages."""
    return [openai_chat.load(messages) for messages in payloads()]


def exchanges() -> dict[str, tuple[Message, ...]]:
    """
    The messages of all recorded exchanges of each provider, requests and
    responses, with the parts, calls and metadata that real messages have. Empty if
    the recordings are missing.
    """
    found: dict[str, tuple[Message, ...]] = {}
    for adapter in (anthropic, gemini, openai_chat, openai_responses):
        name = adapter.__name__.rpartition(".")[2]
        path = _DATA / "requests" / f"{name}.jsonl"
        if path.is_file():
            messages: list[Message] = []
            for line in path.read_text(encoding="utf-8").splitlines():
                exchange = json.loads(line)
                for payload in (exchange["request"], exchange["response"]):
                    with suppress(DecodeError):  # an error response has no message
                        messages += adapter.load(payload)

            found[name] = tuple(messages)

    return found
