"""
Calibration: a counter scaled to the tokens that a provider reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import attrs

from conversation_state._persistent import check_iterable, final
from conversation_state._wording import shorten_repr
from conversation_state.counting._budget import check_tokens
from conversation_state.counting._estimate import TokenCounter, count
from conversation_state.messages import Message
from conversation_state.usage import Usage


@final
@attrs.frozen
class Calibrated:
    """
    Another counter, scaled; made by `calibrated`.

    A `TokenCounter`, and a value: equal if counter and scale are; picklable if
    the counter is. Larger counts stay larger, 0 stays 0, and no other count
    becomes 0.

    Attributes:
        counter: The counter that is scaled; still called once for a message.

        charged: The numerator of the scale in lowest terms: reported tokens ...

        counted: ... and its denominator: tokens by *counter*.
    """

    counter: TokenCounter
    charged: int
    counted: int

    def __call__(self, message: Message, /) -> int:
        """
        The scaled count, rounded up.
        """
        # In integers, which are exact however large both sums are.
        return -(-count(message, self.counter) * self.charged // self.counted)


def calibrated(
    counter: TokenCounter,
    samples: Iterable[tuple[Iterable[Message], int | Usage]],
    *,
    overhead: int = 0,
) -> Calibrated:
    """
    *counter*, scaled so that its total for all *samples* is what was reported.

    The scale is the ratio of the two sums: long prompts weigh more than short ones,
    and a few samples suffice. Counts are rounded up, so the total of all samples is
    at least what was reported, and less than one token a message more.

    Args:
        counter: The counter to scale.

        samples: Prompts that were sent: their messages, and the tokens that
            the provider reported for them, as a number or a `Usage`.

        overhead: The tokens of each report that were not messages, for example
            tool schemas (see `count_tools`).

    Raises:
        ValueError:
            If there are no samples, or if one has no reported tokens besides the
            overhead, no counted ones, or something else than a number of tokens.

        TypeError:
            If a sample is something else than a pair, or has other things than
            messages.

    >>> from conversation_state.counting import by_characters
    >>> from conversation_state.messages import UserMessage
    >>> question = UserMessage("When does the next train leave?")
    >>> better = calibrated(by_characters, [([question], 12)])
    >>> by_characters(question), better(question), better(UserMessage("Thanks!"))
    (8, 12, 3)
    """
    check_tokens("overhead", overhead)
    check_iterable(samples, "samples", "pairs of messages and their tokens")
    charged = counted = 0
    for number, sample in enumerate(samples):
        try:
            messages, reported = sample
        except (TypeError, ValueError):
            raise TypeError(
                f"sample {number} is {shorten_repr(sample)}; expected a pair of "
                "messages and the prompt tokens reported for them"
            ) from None

        if isinstance(reported, Usage):
            reported = reported.prompt_tokens

        check_tokens(f"the report of sample {number}", reported)
        tokens = sum([count(message, counter) for message in messages])
        if reported <= overhead:
            raise ValueError(
                f"sample {number} reports {reported} prompt tokens, {overhead} of them "
                "overhead, which leaves none for its messages. Leave out prompts "
                "without reported tokens"
            )

        if not tokens:
            raise ValueError(
                f"{shorten_repr(counter)} counts no tokens in sample {number}; leave "
                "it out"
            )

        charged += reported - overhead
        counted += tokens

    if not counted:
        raise ValueError(
            "there are no samples; a counter needs one prompt at least to be scaled"
        )

    # In lowest terms, so that counters of one scale are equal: messages remember
    # their counts by the counter.
    common = gcd(charged, counted)
    return Calibrated(counter, charged // common, counted // common)
