"""
Trimming: the part of a conversation that the model gets.

A `TrimContext` is a view over the messages of a state: it lists which of them
are kept and why the others are not, and never changes the state. What is here:
the view, the steps that narrow it, and when a provider would refuse it. What
is not: how many tokens a message fills (`counting`).

Why `fit` is fast: while tokens are counted, a `Survey` collects where a valid
run to the end may start, and how many tokens come before. Surveys are folds,
so the log remembers them with every block (`Log.fold`), and fitting the next
state reads what is new and bisects the rest. The first survey of a state begins near
its end, where what fits begins.
"""

from conversation_state.trimming._elements import (
    COMPACTED,
    INVALID,
    OVER_BUDGET,
    OVER_COUNT,
    REMOVED,
    Dropped,
    Element,
    StepFailure,
)
from conversation_state.trimming._fit import fit, keep_first_and_last, keep_last
from conversation_state.trimming._repair import repair
from conversation_state.trimming._sequences import SharedPrefix
from conversation_state.trimming._summaries import (
    acompact,
    arolling_summary,
    compact,
    rolling_summary,
)
from conversation_state.trimming._tool_results import (
    clear_tool_results,
    shorten_tool_results,
)
from conversation_state.trimming._trimmer import Trimmer, atrim, record_summaries, trim
from conversation_state.trimming._validity import Flaw
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

__all__ = [
    "COMPACTED",
    "INVALID",
    "OVER_BUDGET",
    "OVER_COUNT",
    "REMOVED",
    "AsyncStep",
    "Dropped",
    "Element",
    "Flaw",
    "SharedPrefix",
    "Step",
    "StepFailure",
    "TrimContext",
    "Trimmer",
    "acompact",
    "arolling_summary",
    "atrim",
    "clear_tool_results",
    "compact",
    "fit",
    "keep_first_and_last",
    "keep_last",
    "record_summaries",
    "repair",
    "rolling_summary",
    "shorten_tool_results",
    "trim",
]
