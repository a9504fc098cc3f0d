"""
Responses in Chat Completions; what they cost is in `test_openai_usage`.
"""

from typing import Any

import pytest

from conversation_state.adapters.openai_chat import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.usage import Usage
from tests.adapters.contract import bare
from tests.adapters.openai_chat import answer, notes, several

RESPONSE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "system_fingerprint": None,
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": {
                "content": [
                    {
                        "token": "hi",
                        "logprob": -0.5,
                        "bytes": [104, 105],
                        "top_logprobs": [
                            {"token": "yo", "logprob": -9999, "bytes": None}
                        ],
                    }
                ],
                "refusal": None,
            },
            "message": answer(content="hi", refusal=None, annotations=[]),
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}


def response(**fields):
    """
    `RESPONSE` with other *fields*.
    """
    return {**RESPONSE, **fields}


class TestResponse:
    """
    A response is its message, with its own fields.
    """

    def test_meta(self):
        """
        Reason, usage, chances, model and id are the message's; the rest is noted.
        """
        (message,) = several(RESPONSE)

        top = LogProb("yo", -9999.0)
        assert "hi" == message.text
        assert (
            ResponseMeta(
                "stop",
                Usage(9, 2, 11),
                (LogProb("hi", -0.5, b"hi", (top,)),),
                "gpt-4o",
                "chatcmpl-1",
            )
            == message.response
        )
        assert {
            "object": "chat.completion",
            "created": 1,
            "system_fingerprint": None,
        } == dict(notes(message)["response"])

    def test_goes_back(self):
        """
        The message is written as it came, without the response's fields.
        """
        assert [RESPONSE["choices"][0]["message"]] == dump(load(RESPONSE)).payload[
            "messages"
        ]

    def test_several(self):
        """
        Of several answers each is a message, and the usage counts once.
        """
        choices = [{"index": at, "message": answer(content="hi")} for at in (0, 1, 5)]

        first, *others = several(response(choices=choices))

        assert Usage(9, 2) == first.response.usage
        assert [None, None] == [each.response.usage for each in others]
        assert [None, None, {"index": 5}] == [
            notes(each).get("choice") for each in (first, *others)
        ]

    def test_price_elsewhere(self):
        """
        What it cost is found where `load_usage` finds it.
        """
        loaded = response(usage=None, x_groq={"usage": {"prompt_tokens": 9}})

        (message,) = several(loaded)

        assert Usage(9) == load_usage(loaded) == message.response.usage

    def test_few_fields(self):
        """
        Role, model, reason and usage may be missing or null.
        """
        (message,) = several(
            {"choices": [{"message": {"content": "hi"}}], "model": None}
        )

        assert AssistantMessage("hi", response=ResponseMeta()) == bare(message).replace(
            response=message.response
        )

    def test_odd_breakdown(self):
        """
        What is not a count in a breakdown is noted with the message.
        """
        details = {"cached_tokens": 4, "tier": "flex"}
        block = {"prompt_tokens": 9, "prompt_tokens_details": details}

        (message,) = several(response(usage=block))

        left = notes(message)["response"]["usage"]
        assert {"prompt_tokens_details": {"tier": "flex"}} == left
        assert 4 == message.response.usage.prompt_tokens_details.cached_tokens

    def test_words_of_its_own(self):
        """
        What a provider adds to usage, choice or chances is noted, too.
        """
        odd = {"token": "a", "logprob": 0, "top_logprobs": [], "id": 7}
        (message,) = several(
            response(
                usage={"prompt_tokens": 1, "total_time": 0.5},
                choices=[
                    {
                        "message": answer(content="a"),
                        "content_filter_results": {},
                        "logprobs": {"content": [odd], "refusal": []},
                    }
                ],
            )
        )

        choice = notes(message)["choice"]
        assert {"total_time": 0.5} == dict(notes(message)["response"]["usage"])
        assert {} == dict(choice["content_filter_results"])
        assert 7 == choice["logprobs"]["content"][0]["id"]
        assert (LogProb("a", 0.0),) == message.response.logprobs

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ({"error": {"message": "overloaded"}}, "$.error"),
            ({"error": "overloaded", "choices": None}, "$.error"),
            ({"choices": None}, "$.choices"),
            ({"choices": []}, "$.choices"),
            ({"choices": [3]}, "$.choices[0]"),
            ({"choices": [{}]}, "$.choices[0].message"),
            ({"choices": [{"delta": {"content": "hi"}}]}, "$.choices[0]"),
            ({"choices": [{"message": {"role": "user"}}]}, "$.choices[0].message.role"),
            ({"choices": [], "messages": []}, "$"),
            ({"contentType": "application/json"}, "$"),
            (
                {"choices": [{"message": answer(content="a"), "logprobs": 3}]},
                "$.choices[0].logprobs",
            ),
            (response(model=3), "$.model"),
            (response(usage=3), "$.usage"),
            (response(usage={"prompt_tokens": -1}), "$.usage.prompt_tokens"),
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
