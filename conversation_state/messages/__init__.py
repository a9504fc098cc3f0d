"""
Messages: a role, its content, and the facts about a response.

All conversation content passes through here. What lives here: the five kinds of
message, the metadata of a response, the envelope that stamps the messages of one
turn, and the tombstones of erased messages. What does not: the parts they hold
(`parts`), the calls they make (`tools`), and their order (`aggregator`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later
from conversation_state.messages._answers import (
    Answer,
    MessageEntry,
    digest_answer,
    digest_of_key,
    find_pending_calls,
    group_answers,
    id_of_key,
    identify_call,
    is_interrupted,
    read_caveat,
    read_response,
    read_tier,
    read_usage,
    response_key,
    split_caveat,
)
from conversation_state.messages._base import COMMON, PLAIN, Common, Message
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.messages._response import ResponseMeta

if TYPE_CHECKING:
    from conversation_state.messages._envelope import Envelope, format_exception
    from conversation_state.messages._logprobs import LogProb
    from conversation_state.messages._tombstones import (
        ERASED,
        Erasure,
        find_erasure,
        make_tombstone,
    )

__all__ = [
    "COMMON",
    "ERASED",
    "PLAIN",
    "Answer",
    "AssistantMessage",
    "Common",
    "Envelope",
    "Erasure",
    "LogProb",
    "Message",
    "MessageEntry",
    "ResponseMeta",
    "SystemMessage",
    "ToolMessage",
    "UnknownMessage",
    "UserMessage",
    "digest_answer",
    "digest_of_key",
    "find_erasure",
    "find_pending_calls",
    "format_exception",
    "group_answers",
    "id_of_key",
    "identify_call",
    "is_interrupted",
    "make_tombstone",
    "read_caveat",
    "read_response",
    "read_tier",
    "read_usage",
    "response_key",
    "split_caveat",
]

_ENVELOPE = f"{__name__}._envelope"
_TOMBSTONES = f"{__name__}._tombstones"
__getattr__, __dir__ = open_later(
    __name__,
    {
        "ERASED": _TOMBSTONES,
        "Envelope": _ENVELOPE,
        "Erasure": _TOMBSTONES,
        "LogProb": f"{__name__}._logprobs",
        "find_erasure": _TOMBSTONES,
        "format_exception": _ENVELOPE,
        "make_tombstone": _TOMBSTONES,
    },
)
