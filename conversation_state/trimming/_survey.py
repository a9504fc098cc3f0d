"""
What a run of messages allows, found out while it is weighed.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from conversation_state._persistent import Log
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message
from conversation_state.trimming._flaws import NOBODY, Flaw, Group, pair

__all__ = ["START", "Cut", "Survey", "seq_of", "surveyed", "tokens_of"]


class Cut(NamedTuple):
    """
    A place where a valid run to the end may start.
    """

    tokens: int  # all that comes before, the first sort key
    seq: int


_NO_CUTS: Log[Cut] = Log()
tokens_of, seq_of = itemgetter(0), itemgetter(1)
_make = tuple.__new__


class Survey(NamedTuple):
    """
    What a run of messages, read from its beginning, allows.
    """

    size: int = 0
    tokens: int = 0
    # The leading system messages: how many, the position behind them, tokens.
    lead_size: int = 0
    lead: int = 0
    lead_tokens: int = 0
    group: Group = NOBODY
    flaw: Flaw | None = None  # the last one
    cuts: Log[Cut] = _NO_CUTS
    user_cuts: Log[Cut] = _NO_CUTS

    def with_message(self, seq: int, message: Message, tokens: int) -> Survey:
        size, before, lead_size, lead, lead_tokens, group, last, cuts, users = self
        role = message.role
        may_start = role != "tool"
        if not may_start or group.pending or role == "assistant":
            group, flaws = pair(group, seq, message)
            if flaws:
                # No run that starts before this message can be valid; one that
                # starts with it can, unless it is itself what is wrong.
                last, cuts, users = flaws[-1], _NO_CUTS, _NO_CUTS
                may_start = may_start and last.seqs[0] != seq
        else:
            group = NOBODY

        if may_start:
            cut = _make(Cut, (before, seq))
            cuts = cuts.append(cut)
            if role == "user":
                users = users.append(cut)

            elif role == "system" and lead_size == size:
                lead_size, lead, lead_tokens = size + 1, seq + 1, before + tokens

        after = before + tokens
        return _make(
            Survey,
            (size + 1, after, lead_size, lead, lead_tokens, group, last, cuts, users),
        )


START = Survey()


def surveyed(entries: Log[Entry], counter: TokenCounter) -> Survey:
    def step(survey: Survey, entry: Entry) -> Survey:
        message = entry[1]
        return survey.with_message(survey[0], message, count(message, counter))

    return entries.fold(step, START, key=counter)
