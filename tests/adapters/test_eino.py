"""
eino's messages: what all adapters promise, and what comes back of what.
"""

import json
from typing import ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import eino, openai_chat
from conversation_state.adapters._export import PROVIDERS
from conversation_state.adapters.eino import dump, load, load_usage
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
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
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing.strategies import messages
from conversation_state.tools import ToolCall
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)
from tests.adapters.contract import AdapterContract, as_json, bare
from tests.adapters.eino import (
    CONVERSATIONS,
    MESSAGES,
    PNG,
    PNG_TEXT,
    USAGES,
    notes,
    one,
)
from tests.adapters.kept import as_go, lines, said


class TestContract(AdapterContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = eino
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES

    def said(self, message):
        """
        More than other providers are told: metadata are said here, too.
        """
        return said(message, "eino")
