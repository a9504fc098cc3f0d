"""
Repairing conversations that crashes or an interrupted call left invalid:
results without their call, calls without a result.

What a repaired run of messages shows is found message by message, in two ways:
over a log, which remembers it (`Log.fold`), so that the next state of a
conversation that was damaged once costs what is new in it; and over what a
narrowed view shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import Log, PMap, pmap
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.errors import DroppedHistoryError
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.trimming._elements import (
    INVALID,
    MARK,
    Replacement,
    StepFailure,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._survey import START, Survey
from conversation_state.trimming._validity import (
    CALLS_KEEP,
    DANGLING,
    NO_OPEN_CALLS,
    Flaw,
    OpenCalls,
    check_pairing,
    no_result_reason,
)
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["repair"]

_NO_RESULT = (
    "There is no result: this call was not answered before the conversation went on."
)

Pairs: TypeAlias = "list[tuple[int, Message]]"


class CallExchange(NamedTuple):
    """
    An assistant's message whose calls may still be answered, and its results.

    Attributes:
        open_calls: Its calls.

        shown: The message and the results until now, with their positions.
    """

    open_calls: OpenCalls
    shown: Log[tuple[int, Message]]

    def with_message(
        self, seq: int, message: Message
    ) -> tuple[CallExchange, Pairs, tuple[Flaw, ...]]:
        """
        The exchange after *message*; the messages that a repaired view shows
        whatever comes next, in order; and what it leaves out.
        """
        if isinstance(message, ToolMessage):
            open_calls, flaws = check_pairing(self.open_calls, seq, message)
            if flaws:
                return self, [], flaws

            return CallExchange(open_calls, self.shown.append((seq, message))), [], ()

        final, left_out = self.closed()
        open_calls, _ = check_pairing(NO_OPEN_CALLS, seq, message)
        if open_calls is NO_OPEN_CALLS:
            final.append((seq, message))
            return NO_EXCHANGE, final, left_out

        return CallExchange(open_calls, Log(((seq, message),))), final, left_out

    def closed(self) -> tuple[Pairs, tuple[Flaw, ...]]:
        """
        The message with its results, an error in the place of each missing
        one; and calls that can't have one, which are left out.
        """
        shown = list(self.shown)
        open_calls = self.open_calls
        if not open_calls.pending:
            return shown, ()

        seq, message = shown[0]
        answered, flaws = _answer_pending(seq, message, open_calls.pending)
        return [*((seq, one) for one in answered), *shown[1:]], flaws


NO_EXCHANGE = CallExchange(NO_OPEN_CALLS, Log())


def _answer_pending(
    seq: int, message: Message, pending: frozenset[str]
) -> tuple[list[Message], tuple[Flaw, ...]]:
    """
    *message*, and answers to those of its calls that have no result.
    """
    if not isinstance(
        message, AssistantMessage
    ):  # pragma: no cover - for type checkers
        return [message], ()

    flaws: tuple[Flaw, ...] = ()
    open_calls = {call.id: call for call in message.tool_calls if call.id in pending}
    # A result must say which call it answers, and can't to a call without id.
    if open_calls.pop("", None) is not None:
        what = f"messages[{seq}] makes a call without id, which nothing can answer"
        reason = no_result_reason(seq, ("",))
        flaws = (Flaw(DANGLING, (seq,), what, CALLS_KEEP, reason),)
        calls = [call for call in message.tool_calls if call.id]
        if not (calls or message.parts):
            return [], flaws

        message = message.replace(tool_calls=calls)

    mark = {MARK: {"synthetic": True}}
    answers = [
        ToolMessage(
            _NO_RESULT,
            tool_call_id=call.id,
            tool_name=call.name,
            is_error=True,
            metadata=mark,
        )
        for call in open_calls.values()
    ]
    return [message, *answers], flaws


class Repaired(NamedTuple):
    """
    A run of messages as `repair` shows it.

    Attributes:
        size: How many messages the run has.

        survey: The survey of what is shown before the exchange.

        exchange: The calls that may still be answered.

        removed: The positions that are left out, and why.

        replaced: The positions that show something else.

        left_out: Why something is left out, in order.
    """

    size: int
    survey: Survey
    exchange: CallExchange
    removed: PMap[int, str]
    replaced: PMap[int, Replacement]
    left_out: Log[Flaw]

    def with_entry(self, entry: Entry, counter: TokenCounter) -> Repaired:
        seq = self.size
        exchange, final, flaws = self.exchange.with_message(seq, entry.message)
        if not (final or flaws):
            return self._replace(size=seq + 1, exchange=exchange)

        if exchange is self.exchange and flaws:  # a result that answers nothing
            removed = self.removed.set(seq, flaws[0].reason)
            left_out = self.left_out.extend(flaws)
            return self._replace(size=seq + 1, removed=removed, left_out=left_out)

        ended = self._with_shown(final, flaws, counter)
        return ended._replace(size=seq + 1, exchange=exchange)

    def ended(self, *, at_end: bool, counter: TokenCounter) -> Repaired:
        """
        The same where nothing comes after it; the calls that are open are
        answered if *at_end*.
        """
        if at_end:
            final, flaws = self.exchange.closed()
        else:
            final, flaws = list(self.exchange.shown), ()

        return self._with_shown(final, flaws, counter)

    def _with_shown(
        self, final: Pairs, flaws: tuple[Flaw, ...], counter: TokenCounter
    ) -> Repaired:
        survey, removed, replaced = self.survey, self.removed, self.replaced
        for seq, message in final:
            survey = survey.with_message(seq, message, count(message, counter))

        if self.exchange.open_calls.pending:
            caller, message = self.exchange.shown[0]
            shown = tuple([one for seq, one in final if seq == caller])
            if not shown:
                removed = removed.set(caller, flaws[0].reason)
            elif any(one is not message for one in shown) or shown[1:]:
                replaced = replaced.set(caller, Replacement(shown))

        left_out = self.left_out.extend(flaws)
        return Repaired(self.size, survey, NO_EXCHANGE, removed, replaced, left_out)


_EMPTY: PMap[int, Any] = pmap()
_START = Repaired(0, START, NO_EXCHANGE, _EMPTY, _EMPTY, Log())


def repair_log(entries: Log[Entry], counter: TokenCounter) -> Repaired:
    """
    *entries* as `repair` shows them. O(entries since the last time).
    """

    def add_entry(run: Repaired, entry: Entry) -> Repaired:
        return run.with_entry(entry, counter)

    return entries.fold(add_entry, _START, key=("repaired", counter))


def _repair_pairs(
    pairs: Iterable[tuple[int, Message]], *, at_end: bool
) -> tuple[Pairs, tuple[Flaw, ...]]:
    """
    *pairs* of positions and messages as `repair` shows them, and why something
    is left out.
    """
    exchange = NO_EXCHANGE
    shown: Pairs = []
    left_out: list[Flaw] = []
    for seq, message in pairs:
        exchange, final, flaws = exchange.with_message(seq, message)
        shown += final
        left_out += flaws

    final, last = exchange.closed() if at_end else (list(exchange.shown), ())
    return [*shown, *final], (*left_out, *last)


@attrs.frozen
class _Repair:
    at_end: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        if not selection.shows_all:
            return self._repair_narrowed(context)

        survey = selection.survey()
        if not (survey.needs_repair or (self.at_end and survey.open_calls.pending)):
            return context

        entries, counter = selection.entries, selection.counter
        run = repair_log(entries, counter).ended(at_end=self.at_end, counter=counter)
        repaired = Selection(
            entries,
            counter,
            run.survey.tokens,
            run.survey.size,
            removed=run.removed,
            replaced=run.replaced,
            survey=run.survey,
        )
        failures = self._list_failures(run.left_out, run.removed)
        return context._with_selection(repaired)._with_failures(*failures)

    def _repair_narrowed(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        pairs, left_out = _repair_pairs(selection.pairs(), at_end=self.at_end)
        shown: dict[int, list[Message]] = {}
        for seq, message in pairs:
            shown.setdefault(seq, []).append(message)

        removed: dict[int, str] = {}
        for flaw in left_out:
            seq = flaw.seqs[-1]
            if seq not in shown:
                removed[seq] = flaw.reason

        replaced: dict[int, Replacement] = {}
        for seq, messages in shown.items():
            before = selection.messages_at(seq)
            if len(messages) != len(before) or any(
                one is not other for one, other in zip(messages, before, strict=True)
            ):
                replaced[seq] = Replacement(tuple(messages))

        if not (removed or replaced):
            return context

        for seq, reason in removed.items():
            selection = selection.remove((seq,), reason)

        failures = self._list_failures(left_out, removed)
        view = context._with_selection(selection.replace(replaced))
        return view._with_failures(*failures)

    def _list_failures(
        self, left_out: Iterable[Flaw], removed: Iterable[int]
    ) -> list[StepFailure]:
        dropped = {*removed}
        failures = []
        for flaw in left_out:
            problem = flaw.reason.removeprefix(f"{INVALID}: ")
            count = int(flaw.seqs[-1] in dropped)
            error = DroppedHistoryError((problem,), flaw.seqs, count)
            failures.append(StepFailure(self, error))

        return failures


def repair(*, at_end: bool = False) -> Step:
    """
    A step that leaves no result without its call, and no call unanswered.

    Results that do not directly follow the message with their call, or answer
    it again, are dropped, with the reason in `TrimContext.dropped` and in
    `TrimContext.failures`. Calls that something else than a result follows are
    answered by an error that says so, add_mark in its metadata
    (``{"conversation_state": {"synthetic": True}}``), directly behind the
    message that makes them and at its position; where a call has no id to
    answer, the view shows the message without it, and `failures` says so. The
    state keeps all as it was.

    Doing it again changes nothing. Two calls with one id in one message stay
    what they are. Of a whole state it costs O(log n) once the messages are
    counted, and O(number of repairs) where there are any; of a view that other
    steps changed before, O(messages kept).

    Args:
        at_end: Answer calls at the very end, too, where the agent was stopped
            and will not run them.
    """
    return _Repair(bool(at_end))
