"""
Keeping what is newest: as much as a budget has room for, or a number of
messages; and no group of calls and results in part.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import islice, takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import Log, final
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
)
from conversation_state.requests import (
    Rules,
    has_stopped_calls,
    is_made,
    is_silent,
    is_thinking_only,
    is_well_formed,
    make_prompt,
)
from conversation_state.trimming._elements import (
    NO_REWRITES,
    OVER_BUDGET,
    OVER_COUNT,
    DroppedRange,
    Edit,
    Rewrite,
    check_integer,
)
from conversation_state.trimming._repair import Repair
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    CutPoint,
    Survey,
    check_pairing,
    dropped_failure,
    find_surveyed,
    is_task,
    survey_log,
)
from conversation_state.trimming._view import Step, TrimContext

_NO_CUTS: Log[CutPoint] = Log()
_tokens, _seq = itemgetter(0), itemgetter(1)
_shown_tokens = attrgetter("shown_tokens")


class RunStart(NamedTuple):
    """Where the newest run of a view starts, and what goes before it."""

    cut: CutPoint  # its first message
    # The position of the user's message that stays before it; -1 if it begins with a
    # user's message itself, -2 if one has to be made.
    task: int = -1
    tokens: int = 0  # how many tokens that message fills


_MADE = -2


@attrs.frozen
class _KeepNewest:
    """
    What `fit` and the steps that count messages have in common: they drop what
    is behind the leading system messages and before a cut, but for the task.
    """

    keep_system: bool

    def _survey_view(self, context: TrimContext) -> Survey:
        """The survey of what *context* shows, without a lead where it need not stay."""
        selection = context._selection
        survey = selection.whole or selection.survey()
        if not self.keep_system:
            survey = survey._replace(lead_size=0, lead=0, lead_tokens=0)

        if survey.cuts or not survey.size:
            return survey._replace(cuts=survey.starts)

        flaw = survey.flaw
        problem = "there is no place that a valid view could start at"
        raise InvalidTranscriptError((flaw.what if flaw else problem,))

    def _drop_before(
        self,
        context: TrimContext,
        survey: Survey,
        start: RunStart,
        *,
        end: int,
        tokens: int,
        reason: str,
    ) -> TrimContext:
        """
        *context* without what it shows from position *end* to the *start*, which fills
        *tokens*, but for the task; and with a made one where there is none.

        The range gets up to two reasons: an invalid place, for what could only be
        shown together with it, which is a failure of this step; and its own.
        """
        selection, flaw = context._selection, survey.flaw
        stop = start.cut.seq
        valid = end
        if flaw is not None:
            valid = min(max(survey.cuts[0].seq, end), stop)

        ranges = [
            DroppedRange(end, valid, flaw.reason if flaw else reason),
            DroppedRange(valid, stop, reason),
        ]
        made: tuple[Message, ...] = ()
        if start.task >= end:
            made = selection.messages_at(start.task)[1:]
            tokens -= start.tokens + selection.count_tokens(made)

        ranges = _split_at(start.task, *ranges)
        count = 0
        if flaw is not None:
            count = sum(seq != start.task for seq in selection.seqs(end, valid))

        view = context
        if ranges:
            view = context._with_selection(selection.drop_ranges(ranges, tokens))

        if made:
            # What was made to stand behind the task goes with what stood there.
            edit = selection.changes[start.task]
            change = {start.task: edit._replace(messages=edit.messages[:1], seqs=())}
            view = view._with_selection(view._selection.change(change))

        if start.task == _MADE:
            view = _with_made_prompt(view, stop)

        if flaw is None or not count:
            return view

        advice = "; put repair() before this step to keep them"
        return view._with_failures(dropped_failure(self, flaw, count, advice))

    def _find_start(
        self, context: TrimContext, survey: Survey, cut: CutPoint, earlier: TaskFinder
    ) -> RunStart:
        """The start at *cut*, with the task that has to go before it."""
        if not context.rules.starts_with_user or _starts_with_user(context, cut.seq):
            return RunStart(cut)

        at = bisect_left(survey.users, cut.seq, key=_seq)
        if at and survey.users[at - 1].seq >= survey.lead:
            task = survey.users[at - 1]
            return RunStart(cut, task.seq, task.own)

        found = earlier()
        if found is not None:
            return RunStart(cut, found.seq, found.tokens)

        return RunStart(cut, _MADE, count(make_prompt(), context.counter))


class Task(NamedTuple):
    seq: int  # the position of a user's message
    tokens: int  # how many tokens it fills


TaskFinder: TypeAlias = Callable[[], Task | None]


def _find_no_task() -> None:
    return None


def _starts_with_user(context: TrimContext, seq: int) -> bool:
    """Whether a user speaks first from position *seq* on."""
    selection = context._selection
    messages = selection.messages_at(seq)
    if not is_silent(messages[0], context.rules):
        return not isinstance(messages[0], _NOT_FIRST)

    for at in selection.seqs(seq):
        for message in selection.messages_at(at):
            if not is_silent(message, context.rules):
                return not isinstance(message, _NOT_FIRST)

    return False


_NOT_FIRST = (AssistantMessage, ToolMessage)


def _find_user_start(
    context: TrimContext, cuts: Log[CutPoint], seq: int, later: CutPoint | None
) -> CutPoint | None:
    """
    The first cut from position *seq* on, and not behind *later*, at which a run begins
    with a user's message, or with system messages directly before one.
    """
    for cut in cuts.iterate(bisect_left(cuts, seq, key=_seq)):
        if later is not None and cut.seq > later.seq:
            break

        if _starts_with_user(context, cut.seq):
            return cut

    return None


def _split_at(seq: int, *ranges: DroppedRange) -> list[DroppedRange]:
    """What there is of *ranges* without the position *seq*."""
    return [
        DroppedRange(start, stop, reason)
        for first, last, reason in ranges
        for start, stop in ((first, min(last, seq)), (max(first, seq + 1), last))
        if start < stop
    ]


def _with_made_prompt(context: TrimContext, seq: int) -> TrimContext:
    """
    *context* with a made message of a user before what it shows at position *seq*.
    """
    selection = context._selection
    edit = selection.find_edit(seq) or Edit(selection.messages_at(seq))
    seqs = (seq, *edit.seqs) if edit.seqs else ()
    messages = (make_prompt(), *edit.messages)
    change = edit._replace(messages=messages, seqs=seqs)
    return context._with_selection(selection.change({seq: change}))


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
class Fit(_KeepNewest):
    """The step that `fit` makes."""

    slack: int

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        if selection.is_whole and not selection.rewrites:
            found = fit_from_end(context, self, repairs=False)
            if found is not None:
                return found

        return self.fit_shown(context)

    def fit_shown(self, context: TrimContext) -> TrimContext:
        """The fitted view of what *context* shows, all of which is surveyed."""
        survey = self._survey_view(context)
        if not survey.size or survey.lead_size == survey.size:
            return self._check_size(context)

        selection = context._selection
        # A survey of what is shown has counted the results as they are shown.
        rewrites = selection.rewrites if selection.is_whole else NO_REWRITES
        limit, total = self.limit(context), selection.tokens
        limit = sys.maxsize if limit is None else limit
        # Before a run that starts at a cut, this much must be left out.
        excess = survey.lead_tokens + total - limit
        start = self.choose(context, survey, excess, limit, rewrites=rewrites)
        lead = survey.lead
        if start.cut.seq <= lead and start.task == -1:
            return context

        tokens = start.cut.tokens - survey.lead_tokens
        if rewrites is not NO_REWRITES:
            tokens -= selection.count_saved(start.cut.seq)

        return self._drop_before(
            context, survey, start, end=lead, tokens=tokens, reason=OVER_BUDGET
        )

    def _check_size(self, context: TrimContext) -> TrimContext:
        """*context*, which shows system messages only."""
        limit = self.limit(context)
        if limit is not None and context.total_tokens > limit:
            raise BudgetExceededError(context.total_tokens, limit)

        return context

    @staticmethod
    def limit(context: TrimContext) -> int | None:
        budget = context.budget
        return None if budget is None else budget.effective_input_limit

    def choose(
        self,
        context: TrimContext,
        survey: Survey,
        excess: int,
        limit: int,
        *,
        earlier: TaskFinder = _find_no_task,
        rewrites: Log[Rewrite] = NO_REWRITES,
    ) -> RunStart:
        """
        Where the longest run of newest messages starts that fits.

        Args:
            context: The view.
            survey: What is known of the messages that the run is among.
            excess: How many tokens of these have to be before it.
            limit: How many tokens the view may have.
            earlier: Finds the newest user's message before these messages.
            rewrites: The results among them that are smaller than *survey* knows.
        """
        cuts, lead, lead_tokens = survey.cuts, survey.lead, survey.lead_tokens
        if excess <= lead_tokens:
            # This cut applies even if everything fits: no valid view can show what is
            # before the first cut.
            first = cuts[min(bisect_left(cuts, lead, key=_seq), len(cuts) - 1)]
            start = self._find_start(context, survey, first, earlier)
            if excess + start.tokens <= lead_tokens or start.task >= lead:
                return start

        if self.slack:
            spaced = self._choose_spaced(
                context, survey, excess, limit, earlier=earlier, rewrites=rewrites
            )
            # If no spaced cut leaves out enough, the exact cut is used.
            if spaced is not None:
                return spaced

        cut = _find_cut(cuts, excess, rewrites)
        if cut is not None:
            start = self._find_start(context, survey, cut, earlier)
            if not start.tokens:
                return start

            # The task stays before the run, and needs room. A user's message that is
            # nearer than what that costs is the better start.
            later = _find_cut(cuts, excess + start.tokens, rewrites)
            user = _find_user_start(context, cuts, cut.seq, later)
            if user is not None:
                return RunStart(user)

            if later is not None:
                return start._replace(cut=later)

        left_out = self._count_left_out(context, survey, earlier, rewrites)
        raise BudgetExceededError(excess + limit - left_out, limit)

    def _count_left_out(
        self,
        context: TrimContext,
        survey: Survey,
        earlier: TaskFinder,
        rewrites: Log[Rewrite],
    ) -> int:
        """How many tokens the smallest run leaves out, less what is put before it."""
        cuts = survey.cuts
        last = cuts[-1]
        added = self._find_start(context, survey, last, earlier).tokens
        # An empty message of a user is no task, but a run may begin with it.
        for cut in reversed(cuts) if added else ():
            if last.tokens - cut.tokens >= added:
                break

            if _starts_with_user(context, cut.seq):
                last, added = cut, 0
                break

        left_out = last.tokens
        if rewrites:
            left_out -= context._selection.count_saved(last.seq)

        return max(left_out, survey.lead_tokens) - added

    def _choose_spaced(
        self,
        context: TrimContext,
        survey: Survey,
        excess: int,
        limit: int,
        *,
        earlier: TaskFinder,
        rewrites: Log[Rewrite],
    ) -> RunStart | None:
        """As `choose`, of cuts *slack* tokens apart; None if that is not enough."""
        lead, lead_tokens = survey.lead, survey.lead_tokens
        # With more slack than half of the room, one step could drop nearly everything
        # that fits.
        slack = min(self.slack, (limit - lead_tokens) // 2)
        key = (_spaced_cuts, slack, lead)
        cuts = survey.cuts.fold(_spaced_cuts(slack, lead), _NO_CUTS, key=key)
        room = 0  # for the task
        while (cut := _find_cut(cuts, excess + room, rewrites)) is not None:
            start = self._find_start(context, survey, cut, earlier)
            if start.tokens <= room:
                return start

            room = start.tokens

        return None


_WIDTH = 32  # positions in a block of a log


def fit_from_end(
    context: TrimContext, step: Fit, *, repairs: bool
) -> TrimContext | None:
    """
    What ``repair(), fit()`` (or `fit` alone) shows of a whole log, found from its end:
    only what is kept is counted, and up to 32 messages more. None where that is not to
    be known without reading all of it.

    Where the newest messages need no repair, this is the same run of messages; where
    they do, they are repaired, without what is before them.

    Args:
        context: A view of a whole log.
        step: The step.
        repairs: Whether `repair` runs before it.
    """
    selection = context._selection
    entries, counter = selection.entries, context.counter
    limit = step.limit(context)
    # Cuts that move in steps depend on all that comes before them.
    if len(entries) <= 2 * _WIDTH or limit is None or step.slack:
        return None

    rules = context.rules
    lead = _find_lead(entries, counter, rules) if step.keep_system else NO_LEAD
    if lead is None:
        return None

    found, since = _fit_surveyed(context, step, lead, limit)
    while found is None and since > lead.size:
        found = _fit_valid(context, step, lead, since, limit)
        if found is not None or not repairs:
            break

        find_task = partial(_find_task, entries, counter, since)
        repaired = _repair_newest(context, lead, since, find_task)
        if repaired.total_tokens > limit:
            return step.fit_shown(repaired)

        since = _find_since(entries, counter, limit, min(since, len(entries) // 2))

    if found is None and repairs:
        found = _fit_valid(context, step, lead, 0, limit)

    if found is not None and repairs and not lead.is_right:
        return Repair(at_end=False).repair_shown(found)

    return found


def _fit_surveyed(
    context: TrimContext, step: Fit, lead: _Lead, limit: int
) -> tuple[TrimContext | None, int]:
    """
    What *step* shows by a survey that is remembered; else where one has to begin, 0 if
    it is the whole that is asked for.

    What is shown must not depend on what was asked before, so such a survey is used
    only where it gives what one of the newest messages gives.
    """
    selection = context._selection
    entries, counter, rules = selection.entries, selection.counter, selection.rules
    since, room = len(entries), limit - lead.tokens
    known = find_surveyed(entries, counter, rules)
    if known is not None:
        found = _fit_valid(context, step, lead, known, limit)
        if found is not None:
            return found, known

        survey = survey_log(entries, counter, rules, known)
        if survey.is_right and not known:
            return None, 0

        if survey.is_right and survey.tokens <= room:
            since, room = known, room - survey.tokens

    return None, _find_since(entries, counter, room, since)


def _fit_valid(
    context: TrimContext, step: Fit, lead: _Lead, since: int, limit: int
) -> TrimContext | None:
    """
    What *step* shows within *limit* tokens, if that is behind the last place from
    position *since* on that has to be repaired; None if it is not, or if there may be
    room for more.
    """
    selection = context._selection
    entries, counter, rules = selection.entries, selection.counter, selection.rules
    survey = survey_log(entries, counter, rules, since)
    pending = survey.open_calls.pending
    if survey.is_thinking or (pending and has_stopped_calls(context.messages)):
        return None

    if since and survey.spoken < 0:
        return None

    cuts, total = survey.starts, survey.tokens
    excess = lead.tokens + total - limit
    # What is before the first of these cuts has to be repaired, or is not known.
    first = bisect_left(cuts, survey.odd_end, key=_seq)
    if first == len(cuts) or excess <= cuts[first].tokens:
        return None

    lead_tokens = 0 if since else lead.tokens
    survey = survey._replace(
        lead_size=lead.size, lead=lead.size, lead_tokens=lead_tokens, cuts=cuts
    )
    find_task = partial(_find_task, entries, counter, since)
    start = step.choose(context, survey, excess, limit, earlier=find_task)
    if start.task >= 0 and not is_well_formed(entries[start.task].message, rules):
        return None

    return _show_run(context, lead, start, total)


class _Lead(NamedTuple):
    """The leading system messages: how many, and the tokens they fill."""

    size: int
    tokens: int
    is_right: bool = True  # whether none of them needs a repair


NO_LEAD = _Lead(0, 0)


def _find_lead(
    entries: Log[Entry], counter: TokenCounter, rules: Rules
) -> _Lead | None:
    """
    The leading system messages of *entries*, of which there are more than 32; None if
    there are so many that they fill a block.
    """

    def read(first: tuple[Entry, ...]) -> _Lead:
        # The others may not be there (`store.view`).
        shown = (entry.message for entry in first)
        leading = [*takewhile(lambda each: isinstance(each, SystemMessage), shown)]
        tokens = sum([count(each, counter) for each in leading])
        is_right = all(is_well_formed(each, rules) for each in leading)
        return _Lead(len(leading), tokens, is_right)

    lead = entries.derive(read, key=("lead", counter, rules), stop=_WIDTH)
    return None if lead.size == _WIDTH else lead


def _find_since(
    entries: Log[Entry], counter: TokenCounter, room: int, stop: int
) -> int:
    """
    The position of the block in which the messages before *stop* begin that fill more
    than *room*; 0 if all of them do not.
    """
    since = max((stop - 1) & -_WIDTH, 0)
    end = stop
    while True:
        for entry in islice(entries.iterate(since), end - since):
            room -= count(entry.message, counter)

        if room < 0 or since == 0:
            return since

        end, since = since, since - _WIDTH


def _find_task(entries: Log[Entry], counter: TokenCounter, since: int) -> Task | None:
    """The newest user's message before the position *since*. Reads roles only, once."""

    def read(block: tuple[Entry, ...]) -> int | None:
        for place in reversed(range(_WIDTH)):
            if is_task(block[place].message):
                return place

        return None

    if not since:
        return None

    seq: int = entries.derive(lambda _: _NOT_READ, key="task", stop=since)
    if seq == _NOT_READ:
        seq = _NONE
        for stop in range(since, 0, -_WIDTH):
            place = entries.derive(read, key="user", stop=stop)
            if place is not None:
                seq = stop - _WIDTH + place
                break

        entries.redefine(seq, key="task", stop=since)

    return None if seq == _NONE else Task(seq, count(entries[seq].message, counter))


_NONE, _NOT_READ = -1, -2


def _show_run(
    context: TrimContext, lead: _Lead, start: RunStart, total: int
) -> TrimContext:
    """The *lead*, the task and the run from *start*, of *total* surveyed tokens."""
    selection = context._selection
    size = len(selection.entries)
    first, stop = lead.size, start.cut.seq
    shown = first + size - stop
    tokens = lead.tokens + total - start.cut.tokens
    if start.task >= first:
        shown, tokens = shown + 1, tokens + start.tokens

    ranges = _split_at(start.task, DroppedRange(first, stop, OVER_BUDGET))
    counter, rules = selection.counter, selection.rules
    kept = Selection(selection.entries, counter, rules, tokens, shown, (*ranges,))
    view = context._with_selection(kept)
    return _with_made_prompt(view, stop) if start.task == _MADE else view


def _repair_newest(
    context: TrimContext, lead: _Lead, since: int, find_task: TaskFinder
) -> TrimContext:
    """The *lead*, the task and what is from position *since* on, repaired."""
    selection = context._selection
    entries, counter = selection.entries, selection.counter
    # A group of calls and results is repaired as a whole.
    while since > lead.size and isinstance(entries[since].message, ToolMessage):
        since -= 1

    task = find_task()
    dropped = DroppedRange(lead.size, since, OVER_BUDGET)
    ranges = _split_at(since if task is None else task.seq, dropped)
    size = len(entries) - sum(each.stop - each.start for each in ranges)
    shown = Selection(entries, counter, selection.rules, 0, size, tuple(ranges))
    tokens = sum([count(message, counter) for _, message in shown.pairs()])
    narrowed = context._with_selection(attrs.evolve(shown, tokens=tokens))
    reasons = [(seq, OVER_BUDGET) for seq in _find_late(entries, shown, since)]
    return Repair(at_end=False).repair_shown(narrowed, reasons)


def _find_late(entries: Log[Entry], shown: Selection, since: int) -> list[int]:
    """
    The positions of results in what is *shown* whose calls are before *since*, where
    no call is shown.
    """
    made = {call.id for _, message in shown.pairs() for call in message.tool_calls}
    unknown = {
        seq: message.tool_call_id
        for seq, message in shown.pairs()
        if isinstance(message, ToolMessage) and message.tool_call_id not in made
    }
    if not unknown:
        return []

    earlier = {
        call.id for entry in islice(entries, since) for call in entry.message.tool_calls
    }
    return [seq for seq, call_id in unknown.items() if call_id in earlier]


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
        survey = self._survey_view(context)
        if not survey.size or survey.lead_size == survey.size:
            return context

        cuts, lead, lead_size = survey.cuts, survey.lead, survey.lead_size
        at = bisect_left(cuts, lead, key=_seq)
        if survey.size - lead_size > self.last:
            seq, place = selection.find_shown(survey.size - self.last)
            # A view can't start in the middle of what one position shows, but for what
            # was made to stand before it.
            before = selection.messages_at(seq)[:place]
            at = bisect_left(cuts, seq + (not all(map(is_made, before))), key=_seq)

        # A newest group of more than *last* messages is kept whole.
        cut = cuts[min(at, len(cuts) - 1)]
        first_end, speaks = self._find_first_end(context, survey)
        end = max(first_end, lead)
        start = RunStart(cut)
        # Where first messages are kept, the view begins with them.
        if not speaks:
            start = self._find_start(context, survey, cut, _find_no_task)

        if cut.seq <= end and start.task == -1:
            return context

        tokens = 0
        if cut.seq > end:
            kept = [selection.messages_at(seq) for seq in selection.seqs(lead, end)]
            tokens = cut.tokens - survey.lead_tokens
            if selection.is_whole:
                tokens -= selection.count_saved(cut.seq)

            tokens -= sum(map(selection.count_tokens, kept))

        end = min(end, cut.seq)
        return self._drop_before(
            context, survey, start, end=end, tokens=tokens, reason=OVER_COUNT
        )

    def _find_first_end(self, context: TrimContext, survey: Survey) -> tuple[int, bool]:
        """
        The position behind the *first* messages, or fewer, so that no group is kept in
        part; and whether anybody but the system speaks in them.
        """
        end, speaks = 0, False
        if not self.first:
            return end, speaks

        # The messages are scanned, not bisected: the cuts before an invalid place are
        # not kept, and only the first few messages are read.
        open_calls, left = NO_OPEN_CALLS, survey.lead_size + self.first
        takes_thinking_only = context.rules.takes_thinking_only
        for seq, messages in context._selection.iterate():
            # What one position shows, such as a made message and the call behind it,
            # stays or goes together.
            left -= len(messages)
            if left < 0:
                break

            for message in messages:
                open_calls, flaws = check_pairing(open_calls, seq, message)
                if flaws:
                    return end, speaks

            if not messages or open_calls.pending:
                continue

            if takes_thinking_only or not is_thinking_only(messages[-1]):
                end = seq + 1
                silent = [is_silent(each, context.rules) for each in messages]
                speaks = speaks or not all(silent)

        return end, speaks


def fit(*, keep_system: bool = True, slack: int = 0) -> Step:
    """
    A step that keeps the task and the longest run of newest messages that fits.

    The task is the newest user's message before that run, which stays if the run does
    not begin with a user's message: one prompt and a hundred calls and results are a
    usual conversation of an agent. What it gives begins with a user's message, behind
    the leading system messages, is never over the budget, never parts a call from its
    results, holds the newest message that is neither the system's nor of an unknown
    role, with the calls it answers, and what is behind it, and keeps the order. Where
    no user speaks at all, a made message does.

    The first view of a state counts from its end, only what it keeps. After that it
    costs O(log n), whatever part fits.

    Alone, without `repair` before it, it can show nothing before a place that
    a provider would refuse, a call without a result say: the reason in
    `TrimContext.dropped` and an error in `TrimContext.failures` name the
    place. `trim` without steps repairs first.

    Args:
        keep_system: Keep the leading system messages, whatever else goes.
        slack: How far the start moves when it must, in tokens; at most half of
            what the budget leaves besides the leading system messages. Until
            that is used up, the views of later states start at the same
            message, and a provider's cache of what they have in common stays
            good (`TrimContext.shared_prefix`). With 0 it moves as little as it
            can, and nearly always. With any other number, the first view of a state
            counts all of it.

    Raises:
        ValueError: If *slack* is negative or no integer.
        BudgetExceededError: By the step, if even the smallest such view is over the
            budget.
        InvalidTranscriptError: By the step, if no such view is valid: the newest
            message is the result of a call that is not directly before it, say.
    """
    return Fit(keep_system, check_integer("fit", "slack", slack))


def keep_last(n: int, *, keep_system: bool = True) -> Step:
    """
    A step that keeps the newest *n* messages, or a few less.

    The leading system messages and the task (see `fit`) stay and are not counted.
    Calls stay with their results: where *n* messages would begin in the middle of a
    group, the group goes; only the newest group is kept whole if it has more than
    *n* messages. So the view is valid and holds the newest message.

    Args:
        n: How many messages, at least 1.
        keep_system: As of `fit`.

    Raises:
        ValueError: If *n* is less than 1 or no integer.
        InvalidTranscriptError: By the step, if no valid view holds the newest message;
            `repair` before it helps.
    """
    last = check_integer("keep_last", "n", n, 1)
    return _KeepCount(keep_system, 0, last)


def keep_first_and_last(m: int, n: int, *, keep_system: bool = True) -> Step:
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

    Raises:
        ValueError, InvalidTranscriptError: As `keep_last` says.
    """
    first = check_integer("keep_first_and_last", "m", m)
    last = check_integer("keep_first_and_last", "n", n, 1)
    return _KeepCount(keep_system, first, last)
