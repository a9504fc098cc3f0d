"""
Repairing conversations that crashes, an interrupted call or a careless provider
left invalid: results without their call, calls without a result, calls that
share an id.

What a repaired run of messages shows is found message by message, in two ways:
over a log, which remembers it (`Log.fold`), so that the next state of a
conversation that was damaged once costs what is new in it; and over what a
narrowed view shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import Log, final
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.tools import ToolCall
from conversation_state.trimming._elements import (
    MARK,
    NO_REPAIRS,
    Edit,
    Repair,
    add_mark,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import (
    CALLS_KEEP,
    DANGLING,
    NO_OPEN_CALLS,
    START,
    Flaw,
    OpenCalls,
    Survey,
    check_pairing,
    dropped_failure,
    no_result_reason,
)
from conversation_state.trimming._view import Step, TrimContext

_NO_RESULT = (
    "There is no result: this call was not answered before the conversation went on."
)


class Position(NamedTuple):
    seq: int  # the position
    edit: Edit  # what it shows
    own: Message  # its own message
    flaw: Flaw | None = None  # why something of it is left out; None if nothing is

    @property
    def is_changed(self) -> bool:
        messages, reason, _ = self.edit
        return bool(reason) or messages != (self.own,)


_NO_POSITIONS: Log[Position] = Log()


class CallExchange(NamedTuple):
    """
    An assistant's message whose calls may still be answered, and what follows.
    """

    open_calls: OpenCalls
    # The new ids of calls that had the id of another, by that id; at least those that
    # have no result yet.
    renamed: Mapping[str, tuple[str, ...]]
    # The message and the results until now. They are held until the exchange is closed,
    # because only then it is known what the message shows: positions are given in
    # order.
    held: Log[Position]

    def with_message(
        self, seq: int, message: Message
    ) -> tuple[CallExchange, list[Position]]:
        """
        The exchange after *message*, and the positions that are final.
        """
        if isinstance(message, ToolMessage):
            return self._with_result(seq, message)

        final = self.closed()
        shown, renamed = message, _NOT_RENAMED
        if isinstance(message, AssistantMessage) and message.tool_calls:
            shown, renamed = _rename_calls(message)

        # `closed` has answered all earlier calls, so none is open here.
        open_calls, _ = check_pairing(NO_OPEN_CALLS, seq, shown)
        position = Position(seq, Edit((shown,)), message)
        if open_calls is NO_OPEN_CALLS:
            final.append(position)
            return NO_EXCHANGE, final

        return CallExchange(open_calls, renamed, Log((position,))), final

    def _with_result(
        self, seq: int, own: ToolMessage
    ) -> tuple[CallExchange, list[Position]]:
        message = own
        call_id, pending = message.tool_call_id, self.open_calls.pending
        renamed = self.renamed
        if call_id not in pending:
            # Results of calls with one id are in the order of the calls.
            others = renamed.get(call_id, ())
            for at, other in enumerate(others):
                if other in pending:
                    mark = {"renamed": call_id}
                    message = add_mark(message, mark, tool_call_id=other)
                    renamed = {**renamed, call_id: others[at + 1 :]}
                    break

        open_calls, flaws = check_pairing(self.open_calls, seq, message)
        reason = flaws[0].reason if flaws else ""
        position = Position(seq, Edit((message,), reason), own, *flaws[:1])
        if not self.held:
            # No call is open, so nothing later changes what is shown here.
            return self, [position]

        return CallExchange(open_calls, renamed, self.held.append(position)), []

    def closed(self) -> list[Position]:
        """
        The message with its results, an error in the place of each missing
        one; and calls that can't have one, which are left out.
        """
        if not self.open_calls.pending:
            return list(self.held)

        caller, *results = self.held
        return [_answer_pending(caller, self.open_calls.pending), *results]


_NOT_RENAMED: Mapping[str, tuple[str, ...]] = {}
NO_EXCHANGE = CallExchange(NO_OPEN_CALLS, _NOT_RENAMED, _NO_POSITIONS)


def _rename_calls(
    message: AssistantMessage,
) -> tuple[AssistantMessage, Mapping[str, tuple[str, ...]]]:
    """
    *message*, where each call has an id of its own; and the new ids.

    Source:
        Anthropic refuses them ("`tool_use` ids must be unique"); compatible
        endpoints, Kimi's for one, give parallel calls one id.
    """
    ids = {call.id for call in message.tool_calls}
    if len(ids) == len(message.tool_calls):
        return message, _NOT_RENAMED

    seen: set[str] = set()
    renamed: defaultdict[str, list[str]] = defaultdict(list)
    # What each id is tried with next; smaller numbers are taken.
    numbers: dict[str, int] = {}
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        if call.id in seen:
            stem = call.id or "call"
            number = numbers.get(stem, 2)
            while (new := f"{stem}-{number}") in ids:
                number += 1

            numbers[stem] = number + 1
            ids.add(new)
            renamed[call.id].append(new)
            calls.append(attrs.evolve(call, id=new))
        else:
            seen.add(call.id)
            calls.append(call)

    new_ids = {call_id: tuple(new) for call_id, new in renamed.items()}
    mark = {"renamed": [new for each in new_ids.values() for new in each]}
    return add_mark(message, mark, tool_calls=calls), new_ids


def _answer_pending(caller: Position, pending: frozenset[str]) -> Position:
    message: Any = caller.edit.messages[0]
    flaw = None
    open_calls = {call.id: call for call in message.tool_calls if call.id in pending}
    # A result must say which call it answers, and can't to a call without id.
    if open_calls.pop("", None) is not None:
        seq = caller.seq
        what = f"messages[{seq}] makes a call without id, which nothing can answer"
        reason = no_result_reason(seq, ("",))
        flaw = Flaw(DANGLING, (seq,), what, CALLS_KEEP, reason)
        calls = [call for call in message.tool_calls if call.id]
        if not (calls or message.parts):
            return caller._replace(edit=Edit((message,), reason), flaw=flaw)

        message = message.replace(tool_calls=calls)

    answers = [
        ToolMessage(
            _NO_RESULT,
            tool_call_id=call.id,
            tool_name=call.name,
            is_error=True,
            metadata={MARK: {"synthetic": True}},
        )
        for call in open_calls.values()
    ]
    return caller._replace(edit=Edit((message, *answers)), flaw=flaw)


class Repaired(NamedTuple):
    size: int  # how many messages the run has
    exchange: CallExchange  # the calls that may still be answered
    survey: Survey = START  # the survey of what is shown before the exchange
    repairs: Log[Repair] = NO_REPAIRS  # the positions before it that are changed
    # Why something is left out, in order; and how many messages are, each time.
    left_out: Log[tuple[Flaw, int]] = Log()

    def with_positions(
        self, final: Iterable[Position], counter: TokenCounter
    ) -> Repaired:
        _, _, survey, repairs, left_out = self
        for position in final:
            seq, edit, _, flaw = position
            for message in edit.shown:
                survey = survey.with_message(seq, message, count(message, counter))

            if position.is_changed:
                surplus = survey.size - seq - 1
                repairs = repairs.append(Repair(seq, edit, surplus))

            if flaw is not None:
                left_out = left_out.append((flaw, int(bool(edit.reason))))

        return self._replace(survey=survey, repairs=repairs, left_out=left_out)


def repair_log(entries: Log[Entry], counter: TokenCounter) -> Repaired:
    """
    *entries* as `repair` shows them. O(entries since the last time).
    """

    def add_entry(run: Repaired, entry: Entry) -> Repaired:
        size = run.size
        exchange, final = run.exchange.with_message(size, entry.message)
        run = run.with_positions(final, counter) if final else run
        return run._replace(size=size + 1, exchange=exchange)

    start = Repaired(0, NO_EXCHANGE)
    # The key does not name *at_end*, which makes no difference before the last entry.
    return entries.fold(add_entry, start, key=("repaired", counter))


@final
@attrs.frozen
class _Repair:
    at_end: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        survey = selection.whole
        if survey is not None:
            is_open = self.at_end and survey.open_calls.pending
            if survey.flaw is None and not is_open:
                return context

            # Where results were rewritten before, the log can't be repaired as a
            # whole: `_rewrite_log` takes a repair as the first of the steps only.
            if not selection.steps:
                return self._repair_whole(context)

        return self._repair_narrowed(context)

    def end(self, exchange: CallExchange) -> list[Position]:
        return exchange.closed() if self.at_end else list(exchange.held)

    def _repair_whole(self, context: TrimContext) -> TrimContext:
        entries, counter = context._selection.entries, context.counter
        run = repair_log(entries, counter)
        run = run.with_positions(self.end(run.exchange), counter)
        repaired = Selection(
            entries,
            counter,
            run.survey.tokens,
            run.survey.size,
            repairs=run.repairs,
            steps=(self,),
            whole=run.survey,
        )
        return self._show_selection(context, repaired, run.left_out)

    def _repair_narrowed(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        exchange, positions = NO_EXCHANGE, []
        for seq, message in selection.pairs():
            exchange, final = exchange.with_message(seq, message)
            positions += final

        positions += self.end(exchange)
        # A position may show several messages: an answer behind its call.
        shown: dict[int, list[Position]] = {}
        for position in positions:
            shown.setdefault(position.seq, []).append(position)

        changes: dict[int, Edit] = {}
        for seq, there in shown.items():
            if any(position.is_changed for position in there):
                messages = tuple([one for each in there for one in each.edit.shown])
                before = tuple([each.own for each in there])
                # A removed position keeps what it showed: see `Edit.messages`.
                changes[seq] = Edit(
                    messages or before,
                    "" if messages else there[0].edit.reason,
                    selection.summarised(seq),
                )

        left_out = [
            (position.flaw, int(bool(changes[position.seq].reason)))
            for position in positions
            if position.flaw is not None
        ]
        return self._show_selection(context, selection.change(changes), left_out)

    def _show_selection(
        self,
        context: TrimContext,
        repaired: Selection,
        left_out: Iterable[tuple[Flaw, int]],
    ) -> TrimContext:
        failures = [dropped_failure(self, flaw, count) for flaw, count in left_out]
        return context._with_selection(repaired)._with_failures(*failures)


def repair(*, at_end: bool = False) -> Step:
    """
    A step that leaves no result without its call, and no call unanswered.

    Results that do not directly follow the message with their call, or answer
    it again, are dropped, with the reason in `TrimContext.dropped` and in
    `TrimContext.failures`. Calls that something else than a result follows are
    answered by an error that says so, with a mark in its metadata
    (``{"conversation_state": {"synthetic": True}}``), directly behind the
    message that makes them and at its position; where a call has no id to
    answer, the view shows the message without it, and `failures` says so. Of
    calls of one message that share an id, all but the first get an id of their
    own, and so do their results, which are taken in the order of the calls. The
    state keeps all as it was.

    What it shows has no `TrimContext.problems`; doing it again changes nothing.
    Of a whole state it costs O(log n) once the messages are counted, and where
    something is repaired, what is new and what is left out; of a view that
    other steps changed before, O(messages kept).

    Args:
        at_end: Answer calls at the end, too, where the agent was stopped
            and will not run them.
    """
    return _Repair(bool(at_end))
