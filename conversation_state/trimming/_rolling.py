"""A summary that grows with the conversation; no message is summarised twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from conversation_state._persistent import final
from conversation_state.messages import Message
from conversation_state.trimming._compact import (
    AsyncSummarise,
    Summarise,
    SummaryStep,
    find_group_boundaries,
    read_mark_replaced,
    read_replaced,
)
from conversation_state.trimming._elements import (
    MOVED,
    OVER_BUDGET,
    OVER_COUNT,
    check_integer,
    join_ranges,
    read_mark,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._view import (
    AsyncStep,
    Step,
    TrimContext,
    find_positions,
)


@final
@attrs.frozen
class _Rolling(SummaryStep):
    limit_tokens: int
    keep_last: int

    name = "rolling_summary"
    mark: ClassVar[Mapping[str, Any]] = {"rolling": True}

    def plan(self, context: TrimContext) -> tuple[TrimContext, tuple[int, ...]]:
        if context.total_tokens <= self.limit_tokens:
            return context, ()

        selection = context._selection
        lead = (selection.whole or selection.survey()).lead
        shown, end = _split_newest(selection, self.keep_last)
        stop = shown[end] if end < len(shown) else len(selection.entries)
        # An earlier summary costs nothing to show again, and may save enough by itself.
        context = _put_earlier_summary(context, lead, stop)
        if context.total_tokens <= self.limit_tokens:
            return context, ()

        selection = context._selection
        shown, end = _split_newest(selection, self.keep_last)
        # The system messages at the start are instructions, not history.
        seqs = {seq for seq in shown[:end] if seq >= lead}
        # A position that shows several messages is summarised whole or not at all.
        seqs -= {*shown[end:]}
        # If only summaries are left to summarise (or nothing is), another one would
        # lose content and save little in each turn.
        edits = [selection.changes.get(seq) for seq in seqs]
        if all(
            edit and edit.stands_for and read_mark(edit.messages[0]).get("rolling")
            for edit in edits
        ):
            return context, ()

        return context, tuple(sorted(seqs))


def _split_newest(selection: Selection, keep_last: int) -> tuple[list[int], int]:
    """The positions shown, and how many of them are older than those to keep."""
    boundaries = find_group_boundaries(selection)
    shown = [seq for seq, _ in selection.pairs()]
    end = max(len(shown) - keep_last, 0)
    # A group that is kept in part is kept whole.
    while end and not boundaries[shown[end] if end < len(shown) else -1]:
        end -= 1

    return shown, end


def _put_earlier_summary(context: TrimContext, lead: int, stop: int) -> TrimContext:
    """
    *context* with the summary of an earlier view that holds here and reaches
    farthest, but not to the position *stop*.
    """
    selection = context._selection
    found = [
        (seqs, summary.message)
        for summary in context._earlier_summaries
        for seqs in [find_positions(summary, selection.entries)]
        if seqs and max(seqs) < stop
    ]
    for seqs, message in sorted(found, key=lambda one: max(one[0]), reverse=True):
        shown = list(selection.seqs(lead, max(seqs) + 1))
        if shown and _can_stand_for(selection, message, seqs, shown):
            spans = join_ranges(range(seq, seq + 1) for seq in sorted(seqs))
            return context._with_selection(selection.summarise(shown, message, spans))

    return context


def _can_stand_for(
    selection: Selection, summary: Message, seqs: frozenset[int], shown: list[int]
) -> bool:
    """
    Whether *summary*, of the messages at *seqs*, can stand for those *shown*:
    it covers them, and reveals nothing that this view removed or replaced.
    """
    here = {seq for span in selection.stands_for(shown) for seq in span}
    if not seqs.issuperset(here):
        return False

    if any(selection.drop_reason(seq) not in _FOR_SIZE for seq in seqs - here):
        return False

    return read_mark_replaced(summary).issuperset(read_replaced(selection, shown))


# Messages that were dropped for their size may be summarised; removed and invalid ones
# must not come back in a summary.
_FOR_SIZE = {OVER_BUDGET, OVER_COUNT, MOVED}


def rolling_summary(limit_tokens: int, keep_last: int, summarise: Summarise) -> Step:
    """
    A step that summarises what is old once a view is over *limit_tokens*.

    One message stands for all but the leading system messages and the newest
    *keep_last*, or a few more where a group of calls and results would be
    split. Given the view of the turn before (``trim(..., previous=view)``),
    it continues from its summary: while that is enough, *summarise* is not
    called; then it gets that summary and what came since, and nothing twice.
    A summary is taken over only where the same entries are at the same
    positions, in later states and in forks that share all it stands for; where
    it does not reach into the newest *keep_last*; and where nothing it stands
    for was removed from this view, or replaced by a step of your own that did
    not replace it then. A turn that needs no summary, after an undo for
    example, remembers it for the next one.

    What the summary is like, and what happens without one, is as in
    `compact`; after a failure the summary of the turn before still stands. The
    view may be over *limit_tokens*; a `fit` behind this step holds the budget.
    A `SystemMessage` from *summarise* stands with the leading system messages,
    and `fit` keeps it with them.

    Costs O(messages in the view).

    Args:
        limit_tokens: How large a view may become before it is summarised.

        keep_last: How many of the newest messages stay as they are.

        summarise: As in `compact`.

    Raises:
        ValueError:
            If a number is negative or no integer.

        TypeError:
            If *summarise* isn't a function, or one that has to be awaited
            (`arolling_summary`).
    """
    return _make_rolling(limit_tokens, keep_last, summarise, is_async=False)


def arolling_summary(
    limit_tokens: int, keep_last: int, summarise: AsyncSummarise
) -> AsyncStep:
    """The same for an async *summarise*; a step for `atrim`."""
    return _make_rolling(limit_tokens, keep_last, summarise, is_async=True)


def _make_rolling(
    limit_tokens: int, keep_last: int, summarise: Any, *, is_async: bool
) -> _Rolling:
    name = "arolling_summary" if is_async else "rolling_summary"
    limit = check_integer(name, "limit_tokens", limit_tokens)
    number = check_integer(name, "keep_last", keep_last)
    return _Rolling(summarise, is_async, limit, number)
