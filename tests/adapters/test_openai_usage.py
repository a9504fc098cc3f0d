"""
Usage in OpenAI's two formats, which count the same under two names.

Blocks are written with the names of Chat Completions, and renamed for Responses.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat, openai_responses
from conversation_state.testing.strategies import json_values, texts
from conversation_state.usage import Usage
from tests.adapters.openai_chat import answer
from tests.adapters.openai_chat import notes as chat_notes
from tests.adapters.openai_chat import several as chat_several
from tests.adapters.openai_responses import notes as responses_notes
from tests.adapters.openai_responses import response as responses_response
from tests.adapters.openai_responses import several as responses_several

CHAT, RESPONSES = openai_chat, openai_responses
EACH = pytest.mark.parametrize("adapter", [CHAT, RESPONSES])
NAMES = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}


def named(adapter, text):
    """*text* with the names that *adapter* has for counts."""
    if adapter is RESPONSES:
        for old, new in NAMES.items():
            text = text.replace(old, new)

    return text


def rename(adapter, block):
    """*block* with the names that *adapter* has for counts."""
    if not isinstance(block, dict):
        return block

    return {named(adapter, key): rename(adapter, value) for key, value in block.items()}


def load_noted(adapter, block) -> Any:
    """
    The usage of a response with *block*, and what of it is noted with the message.
    """
    made: Any
    if adapter is CHAT:
        (made,) = chat_several({"choices": [{"message": answer()}], "usage": block})
        noted = chat_notes(made)
    else:
        (made,) = responses_several(responses_response(usage=block))
        noted = responses_notes(made)

    return made.response.usage, noted.get("response", {}).get("usage", {})


class TestLoadUsage:
    """Tokens as the provider counted them, parts included in the whole."""

    @EACH
    @given(st.dictionaries(texts(max_size=4), json_values()))
    def test_keeps_every_count(self, adapter, others):
        """
        What an unknown category counts is in `extra`; the message of a
        response notes the rest.
        """
        block: dict[str, Any] = {**others, **rename(adapter, {"prompt_tokens": 9})}
        counts = {
            key: value
            for key, value in others.items()
            if type(value) is int and 0 <= value < 2**63
        }

        usage, left = load_noted(adapter, block)

        assert Usage(9, extra=counts) == adapter.load_usage(block) == usage
        assert {*others} == {*counts, *left}
