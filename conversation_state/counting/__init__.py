"""
Counting: how many tokens messages have, how many fit, and what they cost.

Counts here are *estimates*, made before a request; what a provider counted is in
`usage`. What lives here: counters, the budget that is left of a model's window,
and prices. What does not: selecting messages that fit (`trimming`).
"""

from conversation_state.counting._budget import TokenBudget
from conversation_state.counting._cost import (
    Cost,
    CostLine,
    HasLedger,
    UsageEntry,
    cost,
)
from conversation_state.counting._estimate import (
    Calibrated,
    TokenCounter,
    by_characters,
    by_encoding,
    calibrated,
    count,
    count_tools,
)
from conversation_state.counting._prices import price

__all__ = [
    "Calibrated",
    "Cost",
    "CostLine",
    "HasLedger",
    "TokenBudget",
    "TokenCounter",
    "UsageEntry",
    "by_characters",
    "by_encoding",
    "calibrated",
    "cost",
    "count",
    "count_tools",
    "price",
]
