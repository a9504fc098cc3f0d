"""
Responses of OpenAI's Responses, and what they cost.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters.openai_responses import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    ResponseMeta,
    UserMessage,
)
from conversation_state.parts import UnknownPart
from conversation_state.testing.strategies import json_values, texts
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)
from tests.adapters.contract import bare
from tests.adapters.openai_responses import (
    answer,
    call,
    message,
    notes,
    response,
    several,
    text,
    thought,
)

LIKELY = {
    "token": "hi",
    "logprob": -0.5,
    "bytes": [104, 105],
    "top_logprobs": [{"token": "yo", "logprob": -9999, "bytes": None}],
}


class TestResponse:
    """
    A response is its message, and what was told about it.
    """

    def test_meta(self):
        """
        Reason, usage, chances, model and id are the message's; the rest is noted,
        but for what repeats the request, and nulls.
        """
        (said,) = several(
            response(
                message(text("hi", logprobs=[LIKELY])),
                usage={"input_tokens": 9, "output_tokens": 2},
                created_at=1,
                instructions="Be brief.",
                tools=[{"type": "web_search"}],
                temperature=1.0,
                service_tier="default",
                error=None,
                incomplete_details=None,
            )
        )

        top = LogProb("yo", -9999.0)
        assert "hi" == said.text
        assert (
            ResponseMeta(
                "completed",
                Usage(9, 2),
                (LogProb("hi", -0.5, b"hi", (top,)),),
                "gpt-5",
                "resp_1",
            )
            == said.response
        )
        assert {"created_at": 1, "service_tier": "default"} == dict(
            notes(said)["response"]
        )

    @pytest.mark.parametrize(
        ("fields", "reason", "noted"),
        [
            ({}, "completed", {}),
            ({"status": "queued"}, "queued", {}),
            ({"status": None}, "", {}),
            (
                {"status": "failed", "error": {"message": "no"}},
                "failed",
                {"error": {"message": "no"}},
            ),
            (
                {
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                },
                "max_output_tokens",
                {
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                },
            ),
            (
                {"status": "incomplete", "incomplete_details": {"reason": None}},
                "incomplete",
                {"incomplete_details": {"reason": None}},
            ),
        ],
    )
    def test_reason(self, fields, reason, noted):
        """
        Why it ended, in the provider's word: what made it incomplete, or its
        status.
        """
        (said,) = several(response(message("hi"), **fields))

        told = {**notes(said).get("response", {})}
        assert reason == said.response.finish_reason
        assert noted == told

    def test_one_message(self):
        """
        All items of a response are one message, in order.
        """
        output = [
            thought("Hm.", encrypted_content="s"),
            message("a"),
            {"type": "web_search_call", "id": "ws_1"},
            message("b"),
            message("c", phase="final_answer"),
            call(id="fc_1"),
            {"type": "shell_call_output", "call_id": "c7", "output": []},
        ]

        said = answer(*output)

        assert "abc" == said.text
        assert [0, 1, 2, 3, 4, 6] == [part.index for part in said.parts]
        assert [5] == [each.index for each in said.tool_calls]
        assert output == dump([said]).payload["input"]

    def test_logprobs(self):
        """
        Chances are of all texts; they are not sent back, but for what no
        field of ours holds.
        """
        odd = {**LIKELY, "id": 7}
        said = answer(
            message(text("hi", logprobs=[LIKELY]), text("hi", logprobs=[odd]))
        )

        blocks = dump([said]).payload["input"][0]["content"]
        assert ["hi", "hi"] == [each.token for each in said.response.logprobs]
        assert [[], [odd]] == [block["logprobs"] for block in blocks]

    def test_nothing_said(self):
        """
        A response that says nothing, or not yet, is not sent, until somebody
        says something in its place.
        """
        (said,) = several(response(status="queued"))

        assert ("", "queued") == (said.text, said.response.finish_reason)
        assert [] == dump([said]).payload["input"]
        assert [{"role": "assistant", "content": "hi"}] == dump(
            [said.replace(content="hi")]
        ).payload["input"]

    def test_compaction(self):
        """
        What was kept is said by whom it was said, and the rest is one item.
        """
        kept = message({"type": "input_text", "text": "2+2?"}, role="user")
        rest = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
        whole = {"object": "response.compaction", "output": [kept, rest]}

        asked, said = several({**whole, "usage": {"input_tokens": 9}})

        assert "2+2?" == asked.text
        assert isinstance(asked, UserMessage)
        assert (UnknownPart(rest, source="openai_responses", index=0),) == said.content
        assert Usage(9) == said.response.usage
        assert "response.compaction" == notes(said)["response"]["object"]
        assert [kept, rest] == dump([asked, said]).payload["input"]

    def test_nothing_but_kept(self):
        """
        What it cost is told also where the model said nothing.
        """
        whole = response(message(role="user"), usage={"input_tokens": 9})

        asked, said = several(whole)

        assert "user" == asked.role
        assert Usage(9) == said.response.usage
        assert 1 == len(dump([asked, said]).payload["input"])

    def test_little_told(self):
        """
        Everything but the output may be missing or null.
        """
        (said,) = several({"output": [message("hi")], "model": None, "usage": None})

        assert ResponseMeta() == said.response
        assert "response" not in notes(said)
        assert AssistantMessage("hi").text == bare(said).text

    def test_calls_without_ids(self):
        """
        Ids that are made up for two responses differ.
        """
        first, second = (
            several(response(call(call_id=""), id=name))[0] for name in ("x", "y")
        )

        assert "x_call_0" == first.tool_calls[0].id
        assert first.tool_calls[0].id != second.tool_calls[0].id

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ({"error": {"message": "overloaded"}}, "$.error"),
            ({"error": "overloaded", "output": None}, "$.error"),
            ({"output": None}, "$.output"),
            ({"output": {}}, "$.output"),
            ({"output": [3]}, "$.output[0]"),
            ({"output": [{}]}, "$.output[0].type"),
            ({"output": [], "model": 3}, "$.model"),
            ({"output": [], "status": 3}, "$.status"),
            ({"output": [], "usage": 3}, "$.usage"),
            ({"output": [], "usage": {"input_tokens": -1}}, "$.usage.input_tokens"),
            ({"object": "response.input_tokens", "input_tokens": 18}, "$"),
        ],
    )
    def test_refused(self, document, path):
        """
        What is no response says so, in the provider's words if there are any.
        """
        with pytest.raises(DecodeError) as found:
            load(document)

        assert [path] == [problem.path for problem in found.value.problems]
        if document.get("error"):
            assert "overloaded" in str(found.value)

    @pytest.mark.parametrize(
        ("logprobs", "path"),
        [
            (3, ""),
            ([3], "[0]"),
            ([{"logprob": 0}], "[0].token"),
            ([{"token": "a"}], "[0].logprob"),
            ([{"token": "a", "logprob": 10**400}], "[0].logprob"),
            ([{"token": "a", "logprob": 0, "bytes": [256]}], "[0].bytes"),
            (
                [{"token": "a", "logprob": 0, "top_logprobs": [3]}],
                "[0].top_logprobs[0]",
            ),
        ],
    )
    def test_chances_refused(self, logprobs, path):
        """
        So do chances that are none.
        """
        with pytest.raises(DecodeError) as found:
            load(response(message(text("hi", logprobs=logprobs))))

        assert [f"$.output[0].content[0].logprobs{path}"] == [
            problem.path for problem in found.value.problems
        ]


class TestLoadUsage:
    """
    Tokens as the provider counted them, parts included in the whole.
    """

    @pytest.mark.parametrize(
        ("block", "usage"),
        [
            ({"input_tokens": 9, "output_tokens": 2}, Usage(9, 2, 11)),
            (
                {"input_tokens": 66, "output_tokens": 6, "total_tokens": 100},
                Usage(66, 6, 100),
            ),
            (
                {
                    "input_tokens": 9,
                    "output_tokens": 8,
                    "input_tokens_details": {"cached_tokens": 4, "audio_tokens": None},
                    "output_tokens_details": {"reasoning_tokens": 3},
                    "total_tokens": 17,
                },
                Usage(
                    9,
                    8,
                    17,
                    PromptTokensDetails(cached_tokens=4),
                    CompletionTokensDetails(reasoning_tokens=3),
                ),
            ),
            (
                {
                    "input_tokens": 9,
                    "input_tokens_details": {
                        "cache_write_tokens": 7,
                        "cache_write_tokens_details": {"ttl_12h_tokens": 7},
                        "text_tokens": 9,
                    },
                    "output_tokens_details": {"text_tokens": 1},
                },
                Usage(
                    9,
                    extra={
                        "cache_write_tokens": 7,
                        "prompt_text_tokens": 9,
                        "completion_text_tokens": 1,
                    },
                ),
            ),
            (
                {"input_tokens": 9, "cost": 0.5, "is_byok": True, "searches": 1},
                Usage(9, extra={"searches": 1}),
            ),
        ],
    )
    def test_block(self, block, usage):
        """
        Whatever the provider counts, wherever it tells it.
        """
        assert usage == load_usage(block)
        assert usage == load_usage({"usage": block, "output": []})
        assert usage == load_usage(
            {"type": "response.completed", "response": {"usage": block}}
        )

    def test_counted(self):
        """
        So is how many tokens an input would have.
        """
        assert Usage(18) == load_usage(
            {"object": "response.input_tokens", "input_tokens": 18}
        )

    @pytest.mark.parametrize(
        "document",
        [
            None,
            {},
            {"usage": None},
            {"type": "response.created", "response": {"usage": None}},
            {"type": "response.output_text.delta", "delta": "hi"},
            {"error": {"message": "overloaded"}},
        ],
    )
    def test_none(self, document):
        """
        None where nothing is told.
        """
        assert None is load_usage(document)

    @pytest.mark.parametrize(
        ("document", "paths"),
        [
            (3, ["$"]),
            ([], ["$"]),
            ({"usage": 3}, ["$.usage"]),
            ({"response": {"usage": "free"}}, ["$.response.usage"]),
            (
                {"input_tokens": -1, "output_tokens": "2", "total_tokens": 2**63},
                ["$.input_tokens", "$.output_tokens", "$.total_tokens"],
            ),
            (
                {"input_tokens": 9.5, "input_tokens_details": 3},
                ["$.input_tokens", "$.input_tokens_details"],
            ),
            (
                {"usage": {"output_tokens_details": {"reasoning_tokens": True}}},
                ["$.usage.output_tokens_details.reasoning_tokens"],
            ),
            ({"input_tokens": 2**63 - 1, "output_tokens": 1}, ["$"]),
        ],
    )
    def test_refused(self, document, paths):
        """
        A count is a count, and every one that is none is named.
        """
        with pytest.raises(DecodeError) as found:
            load_usage(document)

        assert paths == sorted(problem.path for problem in found.value.problems)

    @given(st.dictionaries(texts(max_size=4), json_values()))
    def test_keeps_every_count(self, others):
        """
        What an unknown category counts is in `extra`; the message of a
        response notes the rest.
        """
        block: dict[str, Any] = {**others, "input_tokens": 9}
        counts = {
            key: value
            for key, value in others.items()
            if type(value) is int and 0 <= value < 2**63
        }

        (said,) = several(response(usage=block))

        left = notes(said).get("response", {}).get("usage", {})
        assert Usage(9, extra=counts) == load_usage(block) == said.response.usage
        assert {*others} == {*counts, *left}
