"""
Keeping what is newest: as much as a budget has room for, or a number of
messages; and no group of calls and results in part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter, itemgetter

import attrs

from conversation_state._persistent import Log, final
from conversation_state.errors import (
    BudgetExceededError,
    InvalidTranscriptError,
)
from conversation_state.trimming._elements import (
    BEFORE_USER,
    NO_REWRITES,
    OVER_BUDGET,
    OVER_COUNT,
    DroppedRange,
    Rewrite,
    check_integer,
)
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    CutPoint,
    Survey,
    check_pairing,
    dropped_failure,
)
from conversation_state.trimming._view import Step, TrimContext

_NO_CUTS: Log[CutPoint] = Log()
_tokens, _seq = itemgetter(0), itemgetter(1)
_shown_tokens = attrgetter("shown_tokens")


@attrs.frozen
class _KeepNewest:
    """
    What `fit` and the steps that count messages have in common: they drop what
    is behind the leading system messages and before a cut.
    """

    keep_system: bool
    start_on_user: bool

    def _survey_view(self, context: TrimContext) -> tuple[Survey, Log[CutPoint]]:
        """
        The survey of what *context* shows, without a lead where it need not stay; and
        where a valid run to the end may start, at least one place if it shows anything.
        """
        survey = context._selection.whole or context._selection.survey()
        if not self.keep_system:
            survey = survey._replace(lead_size=0, lead=0, lead_tokens=0)

        # A view that shows only system messages has no user message to start on, and is
        # kept as it is.
        is_all_lead = 0 < survey.lead_size == survey.size
        cuts = survey.cuts
        if self.start_on_user and not is_all_lead:
            cuts = survey.user_cuts

        if cuts or not survey.size:
            return survey, cuts

        problem = "there is no user's message that a valid view could start on"
        if not survey.cuts and survey.flaw is not None:
            problem = survey.flaw.what

        raise InvalidTranscriptError((problem,))

    def _drop_range(
        self,
        context: TrimContext,
        survey: Survey,
        cuts: Log[CutPoint],
        dropped: DroppedRange,
        tokens: int,
    ) -> TrimContext:
        """
        *context* without the range *dropped*, which fills *tokens*.

        The range gets up to three reasons: an invalid place, for what could
        only be shown together with it, which is a failure of this step; that a
        view starts on a user; and its own.
        """
        selection, flaw = context._selection, survey.flaw
        start, stop, reason = dropped
        if flaw is None and not self.start_on_user:
            return context._with_selection(selection.drop_ranges((dropped,), tokens))

        valid = max(survey.cuts[0].seq, start)
        first = max(cuts[0].seq, valid)
        ranges = (
            DroppedRange(start, valid, flaw.reason if flaw else reason),
            DroppedRange(valid, first, BEFORE_USER),
            DroppedRange(first, stop, reason),
        )
        view = context._with_selection(selection.drop_ranges(ranges, tokens))
        if flaw is None:
            return view

        # A whole selection with a flaw is not repaired: each position shows a message.
        count = valid - start
        if not selection.whole:
            count = len(list(selection.seqs(start, valid)))

        if count <= 0:
            return view

        advice = "; put repair() before this step to keep them"
        return view._with_failures(dropped_failure(self, flaw, count, advice))


def _find_cut(
    cuts: Log[CutPoint], excess: int, rewrites: Log[Rewrite]
) -> CutPoint | None:
    """
    The first of *cuts* with at least *excess* tokens before it; None if there is
    none.

    Cuts say how many tokens come before them as the results were before
    *rewrites*. Between two of these, that is a constant more than is shown.
    """
    if rewrites is not NO_REWRITES:
        at = bisect_left(rewrites, excess, key=_shown_tokens)
        if at:
            excess += rewrites[at - 1].saved

        if at < len(rewrites):
            # A marker may be longer than what it stands for.
            excess = min(excess, rewrites[at].tokens)

    at = bisect_left(cuts, excess, key=_tokens)
    return cuts[at] if at < len(cuts) else None


@final
@attrs.frozen
class _Fit(_KeepNewest):
    slack: int

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        survey, cuts = self._survey_view(context)
        if not survey.size:
            return context

        lead, lead_tokens = survey.lead, survey.lead_tokens
        total = limit = selection.tokens
        if context.budget is not None:
            limit = context.budget.effective_input_limit

        # Before a run that starts at a cut, this much must be left out.
        excess = lead_tokens + total - limit
        # A survey of what is shown has counted the results as they are shown.
        rewrites = selection.rewrites if selection.whole else NO_REWRITES
        # This cut applies even if everything fits: no valid view can show what is
        # before the first cut.
        cut = cuts[0]
        if excess > lead_tokens:
            nearest = _find_cut(cuts, excess, rewrites)
            if nearest is None:
                least = cuts[-1].tokens
                if rewrites:
                    least -= selection.count_saved(cuts[-1].seq)

                least = max(least, lead_tokens)
                raise BudgetExceededError(lead_tokens + total - least, limit)

            cut = nearest
            if self.slack:
                # With more slack than half of the room, one step could drop nearly
                # everything that fits.
                slack = min(self.slack, (limit - lead_tokens) // 2)
                spaced = cuts.fold(
                    _spaced_cuts(slack, lead), _NO_CUTS, key=(_spaced_cuts, slack, lead)
                )
                # If no spaced cut leaves out enough, the exact cut is used.
                cut = _find_cut(spaced, excess, rewrites) or cut

        if cut.seq <= lead:
            return context

        dropped = DroppedRange(lead, cut.seq, OVER_BUDGET)
        tokens = cut.tokens - lead_tokens
        if rewrites is not NO_REWRITES:
            tokens -= selection.count_saved(cut.seq)

        return self._drop_range(context, survey, cuts, dropped, tokens)


def _spaced_cuts(
    slack: int, lead: int
) -> Callable[[Log[CutPoint], CutPoint], Log[CutPoint]]:
    """
    A fold to those cuts behind *lead* that are *slack* tokens apart.

    Which these are depends on what comes before them alone, so that the next
    state finds the same ones; also where results before them were rewritten.
    """

    def add_cut(spaced: Log[CutPoint], cut: CutPoint) -> Log[CutPoint]:
        if cut.seq < lead or (spaced and cut.tokens < spaced[-1].tokens + slack):
            return spaced

        return spaced.append(cut)

    return add_cut


@final
@attrs.frozen
class _KeepCount(_KeepNewest):
    first: int
    last: int

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        survey, cuts = self._survey_view(context)
        if not survey.size:
            return context

        lead, lead_size, at = survey.lead, survey.lead_size, 0
        if survey.size - lead_size > self.last:
            seq, place = selection.find_shown(survey.size - self.last)
            # A view can't start in the middle of what one position shows.
            at = bisect_left(cuts, seq + (place > 0), key=_seq)

        # A newest group of more than *last* messages is kept whole.
        cut = cuts[min(at, len(cuts) - 1)]
        end = max(self._find_first_end(context, lead_size), lead)
        if cut.seq <= end:
            return context

        kept = [selection.messages_at(seq) for seq in selection.seqs(lead, end)]
        tokens = cut.tokens - survey.lead_tokens
        if selection.whole:
            tokens -= selection.count_saved(cut.seq)

        tokens -= sum(map(selection.count_tokens, kept))
        dropped = DroppedRange(end, cut.seq, OVER_COUNT)
        return self._drop_range(context, survey, cuts, dropped, tokens)

    def _find_first_end(self, context: TrimContext, lead_size: int) -> int:
        """
        The position behind the *first* messages, or fewer, so that no group is
        kept in part.
        """
        if not self.first:
            return 0

        # The messages are scanned, not bisected: the cuts before an invalid place are
        # not kept, and only the first few messages are read.
        open_calls, end = NO_OPEN_CALLS, 0
        for at, (seq, message) in enumerate(context._selection.pairs()):
            if at >= lead_size + self.first:
                break

            open_calls, flaws = check_pairing(open_calls, seq, message)
            if flaws:
                break

            if not open_calls.pending:
                end = seq + 1

        return end


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
            what the budget leaves besides the leading system messages. Until
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


def keep_last(n: int, *, keep_system: bool = True, start_on_user: bool = False) -> Step:
    """
    A step that keeps the newest *n* messages, or a few less.

    The leading system messages stay and are not counted. Calls stay with
    their results: where *n* messages would begin in the middle of a group,
    the group goes; only the newest group is kept whole if it has more than
    *n* messages. So the view is valid and holds the newest message.

    Args:
        n: How many messages, at least 1.

        keep_system: As of `fit`.

        start_on_user: As of `fit`.

    Raises:
        ValueError:
            If *n* is less than 1 or no integer.

        InvalidTranscriptError:
            By the step, if no valid view holds the newest message; `repair`
            before it helps.
    """
    last = check_integer("keep_last", "n", n, 1)
    return _KeepCount(keep_system, start_on_user, 0, last)


def keep_first_and_last(
    m: int, n: int, *, keep_system: bool = True, start_on_user: bool = False
) -> Step:
    """
    A step that keeps the first *m* messages and the newest *n*.

    The first ones are those behind the leading system messages, which stay
    and are not counted; a group that the *m*-th message is in the middle of
    goes, and so does what comes behind something a provider refuses. The
    newest are kept as `keep_last` does.

    A `fit` behind it drops the first ones before all others.

    Args:
        m: How many of the first messages.

        n: How many of the newest, at least 1.

        keep_system: As of `fit`.

        start_on_user: As of `fit`, for the newest ones.

    Raises:
        ValueError, InvalidTranscriptError:
            As `keep_last` says.
    """
    first = check_integer("keep_first_and_last", "m", m)
    last = check_integer("keep_first_and_last", "n", n, 1)
    return _KeepCount(keep_system, start_on_user, first, last)
