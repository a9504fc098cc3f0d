"""
Responses of OpenAI's Responses; what they cost is in `test_openai_usage`.
"""

import pytest

from conversation_state.adapters.openai_responses import dump, load
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    ResponseMeta,
    UserMessage,
)
from conversation_state.parts import UnknownPart
from conversation_state.usage import Usage
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
    A response is its message, with its own fields.
    """

    def test_meta(self):
        """
        Reason, usage, chances, model and id are the message's; the rest is noted,
        but for what repeats the request, and nulls.
        """
        (loaded,) = several(
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
        assert "hi" == loaded.text
        assert (
            ResponseMeta(
                "completed",
                Usage(9, 2),
                (LogProb("hi", -0.5, b"hi", (top,)),),
                "gpt-5",
                "resp_1",
            )
            == loaded.response
        )
        assert {"created_at": 1, "service_tier": "default"} == dict(
            notes(loaded)["response"]
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
        (loaded,) = several(response(message("hi"), **fields))

        kept = {**notes(loaded).get("response", {})}
        assert reason == loaded.response.finish_reason
        assert noted == kept

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

        loaded = answer(*output)

        assert "abc" == loaded.text
        assert [0, 1, 2, 3, 4, 6] == [part.index for part in loaded.parts]
        assert [5] == [each.index for each in loaded.tool_calls]
        assert output == dump([loaded]).payload["input"]

    def test_logprobs(self):
        """
        Chances are of all texts; they are not sent back, but for what no
        field of ours holds.
        """
        odd = {**LIKELY, "id": 7}
        loaded = answer(
            message(text("hi", logprobs=[LIKELY]), text("hi", logprobs=[odd]))
        )

        blocks = dump([loaded]).payload["input"][0]["content"]
        assert ["hi", "hi"] == [each.token for each in loaded.response.logprobs]
        assert [[], [odd]] == [block["logprobs"] for block in blocks]

    def test_empty_response(self):
        """
        A response without content, or not yet with content, is not sent until the
        caller puts some in its place.
        """
        (loaded,) = several(response(status="queued"))

        assert ("", "queued") == (loaded.text, loaded.response.finish_reason)
        assert [] == dump([loaded]).payload["input"]
        assert [{"role": "assistant", "content": "hi"}] == dump(
            [loaded.replace(content="hi")]
        ).payload["input"]

    def test_compaction(self):
        """
        What was kept has the role it had, and the rest is one item.
        """
        kept = message({"type": "input_text", "text": "2+2?"}, role="user")
        rest = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
        whole = {"object": "response.compaction", "output": [kept, rest]}

        asked, loaded = several({**whole, "usage": {"input_tokens": 9}})

        assert "2+2?" == asked.text
        assert isinstance(asked, UserMessage)
        assert (
            UnknownPart(rest, source="openai_responses", index=0),
        ) == loaded.content
        assert Usage(9) == loaded.response.usage
        assert "response.compaction" == notes(loaded)["response"]["object"]
        assert [kept, rest] == dump([asked, loaded]).payload["input"]

    def test_nothing_but_kept(self):
        """
        The usage is there also without any content.
        """
        whole = response(message(role="user"), usage={"input_tokens": 9})

        asked, loaded = several(whole)

        assert "user" == asked.role
        assert Usage(9) == loaded.response.usage
        assert 1 == len(dump([asked, loaded]).payload["input"])

    def test_few_fields(self):
        """
        Everything but the output may be missing or null.
        """
        (loaded,) = several({"output": [message("hi")], "model": None, "usage": None})

        assert ResponseMeta() == loaded.response
        assert "response" not in notes(loaded)
        assert AssistantMessage("hi").text == bare(loaded).text

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
        What is not a response is an error, with the provider's message if there is any.
        """
        with pytest.raises(DecodeError) as found:
            load(document)

        assert [path] == [problem.path for problem in found.value.problems]
        if document.get("error"):
            assert "overloaded" in str(found.value)
