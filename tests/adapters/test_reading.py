"""
How values that a format does not expect are described.
"""

import pytest

from conversation_state.adapters import openai_chat
from conversation_state.errors import DecodeError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (2**64, "an integer beyond 64 bits"),
        (-(2**64), "an integer beyond 64 bits"),
        (2**64 - 1, "18446744073709551615"),
        (0.5, "0.5"),
        ({"a": 1}, "an object"),
        ([1], "a list"),
        ((1,), "a list"),
        ({1}, "a Python set"),
    ],
)
def test_in_terms_of_json(value, shown):
    """
    Values are described in JSON's terms, and what is not JSON by its class.
    """
    with pytest.raises(DecodeError) as raised:
        openai_chat.load(
            [{"role": "user", "content": [{"type": "text", "text": value}]}]
        )

    (problem,) = raised.value.problems
    assert problem.what.startswith(f"is {shown}; expected")


@pytest.mark.parametrize(
    ("detail", "shown"), [("a" * 40, "a" * 40), ("a" * 41, "a" * 40 + "...")]
)
def test_long_texts(detail, shown):
    """
    A long text is cut.
    """
    with pytest.raises(DecodeError) as raised:
        openai_chat.load([{"role": "assistant", "tool_calls": detail}])

    (problem,) = raised.value.problems
    assert f"is {shown!r}; expected" in problem.what
