"""
Counting: how many tokens a message fills, how many there is room for, and what
they cost.

Counts here are *estimates*, made before a model is asked; what a provider
counted afterwards is `usage`. What lives here: counters, the budget that is
left of a model's window, and prices. What does not: choosing what fits
(`trimming`).
"""

from conversation_state.counting._budget import TokenBudget
from conversation_state.counting._calibrated import Calibrated, calibrated
from conversation_state.counting._cost import Cost, HasLedger, Spent, Unpriced, cost
from conversation_state.counting._mistral import by_mistral
from conversation_state.counting._prices import price
from conversation_state.counting._tiktoken import by_tiktoken
from conversation_state.counting._tools import count_tools
from conversation_state.counting._weighing import TokenCounter, by_characters, count

__all__ = [
    "Calibrated",
    "Cost",
    "HasLedger",
    "Spent",
    "TokenBudget",
    "TokenCounter",
    "Unpriced",
    "by_characters",
    "by_mistral",
    "by_tiktoken",
    "calibrated",
    "cost",
    "count",
    "count_tools",
    "price",
]
