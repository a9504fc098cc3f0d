"""
A summary that grows with the talk, and reads nothing twice.
"""

from __future__ import annotations

import attrs

from conversation_state.trimming._compact import (
    AsyncSummarise,
    Plan,
    Summarise,
    asked,
    awaited,
    joints,
    only_sync,
)
from conversation_state.trimming._fit import whole_number
from conversation_state.trimming._marks import mark_of
from conversation_state.trimming._shown import Known
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

__all__ = ["arolling_summary", "rolling_summary"]

_MARK = {"rolling": True}


@attrs.frozen
class _Rolling:
    limit_tokens: int
    keep_last: int
    summarise: Summarise

    def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan(self, self.limit_tokens, self.keep_last, context)
        if isinstance(plan, TrimContext):
            return plan

        return asked("rolling_summary", self.summarise, plan)


@attrs.frozen
class _ARolling:
    limit_tokens: int
    keep_last: int
    summarise: AsyncSummarise

    async def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan(self, self.limit_tokens, self.keep_last, context)
        return (
            plan
            if isinstance(plan, TrimContext)
            else await awaited(self.summarise, plan)
        )


def _plan(
    step: object, limit_tokens: int, keep_last: int, context: TrimContext
) -> Plan | TrimContext:
    """
    What is to be summed up, or the view that needs no new summary.
    """
    if context.total_tokens <= limit_tokens:
        return context

    lead = context._survey().lead
    context = _with_known(context, lead)
    if context.total_tokens <= limit_tokens:
        return context

    places = joints(context)
    shown = [seq for seq, _ in context._pairs()]
    end = max(len(shown) - keep_last, 0)
    # A group that is kept in part is kept whole.
    while end and not places[shown[end] if end < len(shown) else -1]:
        end -= 1

    seqs = tuple(sorted({seq for seq in shown[:end] if seq >= lead}))
    if end < len(shown):
        seqs = tuple([seq for seq in seqs if seq < shown[end]])

    rolled = [seq for seq in seqs if _is_rolling(context, seq)]
    if not seqs or len(seqs) == len(rolled):
        return context

    return Plan(step, context, seqs, _MARK)


def _is_rolling(context: TrimContext, seq: int) -> bool:
    known = context._instead.get(seq)
    return (
        known is not None
        and bool(known.stands_for)
        and bool(mark_of(known.messages[0]).get("rolling"))
    )


def _with_known(context: TrimContext, lead: int) -> TrimContext:
    """
    *context* with the summary of the view before, as far as that holds here.
    """
    found = [
        (spans, known)
        for known in context._known
        if mark_of(known.message).get("rolling")
        for spans in [_resolved(context, known)]
        if spans
    ]
    for spans, known in sorted(found, key=lambda one: one[0][-1].stop, reverse=True):
        shown = list(context._seqs(lead, spans[-1].stop))
        covered = {seq for span in spans for seq in span}
        if shown and covered.issuperset(
            [seq for span in context._stands_for(shown) for seq in span]
        ):
            return context._summing_up(shown, known.message, spans)

    return context


def _resolved(context: TrimContext, known: Known) -> tuple[range, ...]:
    """
    The positions that *known* stands for here; none if it can't.
    """
    entries = context._entries
    if known.entries is not None:
        same = entries.common_prefix(known.entries)
        return known.stands_for if known.stands_for[-1].stop <= same else ()

    mark = mark_of(known.message)
    try:
        spans = tuple([range(start, stop) for start, stop in mark["seqs"]])
        ids = tuple(mark["compacted"])
    except (KeyError, TypeError, ValueError):
        return ()

    # What somebody else wrote down may be anything.
    if not all(0 <= span.start < span.stop <= len(entries) for span in spans):
        return ()

    if not ids or sum(map(len, spans)) != len(ids):
        return ()

    here = tuple([entries[seq].id for span in spans for seq in span])
    return spans if ids == here else ()


def rolling_summary(limit_tokens: int, keep_last: int, summarise: Summarise) -> Step:
    """
    A step that sums up what is old once a view is over *limit_tokens*.

    One message stands for all but the leading system messages and the newest
    *keep_last*, or a few more where a group of calls and results would be
    parted. Given the view of the turn before (``trim(..., previous=view)``),
    it goes on from its summary: while that is enough, *summarise* is not
    asked; then it gets that summary and what came since, and nothing twice.
    A summary is taken over only where the same entries are at the same
    positions: in later states, and in forks that share all it stands for.

    What the summary is like, and what happens without one, is as in
    `compact`; after a failure the summary of the turn before still stands. The
    view may be over *limit_tokens*; a `fit` behind this step holds the budget.
    A `SystemMessage` from *summarise* stands with the leading system messages,
    and `fit` keeps it with them.

    Costs O(messages in the view).

    Args:
        limit_tokens: How large a view may become before it is summed up.

        keep_last: How many of the newest messages stay as they are.

        summarise: As in `compact`.

    Raises:
        ValueError:
            If a number is negative or no integer.

        TypeError:
            If *summarise* is no function, or one that has to be awaited
            (`arolling_summary`).
    """
    only_sync("rolling_summary", summarise)
    return _Rolling(*_numbers("rolling_summary", limit_tokens, keep_last), summarise)


def arolling_summary(
    limit_tokens: int, keep_last: int, summarise: AsyncSummarise
) -> AsyncStep:
    """
    The same for a *summarise* that has to be awaited; a step for `atrim`.
    """
    numbers = _numbers("arolling_summary", limit_tokens, keep_last)
    return _ARolling(*numbers, summarise)


def _numbers(step: str, limit_tokens: int, keep_last: int) -> tuple[int, int]:
    return (
        whole_number(step, "limit_tokens", limit_tokens),
        whole_number(step, "keep_last", keep_last),
    )
