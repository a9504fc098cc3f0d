"""
Responses of Chat Completions and of Responses; what they cost is in
`test_openai_usage`.
"""

from typing import Any

import pytest

from conversation_state.adapters import openai_chat, openai_responses
from conversation_state.errors import DecodeError
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.parts import UnknownPart
from conversation_state.usage import Usage
from tests.adapters import openai_chat as chat
from tests.adapters.contract import problem_paths
from tests.adapters.helpers import table
from tests.adapters.openai_formats import FORMATS
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
from tests.adapters.pieces import as_is

TOP = {"token": "yo", "logprob": -9999, "bytes": None}
LIKELY = {"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": [TOP]}
CHAT: dict[str, Any] = {
    "id": "resp_1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "completed",
            "logprobs": {"content": [LIKELY], "refusal": None},
            "message": chat.answer(content="hi", refusal=None, annotations=[]),
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}
RESPONSE = response(
    message(text("hi", logprobs=[LIKELY])),
    usage={"input_tokens": 9, "output_tokens": 2},
    created_at=1,
    instructions="Be brief.",
    tools=[{"type": "web_search"}],
    service_tier="default",
    error=None,
)


def chat_response(**fields):
    """A response of Chat Completions with other *fields*."""
    return {**CHAT, **fields}


class TestResponse:
    """A response is its message, with its own fields."""

    @table(
        "form, whole, noted",
        {
            "of Chat Completions": (
                *(FORMATS["chat"], CHAT),
                {"object": "chat.completion", "created": 1},
            ),
            "of Responses, but for what repeats the request, and nulls": (
                *(FORMATS["responses"], RESPONSE),
                {"created_at": 1, "service_tier": "default"},
            ),
        },
    )
    def test_meta(self, form, whole, noted):
        """Reason, usage, chances, model and id are the message's; the rest is noted."""
        (loaded,) = form.adapter.load(whole)

        likely = LogProb("hi", -0.5, b"hi", (LogProb("yo", -9999.0),))
        assert "hi" == loaded.text
        assert (
            ResponseMeta("completed", Usage(9, 2), (likely,), "gpt-5", "resp_1")
            == loaded.response
        )
        kept = loaded.metadata["conversation_state"][form.name]
        assert noted == dict(kept["response"])

    def test_several(self):
        """Of several answers each is a message, and the usage counts once."""
        choices = [
            {"index": at, "message": chat.answer(content="hi")} for at in (0, 1, 5)
        ]

        first, *others = chat.several(chat_response(choices=choices))

        assert Usage(9, 2) == first.response.usage
        assert [None, None] == [each.response.usage for each in others]
        assert [None, None, {"index": 5}] == [
            chat.notes(each).get("choice") for each in (first, *others)
        ]

    @pytest.mark.parametrize(
        ("form", "document"),
        [
            (
                FORMATS["chat"],
                {"choices": [{"message": {"content": "hi"}}], "model": None},
            ),
            (
                FORMATS["responses"],
                {"output": [message("hi")], "model": None, "usage": None},
            ),
        ],
    )
    def test_few_fields(self, form, document):
        """Everything but the content may be missing or null."""
        (loaded,) = form.adapter.load(document)

        assert ("hi", ResponseMeta()) == (loaded.text, loaded.response)

    def test_words_of_its_own(self):
        """
        What a provider of Chat Completions adds to usage, choice or chances is noted,
        too.
        """
        odd = {"token": "a", "logprob": 0, "top_logprobs": [], "id": 7}
        details = {"cached_tokens": 4, "tier": "flex"}
        (loaded,) = chat.several(
            chat_response(
                usage={"prompt_tokens": 9, "prompt_tokens_details": details},
                choices=[
                    {
                        "message": chat.answer(content="a"),
                        "content_filter_results": {},
                        "logprobs": {"content": [odd], "refusal": []},
                    }
                ],
            )
        )

        choice = chat.notes(loaded)["choice"]
        left = chat.notes(loaded)["response"]["usage"]
        assert {"prompt_tokens_details": {"tier": "flex"}} == left
        assert {} == dict(choice["content_filter_results"])
        assert 7 == choice["logprobs"]["content"][0]["id"]
        assert (LogProb("a", 0.0),) == loaded.response.logprobs

    @pytest.mark.parametrize(
        ("fields", "reason", "noted"),
        [
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
        Why a response of Responses ended, in the provider's word: what made it
        incomplete, or its status.
        """
        (loaded,) = several(response(message("hi"), **fields))

        assert reason == loaded.response.finish_reason
        assert noted == {**notes(loaded).get("response", {})}

    def test_one_message(self):
        """All items of a response are one message, in order."""
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
        assert output == as_is(openai_responses).dump([loaded]).payload["input"]

    def test_logprobs(self):
        """
        Chances are of all texts; they are not sent back, but for what no
        field of ours holds.
        """
        odd = {**LIKELY, "id": 7}
        loaded = answer(
            message(text("hi", logprobs=[LIKELY]), text("hi", logprobs=[odd]))
        )

        blocks = openai_responses.dump([loaded]).payload["input"][0]["content"]
        assert ["hi", "hi"] == [each.token for each in loaded.response.logprobs]
        assert [[], [odd]] == [block["logprobs"] for block in blocks]

    def test_empty_response(self):
        """
        A response without content, or not yet with content, is not sent until the
        caller puts some in its place.
        """
        (loaded,) = several(response(status="queued"))
        dump = openai_responses.dump

        assert ("", "queued") == (loaded.text, loaded.response.finish_reason)
        assert [] == dump([loaded]).payload["input"]
        assert [{"role": "assistant", "content": "hi"}] == dump(
            [loaded.replace(content="hi")]
        ).payload["input"]

    @pytest.mark.parametrize(
        "rest",
        [[], [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}]],
    )
    def test_compaction(self, rest):
        """
        What was kept has the role it had, and the rest is one item; the usage is there
        also without it.
        """
        kept = message({"type": "input_text", "text": "2+2?"}, role="user")
        whole = {"object": "response.compaction", "output": [kept, *rest]}

        asked, loaded = several({**whole, "usage": {"input_tokens": 9}})

        assert ("user", "2+2?") == (asked.role, asked.text)
        assert [
            UnknownPart(raw, source="openai_responses", index=0) for raw in rest
        ] == list(loaded.parts)
        assert Usage(9) == loaded.response.usage
        assert "response.compaction" == notes(loaded)["response"]["object"]
        assert [kept, *rest] == openai_responses.dump([asked, loaded]).payload["input"]

    def test_calls_without_ids(self):
        """Ids that are made up for two responses differ."""
        wholes: list[Any] = [
            *[response(call(call_id=""), id=name) for name in ("x", "y")],
            *[
                {"id": name, "choices": [{"message": chat.answer(tool_calls=[raw])}]}
                for name, raw in (("x", chat.call(id="")), ("y", chat.call(id="")))
            ],
        ]
        loaded: Any = [
            (openai_responses if "output" in whole else openai_chat).load(whole)[0]
            for whole in wholes
        ]

        assert ["x_call_0", "y_call_0"] * 2 == [
            each.tool_calls[0].id for each in loaded
        ]

    @pytest.mark.parametrize(
        ("name", "document", "path"),
        [
            ("chat", {"error": {"message": "overloaded"}}, "$.error"),
            ("chat", {"choices": None}, "$.choices"),
            ("chat", {"choices": []}, "$.choices"),
            ("chat", {"choices": [3]}, "$.choices[0]"),
            ("chat", {"choices": [{}]}, "$.choices[0].message"),
            ("chat", {"choices": [{"delta": {"content": "hi"}}]}, "$.choices[0]"),
            (
                "chat",
                {"choices": [{"message": {"role": "user"}}]},
                "$.choices[0].message.role",
            ),
            ("chat", {"choices": [], "messages": []}, "$"),
            (
                "chat",
                {"choices": [{"message": chat.answer(content="a"), "logprobs": 3}]},
                "$.choices[0].logprobs",
            ),
            ("chat", chat_response(model=3), "$.model"),
            ("responses", {"error": "overloaded", "output": None}, "$.error"),
            ("responses", {"output": {}}, "$.output"),
            ("responses", {"output": [3]}, "$.output[0]"),
            ("responses", {"output": [{}]}, "$.output[0].type"),
            ("responses", {"output": [], "model": 3}, "$.model"),
            ("responses", {"output": [], "status": 3}, "$.status"),
            ("responses", {"object": "response.input_tokens", "input_tokens": 1}, "$"),
        ],
    )
    def test_refused(self, name, document, path):
        """
        What is not a response is an error, with the provider's message if there is any.
        """
        load = FORMATS[name].adapter.load

        assert [path] == problem_paths(load, document)
        if path == "$.error":
            with pytest.raises(DecodeError, match="overloaded"):
                load(document)
