"""
How much of a view a provider has cached from the turn before, with slack and
without.

The recorded conversations are played request by request: whenever the agent
is asked, the view is fitted, and compared with the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchmarks.measure import Row
from benchmarks.recordings import airline
from conversation_state import Aggregator, Message, TokenBudget, TrimContext, fit, trim
from conversation_state.errors import BudgetExceededError

# The policy that every conversation begins with is most of the smaller one.
LIMITS = (2_500, 3_500)
SLACKS = (0, 250, 500, 1_000)


def played(messages: tuple[Message, ...], limit: int, slack: int) -> list[TrimContext]:
    """The views of all requests, one before each message of the assistant."""
    budget = TokenBudget(context_window=limit)
    state, views = Aggregator.new(), []
    for message in messages:
        if message.role == "assistant":
            try:
                view = trim(state, budget, fit(slack=slack))
            except BudgetExceededError:
                pass  # one result alone is larger
            else:
                assert view.total_tokens <= limit
                views.append(view)

        state = state.add(message)

    return views


def rows() -> Iterator[Row]:
    """
    How much of the tokens sent the view before began with, of the views where
    something was left out; *n* is tokens, and views.
    """
    conversations = airline()
    for limit in LIMITS if conversations else ():
        without = 0.0
        for slack in SLACKS:
            sent = shared = moves = pairs = 0
            for messages in conversations:
                for before, view in pairwise(played(messages, limit, slack)):
                    if not len(view.dropped):
                        continue

                    pairs += 1
                    sent += view.total_tokens
                    both = view.shared_prefix(before)
                    shared += both.tokens
                    moves += both.messages < len(before)

            share = 100 * shared / sent
            without = without or share
            claim = f"prefix shared, limit {limit:,}, slack {slack:,}"
            yield Row(claim, sent, share, "without slack", without, "%")
            claim = f"start moved, limit {limit:,}, slack {slack:,}"
            yield Row(claim, pairs, moves, unit="views")
