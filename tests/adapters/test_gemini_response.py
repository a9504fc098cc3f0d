"""What Gemini's responses have beside their message, and their usage."""

import re

import pytest

from conversation_state._persistent import thaw
from conversation_state.adapters.gemini import dump, load
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import bare, problem_paths
from tests.adapters.gemini import call, model, notes, response, several, usage_of


def only(payload):
    """The one message of a response."""
    (message,) = load(payload)
    return message


class TestResponse:
    """A response is its message, with its fields."""

    def test_notes(self):
        """What else it holds is kept, and never sent."""
        beside = {
            "groundingMetadata": {"webSearchQueries": ["a"]},
            "citationMetadata": {"citationSources": [{"uri": "a"}]},
            "urlContextMetadata": {"urlMetadata": []},
            "safetyRatings": [{"category": "a", "probability": "LOW"}],
            "finishMessage": "done",
            "avgLogprobs": -0.5,
        }
        payload = response({"text": "hi"}, promptFeedback={"safetyRatings": []})
        payload["candidates"][0] |= beside

        message = only(payload)

        assert beside == thaw(notes(message)["candidate"])
        assert "promptFeedback" in notes(message)["response"]
        assert [model({"text": "hi"})] == dump([message]).payload["contents"]

    def test_snake_case(self):
        """The spelling of Google's SDKs for Python is taken."""
        logprobs = {"chosen_candidates": [{"token": "a", "log_probability": -1.0}]}
        candidate = {
            "content": model({"text": "a"}),
            "finish_reason": "STOP",
            "logprobs_result": logprobs,
        }
        message = only(
            {
                "candidates": [candidate],
                "model_version": "gemini-3",
                "response_id": "r1",
                "usage_metadata": {"prompt_token_count": 3},
                "prompt_feedback": {"block_reason": None},
            }
        )

        assert (
            ResponseMeta("STOP", Usage(3), (LogProb("a", -1.0),), "gemini-3", "r1")
            == message.response
        )

    def test_ids_of_calls(self):
        """
        Ids that are made up begin with the response's, and are unique if it has none.
        """
        payload = response(call(), call())

        assert ["r1_call_0", "r1_call_1"] == [
            each.id for each in only(payload).tool_calls
        ]
        del payload["responseId"]
        ids = [only(payload).tool_calls[0].id for _ in range(2)]
        assert 2 == len({*ids})
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,40}", each) for each in ids)

    def test_several(self):
        """Several candidates are a message each, the first with the usage."""
        payload = response(call(), usageMetadata={"promptTokenCount": 1})
        other = {"content": model(call()), "finishReason": "MAX_TOKENS", "index": 1}
        payload["candidates"].append(other)

        first, second = several(payload)

        assert ("STOP", "MAX_TOKENS") == (
            first.response.finish_reason,
            second.response.finish_reason,
        )
        assert (Usage(1), None) == (first.response.usage, second.response.usage)
        assert "r1_1_call_0" == second.tool_calls[0].id
        assert "candidate" not in notes(second)

    @pytest.mark.parametrize("index", [1, None])
    def test_another_index(self, index):
        """An index that is not the place is kept."""
        payload = response({"text": "a"})
        payload["candidates"] *= 1 + (index is True)
        payload["candidates"][-1]["index"] = index

        message = load(payload)[-1]

        assert {"index": index} == notes(message)["candidate"]

    @pytest.mark.parametrize("candidates", [{}, {"candidates": []}])
    def test_blocked(self, candidates):
        """A prompt that was blocked gives an empty message, with the reason."""
        feedback = {"blockReason": "PROHIBITED_CONTENT"}
        usage = {"promptTokenCount": 5}

        message = only(
            {"promptFeedback": feedback, "usageMetadata": usage, **candidates}
        )

        assert AssistantMessage("") == bare(message)
        assert "PROHIBITED_CONTENT" == message.response.finish_reason
        assert Usage(5) == message.response.usage
        assert feedback == notes(message)["response"]["promptFeedback"]

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"candidates": {}}, "$.candidates"),
            ({"candidates": [{"content": 3}]}, "$.candidates[0].content"),
            (
                {"candidates": [{"content": {"parts": [3]}}]},
                "$.candidates[0].content.parts[0]",
            ),
            ({"promptFeedback": {"blockReason": 3}}, "$.promptFeedback.blockReason"),
        ],
    )
    def test_refuses(self, payload, path):
        """What is not what it should be is reported, with its path."""
        assert [path] == problem_paths(load, payload)


class TestLogprobs:
    """How likely tokens were is reported with the response."""

    def logprobs(self, raw):
        """The log-probs of the tokens."""
        payload = response({"text": "a"})
        payload["candidates"][0]["logprobsResult"] = raw
        return only(payload)

    def test_tokens(self):
        """The tokens that were chosen, and the likeliest ones."""
        payload = {
            "chosenCandidates": [
                {"token": "a", "tokenId": 1, "logProbability": -0.5},
                {"token": "b", "logProbability": -1},
            ],
            "topCandidates": [
                {
                    "candidates": [
                        {"token": "a", "logProbability": -0.5},
                        {"token": "c", "logProbability": -2.5},
                    ]
                }
            ],
        }

        message = self.logprobs(payload)

        assert message.response.logprobs == (
            LogProb("a", -0.5, None, (LogProb("a", -0.5), LogProb("c", -2.5))),
            LogProb("b", -1.0),
        )
        kept = notes(message)["candidate"]["logprobsResult"]
        assert 1 == kept["chosenCandidates"][0]["tokenId"]

    @pytest.mark.parametrize(
        ("payload", "logprobs"),
        [
            ({}, ()),
            (None, None),
        ],
    )
    def test_nothing(self, payload, logprobs):
        """What is left out is 0, or empty."""
        assert logprobs == self.logprobs(payload).response.logprobs

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            (3, ""),
            (
                {"chosenCandidates": [{"logProbability": "a"}]},
                ".chosenCandidates[0].logProbability",
            ),
            (
                {"chosenCandidates": [{"logProbability": 10**400}]},
                ".chosenCandidates[0].logProbability",
            ),
            ({"topCandidates": [3]}, ".topCandidates[0]"),
            ({"topCandidates": [{"candidates": 3}]}, ".topCandidates[0].candidates"),
        ],
    )
    def test_refuses(self, payload, path):
        """What is not what it should be is reported, with its path."""
        expected = f"$.candidates[0].logprobsResult{path}"
        assert [expected] == problem_paths(self.logprobs, payload)


class TestUsage:
    """Prompt and completion include all that is a part of them."""

    @pytest.mark.parametrize(
        ("block", "usage"),
        [
            ({"promptTokenCount": 9, "candidatesTokenCount": 2}, Usage(9, 2)),
            ({"promptTokenCount": 9, "responseTokenCount": 2}, Usage(9, 2)),
            (
                {"promptTokenCount": 9, "cachedContentTokenCount": 8},
                Usage(9, prompt_tokens_details=PromptTokensDetails(cached_tokens=8)),
            ),
            (
                {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": 2,
                    "thoughtsTokenCount": 5,
                    "totalTokenCount": 16,
                },
                Usage(
                    9,
                    7,
                    completion_tokens_details=CompletionTokensDetails(
                        reasoning_tokens=5
                    ),
                ),
            ),
            (
                {
                    "promptTokenCount": 17,
                    "candidatesTokenCount": 41,
                    "toolUsePromptTokenCount": 102,
                    "thoughtsTokenCount": 412,
                    "totalTokenCount": 572,
                },
                Usage(
                    119,
                    453,
                    completion_tokens_details=CompletionTokensDetails(
                        reasoning_tokens=412
                    ),
                    extra={"tool_use_prompt_tokens": 102},
                ),
            ),
        ],
    )
    def test_counts(self, block, usage):
        """Thoughts are a part of the completion, what tools found of the prompt."""
        assert usage == usage_of(block)
        assert usage == usage_of({"usageMetadata": block})
        assert usage == usage_of({"candidates": [], "usage_metadata": block})

    @pytest.mark.parametrize(
        ("total", "prompt", "completion"),
        [
            (None, 110, 25),
            (125, 100, 25),
            (120, 100, 20),
            (999, 110, 25),
        ],
    )
    def test_what_the_total_includes(self, total, prompt, completion):
        """What the total shows to be in another count already is not added."""
        usage = usage_of(
            {
                "promptTokenCount": 100,
                "toolUsePromptTokenCount": 10,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 5,
                "totalTokenCount": total,
            }
        )

        assert (prompt, completion) == (usage.prompt_tokens, usage.completion_tokens)
        assert (total or 135) == usage.total_tokens
        assert 5 == usage.completion_tokens_details.reasoning_tokens
        assert {"tool_use_prompt_tokens": 10} == usage.extra

    def test_modalities(self):
        """Audio has a field, other modalities are categories of their own."""
        usage = usage_of(
            {
                "promptTokenCount": 60,
                "toolUsePromptTokenCount": 4,
                "candidatesTokenCount": 30,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 10},
                    {"modality": "AUDIO", "tokenCount": 20},
                    {"modality": "AUDIO", "token_count": 5},
                    {"modality": "IMAGE", "tokenCount": 25},
                    {"modality": "VIDEO"},
                ],
                "candidatesTokensDetails": [
                    {"modality": "AUDIO", "tokenCount": 7},
                    {"tokenCount": 23},
                ],
                "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 3}],
                "toolUsePromptTokensDetails": [{"modality": "AUDIO", "tokenCount": 4}],
            }
        )

        assert 29 == usage.prompt_tokens_details.audio_tokens
        assert 7 == usage.completion_tokens_details.audio_tokens
        assert usage.extra == {
            "cached_text_tokens": 3,
            "completion_text_tokens": 23,
            "prompt_image_tokens": 25,
            "prompt_text_tokens": 10,
            "tool_use_prompt_audio_tokens": 4,
            "tool_use_prompt_tokens": 4,
        }

    def test_what_is_no_count(self):
        """What else it holds is kept with the message; counts are categories."""
        block = {"promptTokenCount": 1, "serviceTier": "a", "futureTokenCount": 2}
        message = only(response({"text": "a"}, usageMetadata=block))

        assert {"serviceTier": "a"} == notes(message)["response"]["usage"]
        assert {"future_token_count": 2} == message.response.usage.extra

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"promptTokenCount": True}, "$.promptTokenCount"),
            ({"promptTokenCount": 2**63}, "$.promptTokenCount"),
            (
                {"usage_metadata": {"total_token_count": "1"}},
                "$.usageMetadata.total_token_count",
            ),
            ({"promptTokenCount": 2**63 - 1, "candidatesTokenCount": 1}, "$"),
        ],
    )
    def test_refuses(self, payload, path):
        """An invalid count is reported, with its path."""
        assert [path] == problem_paths(usage_of, payload)
