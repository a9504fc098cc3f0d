"""
Repairing conversations that crashes, an interrupted call, a second tab or a careless
provider left invalid: results that came late or have no call, calls without a result,
ids that repeat, and what is empty.

What is right is found out by a survey, which the log remembers, so that nearly every
turn costs nothing. Where something is wrong, `requests.prepare` makes the messages that
are shown right, and what it changed becomes edits of their positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

import attrs

from conversation_state._persistent import final
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
)
from conversation_state.requests import (
    Rules,
    has_stopped_calls,
    is_made,
    is_silent,
    make_prompt,
    make_result,
    prepare,
)
from conversation_state.trimming._elements import INVALID, MOVED, Edit
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    Flaw,
    OpenCalls,
    check_pairing,
    dropped_failure,
)
from conversation_state.trimming._view import Step, TrimContext


class _Row(NamedTuple):
    """
    A message of the repaired view, and the number of the shown message it came from.
    """

    number: int
    message: Message


@final
@attrs.frozen
class Repair:
    """The step that `repair` makes."""

    at_end: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        selection = context._selection
        survey = selection.whole
        if survey is not None and survey.is_right:
            is_open = survey.open_calls.pending and (
                self.at_end or has_stopped_calls(context.messages)
            )
            if not is_open and _begins_right(context):
                return context

        return self.repair_shown(context)

    def repair_shown(
        self, context: TrimContext, reasons: Iterable[tuple[int, str]] = ()
    ) -> TrimContext:
        """
        *context* with what it shows made right. O(messages kept).

        Args:
            context: The view.
            reasons: Why results at some positions go, of which that is known: a result
                that came so late that its call is shown no more.
        """
        selection = context._selection
        pairs = list(selection.pairs())
        messages = [message for _, message in pairs]
        # A position stays where it is: a dump moves system messages to the top.
        rules = attrs.evolve(selection.rules, late_system="anywhere")
        prepared = prepare(messages, rules, seeds=_find_seeds(selection, pairs))
        rows = [
            _Row(int(path.removeprefix("messages[")[:-1]), message)
            for message, path in prepared.pairs()
        ]
        if self.at_end:
            rows += _answer_last(rows)

        rows = list(_place_prompts(_with_made_first(rows), messages))
        if selection.rules.starts_with_user:
            rows = _with_first_prompt(rows, selection.rules)

        if len(rows) == len(messages) and all(
            row.message is message for row, message in zip(rows, messages, strict=True)
        ):
            return context

        changes, flaws = _find_changes(selection, pairs, rows, dict(reasons))
        failures = [dropped_failure(self, flaw, 1) for flaw in flaws]
        repaired = context._with_selection(selection.change(changes))
        return repaired._with_failures(*failures)


def _begins_right(context: TrimContext) -> bool:
    """Whether no assistant speaks first, where that is refused. O(system messages)."""
    rules = context.rules
    spoken = (each for each in context.messages if not is_silent(each, rules))
    return not rules.starts_with_user or not isinstance(
        next(spoken, None), AssistantMessage
    )


def _find_seeds(
    selection: Selection, pairs: Sequence[tuple[int, Message]]
) -> list[str] | None:
    """
    What the changed id of a call of each shown message ends in: a digest of its entry's
    identity, so that successive views have the same one. None for a bare list.
    """
    entries = selection.entries
    if not pairs or not entries[pairs[0][0]].id:
        return None

    return [
        blake2b(entries[seq].id.encode(), digest_size=5).hexdigest()
        if message.tool_calls
        else ""
        for seq, message in pairs
    ]


def _with_made_first(rows: Iterable[_Row]) -> Iterator[_Row]:
    """
    *rows*; of the results of one message, those that were made up first: they stand at
    the position of their call.
    """
    results: list[_Row] = []
    for row in rows:
        if isinstance(row.message, ToolMessage):
            results.append(row)
            continue

        yield from sorted(results, key=_is_received)
        results.clear()
        yield row

    yield from sorted(results, key=_is_received)


def _place_prompts(rows: Iterable[_Row], messages: Sequence[Message]) -> Iterator[_Row]:
    """
    *rows*, where a made message of a user that stands for one that was left out is at
    the position of the message before it, if there is one. One that is shown already
    stays where it is.
    """
    every = list(rows)
    own = {
        row.number
        for row in every
        if not is_made(row.message) or messages[row.number] is row.message
    }
    before: int | None = None
    for row in every:
        if row.number in own or isinstance(row.message, ToolMessage):
            before = row.number
            yield row
        else:
            yield row if before is None else _Row(before, row.message)


def _is_received(row: _Row) -> bool:
    return not is_made(row.message)


def _with_first_prompt(rows: list[_Row], rules: Rules) -> list[_Row]:
    """*rows* with a made message of a user before an assistant that speaks first."""
    for at, (number, message) in enumerate(rows):
        if isinstance(message, AssistantMessage):
            return [*rows[:at], _Row(number, make_prompt()), *rows[at:]]

        if not is_silent(message, rules):
            break

    return rows


def _answer_last(rows: list[_Row]) -> list[_Row]:
    """Errors for the calls at the end of *rows* that have no result."""
    answered: set[str] = set()
    for number, message in reversed(rows):
        if not isinstance(message, ToolMessage):
            return [
                _Row(number, make_result(call))
                for call in message.tool_calls
                if call.id not in answered
            ]

        answered.add(message.tool_call_id)

    return []


def _find_changes(
    selection: Selection,
    pairs: Sequence[tuple[int, Message]],
    rows: Sequence[_Row],
    reasons: dict[int, str],
) -> tuple[dict[int, Edit], list[Flaw]]:
    """What each shown position shows instead, and why some show nothing any more."""
    shown: dict[int, list[_Row]] = {}
    # A result that was moved by an earlier step has a position of its own.
    own = [seq for seq, _ in selection.located()]
    anchors = _find_anchors(pairs, rows)
    for row, anchor in zip(rows, anchors, strict=True):
        placed = _Row(anchor, row.message) if _is_new_answer(pairs, row) else row
        shown.setdefault(pairs[anchor][0], []).append(placed)

    moved = {
        pairs[row.number][0]
        for row, anchor in zip(rows, anchors, strict=True)
        if row.number != anchor and not is_made(row.message)
    }
    before: dict[int, list[Message]] = {}
    for seq, message in pairs:
        before.setdefault(seq, []).append(message)

    changes: dict[int, Edit] = {}
    flaws: list[Flaw] = []
    for seq, old in before.items():
        stands_for = selection.summarised(seq)
        if there := shown.get(seq):
            left_out = ""
            only_made = all(is_made(row.message) for row in there)
            if only_made and not any(map(is_made, old)):
                flaws.append(_find_reason(pairs, seq, old[0]))
                left_out = flaws[-1].reason

            seqs = tuple([own[row.number] for row in there])
            changes[seq] = Edit(
                tuple([row.message for row in there]),
                "",
                stands_for,
                seqs if set(seqs) != {seq} else (),
                left_out,
            )
        elif seq in moved:
            changes[seq] = Edit(tuple(old), MOVED, stands_for)
        elif seq in reasons:
            changes[seq] = Edit(tuple(old), reasons[seq], stands_for)
        else:
            flaw = _find_reason(pairs, seq, old[0])
            flaws.append(flaw)
            changes[seq] = Edit(tuple(old), flaw.reason, stands_for)

    kept = {row.number for row in rows if not is_made(row.message)}
    for number, (seq, message) in enumerate(pairs):
        if own[number] != seq and number not in kept:
            # It was moved here before, and its call is gone since.
            flaws.append(_find_reason(pairs, seq, message))
            changes[own[number]] = Edit((message,), flaws[-1].reason)

    return changes, flaws


def _find_anchors(
    pairs: Sequence[tuple[int, Message]], rows: Sequence[_Row]
) -> list[int]:
    """
    For each of *rows*, the number of the shown message at whose position it stands: its
    own, or that of its call where a result was moved or made up. A made answer stands
    with what is before it, so that a view may begin with the user's message behind it.
    """
    anchors: list[int] = []
    following = len(pairs)
    limits: list[int] = []
    for number, message in reversed(rows):
        limits.append(following)
        if not isinstance(message, ToolMessage):
            following = number

    limits.reverse()
    at = -1
    for row, limit in zip(rows, limits, strict=True):
        number, message = row
        if isinstance(message, ToolMessage):
            at = number if at < number < limit and not is_made(message) else at
        elif not _is_new_answer(pairs, row):
            at = number

        anchors.append(at)

    return anchors


def _is_new_answer(pairs: Sequence[tuple[int, Message]], row: _Row) -> bool:
    """Whether *row* is an answer that was made up now."""
    if not isinstance(row.message, AssistantMessage) or not is_made(row.message):
        return False

    return pairs[row.number][1] is not row.message


def _find_reason(
    pairs: Sequence[tuple[int, Message]], seq: int, message: Message
) -> Flaw:
    """Why *message*, at position *seq*, was left out."""
    if not isinstance(message, ToolMessage):
        kind = "empty message"
        what = "is empty"
        if message.parts and any(part.kind == "reasoning" for part in message.parts):
            kind, what = "thinking alone", "is thinking that nothing follows"

        reason = f"{INVALID}: message {what} (messages[{seq}])"
        return Flaw(kind, (seq,), f"messages[{seq}] {what}", reason)

    call_id = message.tool_call_id
    before = NO_OPEN_CALLS
    for place, caller in takewhile(lambda pair: pair[0] < seq, pairs):
        if any(call.id == call_id for call in caller.tool_calls):
            before = OpenCalls(place, frozenset([call_id]), frozenset())
            break

    _, (flaw,) = check_pairing(before, seq, message)
    return flaw


def repair(*, at_end: bool = False) -> Step:
    """
    A step after which a provider takes the view.

    A result that came late, behind what was written meanwhile, moves up to directly
    behind its call. A call without any result, which something else follows, is
    answered by an error that says so, with a mark in its metadata
    (``{"conversation_state": {"synthetic": True}}``), at the call's position. Results
    without a call are left out, and so are all but one of a call, messages that are
    empty and thinking that leads to nothing, with the reason in `TrimContext.dropped`
    and in `TrimContext.failures`. Calls whose id another call in the view has, or whose
    id or name the rules of the view refuse, get another one, which depends on their
    entry alone, and so do their results. Where no user speaks first, a made message of
    a user does. The state keeps all as it was.

    What it shows has no `TrimContext.problems`; doing it again changes nothing.
    Where nothing is wrong with a whole state it costs O(log n) once the messages are
    counted, else O(messages kept).

    Args:
        at_end: Answer calls at the end, too, where the agent was stopped
            and will not run them.
    """
    return Repair(bool(at_end))
