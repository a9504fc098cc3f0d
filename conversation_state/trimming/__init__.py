"""
Trimming: what the model gets to see.

A `TrimContext` is a view over the messages of a state: it says which of them
are kept and why the others are not, and never touches what was said. What
lives here: the view, the steps that narrow it, and when a provider would
refuse it. What does not: how many tokens a message fills (`counting`).

How `fit` can be quick: while messages are weighed, a `_Survey` notes where a
valid run to the end may start, and how many tokens come before. Surveys are
folds, so the log remembers them with every block (`Log.fold`), and fitting
the next state looks at what is new and bisects the rest.
"""

from conversation_state.trimming._compact import acompact, compact
from conversation_state.trimming._fit import fit
from conversation_state.trimming._flaws import Flaw
from conversation_state.trimming._keep import keep_first_and_last, keep_last
from conversation_state.trimming._prefix import SharedPrefix
from conversation_state.trimming._properties import (
    CALLS_KEEP_RESULTS,
    PROPERTIES,
    REASONING_STAYS,
    RESULTS_FOLLOW_CALLS,
    STARTS_ON_USER,
    SYSTEM_IN_FRONT,
    Property,
)
from conversation_state.trimming._repair import repair
from conversation_state.trimming._rolling import arolling_summary, rolling_summary
from conversation_state.trimming._shown import (
    COMPACTED,
    NOT_VALID,
    OVER_BUDGET,
    OVER_COUNT,
    REMOVED,
    Dropped,
    Element,
    Failure,
)
from conversation_state.trimming._tool_results import (
    clear_tool_results,
    shorten_tool_results,
)
from conversation_state.trimming._trimmer import Trimmer, atrim, trim
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

__all__ = [
    "AsyncStep",
    "CALLS_KEEP_RESULTS",
    "COMPACTED",
    "Dropped",
    "Element",
    "Failure",
    "Flaw",
    "NOT_VALID",
    "OVER_BUDGET",
    "OVER_COUNT",
    "PROPERTIES",
    "Property",
    "REASONING_STAYS",
    "REMOVED",
    "RESULTS_FOLLOW_CALLS",
    "STARTS_ON_USER",
    "SYSTEM_IN_FRONT",
    "SharedPrefix",
    "Step",
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
    "repair",
    "rolling_summary",
    "shorten_tool_results",
    "trim",
]
