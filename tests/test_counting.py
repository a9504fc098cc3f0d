"""Counting: every message once, and budgets that say what is left."""

import math
import pickle

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.counting import (
    TokenBudget,
    by_characters,
    by_encoding,
    calibrated,
    count,
    count_tools,
)
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
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.usage import Usage
from tests.processes import run_script


class TestByCharacters:
    """The default estimate."""

    @pytest.mark.parametrize(
        ("tokens", "text"),
        [(0, ""), (1, "a"), (1, "abcd"), (2, "abcde"), (1, "日本語文"), (1, "🙂🙂")],
    )
    def test_rounds_code_points_up(self, tokens, text):
        """Four code points are a token, and what is left over is one more."""
        assert tokens == by_characters(UserMessage(text))

    @given(our.texts(), our.texts(), our.texts())
    def test_counts_all_text_of_a_message_together(self, text, thought, refusal):
        """Texts, reasoning and refusals are added before rounding."""
        message = AssistantMessage(
            [TextPart(text), ReasoningPart(thought), RefusalPart(refusal)]
        )

        expected = math.ceil((len(text) + len(thought) + len(refusal)) / 4)
        assert expected == by_characters(message)

    def test_counts_names_and_arguments_of_calls(self):
        """A call counts with its name and its arguments, not with its id."""
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
        """Media add the documented number, beside the text."""
        assert tokens == by_characters(UserMessage([part]))
        assert tokens + 1 == by_characters(UserMessage([part, TextPart("abcd")]))

    def test_counts_what_it_does_not_know_as_json(self):
        """A message of an unknown kind fills what its JSON text fills."""
        assert 5 == by_characters(UnknownMessage({"role": "judge"}))
        assert 4 == by_characters(UnknownMessage({"role": "裁判官"}))

    @given(our.messages())
    def test_has_a_count_for_every_message(self, message):
        """Every message has a count, and never less than nothing."""
        assert by_characters(message) >= 0


# A tiny vocabulary for the real tokenizer: all bytes, and a few words.
TINY = tiktoken.Encoding(
    "tiny",
    pat_str=r"\w+|\W",
    mergeable_ranks={
        token: rank
        for rank, token in enumerate(
            [*(bytes([n]) for n in range(256)), b"ab", b"abab", b"user", b"us", b"er"]
        )
    },
    special_tokens={"<|x|>": 900},
)


class TestByEncoding:
    """Counting with a tokenizer's own function."""

    counter = staticmethod(by_encoding(TINY.encode_ordinary))

    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            (3 + 1, UserMessage("")),
            (3 + 1 + 1, UserMessage("ab")),
            (3 + 1 + 3, UserMessage("ab ab")),
            (3 + 1 + 1 + 2, UserMessage("ab", name="u")),
            (3 + 6 + 1, SystemMessage("ab")),
            (3 + 4 + 1, ToolMessage("ab", tool_call_id="never counted")),
            (3 + 9 + 2, AssistantMessage([TextPart("ab"), ReasoningPart("abab")])),
            (3 + 9 + 3, AssistantMessage(tool_calls=[ToolCall("id", "ab", "{}")])),
            (3 + 1 + 765 + 1, UserMessage([ImagePart(data=b"x"), TextPart("ab")])),
        ],
    )
    def test_counts_texts_role_name_and_frame(self, tokens, message):
        """
        Texts and calls, the role, a name and one more, and three for each
        message; ids are never counted.
        """
        assert tokens == self.counter(message)

    @given(st.text(st.characters(codec="utf-8")))
    def test_counts_as_the_tokenizer_does(self, text):
        """A text has as many tokens as the tokenizer makes of it."""
        for each in (text, "<|x|>"):  # a special token's name is text like any other
            expected = 3 + 1 + len(TINY.encode_ordinary(each))
            assert expected == self.counter(UserMessage(each))

    def test_counts_very_long_texts_in_pieces(self):
        """No text is longer than what the patterns of tokenizers can split."""
        pieces = []

        def encode(text):
            pieces.append(len(text))
            return text[:1]

        tokens = by_encoding(encode)(UserMessage("a" * 250_000))

        assert [100_000, 100_000, 50_000, 4] == sorted(pieces, key=lambda n: -n)
        assert 3 + 1 + 3 == tokens

    def test_is_a_value(self):
        """Equal for the same function: made in every turn, it counts nothing again."""
        assert by_encoding(TINY.encode_ordinary) == self.counter
        assert by_encoding(str.split) != self.counter
        assert by_encoding(str.split) == pickle.loads(
            pickle.dumps(by_encoding(str.split))
        )
        assert f"by_encoding({str.split!r})" == repr(by_encoding(str.split))

    def test_refuses_what_is_no_function(self):
        """The name of an encoding is not one."""
        with pytest.raises(TypeError, match="expected a function from a text"):
            by_encoding("o200k_base")  # type: ignore[arg-type]


class TestCount:
    """`count` asks once."""

    def test_asks_once_for_each_counter(self):
        """The same counter is asked once in a message's life, another one anew."""
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

    def test_equal_counters_are_one(self):
        """
        A counter that is made again for every turn, and equal to the last one,
        is not asked again.
        """
        asked = []

        class Counter:
            def __call__(self, message):
                asked.append(message)
                return 7

            def __eq__(self, other):
                return isinstance(other, Counter)

            __hash__ = None  # type: ignore[assignment]

        message = UserMessage("hi")

        assert [7] * 10 == [count(message, Counter()) for _ in range(10)]
        assert 1 == len(asked)
        assert 1 == len(message._weights) // 2

    def test_keeps_a_counter_that_is_in_use(self):
        """
        However many others come and go, the one that is asked again and again
        is not forgotten.
        """
        asked = []

        def steady(message):
            asked.append(message)
            return 7

        message = UserMessage("hi")
        for n in range(100):
            count(message, steady)
            count(message, lambda _, n=n: n)

        assert 1 == len(asked)
        assert 4 == len(message._weights) // 2

    def test_is_not_part_of_the_message(self):
        """A weighed message is equal to an unweighed one, also when pickled."""
        weighed = UserMessage("hi")
        count(weighed, by_characters)

        assert UserMessage("hi") == weighed
        assert pickle.dumps(UserMessage("hi")) == pickle.dumps(weighed)

    @pytest.mark.parametrize("wrong", [-1, 1.5, "7", None])
    def test_refuses_what_is_no_count(self, wrong):
        """A counter that gives no count is named, with what it gave."""
        with pytest.raises(ValueError, match=f"a number of tokens.* got {wrong!r} for"):
            count(UserMessage("hi"), lambda _: wrong)


SAMPLES = st.lists(
    st.tuples(
        st.lists(our.messages().filter(by_characters), min_size=1, max_size=5),
        st.integers(1, 10**6),
    ),
    min_size=1,
    max_size=5,
)


class TestCalibrated:
    """`calibrated` scales a counter to what was charged."""

    @given(SAMPLES)
    def test_adds_up_to_what_was_charged(self, samples):
        """
        Over all samples it is no less than the provider's sum, and more by
        less than a token for each message.
        """
        counter = calibrated(by_characters, samples)

        counted = [message for messages, _ in samples for message in messages]
        charged = sum(tokens for _, tokens in samples)
        assert charged <= sum(map(counter, counted)) < charged + len(counted)

    @given(SAMPLES, our.messages(), our.messages())
    def test_keeps_order_and_zero(self, samples, one, other):
        """What counted more does not count less, and only nothing counts nothing."""
        counter = calibrated(by_characters, samples)
        smaller, larger = sorted([one, other], key=by_characters)

        assert counter(smaller) <= counter(larger)
        assert (by_characters(one) == 0) == (counter(one) == 0)

    @given(SAMPLES)
    def test_is_a_value(self, samples):
        """
        The same samples give equal counters, in any order, here and in another
        process.
        """
        counter = calibrated(by_characters, samples)
        back = pickle.loads(pickle.dumps(counter))

        assert counter == calibrated(by_characters, reversed(samples))
        assert counter == back
        assert hash(counter) == hash(back)

    def test_reads_usage(self):
        """A usage stands for the prompt it reports, cached tokens included."""
        messages = [UserMessage("a" * 40)]

        assert calibrated(by_characters, [(messages, 15)]) == calibrated(
            by_characters, [(messages, Usage(15, 99))]
        )

    def test_takes_overhead_off(self):
        """What each report holds beside messages is not laid on them."""
        messages = [UserMessage("a" * 40)]
        counter = calibrated(
            by_characters, [(messages, 115), (messages, 115)], overhead=100
        )

        assert 15 == counter(messages[0])

    def test_counts_exactly_however_large(self):
        """No float is in between."""
        message = UserMessage("a" * 12)
        counter = calibrated(by_characters, [([message], 10**18 + 1)])

        assert 10**18 + 1 == counter(message)

    def test_asks_the_counter_once(self):
        """
        A counter that is calibrated again in every turn is still asked once for
        a message.
        """
        asked = []

        def slow(message):
            asked.append(message)
            return 10

        message = UserMessage("hi")
        for charged in range(1, 50):
            count(message, calibrated(slow, [([message], charged)]))

        assert 1 == len(asked)
        assert 4 == len(message._weights) // 2

    @pytest.mark.parametrize(
        ("samples", "expected"),
        [
            ([], "there are no samples"),
            ([([UserMessage("hi")], 0)], "sample 0 reports 0 prompt tokens"),
            ([([UserMessage("hi")], 9), ([], 5)], "no tokens in sample 1"),
        ],
    )
    def test_refuses_samples_without_information(self, samples, expected):
        """Nothing charged or nothing counted is not a scale, and is named."""
        with pytest.raises(ValueError, match=expected):
            calibrated(by_characters, samples)

    @pytest.mark.parametrize("overhead", [20, 21])
    def test_refuses_an_overhead_that_leaves_nothing(self, overhead):
        """Of a prompt something must be left for its messages."""
        with pytest.raises(ValueError, match=f"20 prompt tokens, {overhead} of them"):
            calibrated(by_characters, [([UserMessage("hi")], 20)], overhead=overhead)

    def test_refuses_a_negative_overhead(self):
        """Nothing takes less than no tokens."""
        with pytest.raises(ValueError, match="overhead is -1; expected"):
            calibrated(by_characters, [([UserMessage("hi")], 20)], overhead=-1)

    @pytest.mark.parametrize(
        ("sample", "expected"),
        [
            (5, "sample 0 is 5"),
            (UserMessage("hi"), "sample 0 is UserMessage"),
            ((["hi"], 5), "expected a Message, got a str: 'hi'"),
            (([UserMessage("hi")], 5.0), "the report of sample 0 is 5.0"),
            (([UserMessage("hi")], -5), "the report of sample 0 is -5"),
        ],
    )
    def test_refuses_what_is_no_sample(self, sample, expected):
        """A sample is messages and a number; what is not is shown."""
        with pytest.raises((TypeError, ValueError), match=expected):
            calibrated(by_characters, [sample])


class TestCountTools:
    """`count_tools` counts the tokens of a description of tools."""

    @given(
        st.lists(our.tool_infos(), max_size=4), st.lists(our.tool_infos(), max_size=4)
    )
    def test_adds(self, some, more):
        """Tools count each on its own, in any order; no tools count nothing."""
        both = count_tools([*some, *more])

        assert both == count_tools(some) + count_tools(more)
        assert both == count_tools([*more, *some])
        assert 0 == count_tools([])
        assert both >= len([*some, *more])

    def test_counts_what_the_model_reads(self):
        """Name, description and schema as compact JSON; metadata are not sent."""
        calls = []

        def noting(message):
            calls.append(message)
            return 3

        tool = ToolInfo(
            "trains",
            "Finds »trains«.",
            {"to": Parameter("string", required=True)},
            metadata={"owner": "me"},
        )

        text = (
            '{"name":"trains","description":"Finds »trains«.","parameters":'
            '{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}'
        )
        assert 6 == count_tools([tool, ToolInfo("clock")], noting)
        assert [text, '{"name":"clock"}'] == [message.text for message in calls]
        assert {"system"} == {message.role for message in calls}

    @pytest.mark.parametrize("wrong", ["trains", {"name": "trains"}, None])
    def test_refuses_other_things(self, wrong):
        """A provider's dictionary is not a tool of ours."""
        with pytest.raises(TypeError, match="tool_infos: expected ToolInfos"):
            count_tools([wrong])
        with pytest.raises(TypeError, match="tool_infos: expected a list of ToolInf"):
            count_tools(5)  # type: ignore[arg-type]


class TestTokenBudget:
    """`TokenBudget` with explicit numbers."""

    @given(
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    )
    def test_leaves_what_nothing_else_fills(self, window, output, overhead, used):
        """
        The window less output and overhead is for history; where that is
        nothing, the budget is refused.
        """
        fields = {"max_output_tokens": output, "overhead": overhead}
        limit = window - output - overhead
        if limit <= 0 < output + overhead:
            with pytest.raises(ValueError, match="leave nothing for messages"):
                TokenBudget(context_window=window, **fields)
            return

        budget = TokenBudget(context_window=window, **fields)

        assert limit == budget.effective_input_limit
        assert max(limit - used, 0) == budget.available(used)

    def test_refuses_what_leaves_nothing(self):
        """Room for no message is a mistake, and the error has all three numbers."""
        with pytest.raises(ValueError, match="leave nothing") as caught:
            TokenBudget(context_window=100, max_output_tokens=40, overhead=60)

        assert (
            "max_output_tokens=40 and overhead=60 leave nothing for messages of "
            "context_window=100; reduce them, or use a larger window"
        ) == str(caught.value)

    def test_needs_a_window(self):
        """Without a window there is nothing to divide, and the error says so."""
        with pytest.raises(ValueError, match="needs context_window"):
            TokenBudget()

    @pytest.mark.parametrize("wrong", [-1, 1.0, "8192", True, False, ""])
    @pytest.mark.parametrize(
        "name", ["context_window", "max_output_tokens", "overhead"]
    )
    def test_refuses_what_is_no_number_of_tokens(self, name, wrong):
        """Negative numbers and other types are refused by name."""
        fields = {"context_window": 8_192, name: wrong}

        with pytest.raises(ValueError, match=f"{name} is {wrong!r}"):
            TokenBudget(**fields)


def test_importing_the_room_loads_no_extra():
    """Counting by characters needs none of the packages of the extras."""
    script = (
        "import sys, conversation_state.counting; "
        "print({'tiktoken', 'genai_prices', 'numpy', 'pydantic'}"
        " & {name.partition('.')[0] for name in sys.modules})"
    )

    assert "set()" == run_script(script).strip()
