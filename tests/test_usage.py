"""Usage: tokens as the provider reported them, and how they add."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Usage
from conversation_state._persistent import FrozenMap
from conversation_state.errors import ConversationStateError, InvalidUsageError
from conversation_state.testing.laws import (
    adding_is_a_commutative_monoid,
    larger_is_a_semilattice,
)
from conversation_state.testing.strategies import (
    completion_tokens_details,
    prompt_tokens_details,
    usages,
)
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails

MAX_COUNT = 2**63 - 1

COUNTS = {
    Usage: ["prompt_tokens", "completion_tokens", "total_tokens"],
    PromptTokensDetails: ["audio_tokens", "cached_tokens"],
    CompletionTokensDetails: [
        "accepted_prediction_tokens",
        "audio_tokens",
        "reasoning_tokens",
        "rejected_prediction_tokens",
    ],
}
FIELDS = [(kind, name) for kind, names in COUNTS.items() for name in names]


class TestNew:
    def test_total(self):
        """The total is prompt and completion unless the provider reports another."""
        assert 15 == Usage(10, 5).total_tokens
        assert Usage(10, 5) == Usage(10, 5, None) == Usage(10, 5, 15)
        assert 99 == Usage(10, 5, 99).total_tokens
        assert 0 == Usage(10, 5, 0).total_tokens

    @pytest.mark.parametrize(
        ("names", "field"),
        [
            ("input input_tokens prompt", "prompt_tokens"),
            ("completion output output_tokens", "completion_tokens"),
            ("total", "total_tokens"),
        ],
    )
    def test_other_names(self, names, field):
        """A count's name in another library is an error that says this one's."""
        for name in names.split():
            with pytest.raises(AttributeError, match=f"did you mean '{field}'"):
                getattr(Usage(), name)

    @pytest.mark.parametrize(("kind", "name"), FIELDS)
    @pytest.mark.parametrize("count", [-1, 2**63, 1.0, True], ids=repr)
    def test_what_no_provider_can_mean(self, kind, name, count):
        """
        A count is an integer from 0 to 2**63 - 1; the error names the count and its
        value, and is a ValueError.
        """
        with pytest.raises(InvalidUsageError) as raised:
            kind(**{name: count})

        expected = (
            f"{name} is {count!r}; a count of tokens is an integer from 0 to "
            "2**63 - 1. Leave it out if the provider did not say."
        )
        assert expected == str(raised.value)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, ConversationStateError)

    @pytest.mark.parametrize("name", ["prompt", "completion"])
    def test_details(self, name):
        """Details are of their class."""
        details: Any = {f"{name}_tokens_details": {"audio_tokens": 1}}
        with pytest.raises(InvalidUsageError) as raised:
            Usage(**details)

        expected = f"{name}_tokens_details is {{'audio_tokens': 1}}; expected a "
        assert expected in str(raised.value)

    @pytest.mark.parametrize(
        ("extra", "problem"),
        [
            ({"a": -1}, "extra['a'] is -1; a count of tokens is"),
            ({1: 1}, "a category of extra is 1; expected a str"),
            ({"\ud800": 1}, "a category of extra holds '\\ud800'"),
            ([("a", 1)], "extra is [('a', 1)]; it maps names of token categories"),
        ],
    )
    def test_extra_errors(self, extra, problem):
        """What is not a map of counts by category is refused, and shown."""
        with pytest.raises(InvalidUsageError) as raised:
            Usage(extra=extra)

        assert problem in str(raised.value)

    def test_extra_is_frozen(self):
        """A caller's later changes have no effect."""
        extra = {"cache_write_tokens": 3}
        usage = Usage(extra=extra)
        extra["cache_write_tokens"] = 4

        assert isinstance(usage.extra, FrozenMap)
        assert {"cache_write_tokens": 3} == usage.extra

    def test_extra_zero(self):
        """
        No tokens of a category are the same as no such category, as with
        categories that have fields.
        """
        assert Usage() == Usage(extra={"cache_write_tokens": 0})
        assert Usage(extra={"a": 1}) == Usage(extra={"a": 1, "b": 0})


of_each_kind = pytest.mark.parametrize(
    "kind",
    [usages(), prompt_tokens_details(), completion_tokens_details()],
    ids=["usage", "prompt", "completion"],
)


def filled(factor):
    """A usage whose counts are all different multiples of *factor*."""
    accepted, audio, reasoning, rejected = (factor * n for n in (6, 7, 8, 9))
    return Usage(
        1 * factor,
        2 * factor,
        30 * factor,
        PromptTokensDetails(audio_tokens=4 * factor, cached_tokens=5 * factor),
        CompletionTokensDetails(
            accepted_prediction_tokens=accepted,
            audio_tokens=audio,
            reasoning_tokens=reasoning,
            rejected_prediction_tokens=rejected,
        ),
    )


class TestAdd:
    @of_each_kind
    @given(data=st.data())
    def test_law(self, kind, data):
        """
        Usages, and details of prompts and of completions, are commutative monoids.
        """
        adding_is_a_commutative_monoid(*[data.draw(kind) for _ in range(3)])

    def test_field_by_field(self):
        """Every count is added to its like; totals are added, not recomputed."""
        one = attrs.evolve(filled(1), extra={"a": 10, "b": 11})
        two = attrs.evolve(filled(100), extra={"b": 1100, "c": 1200})
        both = attrs.evolve(filled(101), extra={"a": 10, "b": 1111, "c": 1200})

        assert both == one + two

    @given(usages())
    def test_nothing_is_the_same_object(self, usage):
        """Adding None, or the 0 of `sum`, makes no new value."""
        assert usage is usage + None
        assert usage is None + usage
        assert usage is sum([usage])

    @pytest.mark.parametrize("other", [1, PromptTokensDetails()])
    def test_other_kinds(self, other):
        """Anything else can't be added."""
        with pytest.raises(TypeError):
            Usage() + other
        with pytest.raises(TypeError):
            other + Usage()
        with pytest.raises(TypeError, match="minus takes a Usage, got "):
            Usage().minus(other)

    def test_no_details_are_one_object(self):
        """Sums of usages without details have none of their own: a ledger has many."""
        both = Usage(1) + Usage(2)

        assert both.prompt_tokens_details is Usage().prompt_tokens_details
        assert both.completion_tokens_details is Usage().completion_tokens_details

    @pytest.mark.parametrize(
        "usage",
        [
            Usage(MAX_COUNT),
            Usage(0, MAX_COUNT),
            Usage(0, 0, MAX_COUNT),
            Usage(prompt_tokens_details=PromptTokensDetails(cached_tokens=MAX_COUNT)),
            Usage(extra={"a": MAX_COUNT}),
        ],
    )
    def test_too_large(self, usage):
        """A sum over 2**63 - 1 is refused, never wrapped around."""
        with pytest.raises(InvalidUsageError, match="is 18446744073709551614; a count"):
            usage + usage


class TestOr:
    @of_each_kind
    @given(data=st.data())
    def test_law(self, kind, data):
        """Taking the larger counts is idempotent, commutative, associative."""
        larger_is_a_semilattice(*[data.draw(kind) for _ in range(3)])

    def test_field_by_field(self):
        """The larger of each count, from either side."""
        one = Usage(1, 20, 21, PromptTokensDetails(audio_tokens=4), extra={"a": 10})
        two = Usage(
            10, 2, 99, PromptTokensDetails(cached_tokens=5), extra={"a": 1, "b": 2}
        )
        expected = Usage(
            10,
            20,
            99,
            PromptTokensDetails(audio_tokens=4, cached_tokens=5),
            extra={"a": 10, "b": 2},
        )

        assert expected == one | two

    @pytest.mark.parametrize(
        ("one", "two", "total"),
        [
            (Usage(10, 1), Usage(0, 20), 30),
            (Usage(10, 1, 15), Usage(0, 20), 30),
            (Usage(10, 1, 50), Usage(0, 20), 50),
            (Usage(10, 5, 12), Usage(10, 8, 14), 14),
            (Usage(10, 5, 12), Usage(), 12),
        ],
    )
    def test_total(self, one, two, total):
        """
        A total that was implied on both sides stays prompt and completion together; one
        that the provider reported as less stays that.
        """
        assert total == (one | two).total_tokens
        assert total == (two | one).total_tokens


class TestMinus:
    @given(usages(), usages())
    def test_undoes_add(self, a, b):
        """What is left of a sum without one part is the other."""
        assert a == (a + b).minus(b)
        assert b == (a + b).minus(a)

    @pytest.mark.parametrize(
        "larger", [Usage(2), Usage(0, 2, 0), Usage(0, 0, 9), Usage(extra={"a": 1})]
    )
    def test_more_than_there_is(self, larger):
        """Something larger in any count is no part."""
        with pytest.raises(InvalidUsageError, match="is -"):
            Usage(1, 1, 2).minus(larger)


class TestShown:
    @pytest.mark.parametrize(
        ("shown", "usage"),
        [
            ("Usage()", Usage()),
            ("Usage(20, 5)", Usage(20, 5)),
            ("Usage(completion_tokens=5)", Usage(0, 5)),
            ("Usage(total_tokens=7)", Usage(total_tokens=7)),
            ("Usage(20, 5, total_tokens=0)", Usage(20, 5, 0)),
            (
                "Usage(20, prompt_tokens_details=PromptTokensDetails(cached_tokens=9))",
                Usage(20, prompt_tokens_details=PromptTokensDetails(cached_tokens=9)),
            ),
            (
                (
                    "Usage(20, 5, completion_tokens_details="
                    "CompletionTokensDetails(reasoning_tokens=4), extra={'cache': 1})"
                ),
                Usage(
                    20,
                    5,
                    completion_tokens_details=CompletionTokensDetails(
                        reasoning_tokens=4
                    ),
                    extra={"cache": 1, "none": 0},
                ),
            ),
            ("PromptTokensDetails()", PromptTokensDetails()),
            (
                "CompletionTokensDetails(audio_tokens=1, rejected_prediction_tokens=2)",
                CompletionTokensDetails(audio_tokens=1, rejected_prediction_tokens=2),
            ),
        ],
    )
    def test_without_zeros(self, shown, usage):
        """Zeros are left out, and so is a total that is the sum."""
        assert shown == repr(usage) == str(usage)

    @given(usages() | prompt_tokens_details() | completion_tokens_details())
    def test_can_be_evaluated(self, usage):
        """What is shown is the Python that makes it."""
        names = {kind.__name__: kind for kind in COUNTS}

        assert usage == eval(repr(usage), names)
