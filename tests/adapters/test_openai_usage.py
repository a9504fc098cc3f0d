"""
Usage in OpenAI's two formats, which count the same under two names.

Blocks are written with the names of Chat Completions, and renamed for Responses.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat, openai_responses
from conversation_state.testing.strategies import json_values, texts
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import problem_paths
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


def sample_usage(prompt=9, completion=0, total=None, *, details=(), **extra):
    """Usage with *details* of the prompt and of the completion."""
    parts = [dict(each) for each in details] or [{}, {}]
    made = PromptTokensDetails(**parts[0]), CompletionTokensDetails(**parts[1])
    return Usage(prompt, completion, total, *made, extra)


class TestLoadUsage:
    """Tokens as the provider counted them, parts included in the whole."""

    @EACH
    @pytest.mark.parametrize(
        ("block", "usage"),
        [
            ({"prompt_tokens": 9, "completion_tokens": 2}, sample_usage(9, 2, 11)),
            ({"prompt_tokens": 9}, sample_usage(9, 0, 9)),
            ({"completion_tokens": 2}, sample_usage(0, 2, 2)),
            (
                {"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100},
                sample_usage(66, 6, 100),
            ),
            (
                {
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": None},
                    "completion_tokens_details": {
                        "reasoning_tokens": 3,
                        "accepted_prediction_tokens": 1,
                        "rejected_prediction_tokens": 2,
                        "audio_tokens": 1,
                    },
                    "total_tokens": 17,
                },
                sample_usage(
                    *(9, 8, 17),
                    details=(
                        {"cached_tokens": 4},
                        {
                            "reasoning_tokens": 3,
                            "accepted_prediction_tokens": 1,
                            "rejected_prediction_tokens": 2,
                            "audio_tokens": 1,
                        },
                    ),
                ),
            ),
            (
                {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {
                        "text_tokens": 7,
                        "cache_write_tokens": 2,
                        "cache_write_tokens_details": {"ttl_12h_tokens": 2},
                    },
                    "completion_tokens_details": {"text_tokens": 0},
                },
                sample_usage(
                    prompt_text_tokens=7, cache_write_tokens=2, completion_text_tokens=0
                ),
            ),
            (
                {"prompt_tokens": 9, "total_time": 0.5, "is_byok": True, "cost": None},
                sample_usage(),
            ),
            (
                {"prompt_tokens": 9, "num_searches": 1, "odd": -1},
                sample_usage(num_searches=1),
            ),
        ],
    )
    def test_block(self, adapter, block, usage):
        """Whatever a provider counts, wherever it reports it."""
        block = rename(adapter, block)
        places = [block, {"usage": block, "choices": []}, {"usage": block}]
        if adapter is RESPONSES:
            event = {"type": "response.completed", "response": {"usage": block}}
            places = [block, {"usage": block, "output": []}, event]

        assert [usage] * 3 == [adapter.load_usage(place) for place in places]

    @pytest.mark.parametrize(
        ("block", "usage"),
        [
            (
                {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5},
                sample_usage(
                    details=({"cached_tokens": 4}, {}), prompt_cache_miss_tokens=5
                ),
            ),
            ({"cached_tokens": 4}, sample_usage(details=({"cached_tokens": 4}, {}))),
            (
                {"cached_tokens": 4, "prompt_tokens_details": {"cached_tokens": 4}},
                sample_usage(details=({"cached_tokens": 4}, {})),
            ),
            (
                {"cached_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
                sample_usage(details=({"cached_tokens": 4}, {}), cached_tokens=5),
            ),
            (
                {
                    "completion_tokens": 2,
                    "total_tokens": 31,
                    "completion_tokens_details": {"reasoning_tokens": 20},
                },
                sample_usage(9, 22, 31, details=({}, {"reasoning_tokens": 20})),
            ),
        ],
    )
    def test_dialects(self, block, usage):
        """What DeepSeek, Moonshot and xAI count in ways of their own."""
        assert usage == CHAT.load_usage({"prompt_tokens": 9, **block})

    @pytest.mark.parametrize(
        ("adapter", "event"),
        [
            (CHAT, {"usage": None, "x_groq": {"usage": {"prompt_tokens": 9}}}),
            (CHAT, {"choices": [{"delta": {}, "usage": {"prompt_tokens": 9}}]}),
            (RESPONSES, {"object": "response.input_tokens", "input_tokens": 9}),
        ],
    )
    def test_event(self, adapter, event):
        """
        Events of streams report it in places of their own, and so does a count of
        the tokens that an input would have.
        """
        assert Usage(9) == adapter.load_usage(event)

    @EACH
    @pytest.mark.parametrize(
        "document",
        [
            None,
            {},
            {"usage": None},
            {"choices": [{"delta": {"content": "hi"}}], "usage": None},
            {"choices": [], "x_groq": {"id": "req_1"}},
            {"type": "response.created", "response": {"usage": None}},
            {"type": "response.output_text.delta", "delta": "hi"},
            {"error": {"message": "overloaded"}},
        ],
    )
    def test_none(self, adapter, document):
        """None where nothing is reported."""
        assert None is adapter.load_usage(document)

    @pytest.mark.parametrize(
        ("adapters", "document", "paths"),
        [
            ((CHAT, RESPONSES), 3, ["$"]),
            ((CHAT, RESPONSES), [], ["$"]),
            ((CHAT, RESPONSES), {"usage": 3}, ["$.usage"]),
            ((CHAT, RESPONSES), {"usage": []}, ["$.usage"]),
            ((CHAT,), {"x_groq": {"usage": "free"}}, ["$.x_groq.usage"]),
            ((RESPONSES,), {"response": {"usage": "free"}}, ["$.response.usage"]),
            (
                (CHAT, RESPONSES),
                {"prompt_tokens": -1, "completion_tokens": "2", "total_tokens": 2**63},
                ["$.prompt_tokens", "$.completion_tokens", "$.total_tokens"],
            ),
            (
                (CHAT, RESPONSES),
                {"prompt_tokens": 9.5, "prompt_tokens_details": 3},
                ["$.prompt_tokens", "$.prompt_tokens_details"],
            ),
            (
                (CHAT, RESPONSES),
                {"usage": {"completion_tokens_details": {"reasoning_tokens": True}}},
                ["$.usage.completion_tokens_details.reasoning_tokens"],
            ),
            (
                (CHAT, RESPONSES),
                {"prompt_tokens": 2**63 - 1, "completion_tokens": 1},
                ["$"],
            ),
        ],
    )
    def test_refused(self, adapters, document, paths):
        """Every invalid count is named."""
        for adapter in adapters:
            expected = sorted(map(partial(named, adapter), paths))
            assert expected == sorted(
                problem_paths(adapter.load_usage, rename(adapter, document))
            )

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

    @EACH
    @pytest.mark.parametrize(
        ("block", "counts", "left"),
        [
            (
                {
                    "prompt_text_tokens": 5_000,
                    "prompt_tokens_details": {"text_tokens": 7},
                },
                {"prompt_text_tokens": 5_000},
                {"prompt_tokens_details": {"text_tokens": 7}},
            ),
            (
                {
                    "prompt_text_tokens": int("5000"),
                    "prompt_tokens_details": {"text_tokens": int("5000")},
                },
                {"prompt_text_tokens": 5_000},
                {},
            ),
            ({"half \ud800": 5}, {}, {"half \ufffd": 5}),
        ],
    )
    def test_names_that_are_taken(self, adapter, block, counts, left):
        """
        A count whose name another one has, and one whose name is not a valid text, is
        kept beside the usage.
        """
        block = rename(adapter, {"prompt_tokens": 9, **block})
        usage, noted = load_noted(adapter, block)

        assert Usage(9, extra=counts) == usage
        assert rename(adapter, left) == noted
