"""
Steps: functions from one view to the next, and `trim`, which takes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs

from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget, TokenCounter, by_characters
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import Message
from conversation_state.trimming._survey import Survey, tokens_of
from conversation_state.trimming._view import (
    NOT_VALID,
    OVER_BUDGET,
    Range,
    TrimContext,
)

__all__ = ["Step", "fit", "trim"]

Step: TypeAlias = Callable[[TrimContext], TrimContext]


@attrs.frozen
class _Fit:
    keep_system: bool
    start_on_user: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        survey = context._survey()
        if not survey.size:
            return context

        lead, lead_tokens, choices = 0, 0, survey.cuts
        if self.keep_system:
            lead, lead_tokens = survey.lead, survey.lead_tokens

        if self.start_on_user and not (lead and survey.lead_size == survey.size):
            choices = survey.user_cuts

        if not choices:
            raise InvalidTranscriptError(_why_not(survey))

        limit = survey.tokens
        if context.budget is not None:
            limit = context.budget.effective_input_limit

        # Before a run that starts at a cut, this much must be left out.
        most = lead_tokens + survey.tokens - limit
        at = 0
        if most > lead_tokens:
            at = bisect_left(choices, most, key=tokens_of)
            if at == len(choices):
                least = max(choices[-1].tokens, lead_tokens)
                needed = lead_tokens + survey.tokens - least
                raise BudgetExceededError(needed, limit)

        first, cut = choices[0].seq, choices[at]
        if cut.seq <= lead:
            return context

        spans = (
            Range(lead, first, NOT_VALID),
            Range(max(lead, first), cut.seq, OVER_BUDGET),
        )
        return context._without(spans, cut.tokens - lead_tokens)


def _why_not(survey: Survey) -> tuple[str, ...]:
    if not survey.cuts and survey.flaw is not None:
        return (survey.flaw.what,)

    return ("there is no user's message that a valid view could start on",)


def fit(*, keep_system: bool = True, start_on_user: bool = False) -> Step:
    """
    A step that keeps the longest run of newest messages that fits.

    What it gives is never over the budget and never refused by a provider
    (`TrimContext.problems`); it holds the newest message, with the calls that
    message answers; and it keeps the order. O(log n) once the messages are
    weighed, whatever part of them fits.

    Args:
        keep_system: Keep the leading system messages, whatever else goes.

        start_on_user: Start the run on a user's message, as some providers
            want it.

    Raises:
        BudgetExceededError:
            By the step, if even the smallest such view is over the budget.

        InvalidTranscriptError:
            By the step, if no such view is valid: the newest message is the
            result of a call that is not directly before it, say.
    """
    return _Fit(keep_system, start_on_user)


def trim(
    said: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: Step,
    counter: TokenCounter = by_characters,
) -> TrimContext:
    """
    A view of what was said that went through *steps*, one after the other.

    Args:
        said: A state, or messages.

        budget: What the view should fit into; None for no limit.

        *steps: Functions from one view to the next; `fit` alone if there are
            none.

        counter: What weighs the messages.

    Raises:
        BudgetExceededError, InvalidTranscriptError:
            As `fit` says.

        TypeError:
            If a step gives something else than a view.

    >>> talk = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> talk = talk.add_assistant_message("Hi.").add_user_prompt("Bye.")
    >>> view = trim(talk, TokenBudget(context_window=3), fit())
    >>> [message.text for message in view.messages], view.total_tokens
    (['Hi.', 'Bye.'], 2)
    >>> view.dropped
    (Dropped(seq=0, reason='over budget'),)
    """
    context = TrimContext.of(said, budget, counter=counter)
    for step in steps or (fit(),):
        given: Any = step(context)
        if not isinstance(given, TrimContext):
            msg = (
                f"the step {step!r} gave {given!r:.80}; a step takes a TrimContext "
                "and gives the next one"
            )
            raise TypeError(msg)

        context = given

    return context
