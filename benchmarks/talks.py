"""
The recorded conversations that some benchmarks play, which are no part of the
repository.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from conversation_state import Message
from conversation_state.adapters import openai_chat

__all__ = ["PATH", "airline", "payloads"]

_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
_DATA = Path(os.environ.get("CONVERSATION_STATE_DATA") or _BESIDE)
PATH = _DATA / "transcripts" / "airline.jsonl"


def payloads() -> list[list[dict[str, Any]]]:
    """
    The messages of each, as OpenAI writes them; none where they are absent.
    """
    if not PATH.is_file():
        what = f"no recorded conversations at {PATH}; CONVERSATION_STATE_DATA can say"
        print(what, file=sys.stderr)
        return []

    lines = PATH.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["messages"] for line in lines]


def airline() -> list[tuple[Message, ...]]:
    """
    The same as messages.
    """
    return [openai_chat.load(messages) for messages in payloads()]
