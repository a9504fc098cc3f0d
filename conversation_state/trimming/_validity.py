"""
Why a provider would refuse a run of messages; and the survey: where a valid run may
start, found while tokens are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from conversation_state._persistent import Log, final
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.trimming._elements import INVALID

__all__ = [
    "CALLS_KEEP",
    "DANGLING",
    "NO_OPEN_CALLS",
    "ORPHANED",
    "REPEATED",
    "REPEATED_ID",
    "RESULTS_FOLLOW",
    "START",
    "CutPoint",
    "Flaw",
    "OpenCalls",
    "Survey",
    "check_pairing",
    "is_awaited_result",
    "no_result_reason",
    "survey_log",
]

ORPHANED, REPEATED = "orphaned result", "repeated result"
DANGLING, REPEATED_ID = "dangling call", "repeated call id"
RESULTS_FOLLOW = "results follow their calls"
CALLS_KEEP = "answered calls keep their results"


@final
class Flaw(NamedTuple):
    """
    Why a provider would refuse a view.

    Attributes:
        kind: ``orphaned result``, ``repeated result``, ``dangling call`` or
            ``repeated call id``; or, for properties that only some providers
            want, ``late system message``, ``parted reasoning``, ``start``.

        seqs: The positions of the messages concerned.

        what: What is wrong and what to do.

        property: The name of the `Property` that is missing.

        reason: The same in few words, as `Dropped.reason` says it where
            messages are dropped because of it; "" for properties that only
            some providers want.
    """

    kind: str
    seqs: tuple[int, ...]
    what: str
    property: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return self.what


class OpenCalls(NamedTuple):
    """
    The assistant's message whose calls the next messages answer.

    Attributes:
        seq: Its position.

        called: The ids of its calls.

        pending: Those that have no result yet.
    """

    seq: int
    called: frozenset[str]
    pending: frozenset[str]


NO_OPEN_CALLS = OpenCalls(-1, frozenset(), frozenset())

_MAX_CALLS = 3  # named in a reason
_MAX_ID = 60  # characters of an id


def _format_reason(what: str, seq: int) -> str:
    return f"{INVALID}: {what} (entry {seq})"


def _shorten_id(call_id: str) -> str:
    if not call_id:
        return "without id"

    return call_id if len(call_id) <= _MAX_ID else f"{call_id[: _MAX_ID - 1]}…"


def no_result_reason(seq: int, ids: Iterable[str]) -> str:
    """
    Why the calls *ids* of the message at *seq* are invalid.
    """
    named = sorted(map(_shorten_id, ids))
    if len(named) == 1:
        return _format_reason(f"call {named[0]} has no result", seq)

    return _format_reason(f"calls {_list_ids(named)} have no results", seq)


def _list_ids(ids: Iterable[str]) -> str:
    """
    The first few of *ids*, and how many more there are.
    """
    named = sorted(ids)
    more = [f"{len(named) - _MAX_CALLS} more"] * (len(named) > _MAX_CALLS)
    return ", ".join([*named[:_MAX_CALLS], *more])


def check_pairing(
    open_calls: OpenCalls, seq: int, message: Message
) -> tuple[OpenCalls, tuple[Flaw, ...]]:
    """
    The calls that are open after *message*, and what is wrong with it.

    Results belong directly behind the message that made the calls.

    Source:
        OpenAI and Anthropic refuse anything between the two.
    """
    if isinstance(message, ToolMessage):
        return _check_result(open_calls, seq, message.tool_call_id)

    flaws: tuple[Flaw, ...] = ()
    if open_calls.pending:
        ids = _list_ids(map(shorten_repr, open_calls.pending))
        what = (
            f"messages[{open_calls.seq}] calls {ids}, and messages[{seq}] follows "
            "before the result; put the result between them, or drop the call"
        )
        reason = no_result_reason(open_calls.seq, open_calls.pending)
        flaws = (Flaw(DANGLING, (open_calls.seq, seq), what, CALLS_KEEP, reason),)

    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return NO_OPEN_CALLS, flaws

    called = frozenset([call.id for call in message.tool_calls])
    if len(called) < len(message.tool_calls):
        what = (
            f"messages[{seq}] makes two calls with one id, so their results can't be "
            "distinguished; give every call its own id"
        )
        reason = _format_reason("two calls have one id", seq)
        flaws = (*flaws, Flaw(REPEATED_ID, (seq,), what, CALLS_KEEP, reason))

    return OpenCalls(seq, called, called), flaws


def is_awaited_result(open_calls: OpenCalls, message: Message) -> bool:
    """
    Whether *message* is the result that a call of *open_calls* waits for.
    """
    return (
        isinstance(message, ToolMessage) and message.tool_call_id in open_calls.pending
    )


def _check_result(
    open_calls: OpenCalls, seq: int, call_id: str
) -> tuple[OpenCalls, tuple[Flaw, ...]]:
    if call_id in open_calls.pending:
        return open_calls._replace(pending=open_calls.pending - {call_id}), ()

    if call_id in open_calls.called:
        caller = open_calls.seq
        what = (
            f"messages[{seq}] answers call {shorten_repr(call_id)} of "
            f"messages[{caller}] again; drop one of the results"
        )
        reason = f"call {_shorten_id(call_id)} has a result already"
        reason = _format_reason(reason, seq)
        flaw = Flaw(REPEATED, (caller, seq), what, RESULTS_FOLLOW, reason)
        return open_calls, (flaw,)

    what = (
        f"messages[{seq}] answers call {shorten_repr(call_id)}, which the assistant's "
        "message before it did not make; drop it, or keep the call directly before it"
    )
    reason = _format_reason(f"result has no call {_shorten_id(call_id)} before it", seq)
    return open_calls, (Flaw(ORPHANED, (seq,), what, RESULTS_FOLLOW, reason),)


class CutPoint(NamedTuple):
    """
    A place where a valid run to the end may start.
    """

    tokens: int  # of all messages before it; the first sort key
    seq: int


_NO_CUTS: Log[CutPoint] = Log()
_make = tuple.__new__


class Survey(NamedTuple):
    """
    What a run of messages, read from its beginning, allows.

    Attributes:
        size: How many messages the run has.

        tokens: How many tokens they fill.

        lead_size, lead, lead_tokens: The leading system messages: how many,
            the position behind them, their tokens.

        open_calls: The calls that may still be answered.

        flaw: Why a provider would refuse the run, at its last invalid place.

        cuts: Where a valid run to the end may start.

        user_cuts: Those of them at a user's message.
    """

    size: int = 0
    tokens: int = 0
    lead_size: int = 0
    lead: int = 0
    lead_tokens: int = 0
    open_calls: OpenCalls = NO_OPEN_CALLS
    flaw: Flaw | None = None
    cuts: Log[CutPoint] = _NO_CUTS
    user_cuts: Log[CutPoint] = _NO_CUTS

    def with_message(self, seq: int, message: Message, tokens: int) -> Survey:
        size, before, lead_size, lead, lead_tokens, open_calls, flaw, cuts, users = self
        role = message.role
        may_start = role != "tool"
        # Any other message neither calls nor answers, as most do not.
        if not may_start or open_calls.pending or role == "assistant":
            open_calls, flaws = check_pairing(open_calls, seq, message)
            if flaws:
                # No run that starts before this message can be valid; one that
                # starts with it can, unless it is itself what is wrong: that is the
                # last of the two flaws that a message can have.
                flaw, cuts, users = flaws[-1], _NO_CUTS, _NO_CUTS
                may_start = may_start and flaw.seqs[0] != seq
        else:
            open_calls = NO_OPEN_CALLS

        if may_start:
            cut = _make(CutPoint, (before, seq))
            cuts = cuts.append(cut)
            if role == "user":
                users = users.append(cut)
            # Only system messages before all others are the lead; later ones are
            # handled like other messages.
            elif role == "system" and lead_size == size:
                lead_size, lead, lead_tokens = size + 1, seq + 1, before + tokens

        if not (size + 1) % 32:
            # The entries' log remembers these surveys as long as it lives, and a new
            # Log does not keep the versions before it alive.
            cuts, users = Log(cuts), Log(users)

        # `_replace` and the generated constructor cost three times as much,
        # for every message that is trimmed for the first time.
        lead_fields = lead_size, lead, lead_tokens
        fields = size + 1, before + tokens, *lead_fields, open_calls, flaw, cuts, users
        return _make(Survey, fields)


START = Survey()


def survey_log(entries: Log[Entry], counter: TokenCounter) -> Survey:
    """
    The survey of all *entries*. O(entries since the last time).
    """

    def add_entry(survey: Survey, entry: Entry) -> Survey:
        message = entry[1]
        return survey.with_message(survey[0], message, count(message, counter))

    return entries.fold(add_entry, START, key=counter)
