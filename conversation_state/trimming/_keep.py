"""
Keeping a number of messages, and no group of calls and results in part.
"""

from __future__ import annotations

from bisect import bisect_left

import attrs

from conversation_state.trimming._elements import (
    OVER_COUNT,
    DroppedRange,
    check_integer,
)
from conversation_state.trimming._fit import ValidStarts
from conversation_state.trimming._survey import seq_of
from conversation_state.trimming._validity import NO_OPEN_CALLS, check_pairing
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["keep_first_and_last", "keep_last"]


@attrs.frozen
class _KeepCount:
    first: int
    last: int
    keep_system: bool
    start_on_user: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        survey = selection.survey()
        if not survey.size:
            return context

        starts = ValidStarts.of(
            survey, keep_system=self.keep_system, start_on_user=self.start_on_user
        )
        cuts, lead = starts.cuts, starts.lead
        at = 0
        if survey.size - starts.lead_size > self.last:
            at = bisect_left(cuts, self._find_last(context), key=seq_of)

        # A newest group of more than *last* messages is kept whole.
        cut = cuts[min(at, len(cuts) - 1)]
        end = max(self._find_first_end(context, starts.lead_size), lead)
        if cut.seq <= end:
            return context

        kept = [selection.messages_at(seq) for seq in selection.seqs(lead, end)]
        tokens = cut.tokens - starts.lead_tokens
        tokens -= sum(map(selection.count_tokens, kept))
        dropped = DroppedRange(end, cut.seq, OVER_COUNT)
        return starts.drop(context, dropped, tokens=tokens, step=self)

    def _find_first_end(self, context: TrimContext, lead_size: int) -> int:
        """
        The position behind the *first* messages, or fewer, so that no group is
        kept in part.
        """
        if not self.first:
            return 0

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

    def _find_last(self, context: TrimContext) -> int:
        """
        The first position that shows none but the *last* messages.
        """
        at = len(context) - self.last
        seq: int = context.elements[at].seq
        return seq + (context.elements[at - 1].seq == seq)


def keep_last(n: int, *, keep_system: bool = True, start_on_user: bool = False) -> Step:
    """
    A step that keeps the newest *n* messages, or a few less.

    The leading system messages stay and are not counted. Calls stay with
    their results: where *n* messages would begin in the middle of a group,
    the group goes; only the newest group is kept whole if it has more than
    *n* messages. So the view is valid and holds the newest message.

    Args:
        n: How many messages, at least 1.

        keep_system: Keep the leading system messages.

        start_on_user: Start on a user's message.

    Raises:
        ValueError:
            If *n* is less than 1 or no integer.

        InvalidTranscriptError:
            By the step, if no valid view holds the newest message; `repair`
            before it helps.
    """
    last = check_integer("keep_last", "n", n, 1)
    return _KeepCount(0, last, keep_system, start_on_user)


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

        keep_system: Keep the leading system messages.

        start_on_user: Start the newest ones on a user's message.

    Raises:
        ValueError:
            If *m* or *n* is too small or no integer.

        InvalidTranscriptError:
            By the step, if no valid view holds the newest message; `repair`
            before it helps.
    """
    first = check_integer("keep_first_and_last", "m", m)
    last = check_integer("keep_first_and_last", "n", n, 1)
    return _KeepCount(first, last, keep_system, start_on_user)
