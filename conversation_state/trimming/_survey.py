"""
The survey: where a valid run of messages may start, found while their tokens
are counted.
"""

from __future__ import annotations

from typing import NamedTuple

from conversation_state._persistent import Log
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    Flaw,
    OpenCalls,
    check_pairing,
)

__all__ = ["START", "CutPoint", "Survey", "survey_log"]


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
        if not may_start or open_calls.pending or role == "assistant":
            open_calls, flaws = check_pairing(open_calls, seq, message)
            if flaws:
                # No run that starts before this message can be valid; one that
                # starts with it can, unless it is itself what is wrong.
                flaw, cuts, users = flaws[-1], _NO_CUTS, _NO_CUTS
                may_start = may_start and flaw.seqs[0] != seq
        else:
            open_calls = NO_OPEN_CALLS

        if may_start:
            cut = _make(CutPoint, (before, seq))
            cuts = cuts.append(cut)
            if role == "user":
                users = users.append(cut)
            elif role == "system" and lead_size == size:
                lead_size, lead, lead_tokens = size + 1, seq + 1, before + tokens

        if not (size + 1) % 32:
            # A log remembers these surveys as long as it lives.
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
