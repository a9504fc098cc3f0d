"""
Keeping so many messages, and no group of calls and results in part.
"""

from __future__ import annotations

from bisect import bisect_left

import attrs

from conversation_state.trimming._fit import cuts_of, whole_number
from conversation_state.trimming._flaws import NOBODY, pair
from conversation_state.trimming._shown import NOT_VALID, OVER_COUNT, Range
from conversation_state.trimming._survey import seq_of
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["keep_first_and_last", "keep_last"]


@attrs.frozen
class _Keep:
    first: int
    last: int
    keep_system: bool
    start_on_user: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        survey = context._survey()
        if not survey.size:
            return context

        lead, lead_tokens, lead_size = 0, 0, 0
        if self.keep_system:
            lead, lead_tokens = survey.lead, survey.lead_tokens
            lead_size = survey.lead_size

        choices = cuts_of(survey, start_on_user=self.start_on_user, lead_size=lead_size)
        at = 0
        if survey.size - lead_size > self.last:
            at = bisect_left(choices, _start(context, self.last), key=seq_of)

        # A newest group of more messages than asked for is kept whole.
        cut = choices[min(at, len(choices) - 1)]
        head = self._head(context, lead_size) if self.first else lead
        head = max(head, lead)
        if cut.seq <= head:
            return context

        valid = max(min(choices[0].seq, cut.seq), head)
        spans = (
            Range(head, valid, NOT_VALID),
            Range(valid, cut.seq, OVER_COUNT),
        )
        kept = [context._at(seq) for seq in context._seqs(lead, head)]
        gone = cut.tokens - lead_tokens - sum(map(context._weigh, kept))
        return context._without(spans, gone)

    def _head(self, context: TrimContext, lead_size: int) -> int:
        """
        The position behind the first messages: as many as were asked for, or
        fewer, so that no group is kept in part.
        """
        group, end = NOBODY, 0
        for at, (seq, message) in enumerate(context._pairs()):
            if at >= lead_size + self.first:
                break

            group, flaws = pair(group, seq, message)
            if flaws:
                break

            if not group.pending:
                end = seq + 1

        return end


def _start(context: TrimContext, count: int) -> int:
    """
    The first position of which all is among the last *count* messages.
    """
    size = len(context)
    seq: int = context.elements[size - count].seq
    return seq + (context.elements[size - count - 1].seq == seq)


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
    last = whole_number("keep_last", "n", n, 1)
    return _Keep(0, last, keep_system, start_on_user)


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
    first = whole_number("keep_first_and_last", "m", m)
    last = whole_number("keep_first_and_last", "n", n, 1)
    return _Keep(first, last, keep_system, start_on_user)
