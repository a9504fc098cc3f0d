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

from conversation_state.trimming._flaws import Flaw
from conversation_state.trimming._steps import Step, fit, trim
from conversation_state.trimming._view import Dropped, Element, TrimContext

__all__ = [
    "Dropped",
    "Element",
    "Flaw",
    "Step",
    "TrimContext",
    "fit",
    "trim",
]
