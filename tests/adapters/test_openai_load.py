"""From Chat Completions and Responses to messages."""

import json
from textwrap import dedent

import pytest

from conversation_state.adapters import openai_chat, openai_responses
from conversation_state.errors import DecodeError
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses
from tests.adapters.helpers import as_is
from tests.adapters.openai_chat import answer
from tests.adapters.openai_formats import FORMATS
from tests.adapters.openai_responses import message

openai_chat, openai_responses = as_is(openai_chat), as_is(openai_responses)

CHAT, RESPONSES = FORMATS["chat"], FORMATS["responses"]


def user(*content):
    """A user's message of blocks."""
    return {"role": "user", "content": list(content)}


class TestLoad:
    """What our model can represent is in its fields."""

    @pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("\ud83d\ude00", "😀")],
    )
    def test_mends_text(self, form, wrong, right):
        """
        Halves of surrogate pairs are joined or replaced, noted, and listed as
        lost when the message is sent.
        """
        raws = [
            answer(
                content=[{"type": "text", "text": wrong}],
                tool_calls=[chat.call(name=wrong)],
                extra={"a": [wrong]},
            )
        ]
        expected = ["content[0].text", "extra.a[0]", "tool_calls[0].function.name"]
        if form is RESPONSES:
            raws = [message(wrong, extra={"a": [wrong]}), responses.call(name=wrong)]
            expected = ["[0].content[0].text", "[0].extra.a[0]", "[1].name"]

        (found,) = form.adapter.load(raws)
        export = as_is(form.adapter).dump([found])

        assert right == found.text == found.tool_calls[0].name
        assert expected == sorted(lost.what for lost in export.lost)
        assert json.dumps(right) in json.dumps(export.payload)


# Messages and items, and all that is wrong with them.
WRONG = [
    (
        CHAT,
        {"role": "user", "content": 3, "name": [], "x": float("nan")},
        """
    .x: is nan, which can't be kept as JSON
    .content: is 3; expected a text, a list of parts or null
    .name: is a list; expected a text
    """,
    ),
    (
        CHAT,
        answer(
            tool_calls=[
                3,
                {"id": 1, "function": {"name": None, "arguments": []}},
                {"type": "custom", "custom": []},
                {"type": 3, "function": {}},
                chat.call(extra=float("inf")),
            ]
        ),
        """
    .tool_calls[0]: is 3; expected an object
    .tool_calls[1].function.name: is null; expected a text
    .tool_calls[1].function.arguments: is a list; expected a text
    .tool_calls[1].id: is 1; expected a text
    .tool_calls[2].custom: is a list; expected an object
    .tool_calls[3].type: is 3; expected a text
    .tool_calls[4].extra: is inf, which can't be kept as JSON
    """,
    ),
    (
        CHAT,
        {
            "role": "tool",
            "content": "",
            "tool_call_id": 3,
            "x": {"y": [10**30, b""]},
            4: 5,
        },
        """
    .x.y[0]: is an integer beyond 64 bits, which can't be kept as JSON
    .x.y[1]: is a Python bytes, which can't be kept as JSON; use model_dump(mode='json')
    : has the key 4; keys of JSON are text
    .tool_call_id: is 3; expected a text
    """,
    ),
]


class TestRefuses:
    """A `DecodeError` names everything that is wrong, by its path."""

    @pytest.mark.parametrize(("form", "raw", "problems"), WRONG)
    def test_every_problem(self, form, raw, problems):
        """One mistake does not hide the next, and each has what was expected."""
        with pytest.raises(DecodeError) as found:
            form.adapter.load({form.key: [raw, {"role": "user", "content": "hi"}, 4]})

        lines = dedent(problems).strip().split("\n")
        assert [
            *[f"$.{form.key}[0]{line}" for line in lines],
            f"$.{form.key}[2]: is 4; expected an object",
        ] == [str(problem) for problem in found.value.problems]

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            *[(None, "null"), (True, "true"), (False, "false"), (5, "5"), (0.5, "0.5")],
            *[(sign * 2**64, "an integer beyond 64 bits") for sign in (1, -1)],
            (2**64 - 1, "18446744073709551615"),
            *[({"a": 1}, "an object"), ([1], "a list"), ((1,), "a list")],
            ({1}, "a Python set"),
        ],
    )
    def test_in_terms_of_json(self, value, shown):
        """Values are described in JSON's terms, and what is not JSON by its class."""
        with pytest.raises(DecodeError, match=f"is {shown}; expected a text"):
            openai_chat.load([user({"type": "text", "text": value})])
