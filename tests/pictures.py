"""
The pictures in the documentation that the library draws.

    python -m tests.pictures

writes them anew; `tests/test_pages.py` holds them to what is drawn now.
"""

import json
from pathlib import Path

from conversation_state import Aggregator, SystemMessage, TokenBudget, fit, trim
from conversation_state.adapters import openai_chat
from conversation_state.pages import draw_views
from conversation_state.trimming import clear_tool_results, compact

ROOT = Path(__file__).resolve().parent.parent
VIEWS = ROOT / "docs" / "view.svg"


def load_longest():
    """
    The conversation of the example file with the most messages, as a state.
    """
    lines = (ROOT / "examples" / "travel_desk.jsonl").read_text("utf-8").splitlines()
    talks = [json.loads(line)["messages"] for line in lines]
    return Aggregator.new(messages=openai_chat.load(max(talks, key=len)))


def sum_up(messages):
    """
    What a model would write; its length is what matters here.
    """
    return SystemMessage(f"Summary of {len(messages)} messages. " + "So it went. " * 12)


def sum_up_older_half(view):
    """
    A step that sums up the older messages, between two turns.
    """
    turns = [e.seq for e in view.elements if e.role == "user"]
    middle = next(seq for seq in turns if seq >= len(view.original) // 2)
    first = next(e.seq for e in view.elements if e.role != "system")
    return compact(range(first, middle), sum_up)(view)


def draw_all_views():
    """
    What views of one conversation keep.
    """
    state = load_longest()
    whole = trim(state, None)
    fixed = sum(e.tokens for e in whole.elements if e.role == "system")
    budget = TokenBudget(context_window=fixed + (whole.total_tokens - fixed) // 2)
    return draw_views(
        {
            "the whole conversation": whole,
            "fit()": trim(state, budget),
            "clear_tool_results(keep=1), fit()": trim(
                state, budget, clear_tool_results(keep=1), fit()
            ),
            "compact(the older turns), fit()": trim(
                state, budget, sum_up_older_half, fit()
            ),
        }
    )


if __name__ == "__main__":
    VIEWS.write_text(draw_all_views(), encoding="utf-8")
