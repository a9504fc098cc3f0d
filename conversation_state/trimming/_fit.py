"""
Fitting: the longest run of newest messages that a budget has room for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import attrs

from conversation_state._persistent import Log
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.trimming._shown import NOT_VALID, OVER_BUDGET, Range
from conversation_state.trimming._survey import Cut, Survey, tokens_of
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["cuts_of", "fit", "whole_number"]

_NO_CUTS: Log[Cut] = Log()


def whole_number(step: str, name: str, given: object, least: int = 0) -> int:
    if not isinstance(given, int) or given.__class__ is bool or given < least:
        msg = f"{step} takes {name}, an integer from {least} on; got {given!r}"
        raise ValueError(msg)

    return int(given)


def cuts_of(survey: Survey, *, start_on_user: bool, lead_size: int) -> Log[Cut]:
    """
    Where a valid run to the end may start; never empty.
    """
    choices = survey.cuts
    if start_on_user and not (lead_size and lead_size == survey.size):
        choices = survey.user_cuts

    if not choices:
        raise InvalidTranscriptError(_why_not(survey))

    return choices


def _why_not(survey: Survey) -> tuple[str, ...]:
    if not survey.cuts and survey.flaw is not None:
        return (survey.flaw.what,)

    return ("there is no user's message that a valid view could start on",)


def _apart(slack: int, lead: int) -> Callable[[Log[Cut], Cut], Log[Cut]]:
    def step(few: Log[Cut], cut: Cut) -> Log[Cut]:
        if cut.seq < lead or (few and cut.tokens < few[-1].tokens + slack):
            return few

        return few.append(cut)

    return step


@attrs.frozen
class _Fit:
    keep_system: bool
    start_on_user: bool
    slack: int

    def __call__(self, context: TrimContext) -> TrimContext:
        survey = context._survey()
        if not survey.size:
            return context

        lead, lead_tokens, lead_size = 0, 0, 0
        if self.keep_system:
            lead, lead_tokens = survey.lead, survey.lead_tokens
            lead_size = survey.lead_size

        choices = cuts_of(survey, start_on_user=self.start_on_user, lead_size=lead_size)
        limit = survey.tokens
        if context.budget is not None:
            limit = context.budget.effective_input_limit

        # Before a run that starts at a cut, this much must be left out.
        most = lead_tokens + survey.tokens - limit
        cut = choices[0]
        if most > lead_tokens:
            at = bisect_left(choices, most, key=tokens_of)
            if at == len(choices):
                least = max(choices[-1].tokens, lead_tokens)
                needed = lead_tokens + survey.tokens - least
                raise BudgetExceededError(needed, limit)

            cut = choices[at]
            if self.slack:
                cut = self._farther(choices, cut, most, lead, limit - lead_tokens)

        first = choices[0]
        if cut.seq <= lead:
            return context

        spans = (
            Range(lead, first.seq, NOT_VALID),
            Range(max(lead, first.seq), cut.seq, OVER_BUDGET),
        )
        return context._without(spans, cut.tokens - lead_tokens)

    def _farther(
        self, choices: Log[Cut], nearest: Cut, most: int, lead: int, room: int
    ) -> Cut:
        """
        The first of a few cuts that are *slack* tokens apart; the nearest one
        if there is none.

        Which these few are depends on what comes before them alone, so that
        the next state finds the same ones.
        """
        slack = min(self.slack, room // 2)
        few = choices.fold(_apart(slack, lead), _NO_CUTS, key=(_apart, slack, lead))
        at = bisect_left(few, most, key=tokens_of)
        return few[at] if at < len(few) else nearest


def fit(
    *, keep_system: bool = True, start_on_user: bool = False, slack: int = 0
) -> Step:
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

        slack: How far the start moves when it must, in tokens; at most half of
            what the budget leaves beside the leading system messages. Until
            that is used up, the views of later states start at the same
            message, and a provider's cache of what they have in common stays
            good (`TrimContext.shared_prefix`). With 0 it moves as little as it
            can, and nearly always.

    Raises:
        ValueError:
            If *slack* is negative or no integer.

        BudgetExceededError:
            By the step, if even the smallest such view is over the budget.

        InvalidTranscriptError:
            By the step, if no such view is valid: the newest message is the
            result of a call that is not directly before it, say.
    """
    return _Fit(keep_system, start_on_user, whole_number("fit", "slack", slack))
