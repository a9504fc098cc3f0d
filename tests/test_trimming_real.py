"""The recorded conversations: at a sample of budgets, and request by request."""

import json
import random

import pytest

from conversation_state import Aggregator
from conversation_state.adapters import openai_chat
from conversation_state.counting import TokenBudget
from conversation_state.errors import BudgetExceededError
from conversation_state.testing.laws import views_add_up, views_fit
from conversation_state.trimming import (
    TrimContext,
    Trimmer,
    clear_tool_results,
    fit,
    keep_first_and_last,
    keep_last,
    repair,
    rolling_summary,
    shorten_tool_results,
    trim,
)
from tests.test_trimming import order_problems


@pytest.fixture(scope="module")
def chats(recordings):
    """All of them, as states."""
    path = recordings / "transcripts" / "airline.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        Aggregator.new(messages=openai_chat.load(json.loads(line)["messages"]))
        for line in lines
    ]


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (keep_last(10),),
        (keep_first_and_last(2, 7), repair()),
        (shorten_tool_results(60), clear_tool_results(keep=2)),
        (rolling_summary(2_000, 6, lambda history: f"{len(history)} messages"),),
    ],
    ids=["fit", "keep_last", "keep_first_and_last", "tool_results", "rolling_summary"],
)
def test_a_fit_holds_at_sampled_budgets(chats, steps):
    """
    Behind any steps: within the budget, valid, with the newest message, and
    with the system's; or an error that names a budget with a view.
    """
    draw = random.Random(11)
    fitted = 0
    for state in chats:
        whole = TrimContext.of(state).total_tokens
        for limit in draw.sample(range(1, whole + 1), 6):
            context = TrimContext.of(state, TokenBudget(context_window=limit))
            for step in steps:
                context = step(context)
                assert {"start"} >= {one.kind for one in order_problems(context)}

            needed = 0
            try:
                view = fit()(context)
            except BudgetExceededError as error:
                needed = error.needed_tokens
                budget = TokenBudget(context_window=needed)
                view = trim(state, budget, *steps, fit())
                context = trim(state, budget, *steps, lambda view: view)

            assert needed == 0 or limit < needed == view.total_tokens
            views_fit(context, view)
            views_add_up(view)
            assert "system" == view.messages[0].role
            assert state.messages == view.original.messages
            fitted += not needed

    assert fitted > len(chats)


def test_slack_makes_successive_views_share_more(chats):
    """
    Played message by message: with slack, much less is read anew, and a start
    that moved did so because it had to.
    """
    fresh = {}
    longest = max(TrimContext.of(state).total_tokens for state in chats)
    window, some = (3_000, 500) if longest > 6_000 else (120, 40)
    for slack in (0, some):
        trimmer = Trimmer(TokenBudget(context_window=window), fit(slack=slack))
        fresh[slack] = 0
        for state in chats[:30]:
            before = None
            for n in range(1, len(state) + 1):
                try:
                    view = trimmer(state.fork(at=n))
                except BudgetExceededError:
                    continue

                if before is not None and len(view.dropped):
                    both = view.shared_prefix(before)
                    fresh[slack] += view.total_tokens - both.tokens

                before = view

    assert fresh[0] > 1.2 * fresh[some] > 0
