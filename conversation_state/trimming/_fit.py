"""
Fitting: the longest run of newest messages that a budget has room for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import attrs

from conversation_state._persistent import Log
from conversation_state.errors import (
    BudgetExceededError,
    DroppedHistoryError,
    InvalidTranscriptError,
)
from conversation_state.trimming._elements import (
    BEFORE_USER,
    INVALID,
    OVER_BUDGET,
    DroppedRange,
    StepFailure,
    check_integer,
)
from conversation_state.trimming._survey import CutPoint, Survey, tokens_of
from conversation_state.trimming._validity import REPEATED_ID
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["ValidStarts", "fit"]

_NO_CUTS: Log[CutPoint] = Log()


class ValidStarts(NamedTuple):
    """
    Where a valid run to the end of a view may start, behind the leading system
    messages that stay.

    Attributes:
        survey: The survey of the view.

        cuts: The places; at least one.

        lead, lead_size, lead_tokens: What stays in front: the position behind
            it, how many messages, their tokens.
    """

    survey: Survey
    cuts: Log[CutPoint]
    lead: int
    lead_size: int
    lead_tokens: int

    @classmethod
    def of(
        cls, survey: Survey, *, keep_system: bool, start_on_user: bool
    ) -> ValidStarts:
        lead, lead_size, lead_tokens = 0, 0, 0
        if keep_system:
            lead, lead_size = survey.lead, survey.lead_size
            lead_tokens = survey.lead_tokens

        cuts = survey.cuts
        if start_on_user and not (lead_size and lead_size == survey.size):
            cuts = survey.user_cuts

        if not cuts:
            problem = "there is no user's message that a valid view could start on"
            if not survey.cuts and survey.flaw is not None:
                problem = survey.flaw.what

            raise InvalidTranscriptError((problem,))

        return cls(survey, cuts, lead, lead_size, lead_tokens)

    def drop(
        self, context: TrimContext, dropped: DroppedRange, *, tokens: int, step: Step
    ) -> TrimContext:
        """
        *context* without the range *dropped*, which fills *tokens*.

        The range gets up to three reasons: an invalid place, for what could
        only be shown together with it, which is a failure of *step*; that a
        view starts on a user; and its own.
        """
        start, stop, reason = dropped
        flaw = self.survey.flaw
        valid = max(self.survey.cuts[0].seq, start)
        first = max(self.cuts[0].seq, valid)
        ranges = (
            DroppedRange(start, valid, flaw.reason if flaw else reason),
            DroppedRange(valid, first, BEFORE_USER),
            DroppedRange(first, stop, reason),
        )
        selection = context._selection
        view = context._with_selection(selection.drop_ranges(ranges, tokens))
        if flaw is None:
            return view

        count = selection.count_positions(start, valid)
        if not count:
            return view

        problem = flaw.reason.removeprefix(f"{INVALID}: ")
        if flaw.kind != REPEATED_ID:
            problem += "; put repair() before this step to keep them"

        error = DroppedHistoryError((problem,), flaw.seqs, count)
        return view._with_failures(StepFailure(step, error))


def _spaced_cuts(
    slack: int, lead: int
) -> Callable[[Log[CutPoint], CutPoint], Log[CutPoint]]:
    """
    A fold to those cuts behind *lead* that are *slack* tokens apart.
    """

    def add_cut(spaced: Log[CutPoint], cut: CutPoint) -> Log[CutPoint]:
        if cut.seq < lead or (spaced and cut.tokens < spaced[-1].tokens + slack):
            return spaced

        return spaced.append(cut)

    return add_cut


@attrs.frozen
class _Fit:
    keep_system: bool
    start_on_user: bool
    slack: int

    def __call__(self, context: TrimContext) -> TrimContext:
        survey = context._selection.survey()
        if not survey.size:
            return context

        starts = ValidStarts.of(
            survey, keep_system=self.keep_system, start_on_user=self.start_on_user
        )
        cuts, lead_tokens = starts.cuts, starts.lead_tokens
        limit = survey.tokens
        if context.budget is not None:
            limit = context.budget.effective_input_limit

        # Before a run that starts at a cut, this much must be left out.
        excess = lead_tokens + survey.tokens - limit
        cut = cuts[0]
        if excess > lead_tokens:
            at = bisect_left(cuts, excess, key=tokens_of)
            if at == len(cuts):
                least = max(cuts[-1].tokens, lead_tokens)
                needed = lead_tokens + survey.tokens - least
                raise BudgetExceededError(needed, limit)

            cut = cuts[at]
            if self.slack:
                cut = self._find_spaced_cut(starts, excess, limit) or cut

        if cut.seq <= starts.lead:
            return context

        dropped = DroppedRange(starts.lead, cut.seq, OVER_BUDGET)
        return starts.drop(context, dropped, tokens=cut.tokens - lead_tokens, step=self)

    def _find_spaced_cut(
        self, starts: ValidStarts, excess: int, limit: int
    ) -> CutPoint | None:
        """
        The first cut behind *excess* tokens of those that are *slack* apart.

        Which these are depends on what comes before them alone, so that the
        next state finds the same ones.
        """
        lead = starts.lead
        slack = min(self.slack, (limit - starts.lead_tokens) // 2)
        spaced = starts.cuts.fold(
            _spaced_cuts(slack, lead), _NO_CUTS, key=(_spaced_cuts, slack, lead)
        )
        at = bisect_left(spaced, excess, key=tokens_of)
        return spaced[at] if at < len(spaced) else None


def fit(
    *, keep_system: bool = True, start_on_user: bool = False, slack: int = 0
) -> Step:
    """
    A step that keeps the longest run of newest messages that fits.

    What it gives is never over the budget and never refused by a provider
    (`TrimContext.problems`); it holds the newest message, with the calls that
    message answers; and it keeps the order. O(log n) once the messages are
    weighed, whatever part of them fits.

    Alone, without `repair` before it, it can show nothing before a place that
    a provider would refuse, a call without a result say: the reason in
    `TrimContext.dropped` and an error in `TrimContext.failures` name the
    place. `trim` without steps repairs first.

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
    return _Fit(keep_system, start_on_user, check_integer("fit", "slack", slack))
