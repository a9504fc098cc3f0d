"""
Counting: every message once, and budgets that say what is left.
"""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.counting import TokenBudget, by_characters, count
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall


class TestByCharacters:
    """
    The default estimate.
    """

    @pytest.mark.parametrize(
        ("tokens", "text"),
        [(0, ""), (1, "a"), (1, "abcd"), (2, "abcde"), (1, "日本語文"), (1, "🙂🙂")],
    )
    def test_rounds_code_points_up(self, tokens, text):
        """
        Four code points are a token, and what is left over is one more.
        """
        assert tokens == by_characters(UserMessage(text))

    @given(our.texts(), our.texts(), our.texts())
    def test_counts_all_text_of_a_message_together(self, text, thought, refusal):
        """
        Texts, reasoning and refusals are added before rounding.
        """
        message = AssistantMessage(
            [TextPart(text), ReasoningPart(thought), RefusalPart(refusal)]
        )

        expected = math.ceil((len(text) + len(thought) + len(refusal)) / 4)
        assert expected == by_characters(message)

    def test_counts_names_and_arguments_of_calls(self):
        """
        A call is paid for by its name and its arguments, not by its id.
        """
        call = ToolCall("an id that is never counted", "find", '{"a":1}!')

        assert 1 + 3 == by_characters(AssistantMessage("aaaa", tool_calls=[call]))

    @pytest.mark.parametrize(
        ("tokens", "part"),
        [
            (765, ImagePart(url="https://example.com/a.png")),
            (765, ImagePart(data=b"x" * 10_000, detail="high")),
            (85, ImagePart(data=b"x", detail="low")),
            (1_000, AudioPart(url="https://example.com/a.mp3")),
            (3, AudioPart(data=b"x" * 1_001)),
            (2, VideoPart(data=b"x" * 800)),
            (4, FilePart(data=b"x" * 100, media_type="application/pdf")),
            (25, FilePart(data=b"x" * 100, media_type="text/plain")),
            (4, UnknownPart({"type": "xyz"})),
        ],
    )
    def test_estimates_media_as_documented(self, tokens, part):
        """
        Media add what the docstring says, beside the text.
        """
        assert tokens == by_characters(UserMessage([part]))
        assert tokens + 1 == by_characters(UserMessage([part, TextPart("abcd")]))

    def test_counts_what_it_does_not_know_as_json(self):
        """
        A message of an unknown kind fills what its JSON text fills.
        """
        assert 5 == by_characters(UnknownMessage({"role": "judge"}))

    @given(our.messages())
    def test_has_a_count_for_every_message(self, message):
        """
        Whatever can be said can be weighed, and never less than nothing.
        """
        assert by_characters(message) >= 0


class TestCount:
    """
    `count` asks once.
    """

    def test_asks_once_for_each_counter(self):
        """
        The same counter is asked once in a message's life, another one anew.
        """
        asked = []

        def long(message):
            asked.append(message)
            return 7

        message = UserMessage("hi")

        assert [7, 7, 1, 7] == [
            count(message, long),
            count(message, long),
            count(message, by_characters),
            count(message, long),
        ]
        assert 1 == len(asked)

    def test_forgets_the_oldest_of_many_counters(self):
        """
        A program that makes a new counter every time fills no memory.
        """
        message = UserMessage("hi")
        for n in range(100):
            count(message, lambda _, n=n: n)

        assert 4 == len(message._weights)

    def test_is_not_part_of_the_message(self):
        """
        A weighed message is equal to an unweighed one, also when pickled.
        """
        weighed = UserMessage("hi")
        count(weighed, by_characters)

        assert UserMessage("hi") == weighed
        assert pickle.dumps(UserMessage("hi")) == pickle.dumps(weighed)

    @pytest.mark.parametrize("wrong", [-1, 1.5, "7", None])
    def test_refuses_what_is_no_count(self, wrong):
        """
        A counter that gives no count is named, with what it gave.
        """
        with pytest.raises(ValueError, match=f"gave {wrong!r}.*expected a count"):
            count(UserMessage("hi"), lambda _: wrong)


class TestTokenBudget:
    """
    `TokenBudget` with explicit numbers.
    """

    @given(
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    )
    def test_leaves_what_nothing_else_fills(self, window, output, overhead, used):
        """
        The window less output and overhead is for history, and never negative.
        """
        budget = TokenBudget(
            context_window=window, max_output_tokens=output, overhead=overhead
        )

        limit = max(window - output - overhead, 0)
        assert limit == budget.effective_input_limit
        assert max(limit - used, 0) == budget.available(used)

    def test_counts_zero_as_given(self):
        """
        A window of 0 is a window, and leaves nothing.
        """
        assert 0 == TokenBudget(context_window=0).effective_input_limit

    def test_needs_a_window(self):
        """
        Without a window there is nothing to divide, and the error says so.
        """
        with pytest.raises(ValueError, match="needs context_window"):
            TokenBudget()

    @pytest.mark.parametrize("wrong", [-1, 1.0, "8192", True])
    @pytest.mark.parametrize(
        "name", ["context_window", "max_output_tokens", "overhead"]
    )
    def test_refuses_what_is_no_number_of_tokens(self, name, wrong):
        """
        Negative numbers and other types are refused by name.
        """
        fields = {"context_window": 8_192, name: wrong}

        with pytest.raises(ValueError, match=f"{name} is {wrong!r}"):
            TokenBudget(**fields)

    def test_refuses_negative_use(self):
        """
        What is used can't be less than nothing.
        """
        with pytest.raises(ValueError, match="used is -5"):
            TokenBudget(context_window=10).available(-5)

    def test_is_a_value(self):
        """
        Budgets of equal numbers are equal, and survive pickling.
        """
        budget = TokenBudget(context_window=10, overhead=3)

        assert TokenBudget(context_window=10, overhead=3) == budget
        assert budget == pickle.loads(pickle.dumps(budget))


@pytest.mark.parametrize(
    "message",
    [SystemMessage(""), UserMessage(""), ToolMessage("", tool_call_id="c")],
)
def test_an_empty_message_fills_nothing(message):
    """
    Nothing said is nothing counted.
    """
    assert 0 == by_characters(message)
