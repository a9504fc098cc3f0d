"""The usage of a response, in Anthropic's fields."""

import pytest

from conversation_state.adapters.anthropic import load_usage
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.errors import DecodeError
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.anthropic import PING, cost, several, start
from tests.adapters.contract import problem_paths
from tests.adapters.helpers import table

BLOCK = {
    "input_tokens": 3,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5},
    "output_tokens": 40,
    "output_tokens_details": {"thinking_tokens": 30},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    "service_tier": "standard",
}
USAGE = Usage(
    123,
    40,
    163,
    PromptTokensDetails(cached_tokens=100),
    CompletionTokensDetails(reasoning_tokens=30),
    {
        "cache_write_tokens": 20,
        "cache_write_5m_tokens": 15,
        "cache_write_1h_tokens": 5,
        "web_searches": 2,
    },
)


def load_block(**block):
    """The usage of a *block*."""
    return cost({"usage": block})


def attempt(model, read, written, **fields):
    """What *model* took for a try at a response."""
    counts = {"input_tokens": read, "output_tokens": written}
    return {"type": "message", "model": model, **counts, **fields}


class TestFinds:
    @pytest.mark.parametrize(
        "payload",
        [
            {"usage": BLOCK},
            start(usage=BLOCK),
        ],
    )
    def test_wherever_it_is(self, payload):
        """In a response, in an event, or by itself; all of it inclusive."""
        assert USAGE == load_usage(payload)

    @pytest.mark.parametrize("payload", [None, PING, {"message": 5}])
    def test_nowhere(self, payload):
        """Where nothing is given, nothing is known."""
        assert load_usage(payload) is None


class TestArithmetic:
    def test_nothing_cached(self):
        """Nulls are nothing."""
        assert Usage(3, 4) == load_block(
            input_tokens=3,
            output_tokens=4,
            cache_read_input_tokens=None,
            cache_creation_input_tokens=None,
            cache_creation=None,
            server_tool_use=None,
            output_tokens_details=None,
        )

    def test_breakdown_alone(self):
        """What was written to the cache is known by its parts, if by nothing else."""
        usage = load_block(
            input_tokens=1, cache_creation={"ephemeral_5m_input_tokens": 4}
        )

        assert (5, {"cache_write_tokens": 4, "cache_write_5m_tokens": 4}) == (
            usage.prompt_tokens,
            dict(usage.extra),
        )

    @pytest.mark.parametrize("total", [{}, {"cache_creation_input_tokens": None}])
    def test_breakdown_with_an_unknown_part(self, total):
        """A lifetime that is unknown was written, too, and its count is kept."""
        parts = {"ephemeral_5m_input_tokens": 4, "ephemeral_9d_input_tokens": 50}
        usage = {"input_tokens": 1, "cache_creation": parts, **total}
        (message,) = several({"content": "a", "usage": usage})
        noted = notes_of(message.metadata, "anthropic")["response"]["usage"]

        assert Usage(55, extra={"cache_write_tokens": 54}) == message.response.usage
        assert parts == noted["cache_creation"]

    @pytest.mark.parametrize(
        "parts",
        [
            {"ephemeral_5m_input_tokens": 4},
            {"ephemeral_5m_input_tokens": 9, "ephemeral_9d_input_tokens": 0},
        ],
    )
    def test_breakdown_that_does_not_add_up(self, parts):
        """
        Parts that are not the whole, or are unknown, would be priced wrongly:
        they are left as they are.
        """
        response = {
            "content": "a",
            "usage": {"cache_creation_input_tokens": 9, "cache_creation": parts},
        }
        (message,) = several(response)
        noted = notes_of(message.metadata, "anthropic")["response"]["usage"][
            "cache_creation"
        ]

        assert {"cache_write_tokens": 9} == dict(message.response.usage.extra)
        assert noted

    def test_beside(self):
        """What advisors and summaries took is in neither prompt nor completion."""
        runs = [
            {"type": "message", "input_tokens": 7, "output_tokens": 2},
            {
                "type": "compaction",
                "input_tokens": 180,
                "cache_read_input_tokens": 20,
                "output_tokens": 3,
            },
            {"type": "advisor_message", "input_tokens": 11, "output_tokens": 5},
            {"type": "advisor_message", "input_tokens": 11, "output_tokens": 5},
            {"type": ["odd"], "input_tokens": 1},
            "odd",
        ]
        usage = load_block(input_tokens=7, output_tokens=2, iterations=runs)

        assert (7, 2, 9) == (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens,
        )
        assert {
            "advisor_message_prompt": 22,
            "advisor_message_completion": 10,
            "compaction_prompt": 200,
            "compaction_completion": 3,
        } == dict(usage.extra)

    @table(
        "runs, extra",
        {
            "an attempt that declined after some output": (
                [
                    attempt("a", 5, 9),
                    attempt("a", 1, 2, cache_read_input_tokens=3),
                    attempt("b", 7, 2, type="fallback_message"),
                ],
                {"declined_message_prompt": 9, "declined_message_completion": 11},
            ),
            "one without any output is free": (
                [attempt("a", 5, 0), attempt("b", 7, 2, type="fallback_message")],
                {},
            ),
            "all declined": (
                [attempt("a", 5, 9), attempt("b", 7, 2)],
                {"declined_message_prompt": 5, "declined_message_completion": 9},
            ),
            "steps of the one that answered": (
                [
                    attempt("b", 3, 1, type="fallback_message"),
                    attempt("b", 4, 1, type="fallback_message"),
                ],
                {},
            ),
            "steps of a model that has no name": (
                [attempt(None, 3, 1), attempt("a", 4, 1)],
                {},
            ),
        },
    )
    def test_declined(self, runs, extra):
        """
        What models took before they declined is in neither prompt nor completion:
        the counts are those of the model that answered.
        """
        usage = load_block(input_tokens=7, output_tokens=2, iterations=runs)

        assert Usage(7, 2, extra=extra) == usage

    def test_the_rest(self):
        """What is not a count is kept with the response."""
        (message,) = several({"content": "a", "usage": BLOCK})
        noted = notes_of(message.metadata, "anthropic")["response"]["usage"]

        assert USAGE == message.response.usage
        assert {
            "server_tool_use": {"web_fetch_requests": 1},
            "service_tier": "standard",
        } == noted


class TestRefuses:
    @pytest.mark.parametrize(
        ("block", "path"),
        [
            ({"cache_creation": 5}, "$.usage.cache_creation"),
            ({"input_tokens": -1}, "$.usage.input_tokens"),
            ({"cache_read_input_tokens": 2**63}, "$.usage.cache_read_input_tokens"),
            (
                {"cache_creation": {"ephemeral_1h_input_tokens": "1"}},
                "$.usage.cache_creation.ephemeral_1h_input_tokens",
            ),
            ({"output_tokens_details": []}, "$.usage.output_tokens_details"),
            (
                {"input_tokens": 2**63 - 1, "cache_read_input_tokens": 2**63 - 1},
                "$.usage",
            ),
        ],
    )
    def test_what_no_provider_means(self, block, path):
        """Each with its path."""
        assert [path] == problem_paths(lambda given: load_block(**given), block)

    @pytest.mark.parametrize("payload", [5, "a", []])
    def test_no_payload(self, payload):
        """What is not an object is refused."""
        with pytest.raises(DecodeError, match="an event of a stream or a usage"):
            load_usage(payload)
